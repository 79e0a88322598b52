//! The tracker's results: connections, flows, segments.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::control::Program;
use crate::ecn::Ecn;
use crate::limits::Account;
use crate::outcome::{Outcome, Reset, Setup, Unanswered};
use crate::segmentation::SMALLEST_FULL_SEGMENT_BYTES;
use crate::signs::{
    ConnectionSigns, FlowSigns, Notice, Offer, Pauses, SackCounters, Silence, TakenForOld,
};

/// An address and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    pub address: IpAddr,
    pub port: u16,
}

impl Default for Endpoint {
    fn default() -> Self {
        Self {
            address: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            port: 0,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            IpAddr::V4(v4) => write!(f, "{v4}:{}", self.port),
            IpAddr::V6(v6) => write!(f, "[{v6}]:{}", self.port),
        }
    }
}

/// Why a segment was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Data sent for the first time.
    New = 0,
    /// Retransmitted on duplicate or selective acknowledgments (RFC 5681, 6675, RACK of RFC 8985).
    Fast = 1,
    /// Retransmitted after a timeout (RFC 6298), or while recovering from one.
    Timeout = 2,
    /// The last segment retransmitted to provoke an acknowledgment (tail-loss probe, RFC 8985 section 7).
    TailLossProbe = 3,
    /// Retransmitted for a reason that the capture does not show.
    Other = 4,
}

impl Kind {
    pub const RETRANSMISSIONS: [Kind; 4] =
        [Kind::Fast, Kind::Timeout, Kind::TailLossProbe, Kind::Other];

    pub fn name(self) -> &'static str {
        match self {
            Kind::New => "new",
            Kind::Fast => "fast",
            Kind::Timeout => "timeout",
            Kind::TailLossProbe => "tail-loss-probe",
            Kind::Other => "unknown",
        }
    }
}

/// The fate of one transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fate {
    Delivered = 0,
    Lost = 1,
    /// Not acknowledged before the capture ended, or acknowledged without evidence of which copy arrived.
    Unknown = 2,
}

/// Properties of one transmission, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentFlags(pub u8);

impl SegmentFlags {
    /// A retransmission of data that had already arrived.
    pub const SPURIOUS: u8 = 1;
    /// `rtt_ns` is from the acknowledgment that this packet itself caused, not from a later cumulative one.
    pub const RTT_EXACT: u8 = 2;
    /// Not captured here: lost before the capture point, and placed where the gap in the sequence appeared.
    pub const INFERRED: u8 = 4;
    /// After this packet less than one segment of the receive window remained.
    pub const WINDOW_LIMITED: u8 = 8;
    /// Carried the congestion-experienced mark (RFC 3168).
    pub const CE: u8 = 16;
    /// One of the wire packets of a super-segment (segmentation offload); its time is that of the first.
    pub const OFFLOADED: u8 = 32;
    /// Arrived at the receiver after later data.
    pub const REORDERED: u8 = 64;
    /// The first packet after which its receiver begins to report congestion (RFC 3168).
    pub const CE_ECHOED: u8 = 128;

    #[inline]
    pub fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    #[inline]
    pub fn set(&mut self, flag: u8) {
        self.0 |= flag;
    }

    #[inline]
    pub fn clear(&mut self, flag: u8) {
        self.0 &= !flag;
    }
}

/// One data packet of a flow, as it was on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    pub time_ns: i64,
    /// Relative to the flow's first byte.
    pub sequence: i64,
    /// Time from this transmission to its acknowledgment; -1 if unknown.
    pub rtt_ns: i64,
    /// Payload bytes outstanding (sent, neither acknowledged nor selectively acknowledged) after this packet.
    pub in_flight_bytes: u32,
    pub payload_bytes: u32,
    /// IP and TCP headers.
    pub header_bytes: u16,
    pub kind: Kind,
    pub fate: Fate,
    pub flags: SegmentFlags,
}

impl Segment {
    #[inline]
    pub fn ip_bytes(&self) -> u32 {
        self.payload_bytes + u32::from(self.header_bytes)
    }

    #[inline]
    pub fn end(&self) -> i64 {
        self.sequence + i64::from(self.payload_bytes)
    }

    #[inline]
    pub fn is_lost(&self) -> bool {
        self.fate == Fate::Lost
    }
}

/// An acknowledgment that moved the left edge, the window, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledgment {
    pub time_ns: i64,
    /// Relative sequence number of the next byte expected.
    pub acknowledged: i64,
    /// Receive window, scaled; -1 where the scale is unknown.
    pub window_bytes: i64,
    /// The ECN-echo flag (RFC 3168); with accurate ECN a bit of a counter.
    pub ecn_echo: bool,
}

/// A range that was selectively acknowledged for the first time, or reported as received twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SackBlock {
    pub time_ns: i64,
    pub start: i64,
    pub end: i64,
    /// A duplicate SACK (RFC 2883).
    pub duplicate: bool,
}

/// Data of a flow, delimited by data in the other direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transfer {
    /// First and one past the last index into `Flow::segments`.
    pub first: usize,
    pub end: usize,
    pub start_ns: i64,
    /// Time of its last acknowledgment, or of its last packet if none was captured.
    pub end_ns: i64,
    /// Payload bytes sent for the first time.
    pub payload_bytes: u64,
}

/// Where on the path the capture was taken, for one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Vantage {
    Sender,
    Middle,
    Receiver,
    #[default]
    Unknown,
}

impl Vantage {
    pub fn name(self) -> &'static str {
        match self {
            Vantage::Sender => "sender",
            Vantage::Middle => "middle",
            Vantage::Receiver => "receiver",
            Vantage::Unknown => "unknown",
        }
    }
}

/// Times of the three-way handshake, where the capture holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handshake {
    pub syn_ns: Option<i64>,
    pub syn_ack_ns: Option<i64>,
    pub ack_ns: Option<i64>,
}

/// A number of lost segments among the segments `first..end` of unknown fate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnplacedLosses {
    pub first: usize,
    pub end: usize,
    pub lost: u64,
}

/// Counters of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowCounters {
    /// All packets of the direction, including pure acknowledgments; a super-segment counts as its wire packets.
    pub packets: u64,
    /// Payload bytes on the wire, retransmissions included.
    pub payload_bytes: u64,
    /// IP bytes of all packets.
    pub ip_bytes: u64,
    /// Packets lost: those with that fate, and the [unplaced](Flow::unplaced_losses) ones. Least and most possible.
    pub lost: u64,
    pub lost_low: u64,
    pub lost_high: u64,
    pub retransmitted: u64,
    pub retransmitted_by_kind: [u64; 5],
    pub spurious: u64,
    pub reordered: u64,
    /// Data acknowledged but never captured.
    pub missed_by_capture_bytes: u64,
    pub missed_by_capture_packets: u64,
    /// Of those, packets that no captured acknowledgment covers: the sequence continued behind them.
    pub passed_over_packets: u64,
    pub duplicate_acknowledgments: u64,
    /// Data packets marked as congestion experienced, and ECN-capable ones without a mark (RFC 3168).
    pub ce_marked: u64,
    pub ect0: u64,
    pub ect1: u64,
    /// Acknowledgments of this flow that carried ECE; 0 with accurate ECN, where that bit is part of a counter.
    pub ecn_echoes: u64,
    /// Packets in which this flow's sender reported a reduced window (CWR); 0 with accurate ECN.
    pub windows_reduced: u64,
    /// Packets and payload bytes of this flow that its receiver reported as marked through accurate ECN (RFC 9768).
    pub ce_reported: u64,
    pub ce_reported_bytes: u64,
    /// Zero windows advertised to this flow's sender.
    pub zero_windows: u64,
    /// How often the window was closed while data waited ([`LimitedTime::closed_ns`]).
    pub window_closures: u64,
    /// Packets that probe a closed window (RFC 9293, section 3.8.6.1).
    pub window_probes: u64,
    pub window_limited_packets: u64,
    /// Keep-alives: packets that check whether the peer is still there (RFC 9293, section 3.8.4).
    pub keep_alives: u64,
    pub offloaded_super_segments: u64,
    /// Packets that the receiver reported as received twice although they were not retransmitted.
    pub duplicated_on_path: u64,
}

/// How a flow spent the time between its first data and its last acknowledgment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitedTime {
    /// Data was in flight.
    pub busy_ns: i64,
    /// Part of `busy_ns`: less than one segment of the receive window remained.
    pub window_ns: i64,
    /// The receive window was zero, or too small for the sender to use (RFC 9293, section 3.8.6.2.1), while data is
    /// known to have waited: the window was probed, or data followed as soon as it opened.
    pub closed_ns: i64,
    /// No data was in flight, between two packets of one transfer.
    pub idle_ns: i64,
}

/// Payload bytes outstanding when lost packets left.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OutstandingAtLoss {
    pub mean_bytes: f64,
    /// Standard deviation over the losses.
    pub deviation_bytes: f64,
}

/// The timeout before the round trip is known (RFC 6298, section 2.1). Measurements shorten it except on the longest
/// paths.
const FIRST_TIMEOUT_NS: i64 = 1_000_000_000;

/// One direction of a connection.
#[derive(Debug, Clone, Default)]
pub struct Flow {
    pub source: Endpoint,
    pub destination: Endpoint,
    /// Data packets in capture order.
    pub segments: Vec<Segment>,
    /// Kept only with `TrackerOptions::keep_acknowledgments`.
    pub acknowledgments: Vec<Acknowledgment>,
    pub sack_blocks: Vec<SackBlock>,
    pub transfers: Vec<Transfer>,
    /// Losses that are counted, but not attributed to packets; empty if all data is acknowledged selectively.
    pub unplaced_losses: Vec<UnplacedLosses>,
    pub counters: FlowCounters,
    pub limited: LimitedTime,
    /// See [`Flow::account`].
    #[doc(hidden)]
    pub account: Option<Box<Account>>,
    /// `None` if no packet was lost.
    pub outstanding_at_loss: Option<OutstandingAtLoss>,
    /// The kind of ECN that the connection negotiated.
    pub ecn: Ecn,
    pub first_ns: i64,
    pub last_ns: i64,
    /// Largest payload of a wire packet: the size announced in the handshake less options, or the largest captured if
    /// that is more or none was announced.
    pub mss_bytes: Option<u32>,
    /// The size was announced in the handshake.
    pub mss_announced: bool,
    /// Scale of the windows that this flow's receiver advertises; `None` when unknown.
    pub window_scale: Option<u8>,
    pub vantage: Vantage,
    pub sack_permitted: bool,
    pub timestamps: bool,
    /// The first non-zero window that its receiver advertised, and the largest, without SYNs, unscaled.
    pub first_window: u16,
    pub largest_window: u16,
    /// Offers of its sender and of its receiver; `None` if the SYN was not captured.
    pub offers: [Option<Offer>; 2],
    /// Its only data is the greeting of a connection that measures the other direction.
    pub only_greets: bool,
    /// Signs that few flows show; `None` if there are none.
    pub signs: Option<Box<FlowSigns>>,
}

impl Flow {
    /// The lost packets of a transfer.
    pub fn lost_in(&self, transfer: &Transfer) -> u64 {
        let segments = self.segments.get(transfer.first..transfer.end);
        let placed = segments.unwrap_or_default().iter();
        let placed = placed.filter(|segment| segment.is_lost()).count() as u64;
        let within = |unplaced: &&UnplacedLosses| {
            transfer.first <= unplaced.first && unplaced.first < transfer.end
        };
        let unplaced = self.unplaced_losses.iter().filter(within);
        placed + unplaced.map(|unplaced| unplaced.lost).sum::<u64>()
    }

    /// Payload of a full segment, for comparisons; 0 if the largest captured one is small and no handshake announced a
    /// size.
    pub(crate) fn full_bytes(&self) -> u32 {
        let known = self.mss_bytes.unwrap_or(1460);
        match self.mss_announced {
            true => known,
            false => known.max(SMALLEST_FULL_SEGMENT_BYTES),
        }
    }

    /// `src:port > dst:port`.
    pub fn name(&self) -> String {
        flow_name(self.source, self.destination)
    }

    /// Marks data as delivered that was not retransmitted while the flow continued with new data for longer than any
    /// initial retransmission timeout; for flows without captured acknowledgments.
    pub(crate) fn believe_delivered(&mut self) {
        let mut newest_ns = i64::MIN;
        for segment in self.segments.iter_mut().rev() {
            if segment.fate == Fate::Unknown
                && segment.time_ns < newest_ns.saturating_sub(FIRST_TIMEOUT_NS)
            {
                segment.fate = Fate::Delivered;
            }
            if segment.kind == Kind::New {
                newest_ns = newest_ns.max(segment.time_ns);
            }
        }
    }

    /// Splits transfers, which are in order, at these segments, in rising order.
    pub(crate) fn divide(&mut self, firsts: impl Iterator<Item = usize>) {
        let mut firsts = firsts.peekable();
        for whole in std::mem::take(&mut self.transfers) {
            let mut first = whole.first;
            while let Some(next) = firsts.next_if(|next| *next < whole.end) {
                if first < next {
                    self.transfers.push(self.part_of(whole, first, next));
                    first = next;
                }
            }
            self.transfers.push(self.part_of(whole, first, whole.end));
        }
    }

    /// A part of a transfer, made of some of its segments.
    fn part_of(&self, whole: Transfer, first: usize, end: usize) -> Transfer {
        let own = self.segments.get(first..end).unwrap_or_default();
        let (Some(earliest), Some(latest)) = (own.first(), own.last()) else {
            return whole;
        };
        if (first, end) == (whole.first, whole.end) {
            return whole;
        }
        let new = own.iter().filter(|segment| segment.kind == Kind::New);
        Transfer {
            first,
            end,
            start_ns: earliest.time_ns,
            end_ns: latest.time_ns,
            payload_bytes: new.map(|segment| u64::from(segment.payload_bytes)).sum(),
        }
    }

    pub fn carried_data(&self) -> bool {
        !self.segments.is_empty()
    }

    /// True for a flow with losses or delays worth explaining.
    pub fn is_of_interest(&self) -> bool {
        self.carried_data() && !self.only_greets
    }

    /// The limiters at each moment; empty if acknowledgments were neither captured nor inferred.
    pub fn account(&self) -> &Account {
        static NOTHING_KNOWN: Account = Account {
            spans: Vec::new(),
            transfers: Vec::new(),
            near_rtt_ns: None,
            usual_near_rtt_ns: None,
            sees_waits: false,
            by_clocks: None,
        };
        self.account.as_deref().unwrap_or(&NOTHING_KNOWN)
    }

    pub fn silences(&self) -> &[Silence] {
        self.signs.as_ref().map_or(&[], |signs| &signs.silences)
    }

    pub fn notices(&self) -> &[Notice] {
        self.signs.as_ref().map_or(&[], |signs| &signs.notices)
    }

    pub fn unanswered_since_ns(&self) -> Option<i64> {
        self.signs.as_ref()?.unanswered_since_ns
    }

    pub fn sack(&self) -> SackCounters {
        let signs = self.signs.as_ref();
        signs.map_or_else(SackCounters::default, |signs| signs.sack)
    }

    /// The signs, allocated on first use.
    pub fn signs_mut(&mut self) -> &mut FlowSigns {
        self.signs.get_or_insert_default()
    }
}

/// Ports of system services end here (RFC 6335, section 6) ...
const FIRST_USER_PORT: u16 = 1_024;
/// ... and Linux's ephemeral ports begin here; other systems' begin higher.
const FIRST_EPHEMERAL_PORT: u16 = 32_768;

/// `src:port > dst:port`.
pub fn flow_name(source: Endpoint, destination: Endpoint) -> String {
    format!("{source} > {destination}")
}

/// Both directions of one connection.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// The direction of the sender of the SYN, or of the first captured packet, comes first.
    pub flows: [Flow; 2],
    pub handshake: Handshake,
    /// The capture holds the start of the connection.
    pub from_start: bool,
    pub outcome: Outcome,
    pub setup: Setup,
    pub reset: Option<Box<Reset>>,
    /// Which sides sent a FIN.
    pub closed: [bool; 2],
    /// When each side sent its first FIN.
    pub closed_ns: [Option<i64>; 2],
    /// Data outstanding at the end, of either direction.
    pub unanswered: [Unanswered; 2],
    /// The kind of ECN that the SYN offered.
    pub ecn_offered: Ecn,
    /// The measuring program that uses this connection for control.
    pub control: Option<Program>,
    /// It carries the load of a test, which ends when its time is up.
    pub carries_load: bool,
    /// Signs that few connections show; `None` if there are none.
    pub signs: Option<Box<ConnectionSigns>>,
}

impl Connection {
    /// The side that accepted the connection: 0 or 1. Without a captured SYN, it is inferred from the ports, or else is
    /// the side seen second.
    pub fn responder(&self) -> usize {
        let known = self.handshake.syn_ns.is_some() || self.handshake.syn_ack_ns.is_some();
        let rank = |side: usize| {
            let port = self.flows[side].source.port;
            u8::from(port >= FIRST_USER_PORT) + u8::from(port >= FIRST_EPHEMERAL_PORT)
        };
        usize::from(known || rank(1) <= rank(0))
    }

    pub fn pauses(&self) -> Pauses {
        let signs = self.signs.as_ref();
        signs.map_or_else(Pauses::default, |signs| signs.pauses)
    }

    /// Its SYN, if the responder attributed it to an earlier connection.
    pub fn taken_for_old(&self) -> Option<&TakenForOld> {
        self.signs.as_ref()?.taken_for_old.as_ref()
    }
}
