//! Traces with known truth, for the tests of the fits.

use super::trace::{Seen, Trace, TracePacket};
use crate::{Arrival, PathElement, Random, replay};

/// How packets reach the element.
#[derive(Debug, Clone, Copy)]
pub enum Pattern {
    /// Evenly spaced.
    Steady,
    /// Independently of each other.
    Poisson,
    /// Like a window-based sender: a burst at ten times the rate in each round trip, growing by a packet per
    /// round until it is half as large again as at the beginning.
    Windows { round_trip_ms: u32 },
}

/// `packets` packets of up to `full_bytes`, nine in ten of them full, with a mean rate of `load` times
/// `rate_bps`.
pub fn arrivals(
    pattern: Pattern,
    rate_bps: f64,
    load: f64,
    (packets, full_bytes): (usize, u32),
    seed: u64,
) -> Vec<Arrival> {
    let mut random = Random::new(seed);
    let sizes: Vec<u32> = (0..packets)
        .map(|_| {
            if random.chance(0.1) {
                60 + random.below(u64::from(full_bytes) - 60) as u32
            } else {
                full_bytes
            }
        })
        .collect();
    let mean_bytes = sizes.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / packets as f64;
    let mean_gap_ns = mean_bytes * 8e9 / (rate_bps * load);
    let mut windows = Windows::new(pattern, mean_gap_ns);
    let mut time_ns = 0.0;
    sizes
        .into_iter()
        .map(|bytes| {
            time_ns += match pattern {
                Pattern::Steady => mean_gap_ns,
                Pattern::Poisson => random.exponential(mean_gap_ns),
                Pattern::Windows { .. } => windows.next_gap_ns(),
            };
            Arrival {
                time_ns: 1_700_000_000_000_000_000 + time_ns as i64,
                bytes,
            }
        })
        .collect()
}

struct Windows {
    mean_gap_ns: f64,
    round_trip_ns: f64,
    /// Packets of a round: at the beginning, and now.
    least: f64,
    window: f64,
    sent_in_round: f64,
}

impl Windows {
    fn new(pattern: Pattern, mean_gap_ns: f64) -> Self {
        let Pattern::Windows { round_trip_ms } = pattern else {
            return Self {
                mean_gap_ns,
                round_trip_ns: 0.0,
                least: 1.0,
                window: 1.0,
                sent_in_round: 0.0,
            };
        };
        let round_trip_ns = f64::from(round_trip_ms) * 1e6;
        // the mean of a window that grows from `least` to 1.5 times that
        let least = (round_trip_ns / mean_gap_ns / 1.25).max(1.0);
        Self {
            mean_gap_ns,
            round_trip_ns,
            least,
            window: least,
            sent_in_round: 0.0,
        }
    }

    fn next_gap_ns(&mut self) -> f64 {
        let within_ns = self.mean_gap_ns / 10.0;
        self.sent_in_round += 1.0;
        if self.sent_in_round < self.window {
            return within_ns;
        }
        let rest_ns = self.round_trip_ns - within_ns * (self.sent_in_round - 1.0);
        self.sent_in_round = 0.0;
        self.window += 1.0;
        if self.window > 1.5 * self.least {
            self.window = self.least;
        }
        rest_ns.max(within_ns)
    }
}

/// The trace of a capture before an element: the packets that it dropped, and the delays of the others.
pub fn observed(element: &mut impl PathElement, arrivals: &[Arrival]) -> Trace {
    let outcomes = replay(element, arrivals);
    let observe = |(arrival, outcome): (&Arrival, &crate::Outcome)| TracePacket {
        time_ns: arrival.time_ns,
        bytes: arrival.bytes,
        outcome: if outcome.is_dropped() {
            Seen::Lost
        } else {
            Seen::Passed
        },
        delay_s: outcome
            .departure_ns()
            .map(|departs_ns| (departs_ns - arrival.time_ns) as f32 * 1e-9),
    };
    Trace::new(arrivals.iter().zip(&outcomes).map(observe).collect())
}
