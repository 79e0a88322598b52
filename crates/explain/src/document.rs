//! The result of an analysis in codes and numbers: the JSON contract (`schema` 2) before it is put into words, which adds
//! to verdicts, models and captures what is written for readers.
//!
//! Times are seconds (float, since the Unix epoch) here; the tables keep int64 nanoseconds.

use std::collections::BTreeMap;

use serde::Serialize;
use whydrop_datagrams::DatagramsInfo;
use whydrop_verdict::{Fact, Place, Quantity};

/// Version of the JSON contract.
pub const SCHEMA: u32 = 2;

#[derive(Debug, Clone, Serialize)]
pub struct Document {
    pub whydrop: String,
    pub schema: u32,
    pub captures: Vec<CaptureInfo>,
    pub flows: Vec<FlowInfo>,
    pub transfers: Vec<TransferInfo>,
    pub verdicts: Vec<Verdict>,
    /// The pair that two captures make; `null` for one.
    pub pair: Option<PairInfo>,
    /// With more than two captures: each segment between two neighbours along the path.
    pub hops: Vec<PairInfo>,
    /// UDP of one capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramsInfo>,
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
    /// Of the duplicates, frames that a wireless station sent once more (802.11 retries); absent where there are none.
    #[serde(skip_serializing_if = "is_zero")]
    pub link_retries: u64,
    /// Frames that were not read down to a transport header, by what they hold; absent where there are none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unread: BTreeMap<String, u64>,
    /// Packets that the capturing host says it dropped; absent where it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_by_capture: Option<u64>,
    /// Packets whose timestamp is before that of the packet before them.
    pub out_of_order: u64,
    pub notes: Vec<String>,
    /// TCP connections that carried no data, and so are not listed.
    pub connections_without_data: u64,
    /// TCP connections with data that are not among the flows, because they are small and too many; absent where every
    /// one is listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub small_connections: Option<SmallConnectionsInfo>,
    /// Control connections of programs that measure, which are not among the flows either; absent where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub control_connections: Vec<ControlConnectionsInfo>,
}

/// Control connections of one program, both directions together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ControlConnectionsInfo {
    /// `whydrop`, `iperf3` or `netperf`.
    pub program: &'static str,
    pub connections: u64,
    pub packets: u64,
    pub payload_bytes: u64,
    pub lost: u64,
    pub retransmitted: u64,
}

// serde passes references
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Small connections summed up: together with the flows that are listed they are all connections with data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SmallConnectionsInfo {
    /// Each had fewer packets than this.
    pub packets_below: u64,
    pub connections: u64,
    /// Directions of them that carried data; what follows is that of both directions.
    pub flows: u64,
    pub packets: u64,
    pub payload_bytes: u64,
    pub lost: u64,
    pub retransmitted: u64,
    pub spurious: u64,
    pub reordered: u64,
    /// Connections whose SYN was captured.
    pub attempts: u64,
    /// Connections with packets both ways.
    pub answered: u64,
    pub start: f64,
    pub end: f64,
    /// Who sent the SYN, or the first packet seen.
    pub initiators: HostsInfo,
    pub responders: HostsInfo,
}

/// The hosts at one end of many connections.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostsInfo {
    pub hosts: u64,
    /// There were too many to count: the number is right within some percent.
    pub is_estimate: bool,
    /// The host with most connections, and how many it has at least; `null` where no host stands out.
    pub busiest: Option<String>,
    pub busiest_connections: Option<u64>,
}

/// One direction of a TCP connection that carried data; behind all of those the UDP flows with congestion marks.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FlowInfo {
    /// `udp`, of which only packets, bytes, times and marks are known; absent of TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<&'static str>,
    /// `src:port > dst:port`.
    pub flow: String,
    pub packets: u64,
    pub payload_bytes: u64,
    /// Transmissions of this flow that never arrived.
    pub lost: u64,
    /// Fewest and most of them, where retransmissions without SACK leave the number open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_low: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_high: Option<u64>,
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
    /// The use of ECN that the handshake agreed on: `off`, `classic`, `accurate`, or `unknown`.
    pub ecn: String,
    /// The same as `ecn` being `accurate` (RFC 9768).
    pub accecn: bool,
    /// Data packets capable of ECN and not marked, by their code point.
    pub ect0: u64,
    pub ect1: u64,
    /// Packets, and payload bytes, that the receiver reported as marked by accurate ECN.
    pub ce_reported: u64,
    pub ce_reported_bytes: u64,
    /// Packets by which the sender told that it had reduced its window (CWR).
    pub windows_reduced: u64,
    /// Time for which the receiver's window was closed, or too small to use, while data waited.
    pub window_closed_s: f64,
    /// How often that was, and how many packets asked whether it still is.
    pub window_closures: u64,
    pub window_probes: u64,
    /// Payload bytes outstanding when packets left that were lost: mean and standard deviation; `null` without losses.
    pub outstanding_at_loss_mean_bytes: Option<f64>,
    pub outstanding_at_loss_deviation_bytes: Option<f64>,
    /// The limiters at each moment; `null` where acknowledgments of its data were not captured.
    pub limits: Option<LimitsInfo>,
}

/// The account of all time of a flow or of a transfer, on the capture's clock, as the data sender lived it.
#[derive(Debug, Clone, Serialize)]
pub struct LimitsInfo {
    pub from: f64,
    pub until: f64,
    /// Share of that time by limiter; those that are 0 are left out.
    pub shares: BTreeMap<&'static str, f64>,
    /// Of a flow: what to draw, `[from, until, limiter]`, one behind the other; of each interval its largest limiter,
    /// where there were too many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<(f64, f64, &'static str)>,
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
    /// From its request until its last acknowledgment; `null` where that was not captured.
    pub limits: Option<LimitsInfo>,
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
    pub parameters: BTreeMap<String, Quantity>,
    /// `ip`, `ethernet` or `wire`, where the fit can tell.
    pub byte_basis: Option<String>,
    /// With several captures: between which of them, before or beyond.
    #[serde(rename = "at")]
    pub place: Option<Place>,
    /// Which kind of the cause.
    pub detail: Option<String>,
    /// Of active queue management, where drops and marks tell: see `Family`.
    pub family: Option<String>,
    /// With several captures: mechanisms replayed over the packets, the winner first.
    pub models: Vec<ModelInfo>,
    /// Findings: the headline first, then the evidence, and the path's own numbers.
    pub facts: Vec<Fact>,
    pub against: Vec<Against>,
    /// Throughput lost to the cause.
    pub throughput_lost: Option<ThroughputLost>,
}

/// A mechanism replayed over the packets that entered a segment of the path, beside what happened to them.
#[derive(Debug, Clone, Serialize)]
pub struct ModelInfo {
    /// `winner` or `rival`.
    pub role: String,
    /// `policer`, `fifo`, `shaper` or `codel`.
    pub element: String,
    pub rate_bps: f64,
    pub limit_bytes: Option<f64>,
    pub limit_packets: Option<f64>,
    /// Of a dual-rate policer: the second bucket.
    pub peak_rate_bps: Option<f64>,
    pub peak_burst_bytes: Option<f64>,
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
    pub fact: Option<Fact>,
}

/// A cause that competed, and what rules it out.
#[derive(Debug, Clone, Serialize)]
pub struct Against {
    pub cause: String,
    pub fact: Fact,
}

#[derive(Debug, Clone, Serialize)]
pub struct ThroughputLost {
    pub bps: f64,
    pub share: f64,
}

/// The findings of two captures of one path together.
#[derive(Debug, Clone, Serialize)]
pub struct PairInfo {
    /// Positions in `captures`: points 1 and 2 of what follows.
    pub from: usize,
    pub to: usize,
    /// The capture nearer to the sender of most data: `capture 1`, `capture 2`, `both` or `unknown`.
    pub upstream: String,
    pub matched: u64,
    pub lost_1_to_2: u64,
    pub lost_2_to_1: u64,
    /// Packets that passed its point and that a capture does not hold.
    pub missed_by_1: u64,
    pub missed_by_2: u64,
    /// Packets that only one capture holds for another reason, by reason.
    pub unmatched: BTreeMap<String, u64>,
    /// Flows of few packets that were let go to bound memory, if any were: counted nowhere else.
    pub left_out: Option<LeftOutInfo>,
    /// Time during which both captures ran.
    pub overlap_s: f64,
    /// How far capture 2's clock is ahead at capture 1's first packet; and the bounds that no asymmetry of the path can
    /// exceed, where both directions were captured.
    pub clock_offset_s: Option<f64>,
    pub clock_offset_low_s: Option<f64>,
    pub clock_offset_high_s: Option<f64>,
    /// How much faster capture 2's clock runs (`null` where the packets do not tell), and half the width of the 95 %
    /// interval.
    pub clock_drift_ppm: Option<f64>,
    pub clock_drift_error_ppm: Option<f64>,
    /// More than one where a clock was stepped.
    pub clock_stretches: Vec<ClockIntervalInfo>,
    pub transit_1_to_2_s: Option<TransitInfo>,
    pub transit_2_to_1_s: Option<TransitInfo>,
    pub reordered_1_to_2: u64,
    pub reordered_2_to_1: u64,
    pub duplicated_1_to_2: u64,
    pub duplicated_2_to_1: u64,
    /// `[length, count]`: how many runs of so many packets were lost one after the other.
    pub loss_runs_1_to_2: Vec<(u64, u64)>,
    pub loss_runs_2_to_1: Vec<(u64, u64)>,
    /// How packets fared that came after a pause, in the direction with more of them.
    pub after_gap: Option<AfterGapInfo>,
    pub changes: ChangesInfo,
    pub flows: Vec<PairFlowInfo>,
}

/// Flows that were let go, their packets that both captures hold, and those that only one holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LeftOutInfo {
    pub flows: u64,
    pub matched: u64,
    pub unmatched: u64,
}

/// An interval over which both clocks ran without a step; times by capture 1's clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClockIntervalInfo {
    pub start: f64,
    pub end: f64,
    pub offset_s: f64,
    pub drift_ppm: f64,
}

/// One-way transit, seconds: the smallest, the median, the 99 % quantile and the largest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TransitInfo {
    pub min: f64,
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AfterGapInfo {
    /// `1-to-2` or `2-to-1`.
    pub direction: &'static str,
    /// Pauses of this length and longer count.
    pub gap_s: f64,
    pub packets: u64,
    pub transit_median_s: f64,
    /// Of the packets that came without a pause before them.
    pub other_median_s: f64,
}

/// Packets that the path rewrote; of the TTL by how much it fell on most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChangesInfo {
    pub ttl_hops: Option<i64>,
    pub dscp: u64,
    pub ecn: u64,
    pub ce_marked: u64,
    pub mss: u64,
    /// Flows whose addresses or ports differ between the points.
    pub translated_flows: u64,
    /// Flows whose sequence numbers a device between the points changes by a constant.
    pub renumbered_flows: u64,
    /// Flows whose SACK blocks such a device leaves as they are, so that they report what was never sent.
    pub sack_left_flows: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct PairFlowInfo {
    /// As the upstream point names it, or the point that saw it.
    pub flow: String,
    /// As the other point names it, where that differs.
    pub flow_at_2: Option<String>,
    pub protocol: String,
    /// `1-to-2`, `2-to-1` or `unknown`.
    pub direction: &'static str,
    pub packets_1: u64,
    pub packets_2: u64,
    pub matched: u64,
    pub lost: u64,
    pub missed_by_1: u64,
    pub missed_by_2: u64,
    pub reordered: u64,
    pub transit: Option<TransitInfo>,
}
