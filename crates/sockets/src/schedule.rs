//! When to poll: at even times from a start, whatever a poll takes.

use std::time::{Duration, Instant};

/// Deadlines at a fixed distance. One that is over when the one before has been served is missed, and counted.
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

    /// Goes on to the first deadline after `now`; how many were passed by unserved, beside the one just served.
    pub fn served(&mut self, now: Instant) -> u64 {
        let late = now.saturating_duration_since(self.next);
        let passed = late.as_nanos() / self.every.as_nanos();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        let ahead = self.every.as_nanos().saturating_mul(u128::from(passed) + 1);
        self.next += Duration::from_nanos(u64::try_from(ahead).unwrap_or(u64::MAX));
        passed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_poll_in_time_misses_nothing() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, 10 * MS);
        assert_eq!(schedule.served(start + 3 * MS), 0);
        assert_eq!(schedule.next(), start + 10 * MS);
    }

    #[test]
    fn a_long_poll_misses_the_deadlines_that_are_over_and_keeps_to_even_times() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, 10 * MS);
        assert_eq!(schedule.served(start + 35 * MS), 3);
        assert_eq!(schedule.next(), start + 40 * MS);
    }

    proptest! {
        #[test]
        fn every_deadline_is_served_or_missed(polls in prop::collection::vec(0_u32..100, 1..50)) {
            let start = Instant::now();
            let mut schedule = Schedule::new(start, 10 * MS);
            let (mut now, mut missed) = (start, 0);
            for took in &polls {
                now = now.max(schedule.next()) + *took * MS;
                missed += schedule.served(now);
                prop_assert!(schedule.next() > now);
            }
            let deadlines = (schedule.next() - start).as_millis() / 10;
            prop_assert_eq!(deadlines, polls.len() as u128 + u128::from(missed));
        }
    }
}
