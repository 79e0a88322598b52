//! The time in which nothing passed.

use whydrop_path::fit::{Seen, Silence};

use super::observation::Observation;
use crate::thresholds::*;

/// The time in which nothing passed, if it is too long for a burst of losses: the sender's timer expired in
/// it, and the retransmission was lost too.
pub fn silence(seen: &Observation) -> Option<Silence> {
    let silence = seen.pattern?.silence;
    let longest_burst_s =
        (OUTAGE_ROUND_TRIPS * seen.base_rtt_s.unwrap_or(USUAL_RTT_S)).max(SHORTEST_OUTAGE_S);
    let is_long = silence.until_s - silence.from_s > longest_burst_s;
    let lost = silence.lost as u64;
    (is_long && lost >= FEWEST_LOSSES && has_ended(&silence, seen)).then_some(silence)
}

/// True if packets passed after it: for a silence to the end it is unknown whether the path caused it, or
/// that it continued.
fn has_ended(silence: &Silence, seen: &Observation) -> bool {
    let trace = &seen.group_trace.trace;
    let first = trace
        .time_s
        .partition_point(|time_s| *time_s < silence.until_s);
    trace.outcome[first..].contains(&Seen::Passed)
}

/// Share of the losses within it.
pub fn share_in_silence(seen: &Observation) -> f64 {
    let lost = seen.group_trace.trace.lost.max(1) as f64;
    silence(seen).map_or(0.0, |silence| silence.lost as f64 / lost)
}
