//! Fractions of a second in the records of pcap files: their unit, which some writers state incorrectly, and overflows.
//!
//! Some programs write nanoseconds with the magic number of microseconds, or the reverse. A capture with enough packets
//! has fractions throughout the second, so the unit is the one with which they fill it.

use std::collections::HashSet;

use super::NANOSECONDS_PER_SECOND;

/// Records examined before a unit is chosen.
const MOST_RECORDS: usize = 4096;
/// With this many packets some fall into each quarter of a second, unless a timer sends them.
const ENOUGH_RECORDS: usize = 64;
const ENOUGH_SECONDS: usize = 3;

/// The unit of the fractions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

impl Unit {
    fn per_second(self) -> u32 {
        match self {
            Self::Milliseconds => 1000,
            Self::Microseconds => 1_000_000,
            Self::Nanoseconds => 1_000_000_000,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
        }
    }

    fn finer(self) -> Option<Self> {
        match self {
            Self::Milliseconds => Some(Self::Microseconds),
            Self::Microseconds => Some(Self::Nanoseconds),
            Self::Nanoseconds => None,
        }
    }

    fn coarser(self) -> Option<Self> {
        match self {
            Self::Milliseconds => None,
            Self::Microseconds => Some(Self::Milliseconds),
            Self::Nanoseconds => Some(Self::Microseconds),
        }
    }
}

/// The fractions of one file.
pub(super) struct Fractions {
    stated: Unit,
    unit: Unit,
    /// Nanoseconds in a unit, and units in a second.
    unit_ns: i64,
    per_second: u32,
    /// Packets with a fraction of a second or more.
    beyond_a_second: u64,
}

impl Fractions {
    /// With the unit that the first records show, if it differs from the stated one.
    pub(super) fn judged(stated: Unit, stamps: impl Iterator<Item = (u32, u32)>) -> Self {
        let unit = shown_unit(stated, stamps);
        Self {
            stated,
            unit,
            unit_ns: NANOSECONDS_PER_SECOND / i64::from(unit.per_second()),
            per_second: unit.per_second(),
            beyond_a_second: 0,
        }
    }

    #[inline(always)]
    pub(super) fn nanoseconds(&mut self, fraction: u32) -> i64 {
        match fraction < self.per_second {
            true => i64::from(fraction) * self.unit_ns,
            false => self.beyond(fraction),
        }
    }

    /// A writer that omits the carry is off by less than a second. A larger fraction is damaged, though the second may
    /// be intact.
    #[cold]
    fn beyond(&mut self, fraction: u32) -> i64 {
        self.beyond_a_second += 1;
        let carried = i64::from(fraction) * self.unit_ns;
        match carried < 2 * NANOSECONDS_PER_SECOND {
            true => carried,
            false => NANOSECONDS_PER_SECOND - self.unit_ns,
        }
    }

    pub(super) fn note(&self) -> Option<String> {
        if self.unit != self.stated {
            return Some(format!(
                "the file header says {}, but the timestamps are {1}: they are read as {1}",
                self.stated.name(),
                self.unit.name()
            ));
        }
        (self.beyond_a_second > 0).then(|| {
            format!(
                "timestamps with a fraction of more than a second: {}; fractions below two seconds are added to the \
                 seconds, larger ones are read as the end of the second",
                crate::summary::packets(self.beyond_a_second)
            )
        })
    }
}

/// The unit in which the fractions fill the second.
fn shown_unit(stated: Unit, stamps: impl Iterator<Item = (u32, u32)>) -> Unit {
    let looked: Vec<(u32, u32)> = stamps.take(MOST_RECORDS).collect();
    let beyond = |unit: Unit| {
        let many = looked
            .iter()
            .filter(|(_, fraction)| *fraction >= unit.per_second());
        many.count()
    };
    if let Some(finer) = stated.finer()
        && beyond(stated) * 2 > looked.len()
        && beyond(finer) == 0
    {
        return finer;
    }
    match stated.coarser() {
        Some(coarser) if beyond(coarser) == 0 && fills_the_second(&looked, coarser) => coarser,
        _ => stated,
    }
}

/// True if fractions occur in each quarter of a second, over several seconds: in a unit a thousand times finer this
/// does not happen by chance.
fn fills_the_second(stamps: &[(u32, u32)], unit: Unit) -> bool {
    let seconds: HashSet<u32> = stamps.iter().map(|(second, _)| *second).collect();
    let mut quarters = [0_usize; 4];
    for (_, fraction) in stamps {
        let quarter = u64::from(*fraction) * 4 / u64::from(unit.per_second());
        if let Some(count) = quarters.get_mut(quarter as usize) {
            *count += 1;
        }
    }
    stamps.len() >= ENOUGH_RECORDS
        && seconds.len() >= ENOUGH_SECONDS
        && quarters.iter().all(|count| count * 10 >= stamps.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets every 7.3 ms, in fractions of a unit.
    fn stamps(count: u32, unit: Unit) -> Vec<(u32, u32)> {
        let per_tick = 1_000_000_000 / u64::from(unit.per_second());
        let time_ns = |number: u32| u64::from(number) * 7_300_100;
        let stamp = |ns: u64| {
            (
                (ns / 1_000_000_000) as u32,
                (ns % 1_000_000_000 / per_tick) as u32,
            )
        };
        (0..count).map(time_ns).map(stamp).collect()
    }

    fn judged(stated: Unit, stamps: &[(u32, u32)]) -> Fractions {
        Fractions::judged(stated, stamps.iter().copied())
    }

    #[test]
    fn a_unit_is_the_one_in_which_fractions_fill_the_second() {
        for written in [Unit::Microseconds, Unit::Nanoseconds] {
            for stated in [Unit::Microseconds, Unit::Nanoseconds] {
                let fractions = judged(stated, &stamps(1000, written));
                assert_eq!(fractions.unit, written);
                assert_eq!(fractions.note().is_some(), written != stated);
            }
        }
        let milliseconds = judged(Unit::Microseconds, &stamps(1000, Unit::Milliseconds));
        assert_eq!(milliseconds.unit, Unit::Milliseconds);
    }

    #[test]
    fn a_few_packets_of_microseconds_are_believed() {
        // sent on the second, answered within a millisecond
        let timer: Vec<(u32, u32)> = (0..500).map(|n| (n, 40 + n % 300)).collect();
        assert_eq!(judged(Unit::Microseconds, &timer).unit, Unit::Microseconds);
        assert_eq!(
            judged(Unit::Nanoseconds, &[(0, 0), (0, 70)]).unit,
            Unit::Nanoseconds
        );
        assert_eq!(judged(Unit::Microseconds, &[]).unit, Unit::Microseconds);
    }

    #[test]
    fn a_fraction_past_the_second_is_carried_over_and_one_past_two_is_cut() {
        let mut fractions = judged(Unit::Microseconds, &stamps(100, Unit::Microseconds));
        assert_eq!(fractions.nanoseconds(999_999), 999_999_000);
        assert_eq!(fractions.note(), None);
        assert_eq!(fractions.nanoseconds(1_000_020), 1_000_020_000);
        assert_eq!(fractions.nanoseconds(u32::MAX), 999_999_000);
        assert!(
            fractions
                .note()
                .is_some_and(|note| note.contains("2 packets"))
        );
    }
}
