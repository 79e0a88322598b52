//! Intervals of a fitted rate and limit.

use super::lanes::{follow, follow_many};
use super::rows::RateAndLimit;
use super::rows::Rows;
use super::search::Point;
use super::virtual_queue::{Agreement, Start};

/// A value and the bounds of its 95 % interval; `None` is an open end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl Interval {
    /// Its value, with bounds that include those of another one.
    pub fn holding(self, other: Self) -> Self {
        Self {
            value: self.value,
            low: self.low.zip(other.low).map(|(a, b)| a.min(b)),
            high: self.high.zip(other.high).map(|(a, b)| a.max(b)),
        }
    }
}

/// Corrections in excess of those of the best value that refute a value, in packets: half the 95 % quantile
/// of chi-squared with two degrees of freedom, with corrections counted in nats (see [`Agreement::score`]).
const REFUTED_BY_PACKETS: f64 = 3.0;
/// ... and as a share of those of the best one: a model without jitter, token granularity and cross traffic
/// is reliable only to the extent that it explains the data.
const REFUTED_BY_SHARE: f64 = 0.1;
/// An interval that extends this far (a factor of e^2.5 = 12) has an open end.
const OPEN_END: f64 = 2.5;
/// Relative precision of an interval's end.
const EDGE_PRECISION: f64 = 2e-3;

/// The corrections around the best point. Profile likelihood: how far one parameter can move, with the other
/// at its best value, before more than the tolerated amount has to be corrected.
pub(super) struct Profile<'a> {
    rows: &'a Rows,
    best: Point,
    corrected: Agreement,
    tolerated_bytes: f64,
}

impl<'a> Profile<'a> {
    pub fn new(rows: &'a Rows, best: Point) -> Self {
        let corrected = follow(rows, (best.x, best.y), Start::Empty);
        let tolerated_bytes = corrected.corrected_bytes() * (1.0 + REFUTED_BY_SHARE)
            + REFUTED_BY_PACKETS * rows.packet_bytes;
        Self {
            rows,
            best,
            corrected,
            tolerated_bytes,
        }
    }

    /// The first of the candidates with no more than the tolerated corrections.
    fn tolerated(&self, candidates: &[RateAndLimit], start: Start) -> Option<usize> {
        follow_many(self.rows, candidates, start, self.tolerated_bytes)
            .iter()
            .position(Option::is_some)
    }

    /// Intervals of the rate (bytes/s) and of the limit (bytes).
    pub fn intervals(&self) -> (Interval, Interval) {
        let rate_edge = |direction: f64| {
            edge(direction, (self.best.x, self.best.y), |rate, limits| {
                self.tolerated(&limits.map(|limit| (rate, limit)), Start::Empty)
            })
        };
        // a bucket that never fills up within the trace may be larger than its contents at the start
        let limit_edge = |direction: f64, start: Start| {
            edge(direction, (self.best.y, self.best.x), |limit, rates| {
                self.tolerated(&rates.map(|rate| (rate, limit)), start)
            })
        };
        let duration_s = self.rows.duration_s.max(1e-9);
        let per_loss = self.corrected.corrected_bytes() / self.rows.lost.max(1) as f64;
        let rate = Interval {
            value: self.best.x,
            // removed bytes may not have passed, added ones may be cross traffic
            low: rate_edge(-1.0).map(|low| low - self.corrected.removed_bytes / duration_s),
            high: rate_edge(1.0).map(|high| high + self.corrected.added_bytes / duration_s),
        };
        let limit = Interval {
            value: self.best.y,
            low: limit_edge(-1.0, Start::Empty).map(|low| (low - per_loss).max(0.0)),
            high: limit_edge(1.0, Start::Unknown).map(|high| high + per_loss),
        };
        (
            Interval {
                low: rate.low.map(|low| low.max(0.0)),
                ..rate
            },
            limit,
        )
    }
}

/// Values of the other parameter that are tried with one.
const NEAR: usize = 8;

/// Walks from the best value of one parameter until no near value of the other is tolerated with it:
/// `tolerated` gets the value and a few of the other's, and returns the first tolerated one. `None` if there
/// is no end.
fn edge(
    direction: f64,
    (start, other): (f64, f64),
    tolerated: impl Fn(f64, [f64; NEAR]) -> Option<usize>,
) -> Option<f64> {
    const OFFSETS: [f64; NEAR] = [0.0, -1e-3, 1e-3, -8e-3, 8e-3, -6e-2, 6e-2, 0.2];
    let refit = |value: f64, around: f64| {
        let others = OFFSETS.map(|offset| around * offset.exp());
        tolerated(value, others).map(|index| others[index])
    };
    let (mut good, mut around, mut step, mut grows) = (start, other, 2.0 * EDGE_PRECISION, true);
    while (good / start).ln().abs() < OPEN_END {
        let next = good * (direction * step).exp();
        match refit(next, around) {
            Some(found) => {
                (good, around) = (next, found);
                if grows {
                    step *= 3.0;
                }
            }
            None if step > EDGE_PRECISION => {
                grows = false;
                step /= 3.0;
            }
            None => return Some(next),
        }
    }
    None
}
