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
/// The walk to an end: a factor of 12 is open.
const WALK: Walk = Walk {
    offsets: [0.0, -1e-3, 1e-3, -8e-3, 8e-3, -6e-2, 6e-2, 0.2],
    precision: 2e-3,
    first_step: 4e-3,
    growth: 3.0,
    open_end: 12.0,
};

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
        let best = (self.best.x, self.best.y);
        let fits =
            |start| move |candidates: &[RateAndLimit; NEAR]| self.tolerated(candidates, start);
        let rate_end = |direction| WALK.rate_end(direction, best, fits(Start::Empty));
        // a bucket that never fills up within the trace may be larger than its contents at the start
        let limit_end = |direction, start| WALK.limit_end(direction, best, fits(start));
        let duration_s = self.rows.duration_s.max(1e-9);
        let per_loss = self.corrected.corrected_bytes() / self.rows.lost.max(1) as f64;
        let rate = Interval {
            value: self.best.x,
            // removed bytes may not have passed, added ones may be cross traffic
            low: rate_end(-1.0).map(|low| low - self.corrected.removed_bytes / duration_s),
            high: rate_end(1.0).map(|high| high + self.corrected.added_bytes / duration_s),
        };
        let limit = Interval {
            value: self.best.y,
            low: limit_end(-1.0, Start::Empty).map(|low| (low - per_loss).max(0.0)),
            high: limit_end(1.0, Start::Unknown).map(|high| high + per_loss),
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
pub(super) const NEAR: usize = 8;

/// A walk from the best value of one parameter to the end of its interval: in growing steps until no near value
/// of the other fits with it, and back in shrinking ones. Steps and offsets are relative.
pub(super) struct Walk {
    /// Offsets of the values of the other that are tried, from the one that fitted before.
    pub offsets: [f64; NEAR],
    /// Precision of the end.
    pub precision: f64,
    pub first_step: f64,
    /// Factor between steps.
    pub growth: f64,
    /// An interval that extends beyond this factor has no end.
    pub open_end: f64,
}

impl Walk {
    /// The lowest (`direction` -1) or highest (1) rate that fits; `fits` returns which of a few candidates does.
    pub fn rate_end(
        &self,
        direction: f64,
        best: RateAndLimit,
        fits: impl Fn(&[RateAndLimit; NEAR]) -> Option<usize>,
    ) -> Option<f64> {
        self.end(direction, best, |rate, limits| {
            fits(&limits.map(|limit| (rate, limit)))
        })
    }

    /// The same for the limit.
    pub fn limit_end(
        &self,
        direction: f64,
        (rate, limit): RateAndLimit,
        fits: impl Fn(&[RateAndLimit; NEAR]) -> Option<usize>,
    ) -> Option<f64> {
        self.end(direction, (limit, rate), |limit, rates| {
            fits(&rates.map(|rate| (rate, limit)))
        })
    }

    fn end(
        &self,
        direction: f64,
        (start, other): (f64, f64),
        fits: impl Fn(f64, [f64; NEAR]) -> Option<usize>,
    ) -> Option<f64> {
        let (mut good, mut around, mut step, mut grows) = (start, other, self.first_step, true);
        while (good / start).ln().abs() < self.open_end.ln() {
            let next = good * (direction * step).exp();
            let others = self.offsets.map(|offset| around * offset.exp());
            match fits(next, others) {
                Some(found) => {
                    (good, around) = (next, others[found]);
                    if grows {
                        step *= self.growth;
                    }
                }
                None if step > self.precision => {
                    grows = false;
                    step /= self.growth;
                }
                None => return Some(next),
            }
        }
        None
    }
}
