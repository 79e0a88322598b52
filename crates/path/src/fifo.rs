//! The drop-tail queue in front of a link.

use serde::{Deserialize, Serialize};

use crate::queue::Places;
use crate::transmitter::Transmitter;
use crate::{Arrival, Backlog, Limit, Outcome, PathElement};

/// Place of the packet in service, inside the queue or not: the capacity differs by one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InService {
    /// Its place is free once its transmission begins: a queue in front of a link, which passes the packet to
    /// the device; also Linux `pfifo` and `bfifo` under `htb`, which releases a packet as soon as the debt of
    /// the one before is paid.
    #[default]
    NotCounted,
    /// Its place is free once its transmission ends: routers that count the packet being sent; also Linux `bfifo`
    /// under `tbf`, where the packet waits at the head of the queue for its tokens, and the limit of `tbf` itself.
    Counted,
}

/// First in, first out: packets wait for a link of `drain_rate_bps`, and packets that find the queue full are
/// dropped.
///
/// A packet departs when its last bit is sent. The link is never idle while a packet waits.
#[derive(Debug, Clone)]
pub struct Fifo {
    line: Transmitter,
    limit: Limit,
    in_service: InService,
    overhead_bytes: u32,
    places: Places,
}

impl Fifo {
    /// Packets enter while the queue, without the one in service, contains less than `limit`.
    pub fn new(drain_rate_bps: u64, limit: Limit) -> Self {
        Self {
            line: Transmitter::new(drain_rate_bps),
            limit,
            in_service: InService::default(),
            overhead_bytes: 0,
            places: Places::default(),
        }
    }

    pub fn with_in_service(mut self, in_service: InService) -> Self {
        self.in_service = in_service;
        self
    }

    /// Bytes counted (for the time on the link, and for a limit in bytes) on top of each IP packet.
    pub fn with_overhead(mut self, overhead_bytes: u32) -> Self {
        self.overhead_bytes = overhead_bytes;
        self
    }

    /// The backlog at this time; advances the clock.
    pub fn backlog_at(&mut self, time_ns: i64) -> Backlog {
        self.places.advance(time_ns);
        self.places.backlog()
    }

    /// Queueing delay of a packet that would arrive at this time.
    pub fn wait_ns_at(&self, time_ns: i64) -> i64 {
        self.line.free_ns().saturating_sub(time_ns).max(0)
    }

    pub fn drain_rate_bps(&self) -> u64 {
        self.line.rate_bps()
    }
}

impl PathElement for Fifo {
    #[inline]
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        let bytes = u64::from(packet.bytes) + u64::from(self.overhead_bytes);
        let now_ns = self.places.advance(packet.time_ns);
        // A packet that a free link takes at once needs no place, unless the one in service is counted.
        let waits = self.in_service == InService::Counted || self.line.free_ns() > now_ns;
        if waits && !self.limit.admits(self.places.backlog(), bytes) {
            return Outcome::Dropped;
        }
        let service = self.line.send(now_ns, bytes);
        let free_ns = match self.in_service {
            InService::NotCounted => service.start_ns,
            InService::Counted => service.end_ns,
        };
        if free_ns > now_ns {
            self.places.hold(free_ns, bytes);
        }
        Outcome::Departs {
            time_ns: service.end_ns,
        }
    }

    fn level_bytes_at(&mut self, time_ns: i64) -> f64 {
        self.backlog_at(time_ns).bytes as f64
    }

    fn reset(&mut self) {
        self.line.reset();
        self.places.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay;

    fn at(time_ns: i64, bytes: u32) -> Arrival {
        Arrival { time_ns, bytes }
    }

    fn departures_ms(fifo: &mut Fifo, arrivals: &[Arrival]) -> Vec<Option<f64>> {
        let ms = |outcome: Outcome| outcome.departure_ns().map(|ns| ns as f64 / 1e6);
        replay(fifo, arrivals).into_iter().map(ms).collect()
    }

    #[test]
    fn packets_leave_one_service_time_apart() {
        // 1500 bytes at 12 Mbit/s take 1 ms each.
        let mut fifo = Fifo::new(12_000_000, Limit::NONE);
        let arrivals = [
            at(0, 1_500),
            at(0, 1_500),
            at(500_000, 750),
            at(10_000_000, 1_500),
        ];
        assert_eq!(
            departures_ms(&mut fifo, &arrivals),
            [Some(1.0), Some(2.0), Some(2.5), Some(11.0)]
        );
    }

    #[test]
    fn the_packet_in_service_has_no_place_in_the_queue_by_default() {
        // Limit 2: one in service, two wait, the fourth is dropped. At 1 ms the first waiting one goes into
        // service and its place is free in that very nanosecond.
        let mut fifo = Fifo::new(12_000_000, Limit::packets(2));
        let arrivals = [
            at(0, 1_500),
            at(0, 1_500),
            at(0, 1_500),
            at(999_999, 1_500),
            at(1_000_000, 1_500),
            at(1_000_001, 1_500),
        ];
        let departures = departures_ms(&mut fifo, &arrivals);
        assert_eq!(
            departures,
            [Some(1.0), Some(2.0), Some(3.0), None, Some(4.0), None]
        );
    }

    #[test]
    fn the_packet_in_service_can_take_up_a_place_until_it_is_gone() {
        let mut fifo = Fifo::new(12_000_000, Limit::packets(2)).with_in_service(InService::Counted);
        let arrivals = [
            at(0, 1_500),
            at(0, 1_500),
            at(0, 1_500),
            at(1_000_000, 1_500),
        ];
        assert_eq!(
            departures_ms(&mut fifo, &arrivals),
            [Some(1.0), Some(2.0), None, Some(3.0)]
        );
    }

    #[test]
    fn a_limit_in_bytes_lets_small_packets_into_a_gap_that_large_ones_do_not_fit() {
        // One in service; 1500 + 1400 of 3000 bytes wait; 1500 do not fit, 100 do.
        let mut fifo = Fifo::new(12_000_000, Limit::bytes(3_000));
        let arrivals = [
            at(0, 1_500),
            at(0, 1_500),
            at(0, 1_400),
            at(0, 1_500),
            at(0, 100),
            at(0, 1),
        ];
        let dropped: Vec<bool> = replay(&mut fifo, &arrivals)
            .into_iter()
            .map(Outcome::is_dropped)
            .collect();
        assert_eq!(dropped, [false, false, false, true, false, true]);
        assert_eq!(
            fifo.backlog_at(0),
            Backlog {
                packets: 3,
                bytes: 3_000
            }
        );
    }

    #[test]
    fn the_first_of_two_limits_to_be_reached_applies() {
        let limit = Limit {
            packets: Some(3),
            bytes: Some(2_000),
        };
        let mut fifo = Fifo::new(1, limit);
        let small = [at(0, 100); 5];
        let dropped = |fifo: &mut Fifo, arrivals: &[Arrival]| {
            replay(fifo, arrivals)
                .into_iter()
                .filter(|o| o.is_dropped())
                .count()
        };
        assert_eq!(
            dropped(&mut fifo, &small),
            1,
            "one in service and three waiting"
        );
        assert_eq!(
            dropped(&mut fifo, &[at(0, 1_500); 5]),
            3,
            "one in service and one waiting"
        );
    }

    #[test]
    fn an_idle_link_takes_a_packet_larger_than_the_queue() {
        let mut fifo = Fifo::new(12_000_000, Limit::bytes(1_000));
        assert_eq!(
            departures_ms(&mut fifo, &[at(0, 1_500), at(0, 1_500)]),
            [Some(1.0), None]
        );
    }

    #[test]
    fn overhead_lengthens_the_time_on_the_link() {
        // 1462 + 38 bytes take 1 ms at 12 Mbit/s.
        let mut fifo = Fifo::new(12_000_000, Limit::NONE).with_overhead(crate::overhead::WIRE);
        assert_eq!(departures_ms(&mut fifo, &[at(0, 1_462)]), [Some(1.0)]);
    }

    #[test]
    fn decreasing_time_counts_as_no_time() {
        let mut fifo = Fifo::new(12_000_000, Limit::packets(1));
        let arrivals = [at(5_000_000, 1_500), at(0, 1_500), at(i64::MIN, 1_500)];
        assert_eq!(
            departures_ms(&mut fifo, &arrivals),
            [Some(6.0), Some(7.0), None]
        );
    }
}
