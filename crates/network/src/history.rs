//! The history of a simulation: every packet, and the limiter of each connection.

use whydrop_hosts::Segment;
use whydrop_path::{Ecn, Header};

use crate::limiter::Ledger;

/// A UDP packet that captures contain. All of them travel in the direction of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// Index among the UDP flows.
    pub flow: usize,
    /// Position in its flow, from 0.
    pub number: u32,
    pub payload_bytes: u32,
    pub identification: u16,
}

/// A packet and its fate.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    /// `None` for cross traffic and UDP.
    pub segment: Option<Segment>,
    /// A UDP packet of a simulation with two points of capture.
    pub datagram: Option<Datagram>,
    pub ip_bytes: u32,
    pub sent_ns: i64,
    pub fate: PacketFate,
    /// The header fields that elements see, in their present state.
    pub header: Header,
    /// The stage that marked it first.
    pub marked: Option<usize>,
}

impl Packet {
    /// The segment as a sniffer before this stage sees it.
    pub fn segment_before(&self, stage: usize) -> Option<Segment> {
        let marked = self.marked.is_some_and(|marked| marked < stage);
        self.segment.map(|segment| Segment {
            ecn: if marked { Ecn::Ce } else { segment.ecn },
            ..segment
        })
    }

    /// True if it appears in no capture: it belongs neither to a connection nor to a UDP flow.
    pub fn is_cross_traffic(&self) -> bool {
        self.segment.is_none() && self.datagram.is_none()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketFate {
    /// Still in flight when the simulation ended.
    InFlight,
    Delivered {
        time_ns: i64,
    },
    /// Dropped by the stage with this index.
    Dropped {
        stage: usize,
    },
    /// An acknowledgment lost on the return path.
    LostReturning,
}

/// A packet seen at the point of capture.
#[derive(Debug, Clone, Copy)]
pub struct Record {
    pub time_ns: i64,
    pub packet: usize,
}

/// Everything that happened.
pub struct History {
    pub packets: Vec<Packet>,
    /// In order of time.
    pub records: Vec<Record>,
    /// When each packet passed B and Y, by its index in `packets`; empty unless the simulation is
    /// [watching](crate::Simulation::watching) two points.
    pub passed: Vec<[Option<i64>; 2]>,
    pub end_ns: i64,
    pub capture_begins_ns: i64,
    pub stage_names: Vec<&'static str>,
    /// True if each connection received all that it requested.
    pub complete: Vec<bool>,
    /// Limiters of each connection, moment by moment.
    pub ledgers: Vec<Ledger>,
}
