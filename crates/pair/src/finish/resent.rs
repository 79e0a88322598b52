//! Copies of a segment that only time distinguishes.
//!
//! Without identification (IPv6, or one of 0) and without timestamps a retransmission is identical to the
//! original. If the original was lost, the matcher may have given it the arrival of the retransmission: then
//! its transit time seems to be as long as the sender took to retransmit it, while the transit times of its
//! neighbours are normal. At the end the arrival goes to the later copy with a transit time like that of its
//! neighbours.

use ahash::HashMap;

use super::order::by_index;
use crate::flow::PairFlow;
use crate::packet::{Crossing, NO_TIME, NOT_CAPTURED, PacketFlags, PairPacket};

/// Neighbours on either side with transit times for comparison, and the range in which they are searched for.
const NEIGHBOURS: usize = 4;
const WITHIN: usize = 64;
/// Resolution of capture clocks.
const CLOCK_GRAIN_NS: i64 = 5_000;

/// The fields that copies share.
type Identity = (u32, u32, u32, u32);

/// `None` if more than time distinguishes the packet from its copies.
fn identity(packet: &PairPacket) -> Option<Identity> {
    let alike = packet.flags.has(PacketFlags::TCP)
        && packet.payload_bytes > 0
        && packet.identification == 0;
    alike.then_some((
        packet.flow,
        packet.sequence,
        packet.payload_bytes,
        packet.content,
    ))
}

/// Moves arrivals to the copies that caused them.
pub(super) fn reassign(packets: &mut [PairPacket], flows: &[PairFlow]) {
    for upstream in 0..2 {
        let goes = |packet: &PairPacket| {
            flows[packet.flow as usize].direction.upstream() == Some(upstream)
        };
        let mut waiting: HashMap<Identity, Vec<u32>> = HashMap::default();
        for at in by_index(packets, upstream, |packet| {
            !packet.is_matched() && goes(packet)
        }) {
            if let Some(identity) = identity(&packets[at as usize]) {
                waiting.entry(identity).or_default().push(at);
            }
        }
        if waiting.is_empty() {
            continue;
        }
        let mut arrivals = vec![Vec::new(); flows.len()];
        for at in by_index(packets, 1 - upstream, |packet| {
            packet.is_matched() && packet.payload_bytes > 0 && goes(packet)
        }) {
            arrivals[packets[at as usize].flow as usize].push(at);
        }
        for arrivals in &arrivals {
            reassign_flow(packets, arrivals, upstream, &mut waiting);
        }
    }
}

fn reassign_flow(
    packets: &mut [PairPacket],
    arrivals: &[u32],
    upstream: usize,
    waiting: &mut HashMap<Identity, Vec<u32>>,
) {
    let copies = |packet: &PairPacket, waiting: &HashMap<Identity, Vec<u32>>| {
        identity(packet).is_some_and(|identity| waiting.contains_key(&identity))
    };
    let doubtful: Vec<bool> = arrivals
        .iter()
        .map(|&at| copies(&packets[at as usize], waiting))
        .collect();
    for place in (0..arrivals.len()).filter(|&place| doubtful[place]) {
        let at = arrivals[place];
        let first = packets[at as usize];
        let Some([fastest_ns, slowest_ns]) =
            transits_near(packets, arrivals, &doubtful, place, upstream)
        else {
            continue;
        };
        let spread_ns = slowest_ns - fastest_ns + CLOCK_GRAIN_NS;
        let arrived_ns = first.time_ns[1 - upstream];
        let late_ns = |sent_ns: i64| arrived_ns.saturating_sub(sent_ns) - slowest_ns;
        if late_ns(first.time_ns[upstream]) <= spread_ns {
            continue;
        }
        let Some(others) = identity(&first).and_then(|identity| waiting.get_mut(&identity)) else {
            continue;
        };
        let fits = |other: &&mut u32| {
            let sent = &packets[**other as usize];
            let late_ns = late_ns(sent.time_ns[upstream]);
            sent.index[upstream] > first.index[upstream]
                && late_ns <= spread_ns
                && late_ns + slowest_ns - fastest_ns >= -spread_ns
        };
        if let Some(other) = others.iter_mut().find(fits) {
            give_arrival(packets, at, *other, 1 - upstream);
            *other = at;
        }
    }
}

/// The fastest and the slowest transit time of packets that arrived around a packet and were not
/// retransmitted.
fn transits_near(
    packets: &[PairPacket],
    arrivals: &[u32],
    doubtful: &[bool],
    place: usize,
    upstream: usize,
) -> Option<[i64; 2]> {
    let transit_ns = |place: usize| {
        let times_ns = packets[arrivals[place] as usize].time_ns;
        times_ns[1 - upstream].saturating_sub(times_ns[upstream])
    };
    let telling = |place: &usize| !doubtful[*place];
    let until = (place + 1 + WITHIN).min(arrivals.len());
    let before = (place.saturating_sub(WITHIN)..place).rev();
    let near = before.filter(telling).take(NEIGHBOURS);
    let after = (place + 1..until).filter(telling).take(NEIGHBOURS);
    let transits: Vec<i64> = near.chain(after).map(transit_ns).collect();
    let enough = transits.len() >= NEIGHBOURS;
    let range = [*transits.iter().min()?, *transits.iter().max()?];
    enough.then_some(range)
}

/// Moves an arrival downstream from one packet to another.
fn give_arrival(packets: &mut [PairPacket], from: u32, to: u32, downstream: usize) {
    let offloaded = PacketFlags::offloaded(downstream);
    let [from, to] = [from as usize, to as usize];
    let arrived = packets[from];
    let receiver = &mut packets[to];
    receiver.index[downstream] = arrived.index[downstream];
    receiver.time_ns[downstream] = arrived.time_ns[downstream];
    receiver.ttl[downstream] = arrived.ttl[downstream];
    receiver.tos[downstream] = arrived.tos[downstream];
    receiver.flags.0 |= arrived.flags.0 & offloaded;
    receiver.crossing = Crossing::Matched;
    let giver = &mut packets[from];
    giver.index[downstream] = NOT_CAPTURED;
    giver.time_ns[downstream] = NO_TIME;
    (giver.ttl[downstream], giver.tos[downstream]) = (0, 0);
    giver.flags.0 &= !offloaded;
    giver.crossing = Crossing::Undecided;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Direction;

    const TRANSIT_NS: i64 = 1_000_000;
    const LATER_NS: i64 = 40_000_000;

    /// Ten packets, the last one lost and retransmitted `later_ns` after; the arrival of its copy is recorded
    /// with the first.
    fn found(identification: u16, later_ns: i64) -> [bool; 2] {
        let packet = |number: u32, sent_ns: i64, arrived_ns: Option<i64>| PairPacket {
            flow: 0,
            index: [number, arrived_ns.map_or(NOT_CAPTURED, |_| number)],
            time_ns: [sent_ns, arrived_ns.unwrap_or(NO_TIME)],
            sequence: number.min(9) * 1000,
            payload_bytes: 1000,
            ip_bytes: 1040,
            identification,
            content: 2,
            ttl: [64; 2],
            tos: [0; 2],
            crossing: match arrived_ns {
                Some(_) => Crossing::Matched,
                None => Crossing::Undecided,
            },
            flags: PacketFlags(PacketFlags::TCP),
        };
        let sent_ns = |number: u32| i64::from(number) * 100_000;
        let mut packets: Vec<PairPacket> = (0..9)
            .map(|number| packet(number, sent_ns(number), Some(sent_ns(number) + TRANSIT_NS)))
            .collect();
        let again_ns = sent_ns(9) + later_ns;
        packets.push(packet(9, sent_ns(9), Some(again_ns + TRANSIT_NS)));
        packets.push(packet(10, again_ns, None));
        let flow = PairFlow {
            direction: Direction::FirstToSecond,
            ..PairFlow::default()
        };
        reassign(&mut packets, &[flow]);
        [9, 10].map(|at: usize| packets[at].is_matched())
    }

    #[test]
    fn an_arrival_belongs_to_the_copy_with_the_usual_transit_time() {
        assert_eq!(found(0, LATER_NS), [false, true]);
    }

    #[test]
    fn an_identification_outweighs_times() {
        assert_eq!(found(7, LATER_NS), [true, false]);
    }

    #[test]
    fn where_both_times_are_usual_the_first_one_arrived() {
        assert_eq!(found(0, 3_000), [true, false]);
    }
}
