//! A link of recorded delivery opportunities.

use crate::{Arrival, Outcome, PathElement};

/// The bytes of IP packets that one opportunity delivers.
const OPPORTUNITY_BYTES: u32 = 1_500;
const MS: i64 = 1_000_000;

/// A link that delivers at recorded times, as mahimahi's `mm-link` does: each opportunity is for 1500 bytes, of one packet
/// or several, or of a part of one, which leaves with its last byte. An opportunity that finds no packet is lost. Behind
/// the last time the trace begins again. The queue has no limit.
#[derive(Debug, Clone)]
pub struct Trace {
    times_ms: Vec<u64>,
    /// Number of the opportunity in use, counted over all repetitions.
    current: u64,
    left_bytes: u32,
    now_ns: i64,
}

impl Trace {
    /// A link with opportunities at these times, which do not decrease, in milliseconds from its start; the last one is
    /// the length of the trace.
    ///
    /// # Panics
    /// There is no time, or all of them are 0: [`crate::read_trace`] refuses such a file.
    pub fn new(times_ms: &[u64]) -> Self {
        assert!(times_ms.last().is_some_and(|&last| last > 0));
        Self {
            times_ms: times_ms.to_vec(),
            current: 0,
            left_bytes: OPPORTUNITY_BYTES,
            now_ns: 0,
        }
    }

    fn count(&self) -> u64 {
        self.times_ms.len() as u64
    }

    /// Time of an opportunity, by its number.
    fn time_ns(&self, number: u64) -> i64 {
        let length_ms = self.times_ms.last().copied().unwrap_or(1);
        let within_ms = self.times_ms[(number % self.count()) as usize];
        let time_ms = (number / self.count()).saturating_mul(length_ms) + within_ms;
        i64::try_from(time_ms).map_or(i64::MAX, |time_ms| time_ms.saturating_mul(MS))
    }

    /// Number of the first opportunity at or after a time.
    fn first_from(&self, time_ns: i64) -> u64 {
        let time_ms = (time_ns.max(0) as u64).div_ceil(MS as u64);
        let length_ms = self.times_ms.last().copied().unwrap_or(1);
        // The last opportunity of a repetition and the first ones of the next, at 0 ms, are at the same time.
        let repetition = time_ms.saturating_sub(1) / length_ms;
        let within_ms = time_ms - repetition * length_ms;
        let place = self.times_ms.partition_point(|&at_ms| at_ms < within_ms);
        repetition * self.count() + place as u64
    }

    fn use_next(&mut self) {
        self.current += 1;
        self.left_bytes = OPPORTUNITY_BYTES;
    }
}

impl PathElement for Trace {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        self.now_ns = self.now_ns.max(packet.time_ns);
        let first = self.first_from(self.now_ns);
        if first > self.current {
            self.current = first;
            self.left_bytes = OPPORTUNITY_BYTES;
        }
        let mut bytes = packet.bytes;
        while bytes > self.left_bytes {
            bytes -= self.left_bytes;
            self.use_next();
        }
        self.left_bytes -= bytes;
        let time_ns = self.time_ns(self.current).max(self.now_ns);
        if self.left_bytes == 0 {
            self.use_next();
        }
        Outcome::Departs { time_ns }
    }

    fn reset(&mut self) {
        *self = Self::new(&std::mem::take(&mut self.times_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay;

    fn departures_ms(times_ms: &[u64], arrivals: &[(i64, u32)]) -> Vec<i64> {
        let arrivals: Vec<_> = (arrivals.iter())
            .map(|&(time_ms, bytes)| Arrival {
                time_ns: time_ms * MS,
                bytes,
            })
            .collect();
        let outcomes = replay(&mut Trace::new(times_ms), &arrivals);
        (outcomes.iter())
            .map(|outcome| outcome.departure_ns().unwrap() / MS)
            .collect()
    }

    #[test]
    fn full_packets_leave_at_the_opportunities_in_order() {
        let leave = departures_ms(&[2, 2, 5, 9], &[(0, 1_500); 4]);
        assert_eq!(leave, [2, 2, 5, 9]);
    }

    #[test]
    fn an_opportunity_that_finds_no_packet_is_lost() {
        assert_eq!(departures_ms(&[2, 5, 9], &[(3, 1_500), (5, 1_500)]), [5, 9]);
    }

    #[test]
    fn small_packets_share_an_opportunity_and_large_ones_need_several() {
        let arrivals = [(0, 500), (0, 700), (0, 400), (0, 3_000)];
        // 1200 bytes, 300 of the next packet; its 100 and 1400 of the large one; 1500; 100.
        assert_eq!(departures_ms(&[1, 2, 3, 4], &arrivals), [1, 1, 2, 4]);
    }

    #[test]
    fn the_trace_is_repeated_from_its_last_time_on() {
        assert_eq!(
            departures_ms(&[3, 10], &[(0, 1_500); 5]),
            [3, 10, 13, 20, 23]
        );
        assert_eq!(departures_ms(&[3, 10], &[(1_000_005, 1_500)]), [1_000_010]);
        // At 10 ms are the last opportunity and the first of the repetition.
        assert_eq!(departures_ms(&[0, 10], &[(10, 1_500); 4]), [10, 10, 20, 20]);
    }

    #[test]
    fn decreasing_time_neither_panics_nor_delivers_early() {
        assert_eq!(departures_ms(&[4, 8], &[(5, 1_500), (-9, 1_500)]), [8, 12]);
    }
}
