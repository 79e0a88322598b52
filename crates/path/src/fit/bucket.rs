//! The rate and the limit of a token bucket (or of a drop-tail queue) from the losses alone.
//!
//! In three steps: a coarse search over the densest losses, a climb from its best points over the same, and a
//! fine adjustment over the whole trace by the corrections of the virtual queue.

use super::lanes::{follow, follow_many};
use super::profile::{Interval, Profile};
use super::rows::CLASSES;
use super::rows::RateAndLimit;
use super::rows::{Row, Rows};
use super::search::{Point, Scores, Width, best_of, climb};
use super::trace::{Seen, Trace};
use super::virtual_queue::{Agreement, Start, binomial_log_likelihood, uncorrected_at_losses};

/// A token bucket or drop-tail queue fitted to the losses of a trace.
#[derive(Debug, Clone, Copy)]
pub struct BucketFit {
    /// Rate, bit/s of IP bytes.
    pub rate_bps: Interval,
    /// Burst or queue limit, IP bytes.
    pub limit_bytes: Interval,
    pub agreement: Agreement,
    pub packet_bytes: f64,
    /// Log-likelihood of the outcomes if losses were unrelated to the queue, nats.
    pub independent_log_likelihood: f64,
}

impl BucketFit {
    /// Rate in bytes/s and limit in bytes.
    pub(super) fn rate_and_limit(&self) -> RateAndLimit {
        (self.rate_bps.value / 8.0, self.limit_bytes.value)
    }

    /// Share of the losses that the bucket predicts, 0 to 1.
    pub fn expected_share(&self) -> f64 {
        let lost: u32 = self.agreement.lost.iter().sum();
        f64::from(self.agreement.expected_losses()) / f64::from(lost.max(1))
    }

    /// The time in seconds that a queue of this size takes to drain at this rate.
    pub fn drain_s(&self) -> f64 {
        self.limit_bytes.value * 8.0 / self.rate_bps.value
    }

    /// A starting point for a refinement; its agreement is unknown.
    pub(super) fn start(trace: &Trace, (rate_bytes_per_s, limit_bytes): RateAndLimit) -> Self {
        let sharp = |value: f64| Interval {
            value,
            low: None,
            high: None,
        };
        Self {
            rate_bps: sharp(rate_bytes_per_s * 8.0),
            limit_bytes: sharp(limit_bytes),
            agreement: Agreement {
                log_likelihood: f64::MIN,
                added_bytes: 0.0,
                removed_bytes: 0.0,
                lost: [0; CLASSES],
                passed: [0; CLASSES],
            },
            packet_bytes: trace.typical_bytes,
            independent_log_likelihood: binomial_log_likelihood(
                trace.lost as f64,
                trace.passed as f64,
            ),
        }
    }

    /// Share of the uncertainty about which packets were lost that the model removes, 0 to 1 (Theil's
    /// uncertainty coefficient).
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

/// Rates of the coarse search, as multiples of the mean rate of passed traffic: from that of a bucket that
/// was always empty to that of one with rare bursts.
const RATE_MULTIPLES: (f64, f64) = (0.5, 100.0);
/// Ratio of successive rates of the coarse search. A rate that is wrong by half a step shifts the queue by 4
/// % of the traffic between two fillings, which corrections can bridge.
const RATE_RATIO: f64 = 1.08;
/// Ratio of successive limits that are tried over the whole trace.
const LIMIT_RATIO: f64 = 1.4;
/// Runs of losses in the interval of the coarse search.
const RUNS_SEARCHED: usize = 100;
/// Most packets that share a row: in the search, and after it.
const MOST_IN_A_ROW: (u16, u16) = (16, 4);
/// Points of the coarse search from which the climbs start.
const STARTS: usize = 8;
/// Optima of the climbs that are tried over the whole trace.
const FINISHED: usize = 3;
/// Most iterations of a climb: from a start of the coarse search, and over the whole trace.
const LOOKS: (u32, u32) = (20, 30);
/// Smallest relative steps of the rate: of the climb, and of the adjustment.
const CLIMB_STEP: f64 = 5e-4;
const FINEST_STEP: f64 = 2e-5;

/// Fits a token bucket to the losses. `None` if no packet was lost or none passed, or if no bucket explains
/// the losses better than chance.
pub fn fit_bucket(trace: &Trace) -> Option<BucketFit> {
    search_bucket(trace, None).map(|found| found.complete(trace))
}

/// The result of a search over a trace, before its intervals are calculated.
pub struct Found {
    rows: Rows,
    best: Point,
    independent_log_likelihood: f64,
}

impl Found {
    /// See [`BucketFit::score`]; for comparing variants of one trace.
    pub fn score(&self) -> f64 {
        self.best.score
    }

    /// Share of the uncertainty about the losses that is left, including corrections: 0 for a perfect fit.
    pub fn left_open(&self) -> f64 {
        self.best.score / self.independent_log_likelihood
    }

    /// Rate of the bucket, bit/s.
    pub fn rate_bps(&self) -> f64 {
        self.best.x * 8.0
    }

    /// The fit, with intervals.
    pub fn complete(&self, trace: &Trace) -> BucketFit {
        complete(trace, &self.rows, self.best)
    }
}

/// The search of [`fit_bucket`] alone. Starts near the result `known` for a variant of the trace, if that was
/// a good fit; otherwise from the beginning.
pub fn search_bucket(trace: &Trace, known: Option<&Found>) -> Option<Found> {
    if !can_be_fitted(trace) {
        return None;
    }
    let (from, to) = Rows::window(trace, RUNS_SEARCHED);
    let start = if (from, to) == (0, trace.len()) {
        Start::Empty
    } else {
        Start::Unknown
    };
    let dense = Rows::condense(trace, from, to, MOST_IN_A_ROW.0);
    let rates = match known.filter(|known| known.left_open() < GOOD_ENOUGH) {
        Some(known) => [0.9, 1.0, 1.1].map(|factor| known.best.x * factor).to_vec(),
        None => rates_on_a_grid(&dense),
    };
    best_over_all(trace, tops_of_climbs(&dense, start, &rates))
}

/// A fit is good if it leaves less than this share of the uncertainty about the losses.
const GOOD_ENOUGH: f64 = 0.15;

/// Score of a bucket near a known one for a variant of its trace, from the densest losses: for comparing
/// variants, cheaper than fitting each.
pub fn score_near(trace: &Trace, known: &Found) -> f64 {
    let (from, to) = Rows::window(trace, RUNS_SEARCHED);
    let dense = Rows::condense(trace, from, to, MOST_IN_A_ROW.0);
    let score = scorer(&dense, Start::Unknown);
    let start = Point::scored((known.best.x, known.best.y), &score);
    let steps = (RATE_RATIO.ln() / 2.0, LIMIT_RATIO.ln() / 2.0);
    climb(start, steps, CLIMB_STEP, LOOKS.0, Width::One, score).score
}

fn can_be_fitted(trace: &Trace) -> bool {
    trace.lost > 0 && trace.passed > 1 && trace.duration_s() > 0.0
}

/// From the best points over a part of the trace to the best over the whole. `None` if chance explains it as
/// well.
fn best_over_all(trace: &Trace, tops: Vec<Point>) -> Option<Found> {
    let rows = Rows::condense(trace, 0, trace.len(), MOST_IN_A_ROW.1);
    let steps = (RATE_RATIO.ln() / 4.0, LIMIT_RATIO.ln() / 2.0);
    let finished = tops
        .into_iter()
        .filter_map(|top| best_limit(&rows, top))
        .map(|point| {
            climb(
                point,
                steps,
                CLIMB_STEP,
                LOOKS.1,
                Width::One,
                scorer(&rows, Start::Empty),
            )
        });
    let best = finished.max_by(|a, b| a.score.total_cmp(&b.score))?;
    let independent = binomial_log_likelihood(trace.lost as f64, trace.passed as f64);
    (best.score > independent + 1.0).then_some(Found {
        rows,
        best,
        independent_log_likelihood: independent,
    })
}

fn complete(trace: &Trace, all: &Rows, best: Point) -> BucketFit {
    let single = Rows::single(trace);
    let whole = |point: Point| follow(&single, (point.x, point.y), Start::Empty);
    let pattern = whole(best);
    let best = adjust(all, best);
    let adjusted = whole(best);
    // agreement comes from the point at which the bucket separates lost packets from others best
    let agreement = if adjusted.log_likelihood > pattern.log_likelihood {
        adjusted
    } else {
        pattern
    };
    let (rate, limit_bytes) = Profile::new(all, best).intervals();
    let bits = |rate: f64| rate * 8.0;
    BucketFit {
        rate_bps: Interval {
            value: bits(rate.value),
            low: rate.low.map(bits),
            high: rate.high.map(bits),
        },
        limit_bytes,
        agreement,
        packet_bytes: all.packet_bytes,
        independent_log_likelihood: binomial_log_likelihood(trace.lost as f64, trace.passed as f64),
    }
}

/// The score of a rate and a limit, or `None` if it is certainly below a bound.
fn scorer(rows: &Rows, start: Start) -> impl Fn(&[RateAndLimit], f64) -> Scores {
    move |candidates, below| {
        follow_many(rows, candidates, start, -below * rows.packet_bytes)
            .map(|agreement| agreement.map(|agreement| agreement.score(rows.packet_bytes)))
    }
}

/// The best points that climbs reach, at least a few per cent of rate apart; best first.
fn tops_of_climbs(rows: &Rows, start: Start, rates: &[f64]) -> Vec<Point> {
    let score = scorer(rows, start);
    let steps = (RATE_RATIO.ln() / 2.0, LIMIT_RATIO.ln() / 2.0);
    let mut tops: Vec<Point> = starts(rows, rates, &score)
        .into_iter()
        .map(|start| climb(start, steps, CLIMB_STEP, LOOKS.0, Width::One, &score))
        .collect();
    tops.sort_by(|a, b| b.score.total_cmp(&a.score));
    let independent = binomial_log_likelihood(rows.lost as f64, rows.passed as f64);
    if let Some(best) = tops.first().copied() {
        tops.retain(|top| top.score > best.score + WORSE_TOP * independent);
    }
    let mut apart: Vec<Point> = Vec::new();
    for top in tops {
        if apart.len() < FINISHED
            && apart
                .iter()
                .all(|other| (other.x / top.x).ln().abs() > 0.03)
        {
            apart.push(top);
        }
    }
    apart
}

/// An optimum this share of the uncertainty about the losses below the best is no rival over the whole trace.
const WORSE_TOP: f64 = 0.4;

/// The rates to try without a known fit.
fn rates_on_a_grid(rows: &Rows) -> Vec<f64> {
    let lowest = RATE_MULTIPLES.0 * rows.passed_bytes / rows.duration_s.max(1e-9);
    let steps = ((RATE_MULTIPLES.1 / RATE_MULTIPLES.0).ln() / RATE_RATIO.ln()) as i32;
    (0..steps)
        .map(|step| lowest * RATE_RATIO.powi(step))
        .collect()
}

/// For each rate the best of a few limits, namely the queue lengths at losses. Returns the points with a
/// local maximum of the score along the rates, and the rates that passed between losses; best first.
fn starts(
    rows: &Rows,
    rates: &[f64],
    score: &impl Fn(&[RateAndLimit], f64) -> Scores,
) -> Vec<Point> {
    let independent = binomial_log_likelihood(rows.lost as f64, rows.passed as f64);
    let best_limit_at = |(rate, limits): (f64, Vec<f64>), hopeless: f64| {
        let candidates: Vec<RateAndLimit> = limits.into_iter().map(|limit| (rate, limit)).collect();
        let nothing = Point {
            x: rate,
            y: 0.0,
            score: hopeless,
        };
        let mut score = score;
        best_of(&candidates, nothing, Width::One, &mut score).unwrap_or(Point {
            score: f64::MIN,
            ..nothing
        })
    };
    // a score far below chance is no start, whatever is near it
    let hopeless = 3.0 * independent - 100.0;
    let mut starts: Vec<Point> = limits_at_losses(rows, &rates_between_losses(rows))
        .map(|limits| best_limit_at(limits, hopeless))
        .collect();
    // given a good start, others must be better than chance
    let best = starts
        .iter()
        .map(|start| start.score)
        .fold(f64::MIN, f64::max);
    let hopeless = hopeless.max(best + HOPELESS_BELOW_BEST * independent);
    let fastest = fastest_arrivals(rows);
    // given an excellent one, no further search is needed
    let rates = if best > GOOD_ENOUGH * independent {
        &[]
    } else {
        rates
    };
    let below: Vec<f64> = rates
        .iter()
        .copied()
        .filter(|rate| *rate < fastest)
        .collect();
    let ridge: Vec<Point> = limits_at_losses(rows, &below)
        .map(|limits| best_limit_at(limits, hopeless))
        .collect();
    let at = |index: usize| ridge.get(index).map_or(f64::MIN, |point| point.score);
    let is_local_maximum = |i: &usize| at(*i) >= at(i.wrapping_sub(1)) && at(*i) >= at(i + 1);
    starts.extend((0..ridge.len()).filter(is_local_maximum).map(|i| ridge[i]));
    starts.retain(|start| start.score > f64::MIN);
    starts.sort_by(|a, b| b.score.total_cmp(&a.score));
    starts.dedup_by(|a, b| (a.x / b.x - 1.0).abs() < 1e-3 && (a.y / b.y - 1.0).abs() < 1e-2);
    starts.truncate(STARTS);
    starts
}

/// A start this share of the uncertainty about the losses behind the best one is given up.
const HOPELESS_BELOW_BEST: f64 = 1.5;

/// The rate of the fastest few consecutive packets: a bucket that fills faster is never empty.
fn fastest_arrivals(rows: &Rows) -> f64 {
    const IN_A_ROW: usize = 4;
    let rate = |rows: &[Row]| {
        let bytes: f64 = rows.iter().skip(1).map(|row| row.bytes).sum();
        let time_s: f64 = rows.iter().skip(1).map(|row| row.gap_s + row.span_s).sum();
        bytes / time_s.max(1e-9)
    };
    rows.rows
        .windows(IN_A_ROW + 1)
        .map(rate)
        .fold(0.0, f64::max)
}

/// The rates of passed traffic between two losses: the rate of the bucket to within a packet, unless it
/// filled up in between. Quantiles over all pairs of losses at some distance.
fn rates_between_losses(rows: &Rows) -> Vec<f64> {
    const APART: [usize; 3] = [1, 5, 25];
    const SHARES: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];
    let (mut time_s, mut passed) = (0.0f64, 0.0f64);
    let mut at_losses: Vec<(f64, f64)> = Vec::with_capacity(rows.lost);
    for row in &rows.rows {
        time_s += row.gap_s + row.span_s;
        if row.outcome == Seen::Lost {
            at_losses.push((time_s, passed));
        } else {
            passed += row.bytes;
        }
    }
    let mut rates = Vec::new();
    for apart in APART {
        let between = |pair: &[(f64, f64)]| {
            let (first, last) = (pair[0], pair[apart]);
            (last.1 - first.1, last.0 - first.0)
        };
        // over fewer packets, one more or less matters too much
        let long_enough =
            |&(bytes, lasted_s): &(f64, f64)| bytes > 8.0 * rows.packet_bytes && lasted_s > 0.0;
        let mut found: Vec<f64> = at_losses
            .windows(apart + 1)
            .map(between)
            .filter(long_enough)
            .map(|(bytes, lasted_s)| bytes / lasted_s)
            .collect();
        found.sort_by(f64::total_cmp);
        if let Some(last) = found.len().checked_sub(1) {
            rates.extend(SHARES.map(|share| found[(share * last as f64).round() as usize]));
        }
    }
    rates
}

/// Each rate with limits that would explain some of the losses: quantiles of the unlimited queue that they
/// find.
fn limits_at_losses<'a>(
    rows: &'a Rows,
    rates: &'a [f64],
) -> impl Iterator<Item = (f64, Vec<f64>)> + 'a {
    const TOGETHER: usize = 4;
    rates.chunks(TOGETHER).flat_map(move |rates| {
        // unused lanes repeat the last rate
        let rate = |index: usize| rates[index.min(rates.len() - 1)];
        let found: [Vec<f64>; TOGETHER] = uncorrected_at_losses(rows, std::array::from_fn(rate));
        let limits = found.map(|queues| limits_of(rows, queues));
        rates.iter().copied().zip(limits).collect::<Vec<_>>()
    })
}

fn limits_of(rows: &Rows, mut found: Vec<f64>) -> Vec<f64> {
    let largest = rows.largest_bytes;
    found.sort_by(f64::total_cmp);
    let last = found.len() - 1;
    let mut limits: Vec<f64> = [0.02, 0.2, 0.5, 0.9]
        .map(|share| found[(share * last as f64).round() as usize].max(largest))
        .to_vec();
    // a small bucket leaves no trace in an unlimited queue that has grown past it
    limits.extend([1.5, 3.0, 6.0, 12.0, 30.0, 100.0].map(|packets| packets * largest));
    limits.sort_by(f64::total_cmp);
    limits.dedup_by(|a, b| (*a / *b - 1.0).abs() < 0.1);
    limits
}

/// The best limit on a coarse grid at one rate, or the one that was best over a part of the trace.
fn best_limit(rows: &Rows, known: Point) -> Option<Point> {
    let largest = rows.passed_bytes.max(2.0 * rows.largest_bytes);
    let mut limits = vec![known.y];
    let mut limit = rows.largest_bytes;
    while limit < largest {
        limits.push(limit);
        limit *= LIMIT_RATIO;
    }
    let candidates: Vec<RateAndLimit> = limits.into_iter().map(|limit| (known.x, limit)).collect();
    let unknown = Point {
        score: f64::MIN,
        ..known
    };
    best_of(
        &candidates,
        unknown,
        Width::One,
        &mut scorer(rows, Start::Empty),
    )
}

/// The last adjustment: near the best score, the rate and limit with the least correction. Classes of margins
/// have steps; corrections are smooth.
fn adjust(rows: &Rows, best: Point) -> Point {
    let far = |value: f64, center: f64| (value / center).ln().abs() > 0.05;
    let score = |candidates: &[RateAndLimit], below: f64| {
        let mut scores = follow_many(rows, candidates, Start::Empty, -below)
            .map(|agreement| agreement.map(|agreement| -agreement.corrected_bytes()));
        for (score, &(rate, limit)) in scores.iter_mut().zip(candidates) {
            if far(rate, best.x) || far(limit, best.y) {
                *score = None;
            }
        }
        scores
    };
    let start = Point::scored((best.x, best.y), score);
    climb(start, (2e-3, 1e-2), FINEST_STEP, LOOKS.1, Width::One, score)
}
