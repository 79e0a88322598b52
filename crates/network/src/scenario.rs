//! Scenarios: connections, the path between their hosts, other traffic, and the place of the capture.

use whydrop_hosts::{ReceiverConfig, SenderConfig};
use whydrop_path::PathElement;

/// A path with the traffic on it. All connections and the cross traffic share it.
#[derive(Default)]
pub struct Scenario {
    pub seed: u64,
    pub flows: Vec<FlowConfig>,
    pub stages: Vec<Stage>,
    pub cross_traffic: Vec<CrossTraffic>,
    /// Random delay of acknowledgments, 0 to this, without reordering.
    pub reverse_jitter_ns: i64,
    /// Probability that a pure acknowledgment is lost.
    pub acknowledgment_loss: f64,
    pub capture: CaptureConfig,
    /// The simulation ends at this time, counted from its start.
    pub end_ns: i64,
}

/// A part of the path: the elements that data meets, and the delay of acknowledgments over it.
pub struct Stage {
    pub name: &'static str,
    pub element: Box<dyn PathElement + Send>,
    pub reverse_delay_ns: i64,
}

/// One TCP connection: a client that requests data, and a server that sends it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowConfig {
    pub sender: SenderConfig,
    pub receiver: ReceiverConfig,
    pub application: Application,
    pub client: [u8; 4],
    pub server: [u8; 4],
    pub client_port: u16,
    pub server_port: u16,
    pub start_ns: i64,
    /// In the capture, or hidden from it.
    pub captured: bool,
    /// RFC 7323 timestamps.
    pub timestamps: bool,
    /// Ends with FINs; otherwise the capture ends first.
    pub closes: bool,
    /// Added to the return path of the acknowledgments, so that connections have different round trips.
    pub extra_rtt_ns: i64,
}

/// The requests of the client, and how the server's application delivers them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Application {
    /// `count` requests of `bytes` each, the next one `pause_ns` after the previous one is complete: video in chunks.
    Chunks {
        bytes: u64,
        count: u32,
        pause_ns: i64,
    },
    /// One request, which the application answers with `bytes` every `interval_ns`, `count` times: a live stream.
    Stream {
        bytes: u64,
        count: u32,
        interval_ns: i64,
    },
    /// `count` requests, each answered by `writes` writes of `bytes` with gaps of `gap_ns`: an application that writes
    /// in small portions, or computes during its answers.
    Answers {
        bytes: u64,
        writes: u32,
        gap_ns: i64,
        count: u32,
        pause_ns: i64,
    },
}

/// Further behaviour of hosts; by default that of the first suites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Behaviour {
    /// Time from the arrival of a request until the application begins to answer.
    pub answers_after_ns: i64,
    /// The client retransmits unanswered SYNs and requests (RFC 6298); otherwise none may be lost.
    pub client_repeats: bool,
    /// Both ends use ECN (RFC 3168).
    pub ecn: bool,
    pub ending: Ending,
}

/// How a connection ends, or why it never begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// With all requested data transferred.
    #[default]
    Orderly,
    /// The SYN is not answered.
    NoAnswer,
    /// The SYN is answered by a reset.
    Refused,
    /// The server resets the connection when this much is acknowledged.
    Reset { after_bytes: u64 },
    /// The client disappears when this much has arrived: it acknowledges nothing more.
    Gone { after_bytes: u64 },
}

impl Application {
    pub fn requests(self) -> u32 {
        match self {
            Self::Chunks { count, .. } | Self::Answers { count, .. } => count,
            Self::Stream { .. } => 1,
        }
    }

    /// How many writes the server's application makes to answer one request, and the time between them.
    pub fn writes(self) -> (u32, i64) {
        match self {
            Self::Chunks { .. } => (1, 0),
            Self::Stream {
                count, interval_ns, ..
            } => (count, interval_ns),
            Self::Answers { writes, gap_ns, .. } => (writes.max(1), gap_ns),
        }
    }

    /// The client's pause between a complete answer and its next request.
    pub fn pause_ns(self) -> i64 {
        match self {
            Self::Chunks { pause_ns, .. } | Self::Answers { pause_ns, .. } => pause_ns,
            Self::Stream { .. } => 0,
        }
    }

    pub fn bytes_per_write(self) -> u64 {
        match self {
            Self::Chunks { bytes, .. }
            | Self::Stream { bytes, .. }
            | Self::Answers { bytes, .. } => bytes,
        }
    }

    /// Bytes that answer one request.
    pub fn bytes_per_request(self) -> u64 {
        match self {
            Self::Chunks { bytes, .. } => bytes,
            Self::Stream { bytes, count, .. } => bytes * u64::from(count),
            Self::Answers { bytes, writes, .. } => bytes * u64::from(writes.max(1)),
        }
    }
}

/// Packets that appear in no capture: they enter before a stage and leave behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrossTraffic {
    pub stage: usize,
    /// The rate while it is on.
    pub rate_bps: u64,
    pub packet_bytes: u32,
    /// Gaps are exponential (Poisson arrivals) or constant.
    pub poisson: bool,
    /// Mean times on and off, both exponential; always on if off is 0.
    pub mean_on_ns: i64,
    pub mean_off_ns: i64,
    pub start_ns: i64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CaptureConfig {
    /// The capture is taken before this stage: 0 is at the sender, the number of stages at the receiver.
    pub tap: usize,
    pub snaplen: u32,
    pub resolution: Resolution,
    /// The sender's network card segments: packets that leave together are one large segment in a capture at the
    /// sender.
    pub segmentation_offload: bool,
    /// Probability that the sniffer misses a packet.
    pub missed: f64,
    /// The capture begins this long after the connection.
    pub begins_ns: i64,
}

impl Default for CaptureConfig {
    fn default() -> Self {
        Self {
            tap: 0,
            snaplen: 96,
            resolution: Resolution::Nanoseconds,
            segmentation_offload: false,
            missed: 0.0,
            begins_ns: 0,
        }
    }
}

/// Resolution of the timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    Nanoseconds,
    Microseconds,
}

impl Resolution {
    /// The name in a truth file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
        }
    }
}
