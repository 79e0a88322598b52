//! The result of an analysis, in the shape of the JSON contract (`schema` 1).
//!
//! Times are seconds (float, since the Unix epoch) here; the tables keep int64 nanoseconds.

use std::collections::BTreeMap;

use serde::Serialize;

/// Version of the JSON contract.
pub const SCHEMA: u32 = 1;

#[derive(Debug, Clone, Serialize)]
pub struct Document {
    pub whydrop: String,
    pub schema: u32,
    pub captures: Vec<CaptureInfo>,
    pub flows: Vec<FlowInfo>,
    pub transfers: Vec<TransferInfo>,
    pub verdicts: Vec<Verdict>,
    /// What two captures show together; `null` for one.
    pub pair: Option<serde_json::Value>,
}

#[derive(Debug, Clone, Serialize)]
pub struct CaptureInfo {
    pub path: String,
    /// `pcap` or `pcapng`, with the compression: `pcap.xz`.
    pub format: String,
    pub packets: u64,
    pub first: Option<f64>,
    pub last: Option<f64>,
    pub link_type: String,
    pub snaplen: Option<u32>,
    /// Damaged or cut off: analysed up to the damage.
    pub truncated: bool,
    /// Packets by what they carry: `tcp`, `udp`, `icmp`, `fragment`, `other-ip`, `not-ip`, `undecodable`.
    pub packets_by_kind: BTreeMap<String, u64>,
    /// Copies of a packet that was captured before (`-i any`, SPAN ports): left out.
    pub duplicates: u64,
    /// Packets whose timestamp is before that of the packet before them.
    pub out_of_order: u64,
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct FlowInfo {
    /// `src:port > dst:port`.
    pub flow: String,
    pub packets: u64,
    pub payload_bytes: u64,
    /// Transmissions of this flow that never arrived.
    pub lost: u64,
    pub retransmitted: u64,
    /// Retransmissions of data that had arrived.
    pub spurious: u64,
    /// Packets that arrived out of order (seen from the acknowledgments, or directly at the receiver).
    pub reordered: u64,
    pub rtt_min_s: Option<f64>,
    pub rtt_median_s: Option<f64>,
    pub mss: Option<u32>,
    /// Where the capture was taken, for this flow: `sender`, `middle`, `receiver` or `unknown`.
    pub vantage: String,
    pub start: f64,
    pub end: f64,
    /// Data acknowledged but never captured: the capture itself missed it.
    pub missed_by_capture_bytes: u64,
    /// Retransmissions by what started them: `fast`, `timeout`, `tail-loss-probe`, `unknown`.
    pub retransmitted_by_kind: BTreeMap<String, u64>,
    pub ce_marked: u64,
    pub ecn_echoes: u64,
    pub zero_windows: u64,
    /// Share of the flow's busy time with bytes in flight within one segment of the receive window.
    pub window_limited_share: Option<f64>,
    pub window_scale: Option<u8>,
}

#[derive(Debug, Clone, Serialize)]
pub struct TransferInfo {
    pub flow: String,
    pub start: f64,
    pub end: f64,
    pub payload_bytes: u64,
    pub packets: u64,
    pub lost: u64,
    pub goodput_bps: Option<f64>,
    pub cause: String,
    /// 0 to 1.
    pub confidence: f64,
}

/// A cause, how sure, and why.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    pub cause: String,
    pub confidence: f64,
    pub flows: Vec<String>,
    /// Losses of those flows.
    pub lost: u64,
    /// Share of those losses that the cause accounts for, 0 to 1.
    pub explained: f64,
    /// Share of the flows' active time that the cause limits, 0 to 1.
    pub limited_share: f64,
    pub parameters: BTreeMap<String, Parameter>,
    /// `ip`, `ethernet` or `wire`, where the fit can tell.
    pub byte_basis: Option<String>,
    /// With several captures: between which of them, before or beyond.
    pub place: Option<String>,
    /// Of active queue management: `codel`, `flow-queueing` or `random-early-drop`, where two captures tell.
    pub family: Option<String>,
    /// With several captures: mechanisms replayed over the packets, the winner first.
    pub models: Vec<ModelInfo>,
    pub sentence: String,
    pub evidence: Vec<String>,
    pub against: Vec<Against>,
    /// What to do, each a sentence; commands to paste stand on lines of their own that begin with `$ `.
    pub advice: Vec<String>,
    /// Throughput lost to the cause, and how it was estimated.
    pub throughput_lost: Option<ThroughputLost>,
}

/// A mechanism replayed over the packets that entered a stretch of path, beside what happened to them.
#[derive(Debug, Clone, Serialize)]
pub struct ModelInfo {
    /// `winner` or `rival`.
    pub role: String,
    /// `policer`, `fifo`, `shaper` or `codel`.
    pub element: String,
    pub title: String,
    pub rate_bps: f64,
    pub limit_bytes: Option<f64>,
    pub limit_packets: Option<f64>,
    /// Packets that the replay drops; of those, packets that were lost.
    pub dropped: usize,
    pub hits: usize,
    /// Packets that passed and that the replay passes.
    pub passed_right: usize,
    pub lost: usize,
    pub passed: usize,
    /// Longest wait in the replay, and the longest seen, seconds.
    pub longest_wait_s: f64,
    pub seen_longest_wait_s: f64,
    /// Median distance between waits of the replay and waits seen, seconds.
    pub wait_error_s: Option<f64>,
    /// Why it is ruled out; `null` for the winner.
    pub why: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Parameter {
    pub value: f64,
    /// Bounds of a 95 % interval; `null` where the evidence leaves that end open.
    pub low: Option<f64>,
    pub high: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Against {
    pub cause: String,
    pub why: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct ThroughputLost {
    pub bps: f64,
    pub share: f64,
    pub method: String,
}
