//! A bucket that is not the only element that drops: other losses are separated, and cost as much as chance.

use super::bucket::BucketFit;
use super::exact::{Refined, refine_exact};
use super::level::Level;
use super::rows::RateAndLimit;
use super::trace::{Seen, Trace};
use super::virtual_queue::binomial_log_likelihood;

/// Rounds of separating the losses.
const ROUNDS: usize = 5;
/// A loss despite room for this many packets is not the bucket's: corrections of timestamps are smaller.
const ROOM_PACKETS: f64 = 1.5;
/// Least share of the losses for the bucket: a bucket for a smaller part may be chance.
pub(super) const LEAST_SHARE: f64 = 0.5;

/// Fits the bucket near `known` again, attributing losses that found room in it to other causes: they cost as
/// much as random losses, and the bucket is not corrected to drop them.
///
/// `None` if there are no such losses, or if they are the majority. See [`refine_exact`] for `noise_bytes`.
pub fn refine_beside(
    trace: &Trace,
    known: &BucketFit,
    noise_bytes: f64,
) -> Option<(Refined, usize)> {
    let mut refined: Option<Refined> = None;
    let mut others = Vec::new();
    for _ in 0..ROUNDS {
        let fit = refined.as_ref().map_or(known, Refined::fit);
        let found = unclaimed(&claims(trace, [fit.rate_and_limit()]));
        if found.is_empty() || found.len() as f64 > LEAST_SHARE * trace.lost as f64 {
            return None;
        }
        if found == others {
            break;
        }
        others = found;
        refined = Some(refine_exact(&without(trace, &others), fit, noise_bytes));
    }
    let mut refined = refined?;
    charge_other_losses(refined.fit_mut(), trace, others.len());
    Some((refined, others.len()))
}

/// Log-likelihood of this many losses without a bucket, nats.
pub(super) fn chance(trace: &Trace, others: usize) -> f64 {
    binomial_log_likelihood(others as f64, trace.passed as f64)
}

/// Adds the cost of other losses, which is that of random losses.
pub(super) fn charge_other_losses(fit: &mut BucketFit, trace: &Trace, others: usize) {
    fit.agreement.log_likelihood += chance(trace, others);
    fit.agreement.lost[0] += others as u32;
    fit.independent_log_likelihood =
        binomial_log_likelihood(trace.lost as f64, trace.passed as f64);
}

/// A loss, and the bucket with the least room for it: none, if all had room.
pub(super) struct Claim {
    index: usize,
    pub bucket: Option<usize>,
    /// No other bucket lacked room.
    pub alone: bool,
    /// The bytes that the packet lacks in the bucket with the least room; negative if there is room.
    pub short_bytes: f64,
}

/// The bucket to which each loss belongs. Losses for which all had room took their tokens: the element that
/// dropped them may be behind.
pub(super) fn claims<const N: usize>(trace: &Trace, buckets: [RateAndLimit; N]) -> Vec<Claim> {
    let near_limit_bytes = -ROOM_PACKETS * trace.typical_bytes;
    let (rates, limits) = (buckets.map(|one| one.0), buckets.map(|one| one.1));
    let mut queues = Level::<N>::EMPTY;
    let mut found = Vec::with_capacity(trace.lost);
    for (index, (gap_s, bytes, outcome)) in trace.arrivals().enumerate() {
        queues.drain(&rates, gap_s);
        let with_packet = queues.with(bytes);
        let over = |place: usize| with_packet.0[place] - limits[place];
        if outcome == Seen::Lost {
            let fullest = (0..N).max_by(|&a, &b| over(a).total_cmp(&over(b)));
            let short_bytes = fullest.map_or(f64::MIN, over);
            let bucket = fullest.filter(|_| short_bytes >= near_limit_bytes);
            found.push(Claim {
                index,
                bucket,
                short_bytes,
                alone: (0..N).all(|place| bucket == Some(place) || over(place) <= 0.0),
            });
            if let Some(place) = bucket {
                queues.0[place] = queues.without_room(&limits, bytes).0[place];
                continue;
            }
        }
        queues = with_packet.at_most(&limits);
    }
    found
}

/// Losses that belong to no bucket.
pub(super) fn unclaimed(claims: &[Claim]) -> Vec<usize> {
    let others = claims.iter().filter(|claim| claim.bucket.is_none());
    others.map(|claim| claim.index).collect()
}

/// The trace with some losses changed to packets of unknown fate.
pub(super) fn without(trace: &Trace, others: &[usize]) -> Trace {
    let mut trace = trace.clone();
    for &index in others {
        trace.outcome[index] = Seen::Unknown;
        trace.passed_bytes += f64::from(trace.bytes[index]);
    }
    trace.lost -= others.len();
    trace
}

#[cfg(test)]
mod tests {
    use super::super::TracePacket;
    use super::super::testing::{Pattern, arrivals};
    use super::super::{envelope::envelope, fit_bucket};
    use super::*;
    use crate::{Arrival, PathElement, Policer, Random};

    #[test]
    fn a_bucket_is_found_beside_losses_with_another_cause() {
        let pattern = Pattern::Windows { round_trip_ms: 25 };
        let sent = arrivals(pattern, 18e6, 1.0, (12_000, 1500), 7);
        let mut policer = Policer::new(18_000_000, 61_440);
        let mut random = Random::new(3);
        let mut others = 0;
        let observe = |arrival: &Arrival| {
            let dropped = policer.arrive(*arrival).is_dropped();
            let elsewhere = !dropped && random.chance(0.004);
            others += usize::from(elsewhere);
            TracePacket {
                time_ns: arrival.time_ns,
                bytes: arrival.bytes,
                outcome: if dropped || elsewhere {
                    Seen::Lost
                } else {
                    Seen::Passed
                },
                delay_s: None,
            }
        };
        let trace = Trace::new(sent.iter().map(observe).collect());
        let (start, _) = envelope(&trace).unwrap().single(&trace);
        let (found, apart) = refine_beside(&trace, &start, 30.0).unwrap();
        let fit = found.complete();
        assert!(others > 30 && apart == others, "{apart} of {others}");
        assert!((fit.rate_bps.value / 18e6 - 1.0).abs() < 1e-3, "{fit:?}");
        assert!((fit.limit_bytes.value - 61_440.0).abs() < 300.0, "{fit:?}");
        assert!(fit.certainty() > 0.7, "{}", fit.certainty());
    }

    #[test]
    fn random_losses_show_no_bucket_beside_them() {
        let sent = arrivals(
            Pattern::Windows { round_trip_ms: 25 },
            18e6,
            1.0,
            (6_000, 1500),
            7,
        );
        let mut random = Random::new(5);
        let observe = |arrival: &Arrival| TracePacket {
            time_ns: arrival.time_ns,
            bytes: arrival.bytes,
            outcome: if random.chance(0.02) {
                Seen::Lost
            } else {
                Seen::Passed
            },
            delay_s: None,
        };
        let trace = Trace::new(sent.iter().map(observe).collect());
        let envelope = envelope(&trace).unwrap();
        let pair = envelope.pair(&trace).into_iter().flatten();
        let single = [envelope.single(&trace).0];
        for start in single.into_iter().chain(pair).chain(fit_bucket(&trace)) {
            let found = refine_beside(&trace, &start, 30.0);
            let certainty = found.map_or(0.0, |(found, _)| found.fit().certainty());
            assert!(certainty < 0.2, "{certainty}");
        }
    }
}
