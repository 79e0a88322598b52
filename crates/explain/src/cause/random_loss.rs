//! Losses that depend on nothing: neither on load, nor on delay, nor on time.

use whydrop_tcp::Limiter;
use whydrop_verdict::{Cause, Fact, Quantity, fact, log_odds};

use super::{Description, Hypothesis, Parameters, Patterns, Weight};
use crate::observe::{Exact, Observation};
use crate::quantities::share;
use crate::thresholds::*;

pub struct RandomLoss;

impl Hypothesis for RandomLoss {
    fn causes(&self) -> &'static [Cause] {
        &[Cause::RandomLoss]
    }

    fn weigh(&self, seen: &Observation, patterns: &Patterns) -> Vec<Weight> {
        weigh(seen, patterns)
    }

    fn describe(&self, _cause: Cause, seen: &Observation) -> Description {
        let link = seen.link_busy();
        let headline = fact!(
            "dropped-at-random",
            flows = seen.totals.lossy_flows,
            link_rate_bps = link.map(|link| link.rate_bps),
            link_is_full = link.is_some_and(|link| link.is_full())
        );
        let probability = loss_probability(seen);
        Description {
            facts: facts(seen),
            against: against(seen),
            parameters: probability
                .map(|share| ("loss_probability".to_owned(), share))
                .into_iter()
                .collect::<Parameters>(),
            explained: 1.0,
            limited_share: limited_by_loss(seen).unwrap_or_else(|| seen.busy_share()),
            ..Description::new(headline)
        }
    }
}

fn weigh(seen: &Observation, patterns: &Patterns) -> Vec<Weight> {
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
        .is_some_and(|backlog| backlog.found_empty > FOUND_NOTHING_SHARE);
    let refuted = exact.bucket.as_ref().is_none_or(|fit| {
        let wrong_by = fit.agreement.corrected_bytes() / exact.passages.lost.max(1) as f64;
        let poor = fit.certainty() < NEEDED_CERTAINTY;
        poor && wrong_by > MISFIT_PACKETS * fit.packet_bytes
            && wrong_by > 2.0 * exact.noise_bytes(fit)
    });
    again
        && on_empty
        && refuted
        && exact.two_buckets.is_none()
        && exact.passages.lost < exact.passages.passed
}

fn facts(seen: &Observation) -> Vec<Fact> {
    let at_loss = seen.at_loss.as_ref();
    let bucket = seen.bucket.as_ref();
    let facts = [
        at_loss.map(|at_loss| {
            fact!(
                "losses-follow-no-queue",
                longer_than_share = at_loss.mean_rank
            )
        }),
        seen.spacing(),
        // with so few losses that a bucket fits them by chance, a misfit means nothing
        bucket
            .filter(|fit| fit.certainty() < NEEDED_CERTAINTY)
            .map(|fit| fact!("best-bucket-poor", certainty_share = fit.certainty())),
        seen.link_busy().map(|link| {
            fact!(
                "link-busy",
                rate_bps = link.rate_bps,
                busy_share = link.share,
                is_full = link.is_full()
            )
        }),
    ];
    facts.into_iter().flatten().collect()
}

fn against(seen: &Observation) -> Vec<(Cause, Fact)> {
    let at_shorter_waits = seen.at_loss.as_ref().map(|at_loss| {
        let longer_than_share = at_loss.mean_rank;
        let why = fact!(
            "losses-not-at-longest-waits",
            longer_than_share = longer_than_share
        );
        (Cause::DeepQueue, why)
    });
    let no_bucket = (Cause::Policer, fact!("no-bucket-better-than-chance"));
    [Some(no_bucket), at_shorter_waits]
        .into_iter()
        .flatten()
        .collect()
}

/// Share of the data packets that were lost.
fn loss_probability(seen: &Observation) -> Option<Quantity> {
    share(seen.totals.lost as usize, seen.totals.data_packets as usize)
}

/// The share of the time in which the sender repaired losses, or had a congestion window reduced by them, but
/// no longer than a link behind it was idle: while the link is busy, its rate is the limit. `None` if the
/// account of the time is unknown.
fn limited_by_loss(seen: &Observation) -> Option<f64> {
    let times_s = &seen.totals.limited_s;
    let all_s: f64 = times_s.iter().sum();
    let by_loss = [
        Limiter::LossRecovery,
        Limiter::CongestionWindow,
        Limiter::Outage,
    ];
    let by_loss_s: f64 = by_loss
        .map(|limiter| times_s[limiter as usize])
        .iter()
        .sum();
    let idle_share = seen.link_busy().map_or(1.0, |link| 1.0 - link.share);
    (all_s > 0.0).then(|| (by_loss_s / all_s).min(idle_share))
}
