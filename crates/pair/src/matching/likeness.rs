//! Comparison of packets: is the one that waits at one point the one just captured at the other?

use super::Matcher;
use super::flows::FlowState;
use super::pending::Entry;
use super::sighting::{Parts, Sighting};
use crate::packet::PacketFlags;

/// Among equal packets the oldest is chosen, unless the transit time of another one is nearer to that of the
/// previous packet by more than this many variations: then the older one was lost.
const UNLIKELY_VARIATIONS: u64 = 4;
/// Resolution of capture clocks.
const CLOCK_GRAIN_NS: u64 = 5_000;
/// A match that only the contents prove, with such an unlikely transit time, is postponed: the right one may
/// still arrive. This many in a row show that the path or a clock has changed, and the next one is accepted.
const MOST_DOUBTS: u8 = 32;
/// Consecutive doubts about packets with different identifications, while those of other flows cross
/// unchanged.
const MOST_DOUBTS_OF_IDS: u8 = 4;

/// Comparison of a waiting packet with one just captured at the other point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    Different,
    /// Possibly the same.
    Possible,
    /// The same, including its identification.
    SameId,
    /// The waiting one is a super-segment that begins like this packet: its segments have the length of this
    /// packet.
    CutTo(u32),
    /// This packet is a super-segment that begins like the waiting one, which has this length.
    CutSelfTo(u32),
}

/// The match of a packet at the other point.
pub(super) enum Found {
    Nothing,
    /// Slot of the same packet, and whether the identifications are equal if both have one.
    Same(u32, Option<bool>),
    /// Slot of a super-segment that begins with it, and the length of its segments.
    CutTo(u32, u32),
    /// The packet is itself a super-segment, with segments of this length.
    CutSelfTo(u32),
}

impl Matcher {
    /// True if a packet should wait for a better match than this one.
    pub(super) fn doubts(
        &mut self,
        side: usize,
        sighting: &Sighting,
        slot: u32,
        same_id: Option<bool>,
    ) -> bool {
        let entry = *self.pending[1 - side].entry(slot);
        let other = self.rows[entry.row as usize].flow;
        let first = if side == 0 { sighting.flow } else { other };
        let guessed = (sighting.parts.bits | entry.parts.bits) & Parts::LATER_PIECE != 0;
        let by_id = same_id == Some(false) && !guessed && self.flows.ids_should_be_preserved(first);
        let by_time = !sighting.parts.has_timestamps() && !entry.parts.has_timestamps() && {
            let delta_ns = self.delta_to(side, sighting, &entry);
            let flow = self.flows.get(side, sighting.flow);
            let expected = flow.delta_ns;
            expected.is_some_and(|ns| delta_ns.abs_diff(ns) > tolerance_ns(flow))
        };
        let flow = self.flows.get_mut(side, sighting.flow);
        let doubtful =
            by_time && flow.doubts < MOST_DOUBTS || by_id && flow.doubts < MOST_DOUBTS_OF_IDS;
        flow.doubts += u8::from(doubtful);
        doubtful
    }

    /// Time at point 2 minus time at point 1 if these two are one packet.
    #[inline]
    pub(super) fn delta_to(&self, side: usize, sighting: &Sighting, entry: &Entry) -> i64 {
        let there = self.rows[entry.row as usize].time_ns[1 - side];
        match side {
            0 => there - sighting.time_ns,
            _ => sighting.time_ns - there,
        }
    }

    #[inline]
    pub(super) fn find(&self, side: usize, sighting: &Sighting, key: u64) -> Found {
        let mut cut = Found::Nothing;
        let mut best: Option<(u32, &Entry, Likeness)> = None;
        for (slot, entry) in self.pending[1 - side].with_key(key) {
            match self.compare(side, sighting, entry) {
                Likeness::Different => {}
                Likeness::CutTo(bytes) => cut = Found::CutTo(slot, bytes),
                Likeness::CutSelfTo(bytes) => cut = Found::CutSelfTo(bytes),
                likeness => {
                    let better = best.is_none_or(|(_, other, known)| {
                        self.is_better(side, sighting, (entry, likeness), (other, known))
                    });
                    if better {
                        best = Some((slot, entry, likeness));
                    }
                }
            }
        }
        match best {
            Some((slot, entry, likeness)) => {
                let both = sighting.parts.identification != 0 && entry.parts.identification != 0;
                Found::Same(slot, both.then_some(likeness == Likeness::SameId))
            }
            None => cut,
        }
    }

    /// True if a waiting packet is a better match than an older one.
    #[cold]
    fn is_better(
        &self,
        side: usize,
        sighting: &Sighting,
        (entry, likeness): (&Entry, Likeness),
        (older, known): (&Entry, Likeness),
    ) -> bool {
        if likeness != known {
            return likeness == Likeness::SameId;
        }
        let flow = self.flows.get(side, sighting.flow);
        let Some(expected) = flow.delta_ns.or(self.delta_ns) else {
            return false;
        };
        let apart = |entry: &Entry| self.delta_to(side, sighting, entry).abs_diff(expected);
        let tolerance_ns = if self.nothing_else_arrives {
            0
        } else {
            tolerance_ns(flow)
        };
        apart(entry).saturating_add(tolerance_ns) < apart(older)
    }

    #[inline]
    fn compare(&self, side: usize, sighting: &Sighting, entry: &Entry) -> Likeness {
        let row = &self.rows[entry.row as usize];
        if !self.may_be_one(side, sighting.flow, row.flow)
            || entry.parts.protocol != sighting.parts.protocol
        {
            return Likeness::Different;
        }
        let (first, second) = match side {
            0 => (sighting.flow, row.flow),
            _ => (row.flow, sighting.flow),
        };
        let offloaded = [sighting.parts, entry.parts].map(|p| p.has(Parts::PIECE | Parts::WHOLE));
        let likeness = match offloaded {
            [false, false] => self.compare_wire(first, second, &sighting.parts, &entry.parts),
            _ if row.flags.has(PacketFlags::WITHDRAWN) => Likeness::Different,
            _ => self.compare_offloaded(first, second, &sighting.parts, &entry.parts),
        };
        let (here, there) = (sighting.payload_bytes, row.payload_bytes);
        if likeness == Likeness::Different || here == there {
            return likeness;
        }
        // Linux joins small packets on receipt too: a certain match is split like the other
        let certain = likeness == Likeness::SameId
            || sighting.parts.has_timestamps()
                && self.precision.agree(&sighting.parts, &entry.parts);
        match offloaded {
            [false, true] => Likeness::CutTo(here),
            [false, false] if certain && here < there => Likeness::CutTo(here),
            [false, false] if certain => Likeness::CutSelfTo(there),
            _ => Likeness::Different,
        }
    }

    /// Compares two packets with equal keys that were captured as they were on the wire.
    #[inline]
    fn compare_wire(&self, first: u32, second: u32, one: &Parts, other: &Parts) -> Likeness {
        if self.precision.is_commonplace(one) && !self.flows.are_partners(first, second) {
            return Likeness::Different;
        }
        if !self.precision.strict_data && !self.precision.agree(one, other) {
            return Likeness::Different;
        }
        let (here, there) = (one.identification, other.identification);
        if here == there && here != 0 {
            Likeness::SameId
        } else if here == 0 || there == 0 || !self.flows.ids_are_preserved(first) {
            Likeness::Possible
        } else {
            Likeness::Different
        }
    }

    /// Compares two packets, at least one of which is a piece of a super-segment. Receive offload may use the
    /// acknowledgment number and the timestamps of any of the merged packets.
    fn compare_offloaded(&self, first: u32, second: u32, one: &Parts, other: &Parts) -> Likeness {
        let agree = self.precision.agree(one, other);
        if !agree && !self.flows.are_partners(first, second) {
            return Likeness::Different;
        }
        let (here, there) = (one.identification, other.identification);
        if here == there && here != 0 {
            return Likeness::SameId;
        }
        if agree {
            return Likeness::Possible;
        }
        let later = (one.bits | other.bits) & Parts::LATER_PIECE != 0;
        let ids_decide = match later {
            true => self.flows.ids_of_pieces_are_counted(),
            false => self.flows.ids_are_preserved(first),
        };
        if here != 0 && there != 0 && ids_decide || !self.precision.are_near(one, other) {
            return Likeness::Different;
        }
        Likeness::Possible
    }
}

/// Variation within which transit times are likely.
fn tolerance_ns(flow: &FlowState) -> u64 {
    CLOCK_GRAIN_NS + UNLIKELY_VARIATIONS * flow.variation_ns.unsigned_abs()
}
