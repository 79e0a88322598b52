//! Counts the packets in a full queue from the delays of packets around a loss: those that have arrived and
//! not left.
//!
//! Counting needs no packet sizes, and hardly a rate: departures are observed. Before the queue delays are
//! those of round trips. They are sometimes too long (receivers delay acknowledgments and hosts are busy),
//! and never too short; packets that find no queue show by how much. Behind the queue departures are
//! captured, and clocks of senders show the arrivals.

use super::delay::quantile;
use super::level::Server;
use super::never_nan::{larger, smaller};
use super::profile::Interval;
use super::trace::{Seen, Trace};
use super::virtual_queue::uncorrected;

/// The packets that lost ones found queued, excluding themselves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BacklogByWaits {
    /// Packets: the median over the losses, the lowest twentieth and the highest fifth.
    pub packets: Interval,
    /// IP bytes, likewise.
    pub bytes: Interval,
    /// Excess of the delays of packets that find no queue, seconds: of at least four in five, and of half.
    pub mostly_late_s: f64,
    pub typically_late_s: f64,
}

/// Fewer packets without a queue do not show the excess of delays.
const FEWEST_ALONE: usize = 5;

impl BacklogByWaits {
    /// Mean size of queued packets, IP bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.bytes.value / self.packets.value.max(1.0)
    }
}

/// Counts the packets that lost packets found in a queue with a drain rate. Each packet of the trace consists
/// of `pieces` wire packets. `None` without losses, or if half of them found no queue.
pub fn backlog_by_waits(
    trace: &Trace,
    rate_bps: f64,
    pieces: impl Fn(usize) -> f64,
) -> Option<BacklogByWaits> {
    let rate = rate_bps / 8.0;
    if trace.lost == 0 || !(rate.is_finite() && rate > 0.0) {
        return None;
    }
    let turns_s = turns_s(trace, rate);
    let (mut packets, mut bytes) = (Vec::new(), Vec::new());
    let (mut inside_packets, mut inside_bytes) = (0.0, 0.0);
    let mut first = 0;
    let stays = |index: usize| trace.outcome[index] != Seen::Lost;
    for index in 0..trace.len() {
        while first < index && turns_s[first] <= trace.time_s[index] {
            if stays(first) {
                inside_packets -= pieces(first);
                inside_bytes -= f64::from(trace.bytes[first]);
            }
            first += 1;
        }
        if stays(index) {
            inside_packets += pieces(index);
            inside_bytes += f64::from(trace.bytes[index]);
        } else {
            packets.push(inside_packets as f32);
            bytes.push(inside_bytes as f32);
        }
    }
    let (mostly_late_s, typically_late_s) = late_s(trace, rate, &turns_s);
    let found = BacklogByWaits {
        packets: spread(packets),
        bytes: spread(bytes),
        mostly_late_s,
        typically_late_s,
    };
    (found.packets.value > 0.0).then_some(found)
}

/// Counts the packets that lost packets found, from observed departures and from arrivals known by clocks:
/// packets that leave after a lost one arrived, and before it would have left. Packets that were delivered
/// without an observed departure may have been queued, or lost as well.
pub fn backlog_by_departures(trace: &Trace) -> Option<BacklogByWaits> {
    let leaves_s: Vec<f64> = (trace.time_s.iter().zip(&trace.delay_s))
        .map(|(time_s, delay_s)| time_s + f64::from(*delay_s))
        .collect();
    let mut last_s = f64::MIN;
    let mut losses: Vec<(f64, f64)> = Vec::new();
    let (mut seen, mut all) = (Vec::new(), Vec::new());
    for (index, leaves_s) in leaves_s.into_iter().enumerate() {
        let bytes = f64::from(trace.bytes[index]);
        let is_seen = !leaves_s.is_nan();
        // max ignores NaN
        last_s = last_s.max(leaves_s);
        if trace.outcome[index] == Seen::Lost {
            losses.push((trace.time_s[index], last_s));
        } else {
            let left_s = if is_seen { leaves_s } else { last_s };
            all.push((left_s, bytes));
            seen.extend(is_seen.then_some((left_s, bytes)));
        }
    }
    let (seen, all) = (Departures::of(seen), Departures::of(all));
    let counted = |departures: &Departures, of: fn((f64, f64)) -> f64| {
        let counts = losses
            .iter()
            .map(|(from_s, to_s)| of(departures.between(*from_s, *to_s)) as f32);
        spread(counts.collect())
    };
    let both = |of: fn((f64, f64)) -> f64| {
        let (least, most) = (counted(&seen, of), counted(&all, of));
        Interval {
            value: 0.5 * (least.value + most.value),
            low: least.low,
            high: most.high,
        }
    };
    let found = BacklogByWaits {
        packets: both(|(packets, _)| packets),
        bytes: both(|(_, bytes)| bytes),
        mostly_late_s: 0.0,
        typically_late_s: 0.0,
    };
    (!losses.is_empty() && found.packets.value > 0.0).then_some(found)
}

/// Packets in the order of departure, with the bytes up to each.
struct Departures {
    left_s: Vec<f64>,
    until_bytes: Vec<f64>,
}

impl Departures {
    fn of(mut packets: Vec<(f64, f64)>) -> Self {
        packets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0.0;
        let until_bytes = packets.iter().map(|(_, bytes)| {
            sum += bytes;
            sum
        });
        let until_bytes: Vec<f64> = until_bytes.collect();
        Self {
            left_s: packets.iter().map(|packet| packet.0).collect(),
            until_bytes,
        }
    }

    /// Packets and bytes that left between two times.
    fn between(&self, from_s: f64, to_s: f64) -> (f64, f64) {
        let upto = |time_s: f64| self.left_s.partition_point(|left_s| *left_s <= time_s);
        let (from, to) = (upto(from_s), upto(to_s).max(upto(from_s)));
        let bytes = |count: usize| {
            count
                .checked_sub(1)
                .map_or(0.0, |last| self.until_bytes[last])
        };
        ((to - from) as f64, bytes(to) - bytes(from))
    }
}

/// Start of each packet's transmission, or when it would have been. A queue preserves the order: a packet
/// further back with a known departure left later. One with an unknown departure left as soon as those before
/// it had been sent. Never before its arrival, and in order.
fn turns_s(trace: &Trace, rate: f64) -> Vec<f64> {
    let mut turns_s: Vec<f64> = (trace.time_s.iter().zip(&trace.delay_s))
        .map(|(time_s, delay_s)| time_s + f64::from(*delay_s))
        .collect();
    let mut behind_s = f64::INFINITY;
    for turn_s in turns_s.iter_mut().rev() {
        // min ignores NaN
        behind_s = behind_s.min(*turn_s);
        *turn_s = behind_s;
    }
    let (mut queue, mut last_s) = (Server::IDLE, f64::MIN);
    for (index, turn_s) in turns_s.iter_mut().enumerate() {
        let time_s = trace.time_s[index];
        if trace.delay_s[index].is_nan() {
            *turn_s = smaller(*turn_s, queue.start_s(time_s));
        }
        *turn_s = larger(larger(*turn_s, time_s), last_s);
        last_s = *turn_s;
        if trace.outcome[index] != Seen::Lost {
            queue.free_s = *turn_s + f64::from(trace.bytes[index]) / rate;
        }
    }
    turns_s
}

/// Excess of the delays of packets that find at most one packet queued, given arrivals and rate: the lowest
/// fifth, and the median.
fn late_s(trace: &Trace, rate: f64, turns_s: &[f64]) -> (f64, f64) {
    let alone = |index: &usize| !trace.delay_s[*index].is_nan();
    let found = uncorrected(trace, rate);
    let mut waits_s: Vec<f32> = (0..trace.len())
        .filter(|index| found[*index] <= trace.largest_bytes && alone(index))
        .map(|index| {
            let wait_s = turns_s[index] - trace.time_s[index];
            larger(wait_s - f64::from(found[index]) / rate, 0.0) as f32
        })
        .collect();
    if waits_s.len() < FEWEST_ALONE {
        return (0.0, 0.0);
    }
    waits_s.sort_by(f32::total_cmp);
    let at = |share: f64| f64::from(quantile(&waits_s, share));
    (at(0.2), at(0.5))
}

fn spread(mut values: Vec<f32>) -> Interval {
    values.sort_by(f32::total_cmp);
    let at = |share: f64| f64::from(quantile(&values, share));
    Interval {
        value: at(0.5),
        low: Some(at(0.05)),
        high: Some(at(0.8)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::trace::TracePacket;
    use crate::{Arrival, Fifo, Limit, Outcome, Random, replay};

    const RATE_BPS: u64 = 12_000_000;

    /// Packets of two sizes, a quarter faster than a queue of 40 packets drains, in bursts; every third delay
    /// is measured, with an excess drawn by `late_s`.
    fn through_a_queue(late_s: impl Fn(&mut Random) -> f64) -> Trace {
        let mut random = Random::new(3);
        let mut now_s = 0.0;
        let mut arrivals = Vec::new();
        for burst in 0..40 {
            for _ in 0..400 {
                let bytes = if random.chance(0.5) { 1_500 } else { 500 };
                now_s += f64::from(bytes) * 8.0 / 15e6;
                let time_ns = (now_s * 1e9) as i64;
                arrivals.push(Arrival { time_ns, bytes });
            }
            now_s += 0.2 + 0.001 * f64::from(burst % 7);
        }
        let mut queue = Fifo::new(RATE_BPS, Limit::packets(40));
        let outcomes = replay(&mut queue, &arrivals);
        let observed = arrivals.iter().zip(&outcomes).enumerate();
        let observations = observed.map(|(index, (arrival, outcome))| {
            let service_s = f64::from(arrival.bytes) * 8.0 / RATE_BPS as f64;
            let wait_s = outcome
                .departure_ns()
                .map(|departure_ns| (departure_ns - arrival.time_ns) as f64 * 1e-9 - service_s);
            let measured = index % 3 == 0;
            TracePacket {
                time_ns: arrival.time_ns,
                bytes: arrival.bytes,
                outcome: match outcome {
                    Outcome::Dropped => Seen::Lost,
                    _ => Seen::Passed,
                },
                delay_s: wait_s
                    .filter(|_| measured)
                    .map(|wait_s| (wait_s.max(0.0) + late_s(&mut random)) as f32),
            }
        });
        Trace::new(observations.collect())
    }

    #[test]
    fn packets_of_several_sizes_are_counted_to_the_packet() {
        let trace = through_a_queue(|_| 0.0);
        assert!(trace.lost > 100);
        let backlog = backlog_by_waits(&trace, RATE_BPS as f64, |_| 1.0).unwrap();
        let (low, high) = (backlog.packets.low.unwrap(), backlog.packets.high.unwrap());
        assert!(
            (backlog.packets.value - 40.0).abs() <= 1.0 && low >= 39.0 && high <= 41.0,
            "{backlog:?}"
        );
        assert!(
            (800.0..1_200.0).contains(&backlog.mean_bytes()),
            "{backlog:?}"
        );
        assert!(backlog.typically_late_s < 1e-4, "{backlog:?}");
    }

    #[test]
    fn late_acknowledgments_show_without_a_queue() {
        let trace = through_a_queue(|random| random.uniform(4e-3, 8e-3));
        let backlog = backlog_by_waits(&trace, RATE_BPS as f64, |_| 1.0).unwrap();
        let late_packets = backlog.typically_late_s * RATE_BPS as f64 / 8.0 / backlog.mean_bytes();
        assert!(backlog.packets.value > 42.0, "{backlog:?}");
        assert!(
            backlog.packets.low.unwrap() - late_packets <= 40.0,
            "{backlog:?} {late_packets}"
        );
    }

    #[test]
    fn pieces_of_a_super_segment_count_each() {
        let trace = through_a_queue(|_| 0.0);
        let one = backlog_by_waits(&trace, RATE_BPS as f64, |_| 1.0).unwrap();
        let two = backlog_by_waits(&trace, RATE_BPS as f64, |_| 2.0).unwrap();
        assert_eq!(two.packets.value, 2.0 * one.packets.value);
        assert_eq!(two.bytes, one.bytes);
    }

    #[test]
    fn behind_the_queue_packets_without_a_departure_may_have_been_queued() {
        let mut trace = through_a_queue(|_| 0.0);
        // all that was measured, as seen from behind: every packet that left
        let turns_s = turns_s(&trace, RATE_BPS as f64 / 8.0);
        for (index, turn_s) in turns_s.iter().enumerate() {
            if trace.outcome[index] == Seen::Passed {
                trace.delay_s[index] = (turn_s - trace.time_s[index]) as f32;
            }
        }
        let all_seen = backlog_by_departures(&trace).unwrap();
        assert!((all_seen.packets.value - 40.0).abs() <= 1.0, "{all_seen:?}");
        trace
            .delay_s
            .iter_mut()
            .step_by(8)
            .for_each(|delay_s| *delay_s = f32::NAN);
        let missed = backlog_by_departures(&trace).unwrap();
        let (low, high) = (missed.packets.low.unwrap(), missed.packets.high.unwrap());
        assert!(low < 38.0 && (39.0..=41.0).contains(&high), "{missed:?}");
    }

    #[test]
    fn there_is_no_result_without_losses() {
        let trace = through_a_queue(|_| 0.0).first(10);
        assert_eq!(trace.lost, 0);
        assert!(backlog_by_departures(&trace).is_none());
        assert!(backlog_by_waits(&trace, RATE_BPS as f64, |_| 1.0).is_none());
    }
}
