//! The limit of a queue, from one capture: its contents when it drops.
//!
//! Two measurements show it, each with its own errors. The delays of packets around the losses give the
//! contents; receivers and hosts add to round trips, which matters little for a long delay and much for a
//! short one. The losses themselves show by how much arrivals exceed a steady rate; the error of that rate
//! matters little for a queue that is short and often empty, and much for a long one. The more precise result
//! is used.

use whydrop_path::fit::{BacklogByWaits, Interval, backlog_by_departures, backlog_by_waits};
use whydrop_verdict::Quantity;

use crate::observe::observation::{MostCounted, Observation};
use crate::quantities::widened;
use crate::thresholds::*;

/// A limit in packets and in IP bytes: one capture hardly shows which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueLimit {
    pub packets: Quantity,
    pub bytes: Quantity,
}

/// `None` if no delay was measured near a loss.
pub fn queue_limit(seen: &Observation, most: MostCounted) -> Option<QueueLimit> {
    seen.at_loss.as_ref()?;
    let trace = &seen.group_trace.trace;
    let rate_bps = seen.queue_rate_bps().value;
    let pieces = |index: usize| {
        let bytes = f64::from(trace.bytes[index]);
        let cut = bytes > ETHERNET_BYTES.max(trace.typical_bytes);
        if cut {
            (bytes / trace.typical_bytes).ceil()
        } else {
            1.0
        }
    };
    let backlog = match seen.by_clocks {
        true => backlog_by_departures(trace)?,
        false => backlog_by_waits(trace, rate_bps, pieces)?,
    };
    let unseen = Unseen::of(seen, rate_bps, &backlog);
    let unsure_s = if seen.by_clocks { USUAL_TICK_S } else { 0.0 };
    let by_waits = by_waits(&backlog, unsure_s, rate_bps);
    let by_losses = by_losses(seen, backlog.mean_bytes());
    let sharper = |of: fn(&Inside) -> Interval| match by_losses {
        Some(by_losses) if width(of(&by_losses)) < width(of(&by_waits)) => of(&by_losses),
        _ => of(&by_waits),
    };
    // super-segments leave on a line of which the rate is known only to some per cent: one more or one fewer of their
    // packets may have come before the first drop
    let unsure_packets = f64::from(u8::from(seen.line_rate_bps.is_some()));
    let unsure_bytes = unsure_packets * backlog.mean_bytes();
    let packets = widened(sharper(|inside| inside.packets), unsure_packets);
    let packets = unseen.beside_packets(packets);
    let bytes = widened(sharper(|inside| inside.bytes), unsure_bytes);
    let bytes = unseen.beside_bytes(bytes);
    Some(QueueLimit {
        packets: Quantity {
            value: packets.value.round().max(1.0),
            low: packets.low.map(|low| low.floor().max(0.0)),
            high: packets.high.map(f64::ceil),
        },
        bytes: Quantity {
            value: bytes.value,
            low: bytes.low.map(|low| low.max(0.0)),
            // a device may count bytes that no capture shows
            high: bytes.high.map(|high| high * most.own),
        },
    })
}

/// The largest contents.
#[derive(Debug, Clone, Copy)]
struct Inside {
    packets: Interval,
    bytes: Interval,
}

/// The packets that lost ones found queued: at most one more is admitted, namely the one in service if it
/// counts until it has left completely. In bytes the limit is anywhere between the queued bytes and those
/// plus one packet. Clocks are uncertain by a tick.
fn by_waits(backlog: &BacklogByWaits, unsure_s: f64, rate_bps: f64) -> Inside {
    let packet_bytes = backlog.mean_bytes().max(1.0);
    let packets = |time_s: f64| time_s * rate_bps / 8.0 / packet_bytes;
    let mostly = packets(backlog.mostly_late_s);
    let typically = packets(backlog.typically_late_s.max(unsure_s));
    let unsure = packets(unsure_s);
    // each in packets
    let counted = |interval: Interval, unit: f64, value_more: f64, high_more: f64| Interval {
        value: interval.value + (value_more - mostly) * unit,
        low: interval.low.map(|low| low - typically * unit),
        high: interval.high.map(|high| high + (high_more + unsure) * unit),
    };
    Inside {
        packets: counted(backlog.packets, 1.0, 0.0, 1.0),
        bytes: counted(backlog.bytes, packet_bytes, 0.5, 2.0),
    }
}

/// The limit derived from losses includes the packet that is not admitted, and the rest of the one in
/// service, which most queues do not count. Datagrams arrive irregularly and make the losses less
/// informative.
fn by_losses(seen: &Observation, packet_bytes: f64) -> Option<Inside> {
    let fit = seen.bucket.as_ref()?;
    let seen_bps = seen.queue_rate_bps().value;
    let same_rate = (fit.rate_bps.value / seen_bps).ln().abs() < ALIKE_RATES;
    if !same_rate || fit.certainty() < NEEDED_CERTAINTY {
        return None;
    }
    let limit = fit.limit_bytes;
    let (low, high) = (limit.low?, limit.high?);
    let beside = 1.0 + seen.beside.bytes / seen.group_trace.trace.passed_bytes.max(1.0);
    let counted = |unit: f64| Interval {
        value: (limit.value - NOT_ADMITTED_PACKETS * packet_bytes) / unit,
        low: Some((low / beside - packet_bytes) / unit),
        high: Some(high / unit),
    };
    Some(Inside {
        packets: counted(packet_bytes),
        bytes: counted(1.0),
    })
}

fn width(interval: Interval) -> f64 {
    match (interval.low, interval.high) {
        (Some(low), Some(high)) => high - low,
        _ => f64::INFINITY,
    }
}

/// Packets and bytes that may be queued beyond those that are counted.
struct Unseen {
    /// Packets and bytes of datagrams to the same receiver, per counted one.
    packets_share: f64,
    bytes_share: f64,
    /// Those that may have been queued all the time.
    stood_packets: f64,
    stood_bytes: f64,
}

impl Unseen {
    fn of(seen: &Observation, rate_bps: f64, backlog: &BacklogByWaits) -> Self {
        let trace = &seen.group_trace.trace;
        let passed = (trace.len() - trace.lost).max(1) as f64;
        let stood_bytes = seen.stood_s * rate_bps / 8.0;
        Self {
            packets_share: seen.beside.packets / passed,
            bytes_share: seen.beside.bytes / trace.passed_bytes.max(1.0),
            stood_packets: stood_bytes / backlog.mean_bytes().max(1.0),
            stood_bytes,
        }
    }

    fn beside_packets(&self, interval: Interval) -> Interval {
        with(interval, self.packets_share, self.stood_packets)
    }

    fn beside_bytes(&self, interval: Interval) -> Interval {
        with(interval, self.bytes_share, self.stood_bytes)
    }
}

/// Datagrams arrive irregularly: none may be queued, or up to their share; the estimate is half of that.
fn with(interval: Interval, share: f64, stood: f64) -> Interval {
    Interval {
        value: interval.value * (1.0 + 0.5 * share),
        low: interval.low,
        high: interval.high.map(|high| high * (1.0 + share) + stood),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whydrop_path::{Arrival, Fifo, Limit, PathElement};
    use whydrop_tcp::{Flow, Segment};

    use crate::quantities::most_counted;
    use crate::testing::{delivered, flow, group, lost};
    use crate::vantage::observe_group;

    const RATE_BPS: u64 = 12_000_000;
    const LIMIT_PACKETS: u64 = 30;
    const BASE_NS: i64 = 20_000_000;

    /// Bursts through a queue of 30 packets; in every other one, half of the packets are small. Round trips
    /// are late by up to this many nanoseconds, in steps.
    fn overflows(late_ns: i64) -> Flow {
        let mut queue = Fifo::new(RATE_BPS, Limit::packets(LIMIT_PACKETS));
        let mut now_ns = 0;
        let mut segments: Vec<Segment> = Vec::new();
        for number in 0..6_000i64 {
            let small = (number / 200) % 2 == 0 && number % 2 == 0;
            let payload_bytes = if small { 448 } else { 1_448 };
            let bytes = payload_bytes + 52;
            now_ns += i64::from(bytes) * 8 * 1_000 / 15;
            now_ns += if number % 200 == 0 { 150_000_000 } else { 0 };
            let arrival = Arrival {
                time_ns: now_ns,
                bytes,
            };
            let segment = match queue.arrive(arrival).departure_ns() {
                None => lost(now_ns),
                Some(departure_ns) => Segment {
                    rtt_ns: BASE_NS + departure_ns - now_ns + number * 7 % 11 * late_ns / 10,
                    ..delivered(now_ns, 0)
                },
            };
            segments.push(Segment {
                payload_bytes,
                ..segment
            });
        }
        flow(1, segments)
    }

    fn limit_of(flow: Flow) -> (QueueLimit, f64) {
        let seen = observe_group(&group(&[flow]));
        let limit = queue_limit(&seen, most_counted(&seen)).unwrap();
        (limit, seen.stood_s)
    }

    #[test]
    fn small_packets_count_like_others() {
        let (limit, _) = limit_of(overflows(0));
        let packets = limit.packets;
        assert!((packets.value - 30.0).abs() <= 1.0, "{limit:?}");
        let (low, high) = (packets.low.unwrap(), packets.high.unwrap());
        assert!(low <= 30.0 && 30.0 <= high, "{limit:?}");
    }

    #[test]
    fn late_round_trips_leave_the_limit_within_its_interval() {
        let (limit, _) = limit_of(overflows(6_000_000));
        let (low, high) = (limit.packets.low.unwrap(), limit.packets.high.unwrap());
        assert!(
            low <= 30.0 && 30.0 <= high && high - low < 15.0,
            "{limit:?}"
        );
    }

    #[test]
    fn a_possible_standing_queue_and_datagrams_raise_the_upper_end() {
        let interval = Interval {
            value: 100.0,
            low: Some(98.0),
            high: Some(102.0),
        };
        let raised = with(interval, 0.1, 5.0);
        assert_eq!((raised.low, raised.value.round()), (Some(98.0), 105.0));
        assert!((raised.high.unwrap() - 117.2).abs() < 1e-9, "{raised:?}");
    }

    #[test]
    fn pauses_show_an_empty_queue_and_without_one_it_may_be_standing() {
        let (_, stood_s) = limit_of(overflows(0));
        assert_eq!(stood_s, 0.0);
        let mut no_pause = overflows(0);
        no_pause.segments.truncate(199);
        let (_, stood_s) = limit_of(flow(1, no_pause.segments));
        assert!(stood_s > 0.02, "{stood_s}");
    }
}
