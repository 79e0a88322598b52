//! Trains of which the far end reports only the number of packets received in each second, as servers of
//! iperf3 and nuttcp do.
//!
//! A train faster than the hop's rate fills its queue or empties its bucket. A queue delivers at one rate
//! from the first packet on, and its contents arrive after the last packet was sent. A bucket passes its
//! contents at once, then packets at its rate, and nothing arrives afterwards. A host that stalls for a while
//! changes neither.

use whydrop_verdict::{Cause, Quantity};

use super::limit::{FEWEST_INSIDE, Full, of_sizes};
use super::trains::basis_of_rates;
use super::{Bucket, Bursts, Limit};
use crate::document::Verdict;
use crate::observe::ByteBasis;
use crate::quantities::CLOCK_ERROR;

/// One train.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedTrain {
    pub ip_bytes: u32,
    pub sent: u64,
    pub received: u64,
    /// Seconds from the first packet sent to the last, and their uncertainty.
    pub sending_s: f64,
    pub sending_error_s: f64,
    /// Seconds from the start of the first interval to the first packet, at most.
    pub late_s: f64,
    /// Packets received, in consecutive intervals from the first packet on: seconds, packets.
    pub intervals: Vec<(f64, u64)>,
}

/// Fewer losses may be chance.
const FEWEST_LOSSES: u64 = 8;

/// The findings of one train.
struct Measured {
    ip_bytes: u32,
    losses: u64,
    /// Packets per second, with the 95 % interval as a share of it.
    rate_pps: f64,
    rate_error: f64,
    /// Packets received ahead of the rate.
    ahead: Quantity,
    /// Packets received after the last one was sent.
    after: Quantity,
}

impl CountedTrain {
    fn measured(&self) -> Option<Measured> {
        let losses = self.sent.checked_sub(self.received)?;
        let (rate_pps, rate_error) = self.rate()?;
        if losses < FEWEST_LOSSES {
            return None;
        }
        let (early_s, early) = total(&self.intervals[..self.intervals.len() / 2]);
        let late = rate_pps * self.late_s;
        let ahead = early - rate_pps * early_s + late / 2.0;
        let ahead_error = 1.0 + rate_pps * early_s * rate_error + late / 2.0;
        let (counted_s, counted) = total(&self.intervals[..self.whole_while_sending()]);
        let rest_s = self.sending_s - counted_s;
        let after = self.received as f64 - counted - rate_pps * rest_s - late / 2.0;
        let after_error =
            1.0 + rate_pps * (rest_s * rate_error + self.sending_error_s) + late / 2.0;
        let within = |value: f64, error: f64| Quantity {
            value,
            low: Some((value - error).max(0.0)),
            high: Some((value + error).max(0.0)),
        };
        Some(Measured {
            ip_bytes: self.ip_bytes,
            losses,
            rate_pps,
            rate_error,
            ahead: within(ahead, ahead_error),
            after: within(after, after_error),
        })
    }

    /// Intervals that ended before the last packet was sent.
    fn whole_while_sending(&self) -> usize {
        let ends_s = self.intervals.iter().scan(0.0, |sum, (seconds, _)| {
            *sum += seconds;
            Some(*sum)
        });
        ends_s.take_while(|end_s| *end_s <= self.sending_s).count()
    }

    /// The rate in packets per second after the first interval, in which a bucket may be emptied, and its 95
    /// % interval as a share of it.
    fn rate(&self) -> Option<(f64, f64)> {
        let steady = self.intervals.get(1..)?;
        let rate = |(seconds, packets): &(f64, u64)| *packets as f64 / seconds;
        let middle = median(steady.iter().map(rate))?;
        let deviation = 1.4826 * median(steady.iter().map(|one| (rate(one) - middle).abs()))?;
        // an interval in which a host stalled does not count: beyond three deviations, and beyond the
        // rounding to whole packets
        let usual =
            |one: &&(f64, u64)| (rate(one) - middle).abs() <= (3.0 * deviation).max(1.5 / one.0);
        let kept: Vec<(f64, u64)> = steady.iter().filter(usual).copied().collect();
        let (seconds, packets) = total(&kept);
        let rate_pps = packets / seconds;
        let spread = 1.96 * deviation / rate_pps / (kept.len() as f64).sqrt();
        // one packet more or less at each end, or the variation between intervals
        (rate_pps > 0.0).then(|| (rate_pps, spread.max(1.0 / packets) + CLOCK_ERROR))
    }
}

/// Seconds and packets of all intervals.
fn total(intervals: &[(f64, u64)]) -> (f64, f64) {
    intervals
        .iter()
        .fold((0.0, 0.0), |sum, (seconds, packets)| {
            (sum.0 + seconds, sum.1 + *packets as f64)
        })
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some((sorted[low] + sorted[high]) / 2.0)
}

impl Measured {
    fn rate_bps(&self) -> Quantity {
        let value = self.rate_pps * 8.0 * f64::from(self.ip_bytes);
        Quantity {
            value,
            low: Some(value * (1.0 - self.rate_error)),
            high: Some(value * (1.0 + self.rate_error)),
        }
    }

    fn bucket(&self) -> Bucket {
        Bucket {
            rate_bps: self.rate_bps(),
            burst_bytes: times(self.ahead, f64::from(self.ip_bytes)),
        }
    }

    /// True for a bucket, which passes packets ahead of its rate and none afterwards; false for a queue,
    /// which does the opposite; `None` if neither is clear by a factor of two.
    fn is_bucket(&self) -> Option<bool> {
        let clear = |one: Quantity, other: Quantity| {
            one.low.is_some_and(|low| low > FEWEST_INSIDE)
                && other.high.is_some_and(|high| high < one.value / 2.0)
        };
        match (clear(self.ahead, self.after), clear(self.after, self.ahead)) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        }
    }
}

/// Explains what happened to trains. `None` if nothing of them arrived.
pub fn explain_counted_trains(trains: &[CountedTrain]) -> Option<Bursts> {
    let sum = |of: fn(&CountedTrain) -> u64| trains.iter().map(of).sum::<u64>();
    let (sent, received) = (sum(|train| train.sent), sum(|train| train.received));
    if received == 0 {
        return None;
    }
    let measured = sharpest_by_size(trains);
    let large = measured.last();
    let drain_rate_bps = large.map(Measured::rate_bps);
    let basis = measured.first().zip(large).and_then(|(small, large)| {
        basis_of_rates(
            (small.ip_bytes, small.rate_bps()),
            (large.ip_bytes, large.rate_bps()),
        )
    });
    let buckets: Vec<Option<bool>> = measured.iter().map(Measured::is_bucket).collect();
    let all = |wanted: bool| !measured.is_empty() && buckets.iter().all(|one| *one == Some(wanted));
    let limit = all(false).then(|| queue(&measured, basis)).flatten();
    let lost = sent.saturating_sub(received);
    let contents = large.map_or(0.0, |large| large.after.value.max(0.0));
    let line_bps = |train: &CountedTrain| {
        (train.sending_s > 0.0)
            .then(|| train.sent as f64 * 8.0 * f64::from(train.ip_bytes) / train.sending_s)
    };
    Some(Bursts {
        packets: sent as usize,
        lost: lost as usize,
        marked: 0,
        line_rate_bps: trains.iter().filter_map(line_bps).max_by(f64::total_cmp),
        arrival_rate_bps: drain_rate_bps.map(|rate| rate.value),
        drain_rate_bps,
        burst_bytes: None,
        bucket: large.filter(|_| all(true)).map(Measured::bucket),
        longest_wait_s: large.map_or(0.0, |large| contents / large.rate_pps),
        most_packets: contents,
        most_bytes: large.map_or(0.0, |large| contents * f64::from(large.ip_bytes)),
        lost_found_packets: limit.as_ref().map(|limit| limit.packets.value),
        passed_with_more: 0,
        verdict: (lost > 0 && limit.is_none())
            .then(|| verdict(large.filter(|_| all(true)), basis, lost)),
        byte_basis: basis.map(ByteBasis::name),
        limit,
    })
}

/// The train with the most precise rate of each size, the smallest size first.
fn sharpest_by_size(trains: &[CountedTrain]) -> Vec<Measured> {
    let mut measured: Vec<Measured> = trains.iter().filter_map(CountedTrain::measured).collect();
    measured
        .sort_by(|a, b| (a.ip_bytes.cmp(&b.ip_bytes)).then(a.rate_error.total_cmp(&b.rate_error)));
    measured.dedup_by_key(|one| one.ip_bytes);
    measured
}

fn queue(measured: &[Measured], basis: Option<ByteBasis>) -> Option<Limit> {
    let full = |one: &Measured| Full {
        ip_bytes: f64::from(one.ip_bytes),
        packets: one.after,
        losses: one.losses as usize,
        misfits: 0,
        passed_with_more: 0,
    };
    of_sizes(measured.iter().map(full).collect(), basis)
}

fn times(one: Quantity, factor: f64) -> Quantity {
    Quantity {
        value: one.value * factor,
        low: one.low.map(|low| low * factor),
        high: one.high.map(|high| high * factor),
    }
}

/// A policer if the large packets show one; otherwise an unknown cause.
fn verdict(policer: Option<&Measured>, basis: Option<ByteBasis>, lost: u64) -> Verdict {
    let mut found = Verdict {
        lost,
        ..Verdict::new(Cause::Unknown, 0.5)
    };
    if let Some(policer) = policer {
        let counted = f64::from(policer.ip_bytes + basis.map_or(0, ByteBasis::overhead_bytes));
        let rate_bps = times(policer.rate_bps(), counted / f64::from(policer.ip_bytes));
        found.cause = Cause::Policer;
        found.confidence = 0.9;
        found.explained = 1.0;
        found.byte_basis = basis.map(|basis| basis.name().to_owned());
        found.parameters = [
            ("rate_bps".to_owned(), rate_bps),
            ("burst_bytes".to_owned(), times(policer.ahead, counted)),
        ]
        .into();
    }
    found
}
