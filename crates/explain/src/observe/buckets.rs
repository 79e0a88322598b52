//! The token bucket, or the two buckets, that explain the losses of a hop, from exactly known fates.

use whydrop_path::fit::passage::Passages;
use whydrop_path::fit::{
    Ascent, BucketFit, PairFit, Refined, Trace, best_of_tops, climb_pair, envelope, refine_beside,
    refine_exact, score_alone, with_second_buckets,
};

use super::byte_basis::ByteBasis;

/// A dual-rate policer, in the bytes that it counts, or in IP bytes if that is unknown.
#[derive(Debug, Clone, Copy)]
pub struct TwoBuckets {
    pub pair: PairFit,
    pub basis: Option<ByteBasis>,
    /// Share of the losses that either bucket explains.
    pub explained_share: f64,
}

/// The buckets found.
#[derive(Debug, Default)]
pub struct Buckets {
    /// The best single bucket.
    pub single: Option<BucketFit>,
    /// Only if two explain clearly more.
    pub two: Option<TwoBuckets>,
    /// The bytes that the single bucket counts, if small packets show it, and the bucket in those bytes.
    pub basis: Option<(ByteBasis, BucketFit)>,
}

/// Larger captures are not searched packet by packet: it would take minutes.
const MOST_REFINED: usize = 3_000_000;
/// In longer captures two buckets are fitted to the first packets: each climb replays them some hundred
/// times.
const MOST_CLIMBED: usize = 60_000;
/// Fewer losses need no second bucket.
const FEWEST_LOSSES: usize = 10;
/// A correct single bucket needs less correction for each loss than this share of a packet.
pub(super) const EXACT: f64 = 0.004;
/// Share of the losses that a single bucket must explain.
const NEEDED_SHARE: f64 = 0.9;

impl Buckets {
    /// Finds the buckets, starting from the result of a search over the losses.
    pub fn find(
        passages: &Passages,
        trace: &Trace,
        rough: Option<&BucketFit>,
        noise_s: f64,
    ) -> Self {
        if passages.len() > MOST_REFINED {
            return Self {
                single: rough.copied(),
                ..Self::default()
            };
        }
        let refined = rough.map(|fit| refine(trace, fit, noise_s));
        let exact = refined.as_ref().is_some_and(|(refined, _)| {
            let fit = refined.fit();
            let corrected = fit.agreement.corrected_bytes() / trace.lost.max(1) as f64;
            corrected < EXACT * fit.packet_bytes && fit.certainty() > 0.5
        });
        let (single, two) = if exact || trace.lost < FEWEST_LOSSES {
            (refined.map(|(refined, _)| refined.complete()), None)
        } else {
            by_envelope(passages, trace, refined, noise_s)
        };
        Self {
            basis: single
                .as_ref()
                .and_then(|fit| basis(passages, fit, noise_s)),
            single,
            two,
        }
    }
}

/// The best of all rates, if the nearest is not good enough.
fn by_envelope(
    passages: &Passages,
    trace: &Trace,
    refined: Option<(Refined, f64)>,
    noise_s: f64,
) -> (Option<BucketFit>, Option<TwoBuckets>) {
    let (known, known_noise) = refined.unzip();
    let Some(envelope) = envelope(trace) else {
        return (known.map(|known| known.complete()), None);
    };
    let known_fit = known.as_ref().map(|known| *known.fit());
    let (start, explained) = envelope.single(trace);
    let alone = if explained as f64 > NEEDED_SHARE * trace.lost as f64 {
        let (fit, noise) = refine(trace, &start, noise_s);
        let noise = known_noise.map_or(noise, |other| noise.min(other));
        let score = |refined: &Refined| refined.fit().agreement.score(noise);
        known
            .filter(|known| score(known) >= score(&fit))
            .or(Some(fit))
    } else {
        known
    };
    let mut starts = vec![start];
    starts.extend(envelope.pair(trace).into_iter().flatten());
    let single = beside_others(trace, &starts, alone, noise_s).map(|single| single.complete());
    let with_second = |fit: BucketFit| with_second_buckets(trace, &envelope, &fit);
    let mut firsts: Vec<BucketFit> = [known_fit, single, Some(start)]
        .into_iter()
        .flatten()
        .collect();
    firsts.dedup_by(|a, b| a.rate_bps.value == b.rate_bps.value);
    let mut pairs: Vec<[BucketFit; 2]> = firsts.into_iter().flat_map(with_second).collect();
    pairs.extend(envelope.pair(trace));
    let two = two_buckets(passages, &pairs, single.as_ref(), noise_s);
    (single, two)
}

/// Losses that each of two buckets must explain alone.
const FEWEST_EACH: usize = 3;

/// The two buckets near `starts`, in the bytes that they count, if they are clearly better than the single
/// one.
fn two_buckets(
    passages: &Passages,
    starts: &[[BucketFit; 2]],
    single: Option<&BucketFit>,
    noise_s: f64,
) -> Option<TwoBuckets> {
    let counting_more = |bytes: u32| passages.trace(bytes).first(MOST_CLIMBED);
    let trace = counting_more(0);
    let (ip, noise) = refine_two(&trace, starts, single, noise_s)?;
    let mut by_basis = vec![(ip.committed.agreement.score(noise), None, ip)];
    if shows_byte_basis(passages, ip.committed.packet_bytes) {
        for basis in [ByteBasis::Ethernet, ByteBasis::Wire] {
            let raised = [&ip.committed, &ip.peak].map(|fit| counting(basis, fit));
            let trace = counting_more(basis.overhead_bytes());
            if let Some(fit) = tops(&trace, &[raised], noise) {
                by_basis.push((fit.committed.agreement.score(noise), Some(basis), fit));
            }
        }
        by_basis.sort_by(|a, b| b.0.total_cmp(&a.0));
    }
    let clear = by_basis.len() > 1 && by_basis[0].0 > by_basis[1].0 + TWO_GAIN;
    let (score, basis, pair) = match clear {
        true => by_basis[0],
        false => *by_basis.iter().find(|(_, basis, _)| basis.is_none())?,
    };
    let counted = counting_more(basis.map_or(0, ByteBasis::overhead_bytes));
    let alone = single.and_then(|single| {
        let single = basis.map_or(*single, |basis| counting(basis, single));
        score_alone(&counted, &single, noise)
    });
    let better = alone.is_none_or(|alone| score > alone + TWO_GAIN);
    (better && pair.alone.iter().all(|alone| *alone >= FEWEST_EACH)).then_some(TwoBuckets {
        pair,
        basis: clear.then(|| basis.unwrap_or(ByteBasis::Ip)),
        explained_share: pair.explained as f64 / trace.lost.max(1) as f64,
    })
}

/// The two buckets that caused the losses of a trace with one known bucket, if one leaves losses unexplained
/// and two are clearly better.
pub fn beside_second(trace: &Trace, single: &BucketFit, noise_s: f64) -> Option<TwoBuckets> {
    let trace = trace.clone().first(MOST_CLIMBED);
    let envelope = envelope(&trace)?;
    let mut starts = with_second_buckets(&trace, &envelope, single);
    starts.extend(envelope.pair(&trace));
    let (pair, noise) = refine_two(&trace, &starts, Some(single), noise_s)?;
    let alone = score_alone(&trace, single, noise);
    let better = alone.is_none_or(|alone| pair.committed.agreement.score(noise) > alone + TWO_GAIN);
    (better && pair.alone.iter().all(|alone| *alone >= FEWEST_EACH)).then_some(TwoBuckets {
        pair,
        basis: None,
        explained_share: pair.explained as f64 / trace.lost.max(1) as f64,
    })
}

/// Gain in nats required for two more parameters, or for another byte basis of four: optima that climbs find
/// differ by some nats.
const TWO_GAIN: f64 = 10.0;

/// [`refine`] for two buckets, from the best of some starts. `None` if, at the noise that the transit times
/// show, they are not clearly better than the single one: lower noise follows from a fit, so it supports
/// neither.
fn refine_two(
    trace: &Trace,
    starts: &[[BucketFit; 2]],
    single: Option<&BucketFit>,
    noise_s: f64,
) -> Option<(PairFit, f64)> {
    let peaks = starts.iter().map(|[_, peak]| noise_bytes(peak, noise_s));
    let mut noise = peaks.fold(0.0, f64::max);
    let alone = single.and_then(|single| score_alone(trace, single, noise));
    let is_better = |score: f64, by: f64| alone.is_none_or(|alone| score > alone + by);
    let ascents = climbed(trace, starts, noise);
    // a search around an optimum gains some nats, and takes most of the time
    let is_promising = |ascent: &Ascent| is_better(ascent.score, TWO_GAIN / 2.0);
    if !ascents.iter().any(is_promising) {
        return None;
    }
    let first = best_of_tops(trace, ascents, noise)?;
    let mut best =
        Some(first).filter(|fit| is_better(fit.committed.agreement.score(noise), TWO_GAIN))?;
    for _ in 0..NOISE_ROUNDS {
        let corrected = best.committed.agreement.corrected_bytes() / trace.lost.max(1) as f64;
        let smaller = corrected.max(least_noise_bytes(&best.peak));
        if smaller > 0.8 * noise {
            break;
        }
        noise = smaller;
        best = tops(trace, &with(starts, &best), noise)?;
    }
    Some((best, noise))
}

fn tops(trace: &Trace, starts: &[[BucketFit; 2]], noise: f64) -> Option<PairFit> {
    best_of_tops(trace, climbed(trace, starts, noise), noise)
}

fn climbed(trace: &Trace, starts: &[[BucketFit; 2]], noise: f64) -> Vec<Ascent> {
    let climb = |[committed, peak]: &[BucketFit; 2]| climb_pair(trace, [committed, peak], noise);
    starts.iter().filter_map(climb).collect()
}

/// The starts of the next search: the optimum found, and the other starts again, since a sharper one may be
/// better.
fn with(starts: &[[BucketFit; 2]], found: &PairFit) -> Vec<[BucketFit; 2]> {
    let mut starts = starts.to_vec();
    starts.push([found.committed, found.peak]);
    starts
}

/// A bucket that drops beside another cause must be this much more likely than one that drops alone, nats.
const BESIDE_GAIN: f64 = 10.0;

/// The best of the buckets that leave some of the losses to other causes, if one is better than the known
/// one.
fn beside_others(
    trace: &Trace,
    starts: &[BucketFit],
    known: Option<Refined>,
    noise_s: f64,
) -> Option<Refined> {
    let beside = |start: &BucketFit| {
        let noise = noise_bytes(start, noise_s);
        let (refined, _) = refine_beside(trace, start, noise)?;
        Some((refined.fit().agreement.score(noise), noise, refined))
    };
    let best = starts
        .iter()
        .filter_map(beside)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let better = |noise: f64, score: f64| {
        let known = known.as_ref().map(|known| known.fit().agreement);
        known.is_none_or(|known| score > known.score(noise) + BESIDE_GAIN)
    };
    best.filter(|(score, noise, _)| better(*noise, *score))
        .map(|(.., refined)| refined)
        .or(known)
}

/// Most rounds of estimating the timestamp noise.
const NOISE_ROUNDS: usize = 6;

/// Refines a fit and estimates the error of the arrival times: transit times may vary behind the element that
/// drops, which is no noise. Starting from the variation of the transit times, the noise shrinks to what the
/// corrections themselves show (the mean size of a Laplace distribution is its scale), and the fit with it.
pub fn refine(trace: &Trace, fit: &BucketFit, noise_s: f64) -> (Refined, f64) {
    let mut noise = noise_bytes(fit, noise_s);
    let mut best = refine_exact(trace, fit, noise);
    for _ in 0..NOISE_ROUNDS {
        let corrected = best.fit().agreement.corrected_bytes() / trace.lost.max(1) as f64;
        let smaller = corrected.max(least_noise_bytes(fit));
        if smaller > 0.8 * noise {
            break;
        }
        noise = smaller;
        best = refine_exact(trace, best.fit(), noise);
    }
    (best, noise)
}

/// If refinement reduces a bucket's certainty below this share, it was no bucket.
const BORNE_OUT: f64 = 0.6;

/// The refined parameters, with the agreement of the fit that separates lost packets from others better: the
/// refined one minimises corrections instead.
pub fn sharper(refined: BucketFit, rough: Option<BucketFit>) -> BucketFit {
    let better = rough.filter(|rough| {
        rough.certainty() > refined.certainty()
            && refined.certainty() > BORNE_OUT * rough.certainty()
    });
    let agreement = better.map_or(refined.agreement, |rough| rough.agreement);
    BucketFit {
        agreement,
        ..refined
    }
}

/// The bytes that pass within the timestamp error: at least a fiftieth of a packet, since buckets count in
/// ticks, and at most a whole one.
pub fn noise_bytes(fit: &BucketFit, noise_s: f64) -> f64 {
    (fit.rate_bps.value / 8.0 * noise_s).clamp(least_noise_bytes(fit), fit.packet_bytes)
}

fn least_noise_bytes(fit: &BucketFit) -> f64 {
    fit.packet_bytes / 50.0
}

/// Share of packets of other sizes needed for their overhead to matter.
const ENOUGH_SMALL: f64 = 0.0005;
/// A basis is chosen if it fits this much better than the others, nats.
const BASIS_GAIN: f64 = 5.0;

/// True if packets of other sizes show what a bucket counts on top of each.
fn shows_byte_basis(passages: &Passages, packet_bytes: f64) -> bool {
    let is_small = |bytes: &&f32| f64::from(**bytes) < 0.8 * packet_bytes;
    let small = passages.bytes.iter().filter(is_small).count();
    small as f64 >= ENOUGH_SMALL * passages.len() as f64 && passages.len() <= MOST_REFINED / 4
}

/// A fit in IP bytes, converted to a start for a fit with a larger basis.
fn counting(basis: ByteBasis, fit: &BucketFit) -> BucketFit {
    let raise = 1.0 + f64::from(basis.overhead_bytes()) / fit.packet_bytes;
    let mut start = *fit;
    start.rate_bps.value *= raise;
    start.limit_bytes.value *= raise;
    start
}

/// The bytes that the bucket counts for each packet: the basis with the least correction, if it is clearly
/// the best.
fn basis(passages: &Passages, fit: &BucketFit, noise_s: f64) -> Option<(ByteBasis, BucketFit)> {
    if !shows_byte_basis(passages, fit.packet_bytes) {
        return None;
    }
    let (_, noise) = refine(&passages.trace(0), fit, noise_s);
    let mut scores: Vec<(f64, (ByteBasis, Refined))> = ByteBasis::ALL
        .into_iter()
        .map(|basis| {
            let trace = passages.trace(basis.overhead_bytes());
            let counted = refine_exact(&trace, &counting(basis, fit), noise);
            (counted.fit().agreement.score(noise), (basis, counted))
        })
        .collect();
    scores.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (basis, counted) = &scores[0].1;
    (scores[0].0 > scores[1].0 + BASIS_GAIN).then(|| (*basis, counted.complete()))
}
