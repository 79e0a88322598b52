//! Connections with sequence numbers that a device between the points changes.
//!
//! Firewalls that make initial sequence numbers hard to guess (sequence number randomization of Cisco's,
//! `modulate state` of pf) add a constant to the sequence numbers of one direction of a connection, or of
//! both, and subtract it from the acknowledgments of the other direction. Keys include these numbers, so that
//! no packet of such a connection matches. Fields that the device leaves unchanged identify equal packets:
//! timestamps, identifications, lengths, windows and flags. If several of them, without exception, differ by
//! one constant, it is subtracted at point 2.
//!
//! A proxy that ends connections and opens others carries the same bytes, but sends packets of its own: with
//! its own timestamps and identifications.

use std::collections::HashSet;

use super::Matcher;
use super::flows::{Flows, Tuple};
use super::pending::{Entry, NONE};
use super::sighting::{Parts, Sighting};
use crate::packet::PacketFlags;

/// Number of packets that start to wait before the next search for changed numbers, and never fewer than wait
/// already.
pub(super) const LEARNT_AFTER: usize = 1024;
/// Most consecutive searches while some are found.
const MOST_ROUNDS: usize = 8;
/// Most identical packets that identifications can distinguish; more are not used.
const MOST_ALIKE: usize = 64;
/// Packets with equal timestamps that prove a constant: for flows of one name, and for others. Most systems
/// offset the timestamps of connections by random numbers, and their echoes come from the other end.
const BY_TIMESTAMPS: [u32; 2] = [2, 3];
/// Without timestamps: packets with equal identifications, in both directions. These have 16 bits, and count
/// up.
const BY_IDENTIFICATIONS: [u32; 2] = [2, 2];
/// The same if the handshake was captured at both points and shows the same constant.
const BY_IDENTIFICATIONS_AND_SYN: u32 = 3;

/// The constants that a device adds to the numbers of a flow between point 1 and point 2, modulo 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Added {
    pub sequence: u32,
    pub acknowledgment: u32,
}

impl Added {
    fn of_reverse(self) -> Self {
        Self {
            sequence: self.acknowledgment,
            acknowledgment: self.sequence,
        }
    }

    /// Converts a packet of point 2 to the numbers that it has at point 1.
    pub(super) fn undo(self, side: usize, sighting: &mut Sighting) {
        sighting.parts.bits |= Parts::RENUMBERED;
        if side == 0 {
            return;
        }
        sighting.sequence = sighting.sequence.wrapping_sub(self.sequence);
        if sighting.parts.acknowledges() {
            let [acknowledgment, ..] = &mut sighting.parts.material;
            *acknowledgment = acknowledgment.wrapping_sub(self.acknowledgment);
        }
    }
}

/// The numbers of a flow: equal at both points, or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Numbering {
    #[default]
    Unknown,
    /// Packets with sequence number and acknowledgment matched without a change.
    Kept,
    Changed(Added),
}

impl Numbering {
    /// The numbering of the other direction of a flow with this one, as far as it follows.
    pub(super) fn of_reverse(self) -> Self {
        match self {
            Numbering::Changed(added) => Numbering::Changed(added.of_reverse()),
            Numbering::Unknown | Numbering::Kept => Numbering::Unknown,
        }
    }

    /// The constant added to sequence numbers; 0 if unknown.
    pub(crate) fn sequence_added(self) -> u32 {
        match self {
            Numbering::Changed(added) => added.sequence,
            Numbering::Unknown | Numbering::Kept => 0,
        }
    }
}

impl Flows {
    /// Learns from a match, and counts SACK blocks that were changed or not.
    #[inline]
    pub(super) fn on_numbers(&mut self, first: u32, second: u32, one: &Parts, other: &Parts) {
        if one.has(Parts::RENUMBERED) {
            let flow = self.get_mut(0, first);
            // its SACK blocks report bytes of the other direction
            let report_changed =
                matches!(flow.numbering, Numbering::Changed(added) if added.acknowledgment != 0);
            let sack = |parts: &Parts| match parts.has(Parts::SYN | Parts::DATA) {
                true => 0,
                false => parts.material[4],
            };
            if report_changed && sack(one) != 0 && sack(one) == sack(other) {
                flow.sack_left = flow.sack_left.saturating_add(1);
            }
        } else if one.acknowledges() && one.material[0] == other.material[0] {
            self.get_mut(0, first).numbering = Numbering::Kept;
            self.get_mut(1, second).numbering = Numbering::Kept;
        }
    }

    /// True if the numbers of a flow may be changed.
    fn may_be_renumbered(&self, side: usize, flow: u32) -> bool {
        let state = self.get(side, flow);
        let is_unknown = |numbering| numbering == Numbering::Unknown;
        is_unknown(state.numbering)
            && (state.reverse == NONE || is_unknown(self.get(side, state.reverse).numbering))
    }

    /// A connection's first flow, and whether this is it.
    fn lead(&self, side: usize, flow: u32) -> (u32, bool) {
        // no flow is above NONE
        let lead = flow.min(self.get(side, flow).reverse);
        (lead, lead == flow)
    }
}

/// An unmatched packet of a flow with numbers that may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Trace {
    /// Hash of the fields that such a device preserves.
    lasting: u64,
    slot: u32,
    flow: u32,
}

/// A connection at both points: its first flow at each, and whether these have one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidates {
    leads: [u32; 2],
    are_parallel: bool,
}

/// Two packets that seem to be one. Its numbers are those of the connection's first flow at point 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Vote {
    candidates: Candidates,
    /// Of the first flow, or of the other.
    direction: usize,
    /// Constants added to the sequence numbers of the first flow and of the other.
    added: [Option<u32>; 2],
    lasting: u64,
    by_timestamps: bool,
}

/// The votes for one connection counted.
#[derive(Debug)]
struct Ballot {
    candidates: Candidates,
    added: [Option<u32>; 2],
    by_timestamps: u32,
    /// By direction.
    by_identification: [u32; 2],
    against: u32,
}

impl Ballot {
    fn of(votes: &[Vote]) -> Option<Self> {
        let candidates = votes.first()?.candidates;
        let added = [0, 1].map(|direction| most_common(votes, direction));
        let mut ballot = Self {
            candidates,
            added,
            by_timestamps: 0,
            by_identification: [0; 2],
            against: 0,
        };
        for vote in votes {
            let agrees = vote
                .added
                .iter()
                .zip(added)
                .all(|(one, other)| one.is_none() || *one == other);
            match (agrees, vote.by_timestamps) {
                (false, _) => ballot.against += 1,
                (true, true) => ballot.by_timestamps += 1,
                (true, false) => ballot.by_identification[vote.direction] += 1,
            }
        }
        Some(ballot)
    }

    fn agreeing(&self) -> u32 {
        self.by_timestamps + self.by_identification.iter().sum::<u32>()
    }
}

/// The constant with the most votes.
fn most_common(votes: &[Vote], direction: usize) -> Option<u32> {
    let mut added: Vec<u32> = votes
        .iter()
        .filter_map(|vote| vote.added[direction])
        .collect();
    added.sort_unstable();
    let longest = added
        .chunk_by(|one, other| one == other)
        .max_by_key(|run| run.len())?;
    longest.first().copied()
}

impl Matcher {
    /// Searches for connections with changed numbers, and matches their waiting packets. Matched packets no
    /// longer make others ambiguous, so that more may be found then.
    #[cold]
    pub(super) fn learn_numberings(&mut self) {
        if self.hints.same_sequence_numbers {
            self.until_learning = usize::MAX;
            return;
        }
        let waiting = self.pending[0].len() + self.pending[1].len();
        self.until_learning = waiting.max(LEARNT_AFTER);
        for _ in 0..MOST_ROUNDS {
            let ballots = self.ballots();
            if ballots.is_empty() {
                return;
            }
            for ballot in &ballots {
                self.renumber(ballot);
            }
            self.match_renumbered();
        }
    }

    /// The convincing ballots, one for each connection.
    fn ballots(&self) -> Vec<Ballot> {
        let second = self.traces(1);
        if second.is_empty() {
            return Vec::new();
        }
        let mut first = self.traces(0);
        first.sort_unstable();
        let mut votes: Vec<Vote> = second
            .iter()
            .filter_map(|trace| self.vote(&first, trace))
            .collect();
        votes.sort_unstable();
        // copies of a packet have one vote
        votes.dedup();
        let mut ballots: Vec<Ballot> = votes
            .chunk_by(|one, other| one.candidates == other.candidates)
            .filter_map(Ballot::of)
            .filter(|ballot| self.is_convincing(ballot))
            .collect();
        ballots.sort_by_key(|ballot| std::cmp::Reverse(ballot.agreeing()));
        let mut taken = [HashSet::new(), HashSet::new()];
        ballots.retain(|ballot| {
            let leads = ballot.candidates.leads;
            let is_free = (0..2).all(|side| !taken[side].contains(&leads[side]));
            if is_free {
                (0..2).for_each(|side| _ = taken[side].insert(leads[side]));
            }
            is_free
        });
        ballots
    }

    /// Unmatched packets at a point that may be equal to packets with other numbers at the other point.
    fn traces(&self, side: usize) -> Vec<Trace> {
        let waiting = self.pending[side].iter();
        waiting
            .filter_map(|(slot, entry)| {
                let row = &self.rows[entry.row as usize];
                let lasting = self.lasting(&entry.parts, row.payload_bytes)?;
                let flow = row.flow;
                self.flows.may_be_renumbered(side, flow).then_some(Trace {
                    lasting,
                    slot,
                    flow,
                })
            })
            .collect()
    }

    /// Hash of the fields that such a device preserves; `None` if they are too few to identify a packet.
    fn lasting(&self, parts: &Parts, payload_bytes: u32) -> Option<u64> {
        if !parts.is_tcp() {
            return None;
        }
        let [_, value, echo, window, _] = parts.material.map(u64::from);
        let identification = match parts.has_timestamps() {
            true => 0,
            false if parts.identification == 0 => return None,
            false => u64::from(parts.identification),
        };
        let kind = u64::from(parts.kind_bits()) | identification << 8;
        let sizes = u64::from(payload_bytes) | window << 32;
        Some(self.hashes.hash_one((value | echo << 32, sizes, kind)))
    }

    /// The vote of a packet of point 2, if exactly one of point 1 is identical.
    fn vote(&self, first: &[Trace], trace: &Trace) -> Option<Vote> {
        let from = first.partition_point(|other| other.lasting < trace.lasting);
        let alike = first[from..].iter();
        let mut alike: Vec<&Trace> = alike
            .take_while(|other| other.lasting == trace.lasting)
            .take(MOST_ALIKE + 1)
            .collect();
        if alike.len() > MOST_ALIKE {
            return None;
        }
        let entry = self.pending[1].entry(trace.slot);
        let tuple = self.flows.get(1, trace.flow).tuple;
        let has_name = |other: &&Trace| self.flows.get(0, other.flow).tuple == tuple;
        if alike.iter().any(has_name) {
            alike.retain(has_name);
        }
        let same_id = |other: &Entry| {
            let id = entry.parts.identification;
            id != 0 && id == other.parts.identification
        };
        let is_one = |alike: &[&Trace]| {
            alike
                .windows(2)
                .all(|two| self.numbers(two[0]) == self.numbers(two[1]))
        };
        if !is_one(&alike) {
            alike.retain(|other| same_id(self.pending[0].entry(other.slot)));
        }
        let other = alike.first().filter(|_| is_one(&alike))?;
        let there = self.pending[0].entry(other.slot);
        let sequence = |entry: &Entry| self.rows[entry.row as usize].sequence;
        let acknowledgment = |parts: &Parts| parts.acknowledges().then_some(parts.material[0]);
        let sequence_added = sequence(entry).wrapping_sub(sequence(there));
        let acknowledgment_added = acknowledgment(&entry.parts)
            .zip(acknowledgment(&there.parts))
            .map(|(second, first)| second.wrapping_sub(first));
        let (first_lead, is_first) = self.flows.lead(0, other.flow);
        let (second_lead, is_second) = self.flows.lead(1, trace.flow);
        let mut added = [Some(sequence_added), acknowledgment_added];
        if !is_first {
            added.reverse();
        }
        Some(Vote {
            candidates: Candidates {
                leads: [first_lead, second_lead],
                are_parallel: is_first == is_second,
            },
            direction: usize::from(!is_first),
            added,
            lasting: trace.lasting,
            // a clock that connections share may have had that value in another one, but not with the same
            // echo
            by_timestamps: entry.parts.has_timestamps()
                && (entry.parts.material[2] != 0 || same_id(there)),
        })
    }

    /// Flow and numbers of a packet at point 1: equal for its copies.
    fn numbers(&self, trace: &Trace) -> (u32, u32, u32) {
        let entry = self.pending[0].entry(trace.slot);
        let sequence = self.rows[entry.row as usize].sequence;
        (trace.flow, sequence, entry.parts.material[0])
    }

    /// True if neither chance nor a proxy can produce such a ballot.
    fn is_convincing(&self, ballot: &Ballot) -> bool {
        let added = ballot.added.map(Option::unwrap_or_default);
        let is_complete = ballot.added.iter().all(Option::is_some) || self.nothing_else_arrives;
        if added == [0; 2] || !is_complete || 2 * ballot.against > ballot.agreeing() {
            return false;
        }
        let directions = self.flows_of(ballot.candidates);
        let by_syn = directions.map(|both| self.added_to_syn(both));
        let contradicts =
            |(by_syn, added): (Option<u32>, u32)| by_syn.is_some_and(|by| by != added);
        if by_syn.into_iter().zip(added).any(contradicts) {
            return false;
        }
        let [Some(one), Some(two)] = [0, 1].map(|side| self.tuple_of(side, directions)) else {
            return false;
        };
        let are_translated = one != two;
        if are_translated && !one.shares_an_end(&two) {
            return false;
        }
        // beside others that are changed, a connection of one packet is too
        let beside_others =
            self.nothing_else_arrives && self.flows.renumbered && ballot.against == 0;
        if beside_others && (ballot.by_timestamps > 0 || !are_translated) {
            return true;
        }
        let by_both = (0..2).all(|d| ballot.by_identification[d] >= BY_IDENTIFICATIONS[d]);
        let with_syn = by_syn.iter().any(Option::is_some) && !are_translated;
        ballot.by_timestamps >= BY_TIMESTAMPS[usize::from(are_translated)]
            || by_both
            || with_syn && ballot.agreeing() >= BY_IDENTIFICATIONS_AND_SYN
    }

    /// The constant that the SYNs of a flow show, if both points captured it.
    fn added_to_syn(&self, [first, second]: [u32; 2]) -> Option<u32> {
        let syn = |side, flow| (flow != NONE).then(|| self.flows.get(side, flow).syn)?;
        Some(syn(1, second)?.wrapping_sub(syn(0, first)?))
    }

    /// Addresses and ports at a point for the first of two directions.
    fn tuple_of(&self, side: usize, [there, back]: [[u32; 2]; 2]) -> Option<Tuple> {
        let tuple = |flow| (flow != NONE).then(|| self.flows.get(side, flow).tuple);
        tuple(there[side]).or_else(|| Some(tuple(back[side])?.reversed()))
    }

    /// The flows of both points in each direction, [`NONE`] if a point has not captured it.
    fn flows_of(&self, candidates: Candidates) -> [[u32; 2]; 2] {
        let [first, second] = candidates.leads;
        let (back, other) = (
            self.flows.get(0, first).reverse,
            self.flows.get(1, second).reverse,
        );
        match candidates.are_parallel {
            true => [[first, second], [back, other]],
            false => [[first, other], [back, second]],
        }
    }

    /// Records the constants of a connection.
    fn renumber(&mut self, ballot: &Ballot) {
        let [sequence, acknowledgment] = ballot.added.map(Option::unwrap_or_default);
        let added = Added {
            sequence,
            acknowledgment,
        };
        let directions = self.flows_of(ballot.candidates);
        for (both, added) in directions.into_iter().zip([added, added.of_reverse()]) {
            for (side, flow) in both
                .into_iter()
                .enumerate()
                .filter(|(_, flow)| *flow != NONE)
            {
                let state = self.flows.get_mut(side, flow);
                state.numbering = Numbering::Changed(added);
                state.whole_super_segments = false;
                self.whole[side].remove(&flow);
            }
            if !both.contains(&NONE) {
                self.flows.bind(both[0], both[1]);
            }
        }
        self.flows.renumbered = true;
    }

    /// Processes waiting packets of renumbered connections again, in order of arrival.
    fn match_renumbered(&mut self) {
        let mut again: Vec<(u32, usize, u32)> = Vec::new();
        for side in 0..2 {
            for (slot, entry) in self.pending[side].iter() {
                let flow = self.rows[entry.row as usize].flow;
                let numbering = self.flows.get(side, flow).numbering;
                if matches!(numbering, Numbering::Changed(_)) && !entry.parts.has(Parts::RENUMBERED)
                {
                    again.push((entry.row, side, slot));
                }
            }
        }
        again.sort_unstable();
        let again: Vec<(usize, Sighting)> = again
            .into_iter()
            .map(|(_, side, slot)| (side, self.withdraw(side, slot)))
            .collect();
        for (side, mut sighting) in again {
            if let Numbering::Changed(added) = self.flows.get(side, sighting.flow).numbering {
                added.undo(side, &mut sighting);
            }
            if sighting.parts.has(Parts::WHOLE) {
                sighting.parts.bits &= !Parts::WHOLE;
                self.take_data(side, sighting);
            } else {
                self.place(side, &sighting, true);
            }
        }
    }

    /// Withdraws a waiting packet.
    fn withdraw(&mut self, side: usize, slot: u32) -> Sighting {
        let entry = self.pending[side].remove(slot);
        let sighting = self.sighting_of(side, &entry);
        let row = &mut self.rows[entry.row as usize];
        row.flags.set(PacketFlags::WITHDRAWN);
        let flow = self.flows.get_mut(side, sighting.flow);
        flow.few_rows.forget(entry.row);
        sighting
    }
}
