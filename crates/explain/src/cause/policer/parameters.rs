//! Rate and burst of a policer, or of both of its buckets.

use whydrop_path::fit::{BucketFit, Interval};
use whydrop_verdict::Quantity;

use super::dual_rate::{self, Second};
use crate::cause::Parameters;
use crate::observe::observation::MostCounted;
use crate::observe::{ByteBasis, Exact, MOST_NOISE_S, Observation, TwoBuckets};
use crate::quantities::{Scale, any_byte_basis, any_rate, most_counted, widened};
use crate::thresholds::LONGER_BY_CHANCE;

/// From one capture.
pub fn alone(seen: &Observation, second: Option<&Second>) -> Parameters {
    let most = most_counted(seen);
    let waited_s = waited_s(seen);
    if let Some(two) = second.and_then(Second::clear) {
        return dual_rate::parameters(two, most, waited_s);
    }
    let Some(fit) = &seen.bucket else {
        return Parameters::new();
    };
    let single = Parameters::from([
        ("rate_bps".to_owned(), rate(fit, most)),
        ("burst_bytes".to_owned(), burst(fit, most, waited_s)),
    ]);
    match second {
        Some(Second::Rival(two)) => dual_rate::holding(single, two, most),
        _ => single,
    }
}

/// The rate of a bucket.
pub fn rate(fit: &BucketFit, most: MostCounted) -> Quantity {
    any_rate(fit.rate_bps, most)
}

/// Burst of a bucket. The losses give it to within a packet: one more or one fewer passes before the first
/// drop. If packets waited before it, tokens arrived in that time, and the bucket holds less by these.
pub fn burst(fit: &BucketFit, most: MostCounted, waited_s: f64) -> Quantity {
    let mut burst = fit.limit_bytes;
    let filled = fit.rate_bps.value / 8.0 * waited_s;
    burst.low = burst
        .low
        .map(|low| (low.min(burst.value - fit.packet_bytes) - filled).max(0.0));
    burst.high = burst
        .high
        .map(|high| high.max(burst.value + fit.packet_bytes));
    any_byte_basis(burst, most)
}

/// Excess delay in seconds of packets just before losses over packets that found the path idle. One capture
/// does not show where they waited: if it was before the bucket (a shaper spaces its packets), they reached
/// it later than captured by this much.
pub fn waited_s(seen: &Observation) -> f64 {
    let Some(at_loss) = seen.at_loss.filter(|at| at.log_chance < LONGER_BY_CHANCE) else {
        return 0.0;
    };
    let empty_s = seen.occupancy.map(|delays| delays.empty_s);
    let idle_s = empty_s.map_or(at_loss.typical_s, |empty_s| empty_s.min(at_loss.typical_s));
    (at_loss.shorter_median_s - idle_s).max(0.0)
}

/// The bucket that drops: the one behind the queue of the hop, if it is there.
pub fn dropping_bucket(exact: &Exact) -> Option<BucketFit> {
    exact.behind_queue.map(|behind| behind.fit).or(exact.bucket)
}

/// Counted between two captures, and the byte basis if known.
pub fn between(seen: &Observation, exact: &Exact) -> (Parameters, Option<ByteBasis>) {
    let mut parameters = Parameters::new();
    let both = exact.two_buckets.map(|two| two.pair.committed);
    let Some(fit) = dropping_bucket(exact).or(both) else {
        return (parameters, None);
    };
    let basis = match (&exact.two_buckets, &exact.behind_queue) {
        (Some(two), _) => two.basis,
        // an estimate for a bucket before the queue
        (None, Some(_)) => None,
        (None, None) => exact.bucket_basis.map(|(basis, _)| basis),
    };
    let scale = match &exact.two_buckets {
        Some(TwoBuckets { basis: Some(_), .. }) => Scale::KNOWN,
        _ => Scale::new(basis, fit.packet_bytes, &exact.passages),
    };
    let scale = scale.with_missed(exact.missed_share);
    let mut put = |name: &str, interval: Interval| {
        let parameter = if name.ends_with("rate_bps") {
            scale.apply_to_rate(interval)
        } else {
            scale.apply(interval)
        };
        parameters.insert(name.to_owned(), parameter);
    };
    match &exact.two_buckets {
        Some(two) => {
            let of_two = |fit: BucketFit| beside_another(fit, exact.noise_s.min(MOST_NOISE_S));
            put("rate_bps", two.pair.committed.rate_bps);
            put("burst_bytes", of_two(two.pair.committed));
            put("peak_rate_bps", two.pair.peak.rate_bps);
            put("peak_burst_bytes", of_two(two.pair.peak));
        }
        None => {
            put("rate_bps", fit.rate_bps);
            put("burst_bytes", within_a_packet(fit, seen));
        }
    }
    if let (None, None, Some((_, counted))) =
        (&exact.two_buckets, &exact.behind_queue, exact.bucket_basis)
    {
        let known = Scale::KNOWN.with_missed(exact.missed_share);
        parameters.insert("rate_bps".to_owned(), known.apply_to_rate(counted.rate_bps));
        parameters.insert(
            "burst_bytes".to_owned(),
            known.apply(within_a_packet(counted, seen)),
        );
    }
    (parameters, basis)
}

/// If packets left in super-segments, the rate of their line is known only to some per cent: one more or one
/// fewer packet of each may have passed before the first drop.
fn within_a_packet(fit: BucketFit, seen: &Observation) -> Interval {
    match seen.line_rate_bps {
        Some(_) => widened(fit.limit_bytes, fit.packet_bytes),
        None => fit.limit_bytes,
    }
}

/// The burst of one of two buckets. Which of them drops a packet depends on both, so that one more or one
/// fewer packet of each may have passed; and a bucket fills for as long as timestamps are uncertain.
fn beside_another(fit: BucketFit, stamps_s: f64) -> Interval {
    let filled = fit.rate_bps.value / 8.0 * stamps_s;
    widened(fit.limit_bytes, fit.packet_bytes + filled)
}

#[cfg(test)]
mod tests {
    use whydrop_path::fit::{Seen, Trace, TracePacket, fit_bucket};
    use whydrop_path::{Arrival, Chain, Limit, Policer, Random, Shaper, replay};

    use super::*;
    use crate::observe::group::GroupTrace;
    use crate::observe::measure_trace;
    use crate::observe::totals::Totals;
    use crate::testing::{interval, policed_bursts};

    #[test]
    fn packets_that_wait_before_a_bucket_find_the_tokens_of_that_time() {
        let mut random = Random::new(5);
        let (mut time_ns, mut arrivals) = (0i64, Vec::new());
        for _ in 0..120 {
            time_ns += 20_000_000 + random.below(60_000_000) as i64;
            for _ in 0..20 + random.below(160) {
                time_ns += 12_000;
                let bytes = 1_500;
                arrivals.push(Arrival { time_ns, bytes });
            }
        }
        let mut path = Chain::new(vec![
            Box::new(Shaper::new(60_000_000, 3_000, Limit::NONE)),
            Box::new(Policer::new(20_000_000, 100_000)),
        ]);
        let outcomes = replay(&mut path, &arrivals);
        let seen = arrivals.iter().zip(outcomes).map(|(arrival, outcome)| {
            let left_ns = outcome.departure_ns();
            TracePacket {
                time_ns: arrival.time_ns,
                bytes: arrival.bytes,
                outcome: left_ns.map_or(Seen::Lost, |_| Seen::Passed),
                delay_s: left_ns.map(|left_ns| (left_ns - arrival.time_ns) as f32 * 1e-9),
            }
        });
        let trace = GroupTrace {
            trace: Trace::new(seen.collect()),
            origins: Vec::new(),
        };
        let seen = measure_trace(trace, None, Totals::default(), None);
        // 100 kB leave in 20 ms, 40 Mbit/s above the refill, while packets wait for the shaper
        let waited = waited_s(&seen);
        assert!((0.005..0.025).contains(&waited), "{waited}");
        // until then 150 kB passed, as if they had arrived at once
        let sharp = |value: f64| Interval {
            value,
            low: Some(value),
            high: Some(value),
        };
        let fit = BucketFit {
            rate_bps: sharp(20e6),
            limit_bytes: sharp(150_000.0),
            ..seen.bucket.expect("there are losses")
        };
        let low = |waited: f64| burst(&fit, most_counted(&seen), waited).low.unwrap();
        assert!(low(waited) < 110_000.0 && low(0.0) > 140_000.0);
        assert!((low(0.0) - low(waited) - 2.5e6 * waited).abs() < 1.0);
    }

    #[test]
    fn one_of_two_buckets_is_known_to_a_packet_and_its_refill_within_the_timestamp_error() {
        let trace = policed_bursts();
        let fit = BucketFit {
            rate_bps: interval(79e6, 80e6, 81e6),
            limit_bytes: interval(29e3, 30e3, 31e3),
            ..fit_bucket(&trace).expect("there are losses")
        };
        // 80 Mbit/s for 100 microseconds are 1000 bytes
        assert_eq!(beside_another(fit, 1e-4), interval(26.5e3, 30e3, 33.5e3));
    }
}
