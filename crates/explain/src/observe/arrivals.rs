//! Evenness of arrivals: a saturated link delivers packets back to back, at its rate. A sender that paces
//! itself does too; arrivals alone do not distinguish the two.

use whydrop_path::fit::{Seen, Trace};

/// Consecutive packets measured together, so that one timestamp for several packets does not matter.
const ROW: usize = 32;
/// Fewer rows are not evaluated.
const FEWEST_ROWS: usize = 8;
/// Shortest duration of a row in seconds: timestamps have ticks.
const SHORTEST_S: f64 = 1e-9;
/// A saturated link is never silent for longer than this many packets take, unless a host takes packets from
/// its card in batches; the distance between such batches in seconds follows.
const SILENT_PACKETS: f64 = 3.0;
const BATCH_S: f64 = 1e-3;
/// The least share of the time that counts as most of it.
const STEADY: f64 = 0.6;
/// Rows are alike if their rates differ from the usual rate by at most this share.
const ALIKE: f64 = 0.1;

/// Rows of packets that arrive at one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arrivals {
    /// On the IP layer, bit/s.
    pub rate_bps: f64,
    /// Share of the time in which packets arrive at that rate.
    pub steady_share: f64,
}

impl Arrivals {
    /// Measure the packets that arrived; `None` if they are too few.
    pub fn of(trace: &Trace) -> Option<Self> {
        let arrived = (0..trace.len()).filter(|&index| trace.outcome[index] != Seen::Lost);
        let (times_s, bytes): (Vec<f64>, Vec<f64>) = arrived
            .map(|index| (trace.time_s[index], f64::from(trace.bytes[index])))
            .unzip();
        let rows = rows(&times_s, &bytes);
        if rows.len() < FEWEST_ROWS {
            return None;
        }
        let mut rates: Vec<f64> = rows.iter().map(|row| row.rate_bps).collect();
        let (_, rate_bps, _) = rates.select_nth_unstable_by(rows.len() / 2, f64::total_cmp);
        let rate_bps = *rate_bps;
        let silence_s = (SILENT_PACKETS * trace.typical_bytes * 8.0 / rate_bps).max(BATCH_S);
        let is_alike = |row: &&Row| (row.rate_bps / rate_bps - 1.0).abs() <= ALIKE;
        let busy_s = |row: &Row| {
            let gaps_s = times_s[row.first..=row.last].windows(2);
            let gaps_s = gaps_s.map(|pair| pair[1] - pair[0]);
            gaps_s.filter(|gap_s| *gap_s <= silence_s).sum::<f64>()
        };
        let steady_s: f64 = rows.iter().filter(is_alike).map(busy_s).sum();
        let all_s: f64 = rows.iter().map(|row| row.lasts_s).sum();
        Some(Self {
            rate_bps,
            steady_share: steady_s / all_s,
        })
    }

    /// True if packets arrive at one rate for most of this share of the time.
    pub fn are_steady(&self, of_time: f64) -> bool {
        self.steady_share > STEADY * of_time
    }
}

/// Consecutive packets, from the first to the last.
struct Row {
    first: usize,
    last: usize,
    lasts_s: f64,
    rate_bps: f64,
}

fn rows(times_s: &[f64], bytes: &[f64]) -> Vec<Row> {
    let edges: Vec<usize> = (0..times_s.len()).step_by(ROW).collect();
    let row = |edge: &[usize]| {
        let (first, last) = (edge[0], edge[1]);
        let lasts_s = (times_s[last] - times_s[first]).max(SHORTEST_S);
        // the packets of a row arrive after its first one
        let bits = bytes[first + 1..=last].iter().sum::<f64>() * 8.0;
        Row {
            first,
            last,
            lasts_s,
            rate_bps: bits / lasts_s,
        }
    };
    edges.windows(2).map(row).collect()
}

#[cfg(test)]
mod tests {
    use whydrop_path::fit::TracePacket;

    use super::*;

    fn arrivals(count: usize, gap_s: impl Fn(usize) -> f64) -> Option<Arrivals> {
        let mut now_s = 0.0;
        let packets = (0..count).map(|number| {
            now_s += gap_s(number);
            TracePacket {
                time_ns: (now_s * 1e9) as i64,
                bytes: 1500,
                outcome: Seen::Passed,
                delay_s: None,
            }
        });
        Arrivals::of(&Trace::new(packets.collect()))
    }

    #[test]
    fn a_saturated_line_delivers_packets_at_its_rate_all_the_time() {
        let full = arrivals(1000, |_| 1.2e-3).unwrap();
        assert!((full.rate_bps - 1e7).abs() < 1e4, "{full:?}");
        assert_eq!(full.steady_share, 1.0);
    }

    #[test]
    fn a_host_that_stamps_four_packets_at_once_changes_nothing() {
        let full = arrivals(1000, |number| if number % 4 == 0 { 4.8e-4 } else { 0.0 }).unwrap();
        assert!((full.rate_bps - 1e8).abs() < 1e7, "{full:?}");
        assert!(full.steady_share > 0.95);
    }

    #[test]
    fn a_growing_window_delivers_packets_at_no_steady_rate() {
        // windows of ten more packets in each round trip of 50 ms
        let window = |number: usize| ((number as f64 / 5.0).sqrt() as usize).max(1) * 10;
        let grows = arrivals(1000, |number| {
            if number % window(number) == 0 {
                0.05
            } else {
                1e-4
            }
        });
        assert!(!grows.unwrap().are_steady(1.0), "{grows:?}");
    }

    #[test]
    fn a_constant_window_delivers_bursts_and_no_steady_rate() {
        let stands = arrivals(1000, |number| if number % 16 == 0 { 0.02 } else { 1e-4 });
        assert!(!stands.unwrap().are_steady(1.0), "{stands:?}");
    }

    #[test]
    fn a_few_packets_give_no_result() {
        assert_eq!(arrivals(100, |_| 1e-3), None);
    }
}
