//! The plain policer: conform or drop.

use crate::element::with_overhead;
use crate::{Arrival, Outcome, PathElement, TokenBucket};

/// A token bucket that drops: a packet passes, at once, if there are tokens for all of it, and is dropped
/// otherwise.
///
/// One rate (committed information rate, CIR, and committed burst size, CBS: RFC 2697 with no excess burst),
/// or also a peak rate with its own burst; then a packet must find tokens in both buckets and takes them from
/// both. A dropped packet takes none.
#[derive(Debug, Clone)]
pub struct Policer {
    committed: TokenBucket,
    peak: Option<TokenBucket>,
    overhead_bytes: u32,
}

impl Policer {
    /// Rate and burst count the same bytes: those of the IP packet, plus the overhead, if one is given.
    pub fn new(rate_bps: u64, burst_bytes: u64) -> Self {
        Self {
            committed: TokenBucket::new(rate_bps, burst_bytes),
            peak: None,
            overhead_bytes: 0,
        }
    }

    pub fn with_peak(mut self, peak_rate_bps: u64, peak_burst_bytes: u64) -> Self {
        self.peak = Some(TokenBucket::new(peak_rate_bps, peak_burst_bytes));
        self
    }

    with_overhead!();

    /// Start with this many bytes of committed tokens instead of a full bucket.
    pub fn with_initial_bytes(mut self, bytes: u64) -> Self {
        self.committed = self.committed.with_initial_bytes(bytes);
        self
    }

    /// Committed tokens in bytes after the last packet.
    pub fn level_bytes(&self) -> f64 {
        self.committed.level_bytes()
    }

    pub fn rate_bps(&self) -> u64 {
        self.committed.rate_bps()
    }

    pub fn burst_bytes(&self) -> u64 {
        self.committed.burst_bytes()
    }
}

impl PathElement for Policer {
    #[inline]
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        let bytes = u64::from(packet.bytes) + u64::from(self.overhead_bytes);
        self.committed.refill(packet.time_ns);
        let mut conforms = self.committed.holds(bytes);
        if let Some(peak) = &mut self.peak {
            peak.refill(packet.time_ns);
            conforms &= peak.holds(bytes);
            if conforms {
                peak.take(bytes);
            }
        }
        if !conforms {
            return Outcome::Dropped;
        }
        self.committed.take(bytes);
        Outcome::Departs {
            time_ns: packet.time_ns,
        }
    }

    fn level_bytes_at(&mut self, time_ns: i64) -> f64 {
        self.committed.refill(time_ns);
        self.committed.level_bytes()
    }

    fn spend_to(&mut self, bytes: u64, time_ns: i64) {
        self.committed.refill(time_ns);
        let left = self.committed.level_bytes().ceil() as u64;
        self.committed.take_at_most(left.saturating_sub(bytes));
    }

    fn reset(&mut self) {
        self.committed.reset();
        if let Some(peak) = &mut self.peak {
            peak.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{overhead, replay};

    fn at(time_ns: i64, bytes: u32) -> Arrival {
        Arrival { time_ns, bytes }
    }

    fn passes(policer: &mut Policer, arrivals: &[Arrival]) -> Vec<bool> {
        replay(policer, arrivals)
            .into_iter()
            .map(|outcome| !outcome.is_dropped())
            .collect()
    }

    #[test]
    fn tokens_taken_by_other_traffic_are_gone() {
        let mut policer = Policer::new(8_000_000, 10_000);
        policer.spend_to(999, 0);
        // 1000 bytes a millisecond
        let arrivals = [at(0, 1_000), at(1_000_000, 1_000), at(1_000_000, 1_000)];
        let dropped = arrivals.map(|arrival| policer.arrive(arrival).is_dropped());
        assert_eq!(dropped, [true, false, true]);
        let mut empty = Policer::new(8_000_000, 10_000).with_initial_bytes(500);
        empty.spend_to(999, 0);
        assert_eq!(empty.level_bytes(), 500.0);
    }

    #[test]
    fn a_packet_passes_from_the_nanosecond_its_tokens_are_there() {
        // 12 Mbit/s are 1500 bytes in 1 ms. The bucket of 3000 bytes passes two packets at once; after 1 ms less
        // one nanosecond 1499.9985 bytes are there, at 1 ms exactly 1500.
        let mut policer = Policer::new(12_000_000, 3_000);
        let early = [at(0, 1_500), at(0, 1_500), at(999_999, 1_500)];
        assert_eq!(passes(&mut policer, &early), [true, true, false]);
        let due = [at(0, 1_500), at(0, 1_500), at(1_000_000, 1_500)];
        assert_eq!(passes(&mut policer, &due), [true, true, true]);
    }

    #[test]
    fn a_dropped_packet_takes_no_tokens_so_a_smaller_one_still_passes() {
        // 2000 bytes: 1500 pass and leave 500; 1000 do not fit; 500 do.
        let mut policer = Policer::new(1_000, 2_000);
        let arrivals = [at(0, 1_500), at(0, 1_000), at(0, 500), at(0, 1)];
        assert_eq!(passes(&mut policer, &arrivals), [true, false, true, false]);
    }

    #[test]
    fn the_bucket_never_holds_more_than_its_burst() {
        // A day of idleness at 8 Mbit/s would bring 86.4 GB; 3000 bytes are kept.
        let mut policer = Policer::new(8_000_000, 3_000);
        let day_ns = 86_400_000_000_000;
        let arrivals = [
            at(0, 1_500),
            at(day_ns, 1_500),
            at(day_ns, 1_500),
            at(day_ns, 1_500),
        ];
        assert_eq!(passes(&mut policer, &arrivals), [true, true, true, false]);
    }

    #[test]
    fn overhead_is_paid_for_each_packet() {
        // 3028 bytes hold two packets of 1500 + 14, and only one of 1500 + 38.
        let arrivals = [at(0, 1_500), at(0, 1_500)];
        let mut ethernet = Policer::new(1, 3_028).with_overhead(overhead::ETHERNET);
        assert_eq!(passes(&mut ethernet, &arrivals), [true, true]);
        let mut wire = Policer::new(1, 3_028).with_overhead(overhead::WIRE);
        assert_eq!(passes(&mut wire, &arrivals), [true, false]);
    }

    #[test]
    fn a_peak_rate_spreads_what_the_burst_would_let_through() {
        // The committed bucket holds ten packets; the peak bucket one, refilled in 1 ms at 12 Mbit/s.
        let mut policer = Policer::new(1_000_000, 15_000).with_peak(12_000_000, 1_500);
        let arrivals = [
            at(0, 1_500),
            at(500_000, 1_500),
            at(1_000_000, 1_500),
            at(2_000_000, 1_500),
        ];
        assert_eq!(passes(&mut policer, &arrivals), [true, false, true, true]);
    }

    #[test]
    fn a_capture_that_begins_in_mid_connection_starts_with_the_tokens_given() {
        let mut policer = Policer::new(12_000_000, 15_000).with_initial_bytes(1_499);
        assert_eq!(
            passes(&mut policer, &[at(5, 1_500), at(1_000_005, 1_500)]),
            [false, true]
        );
        // 1499 + 1500 - 1500 = 1499 are left.
        assert_eq!(policer.level_bytes(), 1_499.0);
    }

    #[test]
    fn decreasing_time_neither_panics_nor_adds_tokens() {
        let mut policer = Policer::new(12_000_000, 1_500);
        let arrivals = [
            at(1_000_000, 1_500),
            at(0, 1_500),
            at(1_000_000, 1_500),
            at(i64::MIN, 1_500),
        ];
        assert_eq!(passes(&mut policer, &arrivals), [true, false, false, false]);
        assert_eq!(
            passes(&mut policer, &[at(i64::MAX, 1_500), at(i64::MIN, 1_500)]),
            [true, false]
        );
    }
}
