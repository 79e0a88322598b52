//! Packets that a shaper releases together, at each tick of its timer, and the resulting uncertainty of its
//! rate.

use super::delay::quantile;
use super::trace::{Seen, Trace};

/// A shorter tick may be another cause that groups packets: interrupts, and lines.
const SHORTEST_TICK_S: f64 = 5e-4;
/// Packets released together leave within this share of a tick.
const TOGETHER: f64 = 0.25;
/// Fewer consecutive ticks are not evaluated.
const FEWEST_TICKS: usize = 20;
/// Most gaps between separate releases are one tick: the middle half of them lies within this share of it.
const STEADY: f64 = 0.25;
/// Least mean number of departures at a tick.
const FEWEST_TOGETHER: usize = 2;
/// Largest ratio of the most packets at a tick to the mean while the bucket cuts tokens off.
const CUT_WITHIN: f64 = 1.2;

/// The factor by which a shaper's nominal rate may exceed its release rate, because the tokens of a tick do
/// not all fit into its bucket, which holds at least `bucket_bytes`. 1 if packets do not leave in ticks, or if
/// no tokens can be lost.
///
/// Let the bucket hold `c` packets, and let `p` more arrive with each tick, `p` at most `c`. Less than one
/// packet's tokens are left when a packet waits. So tokens are lost only if `p` is above `c - 1`, and each
/// tick releases the whole packets in `c`, or one fewer. If the number is constant, `p` may be anything up to
/// one more; if it is sometimes one fewer, `p` is less than the most at a tick: otherwise as many packets
/// would be released each time.
pub fn rate_cut_off(trace: &Trace, bucket_bytes: f64) -> f64 {
    let Some(mut together) = let_out_at_ticks(trace) else {
        return 1.0;
    };
    let mean = together.iter().sum::<f32>() / together.len() as f32;
    together.sort_by(f32::total_cmp);
    let packet = trace.typical_bytes as f32;
    let (fewest, most) = (quantile(&together, 0.1), quantile(&together, 0.9));
    let holds_more = bucket_bytes > f64::from(most + packet);
    if holds_more || most - mean > CUT_WITHIN as f32 * packet {
        return 1.0;
    }
    let always = most - fewest < 0.5 * packet;
    let most_refilled = if always { most + packet } else { most };
    f64::from(most_refilled / mean).max(1.0)
}

/// Bytes that left at each tick that follows another one.
fn let_out_at_ticks(trace: &Trace) -> Option<Vec<f32>> {
    let left = departures(trace);
    let mut gaps_s: Vec<f32> = left
        .windows(2)
        .map(|pair| (pair[1].0 - pair[0].0) as f32)
        .filter(|gap_s| f64::from(*gap_s) > SHORTEST_TICK_S)
        .collect();
    if gaps_s.len() < FEWEST_TICKS {
        return None;
    }
    gaps_s.sort_by(f32::total_cmp);
    let tick_s = f64::from(quantile(&gaps_s, 0.5));
    let middle_half_s = f64::from(quantile(&gaps_s, 0.75) - quantile(&gaps_s, 0.25));
    if middle_half_s > STEADY * tick_s {
        return None;
    }
    let departures = left.len();
    let mut ticks: Vec<(f64, f32)> = Vec::new();
    for (left_s, bytes) in left {
        match ticks.last_mut() {
            Some((at_s, sum)) if left_s - *at_s < TOGETHER * tick_s => *sum += bytes,
            _ => ticks.push((left_s, bytes)),
        }
    }
    // any line sends one at a time, and one acknowledgment covers two packets
    if departures < FEWEST_TOGETHER * ticks.len() {
        return None;
    }
    let follows = |pair: &[(f64, f32)]| ((pair[1].0 - pair[0].0) / tick_s - 1.0).abs() < TOGETHER;
    // the last may be cut short by the next packets
    let full = ticks
        .windows(3)
        .filter(|three| follows(&three[..2]) && follows(&three[1..]));
    let found: Vec<f32> = full.map(|three| three[1].1).collect();
    // if they are few among all departures, they leave together for another reason
    (found.len() >= FEWEST_TICKS && 2 * found.len() > ticks.len() / 2).then_some(found)
}

/// Departures of packets that had to wait, in order. One with an unknown departure left with the next.
fn departures(trace: &Trace) -> Vec<(f64, f32)> {
    let mut left = Vec::new();
    let mut before = 0.0;
    for index in 0..trace.len() {
        if trace.outcome[index] == Seen::Lost {
            continue;
        }
        let delay_s = f64::from(trace.delay_s[index]);
        before += trace.bytes[index];
        if !delay_s.is_nan() {
            left.push((trace.time_s[index] + delay_s, before));
            before = 0.0;
        }
    }
    left.sort_by(|a, b| a.0.total_cmp(&b.0));
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::trace::TracePacket;
    use crate::{Arrival, Limit, PathElement, Shaper, TickShaper, replay};

    const TICK_NS: i64 = 5_000_000;

    /// Full packets at twice the shaper's rate, for a while.
    fn through(mut shaper: impl PathElement, rate_bps: f64) -> Trace {
        let arrivals: Vec<Arrival> = (0..1_500)
            .map(|number| Arrival {
                time_ns: (f64::from(number) * 6_000e9 / rate_bps) as i64,
                bytes: 1_500,
            })
            .collect();
        let outcomes = replay(&mut shaper, &arrivals);
        let observe = |(arrival, outcome): (&Arrival, crate::Outcome)| TracePacket {
            time_ns: arrival.time_ns,
            bytes: arrival.bytes,
            outcome: Seen::Passed,
            delay_s: outcome
                .departure_ns()
                .map(|left_ns| (left_ns - arrival.time_ns) as f32 * 1e-9),
        };
        Trace::new(arrivals.iter().zip(outcomes).map(observe).collect())
    }

    fn ticking(packets_a_tick: f64, packets_in_bucket: f64) -> Trace {
        let rate_bps = packets_a_tick * 12_000e9 / TICK_NS as f64;
        let burst_bytes = (packets_in_bucket * 1_500.0) as u64;
        let shaper = TickShaper::new(rate_bps as u64, TICK_NS, burst_bytes, Limit::NONE);
        through(shaper, rate_bps)
    }

    /// The factor by which the nominal rate exceeds that of the departures.
    fn cut(trace: &Trace, packets_a_tick: f64) -> f64 {
        let last_s = trace.time_s[trace.len() - 1] + f64::from(trace.delay_s[trace.len() - 1]);
        let first_s = trace.time_s[0] + f64::from(trace.delay_s[0]);
        packets_a_tick * (last_s - first_s) / (trace.len() as f64 * TICK_NS as f64 * 1e-9)
    }

    #[test]
    fn a_bucket_smaller_than_a_tick_and_a_packet_leaves_the_nominal_rate_open() {
        // always two; by turns three and two
        for (a_tick, bucket) in [(2.3, 2.5), (2.7, 3.0), (5.6, 5.9)] {
            let trace = ticking(a_tick, bucket);
            let (open, truth) = (rate_cut_off(&trace, 0.0), cut(&trace, a_tick));
            assert!(truth > 1.05, "{truth}");
            assert!(
                open >= truth - 0.01 && open < truth + 0.45,
                "{a_tick}: {open}, {truth}"
            );
        }
    }

    #[test]
    fn a_larger_bucket_and_one_without_ticks_leave_nothing_open() {
        let plain = through(Shaper::new(5_000_000, 6_000, Limit::NONE), 5e6);
        assert_eq!(rate_cut_off(&plain, 0.0), 1.0);
        // between ten and eleven packets, unless it is known that it holds fourteen
        let trace = ticking(10.3, 14.0);
        assert_eq!(rate_cut_off(&trace, 14.0 * 1_500.0), 1.0);
        assert!(rate_cut_off(&trace, 0.0) < 11.0 / 10.2);
    }
}
