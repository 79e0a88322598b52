//! Outages: nothing passes for a while, then packets pass again.
//!
//! A sender without answers retransmits its first outstanding segment at doubling intervals (RFC 6298,
//! section 5.5). Each transmission without its due answer is a trial that found the path closed, if it comes
//! at least a round trip after the one before. Given independent losses as frequent as in the rest of the
//! capture, the probability of so many failures in a row can be computed.
//!
//! No verdict if the failures could be chance; if data of any flow to that host arrived meanwhile (answers
//! were lost or late; a policer starves one of several flows); if the first outstanding segment is too large
//! for the path; in captures at the receiver, which do not show retransmissions that were lost; and if
//! nothing passes to the end (`no-answer`).

use whydrop_tcp::{Fate, Flow, Kind, Segment, SegmentFlags, Silence};
use whydrop_verdict::{Cause, Fact, Quantity, fact};

use super::mtu::TooLarge;
use super::{CHANCE_NATS, Condition, seconds};
use crate::observe::group::Group;

/// Two transmissions without an answer may be one long delay.
const FEWEST_TRIALS: usize = 3;

/// A time in which a group of flows got no answer.
struct Outage<'a> {
    since_ns: i64,
    until_ns: i64,
    trials: usize,
    silent: Vec<Silent<'a>>,
}

/// One of its flows.
struct Silent<'a> {
    flow: &'a Flow,
    silence: &'a Silence,
    /// Its transmissions without a timely answer, including those right before the silence: none arrived.
    missing: &'a [Segment],
    /// Time at which it sent the last packet that arrived before those.
    passed_ns: Option<i64>,
    rtt_ns: i64,
}

/// True if the segment certainly arrived: of several copies it is not always known which one did.
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
        // for data that arrived in this time, only the answer may have been lost
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

    /// True if data of a flow was sent meanwhile and arrived.
    fn is_passed_by(&self, other: &Flow) -> bool {
        let (since_ns, segments) = (self.since_ns(), &other.segments);
        let last_ns = self.missing[self.missing.len() - 1].time_ns;
        let first = segments.partition_point(|segment| segment.time_ns < since_ns);
        let meanwhile = segments[first..].iter();
        meanwhile
            .take_while(|segment| segment.time_ns <= last_ns)
            .any(passed)
    }

    /// Transmissions among them that are at least a round trip apart: one overflow accounts for no more than
    /// one trial.
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

    /// At least from the first to the last lost transmission, at most from the last delivered one before them
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

/// The outages of a group, merged, except for flows of packets that were too large.
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
    // one more of each, by Laplace's rule of succession
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
                "retransmitted-into-silence",
                repeats = u64::from(silence.repeats),
                silence_s = seconds(silence.until_ns - longest.since_ns()),
                trials = longest.trials(),
                loss_share = chance_of_loss
            )
        },
    ];
    Some(condition)
}

/// Silences that overlap belong to one outage.
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
