//! Fates of packets that only one capture holds.
//!
//! A packet that only the downstream capture holds is missing upstream, or is a second copy ([`copies`]). One
//! that only the upstream capture holds was lost, or crossed and is missing downstream. For TCP data
//! acknowledgments decide: data that was acknowledged and never retransmitted has arrived. For the rest,
//! statistics decide: the rate at which the downstream capture lacks packets that certainly passed it.

use std::collections::HashSet;

use whydrop_tcp::{Fate, Segment, SegmentFlags, Tracked};

use super::alignment::Aligned;
use super::capture_loss::{MissRate, Runs};
use super::copies;
use super::counts::missed_by;
use super::order::{MOST_MIXED, sort_mixed};
use super::repeats::{Others, Repeats};
use super::transmissions::{self, Segments};
use crate::flow::{Direction, PairFlow};
use crate::packet::{Crossing, PacketFlags, PairPacket};

/// A flow with this many packets, none of them matched, takes another path even if its hosts have other
/// flows.
const MANY_UNMATCHED: u64 = 64;
/// Senders retransmit data sooner than this: a round trip after its loss, or after a timeout that exceeds it
/// by 200 ms in common systems. Applied only to the end of a flow without captured acknowledgments; before
/// it, a retransmission would have been captured.
const LONG_NS: i64 = 600_000_000;

/// Packets with an uncertain crossing, by their upstream point.
#[derive(Debug, Default)]
struct Open {
    /// No evidence: data near the end of its flow without captured acknowledgments, and everything but data.
    unproven_data: [Vec<u32>; 2],
    unproven: [Vec<u32>; 2],
    /// Acknowledged, but so was another transmission that certainly crossed.
    ambiguous: [Vec<u32>; 2],
    /// Identical to a matched packet; possibly its copies.
    may_be_copies: HashSet<u32>,
    /// The rate at which each capture lacks packets that certainly passed it.
    rates: [MissRate; 2],
    /// Matched packets of the same kinds, by upstream point.
    matched_unproven_data: [u64; 2],
    matched_unproven: [u64; 2],
}

pub(super) fn decide(
    packets: &mut [PairPacket],
    flows: &mut [PairFlow],
    tracked: &[Tracked; 2],
    aligned: &Aligned,
) {
    let by_flow = ByFlow::of(packets, flows.len());
    for number in unrecognised(&by_flow, flows) {
        // which leaves its packets undecided
        flows[number].direction = Direction::Unknown;
    }
    let known_hosts = matched_hosts(&by_flow, flows);
    let mut open = Open::default();
    for (number, flow) in flows.iter().enumerate() {
        let places = by_flow.places(number);
        if !by_flow.holders[number].by_both
            && takes_other_path(flow, places.len() as u64, &known_hosts)
        {
            for &at in places {
                settle(&mut packets[at as usize], Crossing::OtherPath);
            }
        } else if let Some(upstream) = flow.direction.upstream()
            && by_flow.holders[number].by_one[1 - upstream]
        {
            open.may_be_copies
                .extend(copies::mark(packets, places, 1 - upstream));
        }
    }
    settle_outside(packets, flows, aligned);
    for (number, flow) in flows.iter().enumerate() {
        if flow.direction.upstream().is_some() {
            let (places, holders) = (by_flow.places(number), by_flow.holders[number]);
            decide_flow(packets, places, holders, flow, tracked, &mut open);
        }
    }
    if !open
        .unproven
        .iter()
        .chain(&open.unproven_data)
        .all(Vec::is_empty)
    {
        look_for_runs(packets, flows, &mut open.rates);
    }
    decide_open(packets, &open);
}

/// Determines the length of the runs of misses of each capture that has misses.
fn look_for_runs(packets: &[PairPacket], flows: &[PairFlow], rates: &mut [MissRate; 2]) {
    if rates.iter().all(|rate| rate.missed == 0) {
        return;
    }
    let mut runs = Runs::default();
    for packet in packets {
        let missed_by = missed_by(flows[packet.flow as usize].direction, packet.crossing);
        if packet.is_matched() || missed_by.is_some() {
            runs.take(missed_by);
        }
    }
    for (rate, in_a_row) in rates.iter_mut().zip(runs.in_a_row()) {
        rate.in_a_row = in_a_row;
    }
}

/// Set a fate. A packet that was given up to limit memory stays so: the search for it was incomplete.
fn settle(packet: &mut PairPacket, crossing: Crossing) {
    if packet.crossing == Crossing::Undecided
        || packet.crossing == Crossing::Forgotten && crossing == Crossing::OtherPath
    {
        packet.crossing = crossing;
    }
}

/// Which captures hold packets of a flow: both hold some, and only one of them holds some.
#[derive(Debug, Clone, Copy, Default)]
struct Holders {
    by_both: bool,
    by_one: [bool; 2],
}

/// Positions of packets by flow, in their order.
struct ByFlow {
    starts: Vec<u32>,
    places: Vec<u32>,
    holders: Vec<Holders>,
}

impl ByFlow {
    fn of(packets: &[PairPacket], flows: usize) -> Self {
        let mut starts = vec![0u32; flows + 1];
        let mut holders = vec![Holders::default(); flows];
        for packet in packets {
            starts[packet.flow as usize + 1] += 1;
            let holders = &mut holders[packet.flow as usize];
            match packet.is_matched() {
                true => holders.by_both = true,
                false => holders.by_one[packet.only_side()] = true,
            }
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut places = vec![0u32; packets.len()];
        for (at, packet) in packets.iter().enumerate() {
            let next = &mut next[packet.flow as usize];
            places[*next as usize] = at as u32;
            *next += 1;
        }
        Self {
            starts,
            places,
            holders,
        }
    }

    fn places(&self, flow: usize) -> &[u32] {
        &self.places[self.starts[flow] as usize..self.starts[flow + 1] as usize]
    }
}

type HostPair = (std::net::IpAddr, std::net::IpAddr);

fn host_pair(flow: &PairFlow, side: usize) -> Option<HostPair> {
    let name = flow.names[side]?;
    let (one, other) = (name.source.address, name.destination.address);
    Some((one.min(other), one.max(other)))
}

/// Pairs of hosts, at either point, with a matched packet.
fn matched_hosts(by_flow: &ByFlow, flows: &[PairFlow]) -> [HashSet<HostPair>; 2] {
    [0, 1].map(|side| {
        flows
            .iter()
            .zip(&by_flow.holders)
            .filter(|(_, holders)| holders.by_both)
            .filter_map(|(flow, _)| host_pair(flow, side))
            .collect()
    })
}

/// Flows that may be the same with other sequence numbers: unmatched at both points, between hosts with other
/// flows that a device renumbers. Which is which is unknown.
fn unrecognised(by_flow: &ByFlow, flows: &[PairFlow]) -> Vec<usize> {
    let changed = [0, 1].map(|side| -> HashSet<HostPair> {
        let changed = flows.iter().filter(|flow| flow.sequence_added != 0);
        changed.filter_map(|flow| host_pair(flow, side)).collect()
    });
    if changed.iter().any(HashSet::is_empty) {
        return Vec::new();
    }
    let alone = flows.iter().zip(&by_flow.holders).enumerate();
    let alone: Vec<(usize, &PairFlow)> = alone
        .filter(|(_, (flow, holders))| !holders.by_both && flow.is_tcp())
        .map(|(number, (flow, _))| (number, flow))
        .collect();
    let is_of_them = |flow: &PairFlow, side: usize| {
        host_pair(flow, side).is_some_and(|hosts| changed[side].contains(&hosts))
    };
    let at_both = (0..2).all(|side| alone.iter().any(|(_, flow)| is_of_them(flow, side)));
    alone
        .iter()
        .filter(|(_, flow)| at_both && (0..2).any(|side| is_of_them(flow, side)))
        .map(|(number, _)| *number)
        .collect()
}

fn takes_other_path(flow: &PairFlow, packets: u64, known: &[HashSet<HostPair>; 2]) -> bool {
    let hosts_are_known =
        (0..2).any(|side| host_pair(flow, side).is_some_and(|pair| known[side].contains(&pair)));
    !hosts_are_known || packets >= MANY_UNMATCHED
}

/// Settles packets that passed while the other capture was not running. Their transit time is assumed to be
/// in the range of the packets before them, in their direction, that are known to have crossed.
fn settle_outside(packets: &mut [PairPacket], flows: &[PairFlow], aligned: &Aligned) {
    let mut captures = [[i64::MAX, i64::MIN]; 2];
    let mut transits = [RecentTransits::default(), RecentTransits::default()];
    for packet in packets.iter() {
        for side in (0..2).filter(|&side| packet.is_at(side)) {
            let time = aligned.first_clock_ns(side, packet.time_ns[side]);
            let [first, last] = captures[side];
            captures[side] = [first.min(time), last.max(time)];
        }
        if let Some(direction) = flows[packet.flow as usize].direction.upstream()
            && packet.is_matched()
            && transits[direction].count == 0
        {
            // packets before the first one use its transit time
            transits[direction].take(transit_ns(packet, direction, aligned));
        }
    }
    let between = Between::of(packets, flows.len());
    for at in in_order_of_sending(packets, flows, aligned) {
        let packet = &mut packets[at as usize];
        let direction = flows[packet.flow as usize].direction.upstream();
        if packet.is_matched() {
            if let Some(direction) = direction {
                transits[direction].take(transit_ns(packet, direction, aligned));
            }
            continue;
        }
        if between.holds(packet) {
            continue;
        }
        let side = packet.only_side();
        let time = aligned.first_clock_ns(side, packet.time_ns[side]);
        let [earliest, latest] = match direction {
            Some(upstream) if upstream == side => {
                let [fastest, slowest] = transits[upstream].range_ns();
                [time.saturating_add(fastest), time.saturating_add(slowest)]
            }
            Some(upstream) => {
                let [fastest, slowest] = transits[upstream].range_ns();
                [time.saturating_sub(slowest), time.saturating_sub(fastest)]
            }
            None => [time; 2],
        };
        let [first, last] = captures[1 - side];
        if earliest < first || latest > last {
            settle(packet, Crossing::OutsideOverlap);
        }
    }
}

/// Positions of the packets in the order in which they passed their upstream point. For the return direction
/// capture 1's order is that of arrival: behind a queue, packets still in it at the end would be compared
/// with those that had left it when they entered, before the queue had grown.
fn in_order_of_sending(packets: &[PairPacket], flows: &[PairFlow], aligned: &Aligned) -> Vec<u32> {
    let sent_ns = |packet: &PairPacket| {
        let upstream = flows[packet.flow as usize].direction.upstream();
        let side = upstream.filter(|&side| packet.is_at(side));
        let side = side.unwrap_or_else(|| usize::from(!packet.is_at(0)));
        aligned.first_clock_ns(side, packet.time_ns[side])
    };
    let mut order: Vec<(i64, u32)> = (0..)
        .zip(packets)
        .map(|(at, packet)| (sent_ns(packet), at))
        .collect();
    sort_mixed(&mut order, MOST_MIXED);
    order.into_iter().map(|(_, at)| at).collect()
}

/// Flows in order: a packet between two matched packets of its flow passed while both captures were running,
/// whatever the clocks show.
struct Between {
    /// First and last matched packet of each flow, by capture; none if packets overtake each other.
    spans: Vec<[[u32; 2]; 2]>,
}

impl Between {
    fn of(packets: &[PairPacket], flows: usize) -> Self {
        const NOTHING: [u32; 2] = [u32::MAX, 0];
        let mut spans = vec![[NOTHING; 2]; flows];
        let mut in_order = vec![true; flows];
        for packet in packets.iter().filter(|packet| packet.is_matched()) {
            let flow = packet.flow as usize;
            in_order[flow] &= !packet.flags.has(PacketFlags::OVERTAKEN);
            for (span, index) in spans[flow].iter_mut().zip(packet.index) {
                *span = [span[0].min(index), span[1].max(index)];
            }
        }
        for (span, in_order) in spans.iter_mut().zip(in_order) {
            if !in_order {
                *span = [NOTHING; 2];
            }
        }
        Self { spans }
    }

    fn holds(&self, packet: &PairPacket) -> bool {
        let side = packet.only_side();
        let [first, last] = self.spans[packet.flow as usize][side];
        (first..=last).contains(&packet.index[side])
    }
}

/// Transit times of the latest packets of a direction.
struct RecentTransits {
    ring_ns: [i64; 256],
    count: usize,
    /// The fastest and the slowest of them; `None` if it must be determined again.
    range_ns: Option<[i64; 2]>,
}

impl Default for RecentTransits {
    fn default() -> Self {
        Self {
            ring_ns: [0; 256],
            count: 0,
            range_ns: None,
        }
    }
}

impl RecentTransits {
    fn take(&mut self, transit_ns: i64) {
        let place = self.count % self.ring_ns.len();
        let former_ns = std::mem::replace(&mut self.ring_ns[place], transit_ns);
        let forgets = self.count >= self.ring_ns.len();
        self.count += 1;
        self.range_ns = self
            .range_ns
            .filter(|range| !(forgets && range.contains(&former_ns)))
            .map(|[fastest, slowest]| [fastest.min(transit_ns), slowest.max(transit_ns)]);
    }

    /// The fastest and the slowest; zeros if there are none.
    fn range_ns(&mut self) -> [i64; 2] {
        let known = &self.ring_ns[..self.count.min(self.ring_ns.len())];
        if self.range_ns.is_none()
            && let (Some(&fastest), Some(&slowest)) = (known.iter().min(), known.iter().max())
        {
            self.range_ns = Some([fastest, slowest]);
        }
        self.range_ns.unwrap_or([0; 2])
    }
}

fn transit_ns(packet: &PairPacket, upstream: usize, aligned: &Aligned) -> i64 {
    let times = [0, 1].map(|side| aligned.first_clock_ns(side, packet.time_ns[side]));
    times[1 - upstream].saturating_sub(times[upstream]).max(0)
}

/// Decides TCP data by the acknowledgments in the upstream capture. The rest is left open.
fn decide_flow(
    packets: &mut [PairPacket],
    places: &[u32],
    holders: Holders,
    flow: &PairFlow,
    tracked: &[Tracked; 2],
    open: &mut Open,
) {
    let upstream = flow.direction.upstream().unwrap_or(0);
    let (in_order, last_ns) = in_order(packets, places, upstream);
    let segments = flow.tracked[upstream]
        .map(|place| &tracked[upstream].connections[place.connection].flows[place.flow]);
    let mut segments = segments.map(Segments::of);
    // if acknowledgments were captured, unacknowledged data still has to be repaired
    let acknowledged = segments.as_ref().is_some_and(Segments::are_acknowledged);
    let goes_on_after = |packet: &PairPacket| {
        let goes_on_ns = last_ns.map(|last| last.saturating_sub(packet.time_ns[upstream]));
        !acknowledged && goes_on_ns.is_some_and(|goes_on_ns| goes_on_ns > LONG_NS)
    };
    let mut repeats: Option<Repeats> = None;
    for (_, at) in in_order {
        let packet = packets[at as usize];
        let is_data = packet.flags.has(PacketFlags::TCP) && packet.payload_bytes > 0;
        let segment = segments
            .as_mut()
            .filter(|_| is_data)
            .and_then(|segments| segments.find(&packet, upstream));
        if let Some(segment) = segment {
            transmissions::mark(&mut packets[at as usize], segment);
        }
        if packet.is_matched() {
            open.count_matched(upstream, is_data, segment, goes_on_after(&packet));
            continue;
        }
        if packet.crossing != Crossing::Undecided {
            continue;
        }
        if !is_data {
            open.unproven[upstream].push(at);
            continue;
        }
        let repeats = repeats.get_or_insert_with(|| Repeats::of(packets, places, upstream));
        let others = repeats.others(at);
        let verdict = data_verdict(&others, segment, goes_on_after(&packet));
        open.settle(&mut packets[at as usize], at, upstream, verdict);
    }
    // some that only the downstream capture holds
    if holders.by_one[1 - upstream] {
        open.settle_missed_upstream(packets, places, upstream);
    }
}

/// The packets of the upstream capture in its order, with their places, and the time of the last one with data.
fn in_order(
    packets: &[PairPacket],
    places: &[u32],
    upstream: usize,
) -> (Vec<(u32, u32)>, Option<i64>) {
    let mut in_order: Vec<(u32, u32)> = Vec::with_capacity(places.len());
    let mut last_ns: Option<i64> = None;
    for &at in places {
        let packet = &packets[at as usize];
        if packet.is_at(upstream) {
            in_order.push((packet.index[upstream], at));
            if packet.payload_bytes > 0 {
                last_ns = last_ns.max(Some(packet.time_ns[upstream]));
            }
        }
    }
    if !in_order.is_sorted() {
        in_order.sort_unstable();
    }
    (in_order, last_ns)
}

impl Open {
    /// Counts a packet of both captures: what it would have proved if it were missing downstream.
    fn count_matched(
        &mut self,
        upstream: usize,
        is_data: bool,
        segment: Option<&Segment>,
        goes_on: bool,
    ) {
        self.rates[upstream].passed += 1;
        // packets that would be unproven if they were not matched
        let unproven = match segment.map_or(Fate::Unknown, |segment| segment.fate) {
            Fate::Unknown => Some(!goes_on),
            Fate::Delivered => Some(segment.is_some_and(repeats_delivered)),
            Fate::Lost => None,
        };
        self.matched_unproven_data[upstream] += u64::from(is_data && unproven == Some(true));
        // only if the absence of the packet would have proved a miss by the capture
        self.rates[1 - upstream].passed += u64::from(is_data && unproven == Some(false));
        self.matched_unproven[upstream] += u64::from(!is_data);
    }

    /// Records the verdict on a data packet.
    fn settle(&mut self, packet: &mut PairPacket, at: u32, upstream: usize, verdict: Verdict) {
        match verdict {
            Verdict::Lost => packet.crossing = Crossing::Lost,
            Verdict::Missed => {
                packet.crossing = Crossing::MissedDownstream;
                self.count_missed(1 - upstream);
            }
            Verdict::Unproven => self.unproven_data[upstream].push(at),
            Verdict::Ambiguous => self.ambiguous[upstream].push(at),
        }
    }

    /// Packets of the downstream capture alone were missed by the upstream one, if they cannot be copies.
    fn settle_missed_upstream(
        &mut self,
        packets: &mut [PairPacket],
        places: &[u32],
        upstream: usize,
    ) {
        for &at in places {
            let packet = &mut packets[at as usize];
            if !packet.is_at(upstream)
                && packet.crossing == Crossing::Undecided
                && !self.may_be_copies.contains(&at)
            {
                packet.crossing = Crossing::MissedUpstream;
                self.count_missed(upstream);
            }
        }
    }

    fn count_missed(&mut self, side: usize) {
        self.rates[side].missed += 1;
        self.rates[side].passed += 1;
    }
}

/// The verdict on a data packet that the downstream capture lacks.
enum Verdict {
    Lost,
    Missed,
    Unproven,
    Ambiguous,
}

/// True if it repeats data that has arrived: no acknowledgment of new data shows whether it arrived as well.
fn repeats_delivered(segment: &Segment) -> bool {
    segment.flags.has(SegmentFlags::SPURIOUS)
}

/// `goes_on`: the flow continues for long after the packet.
fn data_verdict(others: &Others, segment: Option<&Segment>, goes_on: bool) -> Verdict {
    if others.missed_upstream {
        return Verdict::Lost;
    }
    match segment.map_or(Fate::Unknown, |segment| segment.fate) {
        Fate::Lost => Verdict::Lost,
        Fate::Delivered if segment.is_some_and(repeats_delivered) => Verdict::Unproven,
        Fate::Delivered if others.matched => Verdict::Ambiguous,
        Fate::Delivered => Verdict::Missed,
        // no acknowledgment shows it; but TCP retransmits lost data, and does not continue for long without
        // it
        Fate::Unknown if others.later => Verdict::Lost,
        Fate::Unknown if goes_on && !others.matched => Verdict::Missed,
        Fate::Unknown => Verdict::Unproven,
    }
}

fn decide_open(packets: &mut [PairPacket], open: &Open) {
    for upstream in 0..2 {
        let downstream = 1 - upstream;
        let rate = open.rates[downstream];
        let missed = rate.missed > 0;
        for &at in &open.ambiguous[upstream] {
            packets[at as usize].crossing = match missed {
                true => Crossing::MissedDownstream,
                false => Crossing::Lost,
            };
        }
        for (unproven, matched) in [
            (&open.unproven_data, &open.matched_unproven_data),
            (&open.unproven, &open.matched_unproven),
        ] {
            let absent = unproven[upstream].len() as u64;
            let lost = rate.lost(absent, absent + matched[upstream]);
            for (number, &at) in (0u64..).zip(&unproven[upstream]) {
                // spread evenly among them, since it is unknown which ones
                let is_lost = (number + 1) * lost / absent > number * lost / absent;
                packets[at as usize].crossing = match is_lost {
                    true => Crossing::Lost,
                    false => Crossing::MissedDownstream,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_range_of_recent_transits_is_that_of_the_latest_256(
            taken in prop::collection::vec((-9i64..9, any::<bool>()), 0..700),
        ) {
            let mut recent = RecentTransits::default();
            let mut all = Vec::new();
            for (transit_ns, is_asked) in taken {
                recent.take(transit_ns);
                all.push(transit_ns);
                if is_asked {
                    let latest = &all[all.len().saturating_sub(256)..];
                    let expected = [latest.iter().min(), latest.iter().max()];
                    prop_assert_eq!(recent.range_ns().map(Some), expected.map(Option::<&i64>::copied));
                }
            }
        }
    }

    #[test]
    fn before_the_first_match_the_transit_time_is_zero() {
        let mut recent = RecentTransits::default();
        assert_eq!(recent.range_ns(), [0, 0]);
        recent.take(5);
        assert_eq!(recent.range_ns(), [5, 5]);
    }
}
