//! The specification of one flow: the engine's part of a test's plan.

use serde::{Deserialize, Serialize};

/// Three years: a span beyond it is a mistake, and sums of a few stay far from the bounds of 64-bit nanoseconds.
const LONGEST_S: f64 = 1e8;
/// Between looks at a flow; what would be more often is a mistake.
const SHORTEST_INTERVAL_S: f64 = 1e-4;

/// Which way a flow's data goes, seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the client to the responder.
    Up,
    /// From the responder to the client.
    Down,
    /// There and back (probes).
    Both,
}

/// Contents of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A TCP connection that one end fills.
    Tcp,
    /// A one-way stream of UDP packets at a fixed rate.
    Udp,
    /// Isochronous UDP packets that the responder answers.
    Probe,
    /// ICMP echo requests.
    Icmp,
    /// Bursts of UDP packets, one way.
    Burst,
}

/// One flow. Fields that do not apply to its kind are ignored; `None` leaves the kernel's or the kind's default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Its number in the recording.
    pub flow: u32,
    pub kind: Kind,
    pub direction: Direction,
    /// After the common start.
    pub start_s: f64,
    /// `None`: until `payload_bytes` are sent.
    pub duration_s: Option<f64>,
    /// Of probes, from one to the next; else the length of the intervals that are counted and sampled.
    pub interval_s: f64,
    /// The six bits of the differentiated services code point, set by both ends.
    pub dscp: u8,
    /// Ask for (or refuse) explicit congestion notification; for UDP, mark packets ECT(0).
    pub ecn: Option<bool>,
    pub congestion_control: Option<String>,
    /// Of the application: what it hands to the transport.
    pub rate_bps: Option<f64>,
    /// `SO_MAX_PACING_RATE`: what the transport sends at most.
    pub pacing_rate_bps: Option<f64>,
    pub send_buffer_bytes: Option<u32>,
    pub receive_buffer_bytes: Option<u32>,
    /// A TCP flow ends when so many bytes have been sent.
    pub payload_bytes: Option<u64>,
    /// Of UDP packets, in the UDP payload.
    pub packet_payload_bytes: Option<u32>,
    /// A square wave: so long on, then `off_s` off.
    pub on_s: Option<f64>,
    pub off_s: Option<f64>,
    pub packets_per_burst: Option<u32>,
    pub burst_every_s: Option<f64>,
    /// Of probes: an answer that takes longer is late.
    pub timeout_s: Option<f64>,
}

impl FlowSpec {
    /// A flow of this kind with everything else at its default; for tests and as a base to change.
    pub fn new(flow: u32, kind: Kind, direction: Direction) -> FlowSpec {
        FlowSpec {
            flow,
            kind,
            direction,
            start_s: 0.0,
            duration_s: None,
            interval_s: 0.2,
            dscp: 0,
            ecn: None,
            congestion_control: None,
            rate_bps: None,
            pacing_rate_bps: None,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            payload_bytes: None,
            packet_payload_bytes: None,
            on_s: None,
            off_s: None,
            packets_per_burst: None,
            burst_every_s: None,
            timeout_s: None,
        }
    }

    /// Checks that its numbers can be computed with, whoever they come from.
    ///
    /// # Errors
    /// The first that cannot, and what was expected.
    pub fn check(&self) -> Result<(), String> {
        for (name, value) in self.numbers() {
            if !value.is_finite() || value < 0.0 {
                return Err(format!(
                    "{name} is {value}; a number from 0 on was expected"
                ));
            }
            if name.ends_with("_s") && value > LONGEST_S {
                return Err(format!(
                    "{name} is {value}; at most {LONGEST_S:.0} s were expected"
                ));
            }
        }
        if self.interval_s < SHORTEST_INTERVAL_S {
            return Err(format!(
                "an interval of {} s; at least {SHORTEST_INTERVAL_S} s were expected",
                self.interval_s
            ));
        }
        if self.rate_bps == Some(0.0) {
            return Err("rate_bps is 0; a rate above it was expected".to_owned());
        }
        if self.dscp > 63 {
            return Err(format!("DSCP {}; there are 0 to 63", self.dscp));
        }
        Ok(())
    }

    fn numbers(&self) -> impl Iterator<Item = (&'static str, f64)> {
        [
            ("start_s", Some(self.start_s)),
            ("duration_s", self.duration_s),
            ("interval_s", Some(self.interval_s)),
            ("rate_bps", self.rate_bps),
            ("pacing_rate_bps", self.pacing_rate_bps),
            ("on_s", self.on_s),
            ("off_s", self.off_s),
            ("burst_every_s", self.burst_every_s),
            ("timeout_s", self.timeout_s),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }

    /// The byte of the IP header that holds the code point and the ECN field.
    pub fn traffic_class(&self) -> u8 {
        const ECT_0: u8 = 0b10;
        let marks_packets = self.kind != Kind::Tcp && self.ecn == Some(true);
        (self.dscp << 2) | if marks_packets { ECT_0 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_cannot_be_computed_with_are_named() {
        let base = FlowSpec::new(0, Kind::Tcp, Direction::Down);
        assert_eq!(base.check(), Ok(()));
        let cases = [
            (
                FlowSpec {
                    off_s: Some(f64::NAN),
                    ..base.clone()
                },
                "off_s",
            ),
            (
                FlowSpec {
                    on_s: Some(1e300),
                    ..base.clone()
                },
                "on_s",
            ),
            (
                FlowSpec {
                    start_s: 1e12,
                    ..base.clone()
                },
                "start_s",
            ),
            (
                FlowSpec {
                    duration_s: Some(-1.0),
                    ..base.clone()
                },
                "duration_s",
            ),
            (
                FlowSpec {
                    interval_s: 0.0,
                    ..base.clone()
                },
                "interval",
            ),
            (
                FlowSpec {
                    rate_bps: Some(0.0),
                    ..base.clone()
                },
                "rate_bps",
            ),
            (
                FlowSpec {
                    dscp: 64,
                    ..base.clone()
                },
                "DSCP 64",
            ),
        ];
        for (flow, expected) in cases {
            let message = flow.check().unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
