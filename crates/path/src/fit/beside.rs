//! A bucket that is not the only one to drop: what others lost is set apart, and paid for as chance.

use super::bucket::BucketFit;
use super::exact::refine_exact;
use super::trace::{Seen, Trace};
use super::virtual_queue::binomial_log_likelihood;

/// Times that the losses are told apart anew.
const ROUNDS: usize = 5;
/// A loss that leaves room for so many packets is not the bucket's: more than corrections of timestamps make.
const ROOM_PACKETS: f64 = 1.5;
/// Of the losses the bucket must have at least this share: a bucket for the lesser part of them is chance's.
const LEAST_SHARE: f64 = 0.5;

/// Fits the bucket near `known` again, with the losses that found room in it taken for others': they cost what losses by
/// chance cost, and the bucket is not corrected to drop them.
///
/// `None` where they are no part of the losses, or the greater one. See [`refine_exact`] for `blur_bytes`.
pub fn refine_beside(
    trace: &Trace,
    known: &BucketFit,
    blur_bytes: f64,
) -> Option<(BucketFit, usize)> {
    let mut fit = *known;
    let mut others = Vec::new();
    for _ in 0..ROUNDS {
        let found = with_room(trace, &fit);
        if found.is_empty() || found.len() as f64 > LEAST_SHARE * trace.lost as f64 {
            return None;
        }
        if found == others {
            break;
        }
        others = found;
        fit = refine_exact(&without(trace, &others), &fit, blur_bytes);
    }
    let chance = binomial_log_likelihood(others.len() as f64, trace.passed as f64);
    let lost = others.len() as u32;
    fit.agreement.log_likelihood += chance;
    fit.agreement.lost[0] += lost;
    fit.independent_log_likelihood =
        binomial_log_likelihood(trace.lost as f64, trace.passed as f64);
    Some((fit, others.len()))
}

/// Losses for which the bucket had room. Those packets took their tokens: whatever lost them may be behind it.
fn with_room(trace: &Trace, fit: &BucketFit) -> Vec<usize> {
    let (rate, limit) = (fit.rate_bps.value / 8.0, fit.limit_bytes.value);
    let brink = limit - ROOM_PACKETS * fit.packet_bytes;
    let (mut queue, mut last_s) = (0.0f64, 0.0f64);
    let mut found = Vec::new();
    for index in 0..trace.len() {
        let bytes = f64::from(trace.bytes[index]);
        queue = (queue - rate * (trace.time_s[index] - last_s)).max(0.0);
        last_s = trace.time_s[index];
        if trace.outcome[index] != Seen::Lost {
            queue = (queue + bytes).min(limit);
        } else if queue + bytes < brink {
            found.push(index);
            queue += bytes;
        } else {
            queue = queue.max(limit - bytes);
        }
    }
    found
}

/// The trace with some losses taken for packets of which nothing is known.
fn without(trace: &Trace, others: &[usize]) -> Trace {
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
    use super::super::Observation;
    use super::super::testing::{Pattern, arrivals};
    use super::super::{fit_bucket, fit_envelope};
    use super::*;
    use crate::{Arrival, PathElement, Policer, Random};

    #[test]
    fn a_bucket_is_found_beside_losses_that_it_did_not_make() {
        let pattern = Pattern::Windows { round_trip_ms: 25 };
        let sent = arrivals(pattern, 18e6, 1.0, (12_000, 1500), 7);
        let mut policer = Policer::new(18_000_000, 61_440);
        let mut random = Random::new(3);
        let mut others = 0;
        let observe = |arrival: &Arrival| {
            let dropped = policer.arrive(*arrival).is_dropped();
            let elsewhere = !dropped && random.chance(0.004);
            others += usize::from(elsewhere);
            Observation {
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
        let envelope = fit_envelope(&trace).unwrap();
        let start = envelope.buckets[0].to_fit(&trace);
        let (fit, apart) = refine_beside(&trace, &start, 30.0).unwrap();
        assert!(others > 30 && apart == others, "{apart} of {others}");
        assert!((fit.rate_bps.value / 18e6 - 1.0).abs() < 1e-3, "{fit:?}");
        assert!((fit.limit_bytes.value - 61_440.0).abs() < 300.0, "{fit:?}");
        assert!(fit.certainty() > 0.7, "{}", fit.certainty());
    }

    #[test]
    fn losses_by_chance_leave_no_bucket_beside_them() {
        let sent = arrivals(
            Pattern::Windows { round_trip_ms: 25 },
            18e6,
            1.0,
            (6_000, 1500),
            7,
        );
        let mut random = Random::new(5);
        let observe = |arrival: &Arrival| Observation {
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
        let starts = fit_envelope(&trace).unwrap().buckets;
        for start in starts
            .iter()
            .map(|bucket| bucket.to_fit(&trace))
            .chain(fit_bucket(&trace))
        {
            let found = refine_beside(&trace, &start, 30.0);
            assert!(
                found.is_none_or(|(fit, _)| fit.certainty() < 0.2),
                "{found:?}"
            );
        }
    }
}
