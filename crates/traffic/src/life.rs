//! Signs of life of the other end, from everything that arrives from it.
//!
//! On a path that the test itself has filled, the control channel may lose segment after segment and stay silent for
//! longer than a timeout should be. Data and acknowledgments of the flows therefore count as well.

use std::collections::HashMap;

use crate::clock;
use crate::sample::Samples;

/// The time of the last sign of life from the other end.
#[derive(Debug)]
pub struct Life {
    last_ns: i64,
    acked_bytes: HashMap<u32, u64>,
}

impl Default for Life {
    fn default() -> Life {
        Life {
            last_ns: clock::now_ns(),
            acked_bytes: HashMap::new(),
        }
    }
}

impl Life {
    /// Registers a sign of life now.
    pub fn heard(&mut self) {
        self.last_ns = clock::now_ns();
    }

    /// Looks for signs of life in what this end measured; returns true if data of a flow arrived.
    pub fn watch(&mut self, measured: &Samples) -> bool {
        let received = measured
            .intervals
            .iter()
            .any(|interval| interval.payload_bytes > 0)
            || measured
                .probes
                .iter()
                .any(|probe| probe.received_ns.is_some())
            || !measured.exchanges.is_empty()
            || measured
                .bursts
                .iter()
                .any(|packet| packet.received_ns.is_some());
        let mut acked = false;
        for sample in &measured.tcp {
            let bytes = sample.acked_bytes.unwrap_or(0);
            let before = self.acked_bytes.insert(sample.flow, bytes);
            acked |= before.is_some_and(|before| bytes > before);
        }
        if received || acked {
            self.heard();
        }
        received || acked
    }

    /// The time since the last sign of life.
    pub fn silence_ns(&self) -> i64 {
        clock::now_ns() - self.last_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Interval, TcpSample};

    fn old() -> Life {
        Life {
            last_ns: clock::now_ns() - 1_000_000_000_000,
            ..Life::default()
        }
    }

    fn is_alive(life: &Life) -> bool {
        life.silence_ns() < 500_000_000_000
    }

    #[test]
    fn bytes_that_arrive_are_a_sign_of_life_and_empty_intervals_are_not() {
        for (payload_bytes, alive) in [(0, false), (1, true)] {
            let mut life = old();
            let interval = Interval {
                payload_bytes,
                ..Interval::default()
            };
            life.watch(&Samples {
                intervals: vec![interval],
                ..Samples::default()
            });
            assert_eq!(is_alive(&life), alive);
        }
    }

    #[test]
    fn only_what_is_newly_acknowledged_is_a_sign_of_life() {
        let sample = |bytes| Samples {
            tcp: vec![TcpSample {
                acked_bytes: Some(bytes),
                ..TcpSample::default()
            }],
            ..Samples::default()
        };
        let mut life = old();
        life.watch(&sample(100));
        life.watch(&sample(100));
        assert!(!is_alive(&life));
        life.watch(&sample(101));
        assert!(is_alive(&life));
    }
}
