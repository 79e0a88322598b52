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

/// Scores of up to [`LANES`] points; `None` where the score is certainly below a bound.
pub(super) type Scores = [Option<f64>; LANES];

/// The best of `points`, if it is better than `best`.
pub(super) fn best_of(
    points: &[RateAndLimit],
    best: Point,
    score: &mut impl FnMut(&[RateAndLimit], f64) -> Scores,
) -> Option<Point> {
    let mut found: Option<Point> = None;
    for together in points.chunks(LANES) {
        let known = found.map_or(best.score, |found| found.score);
        for (&(x, y), score) in together.iter().zip(score(together, known)) {
            if let Some(score) =
                score.filter(|score| *score > found.map_or(best.score, |found| found.score))
            {
                found = Some(Point { x, y, score });
            }
        }
    }
    found
}

/// Pattern search (Hooke and Jeeves 1961) in the logarithms of both parameters: looks in eight directions at once,
/// goes on in the best one with growing strides while that pays, and shortens the steps when nothing is better.
///
/// Stops after looking `looks` times.
pub(super) fn climb(
    start: Point,
    (mut step_x, mut step_y): (f64, f64),
    smallest_step_x: f64,
    mut looks: u32,
    mut score: impl FnMut(&[RateAndLimit], f64) -> Scores,
) -> Point {
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
    let mut best = start;
    while step_x > smallest_step_x && looks > 0 {
        looks -= 1;
        let around =
            DIRECTIONS.map(|(dx, dy)| (best.x * (dx * step_x).exp(), best.y * (dy * step_y).exp()));
        let Some(better) = best_of(&around, best, &mut score) else {
            step_x *= 0.4;
            step_y *= 0.4;
            continue;
        };
        let (toward_x, toward_y) = ((better.x / best.x).ln(), (better.y / best.y).ln());
        best = better;
        while looks > 0 {
            looks -= 1;
            let ahead = STRIDES.map(|stride| {
                (
                    best.x * (toward_x * stride).exp(),
                    best.y * (toward_y * stride).exp(),
                )
            });
            match best_of(&ahead, best, &mut score) {
                Some(further) => best = further,
                None => break,
            }
        }
    }
    best
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
        let top = climb(start, (0.1, 0.2), 1e-6, 100, score);
        assert!(
            (top.x / 7.0 - 1.0).abs() < 1e-3 && (top.y / 300.0 - 1.0).abs() < 1e-2,
            "{top:?}"
        );
    }
}
