//! The rate of a hop, from the times between departures while packets are queued.

use super::Passages;
use crate::fit::Interval;
use crate::fit::level::Server;

/// The service of a hop with a queue, from departures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Departures {
    /// Rate of service, bit/s, each packet counted with `overhead_bytes`.
    pub rate_bps: Interval,
    /// Bytes that the hop counts on top of each IP packet, with the bounds of its 95 % interval; `None` where no
    /// small packets were served among large ones.
    pub overhead_bytes: Option<Interval>,
    /// Mean size of the full packets that give the rate.
    pub full_bytes: f64,
    /// Departures that followed another one while packets were queued.
    pub served: usize,
    /// Share of the service that went to unseen packets: traffic that joins and leaves between the points.
    pub unseen_share: f64,
    /// Delay of a packet that found the hop idle, seconds: the variation of timestamps and lines.
    pub idle_wait_s: f64,
    /// Spread of those delays (from the 10 % to the 90 % quantile), seconds.
    pub idle_spread_s: f64,
    /// 99 % quantile of all delays, seconds.
    pub long_wait_s: f64,
}

/// Fewer gaps between departures are not evaluated.
const FEWEST_GAPS: usize = 20;
/// A queue shows if packets wait for longer than this, or several times the scatter of idle delays.
const SHORTEST_QUEUE_S: f64 = 10e-6;
/// Service times are known if a quarter of them lies within this share of each other ...
const CONCENTRATED: f64 = 0.03;
/// ... and gaps that are this much longer on average include unseen packets ...
const UNSEEN: f64 = 0.04;
/// ... but more than this share of unseen service may be delays that vary for another reason.
const MOST_UNSEEN: f64 = 0.7;
/// A packet of less than this share of a full one is small.
const SMALL: f64 = 0.6;
/// With this many values, the median lies between the smallest and the largest with 97 %.
const FEWEST_SMALL: usize = 6;

/// A departure that followed another one while both packets were in the hop.
#[derive(Clone, Copy)]
struct Gap {
    seconds: f64,
    bytes: f64,
}

/// Measures a hop with a queue. `None` if too few packets were queued.
pub fn measure_departures(passages: &Passages) -> Option<Departures> {
    let order = passages.in_departure_order();
    let mut waits: Vec<f64> = order
        .iter()
        .map(|index| passages.wait_s[*index as usize])
        .collect();
    if waits.len() < FEWEST_GAPS {
        return None;
    }
    let long_wait_s = quantile_of_unsorted(&mut waits, 0.99);
    if long_wait_s < SHORTEST_QUEUE_S {
        return None;
    }
    let usual_wait_s = quantile_of_unsorted(&mut waits, 0.5);
    // packets deep in the queue first: there the scatter of idle delays matters least
    let deep = gaps(passages, &order, 0.3 * long_wait_s);
    // unless most of the queued packets leave at one rate: the deepest may have waited for the end of a pause
    let usual = gaps(passages, &order, 0.3 * usual_wait_s);
    let rough = steady_rate(&usual).or_else(|| mean_rate(&deep))?;
    let (idle_wait_s, idle_spread_s) = idle_waits(passages, rough).unwrap_or((0.0, 0.0));
    let surely_queued_s = idle_wait_s + (3.0 * idle_spread_s).max(SHORTEST_QUEUE_S / 10.0);
    let gaps = if surely_queued_s < 0.3 * long_wait_s {
        gaps(passages, &order, surely_queued_s)
    } else {
        deep
    };
    if gaps.len() < FEWEST_GAPS {
        return None;
    }
    let overhead_bytes = overhead(&gaps);
    let full = || full_gaps(&gaps).map(|gap| gap.bytes);
    let full_bytes = full().sum::<f64>() / full().count().max(1) as f64;
    let (rate_bps, unseen_share) = service_rate(&gaps)
        .or_else(|| Some((rate_of_runs(passages, surely_queued_s)?, 0.0)))
        .or_else(|| Some((rate_over_gaps(&gaps), 0.0)))?;
    if unseen_share == 0.0 && explained(passages, rate_bps.value, idle_wait_s) < LEAST_EXPLAINED {
        return None;
    }
    Some(Departures {
        rate_bps,
        overhead_bytes,
        full_bytes,
        served: gaps.len(),
        unseen_share,
        idle_wait_s,
        idle_spread_s,
        long_wait_s,
    })
}

impl Departures {
    /// The rate if each packet counts with `overhead_bytes` more, bit/s; `packet_bytes` is the size of the
    /// packets that it was measured with.
    pub fn rate_with_overhead(&self, overhead_bytes: f64, packet_bytes: f64) -> Interval {
        let raise = (packet_bytes + overhead_bytes) / packet_bytes;
        Interval {
            value: self.rate_bps.value * raise,
            low: self.rate_bps.low.map(|low| low * raise),
            high: self.rate_bps.high.map(|high| high * raise),
        }
    }
}

/// Gaps between departures during which the later packet was in the hop and still had to wait for `least_s`
/// or longer.
fn gaps(passages: &Passages, order: &[u32], least_s: f64) -> Vec<Gap> {
    let mut gaps = Vec::new();
    for pair in order.windows(2) {
        let (before, after) = (pair[0] as usize, pair[1] as usize);
        let left_s = passages.departure_s(before);
        let waited_behind = passages.arrival_s[after] + least_s < left_s;
        if !waited_behind || passages.wait_s[before] < least_s {
            continue;
        }
        gaps.push(Gap {
            seconds: passages.departure_s(after) - left_s,
            bytes: f64::from(passages.bytes[after]),
        });
    }
    gaps
}

/// Share of the delays that a queue must explain; otherwise they vary for another reason.
const LEAST_EXPLAINED: f64 = 0.1;

/// Share of the spread of the delays that a queue with the drain rate `rate_bps` explains (Lindley's
/// recursion), at most 1; below 0 if it is worse than no queue.
fn explained(passages: &Passages, rate_bps: f64, idle_wait_s: f64) -> f64 {
    let mut waits: Vec<f64> = passages
        .wait_s
        .iter()
        .copied()
        .filter(|wait| !wait.is_nan())
        .collect();
    let middle = quantile_of_unsorted(&mut waits, 0.5);
    let (mut hop, mut spread, mut left) = (Server::IDLE, 0.0, 0.0);
    for index in 0..passages.len() {
        let (arrival_s, wait_s) = (passages.arrival_s[index], passages.wait_s[index]);
        if wait_s.is_nan() {
            continue;
        }
        let queued_s = hop.start_s(arrival_s) - arrival_s;
        spread += (wait_s - middle).abs();
        left += (wait_s - idle_wait_s - queued_s).abs();
        hop.serve(arrival_s, f64::from(passages.bytes[index]) * 8.0 / rate_bps);
    }
    1.0 - left / spread.max(1e-12)
}

/// Bytes divided by time for all gaps together, bit/s.
fn mean_rate(gaps: &[Gap]) -> Option<f64> {
    let bytes: f64 = gaps.iter().map(|gap| gap.bytes).sum();
    let seconds: f64 = gaps.iter().map(|gap| gap.seconds).sum();
    (gaps.len() >= FEWEST_GAPS && seconds > 0.0).then(|| bytes * 8.0 / seconds)
}

/// Bit/s if service times of full packets agree and no other traffic was served.
fn steady_rate(gaps: &[Gap]) -> Option<f64> {
    let (rate_bps, unseen_share) = service_rate(gaps)?;
    (unseen_share == 0.0).then_some(rate_bps.value)
}

/// Seconds that each byte of a full packet took, sorted.
fn sorted_per_byte(gaps: &[Gap]) -> Vec<f64> {
    let mut per_byte: Vec<f64> = full_gaps(gaps).map(|gap| gap.seconds / gap.bytes).collect();
    per_byte.sort_by(f64::total_cmp);
    per_byte
}

/// Median and spread of the delays of packets that find the hop idle, if it drains at `rate_bps`.
fn idle_waits(passages: &Passages, rate_bps: f64) -> Option<(f64, f64)> {
    let mut hop = Server::IDLE;
    let mut idle = Vec::new();
    for index in 0..passages.len() {
        let (arrival_s, wait_s) = (passages.arrival_s[index], passages.wait_s[index]);
        if wait_s.is_nan() {
            continue;
        }
        let service_s = f64::from(passages.bytes[index]) * 8.0 / rate_bps;
        // a little more than the service time: the rate is not known exactly
        if arrival_s > hop.free_s + 2.0 * service_s {
            idle.push(wait_s);
        }
        hop.serve(arrival_s, service_s);
    }
    idle.sort_by(f64::total_cmp);
    (idle.len() >= 5).then(|| {
        (
            quantile(&idle, 0.5),
            quantile(&idle, 0.9) - quantile(&idle, 0.1),
        )
    })
}

/// Packets over which delays are smoothed, so that the jitter of one timestamp does not decide whether a
/// packet was queued.
const SMOOTHED: usize = 15;
/// Packets in a block of a run; shorter runs are left out.
const BLOCK: usize = 100;
const SHORTEST_BLOCK: usize = 40;

/// The rate from blocks of packets that were queued: the least-squares slope of departures over bytes in each
/// block, so that the jitter of single timestamps averages out; the median over the blocks, since a hop may
/// pause occasionally.
fn rate_of_runs(passages: &Passages, least_s: f64) -> Option<Interval> {
    let seen: Vec<usize> = (0..passages.len())
        .filter(|index| !passages.wait_s[*index].is_nan())
        .collect();
    let waits: Vec<f64> = seen.iter().map(|index| passages.wait_s[*index]).collect();
    let queued = running_medians_exceed(&waits, least_s);
    let mut rates: Vec<f64> = Vec::new();
    let mut from = 0;
    for run in queued.chunk_by(|a, b| a == b) {
        let run_of = &seen[from..from + run.len()];
        from += run.len();
        if run[0] {
            let blocks = run_of
                .chunks(BLOCK)
                .filter(|block| block.len() >= SHORTEST_BLOCK);
            rates.extend(blocks.filter_map(|block| rate_of_block(passages, block)));
        }
    }
    rates.sort_by(f64::total_cmp);
    let rate = rates.get(rates.len() / 2).copied()?;
    // the error of a median is 1.25 times that of a mean; quartiles lie 0.67 standard deviations out
    let quartiles = quantile(&rates, 0.75) - quantile(&rates, 0.25);
    let half = (1.96 * 1.25 * quartiles / 1.35 / (rates.len() as f64).sqrt()).max(0.005 * rate);
    Some(Interval {
        value: rate,
        low: Some((rate - half).max(0.0)),
        high: Some(rate + half),
    })
}

/// True if the median around each value exceeds `least`: that is, if at most as many values do not exceed it
/// as lie below a median, so that the median itself is not needed.
fn running_medians_exceed(values: &[f64], least: f64) -> Vec<bool> {
    let around = |position: usize| {
        let from = position.saturating_sub(SMOOTHED / 2);
        from..(from + SMOOTHED).min(values.len())
    };
    let mut window = 0..0;
    let mut not_above = 0;
    (0..values.len())
        .map(|position| {
            let next = around(position);
            let is_not_above = |value: &&f64| **value <= least;
            not_above += values[window.end..next.end]
                .iter()
                .filter(is_not_above)
                .count();
            not_above -= values[window.start..next.start]
                .iter()
                .filter(is_not_above)
                .count();
            window = next;
            not_above <= window.len() / 2
        })
        .collect()
}

/// Bit/s over a block of packets; a packet's departure corresponds to the bytes up to its own end.
fn rate_of_block(passages: &Passages, block: &[usize]) -> Option<f64> {
    let mut bytes = 0.0;
    let points: Vec<(f64, f64)> = block
        .iter()
        .map(|&index| {
            bytes += f64::from(passages.bytes[index]);
            (bytes, passages.departure_s(index))
        })
        .collect();
    let count = points.len() as f64;
    let sum = points
        .iter()
        .fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
    let mean = (sum.0 / count, sum.1 / count);
    let (product, square) = points.iter().fold((0.0, 0.0), |sums, point| {
        let (x, y) = (point.0 - mean.0, point.1 - mean.1);
        (sums.0 + x * y, sums.1 + x * x)
    });
    (product > 0.0).then(|| 8.0 * square / product)
}

/// Rate with its interval, and the share of the service that unseen packets took, if service times of full
/// packets agree: their mode is the service time, and longer gaps include packets of other traffic. `None` if
/// they do not agree (timestamp jitter, interrupt coalescing) and only whole runs are usable.
fn service_rate(gaps: &[Gap]) -> Option<(Interval, f64)> {
    let mean = mean_rate(gaps)?;
    let per_byte = sorted_per_byte(gaps);
    let mode = mode(&per_byte).filter(Mode::is_narrow)?;
    let rate = 8.0 / mode.center;
    let longer = 1.0 - mean / rate;
    let earlier = per_byte.partition_point(|gap| *gap < 0.9 * mode.center);
    let unseen = longer > UNSEEN && longer < MOST_UNSEEN && earlier * 20 < per_byte.len();
    if longer.abs() > UNSEEN && !unseen {
        return None;
    }
    // timestamps in whole microseconds make two values equally dense: the median is that of most packets
    let rate = match unseen {
        true => rate,
        false => 8.0 / quantile(&per_byte, 0.5),
    };
    let error = (mode.width / mode.center).max(if unseen { 0.005 } else { longer.abs() });
    let interval = Interval {
        value: rate,
        low: Some(rate * (1.0 - error)),
        high: Some(rate * (1.0 + error)),
    };
    Some((interval, if unseen { longer } else { 0.0 }))
}

fn full_gaps(gaps: &[Gap]) -> impl Iterator<Item = &Gap> {
    let largest = gaps.iter().map(|gap| gap.bytes).fold(0.0, f64::max);
    gaps.iter().filter(move |gap| gap.bytes > 0.9 * largest)
}

/// Bytes divided by time over all gaps, with an interval from their variation: twenty interleaved blocks.
fn rate_over_gaps(gaps: &[Gap]) -> Interval {
    const BLOCKS: usize = 20;
    let mut blocks = [(0.0f64, 0.0f64); BLOCKS];
    let per_block = gaps.len().div_ceil(BLOCKS).min(50);
    for (index, gap) in gaps.iter().enumerate() {
        let block = &mut blocks[(index / per_block.max(1)) % BLOCKS];
        block.0 += gap.bytes;
        block.1 += gap.seconds;
    }
    let mean_bps = mean_rate(gaps).unwrap_or(0.0);
    let rates: Vec<f64> = blocks
        .iter()
        .filter(|(_, seconds)| *seconds > 0.0)
        .map(|(bytes, seconds)| bytes * 8.0 / seconds)
        .collect();
    let variance = rates
        .iter()
        .map(|rate| (rate - mean_bps).powi(2))
        .sum::<f64>()
        / rates.len().saturating_sub(1).max(1) as f64;
    // student's t for 19 degrees of freedom
    let half = 2.09 * (variance / rates.len().max(1) as f64).sqrt();
    Interval {
        value: mean_bps,
        low: Some((mean_bps - half).max(0.0)),
        high: Some(mean_bps + half),
    }
}

struct Mode {
    center: f64,
    width: f64,
}

impl Mode {
    fn is_narrow(&self) -> bool {
        self.width < CONCENTRATED * self.center
    }
}

/// The densest part of sorted values: the shortest interval with a quarter of them (Grübel 1988, "the length
/// of the shorth", there with one half). Of several equally dense ones that of the smallest values: gaps that
/// include other packets are longer.
fn mode(sorted: &[f64]) -> Option<Mode> {
    if sorted.len() < FEWEST_GAPS {
        return None;
    }
    let quarter = (sorted.len() / 4).max(5);
    let interval = |from: usize| Mode {
        center: sorted[from + quarter / 2],
        width: sorted[from + quarter - 1] - sorted[from],
    };
    let all = || (0..=sorted.len() - quarter).map(interval);
    let narrowest = |a: &Mode, b: &Mode| a.width.total_cmp(&b.width);
    match all().find(Mode::is_narrow) {
        Some(first) => all()
            .filter(|mode| mode.center < first.center * (1.0 + 2.0 * CONCENTRATED))
            .min_by(narrowest),
        None => all().min_by(narrowest),
    }
}

/// Estimate the bytes that the hop counts on top of each packet: small packets take longer than their share
/// of the bytes.
///
/// With `s` and `S` the service times of a small packet of `b` bytes and of a full one of `B`, the overhead `o`
/// satisfies `s / (b + o) = S / (B + o)`.
fn overhead(gaps: &[Gap]) -> Option<Interval> {
    let largest = gaps.iter().map(|gap| gap.bytes).fold(0.0, f64::max);
    let full = mode(&sorted_per_byte(gaps)).filter(Mode::is_narrow)?;
    let full_s = full.center * largest;
    let small = |gap: &&Gap| {
        gap.bytes < SMALL * largest && gap.seconds < SMALL * full_s + full.width * largest
    };
    let mut found: Vec<f64> = gaps
        .iter()
        .filter(small)
        .map(|gap| (gap.seconds * largest - full_s * gap.bytes) / (full_s - gap.seconds))
        .filter(|overhead| overhead.is_finite() && overhead.abs() < 200.0)
        .collect();
    if found.len() < FEWEST_SMALL {
        return None;
    }
    found.sort_by(f64::total_cmp);
    // the error of a full packet's service time counts for each byte of a small one
    let small_bytes: f64 = gaps.iter().filter(small).map(|gap| gap.bytes).sum();
    let small_count = gaps.iter().filter(small).count().max(1) as f64;
    let unsure = small_bytes / small_count * full.width / full.center / 2.0;
    // the median's interval from order statistics: half the count, plus or minus a standard deviation's worth
    let half = (found.len() as f64 / 2.0 - 0.98 * (found.len() as f64).sqrt()).max(0.0) as usize;
    Some(Interval {
        value: quantile(&found, 0.5),
        low: Some(found[half] - unsure),
        high: Some(found[found.len() - 1 - half] + unsure),
    })
}

/// Like [`quantile`], without sorting: the values are left in another order.
fn quantile_of_unsorted(values: &mut [f64], share: f64) -> f64 {
    let last = values.len().saturating_sub(1);
    let place = (share * last as f64).round() as usize;
    if place >= values.len() {
        return 0.0;
    }
    *values.select_nth_unstable_by(place, f64::total_cmp).1
}

/// Quantile of sorted values by the nearest rank.
pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted
        .get((share * last as f64).round() as usize)
        .copied()
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Full packets served at 12 Mbit/s with 15 bytes on top, and small ones among them; the service times of
    /// full ones differ by `spread` in total.
    fn gaps(small: usize, spread: f64) -> Vec<Gap> {
        let full = (0..200).map(|number| Gap {
            seconds: 1.01e-3 * (1.0 + spread * (f64::from(number) / 199.0 - 0.5)),
            bytes: 1_500.0,
        });
        let small = (0..small).map(|_| Gap {
            seconds: 415.0 / 1.5e6,
            bytes: 400.0,
        });
        full.chain(small).collect()
    }

    #[test]
    fn few_small_packets_give_no_overhead() {
        assert_eq!(overhead(&gaps(5, 0.0)), None);
        let found = overhead(&gaps(6, 0.0)).unwrap();
        assert!((found.value - 15.0).abs() < 0.1, "{found:?}");
        assert!(found.high.unwrap() - found.low.unwrap() < 0.1, "{found:?}");
    }

    #[test]
    fn service_times_of_full_packets_that_differ_leave_the_overhead_open() {
        // a quarter of them lies within a hundredth, which is two bytes of a small packet to either side
        let found = overhead(&gaps(20, 0.04)).unwrap();
        let width = found.high.unwrap() - found.low.unwrap();
        assert!((3.5..4.5).contains(&width), "{found:?}");
    }
}
