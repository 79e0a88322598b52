//! A trace condensed for searching: packets that pass consecutively between two losses become one row.
//!
//! A search follows the virtual queue some hundred times. Between losses only the amount of traffic and its
//! time matter, as long as the packets arrive evenly; near a loss every packet counts.

use std::ops::Range;

use super::trace::{Seen, Trace};

/// Margins, in typical packets, of the classes in which predictions are counted: `(queue with the packet -
/// limit) / packet`.
pub(super) const MARGINS: [f64; 4] = [-1.0, -0.25, 0.25, 1.0];
/// Number of classes that [`MARGINS`] makes.
pub const CLASSES: usize = MARGINS.len() + 1;

/// A rate (bytes/s) and a limit (bytes).
pub type RateAndLimit = (f64, f64);

/// Packets that arrived evenly, all with one outcome.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Time from the end of the row before to the first packet of this one, seconds.
    pub gap_s: f64,
    /// Time from the first to the last packet, seconds.
    pub span_s: f64,
    /// Bytes of all its packets.
    pub bytes: f64,
    /// Bytes of the last packet.
    pub last_bytes: f64,
    pub packets: u16,
    pub outcome: Seen,
}

impl Row {
    /// Packets of a trace; the one before the first arrived at `last_s`.
    #[inline(always)]
    fn of(trace: &Trace, packets: Range<usize>, mut last_s: f64) -> Self {
        let (first, last) = (packets.start, packets.end - 1);
        let mut gap_s = |time_s: f64| (time_s - std::mem::replace(&mut last_s, time_s)).max(0.0);
        let to_first_s = gap_s(trace.time_s[first]);
        let later_s = trace.time_s[first + 1..packets.end].iter();
        let bytes = trace.bytes[packets.clone()].iter();
        Self {
            gap_s: to_first_s,
            span_s: later_s.fold(0.0, |span_s, time_s| span_s + gap_s(*time_s)),
            bytes: bytes.fold(0.0, |sum, bytes| sum + f64::from(*bytes)),
            last_bytes: f64::from(trace.bytes[last]),
            packets: packets.len() as u16,
            outcome: trace.outcome[first],
        }
    }

    /// Time until its first packet, and from the first to the last.
    #[inline(always)]
    pub(super) fn times_s(&self) -> (f64, f64) {
        (self.gap_s, self.span_s)
    }

    /// Bytes of all its packets, and of the last.
    #[inline(always)]
    pub(super) fn amounts(&self) -> (f64, f64) {
        (self.bytes, self.last_bytes)
    }
}

/// Rows, and further properties of their trace that a fit needs.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    pub rows: Vec<Row>,
    /// Every row is one packet.
    pub(super) are_single: bool,
    pub lost: usize,
    pub passed: usize,
    pub passed_bytes: f64,
    pub duration_s: f64,
    pub largest_bytes: f64,
    pub packet_bytes: f64,
    /// Margins relative to the limit, bytes, of the classes in which predictions are counted.
    pub(super) margins_bytes: [f64; MARGINS.len()],
    /// Rate (bytes/s) and limit of a second bucket, if each packet must find room in both.
    pub(super) second_bucket: Option<RateAndLimit>,
}

/// Packets that pass just before and just after a loss stay single.
const SINGLE_NEAR_LOSS: usize = 3;
/// A gap this many times the mean of the gaps before it ends a row: the packets no longer arrive evenly.
const UNEVEN: f64 = 4.0;
/// Tolerance for a packet that just fits, after floating-point sums.
const ROUNDING_BYTES: f64 = 1e-6;
/// Weight of the newest gap in that mean.
const NEWEST_GAP: f64 = 1.0 / 16.0;

impl Rows {
    /// Condenses packets `from..to` of a trace, at most `most` of them into one row.
    pub fn condense(trace: &Trace, from: usize, to: usize, most: u16) -> Self {
        let mut rows = Self::of_packets(trace);
        if from >= to {
            return rows;
        }
        rows.duration_s = trace.time_s[to - 1] - trace.time_s[from];
        let joins = joining(trace, from, to);
        let others = joins.iter().filter(|joins| !**joins).count();
        rows.rows = Vec::with_capacity(others + joins.len() / usize::from(most));
        let (mut first, mut last_s) = (from, trace.time_s[from]);
        while first < to {
            let others = joins[first + 1 - from..].iter().take(usize::from(most) - 1);
            let end = first + 1 + others.take_while(|joins| **joins).count();
            let row = Row::of(trace, first..end, last_s);
            rows.count(&row);
            rows.rows.push(row);
            (first, last_s) = (end, trace.time_s[end - 1]);
        }
        rows
    }

    /// Every packet of a trace as a row of its own.
    pub fn single(trace: &Trace) -> Self {
        let mut last_s = 0.0;
        let rows = trace.time_s.iter().enumerate().map(|(index, &time_s)| {
            let row = Row::of(trace, index..index + 1, last_s);
            last_s = time_s;
            row
        });
        Self {
            rows: rows.collect(),
            are_single: true,
            lost: trace.lost,
            passed: trace.passed,
            passed_bytes: trace.passed_bytes,
            duration_s: trace.duration_s(),
            ..Self::of_packets(trace)
        }
    }

    /// Without any rows.
    fn of_packets(trace: &Trace) -> Self {
        let packet_bytes = trace.typical_bytes.max(1.0);
        Self {
            largest_bytes: f64::from(trace.largest_bytes),
            packet_bytes,
            margins_bytes: MARGINS.map(|margin| margin * packet_bytes),
            ..Self::default()
        }
    }

    fn count(&mut self, row: &Row) {
        match row.outcome {
            Seen::Lost => self.lost += usize::from(row.packets),
            Seen::Passed => self.passed += usize::from(row.packets),
            Seen::Unknown => {}
        }
        if row.outcome != Seen::Lost {
            self.passed_bytes += row.bytes;
        }
    }

    /// With margins for exact fates: an error of the timestamps changes the queue by at most `noise_bytes`,
    /// and beyond that a bucket is either full or not. If packets arrive evenly, every one is near the limit.
    pub fn with_exact_margins(mut self, noise_bytes: f64) -> Self {
        let near = noise_bytes.min(0.25 * self.packet_bytes);
        self.margins_bytes = [-self.packet_bytes, -near, ROUNDING_BYTES, near];
        self
    }

    /// The smallest interval of a trace with this many runs of losses, with as much again before it.
    pub fn window(trace: &Trace, runs: usize) -> (usize, usize) {
        let mut starts: Vec<usize> = Vec::new();
        let mut before = Seen::Passed;
        for (index, &outcome) in trace.outcome.iter().enumerate() {
            if outcome == Seen::Lost && before != Seen::Lost {
                starts.push(index);
            }
            before = outcome;
        }
        if starts.len() <= runs {
            return (0, trace.len());
        }
        let length = |i: usize| starts[i + runs] - starts[i];
        let shortest = (0..starts.len() - runs)
            .min_by_key(|&i| length(i))
            .unwrap_or(0);
        let (first, last) = (starts[shortest], starts[shortest + runs]);
        (first.saturating_sub((last - first) / 2), last)
    }
}

/// For each of the packets `from..to`, true if it may share a row with the one before: both passed, far from
/// any loss, and arrived evenly.
fn joining(trace: &Trace, from: usize, to: usize) -> Vec<bool> {
    let mut joining = arrive_evenly(&trace.time_s[from..to]);
    let mut part = |from: usize, end: usize| {
        let end = end.min(joining.len());
        joining[from..end].fill(false);
    };
    part(0, 1);
    for (index, outcome) in trace.outcome[from..to].iter().enumerate() {
        match outcome {
            Seen::Passed => {}
            Seen::Unknown => part(index, index + 2),
            Seen::Lost => part(
                index.saturating_sub(SINGLE_NEAR_LOSS),
                index + SINGLE_NEAR_LOSS + 2,
            ),
        }
    }
    joining
}

/// For each packet, true if its gap is no longer than those before.
fn arrive_evenly(times_s: &[f64]) -> Vec<bool> {
    let gaps_s = times_s.windows(2).map(|pair| pair[1] - pair[0]);
    let mut gaps_s = gaps_s.peekable();
    let mut even = Vec::with_capacity(times_s.len());
    even.push(true);
    // the mean begins with the first gap that is not zero
    while gaps_s.next_if_eq(&0.0).is_some() {
        even.push(true);
    }
    let Some(mut mean_gap_s) = gaps_s.next() else {
        return even;
    };
    even.push(false);
    even.extend(gaps_s.map(|gap_s| {
        let even = gap_s <= UNEVEN * mean_gap_s;
        mean_gap_s += (gap_s - mean_gap_s) * NEWEST_GAP;
        even
    }));
    even
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::trace::TracePacket;

    fn trace(outcomes: &[(i64, Seen)]) -> Trace {
        let observe = |&(time_us, outcome): &(i64, Seen)| TracePacket {
            time_ns: time_us * 1000,
            bytes: 1000,
            outcome,
            delay_s: None,
        };
        Trace::new(outcomes.iter().map(observe).collect())
    }

    #[test]
    fn packets_far_from_losses_share_rows_and_those_near_them_do_not() {
        let mut packets: Vec<(i64, Seen)> = (0..40).map(|i| (i * 100, Seen::Passed)).collect();
        packets[30].1 = Seen::Lost;
        let rows = Rows::condense(&trace(&packets), 0, 40, 16);
        assert!(rows.rows.len() < 25, "{}", rows.rows.len());
        let loss = rows
            .rows
            .iter()
            .position(|row| row.outcome == Seen::Lost)
            .unwrap();
        assert!(
            rows.rows[loss - 3..=loss + 3]
                .iter()
                .all(|row| row.packets == 1)
        );
        let (packets, bytes): (u32, f64) = rows.rows.iter().fold((0, 0.0), |sum, row| {
            (sum.0 + u32::from(row.packets), sum.1 + row.bytes)
        });
        assert_eq!((packets, bytes), (40, 40_000.0));
        let time: f64 = rows.rows.iter().map(|row| row.gap_s + row.span_s).sum();
        assert!((time - 0.0039).abs() < 1e-6);
    }

    #[test]
    fn a_pause_ends_a_row() {
        let packets: Vec<(i64, Seen)> = (0..10)
            .map(|i| (i * 100 + if i >= 5 { 10_000 } else { 0 }, Seen::Passed))
            .collect();
        let rows = Rows::condense(&trace(&packets), 0, 10, 16);
        assert!(rows.rows.iter().all(|row| row.span_s < 0.001));
    }

    #[test]
    fn a_window_covers_the_densest_losses() {
        let packets: Vec<(i64, Seen)> = (0..1000)
            .map(|i| {
                (
                    i,
                    if i % 200 == 0 || (600..640).contains(&i) && i % 4 == 0 {
                        Seen::Lost
                    } else {
                        Seen::Passed
                    },
                )
            })
            .collect();
        let (from, to) = Rows::window(&trace(&packets), 5);
        assert!(from > 500 && to <= 640, "{from} {to}");
        assert_eq!(Rows::window(&trace(&packets), 500), (0, 1000));
    }
}
