//! The recursions of all fits, in floating point: the level of a bucket or queue, and the time at which a
//! server becomes free (Lindley 1952). The exact elements, [`Policer`](crate::Policer) and
//! [`Fifo`](crate::Fifo), are these with whole numbers.

use super::never_nan::{larger, smaller};

/// Debts of token buckets or backlogs of queues, several at a time: they grow by each packet that enters,
/// drain at a rate, and are never negative. In bytes at a rate in bytes/s, or in seconds at a rate of 1.
///
/// Every step of one depends on the step before. Several are independent, so a processor computes them in the
/// time of one: each lane of its vector registers follows another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Level<const L: usize>(pub [f64; L]);

// one index for the same lane of several arrays
#[expect(clippy::needless_range_loop)]
impl<const L: usize> Level<L> {
    pub const EMPTY: Self = Self([0.0; L]);

    #[inline(always)]
    pub fn drain(&mut self, rate: &[f64; L], elapsed_s: f64) {
        for lane in 0..L {
            self.0[lane] = larger(self.0[lane] - rate[lane] * elapsed_s, 0.0);
        }
    }

    /// Drains until the first of some packets that arrive evenly; returns the level with the last one, if all
    /// enter. Takes the time until the first, and from it to the last, and the amounts of all and of the last.
    /// With `SINGLE` it is one packet.
    ///
    /// The level of a queue that ran empty is calculated in parallel, since the next step depends on this one:
    /// rounding preserves the order of numbers, and the sums are the same.
    #[inline(always)]
    pub fn drain_and_add<const SINGLE: bool>(
        &mut self,
        rate: &[f64; L],
        (gap_s, span_s): (f64, f64),
        (all, last): (f64, f64),
    ) -> Self {
        let mut with_packets = [0.0; L];
        for lane in 0..L {
            let left = self.0[lane] - rate[lane] * gap_s;
            self.0[lane] = larger(left, 0.0);
            with_packets[lane] = match SINGLE {
                true => larger(left + all, all),
                false => {
                    let drained = rate[lane] * span_s;
                    larger(left + all - drained, larger(all - drained, last))
                }
            };
        }
        Self(with_packets)
    }

    /// The level with a packet.
    #[inline(always)]
    pub fn with(mut self, amount: f64) -> Self {
        for level in &mut self.0 {
            *level += amount;
        }
        self
    }

    /// The level corrected for a packet that entered: at most the limit.
    #[inline(always)]
    pub fn at_most(mut self, limit: &[f64; L]) -> Self {
        for lane in 0..L {
            self.0[lane] = smaller(self.0[lane], limit[lane]);
        }
        self
    }

    /// See [`without_room`].
    #[inline(always)]
    pub fn without_room(mut self, limit: &[f64; L], amount: f64) -> Self {
        for lane in 0..L {
            self.0[lane] = without_room(self.0[lane], limit[lane], amount);
        }
        self
    }

    #[inline(always)]
    pub fn is_any_at(&self, limit: &[f64; L]) -> bool {
        let mut is_at = false;
        for lane in 0..L {
            is_at |= self.0[lane] >= limit[lane];
        }
        is_at
    }
}

/// The excess of a level above a limit, or of a limit above a level; zero if there is none.
#[inline(always)]
pub(super) fn excess(level: f64, limit: f64) -> f64 {
    larger(level - limit, 0.0)
}

/// A level corrected for a dropped packet: without room for it.
#[inline(always)]
pub(super) fn without_room(level: f64, limit: f64, amount: f64) -> f64 {
    larger(level, larger(limit - amount, 0.0))
}

/// A server of packets in order of arrival, such as a line: the time when it becomes free, seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Server {
    pub free_s: f64,
}

impl Server {
    pub const IDLE: Self = Self { free_s: f64::MIN };

    /// Start of the service of a packet that arrives now.
    #[inline(always)]
    pub fn start_s(&self, arrival_s: f64) -> f64 {
        larger(arrival_s, self.free_s)
    }

    /// Serves a packet; returns its departure.
    #[inline(always)]
    pub fn serve(&mut self, arrival_s: f64, service_s: f64) -> f64 {
        self.free_s = self.start_s(arrival_s) + service_s;
        self.free_s
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Arrival, Fifo, Limit, PathElement, Policer};

    /// Gaps in microseconds, and sizes.
    fn packets() -> impl Strategy<Value = Vec<(i64, u32)>> {
        proptest::collection::vec((0i64..3_000, 40u32..1500), 1..300)
    }

    fn arrivals(packets: &[(i64, u32)]) -> impl Iterator<Item = (f64, Arrival)> {
        let mut time_ns = 0;
        packets.iter().map(move |&(gap_us, bytes)| {
            time_ns += gap_us * 1_000;
            (gap_us as f64 * 1e-6, Arrival { time_ns, bytes })
        })
    }

    proptest! {
        #[test]
        fn the_level_is_the_debt_of_a_policers_bucket(
            packets in packets(),
            rate_bps in 100_000u64..100_000_000,
            limit_bytes in 1_500u64..30_000,
        ) {
            let mut policer = Policer::new(rate_bps, limit_bytes);
            let (rate, limit) = ([rate_bps as f64 / 8.0], [limit_bytes as f64]);
            let mut level = Level::EMPTY;
            for (gap_s, arrival) in arrivals(&packets) {
                level.drain(&rate, gap_s);
                let debt = limit[0] - policer.level_bytes_at(arrival.time_ns);
                prop_assert!((level.0[0] - debt).abs() < 1e-6, "{level:?} {debt}");
                let bytes = f64::from(arrival.bytes);
                let with_packet = level.with(bytes);
                if policer.arrive(arrival).is_dropped() {
                    prop_assert!(excess(limit[0], with_packet.0[0]) < 1e-6);
                    let corrected = level.without_room(&limit, bytes);
                    prop_assert!((corrected.0[0] - level.0[0]).abs() < 1e-6);
                } else {
                    prop_assert!(excess(with_packet.0[0], limit[0]) < 1e-6);
                    level = with_packet.at_most(&limit);
                }
            }
        }

        #[test]
        fn a_server_and_a_level_of_seconds_are_a_queue(packets in packets(), rate_bps in 100_000u64..100_000_000) {
            let mut fifo = Fifo::new(rate_bps, Limit::NONE);
            let (mut server, mut wait) = (Server::IDLE, Level::<1>::EMPTY);
            for (number, (gap_s, arrival)) in arrivals(&packets).enumerate() {
                let (arrival_s, service_s) = (
                    arrival.time_ns as f64 * 1e-9,
                    f64::from(arrival.bytes) * 8.0 / rate_bps as f64,
                );
                let tolerated_s = (number + 2) as f64 * 1e-9;
                wait.drain(&[1.0], gap_s);
                let waited_s = server.start_s(arrival_s) - arrival_s;
                prop_assert!((wait.0[0] - waited_s).abs() < tolerated_s);
                wait = wait.with(service_s);
                let departs_ns = fifo.arrive(arrival).departure_ns().unwrap();
                let off_s = server.serve(arrival_s, service_s) - departs_ns as f64 * 1e-9;
                prop_assert!(off_s.abs() < tolerated_s, "{off_s}");
            }
        }

        /// Packets of one row as if each had a row of its own.
        #[test]
        fn lanes_and_rows_give_the_numbers_of_single_packets(
            packets in proptest::collection::vec((0u32..1_000_000, 40u32..1500), 1..100),
            rates in proptest::array::uniform4(1e4f64..1e7),
        ) {
            let mut lanes = Level::<4>::EMPTY;
            let mut alone = rates.map(|_| Level::<1>::EMPTY);
            for &(gap_ns, bytes) in &packets {
                let (gap_s, bytes) = (f64::from(gap_ns) * 1e-9, f64::from(bytes));
                let (times_s, amounts) = ((gap_s, 0.0), (bytes, bytes));
                let mut together = lanes;
                let with_packet = lanes.drain_and_add::<true>(&rates, times_s, amounts);
                prop_assert_eq!(together.drain_and_add::<false>(&rates, times_s, amounts), with_packet);
                for (lane, (level, rate)) in alone.iter_mut().zip(rates).enumerate() {
                    level.drain(&[rate], gap_s);
                    prop_assert_eq!(level.0[0], lanes.0[lane]);
                    *level = level.with(bytes);
                    prop_assert_eq!(level.0[0], with_packet.0[lane]);
                }
                lanes = with_packet;
            }
        }
    }
}
