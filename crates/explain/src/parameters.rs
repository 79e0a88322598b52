//! The parameters of a verdict, with their intervals.

use std::collections::BTreeMap;

use whydrop_path::fit::{BucketFit, Interval, Trace, rate_cut_off};

use crate::facts::on_return_path;
use crate::observe::observation::{MostCounted, Observation};
use crate::queue_limit::queue_limit;
use whydrop_verdict::{Cause, Quantity};

/// Bytes that a device may count beyond the IP packet: up to the preamble, header, check sequence and gap of
/// Ethernet (8 + 14 + 4 + 12, IEEE 802.3). Losses alone do not show them, so the upper ends of the intervals
/// include them.
pub const WIRE_OVERHEAD_BYTES: f64 = 38.0;
/// No rate is more accurate than the clock that measured it: oscillators of computers deviate by up to some
/// hundred parts per million (RFC 5905 allows 500).
pub const CLOCK_ERROR: f64 = 5e-4;
/// z for a 95 % interval of a loss rate.
const Z_95: f64 = 1.96;

/// The parameters of `cause`, by their names in the JSON contract.
pub fn parameters(cause: Cause, seen: &Observation) -> BTreeMap<String, Quantity> {
    let mut parameters = BTreeMap::new();
    let mut put = |name: &str, parameter: Option<Quantity>| {
        if let Some(parameter) = parameter {
            parameters.insert(name.to_owned(), parameter);
        }
    };
    let bucket = seen.bucket.as_ref();
    let most = most_counted(seen);
    match cause {
        Cause::Policer => {
            put("rate_bps", bucket.map(|fit| rate(fit, most)));
            put(
                "burst_bytes",
                bucket.map(|fit| burst(fit, most, waited_s(seen))),
            );
        }
        Cause::ShallowQueue | Cause::DeepQueue => {
            put("drain_rate_bps", drain_rate(seen));
            if let Some(limit) = queue_limit(seen, most) {
                put("limit_packets", Some(limit.packets));
                put("limit_bytes", Some(limit.bytes));
            }
        }
        // packets that wait on the return path show no rate of the forward path
        Cause::Shaper if on_return_path(seen) => {}
        Cause::Shaper => {
            // round-trip times are too imprecise for bursts to show the size of the bucket
            let trace = &seen.group_trace.trace;
            put(
                "rate_bps",
                drain_rate(seen).map(|rate| nominal(rate, trace, 0.0)),
            );
            put("burst_bytes", shaper_burst(seen));
        }
        Cause::Aqm => put("drain_rate_bps", drain_rate(seen)),
        Cause::RandomLoss => put("loss_probability", loss_probability(seen)),
        _ => {}
    }
    parameters
}

/// Bytes that a device may count of the traffic that passed.
pub fn most_counted(seen: &Observation) -> MostCounted {
    seen.most_counted(WIRE_OVERHEAD_BYTES)
}

/// The interval in IP bytes, with the upper end raised by what the device may count on top.
fn any_byte_basis(interval: Interval, most: MostCounted) -> Quantity {
    Quantity {
        value: interval.value,
        low: interval.low,
        high: interval.high.map(|high| high * most.own),
    }
}

/// The same for a rate, including the capacity used by datagrams, and the possible error of the capture's
/// clock.
fn any_rate(interval: Interval, most: MostCounted) -> Quantity {
    Quantity {
        value: interval.value,
        low: interval.low.map(|low| low * (1.0 - CLOCK_ERROR)),
        high: (interval.high).map(|high| high * most.with_beside * (1.0 + CLOCK_ERROR)),
    }
}

/// The interval, widened by this much on both sides.
pub(crate) fn widened(interval: Interval, by: f64) -> Interval {
    Interval {
        low: interval.low.map(|low| (low - by).max(0.0)),
        high: interval.high.map(|high| high + by),
        ..interval
    }
}

/// The rate of a bucket.
pub fn rate(fit: &BucketFit, most: MostCounted) -> Quantity {
    any_rate(fit.rate_bps, most)
}

/// Nats below which it is no chance that delays before losses are longer than others: one in a hundred.
const BY_CHANCE: f64 = -4.6;

/// Excess delay in seconds of packets just before losses over packets that found the path idle. One capture
/// does not show where they waited: if it was before the bucket (a shaper spaces its packets), they reached
/// it later than captured by this much.
pub fn waited_s(seen: &Observation) -> f64 {
    let Some(at_loss) = seen.at_loss.filter(|at| at.log_chance < BY_CHANCE) else {
        return 0.0;
    };
    let empty_s = seen.occupancy.map(|delays| delays.empty_s);
    let idle_s = empty_s.map_or(at_loss.typical_s, |empty_s| empty_s.min(at_loss.typical_s));
    (at_loss.shorter_median_s - idle_s).max(0.0)
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

fn drain_rate(seen: &Observation) -> Option<Quantity> {
    Some(any_rate(seen.queue_rate_bps(), most_counted(seen)))
}

/// The configured rate of a shaper, from the rate at which it releases packets: some tokens may not fit into
/// its bucket, which holds at least `bucket_bytes`.
pub fn nominal(rate: Quantity, trace: &Trace, bucket_bytes: f64) -> Quantity {
    Quantity {
        high: (rate.high).map(|high| high * rate_cut_off(trace, bucket_bytes)),
        ..rate
    }
}

fn shaper_burst(seen: &Observation) -> Option<Quantity> {
    let drain = seen.drain.as_ref()?;
    let packet_bytes = seen.group_trace.trace.typical_bytes;
    let error = drain.residual_s * drain.rate_bps / 8.0 + packet_bytes;
    Some(Quantity {
        value: drain.burst_bytes,
        low: Some((drain.burst_bytes - error).max(0.0)),
        // the fit counts the tokens that a packet finds; a shaper takes tokens for the packet itself as well
        high: Some(drain.burst_bytes + error + packet_bytes),
    })
}

/// Share of the data packets that were lost, with Wilson's score interval (1927).
fn loss_probability(seen: &Observation) -> Option<Quantity> {
    let total = seen.totals.data_packets as f64;
    if total == 0.0 {
        return None;
    }
    let share = seen.totals.lost as f64 / total;
    let z2 = Z_95 * Z_95;
    let center = (share + z2 / (2.0 * total)) / (1.0 + z2 / total);
    let half = Z_95 / (1.0 + z2 / total)
        * (share * (1.0 - share) / total + z2 / (4.0 * total * total)).sqrt();
    Some(Quantity {
        value: share,
        low: Some((center - half).max(0.0)),
        high: Some((center + half).min(1.0)),
    })
}

#[cfg(test)]
mod tests {
    use whydrop_path::fit::{Seen, TracePacket};
    use whydrop_path::{Arrival, Chain, Limit, Policer, Random, Shaper, TickShaper, replay};

    use super::*;
    use crate::observe::group::GroupTrace;
    use crate::observe::measure_trace;
    use crate::observe::totals::Totals;

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
    fn a_shaper_with_a_bucket_of_about_a_tick_may_be_set_to_more_than_it_releases() {
        // tokens for 3.3 packets every 5 ms, in a bucket for 3.5: always three packets leave
        let arrivals: Vec<Arrival> = (0..600)
            .map(|number| Arrival {
                time_ns: number * 1_000_000,
                bytes: 1_500,
            })
            .collect();
        let mut shaper = TickShaper::new(7_920_000, 5_000_000, 5_250, Limit::NONE);
        let outcomes = replay(&mut shaper, &arrivals);
        let seen = arrivals
            .iter()
            .zip(outcomes)
            .map(|(arrival, outcome)| TracePacket {
                time_ns: arrival.time_ns,
                bytes: arrival.bytes,
                outcome: Seen::Passed,
                delay_s: (outcome.departure_ns())
                    .map(|left_ns| (left_ns - arrival.time_ns) as f32 * 1e-9),
            });
        let trace = Trace::new(seen.collect());
        let rate = Quantity {
            value: 7.2e6,
            low: Some(7.19e6),
            high: Some(7.21e6),
        };
        let set = nominal(rate, &trace, 0.0);
        assert_eq!((set.value, set.low), (rate.value, rate.low));
        let high = set.high.unwrap();
        assert!((7.92e6..9.7e6).contains(&high), "{high}");
        assert_eq!(nominal(rate, &trace, 12_000.0).high, rate.high);
    }
}
