//! Losses before the capture point: when the lost packets would have arrived there, and what the packets that
//! did arrive show of the element that dropped them.

use std::collections::VecDeque;

use whydrop_path::fit::{BucketFit, Seen, Trace};
use whydrop_tcp::{Flow, SegmentFlags};

use crate::thresholds::{
    AT_ONCE_SHARE, HANDED_OVER_S, HOLES_NATS, LEFT_BY_OTHERS, LEFT_BY_QUEUE, SEEN_BUCKET_PACKETS,
};

/// Arrival time of each segment of a flow at the capture point in nanoseconds; for one lost before it, the
/// time at which it would have arrived. A lost segment is placed between its neighbours, as close behind the
/// one before it as the sender spaced others at that time: the missing end of a burst would have come with
/// the burst, not in the pause after it.
pub fn arrivals_ns(flow: &Flow) -> Vec<i64> {
    let mut arrivals_ns: Vec<i64> = Vec::with_capacity(flow.segments.len());
    let mut spacings_ns = [i64::MAX; SPACINGS];
    let mut missing = 0;
    for segment in &flow.segments {
        let never_arrived = segment.flags.has(SegmentFlags::INFERRED) && segment.is_lost();
        if never_arrived {
            missing += 1;
            arrivals_ns.push(segment.time_ns);
            continue;
        }
        let seen = arrivals_ns.len() - missing;
        if let Some(last_ns) = seen.checked_sub(1).map(|last| arrivals_ns[last]) {
            let apart_ns = (segment.time_ns - last_ns) / (missing as i64 + 1);
            spacings_ns.rotate_left(1);
            spacings_ns[SPACINGS - 1] = apart_ns;
            let close_ns = spacings_ns.iter().copied().min().unwrap_or(apart_ns);
            for (number, arrival_ns) in (1..).zip(&mut arrivals_ns[seen..]) {
                *arrival_ns = last_ns + number * close_ns;
            }
        }
        missing = 0;
        arrivals_ns.push(segment.time_ns);
    }
    arrivals_ns
}

/// Number of packets that give the current spacing of a sender.
const SPACINGS: usize = 4;

/// Bytes that arrived within a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    pub bytes: f64,
    pub over_s: f64,
}

/// The burst that emptied a bucket at once, if there was one: the bytes that arrived in the time in which the
/// bucket fills exceed the refill by a good part of the bucket, and by more than links and hosts pass on
/// together. No queue that drains at the bucket's rate lets that through.
pub fn spent_at_once(trace: &Trace, fit: &BucketFit) -> Option<Burst> {
    let rate_bytes_per_s = fit.rate_bps.value / 8.0;
    let fills_s = fit.limit_bytes.value / rate_bytes_per_s;
    let (burst, beyond_bytes) = largest_burst(trace, rate_bytes_per_s, fills_s)?;
    let least_bytes = (SEEN_BUCKET_PACKETS * fit.packet_bytes)
        .max(AT_ONCE_SHARE * fit.limit_bytes.value)
        .max(HANDED_OVER_S * rate_bytes_per_s);
    (beyond_bytes >= least_bytes).then_some(burst)
}

/// The interval of at most `within_s` in which the most bytes arrived beyond those that `rate_bytes_per_s`
/// lets through, and that excess in bytes. Packets with one timestamp arrived at unknown times since the
/// timestamp before it.
fn largest_burst(trace: &Trace, rate_bytes_per_s: f64, within_s: f64) -> Option<(Burst, f64)> {
    // sorted by rising lead
    let mut starts: VecDeque<Arrived> = VecDeque::new();
    let mut largest = None::<(Burst, f64)>;
    for end in stamps(trace, rate_bytes_per_s) {
        while starts
            .front()
            .is_some_and(|start| end.time_s - start.time_s > within_s)
        {
            starts.pop_front();
        }
        if let Some(start) = starts.front() {
            let beyond_bytes = end.lead_bytes - start.lead_bytes;
            if largest.is_none_or(|(_, most)| beyond_bytes > most) {
                let burst = Burst {
                    bytes: end.bytes - start.bytes,
                    over_s: end.time_s - start.time_s,
                };
                largest = Some((burst, beyond_bytes));
            }
        }
        while starts
            .back()
            .is_some_and(|start| start.lead_bytes >= end.lead_bytes)
        {
            starts.pop_back();
        }
        starts.push_back(end);
    }
    largest
}

/// Bytes that arrived up to a timestamp, and their lead over a rate.
#[derive(Debug, Clone, Copy)]
struct Arrived {
    time_s: f64,
    bytes: f64,
    lead_bytes: f64,
}

/// A row for each timestamp of packets that arrived.
fn stamps(trace: &Trace, rate_bytes_per_s: f64) -> Vec<Arrived> {
    let mut rows: Vec<Arrived> = Vec::new();
    let mut bytes = 0.0;
    for (index, _) in (trace.outcome.iter().enumerate()).filter(|(_, seen)| **seen != Seen::Lost) {
        let time_s = trace.time_s[index];
        bytes += f64::from(trace.bytes[index]);
        let row = Arrived {
            time_s,
            bytes,
            lead_bytes: bytes - rate_bytes_per_s * time_s,
        };
        match rows.last_mut() {
            Some(last) if last.time_s >= time_s => *last = row,
            _ => rows.push(row),
        }
    }
    rows
}

/// Spacing of the packets around losses before the capture point.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Holes {
    /// Runs of losses with usable spacing around them.
    pub runs: usize,
    /// Runs among them that left the time of the lost packets empty.
    pub empty: usize,
}

impl Holes {
    /// How much more likely this number is if a busy link closes the gaps, in nats, than if any share were
    /// equally likely, as where other traffic may have filled them.
    pub fn closed_nats(&self) -> f64 {
        self.nats(LEFT_BY_QUEUE)
    }

    /// The same if nothing closes the gaps but packets are spaced unevenly.
    pub fn left_nats(&self) -> f64 {
        self.nats(LEFT_BY_OTHERS)
    }

    /// True if the gaps are clearly left empty: no full or managed queue dropped these packets, unless other
    /// traffic filled their places.
    pub fn are_left(&self) -> bool {
        self.left_nats() - self.closed_nats() > HOLES_NATS
    }

    /// True if the gaps are clearly closed.
    pub fn are_closed(&self) -> bool {
        self.closed_nats() - self.left_nats() > HOLES_NATS
    }

    /// Beta-binomial log-likelihood of a share distributed as Beta(a, b), relative to a uniform share.
    fn nats(&self, (a, b): (u64, u64)) -> f64 {
        let (empty, closed) = (self.empty as u64, (self.runs - self.empty) as u64);
        ln_beta(a + empty, b + closed) - ln_beta(a, b) - ln_beta(1 + empty, 1 + closed)
    }
}

/// The logarithm of the beta function of whole numbers.
fn ln_beta(a: u64, b: u64) -> f64 {
    let ln_factorial = |n: u64| (2..=n).map(|factor| (factor as f64).ln()).sum::<f64>();
    ln_factorial(a - 1) + ln_factorial(b - 1) - ln_factorial(a + b - 1)
}

/// Packets on each side of a run of losses that give the usual spacing.
const AROUND: usize = 8;

/// Looks for gaps where packets are missing. A busy link sends the contents of its queue without a pause,
/// whatever was dropped before the queue; a packet lost by chance, or by a policer, leaves its place empty.
pub fn holes(trace: &Trace) -> Holes {
    let arrived: Vec<usize> = (0..trace.len())
        .filter(|index| trace.outcome[*index] != Seen::Lost)
        .collect();
    // time per byte of each packet since the one before it, and the number of packets lost between them
    let per_byte = |at: usize| {
        let (before, index) = (arrived[at - 1], arrived[at]);
        (trace.time_s[index] - trace.time_s[before]) / f64::from(trace.bytes[index]).max(1.0)
    };
    let lost = |at: usize| arrived[at] - arrived[at - 1] - 1;
    let mut holes = Holes { runs: 0, empty: 0 };
    for at in (AROUND + 1)..arrived.len().saturating_sub(AROUND) {
        if lost(at) == 0 {
            continue;
        }
        let mut around: Vec<f64> = (at - AROUND..=at + AROUND)
            .filter(|near| *near != at && lost(*near) == 0)
            .map(per_byte)
            .collect();
        if around.len() < AROUND {
            continue;
        }
        around.sort_unstable_by(f64::total_cmp);
        let usual = around[around.len() / 2];
        if usual <= 0.0 {
            continue;
        }
        holes.runs += 1;
        let expected = (lost(at) as f64 + 1.0).sqrt();
        holes.empty += usize::from(per_byte(at) > expected * usual);
    }
    holes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, delivered, flow, lost};
    use whydrop_path::fit::TracePacket;

    fn seen(outcome: Seen, time_ns: i64) -> TracePacket {
        TracePacket {
            time_ns,
            bytes: 1000,
            outcome,
            delay_s: None,
        }
    }

    fn passed(times_ns: impl Iterator<Item = i64>) -> Trace {
        Trace::new(
            times_ns
                .map(|time_ns| seen(Seen::Passed, time_ns))
                .collect(),
        )
    }

    #[test]
    fn the_missing_end_of_a_burst_is_placed_with_the_burst() {
        let missing = |time_ns| {
            let mut segment = lost(time_ns);
            segment.flags.set(SegmentFlags::INFERRED);
            segment
        };
        // three packets a millisecond apart, two that never arrived, and another after a pause
        let flow = flow(
            1,
            vec![
                delivered(0, 10),
                delivered(MS, 10),
                delivered(2 * MS, 10),
                missing(50 * MS),
                missing(50 * MS),
                delivered(50 * MS, 10),
            ],
        );
        let arrivals_ms: Vec<i64> = arrivals_ns(&flow).iter().map(|ns| ns / MS).collect();
        assert_eq!(arrivals_ms, [0, 1, 2, 3, 4, 50]);
    }

    #[test]
    fn a_burst_is_the_excess_over_the_rate() {
        // a packet of 1000 bytes every 1 ms; after 50 ms 20 of them every 50 us, 19 of those after the first
        let steady = (0..50).map(|number| number * MS);
        let burst = (0..20).map(|number| 50 * MS + number * 50_000);
        let (burst, beyond_bytes) =
            largest_burst(&passed(steady.clone().chain(burst)), 1e6, 20e-3).unwrap();
        assert!(
            (18_000.0..=18_100.0).contains(&beyond_bytes),
            "{beyond_bytes} bytes"
        );
        assert!(burst.over_s < 20e-3);
        // nothing arrives faster than this rate, however long the interval
        let (_, beyond_bytes) = largest_burst(&passed(steady), 1e6, 20e-3).unwrap();
        assert!(beyond_bytes.abs() < 1.0, "{beyond_bytes} bytes");
    }

    #[test]
    fn packets_delivered_together_are_no_burst() {
        // ten at a time every 10 ms with one timestamp: the rate of a packet every millisecond
        let batches = (0..50).flat_map(|batch| (0..10).map(move |_| batch * 10 * MS));
        let (_, beyond_bytes) = largest_burst(&passed(batches), 1e6, 20e-3).unwrap();
        assert!(beyond_bytes.abs() < 1.0, "{beyond_bytes} bytes");
    }

    /// A packet every millisecond, every twentieth of which is lost; the others keep their times, or close
    /// up.
    fn each_twentieth_lost(closes_up: bool) -> Trace {
        let (mut late_ns, mut rows) = (0, Vec::new());
        for number in 0..400 {
            let time_ns = number * MS - late_ns;
            let is_lost = number % 20 == 10;
            rows.push(seen(
                if is_lost { Seen::Lost } else { Seen::Passed },
                time_ns,
            ));
            if is_lost && closes_up {
                late_ns += MS;
            }
        }
        Trace::new(rows)
    }

    #[test]
    fn a_busy_line_closes_the_gaps_of_earlier_losses() {
        let closed = holes(&each_twentieth_lost(true));
        assert_eq!((closed.runs, closed.empty), (20, 0));
        assert!(closed.are_closed() && !closed.are_left());
        let left = holes(&each_twentieth_lost(false));
        assert_eq!((left.runs, left.empty), (20, 20));
        assert!(left.are_left() && !left.are_closed());
    }

    #[test]
    fn a_single_loss_does_not_show_whether_gaps_are_closed() {
        for empty in [0, 1] {
            let holes = Holes { runs: 1, empty };
            assert!(!holes.are_left() && !holes.are_closed());
        }
        assert_eq!(Holes::default().left_nats(), 0.0);
    }
}
