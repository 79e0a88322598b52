//! Super-segments with segments of different lengths, split like the packets at the other point.
//!
//! A sender's segments are full except for the last of its data, and segmentation offload may join data
//! before and after such a short one. Split into full segments, the pieces after it are packets that never
//! existed. The unmatched parts of such a super-segment are covered with the unmatched packets at the other
//! point that contain its bytes. Uncovered parts were lost, or are missing there.

use super::leftovers::Orders;
use super::pending::NONE;
use super::sighting::{Parts, Sighting};
use super::{Matcher, new_row, offload};
use crate::packet::{PacketFlags, PairPacket};

/// Most packets with one sequence number that are checked for one position.
const MOST_ALIKE: usize = 16;

/// A packet with data that waits at the other point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Mark {
    flow: u32,
    sequence: u32,
    slot: u32,
}

/// A waiting super-segment or piece of one.
#[derive(Debug, Clone, Copy)]
struct Piece {
    slot: u32,
    row: u32,
}

/// A packet of the other point that covers part of a super-segment.
#[derive(Debug, Clone, Copy)]
struct Tile {
    /// From the beginning of the covered part.
    offset: u32,
    payload_bytes: u32,
    slot: u32,
}

impl Matcher {
    /// Splits the waiting parts of super-segments along the packets that wait at the other point, and matches
    /// those.
    pub(super) fn cut_like_the_other_point(&mut self, orders: Option<&Orders>) {
        for side in 0..2 {
            let pieces = self.waiting_pieces(side);
            if pieces.is_empty() {
                continue;
            }
            let marks = self.marks(side, &pieces);
            let runs: Vec<&[Piece]> = pieces
                .chunk_by(|one, next| self.follows(side, one, next))
                .collect();
            for run in runs {
                // a packet may have been matched with a later transmission of the same bytes
                let rests: Vec<&[Piece]> = run
                    .split(|piece| !self.still_waits(side, piece))
                    .filter(|rest| !rest.is_empty())
                    .collect();
                for rest in rests {
                    self.cut_run(side, rest, &marks, orders);
                }
            }
        }
    }

    /// The super-segments and their pieces that wait at a point.
    fn waiting_pieces(&self, side: usize) -> Vec<Piece> {
        let waiting = self.pending[side].iter();
        let pieces = waiting.filter(|(_, entry)| entry.parts.has(Parts::PIECE | Parts::WHOLE));
        pieces
            .map(|(slot, entry)| Piece {
                slot,
                row: entry.row,
            })
            .collect()
    }

    /// Data at the other point that belongs to the flows of these pieces.
    fn marks(&self, side: usize, pieces: &[Piece]) -> Vec<Mark> {
        let mut flows: Vec<u32> = pieces
            .iter()
            .map(|piece| self.flows.get(side, self.row(piece).flow).partner)
            .collect();
        flows.sort_unstable();
        flows.dedup();
        let mut marks = Vec::new();
        for (slot, entry) in self.pending[1 - side].iter() {
            let row = &self.rows[entry.row as usize];
            let is_data = row.flags.has(PacketFlags::TCP) && entry.parts.has(Parts::DATA);
            if is_data && !entry.parts.has(Parts::WHOLE) && flows.binary_search(&row.flow).is_ok() {
                marks.push(Mark {
                    flow: row.flow,
                    sequence: row.sequence,
                    slot,
                });
            }
        }
        marks.sort_unstable();
        marks
    }

    fn row(&self, piece: &Piece) -> &PairPacket {
        &self.rows[piece.row as usize]
    }

    /// True if it still waits: its slot may have been reused.
    fn still_waits(&self, side: usize, piece: &Piece) -> bool {
        let waits = waits(self.row(piece));
        waits && self.pending[side].entry(piece.slot).row == piece.row
    }

    /// True if one piece follows another one of its super-segment.
    fn follows(&self, side: usize, one: &Piece, next: &Piece) -> bool {
        let (one, next) = (self.row(one), self.row(next));
        one.index[side] == next.index[side]
            && one.flow == next.flow
            && one.sequence.wrapping_add(one.payload_bytes) == next.sequence
    }

    /// Splits consecutive pieces of one super-segment again.
    fn cut_run(&mut self, side: usize, run: &[Piece], marks: &[Mark], orders: Option<&Orders>) {
        let whole = self.joined(side, run);
        let tiles = self.tiles(side, &whole, marks);
        let Some(longest) = tiles.iter().map(|tile| tile.payload_bytes).max() else {
            return;
        };
        let known = self.flows.segment_bytes(side, whole.flow);
        let segment_bytes = known
            .unwrap_or(offload::SMALLEST_SEGMENT_BYTES)
            .max(longest);
        let lengths = lengths(&tiles, whole.payload_bytes, segment_bytes);
        let same = lengths.len() == run.len()
            && run
                .iter()
                .zip(&lengths)
                .all(|(piece, bytes)| self.row(piece).payload_bytes == *bytes);
        if same {
            return;
        }
        let mut places = run.iter();
        for piece in offload::pieces_of(whole, side, lengths.into_iter()) {
            let key = self.key(&piece);
            let Some(&Piece { slot, row }) = places.next() else {
                self.add_waiting(side, &piece, key);
                continue;
            };
            self.rows[row as usize] =
                new_row(side, &piece, self.precision.content(key, &piece.parts));
            self.pending[side].replace(slot, key, piece.parts);
        }
        for &Piece { slot, row } in places {
            self.pending[side].remove(slot);
            self.rows[row as usize].flags.set(PacketFlags::WITHDRAWN);
        }
        // from the other side: a match keeps the rows of this one, and so the order of the pieces
        for tile in tiles {
            self.match_after_all(1 - side, tile.slot, orders);
        }
    }

    /// Consecutive pieces joined.
    fn joined(&self, side: usize, run: &[Piece]) -> Sighting {
        let head = self.sighting_of(side, self.pending[side].entry(run[0].slot));
        let rest = &run[1..];
        let more_bytes: u32 = rest.iter().map(|piece| self.row(piece).payload_bytes).sum();
        let flags = rest.iter().map(|piece| self.row(piece).flags.0);
        Sighting {
            payload_bytes: head.payload_bytes + more_bytes,
            ip_bytes: head.ip_bytes + more_bytes,
            flags: head.flags | flags.fold(0, |all, one| all | one & PacketFlags::FIN),
            ..head
        }
    }

    /// Waiting packets of the other point that cover a super-segment, or the rest of one: in order, without
    /// overlaps.
    fn tiles(&self, side: usize, whole: &Sighting, marks: &[Mark]) -> Vec<Tile> {
        let flow = self.flows.get(side, whole.flow).partner;
        let mut tiles = Vec::new();
        if flow == NONE {
            return tiles;
        }
        // many transmissions of the same bytes must not make this slow
        let mut looks_left =
            MOST_ALIKE + 4 * (whole.payload_bytes / offload::SMALLEST_SEGMENT_BYTES) as usize;
        let mut covered = 0;
        while looks_left > 0
            && let Some(alike) = first_marks(marks, flow, whole, covered)
        {
            looks_left = looks_left.saturating_sub(alike.len());
            let offset = alike[0].sequence.wrapping_sub(whole.sequence);
            let room_bytes = whole.payload_bytes - offset;
            match self.likeliest(side, whole, alike, room_bytes) {
                Some((slot, payload_bytes)) => {
                    tiles.push(Tile {
                        offset,
                        payload_bytes,
                        slot,
                    });
                    covered = offset + payload_bytes;
                }
                None => covered = offset + 1,
            }
        }
        tiles
    }

    /// Among packets that begin alike the most likely part of a super-segment, with its length.
    fn likeliest(
        &self,
        side: usize,
        whole: &Sighting,
        alike: &[Mark],
        room_bytes: u32,
    ) -> Option<(u32, u32)> {
        let expected_ns = self.flows.get(side, whole.flow).delta_ns.or(self.delta_ns);
        let possible = alike.iter().filter_map(|mark| {
            let entry = self.pending[1 - side].entry(mark.slot);
            let row = &self.rows[entry.row as usize];
            (waits(row)
                && row.payload_bytes <= room_bytes
                && self.precision.are_near(&entry.parts, &whole.parts)
                && self.may_be_one(side, whole.flow, row.flow))
            .then_some((mark.slot, entry, row.payload_bytes))
        });
        possible
            .min_by_key(|(_, entry, _)| {
                let delta_ns = self.delta_to(side, whole, entry);
                expected_ns.map_or(0, |expected_ns| delta_ns.abs_diff(expected_ns))
            })
            .map(|(slot, _, payload_bytes)| (slot, payload_bytes))
    }
}

/// True if the packet of a row still waits.
fn waits(row: &PairPacket) -> bool {
    !row.is_matched() && !row.flags.has(PacketFlags::WITHDRAWN)
}

/// The first packets, all with one sequence number, that begin in a super-segment after its covered part.
fn first_marks<'a>(
    marks: &'a [Mark],
    flow: u32,
    whole: &Sighting,
    covered: u32,
) -> Option<&'a [Mark]> {
    // from there, or after sequence numbers wrapped
    [whole.sequence.wrapping_add(covered), 0]
        .into_iter()
        .find_map(|sequence| {
            let from = marks.partition_point(|mark| (mark.flow, mark.sequence) < (flow, sequence));
            let first = marks.get(from).filter(|mark| mark.flow == flow)?;
            let offset = first.sequence.wrapping_sub(whole.sequence);
            let rest = marks[from..].iter().take(MOST_ALIKE);
            let alike =
                rest.take_while(|mark| (mark.flow, mark.sequence) == (flow, first.sequence));
            (covered..whole.payload_bytes)
                .contains(&offset)
                .then(|| &marks[from..from + alike.count()])
        })
}

/// Lengths of the pieces made by tiles: uncovered parts are split into full segments.
fn lengths(tiles: &[Tile], payload_bytes: u32, segment_bytes: u32) -> Vec<u32> {
    let mut all = Vec::with_capacity(tiles.len() + 1);
    let mut covered = 0;
    for tile in tiles {
        all.extend(offload::lengths(tile.offset - covered, segment_bytes));
        all.push(tile.payload_bytes);
        covered = tile.offset + tile.payload_bytes;
    }
    all.extend(offload::lengths(payload_bytes - covered, segment_bytes));
    all
}
