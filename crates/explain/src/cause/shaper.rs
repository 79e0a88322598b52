//! A shaper, or any queue that delays packets at a fixed rate and drops none.

use whydrop_path::fit::{Trace, burst_bytes_at, rate_cut_off};
use whydrop_verdict::{Cause, Fact, Quantity, fact};

use super::{Description, Hypothesis, Parameters};
use crate::observe::{ByteBasis, Exact, Observation};
use crate::quantities::{drain_rate, drain_rate_between};
use crate::thresholds::*;

pub struct Shaper;

impl Hypothesis for Shaper {
    fn causes(&self) -> &'static [Cause] {
        &[Cause::Shaper]
    }

    fn describe(&self, _cause: Cause, seen: &Observation) -> Description {
        let is_back = on_return_path(seen);
        let (parameters, byte_basis) = match &seen.exact {
            // packets that wait on the return path show no rate of the forward path
            _ if is_back => (Parameters::new(), None),
            Some(exact) => parameters_between(seen, exact),
            None => (parameters(seen), None),
        };
        Description {
            facts: seen
                .queue_drains()
                .filter(|_| !is_back)
                .into_iter()
                .collect(),
            parameters,
            byte_basis,
            limited_share: seen.busy_share(),
            ..Description::new(headline(seen, is_back))
        }
    }
}

fn headline(seen: &Observation, is_back: bool) -> Fact {
    let totals = &seen.totals;
    match is_back {
        true => fact!(
            "delayed-on-return-path",
            typical_wait_s = totals.typical_wait_back_s,
            longest_wait_s = totals.longest_wait_back_s
        ),
        false => fact!(
            "delayed-by-shaper",
            longest_wait_s = longest_wait_s(seen),
            lost_besides = totals.lost_besides
        ),
    }
}

/// True if no queue on the forward path explains the delays, and the delays of the return path are known.
pub fn on_return_path(seen: &Observation) -> bool {
    !seen.queue_explains_delays() && !seen.delays_are_own && seen.totals.typical_wait_back_s > 0.0
}

/// Longest queueing delay: from the queue's model if that explains the delays.
fn longest_wait_s(seen: &Observation) -> f64 {
    let delays_s = seen.group_trace.trace.delay_s.iter();
    let longest_s = || f64::from(delays_s.copied().fold(0.0, f32::max));
    let drain = seen.drain.as_ref();
    let drain = drain.filter(|drain| drain.explained > DELAY_EXPLAINED);
    drain.map_or_else(longest_s, |drain| drain.largest_s)
}

/// From one capture. Round-trip times are too imprecise for bursts to show the size of the bucket.
fn parameters(seen: &Observation) -> Parameters {
    let trace = &seen.group_trace.trace;
    let rate = ("rate_bps", nominal(drain_rate(seen), trace, 0.0));
    let burst = shaper_burst(seen).map(|burst| ("burst_bytes", burst));
    let both = [rate].into_iter().chain(burst);
    both.map(|(name, quantity)| (name.to_owned(), quantity))
        .collect()
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
        // the fit counts the tokens that a packet leaves; a shaper takes tokens for the packet itself as well
        value: drain.burst_bytes + packet_bytes,
        // but one that sends while it has any token, as htb, does not count them into its bucket
        low: Some((drain.burst_bytes - error).max(0.0)),
        high: Some(drain.burst_bytes + error + packet_bytes),
    })
}

/// True if packets are released several at a time, at the line's rate or on a tick: then the times between
/// departures do not show the rate, but the delays do.
fn releases_in_ticks(seen: &Observation, exact: &Exact) -> bool {
    let (Some(drain), Some(departures)) = (&seen.drain, &exact.departures) else {
        return false;
    };
    let apart = (departures.rate_bps.value / drain.rate_bps).ln().abs();
    drain.explained > STANDING_EXPLAINED && apart > SAME_RATES
}

/// Raises a rate derived from delays by the packets that the captures lack: they were queued too, and delayed
/// others.
fn raise_by_missed(rate: &mut Quantity, missed_share: f64) {
    rate.high = rate
        .high
        .map(|high| high / (1.0 - missed_share).max(LEAST_CAPTURED_SHARE));
}

/// From two captures. Given a rate from departures, the delays show the bytes that passed before queueing
/// began, to within the error of the rate over the longest delay, and one packet.
fn parameters_between(seen: &Observation, exact: &Exact) -> (Parameters, Option<ByteBasis>) {
    let basis = exact.drain_basis();
    let mut parameters = parameters(seen);
    let rate = drain_rate_between(seen, exact, basis).filter(|_| !releases_in_ticks(seen, exact));
    let Some((rate, departures)) = rate.zip(exact.departures.as_ref()) else {
        if let Some(rate) = parameters.get_mut("rate_bps") {
            raise_by_missed(rate, exact.missed_share);
        }
        return (parameters, None);
    };
    let trace = &seen.group_trace.trace;
    let value = burst_bytes_at(trace, departures.rate_bps.value);
    let at = |rate: Option<f64>| rate.map_or(value, |rate| burst_bytes_at(trace, rate));
    let ends = [at(departures.rate_bps.low), at(departures.rate_bps.high)];
    let packet_bytes = trace.typical_bytes;
    let burst = Quantity {
        value: value + packet_bytes,
        low: Some((ends[0].min(ends[1]).min(value) - packet_bytes).max(0.0)),
        high: Some(ends[0].max(ends[1]).max(value) + 2.0 * packet_bytes),
    };
    let rate = nominal(rate, trace, burst.low.unwrap_or(0.0));
    parameters.insert("burst_bytes".to_owned(), burst);
    parameters.insert("rate_bps".to_owned(), rate);
    (parameters, basis)
}

#[cfg(test)]
mod tests {
    use whydrop_path::fit::{Seen, TracePacket};
    use whydrop_path::{Arrival, Limit, TickShaper, replay};

    use super::*;

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

    #[test]
    fn missed_packets_raise_the_upper_end_of_a_rate_alone() {
        let mut rate = Quantity {
            value: 10e6,
            low: Some(9e6),
            high: Some(11e6),
        };
        raise_by_missed(&mut rate, 0.12);
        assert_eq!((rate.low, rate.value), (Some(9e6), 10e6));
        assert!((rate.high.unwrap() - 12.5e6).abs() < 1.0);
    }
}
