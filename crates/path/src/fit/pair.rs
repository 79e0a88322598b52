//! Two token buckets in company, fitted together: a committed and a peak rate (RFC 2698, RFC 4115).
//!
//! A packet passes if both have tokens for it, and takes them from both; what is dropped takes none. So a loss is proof
//! against one of the two only, and either bucket can be fitted while the other stays as it is, in turns, until neither
//! moves. What found room in both is another's loss, and is paid for as chance.

use super::beside::{LEAST_SHARE, claims, pay_for_others, unclaimed, without};
use super::bucket::BucketFit;
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
