//! The offset of the far host's clock, estimated from exchanges of timestamps.
//!
//! An exchange is two packets, one in each direction, that both hosts timestamp. The fit that [`whydrop_clock`]
//! makes for the packets of two captures therefore applies. It finds offset and drift between the lower envelopes of
//! both directions, even if a queue stands in one direction for most of the test, and treats a host that slept as a
//! step. The clocks never jump ([`crate::clock`]), but time servers do slew them.

use std::collections::BTreeMap;

use whydrop_clock::{ClockInterval, ClockSample};

use crate::sample::Exchange;

use super::exchanges::{down_ns, up_ns};

/// The fastest exchanges of each window are kept. When windows become too many, their length doubles.
const FIRST_WINDOW_NS: i64 = 100_000_000;
const MOST_WINDOWS: usize = 2048;
/// Computers' oscillators are this accurate without any comparison (IEEE 802.3 requires 100 ppm for Ethernet): a drift
/// with a larger uncertainty counts as unknown.
const WORST_DRIFT_ERROR_PPM: f64 = 100.0;

/// The state of the far host's clock at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockEstimate {
    /// In this host's clock.
    pub time_ns: i64,
    /// How far the far clock is ahead of the local one.
    pub offset_ns: i64,
    /// The error that an asymmetric path could hide: half of the smallest round trip, if both directions were seen at
    /// their best, plus the drift's uncertainty over the time between the middle of the test and this estimate.
    pub uncertainty_ns: i64,
    /// How much faster the far clock runs; `None` if too little time has passed for an estimate.
    pub drift_ppm: Option<f64>,
}

/// The data from all exchanges so far; its memory is bounded.
#[derive(Clone, Debug)]
pub struct ClockFit {
    window_ns: i64,
    windows: BTreeMap<i64, Window>,
    latest_ns: i64,
}

/// For one window, the exchange with the smallest delay up and the one with the smallest delay down.
#[derive(Clone, Copy, Debug)]
struct Window {
    up: Exchange,
    down: Exchange,
}

impl Default for ClockFit {
    fn default() -> ClockFit {
        ClockFit {
            window_ns: FIRST_WINDOW_NS,
            windows: BTreeMap::new(),
            latest_ns: i64::MIN,
        }
    }
}

impl ClockFit {
    /// Adds exchanges, in any order. Impossible timestamps are skipped.
    pub fn add(&mut self, exchanges: &[Exchange]) {
        for exchange in exchanges.iter().filter(|exchange| is_possible(exchange)) {
            self.latest_ns = self.latest_ns.max(exchange.received_ns);
            let window = Window {
                up: *exchange,
                down: *exchange,
            };
            self.enter(exchange.sent_ns.div_euclid(self.window_ns), window);
        }
        while self.windows.len() > MOST_WINDOWS {
            self.window_ns *= 2;
            for (number, window) in std::mem::take(&mut self.windows) {
                self.enter(number.div_euclid(2), window);
            }
        }
    }

    fn enter(&mut self, number: i64, window: Window) {
        self.windows
            .entry(number)
            .and_modify(|known| known.join(&window))
            .or_insert(window);
    }

    /// Estimates the clocks at the time of the latest exchange; `None` before the first.
    pub fn latest(&self) -> Option<ClockEstimate> {
        let fit = self.fit()?;
        let span = fit.intervals.last()?;
        Some(estimate(&fit, span, self.latest_ns))
    }

    /// Estimates the clocks over the whole test; between two estimates the offset is linear.
    pub fn estimates(&self) -> Vec<ClockEstimate> {
        let Some(fit) = self.fit() else {
            return Vec::new();
        };
        let mut estimates = Vec::new();
        for span in &fit.intervals {
            estimates.push(estimate(&fit, span, span.start_ns));
            if span.end_ns > span.start_ns {
                estimates.push(estimate(&fit, span, span.end_ns));
            }
        }
        estimates
    }

    /// Interpolates the offset at a time of this host's clock from estimates in order of time; outside them, the
    /// nearest estimate's drift continues.
    pub fn offset_at(estimates: &[ClockEstimate], time_ns: i64) -> Option<i64> {
        let following = estimates.partition_point(|estimate| estimate.time_ns <= time_ns);
        let (before, after) = (following.checked_sub(1), estimates.get(following));
        match (before.map(|before| &estimates[before]), after) {
            (Some(before), Some(after)) => {
                let span_ns = (after.time_ns - before.time_ns) as f64;
                let share = (time_ns - before.time_ns) as f64 / span_ns;
                let change_ns = after.offset_ns.saturating_sub(before.offset_ns) as f64;
                Some(before.offset_ns.saturating_add((change_ns * share) as i64))
            }
            (Some(nearest), None) | (None, Some(nearest)) => {
                let away_ns = time_ns.saturating_sub(nearest.time_ns) as f64;
                let change_ns = away_ns * nearest.drift_ppm.unwrap_or(0.0) * 1e-6;
                Some(nearest.offset_ns.saturating_add(change_ns as i64))
            }
            (None, None) => None,
        }
    }

    /// Computes the offset at a time of the far host's clock from a function of local time.
    pub fn offset_at_far(far_ns: i64, offset_at: impl Fn(i64) -> Option<i64>) -> Option<i64> {
        // Each iteration reduces the error of the local time by the factor of the drift: after two, even clocks that
        // are a day apart are converted to the nanosecond.
        let mut offset_ns = offset_at(far_ns)?;
        for _ in 0..2 {
            offset_ns = offset_at(far_ns.saturating_sub(offset_ns))?;
        }
        Some(offset_ns)
    }

    fn fit(&self) -> Option<whydrop_clock::ClockFit> {
        let up = self.windows.values().map(|window| ClockSample {
            first_ns: window.up.sent_ns,
            second_ns: window.up.far_received_ns,
            forward: true,
        });
        let down = self.windows.values().map(|window| ClockSample {
            first_ns: window.down.received_ns,
            second_ns: window.down.far_sent_ns,
            forward: false,
        });
        let mut samples: Vec<ClockSample> = up.chain(down).collect();
        samples.sort_by_key(|sample| sample.first_ns);
        whydrop_clock::fit(&samples)
    }
}

impl Window {
    fn join(&mut self, other: &Window) {
        if up_ns(&other.up) < up_ns(&self.up) {
            self.up = other.up;
        }
        if down_ns(&other.down) < down_ns(&self.down) {
            self.down = other.down;
        }
    }
}

/// True if the timestamps advance on both hosts and lie in a plausible range of dates.
fn is_possible(exchange: &Exchange) -> bool {
    let is_time = |time_ns: i64| (0..i64::MAX / 2).contains(&time_ns);
    is_time(exchange.sent_ns)
        && is_time(exchange.far_received_ns)
        && exchange.received_ns >= exchange.sent_ns
        && exchange.far_sent_ns >= exchange.far_received_ns
        && is_time(exchange.received_ns)
        && is_time(exchange.far_sent_ns)
}

fn estimate(fit: &whydrop_clock::ClockFit, span: &ClockInterval, time_ns: i64) -> ClockEstimate {
    let uncertainty_ns = fit
        .offset_bounds_ns
        .map_or(0.0, |(low, high)| low.abs().max(high.abs()));
    // A line with a wrong slope fits best in its middle.
    let middle_ns = span.start_ns / 2 + span.end_ns / 2;
    let away_ns = time_ns.saturating_sub(middle_ns).unsigned_abs() as f64;
    let uncertainty_ns = uncertainty_ns + away_ns * fit.drift_error_ppm * 1e-6;
    let is_drift_known = fit.drift_error_ppm < WORST_DRIFT_ERROR_PPM;
    ClockEstimate {
        time_ns,
        offset_ns: span.offset_at(time_ns).round() as i64,
        uncertainty_ns: uncertainty_ns.ceil() as i64,
        drift_ppm: is_drift_known.then_some(span.drift_ppm),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START_NS: i64 = 1_700_000_000_000_000_000;

    /// A far clock that is `ahead_ns` ahead at the start and runs `drift_ppm` faster.
    struct Far {
        ahead_ns: i64,
        drift_ppm: f64,
    }

    impl Far {
        fn shows(&self, time_ns: i64) -> i64 {
            time_ns + self.ahead_ns + ((time_ns - START_NS) as f64 * self.drift_ppm * 1e-6) as i64
        }

        fn exchange(&self, sent_ns: i64, up_ns: i64, down_ns: i64) -> Exchange {
            const TURNAROUND_NS: i64 = 20_000;
            let there_ns = sent_ns + up_ns;
            Exchange {
                sent_ns,
                far_received_ns: self.shows(there_ns),
                far_sent_ns: self.shows(there_ns + TURNAROUND_NS),
                received_ns: there_ns + TURNAROUND_NS + down_ns,
            }
        }

        /// The clock's offset at this local time.
        fn offset_ns(&self, time_ns: i64) -> i64 {
            self.shows(time_ns) - time_ns
        }
    }

    /// Long-tailed jitter, computed from a number that need not be random.
    fn jitter_ns(number: i64, scale_ns: f64) -> i64 {
        let uniform = (number as f64 * 0.754_877_666_246_692_8).fract();
        (-(1.0 - uniform).ln() * scale_ns) as i64
    }

    #[test]
    fn offset_and_drift_are_found_beside_a_queue_that_stands_in_one_direction() {
        let far = Far {
            ahead_ns: -3_600_000_000_000,
            drift_ppm: 23.0,
        };
        let mut fit = ClockFit::default();
        for number in 0..3000_i64 {
            let sent_ns = START_NS + number * 20_000_000;
            // 60 s; for 50 s of them, up to 400 ms of queueing delay towards the far host
            let is_loaded = (250..2750).contains(&number);
            let queue_ns = if is_loaded {
                100_000_000 + number % 300 * 1_000_000
            } else {
                0
            };
            let up_ns = 5_000_000 + jitter_ns(number, 200_000.0) + queue_ns;
            fit.add(&[far.exchange(sent_ns, up_ns, 5_000_000 + jitter_ns(number + 7, 200_000.0))]);
        }
        let estimates = fit.estimates();
        let drift_ppm = estimates[0].drift_ppm.unwrap();
        assert!((drift_ppm - 23.0).abs() < 2.0, "{drift_ppm}");
        for number in (0..3000).step_by(100) {
            let time_ns = START_NS + number * 20_000_000;
            let offset_ns = ClockFit::offset_at(&estimates, time_ns).unwrap();
            let error_ns = (offset_ns - far.offset_ns(time_ns)).abs();
            assert!(error_ns < 100_000, "{error_ns} ns at {number}");
        }
        let latest = fit.latest().unwrap();
        assert!((latest.offset_ns - far.offset_ns(latest.time_ns)).abs() < 100_000);
        assert!(
            (4_900_000..5_400_000).contains(&latest.uncertainty_ns),
            "{latest:?}"
        );
    }

    #[test]
    fn clocks_that_are_a_day_apart_and_drift_are_brought_together_from_either_side() {
        let far = Far {
            ahead_ns: 86_400_000_000_000,
            drift_ppm: 50.0,
        };
        let known = ClockEstimate {
            time_ns: START_NS,
            offset_ns: far.ahead_ns,
            uncertainty_ns: 0,
            drift_ppm: Some(far.drift_ppm),
        };
        let at_ours = |time_ns| ClockFit::offset_at(&[known], time_ns);
        for seconds in [0, 1, 60] {
            let time_ns = START_NS + seconds * 1_000_000_000;
            let offset_ns = ClockFit::offset_at_far(far.shows(time_ns), at_ours).unwrap();
            let error_ns = offset_ns - far.offset_ns(time_ns);
            assert!(error_ns.abs() <= 1_000, "{error_ns}");
        }
    }

    #[test]
    fn a_path_that_is_asymmetric_deceives_by_no_more_than_the_uncertainty() {
        let far = Far {
            ahead_ns: 1_000_000,
            drift_ppm: 0.0,
        };
        let mut fit = ClockFit::default();
        for number in 0..500_i64 {
            let sent_ns = START_NS + number * 20_000_000;
            let (up_ns, down_ns) = (
                20_000_000 + jitter_ns(number, 1e5),
                2_000_000 + jitter_ns(number + 3, 1e5),
            );
            fit.add(&[far.exchange(sent_ns, up_ns, down_ns)]);
        }
        let latest = fit.latest().unwrap();
        let error_ns = (latest.offset_ns - far.offset_ns(latest.time_ns)).abs();
        assert!(
            error_ns <= latest.uncertainty_ns,
            "{error_ns} ns, {latest:?}"
        );
        assert!(error_ns > 5_000_000);
    }

    #[test]
    fn a_first_look_knows_an_offset_and_no_drift() {
        assert_eq!(ClockFit::default().latest(), None);
        assert_eq!(ClockFit::offset_at(&[], 0), None);
        let far = Far {
            ahead_ns: 77_000_000,
            drift_ppm: 0.0,
        };
        let mut fit = ClockFit::default();
        fit.add(&[far.exchange(START_NS, 1_000_000, 1_000_000)]);
        let latest = fit.latest().unwrap();
        assert!((latest.offset_ns - 77_000_000).abs() <= latest.uncertainty_ns);
        assert_eq!(latest.drift_ppm, None);
    }

    #[test]
    fn a_day_of_exchanges_takes_no_more_memory_than_minutes() {
        let far = Far {
            ahead_ns: 0,
            drift_ppm: 1.0,
        };
        let mut fit = ClockFit::default();
        for number in 0..86_400_i64 {
            let sent_ns = START_NS + number * 1_000_000_000;
            fit.add(&[far.exchange(
                sent_ns,
                1_000_000 + jitter_ns(number, 1e5),
                1_000_000 + jitter_ns(number + 5, 1e5),
            )]);
        }
        assert!(fit.windows.len() <= MOST_WINDOWS);
        let drift_ppm = fit.latest().unwrap().drift_ppm.unwrap();
        assert!((drift_ppm - 1.0).abs() < 0.1, "{drift_ppm}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn over_the_whole_test_no_offset_is_wrong_by_more_than_is_said(
            ahead_ns in -86_400_000_000_000_i64..86_400_000_000_000,
            drift_ppm in -100.0_f64..100.0,
            delays_ns in (100_000_i64..50_000_000, 100_000_i64..50_000_000),
            jitter_ns_scale in 1e3_f64..1e6,
            seconds in 2_i64..120,
        ) {
            let far = Far { ahead_ns, drift_ppm };
            let mut fit = ClockFit::default();
            let last = seconds * 50;
            for number in 0..=last {
                let sent_ns = START_NS + number * 20_000_000;
                fit.add(&[far.exchange(
                    sent_ns,
                    delays_ns.0 + jitter_ns(number, jitter_ns_scale),
                    delays_ns.1 + jitter_ns(number + 7, jitter_ns_scale),
                )]);
            }
            let estimates = fit.estimates();
            prop_assert_eq!(estimates.len(), 2, "no clock was set");
            let uncertainty_ns = estimates[0].uncertainty_ns.max(estimates[1].uncertainty_ns);
            for number in (0..=last).step_by(10) {
                let time_ns = START_NS + number * 20_000_000;
                let error_ns = ClockFit::offset_at(&estimates, time_ns).unwrap() - far.offset_ns(time_ns);
                prop_assert!(error_ns.abs() <= uncertainty_ns, "{} ns, {:?}", error_ns, estimates);
            }
        }

        #[test]
        fn stamps_that_lie_break_nothing(stamps in proptest::collection::vec(any::<[i64; 4]>(), 0..50)) {
            let mut fit = ClockFit::default();
            for [sent_ns, far_received_ns, far_sent_ns, received_ns] in stamps {
                let exchange = Exchange { sent_ns, far_received_ns, far_sent_ns, received_ns };
                fit.add(&[exchange, Exchange { sent_ns: sent_ns.saturating_abs() / 4, ..exchange }]);
            }
            fit.latest();
            let estimates = fit.estimates();
            ClockFit::offset_at(&estimates, i64::MAX);
            ClockFit::offset_at(&estimates, 0);
            ClockFit::offset_at_far(i64::MIN, |time_ns| ClockFit::offset_at(&estimates, time_ns));
        }
    }
}
