//! Discarding of flows with few packets, oldest first: a flood of addresses and ports must not exhaust
//! memory.
//!
//! A flow and its partner at the other point are discarded together with their rows, and only once none of
//! their packets waits for the other capture. So a flow is left out completely: the rest is matched as if it
//! had never existed. A flow of many packets stays: its rows need more memory than itself.

use super::Matcher;
use super::pending::NONE;
use crate::flow::LeftOut;
use crate::packet::PacketFlags;

/// A flow of more packets than this stays.
const FEW: usize = 8;
/// Flows to check for each new one: those that must stay are moved behind the others.
const MOST_CHECKED: usize = 4;

/// The rows of a flow, while they are few.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FewRows {
    rows: [u32; FEW],
    /// One more than fits means many.
    count: u8,
}

impl FewRows {
    #[inline]
    pub(super) fn push(&mut self, row: u32) {
        if let Some(place) = self.rows.get_mut(usize::from(self.count)) {
            *place = row;
        }
        self.count = (self.count + 1).min(FEW as u8 + 1);
    }

    /// Removes a withdrawn row, while they are few.
    pub(super) fn forget(&mut self, withdrawn: u32) {
        self.renumber(|row| if row == withdrawn { NONE } else { row });
    }

    fn are_many(&self) -> bool {
        usize::from(self.count) > FEW
    }

    fn iter(&self) -> impl Iterator<Item = u32> {
        let few = usize::from(self.count).min(FEW);
        self.rows.into_iter().take(few)
    }

    /// Renumbers the rows, or removes them.
    fn renumber(&mut self, number: impl Fn(u32) -> u32) {
        if self.are_many() {
            return;
        }
        let mut rest = Self::default();
        self.iter()
            .map(number)
            .filter(|row| *row != NONE)
            .for_each(|row| rest.push(row));
        *self = rest;
    }
}

/// A flow that may be discarded later.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub flow: u32,
    /// Distinguishes it from other flows with the same number.
    pub birth: u64,
    /// Its packets at the last check.
    pub packets: u64,
}

/// The decision on a candidate.
enum Fate {
    /// The flow no longer exists, or must not be discarded.
    NoCandidate,
    /// Not yet.
    Stays,
    Goes,
}

impl Matcher {
    /// Discards flows of few packets if there are too many, except for `current`.
    #[inline]
    pub(super) fn bound_flows(&mut self, side: usize, current: u32) {
        if self.flows.candidates(side).len() > self.most_small_flows {
            self.let_some_go(side, current);
        }
    }

    #[cold]
    fn let_some_go(&mut self, side: usize, current: u32) {
        let mut checked = 0;
        while self.flows.candidates(side).len() > self.most_small_flows
            && checked < MOST_CHECKED
            && let Some(mut candidate) = self.flows.candidates(side).pop_front()
        {
            match self.fate(side, current, candidate) {
                Fate::NoCandidate => {}
                Fate::Stays => {
                    checked += 1;
                    candidate.packets = self.flows.get(side, candidate.flow).packets;
                    self.flows.candidates(side).push_back(candidate);
                }
                Fate::Goes => {
                    checked += 1;
                    self.discard(side, candidate.flow);
                }
            }
        }
        if self.left_out_rows > self.rows.len() / 2 {
            self.close_ranks();
        }
    }

    fn fate(&self, side: usize, current: u32, candidate: Candidate) -> Fate {
        let state = self.flows.get(side, candidate.flow);
        if state.birth != candidate.birth {
            return Fate::NoCandidate;
        }
        let partner = (state.partner != NONE).then(|| self.flows.get(1 - side, state.partner));
        let is_large =
            state.few_rows.are_many() || partner.is_some_and(|partner| partner.few_rows.are_many());
        if is_large {
            return Fate::NoCandidate;
        }
        let is_idle = candidate.flow != current && state.packets == candidate.packets;
        let is_settled = self.none_waits(side, &state.few_rows)
            && partner.is_none_or(|partner| self.none_waits(1 - side, &partner.few_rows));
        if is_idle && is_settled {
            Fate::Goes
        } else {
            Fate::Stays
        }
    }

    /// True if all these packets are matched or given up.
    fn none_waits(&self, side: usize, rows: &FewRows) -> bool {
        // rows start to wait in their order, and are given up in it
        let first_waiting = self.pending[side]
            .oldest()
            .map_or(NONE, |(_, entry)| entry.row);
        rows.iter().all(|number| {
            let row = &self.rows[number as usize];
            row.is_matched() || row.flags.has(PacketFlags::WITHDRAWN) || number < first_waiting
        })
    }

    fn discard(&mut self, side: usize, flow: u32) {
        let partner = self.flows.get(side, flow).partner;
        self.leave_out_rows(side, flow);
        self.flows.remove(side, flow);
        if partner != NONE {
            self.leave_out_rows(1 - side, partner);
            self.flows.remove(1 - side, partner);
            // it has about the same position in its queue
            while let Some(first) = self.flows.candidates(1 - side).front().copied()
                && self.flows.get(1 - side, first.flow).birth != first.birth
            {
                self.flows.candidates(1 - side).pop_front();
            }
        }
        self.left_out.flows += 1;
    }

    fn leave_out_rows(&mut self, side: usize, flow: u32) {
        self.whole[side].remove(&flow);
        let state = self.flows.get(side, flow);
        let owner = if side == 0 { flow } else { state.partner };
        for number in state.few_rows.iter() {
            let row = &mut self.rows[number as usize];
            // matched rows belong to the flow at point 1, which may have another partner by now
            if row.flags.has(PacketFlags::WITHDRAWN) || row.is_matched() && row.flow != owner {
                continue;
            }
            row.flags
                .set(PacketFlags::WITHDRAWN | PacketFlags::LEFT_OUT);
            self.left_out_rows += 1;
            if row.is_matched() {
                self.left_out.matched += 1;
            } else {
                self.left_out.unmatched[side] += 1;
            }
        }
    }

    /// Compacts the remaining rows in their order: those of one super-segment stay adjacent.
    fn close_ranks(&mut self) {
        let mut numbers = Vec::with_capacity(self.rows.len());
        let mut next = 0;
        for row in &self.rows {
            let is_left = !row.flags.has(PacketFlags::LEFT_OUT);
            numbers.push(if is_left { next } else { NONE });
            next += u32::from(is_left);
        }
        let number = |row: u32| numbers[row as usize];
        self.rows
            .retain(|row| !row.flags.has(PacketFlags::LEFT_OUT));
        for side in 0..2 {
            self.pending[side].renumber_rows(number);
            for waiting in self.whole[side].values_mut() {
                waiting.iter_mut().for_each(|(row, _)| *row = number(*row));
                waiting.retain(|(row, _)| *row != NONE);
            }
            for state in self.flows.all_mut(side) {
                state.few_rows.renumber(number);
            }
        }
        self.left_out_rows = 0;
    }

    pub(crate) fn left_out(&self) -> LeftOut {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_stored_while_they_are_few() {
        let mut rows = FewRows::default();
        for row in 0..FEW as u32 {
            rows.push(row);
        }
        assert!(!rows.are_many());
        rows.renumber(|row| if row % 2 == 0 { row / 2 } else { NONE });
        assert_eq!(rows.iter().collect::<Vec<u32>>(), [0, 1, 2, 3]);
        for row in 0..300 {
            rows.push(row);
        }
        assert!(rows.are_many());
        rows.renumber(|_| NONE);
        assert!(rows.are_many());
    }
}
