//! Dual-rate policers: two token buckets, of a committed and of a peak rate (RFC 2698, RFC 4115), fitted
//! together.
//!
//! A packet passes if both have tokens for it, and takes them from both; a dropped packet takes none. So a
//! loss needs only one of the two, and the buckets can be fitted in turns, with the other fixed, until
//! neither moves. A loss with room in both has another cause, and costs as much as chance.

use super::beside::{LEAST_SHARE, chance, charge_other_losses, claims, unclaimed, without};
use super::bucket::BucketFit;
use super::envelope::Envelope;
use super::exact::{ExactFates, FINEST, OPEN_END};
use super::profile::Interval;
use super::rows::RateAndLimit;
use super::search::Point;
use super::trace::Trace;

/// Two buckets, and how well they explain the losses together.
#[derive(Debug, Clone, Copy)]
pub struct PairFit {
    /// The slower one, and the faster. Each has the agreement of both.
    pub committed: BucketFit,
    pub peak: BucketFit,
    /// Losses that lacked tokens in this one alone: of the committed bucket, and of the peak one.
    pub alone: [usize; 2],
    /// Losses that either explains.
    pub explained: usize,
}

/// A bucket, and others that best explain the losses that find room in it: starts for [`climb_pair`], the
/// slower one first. None if no loss finds room.
pub fn with_second_buckets(
    trace: &Trace,
    envelope: &Envelope,
    known: &BucketFit,
) -> Vec<[BucketFit; 2]> {
    let room_bytes = ROOM * known.packet_bytes;
    let claims = claims(trace, [known.rate_and_limit()]);
    let theirs: Vec<bool> = claims
        .iter()
        .map(|claim| claim.short_bytes < -room_bytes)
        .collect();
    if !theirs.contains(&true) {
        return Vec::new();
    }
    let in_order = |other| {
        let mut pair = [*known, other];
        pair.sort_by(|a, b| a.rate_bps.value.total_cmp(&b.rate_bps.value));
        pair
    };
    envelope.of_losses(trace, &theirs).map(in_order).to_vec()
}

/// A loss found room if this share of a packet more would have passed.
const ROOM: f64 = 0.1;

/// Most rounds of fitting both buckets in turn.
const ROUNDS: usize = 8;
/// A round that gains less, nats, is the last.
const ROUND_GAIN: f64 = 0.5;

/// Two buckets of a dual-rate policer during a climb: rates (bytes/s) and limits, the slower one first, and
/// how well they explain the losses.
#[derive(Debug, Clone, Copy)]
pub struct Ascent {
    buckets: [RateAndLimit; 2],
    pub score: f64,
}

/// Timestamp noise of the first climbs, in packets: cheap corrections widen the optima.
const FIRST_NOISE_PACKETS: [f64; 2] = [1.0, 0.25];

/// Climbs from two buckets, fitting each in turn with the other fixed. `None` if most of the losses find room
/// in both. See [`refine_exact`](super::refine_exact) for `noise_bytes`.
pub fn climb_pair(trace: &Trace, known: [&BucketFit; 2], noise_bytes: f64) -> Option<Ascent> {
    let start = known.map(BucketFit::rate_and_limit);
    let first = FIRST_NOISE_PACKETS.map(|packets| packets * trace.typical_bytes);
    let mut wide = first.into_iter().filter(|noise| *noise > noise_bytes);
    let widely = wide.try_fold(start, |buckets, noise| {
        Some(ascend(trace, buckets, noise, ExactFates::climb)?.buckets)
    });
    [Some(start), widely]
        .into_iter()
        .flatten()
        .filter_map(|start| ascend(trace, start, noise_bytes, ExactFates::climb))
        .max_by(|a, b| a.score.total_cmp(&b.score))
}

/// How well one bucket explains the losses, in the units of [`Ascent::score`].
pub fn score_alone(trace: &Trace, fit: &BucketFit, noise_bytes: f64) -> Option<f64> {
    // a bucket with room for everything
    const ROOMY: RateAndLimit = (1e15, 1e15);
    let others = others(trace, [fit.rate_and_limit(), ROOMY])?;
    let mut fates = ExactFates::new(&without(trace, &others), noise_bytes);
    fates.set_second_bucket(ROOMY);
    let top = fates.along_the_ridge(fates.climb(fit.rate_and_limit()));
    Some(top.score + chance(trace, others.len()))
}

fn ascend(
    trace: &Trace,
    mut buckets: [RateAndLimit; 2],
    noise_bytes: f64,
    up: impl Fn(&ExactFates, RateAndLimit) -> Point,
) -> Option<Ascent> {
    let mut best: Option<Ascent> = None;
    for _ in 0..ROUNDS {
        let others = others(trace, buckets)?;
        let mut fates = ExactFates::new(&without(trace, &others), noise_bytes);
        let mut score = f64::MIN;
        for place in [1, 0] {
            fates.set_second_bucket(buckets[1 - place]);
            let top = up(&fates, buckets[place]);
            buckets[place] = (top.x, top.y);
            score = top.score;
        }
        score += chance(trace, others.len());
        let gained = best.map_or(f64::MAX, |best| score - best.score);
        if gained > 0.0 {
            best = Some(Ascent { buckets, score });
        }
        if gained < ROUND_GAIN {
            break;
        }
    }
    best
}

/// Losses that find room in both; `None` if these are the majority.
fn others(trace: &Trace, buckets: [RateAndLimit; 2]) -> Option<Vec<usize>> {
    let others = unclaimed(&claims(trace, buckets));
    (others.len() as f64 <= LEAST_SHARE * trace.lost as f64).then_some(others)
}

/// Scores of equally good optima differ by less, nats: half the 95 % quantile of chi-squared with four
/// degrees of freedom.
const AS_GOOD: f64 = 4.74;
/// Optima to compare, the highest first.
const MOST_TOPS: usize = 4;
/// Optima closer than this, relative, are one.
const ONE_TOP: f64 = 0.01;

/// The best of some optima. If others are as good, it is the one with the most room around it (Occam's
/// factor: the one that needs the least exact parameters), and its intervals include the others.
pub fn best_of_tops(trace: &Trace, mut tops: Vec<Ascent>, noise_bytes: f64) -> Option<PairFit> {
    tops.sort_by(|a, b| b.score.total_cmp(&a.score));
    let highest = tops.first()?.score;
    let mut apart: Vec<Ascent> = Vec::new();
    for top in tops.into_iter().filter(|top| top.score > highest - AS_GOOD) {
        if apart.len() < MOST_TOPS && !apart.iter().any(|other| other.is_near(&top)) {
            apart.push(top);
        }
    }
    let fits = apart.into_iter();
    let mut fits: Vec<PairFit> = fits
        .filter_map(|top| top.complete(trace, noise_bytes))
        .collect();
    let score = |fit: &PairFit| fit.committed.agreement.score(noise_bytes);
    let highest = fits.iter().map(score).fold(f64::MIN, f64::max);
    fits.retain(|fit| score(fit) > highest - AS_GOOD);
    let evidence = |fit: &PairFit| score(fit) + fit.room();
    let best = fits
        .iter()
        .max_by(|a, b| evidence(a).total_cmp(&evidence(b)))?;
    let mut best = *best;
    for fit in &fits {
        best.hold(fit);
    }
    Some(best)
}

impl PairFit {
    /// Logarithm of the share of all rates and limits (each by its logarithm) that are as good.
    fn room(&self) -> f64 {
        let log_width = |interval: Interval| {
            let (low, high) = (
                interval.low.unwrap_or(interval.value / OPEN_END),
                interval.high.unwrap_or(interval.value * OPEN_END),
            );
            (high / low).ln().max(FINEST).ln()
        };
        let bucket = |fit: &BucketFit| log_width(fit.rate_bps) + log_width(fit.limit_bytes);
        bucket(&self.committed) + bucket(&self.peak)
    }

    /// Widens the intervals to include those of another.
    fn hold(&mut self, other: &Self) {
        let widen = |own: &mut Interval, other: Interval| *own = own.holding(other);
        for (own, other) in [
            (&mut self.committed, &other.committed),
            (&mut self.peak, &other.peak),
        ] {
            widen(&mut own.rate_bps, other.rate_bps);
            widen(&mut own.limit_bytes, other.limit_bytes);
        }
    }
}

impl Ascent {
    fn is_near(&self, other: &Self) -> bool {
        let near = |a: f64, b: f64| (a / b).ln().abs() < ONE_TOP;
        let mut pairs = self.buckets.iter().zip(&other.buckets);
        pairs.all(|(a, b)| near(a.0, b.0) && near(a.1, b.1))
    }

    /// Searches around each bucket too, and completes the fit with intervals.
    fn complete(self, trace: &Trace, noise_bytes: f64) -> Option<PairFit> {
        let around = |fates: &ExactFates, from| fates.look_around(fates.climb(from));
        let top = ascend(trace, self.buckets, noise_bytes, around)?;
        let others = others(trace, top.buckets)?;
        let mut fates = ExactFates::new(&without(trace, &others), noise_bytes);
        let fits = [0, 1].map(|place| {
            fates.set_second_bucket(top.buckets[1 - place]);
            let (x, y) = top.buckets[place];
            let known = BucketFit::start(trace, top.buckets[place]);
            let mut fit = fates.complete(Point { x, y, score: 0.0 }, &known);
            charge_other_losses(&mut fit, trace, others.len());
            fit
        });
        let claims = claims(trace, top.buckets);
        let alone = [0, 1].map(|bucket| {
            let its = claims.iter().filter(|claim| claim.bucket == Some(bucket));
            its.filter(|claim| claim.alone).count()
        });
        Some(PairFit {
            committed: fits[0],
            peak: fits[1],
            alone,
            explained: trace.lost - others.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::envelope::envelope;
    use super::super::{Seen, TracePacket};
    use super::*;
    use crate::{Arrival, PathElement, Policer, Random};

    /// Bursts of random length at 1 Gbit/s with random pauses, through a policer, with a few random losses.
    fn policed(mut policer: Policer, lost_by_chance: f64) -> Trace {
        let mut random = Random::new(11);
        let (mut time_ns, mut seen) = (0i64, Vec::new());
        for _ in 0..150 {
            time_ns += random.below(12_000_000) as i64;
            for _ in 0..5 + random.below(80) {
                time_ns += 12_000;
                let bytes = 1500;
                let dropped = policer.arrive(Arrival { time_ns, bytes }).is_dropped();
                let lost = dropped || random.chance(lost_by_chance);
                seen.push(TracePacket {
                    time_ns,
                    bytes,
                    outcome: if lost { Seen::Lost } else { Seen::Passed },
                    delay_s: None,
                });
            }
        }
        Trace::new(seen)
    }

    fn fitted(trace: &Trace) -> Option<PairFit> {
        let starts = envelope(trace)?.pair(trace)?;
        let top = climb_pair(trace, [&starts[0], &starts[1]], 30.0)?;
        best_of_tops(trace, vec![top], 30.0)
    }

    #[test]
    fn all_four_numbers_are_found_despite_random_losses() {
        for lost_by_chance in [0.0, 0.005] {
            let policer = Policer::new(55_000_000, 120_000).with_peak(300_000_000, 30_000);
            let trace = policed(policer, lost_by_chance);
            let fit = fitted(&trace).expect("two buckets");
            for (bucket, (rate, burst)) in [
                (fit.committed, (55e6, 120_000.0)),
                (fit.peak, (300e6, 30_000.0)),
            ] {
                let off = |value: f64, truth: f64| (value / truth - 1.0).abs();
                assert!(off(bucket.rate_bps.value, rate) < 0.01, "{bucket:?}");
                assert!(off(bucket.limit_bytes.value, burst) < 0.05, "{bucket:?}");
            }
            assert!(fit.alone.iter().all(|alone| *alone > 20), "{fit:?}");
        }
    }

    #[test]
    fn two_buckets_are_no_better_than_the_one_that_dropped() {
        let trace = policed(Policer::new(55_000_000, 120_000), 0.0);
        let (one, _) = envelope(&trace).unwrap().single(&trace);
        let alone = score_alone(&trace, &one, 30.0).expect("it drops them");
        let two = fitted(&trace).map(|fit| fit.committed.agreement.score(30.0));
        assert!(two.is_none_or(|two| two < alone + 10.0), "{two:?} {alone}");
    }
}
