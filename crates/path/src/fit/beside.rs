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
pub fn refine_beside(trace: &Trace, known: &BucketFit, blur_bytes: f64) -> Option<(BucketFit, usize)> {
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
    fit.independent_log_likelihood = binomial_log_likelihood(trace.lost as f64, trace.passed as f64);
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
