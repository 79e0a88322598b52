//! Losses without selective acknowledgments, as Linux implements RFC 6582: each duplicate acknowledgment means that one
//! segment beyond the first hole has arrived, and a partial one that the next hole follows.

use super::recovery::Recovery;
use super::scoreboard::{Delivered, Scoreboard};
use super::{DUPLICATE_THRESHOLD, Sender};

impl Sender {
    /// Processes a duplicate acknowledgment; returns how many segments it reports as arrived.
    pub(super) fn count_duplicate(&mut self) -> u32 {
        let counts = match self.recovery {
            // needlessly retransmitted data is acknowledged by duplicates too (RFC 6582, section 3.2, step 2)
            Recovery::Open => self.una > self.recover,
            Recovery::Fast { .. } => true,
            Recovery::Timeout { high } => self.next > high,
        };
        u32::from(counts && self.board.add_unnamed())
    }

    /// The third duplicate acknowledgment reveals the first hole, a partial acknowledgment the next. A lost
    /// retransmission waits for the timer and is not detected here.
    pub(super) fn find_losses_by_duplicates(&mut self, advanced: bool) -> bool {
        let is_hole = match self.recovery {
            Recovery::Open => self.board.unnamed() >= DUPLICATE_THRESHOLD,
            Recovery::Fast { high, .. } => advanced && self.una < high,
            Recovery::Timeout { .. } => false,
        };
        if is_hole {
            self.board.mark_first_lost();
        }
        if advanced && matches!(self.recovery, Recovery::Timeout { .. }) {
            self.board.forget_unnamed();
        }
        false
    }
}

impl Scoreboard {
    pub fn unnamed(&self) -> usize {
        self.unnamed
    }

    /// Counts one more arrived segment, without knowing which; returns false if all but the holes have arrived already.
    pub fn add_unnamed(&mut self) -> bool {
        let before = self.unnamed;
        self.unnamed += 1;
        self.limit_unnamed();
        self.unnamed > before
    }

    /// Limits the count: no more segments can have arrived than are outstanding, without the first hole (Linux's
    /// `tcp_limit_reno_sacked`).
    fn limit_unnamed(&mut self) {
        let most = self.len().saturating_sub(self.lost().max(1));
        self.unnamed = self.unnamed.min(most);
    }

    pub fn forget_unnamed(&mut self) {
        self.unnamed = 0;
    }

    /// Of the segments that an acknowledgment covers, the first one filled the hole, and the others were counted
    /// before.
    pub(super) fn acknowledge_unnamed(&mut self, delivered: &mut Delivered) {
        let counted = u32::try_from(self.unnamed).unwrap_or(u32::MAX);
        if counted == 0 || delivered.acked == 0 {
            return;
        }
        delivered.arrived = delivered.acked.saturating_sub(counted).max(1);
        delivered.released = true;
        self.unnamed -= (delivered.acked as usize - 1).min(self.unnamed);
        self.limit_unnamed();
    }

    pub fn mark_first_lost(&mut self) {
        if let Some(first) = self.segments.front_mut().filter(|segment| !segment.lost) {
            first.lost = true;
            self.lost += 1;
            self.losses_found += 1;
            self.limit_unnamed();
        }
    }
}
