//! Columns behind the verdicts, for charts, notebooks and recordings: one struct per table, one `Vec` per
//! column.
//!
//! `flow` columns index `Document::flows`; `time_ns` is nanoseconds since the Unix epoch; sequence numbers are
//! relative to the flow's first byte (0) and do not wrap.

/// One row for each data packet that crossed the capture point (a super-segment is one row for each of its
/// wire packets).
#[derive(Debug, Clone, Default)]
pub struct SegmentTable {
    pub flow: Vec<u32>,
    /// Index into `Document::transfers`; `u32::MAX` if the packet belongs to none.
    pub transfer: Vec<u32>,
    pub time_ns: Vec<i64>,
    pub sequence: Vec<i64>,
    pub payload_bytes: Vec<u32>,
    pub ip_bytes: Vec<u32>,
    /// `Kind as u8`: 0 new, 1 fast retransmission, 2 timeout retransmission, 3 tail-loss probe, 4 other retransmission.
    pub kind: Vec<u8>,
    /// 0 delivered, 1 lost, 2 unknown.
    pub fate: Vec<u8>,
    pub spurious: Vec<bool>,
    /// Time to the acknowledgment of this very transmission; -1 if unknown.
    pub rtt_ns: Vec<i64>,
    /// Payload bytes outstanding after this packet was sent.
    pub in_flight_bytes: Vec<u32>,
}

/// One row for each acknowledgment of a data flow that acknowledged or SACKed data, or changed the window.
#[derive(Debug, Clone, Default)]
pub struct AckTable {
    pub flow: Vec<u32>,
    pub time_ns: Vec<i64>,
    /// Cumulative acknowledgment, relative sequence number.
    pub acknowledged: Vec<i64>,
    /// Receive window in bytes; -1 if the scale is unknown.
    pub window_bytes: Vec<i64>,
    /// The ECN-echo flag (RFC 3168).
    pub ecn_echo: Vec<bool>,
}

/// One row for each SACK block, as it arrived.
#[derive(Debug, Clone, Default)]
pub struct SackTable {
    pub flow: Vec<u32>,
    pub time_ns: Vec<i64>,
    pub start: Vec<i64>,
    pub end: Vec<i64>,
    /// A duplicate SACK (RFC 2883).
    pub duplicate: Vec<bool>,
}

/// One row for each packet over which the winning model of a verdict was replayed.
#[derive(Debug, Clone, Default)]
pub struct ModelTable {
    /// Index into `Document::verdicts`.
    pub verdict: Vec<u32>,
    pub flow: Vec<u32>,
    pub time_ns: Vec<i64>,
    /// The level that the packet finds: bucket fill (policer), or queued bytes (queue, shaper).
    pub level_bytes: Vec<f64>,
    pub ip_bytes: Vec<u32>,
    pub predicted_drop: Vec<bool>,
    pub seen_lost: Vec<bool>,
    /// True for a row of the best rival model instead of the winner: two captures have both. Also for the packets
    /// of a verdict without a model: there everything passes.
    pub rival: Vec<bool>,
    /// Delay of the packet in the model; -1 if it is dropped or unknown.
    pub wait_ns: Vec<i64>,
    /// Excess of the packet's transit time between the points over the fastest; -1 if unknown.
    pub seen_wait_ns: Vec<i64>,
}

/// One row for each packet on the wire between two captures, sorted by time.
#[derive(Debug, Clone, Default)]
pub struct CrossingTable {
    /// Position in `Document::hops` for more than two captures; otherwise 0.
    pub hop: Vec<u32>,
    /// Index into the pair's flows.
    pub flow: Vec<u32>,
    /// 0 from point 1 to point 2, 1 back, 2 unknown.
    pub direction: Vec<u8>,
    /// Time at the upstream point (if not captured there, at the other one), on capture 1's clock.
    pub sent_ns: Vec<i64>,
    /// -1 unless both points captured it.
    pub transit_ns: Vec<i64>,
    /// As captured, on each capture's own clock; `i64::MIN` if absent.
    pub time_1_ns: Vec<i64>,
    pub time_2_ns: Vec<i64>,
    /// Packet numbers from 0; `u32::MAX` if absent.
    pub number_1: Vec<u32>,
    pub number_2: Vec<u32>,
    pub sequence: Vec<u32>,
    pub payload_bytes: Vec<u32>,
    pub ip_bytes: Vec<u32>,
    /// `Crossing as u8` of `whydrop_pair`.
    pub crossing: Vec<u8>,
    /// Position in its run of losses, from 1, and the run's length; 0 for packets that were not lost.
    pub burst_position: Vec<u32>,
    pub burst_length: Vec<u32>,
    /// Time since the previous packet in its direction; -1 for the first.
    pub gap_ns: Vec<i64>,
    pub retransmission: Vec<bool>,
    /// It arrived before a packet of its flow that was sent earlier.
    pub overtook: Vec<bool>,
    pub ce_set: Vec<bool>,
}

/// One row for each packet of an RTP stream, in the order of arrival, without duplicates.
#[derive(Debug, Clone, Default)]
pub struct RtpTable {
    /// The streams of `Document::datagrams`, counted flow by flow.
    pub stream: Vec<u32>,
    pub time_ns: Vec<i64>,
    /// Does not wrap.
    pub number: Vec<i64>,
    /// How much later it came than at the pace of the stream's clock, counted from the first packet.
    pub late_ns: Vec<i64>,
}

/// One row for each report on an RTP stream by its receiver (RTCP).
#[derive(Debug, Clone, Default)]
pub struct RtpReportTable {
    pub stream: Vec<u32>,
    pub time_ns: Vec<i64>,
    /// Share of the packets since the report before.
    pub lost_share: Vec<f64>,
    /// Since the start of the stream.
    pub lost: Vec<i64>,
    pub jitter_ns: Vec<i64>,
    /// From the capture point to the receiver and back; -1 if unknown.
    pub round_trip_ns: Vec<i64>,
}

/// All tables of one analysis.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    pub segments: SegmentTable,
    pub acks: AckTable,
    pub sacks: SackTable,
    pub model: ModelTable,
    pub crossings: CrossingTable,
    pub rtp: RtpTable,
    pub rtp_reports: RtpReportTable,
}

impl ModelTable {
    /// The rows of one verdict, without its number; `number` renumbers each flow.
    pub fn rows_of(&self, verdict: u32, number: impl Fn(u32) -> u32) -> Self {
        let rows: Vec<usize> = (0..self.verdict.len())
            .filter(|row| self.verdict[*row] == verdict)
            .collect();
        fn pick<T: Copy>(column: &[T], rows: &[usize]) -> Vec<T> {
            rows.iter().map(|row| column[*row]).collect()
        }
        Self {
            verdict: Vec::new(),
            flow: rows.iter().map(|row| number(self.flow[*row])).collect(),
            time_ns: pick(&self.time_ns, &rows),
            level_bytes: pick(&self.level_bytes, &rows),
            ip_bytes: pick(&self.ip_bytes, &rows),
            predicted_drop: pick(&self.predicted_drop, &rows),
            seen_lost: pick(&self.seen_lost, &rows),
            rival: pick(&self.rival, &rows),
            wait_ns: pick(&self.wait_ns, &rows),
            seen_wait_ns: pick(&self.seen_wait_ns, &rows),
        }
    }
}

impl CrossingTable {
    /// Appends the rows of another segment of the path.
    pub fn append(&mut self, mut rows: Self, hop: u32) {
        self.hop.extend(std::iter::repeat_n(hop, rows.flow.len()));
        self.flow.append(&mut rows.flow);
        self.direction.append(&mut rows.direction);
        self.sent_ns.append(&mut rows.sent_ns);
        self.transit_ns.append(&mut rows.transit_ns);
        self.time_1_ns.append(&mut rows.time_1_ns);
        self.time_2_ns.append(&mut rows.time_2_ns);
        self.number_1.append(&mut rows.number_1);
        self.number_2.append(&mut rows.number_2);
        self.sequence.append(&mut rows.sequence);
        self.payload_bytes.append(&mut rows.payload_bytes);
        self.ip_bytes.append(&mut rows.ip_bytes);
        self.crossing.append(&mut rows.crossing);
        self.burst_position.append(&mut rows.burst_position);
        self.burst_length.append(&mut rows.burst_length);
        self.gap_ns.append(&mut rows.gap_ns);
        self.retransmission.append(&mut rows.retransmission);
        self.overtook.append(&mut rows.overtook);
        self.ce_set.append(&mut rows.ce_set);
    }
}
