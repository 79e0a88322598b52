//! Causes that a rule of a standard or of physics proves by itself, whatever the load was: an outage, a
//! packet too large for the path, TCP options lost or rewritten.
//!
//! Each module states when it gives no verdict. The judges of load no longer explain what a condition
//! accounts for.

pub(crate) mod checksum;
mod duplicate;
pub(crate) mod ecn;
mod mtu;
mod options;
mod outage;
mod unseen;

use std::collections::BTreeMap;

use whydrop_capture::Summary;
use whydrop_tcp::{Flow, Segment, Tracked};
use whydrop_verdict::{Cause, Fact, Quantity, fact};

use crate::document::Verdict;
use crate::observe::Observation;
use crate::observe::group::Group;
use crate::observe::totals::Totals;
use crate::ranked::{Basis, Ranked};

/// Confidence in a fact that the capture holds.
const SURE: f64 = 0.95;
/// Log-probability below which an event is not chance; e^-7 is one in a thousand.
const CHANCE_NATS: f64 = -7.0;

/// A cause proved by itself.
#[derive(Debug, Default)]
pub(crate) struct Condition {
    pub cause: Option<Cause>,
    pub detail: Option<&'static str>,
    pub confidence: f64,
    pub flows: Vec<String>,
    /// Losses that it explains.
    pub lost: u64,
    /// Time that it cost the flows, summed over them.
    pub limited_s: f64,
    pub quantities: BTreeMap<String, Quantity>,
    /// The headline comes first.
    pub facts: Vec<Fact>,
}

impl Condition {
    pub(crate) fn new(cause: Cause, flows: Vec<String>) -> Self {
        Self {
            cause: Some(cause),
            confidence: SURE,
            flows,
            ..Self::default()
        }
    }

    fn cause(&self) -> Cause {
        self.cause.unwrap_or(Cause::Unknown)
    }

    /// The condition as a verdict on flows that were active for `active_s` and carried `payload_bytes`.
    pub(crate) fn ranked(self, active_s: f64, payload_bytes: u64) -> Ranked {
        let cause = self.cause();
        let limited_share = (self.limited_s / active_s.max(1e-9)).clamp(0.0, 1.0);
        let verdict = Verdict {
            flows: self.flows,
            lost: self.lost,
            explained: f64::from(u8::from(cause != Cause::Unknown)),
            limited_share,
            parameters: self.quantities,
            detail: self.detail.map(str::to_owned),
            facts: self.facts,
            ..Verdict::new(cause, self.confidence)
        };
        Ranked::shown(verdict, payload_bytes, self.limited_s)
    }
}

/// The conditions of a group, and their effect on the verdict about its load.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    found: Vec<Condition>,
    /// Causes that one of the conditions replaces, and its confidence.
    stands_in: Option<(&'static [Cause], Cause, f64)>,
    /// Flows of packets that were too large, by number: size, not silence, explains the unacknowledged data.
    pub too_large: Vec<usize>,
    /// Flows with data missing at the end, by number, with the cause and its confidence.
    missing: Vec<(usize, Cause, f64)>,
}

/// Causes of losses that only chance explains, or the flows' own silence.
const WITHOUT_A_CAUSE: &[Cause] = &[Cause::Unknown, Cause::RandomLoss, Cause::Outage];

/// The conditions of a group of flows, the load of which was judged `judged`.
pub(crate) fn of_group(group: &Group, seen: &Observation, judged: Cause) -> Conditions {
    let totals = &seen.totals;
    let too_large = mtu::find(group);
    let outages = outage::find(group, &too_large);
    let damaged = checksum::find(group);
    let of_size = too_large.conditions.into_iter();
    let mut found: Vec<Condition> = of_size.chain(outages).chain(damaged).collect();
    found.sort_by_key(|condition| std::cmp::Reverse(condition.lost));
    let unanswered: u64 = (group.flows.iter())
        .filter(|flow| !too_large.flows.contains(&flow.index))
        .map(|flow| lost_unanswered(flow.flow))
        .sum();
    let accounted = unanswered + found.iter().map(|condition| condition.lost).sum::<u64>();
    let mut stands_in = None;
    if accounted > 0 && WITHOUT_A_CAUSE.contains(&judged) && 2 * accounted >= totals.lost {
        let most = found.first().filter(|most| most.lost >= unanswered);
        let (cause, sure) = most.map_or((Cause::NoAnswer, SURE), |m| (m.cause(), m.confidence));
        stands_in = Some((WITHOUT_A_CAUSE, cause, sure));
    }
    let outage = found.iter().find(|one| one.cause() == Cause::Outage);
    if let Some(outage) = outage.filter(|_| judged == Cause::Outage) {
        // one outage is one verdict: the one with its packets
        stands_in = Some((WITHOUT_A_CAUSE, Cause::Outage, outage.confidence));
    }
    if let Some(scaling) = options::window_scaling(group, seen, judged) {
        if totals.lost == 0 {
            let causes: &[Cause] = &[Cause::ReceiverWindow];
            stands_in = Some((causes, scaling.cause(), scaling.confidence));
        }
        found.push(scaling);
    }
    found.extend(options::sack(group));
    found.extend(ecn::of_group(group));
    found.extend(duplicate::on_path(group));
    for condition in &mut found {
        condition.facts.push(fact!(
            "path",
            base_rtt_s = totals.whole_rtt_s,
            ecn_in_use = totals.ecn_in_use
        ));
    }
    Conditions {
        found,
        stands_in,
        too_large: too_large.flows,
        missing: too_large.missing,
    }
}

impl Conditions {
    /// The cause that replaces that of a transfer.
    pub fn instead_of(&self, cause: Cause) -> Option<(Cause, f64)> {
        let (causes, by, confidence) = self.stands_in?;
        causes.contains(&cause).then_some((by, confidence))
    }

    pub fn missing_flows(&self) -> Vec<usize> {
        self.missing.iter().map(|(flow, ..)| *flow).collect()
    }

    /// The same for a transfer of this flow.
    pub fn instead_of_flow(&self, flow: usize, cause: Cause) -> Option<(Cause, f64)> {
        let is_this = |(index, ..): &&(usize, Cause, f64)| *index == flow && cause == Cause::None;
        let missing = self.missing.iter().find(is_this);
        let missing = missing.map(|(_, by, confidence)| (*by, *confidence));
        missing.or_else(|| self.instead_of(cause))
    }

    /// The verdicts on the load, each with its cause, except those that a condition replaces, and the
    /// verdicts on the conditions.
    pub fn join(self, of_load: Vec<(Cause, Ranked)>, totals: &Totals) -> Vec<Ranked> {
        let active_s = totals.busy_s + totals.idle_s;
        let staying = of_load.into_iter();
        // "nothing was lost" is untrue if data is missing to the end
        let is_silent = |cause: Cause| cause == Cause::None && !self.missing.is_empty();
        let staying =
            staying.filter(|(cause, _)| self.instead_of(*cause).is_none() && !is_silent(*cause));
        let accounted = self.found.iter().filter(|condition| condition.lost > 0);
        let accounted_s: f64 = accounted.map(|condition| condition.limited_s).sum();
        let mut verdicts: Vec<Ranked> = staying
            .map(|(cause, verdict)| match WITHOUT_A_CAUSE.contains(&cause) {
                // time lost to conditions is no harm of losses without an explanation
                true if verdict.verdict.lost > 0 => Ranked {
                    harm_s: (verdict.harm_s - accounted_s).max(0.0),
                    ..verdict
                },
                _ => verdict,
            })
            .collect();
        let all = self.found.into_iter();
        verdicts.extend(all.map(|condition| condition.ranked(active_s, totals.payload_bytes)));
        verdicts
    }
}

/// The conditions of the capture as a whole: how connections were set up, and duplicates in the record.
pub(crate) fn of_capture(summary: &Summary, tracked: &Tracked) -> Vec<Ranked> {
    let setups = ecn::of_setups(tracked);
    let of_record = duplicate::in_capture(summary, tracked).into_iter();
    let found = setups.into_iter().chain(of_record).map(of_time);
    let basis = match tracked.unseen.bytes > captured_bytes(tracked) {
        true => Basis::MostMissing,
        false => Basis::Usual,
    };
    let unseen = unseen::find(&tracked.unseen).map(|condition| Ranked {
        basis,
        ..of_time(condition)
    });
    found.chain(unseen).collect()
}

/// The verdict on a condition of a time rather than of a group of flows.
fn of_time(condition: Condition) -> Ranked {
    let active_s = condition.limited_s;
    condition.ranked(active_s, 0)
}

/// Payload of all captured data.
fn captured_bytes(tracked: &Tracked) -> u64 {
    let flows = tracked.connections.iter().flat_map(|one| &one.flows);
    flows.map(|flow| flow.counters.payload_bytes).sum()
}

/// Losses of a flow after its connection fell silent, on which there is a verdict of its own.
pub(crate) fn lost_unanswered(flow: &Flow) -> u64 {
    let since_ns = flow.unanswered_since_ns();
    let lost = |since_ns: i64| {
        let since = |segment: &&Segment| segment.is_lost() && segment.time_ns >= since_ns;
        flow.segments.iter().filter(since).count() as u64
    };
    since_ns.map_or(0, lost)
}

fn seconds(nanoseconds: i64) -> f64 {
    nanoseconds.max(0) as f64 * 1e-9
}

#[cfg(test)]
mod tests;
