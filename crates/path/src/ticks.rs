//! Elements that release packets at certain times only: shapers driven by a timer, and links that aggregate
//! frames.

use crate::element::with_overhead;
use crate::queue::Places;
use crate::{Arrival, Limit, Outcome, PathElement};

/// A shaper with a bucket that a timer fills: at each tick by one tick's tokens at once. Between ticks
/// packets pass while tokens last; then they wait, and leave together with the tick that has tokens for them.
#[derive(Debug, Clone)]
pub struct TickShaper {
    rate_bps: u64,
    tick_ns: i64,
    burst_bytes: u64,
    limit: Limit,
    overhead_bytes: u32,
    /// Tokens in units of 1 / (8 * 10^9) byte, as for bytes at bit/s and ns, after the tick with this number.
    tokens: u128,
    tick: i64,
    places: Places,
    last_departure_ns: i64,
}

const UNITS_PER_BYTE: u128 = 8_000_000_000;

impl TickShaper {
    /// Ticks are at multiples of `tick_ns`. The bucket holds at least one tick's tokens, and a packet.
    pub fn new(rate_bps: u64, tick_ns: i64, burst_bytes: u64, limit: Limit) -> Self {
        let mut shaper = Self {
            rate_bps,
            tick_ns: tick_ns.max(1),
            burst_bytes,
            limit,
            overhead_bytes: 0,
            tokens: 0,
            tick: i64::MIN,
            places: Places::default(),
            last_departure_ns: i64::MIN,
        };
        shaper.tokens = shaper.capacity();
        shaper
    }

    with_overhead!();

    fn per_tick(&self) -> u128 {
        u128::from(self.rate_bps) * self.tick_ns.unsigned_abs() as u128
    }

    fn capacity(&self) -> u128 {
        (u128::from(self.burst_bytes) * UNITS_PER_BYTE).max(self.per_tick())
    }

    /// Fill the bucket with the ticks up to this one.
    fn fill(&mut self, tick: i64) {
        if tick > self.tick {
            let ticks = u128::from(tick.abs_diff(self.tick));
            let more = self.per_tick().saturating_mul(ticks);
            self.tokens = self.tokens.saturating_add(more).min(self.capacity());
            self.tick = tick;
        }
    }
}

impl PathElement for TickShaper {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        let bytes = u64::from(packet.bytes) + u64::from(self.overhead_bytes);
        let now_ns = self.places.advance(packet.time_ns);
        let need = u128::from(bytes) * UNITS_PER_BYTE;
        if need > self.capacity() || (self.per_tick() == 0 && need > self.tokens) {
            return Outcome::Dropped;
        }
        let start_ns = now_ns.max(self.last_departure_ns);
        self.fill(start_ns.div_euclid(self.tick_ns));
        let missing = need.saturating_sub(self.tokens);
        let mut departure_ns = start_ns;
        if missing > 0 {
            let ticks = i64::try_from(missing.div_ceil(self.per_tick())).unwrap_or(i64::MAX);
            let tick = self.tick.saturating_add(ticks);
            departure_ns = tick.saturating_mul(self.tick_ns);
        }
        if departure_ns > now_ns {
            if !self.limit.admits(self.places.backlog(), bytes) {
                return Outcome::Dropped;
            }
            self.places.hold(departure_ns, bytes);
        }
        self.fill(departure_ns.div_euclid(self.tick_ns));
        self.tokens = self.tokens.saturating_sub(need);
        self.last_departure_ns = departure_ns;
        Outcome::Departs {
            time_ns: departure_ns,
        }
    }

    fn reset(&mut self) {
        *self = Self::new(self.rate_bps, self.tick_ns, self.burst_bytes, self.limit)
            .with_overhead(self.overhead_bytes);
    }
}

/// A link that, when it gets access to the medium, sends everything that waits, up to a number of packets, as
/// one frame (IEEE 802.11 aggregation, the grants of DOCSIS or LTE). When idle, it sends at once; then it has
/// to wait for its next turn.
#[derive(Debug, Clone)]
pub struct Batches {
    turn_ns: i64,
    most_packets: u64,
    /// The latest reserved turn, and the packets in it.
    last_ns: Option<i64>,
    taken: u64,
    now_ns: i64,
}

impl Batches {
    /// `turn_ns` is the time between turns while packets wait.
    pub fn new(turn_ns: i64, most_packets: u64) -> Self {
        Self {
            turn_ns: turn_ns.max(1),
            most_packets: most_packets.max(1),
            last_ns: None,
            taken: 0,
            now_ns: i64::MIN,
        }
    }
}

impl PathElement for Batches {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        self.now_ns = self.now_ns.max(packet.time_ns);
        let now_ns = self.now_ns;
        let time_ns = match self.last_ns {
            // A frame that has not been sent yet has room, or the one after it has.
            Some(last_ns) if last_ns > now_ns => match self.taken < self.most_packets {
                true => last_ns,
                false => last_ns.saturating_add(self.turn_ns),
            },
            Some(last_ns) => now_ns.max(last_ns.saturating_add(self.turn_ns)),
            None => now_ns,
        };
        self.taken = match self.last_ns == Some(time_ns) {
            true => self.taken.saturating_add(1),
            false => 1,
        };
        self.last_ns = Some(time_ns);
        Outcome::Departs { time_ns }
    }

    fn reset(&mut self) {
        *self = Self::new(self.turn_ns, self.most_packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay;

    fn at_ms(ms: i64) -> Arrival {
        Arrival {
            time_ns: ms * 1_000_000,
            bytes: 1_500,
        }
    }

    fn departures_ms(element: &mut dyn PathElement, arrivals: &[Arrival]) -> Vec<i64> {
        let ms = |outcome: Outcome| outcome.departure_ns().unwrap() / 1_000_000;
        replay(element, arrivals).into_iter().map(ms).collect()
    }

    #[test]
    fn packets_that_wait_for_tokens_leave_with_the_ticks_and_at_the_rate() {
        // 12 Mbit/s in ticks of 4 ms: four packets with each. The bucket begins full.
        let mut shaper = TickShaper::new(12_000_000, 4_000_000, 6_000, Limit::NONE);
        let departures = departures_ms(&mut shaper, &[at_ms(1); 12]);
        assert_eq!(departures, [1, 1, 1, 1, 4, 4, 4, 4, 8, 8, 8, 8]);
        // And after a pause, the bucket is full again.
        let later = departures_ms(&mut shaper, &[at_ms(1), at_ms(101), at_ms(102)]);
        assert_eq!(later, [1, 101, 102]);
    }

    #[test]
    fn a_tick_shaper_drops_packets_that_do_not_fit_its_queue() {
        let mut shaper = TickShaper::new(12_000_000, 4_000_000, 6_000, Limit::packets(2));
        let dropped = replay(&mut shaper, &[at_ms(1); 10])
            .iter()
            .filter(|o| o.is_dropped())
            .count();
        assert_eq!(dropped, 4);
    }

    #[test]
    fn packets_that_wait_for_a_turn_leave_together_up_to_a_frame() {
        let mut link = Batches::new(5_000_000, 3);
        let arrivals = [0, 1, 2, 3, 4, 30].map(at_ms);
        assert_eq!(departures_ms(&mut link, &arrivals), [0, 5, 5, 5, 10, 30]);
    }
}
