//! Losses before the first point and beyond the second, including what they and the sender's pauses show if
//! no acknowledgments were captured.
//!
//! Then a retransmission of a packet that both points hold indicates a loss beyond the second one, unless
//! there is a simpler reason: a packet that others overtake between the points is acknowledged late, and its
//! sender retransmits it (RFC 5681, section 3.2; RFC 8985). And a sender that loses nothing and pauses for
//! longer than a round trip waits for something that only acknowledgments would show: its application, the
//! receiver's window, or late acknowledgments.

use std::collections::{HashMap, HashSet};

use whydrop_pair::{Crossing, PacketFlags, Pair, PairPacket};
use whydrop_path::fit::Seen;
use whydrop_tcp::{Fate, Flow, Kind, Segment, SegmentFlags};

use super::groups::PairGroup;
use super::timeline::Timeline;
use crate::observe::group::Group;
use crate::observe::totals::{Totals, base_rtt_s, totals};
use crate::observe::{Observation, measure_trace};
use crate::thresholds::FEWEST_LOSSES;

/// True if either capture holds packets of the return direction.
pub fn has_acknowledgments(pair: &Pair, group: &PairGroup) -> bool {
    let members = group.members.iter();
    let mut reverse = members.filter_map(|member| pair.flows[*member as usize].reverse);
    reverse.any(|flow| pair.flows[flow as usize].packets != [0, 0])
}

/// Overtaken packets account for most retransmissions if they are this many times the rest.
const MOSTLY: u64 = 10;

/// Arrival times at the second point of packets that others overtook between the points, or that were still
/// in transit when their sender retransmitted them, as in a queue longer than its timer. Empty if
/// acknowledgments show the needless retransmissions.
fn late_arrivals(pair: &Pair, timeline: &Timeline, group: &PairGroup) -> HashSet<i64> {
    if has_acknowledgments(pair, group) {
        return HashSet::new();
    }
    let downstream = 1 - group.direction.upstream().unwrap_or(0);
    let members: HashSet<u32> = group.members.iter().copied().collect();
    let (mut late, mut sent) = (HashSet::new(), HashMap::new());
    for index in timeline
        .in_order
        .iter()
        .flatten()
        .map(|index| *index as usize)
    {
        let packet = &pair.packets[index];
        if !members.contains(&packet.flow) {
            continue;
        }
        if packet.flags.has(PacketFlags::OVERTAKEN) {
            late.insert(packet.time_ns[downstream]);
        }
        let before = sent.insert((packet.flow, packet.sequence), index);
        let repeated = before.filter(|_| packet.flags.has(PacketFlags::RETRANSMISSION));
        let inside = |before: &usize| {
            let out_ns = timeline.sent_ns[*before] + timeline.transit_ns[*before];
            timeline.transit_ns[*before] >= 0 && timeline.sent_ns[index] < out_ns
        };
        late.extend(
            repeated
                .filter(inside)
                .map(|before| pair.packets[before].time_ns[downstream]),
        );
    }
    late
}

/// Retransmissions amid data, as duplicate acknowledgments trigger them. The end of a silence was
/// retransmitted by a timer, which also expires when acknowledgments are late.
pub fn repeated_amid_data(group: &Group) -> u64 {
    let amid = |flow: &Flow| {
        let (mut sent_ns, mut last_ns, mut count) = (HashMap::new(), i64::MIN, 0);
        for segment in &flow.segments {
            if segment.flags.has(SegmentFlags::INFERRED) {
                continue;
            }
            let first_ns = sent_ns.insert(segment.sequence, segment.time_ns);
            let silent_ns = segment.time_ns.saturating_sub(last_ns);
            let age_ns = first_ns.map_or(0, |first_ns| segment.time_ns - first_ns);
            count += u64::from(segment.kind != Kind::New && 2 * silent_ns < age_ns);
            last_ns = segment.time_ns;
        }
        count
    };
    group.flows.iter().map(|flow| amid(flow.flow)).sum()
}

/// A pause is longer than this many times the interval from the handshake to the first data (at least a round
/// trip) plus a margin: acknowledgments are delayed by 40 ms or longer (Linux), and round trips vary.
const PAUSE_ROUND_TRIPS: i64 = 2;
const PAUSE_NS: i64 = 40_000_000;
/// Least share of a flow's time for which pauses may name its cause.
const PAUSED_SHARE: f64 = 0.5;

/// Share of the time from the first to the last data in which a flow paused, if it is large; `None` without
/// the handshake, which bounds the round trip.
pub fn paused_share(flow: &Flow) -> Option<f64> {
    flow.offers[0]?;
    let (first, last) = (flow.segments.first()?, flow.segments.last()?);
    let longest_ns = PAUSE_ROUND_TRIPS * (first.time_ns - flow.first_ns) + PAUSE_NS;
    let gaps_ns = flow
        .segments
        .windows(2)
        .map(|two| two[1].time_ns - two[0].time_ns);
    let paused = gaps_ns.filter(|gap_ns| *gap_ns > longest_ns);
    let paused_ns: f64 = paused.map(|gap_ns| gap_ns as f64).sum();
    let share = paused_ns / (last.time_ns - first.time_ns).max(1) as f64;
    (share > PAUSED_SHARE).then_some(share)
}

/// The losses before the first point, and beyond the second, if there were any.
///
/// A packet that never reached the first point shows there as a gap that a retransmission filled; one lost
/// beyond the second point was captured there and retransmitted.
pub fn losses(pair: &Pair, timeline: &Timeline, group: &PairGroup) -> [Option<Observation>; 2] {
    let late = late_arrivals(pair, timeline, group);
    let inferred = |flags: SegmentFlags| flags.has(SegmentFlags::INFERRED);
    let before = evidence_of_part(&group.at_upstream, |segment| {
        match (segment.fate, inferred(segment.flags)) {
            (Fate::Lost, true) => Some(Seen::Lost),
            (Fate::Unknown, _) => Some(Seen::Unknown),
            _ => Some(Seen::Passed),
        }
    });
    let beyond = evidence_of_part(&group.at_downstream, |segment| {
        match (segment.fate, inferred(segment.flags)) {
            (_, true) => None,
            (Fate::Lost, _) if late.contains(&segment.time_ns) => Some(Seen::Passed),
            (Fate::Lost, _) => Some(Seen::Lost),
            (Fate::Unknown, _) => Some(Seen::Unknown),
            (Fate::Delivered, _) => Some(Seen::Passed),
        }
    });
    let mark_before = |mut seen: Observation| {
        seen.totals.lost_before_capture = seen.totals.lost;
        seen.by_spacing()
    };
    // if overtaking causes most retransmissions, one or two others are no losses either
    let counts = |seen: &Observation| {
        seen.totals.lost >= FEWEST_LOSSES || seen.totals.lost * MOSTLY > late.len() as u64
    };
    [before.map(mark_before), beyond.filter(counts)]
}

/// Lost packets that only one capture could record: the other was not running, or their path does not pass
/// it.
pub fn seen_by_one(pair: &Pair, group: &PairGroup) -> usize {
    let lost_of = |flow: &Flow| {
        let lost = flow.segments.iter().filter(|segment| segment.is_lost());
        let lost = lost.filter(|segment| !segment.flags.has(SegmentFlags::INFERRED));
        lost.map(|segment| segment.time_ns).collect::<Vec<i64>>()
    };
    let flows = group.at_upstream.flows.iter();
    let lost_ns: Vec<i64> = flows.flat_map(|flow| lost_of(flow.flow)).collect();
    if lost_ns.is_empty() {
        return 0;
    }
    let members: HashSet<u32> = group.members.iter().copied().collect();
    let alone = |packet: &&PairPacket| {
        matches!(
            packet.crossing,
            Crossing::OutsideOverlap | Crossing::OtherPath
        ) && members.contains(&packet.flow)
    };
    let alone = pair.packets.iter().filter(alone);
    let alone_ns: HashSet<i64> = alone.flat_map(|packet| packet.time_ns).collect();
    lost_ns.iter().filter(|ns| alone_ns.contains(ns)).count()
}

fn evidence_of_part(
    group: &Group,
    outcome: impl Fn(&Segment) -> Option<Seen>,
) -> Option<Observation> {
    let segments = group.flows.iter().flat_map(|flow| &flow.flow.segments);
    let lost = segments
        .filter(|segment| outcome(segment) == Some(Seen::Lost))
        .count() as u64;
    if lost == 0 {
        return None;
    }
    let trace = group.trace_of(outcome);
    let counted = Totals {
        lost,
        lost_before_capture: 0,
        ..totals(group)
    };
    Some(Observation {
        outside: true,
        ..measure_trace(trace, None, counted, base_rtt_s(group))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, delivered, flow};
    use whydrop_tcp::Offer;

    /// Twenty packets at this distance, the first of them a round trip of 10 ms after the handshake.
    fn sent_every(gap_ms: i64) -> Flow {
        let segments = (0..20).map(|at| delivered((10 + at * gap_ms) * MS, 10));
        let mut flow = flow(1, segments.collect());
        flow.first_ns = 0;
        flow.offers[0] = Some(Offer::default());
        flow
    }

    #[test]
    fn a_pause_is_longer_than_round_trips_and_delayed_acknowledgments() {
        assert_eq!(paused_share(&sent_every(50)), None);
        assert_eq!(paused_share(&sent_every(100)), Some(1.0));
    }

    #[test]
    fn without_a_handshake_no_pause_is_too_long() {
        let mut flow = sent_every(100);
        flow.offers[0] = None;
        assert_eq!(paused_share(&flow), None);
    }
}
