//! A line that sends one packet after the other at a fixed rate, without rounding.

/// Serves packets at `rate_bps`. Its clock is exact: the fraction of a nanosecond at which a packet ends is
/// kept and the next one begins there, so that a long busy period does not drift.
#[derive(Debug, Clone)]
pub(crate) struct Transmitter {
    rate_bps: u64,
    /// The line is free from `free_ns` + `remainder` / `rate_bps` nanoseconds on.
    free_ns: i64,
    remainder: u64,
}

/// The time of a packet on the line, rounded up to whole nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Service {
    pub start_ns: i64,
    pub end_ns: i64,
}

impl Transmitter {
    /// At 0 bit/s no transmission ends.
    pub fn new(rate_bps: u64) -> Self {
        Self {
            rate_bps,
            free_ns: i64::MIN,
            remainder: 0,
        }
    }

    pub fn reset(&mut self) {
        *self = Self::new(self.rate_bps);
    }

    pub fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    /// The first whole nanosecond at which the line is free.
    #[inline]
    pub fn free_ns(&self) -> i64 {
        self.free_ns.saturating_add(i64::from(self.remainder > 0))
    }

    /// Send a packet that is available at `now_ns`, as soon as the line is free.
    #[inline]
    pub fn send(&mut self, now_ns: i64, bytes: u64) -> Service {
        if now_ns >= self.free_ns() {
            self.free_ns = now_ns;
            self.remainder = 0;
        }
        let start_ns = self.free_ns();
        if self.rate_bps == 0 {
            self.free_ns = i64::MAX;
            return Service {
                start_ns,
                end_ns: i64::MAX,
            };
        }
        let (whole_ns, remainder) = self.divide(bytes);
        self.free_ns = self.free_ns.saturating_add(whole_ns);
        self.remainder = if self.free_ns == i64::MAX {
            0
        } else {
            remainder
        };
        Service {
            start_ns,
            end_ns: self.free_ns(),
        }
    }

    /// (`remainder` + bytes at 8 * 10^9 units each) / rate, in 64 bits if possible: it nearly always is, and
    /// a 128-bit division takes ten times as long.
    #[inline]
    fn divide(&self, bytes: u64) -> (i64, u64) {
        const UNITS_PER_BYTE: u64 = 8_000_000_000;
        let units = bytes
            .checked_mul(UNITS_PER_BYTE)
            .and_then(|units| units.checked_add(self.remainder));
        if let Some(units) = units {
            let whole = units / self.rate_bps;
            return (
                i64::try_from(whole).unwrap_or(i64::MAX),
                units % self.rate_bps,
            );
        }
        let units = u128::from(bytes) * u128::from(UNITS_PER_BYTE) + u128::from(self.remainder);
        let rate = u128::from(self.rate_bps);
        (
            i64::try_from(units / rate).unwrap_or(i64::MAX),
            (units % rate) as u64,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_a_nanosecond_add_up() {
        // 1500 bytes at 7 Mbit/s last 12000/7 us = 1 714 285.714.. ns; seven of them exactly 12 ms.
        let mut line = Transmitter::new(7_000_000);
        let ends: Vec<i64> = (0..7).map(|_| line.send(0, 1_500).end_ns).collect();
        assert_eq!(ends[..2], [1_714_286, 3_428_572]);
        assert_eq!(ends[6], 12_000_000);
    }

    #[test]
    fn an_idle_line_starts_at_once_and_a_busy_one_when_it_is_free() {
        let mut line = Transmitter::new(8_000_000_000);
        assert_eq!(
            line.send(100, 10),
            Service {
                start_ns: 100,
                end_ns: 110
            }
        );
        assert_eq!(
            line.send(105, 10),
            Service {
                start_ns: 110,
                end_ns: 120
            }
        );
        assert_eq!(
            line.send(500, 10),
            Service {
                start_ns: 500,
                end_ns: 510
            }
        );
    }

    #[test]
    fn absurd_sizes_and_rates_end_at_the_end_of_time() {
        assert_eq!(Transmitter::new(0).send(0, 1).end_ns, i64::MAX);
        let mut line = Transmitter::new(1);
        assert_eq!(line.send(0, u64::MAX).end_ns, i64::MAX);
        assert_eq!(line.send(0, 1).end_ns, i64::MAX);
        // 2^64-1 bytes at 2^64-1 bit/s last 8 s.
        assert_eq!(
            Transmitter::new(u64::MAX).send(0, u64::MAX).end_ns,
            8_000_000_000
        );
    }
}
