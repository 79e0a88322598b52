//! Outages: for a while nothing passes, then packets pass again.
//!
//! A sender without answers repeats its first outstanding segment at doubling intervals (RFC 6298, section 5.5). Each
//! repeat that stays without an answer is a trial that found the path closed, apart from the others in time: under losses
//! that ignore one another, as frequent as those of the rest of the capture, so many failures in a row have a chance that can be
//! computed.
//!
//! Silent where so many could be chance, where the first outstanding segment is too large for the path, in captures at
//! the receiver, which show no repeats that were lost, and where nothing passes to the end (`no-answer`).

use whydrop_tcp::{Flow, Segment, Silence};
use whydrop_verdict::{Cause, Quantity, fact};

use super::{CHANCE_NATS, Condition, mtu, seconds};
use crate::group::Group;

/// A time for which the flows of a group were silent, one or several of them.
struct Outage<'a> {
    since_ns: i64,
    until_ns: i64,
    /// Trials that failed.
    trials: u32,
    silences: Vec<(&'a Flow, &'a Silence)>,
}

/// The outages of a group, as one; `too_large` is what its packets were too large for.
pub(super) fn find(group: &Group, too_large: Option<&Condition>) -> Option<Condition> {
    let flows = group.flows.iter().map(|flow| flow.flow);
    let can_pass = |flow: &&Flow| too_large.is_none() || !mtu::is_black_hole(flow);
    let mut silences: Vec<(&Flow, &Silence)> = flows
        .filter(can_pass)
        .flat_map(|flow| flow.silences.iter().map(move |silence| (flow, silence)))
        .collect();
    silences.sort_by_key(|(_, silence)| silence.since_ns);
    let mut outages = together(silences);
    let (sent, lost) = outside(group, &outages);
    // one more of each, by Laplace's rule: so much is always possible
    let chance_of_loss = (lost as f64 + 1.0) / (sent as f64 + 2.0);
    outages.retain(|outage| {
        let nats = (sent.max(1) as f64).ln() + f64::from(outage.trials) * chance_of_loss.ln();
        nats < CHANCE_NATS
    });
    let longest = outages.iter().max_by_key(|outage| outage.until_ns - outage.since_ns)?;
    let mut lost = 0;
    let mut names: Vec<String> = Vec::new();
    let mut limited_ns = 0;
    for (flow, silence) in outages.iter().flat_map(|outage| &outage.silences) {
        lost += lost_in(flow, silence).count() as u64;
        limited_ns += silence.until_ns - silence.since_ns;
        if !names.contains(&flow.name()) {
            names.push(flow.name());
        }
    }
    let total_ns: i64 = outages.iter().map(|outage| outage.until_ns - outage.since_ns).sum();
    let flows = names.len();
    let mut condition = Condition::new(Cause::Outage, names);
    condition.lost = lost;
    condition.limited_s = seconds(limited_ns);
    let (duration, silence) = duration(longest);
    condition.quantities.insert("outage_s".to_owned(), duration);
    condition.facts = vec![
        fact!(
            "nothing-passed",
            outages = outages.len(),
            flows = flows,
            longest_s = duration.value,
            total_s = seconds(total_ns),
            start_s = longest.since_ns as f64 * 1e-9
        ),
        whydrop_verdict::Fact {
            packets: silence.packets.clone(),
            ..fact!(
                "repeated-into-silence",
                repeats = silence.repeats,
                silence_s = seconds(silence.until_ns - silence.since_ns),
                loss_share = chance_of_loss
            )
        },
    ];
    Some(condition)
}

/// Silences that overlap are one outage's.
fn together<'a>(silences: Vec<(&'a Flow, &'a Silence)>) -> Vec<Outage<'a>> {
    let mut outages: Vec<Outage> = Vec::new();
    for (flow, silence) in silences {
        let trials = silence.repeats.saturating_add(1);
        match outages.last_mut().filter(|outage| silence.since_ns < outage.until_ns) {
            Some(outage) => {
                outage.until_ns = outage.until_ns.max(silence.until_ns);
                outage.trials += trials;
                outage.silences.push((flow, silence));
            }
            None => outages.push(Outage {
                since_ns: silence.since_ns,
                until_ns: silence.until_ns,
                trials,
                silences: vec![(flow, silence)],
            }),
        }
    }
    outages
}

/// Packets sent, and lost, at other times.
fn outside(group: &Group, outages: &[Outage]) -> (u64, u64) {
    let (mut sent, mut lost) = (0, 0);
    for segment in group.flows.iter().flat_map(|flow| &flow.flow.segments) {
        let within = |outage: &Outage| {
            (outage.since_ns..outage.until_ns).contains(&segment.time_ns)
        };
        let at = outages.partition_point(|outage| outage.until_ns <= segment.time_ns);
        if !outages.get(at).is_some_and(within) {
            sent += 1;
            lost += u64::from(segment.is_lost());
        }
    }
    (sent, lost)
}

fn lost_in<'a>(flow: &'a Flow, silence: &'a Silence) -> impl Iterator<Item = &'a Segment> {
    let within = |segment: &&Segment| (silence.since_ns..silence.until_ns).contains(&segment.time_ns);
    flow.segments.iter().filter(|segment| segment.is_lost()).filter(within)
}

/// How long an outage was: at least from the first to the last transmission that it swallowed, at most from the last before
/// it that arrived to the first after it.
fn duration<'a>(outage: &Outage<'a>) -> (Quantity, &'a Silence) {
    let length = |silence: &Silence| silence.sent_ns - silence.since_ns;
    let (flow, silence) = outage.silences[0];
    let (flow, silence) = outage.silences.iter().fold((flow, silence), |most, one| {
        if length(one.1) > length(most.1) { *one } else { most }
    });
    let last_lost_ns = lost_in(flow, silence).map(|segment| segment.time_ns).max();
    let before = flow.segments.iter().take_while(|segment| segment.time_ns < silence.since_ns);
    let last_passed_ns = before.filter(|segment| !segment.is_lost()).map(|s| s.time_ns).last();
    let quantity = Quantity {
        value: seconds(length(silence)),
        low: last_lost_ns.map(|at_ns| seconds(at_ns - silence.since_ns)),
        high: last_passed_ns.map(|at_ns| seconds(silence.sent_ns - at_ns)),
    };
    (quantity, silence)
}
