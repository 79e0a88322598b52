//! Losses that depend on nothing: neither on load, nor on delay, nor on time.

use whydrop_verdict::{Cause, Fact, fact, log_odds};

use super::{Patterns, Weight};
use crate::observe::Exact;
use crate::observe::Observation;
use crate::thresholds::*;

/// Confidence for losses in runs, in an empty hop, that no bucket explains.
const ON_EMPTY_CONFIDENCE: f64 = 0.6;
/// Share of lost packets that must have found nothing queued ...
const FOUND_NOTHING: f64 = 0.9;
/// ... and least error of the best bucket as a share of a packet for each loss, which must also exceed the
/// timestamp noise.
const WRONG_BY: f64 = 0.25;

pub fn weigh(seen: &Observation, patterns: &Patterns) -> Vec<Weight> {
    let nats = seen.holes.left_nats() - patterns.background();
    let shown = |confidence: f64| {
        let least = log_odds(confidence) + seen.exact_nats();
        vec![Weight::new(Cause::RandomLoss, nats.max(least))]
    };
    match () {
        () if (seen.exact.as_ref()).is_some_and(|exact| is_on_empty(seen, exact)) => {
            shown(ON_EMPTY_CONFIDENCE)
        }
        () if leaves_holes_outside(seen, patterns) => shown(HOLES_CONFIDENCE),
        () => vec![Weight::new(Cause::RandomLoss, nats).unless(veto(seen, patterns))],
    }
}

/// Losses outside of two captures, in runs that leave gaps there, which a queue would close.
fn leaves_holes_outside(seen: &Observation, patterns: &Patterns) -> bool {
    let enough = seen.totals.lost >= FEWEST_BY_CHANCE;
    seen.outside && patterns.clumps >= 2 && seen.holes.are_left() && enough
}

fn veto(seen: &Observation, patterns: &Patterns) -> Option<Fact> {
    let trace = &seen.group_trace.trace;
    let (clumps, lost) = (patterns.clumps, seen.totals.lost);
    if trace.lost >= trace.passed && clumps >= 2 {
        Some(fact!(
            "most-were-lost",
            lost = trace.lost,
            sent = trace.len()
        ))
    } else if patterns.few || trace.lost >= trace.passed {
        Some(fact!("too-few-clumps", clumps = clumps, lost = lost))
    } else if !seen.are_delays_measured() && !are_single(seen) {
        let mean_run = trace.lost as f64 / trace.loss_runs() as f64;
        let code = match seen.holes.are_left() {
            true => "losses-in-runs-without-queue",
            false => "losses-in-runs",
        };
        Some(fact!(code, mean_run = mean_run))
    } else {
        None
    }
}

/// True if losses that leave no delays to evaluate occur singly, and may be chance: independent losses rarely
/// form runs, and a full queue drops several packets of one burst.
pub fn may_be_single(seen: &Observation, patterns: &Patterns) -> bool {
    !seen.are_delays_measured() && veto(seen, patterns).is_none()
}

fn are_single(seen: &Observation) -> bool {
    let trace = &seen.group_trace.trace;
    let runs = trace.loss_runs() as f64;
    let chance_of_a_second = trace.lost as f64 / trace.len().max(1) as f64;
    trace.lost as f64 / runs.max(1.0) < LONGER_RUNS / (1.0 - chance_of_a_second)
}

/// True for losses in runs, in an empty hop, that no bucket explains without a correction at each: the path
/// drops independently of load.
pub fn is_on_empty(seen: &Observation, exact: &Exact) -> bool {
    let pattern = seen.pattern.as_ref();
    let again = seen.group_trace.trace.loss_runs() >= 2
        && pattern.is_none_or(|pattern| pattern.clumps >= 2);
    let on_empty = exact
        .backlog
        .as_ref()
        .is_some_and(|backlog| backlog.found_empty > FOUND_NOTHING);
    let refuted = exact.bucket.as_ref().is_none_or(|fit| {
        let wrong_by = fit.agreement.corrected_bytes() / exact.passages.lost.max(1) as f64;
        let poor = fit.certainty() < NEEDED_CERTAINTY;
        poor && wrong_by > WRONG_BY * fit.packet_bytes && wrong_by > 2.0 * exact.noise_bytes(fit)
    });
    again
        && on_empty
        && refuted
        && exact.two_buckets.is_none()
        && exact.passages.lost < exact.passages.passed
}
