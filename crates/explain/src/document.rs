//! The result of an analysis in codes and numbers: the JSON contract (`schema` 2) before Python adds
//! sentences to verdicts, models and captures.
//!
//! Times here are seconds (float, since the Unix epoch); the tables keep int64 nanoseconds.

use std::collections::BTreeMap;

use serde::Serialize;
use whydrop_datagrams::{DatagramsInfo, ServerInfo};
use whydrop_path::PathSpec;
use whydrop_verdict::{Cause, Fact, Place, Quantity};

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
    /// With more than two captures: the segments between neighbouring points along the path.
    pub hops: Vec<PairInfo>,
    /// UDP of one capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramsInfo>,
    /// Servers of one capture that were asked by UDP, or for DNS; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerInfo>,
}

#[derive(Debug, Clone, Serialize)]
pub struct CaptureInfo {
    pub path: String,
    /// `pcap` or `pcapng`, with the compression: `pcap.xz`.
    pub format: String,
    pub packets: u64,
    pub first: Option<f64>,
    pub last: Option<f64>,
    /// Why the timestamps show no time: `equal`, `coarse` or `backwards`; absent if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeless: Option<&'static str>,
    /// Packets that the filter or the times given left out; absent if there are none.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
    pub link_type: String,
    pub snaplen: Option<u32>,
    /// Damaged or cut off: analysed up to the damage.
    pub truncated: bool,
    /// Packets by content: `tcp`, `udp`, `icmp`, `fragment`, `other-ip`, `not-ip`, `undecodable`.
    pub packets_by_kind: BTreeMap<String, u64>,
    /// Copies of a packet that was captured before (`-i any`, SPAN ports): not analysed.
    pub duplicates: u64,
    /// Frames among the duplicates that a wireless station retransmitted (802.11 retries); absent if there
    /// are none.
    #[serde(skip_serializing_if = "is_zero")]
    pub link_retries: u64,
    /// Frames without a readable transport header, by content; absent if there are none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unread: BTreeMap<String, u64>,
    /// Packets that the capturing host reports as dropped; absent if it does not report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_by_capture: Option<u64>,
    /// Packets with a timestamp before that of the previous packet.
    pub out_of_order: u64,
    pub notes: Vec<String>,
    /// TCP connections without data, which are not listed.
    pub connections_without_data: u64,
    /// TCP connections with data that are not listed because they are small and too many; absent if all are
    /// listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub small_connections: Option<SmallConnectionsInfo>,
    /// Control connections of measurement programs, which are not among the flows either; absent if there are
    /// none.
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

// serde passes a reference
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Totals of small connections: these and the listed flows are all connections with data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SmallConnectionsInfo {
    /// Each has fewer packets than this.
    pub packets_below: u64,
    pub connections: u64,
    /// Directions of them that carry data; the following fields count both directions.
    pub flows: u64,
    pub packets: u64,
    pub payload_bytes: u64,
    pub lost: u64,
    pub retransmitted: u64,
    pub spurious: u64,
    pub reordered: u64,
    /// Connections with a captured SYN.
    pub attempts: u64,
    /// Connections with packets in both directions.
    pub answered: u64,
    pub start: f64,
    pub end: f64,
    /// The senders of the SYN, or of the first captured packet.
    pub initiators: HostsInfo,
    pub responders: HostsInfo,
}

/// The hosts at one end of many connections.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostsInfo {
    pub hosts: u64,
    /// True if there were too many to count: the number is correct within some percent.
    pub is_estimate: bool,
    /// The host with the most connections, and a lower bound of their number; `null` if no host stands out.
    pub busiest: Option<String>,
    pub busiest_connections: Option<u64>,
}

/// One direction of a TCP connection that carries data; after all of those, the UDP flows with congestion
/// marks.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FlowInfo {
    /// `udp`, for which only packets, bytes, times and marks are known; absent for TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<&'static str>,
    /// `src:port > dst:port`.
    pub flow: String,
    pub packets: u64,
    pub payload_bytes: u64,
    /// Transmissions of this flow that never arrived.
    pub lost: u64,
    /// Bounds of that number, if retransmissions without SACK leave it open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_low: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_high: Option<u64>,
    pub retransmitted: u64,
    /// Retransmissions of data that had arrived.
    pub spurious: u64,
    /// Packets that arrived out of order (concluded from the acknowledgments, or observed at the receiver).
    pub reordered: u64,
    pub rtt_min_s: Option<f64>,
    pub rtt_median_s: Option<f64>,
    pub mss: Option<u32>,
    /// Where the capture was taken, for this flow: `sender`, `middle`, `receiver` or `unknown`.
    pub vantage: String,
    pub start: f64,
    pub end: f64,
    /// Data that was acknowledged but never captured: the capture lacks it.
    pub missed_by_capture_bytes: u64,
    /// Retransmissions by trigger: `fast`, `timeout`, `tail-loss-probe`, `unknown`.
    pub retransmitted_by_kind: BTreeMap<String, u64>,
    pub ce_marked: u64,
    pub ecn_echoes: u64,
    pub zero_windows: u64,
    /// Share of the flow's busy time with bytes in flight within one segment of the receive window.
    pub window_limited_share: Option<f64>,
    pub window_scale: Option<u8>,
    /// Use of ECN as negotiated in the handshake: `off`, `classic`, `accurate`, or `unknown`.
    pub ecn: String,
    /// True if `ecn` is `accurate` (RFC 9768).
    pub accecn: bool,
    /// ECN-capable data packets without a mark, by code point.
    pub ect0: u64,
    pub ect1: u64,
    /// Packets and payload bytes that the receiver reported as marked, with accurate ECN.
    pub ce_reported: u64,
    pub ce_reported_bytes: u64,
    /// Packets in which the sender announced that it had reduced its window (CWR).
    pub windows_reduced: u64,
    /// Time in which the receiver's window was closed, or too small to use, while data waited.
    pub window_closed_s: f64,
    /// Number of such times, and of window probes.
    pub window_closures: u64,
    pub window_probes: u64,
    /// Payload bytes outstanding when lost packets were sent: mean and standard deviation; `null` without
    /// losses.
    pub outstanding_at_loss_mean_bytes: Option<f64>,
    pub outstanding_at_loss_deviation_bytes: Option<f64>,
    /// The limiters over time; `null` if acknowledgments of its data were not captured.
    pub limits: Option<LimitsInfo>,
}

/// All time of a flow or of a transfer by limiter, on the capture's clock, from the data sender's point of
/// view.
#[derive(Debug, Clone, Serialize)]
pub struct LimitsInfo {
    pub from: f64,
    pub until: f64,
    /// Share of that time by limiter, without those that are 0.
    pub shares: BTreeMap<&'static str, f64>,
    /// For a flow, spans to draw: `[from, until, limiter]`, contiguous; if there were too many, the largest
    /// limiter of each interval.
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
    pub cause: Cause,
    /// From 0 to 1.
    pub confidence: f64,
    /// From its request to its last acknowledgment; `null` if that was not captured.
    pub limits: Option<LimitsInfo>,
}

/// A cause, its confidence, and its evidence.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    pub cause: Cause,
    pub confidence: f64,
    pub flows: Vec<String>,
    /// Losses of those flows.
    pub lost: u64,
    /// Share of those losses that the cause explains, 0 to 1.
    pub explained: f64,
    /// Share of the flows' active time that the cause limits, 0 to 1.
    pub limited_share: f64,
    pub parameters: BTreeMap<String, Quantity>,
    /// The element of the path that the parameters describe; absent if they describe none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathSpec>,
    /// `ip`, `ethernet` or `wire`, if the fit distinguishes them.
    pub byte_basis: Option<String>,
    /// With several captures: between which of them, or before or beyond which one.
    #[serde(rename = "at")]
    pub place: Option<Place>,
    /// The kind of the cause.
    pub detail: Option<String>,
    /// For active queue management, if drops and marks identify it: see `Family`.
    pub family: Option<String>,
    /// With several captures: mechanisms replayed over the packets, the winner first.
    pub models: Vec<ModelInfo>,
    /// Facts: the headline first, then the evidence, and the path's own numbers.
    pub facts: Vec<Fact>,
    pub against: Vec<Against>,
    /// Throughput lost to the cause.
    pub throughput_lost: Option<ThroughputLost>,
}

/// A confidence as it is stated: in steps of a thousandth.
pub(crate) fn in_thousandths(confidence: f64) -> f64 {
    (confidence * 1000.0).round() / 1000.0
}

impl Verdict {
    /// The verdict of this confidence, 0 to 1, on a cause; everything else is empty.
    pub(crate) fn new(cause: Cause, confidence: f64) -> Self {
        Self {
            cause,
            confidence: in_thousandths(confidence),
            flows: Vec::new(),
            lost: 0,
            explained: 0.0,
            limited_share: 0.0,
            parameters: BTreeMap::new(),
            path: None,
            byte_basis: None,
            place: None,
            detail: None,
            family: None,
            models: Vec::new(),
            facts: Vec::new(),
            against: Vec::new(),
            throughput_lost: None,
        }
    }
}

/// A mechanism replayed over the packets that entered a segment of the path, compared with what happened to
/// them.
#[derive(Debug, Clone, Serialize)]
pub struct ModelInfo {
    /// `winner` or `rival`; `given` if the user gave it.
    pub role: String,
    /// The name of the (first) element: see `ElementSpec`.
    pub element: String,
    /// NaN, and `null` in JSON, if no element has a rate.
    pub rate_bps: f64,
    pub limit_bytes: Option<f64>,
    pub limit_packets: Option<f64>,
    /// The second bucket of a dual-rate policer.
    pub peak_rate_bps: Option<f64>,
    pub peak_burst_bytes: Option<f64>,
    /// Packets that the replay drops, and those among them that were lost.
    pub dropped: usize,
    pub hits: usize,
    /// Packets that passed, in the capture and in the replay.
    pub passed_right: usize,
    pub lost: usize,
    pub passed: usize,
    /// Longest queueing delay in the replay, and the longest measured, seconds.
    pub longest_wait_s: f64,
    pub seen_longest_wait_s: f64,
    /// Median distance between replayed and measured queueing delays, seconds.
    pub wait_error_s: Option<f64>,
    /// The reason that rules it out; `null` for the winner.
    pub fact: Option<Fact>,
}

/// A cause that competed, and the reason that rules it out.
#[derive(Debug, Clone, Serialize)]
pub struct Against {
    pub cause: Cause,
    pub fact: Fact,
}

#[derive(Debug, Clone, Serialize)]
pub struct ThroughputLost {
    pub bps: f64,
    pub share: f64,
}

/// The findings of two captures of one path.
#[derive(Debug, Clone, Serialize)]
pub struct PairInfo {
    /// Positions in `captures`: points 1 and 2 in the following fields.
    pub from: usize,
    pub to: usize,
    /// The capture nearer to the sender of most of the data: `capture 1`, `capture 2`, `both` or `unknown`.
    pub upstream: String,
    /// The evidence for the order of the captures: `known` (by TTL, by transit times, or as given by the user),
    /// `guessed` (by losses or clocks), or `contradicted` (TTL or transit times contradict the user).
    pub order: String,
    pub matched: u64,
    pub lost_1_to_2: u64,
    pub lost_2_to_1: u64,
    /// Packets that passed a point and that its capture does not hold.
    pub missed_by_1: u64,
    pub missed_by_2: u64,
    /// Packets that only one capture holds for another reason, by reason.
    pub unmatched: BTreeMap<String, u64>,
    /// Flows of few packets that were discarded to limit memory, if any: they are counted nowhere else.
    pub left_out: Option<LeftOutInfo>,
    /// Time during which both captures ran.
    pub overlap_s: f64,
    /// The lead of capture 2's clock at capture 1's first packet, and bounds that hold for any asymmetry of
    /// the path, if both directions were captured.
    pub clock_offset_s: Option<f64>,
    pub clock_offset_low_s: Option<f64>,
    pub clock_offset_high_s: Option<f64>,
    /// The excess rate of capture 2's clock (`null` if the packets do not show it), and half the width of its
    /// 95 % interval.
    pub clock_drift_ppm: Option<f64>,
    pub clock_drift_error_ppm: Option<f64>,
    /// More than one if a clock was stepped.
    pub clock_stretches: Vec<ClockIntervalInfo>,
    pub transit_1_to_2_s: Option<TransitInfo>,
    pub transit_2_to_1_s: Option<TransitInfo>,
    pub reordered_1_to_2: u64,
    pub reordered_2_to_1: u64,
    pub duplicated_1_to_2: u64,
    pub duplicated_2_to_1: u64,
    /// `[length, count]`: number of runs with this many consecutive losses.
    pub loss_runs_1_to_2: Vec<(u64, u64)>,
    pub loss_runs_2_to_1: Vec<(u64, u64)>,
    /// Delays of packets after a pause, in the direction with more of them.
    pub after_gap: Option<AfterGapInfo>,
    pub changes: ChangesInfo,
    pub flows: Vec<PairFlowInfo>,
}

/// Flows that were discarded, their packets that both captures hold, and those that only one holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LeftOutInfo {
    pub flows: u64,
    pub matched: u64,
    pub unmatched: u64,
}

/// An interval over which both clocks ran without a step; times on capture 1's clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClockIntervalInfo {
    pub start: f64,
    pub end: f64,
    pub offset_s: f64,
    pub drift_ppm: f64,
}

/// One-way transit time in seconds: minimum, median, 99 % quantile and maximum.
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
    /// Least length of a pause.
    pub gap_s: f64,
    pub packets: u64,
    pub transit_median_s: f64,
    /// Median of the packets without a pause before them.
    pub other_median_s: f64,
}

/// Packets that the path rewrote; for the TTL, the most frequent decrement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChangesInfo {
    pub ttl_hops: Option<i64>,
    pub dscp: u64,
    pub ecn: u64,
    pub ce_marked: u64,
    pub mss: u64,
    /// Flows with addresses or ports that differ between the points.
    pub translated_flows: u64,
    /// Flows with sequence numbers that a device between the points shifts by a constant.
    pub renumbered_flows: u64,
    /// Flows with SACK blocks that such a device leaves unchanged, so that they report data that was never
    /// sent.
    pub sack_left_flows: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct PairFlowInfo {
    /// Name of the flow at the upstream point, or at the point that captured it.
    pub flow: String,
    /// Name at the other point, if it differs.
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
