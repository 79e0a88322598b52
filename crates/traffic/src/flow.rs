//! The specification of one flow, as the engine runs it.

use serde::{Deserialize, Serialize};

/// Three years: a longer span is a mistake, and sums of a few stay far below the limits of 64-bit nanoseconds.
const LONGEST_S: f64 = 1e8;
/// The shortest interval between samples of a flow; a shorter one is a mistake.
const SHORTEST_INTERVAL_S: f64 = 1e-4;

/// The direction of a flow's data, as seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the client to the responder.
    Up,
    /// From the responder to the client.
    Down,
    /// In both directions (probes).
    Both,
}

/// The kind of traffic that a flow sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A TCP connection that the sending end keeps full.
    Tcp,
    /// A one-way UDP stream at a fixed rate.
    Udp,
    /// UDP packets at fixed intervals, which the responder answers.
    Probe,
    /// ICMP echo requests.
    Icmp,
    /// Bursts of UDP packets in one direction.
    Burst,
}

/// One flow. Fields that do not apply to its kind are ignored; `None` selects the default of the kernel or of the kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// The flow's number in the recording.
    pub flow: u32,
    pub kind: Kind,
    pub direction: Direction,
    /// Start time, after the common start.
    pub start_s: f64,
    /// `None`: the flow lasts until `payload_bytes` are sent.
    pub duration_s: Option<f64>,
    /// For probes, the time from one to the next; otherwise the length of the intervals in which packets are counted
    /// and sampled.
    pub interval_s: f64,
    /// The differentiated services code point (six bits), set by both ends.
    pub dscp: u8,
    /// Requests (or refuses) explicit congestion notification; UDP packets are marked ECT(0).
    pub ecn: Option<bool>,
    pub congestion_control: Option<String>,
    /// The rate at which the application hands data to the transport.
    pub rate_bps: Option<f64>,
    /// `SO_MAX_PACING_RATE`: the highest rate at which the transport sends.
    pub pacing_rate_bps: Option<f64>,
    pub send_buffer_bytes: Option<u32>,
    pub receive_buffer_bytes: Option<u32>,
    /// A TCP flow ends when this many bytes are sent.
    pub payload_bytes: Option<u64>,
    /// UDP payload of each packet.
    pub packet_payload_bytes: Option<u32>,
    /// A square wave: sending for this time, then pausing for `off_s`.
    pub on_s: Option<f64>,
    pub off_s: Option<f64>,
    pub packets_per_burst: Option<u32>,
    pub burst_every_s: Option<f64>,
    /// For probes: an answer that takes longer is late.
    pub timeout_s: Option<f64>,
}

impl FlowSpec {
    /// Creates a flow of this kind with defaults in all other fields.
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

    /// Checks that all numbers are usable, whatever their source.
    ///
    /// # Errors
    /// The first unusable number, and what was expected.
    pub fn check(&self) -> Result<(), String> {
        for (name, value) in self.numbers() {
            if !value.is_finite() || value < 0.0 {
                return Err(format!(
                    "{name} is {value}; a number of 0 or more was expected"
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
            return Err("rate_bps is 0; a rate above 0 was expected".to_owned());
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

    /// The byte of the IP header that contains the code point and the ECN field.
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
