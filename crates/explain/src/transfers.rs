//! The cause of each transfer: evidence from the whole group of flows applies to every part of it.

use whydrop_path::fit::{Seen, virtual_queue};
use whydrop_tcp::{Flow, Transfer};

use crate::cause::Outcome;
use crate::limited::Bottleneck;
use crate::limits;
use crate::observe::Observation;
use crate::observe::group::{FlowRef, Group};
use crate::observe::totals::minor;
use whydrop_verdict::Cause;

/// Losses that the fitted bucket predicts, by flow of the group and segment.
pub struct ExpectedLosses {
    by_member: Vec<Vec<u32>>,
}

impl ExpectedLosses {
    /// No prediction.
    pub fn none(group: &Group) -> Self {
        Self {
            by_member: vec![Vec::new(); group.flows.len()],
        }
    }

    /// Predict the losses that find the bucket within a packet of its limit.
    pub fn of(group: &Group, seen: &Observation) -> Self {
        let mut by_member = vec![Vec::new(); group.flows.len()];
        if let Some(fit) = &seen.bucket {
            let trace = &seen.group_trace.trace;
            let limit = fit.limit_bytes.value;
            let queue = virtual_queue::corrected(trace, fit.rate_bps.value / 8.0, limit);
            for (index, origin) in seen.group_trace.origins.iter().enumerate() {
                let with_packet = f64::from(queue[index] + trace.bytes[index]);
                if trace.outcome[index] == Seen::Lost && with_packet > limit - fit.packet_bytes {
                    by_member[origin.member as usize].push(origin.segment);
                }
            }
        }
        for segments in &mut by_member {
            segments.sort_unstable();
        }
        Self { by_member }
    }

    fn within(&self, member: usize, transfer: &Transfer) -> usize {
        let segments = &self.by_member[member];
        let before = |bound: usize| segments.partition_point(|segment| (*segment as usize) < bound);
        before(transfer.end) - before(transfer.first)
    }
}

/// Packets of a transfer that were lost.
pub fn lost(flow: &Flow, transfer: &Transfer) -> usize {
    flow.lost_in(transfer) as usize
}

/// Flows of a group without losses, and their limit.
pub struct LimitedFlows<'a, P> {
    pub outcome: Outcome,
    /// Where the limit shows.
    pub place: P,
    pub flows: Group<'a>,
}

/// The flows of a group without losses by limit, those with the most payload first. Small flows with another
/// limit deserve no verdict.
pub fn by_limit<'a, P: PartialEq>(
    group: &Group<'a>,
    judge: impl Fn(&Flow) -> (Outcome, P),
) -> Vec<LimitedFlows<'a, P>> {
    let payload = |flow: &FlowRef| flow.flow.counters.payload_bytes;
    let is_minor = minor(group);
    let mut flows = group.flows.clone();
    flows.sort_by_key(|flow| std::cmp::Reverse(payload(flow)));
    let mut limited: Vec<LimitedFlows<P>> = Vec::new();
    for flow in flows {
        let (outcome, place) = judge(flow.flow);
        let alike =
            |one: &LimitedFlows<P>| (one.outcome.cause, &one.place) == (outcome.cause, &place);
        match limited.iter().position(alike) {
            Some(known) => limited[known].flows.flows.push(flow),
            None if is_minor(flow.flow) => {}
            None => limited.push(LimitedFlows {
                outcome,
                place,
                flows: Group { flows: vec![flow] },
            }),
        }
    }
    limited.sort_by_key(|one| std::cmp::Reverse(one.flows.flows.iter().map(payload).sum::<u64>()));
    limited
        .iter_mut()
        .for_each(|one| one.flows.flows.sort_by_key(|flow| flow.index));
    limited
}

/// The cause of one transfer of a member, and its confidence: the element that dropped its packets, otherwise
/// its limit.
pub fn judge_transfer(
    outcome: &Outcome,
    bottleneck: &Bottleneck,
    expected: &ExpectedLosses,
    (member, flow): (usize, &Flow),
    transfer: &Transfer,
) -> (Cause, f64) {
    let lost = lost(flow, transfer);
    if lost == 0 {
        let number = flow
            .transfers
            .partition_point(|other| other.first < transfer.first);
        let times_s = limits::times_s(flow, number);
        let judged = bottleneck.of_flow(flow).judge(&times_s);
        return (judged.cause, judged.confidence);
    }
    // a policer proved by the connection does not excuse losses that find its bucket full
    let other_cause =
        outcome.cause == Cause::Policer && expected.within(member, transfer) * 2 < lost;
    if other_cause {
        (Cause::Unknown, 0.5)
    } else {
        (outcome.cause, outcome.confidence)
    }
}
