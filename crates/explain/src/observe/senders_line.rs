//! The line behind the capture point: the sender's own card sends one packet after the other.

use whydrop_path::fit::{
    BucketFit, DrainFit, Found, Trace, fit_drain_rate, score_near, search_bucket,
};

use super::group::{Group, GroupTrace, line_rate_bps};
use crate::thresholds::NEEDED_CERTAINTY;

/// A trace as it leaves the line behind the capture point, if there is one, and the fits to it.
pub struct ThroughLine {
    pub group_trace: GroupTrace,
    pub bucket: Option<BucketFit>,
    pub drain: Option<DrainFit>,
    pub line_rate_bps: Option<f64>,
}

fn drain_fit(group_trace: &GroupTrace, base_rtt_s: Option<f64>) -> Option<DrainFit> {
    worth_a_drain_fit(group_trace, base_rtt_s)
        .then(|| fit_drain_rate(&group_trace.trace))
        .flatten()
}

/// Delays that hardly vary need no queue to explain them.
fn worth_a_drain_fit(group_trace: &GroupTrace, base_rtt_s: Option<f64>) -> bool {
    let mut delays: Vec<f32> = group_trace
        .trace
        .delay_s
        .iter()
        .copied()
        .filter(|delay| !delay.is_nan())
        .collect();
    if delays.len() < 20 {
        return false;
    }
    // losses may come with delays that few packets have
    let at = if group_trace.trace.lost > 0 {
        delays.len() * 19 / 20
    } else {
        delays.len() * 3 / 4
    };
    let upper = f64::from(*delays.select_nth_unstable_by(at, f32::total_cmp).1);
    upper > 0.001 && upper > 0.02 * base_rtt_s.unwrap_or(0.0)
}

/// Places packets behind the sender's line, which sends them one after the other. This matters if the capture
/// shows super-segments, or several packets at one time.
pub fn place_behind_line(
    plain: GroupTrace,
    slowest_line_bps: Option<f64>,
    base_rtt_s: Option<f64>,
) -> ThroughLine {
    if let Some(slowest_bps) = slowest_line_bps {
        return behind_line_of_super_segments(plain, slowest_bps, base_rtt_s);
    }
    let drain = drain_fit(&plain, base_rtt_s);
    let found = search_bucket(&plain.trace, None);
    // a queue much faster than the fitted bucket is a line before it
    if let (Some(line), Some(known)) = (&drain, &found)
        && line.explained > LINE_EXPLAINED
        && line.rate_bps > LINE_TO_BUCKET * known.rate_bps()
    {
        let through = plain.trace.through_line(line.rate_bps);
        let behind = search_bucket(&through, Some(known));
        if let Some(behind) = behind.filter(|behind| behind.score() > known.score() + LINE_GAIN) {
            let line_rate_bps = Some(line.rate_bps);
            let bucket = Some(behind.complete(&through));
            let group_trace = GroupTrace {
                trace: through,
                origins: plain.origins,
            };
            let drain = drain_fit(&group_trace, base_rtt_s);
            return ThroughLine {
                group_trace,
                bucket,
                drain,
                line_rate_bps,
            };
        }
    }
    let bucket = found.map(|found| found.complete(&plain.trace));
    ThroughLine {
        group_trace: plain,
        bucket,
        drain,
        line_rate_bps: None,
    }
}

pub fn slowest_line_bps(group: &Group) -> Option<f64> {
    group
        .flows
        .iter()
        .filter_map(|flow| line_rate_bps(flow.flow))
        .reduce(f64::max)
}

/// The line's rate is at least the growth of round-trip times along super-segments; a bottleneck may have
/// stretched all of them, so that the line is faster. The losses decide.
fn behind_line_of_super_segments(
    plain: GroupTrace,
    slowest_bps: f64,
    base_rtt_s: Option<f64>,
) -> ThroughLine {
    let score = |found: &Option<Found>| found.as_ref().map_or(f64::MIN, Found::score);
    let (mut line_bps, mut trace) = (slowest_bps, plain.trace.through_line(slowest_bps));
    let mut found = search_bucket(&trace, None);
    let settled = |found: &Option<Found>| {
        found
            .as_ref()
            .is_some_and(|found| found.left_open() < SETTLED)
    };
    for factor in [1.6, FAST_LINE] {
        if settled(&found) {
            break;
        }
        let through = plain.trace.through_line(slowest_bps * factor);
        let next = search_bucket(&through, found.as_ref());
        if score(&next) > score(&found) + LINE_GAIN {
            (line_bps, trace, found) = (slowest_bps * factor, through, next);
        }
    }
    if let (false, Some(known)) = (settled(&found), &found) {
        let nearby = best_line_near(&plain, slowest_bps, (&trace, known));
        if let Some((nearby_bps, through)) = nearby {
            found = search_bucket(&through, Some(known)).or(found);
            (line_bps, trace) = (nearby_bps, through);
        }
    }
    if is_refuted(&plain.trace, &trace, line_bps) {
        let fast = plain.trace.through_line(slowest_bps * FAST_LINE);
        let is_good = |found: &Found| found.left_open() < 1.0 - NEEDED_CERTAINTY;
        if !found.as_ref().is_some_and(is_good) {
            found = search_bucket(&fast, None);
            (line_bps, trace) = (slowest_bps * FAST_LINE, fast);
        }
    }
    let bucket = found.map(|found| found.complete(&trace));
    // if the line itself causes the delays, no element behind it explains them
    let of_line = (plain.trace.lost == 0).then(|| drain_fit(&plain, base_rtt_s));
    let group_trace = GroupTrace {
        trace,
        origins: plain.origins,
    };
    let explained = |drain: &DrainFit| drain.explained;
    let drain = drain_fit(&group_trace, base_rtt_s)
        .into_iter()
        .chain(of_line.flatten());
    let drain = drain.max_by(|a, b| explained(a).total_cmp(&explained(b)));
    ThroughLine {
        group_trace,
        bucket,
        drain,
        line_rate_bps: Some(line_bps),
    }
}

/// True if packets would wait longer for the line than their round trips exceed the minimum: then the
/// bottleneck stretched the super-segments, and the line is faster.
fn is_refuted(plain: &Trace, through: &Trace, line_bps: f64) -> bool {
    let left_s = through.time_s.iter().zip(&plain.time_s);
    let mut missing_s: Vec<f64> = left_s
        .zip(&plain.delay_s)
        .filter(|(_, delay_s)| !delay_s.is_nan())
        .map(|((leaves_s, arrival_s), delay_s)| leaves_s - arrival_s - f64::from(*delay_s))
        .collect();
    let Some(most) = missing_s.len().checked_sub(1) else {
        return false;
    };
    let nearly_most = most - most / REFUTING;
    let (_, missing_s, _) = missing_s.select_nth_unstable_by(nearly_most, f64::total_cmp);
    *missing_s > TOO_LONG_PACKETS * plain.typical_bytes * 8.0 / line_bps
}

/// One packet in this many refutes a line ...
const REFUTING: usize = 100;
/// ... by the time of this many packets: a round trip is known to within a packet or two, and the minimum may
/// include as much.
const TOO_LONG_PACKETS: f64 = 10.0;

/// The line that fits a known bucket better than the trace that it was found in, if one of a few does.
fn best_line_near(
    plain: &GroupTrace,
    slowest_bps: f64,
    (trace, known): (&Trace, &Found),
) -> Option<(f64, Trace)> {
    let mut highest = score_near(trace, known) + LINE_GAIN;
    let mut best = None;
    for factor in [1.25, 1.8, 2.4, 3.5] {
        let through = plain.trace.through_line(slowest_bps * factor);
        let score = score_near(&through, known);
        if score > highest {
            best = Some((slowest_bps * factor, through));
            highest = score;
        }
    }
    best
}

/// A fit that leaves less uncertainty than this needs no other line.
const SETTLED: f64 = 0.12;

/// Factor over the slowest possible line from which a line has no effect.
const FAST_LINE: f64 = 30.0;
/// A line is searched for if a queue explains this share of the spread of the delays ...
const LINE_EXPLAINED: f64 = 0.3;
/// ... and drains this much faster than the bucket fills.
const LINE_TO_BUCKET: f64 = 1.05;
/// A line is accepted if it makes the losses this much more likely: a factor of 150, for one parameter.
const LINE_GAIN: f64 = 5.0;

#[cfg(test)]
mod tests {
    use whydrop_path::fit::{Seen, TracePacket};

    use super::*;

    /// Ten packets at once every 12 ms, as a queue of 12 Mbit/s releases them.
    fn super_segments(delay_s: impl Fn(usize) -> Option<f32>) -> Trace {
        let observation = |number: usize| TracePacket {
            time_ns: (number / 10) as i64 * 12_000_000,
            bytes: 1_500,
            outcome: Seen::Passed,
            delay_s: delay_s(number % 10),
        };
        Trace::new((0..2_000).map(observation).collect())
    }

    fn refuted(trace: &Trace, line_bps: f64) -> bool {
        is_refuted(trace, &trace.through_line(line_bps), line_bps)
    }

    #[test]
    fn a_line_is_refuted_if_packets_would_wait_for_it_longer_than_they_did() {
        let trace = super_segments(|place| Some(place as f32 * 1e-3));
        // at 8 Mbit/s 3 ms of every 15 remain for the next burst, and accumulate
        assert!(refuted(&trace, 8e6));
        // a measured rate may be slightly low
        assert!(!refuted(&trace, 11.5e6));
        assert!(!refuted(&trace, 12e6) && !refuted(&trace, 1e9));
    }

    #[test]
    fn without_delays_no_line_is_refuted() {
        assert!(!refuted(&super_segments(|_| None), 8e6));
    }
}
