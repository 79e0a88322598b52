//! Delays as evidence: is there a queue behind the losses, how fast does it drain, and do losses occur when
//! it is full?

use super::trace::{Seen, Trace};
use super::virtual_queue::{corrected, uncorrected};

/// Delays around the losses of a trace, compared with those of all packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DelayAtLoss {
    pub losses: usize,
    /// Number of different measured delays before losses: consecutive losses after one of them are one event.
    pub events: usize,
    /// Number of all measured delays.
    pub samples: usize,
    /// Mean share of all delays that are smaller than the one measured just before a loss: one half if losses
    /// are unrelated to delay, near one if they occur when the queue is longest.
    pub mean_rank: f64,
    /// Natural logarithm of the probability of such ranks or higher ones by chance, for independent losses.
    pub log_chance: f64,
    /// Natural logarithm of the probability that so few events fall into the lowest quarter of all delays by
    /// chance.
    pub log_chance_of_so_few_low: f64,
    /// Delay just before a loss above the smallest round-trip time, seconds: lower fifth, median, upper fifth.
    pub low_s: f64,
    pub median_s: f64,
    pub high_s: f64,
    /// Share of all delays above the upper fifth of those at losses.
    pub share_above: f64,
    /// Median of the shorter of the last two delays before each loss, seconds. The packet just before a loss
    /// may wait for its acknowledgment until a second packet arrives (RFC 1122), which is the lost one.
    pub shorter_median_s: f64,
    /// Packets that waited longer than that, by a tenth and by the spread at the losses, followed by a second
    /// such packet.
    pub longer_waits: usize,
    /// Share of the losses after at least half the upper fifth's delay.
    pub share_delayed: f64,
    /// 99.5 % quantile of all delays, seconds.
    pub largest_s: f64,
    /// Median of all delays, seconds.
    pub typical_s: f64,
}

/// Fewer delays are not evaluated.
const FEWEST_SAMPLES: usize = 20;

/// Compares the delay measured just before each loss with all delays. `None` without losses or with too few delays.
pub fn delay_at_loss(trace: &Trace) -> Option<DelayAtLoss> {
    let mut sorted: Vec<f32> = trace
        .delay_s
        .iter()
        .copied()
        .filter(|delay| !delay.is_nan())
        .collect();
    if trace.lost == 0 || sorted.len() < FEWEST_SAMPLES {
        return None;
    }
    sorted.sort_by(f32::total_cmp);
    let samples = sorted.len();
    let mut last: Option<(f32, f32)> = None;
    let mut at_loss = Vec::with_capacity(trace.lost);
    let mut shorter = Vec::with_capacity(trace.lost);
    let mut in_pairs = Vec::with_capacity(samples);
    for (&outcome, &delay) in trace.outcome.iter().zip(&trace.delay_s) {
        if !delay.is_nan() {
            last = Some((delay, last.map_or(delay, |(newest, _)| newest)));
            in_pairs.extend(last.map(|(newest, before)| newest.min(before)));
        }
        if outcome == Seen::Lost
            && let Some((newest, before)) = last
        {
            at_loss.push(newest);
            shorter.push(newest.min(before));
        }
    }
    if at_loss.is_empty() {
        return None;
    }
    at_loss.sort_by(f32::total_cmp);
    shorter.sort_by(f32::total_cmp);
    let full = quantile(&shorter, 0.5);
    let noise = (0.1 * full).max(full - quantile(&shorter, 0.2));
    let longer_waits = in_pairs.iter().filter(|wait| **wait > full + noise).count();
    let share_below =
        |delay: f32| sorted.partition_point(|sample| *sample < delay) as f64 / samples as f64;
    // losses that follow the same sample are one event: count each measured delay once
    let mut distinct = at_loss.clone();
    distinct.dedup();
    let mean_rank =
        at_loss.iter().map(|delay| share_below(*delay)).sum::<f64>() / at_loss.len() as f64;
    let smallest_tail = 0.5 / samples as f64;
    let surprise: f64 = distinct
        .iter()
        .map(|delay| -(1.0 - share_below(*delay)).max(smallest_tail).ln())
        .sum();
    let high = quantile(&at_loss, 0.8);
    let lowest_quarter = quantile(&sorted, 0.25);
    let low_events = distinct
        .iter()
        .filter(|delay| **delay < lowest_quarter)
        .count();
    Some(DelayAtLoss {
        losses: at_loss.len(),
        events: distinct.len(),
        samples,
        log_chance_of_so_few_low: log_binomial_tail(
            distinct.len(),
            low_events,
            share_below(lowest_quarter),
        ),
        mean_rank,
        log_chance: log_gamma_tail(distinct.len(), surprise),
        low_s: f64::from(quantile(&at_loss, 0.2)),
        median_s: f64::from(quantile(&at_loss, 0.5)),
        shorter_median_s: f64::from(full),
        longer_waits,
        high_s: f64::from(high),
        share_above: 1.0 - sorted.partition_point(|sample| *sample <= high) as f64 / samples as f64,
        share_delayed: 1.0
            - at_loss.partition_point(|delay| *delay < high / 2.0) as f64 / at_loss.len() as f64,
        largest_s: f64::from(quantile(&sorted, 0.995)),
        typical_s: f64::from(quantile(&sorted, 0.5)),
    })
}

/// Logarithm of the upper tail at `x` of a gamma distribution of integer shape `n`: the distribution of the
/// sum of `n` exponential variables, such as `-ln` of uniform ranks. It is `e^-x` times the first `n` terms
/// of the series of `e^x`.
pub(super) fn log_gamma_tail(n: usize, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    // the largest term is factored out of the sum to avoid overflow
    let term = |k: usize| k as f64 * x.ln() - (1..=k).map(|i| (i as f64).ln()).sum::<f64>();
    if x <= n as f64 {
        return 0.0;
    }
    let last = term(n - 1);
    let mut sum = 1.0;
    let mut factor = 1.0;
    for k in (1..n).rev() {
        factor *= k as f64 / x;
        sum += factor;
    }
    (last - x + sum.ln()).min(0.0)
}

/// Logarithm of the probability of at most `k` successes in `n` trials of probability `p` (Chernoff's bound, exact in
/// the exponent).
pub(super) fn log_binomial_tail(n: usize, k: usize, p: f64) -> f64 {
    let (n, share) = (n as f64, k as f64 / n as f64);
    if share >= p || p <= 0.0 {
        return 0.0;
    }
    let term = |a: f64, b: f64| if a > 0.0 { a * (a / b).ln() } else { 0.0 };
    -n * (term(share, p) + term(1.0 - share, 1.0 - p))
}

/// Growth of delays with the virtual queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DelayByOccupancy {
    /// Lower quartile of the delays when the virtual queue is nearly empty, seconds.
    pub empty_s: f64,
    /// The same when it is nearly at the limit.
    pub near_limit_s: f64,
    /// The difference of the two for a queue that drains at the rate, seconds.
    pub expected_s: f64,
    pub samples_empty: usize,
    pub samples_near_limit: usize,
    /// Standard error of `near_limit_s - empty_s`, seconds.
    pub error_s: f64,
}

impl DelayByOccupancy {
    /// 0 for a policer, which does not delay; 1 for a queue; in between for a shaper that first sends a
    /// burst.
    pub fn ratio(&self) -> f64 {
        (self.near_limit_s - self.empty_s) / self.expected_s
    }

    /// The ratio's bounds at two standard errors.
    pub fn ratio_bounds(&self) -> (f64, f64) {
        let error = 2.0 * self.error_s / self.expected_s;
        (self.ratio() - error, self.ratio() + error)
    }
}

/// Compares the delays of packets that find the virtual queue nearly at its limit with those that find it
/// nearly empty. The lower quartile is used because delayed acknowledgments (RFC 1122) can only add to
/// delays.
pub fn delay_by_occupancy(
    trace: &Trace,
    rate_bps: f64,
    limit_bytes: f64,
) -> Option<DelayByOccupancy> {
    let rate = rate_bps / 8.0;
    let packet = trace.typical_bytes;
    let queue = corrected(trace, rate, limit_bytes);
    let mut samples: Vec<(f32, f32)> = Vec::new();
    for ((&found, &bytes), &delay) in queue.iter().zip(&trace.bytes).zip(&trace.delay_s) {
        if !delay.is_nan() {
            samples.push((found + bytes, delay));
        }
    }
    if samples.len() < FEWEST_SAMPLES {
        return None;
    }
    // "nearly": within two packets, or within a tenth for a large limit; a bucket that is never nearly full
    // is compared at the lowest fiftieth of the fill levels
    let near = (2.0 * packet).max(0.1 * limit_bytes);
    let near_limit_from = (limit_bytes - near).max(limit_bytes * 0.5) as f32;
    let lowest = samples.len() / 50;
    let mut found: Vec<f32> = samples.iter().map(|(occupancy, _)| *occupancy).collect();
    let low = *found
        .select_nth_unstable_by(lowest.max(8).min(samples.len() - 1), f32::total_cmp)
        .1;
    let nearly_empty = (packet + near / 2.0)
        .min(limit_bytes * 0.5)
        .max(packet * 1.01) as f32;
    let empty_to = nearly_empty.max(low);
    let group = |wanted: &dyn Fn(f32) -> bool| {
        let chosen = samples.iter().filter(|(occupancy, _)| wanted(*occupancy));
        chosen.copied().unzip::<f32, f32, Vec<f32>, Vec<f32>>()
    };
    let (mut empty_at, mut empty) = group(&|occupancy| occupancy <= empty_to);
    let (mut near_limit_at, mut near_limit) = group(&|occupancy| occupancy >= near_limit_from);
    if empty.len() < 5 || near_limit.len() < 5 || empty_to >= near_limit_from {
        return None;
    }
    let error = |delays: &mut [f32]| {
        let spread_s = quantile_in(delays, 0.4) - quantile_in(delays, 0.1);
        f64::from(spread_s) / (delays.len() as f64).sqrt()
    };
    let typical = quantile_in(&mut near_limit_at, 0.5) - quantile_in(&mut empty_at, 0.5);
    Some(DelayByOccupancy {
        empty_s: f64::from(quantile_in(&mut empty, 0.25)),
        near_limit_s: f64::from(quantile_in(&mut near_limit, 0.25)),
        expected_s: f64::from(typical) / rate,
        samples_empty: empty.len(),
        samples_near_limit: near_limit.len(),
        error_s: (error(&mut empty).powi(2) + error(&mut near_limit).powi(2)).sqrt(),
    })
}

/// A queue's drain rate, determined from delays alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DrainFit {
    pub rate_bps: f64,
    /// Bounds of the rates that explain the delays nearly as well.
    pub low_bps: f64,
    pub high_bps: f64,
    /// Bytes that pass before queueing begins: the token burst of a shaper, 0 for a plain queue.
    pub burst_bytes: f64,
    /// Share of the spread of the delays that the queue explains, 0 to 1.
    pub explained: f64,
    /// Median distance between delays and the model, seconds.
    pub residual_s: f64,
    /// Longest delay that the model explains, seconds.
    pub largest_s: f64,
}

/// Rates that leave at most this much more of the spread unexplained are equally good.
const DRAIN_TOLERANCE: f64 = 0.05;

/// Finds the drain rate at which the virtual queue explains the measured delays best. `None` with too few delays.
pub fn fit_drain_rate(trace: &Trace) -> Option<DrainFit> {
    let measured: Vec<usize> = (0..trace.len())
        .filter(|i| !trace.delay_s[*i].is_nan())
        .collect();
    if measured.len() < FEWEST_SAMPLES || trace.duration_s() <= 0.0 {
        return None;
    }
    let mut delays: Vec<f32> = measured.iter().map(|i| trace.delay_s[*i]).collect();
    delays.sort_by(f32::total_cmp);
    let middle = quantile(&delays, 0.5);
    let spread: f64 = delays
        .iter()
        .map(|delay| f64::from((delay - middle).abs()))
        .sum();
    if spread <= 0.0 {
        return None;
    }
    let evaluate = |rate: f64| misfit(trace, &measured, rate);
    let mean_rate = trace.passed_bytes / trace.duration_s();
    let mut best = (f64::INFINITY, mean_rate);
    let coarse = 1.06f64;
    let mut rate = mean_rate * 0.9;
    while rate < mean_rate * 40.0 {
        let found = evaluate(rate).0;
        if found < best.0 {
            best = (found, rate);
        }
        rate *= coarse;
    }
    let mut step = coarse.ln() / 2.0;
    while step > 1e-4 {
        let center = best.1;
        for factor in [-1.0, 1.0] {
            let rate = center * f64::exp(factor * step);
            let found = evaluate(rate).0;
            if found < best.0 {
                best = (found, rate);
            }
        }
        if best.1 == center {
            step /= 2.0;
        }
    }
    let (total, burst_s, residual_s, largest_s) = evaluate(best.1);
    let tolerated = total + DRAIN_TOLERANCE * total.max(0.02 * spread);
    let bound = |direction: f64| {
        let mut step = 1e-4;
        while step < 0.5 && evaluate(best.1 * f64::exp(direction * step)).0 <= tolerated {
            step *= 1.5;
        }
        best.1 * f64::exp(direction * step) * 8.0
    };
    Some(DrainFit {
        rate_bps: best.1 * 8.0,
        low_bps: bound(-1.0),
        high_bps: bound(1.0),
        burst_bytes: burst_s * best.1,
        explained: (1.0 - total / spread).clamp(0.0, 1.0),
        residual_s,
        largest_s,
    })
}

/// Bytes that pass before a queue with a known drain rate begins to delay: the burst of a shaper, from the
/// delays.
pub fn burst_bytes_at(trace: &Trace, rate_bps: f64) -> f64 {
    let measured: Vec<usize> = (0..trace.len())
        .filter(|i| !trace.delay_s[*i].is_nan())
        .collect();
    let rate = rate_bps / 8.0;
    if measured.is_empty() || rate <= 0.0 {
        return 0.0;
    }
    misfit(trace, &measured, rate).1 * rate
}

/// Sum of the distances between the measured delays and `max(0, queue / rate - burst)` with the best burst
/// (seconds), the median distance, and the longest modelled delay.
fn misfit(trace: &Trace, measured: &[usize], rate: f64) -> (f64, f64, f64, f64) {
    let queue = uncorrected(trace, rate);
    let wait = |i: usize| queue[i] / rate as f32;
    // if there is a delay, the wait exceeds it by the burst
    let longest = measured.iter().map(|i| wait(*i)).fold(0.0, f32::max);
    let mut excess: Vec<f32> = measured
        .iter()
        .filter(|i| wait(**i) > 0.3 * longest)
        .map(|i| wait(*i) - trace.delay_s[*i])
        .collect();
    excess.sort_by(f32::total_cmp);
    let burst = if excess.is_empty() {
        0.0
    } else {
        quantile(&excess, 0.5).max(0.0)
    };
    let mut distances: Vec<f32> = measured
        .iter()
        .map(|i| ((wait(*i) - burst).max(0.0) - trace.delay_s[*i]).abs())
        .collect();
    let total = distances.iter().map(|distance| f64::from(*distance)).sum();
    let middle = distances.len() / 2;
    let residual = *distances.select_nth_unstable_by(middle, f32::total_cmp).1;
    (
        total,
        f64::from(burst),
        f64::from(residual),
        f64::from((longest - burst).max(0.0)),
    )
}

/// Quantile of sorted values by the nearest rank.
pub(crate) fn quantile(sorted: &[f32], share: f64) -> f32 {
    sorted
        .get(nearest_rank(sorted, share))
        .copied()
        .unwrap_or(0.0)
}

/// The same for values that may be reordered; there must be some.
fn quantile_in(values: &mut [f32], share: f64) -> f32 {
    let rank = nearest_rank(values, share);
    *values.select_nth_unstable_by(rank, f32::total_cmp).1
}

fn nearest_rank(values: &[f32], share: f64) -> usize {
    let last = values.len().saturating_sub(1);
    (share * last as f64).round() as usize
}
