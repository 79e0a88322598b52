//! Determines the segment length of super-segments, and splits those that wait.

use super::pending::{Entry, NONE};
use super::sighting::{Parts, Precision, Sighting};
use super::{Matcher, offload};
use crate::packet::{PacketFlags, PairPacket};

impl Matcher {
    /// Called when super-segments appear: their pieces need not agree in all the fields that keys otherwise
    /// include.
    pub(super) fn expect_offload(&mut self) {
        self.lower_precision(Precision {
            strict_data: false,
            ..self.precision
        });
    }

    /// The length of the wire packet at the other point that begins like this super-segment.
    pub(super) fn first_piece_elsewhere(&self, side: usize, sighting: &Sighting) -> Option<u32> {
        let key = self.key(sighting);
        let entry = self.pending[1 - side].with_key(key).find(|(_, entry)| {
            let row = &self.rows[entry.row as usize];
            !entry.parts.has(Parts::PIECE | Parts::WHOLE)
                && self.precision.are_near(&entry.parts, &sighting.parts)
                && row.payload_bytes <= sighting.payload_bytes
                && row.payload_bytes >= offload::SMALLEST_SEGMENT_BYTES
                && self.may_be_one(side, sighting.flow, row.flow)
        })?;
        Some(self.rows[entry.1.row as usize].payload_bytes)
    }

    /// If both points hold super-segments and no handshake, neither shows the size: the most likely one is
    /// used at both.
    pub(super) fn guess_for_both(&mut self, side: usize, sighting: &Sighting) -> Option<u32> {
        let partner = self.flows.get(side, sighting.flow).partner;
        if partner == NONE || !self.flows.get(1 - side, partner).whole_super_segments {
            return None;
        }
        // equal boundaries match as they are
        let same = self.pending[1 - side]
            .with_key(self.key(sighting))
            .any(|(_, entry)| {
                self.rows[entry.row as usize].payload_bytes == sighting.payload_bytes
            });
        if same {
            return None;
        }
        let plain = [(side, sighting.flow), (1 - side, partner)]
            .map(|(side, flow)| self.flows.get(side, flow).plain_segment_bytes());
        let bytes = offload::likely_segment_bytes(sighting, plain.into_iter().flatten().max())?;
        self.cut_waiting(1 - side, partner, bytes);
        Some(bytes)
    }

    /// Called when the first segment of a super-segment, and so the segment size of its flow, has become
    /// known: all that waited for it are split. Except if the other point holds longer wire packets: then
    /// this one was short.
    pub(super) fn learn_segment_bytes(&mut self, side: usize, flow: u32, bytes: u32) {
        let partner = self.flows.get(side, flow).partner;
        let plain = (partner != NONE)
            .then(|| self.flows.get(1 - side, partner).plain_segment_bytes())
            .flatten();
        let bytes = bytes.max(plain.unwrap_or(0));
        let state = self.flows.get_mut(side, flow);
        if state.segment_bytes == bytes && !state.whole_super_segments {
            return;
        }
        state.segment_bytes = bytes;
        if state.whole_super_segments {
            self.cut_waiting(side, flow, bytes);
        }
    }

    fn cut_waiting(&mut self, side: usize, flow: u32, bytes: u32) {
        self.flows.get_mut(side, flow).whole_super_segments = false;
        self.flows.get_mut(side, flow).segment_bytes = bytes;
        for (row, parts) in self.whole[side].remove(&flow).unwrap_or_default() {
            if let Some(slot) = self.slot_of(side, row, &parts) {
                self.cut(side, slot, bytes);
            }
        }
    }

    /// The slot of a row's packet, if it still waits. `parts` are its own, or those of another piece of the
    /// same super-segment: the row gives the difference of their keys.
    fn slot_of(&self, side: usize, row: u32, parts: &Parts) -> Option<u32> {
        let waiting = &self.rows[row as usize];
        let (sequence, bytes) = (waiting.sequence, waiting.payload_bytes);
        let key = self.precision.key(&self.hashes, parts, sequence, bytes);
        let mut candidates = self.pending[side].with_key(key);
        candidates
            .find(|(_, entry)| entry.row == row)
            .map(|(slot, _)| slot)
    }

    /// Splits a waiting super-segment, whole or split differently, into segments of `bytes`. False if that is
    /// impossible.
    #[cold]
    pub(super) fn cut(&mut self, side: usize, slot: u32, bytes: u32) -> bool {
        let entry = *self.pending[side].entry(slot);
        let Some((first, whole)) = self.reassembled(side, &entry) else {
            return false;
        };
        self.expect_offload();
        // no super-segment, but a packet larger than announced
        let is_one = bytes == whole.payload_bytes && entry.parts.has(Parts::PIECE);
        if !is_one && !offload::can_cut(whole.payload_bytes, bytes) {
            return false;
        }
        let mut row = first;
        while let Some(piece) = self.rows.get_mut(row as usize)
            && piece.index[side] == whole.index
            && piece.flow == whole.flow
            && !piece.flags.has(PacketFlags::WITHDRAWN)
        {
            piece.flags.set(PacketFlags::WITHDRAWN);
            if let Some(slot) = self.slot_of(side, row, &entry.parts) {
                self.pending[side].remove(slot);
            }
            row += 1;
        }
        if is_one {
            self.place(side, &whole, false);
        } else {
            for piece in offload::pieces(&whole, side, bytes) {
                self.place(side, &piece, false);
            }
        }
        if entry.parts.has(Parts::PIECE | Parts::WHOLE) {
            self.learn_segment_bytes(side, whole.flow, bytes);
        }
        true
    }

    /// The super-segment of a waiting entry or piece, with its first row; `None` if a piece of it has been
    /// matched already.
    fn reassembled(&self, side: usize, entry: &Entry) -> Option<(u32, Sighting)> {
        let own = self.rows[entry.row as usize];
        let belongs = |row: &PairPacket| {
            row.index[side] == own.index[side]
                && row.flow == own.flow
                && !row.flags.has(PacketFlags::WITHDRAWN)
        };
        let before = self.rows[..entry.row as usize].iter().rev();
        let first = entry.row as usize - before.take_while(|row| belongs(row)).count();
        let all = self.rows[first..].iter().take_while(|row| belongs(row));
        let (mut payload_bytes, mut flags) = (0u32, 0);
        for row in all {
            if row.is_matched() {
                return None;
            }
            payload_bytes = payload_bytes.saturating_add(row.payload_bytes);
            flags |= row.flags.0;
        }
        let head = self.rows[first];
        let mut parts = entry.parts;
        parts.bits &= !(Parts::PIECE | Parts::LATER_PIECE);
        parts.identification = head.identification;
        Some((
            first as u32,
            Sighting {
                parts,
                flow: own.flow,
                index: own.index[side],
                time_ns: own.time_ns[side],
                sequence: head.sequence,
                payload_bytes,
                ip_bytes: head
                    .ip_bytes
                    .saturating_sub(head.payload_bytes)
                    .saturating_add(payload_bytes),
                ttl: own.ttl[side],
                tos: own.tos[side],
                flags: flags & !(PacketFlags::LATER_PIECE | PacketFlags::offloaded(side)),
            },
        ))
    }
}
