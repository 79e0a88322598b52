//! A bucket against exact fates and departures.

use whydrop_path::ElementSpec;
use whydrop_path::fit::{BucketFit, Interval, PairFit, Seen};
use whydrop_verdict::{Fact, fact};

use crate::hop::models::replay_over;
use crate::observe::{ByteBasis, Exact, Observation};
use crate::thresholds::*;

/// The reason of exact fates and departures.
pub fn refuted_exactly(seen: &Observation, exact: &Exact) -> Option<Fact> {
    let fit = exact.bucket.as_ref()?;
    drains_as_drops(exact, fit)
        .or_else(|| failing_replay(exact, fit))
        .or_else(|| starves(exact, fit))
        .or_else(|| drops_what_waits(seen, exact, fit))
}

/// The rate at which nearly all packets left while packets were queued, if the bucket fills as fast, or
/// nearly as fast and drops other packets than were lost: then the bucket is the backlog of that queue. A
/// policer that happens to have the queue's rate is less likely.
pub(super) fn drains_as_drops(exact: &Exact, fit: &BucketFit) -> Option<Fact> {
    let departures = exact.departures.as_ref()?;
    let drains_bps = departures.rate_bps.value;
    let apart = (fit.rate_bps.value / drains_bps).ln().abs();
    let alike = apart < SAME_RATES
        || (apart < -SLOWER_SHARE.ln() && exact.bucket_replay(fit).agreement < EXACT_AGREEMENT);
    let served = departures.served as f64 > NEARLY_ALL_SERVED * exact.passages.passed as f64;
    (alike && served).then(|| fact!("drains-as-drops", drain_rate_bps = drains_bps))
}

/// Losses at the longest delays of a queue that is seen to drain are its own, unless a bucket, or two, drop
/// exactly those packets.
pub(super) fn drops_what_waits(seen: &Observation, exact: &Exact, fit: &BucketFit) -> Option<Fact> {
    exact.departures.as_ref()?;
    let agreement = || {
        let one = exact.bucket_replay(fit).agreement;
        two_replayed(exact).map_or(one, |two| two.max(one))
    };
    let queued = exact.behind_queue.is_none()
        && with_the_longest_waits(seen)
        && agreement() < EXACT_AGREEMENT;
    queued.then(|| seen.queued_reason())
}

fn with_the_longest_waits(seen: &Observation) -> bool {
    let at_loss = seen.at_loss.as_ref();
    at_loss.is_some_and(|at_loss| at_loss.mean_rank > RELATED_RANK)
}

pub fn had_room(exact: &Exact) -> Fact {
    let Some(fit) = &exact.bucket else {
        return fact!("no-bucket-better-than-chance");
    };
    let room_bytes = fit.agreement.corrected_bytes() / exact.passages.lost.max(1) as f64;
    fact!(
        "bucket-had-room",
        rate_bps = fit.rate_bps.value,
        room_bytes = room_bytes
    )
}

/// Agreement of a freely replayed dual-rate policer with the losses.
fn two_replayed(exact: &Exact) -> Option<f64> {
    let two = exact.two_buckets.as_ref()?;
    let PairFit {
        committed, peak, ..
    } = two.pair;
    let bucket = |fit: BucketFit| (fit.rate_bps.value, fit.limit_bytes.value);
    let (rate_bps, burst_bytes) = bucket(committed);
    let policer = ElementSpec::policer(rate_bps, burst_bytes)
        .with_peak(Some(bucket(peak)))
        .with_overhead(two.basis.map_or(0, ByteBasis::overhead_bytes));
    let replay = replay_over(&exact.passages, policer.into(), exact.idle_wait_s());
    Some(replay.agreement())
}

/// The same if no queue delays packets and it drops most of the lost packets exactly.
pub fn two_buckets_drop(seen: &Observation, exact: &Exact) -> Option<f64> {
    let agreement = two_replayed(exact)?;
    let again = seen.group_trace.trace.loss_runs() >= FEWEST_RUNS_OF_TWO;
    (again && exact.departures.is_none() && agreement > TWO_AGREEMENT).then_some(agreement)
}

/// The bucket, if it fills clearly slower than the queue of the hop drains, and the reason that this gives
/// against the queue: another element than the queue drops.
///
/// Unless other traffic shares the queue, or may, because its rate is imprecise: then the captured packets
/// get less than the drain rate, and losses at the longest delays are the queue's own.
pub fn beside_queue(seen: &Observation, exact: &Exact) -> Option<(BucketFit, Fact)> {
    let departures = exact.departures.as_ref()?;
    let may_be_shared = departures.unseen_share > 0.0 || !is_sharp(departures.rate_bps);
    // an element behind a queue drops while that queue is long
    let may_wait = with_the_longest_waits(seen) && exact.behind_queue.is_none();
    if may_wait && may_be_shared || waits_for_its_backlog(seen, exact) {
        return None;
    }
    let drains = departures.rate_bps.low.unwrap_or(departures.rate_bps.value);
    let slower = |fit: &BucketFit| {
        fit.rate_bps
            .high
            .is_some_and(|high| high < SLOWER_SHARE * drains)
    };
    let again = seen.group_trace.trace.loss_runs() >= FEWEST_RUNS;
    let fit = exact
        .behind_queue
        .map(|behind| behind.fit)
        .or(exact.bucket)
        .filter(|fit| again && slower(fit) && is_exact(exact, fit))?;
    if may_wait && exact.bucket_replay(&fit).agreement < EXACT_AGREEMENT {
        return None;
    }
    let fails = || failing_replay(exact, &fit).is_some() || starves(exact, &fit).is_some();
    if exact.behind_queue.is_none() && fails() {
        return None;
    }
    let why = fact!(
        "drains-unlike-drops",
        drain_rate_bps = departures.rate_bps.value,
        rate_bps = fit.rate_bps.value
    );
    Some((fit, why))
}

/// True if the bucket explains the losses with almost no correction.
fn is_exact(exact: &Exact, fit: &BucketFit) -> bool {
    let lost = exact.passages.lost.max(1) as f64;
    let noise_bytes = CORRECTED_NOISE * exact.noise_bytes(fit);
    let corrected_bytes = match exact.behind_queue {
        Some(_) => noise_bytes.max(CORRECTED_PACKETS * fit.packet_bytes),
        None => noise_bytes,
    };
    fit.gain() > NEEDED_GAIN
        && fit.certainty() > EXACT_CERTAINTY
        && f64::from(fit.agreement.expected_losses()) > EXACT_EXPECTED * lost
        && fit.limit_bytes.value > SMALLEST_BUCKET_PACKETS * fit.packet_bytes
        && fit.agreement.corrected_bytes() < corrected_bytes * lost
}

/// True if packets that found the bucket nearly empty waited for as long as its backlog takes at its own
/// rate: behind a policer the queue drains faster, and so never holds as much.
pub(super) fn waits_for_its_backlog(seen: &Observation, exact: &Exact) -> bool {
    let occupancy = seen.occupancy.as_ref();
    exact.behind_queue.is_none()
        && occupancy.is_some_and(|occupancy| {
            let more_s = occupancy.near_limit_s - occupancy.empty_s;
            more_s > SLOWER_SHARE * occupancy.expected_s
        })
}

fn is_sharp(rate: Interval) -> bool {
    let width = rate.low.zip(rate.high).map(|(low, high)| high - low);
    width.is_some_and(|width| width < SHARP_SHARE * rate.value)
}

/// The fact that nothing passed for so long, repeatedly, that the bucket would have let packets pass.
pub(super) fn starves(exact: &Exact, fit: &BucketFit) -> Option<Fact> {
    let passages = &exact.passages;
    let bytes_per_s = fit.rate_bps.value / 8.0;
    let noise_s = 2.0 * exact.noise_bytes(fit) / bytes_per_s;
    let fates = (0..passages.len()).filter(|index| passages.outcome[*index] != Seen::Unknown);
    let fates: Vec<usize> = fates.collect();
    let runs = fates.chunk_by(|a, b| passages.outcome[*a] == passages.outcome[*b]);
    let starved = runs.filter(|run| passages.outcome[run[0]] == Seen::Lost);
    let starved = starved.map(|run| {
        let lasts_s = passages.arrival_s[run[run.len() - 1]] - passages.arrival_s[run[0]];
        let filled_bytes = bytes_per_s * (lasts_s - noise_s).max(0.0);
        ((filled_bytes / fit.packet_bytes) as usize).min(run.len() - 1)
    });
    let starved: usize = starved.sum();
    (starved as f64 > STARVED_SHARE * passages.lost as f64).then(|| missing(exact, fit))
}

/// The fact that a freely replayed bucket does not drop the lost packets: too few of the losses that it
/// claims, and of its drops, agree.
pub(super) fn failing_replay(exact: &Exact, fit: &BucketFit) -> Option<Fact> {
    let is_refuted = !exact.bucket_replay(fit).check.holds(fit, true);
    is_refuted.then(|| missing(exact, fit))
}

fn missing(exact: &Exact, fit: &BucketFit) -> Fact {
    let replay = exact.bucket_replay(fit);
    fact!(
        "policer-misses",
        rate_bps = fit.rate_bps.value,
        dropped = replay.dropped,
        hits = replay.hits,
        lost = replay.lost
    )
}
