//! Fates of each flow, and of the captures as wholes.

use whydrop_tcp::Endpoint;

use crate::packet::Crossing;

/// Which way a flow passes the two points.
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

/// Where the TCP tracker of one capture keeps a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackedFlow {
    /// Position in `Tracked::connections`.
    pub connection: usize,
    /// Position in `Connection::flows`.
    pub flow: usize,
}

/// One direction of a connection, or of other packets between two addresses, as both points saw it.
///
/// Pairs of values are those at point 1 and point 2.
#[derive(Debug, Clone, Default)]
pub struct PairFlow {
    /// The names differ where address translation is on the way; `None` where a point did not see the flow.
    pub names: [Option<FlowName>; 2],
    /// IP protocol number; 255 stands for fragments other than the first.
    pub protocol: u8,
    pub direction: Direction,
    /// Position of the other direction in [`crate::Pair::flows`].
    pub reverse: Option<u32>,
    /// The flow in [`crate::Pair::tracked`] of each capture; `None` for other protocols and connections without data.
    pub tracked: [Option<TrackedFlow>; 2],
    /// Wire packets captured, super-segments counted as what they became.
    pub packets: [u64; 2],
    /// Packets by what became of them, in the order of [`Crossing::ALL`].
    pub crossings: [u64; Crossing::ALL.len()],
    /// Packets that this capture missed although they passed its point.
    pub missed: [u64; 2],
    pub retransmissions: u64,
    /// Matched packets that arrived after one sent later (RFC 4737), and that arrived before one sent earlier.
    pub overtaken: u64,
    pub overtook: u64,
    /// Routers between the points, by the most common decrease of the TTL; negative if it grows; `None` without
    /// matched packets.
    pub hops: Option<i16>,
    /// Matched packets whose decrease of the TTL was another one.
    pub hops_differ: u64,
    /// Matched packets whose differentiated services code point was changed.
    pub dscp_changed: u64,
    /// Matched packets whose congestion notification bits were changed otherwise than by a mark, or marked.
    pub ecn_changed: u64,
    pub ce_marked: u64,
    /// SYNs whose maximum segment size option was changed.
    pub mss_changed: u64,
    /// The constant that a device between the points adds to its sequence numbers from point 1 to point 2, modulo 2^32.
    pub sequence_added: u32,
    /// Its acknowledgments whose SACK blocks that device left as they were, although it changes the numbers.
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

    /// `src:port > dst:port` as the upstream point names it, or the point that saw it.
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

    /// The points see its packets with other sequence numbers.
    pub fn is_renumbered(&self) -> bool {
        self.sequence_added != 0 && self.matched() > 0
    }

    /// The names at the two points differ.
    pub fn is_translated(&self) -> bool {
        matches!(self.names, [Some(one), Some(two)] if one != two)
    }
}

/// The packets of both captures counted.
///
/// Pairs `[_; 2]` are by capture unless the field says that they are by direction: from point 1 to 2, and from 2 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PairCounts {
    /// IP packets that could be matched, super-segments counted as what they became.
    pub packets: [u64; 2],
    pub matched: u64,
    /// By direction.
    pub matched_by_direction: [u64; 2],
    /// Lost between the points, by direction.
    pub lost: [u64; 2],
    /// Packets that this capture missed although they passed its point.
    pub missed: [u64; 2],
    /// Further copies that appeared between the points, by direction.
    pub duplicated: [u64; 2],
    /// Reordered between the points (RFC 4737), by direction; and those that overtook them.
    pub overtaken: [u64; 2],
    pub overtook: [u64; 2],
    /// Held by this capture only: passed while the other one was not running.
    pub outside_overlap: [u64; 2],
    /// Held by this capture only: of flows that do not pass the other point.
    pub other_path: [u64; 2],
    /// Held by this capture only, and nothing tells why.
    pub undecided: [u64; 2],
    /// Held by this capture only: given up to bound memory.
    pub forgotten: [u64; 2],
    /// Frames that are not IP, or cut off before anything tells them apart.
    pub unmatchable: [u64; 2],
    /// Broadcast and multicast packets: never matched.
    pub to_many: [u64; 2],
    /// Counted nowhere else.
    pub left_out: LeftOut,
}

/// Flows of few packets that were let go to bound memory: they are not among [`crate::Pair::flows`], nor their packets
/// among [`crate::Pair::packets`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    pub flows: u64,
    /// Packets that both captures hold.
    pub matched: u64,
    /// Packets that only this capture holds.
    pub unmatched: [u64; 2],
}
