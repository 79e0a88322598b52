//! A limit on the rate of answered probes: a token bucket.

/// How many intervals a flow may be ahead: probes that were queued on the path arrive together.
const AHEAD: f64 = 64.0;
/// The same as a time, for short intervals.
const AHEAD_NS: f64 = 1e9;

/// Allows one answer per `interval_ns` on average.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    interval_ns: f64,
    most: f64,
    left: f64,
    filled_ns: i64,
}

impl Budget {
    /// Without an interval, every probe may be answered.
    pub(super) fn new(interval_ns: i64) -> Budget {
        let interval_ns = interval_ns.max(0) as f64;
        let most = AHEAD.max(AHEAD_NS / interval_ns.max(1.0));
        Budget {
            interval_ns,
            most,
            left: most,
            filled_ns: i64::MIN,
        }
    }

    /// Takes one answer from the budget; returns false if it is exhausted.
    pub(super) fn take(&mut self, now_ns: i64) -> bool {
        if self.interval_ns == 0.0 {
            return true;
        }
        let passed_ns = now_ns.saturating_sub(self.filled_ns).max(0);
        self.filled_ns = self.filled_ns.max(now_ns);
        self.left = (self.left + passed_ns as f64 / self.interval_ns).min(self.most);
        if self.left < 1.0 {
            return false;
        }
        self.left -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_limited_on_average_and_not_in_a_clump() {
        let mut budget = Budget::new(10_000_000);
        let clump = (0..1000).filter(|_| budget.take(0)).count();
        assert_eq!(clump, 100);
        let later = (1..=1000).filter(|ms| budget.take(ms * 1_000_000)).count();
        assert!((99..=101).contains(&later), "{later}");
    }

    #[test]
    fn without_a_shortest_interval_everything_is_answered() {
        let mut budget = Budget::new(0);
        assert!((0..10_000).all(|_| budget.take(0)));
    }
}
