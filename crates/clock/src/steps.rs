//! Steps of a clock: an NTP step, a virtual machine that slept.
//!
//! A step changes both directions' differences by the same amount between one packet and the next. Nothing
//! else does: a queue or a route affects one direction, and a path that becomes longer in both moves the
//! differences *apart*. So the search is for a position at which one direction's level jumps; it is a step if
//!
//! * the other direction jumps there by the same amount, within the uncertainty given by the scatter on both
//!   sides; or
//! * the offsets possible before and after have nothing in common: a packet forward before the position and
//!   one backward after it contradict each other with any transit that is not negative (or vice versa).
//!
//! With one direction only, a route change and a step look the same. A jump to *less* than the smallest
//! earlier transit, from one packet to the next, counts as a step: queues cannot do that. A jump to more is
//! typical of queues. It is a step if transit never returns although the sender was silent, repeatedly, for a
//! good part of the jump: a queue shrinks during a silence by its length. Without such silences it is one
//! from [`ALONE_UPWARD_NS`] on.
//!
//! A step happens at one time at one point. Packets in transit then had passed the other point before, so
//! that each direction's packets split at a position of their own (see `moment`).

use std::ops::Range;

use crate::level::{Shift, heights, level_and_scatter, median, shift};
use crate::moment::{self, Move};
use crate::slope::Drift;
use crate::track::{Point, Step, Track, Tracks, sign};

/// Smaller steps are not searched for, nanoseconds.
pub(crate) const LEAST_STEP_NS: f64 = 300e3;
/// A jump is this many times the movement of the level within either side.
const JUMP_OVER_SCATTER: f64 = 3.0;
/// A step is this many times its measurement uncertainty.
const STEP_OVER_TOLERANCE: f64 = 3.0;
/// Both directions move by the same amount within this share of it, if their scatter is smaller: a queue that
/// happens to match a route change in the other direction so closely is rare.
const DIRECTIONS_AGREE: f64 = 0.1;
/// The floors of both directions agree on a step within this share of it, and within this, nanoseconds.
const FLOORS_AGREE: f64 = 0.05;
const FLOORS_AGREE_NS: f64 = 50e3;
/// With one direction only, transit must jump up by this to count as a step, nanoseconds: no queue in use
/// fills with a second of traffic from one packet to the next and never drains again.
const ALONE_UPWARD_NS: f64 = 1e9;
/// ... or outlast this many silences, each longer than this share of the jump, and not shrink by half of
/// that: other traffic, which would have to fill the queue in each of them, varies.
const SILENCES: usize = 8;
const SILENT_SHARE: f64 = 0.25;
/// Packets in a block of the finest scale; each coarser one consists of this many finer blocks.
const BLOCK: usize = 8;
const SCALES: usize = 3;
/// Most jumps evaluated; a capture with more of them does not show a clock that was set a few times.
const MOST_JUMPS: usize = 256;
/// Packets of a direction on each side of a position that are used to locate it exactly.
const NEAR: usize = 16;
/// A packet of a sharp direction counts at most this many times one of a noisy direction if they disagree on
/// the position.
const MOST_WEIGHT: f64 = 1000.0;
/// Packets that may contradict because of early timestamps before it counts.
const CONTRADICTING_PACKETS: usize = 2;

/// A position at which one direction's level jumps.
#[derive(Debug, Clone, Copy)]
struct Jump {
    direction: usize,
    /// The samples between which it lies.
    from: usize,
    to: usize,
    /// Its size relative to the scatter on both sides.
    clear: f64,
}

/// The samples of each direction between two steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Between {
    pub left: [usize; 2],
    pub right: [usize; 2],
}

/// The steps, in order.
pub(crate) fn find(tracks: &Tracks, drift: &Drift) -> Vec<Step> {
    let mut found: Vec<Jump> = (0..2)
        .flat_map(|direction| jumps(tracks, direction, drift))
        .collect();
    found.sort_by(|a, b| b.clear.total_cmp(&a.clear));
    found.truncate(MOST_JUMPS);
    // the clearest first: the parts between two steps are then measured without the steps in them
    let mut steps: Vec<Step> = Vec::new();
    for jump in found {
        let inside =
            |step: &Step| step.at[jump.direction] > jump.from && step.at[jump.direction] < jump.to;
        if steps.iter().any(inside) {
            continue;
        }
        let between = around(&steps, &jump, tracks.samples);
        if let Some(step) = step_at(tracks, &jump, &between, drift)
            && is_step(tracks, &step, &between, drift)
        {
            steps.push(step);
            steps.sort_unstable_by_key(|step| step.at);
        }
    }
    steps
}

/// The interval between the steps on either side of a jump.
fn around(steps: &[Step], jump: &Jump, samples: usize) -> Between {
    let before = steps
        .iter()
        .rfind(|step| step.at[jump.direction] <= jump.from);
    let after = steps.iter().find(|step| step.at[jump.direction] >= jump.to);
    Between {
        left: before.map_or([0; 2], |step| step.at),
        right: after.map_or([samples; 2], |step| step.at),
    }
}

/// The step that the jump would be, timed by the direction with the sharper level.
fn step_at(tracks: &Tracks, jump: &Jump, between: &Between, drift: &Drift) -> Option<Step> {
    let track = &tracks.by_direction[jump.direction];
    let region = track.position(jump.from)..track.position(jump.to);
    let step = step_in(tracks, jump.direction, region, between, drift)?;
    let [own, others] = [jump.direction, 1 - jump.direction].map(|direction| {
        let tolerance =
            shift_at(tracks, direction, &step, between, drift).map(|shift| shift.tolerance_ns);
        tolerance.unwrap_or(f64::INFINITY)
    });
    if own <= others {
        return Some(step);
    }
    let other = 1 - jump.direction;
    let at = tracks.by_direction[other].position(step.at[other]);
    let region = at.saturating_sub(NEAR)..at + NEAR;
    step_in(tracks, other, region, between, drift).or(Some(step))
}

/// The step at which a direction's level jumps in a region of its track.
fn step_in(
    tracks: &Tracks,
    direction: usize,
    region: Range<usize>,
    between: &Between,
    drift: &Drift,
) -> Option<Step> {
    let track = &tracks.by_direction[direction];
    let slope = sign(direction) * drift.rate;
    let within = track.position(between.left[direction])..track.position(between.right[direction]);
    let coarse = place(track, slope, region, within.clone())?;
    // over a long region queues change: repeated with the levels right beside the position
    let near = coarse.saturating_sub(NEAR)..coarse + NEAR;
    let at = place(track, slope, near, within.clone())?;
    if at <= within.start || at >= within.end {
        return None;
    }
    let level = |points: &[Point]| median(&mut heights(points, slope));
    let before = level(&track.points[within.start.max(at.saturating_sub(BLOCK))..at]);
    let after = level(&track.points[at..within.end.min(at + BLOCK)]);
    let moved = Move {
        direction,
        at,
        by_ns: sign(direction) * (after - before),
    };
    Some(both_sides(tracks, &moved, between, drift))
}

/// The step with its position in the other direction as well.
fn both_sides(tracks: &Tracks, moved: &Move, between: &Between, drift: &Drift) -> Step {
    let other = 1 - moved.direction;
    let others = &tracks.by_direction[other];
    let bounds = others.position(between.left[other])..others.position(between.right[other]);
    let of_second = moment::is_of_second(tracks, moved);
    let range = moment::other_places(tracks, moved, of_second, bounds.clone());
    let middle = range.start + (range.end - range.start) / 2;
    let there = place(others, sign(other) * drift.rate, range, bounds).unwrap_or(middle);
    let sample = |direction: usize, position: usize| {
        let index = tracks.by_direction[direction].index.get(position);
        index.map_or(tracks.samples, |&index| index as usize)
    };
    let mut at = [sample(moved.direction, moved.at); 2];
    at[other] = sample(other, there);
    Step { at, of_second }
}

/// Shift of one direction's level at the step.
fn shift_at(
    tracks: &Tracks,
    direction: usize,
    step: &Step,
    between: &Between,
    drift: &Drift,
) -> Option<Shift> {
    let track = &tracks.by_direction[direction];
    let (left, right) = (between.left[direction], between.right[direction]);
    shift(
        track,
        direction,
        step.at[direction],
        left,
        right,
        drift.rate,
    )
}

/// The jumps of one direction's level, at every scale.
fn jumps(tracks: &Tracks, direction: usize, drift: &Drift) -> Vec<Jump> {
    let track = &tracks.by_direction[direction];
    let slope = sign(direction) * drift.rate;
    let mut found = Vec::new();
    let mut levels = heights(&track.points, slope);
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
            let jump = Jump {
                direction,
                from,
                to,
                clear,
            };
            match &mut last {
                // neighbours include the same jump: the clearest one counts
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

/// Clearness of a jump of the level within block `middle` or at one of its ends.
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

/// The position in a track, within `region`, that best splits its packets between the levels on both sides.
/// `None` if these levels do not differ.
fn place(track: &Track, slope: f64, region: Range<usize>, within: Range<usize>) -> Option<usize> {
    let (first, last) = (region.start.max(within.start), region.end.min(within.end));
    if first > last {
        return None;
    }
    let height = |points: &[Point]| level_and_scatter(&mut heights(points, slope));
    let before = &track.points[within.start.max(first.saturating_sub(16))..first];
    let after = &track.points[last..within.end.min(last + 16)];
    if before.is_empty() || after.is_empty() {
        return None;
    }
    let ((a, a_scatter), (b, b_scatter)) = (height(before), height(after));
    let most = (a - b).abs();
    let scatter = a_scatter + b_scatter + 1e3;
    if most < 2.0 * scatter {
        return None;
    }
    // by how many scatters each packet is nearer to the level before than to the one after: positive for
    // "after", and the sum from the position on must be the largest
    let (mut sum, mut best, mut at) = (0.0, 0.0, last);
    for position in (first..last).rev() {
        let point = track.points[position];
        let z = point.above(slope);
        sum += ((z - a).abs().min(most) - (z - b).abs().min(most)) / most
            * (most / scatter).min(MOST_WEIGHT);
        if sum > best {
            (best, at) = (sum, position);
        }
    }
    Some(at)
}

fn is_step(tracks: &Tracks, step: &Step, between: &Between, drift: &Drift) -> bool {
    let [forward, backward] =
        [0, 1].map(|direction| shift_at(tracks, direction, step, between, drift));
    let drifted = |shift: &Shift| drift.error * shift.apart_ns;
    match (forward, backward) {
        (Some(forward), Some(backward)) => {
            let open = forward.tolerance_ns + backward.tolerance_ns;
            // the sharper direction gives the size
            let sharper = if forward.tolerance_ns < backward.tolerance_ns {
                forward
            } else {
                backward
            };
            let size = sharper.by_ns.abs();
            let least = LEAST_STEP_NS + drifted(&forward).max(drifted(&backward));
            let apart = (forward.by_ns - backward.by_ns).abs();
            let agree = apart <= (open + LEAST_STEP_NS / 3.0).max(DIRECTIONS_AGREE * size);
            let is_clear = agree && size >= STEP_OVER_TOLERANCE * open;
            let is_borne_out = || {
                agree
                    && size >= STEP_OVER_TOLERANCE * sharper.tolerance_ns
                    && floors_move(tracks, step, between, drift, sharper.by_ns)
            };
            size >= least
                && (is_clear || is_borne_out() || contradicts(tracks, step, between, drift))
        }
        (Some(shift), None) if is_silent(tracks, 1) => {
            is_step_alone(tracks, 0, step, between, drift, &shift)
        }
        (None, Some(shift)) if is_silent(tracks, 0) => {
            is_step_alone(tracks, 1, step, between, drift, &shift)
        }
        // the other direction exists, with too few packets here to give its level
        _ => contradicts(tracks, step, between, drift),
    }
}

/// True if the direction has too few packets in total to contradict a step.
fn is_silent(tracks: &Tracks, direction: usize) -> bool {
    tracks.by_direction[direction].points.len() < 2 * BLOCK
}

/// The smallest transits of both directions before and after the step.
fn extremes(
    tracks: &Tracks,
    step: &Step,
    between: &Between,
    drift: &Drift,
) -> Option<[[f64; 2]; 2]> {
    let mut lowest = [[0.0; 2]; 2];
    for (direction, track) in tracks.by_direction.iter().enumerate() {
        let at = step.at[direction];
        let here = track.position(at).min(track.points.len().checked_sub(1)?);
        let here_ns = track.points[here].x;
        let sides = [between.left[direction]..at, at..between.right[direction]];
        for (side, samples) in sides.into_iter().enumerate() {
            lowest[side][direction] = extreme(track, direction, samples, here_ns, drift)?;
        }
    }
    Some(lowest)
}

/// True if no offset is possible both before and after.
fn contradicts(tracks: &Tracks, step: &Step, between: &Between, drift: &Drift) -> bool {
    let Some([before, after]) = extremes(tracks, step, between, drift) else {
        return false;
    };
    // the transit that a packet forward and one backward share; negative if the difference of the clocks had
    // to be less than the one and more than the other
    before[0] + after[1] < -LEAST_STEP_NS || after[0] + before[1] < -LEAST_STEP_NS
}

/// True if the smallest transits of both directions, over everything before and after, moved by `by_ns` like
/// the clocks: queues in one direction or a longer route would not move those of the other.
fn floors_move(tracks: &Tracks, step: &Step, between: &Between, drift: &Drift, by_ns: f64) -> bool {
    let Some([before, after]) = extremes(tracks, step, between, drift) else {
        return false;
    };
    let open = FLOORS_AGREE_NS.max(FLOORS_AGREE * by_ns.abs());
    (0..2).all(|direction| {
        let moved = sign(direction) * (after[direction] - before[direction]);
        (moved - by_ns).abs() <= open
    })
}

/// The smallest transit among `samples` without a few outliers, as seen from `here_ns`: the possible drift
/// since then is subtracted.
fn extreme(
    track: &Track,
    direction: usize,
    samples: Range<usize>,
    here_ns: f64,
    drift: &Drift,
) -> Option<f64> {
    let slope = sign(direction) * drift.rate;
    let mut lowest = [f64::INFINITY; CONTRADICTING_PACKETS + 1];
    for point in &track.points[track.position(samples.start)..track.position(samples.end)] {
        let z = point.above(slope) + drift.error * (point.x - here_ns).abs();
        if z < lowest[CONTRADICTING_PACKETS] {
            lowest[CONTRADICTING_PACKETS] = z;
            lowest.sort_by(f64::total_cmp);
        }
    }
    lowest[CONTRADICTING_PACKETS]
        .is_finite()
        .then_some(lowest[CONTRADICTING_PACKETS])
}

/// True if the only captured direction shows a step.
fn is_step_alone(
    tracks: &Tracks,
    direction: usize,
    step: &Step,
    between: &Between,
    drift: &Drift,
    shift: &Shift,
) -> bool {
    let track = &tracks.by_direction[direction];
    let at = step.at[direction];
    let (left, right) = (between.left[direction], between.right[direction]);
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
    let slope = sign(direction) * drift.rate;
    let heights = |samples: &Range<usize>| -> Vec<f64> {
        track.points[track.position(samples.start)..track.position(samples.end)]
            .iter()
            .map(|p| p.above(slope))
            .collect()
    };
    let here = track.position(at).min(track.points.len() - 1);
    let Some(floor) = extreme(track, direction, high.clone(), track.points[here].x, drift) else {
        return false;
    };
    // all of the one side lies above the other's level
    let mut low = heights(&low);
    let near = if rises {
        low.len().saturating_sub(64)..low.len()
    } else {
        0..low.len().min(64)
    };
    let apart = floor - median(&mut low[near]) - 2.0 * drift.error * shift.apart_ns;
    if rises {
        let after = &track.points[track.position(high.start)..track.position(high.end)];
        let by_ns = shift.by_ns.abs();
        let is_silence = |two: &&[Point]| two[1].x - two[0].x > SILENT_SHARE * by_ns;
        let outlasts = apart >= (1.0 - SILENT_SHARE / 2.0) * by_ns
            && after.windows(2).filter(is_silence).count() >= SILENCES;
        return outlasts || apart >= ALONE_UPWARD_NS;
    }
    // a queue may have emptied during a pause, if there was one: then transit had been moving before
    let mut high = heights(&high);
    let queue = median(&mut high) - floor;
    apart >= 0.5 * shift.by_ns.abs() && apart >= JUMP_OVER_SCATTER * queue
}
