//! A bucket that sees packets as a queue lets them out: a policer behind a shaper.

use super::buckets::refine;
use super::models::bucket_over;
use crate::evidence::ReplayCheck;
use whydrop_path::Arrival;
use whydrop_path::fit::passage::{Departures, Passages};
use whydrop_path::fit::{BucketFit, Observation, Trace, fit_bucket};

/// A bucket behind the queue of the same hop.
#[derive(Debug, Clone, Copy)]
pub struct BehindQueue {
    pub fit: BucketFit,
}

/// Share of the losses that the bucket must account for.
const NEEDED_SHARE: f64 = 0.7;

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
    noise_s: f64,
) -> Option<BehindQueue> {
    if before.is_some_and(|fit| fit.certainty() > CERTAIN) {
        return None;
    }
    let (gain, certainty) = before.map_or((0.0, 0.0), |fit| (fit.gain(), fit.certainty()));
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
    let observations: Vec<Observation> = (0..passages.len()).map(observation).collect();
    let mut last_ns = i64::MIN;
    let arrivals = observations.iter().map(|seen| {
        last_ns = last_ns.max(seen.time_ns);
        Arrival {
            time_ns: last_ns,
            bytes: seen.bytes,
        }
    });
    let arrivals: Vec<Arrival> = arrivals.collect();
    let trace = Trace::new(observations);
    let (refined, _) = refine(&trace, &fit_bucket(&trace)?, noise_s);
    let fit = refined.fit();
    let expected = f64::from(fit.agreement.expected_losses());
    let better = fit.gain() > gain + BEHIND_GAIN && fit.certainty() > certainty + 0.1;
    let suits = better && fit.certainty() > 0.6 && expected > NEEDED_SHARE * passages.lost as f64;
    // a bucket that fills as fast as the queue drains would never run dry behind it
    let drops = || {
        let modelled = bucket_over(&arrivals, fit);
        let dropped = modelled.iter().map(|packet| packet.dropped);
        ReplayCheck::new(dropped, &passages.outcome).holds(fit, true)
    };
    (suits && fit.rate_bps.value < 0.98 * rate_bps && drops()).then(|| BehindQueue {
        fit: refined.complete(),
    })
}
