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

/// The reason why a segment was sent.
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
    /// A retransmission whose reason the capture does not show.
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
    /// Not acknowledged before the capture ended, or acknowledged without a way to tell which copy arrived.
    Unknown = 2,
}

/// Facts of one transmission, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentFlags(pub u8);

impl SegmentFlags {
    /// A retransmission of data that had arrived.
    pub const SPURIOUS: u8 = 1;
    /// `rtt_ns` comes from the acknowledgment that this very packet caused, not from a later cumulative one.
    pub const RTT_EXACT: u8 = 2;
    /// Never captured here: lost before the capture point, placed where the gap in the sequence showed.
    pub const INFERRED: u8 = 4;
    /// After this packet less than one segment of the receive window was left.
    pub const WINDOW_LIMITED: u8 = 8;
    /// Carried the congestion-experienced mark (RFC 3168).
    pub const CE: u8 = 16;
    /// One of the wire packets of a super-segment (segmentation offload), so its time is that of the first.
    pub const OFFLOADED: u8 = 32;
    /// Arrived at the receiver after later data.
    pub const REORDERED: u8 = 64;
    /// The first for which its receiver reports congestion (RFC 3168), since it last did not.
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
    /// Time from this transmission to the acknowledgment of it; -1 where none can be told.
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

/// Data of a flow delimited by data in the other direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transfer {
    /// First and one past the last index into `Flow::segments`.
    pub first: usize,
    pub end: usize,
    pub start_ns: i64,
    /// Time of the last acknowledgment that belongs to it, or of its last packet where none was seen.
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

/// So many of the segments `first..end` whose fate is unknown were lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UntoldLosses {
    pub first: usize,
    pub end: usize,
    pub lost: u64,
}

/// Counters of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowCounters {
    /// All packets of the direction, pure acknowledgments included; a super-segment counts as what it became.
    pub packets: u64,
    /// Payload bytes on the wire, retransmissions included.
    pub payload_bytes: u64,
    /// IP bytes of all packets.
    pub ip_bytes: u64,
    /// Packets that were lost: those whose fate says so, and the [untold](Flow::untold_losses). Fewest and most that can be.
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
    /// Of those, packets that no captured acknowledgment covers: the sequence went on behind them.
    pub passed_over_packets: u64,
    pub duplicate_acknowledgments: u64,
    /// Data packets marked as congestion experienced, and those that were capable of ECN and not marked (RFC 3168).
    pub ce_marked: u64,
    pub ect0: u64,
    pub ect1: u64,
    /// Acknowledgments of this flow that carried ECE; 0 with accurate ECN, where that bit is part of a number.
    pub ecn_echoes: u64,
    /// Packets of this flow by which its sender told that it had reduced its window (CWR); 0 with accurate ECN.
    pub windows_reduced: u64,
    /// Packets, and payload bytes, of this flow that its receiver reported as marked by accurate ECN (RFC 9768).
    pub ce_reported: u64,
    pub ce_reported_bytes: u64,
    /// Zero windows advertised to this flow's sender.
    pub zero_windows: u64,
    /// Times that the window was closed while data waited ([`LimitedTime::closed_ns`]).
    pub window_closures: u64,
    /// Packets that asked whether a closed window is still closed (RFC 9293, section 3.8.6.1).
    pub window_probes: u64,
    pub window_limited_packets: u64,
    /// Packets that asked whether the peer is still there (RFC 9293, section 3.8.4).
    pub keep_alives: u64,
    pub offloaded_super_segments: u64,
    /// Packets that the receiver reported to have got twice without a retransmission of them.
    pub duplicated_on_path: u64,
}

/// How a flow spent the time between its first data and its last acknowledgment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitedTime {
    /// Something was in flight.
    pub busy_ns: i64,
    /// Of it, less than one segment of the receive window was left.
    pub window_ns: i64,
    /// The receive window was zero, or too small for its sender to use (RFC 9293, section 3.8.6.2.1), while data is
    /// known to have waited: it was probed, or data followed as soon as the window opened.
    pub closed_ns: i64,
    /// Nothing was in flight, between two packets of one transfer.
    pub idle_ns: i64,
}

/// Payload bytes outstanding when packets left that were lost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OutstandingAtLoss {
    pub mean_bytes: f64,
    /// Standard deviation over the losses.
    pub deviation_bytes: f64,
}

/// The timer before the round trip is known (RFC 6298, section 2.1); what was measured makes it shorter but on the longest of paths.
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
    /// Losses of which nothing tells which packets they took; empty where all is acknowledged selectively.
    pub untold_losses: Vec<UntoldLosses>,
    pub counters: FlowCounters,
    pub limited: LimitedTime,
    /// As [`Flow::account`] tells it.
    #[doc(hidden)]
    pub account: Option<Box<Account>>,
    /// `None` where nothing was lost.
    pub outstanding_at_loss: Option<OutstandingAtLoss>,
    /// The use of ECN that the connection agreed on.
    pub ecn: Ecn,
    pub first_ns: i64,
    pub last_ns: i64,
    /// Largest payload of a wire packet: announced in the handshake less options, or the largest seen where that is more
    /// or nothing was announced.
    pub mss_bytes: Option<u32>,
    /// The handshake told it.
    pub mss_announced: bool,
    /// Scale of the windows that this flow's receiver advertises; `None` when unknown.
    pub window_scale: Option<u8>,
    pub vantage: Vantage,
    pub sack_permitted: bool,
    pub timestamps: bool,
    /// The first window but zero, and the largest, that its receiver advertised, SYNs aside, as sent.
    pub first_window: u16,
    pub largest_window: u16,
    /// Offers of its sender and of its receiver; `None` without the SYN.
    pub offers: [Option<Offer>; 2],
    /// All that it carried is the greeting of a connection that measures the other direction.
    pub only_greets: bool,
    /// Signs that few flows show; `None` where it shows nothing.
    pub signs: Option<Box<FlowSigns>>,
}

impl Flow {
    /// Packets of a transfer that were lost.
    pub fn lost_in(&self, transfer: &Transfer) -> u64 {
        let segments = self.segments.get(transfer.first..transfer.end);
        let told = segments.unwrap_or_default().iter();
        let told = told.filter(|segment| segment.is_lost()).count() as u64;
        let within =
            |untold: &&UntoldLosses| transfer.first <= untold.first && untold.first < transfer.end;
        let untold = self.untold_losses.iter().filter(within);
        told + untold.map(|untold| untold.lost).sum::<u64>()
    }

    /// Payload of a full segment, for what compares others with it: not the largest of small ones, where no handshake tells.
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

    /// Takes for delivered what was never sent again, while the flow went on with new data for longer than any
    /// retransmission timer waits at first: for where no acknowledgments were captured.
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

    /// Ends transfers, which are in order, before these segments, in rising order, where others begin.
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

    /// The transfer of some of the segments of another.
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

    /// True of a flow whose losses and delays matter to anybody.
    pub fn is_of_interest(&self) -> bool {
        self.carried_data() && !self.only_greets
    }

    /// The limiters at each moment; empty where its acknowledgments were not captured, and nothing else tells of them.
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

    /// Room for what few flows show.
    pub fn signs_mut(&mut self) -> &mut FlowSigns {
        self.signs.get_or_insert_default()
    }
}

/// Ports of systems' services end here (RFC 6335, section 6) ...
const FIRST_USER_PORT: u16 = 1_024;
/// ... and those that Linux gives to who begins a connection begin here; others begin higher.
const FIRST_EPHEMERAL_PORT: u16 = 32_768;

/// `src:port > dst:port`.
pub fn flow_name(source: Endpoint, destination: Endpoint) -> String {
    format!("{source} > {destination}")
}

/// Both directions of one connection.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// The direction of whoever sent the SYN, or the first packet seen, comes first.
    pub flows: [Flow; 2],
    pub handshake: Handshake,
    /// The capture holds the start of the connection.
    pub from_start: bool,
    pub outcome: Outcome,
    pub setup: Setup,
    pub reset: Option<Box<Reset>>,
    /// Which sides sent a FIN.
    pub closed: [bool; 2],
    /// When they sent the first.
    pub closed_ns: [Option<i64>; 2],
    /// Data outstanding at the end, of either direction.
    pub unanswered: [Unanswered; 2],
    /// The use of ECN that the SYN offered.
    pub ecn_offered: Ecn,
    /// The program that measures whose control connection this is.
    pub control: Option<Program>,
    /// It carries the load of a test, which ends when its time is up.
    pub carries_load: bool,
    /// Signs that few connections show; `None` where it shows nothing.
    pub signs: Option<Box<ConnectionSigns>>,
}

impl Connection {
    /// The side that accepted the connection: 0 or 1. Where the capture has no SYN, the ports tell, else who was heard second.
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

    /// Its SYN, if the responder took it for one of an earlier connection.
    pub fn taken_for_old(&self) -> Option<&TakenForOld> {
        self.signs.as_ref()?.taken_for_old.as_ref()
    }
}
