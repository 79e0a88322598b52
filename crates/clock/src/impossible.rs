//! Packets that contradict the other direction: a round trip cannot be negative.
//!
//! Such packets were mismatched (see `mismatched`) if most packets around them do not contradict and the
//! contradictions are short-lived. After a clock was set, contradictions continue.

use crate::level::median;
use crate::slope::Drift;
use crate::steps::LEAST_STEP_NS;
use crate::track::{Point, Track, Tracks, sign};

/// The other direction's smallest transit is determined in this many parts, as a median of this many packets,
/// which a few mismatches do not affect.
const PARTS: usize = 64;
const TOGETHER: usize = 8;
/// Packets on each side of a contradicting one, most of which do not contradict.
const AROUND: usize = 32;
/// Contradictions are confined to one of this many parts of the time.
const SPELL: f64 = 16.0;

/// Removes impossible samples from the tracks, as far as the drift is known; returns true if there were any.
pub(crate) fn leave_out(tracks: &mut Tracks, drift: &Drift) -> bool {
    let [forward, backward] = &tracks.by_direction;
    let heights = [heights(forward, 0, drift), heights(backward, 1, drift)];
    let found = [0, 1].map(|own| find(&heights[own], &heights[1 - own], drift));
    for (track, impossible) in tracks.by_direction.iter_mut().zip(&found) {
        track.leave_out(impossible);
    }
    found.iter().flatten().any(|&impossible| impossible)
}

/// A track without the drift.
fn heights(track: &Track, direction: usize, drift: &Drift) -> Vec<Point> {
    let slope = sign(direction) * drift.rate;
    track
        .points
        .iter()
        .map(|point| point.leveled(slope))
        .collect()
}

fn find(own: &[Point], others: &[Point], drift: &Drift) -> Vec<bool> {
    let floors: Vec<Point> = others
        .chunks(others.len().div_ceil(PARTS).max(TOGETHER))
        .filter_map(lowest_together)
        .collect();
    let lowest = floors
        .iter()
        .map(|floor| floor.z)
        .fold(f64::INFINITY, f64::min);
    let contradicts = |point: &Point| {
        // most do not contradict even the lowest
        point.z + lowest < -LEAST_STEP_NS
            && floors.iter().any(|floor| {
                point.z + floor.z < -LEAST_STEP_NS - drift.error * (point.x - floor.x).abs()
            })
    };
    let contradicting: Vec<bool> = own.iter().map(contradicts).collect();
    let spell_ns = span(
        own.iter()
            .zip(&contradicting)
            .filter(|(_, is)| **is)
            .map(|(point, _)| point),
    );
    if spell_ns > span(own.iter()) / SPELL {
        return vec![false; own.len()];
    }
    let most_around_do_not = |place: usize| {
        let near = &contradicting[place.saturating_sub(AROUND)..own.len().min(place + AROUND + 1)];
        2 * near.iter().filter(|&&is| is).count() < near.len()
    };
    (0..own.len())
        .map(|place| contradicting[place] && most_around_do_not(place))
        .collect()
}

/// The smallest median of packets that arrived together, and its time.
fn lowest_together(points: &[Point]) -> Option<Point> {
    let medians = points.chunks_exact(TOGETHER).map(|together| Point {
        x: together[0].x,
        z: median(&mut together.iter().map(|point| point.z).collect::<Vec<_>>()),
    });
    Point::lowest(medians)
}

/// Time from the first to the last of some points, nanoseconds.
fn span<'a>(points: impl Iterator<Item = &'a Point>) -> f64 {
    let ends = points.fold(
        (f64::INFINITY, f64::NEG_INFINITY),
        |(first, last), point| (first.min(point.x), last.max(point.x)),
    );
    (ends.1 - ends.0).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet every millisecond, 5 ms in transit, some of them `shorter` by 20 ms.
    fn track(shorter: impl Fn(usize) -> bool) -> Track {
        let point = |i: usize| Point {
            x: i as f64 * 1e6,
            z: if shorter(i) { -15e6 } else { 5e6 },
        };
        Track {
            points: (0..4000).map(point).collect(),
            index: (0..4000).collect(),
        }
    }

    /// Number of packets left of both directions.
    fn left(shorter: impl Fn(usize) -> bool) -> [usize; 2] {
        let mut tracks = Tracks {
            by_direction: [track(|_| false), track(shorter)],
            origin_ns: 0,
            base_ns: 0,
            resolution_ns: 1.0,
            samples: 4000,
        };
        leave_out(&mut tracks, &Drift::unmeasured());
        tracks.by_direction.map(|track| track.points.len())
    }

    #[test]
    fn a_short_spell_of_impossible_packets_is_left_out() {
        assert_eq!(left(|i| (3000..3020).contains(&i)), [4000, 3980]);
        assert_eq!(
            left(|i| (3000..3100).contains(&i) && i % 3 == 0),
            [4000, 3966]
        );
    }

    #[test]
    fn lasting_contradictions_are_left_to_steps() {
        assert_eq!(left(|i| i >= 3900), [4000, 4000]);
        assert_eq!(left(|i| i >= 2000 && i % 3 == 0), [4000, 4000]);
    }
}
