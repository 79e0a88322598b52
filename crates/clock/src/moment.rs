//! The time at which a clock was set, and the packets of each direction stamped afterwards.
//!
//! If capture 1's clock was set, capture 1's order splits the packets of both directions at one position. If
//! capture 2's clock was set, some packets were in transit: forward ones had passed point 1 before and passed
//! point 2 after, backward ones vice versa. If the jump of one direction is located exactly, its timestamps
//! at point 2 give the time of the step, and that splits the other direction.

use std::ops::Range;

use crate::track::{Point, Track, Tracks, sign};

/// Packets of the other direction on each side that may have been in transit at the step.
const IN_TRANSIT: usize = 4096;

/// A jump of one direction, located exactly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Move {
    pub direction: usize,
    /// The first position in the direction's track after it.
    pub at: usize,
    /// Change of the difference of the clocks, nanoseconds.
    pub by_ns: f64,
}

/// A packet's time at point 2 on capture 2's clock, relative to an arbitrary origin.
fn second_ns(point: &Point, direction: usize) -> f64 {
    point.x + sign(direction) * point.z
}

/// True if capture 2's clock was set, judged by the order of capture 1's timestamps.
///
/// If capture 1's clock was set back, its timestamps decrease; if it was set ahead, they have a gap. A pause
/// of that length may mislead; then hardly any packet is in transit either.
pub(crate) fn is_of_second(tracks: &Tracks, moved: &Move) -> bool {
    let times = times_across(tracks, moved);
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    // a capture's packets may be slightly out of order, and drift widens a gap of hours
    let slack = 0.01 * moved.by_ns.abs();
    if moved.by_ns > 0.0 {
        gaps.fold(f64::INFINITY, f64::min) > -slack
    } else {
        gaps.fold(0.0, f64::max) < -moved.by_ns - slack
    }
}

/// Capture 1's times from the last packet before the jump to the first one after it, including those of the
/// other direction in between.
fn times_across(tracks: &Tracks, moved: &Move) -> Vec<f64> {
    let track = &tracks.by_direction[moved.direction];
    let others = &tracks.by_direction[1 - moved.direction];
    let [before, after] = [moved.at - 1, moved.at];
    let range =
        others.position(track.index[before] as usize)..others.position(track.index[after] as usize);
    let between = others.points[range].iter().map(|point| point.x);
    std::iter::once(track.points[before].x)
        .chain(between)
        .chain(std::iter::once(track.points[after].x))
        .collect()
}

/// The positions in the other direction's track, within `bounds`, between which its first packet after the
/// jump lies.
pub(crate) fn other_places(
    tracks: &Tracks,
    moved: &Move,
    of_second: bool,
    bounds: Range<usize>,
) -> Range<usize> {
    let track = &tracks.by_direction[moved.direction];
    let others = &tracks.by_direction[1 - moved.direction];
    let [before, after] = [moved.at - 1, moved.at];
    let clamp = |range: Range<usize>| {
        range.start.clamp(bounds.start, bounds.end)..range.end.clamp(bounds.start, bounds.end)
    };
    let by_order =
        others.position(track.index[before] as usize)..others.position(track.index[after] as usize);
    if !of_second {
        return clamp(by_order);
    }
    // the step's time on the clock before it was set: not before the one packet, not after the other
    let first_ns = second_ns(&track.points[before], moved.direction);
    let last_ns = second_ns(&track.points[after], moved.direction) - moved.by_ns;
    let window = by_order.start.saturating_sub(IN_TRANSIT)..by_order.end + IN_TRANSIT;
    split(
        others,
        1 - moved.direction,
        clamp(window),
        [first_ns, last_ns],
        moved.by_ns,
    )
}

/// The positions at which the fewest packets contradict a step by `by_ns` within `moment`: too late to be
/// stamped before it, or too early to be stamped afterwards.
fn split(
    track: &Track,
    direction: usize,
    window: Range<usize>,
    moment: [f64; 2],
    by_ns: f64,
) -> Range<usize> {
    let times: Vec<f64> = track.points[window.clone()]
        .iter()
        .map(|point| second_ns(point, direction))
        .collect();
    let is_late = |time: &&f64| **time > moment[1];
    let is_early = |time: &&f64| **time < moment[0] + by_ns;
    let mut against = times.iter().filter(is_early).count();
    let (mut least, mut best) = (against, 0..0);
    for (i, time) in times.iter().enumerate() {
        against += usize::from(is_late(&time));
        against -= usize::from(is_early(&time));
        if against < least {
            (least, best) = (against, i + 1..i + 1);
        } else if against == least && best.end == i {
            best.end = i + 1;
        }
    }
    // timestamps of a clock that was set back repeat: the step is where they decrease
    if let Some(fall) = (by_ns < 0.0)
        .then(|| deepest_fall(&times, &best, by_ns))
        .flatten()
    {
        best = fall..fall;
    }
    window.start + best.start..window.start + best.end
}

fn deepest_fall(times: &[f64], within: &Range<usize>, by_ns: f64) -> Option<usize> {
    let falls = (within.start.max(1)..=within.end)
        .filter(|&i| i < times.len())
        .map(|i| (i, times[i] - times[i - 1]));
    falls
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, by)| *by < by_ns / 2.0)
        .map(|(i, _)| i)
}
