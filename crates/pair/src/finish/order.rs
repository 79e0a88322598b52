//! The order of packets: for the result, and at the two points.

use super::alignment::Aligned;
use crate::flow::PairFlow;
use crate::packet::{PacketFlags, PairPacket};

/// Sorts by capture 1's clock.
pub(super) fn sort(packets: &mut Vec<PairPacket>, aligned: &Aligned) {
    let mut order: Vec<(i64, u32)> = packets
        .iter()
        .enumerate()
        .map(|(at, packet)| {
            let side = packet.only_side();
            (
                aligned.first_clock_ns(side, packet.time_ns[side]),
                at as u32,
            )
        })
        .collect();
    if order.is_sorted() {
        return;
    }
    // ties stay in the order of reading, pieces of super-segments in theirs
    order.sort_unstable();
    *packets = order
        .into_iter()
        .map(|(_, at)| packets[at as usize])
        .collect();
}

/// Marks what was reordered between the points. Order at a point is the order of its capture.
pub(super) fn mark_overtaking(packets: &mut [PairPacket], flows: &[PairFlow]) {
    for upstream in 0..2 {
        let downstream = 1 - upstream;
        let mut arrivals: Vec<(u32, u32)> = packets
            .iter()
            .enumerate()
            .filter(|(_, packet)| {
                packet.is_matched()
                    && flows[packet.flow as usize].direction.upstream() == Some(upstream)
            })
            .map(|(at, packet)| (packet.index[downstream], at as u32))
            .collect();
        arrivals.sort_unstable();
        let mut highest = vec![0u32; flows.len()];
        for &(_, at) in &arrivals {
            let packet = &mut packets[at as usize];
            let sent = packet.index[upstream];
            let highest = &mut highest[packet.flow as usize];
            if sent < *highest {
                packet.flags.set(PacketFlags::OVERTAKEN);
            }
            *highest = sent.max(*highest);
        }
        let mut lowest = vec![u32::MAX; flows.len()];
        for &(_, at) in arrivals.iter().rev() {
            let packet = &mut packets[at as usize];
            let sent = packet.index[upstream];
            let lowest = &mut lowest[packet.flow as usize];
            if sent > *lowest {
                packet.flags.set(PacketFlags::OVERTOOK);
            }
            *lowest = sent.min(*lowest);
        }
    }
}
