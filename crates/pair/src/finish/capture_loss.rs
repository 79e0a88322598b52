//! Unexplained missing packets: lost on the path, or missing from a capture?

/// The rate at which a capture misses packets, from those known to have passed its point.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MissRate {
    pub missed: u64,
    pub passed: u64,
    /// Mean length of the runs of misses, weighted by packets; 0 if not determined.
    pub in_a_row: f64,
}

/// Standard deviations beyond which a count is not chance (one case in 30 000).
const SIGNIFICANT_DEVIATIONS: f64 = 4.0;

impl MissRate {
    fn rate(self) -> f64 {
        self.missed as f64 / self.passed.max(1) as f64
    }

    /// Number of the `absent` among `all` packets that were lost on the path: none if the capture's own rate
    /// explains them, all if it misses none, otherwise the excess over its rate.
    pub(super) fn lost(self, absent: u64, all: u64) -> u64 {
        if self.missed == 0 {
            return absent;
        }
        let rate = self.rate();
        let expected = rate * all as f64;
        // the rate was itself measured on no more than `passed` packets
        let single = rate * (1.0 - rate) * all as f64 * (1.0 + all as f64 / self.passed as f64);
        // a slow capture drops consecutive packets: misses in runs vary more than single ones, which occur in
        // runs of (1 + rate) / (1 - rate) (a compound Poisson process)
        let variance = single * (self.in_a_row * (1.0 - rate) / (1.0 + rate)).max(1.0);
        if absent as f64 <= expected + SIGNIFICANT_DEVIATIONS * variance.sqrt() {
            return 0;
        }
        absent.saturating_sub(expected.round() as u64)
    }
}

/// Runs of packets missing from each capture, in the order in which packets passed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Runs {
    run: [u64; 2],
    missed: [u64; 2],
    squares: [u64; 2],
}

impl Runs {
    /// Add the next packet that is known to have passed both points, and the capture that missed it.
    pub(super) fn take(&mut self, missed_by: Option<usize>) {
        for side in 0..2 {
            if missed_by == Some(side) {
                self.run[side] += 1;
            } else {
                self.end(side);
            }
        }
    }

    fn end(&mut self, side: usize) {
        let run = std::mem::take(&mut self.run[side]);
        self.missed[side] += run;
        self.squares[side] = self.squares[side].saturating_add(run.saturating_mul(run));
    }

    /// Mean length of the runs of misses, weighted by packets, by capture.
    pub(super) fn in_a_row(mut self) -> [f64; 2] {
        [0, 1].map(|side| {
            self.end(side);
            self.squares[side] as f64 / self.missed[side].max(1) as f64
        })
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
            in_a_row: 0.0,
        };
        assert_eq!(sound.lost(7, 1000), 7);
    }

    #[test]
    fn misses_at_a_captures_usual_rate_are_no_losses() {
        let busy = MissRate {
            missed: 300,
            passed: 1000,
            in_a_row: 0.0,
        };
        assert_eq!(busy.lost(310, 1000), 0);
        assert_eq!(busy.lost(150, 1000), 0);
    }

    #[test]
    fn a_significant_excess_over_the_rate_is_lost() {
        let busy = MissRate {
            missed: 50,
            passed: 10_000,
            in_a_row: 1.0,
        };
        assert_eq!(busy.lost(550, 10_000), 500);
    }

    #[test]
    fn a_capture_with_runs_of_misses_may_have_one_more_run() {
        let busy = |in_a_row| MissRate {
            missed: 1000,
            passed: 20_000,
            in_a_row,
        };
        assert_eq!(busy(1.0).lost(650, 10_000), 150);
        assert_eq!(busy(5.0).lost(650, 10_000), 0);
    }

    #[test]
    fn a_run_of_misses_ends_with_a_captured_packet() {
        let mut runs = Runs::default();
        for missed_by in [Some(0), Some(0), Some(1), Some(0), Some(0), None, Some(0)] {
            runs.take(missed_by);
        }
        assert_eq!(runs.in_a_row(), [9.0 / 5.0, 1.0]);
    }
}
