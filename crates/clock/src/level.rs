//! The level of one direction just before and just after a position in the capture.

use crate::track::{Point, Track, sign};

/// Numbers of packets on each side to compare: few if queues change fast, many if single packets jitter.
const SIDES: [usize; 4] = [8, 32, 128, 1024];
/// Standard error of a median of normal values relative to that of a mean.
const MEDIAN_FACTOR: f64 = 1.2533;
const MAD_TO_DEVIATION: f64 = 1.4826;

/// Change of the clocks' difference in one direction's packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shift {
    /// Change of the difference of the clocks, in either direction, nanoseconds.
    pub by_ns: f64,
    /// Uncertainty of the change: scatter, and the speed at which the level was changing anyway.
    pub tolerance_ns: f64,
    /// Time between the middles of both sides, on capture 1's clock, nanoseconds.
    pub apart_ns: f64,
}

/// The shift of a direction between sample `at - 1` and sample `at`, within the samples `from..to`, with the
/// number of packets on each side that gives the most precise result.
pub(crate) fn shift(
    track: &Track,
    direction: usize,
    at: usize,
    from: usize,
    to: usize,
    drift: f64,
) -> Option<Shift> {
    let [from, at, to] = [from, at, to].map(|sample| track.position(sample));
    let (before, after) = (&track.points[from..at], &track.points[at..to]);
    let mut best: Option<Shift> = None;
    for side in SIDES {
        if before.len().min(after.len()) < side {
            break;
        }
        let left = Side::new(&before[before.len() - side..], sign(direction) * drift);
        let right = Side::new(&after[..side], sign(direction) * drift);
        let tolerance_ns = left.tolerance_ns + right.tolerance_ns;
        if best.is_none_or(|shift| tolerance_ns < shift.tolerance_ns) {
            let by_ns = sign(direction) * (right.level_ns - left.level_ns);
            best = Some(Shift {
                by_ns,
                tolerance_ns,
                apart_ns: (right.time_ns - left.time_ns).abs(),
            });
        }
    }
    best
}

struct Side {
    level_ns: f64,
    tolerance_ns: f64,
    time_ns: f64,
}

impl Side {
    fn new(points: &[Point], slope: f64) -> Side {
        let mut heights = heights(points, slope);
        let half = heights.len() / 2;
        let trend =
            (median(&mut heights[..half].to_vec()) - median(&mut heights[half..].to_vec())).abs();
        let (level_ns, away_ns) = level_and_scatter(&mut heights);
        let deviation = MAD_TO_DEVIATION * away_ns;
        let scatter = 3.0 * MEDIAN_FACTOR * deviation / (points.len() as f64).sqrt();
        Side {
            level_ns,
            tolerance_ns: scatter + trend,
            time_ns: points[half].x,
        }
    }
}

/// Heights of points above a line of this slope.
pub(crate) fn heights(points: &[Point], slope: f64) -> Vec<f64> {
    points.iter().map(|point| point.above(slope)).collect()
}

/// The median of some heights, and the median of their distances from it.
pub(crate) fn level_and_scatter(heights: &mut [f64]) -> (f64, f64) {
    let level = median(heights);
    let mut away: Vec<f64> = heights
        .iter()
        .map(|height| (height - level).abs())
        .collect();
    (level, median(&mut away))
}

/// The median (the upper one of two).
pub(crate) fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
