//! A trace condensed for searching: packets that pass in a row between two losses become one row.
//!
//! A search follows the virtual queue some hundred times. Between losses it only matters how much passed in how much
//! time, as long as the packets come evenly; near a loss every packet counts.

use super::trace::{Seen, Trace};

/// Margins, in typical packets, at which predictions are counted apart: `(queue with the packet - limit) / packet`.
pub(super) const MARGINS: [f64; 4] = [-1.0, -0.25, 0.25, 1.0];
/// Number of classes that [`MARGINS`] makes.
pub const CLASSES: usize = MARGINS.len() + 1;

/// A rate (bytes/s) and a limit (bytes).
pub type RateAndLimit = (f64, f64);

/// Packets that came evenly, all with one outcome.
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

/// Rows, and what a fit needs to know of the trace that they come from.
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
    /// Margins over the limit, bytes, between which predictions are counted apart.
    pub(super) margins_bytes: [f64; MARGINS.len()],
    /// Rate (bytes/s) and limit of a second bucket, where each packet must find room in both.
    pub(super) second_bucket: Option<RateAndLimit>,
}

/// Packets that pass just before and just after a loss stay single.
const SINGLE_NEAR_LOSS: usize = 3;
/// A gap this many times the mean of the gaps before it ends a row: the packets no longer come evenly.
const UNEVEN: f64 = 4.0;
/// A packet that just finds room, after sums of floating point numbers.
const ROUNDING_BYTES: f64 = 1e-6;
/// Weight of the newest gap in that mean.
const NEWEST_GAP: f64 = 1.0 / 16.0;

impl Rows {
    /// Condenses packets `from..to` of a trace, `most` of them at most into one row.
    pub fn condense(trace: &Trace, from: usize, to: usize, most: u16) -> Self {
        let mut rows = Self {
            largest_bytes: f64::from(trace.largest_bytes),
            packet_bytes: trace.typical_bytes.max(1.0),
            margins_bytes: MARGINS.map(|margin| margin * trace.typical_bytes.max(1.0)),
            ..Self::default()
        };
        if from >= to {
            return rows;
        }
        rows.duration_s = trace.time_s[to - 1] - trace.time_s[from];
        let near_loss = near_losses(trace, from, to);
        let (mut mean_gap_s, mut last_s, mut was_near) = (0.0, trace.time_s[from], false);
        let times = trace.time_s[from..to].iter().zip(&trace.bytes[from..to]);
        let packets = times.zip(&trace.outcome[from..to]).zip(near_loss);
        for (((&time_s, &bytes), &outcome), is_near) in packets {
            let gap_s = time_s - last_s;
            let even = gap_s <= UNEVEN * mean_gap_s;
            let joins = even && !is_near && outcome == Seen::Passed && !was_near;
            rows.take(
                f64::from(bytes),
                outcome,
                gap_s.max(0.0),
                if joins { most } else { 1 },
            );
            mean_gap_s += (gap_s - mean_gap_s) * if mean_gap_s == 0.0 { 1.0 } else { NEWEST_GAP };
            (last_s, was_near) = (time_s, is_near);
        }
        rows
    }

    /// Every packet of a trace as a row of its own.
    pub fn single(trace: &Trace) -> Self {
        let mut rows = Self {
            rows: Vec::with_capacity(trace.len()),
            are_single: true,
            duration_s: trace.duration_s(),
            largest_bytes: f64::from(trace.largest_bytes),
            packet_bytes: trace.typical_bytes.max(1.0),
            margins_bytes: MARGINS.map(|margin| margin * trace.typical_bytes.max(1.0)),
            ..Self::default()
        };
        let mut last_s = 0.0;
        let times = trace.time_s.iter().zip(&trace.bytes);
        for ((&time_s, &bytes), &outcome) in times.zip(&trace.outcome) {
            rows.take(f64::from(bytes), outcome, (time_s - last_s).max(0.0), 1);
            last_s = time_s;
        }
        rows
    }

    /// With margins for fates that are exact: an error of the timestamps moves the queue by no more than `noise_bytes`,
    /// and beyond that a bucket is either full or not. With packets that come evenly every one is near the limit.
    pub fn with_exact_margins(mut self, noise_bytes: f64) -> Self {
        let near = noise_bytes.min(0.25 * self.packet_bytes);
        self.margins_bytes = [-self.packet_bytes, -near, ROUNDING_BYTES, near];
        self
    }

    /// Takes the next packet into the last row, if that has fewer than so many and the same outcome, or into one of its own.
    #[inline(always)]
    fn take(&mut self, bytes: f64, outcome: Seen, gap_s: f64, most: u16) {
        match outcome {
            Seen::Lost => self.lost += 1,
            Seen::Passed => self.passed += 1,
            Seen::Unknown => {}
        }
        if outcome != Seen::Lost {
            self.passed_bytes += bytes;
        }
        if let Some(last) = self.rows.last_mut()
            && last.outcome == outcome
            && last.packets < most
        {
            last.span_s += gap_s;
            last.bytes += bytes;
            last.last_bytes = bytes;
            last.packets += 1;
            return;
        }
        self.rows.push(Row {
            gap_s,
            span_s: 0.0,
            bytes,
            last_bytes: bytes,
            packets: 1,
            outcome,
        });
    }

    /// The smallest interval of a trace that holds this many runs of losses, with as much again before it.
    pub fn window(trace: &Trace, runs: usize) -> (usize, usize) {
        let lost = |index: usize| trace.outcome[index] == Seen::Lost;
        let starts: Vec<usize> = (0..trace.len())
            .filter(|&i| lost(i) && (i == 0 || !lost(i - 1)))
            .collect();
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

/// Which packets have a loss nearby.
fn near_losses(trace: &Trace, from: usize, to: usize) -> Vec<bool> {
    let mut near = vec![false; to - from];
    for index in from..to {
        if trace.outcome[index] == Seen::Lost {
            let first = index.saturating_sub(SINGLE_NEAR_LOSS).max(from);
            let last = (index + SINGLE_NEAR_LOSS).min(to - 1);
            near[first - from..=last - from].fill(true);
        }
    }
    near
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::trace::Observation;

    fn trace(outcomes: &[(i64, Seen)]) -> Trace {
        let observe = |&(time_us, outcome): &(i64, Seen)| Observation {
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
    fn a_window_holds_the_densest_losses() {
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
