//! Two token buckets in company, fitted together: a committed and a peak rate (RFC 2698, RFC 4115).
//!
//! A packet passes if both have tokens for it, and takes them from both; what is dropped takes none. So a loss is proof
//! against one of the two only, and either bucket can be fitted while the other stays as it is, in turns, until neither
//! moves. What found room in both is another's loss, and is paid for as chance.

use super::beside::{LEAST_SHARE, chance, claims, pay_for_others, unclaimed, without};
use super::bucket::BucketFit;
use super::envelope::Envelope;
use super::exact::ExactFates;
use super::lanes::RateAndLimit;
use super::search::Point;
use super::trace::Trace;

/// Two buckets, and how well they account for the losses together.
#[derive(Debug, Clone, Copy)]
pub struct PairFit {
    /// The slower one, and the faster. Each has the agreement of both.
    pub committed: BucketFit,
    pub peak: BucketFit,
    /// Losses that were short of tokens in this one alone: of the committed bucket, and of the peak one.
    pub alone: [usize; 2],
    /// Losses that are one or the other's.
    pub explained: usize,
}

/// A bucket, and the one that accounts best for the losses that find room in it: a start for [`climb_pair`], the slower
/// one first. `None` where no loss finds room.
pub fn with_companion(
    trace: &Trace,
    envelope: &Envelope,
    known: &BucketFit,
) -> Option<[BucketFit; 2]> {
    let room_bytes = ROOM * known.packet_bytes;
    let claims = claims(trace, [known.rate_and_limit()]);
    let theirs: Vec<bool> = claims
        .iter()
        .map(|claim| claim.short_bytes < -room_bytes)
        .collect();
    if !theirs.contains(&true) {
        return None;
    }
    let other = envelope.of_losses(trace, &theirs);
    let mut pair = [*known, other];
    pair.sort_by(|a, b| a.rate_bps.value.total_cmp(&b.rate_bps.value));
    Some(pair)
}

/// A loss finds room where this share of a packet more would have passed.
const ROOM: f64 = 0.1;

/// Times that both buckets are fitted in turn, at most.
const ROUNDS: usize = 8;
/// A round that gains less, nats, is the last.
const ROUND_GAIN: f64 = 0.5;

/// Two buckets in company on the way up: rates (bytes/s) and limits, the slower one first, and how well they account for
/// the losses.
#[derive(Debug, Clone, Copy)]
pub struct Ascent {
    buckets: [RateAndLimit; 2],
    pub score: f64,
}

/// Climbs from two buckets, each in turn while the other stays. `None` where most of the losses find room in both. See
/// [`refine_exact`](super::refine_exact) for `blur_bytes`.
pub fn climb_pair(trace: &Trace, known: [&BucketFit; 2], blur_bytes: f64) -> Option<Ascent> {
    let start = known.map(BucketFit::rate_and_limit);
    ascend(trace, start, blur_bytes, |fates, from| fates.climb(from))
}

fn ascend(
    trace: &Trace,
    mut buckets: [RateAndLimit; 2],
    blur_bytes: f64,
    up: impl Fn(&ExactFates, RateAndLimit) -> Point,
) -> Option<Ascent> {
    let mut best: Option<Ascent> = None;
    for _ in 0..ROUNDS {
        let others = others(trace, buckets)?;
        let mut fates = ExactFates::new(&without(trace, &others), blur_bytes);
        let mut score = f64::MIN;
        for place in [1, 0] {
            fates.set_companion(buckets[1 - place]);
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

/// Losses that find room in both; `None` where they are most.
fn others(trace: &Trace, buckets: [RateAndLimit; 2]) -> Option<Vec<usize>> {
    let others = unclaimed(&claims(trace, buckets));
    (others.len() as f64 <= LEAST_SHARE * trace.lost as f64).then_some(others)
}

impl Ascent {
    /// Looks around each bucket too, and completes the fit with intervals.
    pub fn complete(self, trace: &Trace, blur_bytes: f64) -> Option<PairFit> {
        let around = |fates: &ExactFates, from| fates.look_around(fates.climb(from));
        let top = ascend(trace, self.buckets, blur_bytes, around)?;
        let others = others(trace, top.buckets)?;
        let mut fates = ExactFates::new(&without(trace, &others), blur_bytes);
        let fits = [0, 1].map(|place| {
            fates.set_companion(top.buckets[1 - place]);
            let (x, y) = top.buckets[place];
            let known = BucketFit::start(trace, top.buckets[place]);
            let mut fit = fates.complete(Point { x, y, score: 0.0 }, &known);
            pay_for_others(&mut fit, trace, others.len());
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
