//! Two token buckets in company, fitted together: a committed and a peak rate (RFC 2698, RFC 4115).
//!
//! A packet passes if both have tokens for it, and takes them from both; what is dropped takes none. So a loss is proof
//! against one of the two only, and either bucket can be fitted while the other stays as it is, in turns, until neither
//! moves. What found room in both is another's loss, and is paid for as chance.

use super::beside::{LEAST_SHARE, claims, pay_for_others, unclaimed, without};
use super::bucket::BucketFit;
use super::envelope::Envelope;
use super::exact::refine_in_company;
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

/// A bucket, and the one that accounts best for the losses that find room in it: a start for [`refine_pair`], the slower
/// one first. `None` where no loss finds room.
pub fn with_companion(
    trace: &Trace,
    envelope: &Envelope,
    known: &BucketFit,
) -> Option<[BucketFit; 2]> {
    let room_bytes = ROOM * known.packet_bytes;
    let claims = claims(trace, [known]);
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

/// Fits two buckets near `known`. `None` where most of the losses find room in both. See
/// [`refine_exact`](super::refine_exact) for `blur_bytes`.
pub fn refine_pair(trace: &Trace, known: [&BucketFit; 2], blur_bytes: f64) -> Option<PairFit> {
    let mut best: Option<PairFit> = None;
    let (mut committed, mut peak) = (*known[0], *known[1]);
    for _ in 0..ROUNDS {
        let others = unclaimed(&claims(trace, [&committed, &peak]));
        if others.len() as f64 > LEAST_SHARE * trace.lost as f64 {
            break;
        }
        let theirs = without(trace, &others);
        peak = refine_in_company(&theirs, &peak, Some(&committed), blur_bytes);
        committed = refine_in_company(&theirs, &committed, Some(&peak), blur_bytes);
        pay_for_others(&mut committed, trace, others.len());
        peak.agreement = committed.agreement;
        let fit = of_both(trace, committed, peak);
        let score = |fit: &PairFit| fit.committed.agreement.score(blur_bytes);
        let gained = best
            .as_ref()
            .map_or(f64::MAX, |best| score(&fit) - score(best));
        if gained > 0.0 {
            best = Some(fit);
        }
        if gained < ROUND_GAIN {
            break;
        }
    }
    best
}

fn of_both(trace: &Trace, committed: BucketFit, peak: BucketFit) -> PairFit {
    let claims = claims(trace, [&committed, &peak]);
    let alone = [0, 1].map(|bucket| {
        let its = claims.iter().filter(|claim| claim.bucket == Some(bucket));
        its.filter(|claim| claim.alone).count()
    });
    PairFit {
        committed,
        peak,
        alone,
        explained: claims.iter().filter(|claim| claim.bucket.is_some()).count(),
    }
}
