//! The offset: between the floors of both directions.
//!
//! Above the line of the drift, forward transit bottoms out at `offset + smallest transit`, backward transit at
//! `smallest transit - offset`. Their sum is the smallest round trip, half of it the smallest transit of each
//! direction if both are equal.

use super::envelope::Group;
use super::level::median;
use super::slope::Drift;
use super::track::Tracks;
use super::{ClockFit, ClockSample, ClockStretch, clamp};

/// The floor of one direction in one stretch.
#[derive(Debug, Clone, Copy)]
struct Floor {
    /// The smallest transit with the offset in it, at x = 0, nanoseconds.
    lowest: f64,
    /// The typical smallest transit of a window above that, nanoseconds: how blurred the floor is.
    blur: f64,
}

pub(super) fn fit(
    samples: &[ClockSample],
    tracks: &Tracks,
    breaks: &[usize],
    groups: &[Group],
    drift: &Drift,
) -> ClockFit {
    let mut floors = vec![[None; 2]; breaks.len() + 1];
    for group in groups {
        floors[group.stretch][group.direction] = floor(group, drift.of_stretch(group.stretch));
    }
    let transit = smallest_transit(&floors);
    // the offset of each stretch's line at x = 0
    let anchors: Vec<f64> = floors
        .iter()
        .map(|floors| anchor(floors, transit))
        .collect();
    let stretches = anchors
        .iter()
        .enumerate()
        .map(|(number, &anchor)| {
            let from = if number == 0 { 0 } else { breaks[number - 1] };
            let to = breaks.get(number).copied().unwrap_or(samples.len());
            stretch(&samples[from..to], tracks, anchor, drift.of_stretch(number))
        })
        .collect();
    ClockFit {
        stretches,
        offset_bounds_ns: bounds(&floors, &anchors),
        drift_error_ppm: drift.error * 1e6,
        samples: [0, 1].map(|direction| tracks.by_direction[direction].points.len()),
    }
}

fn floor(group: &Group, rate: f64) -> Option<Floor> {
    let mut heights: Vec<f64> = group.floors(rate).map(|point| point.z).collect();
    let lowest = heights.iter().copied().min_by(f64::total_cmp)?;
    let blur = median(&mut heights) - lowest;
    Some(Floor { lowest, blur })
}

/// Of one direction, if both are equal: half of the smallest sum of both, in the stretch where it is smallest.
fn smallest_transit(floors: &[[Option<Floor>; 2]]) -> f64 {
    let both = floors
        .iter()
        .filter_map(|[forward, backward]| Some((*forward)?.lowest + (*backward)?.lowest));
    both.min_by(f64::total_cmp)
        .map_or(0.0, |sum| sum.max(0.0) / 2.0)
}

/// The offset at x = 0 of a stretch's line.
fn anchor(floors: &[Option<Floor>; 2], transit: f64) -> f64 {
    match floors {
        [Some(forward), Some(backward)] => {
            let (high, low) = (forward.lowest - transit, transit - backward.lowest);
            // What is left between both belongs to queues that never emptied in this stretch: to the direction whose
            // floor is blurred. (Negative, both contradict each other by a few stamps too early: likewise.)
            let blur = forward.blur + backward.blur;
            let share = if blur > 0.0 { forward.blur / blur } else { 0.5 };
            high - (high - low) * share
        }
        [Some(forward), None] => forward.lowest - transit,
        [None, Some(backward)] => transit - backward.lowest,
        [None, None] => 0.0,
    }
}

/// How far the offset could be from the lines: backward packets bound it below, forward ones above.
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

fn stretch(samples: &[ClockSample], tracks: &Tracks, anchor: f64, rate: f64) -> ClockStretch {
    let start_ns = samples
        .iter()
        .map(|sample| sample.first_ns)
        .min()
        .unwrap_or(tracks.origin_ns);
    let end_ns = samples
        .iter()
        .map(|sample| sample.first_ns)
        .max()
        .unwrap_or(tracks.origin_ns);
    let x = (i128::from(start_ns) - i128::from(tracks.origin_ns)) as f64;
    ClockStretch {
        start_ns: clamp(i128::from(start_ns)),
        end_ns,
        offset_ns: tracks.base_ns as f64 + (anchor + rate * x),
        drift_ppm: rate * 1e6,
    }
}
