//! A check of a client's traffic against what it announced: a token bucket over all bytes from it.
//!
//! It is generous, since a path may delay packets and then release them all at once, or duplicate them.

use crate::flow::{Direction, FlowSpec, Kind};

use super::super::schedule::Schedule;

/// The tolerated multiple of the announced rate: a path may duplicate packets, and a sender may catch up.
const FACTOR: f64 = 2.0;
/// How long a path may delay all packets and then release them at once.
const LONGEST_PATH_DELAY_S: f64 = 10.0;
/// Requests, proofs, and exchanges of timestamps.
const BESIDES_BPS: f64 = 200_000.0;
const BESIDES_BYTES: f64 = 4e6;

/// The bytes that a session's flows may send to the responder.
#[derive(Clone, Debug)]
pub(super) struct Intake {
    bytes_per_ns: f64,
    most: f64,
    left: f64,
    filled_ns: i64,
}

impl Intake {
    /// Creates the limit for these flows, whatever other requests follow.
    pub(super) fn of(flows: &[FlowSpec]) -> Intake {
        let (mut rate_bps, mut burst_bytes) = (BESIDES_BPS, BESIDES_BYTES);
        for spec in flows.iter().filter(|spec| comes_from_client(spec)) {
            if let Ok(schedule) = Schedule::of(spec) {
                rate_bps += FACTOR * schedule.rate_bps();
                burst_bytes +=
                    FACTOR * schedule.packet_bytes as f64 * f64::from(schedule.per_burst);
            }
        }
        let most = burst_bytes + rate_bps / 8.0 * LONGEST_PATH_DELAY_S;
        Intake {
            bytes_per_ns: rate_bps / 8e9,
            most,
            left: most,
            filled_ns: i64::MIN,
        }
    }

    /// Charges received bytes; returns false if they exceed the limit.
    pub(super) fn take(&mut self, bytes: usize, now_ns: i64) -> bool {
        let passed_ns = now_ns.saturating_sub(self.filled_ns).max(0);
        self.filled_ns = self.filled_ns.max(now_ns);
        self.left = (self.left + passed_ns as f64 * self.bytes_per_ns).min(self.most);
        if self.left < bytes as f64 {
            return false;
        }
        self.left -= bytes as f64;
        true
    }
}

fn comes_from_client(spec: &FlowSpec) -> bool {
    match spec.kind {
        Kind::Probe => true,
        Kind::Udp | Kind::Burst => spec.direction == Direction::Up,
        Kind::Tcp | Kind::Icmp => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;

    fn stream() -> FlowSpec {
        FlowSpec {
            rate_bps: Some(10e6),
            packet_payload_bytes: Some(1250),
            ..FlowSpec::new(0, Kind::Udp, Direction::Up)
        }
    }

    #[test]
    fn a_stream_at_its_announced_rate_may_last_for_ever_and_be_delayed_for_seconds() {
        let mut intake = Intake::of(&[stream()]);
        let mut all_taken = true;
        for packet in 0..200_000_i64 {
            // 200 s; in each period of 20 s, the packets of the first 8 s arrive at once at their end.
            let due_ns = packet * 1_000_000;
            let phase_ns = due_ns % (20 * SECOND_NS);
            let arrives_ns = due_ns - phase_ns + phase_ns.max(8 * SECOND_NS);
            all_taken &= intake.take(1250, arrives_ns);
        }
        assert!(all_taken);
    }

    #[test]
    fn bursts_of_every_size_that_was_asked_for_are_taken() {
        let bursts = FlowSpec {
            packets_per_burst: Some(65_536),
            packet_payload_bytes: Some(9000),
            burst_every_s: Some(1000.0),
            ..FlowSpec::new(0, Kind::Burst, Direction::Up)
        };
        let mut intake = Intake::of(&[bursts]);
        assert!((0..65_536).all(|_| intake.take(9000, SECOND_NS)));
    }

    #[test]
    fn ten_times_the_rate_that_was_asked_for_is_soon_too_much() {
        let mut intake = Intake::of(&[stream()]);
        let taken = (0..)
            .take_while(|packet| intake.take(1250, packet * 100_000))
            .count();
        // At 100 Mbit/s: a bucket of 29.25 MB, refilled at 2.5 MB/s.
        assert!((23_000..30_000).contains(&taken), "{taken}");
    }

    #[test]
    fn a_client_without_flows_may_send_almost_nothing() {
        let mut intake = Intake::of(&[FlowSpec::new(0, Kind::Tcp, Direction::Up)]);
        assert!(!(0..5000).all(|_| intake.take(1250, SECOND_NS)));
    }
}
