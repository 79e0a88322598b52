//! Buckets in company: a second one beside the first (two rates), or one that sees packets as a queue lets them out.

use super::measure::refine;
use whydrop_path::fit::passage::{Departures, Passages};
use whydrop_path::fit::{BucketFit, Observation, Seen, Trace, fit_bucket, virtual_queue};

/// A second bucket: with it, each packet must find room in both.
#[derive(Debug, Clone, Copy)]
pub struct SecondBucket {
    pub fit: BucketFit,
    /// Losses that the first one does not account for and this one does.
    pub losses: usize,
}

/// A bucket behind the queue of the same stretch.
#[derive(Debug, Clone, Copy)]
pub struct BehindQueue {
    pub fit: BucketFit,
}

/// Losses that one bucket leaves unexplained must be at least so many, and this share of all.
const FEWEST_LEFT: usize = 8;
const SHARE_LEFT: f64 = 0.1;
/// A second bucket must make the losses that are left this much more likely than chance, and account for this share.
const NEEDED_GAIN: f64 = 20.0;
const NEEDED_SHARE: f64 = 0.7;

/// Looks for a second bucket among the losses that find the first one with room to spare.
pub fn second_bucket(trace: &Trace, first: &BucketFit) -> Option<SecondBucket> {
    let left = losses_with_room(trace, first);
    let losses = left.iter().filter(|left| **left).count();
    if losses < FEWEST_LEFT || (losses as f64) < SHARE_LEFT * trace.lost as f64 {
        return None;
    }
    // what the first one dropped never came to count in the second
    let rest = without(trace, |index| {
        trace.outcome[index] == Seen::Lost && !left[index]
    });
    let fit = fit_bucket(&rest)?;
    let expected = f64::from(fit.agreement.expected_losses());
    let suits = fit.gain() > NEEDED_GAIN
        && expected > NEEDED_SHARE * losses as f64
        && fit.certainty() > 0.5;
    suits.then_some(SecondBucket {
        fit,
        losses: expected as usize,
    })
}

/// Which lost packets found more than a packet of room in the bucket.
fn losses_with_room(trace: &Trace, fit: &BucketFit) -> Vec<bool> {
    let limit = fit.limit_bytes.value;
    let found = virtual_queue::corrected(trace, fit.rate_bps.value / 8.0, limit);
    (0..trace.len())
        .map(|index| {
            let with_packet = f64::from(found[index] + trace.bytes[index]);
            trace.outcome[index] == Seen::Lost && with_packet < limit - fit.packet_bytes
        })
        .collect()
}

fn without(trace: &Trace, leave_out: impl Fn(usize) -> bool) -> Trace {
    let observation = |index: usize| Observation {
        time_ns: trace
            .start_ns
            .saturating_add((trace.time_s[index] * 1e9) as i64),
        bytes: trace.bytes[index] as u32,
        outcome: trace.outcome[index],
        delay_s: (!trace.delay_s[index].is_nan()).then_some(trace.delay_s[index]),
    };
    Trace::new(
        (0..trace.len())
            .filter(|index| !leave_out(*index))
            .map(observation)
            .collect(),
    )
}

/// A bucket that accounts for this share of the uncertainty needs no other place.
const CERTAIN: f64 = 0.85;
/// A bucket behind a queue must be this much more likely than one before it.
const BEHIND_GAIN: f64 = 10.0;

/// Looks for a bucket that the packets come to as the queue lets them out: at their departures, the lost ones where
/// their turn would have come.
pub fn bucket_behind_queue(
    passages: &Passages,
    departures: &Departures,
    before: Option<&BucketFit>,
    blur_s: f64,
) -> Option<BehindQueue> {
    let before = before.filter(|fit| fit.certainty() < CERTAIN)?;
    let rate_bps = departures.rate_bps.value;
    let mut last_s = f64::MIN;
    let observation = |index: usize| {
        let service_s = f64::from(passages.bytes[index]) * 8.0 / rate_bps;
        let left_s = passages.departure_s(index);
        let at_s = if left_s.is_nan() {
            passages.arrival_s[index].max(last_s + service_s)
        } else {
            left_s
        };
        last_s = last_s.max(at_s);
        Observation {
            time_ns: (at_s * 1e9) as i64,
            bytes: passages.bytes[index] as u32,
            outcome: passages.outcome[index],
            delay_s: None,
        }
    };
    let trace = Trace::new((0..passages.len()).map(observation).collect());
    let (fit, _) = refine(&trace, &fit_bucket(&trace)?, blur_s);
    let expected = f64::from(fit.agreement.expected_losses());
    let better =
        fit.gain() > before.gain() + BEHIND_GAIN && fit.certainty() > before.certainty() + 0.1;
    let suits = better && fit.certainty() > 0.6 && expected > NEEDED_SHARE * passages.lost as f64;
    // a bucket that fills as fast as the queue drains would never run dry behind it
    (suits && fit.rate_bps.value < 0.98 * rate_bps).then_some(BehindQueue { fit })
}
