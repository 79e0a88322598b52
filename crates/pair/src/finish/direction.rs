//! The point that each flow passes first, decided for hosts and not for single flows, without relying on the
//! clocks.
//!
//! In order of strength: the TTL, which routers decrement; the sum of both directions' transit times, which
//! does not depend on the clocks' offset and is positive for one order of the points only; the side with
//! missing packets (before the sum of transit times if that is uncertain: the points may be next to each
//! other); the sign of the time difference, which depends on the clocks; the vantage points of the captures.
//!
//! A hint on the side of the clients precedes all of these; [`Order`] says if the packets contradict it.

use std::net::IpAddr;

use ahash::HashMap;
use whydrop_tcp::{Tracked, Vantage};

use crate::flow::{Direction, Order, PairFlow};
use crate::packet::{PacketFlags, PairPacket};

/// Samples further apart than this do not share a transit time.
const NEAR_NS: i64 = 1_000_000_000;
/// Number of samples with a time difference that counts if there is no other evidence.
const FIRST_SAMPLES: u64 = 64;
/// Sums of transit times kept for one pair of hosts.
const MOST_SUMS: usize = 4096;

/// A matched packet: its time at point 1, and its time at point 2 minus that, ns.
type Sample = (i64, i64);

/// Evidence on the packets between two hosts. Orientation 0 is from the host with the lower address.
#[derive(Debug, Default)]
struct Hosts {
    /// Matched packets by orientation.
    matched: [u64; 2],
    /// Packets with a TTL that decreased from point 1 to 2, and from 2 to 1, by orientation.
    ttl: [[u64; 2]; 2],
    /// Packets that only one point has and that were retransmitted, by orientation and point: lost on the
    /// path. The other capture may simply lack those that were not retransmitted.
    only: [[u64; 2]; 2],
    /// The points that hold super-segments, by orientation and point: a packet that only the other point has
    /// may be within one of those, split differently.
    offloaded: [[bool; 2]; 2],
    /// Sum of the first time differences, by orientation, ns.
    delta_sum: [f64; 2],
    /// The latest sample of either orientation.
    latest: [Option<Sample>; 2],
    /// A sample that waits for the next one of the other orientation, and the last one of that before it.
    bracketed: [Option<(Sample, Sample)>; 2],
    /// Transit of orientation 0 plus transit of orientation 1 if orientation 0 goes from point 1 to 2, ns.
    sums_ns: Vec<f64>,
    sums_seen: u64,
    vantage: [i64; 2],
    /// Connections that the source of orientation 0 opened, less those that its destination opened.
    opened: i64,
}

impl Hosts {
    fn take(&mut self, orientation: usize, packet: &PairPacket) {
        let [one, two] = packet.time_ns;
        self.matched[orientation] += 1;
        for side in 0..2 {
            self.offloaded[orientation][side] |= packet.flags.has(PacketFlags::offloaded(side));
        }
        match packet.ttl[0].cmp(&packet.ttl[1]) {
            std::cmp::Ordering::Greater => self.ttl[orientation][0] += 1,
            std::cmp::Ordering::Less => self.ttl[orientation][1] += 1,
            std::cmp::Ordering::Equal => {}
        }
        let delta = two - one;
        // limited, so that drift does not add up
        if self.matched[orientation] <= FIRST_SAMPLES {
            self.delta_sum[orientation] += delta as f64;
        }
        let sample = (one, delta);
        if let Some((before, middle)) = self.bracketed[orientation].take() {
            self.take_sum(1 - orientation, before, middle, sample);
        }
        if let Some(other) = self.latest[1 - orientation] {
            self.bracketed[1 - orientation] = Some((other, sample));
        }
        self.latest[orientation] = Some(sample);
    }

    /// Adds the sum for `middle`, of `orientation`, between two samples of the other: interpolating their
    /// difference cancels drift.
    fn take_sum(&mut self, orientation: usize, before: Sample, middle: Sample, after: Sample) {
        let span = after.0 - before.0;
        if !(before.0..=after.0).contains(&middle.0) || span > NEAR_NS {
            return;
        }
        let share = if span > 0 {
            (middle.0 - before.0) as f64 / span as f64
        } else {
            0.5
        };
        let other = before.1 as f64 + share * (after.1 - before.1) as f64;
        let difference = middle.1 as f64 - other;
        let sum = if orientation == 0 {
            difference
        } else {
            -difference
        };
        self.sums_seen += 1;
        if self.sums_ns.len() < MOST_SUMS {
            self.sums_ns.push(sum);
        } else {
            // reservoir sampling, with the same choice in every run
            let place = (self.sums_seen.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % self.sums_seen;
            if let Some(slot) = self.sums_ns.get_mut(place as usize) {
                *slot = sum;
            }
        }
    }

    /// Decides if orientation 0 goes from point 1 to 2.
    fn decide(&mut self) -> Decision {
        let by_ttl = self.by_ttl();
        let by_time = self.by_time();
        match (by_ttl, by_time) {
            (Some(hops), Some((time, sure))) if hops != time && sure => Decision::Shown(time),
            (Some(hops), _) => Decision::Shown(hops),
            // with points next to each other and late timestamps, losses on the path are stronger evidence
            (None, Some((time, false))) => Decision::Likely(self.by_losses().unwrap_or(time)),
            (None, Some((time, true))) => Decision::Shown(time),
            (None, None) => Decision::Open,
        }
    }

    /// By the hosts that opened the connections, if the side of the clients is known.
    fn by_hint(&self, client_side: Option<usize>) -> Option<bool> {
        let client_is_at_first = client_side? == 0;
        (self.opened != 0).then_some((self.opened > 0) == client_is_at_first)
    }

    fn by_ttl(&self) -> Option<bool> {
        let forward = self.ttl[0][0] + self.ttl[1][1];
        let backward = self.ttl[0][1] + self.ttl[1][0];
        let all: u64 = self.matched.iter().sum();
        let (most, least) = (forward.max(backward), forward.min(backward));
        (most * 10 >= all * 9 && most > 20 * least).then_some(forward > backward)
    }

    /// Decision by time, and true if it is certain.
    fn by_time(&mut self) -> Option<(bool, bool)> {
        if self.sums_ns.is_empty() {
            return None;
        }
        let middle = self.sums_ns.len() / 2;
        let (_, &mut median, _) = self.sums_ns.select_nth_unstable_by(middle, f64::total_cmp);
        let positive = self.sums_ns.iter().filter(|sum| **sum > 0.0).count();
        let agreeing = match median > 0.0 {
            true => positive,
            false => self.sums_ns.len() - positive,
        };
        let sure = self.sums_ns.len() >= 32 && agreeing * 20 >= self.sums_ns.len() * 19;
        (median != 0.0).then_some((median > 0.0, sure))
    }

    /// By the side with packets that were lost on the path and retransmitted.
    fn by_losses(&self) -> Option<bool> {
        let only = |orientation: usize, side: usize| match self.offloaded[orientation][1 - side] {
            true => 0,
            false => self.only[orientation][side],
        };
        let only_first = only(0, 0) + only(1, 1);
        let only_second = only(0, 1) + only(1, 0);
        let (most, least) = (only_first.max(only_second), only_first.min(only_second));
        (most >= 4 && most > 4 * least).then_some(only_first > only_second)
    }

    /// A guess, if neither TTL nor the sums of transit times show the direction.
    fn guess(&self) -> Option<bool> {
        self.by_losses().or_else(|| self.by_clock())
    }

    fn by_clock(&self) -> Option<bool> {
        let by_clock = self.delta_sum[0] - self.delta_sum[1];
        if by_clock != 0.0 {
            return Some(by_clock > 0.0);
        }
        let nearer = self.vantage[0] - self.vantage[1];
        (nearer != 0).then_some(nearer > 0)
    }
}

/// The evidence of the packets between two hosts show by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// By the TTL, or by the sum of the transit times in both directions.
    Shown(bool),
    Likely(bool),
    Open,
}

impl Decision {
    fn forward(self) -> Option<bool> {
        match self {
            Decision::Shown(forward) | Decision::Likely(forward) => Some(forward),
            Decision::Open => None,
        }
    }
}

/// Sets the direction of every flow; `client_side` is the point nearer to the clients, if that is known.
pub(super) fn decide(
    flows: &mut [PairFlow],
    packets: &[PairPacket],
    tracked: &[Tracked; 2],
    client_side: Option<usize>,
) -> Order {
    let mut numbers: HashMap<(IpAddr, IpAddr), u32> = HashMap::default();
    let mut all: Vec<Hosts> = Vec::new();
    let places: Vec<(u32, usize, [IpAddr; 2])> = flows
        .iter()
        .map(|flow| {
            let [source, destination] = addresses(flow);
            let orientation = usize::from(source > destination);
            let key = (source.min(destination), source.max(destination));
            let number = *numbers.entry(key).or_insert_with(|| {
                all.push(Hosts::default());
                (all.len() - 1) as u32
            });
            (number, orientation, [source, destination])
        })
        .collect();
    let mut unmatched: HashMap<(u32, u32), usize> = HashMap::default();
    for packet in packets {
        let (number, orientation, _) = places[packet.flow as usize];
        let hosts = &mut all[number as usize];
        if packet.is_matched() {
            hosts.take(orientation, packet);
        } else if packet.payload_bytes > 0 && packet.flags.has(PacketFlags::TCP) {
            unmatched.insert((packet.flow, packet.sequence), packet.only_side());
        }
    }
    for packet in packets.iter().filter(|packet| packet.is_matched()) {
        if let Some(side) = unmatched.remove(&(packet.flow, packet.sequence)) {
            let (number, orientation, _) = places[packet.flow as usize];
            all[number as usize].only[orientation][side] += 1;
        }
    }
    for (flow, &(number, orientation, _)) in flows.iter().zip(&places) {
        let hosts = &mut all[number as usize];
        hosts.vantage[orientation] += vantage(flow, tracked);
        hosts.opened += if orientation == 0 {
            opened(flow)
        } else {
            -opened(flow)
        };
    }
    let shown: Vec<Decision> = all.iter_mut().map(Hosts::decide).collect();
    let hinted: Vec<Option<bool>> = all.iter().map(|one| one.by_hint(client_side)).collect();
    let order = order(&all, &shown, &hinted);
    let mut decided: Vec<Option<bool>> = hinted
        .into_iter()
        .zip(shown)
        .map(|(hint, shown)| hint.or(shown.forward()))
        .collect();
    let mut sides = sides_of_hosts(&places, &decided);
    guess_the_rest(&all, &places, &mut decided, &mut sides);
    for (flow, (number, orientation, _)) in flows.iter_mut().zip(places) {
        let forward = decided[number as usize].map(|forward| forward == (orientation == 0));
        flow.direction = match forward {
            Some(true) => Direction::FirstToSecond,
            Some(false) => Direction::SecondToFirst,
            None => Direction::Unknown,
        };
    }
    order
}

/// Counts the packets with an order that is a guess, and those that contradict a hint.
fn order(all: &[Hosts], shown: &[Decision], hinted: &[Option<bool>]) -> Order {
    let mut order = Order::default();
    for ((hosts, shown), hint) in all.iter().zip(shown).zip(hinted) {
        let matched: u64 = hosts.matched.iter().sum();
        order.matched += matched;
        match (hint, shown) {
            (Some(hint), Decision::Shown(forward)) if hint != forward => {
                order.contradicted += matched
            }
            (None, Decision::Likely(_) | Decision::Open) => order.guessed += matched,
            _ => {}
        }
    }
    order
}

/// 1 if the source of a flow opened its connection, -1 if its destination did, 0 if that is unknown.
fn opened(flow: &PairFlow) -> i64 {
    match flow.tracked.iter().flatten().next() {
        Some(place) if place.flow == 0 => 1,
        Some(_) => -1,
        None => 0,
    }
}

/// Decides the remaining pairs of hosts from the sides of their hosts, otherwise by a guess: those with the
/// most packets first, so that a host is on one side for all its peers.
fn guess_the_rest(
    all: &[Hosts],
    places: &[(u32, usize, [IpAddr; 2])],
    decided: &mut [Option<bool>],
    sides: &mut HashMap<IpAddr, i64>,
) {
    let mut open: Vec<(u64, u32, [IpAddr; 2])> = Vec::new();
    let mut seen = vec![false; all.len()];
    for &(number, orientation, [source, destination]) in places {
        let is_first = !std::mem::replace(&mut seen[number as usize], true);
        if is_first && decided[number as usize].is_none() {
            let ends = match orientation {
                0 => [source, destination],
                _ => [destination, source],
            };
            open.push((all[number as usize].matched.iter().sum(), number, ends));
        }
    }
    open.sort_by_key(|&(packets, number, _)| (std::cmp::Reverse(packets), number));
    for (_, number, ends) in open {
        let forward = by_sides(sides, ends).or_else(|| all[number as usize].guess());
        decided[number as usize] = forward;
        if let Some(forward) = forward {
            vote(sides, ends, forward);
        }
    }
}

fn vote(sides: &mut HashMap<IpAddr, i64>, [source, destination]: [IpAddr; 2], forward: bool) {
    let vote = if forward { 1 } else { -1 };
    *sides.entry(source).or_default() += vote;
    *sides.entry(destination).or_default() -= vote;
}

/// By their names at point 1 if there are any, otherwise at point 2.
fn addresses(flow: &PairFlow) -> [IpAddr; 2] {
    let unnamed = IpAddr::from([0; 4]);
    flow.names[0]
        .or(flow.names[1])
        .map_or([unnamed; 2], |name| {
            [name.source.address, name.destination.address]
        })
}

/// The point on which side a host is, from the flows with a known direction: positive for point 1.
fn sides_of_hosts(
    places: &[(u32, usize, [IpAddr; 2])],
    decided: &[Option<bool>],
) -> HashMap<IpAddr, i64> {
    let mut sides: HashMap<IpAddr, i64> = HashMap::default();
    for &(number, orientation, ends) in places {
        if let Some(forward) = decided[number as usize] {
            vote(&mut sides, ends, forward == (orientation == 0));
        }
    }
    sides
}

fn by_sides(sides: &HashMap<IpAddr, i64>, [source, destination]: [IpAddr; 2]) -> Option<bool> {
    let side = |host: IpAddr| sides.get(&host).copied().unwrap_or(0);
    let difference = side(source) - side(destination);
    (difference != 0).then_some(difference > 0)
}

/// Positive if capture 1 is nearer to the flow's sender than capture 2.
fn vantage(flow: &PairFlow, tracked: &[Tracked; 2]) -> i64 {
    let nearness = |side: usize| {
        let place = flow.tracked[side]?;
        let connection = &tracked[side].connections[place.connection];
        match connection.flows[place.flow].vantage {
            Vantage::Sender => Some(2),
            Vantage::Middle => Some(1),
            Vantage::Receiver => Some(0),
            Vantage::Unknown => None,
        }
    };
    match (nearness(0), nearness(1)) {
        (Some(first), Some(second)) => first - second,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points next to each other, with timestamps that vary by more than the transit time.
    fn neighbours(lost: [u64; 2]) -> Option<bool> {
        let mut hosts = Hosts {
            only: [lost, [0; 2]],
            sums_ns: (0..100).map(|at| f64::from(at % 3) - 0.9).collect(),
            ..Hosts::default()
        };
        hosts.decide().forward()
    }

    #[test]
    fn a_host_stays_on_one_side_whatever_its_peers_are_guessed_to_be() {
        let [near, other, far] = [1, 2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
        // one direction only: the clocks alone give opposite directions for the two pairs
        let guessed = |packets: u64, delta: f64| Hosts {
            matched: [packets, 0],
            delta_sum: [delta, 0.0],
            ..Hosts::default()
        };
        let all = [guessed(10, -1.0), guessed(1_000, 1.0)];
        let places = [(0, 0, [other, far]), (1, 0, [near, far])];
        let (mut decided, mut sides) = (vec![None; 2], HashMap::default());
        guess_the_rest(&all, &places, &mut decided, &mut sides);
        assert_eq!(decided, [Some(true); 2]);
    }

    #[test]
    fn a_hint_precedes_the_packets_and_is_contradicted_only_by_what_they_show() {
        let hosts = |ttl: [[u64; 2]; 2]| Hosts {
            matched: [100, 100],
            ttl,
            opened: 3,
            ..Hosts::default()
        };
        let mut all = [hosts([[100, 0], [0, 100]]), hosts([[0; 2]; 2])];
        let shown: Vec<Decision> = all.iter_mut().map(Hosts::decide).collect();
        assert_eq!(shown, [Decision::Shown(true), Decision::Open]);
        let with = |side: Option<usize>| {
            let hinted: Vec<Option<bool>> = all.iter().map(|one| one.by_hint(side)).collect();
            let order = order(&all, &shown, &hinted);
            (hinted, order.guessed, order.contradicted)
        };
        assert_eq!(with(None), (vec![None; 2], 200, 0));
        assert_eq!(with(Some(0)), (vec![Some(true); 2], 0, 0));
        assert_eq!(with(Some(1)), (vec![Some(false); 2], 0, 200));
    }

    #[test]
    fn losses_on_the_path_outweigh_uncertain_transit_times() {
        assert_eq!(neighbours([0, 0]), Some(true));
        assert_eq!(neighbours([0, 600]), Some(false));
        assert_eq!(neighbours([300, 600]), Some(true));
    }

    #[test]
    fn a_packet_possibly_inside_a_super_segment_of_the_other_point_is_not_lost() {
        let mut hosts = Hosts {
            only: [[0, 8], [0, 0]],
            ..Hosts::default()
        };
        assert_eq!(hosts.by_losses(), Some(false));
        hosts.offloaded[0][1] = true;
        assert_eq!(hosts.by_losses(), Some(false));
        hosts.offloaded[0][0] = true;
        assert_eq!(hosts.by_losses(), None);
    }
}
