//! Transmissions as recorded by the TCP tracker of the upstream capture.

use whydrop_tcp::{Fate, Flow, Kind, Segment, SegmentFlags};

use crate::packet::{PacketFlags, PairPacket};

/// Segments to search before and after the expected position: reordered capture files and inferred segments
/// lie between.
const NEIGHBOURS: usize = 256;

/// Finds the segments of a flow one packet after the other, in the order of the capture.
pub(super) struct Segments<'a> {
    segments: &'a [Segment],
    cursor: usize,
    /// Raw sequence number of the tracker's sequence 0.
    origin: Option<u32>,
}

impl<'a> Segments<'a> {
    pub(super) fn of(flow: &'a Flow) -> Self {
        Self {
            segments: &flow.segments,
            cursor: 0,
            origin: None,
        }
    }

    /// True if acknowledgments show what was delivered.
    pub(super) fn are_acknowledged(&self) -> bool {
        let mut fates = self.segments.iter().map(|segment| segment.fate);
        fates.any(|fate| fate == Fate::Delivered)
    }

    /// The segment of this data packet, captured at `side`.
    pub(super) fn find(&mut self, packet: &PairPacket, side: usize) -> Option<&'a Segment> {
        let from = self.cursor;
        let found = self.scan(from, packet, side).or_else(|| {
            let time_ns = packet.time_ns[side];
            let near = self.segments.partition_point(|s| s.time_ns < time_ns);
            self.scan(near.saturating_sub(NEIGHBOURS / 2), packet, side)
        })?;
        self.cursor = found;
        let segment = &self.segments[found];
        self.origin
            .get_or_insert(packet.sequence.wrapping_sub(segment.sequence as u32));
        Some(segment)
    }

    fn scan(&self, from: usize, packet: &PairPacket, side: usize) -> Option<usize> {
        let near = self.segments.get(from..)?.iter().take(NEIGHBOURS);
        near.enumerate()
            .find(|(_, segment)| self.is(segment, packet, side))
            .map(|(at, _)| from + at)
    }

    fn is(&self, segment: &Segment, packet: &PairPacket, side: usize) -> bool {
        if segment.time_ns != packet.time_ns[side] || segment.flags.has(SegmentFlags::INFERRED) {
            return false;
        }
        match self.origin {
            Some(origin) => {
                let relative = packet.sequence.wrapping_sub(origin);
                relative.wrapping_sub(segment.sequence as u32) < segment.payload_bytes
            }
            None => segment.payload_bytes == packet.payload_bytes,
        }
    }
}

/// Marks a packet as a retransmission if its segment is one.
pub(super) fn mark(packet: &mut PairPacket, segment: &Segment) {
    if segment.kind != Kind::New {
        packet.flags.set(PacketFlags::RETRANSMISSION);
    }
}
