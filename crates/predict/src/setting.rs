//! The setting of a prediction: the path, and the senders as far as they are known.

use serde::{Deserialize, Serialize};
use whydrop_hosts::{Algorithm, Pacing, ReceiverConfig, SenderConfig};
use whydrop_path::PathSpec;

/// Beyond the distance of packets of one burst, and short against round trips.
const OFFLOAD_WAITS_NS: i64 = 100_000;

/// The congestion control of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Control {
    Cubic,
    Reno,
    Bbr,
}

impl Control {
    /// All of them, with the names of Linux.
    pub const ALL: [(Control, &'static str); 3] = [
        (Control::Cubic, "cubic"),
        (Control::Reno, "reno"),
        (Control::Bbr, "bbr"),
    ];

    pub(crate) fn algorithm(self) -> Algorithm {
        match self {
            Control::Cubic => Algorithm::Cubic,
            Control::Reno => Algorithm::Reno,
            Control::Bbr => Algorithm::LinuxBbr,
        }
    }
}

/// The data of an application.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Load {
    /// As much as the connection carries, until the end.
    Full,
    /// Written at this rate.
    Rate { rate_bps: f64 },
    /// Written at the beginning, and no more after it.
    Transfer { bytes: u64 },
}

/// One connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// After the beginning.
    pub start_ns: i64,
    /// Its own part of the round trip, beyond that of the setting.
    pub extra_rtt_ns: i64,
    pub control: Control,
    /// Payload of a full segment.
    pub mss_bytes: u64,
    /// Bytes of IP and TCP headers of a full segment.
    pub header_bytes: u32,
    /// The largest window of the receiver; `None`: larger than the connection needs.
    pub receive_window_bytes: Option<u64>,
    /// The most data outstanding, for another reason; `None`: no bound.
    pub send_buffer_bytes: Option<u64>,
    pub segments_per_ack: u32,
    /// Paced at this rate on the wire.
    pub pace_bps: Option<f64>,
    pub ecn: bool,
    pub sack: bool,
    pub load: Load,
}

/// The path and the connections over it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    pub path: PathSpec,
    /// The link over which packets come to the path: of the sender, or of a router before the path.
    pub line_bps: Option<f64>,
    /// Propagation in both directions, without the time that packets take on links and in queues.
    pub round_trip_ns: i64,
    /// From the first SYN until the senders stop.
    pub duration_ns: i64,
    /// A run ends earlier when it has so many packets, acknowledgments among them.
    #[serde(default)]
    pub most_packets: Option<usize>,
    pub flows: Vec<Flow>,
}

impl Flow {
    /// A download with everything as on a current Linux host.
    pub fn standard() -> Flow {
        Flow {
            start_ns: 0,
            extra_rtt_ns: 0,
            control: Control::Cubic,
            mss_bytes: 1_448,
            header_bytes: 52,
            receive_window_bytes: None,
            send_buffer_bytes: None,
            segments_per_ack: 2,
            pace_bps: None,
            ecn: false,
            sack: true,
            load: Load::Full,
        }
    }

    pub(crate) fn sender(&self) -> SenderConfig {
        let standard = SenderConfig::default();
        SenderConfig {
            algorithm: self.control.algorithm(),
            mss: self.mss_bytes,
            sack: self.sack,
            pacing: match self.pace_bps {
                Some(rate_bps) => Pacing::Rate(rate_bps as u64),
                None => Pacing::None,
            },
            buffer_bytes: self.send_buffer_bytes.unwrap_or(standard.buffer_bytes),
            small_queues: true,
            ..standard
        }
    }

    pub(crate) fn receiver(&self) -> ReceiverConfig {
        let standard = ReceiverConfig::default();
        // Simulated senders send whole segments only, so the window has room for two.
        let initial_bytes = standard.initial_window_bytes.max(2 * self.mss_bytes);
        ReceiverConfig {
            segments_per_ack: self.segments_per_ack,
            offload_waits_ns: Some(OFFLOAD_WAITS_NS),
            buffer_bytes: self.receive_window_bytes.unwrap_or(standard.buffer_bytes),
            initial_window_bytes: (self.receive_window_bytes)
                .map_or(initial_bytes, |bytes| bytes.min(initial_bytes)),
            sack: self.sack,
            // Receive offload joins segments before they are acknowledged.
            autotunes: self.receive_window_bytes.is_none() && self.segments_per_ack <= 2,
            ..standard
        }
    }
}

impl Setting {
    /// One download of 10 s over a path.
    pub fn one_flow(path: PathSpec, round_trip_ns: i64) -> Setting {
        Setting {
            path,
            line_bps: None,
            round_trip_ns,
            duration_ns: 10_000_000_000,
            most_packets: None,
            flows: vec![Flow::standard()],
        }
    }
}
