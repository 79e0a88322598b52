//! Where a clock was set: an NTP step, a virtual machine that slept.
//!
//! A step moves both directions' differences by the same amount between one packet and the next. Nothing
//! else does: a queue or a route moves the directions on its own, and a path that grows longer both ways
//! moves the differences *apart*. So a place is looked for where one direction's level jumps, and it is a
//! step where
//!
//! * the other direction jumps there by the same amount, within what the scatter on both sides leaves open;
//!   or
//! * what was possible before and what is possible after have nothing in common: a packet forward before the
//!   place and one backward after it contradict each other with any transit that is not negative (or the
//!   other way round).
//!
//! With one direction only, a route change and a step look the same. A jump to *less* than the smallest
//! transit seen before, from one packet to the next, is taken for a step: queues cannot do that. A jump to
//! more is what queues do, and a step only from [`ALONE_UPWARD_NS`] on, if transit never comes back.

use std::ops::Range;

use super::level::{Shift, median, shift};
use super::slope::Drift;
use super::track::{Point, Track, Tracks, sign};

/// A smaller step is not looked for, nanoseconds.
const LEAST_STEP_NS: f64 = 300e3;
/// A jump is this many times what the level moves within either side.
const JUMP_OVER_SCATTER: f64 = 3.0;
/// A step is this many times what its measurement leaves open.
const STEP_OVER_TOLERANCE: f64 = 3.0;
/// With one direction only, transit must jump up by this to count as a step, nanoseconds: no queue in use
/// holds a second of traffic from one packet to the next and never lets go of it.
const ALONE_UPWARD_NS: f64 = 1e9;
/// Packets in a block of the finest scale; each coarser one has this many of the finer blocks.
const BLOCK: usize = 8;
const SCALES: usize = 3;
/// Jumps that are looked at; a capture with more of them is not a clock that was set a few times.
const MOST_JUMPS: usize = 256;
/// Samples on each side of a place that are looked at to find it exactly.
const NEAR: usize = 24;
/// A packet of a sharp direction counts for at most so many of a blurred one where they differ on the place.
const MOST_WEIGHT: f64 = 1000.0;
/// So many packets may contradict what is possible by stamps too early before it counts.
const ODD_PACKETS: usize = 2;

/// A place where one direction's level jumps.
#[derive(Debug, Clone, Copy)]
struct Jump {
    /// The samples between which it lies.
    from: usize,
    to: usize,
    /// Its size over the scatter on both sides.
    clear: f64,
}

/// The samples at which a clock had been set, in order.
pub(super) fn find(tracks: &Tracks, drift: &Drift) -> Vec<usize> {
    let mut jumps: Vec<Jump> = tracks
        .by_direction
        .iter()
        .enumerate()
        .flat_map(|(i, track)| jumps(track, sign(i) * drift.rate))
        .collect();
    jumps.sort_by(|a, b| b.clear.total_cmp(&a.clear));
    jumps.truncate(MOST_JUMPS);
    // the clearest first: what is left between two steps is then measured without the steps in it
    let mut steps: Vec<usize> = Vec::new();
    for jump in jumps {
        let left = steps
            .iter()
            .copied()
            .filter(|&step| step <= jump.from)
            .max()
            .unwrap_or(0);
        let right = steps
            .iter()
            .copied()
            .filter(|&step| step >= jump.to)
            .min()
            .unwrap_or(tracks.samples);
        if steps.iter().any(|&step| step > jump.from && step < jump.to) {
            continue;
        }
        let coarse = place(tracks, jump.from..jump.to, left..right, drift.rate);
        // over a long region queues move on: once more, with the levels right beside the place
        let near = coarse.saturating_sub(NEAR)..coarse + NEAR;
        let at = place(tracks, near, left..right, drift.rate);
        if at > left && at < right && is_step(tracks, at, left, right, drift) {
            steps.push(at);
        }
    }
    steps.sort_unstable();
    steps
}

/// The jumps of one direction's level, at every scale.
fn jumps(track: &Track, slope: f64) -> Vec<Jump> {
    let mut found = Vec::new();
    let mut levels: Vec<f64> = track.points.iter().map(|p| p.z - slope * p.x).collect();
    let mut packets = 1;
    for _ in 0..SCALES {
        levels = levels.chunks_exact_mut(BLOCK).map(median).collect();
        packets *= BLOCK;
        let mut last: Option<Jump> = None;
        for middle in 2..levels.len().saturating_sub(2) {
            let clear = clearness(&levels, middle);
            if clear < JUMP_OVER_SCATTER {
                continue;
            }
            let from = track.index[(middle - 1) * packets] as usize;
            let to = track.index[(middle + 2) * packets - 1] as usize + 1;
            let jump = Jump { from, to, clear };
            match &mut last {
                // neighbours see the same jump: the clearest view of it counts
                Some(last) if last.to > from => {
                    if clear > last.clear {
                        *last = jump;
                    }
                }
                last => found.extend(last.replace(jump)),
            }
        }
        found.extend(last);
    }
    found
}

/// How clearly the level jumps within block `middle` or at one of its ends.
fn clearness(levels: &[f64], middle: usize) -> f64 {
    let before = &levels[middle.saturating_sub(3)..middle];
    let after = &levels[middle + 1..levels.len().min(middle + 4)];
    let range = |side: &[f64]| {
        let low = side.iter().copied().fold(f64::INFINITY, f64::min);
        let high = side.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (low, high)
    };
    let ((a_low, a_high), (b_low, b_high)) = (range(before), range(after));
    let jump = (a_low + a_high - b_low - b_high).abs() / 2.0;
    if jump < LEAST_STEP_NS / 2.0 {
        return 0.0;
    }
    jump / ((a_high - a_low).max(b_high - b_low) + LEAST_STEP_NS / 100.0)
}

/// The sample at which the jump happened: where both directions' packets split best between both levels.
fn place(tracks: &Tracks, region: Range<usize>, within: Range<usize>, rate: f64) -> usize {
    let (left, right) = (within.start, within.end);
    let (from, to) = (region.start.max(left), region.end.min(right));
    // how much nearer each packet is to the level before than to the one after, in scatters
    let mut votes: Vec<(usize, f64)> = Vec::new();
    for (direction, track) in tracks.by_direction.iter().enumerate() {
        let slope = sign(direction) * rate;
        let (first, last) = (track.position(from), track.position(to));
        let height = |points: &[Point]| {
            let mut heights: Vec<f64> = points.iter().map(|p| p.z - slope * p.x).collect();
            let level = median(&mut heights);
            let mut away: Vec<f64> = heights
                .iter()
                .map(|height| (height - level).abs())
                .collect();
            (level, median(&mut away))
        };
        let before = &track.points[track.position(left).max(first.saturating_sub(16))..first];
        let after = &track.points[last..track.position(right).min(last + 16)];
        if before.is_empty() || after.is_empty() {
            continue;
        }
        let ((a, a_scatter), (b, b_scatter)) = (height(before), height(after));
        let most = (a - b).abs();
        let scatter = a_scatter + b_scatter + 1e3;
        if most < 2.0 * scatter {
            continue;
        }
        for position in first..last {
            let point = track.points[position];
            let z = point.z - slope * point.x;
            let vote = ((z - a).abs().min(most) - (z - b).abs().min(most)) / most
                * (most / scatter).min(MOST_WEIGHT);
            votes.push((track.index[position] as usize, vote));
        }
    }
    votes.sort_by_key(|(sample, _)| *sample);
    // votes are positive for "after": the sum from the place on must be the largest
    let (mut sum, mut best, mut at) = (0.0, 0.0, to);
    for (sample, vote) in votes.into_iter().rev() {
        sum += vote;
        if sum > best {
            (best, at) = (sum, sample);
        }
    }
    at
}

fn is_step(tracks: &Tracks, at: usize, left: usize, right: usize, drift: &Drift) -> bool {
    let [forward, backward] = [0, 1].map(|direction| {
        shift(
            &tracks.by_direction[direction],
            direction,
            at,
            left,
            right,
            drift.rate,
        )
    });
    let drifted = |shift: &Shift| drift.error * shift.apart_ns;
    match (forward, backward) {
        (Some(forward), Some(backward)) => {
            let open = forward.tolerance_ns + backward.tolerance_ns;
            // the sharper direction says how large it is
            let sharper = if forward.tolerance_ns < backward.tolerance_ns {
                forward
            } else {
                backward
            };
            let size = sharper.by_ns.abs();
            let least = LEAST_STEP_NS + drifted(&forward).max(drifted(&backward));
            let agree = (forward.by_ns - backward.by_ns).abs() <= open + LEAST_STEP_NS / 3.0;
            let clear = agree && size >= STEP_OVER_TOLERANCE * open;
            size >= least && (clear || contradicts(tracks, at, left, right, drift))
        }
        (Some(shift), None) if is_silent(tracks, 1) => {
            is_step_alone(tracks, 0, at, left, right, drift, &shift)
        }
        (None, Some(shift)) if is_silent(tracks, 0) => {
            is_step_alone(tracks, 1, at, left, right, drift, &shift)
        }
        // the other direction is there, with too few packets here to tell its level
        _ => contradicts(tracks, at, left, right, drift),
    }
}

/// The direction has too few packets in all to bear witness against a step.
fn is_silent(tracks: &Tracks, direction: usize) -> bool {
    tracks.by_direction[direction].points.len() < 2 * BLOCK
}

/// No offset is possible both before and after.
fn contradicts(tracks: &Tracks, at: usize, left: usize, right: usize, drift: &Drift) -> bool {
    let before = [0, 1].map(|direction| {
        extreme(
            &tracks.by_direction[direction],
            direction,
            left,
            at,
            at,
            drift,
        )
    });
    let after = [0, 1].map(|direction| {
        extreme(
            &tracks.by_direction[direction],
            direction,
            at,
            right,
            at,
            drift,
        )
    });
    let ([Some(f0), Some(b0)], [Some(f1), Some(b1)]) = (before, after) else {
        return false;
    };
    // the transit that a packet forward and one backward share, negative where the difference of the clocks
    // had to be less than the one and more than the other
    f0 + b1 < -LEAST_STEP_NS || f1 + b0 < -LEAST_STEP_NS
}

/// The smallest transit among samples `from..to`, a few odd ones left out, as seen from sample `at`: what the
/// clocks may have drifted since is given to the benefit of the doubt.
fn extreme(
    track: &Track,
    direction: usize,
    from: usize,
    to: usize,
    at: usize,
    drift: &Drift,
) -> Option<f64> {
    let here = track.position(at).min(track.points.len().checked_sub(1)?);
    let here = track.points[here].x;
    let slope = sign(direction) * drift.rate;
    let mut lowest = [f64::INFINITY; ODD_PACKETS + 1];
    for point in &track.points[track.position(from)..track.position(to)] {
        let z = point.z - slope * point.x + drift.error * (point.x - here).abs();
        if z < lowest[ODD_PACKETS] {
            lowest[ODD_PACKETS] = z;
            lowest.sort_by(f64::total_cmp);
        }
    }
    lowest[ODD_PACKETS]
        .is_finite()
        .then_some(lowest[ODD_PACKETS])
}

fn is_step_alone(
    tracks: &Tracks,
    direction: usize,
    at: usize,
    left: usize,
    right: usize,
    drift: &Drift,
    shift: &Shift,
) -> bool {
    let track = &tracks.by_direction[direction];
    let least =
        LEAST_STEP_NS + drift.error * shift.apart_ns + STEP_OVER_TOLERANCE * shift.tolerance_ns;
    if shift.by_ns.abs() < least {
        return false;
    }
    let rises = sign(direction) * shift.by_ns > 0.0;
    let (low, high) = if rises {
        (left..at, at..right)
    } else {
        (at..right, left..at)
    };
    // all of the one side lies above the other's level
    let slope = sign(direction) * drift.rate;
    let mut heights: Vec<f64> = track.points[track.position(low.start)..track.position(low.end)]
        .iter()
        .map(|p| p.z - slope * p.x)
        .collect();
    let Some(floor) = extreme(track, direction, high.start, high.end, at, drift) else {
        return false;
    };
    let near = if rises {
        heights.len().saturating_sub(64)..heights.len()
    } else {
        0..heights.len().min(64)
    };
    let apart = floor - median(&mut heights[near]);
    let spread = 2.0 * drift.error * shift.apart_ns;
    if rises {
        apart - spread >= ALONE_UPWARD_NS
    } else {
        apart - spread >= 0.5 * shift.by_ns.abs()
    }
}
