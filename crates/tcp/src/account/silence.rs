//! Silences: what an acknowledgment was late for, and outages.

use super::{Walk, is_by_timer};
use crate::flow::{Acknowledgment, Kind, Segment, SegmentFlags, Vantage};
use crate::limits::Limiter;

/// Acknowledgments are held back by no less than this (Linux's minimum is 40 ms, its first timer half of that), and by no
/// more than half a second (RFC 1122, section 4.2.3.2).
const LEAST_HELD_NS: i64 = 15_000_000;
pub(super) const MOST_HELD_NS: i64 = 550_000_000;
/// Few round trips take so many times what the usual one does.
pub(super) const LONG: i64 = 3;
/// Linux's minimum retransmission timeout: what is lost again after that long was lost by something that lasts.
const LASTING_NS: i64 = 200_000_000;
/// Packets are not lost one by one where that is as unlikely.
const CHANCE: f64 = 0.01;
/// So many acknowledgments in a row are not lost one by one.
const ALL_OF: usize = 3;
/// The minimum of RFC 6298, section 2.4: what is sent again later, and no long round trip is why, was sent again before.
const FIRST_TIMEOUT_NS: i64 = 1_000_000_000;

impl Walk<'_> {
    /// A probe of the tail that crosses the acknowledgment that it asks for, which passed here before it: nothing else
    /// sends the last byte again without need after a round trip of silence (RFC 8985, section 7).
    pub(super) fn probes_tail(&self, segment: &Segment, now_ns: i64) -> bool {
        let silent_ns = now_ns.saturating_sub(self.last_sent_ns.max(self.last_heard_ns));
        segment.flags.has(SegmentFlags::SPURIOUS)
            && segment.kind == Kind::Fast
            && segment.end() == self.next
            && silent_ns > self.round_trip.recent_ns
    }

    /// The limiter while a timer that ran out for nothing waited: the acknowledgment of less than two full segments was
    /// held back, any other one queued.
    pub(super) fn late_answer(&self) -> Limiter {
        let next_ns = self.clock.heard_ns.get(self.coming).copied();
        let is_lost = self.answers_again(next_ns.unwrap_or(i64::MAX));
        // one that passed here before the timer ran out was lost beyond
        let held = 1..self.round_trip.stretch;
        match held.contains(&(self.next - self.acknowledged)) && !is_lost {
            true => Limiter::DelayedAck,
            false => self
                .before
                .unwrap_or(self.rounds.window_at(self.last_sent_ns)),
        }
    }

    /// True if an acknowledgment comes only in answer to what a timer sent again for nothing: the one before it was not held back
    /// but lost, where the receiver had two segments, whatever it usually acknowledges at once.
    fn answers_again(&self, heard_ns: i64) -> bool {
        let answer_ns = self.round_trip.base_ns.saturating_sub(self.slack_ns);
        self.next - self.acknowledged >= 2 * self.mss
            && (self.again_ns).is_some_and(|ns| heard_ns >= ns.saturating_add(answer_ns))
    }

    /// True if an acknowledgment came with data: the receiver's application made it, and no timer; or one that came before was filtered
    /// out of the capture.
    fn comes_with_data(&self, acknowledgment: &Acknowledgment) -> bool {
        let data_ns = (self.told.request_until)(acknowledgment.time_ns);
        data_ns == Some(acknowledgment.time_ns)
    }

    /// From when on an acknowledgment of all that is out, less than two full segments, was held back.
    pub(super) fn held_from_ns(
        &self,
        acknowledgment: &Acknowledgment,
        heard_ns: i64,
    ) -> Option<i64> {
        let all = acknowledgment.acknowledged >= self.next && self.next > self.acknowledged;
        let bytes = acknowledgment.acknowledged - self.acknowledged;
        let (sent_ns, before_ns) = (self.last_sent_ns, self.last_heard_ns);
        let expected_ns = self.round_trip.due_ns(bytes, sent_ns, before_ns);
        let held_ns = heard_ns.saturating_sub(expected_ns);
        let by_timer = all
            && bytes < self.round_trip.stretch
            && (LEAST_HELD_NS..=MOST_HELD_NS).contains(&held_ns)
            && !self.comes_with_data(acknowledgment)
            && !self.answers_again(heard_ns);
        by_timer.then_some(expected_ns.max(self.last_heard_ns))
    }

    /// True if a timer made the sender send this, all of which it had sent before and lost before the capture point: as long as
    /// a timer takes after the last acknowledgment, and alone, as a window of one segment lets it. An application that pauses
    /// has the initial window at least.
    pub(super) fn repairs_unseen(&self, segment: &Segment, now_ns: i64) -> bool {
        let flow = self.told.flow;
        let is_first = segment.kind == Kind::New && !segment.flags.has(SegmentFlags::INFERRED);
        let at_sender = flow.vantage == Vantage::Sender && !self.lost_before;
        if at_sender || !is_first || self.last_bytes < self.mss {
            return false;
        }
        let heard_at = |sequence: i64| {
            let at = flow
                .acknowledgments
                .partition_point(|heard| heard.acknowledged < sequence);
            self.clock.heard_ns.get(at).copied()
        };
        let Some(all_ns) = heard_at(self.next).filter(|ns| *ns <= now_ns) else {
            return false;
        };
        let recent_ns = self.round_trip.recent_ns;
        let least_ns = LASTING_NS.saturating_add(self.round_trip.base_ns);
        let most_ns = (2 * LASTING_NS).saturating_add(recent_ns.saturating_mul(LONG));
        let is_alone = match flow.segments.get(self.leaving + 1) {
            Some(next) if next.sequence < self.answer_end => {
                let next_ns = self.clock.sent_ns[self.leaving + 1];
                i64::from(segment.payload_bytes) == self.mss
                    && heard_at(segment.end())
                        .is_some_and(|ns| ns <= next_ns.saturating_add(self.slack_ns))
            }
            _ => true,
        };
        (least_ns..=most_ns).contains(&now_ns.saturating_sub(all_ns)) && is_alone
    }

    /// Gives the time until then to an outage, as far as nothing passes.
    pub(super) fn suffer_outage(&mut self, segment: &Segment, now_ns: i64, limiter: Limiter) {
        if self.silent_since_ns != Some(self.last_heard_ns) {
            if !is_by_timer(segment) {
                return;
            }
            while let Some(acknowledgment) = self.next_heard(now_ns) {
                self.wait_until(self.clock.heard_ns[self.coming], limiter, None);
                self.hear(&acknowledgment);
            }
            let Some(from_ns) = self.unanswered_from_ns(segment, now_ns) else {
                return;
            };
            self.account.retract(from_ns);
            self.silent_since_ns = Some(self.last_heard_ns);
        }
        let heard_ns = self
            .next_heard(now_ns)
            .map(|_| self.clock.heard_ns[self.coming]);
        let until_ns = heard_ns.map_or(now_ns, |ns| ns.min(now_ns));
        self.account
            .push(until_ns, self.last_sent_ns, Limiter::Outage);
    }

    /// Since when nothing passes, if so, when the sender was silent until a timer makes it send this again now: it sends again
    /// later still, and hears of nothing; or none of several acknowledgments that passed here came through; or it sent again
    /// before, out of sight, for no first timeout takes that long.
    fn unanswered_from_ns(&self, segment: &Segment, now_ns: i64) -> Option<i64> {
        let (heard_ns, sent_ns) = (&self.clock.heard_ns, &self.clock.sent_ns);
        let next_ns = heard_ns.get(self.coming).copied().unwrap_or(i64::MAX);
        let until = sent_ns.partition_point(|ns| *ns < next_ns);
        let last_ns = until.checked_sub(1).map_or(now_ns, |last| sent_ns[last]);
        let spurious = segment.flags.has(SegmentFlags::SPURIOUS);
        // what left within a round trip before, too, would have made the receiver answer
        let since_ns = self.last_heard_ns.saturating_sub(self.round_trip.base_ns);
        let unanswered = until.saturating_sub(1 + sent_ns.partition_point(|ns| *ns < since_ns));
        let lasts = last_ns.saturating_sub(now_ns) >= LASTING_NS && !self.is_chance(unanswered);
        if lasts && !spurious {
            return Some(self.last_heard_ns);
        }
        let acknowledgments = &self.told.flow.acknowledgments;
        let passed = acknowledgments.partition_point(|passed| passed.time_ns <= segment.time_ns);
        let lost = acknowledgments[..passed].iter().rev();
        let lost = lost
            .take_while(|passed| passed.acknowledged > segment.sequence)
            .count();
        if lost >= ALL_OF && segment.kind == Kind::Timeout {
            let (first, last) = (acknowledgments[passed - lost], acknowledgments[passed - 1]);
            let silent_ns = segment.time_ns.saturating_sub(last.time_ns);
            return (silent_ns >= LASTING_NS).then(|| self.clock.arrives_ns(first.time_ns));
        }
        let last_ns = self.last_sent_ns.max(self.last_heard_ns);
        let silent_ns = now_ns.saturating_sub(last_ns);
        let is_far = self.told.flow.vantage != Vantage::Sender;
        let is_late = silent_ns > FIRST_TIMEOUT_NS.saturating_add(self.long_rtt_ns);
        // each timeout is twice as long as the one before (RFC 6298, section 5.5)
        let timeouts = (silent_ns.max(0) / LASTING_NS).saturating_add(1).ilog2() as usize;
        (is_far && is_late && !self.is_chance(timeouts)).then_some(last_ns)
    }

    /// True if so many packets in a row may be lost as others of the flow are, one by one, somewhere among all the times
    /// that a timer ran out.
    fn is_chance(&self, in_a_row: usize) -> bool {
        let exponent = i32::try_from(in_a_row).unwrap_or(i32::MAX);
        self.timeouts as f64 * self.lost_share.powi(exponent) > CHANCE
    }
}
