//! A bucket that receives packets as a queue releases them: a policer behind a shaper.

use super::buckets::{EXACT, refine};
use super::replay_check::ReplayCheck;
use crate::hop::models::bucket_over;
use crate::thresholds::*;
use whydrop_path::Arrival;
use whydrop_path::fit::passage::{Departures, Passages};
use whydrop_path::fit::{Agreement, BucketFit, Trace, TracePacket, fit_bucket};

/// A bucket behind the queue of the same hop.
#[derive(Debug, Clone, Copy)]
pub struct BehindQueue {
    pub fit: BucketFit,
}

impl BehindQueue {
    /// Timestamps show when packets reached the bucket, before or behind the queue, to within their
    /// variation. If a bucket of the same rate before the queue explains the losses as well, the evidence
    /// does not distinguish the bursts of the two: the intervals include both.
    pub fn holding(mut self, before: Option<&BucketFit>) -> Self {
        let alike = |before: &&BucketFit| {
            let apart = (before.rate_bps.value / self.fit.rate_bps.value).ln().abs();
            apart < SAME_RATES && before.certainty() > EXACT_CERTAINTY
        };
        if let Some(before) = before.filter(alike) {
            self.fit.rate_bps = self.fit.rate_bps.holding(before.rate_bps);
            self.fit.limit_bytes = self.fit.limit_bytes.holding(before.limit_bytes);
        }
        self
    }
}

/// Share of the losses that the bucket must explain.
const NEEDED_SHARE: f64 = 0.7;

/// A bucket behind a queue must be this much more likely than the known element before it.
const BEHIND_GAIN: f64 = 10.0;
/// Corrections are judged as errors of this many packets: the arrival of a lost packet at a bucket behind a
/// queue is known only from its neighbours.
const PLACED_WITHIN: f64 = 0.25;

/// Looks for a bucket that receives the packets as the queue releases them: at their departures, the lost
/// ones when their turn would have come.
pub fn bucket_behind_queue(
    passages: &Passages,
    departures: Option<&Departures>,
    before: &[Agreement],
    noise_s: f64,
) -> Option<BehindQueue> {
    if before.iter().any(|known| is_exact(known, passages)) {
        return None;
    }
    // if too few wait to give the rate of the queue, a lost packet is placed right behind the packet before
    // it
    let rate_bps = departures.map_or(f64::INFINITY, |departures| departures.rate_bps.value);
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
        TracePacket {
            time_ns: (at_s * 1e9) as i64,
            bytes: passages.bytes[index] as u32,
            outcome: passages.outcome[index],
            delay_s: None,
        }
    };
    let observations: Vec<TracePacket> = (0..passages.len()).map(observation).collect();
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
    let score = |known: &Agreement| known.score(PLACED_WITHIN * fit.packet_bytes);
    let known = before.iter().map(score);
    let known = known.fold(fit.independent_log_likelihood, f64::max);
    let better = score(&fit.agreement) > known + BEHIND_GAIN;
    let suits = better
        && fit.certainty() > EXACT_CERTAINTY
        && expected > NEEDED_SHARE * passages.lost as f64
        && fit.limit_bytes.value > SMALLEST_BUCKET_PACKETS * fit.packet_bytes;
    // a bucket that fills as fast as the queue drains would never be empty behind it
    let drops = || {
        let modelled = bucket_over(&arrivals, &trace, fit);
        let dropped = modelled.iter().map(|packet| packet.dropped);
        ReplayCheck::new(dropped, &passages.outcome).holds(fit, true)
    };
    (suits && fit.rate_bps.value < 0.98 * rate_bps && drops()).then(|| BehindQueue {
        fit: refined.complete(),
    })
}

/// True if the known element drops the lost packets with almost no correction: no other place is considered.
fn is_exact(known: &Agreement, passages: &Passages) -> bool {
    known.corrected_bytes() < EXACT * passages.mean_bytes() * passages.lost as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{interval, policed_bursts};

    /// A bucket of 20 Mbit/s found from bursts that it dropped; with other rates and bursts it is another
    /// bucket.
    fn found(rate_bps: f64, burst: [f64; 3]) -> BucketFit {
        let [low, value, high] = burst;
        BucketFit {
            rate_bps: interval(rate_bps, rate_bps, rate_bps),
            limit_bytes: interval(low, value, high),
            ..fit_bucket(&policed_bursts()).expect("there are losses")
        }
    }

    #[test]
    fn bursts_of_one_rate_before_a_queue_and_behind_it_are_both_in_the_interval() {
        let fit = found(20e6, [33e3, 34e3, 35e3]);
        let behind = BehindQueue { fit };
        let both = behind.holding(Some(&found(20.1e6, [29e3, 30e3, 31e3])));
        let bounds = (both.fit.limit_bytes.low, both.fit.limit_bytes.high);
        assert_eq!(bounds, (Some(29e3), Some(35e3)));
        assert_eq!(both.fit.limit_bytes.value, 34e3);
        // another rate means another bucket
        let alone = behind.holding(Some(&found(30e6, [29e3, 30e3, 31e3])));
        assert_eq!(alone.fit.limit_bytes, fit.limit_bytes);
    }
}
