//! A policer: a bucket of tokens that drops what exceeds it, and delays nothing.

mod dual_rate;
mod exact;
mod parameters;

use whydrop_path::fit::BucketFit;
use whydrop_verdict::{Cause, Fact, fact};

use super::random_loss::is_on_empty;
use super::{Description, Hypothesis, Patterns, Weight};
use crate::observe::replay_check::ReplayCheck;
use crate::observe::{Burst, Exact, Observation, spent_at_once};
use crate::thresholds::*;
use dual_rate::{Second, dual_rate};
pub use exact::beside_queue;
use exact::{had_room, refuted_exactly, two_buckets_drop};
pub use parameters::dropping_bucket;

pub struct Policer;

impl Hypothesis for Policer {
    fn causes(&self) -> &'static [Cause] {
        &[Cause::Policer]
    }

    fn weigh(&self, seen: &Observation, patterns: &Patterns) -> Vec<Weight> {
        if let Some(confidence) = shown_exactly(seen) {
            return vec![Weight::shown(Cause::Policer, confidence)];
        }
        let nats = patterns.bucket - patterns.background();
        let weight = |fit| Weight::new(Cause::Policer, nats).unless(veto(seen, fit));
        seen.bucket.as_ref().map(weight).into_iter().collect()
    }

    fn describe(&self, _cause: Cause, seen: &Observation) -> Description {
        let headline = fact!("dropped-by-policer", flows = seen.totals.lossy_flows);
        let said = Description {
            facts: facts(seen),
            against: against(seen),
            limited_share: seen.busy_share(),
            ..Description::new(headline)
        };
        match &seen.exact {
            Some(exact) => describe_between(said, seen, exact),
            None => describe_alone(said, seen),
        }
    }
}

/// From one capture.
fn describe_alone(said: Description, seen: &Observation) -> Description {
    let second = dual_rate(seen);
    let two = second.as_ref().and_then(Second::clear);
    let single_share = seen.bucket.as_ref().map_or(0.0, BucketFit::expected_share);
    Description {
        counted: two.map(dual_rate::fact).into_iter().collect(),
        explained: two.map_or(single_share, |two| two.explained_share),
        parameters: parameters::alone(seen, second.as_ref()),
        ..said
    }
}

/// From two captures.
fn describe_between(said: Description, seen: &Observation, exact: &Exact) -> Description {
    let expected = |fit: BucketFit| f64::from(fit.agreement.expected_losses());
    let lost = exact.passages.lost.max(1) as f64;
    let share = dropping_bucket(exact).map_or(0.0, expected) / lost;
    let share = exact.two_buckets.map_or(share, |two| two.explained_share);
    let (parameters, byte_basis) = parameters::between(seen, exact);
    let beside = queue_beside(seen, exact);
    let two = exact.two_buckets.as_ref().map(dual_rate::fact);
    Description {
        counted: beside.into_iter().chain(two).collect(),
        explained: share.min(1.0),
        parameters,
        byte_basis,
        ..said
    }
}

/// The queue of the same hop that delays packets, if this one drops beside it.
fn queue_beside(seen: &Observation, exact: &Exact) -> Option<Fact> {
    beside_queue(seen, exact).filter(|_| !exact.drops_when_full())?;
    let departures = exact.departures.as_ref()?;
    let code = match exact.behind_queue {
        Some(_) => "policer-behind-queue",
        None => "policer-before-queue",
    };
    Some(fact!(
        code,
        drain_rate_bps = departures.rate_bps.value,
        long_wait_s = departures.long_wait_s
    ))
}

fn facts(seen: &Observation) -> Vec<Fact> {
    let Some(fit) = &seen.bucket else {
        return Vec::new();
    };
    let followed = fact!(
        "bucket-followed",
        data_packets = seen.totals.data_packets,
        expected = u64::from(fit.agreement.expected_losses()),
        lost = seen.totals.lost,
        certainty_share = fit.certainty()
    );
    let replayed = seen.replay.as_ref().map(|replay| {
        fact!(
            "bucket-replayed",
            dropped = replay.dropped,
            hits = replay.hits
        )
    });
    let at_bucket = seen.occupancy.as_ref().map(|occupancy| {
        fact!(
            "delay-at-spent-bucket",
            more_s = (occupancy.near_limit_s - occupancy.empty_s).max(0.0),
            queue_s = occupancy.expected_s
        )
    });
    let before_loss = || {
        let at_loss = seen.at_loss.as_ref()?;
        Some(fact!("waited-before-losses", median_s = at_loss.median_s))
    };
    let burst = burst_before(seen).map(|burst| burst_fact(&burst, seen));
    let facts = [
        Some(followed),
        replayed,
        burst,
        at_bucket.or_else(before_loss),
    ];
    facts.into_iter().flatten().collect()
}

fn against(seen: &Observation) -> Vec<(Cause, Fact)> {
    let unmanaged = seen.at_loss.as_ref().map(|at_loss| {
        let why = fact!("delay-unmanaged", median_s = at_loss.median_s);
        (Cause::Aqm, why)
    });
    seen.chance_less_likely()
        .into_iter()
        .chain(unmanaged)
        .collect()
}

/// True if a bucket explains the losses and nothing rules it out.
pub fn stands(seen: &Observation) -> bool {
    let bucket = seen.bucket.as_ref();
    shown_exactly(seen).is_some() || bucket.is_some_and(|fit| veto(seen, fit).is_none())
}

/// The confidence in a bucket that exact fates show, whatever one capture would show.
fn shown_exactly(seen: &Observation) -> Option<f64> {
    let exact = seen.exact.as_ref()?;
    if seen.full_queue_shows() {
        return None;
    }
    if let Some((fit, _)) = beside_queue(seen, exact) {
        return Some(fit.certainty().clamp(0.5, SUREST_BESIDE_QUEUE));
    }
    two_buckets_drop(seen, exact).map(|agreement| agreement.clamp(0.5, SUREST_OF_TWO))
}

/// The reason that rules out the bucket that was fitted to the losses.
fn veto(seen: &Observation, fit: &BucketFit) -> Option<Fact> {
    let Some(exact) = &seen.exact else {
        return refuted(seen, fit);
    };
    if seen.full_queue_shows() {
        return Some(seen.queued_reason());
    }
    if is_on_empty(seen, exact) {
        return Some(had_room(exact));
    }
    refuted(seen, fit).or_else(|| refuted_exactly(seen, exact))
}

/// The reason of one capture.
fn refuted(seen: &Observation, fit: &BucketFit) -> Option<Fact> {
    let at_once = burst_before(seen);
    let replayed = |check: &ReplayCheck| match at_once {
        Some(_) => check.holds_before(fit),
        None => check.holds(fit, seen.are_delays_measurable()),
    };
    let queue = match seen.lost_mostly_before() {
        true => at_once.map(|_| false),
        false => seen.queue_shows(),
    };
    if queue == Some(true) || delays_contradict(fit, seen) {
        return Some(fact!("packets-waited", waited_s = seen.waited_at_loss_s()));
    }
    if !seen.loses_again() || fit.gain() < NEEDED_GAIN {
        return Some(fact!(
            "fits-some-bucket",
            lost = seen.totals.lost,
            runs = seen.group_trace.trace.loss_runs()
        ));
    }
    if !fits(fit) {
        return Some(fact!(
            "bucket-explains-little",
            certainty_share = fit.certainty(),
            lost = seen.totals.lost
        ));
    }
    if let Some(rate_bps) = slower_queue_bps(fit, seen) {
        return Some(fact!(
            "drains-unlike-drops",
            drain_rate_bps = rate_bps,
            rate_bps = fit.rate_bps.value
        ));
    }
    if let Some(check) = seen.replay.filter(|check| !replayed(check)) {
        return Some(fact!(
            "policer-misses",
            rate_bps = fit.rate_bps.value,
            dropped = check.dropped,
            hits = check.hits,
            lost = seen.totals.lost
        ));
    }
    if queue.is_none() {
        return Some(fact!("queue-not-ruled-out", rate_bps = fit.rate_bps.value));
    }
    (!within_reach(fit, seen) || !large_enough(fit, seen)).then(|| {
        let packets = fit.limit_bytes.value / fit.packet_bytes;
        fact!(
            "no-such-bucket",
            rate_bps = fit.rate_bps.value,
            packets = packets.round() as u64
        )
    })
}

fn large_enough(fit: &BucketFit, seen: &Observation) -> bool {
    let packets = fit.limit_bytes.value / fit.packet_bytes;
    packets
        >= if seen.are_delays_measurable() {
            SMALLEST_BUCKET_PACKETS
        } else {
            SEEN_BUCKET_PACKETS
        }
}

/// True if losses come with delays as long as those of a queue of the bucket's size: then they are that
/// queue's.
fn delays_contradict(fit: &BucketFit, seen: &Observation) -> bool {
    // behind a queue all packets arrive at its rate, as through a bucket
    if seen.by_clocks {
        return true;
    }
    let at_loss = seen.at_loss.as_ref();
    at_loss.is_some_and(|at_loss| {
        seen.losses_follow_delay() && at_loss.shorter_median_s > fit.drain_s() / 2.0
    })
}

fn within_reach(fit: &BucketFit, seen: &Observation) -> bool {
    let trace = &seen.group_trace.trace;
    let sent_s = trace.duration_s().min(seen.totals.union_busy_s);
    fit.rate_bps.value < OUT_OF_REACH * trace.passed_bytes * 8.0 / sent_s.max(SHORTEST_TIME_S)
}

/// The rate in bit/s of the path's own queue, if the bucket fills faster than it drains: the bucket would
/// never be empty, so the queue is what dropped.
fn slower_queue_bps(fit: &BucketFit, seen: &Observation) -> Option<f64> {
    let drain = seen.drain.as_ref()?;
    (drain.explained > DELAY_EXPLAINED && drain.rate_bps < fit.rate_bps.value)
        .then_some(drain.rate_bps)
}

/// True if the bucket separates lost packets from others, and predicts most losses.
pub fn fits(fit: &BucketFit) -> bool {
    fit.gain() >= NEEDED_GAIN
        && fit.certainty() >= NEEDED_CERTAINTY
        && fit.expected_share() >= NEEDED_EXPECTED
}

/// The burst that passed a bucket before the capture point, and that no queue would have let through.
pub fn burst_before(seen: &Observation) -> Option<Burst> {
    let fit = (seen.bucket.as_ref()).filter(|_| seen.lost_mostly_before())?;
    spent_at_once(&seen.group_trace.trace, fit)
}

pub fn burst_fact(burst: &Burst, seen: &Observation) -> Fact {
    fact!(
        "burst-came-through",
        burst_bytes = burst.bytes,
        over_s = burst.over_s,
        rate_bps = seen.bucket.as_ref().map(|fit| fit.rate_bps.value)
    )
}

/// The reason against any queue that a bucket gives: packets did not wait.
pub fn no_queue(seen: &Observation) -> Fact {
    if let Some(burst) = burst_before(seen) {
        return burst_fact(&burst, seen);
    }
    if let Some(occupancy) = &seen.occupancy {
        let more_s = (occupancy.near_limit_s - occupancy.empty_s).max(0.0);
        return fact!("no-queue", queue_s = occupancy.expected_s, more_s = more_s);
    }
    fact!(
        "no-queue-at-losses",
        queue_s = seen.bucket.as_ref().map(BucketFit::drain_s),
        waited_s = seen.at_loss.as_ref().map(|at_loss| at_loss.median_s)
    )
}

#[cfg(test)]
mod tests;
