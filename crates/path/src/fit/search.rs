//! Finding the best of a function of two positive parameters.

use super::lanes::LANES;
use super::rows::RateAndLimit;

/// A point and its score; larger is better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub x: f64,
    pub y: f64,
    pub score: f64,
}

impl Point {
    /// A point with its score.
    pub fn scored(
        (x, y): RateAndLimit,
        score: impl FnOnce(&[RateAndLimit], f64) -> Scores,
    ) -> Self {
        let score = score(&[(x, y)], f64::MIN)[0].unwrap_or(f64::MIN);
        Self { x, y, score }
    }

    /// The better of two, the first if they are equally good.
    pub fn better(self, other: Self) -> Self {
        if other.score > self.score {
            other
        } else {
            self
        }
    }
}

/// Number of points that are scored together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// One register of them: if many rows are near a limit, each further register takes time.
    One,
    /// As many as there are [`LANES`]: if most rows are far from it, a second register costs almost nothing.
    All,
}

impl Width {
    fn points(self) -> usize {
        match self {
            Width::One => LANES / 2,
            Width::All => LANES,
        }
    }
}

/// Scores of up to [`LANES`] points; `None` if the score is certainly below a bound.
pub(super) type Scores = [Option<f64>; LANES];

/// The best of `points`, if it is better than `best`.
pub(super) fn best_of(
    points: &[RateAndLimit],
    best: Point,
    width: Width,
    score: &mut impl FnMut(&[RateAndLimit], f64) -> Scores,
) -> Option<Point> {
    points.chunks(width.points()).fold(None, |found, together| {
        let known = found.unwrap_or(best);
        best_scored(together, &score(together, known.score), known).or(found)
    })
}

/// The best of some points with scores, if it is better than `best`.
fn best_scored(points: &[RateAndLimit], scores: &[Option<f64>], best: Point) -> Option<Point> {
    let mut found: Option<Point> = None;
    for (&(x, y), score) in points.iter().zip(scores) {
        let known = found.map_or(best.score, |found| found.score);
        if let Some(score) = score.filter(|score| *score > known) {
            found = Some(Point { x, y, score });
        }
    }
    found
}

const DIRECTIONS: [(f64, f64); 8] = [
    (1.0, 0.0),
    (-1.0, 0.0),
    (0.0, 1.0),
    (0.0, -1.0),
    (1.0, 1.0),
    (-1.0, -1.0),
    (1.0, -1.0),
    (-1.0, 1.0),
];
const STRIDES: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
/// Factor by which steps shrink if nothing is better.
const SHORTER: f64 = 0.4;

/// Pattern search (Hooke and Jeeves 1961) in the logarithms of both parameters: evaluates eight directions at
/// once, continues in the best one with growing strides while that pays, and shortens the steps if nothing is
/// better.
///
/// Stops after `looks` iterations. With [`Width::All`] the points that the next iteration needs if this one
/// finds nothing are scored with its own.
pub(super) fn climb(
    start: Point,
    (mut step_x, mut step_y): (f64, f64),
    smallest_step_x: f64,
    mut looks: u32,
    width: Width,
    mut score: impl FnMut(&[RateAndLimit], f64) -> Scores,
) -> Point {
    let mut best = start;
    let looks_ahead = width == Width::All;
    let mut looked_ahead = None;
    while step_x > smallest_step_x && looks > 0 {
        looks -= 1;
        let found = looked_ahead.take().unwrap_or_else(|| {
            let (shorter_x, shorter_y) = (step_x * SHORTER, step_y * SHORTER);
            let goes_on = looks_ahead && shorter_x > smallest_step_x && looks > 0;
            let next = goes_on.then(|| around(best, shorter_x, shorter_y));
            let [found, next] = look(&around(best, step_x, step_y), next, best, &mut score);
            looked_ahead = goes_on.then_some(next);
            found
        });
        let Some(better) = found else {
            (step_x, step_y) = (step_x * SHORTER, step_y * SHORTER);
            continue;
        };
        let (toward_x, toward_y) = ((better.x / best.x).ln(), (better.y / best.y).ln());
        best = better;
        looked_ahead = None;
        while looks > 0 {
            looks -= 1;
            let ahead = STRIDES.map(|stride| {
                (
                    best.x * (toward_x * stride).exp(),
                    best.y * (toward_y * stride).exp(),
                )
            });
            let next = (looks_ahead && looks > 0).then(|| around(best, step_x, step_y));
            match look(&ahead, next, best, &mut score) {
                [Some(further), _] => best = further,
                [None, found] => {
                    looked_ahead = next.map(|_| found);
                    break;
                }
            }
        }
    }
    best
}

/// The eight points around one.
fn around(best: Point, step_x: f64, step_y: f64) -> [RateAndLimit; DIRECTIONS.len()] {
    DIRECTIONS.map(|(dx, dy)| (best.x * (dx * step_x).exp(), best.y * (dy * step_y).exp()))
}

/// The best of some points, and of those of the next iteration, if they are better than `best`.
fn look(
    points: &[RateAndLimit],
    next: Option<[RateAndLimit; DIRECTIONS.len()]>,
    best: Point,
    score: &mut impl FnMut(&[RateAndLimit], f64) -> Scores,
) -> [Option<Point>; 2] {
    let mut together = [(0.0, 0.0); LANES];
    let own = points.len();
    let all = own + next.map_or(0, |next| next.len());
    together[..own].copy_from_slice(points);
    together[own..all].copy_from_slice(next.as_ref().map_or(&[], |next| &next[..]));
    let scores = score(&together[..all], best.score);
    [0..own, own..all].map(|part| best_scored(&together[part.clone()], &scores[part], best))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_of_a_tilted_ridge_is_found() {
        let height = |&(x, y): &RateAndLimit| {
            let (a, b) = ((x / 7.0).ln(), (y / 300.0).ln());
            -(a * a) * 100.0 - (b - 2.0 * a).powi(2)
        };
        let score = |points: &[RateAndLimit], _: f64| {
            let mut scores = [None; LANES];
            scores
                .iter_mut()
                .zip(points)
                .for_each(|(score, point)| *score = Some(height(point)));
            scores
        };
        let start = Point {
            x: 5.0,
            y: 900.0,
            score: height(&(5.0, 900.0)),
        };
        let top = climb(start, (0.1, 0.2), 1e-6, 100, Width::One, score);
        assert!(
            (top.x / 7.0 - 1.0).abs() < 1e-3 && (top.y / 300.0 - 1.0).abs() < 1e-2,
            "{top:?}"
        );
        assert_eq!(climb(start, (0.1, 0.2), 1e-6, 100, Width::All, score), top);
    }
}
