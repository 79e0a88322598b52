//! Scenarios: connections, the path between their hosts, other traffic, and where the capture is taken.

use whydrop_path::PathElement;

use crate::pcap::Resolution;
use crate::receiver::ReceiverConfig;
use crate::sender::SenderConfig;

/// A path with the traffic on it. All connections and the cross traffic share it.
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
    /// Nothing happens after this time, counted from the start of the simulation.
    pub end_ns: i64,
}

/// A part of the path: what data meets on its way to the clients, and how long acknowledgments take back over it.
pub struct Stage {
    pub name: &'static str,
    pub element: Box<dyn PathElement + Send>,
    pub reverse_delay_ns: i64,
}

/// One TCP connection: a client that asks for data, and a server that sends it.
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
    /// Ends with FINs; else the capture ends first.
    pub closes: bool,
    /// Added to the way of the acknowledgments, so that connections have round trips of their own.
    pub extra_rtt_ns: i64,
}

/// The requests of the client, and how the server's application delivers them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Application {
    /// `count` requests of `bytes` each, the next one `pause_ns` after the last one is complete: video in chunks.
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
    /// `count` requests, each answered by `writes` writes of `bytes`, `gap_ns` from one to the next: an application
    /// that writes a little at a time, or computes in the midst of its answers.
    Answers {
        bytes: u64,
        writes: u32,
        gap_ns: i64,
        count: u32,
        pause_ns: i64,
    },
}

/// The behaviour of hosts beyond asking and answering; by default that of connections before there was a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Behaviour {
    /// From the arrival of a request until the application begins to answer.
    pub answers_after_ns: i64,
    /// The client repeats SYNs and requests that are not answered (RFC 6298); without it none may be lost.
    pub client_repeats: bool,
    /// Both ends speak ECN (RFC 3168).
    pub ecn: bool,
    pub ending: Ending,
}

/// How a connection ends, or why it never begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// With all that was asked for.
    #[default]
    Orderly,
    /// Nobody answers the SYN.
    NoAnswer,
    /// The SYN is answered by a reset.
    Refused,
    /// The server resets the connection when so much is acknowledged.
    Reset { after_bytes: u64 },
    /// The client is gone without a word when so much has come: nothing is ever acknowledged again.
    Gone { after_bytes: u64 },
}

impl Application {
    pub fn requests(self) -> u32 {
        match self {
            Self::Chunks { count, .. } | Self::Answers { count, .. } => count,
            Self::Stream { .. } => 1,
        }
    }

    /// How often the server's application writes to answer one request, and the time from write to write.
    pub fn writes(self) -> (u32, i64) {
        match self {
            Self::Chunks { .. } => (1, 0),
            Self::Stream {
                count, interval_ns, ..
            } => (count, interval_ns),
            Self::Answers { writes, gap_ns, .. } => (writes.max(1), gap_ns),
        }
    }

    /// The client's pause from a complete answer to its next request.
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

/// Packets that are in no capture: they enter before a stage and leave behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrossTraffic {
    pub stage: usize,
    /// While it is on.
    pub rate_bps: u64,
    pub packet_bytes: u32,
    /// Gaps are exponential (Poisson arrivals) or all the same.
    pub poisson: bool,
    /// Mean times on and off, both exponential; always on if off is 0.
    pub mean_on_ns: i64,
    pub mean_off_ns: i64,
    pub start_ns: i64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CaptureConfig {
    /// Taken before this stage: 0 is at the sender, the number of stages at the receiver.
    pub tap: usize,
    pub snaplen: u32,
    pub resolution: Resolution,
    /// The sender's network card segments: what leaves together is one large segment in a capture at the sender.
    pub segmentation_offload: bool,
    /// Probability that the sniffer misses a packet.
    pub missed: f64,
    /// The first part of the connection is not in the capture.
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
