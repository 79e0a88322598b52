//! Silences: delayed acknowledgments, and outages.

use super::{Walk, is_by_timer};
use crate::flow::{Acknowledgment, Kind, Segment, SegmentFlags, Vantage};
use crate::limits::Limiter;

/// The least time by which receivers delay acknowledgments (Linux's minimum is 40 ms, its first timer half of that).
/// The most is half a second (RFC 1122, section 4.2.3.2).
const SHORTEST_ACK_DELAY_NS: i64 = 15_000_000;
pub(super) const LONGEST_ACK_DELAY_NS: i64 = 550_000_000;
/// Few round trips exceed this multiple of the usual one.
pub(super) const LONG: i64 = 3;
/// Linux's minimum retransmission timeout: a repeated loss after that long has a lasting cause.
const LASTING_NS: i64 = 200_000_000;
/// Independent losses with a smaller probability are ruled out.
const CHANCE: f64 = 0.01;
/// This many acknowledgments in a row are not lost independently.
const ALL_OF: usize = 3;
/// The minimum of RFC 6298, section 2.4. A later retransmission, if no long round trip explains it, followed an earlier
/// one.
const FIRST_TIMEOUT_NS: i64 = 1_000_000_000;

impl Walk<'_> {
    /// True for a tail loss probe that crosses the acknowledgment it asks for, which had already passed here. No other
    /// mechanism retransmits the last byte needlessly after a round trip of silence (RFC 8985, section 7).
    pub(super) fn probes_tail(&self, segment: &Segment, now_ns: i64) -> bool {
        let silent_ns = now_ns.saturating_sub(self.last_sent_ns.max(self.last_heard_ns));
        segment.flags.has(SegmentFlags::SPURIOUS)
            && segment.kind == Kind::Fast
            && segment.end() == self.next
            && silent_ns > self.round_trip.recent_ns
    }

    /// The limiter while a sender waited for a spurious timeout: the acknowledgment of less than two full segments was
    /// delayed by the receiver, any other one was queued.
    pub(super) fn late_answer(&self) -> Limiter {
        let next_ns = self.clock.heard_ns.get(self.coming).copied();
        let is_lost = self.answers_spurious(next_ns.unwrap_or(i64::MAX));
        // an acknowledgment that passed here before the timeout was lost beyond the capture point
        let delayable = 1..self.round_trip.stretch;
        match delayable.contains(&(self.next - self.acknowledged)) && !is_lost {
            true => Limiter::DelayedAck,
            false => self
                .before
                .unwrap_or(self.rounds.window_at(self.last_sent_ns)),
        }
    }

    /// True if an acknowledgment arrives only in answer to a spurious timeout. If the receiver had two segments, the
    /// one before it was not delayed but lost, however many the receiver usually acknowledges at once.
    fn answers_spurious(&self, heard_ns: i64) -> bool {
        let answer_ns = self.round_trip.base_ns.saturating_sub(self.slack_ns);
        self.next - self.acknowledged >= 2 * self.mss
            && (self.spurious_ns).is_some_and(|ns| heard_ns >= ns.saturating_add(answer_ns))
    }

    /// True if an acknowledgment was sent with data, and therefore by the receiver's application and not by a timer, or
    /// if an earlier one was filtered out of the capture.
    fn comes_with_data(&self, acknowledgment: &Acknowledgment) -> bool {
        let data_ns = (self.input.request_until)(acknowledgment.time_ns);
        data_ns == Some(acknowledgment.time_ns)
    }

    /// Returns from when on the acknowledgment of all outstanding data, less than two full segments, was delayed.
    pub(super) fn delayed_from_ns(
        &self,
        acknowledgment: &Acknowledgment,
        heard_ns: i64,
    ) -> Option<i64> {
        let all = acknowledgment.acknowledged >= self.next && self.next > self.acknowledged;
        let bytes = acknowledgment.acknowledged - self.acknowledged;
        let (sent_ns, before_ns) = (self.last_sent_ns, self.last_heard_ns);
        let expected_ns = self.round_trip.due_ns(bytes, sent_ns, before_ns);
        let delay_ns = heard_ns.saturating_sub(expected_ns);
        let by_timer = all
            && bytes < self.round_trip.stretch
            && (SHORTEST_ACK_DELAY_NS..=LONGEST_ACK_DELAY_NS).contains(&delay_ns)
            && !self.comes_with_data(acknowledgment)
            && !self.answers_spurious(heard_ns);
        by_timer.then_some(expected_ns.max(self.last_heard_ns))
    }

    /// True if a timer caused this retransmission, and all earlier copies were lost before the capture point: it
    /// follows the last acknowledgment after a timeout, and alone, as a window of one segment requires. An application
    /// that pauses has at least the initial window.
    pub(super) fn repairs_unseen(&self, segment: &Segment, now_ns: i64) -> bool {
        let flow = self.input.flow;
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

    /// Attributes the time until then to an outage, as far as no packet passes.
    pub(super) fn account_outage(&mut self, segment: &Segment, now_ns: i64, limiter: Limiter) {
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

    /// Returns since when no packet has passed, if the sender was silent until a timer caused this retransmission.
    /// Either later retransmissions stay unanswered too; or several acknowledgments passed here and all were lost; or
    /// earlier retransmissions were not captured, because no first timeout takes this long.
    fn unanswered_from_ns(&self, segment: &Segment, now_ns: i64) -> Option<i64> {
        let (heard_ns, sent_ns) = (&self.clock.heard_ns, &self.clock.sent_ns);
        let next_ns = heard_ns.get(self.coming).copied().unwrap_or(i64::MAX);
        let until = sent_ns.partition_point(|ns| *ns < next_ns);
        let last_ns = until.checked_sub(1).map_or(now_ns, |last| sent_ns[last]);
        let spurious = segment.flags.has(SegmentFlags::SPURIOUS);
        // packets that left within a round trip before would also have caused an answer
        let since_ns = self.last_heard_ns.saturating_sub(self.round_trip.base_ns);
        let unanswered = until.saturating_sub(1 + sent_ns.partition_point(|ns| *ns < since_ns));
        let lasts = last_ns.saturating_sub(now_ns) >= LASTING_NS && !self.is_chance(unanswered);
        if lasts && !spurious {
            return Some(self.last_heard_ns);
        }
        let acknowledgments = &self.input.flow.acknowledgments;
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
        let is_far = self.input.flow.vantage != Vantage::Sender;
        let is_late = silent_ns > FIRST_TIMEOUT_NS.saturating_add(self.long_rtt_ns);
        // each timeout is twice as long as the one before (RFC 6298, section 5.5)
        let timeouts = (silent_ns.max(0) / LASTING_NS).saturating_add(1).ilog2() as usize;
        (is_far && is_late && !self.is_chance(timeouts)).then_some(last_ns)
    }

    /// True if this many losses in a row are plausible as independent losses at the flow's rate, somewhere among all
    /// its timeouts.
    fn is_chance(&self, in_a_row: usize) -> bool {
        let exponent = i32::try_from(in_a_row).unwrap_or(i32::MAX);
        self.timeouts as f64 * self.lost_share.powi(exponent) > CHANCE
    }
}
