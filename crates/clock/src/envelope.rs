//! A direction's lower envelope, window by window.
//!
//! Each window keeps the lower convex hull of its points: whatever the slope turns out to be, the window's
//! lowest point above a line of that slope is a corner of the hull, so that the samples are read only once.

use std::ops::Range;

use crate::track::{Point, Step, Track, Tracks, sign};

/// Windows for each direction and interval. More of them average the floor's scatter better; fewer are more
/// likely to contain a packet that met no queue. The band of `slope` leaves out those that do not.
const WINDOWS: usize = 512;
/// Packets that a window should contain at least, if there are enough for [`FEW_WINDOWS`].
const PACKETS_PER_WINDOW: usize = 8;
const FEW_WINDOWS: usize = 16;

/// Slices of equal time for each direction and interval, and packets taken from each: for floors, and for
/// sparse packets.
///
/// If a transfer ends in a burst and stragglers follow for long, windows with equal numbers of packets
/// describe the burst; slices of time describe the whole interval. The minimum of many packets is lower than
/// that of few, so the same number is taken from each slice.
const SLICES: [(usize, usize); 2] = [(256, 8), (1024, 1)];

/// The envelope of one direction over one interval.
#[derive(Debug)]
pub(crate) struct Group {
    pub interval: usize,
    pub direction: usize,
    /// From windows of equal numbers of packets.
    even: Windows,
    /// From slices of equal time, if they contain enough packets.
    timed: [Windows; 2],
}

/// The hulls of windows.
#[derive(Debug, Default)]
struct Windows {
    /// The hulls, one after the other.
    corners: Vec<Point>,
    /// The end of each window's corners.
    ends: Vec<usize>,
}

impl Group {
    fn new(track: &Track, from: usize, to: usize, interval: usize, direction: usize) -> Group {
        let points = &track.points[from..to];
        let few = points.len().min(FEW_WINDOWS);
        let windows = (points.len() / PACKETS_PER_WINDOW)
            .clamp(few, WINDOWS)
            .max(1);
        let mut even = Windows::default();
        for window in 0..windows {
            let span = points.len() * window / windows..points.len() * (window + 1) / windows;
            even.push(&points[span]);
        }
        Group {
            interval,
            direction,
            even,
            timed: SLICES.map(|(slices, packets)| sliced(points, slices, packets)),
        }
    }

    /// The lowest point of each window above a line of this drift (of the clocks' difference), as time and
    /// height.
    pub fn floors(&self, drift: f64) -> impl Iterator<Item = Point> + '_ {
        self.even.floors(sign(self.direction) * drift)
    }

    /// The same for slices of equal time: they show the slope, not the minimum.
    pub fn timed_floors(&self, drift: f64) -> [Vec<Point>; 2] {
        let slope = sign(self.direction) * drift;
        self.timed
            .each_ref()
            .map(|windows| windows.floors(slope).collect())
    }

    /// The drift of the line below all points that is nearest to them: the edge of the convex hull below
    /// their mean time (Moon, Skelly, Towsley 1999, by linear programming; the hull gives the same edge).
    pub fn hull_drift(&self) -> Option<f64> {
        let mut hull = Vec::new();
        append_hull(&mut hull, &self.even.corners);
        let mean = self.even.corners.iter().map(|point| point.x).sum::<f64>()
            / self.even.corners.len() as f64;
        let right = hull.partition_point(|point| point.x < mean).max(1);
        let (a, b) = (hull.get(right - 1)?, hull.get(right)?);
        let drift = sign(self.direction) * (b.z - a.z) / (b.x - a.x);
        drift.is_finite().then_some(drift)
    }
}

impl Windows {
    fn push(&mut self, points: &[Point]) {
        append_hull(&mut self.corners, points);
        self.ends.push(self.corners.len());
    }

    fn floors(&self, slope: f64) -> impl Iterator<Item = Point> + '_ {
        let mut start = 0;
        self.ends.iter().filter_map(move |&end| {
            let corners = &self.corners[start..end];
            start = end;
            Point::lowest(corners.iter().map(|point| point.leveled(slope)))
        })
    }
}

/// The same number of packets from each slice of time that contains as many.
fn sliced(points: &[Point], slices: usize, packets: usize) -> Windows {
    let mut windows = Windows::default();
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return windows;
    };
    let slice_ns = (last.x - first.x) / slices as f64;
    let number = |point: &Point| ((point.x - first.x) / slice_ns) as usize;
    // times of a clock that was set back may decrease: such a slice ends early
    for slice in points.chunk_by(|a, b| number(a) == number(b)) {
        if slice.len() >= packets {
            let taken = (0..packets).map(|i| slice[i * slice.len() / packets]);
            windows.push(&taken.collect::<Vec<_>>());
        }
    }
    windows
}

/// The envelopes of every interval and direction with samples.
pub(crate) fn groups(tracks: &Tracks, steps: &[Step]) -> Vec<Group> {
    let mut groups = Vec::new();
    for interval in 0..=steps.len() {
        for (direction, track) in tracks.by_direction.iter().enumerate() {
            let Range { start, end } = track.interval(steps, interval, direction);
            if start < end {
                groups.push(Group::new(track, start, end, interval, direction));
            }
        }
    }
    groups
}

/// Appends the lower convex hull of `points` to `corners` (Andrew's monotone chain).
fn append_hull(corners: &mut Vec<Point>, points: &[Point]) {
    let sorted = points.is_sorted_by(|a, b| a.x <= b.x);
    let mut copy = Vec::new();
    let points = if sorted {
        points
    } else {
        // a capture's packets may be slightly out of order, and hostile ones arbitrarily
        copy.extend_from_slice(points);
        copy.sort_by(|a: &Point, b| a.x.total_cmp(&b.x));
        &copy
    };
    let start = corners.len();
    for &point in points {
        if let Some(last) = corners[start..].last()
            && last.x == point.x
        {
            if last.z <= point.z {
                continue;
            }
            corners.pop();
        }
        while let [.., a, b] = corners[start..]
            && (b.z - a.z) * (point.x - b.x) >= (point.z - b.z) * (b.x - a.x)
        {
            corners.pop();
        }
        corners.push(point);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, z: f64) -> Point {
        Point { x, z }
    }

    #[test]
    fn hull_keeps_the_lower_corners_only() {
        let mut hull = Vec::new();
        append_hull(
            &mut hull,
            &[
                point(0.0, 0.0),
                point(1.0, 5.0),
                point(2.0, 1.0),
                point(3.0, 9.0),
                point(4.0, 3.0),
            ],
        );
        assert_eq!(
            hull,
            vec![point(0.0, 0.0), point(2.0, 1.0), point(4.0, 3.0)]
        );
    }

    #[test]
    fn hull_sorts_points_out_of_order_and_keeps_the_lower_of_two_at_one_time() {
        let mut hull = Vec::new();
        append_hull(
            &mut hull,
            &[
                point(2.0, 0.0),
                point(0.0, 3.0),
                point(0.0, 1.0),
                point(2.0, 4.0),
            ],
        );
        assert_eq!(hull, vec![point(0.0, 1.0), point(2.0, 0.0)]);
    }

    #[test]
    fn floor_of_a_window_is_lowest_above_the_line_not_above_the_axis() {
        let points = vec![point(0.0, 0.0), point(10.0, 4.0), point(20.0, 10.0)];
        let track = Track {
            points,
            index: vec![0, 1, 2],
        };
        let mut group = Group::new(&track, 0, 3, 0, 0);
        group.even.ends = vec![3];
        // three windows of one point each were merged into one: its corners are all of them
        assert_eq!(
            group.floors(0.5).collect::<Vec<_>>(),
            vec![point(10.0, -1.0)]
        );
        assert_eq!(group.floors(0.0).collect::<Vec<_>>(), vec![point(0.0, 0.0)]);
    }

    #[test]
    fn hull_drift_is_that_of_the_line_below_all_points() {
        let points: Vec<Point> = (0..100)
            .map(|i| point(f64::from(i), 0.25 * f64::from(i) + f64::from(i * 37 % 10)))
            .collect();
        let track = Track {
            index: (0..100).collect(),
            points,
        };
        let drift = Group::new(&track, 0, 100, 0, 0).hull_drift().unwrap();
        assert!((drift - 0.25).abs() < 1e-9, "{drift}");
        // in the other direction transit falls while the clocks' difference grows
        let drift = Group::new(&track, 0, 100, 0, 1).hull_drift().unwrap();
        assert!((drift + 0.25).abs() < 1e-9, "{drift}");
    }
}
