//! The samples of one direction, as transit times that include the clocks' offset.

use std::ops::Range;

use crate::ClockSample;

/// A step of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// The first sample of each direction that was stamped after the step.
    pub at: [usize; 2],
    /// True if capture 2's clock was set, not capture 1's.
    pub of_second: bool,
}

/// One packet: its time, and its transit plus or minus the clocks' difference, so that the floor is a minimum
/// in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    /// Time since the first sample on capture 1's clock, nanoseconds.
    pub x: f64,
    /// Transit including the offset, relative to the first sample's, nanoseconds.
    pub z: f64,
}

impl Point {
    /// Height above a line of this slope through zero.
    #[inline]
    pub fn above(&self, slope: f64) -> f64 {
        self.z - slope * self.x
    }

    /// The same time, at the height above a line of this slope.
    #[inline]
    pub fn leveled(&self, slope: f64) -> Point {
        Point {
            x: self.x,
            z: self.above(slope),
        }
    }

    /// The mean of some points.
    pub fn mean(points: &[Point]) -> Point {
        let count = points.len() as f64;
        Point {
            x: points.iter().map(|p| p.x).sum::<f64>() / count,
            z: points.iter().map(|p| p.z).sum::<f64>() / count,
        }
    }

    /// The lowest of some points.
    pub fn lowest(points: impl Iterator<Item = Point>) -> Option<Point> {
        points.min_by(|a, b| a.z.total_cmp(&b.z))
    }
}

/// All samples of one direction, in capture 1's packet order.
#[derive(Debug, Default)]
pub(crate) struct Track {
    pub points: Vec<Point>,
    /// Position of each point among all samples.
    pub index: Vec<u32>,
}

impl Track {
    /// Number of points before sample `sample`.
    pub fn position(&self, sample: usize) -> usize {
        self.index
            .partition_point(|&index| (index as usize) < sample)
    }

    /// Removes the marked points.
    pub fn leave_out(&mut self, marked: &[bool]) {
        let mut kept = marked.iter().map(|marked| !marked);
        self.points.retain(|_| kept.next().unwrap_or(true));
        let mut kept = marked.iter().map(|marked| !marked);
        self.index.retain(|_| kept.next().unwrap_or(true));
    }

    /// The positions of this direction's points in an interval between `steps`.
    pub fn interval(&self, steps: &[Step], number: usize, direction: usize) -> Range<usize> {
        let from = match number {
            0 => 0,
            _ => self.position(steps[number - 1].at[direction]),
        };
        let to = steps
            .get(number)
            .map_or(self.points.len(), |step| self.position(step.at[direction]));
        from..to.max(from)
    }
}

/// Both directions.
#[derive(Debug)]
pub(crate) struct Tracks {
    /// From point 1 to 2, and back.
    pub by_direction: [Track; 2],
    /// The time of `x` = 0 on capture 1's clock.
    pub origin_ns: i64,
    /// The clocks' difference at `z` = 0.
    pub base_ns: i128,
    /// The coarser of both captures' timestamp steps, nanoseconds.
    pub resolution_ns: f64,
    pub samples: usize,
}

/// The sign of a direction's transit in the difference of the clocks.
pub(crate) fn sign(direction: usize) -> f64 {
    if direction == 0 { 1.0 } else { -1.0 }
}

impl Tracks {
    /// Tracks of all samples except the `mismatched` ones; `None` without samples.
    pub fn new(samples: &[ClockSample], mismatched: &[bool]) -> Option<Tracks> {
        let first = samples.first()?;
        let base_ns = difference(first);
        let mut by_direction: [Track; 2] = Default::default();
        for (index, sample) in samples.iter().enumerate().take(u32::MAX as usize) {
            if mismatched[index] {
                continue;
            }
            let direction = usize::from(!sample.forward);
            // wide integers first: times near the ends of i64 must not overflow, nor lose their nanoseconds
            let z = sign(direction) * (difference(sample) - base_ns) as f64;
            let x = (i128::from(sample.first_ns) - i128::from(first.first_ns)) as f64;
            by_direction[direction].points.push(Point { x, z });
            by_direction[direction].index.push(index as u32);
        }
        let resolution_ns =
            resolution(samples, |s| s.first_ns).max(resolution(samples, |s| s.second_ns));
        Some(Tracks {
            by_direction,
            origin_ns: first.first_ns,
            base_ns,
            resolution_ns,
            samples: samples.len(),
        })
    }
}

/// The reading of capture 2's clock less that of capture 1's.
pub(crate) fn difference(sample: &ClockSample) -> i128 {
    i128::from(sample.second_ns) - i128::from(sample.first_ns)
}

/// The largest power of ten that divides every timestamp, nanoseconds: 1 to 10 000 000.
fn resolution(samples: &[ClockSample], time: impl Fn(&ClockSample) -> i64) -> f64 {
    let mut step: i64 = 10_000_000;
    for sample in samples {
        while step > 1 && time(sample) % step != 0 {
            step /= 10;
        }
        if step == 1 {
            break;
        }
    }
    // few samples may be round by chance: ten at one step are enough
    if samples.len() < 10 { 1.0 } else { step as f64 }
}
