//! The cause of each transfer: what a group of flows shows as a whole informs every part of it.

use whydrop_path::fit::{Seen, virtual_queue};
use whydrop_tcp::{Flow, SegmentFlags, Transfer};

use crate::evidence::Evidence;
use crate::group::Group;
use crate::judge::Judgement;
use crate::limits;
use whydrop_verdict::Cause;

/// Losses that the fitted bucket expects, by flow of the group and segment.
pub struct ExpectedLosses {
    by_member: Vec<Vec<u32>>,
}

impl ExpectedLosses {
    /// Nothing is expected of a bucket.
    pub fn none(group: &Group) -> Self {
        Self {
            by_member: vec![Vec::new(); group.flows.len()],
        }
    }

    /// Which losses find the bucket within a packet of its limit.
    pub fn of(group: &Group, evidence: &Evidence) -> Self {
        let mut by_member = vec![Vec::new(); group.flows.len()];
        if let Some(fit) = &evidence.bucket {
            let trace = &evidence.group_trace.trace;
            let limit = fit.limit_bytes.value;
            let queue = virtual_queue::corrected(trace, fit.rate_bps.value / 8.0, limit);
            for (index, origin) in evidence.group_trace.origins.iter().enumerate() {
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
    flow.segments[transfer.first..transfer.end]
        .iter()
        .filter(|segment| segment.is_lost())
        .count()
}

/// The cause of one transfer, and how sure.
pub fn judge_transfer(
    judgement: &Judgement,
    expected: &ExpectedLosses,
    (member, flow): (usize, &Flow),
    transfer: &Transfer,
) -> (Cause, f64) {
    let segments = &flow.segments[transfer.first..transfer.end];
    let lost = lost(flow, transfer);
    if lost > 0 {
        // a policer proven by the connection is no excuse for losses that find its bucket full
        let other_cause =
            judgement.cause == Cause::Policer && expected.within(member, transfer) * 2 < lost;
        return if other_cause {
            (Cause::Unknown, 0.5)
        } else {
            (judgement.cause, judgement.confidence)
        };
    }
    let limited = segments
        .iter()
        .filter(|segment| segment.flags.has(SegmentFlags::WINDOW_LIMITED))
        .count();
    // over a queue that stands a full window caps the queue
    if limited * 2 > segments.len() && judgement.cause != Cause::Shaper {
        return (
            Cause::ReceiverWindow,
            limited as f64 / segments.len() as f64,
        );
    }
    let number = flow
        .transfers
        .partition_point(|other| other.first < transfer.first);
    let own = limits::noticed(flow.account(), number);
    let at_the_ends = own.and_then(|(limiter, share)| {
        Some((limits::cause_at_the_ends(limiter)?, 0.5 + share / 2.0))
    });
    match judgement.cause {
        // a queue that stands holds what the ends would, too
        Cause::Shaper | Cause::Aqm => (judgement.cause, judgement.confidence),
        _ if at_the_ends.is_some_and(|(cause, _)| cause != Cause::ReceiverWindow) => {
            at_the_ends.unwrap_or((Cause::None, 0.8))
        }
        Cause::Policer
        | Cause::ShallowQueue
        | Cause::DeepQueue
        | Cause::RandomLoss
        | Cause::Unknown => (Cause::None, 0.8),
        // marks instead of losses, shaping, reordering and limits of the ends need no loss to show
        cause => (cause, judgement.confidence),
    }
}
