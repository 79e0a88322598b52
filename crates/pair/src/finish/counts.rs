//! Counts of the result.

use crate::flow::{Direction, PairCounts, PairFlow};
use crate::packet::{Crossing, PacketFlags, PairPacket};

/// Counts the rows, in total and for each flow.
pub(super) fn count(flows: &mut [PairFlow], packets: &[PairPacket]) -> PairCounts {
    let mut counts = PairCounts::default();
    let mut votes = vec![HopVote::default(); flows.len()];
    for packet in packets {
        let flow = &mut flows[packet.flow as usize];
        count_in_flow(flow, packet);
        count_in_all(&mut counts, flow, packet);
        if packet.is_matched() {
            votes[packet.flow as usize].take(decrease(packet));
        }
    }
    for (flow, vote) in flows.iter_mut().zip(&votes) {
        flow.hops = (flow.matched() > 0).then(|| match flow.direction {
            Direction::SecondToFirst => -vote.candidate,
            _ => vote.candidate,
        });
    }
    for packet in packets.iter().filter(|packet| packet.is_matched()) {
        let other = decrease(packet) != votes[packet.flow as usize].candidate;
        flows[packet.flow as usize].hops_differ += u64::from(other);
    }
    counts
}

/// TTL at point 1 less TTL at point 2.
fn decrease(packet: &PairPacket) -> i16 {
    i16::from(packet.ttl[0]) - i16::from(packet.ttl[1])
}

/// The most common number, if it has a majority (R. S. Boyer, J S. Moore, "MJRTY", 1981).
#[derive(Debug, Clone, Copy, Default)]
struct HopVote {
    candidate: i16,
    lead: u32,
}

impl HopVote {
    fn take(&mut self, hops: i16) {
        if self.lead == 0 {
            self.candidate = hops;
        }
        if self.candidate == hops {
            self.lead = self.lead.saturating_add(1);
        } else {
            self.lead -= 1;
        }
    }
}

fn count_in_flow(flow: &mut PairFlow, packet: &PairPacket) {
    flow.crossings[packet.crossing as usize] += 1;
    for side in 0..2 {
        flow.packets[side] += u64::from(packet.is_at(side));
        flow.offloaded[side] += u64::from(packet.flags.has(PacketFlags::offloaded(side)));
    }
    flow.retransmissions += u64::from(packet.flags.has(PacketFlags::RETRANSMISSION));
    flow.overtaken += u64::from(packet.flags.has(PacketFlags::OVERTAKEN));
    flow.overtook += u64::from(packet.flags.has(PacketFlags::OVERTOOK));
    flow.mss_changed += u64::from(packet.flags.has(PacketFlags::MSS_CHANGED));
    if let Some(side) = missed_by(flow.direction, packet.crossing) {
        flow.missed[side] += 1;
    }
    if packet.is_matched() {
        let upstream = flow.direction.upstream().unwrap_or(0);
        let (before, after) = (packet.tos[upstream], packet.tos[1 - upstream]);
        flow.dscp_changed += u64::from(before >> 2 != after >> 2);
        let marked = after & 3 == 3 && before & 3 != 3;
        flow.ce_marked += u64::from(marked);
        flow.ecn_changed += u64::from(!marked && before & 3 != after & 3);
    }
}

/// The capture that lacks such a packet.
pub(super) fn missed_by(direction: Direction, crossing: Crossing) -> Option<usize> {
    let upstream = direction.upstream()?;
    match crossing {
        Crossing::MissedUpstream => Some(upstream),
        Crossing::MissedDownstream => Some(1 - upstream),
        _ => None,
    }
}

fn count_in_all(counts: &mut PairCounts, flow: &PairFlow, packet: &PairPacket) {
    for side in 0..2 {
        counts.packets[side] += u64::from(packet.is_at(side));
    }
    let side = packet.only_side();
    if let Some(direction) = flow.direction.upstream() {
        counts.overtaken[direction] += u64::from(packet.flags.has(PacketFlags::OVERTAKEN));
        counts.overtook[direction] += u64::from(packet.flags.has(PacketFlags::OVERTOOK));
    }
    match packet.crossing {
        Crossing::Matched => {
            counts.matched += 1;
            if let Some(direction) = flow.direction.upstream() {
                counts.matched_by_direction[direction] += 1;
            }
        }
        Crossing::Lost => counts.lost[side] += 1,
        Crossing::MissedDownstream | Crossing::MissedUpstream => counts.missed[1 - side] += 1,
        Crossing::Duplicated => counts.duplicated[1 - side] += 1,
        Crossing::OutsideOverlap => counts.outside_overlap[side] += 1,
        Crossing::OtherPath => counts.other_path[side] += 1,
        Crossing::Undecided => counts.undecided[side] += 1,
        Crossing::Forgotten => counts.forgotten[side] += 1,
    }
}
