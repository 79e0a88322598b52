//! Packets that nothing accounts for: lost on the way, or missed by a capture?

/// How often a capture misses packets, by those that are known to have passed its point.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MissRate {
    pub missed: u64,
    pub passed: u64,
}

/// Standard deviations beyond which chance does not explain what is missing (one case in 30 000).
const SIGNIFICANT_DEVIATIONS: f64 = 4.0;

impl MissRate {
    fn rate(self) -> f64 {
        self.missed as f64 / self.passed.max(1) as f64
    }

    /// Of `absent` among `all` packets, how many were lost on the way: none if the capture's own rate explains them,
    /// all if it is not known to miss any, else what is beyond its rate.
    pub(super) fn lost(self, absent: u64, all: u64) -> u64 {
        if self.missed == 0 {
            return absent;
        }
        let rate = self.rate();
        let expected = rate * all as f64;
        // the rate was itself measured on no more than `passed` packets
        let variance = rate * (1.0 - rate) * all as f64 * (1.0 + all as f64 / self.passed as f64);
        if absent as f64 <= expected + SIGNIFICANT_DEVIATIONS * variance.sqrt() {
            return 0;
        }
        absent.saturating_sub(expected.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_that_misses_nothing_proves_every_loss() {
        let sound = MissRate {
            missed: 0,
            passed: 1000,
        };
        assert_eq!(sound.lost(7, 1000), 7);
    }

    #[test]
    fn what_a_capture_misses_anyway_is_no_loss() {
        let busy = MissRate {
            missed: 300,
            passed: 1000,
        };
        assert_eq!(busy.lost(310, 1000), 0);
        assert_eq!(busy.lost(150, 1000), 0);
    }

    #[test]
    fn what_exceeds_the_rate_significantly_is_lost() {
        let busy = MissRate {
            missed: 50,
            passed: 10_000,
        };
        assert_eq!(busy.lost(550, 10_000), 500);
    }
}
