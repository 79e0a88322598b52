//! An outage: nothing passes for a while, then packets pass again.

use whydrop_path::fit::{Seen, Silence};
use whydrop_verdict::{Cause, Fact, fact};

use super::{Patterns, Weight};
use crate::observe::Exact;
use crate::observe::Observation;
use crate::thresholds::{FEWEST_LOSSES, SHORTEST_OUTAGE_S, USUAL_RTT_S};

pub fn weigh(seen: &Observation, patterns: &Patterns) -> Vec<Weight> {
    // one silence explains the losses only if most of them fall into it
    if patterns.outage <= 0.0 || share_in_silence(seen) <= 0.5 {
        return Vec::new();
    }
    let veto = seen
        .exact
        .as_ref()
        .and_then(|exact| departures_in_silence(seen, exact));
    vec![Weight::new(Cause::Outage, patterns.outage - patterns.background()).unless(veto)]
}

/// The time in which nothing passed, if it is too long for a burst of losses: the sender's timer expired in
/// it, and the retransmission was lost too.
pub fn silence(seen: &Observation) -> Option<Silence> {
    let silence = seen.pattern?.silence;
    let longest_burst_s = (3.0 * seen.base_rtt_s.unwrap_or(USUAL_RTT_S)).max(SHORTEST_OUTAGE_S);
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

/// An outage lets nothing out. If packets left for most of the time in which all arrivals were lost, a queue
/// was full. Returns the last of them after the first loss, and the length of that time.
fn departures_in_silence(seen: &Observation, exact: &Exact) -> Option<Fact> {
    let silence = seen.pattern.as_ref()?.silence;
    let passages = &exact.passages;
    let departures = (0..passages.len()).map(|index| passages.departure_s(index));
    let within = departures.filter(|out_s| (silence.from_s..silence.until_s).contains(out_s));
    let (out_s, silence_s) = (
        within.fold(0.0, f64::max) - silence.from_s,
        silence.until_s - silence.from_s,
    );
    (out_s > 0.5 * silence_s)
        .then(|| fact!("came-out-in-silence", out_s = out_s, silence_s = silence_s))
}
