//! The clocks' offset, from the floors of both directions.
//!
//! Relative to the line of the drift, forward transit has its minimum at `offset + smallest transit`,
//! backward transit at `smallest transit - offset`. Their sum is the smallest round trip; half of it is the
//! smallest transit of each direction if both are equal. Two observations can replace that assumption:
//!
//! * *A direction without a sharp lower end.* With bell-shaped jitter the smallest observed transit is no
//!   floor but one lucky packet, and the path's own transit is shorter. The excess over the other direction's
//!   sharp floor is then attributed to jitter (see `tail`).
//! * *One clock.* Two captures of one machine share its clock: no drift, and an offset of zero that leaves
//!   one direction a transit of almost zero. Independent clocks do that only by a rare chance.

use crate::envelope::Group;
use crate::level::{heights, median};
use crate::slope::Drift;
use crate::tail;
use crate::track::{Step, Tracks, sign};
use crate::{ClockFit, ClockInterval, clamp};

/// A drift measured at least this precisely, and found to be zero, is that of one clock, nanoseconds per
/// nanosecond: NTP disciplines independent clocks to within 0.1 ppm at best.
const ONE_CLOCK_ERROR: f64 = 0.1e-6;
/// With one clock, one direction's smallest transit is at most this: between two interfaces of a machine.
const ONE_MACHINE_NS: f64 = 100e3;

/// The floor of one direction in one interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Floor {
    /// The smallest transit including the offset, at x = 0, nanoseconds.
    pub lowest: f64,
    /// The excess of a window's typical smallest transit over it, nanoseconds: the spread of the floor.
    spread: f64,
}

pub(crate) fn fit(tracks: &Tracks, steps: &[Step], groups: &[Group], drift: &Drift) -> ClockFit {
    let mut floors = vec![[None; 2]; steps.len() + 1];
    for group in groups {
        floors[group.interval][group.direction] = floor(group, drift.of_interval(group.interval));
    }
    if is_one_clock(tracks, &floors, drift) {
        let line = interval(tracks, steps, 0, -(tracks.base_ns as f64), 0.0);
        let anchors = [-(tracks.base_ns as f64)];
        let bounds = bounds_at_start(tracks, steps, groups, drift, anchors[0]);
        return whole(tracks, drift, vec![line], bounds);
    }
    // a lucky packet that is no floor is lowered to where the floor may be
    let mut likely = floors.clone();
    if let Some(interval) = tightest(&floors) {
        let excess = tail::excess(
            tracks,
            steps,
            interval,
            drift.of_interval(interval),
            &floors[interval],
        );
        for floors in &mut likely {
            for (floor, excess) in floors.iter_mut().zip(excess) {
                floor.iter_mut().for_each(|floor| floor.lowest -= excess);
            }
        }
    }
    let transit = smallest_transit(&likely);
    // the offset of each interval's line at x = 0
    let anchors: Vec<f64> = likely
        .iter()
        .map(|floors| anchor(floors, transit))
        .collect();
    let intervals = anchors
        .iter()
        .enumerate()
        .map(|(number, &anchor)| interval(tracks, steps, number, anchor, drift.of_interval(number)))
        .collect();
    let at_start = bounds_at_start(tracks, steps, groups, drift, anchors[0]);
    whole(
        tracks,
        drift,
        intervals,
        at_start.or_else(|| bounds(&floors, &anchors)),
    )
}

fn whole(
    tracks: &Tracks,
    drift: &Drift,
    intervals: Vec<ClockInterval>,
    offset_bounds_ns: Option<(f64, f64)>,
) -> ClockFit {
    ClockFit {
        intervals,
        offset_bounds_ns,
        drift_error_ppm: drift.error * 1e6,
        samples: [0, 1].map(|direction| tracks.by_direction[direction].points.len()),
    }
}

/// True if both captures were apparently stamped by one clock: two would agree so well only by chance.
fn is_one_clock(tracks: &Tracks, floors: &[[Option<Floor>; 2]], drift: &Drift) -> bool {
    let &[[Some(forward), Some(backward)]] = floors else {
        return false;
    };
    let base = tracks.base_ns as f64;
    let (forward, backward) = (forward.lowest + base, backward.lowest - base);
    drift.error <= ONE_CLOCK_ERROR
        && drift.rate.abs() <= drift.error
        && forward >= 0.0
        && backward >= 0.0
        && forward.min(backward) <= ONE_MACHINE_NS
}

/// The interval in which the floors leave the offset the least room.
fn tightest(floors: &[[Option<Floor>; 2]]) -> Option<usize> {
    let room = |floors: &[Option<Floor>; 2]| Some(floors[0]?.lowest + floors[1]?.lowest);
    (0..floors.len())
        .filter_map(|interval| Some((interval, room(&floors[interval])?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(interval, _)| interval)
}

fn floor(group: &Group, rate: f64) -> Option<Floor> {
    let mut heights: Vec<f64> = group.floors(rate).map(|point| point.z).collect();
    let lowest = heights.iter().copied().min_by(f64::total_cmp)?;
    let spread = median(&mut heights) - lowest;
    Some(Floor { lowest, spread })
}

/// Of one direction, if both are equal: half of the smallest sum of both, in the interval with the smallest.
fn smallest_transit(floors: &[[Option<Floor>; 2]]) -> f64 {
    let both = floors
        .iter()
        .filter_map(|[forward, backward]| Some((*forward)?.lowest + (*backward)?.lowest));
    both.min_by(f64::total_cmp)
        .map_or(0.0, |sum| sum.max(0.0) / 2.0)
}

/// The offset at x = 0 of an interval's line.
fn anchor(floors: &[Option<Floor>; 2], transit: f64) -> f64 {
    match floors {
        [Some(forward), Some(backward)] => {
            let (high, low) = (forward.lowest - transit, transit - backward.lowest);
            // the rest between both belongs to queues that never emptied in this interval: to the direction
            // with a spread floor (if negative, both contradict each other by a few early timestamps:
            // likewise)
            let spread = forward.spread + backward.spread;
            let share = if spread > 0.0 {
                forward.spread / spread
            } else {
                0.5
            };
            high - (high - low) * share
        }
        [Some(forward), None] => forward.lowest - transit,
        [None, Some(backward)] => transit - backward.lowest,
        [None, None] => 0.0,
    }
}

/// Rates within the drift's interval for which the bounds are evaluated, in half-widths.
const RATES: [f64; 5] = [-1.0, -0.5, 0.0, 0.5, 1.0];

/// Bounds of the offset relative to the first interval's line at its start: backward packets give the lower,
/// forward ones the upper bound, at any rate within the drift's interval at which they do not contradict each
/// other.
///
/// `None` if the first interval has packets of one direction only.
fn bounds_at_start(
    tracks: &Tracks,
    steps: &[Step],
    groups: &[Group],
    drift: &Drift,
    anchor: f64,
) -> Option<(f64, f64)> {
    let of = |direction: usize| {
        groups
            .iter()
            .find(|group| group.interval == 0 && group.direction == direction)
    };
    let directions = [of(0)?, of(1)?];
    let rate = drift.of_interval(0);
    let late = [0, 1].map(|direction| {
        let track = &tracks.by_direction[direction];
        let points = &track.points[track.interval(steps, 0, direction)];
        let slope = sign(direction) * rate;
        tail::late_stamps(heights(points, slope))
    });
    let bounds_at = |rate: f64| {
        let [forward, backward] = directions.map(|group| floor(group, rate));
        Some((-backward?.lowest, forward?.lowest))
    };
    let known = bounds_at(rate)?;
    let [late_forward, late_backward] = late;
    let possible = RATES
        .iter()
        .filter_map(|widths| bounds_at(rate + widths * drift.error))
        .filter(|(low, high)| low - late_backward <= high + late_forward);
    // directions that contradict each other show the error of the timestamps: the offset is between both
    let (low, high) = possible.chain([known]).fold(
        (f64::INFINITY, f64::NEG_INFINITY),
        |(low, high), (one, other)| (low.min(one).min(other), high.max(one).max(other)),
    );
    // each timestamp is at most one step late or early
    let step = tracks.resolution_ns;
    Some((
        low - late_backward - anchor - step,
        high + late_forward - anchor + step,
    ))
}

/// Bounds of the offset relative to the lines: backward packets give the lower, forward ones the upper bound.
fn bounds(floors: &[[Option<Floor>; 2]], anchors: &[f64]) -> Option<(f64, f64)> {
    let relative = |direction: usize, sign: f64| {
        floors
            .iter()
            .zip(anchors)
            .filter_map(|(floors, anchor)| Some((*floors)[direction]?.lowest - sign * anchor))
            .min_by(f64::total_cmp)
    };
    let (forward, backward) = (relative(0, 1.0)?, relative(1, -1.0)?);
    let (low, high) = (-backward, forward);
    Some((low.min(high), low.max(high)))
}

/// An interval's line, and its time span on capture 1's clock: if capture 2's clock was set, the line
/// converts its timestamps.
fn interval(
    tracks: &Tracks,
    steps: &[Step],
    number: usize,
    anchor: f64,
    rate: f64,
) -> ClockInterval {
    let begins_at_second = number > 0 && steps[number - 1].of_second;
    let ends_at_second = steps.get(number).is_some_and(|step| step.of_second);
    let mut start = f64::INFINITY;
    let mut end = f64::NEG_INFINITY;
    for (direction, track) in tracks.by_direction.iter().enumerate() {
        for point in &track.points[track.interval(steps, number, direction)] {
            let at_second = (point.x + sign(direction) * point.z - anchor) / (1.0 + rate);
            start = start.min(if begins_at_second { at_second } else { point.x });
            end = end.max(if ends_at_second { at_second } else { point.x });
        }
    }
    if start > end {
        (start, end) = (0.0, 0.0);
    }
    let time_ns = |x: f64| clamp(i128::from(tracks.origin_ns) + x.round() as i128);
    let start_ns = time_ns(start);
    let x = (i128::from(start_ns) - i128::from(tracks.origin_ns)) as f64;
    ClockInterval {
        start_ns,
        end_ns: time_ns(end),
        offset_ns: tracks.base_ns as f64 + (anchor + rate * x),
        drift_ppm: rate * 1e6,
        begins_at_second,
        ends_at_second,
    }
}
