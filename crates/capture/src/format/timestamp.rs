//! Timestamps of pcapng: ticks of a unit that each interface chooses, from a start that it chooses.

use super::NANOSECONDS_PER_SECOND;

/// The clock of an interface, from its `if_tsresol` and `if_tsoffset` options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clock {
    tick: Tick,
    start_ns: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tick {
    /// This many nanoseconds.
    Nanoseconds(i64),
    /// A nanosecond divided by this.
    PerNanosecond(u64),
    /// So short that 64 bits of them are less than a nanosecond.
    Vanishing,
    /// A second divided by two to the power of this.
    BinaryFraction(u32),
}

impl Default for Clock {
    /// Microseconds since the Unix epoch: the default of an interface without the option.
    fn default() -> Self {
        Self {
            tick: Tick::Nanoseconds(1000),
            start_ns: 0,
        }
    }
}

impl Clock {
    /// `if_tsresol`: a negative power of 10, or of 2 if the highest bit is set.
    pub(super) fn set_resolution(&mut self, value: u8) {
        let exponent = u32::from(value & 0x7f);
        self.tick = match (value & 0x80 != 0, exponent) {
            (true, _) => Tick::BinaryFraction(exponent),
            (false, 0..=9) => Tick::Nanoseconds(10i64.pow(9 - exponent)),
            (false, _) => 10u64
                .checked_pow(exponent - 9)
                .map_or(Tick::Vanishing, Tick::PerNanosecond),
        };
    }

    /// `if_tsoffset`: seconds to add.
    pub(super) fn set_offset(&mut self, seconds: i64) {
        self.start_ns = seconds.saturating_mul(NANOSECONDS_PER_SECOND);
    }

    /// Returns this clock with another tick if the first timestamp rules the stated one out: it dates the capture after
    /// the year 2100, or, with an explicit unit, to days of January 1970 that are a thousandth of a date of this
    /// century.
    pub(super) fn corrected(self, first_ticks: u64) -> Option<Self> {
        const CENTURY_NS: std::ops::Range<i64> =
            946_684_800 * NANOSECONDS_PER_SECOND..4_102_444_800 * NANOSECONDS_PER_SECOND;
        let Tick::Nanoseconds(stated_ns) = self.tick else {
            return None;
        };
        let time_ns = self.time_ns(first_ticks);
        let is_late = time_ns >= CENTURY_NS.end;
        let is_thousandth = stated_ns == 1 && CENTURY_NS.contains(&time_ns.saturating_mul(1000));
        if self.start_ns != 0 || !(is_late || is_thousandth) {
            return None;
        }
        [1_000_000, 1000, 1]
            .into_iter()
            .filter(|unit_ns| *unit_ns != stated_ns)
            .map(|unit_ns| Self {
                tick: Tick::Nanoseconds(unit_ns),
                ..self
            })
            .find(|clock| CENTURY_NS.contains(&clock.time_ns(first_ticks)))
    }

    /// Nanoseconds since the Unix epoch; a value beyond 64 bits (the year 2262) is clamped.
    #[inline(always)]
    pub(super) fn time_ns(&self, ticks: u64) -> i64 {
        let since_start = match self.tick {
            Tick::Nanoseconds(unit) => i64::try_from(ticks)
                .unwrap_or(i64::MAX)
                .saturating_mul(unit),
            Tick::PerNanosecond(parts) => (ticks / parts).try_into().unwrap_or(i64::MAX),
            Tick::Vanishing => 0,
            Tick::BinaryFraction(shift) => {
                let ns = (u128::from(ticks) * NANOSECONDS_PER_SECOND as u128) >> shift;
                i64::try_from(ns).unwrap_or(i64::MAX)
            }
        };
        since_start.saturating_add(self.start_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(resolution: u8) -> Clock {
        let mut clock = Clock::default();
        clock.set_resolution(resolution);
        clock
    }

    #[test]
    fn every_resolution_leads_to_nanoseconds() {
        assert_eq!(
            Clock::default().time_ns(1_700_000_000_123_456),
            1_700_000_000_123_456_000
        );
        assert_eq!(
            clock(9).time_ns(1_700_000_000_123_456_789),
            1_700_000_000_123_456_789
        );
        assert_eq!(clock(0).time_ns(7), 7_000_000_000);
        assert_eq!(clock(12).time_ns(1_234_567), 1234);
        assert_eq!(clock(28).time_ns(u64::MAX), 1);
        assert_eq!(clock(127).time_ns(u64::MAX), 0);
        // 2^-10 s: 1536 ticks are one and a half seconds.
        assert_eq!(clock(0x80 | 10).time_ns(1536), 1_500_000_000);
        // 2^-32 s, as NTP counts: half a second is 2^31.
        assert_eq!(
            clock(0x80 | 32).time_ns((5 << 32) | (1 << 31)),
            5_500_000_000
        );
        assert_eq!(clock(0xff).time_ns(u64::MAX), 0);
    }

    #[test]
    fn a_resolution_that_gives_an_impossible_year_is_corrected() {
        const DATE_S: u64 = 1_750_000_000;
        let corrected_s = |resolution: u8, ticks: u64| {
            let corrected = clock(resolution).corrected(ticks)?;
            Some(corrected.time_ns(ticks) / NANOSECONDS_PER_SECOND)
        };
        // nanoseconds under the default, microseconds under a stated nanosecond
        assert_eq!(corrected_s(6, DATE_S * 1_000_000_000), Some(DATE_S as i64));
        assert_eq!(corrected_s(9, DATE_S * 1_000_000), Some(DATE_S as i64));
        // a correct one, and one that counts from the start of some process
        assert_eq!(corrected_s(6, DATE_S * 1_000_000), None);
        assert_eq!(corrected_s(9, DATE_S * 1_000_000_000), None);
        assert_eq!(corrected_s(6, 0), None);
        assert_eq!(corrected_s(9, 86_400_000_000_000), None);
        assert_eq!(corrected_s(9, u64::MAX), None);
    }

    #[test]
    fn an_offset_is_added_and_nothing_overflows() {
        let mut clock = Clock::default();
        clock.set_offset(-3);
        assert_eq!(clock.time_ns(5_000_000), 2_000_000_000);
        clock.set_offset(i64::MAX);
        assert_eq!(clock.time_ns(u64::MAX), i64::MAX);
        clock.set_offset(i64::MIN);
        assert_eq!(clock.time_ns(0), i64::MIN);
    }
}
