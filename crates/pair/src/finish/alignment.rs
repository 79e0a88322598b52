//! Times of both captures on one clock.

use super::order::by_index;
use crate::clock::{self, ClockFit, ClockInterval, ClockSample};
use crate::flow::{Direction, PairFlow};
use crate::packet::{PacketFlags, PairPacket};

/// Samples that a fit gets at most.
const MOST_SAMPLES: usize = 200_000;
/// Where there are more: windows of which the fastest and slowest packet of each direction are kept.
const WINDOWS: usize = MOST_SAMPLES / 4;

/// Fits the clocks to the packets that both captures hold.
pub(super) fn fit(flows: &[PairFlow], packets: &[PairPacket]) -> Option<ClockFit> {
    let sample = |packet: &PairPacket| {
        let direction = flows[packet.flow as usize].direction;
        // later pieces of a super-segment have the time of the first, or of none
        let tells = packet.is_matched()
            && !packet.flags.has(PacketFlags::LATER_PIECE)
            && direction != Direction::Unknown;
        tells.then(|| ClockSample {
            first_ns: packet.time_ns[0],
            second_ns: packet.time_ns[1],
            forward: direction == Direction::FirstToSecond,
        })
    };
    // in capture 1's order
    let order = by_index(packets, 0, |packet| sample(packet).is_some());
    let samples: Vec<ClockSample> = order
        .into_iter()
        .filter_map(|at| sample(&packets[at as usize]))
        .collect();
    if samples.len() <= MOST_SAMPLES {
        return clock::fit(&samples);
    }
    clock::fit(&thinned(&samples))
}

/// The fastest and the slowest packet of each direction in each window of as many samples, in order.
fn thinned(samples: &[ClockSample]) -> Vec<ClockSample> {
    let window = samples.len().div_ceil(WINDOWS);
    let mut kept = Vec::with_capacity(MOST_SAMPLES);
    for samples in samples.chunks(window) {
        let mut chosen: Vec<usize> = Vec::with_capacity(4);
        for forward in [true, false] {
            let own = || {
                samples
                    .iter()
                    .enumerate()
                    .filter(|(_, sample)| sample.forward == forward)
                    .map(|(at, sample)| (sample.second_ns - sample.first_ns, at))
            };
            chosen.extend(own().min().map(|(_, at)| at));
            chosen.extend(own().max().map(|(_, at)| at));
        }
        chosen.sort_unstable();
        chosen.dedup();
        kept.extend(chosen.into_iter().map(|at| samples[at]));
    }
    kept
}

/// Both captures' times on capture 1's clock.
pub(super) struct Aligned<'a> {
    clock: Option<&'a ClockFit>,
    /// The fit where there was no step.
    line: Option<Line>,
    /// In place of a fit.
    constant_offset_ns: i64,
}

impl<'a> Aligned<'a> {
    pub(super) fn new(clock: Option<&'a ClockFit>, constant_offset_ns: i64) -> Self {
        let line = clock.and_then(|clock| match clock.intervals.as_slice() {
            [interval] => Line::of(interval),
            _ => None,
        });
        Self {
            clock,
            line,
            constant_offset_ns,
        }
    }

    /// A time of capture 1 (`side` 0) or 2 on capture 1's clock.
    #[inline]
    pub(super) fn first_clock_ns(&self, side: usize, time_ns: i64) -> i64 {
        if side == 0 {
            return time_ns;
        }
        let by_line = self.line.and_then(|line| line.first_at(time_ns));
        by_line.unwrap_or_else(|| self.by_fit(time_ns))
    }

    fn by_fit(&self, time_ns: i64) -> i64 {
        match self.clock {
            Some(clock) => clock.first_at(time_ns),
            None => time_ns.saturating_sub(self.constant_offset_ns),
        }
    }
}

/// [`crate::ClockInterval::first_at`] for times that 64 bits hold: it is asked for several times for every packet.
#[derive(Debug, Clone, Copy)]
struct Line {
    start_ns: i64,
    /// Of the offset, apart from its fraction.
    whole_ns: i64,
    fraction_ns: f64,
    rate: f64,
}

impl Line {
    fn of(interval: &ClockInterval) -> Option<Self> {
        let whole = interval.offset_ns.trunc();
        // times that matching lets pass, and their differences
        (whole.abs() < (1i64 << 62) as f64).then_some(Self {
            start_ns: interval.start_ns,
            whole_ns: whole as i64,
            fraction_ns: interval.offset_ns - whole,
            rate: 1.0 + interval.drift_ppm * 1e-6,
        })
    }

    #[inline]
    fn first_at(self, second_ns: i64) -> Option<i64> {
        let since_start_ns = second_ns.checked_sub(self.start_ns)?;
        let rest = since_start_ns.checked_sub(self.whole_ns)? as f64 - self.fraction_ns;
        self.start_ns.checked_add((rest / self.rate).round() as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn one_interval_without_wide_numbers_gives_the_same_times(
            start_ns in 0i64..1 << 62,
            offset_ns in prop_oneof![-1e18..1e18, -1e6..1e6],
            drift_ppm in -1e3..1e3,
            since_ns in prop_oneof![-1i64 << 61..1 << 61, -1_000_000i64..1_000_000],
        ) {
            let interval = ClockInterval {
                start_ns,
                end_ns: start_ns,
                offset_ns,
                drift_ppm,
                begins_at_second: false,
                ends_at_second: false,
            };
            let clock = ClockFit {
                intervals: vec![interval],
                offset_bounds_ns: None,
                drift_error_ppm: 0.0,
                samples: [0, 0],
            };
            let second_ns = start_ns.saturating_add(since_ns);
            prop_assert_eq!(
                Aligned::new(Some(&clock), 0).first_clock_ns(1, second_ns),
                clock.first_at(second_ns)
            );
        }
    }
}
