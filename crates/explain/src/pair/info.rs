//! The pair in the form of the JSON contract.

use std::collections::BTreeMap;

use whydrop_pair::{Crossing, Direction, LeftOut, Pair, PairFlow};

use super::timeline::{Timeline, direction_number};
use crate::document::{
    AfterGapInfo, ChangesInfo, ClockIntervalInfo, LeftOutInfo, PairFlowInfo, PairInfo, TransitInfo,
};
use crate::seconds::seconds;

/// A drift known only to be within what clocks do is not known (`clock::fit` then gives an error of this
/// size).
const UNMEASURED_DRIFT_PPM: f64 = 500.0;

/// The whole object.
pub fn pair_info(pair: &Pair, timeline: &Timeline) -> PairInfo {
    let counts = &pair.counts;
    let clock = pair.clock.as_ref();
    let first_ns = pair.summaries[0].first_ns;
    let offset_s = clock
        .zip(first_ns)
        .map(|(clock, first_ns)| clock.offset_at(first_ns) * 1e-9);
    let bounds = clock.and_then(|clock| clock.offset_bounds_ns);
    let bound = |bound_ns: Option<f64>| {
        offset_s
            .zip(bound_ns)
            .map(|(offset, bound)| offset + bound * 1e-9)
    };
    PairInfo {
        from: 0,
        to: 1,
        upstream: upstream(pair).to_owned(),
        order: order(pair).to_owned(),
        matched: counts.matched,
        lost_1_to_2: counts.lost[0],
        lost_2_to_1: counts.lost[1],
        missed_by_1: counts.missed[0],
        missed_by_2: counts.missed[1],
        unmatched: unmatched(pair),
        left_out: left_out(counts.left_out),
        overlap_s: overlap_s(pair),
        clock_offset_s: offset_s,
        clock_offset_low_s: bound(bounds.map(|bounds| bounds.0)),
        clock_offset_high_s: bound(bounds.map(|bounds| bounds.1)),
        clock_drift_ppm: clock
            .filter(|clock| clock.drift_error_ppm < UNMEASURED_DRIFT_PPM)
            .and_then(|clock| clock.intervals.first())
            .map(|interval| interval.drift_ppm),
        clock_drift_error_ppm: clock.map(|clock| clock.drift_error_ppm),
        clock_stretches: clock.map_or_else(Vec::new, |clock| {
            let interval = |interval: &whydrop_clock::ClockInterval| ClockIntervalInfo {
                start: seconds(interval.start_ns),
                end: seconds(interval.end_ns),
                offset_s: interval.offset_ns * 1e-9,
                drift_ppm: interval.drift_ppm,
            };
            clock.intervals.iter().map(interval).collect()
        }),
        transit_1_to_2_s: transit(&mut timeline.transits_ns(0, |_| true)),
        transit_2_to_1_s: transit(&mut timeline.transits_ns(1, |_| true)),
        reordered_1_to_2: counts.overtaken[0],
        reordered_2_to_1: counts.overtaken[1],
        duplicated_1_to_2: counts.duplicated[0],
        duplicated_2_to_1: counts.duplicated[1],
        loss_runs_1_to_2: loss_runs(timeline, 0),
        loss_runs_2_to_1: loss_runs(timeline, 1),
        after_gap: after_gap(timeline),
        changes: changes(pair),
        flows: flows(pair, timeline),
    }
}

/// The capture nearer to the sender, from the bytes of each direction.
fn upstream(pair: &Pair) -> &'static str {
    let mut bytes = [0u64; 2];
    for packet in &pair.packets {
        if let Some(upstream) = pair.flows[packet.flow as usize].direction.upstream() {
            bytes[upstream] += u64::from(packet.payload_bytes);
        }
    }
    let [from_first, from_second] = bytes.map(|bytes| bytes as f64);
    match from_first + from_second {
        0.0 => "unknown",
        both if from_first > 0.8 * both => "capture 1",
        both if from_second > 0.8 * both => "capture 2",
        _ => "both",
    }
}

/// The evidence for the order of the captures; packets that contradict a hint are named before those that only guess.
fn order(pair: &Pair) -> &'static str {
    let order = pair.order;
    if order.contradicted * 2 > order.matched {
        "contradicted"
    } else if order.guessed * 2 > order.matched {
        "guessed"
    } else {
        "known"
    }
}

fn unmatched(pair: &Pair) -> BTreeMap<String, u64> {
    let counts = &pair.counts;
    let both = |of: [u64; 2]| of[0] + of[1];
    [
        (
            Crossing::OutsideOverlap.name(),
            both(counts.outside_overlap),
        ),
        (Crossing::OtherPath.name(), both(counts.other_path)),
        (Crossing::Undecided.name(), both(counts.undecided)),
        (Crossing::Forgotten.name(), both(counts.forgotten)),
        ("not-ip-or-cut-off", both(counts.unmatchable)),
        ("broadcast-or-multicast", both(counts.to_many)),
        ("too-long", both(counts.too_long)),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(reason, count)| (reason.to_owned(), count))
    .collect()
}

fn left_out(left_out: LeftOut) -> Option<LeftOutInfo> {
    (left_out.flows > 0).then(|| LeftOutInfo {
        flows: left_out.flows,
        matched: left_out.matched,
        unmatched: left_out.unmatched.iter().sum(),
    })
}

/// From the later first packet to the earlier last one, on capture 1's clock.
fn overlap_s(pair: &Pair) -> f64 {
    let on_first_clock = |side: usize, time_ns: i64| match (side, &pair.clock) {
        (1, Some(clock)) => clock.first_at(time_ns),
        _ => time_ns,
    };
    let [first, second] = [0, 1].map(|side| {
        let summary = &pair.summaries[side];
        let (from, to) = (summary.first_ns?, summary.last_ns?);
        Some((on_first_clock(side, from), on_first_clock(side, to)))
    });
    first.zip(second).map_or(0.0, |(first, second)| {
        (first.1.min(second.1).saturating_sub(first.0.max(second.0))).max(0) as f64 * 1e-9
    })
}

/// Quantiles of transit times, which get sorted; `None` without any.
fn transit(transits_ns: &mut [i64]) -> Option<TransitInfo> {
    let last = transits_ns.len().checked_sub(1)?;
    let place = |share: f64| (share * last as f64).round() as usize;
    let seconds = |ns: i64| ns as f64 * 1e-9;
    let (before, &mut p99_ns, behind) = transits_ns.select_nth_unstable(place(0.99));
    let max_ns = behind.iter().copied().max().unwrap_or(p99_ns);
    let min_ns = before.iter().copied().min().unwrap_or(p99_ns);
    let p50_ns = match place(0.5) {
        middle if middle < before.len() => *before.select_nth_unstable(middle).1,
        _ => p99_ns,
    };
    Some(TransitInfo {
        min: seconds(min_ns),
        p50: seconds(p50_ns),
        p99: seconds(p99_ns),
        max: seconds(max_ns),
    })
}

fn loss_runs(timeline: &Timeline, direction: usize) -> Vec<(u64, u64)> {
    let mut runs: BTreeMap<u64, u64> = BTreeMap::new();
    for index in &timeline.in_order[direction] {
        let (position, length) = timeline.burst[*index as usize];
        if position == 1 {
            *runs.entry(u64::from(length)).or_default() += 1;
        }
    }
    runs.into_iter().collect()
}

/// A pause is this many times longer than the median gap, and at least this long in nanoseconds.
const PAUSE_OF_MEDIAN: i64 = 20;
const SHORTEST_PAUSE_NS: i64 = 1_000_000;
/// Fewer pauses are not reported.
const FEWEST_PAUSES: usize = 5;

/// Compares packets after a pause with the others, in the direction with more packets.
fn after_gap(timeline: &Timeline) -> Option<AfterGapInfo> {
    let direction = usize::from(timeline.in_order[1].len() > timeline.in_order[0].len());
    let mut gaps: Vec<i64> = timeline.in_order[direction]
        .iter()
        .map(|index| timeline.gap_ns[*index as usize])
        .filter(|gap| *gap >= 0)
        .collect();
    let middle = gaps.len() / 2;
    if gaps.is_empty() {
        return None;
    }
    let median_ns = *gaps.select_nth_unstable(middle).1;
    let pause_ns = median_ns
        .saturating_mul(PAUSE_OF_MEDIAN)
        .max(SHORTEST_PAUSE_NS);
    let mut after = timeline.transits_ns(direction, |index| timeline.gap_ns[index] >= pause_ns);
    let mut others = timeline.transits_ns(direction, |index| timeline.gap_ns[index] < pause_ns);
    if after.len() < FEWEST_PAUSES || others.is_empty() {
        return None;
    }
    let median = |of: &mut [i64]| *of.select_nth_unstable(of.len() / 2).1 as f64 * 1e-9;
    Some(AfterGapInfo {
        direction: [Direction::FirstToSecond, Direction::SecondToFirst][direction].name(),
        gap_s: pause_ns as f64 * 1e-9,
        packets: after.len() as u64,
        transit_median_s: median(&mut after),
        other_median_s: median(&mut others),
    })
}

fn changes(pair: &Pair) -> ChangesInfo {
    let sum = |of: fn(&PairFlow) -> u64| pair.flows.iter().map(of).sum();
    // the decrements of the flow with the most packets represent all
    let busiest = pair.flows.iter().max_by_key(|flow| flow.matched());
    ChangesInfo {
        ttl_hops: busiest.and_then(|flow| flow.hops).map(i64::from),
        dscp: sum(|flow| flow.dscp_changed),
        ecn: sum(|flow| flow.ecn_changed),
        ce_marked: sum(|flow| flow.ce_marked),
        mss: sum(|flow| flow.mss_changed),
        translated_flows: sum(|flow| u64::from(flow.is_translated())),
        renumbered_flows: sum(|flow| u64::from(flow.is_renumbered())),
        sack_left_flows: sum(|flow| u64::from(flow.sack_left > 0)),
    }
}

fn flows(pair: &Pair, timeline: &Timeline) -> Vec<PairFlowInfo> {
    let room = |flow: &PairFlow| Vec::with_capacity(flow.matched() as usize);
    let mut transits: Vec<Vec<i64>> = pair.flows.iter().map(room).collect();
    for (packet, transit_ns) in pair.packets.iter().zip(&timeline.transit_ns) {
        if *transit_ns >= 0 {
            transits[packet.flow as usize].push(*transit_ns);
        }
    }
    pair.flows
        .iter()
        .zip(&mut transits)
        .map(|(flow, transits)| flow_info(flow, transits))
        .collect()
}

fn flow_info(flow: &PairFlow, transits_ns: &mut [i64]) -> PairFlowInfo {
    let downstream = 1 - flow.direction.upstream().unwrap_or(0);
    let other_name = flow.names[downstream].filter(|_| flow.is_translated());
    PairFlowInfo {
        flow: flow.name(),
        flow_at_2: other_name.map(|name| format!("{} > {}", name.source, name.destination)),
        protocol: protocol(flow.protocol),
        direction: [
            Direction::FirstToSecond,
            Direction::SecondToFirst,
            Direction::Unknown,
        ][direction_number(flow.direction)]
        .name(),
        packets_1: flow.packets[0],
        packets_2: flow.packets[1],
        matched: flow.matched(),
        lost: flow.lost(),
        missed_by_1: flow.missed[0],
        missed_by_2: flow.missed[1],
        reordered: flow.overtaken,
        transit: transit(transits_ns),
    }
}

/// Name in the registry of protocol numbers (IANA).
fn protocol(number: u8) -> String {
    match number {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmpv6".to_owned(),
        255 => "fragment".to_owned(),
        other => format!("ip-protocol-{other}"),
    }
}
