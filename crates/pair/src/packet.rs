//! Fates of packets: the rows of the result.

/// Value of [`PairPacket::index`] for a packet that a capture does not hold.
pub const NOT_CAPTURED: u32 = u32::MAX;
/// Value of [`PairPacket::time_ns`] for a packet that a capture does not hold.
pub const NO_TIME: i64 = i64::MIN;

/// The fate of a packet between the two points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Crossing {
    /// Both captures hold it.
    Matched = 0,
    /// It passed the upstream point and did not arrive at the downstream one.
    Lost = 1,
    /// It crossed, according to the evidence, but the downstream capture does not hold it.
    MissedDownstream = 2,
    /// The downstream capture holds it, so it crossed; the upstream capture does not hold it.
    MissedUpstream = 3,
    /// A further copy of a matched packet: duplicated between the points.
    Duplicated = 4,
    /// It passed while the other capture was not running.
    OutsideOverlap = 5,
    /// It belongs to a flow that passes only one of the points.
    OtherPath = 6,
    /// Only one capture holds it, for an unknown reason.
    Undecided = 7,
    /// Given up to limit memory before the other capture reached it.
    Forgotten = 8,
}

impl Crossing {
    pub const ALL: [Crossing; 9] = [
        Crossing::Matched,
        Crossing::Lost,
        Crossing::MissedDownstream,
        Crossing::MissedUpstream,
        Crossing::Duplicated,
        Crossing::OutsideOverlap,
        Crossing::OtherPath,
        Crossing::Undecided,
        Crossing::Forgotten,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Crossing::Matched => "matched",
            Crossing::Lost => "lost",
            Crossing::MissedDownstream => "missed-downstream",
            Crossing::MissedUpstream => "missed-upstream",
            Crossing::Duplicated => "duplicated",
            Crossing::OutsideOverlap => "outside-overlap",
            Crossing::OtherPath => "other-path",
            Crossing::Undecided => "undecided",
            Crossing::Forgotten => "forgotten",
        }
    }
}

/// Facts of one packet, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketFlags(pub u16);

impl PacketFlags {
    /// At point 1 it was captured as a piece of a super-segment (segmentation offload): its time there is
    /// that of the whole.
    pub const OFFLOADED_FIRST: u16 = 1;
    /// The same at point 2.
    pub const OFFLOADED_SECOND: u16 = 2;
    /// The sender had sent these bytes before.
    pub const RETRANSMISSION: u16 = 4;
    /// It arrived downstream after a packet of its flow that had passed upstream later: reordered (RFC 4737,
    /// section 3.3, Type-P-Reordered).
    pub const OVERTAKEN: u16 = 8;
    /// It arrived downstream before a packet of its flow that had passed upstream earlier.
    pub const OVERTOOK: u16 = 16;
    /// Its maximum segment size option was rewritten between the points.
    pub const MSS_CHANGED: u16 = 32;
    /// TCP.
    pub const TCP: u16 = 64;
    /// A TCP packet with SYN.
    pub const SYN: u16 = 128;
    /// A TCP packet with FIN.
    pub const FIN: u16 = 256;
    /// A TCP packet with RST.
    pub const RST: u16 = 512;
    /// Not the first of the pieces of a super-segment, at the point or points where it was one.
    pub const LATER_PIECE: u16 = 1024;
    /// Of a discarded flow; also withdrawn.
    pub(crate) const LEFT_OUT: u16 = 1 << 14;
    /// Replaced by other rows while matching; no row of a result has it.
    pub(crate) const WITHDRAWN: u16 = 1 << 15;

    /// True if any of the given flags is set.
    #[inline]
    pub fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }

    #[inline]
    pub fn set(&mut self, flag: u16) {
        self.0 |= flag;
    }

    /// The flag of a piece of a super-segment at point 1 (`side` 0) or 2.
    #[inline]
    pub(crate) fn offloaded(side: usize) -> u16 {
        Self::OFFLOADED_FIRST << side
    }
}

/// One packet as it was on the wire between the points: super-segments are split into their wire packets.
///
/// Pairs of values are those of capture 1 and capture 2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairPacket {
    /// Position in [`crate::Pair::flows`].
    pub flow: u32,
    /// Position of the captured packet in each capture, from 0; [`NOT_CAPTURED`] if absent. The pieces of a
    /// super-segment share one.
    pub index: [u32; 2],
    /// Nanoseconds since the Unix epoch on each capture's own clock; [`NO_TIME`] if absent.
    pub time_ns: [i64; 2],
    /// TCP sequence number as sent; 0 for other protocols.
    pub sequence: u32,
    pub payload_bytes: u32,
    /// Length of the IP packet, at point 1 if captured there.
    pub ip_bytes: u32,
    /// IP identification, at point 1 if captured there; 0 if there is none.
    pub identification: u16,
    /// Hash of its captured contents: see [`crate::matching::sighting::Precision::content`].
    pub(crate) content: u32,
    pub ttl: [u8; 2],
    /// Differentiated services code point and congestion notification bits, as in the header: DSCP << 2 | ECN.
    pub tos: [u8; 2],
    pub crossing: Crossing,
    pub flags: PacketFlags,
}

impl PairPacket {
    /// True if capture 1 (`side` 0) or 2 holds it.
    #[inline]
    pub fn is_at(&self, side: usize) -> bool {
        self.index[side] != NOT_CAPTURED
    }

    #[inline]
    pub fn is_matched(&self) -> bool {
        self.is_at(0) && self.is_at(1)
    }

    /// The only capture that holds it: 0 or 1. For a matched packet 0.
    #[inline]
    pub(crate) fn only_side(&self) -> usize {
        usize::from(!self.is_at(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_fits_a_cache_line() {
        assert!(size_of::<PairPacket>() <= 64);
    }
}
