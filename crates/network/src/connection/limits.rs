//! Recording of a connection's limiters.

use whydrop_hosts::{Segment, Wait};

use super::Connection;
use crate::limiter::State;

impl Connection {
    /// Records the data sender's present state.
    pub(super) fn note_state(&mut self, now_ns: i64) {
        let state = self.state(now_ns);
        self.ledger.state(now_ns, state);
        self.ledger.window_stands(self.sender.stands_since_ns());
    }

    /// Records that no more requests or answers will follow.
    pub(super) fn note_end(&mut self, now_ns: i64) {
        self.ledger.state(now_ns, State::Unasked);
    }

    fn state(&self, now_ns: i64) -> State {
        if self.is_over() {
            return State::Unasked;
        }
        if !self.handshake.server_established {
            return State::Setup;
        }
        let wait = self.sender.waits_for();
        let all_written = self.writes_left == 0;
        match wait {
            Wait::Writes if self.sender.is_idle() && all_written => State::Unasked,
            Wait::Writes if !all_written && !self.answering => State::Thinking,
            Wait::Writes if !all_written => State::Starved,
            Wait::Writes => State::Tail(self.sender.window()),
            Wait::SlowStart | Wait::CongestionWindow
                if !all_written && self.sender.spreads_less_than_a_window(now_ns) =>
            {
                State::Starved
            }
            Wait::SlowStart | Wait::CongestionWindow => {
                State::Sending(self.sender.spreads_a_bound(now_ns).unwrap_or(wait))
            }
            wait => State::Sending(wait),
        }
    }

    /// Records an acknowledgment before the sender processes it.
    pub(super) fn note_acknowledgment(&mut self, now_ns: i64, segment: &Segment) {
        let all = segment.acknowledgment == self.sender.next_sequence() && !self.sender.is_idle();
        self.ledger.acknowledged(now_ns, segment.delay_ns, all);
    }

    /// Records, after a timer, what was retransmitted because of silence.
    pub(super) fn note_silence(&mut self, now_ns: i64, due_ns: Option<i64>, sent: &[Segment]) {
        let mut by_timer = sent.iter().filter(|segment| segment.reason.is_by_timer());
        if let (Some(due_ns), Some(again)) = (due_ns, by_timer.next()) {
            self.ledger.timed_out(now_ns, due_ns, again.sequence);
        }
    }
}
