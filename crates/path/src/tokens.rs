//! A token bucket without rounding.

/// The smallest part of a token: a byte is 8 bits, and a bit at 1 bit/s takes 10^9 ns. With this unit the tokens
/// that flow in during a whole number of nanoseconds at a whole number of bit/s are a whole number.
pub(crate) const UNITS_PER_BYTE: u128 = 8_000_000_000;

/// Tokens flow in at `rate_bps` up to `burst_bytes`; it starts full.
///
/// The arithmetic is exact (integers of 128 bit): a million small refills give what one large refill gives.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    rate_bps: u64,
    capacity: u128,
    initial: u128,
    level: u128,
    /// The time of `level`; the least possible one before the first event.
    time_ns: i64,
}

impl TokenBucket {
    pub fn new(rate_bps: u64, burst_bytes: u64) -> Self {
        let capacity = u128::from(burst_bytes) * UNITS_PER_BYTE;
        Self {
            rate_bps,
            capacity,
            initial: capacity,
            level: capacity,
            time_ns: i64::MIN,
        }
    }

    /// Start with this many bytes of tokens (at most the burst) instead of a full bucket: for a capture that
    /// begins in mid-connection. No tokens flow in until the first arrival.
    pub fn with_initial_bytes(mut self, bytes: u64) -> Self {
        self.initial = (u128::from(bytes) * UNITS_PER_BYTE).min(self.capacity);
        self.level = self.initial;
        self
    }

    pub fn reset(&mut self) {
        self.level = self.initial;
        self.time_ns = i64::MIN;
    }

    /// Let tokens flow in until `time_ns`. Returns the overflow, in units; nothing happens for a time in the
    /// past.
    #[inline]
    pub(crate) fn refill(&mut self, time_ns: i64) -> u128 {
        if time_ns <= self.time_ns {
            return 0;
        }
        let first = self.time_ns == i64::MIN;
        // In two's complement the difference of two i64 in order is correct as u64, however far apart they
        // are.
        let elapsed_ns = time_ns.wrapping_sub(self.time_ns) as u64;
        self.time_ns = time_ns;
        if first {
            return 0;
        }
        let inflow = u128::from(self.rate_bps) * u128::from(elapsed_ns);
        let room = self.capacity - self.level;
        self.level += inflow.min(room);
        inflow.saturating_sub(room)
    }

    /// True if tokens for `bytes` are there now (at the time of the last refill).
    #[inline]
    pub(crate) fn holds(&self, bytes: u64) -> bool {
        self.level >= u128::from(bytes) * UNITS_PER_BYTE
    }

    /// Take tokens for `bytes`; the caller has ensured that they are there.
    #[inline]
    pub(crate) fn take(&mut self, bytes: u64) {
        self.level -= u128::from(bytes) * UNITS_PER_BYTE;
    }

    /// Take tokens for `bytes`, or all that are there.
    pub(crate) fn take_at_most(&mut self, bytes: u64) {
        let units = u128::from(bytes) * UNITS_PER_BYTE;
        self.level = self.level.saturating_sub(units);
    }

    /// Add tokens (in units) as far as they fit; returns the overflow.
    #[inline]
    pub(crate) fn add(&mut self, units: u128) -> u128 {
        let room = self.capacity - self.level;
        self.level += units.min(room);
        units.saturating_sub(room)
    }

    /// The first time, not before `time_ns`, at which tokens for `bytes` are there; `None` if they never will be.
    pub(crate) fn ready_ns(&self, time_ns: i64, bytes: u64) -> Option<i64> {
        let need = u128::from(bytes) * UNITS_PER_BYTE;
        let start_ns = time_ns.max(self.time_ns);
        if need > self.capacity {
            return None;
        }
        if need <= self.level {
            return Some(start_ns);
        }
        if self.rate_bps == 0 {
            return None;
        }
        let wait_ns = (need - self.level).div_ceil(u128::from(self.rate_bps));
        let from_ns = if self.time_ns == i64::MIN {
            start_ns
        } else {
            self.time_ns
        };
        let ready_ns = from_ns.saturating_add(i64::try_from(wait_ns).unwrap_or(i64::MAX));
        Some(ready_ns.max(start_ns))
    }

    /// Tokens at the time of the last arrival, in bytes.
    pub fn level_bytes(&self) -> f64 {
        self.level as f64 / UNITS_PER_BYTE as f64
    }

    pub fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    pub fn burst_bytes(&self) -> u64 {
        (self.capacity / UNITS_PER_BYTE) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_small_refills_equal_one_large_one() {
        // 7 bit/s for 1 s is 7 bit = 0.875 byte; in steps of 1 ns each is 7e-9 bit, which a float would lose.
        let mut small = TokenBucket::new(7, 100).with_initial_bytes(0);
        let mut large = small.clone();
        small.refill(0);
        large.refill(0);
        for ns in 1..=1_000_000 {
            small.refill(ns);
        }
        large.refill(1_000_000);
        assert_eq!(small.level, large.level);
        assert_eq!(small.level, 7_000_000);
    }

    #[test]
    fn decreasing_time_adds_no_tokens() {
        let mut bucket = TokenBucket::new(8_000_000_000, 100).with_initial_bytes(0);
        bucket.refill(1_000);
        for _ in 0..100 {
            bucket.refill(990);
            bucket.refill(1_000);
        }
        assert_eq!(bucket.level_bytes(), 0.0);
        bucket.refill(1_010);
        assert_eq!(
            bucket.level_bytes(),
            10.0,
            "8 Gbit/s is one byte in a nanosecond"
        );
    }

    #[test]
    fn the_whole_range_of_time_and_rate_fits() {
        let mut bucket = TokenBucket::new(u64::MAX, u64::MAX).with_initial_bytes(0);
        bucket.refill(i64::MIN + 1);
        bucket.refill(i64::MAX);
        assert!(
            bucket.holds(u64::MAX),
            "2^64 bit/s for 584 years is more than 2^64 bytes"
        );
        assert_eq!(
            TokenBucket::new(1, 1 << 40)
                .with_initial_bytes(0)
                .ready_ns(i64::MAX, 1 << 40),
            Some(i64::MAX)
        );
    }

    #[test]
    fn ready_is_the_first_nanosecond_with_enough() {
        // 3 bit/s, 1 byte wanted: 8/3 s = 2 666 666 666.67 ns, so the first whole nanosecond is ...667.
        let mut bucket = TokenBucket::new(3, 10).with_initial_bytes(0);
        bucket.refill(0);
        let ready_ns = bucket.ready_ns(0, 1).unwrap();
        assert_eq!(ready_ns, 2_666_666_667);
        let mut before = bucket.clone();
        before.refill(ready_ns - 1);
        assert!(!before.holds(1));
        bucket.refill(ready_ns);
        assert!(bucket.holds(1));
        assert_eq!(
            bucket.ready_ns(0, 11),
            None,
            "more than the bucket can ever hold"
        );
    }
}
