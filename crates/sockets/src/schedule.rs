//! The times of polls: regular from a start, however long a poll takes.

use std::time::{Duration, Instant};

/// Deadlines at a fixed distance. A poll serves the deadline nearest to its beginning; the others are counted as
/// missed. A poll that ends slightly after the next deadline therefore does not miss it.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    next: Instant,
    every: Duration,
}

impl Schedule {
    /// The first deadline is `start`; `every` is at least a nanosecond.
    pub fn new(start: Instant, every: Duration) -> Schedule {
        Schedule {
            next: start,
            every: every.max(Duration::from_nanos(1)),
        }
    }

    pub fn next(&self) -> Instant {
        self.next
    }

    /// Registers that a poll begins, no earlier than the deadline, and advances to the next one. Returns how many were
    /// missed before it.
    pub fn begin(&mut self, now: Instant) -> u64 {
        let late = now.saturating_duration_since(self.next);
        let missed = (late + self.every / 2).as_nanos() / self.every.as_nanos();
        let missed = u64::try_from(missed).unwrap_or(u64::MAX);
        let ahead = self.every.as_nanos().saturating_mul(u128::from(missed) + 1);
        self.next += Duration::from_nanos(u64::try_from(ahead).unwrap_or(u64::MAX));
        missed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_poll_that_ends_a_little_late_costs_no_deadline() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, 10 * MS);
        assert_eq!(schedule.begin(start), 0);
        assert_eq!(schedule.next(), start + 10 * MS);
        assert_eq!(schedule.begin(start + 14 * MS), 0);
        assert_eq!(schedule.next(), start + 20 * MS);
    }

    #[test]
    fn a_long_poll_misses_the_deadlines_that_no_other_one_is_near_to() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, 10 * MS);
        schedule.begin(start);
        // 10 and 20 are missed; this one is for 30, or for 40.
        assert_eq!(schedule.begin(start + 34 * MS), 2);
        assert_eq!(schedule.next(), start + 40 * MS);
        assert_eq!(schedule.begin(start + 56 * MS), 2);
        assert_eq!(schedule.next(), start + 70 * MS);
    }

    proptest! {
        #[test]
        fn every_deadline_is_served_or_missed(polls in prop::collection::vec(0_u32..100, 1..50)) {
            let start = Instant::now();
            let mut schedule = Schedule::new(start, 10 * MS);
            let (mut now, mut missed) = (start, 0);
            for took in &polls {
                now = now.max(schedule.next());
                missed += schedule.begin(now);
                let served = schedule.next() - 10 * MS;
                prop_assert!(now.max(served) - now.min(served) <= 5 * MS);
                now += *took * MS;
            }
            let deadlines = (schedule.next() - start).as_millis() / 10;
            prop_assert_eq!(deadlines, polls.len() as u128 + u128::from(missed));
        }
    }
}
