//! The token bucket that queues.

use crate::element::with_overhead;
use crate::queue::Places;
use crate::{Arrival, Backlog, Limit, Outcome, PathElement, TokenBucket};

/// A token bucket that queues: packets wait, in order, for their tokens; those that find the queue full are
/// dropped, and so are those larger than the bucket. Like Linux `tbf`, with its optional peak rate.
///
/// A packet departs at the moment when its tokens are there: the time on the wire belongs to the link behind.
#[derive(Debug, Clone)]
pub struct Shaper {
    committed: TokenBucket,
    peak: Option<TokenBucket>,
    limit: Limit,
    overhead_bytes: u32,
    places: Places,
    /// Departure of the last packet: none may leave before it.
    last_departure_ns: i64,
}

impl Shaper {
    /// `limit` is for the packets that wait for tokens.
    pub fn new(rate_bps: u64, burst_bytes: u64, limit: Limit) -> Self {
        Self {
            committed: TokenBucket::new(rate_bps, burst_bytes),
            peak: None,
            limit,
            overhead_bytes: 0,
            places: Places::default(),
            last_departure_ns: i64::MIN,
        }
    }

    /// Also limit to a peak rate, with a (small) burst of its own; `tbf` calls that `mtu`.
    pub fn with_peak(mut self, peak_rate_bps: u64, peak_burst_bytes: u64) -> Self {
        self.peak = Some(TokenBucket::new(peak_rate_bps, peak_burst_bytes));
        self
    }

    with_overhead!();

    /// Start with this many bytes of tokens instead of a full bucket.
    pub fn with_initial_bytes(mut self, bytes: u64) -> Self {
        self.committed = self.committed.with_initial_bytes(bytes);
        self
    }

    /// The backlog at this time; advances the clock.
    pub fn backlog_at(&mut self, time_ns: i64) -> Backlog {
        self.places.advance(time_ns);
        self.places.backlog()
    }

    /// The first time, not before `now_ns` and not before the packet ahead leaves, with tokens for `bytes`.
    fn departure_ns(&mut self, now_ns: i64, bytes: u64) -> Option<i64> {
        let start_ns = now_ns.max(self.last_departure_ns);
        self.committed.refill(start_ns);
        let mut departure_ns = self.committed.ready_ns(start_ns, bytes)?;
        if let Some(peak) = &mut self.peak {
            peak.refill(start_ns);
            departure_ns = departure_ns.max(peak.ready_ns(start_ns, bytes)?);
        }
        Some(departure_ns)
    }
}

impl PathElement for Shaper {
    #[inline]
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        let bytes = u64::from(packet.bytes) + u64::from(self.overhead_bytes);
        let now_ns = self.places.advance(packet.time_ns);
        let Some(departure_ns) = self.departure_ns(now_ns, bytes) else {
            return Outcome::Dropped;
        };
        if departure_ns > now_ns {
            if !self.limit.admits(self.places.backlog(), bytes) {
                return Outcome::Dropped;
            }
            self.places.hold(departure_ns, bytes);
        }
        for bucket in std::iter::once(&mut self.committed).chain(&mut self.peak) {
            bucket.refill(departure_ns);
            // Short of tokens only at the end of the time range (i64::MAX).
            if bucket.holds(bytes) {
                bucket.take(bytes);
            }
        }
        self.last_departure_ns = departure_ns;
        Outcome::Departs {
            time_ns: departure_ns,
        }
    }

    fn level_bytes_at(&mut self, time_ns: i64) -> f64 {
        self.backlog_at(time_ns).bytes as f64
    }

    fn reset(&mut self) {
        self.committed.reset();
        if let Some(peak) = &mut self.peak {
            peak.reset();
        }
        self.places.clear();
        self.last_departure_ns = i64::MIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay;

    fn at(time_ns: i64, bytes: u32) -> Arrival {
        Arrival { time_ns, bytes }
    }

    fn departures_ms(shaper: &mut Shaper, arrivals: &[Arrival]) -> Vec<Option<f64>> {
        let ms = |outcome: Outcome| outcome.departure_ns().map(|ns| ns as f64 / 1e6);
        replay(shaper, arrivals).into_iter().map(ms).collect()
    }

    #[test]
    fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
        // A bucket of two packets; 1500 bytes at 12 Mbit/s are 1 ms.
        let mut shaper = Shaper::new(12_000_000, 3_000, Limit::NONE);
        let departures = departures_ms(&mut shaper, &[at(0, 1_500); 4]);
        assert_eq!(departures, [Some(0.0), Some(0.0), Some(1.0), Some(2.0)]);
    }

    #[test]
    fn tokens_saved_while_idle_are_spent_later() {
        // At 1.5 ms there are 1.5 packets: one leaves at once, the next 0.5 ms later.
        let mut shaper = Shaper::new(12_000_000, 3_000, Limit::NONE);
        let arrivals = [
            at(0, 1_500),
            at(0, 1_500),
            at(1_500_000, 1_500),
            at(1_500_000, 1_500),
        ];
        assert_eq!(
            departures_ms(&mut shaper, &arrivals),
            [Some(0.0), Some(0.0), Some(1.5), Some(2.0)]
        );
    }

    #[test]
    fn packets_that_find_the_queue_full_are_dropped_and_take_no_tokens() {
        let mut shaper = Shaper::new(12_000_000, 1_500, Limit::packets(1));
        let arrivals = [
            at(0, 1_500),
            at(0, 1_500),
            at(0, 1_500),
            at(1_000_000, 1_500),
        ];
        assert_eq!(
            departures_ms(&mut shaper, &arrivals),
            [Some(0.0), Some(1.0), None, Some(2.0)]
        );
        let mut in_bytes = Shaper::new(12_000_000, 1_500, Limit::bytes(1_500));
        assert_eq!(
            departures_ms(&mut in_bytes, &arrivals),
            [Some(0.0), Some(1.0), None, Some(2.0)]
        );
    }

    #[test]
    fn a_packet_larger_than_the_bucket_is_dropped_as_tbf_does() {
        let mut shaper = Shaper::new(12_000_000, 1_000, Limit::NONE);
        assert_eq!(
            departures_ms(&mut shaper, &[at(0, 1_001), at(0, 1_000)]),
            [None, Some(0.0)]
        );
    }

    #[test]
    fn a_small_packet_does_not_overtake_a_large_one() {
        let mut shaper = Shaper::new(12_000_000, 1_500, Limit::NONE).with_initial_bytes(100);
        assert_eq!(
            departures_ms(&mut shaper, &[at(0, 1_600), at(0, 850), at(0, 50)]),
            [None, Some(0.5), Some(0.533_334)]
        );
    }

    #[test]
    fn a_peak_rate_spreads_the_burst() {
        // The burst of 10 packets would pass at once; 24 Mbit/s and one packet of peak burst let one pass each 0.5 ms.
        let mut shaper = Shaper::new(1_000_000, 15_000, Limit::NONE).with_peak(24_000_000, 1_500);
        let departures = departures_ms(&mut shaper, &[at(0, 1_500); 3]);
        assert_eq!(departures, [Some(0.0), Some(0.5), Some(1.0)]);
    }

    #[test]
    fn decreasing_time_adds_no_tokens() {
        let mut shaper = Shaper::new(12_000_000, 1_500, Limit::NONE);
        let arrivals = [at(5_000_000, 1_500), at(0, 1_500), at(i64::MIN, 1_500)];
        assert_eq!(
            departures_ms(&mut shaper, &arrivals),
            [Some(5.0), Some(6.0), Some(7.0)]
        );
    }
}
