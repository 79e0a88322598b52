//! Finding the best of a function of two positive parameters.

/// A point and its score; larger is better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub x: f64,
    pub y: f64,
    pub score: f64,
}

/// Pattern search (Hooke and Jeeves 1961) in the logarithms of both parameters: tries both directions of each axis
/// and of the diagonals, moves while it gains, and halves the steps when it does not.
///
/// Stops after `budget` evaluations. `score(x, y, below)` may return `None` when the score is certainly below `below`.
pub(super) fn climb(
    start: Point,
    (mut step_x, mut step_y): (f64, f64),
    smallest_step_x: f64,
    mut budget: i32,
    mut score: impl FnMut(f64, f64, f64) -> Option<f64>,
) -> Point {
    const DIRECTIONS: [(f64, f64); 6] = [
        (1.0, 0.0),
        (-1.0, 0.0),
        (0.0, 1.0),
        (0.0, -1.0),
        (1.0, 1.0),
        (-1.0, -1.0),
    ];
    let mut best = start;
    while step_x > smallest_step_x && budget > 0 {
        let mut moved = false;
        for (dx, dy) in DIRECTIONS {
            // keep going in a direction that pays, with growing strides
            let mut stride = 1.0;
            loop {
                let x = best.x * (dx * step_x * stride).exp();
                let y = best.y * (dy * step_y * stride).exp();
                budget -= 1;
                match score(x, y, best.score) {
                    Some(found) if found > best.score => {
                        best = Point { x, y, score: found };
                        moved = true;
                        stride *= 2.0;
                    }
                    _ => break,
                }
            }
        }
        if !moved {
            step_x *= 0.4;
            step_y *= 0.4;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_of_a_tilted_ridge_is_found() {
        let score = |x: f64, y: f64, _: f64| {
            let (a, b) = ((x / 7.0).ln(), (y / 300.0).ln());
            Some(-(a * a) * 100.0 - (b - 2.0 * a).powi(2))
        };
        let start = Point {
            x: 5.0,
            y: 900.0,
            score: score(5.0, 900.0, 0.0).unwrap(),
        };
        let top = climb(start, (0.1, 0.2), 1e-6, 240, score);
        assert!(
            (top.x / 7.0 - 1.0).abs() < 1e-3 && (top.y / 300.0 - 1.0).abs() < 1e-2,
            "{top:?}"
        );
    }
}
