//! The order of packets: in the result, and at the two points.

use super::alignment::Aligned;
use crate::flow::PairFlow;
use crate::packet::{PacketFlags, PairPacket};

/// Sorts by capture 1's clock.
pub(super) fn sort(packets: &mut [PairPacket], aligned: &Aligned) {
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
    // ties keep the order of reading, pieces of super-segments theirs
    sort_mixed(&mut order, MOST_MIXED);
    let mut sources: Vec<u32> = order.into_iter().map(|(_, at)| at).collect();
    permute(packets, &mut sources);
}

/// Gives packets of sorted captures their positions in the file.
pub(super) fn restore_positions(packets: &mut [PairPacket], positions: &[Vec<u32>; 2]) {
    for (side, positions) in positions.iter().enumerate() {
        if positions.is_empty() {
            continue;
        }
        for index in packets.iter_mut().map(|packet| &mut packet.index[side]) {
            // a packet that is not in the capture has none
            *index = positions.get(*index as usize).copied().unwrap_or(*index);
        }
    }
}

/// Most increasing sequences that are searched for.
pub(super) const MOST_MIXED: usize = 4;

/// Sorts a mixture of a few increasing sequences, such as the packets of both directions: items outside of
/// them are set aside, sorted and merged.
pub(super) fn sort_mixed(keys: &mut [(i64, u32)], most: usize) {
    let all = keys.len();
    let mut aside = Vec::new();
    let mut kept = 0;
    for at in 0..all {
        let key = keys[at];
        if kept == 0 || keys[kept - 1] <= key {
            keys[kept] = key;
            kept += 1;
        } else {
            aside.push(key);
        }
    }
    match most {
        0 => aside.sort_unstable(),
        _ if aside.is_empty() => return,
        _ => sort_mixed(&mut aside, most - 1),
    }
    // from the end, where there is room
    for to in (0..all).rev() {
        let Some(last) = aside.last() else { return };
        if kept > 0 && keys[kept - 1] > *last {
            kept -= 1;
            keys[to] = keys[kept];
        } else {
            keys[to] = *last;
            aside.pop();
        }
    }
}

/// Moves the item at `sources[to]` to `to`, in place: the rows use most of the memory, and a copy would
/// double it.
fn permute<T: Copy>(items: &mut [T], sources: &mut [u32]) {
    for start in 0..items.len() {
        let first = items[start];
        let mut to = start;
        // around the cycle; finished positions point to themselves
        loop {
            let from = std::mem::replace(&mut sources[to], to as u32) as usize;
            if from == start {
                break;
            }
            items[to] = items[from];
            to = from;
        }
        items[to] = first;
    }
}

/// Positions of the chosen packets in the order of a capture that holds them; pieces of a super-segment in
/// their own order.
pub(super) fn by_index(
    packets: &[PairPacket],
    side: usize,
    is_chosen: impl Fn(&PairPacket) -> bool,
) -> Vec<u32> {
    let all = packets.iter().enumerate();
    let chosen = all.filter(|(_, packet)| packet.is_at(side) && is_chosen(packet));
    let mut chosen: Vec<(u32, u32)> = chosen
        .map(|(at, packet)| (packet.index[side], at as u32))
        .collect();
    if chosen.is_sorted() {
        return chosen.into_iter().map(|(_, at)| at).collect();
    }
    let last = chosen.iter().map(|(index, _)| *index as usize).max();
    let last = last.unwrap_or(0);
    // for few packets of a large capture an array of its length is not worthwhile
    if last / 8 > chosen.len() {
        chosen.sort_unstable();
        return chosen.into_iter().map(|(_, at)| at).collect();
    }
    // counting sort: indices are dense
    let mut next = vec![0u32; last + 2];
    for &(index, _) in &chosen {
        next[index as usize + 1] += 1;
    }
    for index in 1..next.len() {
        next[index] += next[index - 1];
    }
    let mut order = vec![0; chosen.len()];
    for &(index, at) in &chosen {
        let place = &mut next[index as usize];
        order[*place as usize] = at;
        *place += 1;
    }
    order
}

/// Marks packets that were reordered between the points. The order at a point is that of its capture.
pub(super) fn mark_overtaking(packets: &mut [PairPacket], flows: &[PairFlow]) {
    for upstream in 0..2 {
        let downstream = 1 - upstream;
        let arrivals = by_index(packets, downstream, |packet| {
            packet.is_matched()
                && flows[packet.flow as usize].direction.upstream() == Some(upstream)
        });
        let mut highest = vec![0u32; flows.len()];
        for &at in &arrivals {
            let packet = &mut packets[at as usize];
            let sent = packet.index[upstream];
            let highest = &mut highest[packet.flow as usize];
            if sent < *highest {
                packet.flags.set(PacketFlags::OVERTAKEN);
            }
            *highest = sent.max(*highest);
        }
        let mut lowest = vec![u32::MAX; flows.len()];
        for &at in arrivals.iter().rev() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Crossing, NO_TIME, NOT_CAPTURED};
    use proptest::prelude::*;

    fn packet(index: u32) -> PairPacket {
        PairPacket {
            flow: 0,
            index: [index, NOT_CAPTURED],
            time_ns: [0, NO_TIME],
            sequence: 0,
            payload_bytes: 0,
            ip_bytes: 0,
            identification: 0,
            content: 0,
            ttl: [0; 2],
            tos: [0; 2],
            crossing: Crossing::Undecided,
            flags: PacketFlags::default(),
        }
    }

    proptest! {
        #[test]
        fn packets_are_in_the_order_of_their_capture_however_sparse_they_are(
            indices in prop::collection::vec(prop_oneof![0..40u32, 0..1_000_000u32], 0..60),
        ) {
            let packets: Vec<PairPacket> = indices.iter().map(|&index| packet(index)).collect();
            let mut expected: Vec<u32> = (0..indices.len() as u32).collect();
            expected.sort_by_key(|&at| indices[at as usize]);
            prop_assert_eq!(by_index(&packets, 0, |_| true), expected);
            prop_assert!(by_index(&packets, 1, |_| true).is_empty());
            let even = by_index(&packets, 0, |packet| packet.index[0] % 2 == 0);
            prop_assert!(even.iter().all(|&at| indices[at as usize] % 2 == 0));
        }

        #[test]
        fn mixed_sequences_are_sorted_like_others(
            keys in prop::collection::vec(prop_oneof![-3i64..3, any::<i64>()], 0..80),
            rising in 1i64..20,
        ) {
            let mut keys: Vec<(i64, u32)> = (0..)
                .zip(keys)
                .map(|(at, key)| (key.wrapping_add(rising * i64::from(at)), at))
                .collect();
            let mut expected = keys.clone();
            expected.sort_unstable();
            sort_mixed(&mut keys, 2);
            prop_assert_eq!(keys, expected);
        }

        #[test]
        fn a_permutation_in_place_moves_each_item_to_where_it_belongs(
            sources in Just((0..50u32).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let mut items: Vec<u32> = (100..150).collect();
            permute(&mut items, &mut sources.clone());
            let expected: Vec<u32> = sources.iter().map(|&from| 100 + from).collect();
            prop_assert_eq!(items, expected);
        }
    }
}
