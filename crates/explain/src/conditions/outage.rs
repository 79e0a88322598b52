//! Outages: for a while nothing passes, then packets pass again.
//!
//! A sender without answers repeats its first outstanding segment at doubling intervals (RFC 6298, section 5.5). Each
//! transmission whose answer was due and did not come is a trial that found the path closed, where it is a round trip
//! from the one before: under losses that ignore one another, as frequent as those of the rest of the capture, so many
//! failures in a row have a chance that can be computed.
//!
//! Silent where so many could be chance, where data of any flow to that host arrived meanwhile (answers were lost or late; a policer starves one of several flows), where the first outstanding segment is too large for the path, in captures at
//! the receiver, which show no repeats that were lost, and where nothing passes to the end (`no-answer`).

use whydrop_tcp::{Fate, Flow, Kind, Segment, SegmentFlags, Silence};
use whydrop_verdict::{Cause, Fact, Quantity, fact};

use super::mtu::TooLarge;
use super::{CHANCE_NATS, Condition, seconds};
use crate::group::Group;

/// Two transmissions without an answer may be one long delay.
const FEWEST_TRIALS: usize = 3;

/// A time for which a group of flows had no answer.
struct Outage<'a> {
    since_ns: i64,
    until_ns: i64,
    trials: usize,
    silent: Vec<Silent<'a>>,
}

/// One flow of them.
struct Silent<'a> {
    flow: &'a Flow,
    silence: &'a Silence,
    /// Its transmissions whose answers did not come in time, those right before the silence among them: none arrived.
    missing: &'a [Segment],
    /// When it sent what arrived right before those.
    passed_ns: Option<i64>,
    rtt_ns: i64,
}

/// Which of several copies arrived is not always known.
fn passed(segment: &Segment) -> bool {
    segment.fate == Fate::Delivered && segment.kind == Kind::New
}

impl<'a> Silent<'a> {
    fn new(flow: &'a Flow, silence: &'a Silence) -> Option<Self> {
        let exact = flow
            .segments
            .iter()
            .filter(|segment| segment.flags.has(SegmentFlags::RTT_EXACT));
        let rtt_ns = exact.map(|segment| segment.rtt_ns).min();
        let rtt_ns = rtt_ns.unwrap_or(silence.until_ns - silence.sent_ns).max(1);
        let due_ns = silence.until_ns - rtt_ns - rtt_ns / 2;
        let segments = &flow.segments;
        let end = segments.partition_point(|segment| segment.time_ns < due_ns);
        let begin = segments.partition_point(|segment| segment.time_ns < silence.since_ns);
        let before = &segments[..begin.min(end)];
        let lost_before = before
            .iter()
            .rev()
            .take_while(|segment| segment.fate != Fate::Delivered)
            .count();
        // what arrived in its time may have lost its answer alone
        let arrived = segments[before.len() - lost_before..end]
            .iter()
            .take_while(|segment| segment.fate == Fate::Delivered);
        let first = before.len() - lost_before + arrived.count();
        let missing = &segments[first..end];
        let nothing_passed = !missing.iter().any(passed);
        (nothing_passed && !missing.is_empty()).then(|| Self {
            flow,
            silence,
            missing,
            passed_ns: first.checked_sub(1).map(|last| segments[last].time_ns),
            rtt_ns,
        })
    }

    /// True if data of a flow was sent meanwhile, and arrived.
    fn is_passed_by(&self, other: &Flow) -> bool {
        let (since_ns, segments) = (self.since_ns(), &other.segments);
        let last_ns = self.missing[self.missing.len() - 1].time_ns;
        let first = segments.partition_point(|segment| segment.time_ns < since_ns);
        let meanwhile = segments[first..].iter();
        meanwhile
            .take_while(|segment| segment.time_ns <= last_ns)
            .any(passed)
    }

    /// Those of them that are at least a round trip apart: what one overflow takes is no more than one trial.
    fn trials(&self) -> usize {
        let mut last_ns = i64::MIN;
        let is_apart = |segment: &&Segment| {
            let apart = segment.time_ns.saturating_sub(last_ns) >= self.rtt_ns;
            last_ns = if apart { segment.time_ns } else { last_ns };
            apart
        };
        let lost = self.missing.iter().filter(|segment| segment.is_lost());
        lost.filter(is_apart).count()
    }

    fn since_ns(&self) -> i64 {
        self.missing[0].time_ns
    }

    fn lost(&self) -> u64 {
        self.missing
            .iter()
            .filter(|segment| segment.is_lost())
            .count() as u64
    }

    /// At least from the first to the last transmission that was swallowed, at most from the last before them that arrived
    /// to the first after them.
    fn duration(&self) -> Quantity {
        let last_ns = self.missing[self.missing.len() - 1].time_ns;
        Quantity {
            value: seconds(self.silence.sent_ns - self.since_ns()),
            low: Some(seconds(last_ns - self.since_ns())),
            high: self
                .passed_ns
                .map(|at_ns| seconds(self.silence.sent_ns - at_ns)),
        }
    }
}

/// The outages of a group, as one; but of flows whose packets were too large.
pub(super) fn find(group: &Group, too_large: &TooLarge) -> Option<Condition> {
    let flows = || group.flows.iter().map(|flow| flow.flow);
    let can_pass = group.flows.iter().filter(|flow| !too_large.has(flow));
    let silences = can_pass
        .map(|flow| flow.flow)
        .flat_map(|flow| flow.silences().iter().map(move |silence| (flow, silence)));
    let silent = silences.filter_map(|(flow, silence)| Silent::new(flow, silence));
    let nothing_passed = |silent: &Silent| !flows().any(|flow| silent.is_passed_by(flow));
    let mut outages = together(silent.filter(nothing_passed).collect());
    let (sent, lost) = outside(group, &outages);
    // one more of each, by Laplace's rule: so much is always possible
    let chance_of_loss = (lost as f64 + 1.0) / (sent as f64 + 2.0);
    outages.retain(|outage| {
        let nats = (sent.max(1) as f64).ln() + outage.trials as f64 * chance_of_loss.ln();
        nats < CHANCE_NATS && outage.trials >= FEWEST_TRIALS
    });
    let all = || outages.iter().flat_map(|outage| &outage.silent);
    let longest = all().max_by_key(|silent| silent.silence.sent_ns - silent.since_ns())?;
    let mut names: Vec<String> = Vec::new();
    for name in all().map(|silent| silent.flow.name()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let flows = names.len();
    let mut condition = Condition::new(Cause::Outage, names);
    condition.lost = all().map(Silent::lost).sum();
    let waited = all().map(|silent| silent.silence.until_ns - silent.since_ns());
    condition.limited_s = waited.map(seconds).sum();
    let (duration, silence) = (longest.duration(), longest.silence);
    condition.quantities.insert("outage_s".to_owned(), duration);
    let lengths = outages
        .iter()
        .map(|outage| outage.until_ns - outage.since_ns);
    condition.facts = vec![
        fact!(
            "nothing-passed",
            outages = outages.len(),
            flows = flows,
            longest_s = duration.value,
            total_s = lengths.map(seconds).sum::<f64>(),
            start_s = longest.since_ns() as f64 * 1e-9
        ),
        Fact {
            packets: silence.packets.clone(),
            ..fact!(
                "repeated-into-silence",
                repeats = u64::from(silence.repeats),
                silence_s = seconds(silence.until_ns - longest.since_ns()),
                trials = longest.trials(),
                loss_share = chance_of_loss
            )
        },
    ];
    Some(condition)
}

/// Silences that overlap are one outage's.
fn together(mut silent: Vec<Silent>) -> Vec<Outage> {
    silent.sort_by_key(Silent::since_ns);
    let mut outages: Vec<Outage> = Vec::new();
    for one in silent {
        let (since_ns, until_ns, trials) = (one.since_ns(), one.silence.until_ns, one.trials());
        match outages
            .last_mut()
            .filter(|outage| since_ns < outage.until_ns)
        {
            Some(outage) => {
                outage.until_ns = outage.until_ns.max(until_ns);
                outage.trials += trials;
                outage.silent.push(one);
            }
            None => outages.push(Outage {
                since_ns,
                until_ns,
                trials,
                silent: vec![one],
            }),
        }
    }
    outages
}

/// Packets sent, and lost, at other times.
fn outside(group: &Group, outages: &[Outage]) -> (u64, u64) {
    let (mut sent, mut lost) = (0, 0);
    for segment in group.flows.iter().flat_map(|flow| &flow.flow.segments) {
        let at = outages.partition_point(|outage| outage.until_ns <= segment.time_ns);
        if outages
            .get(at)
            .is_none_or(|outage| segment.time_ns < outage.since_ns)
        {
            sent += 1;
            lost += u64::from(segment.is_lost());
        }
    }
    (sent, lost)
}
