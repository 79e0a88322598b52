//! The clock of the emulator, and the arrival times that the kernel stamps.

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock.
#[inline]
pub fn now_ns() -> i64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// The monotonic clock minus the wall clock, in which the kernel stamps packets.
///
/// A thread that is interrupted between two readings has one that is wrong by as much as the interruption: the last sure
/// one is kept then, and a step of the wall clock is seen by the next.
#[derive(Debug, Default)]
pub struct WallOffset {
    sure_ns: Option<i64>,
    /// Readings that are farther apart were interrupted.
    uninterrupted_ns: i64,
}

/// Clocks that are read faster than this count as uninterrupted.
const FAST_NS: i64 = 1_000;
/// The nearest of so many readings, at first, shows how fast the clocks are read.
const FIRST_READINGS: usize = 100;

impl WallOffset {
    /// Nanoseconds to add to a time of the wall clock.
    #[inline]
    pub fn ns(&mut self) -> i64 {
        let readings = self.sure_ns.map_or(FIRST_READINGS, |_| 1);
        self.ns_of((0..readings).map(|_| (now_ns(), read(ClockId::CLOCK_REALTIME), now_ns())))
    }

    /// The same from readings of the monotonic clock, the wall clock, and the monotonic clock again.
    fn ns_of(&mut self, readings: impl Iterator<Item = (i64, i64, i64)>) -> i64 {
        let apart = readings.map(|(before_ns, wall_ns, after_ns)| {
            (after_ns - before_ns, before_ns.midpoint(after_ns) - wall_ns)
        });
        let (apart_ns, offset_ns) = apart.min().unwrap_or_default();
        if self.sure_ns.is_none() {
            self.uninterrupted_ns = FAST_NS.max(2 * apart_ns);
        }
        if apart_ns <= self.uninterrupted_ns {
            self.sure_ns = Some(offset_ns);
        }
        self.sure_ns.unwrap_or_default()
    }
}

fn read(clock: ClockId) -> i64 {
    clock_gettime(clock)
        .expect("every Linux has both clocks")
        .num_nanoseconds()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_reading_leaves_the_offset_as_it_was() {
        let mut offset = WallOffset::default();
        assert_eq!(offset.ns_of([(1_000, 400, 1_200)].into_iter()), 700);
        assert_eq!(offset.ns_of([(5_000, 4_401, 9_000)].into_iter()), 700);
        assert_eq!(offset.ns_of([(9_000, 8_350, 9_100)].into_iter()), 700);
        // The wall clock was set back.
        assert_eq!(offset.ns_of([(9_500, 100, 9_700)].into_iter()), 9_500);
    }

    #[test]
    fn clocks_that_are_read_slowly_have_an_offset_too() {
        let mut offset = WallOffset::default();
        let readings = [(0, 10, 8_000), (9_000, 8_500, 11_000), (12_000, 20, 20_000)];
        assert_eq!(offset.ns_of(readings.into_iter()), 1_500);
        assert_eq!(offset.ns_of([(0, 500, 3_000)].into_iter()), 1_000);
        assert_eq!(offset.ns_of([(0, 500, 30_000)].into_iter()), 1_000);
    }
}
