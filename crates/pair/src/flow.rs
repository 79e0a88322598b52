//! Fates of each flow, and totals of the captures.

use whydrop_tcp::Endpoint;

use crate::packet::Crossing;

/// The direction in which a flow passes the two points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Direction {
    /// Point 1 is upstream: nearer to the sender.
    FirstToSecond,
    /// Point 2 is upstream.
    SecondToFirst,
    #[default]
    Unknown,
}

impl Direction {
    pub fn name(self) -> &'static str {
        match self {
            Direction::FirstToSecond => "1-to-2",
            Direction::SecondToFirst => "2-to-1",
            Direction::Unknown => "unknown",
        }
    }

    pub fn reversed(self) -> Self {
        match self {
            Direction::FirstToSecond => Direction::SecondToFirst,
            Direction::SecondToFirst => Direction::FirstToSecond,
            Direction::Unknown => Direction::Unknown,
        }
    }

    /// The point that packets pass first: 0 for capture 1, 1 for capture 2.
    pub fn upstream(self) -> Option<usize> {
        match self {
            Direction::FirstToSecond => Some(0),
            Direction::SecondToFirst => Some(1),
            Direction::Unknown => None,
        }
    }
}

/// A flow's name at one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowName {
    pub source: Endpoint,
    pub destination: Endpoint,
}

/// The position of a flow in the TCP tracker of one capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackedFlow {
    /// Position in `Tracked::connections`.
    pub connection: usize,
    /// Position in `Connection::flows`.
    pub flow: usize,
}

/// One direction of a connection, or of other packets between two addresses, at both points.
///
/// Pairs of values are those at point 1 and point 2.
#[derive(Debug, Clone, Default)]
pub struct PairFlow {
    /// The names differ if an address translator is on the path; `None` if a point did not capture the flow.
    pub names: [Option<FlowName>; 2],
    /// IP protocol number; 255 means fragments other than the first.
    pub protocol: u8,
    pub direction: Direction,
    /// Position of the other direction in [`crate::Pair::flows`].
    pub reverse: Option<u32>,
    /// The flow in [`crate::Pair::tracked`] of each capture; `None` for other protocols and connections without data.
    pub tracked: [Option<TrackedFlow>; 2],
    /// Wire packets captured; super-segments count as their wire packets.
    pub packets: [u64; 2],
    /// Packets by fate, in the order of [`Crossing::ALL`].
    pub crossings: [u64; Crossing::ALL.len()],
    /// Packets that passed this point and that its capture lacks.
    pub missed: [u64; 2],
    pub retransmissions: u64,
    /// Matched packets that arrived after one sent later (RFC 4737), and those that arrived before one sent
    /// earlier.
    pub overtaken: u64,
    pub overtook: u64,
    /// Number of routers between the points, from the most common TTL decrement; negative if the TTL grows;
    /// `None` without matched packets.
    pub hops: Option<i16>,
    /// Matched packets with another TTL decrement.
    pub hops_differ: u64,
    /// Matched packets with a changed differentiated services code point.
    pub dscp_changed: u64,
    /// Matched packets with congestion notification bits changed other than by a mark; and marked packets.
    pub ecn_changed: u64,
    pub ce_marked: u64,
    /// SYNs with a changed maximum segment size option.
    pub mss_changed: u64,
    /// The constant that a device between the points adds to its sequence numbers from point 1 to point 2,
    /// modulo 2^32.
    pub sequence_added: u32,
    /// Its acknowledgments with SACK blocks that this device left unchanged, although it changes the numbers.
    pub sack_left: u64,
    /// Packets captured as pieces of super-segments.
    pub offloaded: [u64; 2],
}

impl PairFlow {
    pub fn count(&self, crossing: Crossing) -> u64 {
        self.crossings[crossing as usize]
    }

    pub fn matched(&self) -> u64 {
        self.count(Crossing::Matched)
    }

    pub fn lost(&self) -> u64 {
        self.count(Crossing::Lost)
    }

    /// `src:port > dst:port` at the upstream point, or at the point that captured it.
    pub fn name(&self) -> String {
        let upstream = self.direction.upstream().unwrap_or(0);
        let name = self.names[upstream].or(self.names[1 - upstream]);
        name.map_or_else(String::new, |name| {
            format!("{} > {}", name.source, name.destination)
        })
    }

    pub(crate) fn is_tcp(&self) -> bool {
        self.protocol == 6
    }

    /// True if its sequence numbers differ between the points.
    pub fn is_renumbered(&self) -> bool {
        self.sequence_added != 0 && self.matched() > 0
    }

    /// True if its names differ between the points.
    pub fn is_translated(&self) -> bool {
        matches!(self.names, [Some(one), Some(two)] if one != two)
    }
}

/// The evidence for the order of the points, in matched packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Order {
    pub matched: u64,
    /// Of hosts with an order that neither the TTL nor the sum of transit times in both directions shows: it follows
    /// from losses or from the clocks.
    pub guessed: u64,
    /// Of hosts with a hint that TTL or transit times contradict.
    pub contradicted: u64,
}

/// Totals over the packets of both captures.
///
/// Pairs `[_; 2]` are by capture unless stated to be by direction: from point 1 to 2, and from 2 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PairCounts {
    /// Matchable IP packets; super-segments count as their wire packets.
    pub packets: [u64; 2],
    pub matched: u64,
    /// By direction.
    pub matched_by_direction: [u64; 2],
    /// Lost between the points, by direction.
    pub lost: [u64; 2],
    /// Packets that passed this point and that its capture lacks.
    pub missed: [u64; 2],
    /// Further copies that appeared between the points, by direction.
    pub duplicated: [u64; 2],
    /// Reordered between the points (RFC 4737), by direction; and those that overtook them.
    pub overtaken: [u64; 2],
    pub overtook: [u64; 2],
    /// Only in this capture: passed while the other one was not running.
    pub outside_overlap: [u64; 2],
    /// Only in this capture: of flows that do not pass the other point.
    pub other_path: [u64; 2],
    /// Only in this capture, for an unknown reason.
    pub undecided: [u64; 2],
    /// Only in this capture: given up to limit memory.
    pub forgotten: [u64; 2],
    /// Frames that are not IP, or cut off before any distinguishing field.
    pub unmatchable: [u64; 2],
    /// Broadcast and multicast packets: never matched.
    pub to_many: [u64; 2],
    /// Longer than the longest packets to match ([`crate::PairHints`]).
    pub too_long: [u64; 2],
    /// Counted nowhere else.
    pub left_out: LeftOut,
}

/// Flows of few packets that were discarded to limit memory: they are not among [`crate::Pair::flows`], nor
/// their packets among [`crate::Pair::packets`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    pub flows: u64,
    /// Packets that both captures hold.
    pub matched: u64,
    /// Packets that only this capture holds.
    pub unmatched: [u64; 2],
}
