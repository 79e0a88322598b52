//! Offset, drift and steps of two clocks, from packets that were timestamped by both.
//!
//! A packet from point 1 to point 2 was stamped there `offset + transit` later, one in the other direction
//! `offset - transit`; transit is never negative and sometimes as small as the path allows. So the line of
//! the clocks runs below every forward difference and above every backward one, and the *minimum envelopes*
//! of both directions show its slope: V. Paxson, "On Calibrating Measurements of Packet Transit Times",
//! SIGMETRICS 1998; S. Moon, P. Skelly and D. Towsley, "Estimation and Removal of Clock Skew from Network
//! Delay Measurements", INFOCOM 1999.
//!
//! | module | subject |
//! |---|---|
//! | `mismatched` | mismatched packets, from their order |
//! | `impossible` | mismatched packets, from contradictions to the other direction |
//! | `track` | the samples of one direction, as transit times that include the offset |
//! | `steps` | steps of a clock |
//! | `moment` | the time of a step, and the packets of each direction stamped afterwards |
//! | `level` | the level of a direction before and after a position, with its tolerance |
//! | `envelope` | a direction's lower envelope, window by window, and the slope of its hull |
//! | `slope` | one drift for both directions, weighted by the sharpness of their envelopes, and its error |
//! | `anchor` | the offset, from the floors of both directions |
//! | `thinned` | the samples that carry the envelopes, if there are very many |
//! | `tail` | whether the smallest observed transit is a floor, or one lucky packet |
//!
//! Packets cannot show how the smallest round trip divides between the directions. The offset assumes equal
//! shares, unless the packets support another division (see `anchor`); [`ClockFit::offset_bounds_ns`] gives
//! the possible error.

#![forbid(unsafe_code)]

mod anchor;
mod envelope;
mod impossible;
mod level;
mod mismatched;
mod moment;
mod slope;
mod steps;
mod tail;
mod thinned;
mod track;

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use track::Tracks;

/// Cost of a transit below the smallest, relative to a longer one, in choosing the interval of a packet: it
/// is almost impossible.
const BELOW_SMALLEST: f64 = 100.0;

/// Times of a packet that both captures hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSample {
    /// Time at capture 1 on its own clock, nanoseconds.
    pub first_ns: i64,
    /// Time at capture 2 on its own clock, nanoseconds.
    pub second_ns: i64,
    /// The packet passed point 1 before point 2.
    pub forward: bool,
}

/// An interval over which both clocks ran without a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockInterval {
    /// First and last time of the interval, on capture 1's clock, nanoseconds.
    pub start_ns: i64,
    pub end_ns: i64,
    /// Lead of capture 2's clock at `start_ns`, nanoseconds.
    pub offset_ns: f64,
    /// Excess rate of capture 2's clock, parts per million.
    pub drift_ppm: f64,
    /// True if the clock that was set at the start (end) of the interval was capture 2's: packets in transit
    /// then belong to the interval in which they passed point 2, not point 1.
    pub begins_at_second: bool,
    pub ends_at_second: bool,
}

/// Relation of the clocks, as far as it is known.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockFit {
    /// Sorted by time; more than one if a clock was stepped.
    pub intervals: Vec<ClockInterval>,
    /// The offset's bounds relative to the intervals' lines, nanoseconds, for any asymmetry of the path.
    /// `None` if only one direction was captured: then the smallest transit counts as zero.
    pub offset_bounds_ns: Option<(f64, f64)>,
    /// Half the width of the drift's 95 % interval, parts per million.
    pub drift_error_ppm: f64,
    /// Samples by direction: from point 1 to 2, and back.
    pub samples: [usize; 2],
}

/// Fits offset, drift and steps to the packets that both captures hold, given in capture 1's packet order.
///
/// `None` without samples. Few samples, or samples at one moment only, give drift 0 with the error of an
/// unmeasured clock: 500 parts per million, the frequency tolerance of NTP (RFC 5905).
pub fn fit(samples: &[ClockSample]) -> Option<ClockFit> {
    let samples = &*thinned::thinned(samples);
    let mut tracks = Tracks::new(samples, &mismatched::find(samples))?;
    let mut drift = slope::Drift::unmeasured();
    let (mut steps, mut groups) = (Vec::new(), Vec::new());
    // steps and impossible samples are detected given the bounds of the drift, which are narrower after a
    // first fit
    for is_first in [true, false] {
        let is_cleaner = impossible::leave_out(&mut tracks, &drift);
        let found = steps::find(&tracks, &drift);
        if is_first || is_cleaner || found != steps {
            groups = envelope::groups(&tracks, &found);
            drift = slope::fit(&groups, tracks.resolution_ns);
            steps = found;
        }
    }
    Some(anchor::fit(&tracks, &steps, &groups, &drift))
}

impl ClockInterval {
    /// Lead of capture 2's clock when capture 1's shows `first_ns`, nanoseconds.
    pub fn offset_at(&self, first_ns: i64) -> f64 {
        self.offset_ns + self.drift_ppm * 1e-6 * less(first_ns, self.start_ns)
    }

    /// The reading of capture 1's clock when capture 2's shows `second_ns`, nanoseconds.
    pub fn first_at(&self, second_ns: i64) -> i64 {
        self.first_in_64_bits(second_ns)
            .unwrap_or_else(|| self.first_in_128_bits(second_ns))
    }

    /// `None` if the times or their differences exceed 64 bits, which is rare: this is called several times
    /// for every packet.
    #[inline]
    fn first_in_64_bits(&self, second_ns: i64) -> Option<i64> {
        let whole = whole(self.offset_ns)?;
        let since_start = second_ns.checked_sub(self.start_ns)?;
        let rest = since_start.checked_sub(whole)? as f64 - (self.offset_ns - whole as f64);
        let elapsed = rest / (1.0 + self.drift_ppm * 1e-6);
        self.start_ns.checked_add(rounded(elapsed))
    }

    #[cold]
    fn first_in_128_bits(&self, second_ns: i64) -> i64 {
        let since_start = i128::from(second_ns) - i128::from(self.start_ns);
        // the integer part of a large offset is subtracted first, or the float would lose nanoseconds
        let whole = self.offset_ns.trunc();
        let rest = (since_start - whole as i128) as f64 - (self.offset_ns - whole);
        let elapsed = rest / (1.0 + self.drift_ppm * 1e-6);
        clamp(i128::from(self.start_ns) + elapsed.round() as i128)
    }

    /// Distance of this packet from the interval, at the points with the clocks that were set, nanoseconds.
    fn distance_of(&self, sample: &ClockSample) -> u64 {
        let at = |at_second: bool| {
            if at_second {
                self.first_at(sample.second_ns)
            } else {
                sample.first_ns
            }
        };
        self.outside_ns(at(self.begins_at_second), at(self.ends_at_second))
    }

    /// Distance of `first_ns` from the interval, nanoseconds.
    fn distance(&self, first_ns: i64) -> u64 {
        self.outside_ns(first_ns, first_ns)
    }

    /// The time by which `begin_ns` is before the interval's start, or `end_ns` after its end.
    fn outside_ns(&self, begin_ns: i64, end_ns: i64) -> u64 {
        if begin_ns < self.start_ns {
            self.start_ns.abs_diff(begin_ns)
        } else if end_ns > self.end_ns {
            end_ns.abs_diff(self.end_ns)
        } else {
            0
        }
    }
}

impl ClockFit {
    /// Lead of capture 2's clock when capture 1's shows `first_ns`, nanoseconds.
    ///
    /// Between intervals the nearest one counts. If capture 1's clock was set back, a time occurs twice and
    /// the later interval counts; [`ClockFit::offset_of`] distinguishes the two.
    pub fn offset_at(&self, first_ns: i64) -> f64 {
        self.nearest(|interval| interval.distance(first_ns))
            .map_or(0.0, |interval| interval.offset_at(first_ns))
    }

    /// Lead of capture 2's clock when this packet passed, nanoseconds.
    ///
    /// Like [`ClockFit::offset_at`], but using the points at which the clocks were set: packets in transit
    /// then were stamped before the step at one of them. If a time occurs twice, the interval with the more
    /// likely transit counts: possible, and small.
    pub fn offset_of(&self, sample: &ClockSample) -> f64 {
        if let [only] = self.intervals.as_slice() {
            return only.offset_at(sample.first_ns);
        }
        let difference = less(sample.second_ns, sample.first_ns);
        let (backward, forward) = self.offset_bounds_ns.unwrap_or((0.0, 0.0));
        let unlikeliness = |interval: &ClockInterval| {
            let apart = difference - interval.offset_at(sample.first_ns);
            let beyond_smallest = if sample.forward {
                apart - forward
            } else {
                backward - apart
            };
            let cost = if beyond_smallest < 0.0 {
                -BELOW_SMALLEST * beyond_smallest
            } else {
                beyond_smallest
            };
            (interval.distance_of(sample), cost as u64)
        };
        self.nearest(unlikeliness)
            .map_or(0.0, |interval| interval.offset_at(sample.first_ns))
    }

    /// [`ClockFit::offset_of`] in whole nanoseconds.
    pub fn whole_offset_of(&self, sample: &ClockSample) -> i64 {
        rounded(self.offset_of(sample))
    }

    /// The reading of capture 1's clock when capture 2's showed `second_ns`, nanoseconds: the inverse of
    /// [`ClockFit::offset_at`]. If capture 2's clock was set back, the later of both times.
    pub fn first_at(&self, second_ns: i64) -> i64 {
        if let [only] = self.intervals.as_slice() {
            return only.first_at(second_ns);
        }
        self.nearest(|interval| interval.distance(interval.first_at(second_ns)))
            .map_or(second_ns, |interval| interval.first_at(second_ns))
    }

    /// The last of the intervals with the least cost.
    fn nearest<T: Ord>(&self, cost: impl Fn(&ClockInterval) -> T) -> Option<&ClockInterval> {
        self.intervals
            .iter()
            .rev()
            .min_by_key(|interval| cost(interval))
    }
}

/// The difference of two times.
#[inline]
fn less(time_ns: i64, other_ns: i64) -> f64 {
    match time_ns.checked_sub(other_ns) {
        Some(difference_ns) => difference_ns as f64,
        None => (i128::from(time_ns) - i128::from(other_ns)) as f64,
    }
}

/// Above this, floating-point numbers are integers.
const WHOLE_FROM: f64 = (1u64 << 52) as f64;

/// A number without its fraction; `None` above the range of times.
#[inline]
fn whole(number: f64) -> Option<i64> {
    (number.abs() < (1i64 << 62) as f64).then_some(number as i64)
}

/// The nearest integer, halves away from zero, as by [`f64::round`], which is a function call on many
/// processors.
#[inline]
fn rounded(number: f64) -> i64 {
    if number.is_nan() || number.abs() >= WHOLE_FROM {
        return number.round() as i64;
    }
    let towards_zero = number as i64;
    let fraction = number - towards_zero as f64;
    towards_zero + i64::from(fraction >= 0.5) - i64::from(fraction <= -0.5)
}

fn clamp(time_ns: i128) -> i64 {
    time_ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}
