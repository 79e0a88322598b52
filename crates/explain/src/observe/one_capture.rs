//! A group of flows observed from one capture: the path behind the capture point, or the path before it.

use whydrop_path::fit::{Filled, fill_waits};
use whydrop_tcp::Flow;

use super::arrivals::Arrivals;
use super::group::{FlowRef, Group, GroupTrace};
use super::observation::Observation;
use super::senders_line::slowest_line_bps;
use super::totals::{base_rtt_s, least_rtt_ns, totals};
use super::trace::{find_partial_bucket, measure_trace};

/// The path between the capture point and the receivers.
pub fn measure_behind(group: &Group) -> Observation {
    let slowest_line_bps = group
        .has_offloaded_segments()
        .then(|| slowest_line_bps(group))
        .flatten();
    let mut group_trace = group.trace();
    let mut unsure_s = 0.0;
    if group.is_by_echoes() {
        // all known ones are near losses, and do not represent the others
        let unknown = Filled {
            waits_s: vec![f32::NAN; group_trace.trace.len()],
            unsure_s: 0.0,
        };
        let filled = fill_waits(&group_trace.trace, &group.hosts(&group_trace)).unwrap_or(unknown);
        group_trace.trace.delay_s = filled.waits_s;
        unsure_s = filled.unsure_s;
    }
    let mut seen = measure_trace(
        group_trace,
        slowest_line_bps,
        totals(group),
        base_rtt_s(group),
    );
    seen.tick_s = tick_s(group).max(unsure_s);
    seen.stood_s = possible_standing_s(group, &seen.group_trace, least_rtt_ns);
    find_partial_bucket(&mut seen);
    if seen.totals.at_receiver {
        seen.arrivals = Arrivals::of(&seen.group_trace.trace);
    }
    if seen.lost_mostly_before() {
        return seen.by_spacing();
    }
    seen
}

/// How long in seconds a queue may have been standing while the fastest packets of the flows passed it;
/// `least_ns` is a flow's shortest round trip. The first packets of a capture find the queue empty if they
/// open a connection, and so do packets after a pause in which everything sent had been acknowledged.
/// Otherwise the delay is unknown, but not longer than the round trip. Packets of a flow with a longer
/// shortest round trip than another flow to the same host may have been delayed by the difference.
fn possible_standing_s(
    group: &Group,
    group_trace: &GroupTrace,
    least_ns: impl Fn(&Flow) -> Option<i64>,
) -> f64 {
    let lossy = group
        .flows
        .iter()
        .filter(|flow| flow.flow.counters.lost > 0);
    let longest_ns = lossy.filter_map(|flow| least_ns(flow.flow)).max();
    let shortest_ns = (group.flows.iter())
        .filter_map(|flow| least_ns(flow.flow))
        .min();
    let (Some(longest_ns), Some(shortest_ns)) = (longest_ns, shortest_ns) else {
        return 0.0;
    };
    let first = group.flows.iter().min_by_key(|flow| flow.flow.first_ns);
    let opens = first.is_some_and(|first| first.flow.offers.iter().any(Option::is_some));
    let trace = &group_trace.trace;
    let measured = trace
        .delay_s
        .iter()
        .copied()
        .filter(|delay_s| !delay_s.is_nan());
    let answered_s = shortest_ns as f64 * 1e-9 + f64::from(measured.fold(0.0, f32::max));
    let mut gaps_s = trace.time_s.windows(2).map(|pair| pair[1] - pair[0]);
    let was_empty = opens || gaps_s.any(|gap_s| gap_s > answered_s);
    let stood_ns = if was_empty {
        longest_ns - shortest_ns
    } else {
        longest_ns
    };
    stood_ns as f64 * 1e-9
}

/// Fewer timestamps may have a common divisor by chance.
const FEWEST_STAMPS: usize = 20;

/// Tick of a group's timestamps in seconds: all are multiples of it, counted from the first.
fn tick_s(group: &Group) -> f64 {
    let count: usize = group
        .flows
        .iter()
        .map(|flow| flow.flow.segments.len())
        .sum();
    if count < FEWEST_STAMPS {
        return 0.0;
    }
    let stamps = group.flows.iter().flat_map(|flow| &flow.flow.segments);
    let mut stamps_ns = stamps.map(|segment| segment.time_ns);
    let Some(first_ns) = stamps_ns.next() else {
        return 0.0;
    };
    let mut tick_ns = 0;
    for stamp_ns in stamps_ns {
        let mut rest_ns = stamp_ns.abs_diff(first_ns);
        if tick_ns > 0 {
            rest_ns %= tick_ns; // most become 0
        }
        while rest_ns > 0 {
            (tick_ns, rest_ns) = (rest_ns, tick_ns % rest_ns);
        }
    }
    tick_ns as f64 * 1e-9
}

/// The path between the senders and the capture point. `None` if few of the losses happened before it, if
/// nothing was lost and the capture is not at the receiver, or if the clocks show no queueing delays.
pub fn measure_before(group: &Group) -> Option<Observation> {
    let mut totals = totals(group);
    let clocked = |flow: &&FlowRef| !flow.flow.account().waits_before().is_empty();
    let of_clocked = group.flows.iter().filter(clocked);
    let payload: u64 = of_clocked
        .map(|flow| flow.flow.counters.payload_bytes)
        .sum();
    let is_before = match totals.lost {
        0 => totals.at_receiver,
        lost => totals.lost_before_capture * 2 >= lost,
    };
    if !is_before || (payload as f64) < CLOCKED_SHARE * totals.payload_bytes as f64 {
        return None;
    }
    totals.lost_before_capture = 0;
    let whole_rtt_s = totals.whole_rtt_s;
    let mut seen = measure_trace(group.trace_as_sent(), None, totals, whole_rtt_s);
    seen.delays_are_own = true;
    seen.by_clocks = true;
    let near_rtt_ns = |flow: &Flow| flow.account().near_rtt_ns;
    seen.stood_s = possible_standing_s(group, &seen.group_trace, near_rtt_ns);
    if seen.totals.at_receiver {
        seen.arrivals = Arrivals::of(&group.trace().trace);
    }
    find_partial_bucket(&mut seen);
    Some(seen)
}

/// Share of the bytes with known queueing delays that is needed for the delays to represent the group.
const CLOCKED_SHARE: f64 = 0.9;
