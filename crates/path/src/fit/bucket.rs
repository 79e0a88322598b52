//! The rate and the limit of a token bucket (or of a drop-tail queue) from the losses alone.

use super::search::{Point, climb};
use super::trace::{Seen, Trace};
use super::virtual_queue::{Agreement, Start, binomial_log_likelihood, follow, uncorrected};

/// Bounds of a 95 % interval; `None` is an open end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// A token bucket or drop-tail queue fitted to the losses of a trace.
#[derive(Debug, Clone, Copy)]
pub struct BucketFit {
    /// Rate, bit/s of IP bytes.
    pub rate_bps: Interval,
    /// Burst or queue limit, IP bytes.
    pub limit_bytes: Interval,
    pub agreement: Agreement,
    pub packet_bytes: f64,
    /// Log-likelihood of the outcomes if losses had nothing to do with the queue, nats.
    pub independent_log_likelihood: f64,
}

impl BucketFit {
    /// Share of the uncertainty about which packets were lost that the model removes, 0 to 1 (Theil's uncertainty
    /// coefficient).
    pub fn certainty(&self) -> f64 {
        if self.independent_log_likelihood == 0.0 {
            return 0.0;
        }
        (1.0 - self.agreement.log_likelihood / self.independent_log_likelihood).clamp(0.0, 1.0)
    }

    /// How much more likely the outcomes are than with independent losses, nats.
    pub fn gain(&self) -> f64 {
        self.agreement.log_likelihood - self.independent_log_likelihood
    }

    pub fn score(&self) -> f64 {
        self.agreement.score(self.packet_bytes)
    }
}

/// Rates of the coarse search, as multiples of the mean rate of what passed: from the rate of a bucket that was
/// always empty to that of one whose packets come in rare bursts.
const RATE_MULTIPLES: (f64, f64) = (0.5, 100.0);
/// Steps of the coarse search. A rate that is off by half a step shifts the queue by 3 % of what passes between
/// two fillings, which the corrections can bridge; a limit matters only after pauses.
const RATE_RATIO: f64 = 1.06;
const LIMIT_RATIO: f64 = 1.45;
/// Points of the coarse search from which the fine one starts.
const STARTS: usize = 8;
/// Finest step of the rate, relative.
const FINEST_RATE_STEP: f64 = 2e-5;
/// Half the 95 % quantile of chi-squared with two degrees of freedom ...
const SCORE_DROP: f64 = 3.0;
/// ... and the share of the remaining misfit by which a worse score is not evidence: the model leaves out jitter,
/// token granularity and strangers' packets, so its likelihood is sharper than the truth.
const MISFIT_SHARE: f64 = 0.03;

/// Fits a token bucket to the losses. `None` when nothing was lost or nothing passed.
pub fn fit_bucket(trace: &Trace) -> Option<BucketFit> {
    if trace.lost == 0 || trace.passed < 2 || trace.duration_s() <= 0.0 {
        return None;
    }
    let packet_bytes = trace.typical_bytes().max(1.0);
    let mean_rate = trace.passed_bytes / trace.duration_s();
    let score = |rate: f64, limit: f64, below: f64| {
        follow(trace, rate, limit, packet_bytes, Start::Empty, below)
            .map(|agreement| agreement.score(packet_bytes))
    };
    let independent = binomial_log_likelihood(trace.lost as f64, trace.passed as f64);
    let mut best = Point {
        x: mean_rate,
        y: f64::from(trace.largest_bytes),
        score: f64::MIN,
    };
    for start in starts(trace, mean_rate, independent, &score) {
        let top = climb(
            start,
            (RATE_RATIO.ln() / 2.0, LIMIT_RATIO.ln() / 2.0),
            FINEST_RATE_STEP,
            score,
        );
        if top.score > best.score {
            best = top;
        }
    }
    if best.score <= independent {
        return None;
    }
    let free_start = |rate: f64, limit: f64, below: f64| {
        follow(trace, rate, limit, packet_bytes, Start::Unknown, below).map(|agreement| agreement.score(packet_bytes))
    };
    let profile = Profile { best, smallest_limit: f64::from(trace.largest_bytes) / 2.0, score: &score };
    let best = profile.plateau_middle();
    let agreement = follow(trace, best.x, best.y, packet_bytes, Start::Empty, f64::MIN)?;
    let profile = Profile { best: Point { score: agreement.score(packet_bytes), ..best }, ..profile };
    let tolerated = SCORE_DROP + MISFIT_SHARE * -profile.best.score;
    let bits = |rate: f64| rate * 8.0;
    // a bucket that never fills again while it is watched may be larger than what it held at the start
    let unknown_start = Profile { best: profile.best, smallest_limit: profile.smallest_limit, score: &free_start };
    Some(BucketFit {
        rate_bps: Interval {
            value: best.x * 8.0,
            low: profile.rate_edge(-1.0, tolerated).map(bits),
            high: profile.rate_edge(1.0, tolerated).map(bits),
        },
        limit_bytes: Interval {
            value: best.y,
            low: profile.limit_edge(-1.0, tolerated),
            high: unknown_start.limit_edge(1.0, tolerated),
        },
        agreement,
        packet_bytes,
        independent_log_likelihood: independent,
    })
}

/// The best limit of each rate on a coarse grid, where the score is a local maximum along the rates; best first.
fn starts(
    trace: &Trace,
    mean_rate: f64,
    independent: f64,
    score: &impl Fn(f64, f64, f64) -> Option<f64>,
) -> Vec<Point> {
    let mut ridge: Vec<Point> = Vec::new();
    let mut rate = mean_rate * RATE_MULTIPLES.0;
    while rate < mean_rate * RATE_MULTIPLES.1 {
        let mut top = Point {
            x: rate,
            y: 0.0,
            score: f64::MIN,
        };
        // beyond the longest queue that a lost packet found, no limit would have dropped anything
        let largest_limit = longest_queue_at_loss(trace, rate) + f64::from(trace.largest_bytes);
        let mut limit = f64::from(trace.largest_bytes);
        while limit < largest_limit * LIMIT_RATIO {
            // far worse than chance is no start, whatever is near it
            let below = top.score.max(3.0 * independent - 100.0);
            if let Some(found) = score(rate, limit, below)
                && found > top.score
            {
                top = Point {
                    x: rate,
                    y: limit,
                    score: found,
                };
            }
            limit *= LIMIT_RATIO;
        }
        ridge.push(top);
        rate *= RATE_RATIO;
    }
    let at = |index: usize| ridge.get(index).map_or(f64::MIN, |point| point.score);
    let mut starts: Vec<Point> = (0..ridge.len())
        .filter(|&i| at(i) > f64::MIN && at(i) >= at(i.wrapping_sub(1)) && at(i) >= at(i + 1))
        .map(|i| ridge[i])
        .collect();
    starts.sort_by(|a, b| b.score.total_cmp(&a.score));
    starts.truncate(STARTS);
    starts
}

fn longest_queue_at_loss(trace: &Trace, rate: f64) -> f64 {
    let queue = uncorrected(trace, rate);
    let at_losses = queue
        .iter()
        .zip(&trace.outcome)
        .filter(|(_, outcome)| **outcome == Seen::Lost);
    at_losses
        .map(|(queue, _)| f64::from(*queue))
        .fold(0.0, f64::max)
}

/// The score around its maximum. Profile likelihood: how far one parameter can move, the other following as it likes
/// best, before the score falls by more than is tolerated.
struct Profile<'a, F> {
    best: Point,
    smallest_limit: f64,
    score: &'a F,
}

impl<F: Fn(f64, f64, f64) -> Option<f64>> Profile<'_, F> {
    fn rate_edge(&self, direction: f64, tolerated: f64) -> Option<f64> {
        let floor = self.best.score - tolerated;
        let limit_for = |rate: f64, around: f64| {
            line_best(around, floor, |limit, below| (self.score)(rate, limit.max(self.smallest_limit), below))
        };
        edge(direction, self.best.x, self.best.y, limit_for)
    }

    fn limit_edge(&self, direction: f64, tolerated: f64) -> Option<f64> {
        let floor = self.best.score - tolerated;
        let rate_for =
            |limit: f64, around: f64| line_best(around, floor, |rate, below| (self.score)(rate, limit, below));
        edge(direction, self.best.y, self.best.x, rate_for)
    }

    /// The middle of the limits that are as good as the best: packets come whole, so the score has steps.
    fn plateau_middle(&self) -> Point {
        let same = 0.25;
        let fixed = |limit: f64| (self.score)(self.best.x, limit, self.best.score - same);
        let end = |direction: f64| {
            edge(direction, self.best.y, self.best.x, |limit, rate| {
                fixed(limit).filter(|score| *score >= self.best.score - same).map(|_| rate)
            })
        };
        match (end(-1.0), end(1.0)) {
            (Some(low), Some(high)) => Point { y: (low + high) / 2.0, ..self.best },
            _ => self.best,
        }
    }
}

/// Walks from `start` until `refit(value, other)`, which gives the other parameter's best value, finds nothing good
/// enough. `None` where no end comes.
fn edge(direction: f64, start: f64, other: f64, refit: impl Fn(f64, f64) -> Option<f64>) -> Option<f64> {
    let (mut good, mut around, mut step) = (start, other, 1e-3f64);
    let mut grows = true;
    while (good / start).ln().abs() < OPEN_END {
        let next = good * (direction * step).exp();
        match refit(next, around) {
            Some(found) => {
                (good, around) = (next, found);
                if grows {
                    step *= 2.0;
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

/// Relative precision of an interval's end.
const EDGE_PRECISION: f64 = 5e-4;

/// An interval that reaches this far (a factor of e^3 = 20) has an open end.
const OPEN_END: f64 = 3.0;

/// A value near `around` whose score is at least `floor`: the first of a few that improves on no other.
fn line_best(around: f64, floor: f64, score: impl Fn(f64, f64) -> Option<f64>) -> Option<f64> {
    const OFFSETS: [f64; 11] = [0.0, -3e-4, 3e-4, -1.5e-3, 1.5e-3, -6e-3, 6e-3, -2.5e-2, 2.5e-2, -0.1, 0.1];
    let mut best: Option<(f64, f64)> = None;
    for offset in OFFSETS {
        let value = around * f64::exp(offset);
        let below = best.map_or(floor, |(_, score)| score);
        if let Some(found) = score(value, below).filter(|found| *found >= below) {
            best = Some((value, found));
        }
    }
    best.map(|(value, _)| value)
}
