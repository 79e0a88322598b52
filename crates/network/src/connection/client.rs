//! Clients with unanswered SYNs and requests, and when they give up.

use whydrop_hosts::{Segment, flags};

use super::Connection;
use crate::scenario::Ending;

/// A segment that the client retransmits until it is acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repeated {
    segment: Segment,
    sent_ns: i64,
    pub due_ns: i64,
    tries: u32,
}

/// The first timeout of a SYN (RFC 6298, section 2.1), and the shortest of a request (Linux).
const SYN_TIMEOUT_NS: i64 = 1_000_000_000;
const REQUEST_TIMEOUT_NS: i64 = 200_000_000;
/// The number of SYNs that Linux retransmits (`tcp_syn_retries`).
const MOST_SYNS: u32 = 6;
/// The timeout doubles at most this often (RFC 6298, section 5.5: at least to 60 s).
const MOST_DOUBLINGS: u32 = 6;

impl Connection {
    pub(super) fn repeat_until_answered(&mut self, now_ns: i64, segment: Segment) {
        if !self.behaviour.client_repeats {
            return;
        }
        let timeout_ns = match segment.flags & flags::SYN {
            0 => REQUEST_TIMEOUT_NS + 3 * self.client_rtt_ns,
            _ => SYN_TIMEOUT_NS,
        };
        self.repeated = Some(Repeated {
            segment,
            sent_ns: now_ns,
            due_ns: now_ns + timeout_ns,
            tries: 0,
        });
    }

    /// Processes a segment at the client that may acknowledge the retransmitted one.
    pub(super) fn answered(&mut self, now_ns: i64, segment: &Segment) {
        let Some(repeated) = self.repeated else {
            return;
        };
        if segment.acknowledgment >= repeated.segment.end() {
            if repeated.tries == 0 {
                self.client_rtt_ns = now_ns - repeated.sent_ns;
            }
            self.repeated = None;
        }
    }

    /// Returns the segment to retransmit if it is due.
    pub(super) fn repeat(&mut self, now_ns: i64) -> Option<Segment> {
        let mut repeated = self.repeated.filter(|repeated| repeated.due_ns <= now_ns)?;
        let is_syn = repeated.segment.flags & flags::SYN != 0;
        repeated.tries += 1;
        if is_syn && repeated.tries > MOST_SYNS {
            self.repeated = None;
            return None;
        }
        let waited_ns = repeated.due_ns - repeated.sent_ns;
        repeated.sent_ns = now_ns;
        repeated.due_ns = now_ns + (waited_ns << 1).min(SYN_TIMEOUT_NS << MOST_DOUBLINGS);
        self.repeated = Some(repeated);
        if is_syn {
            self.syn_sent_ns = now_ns;
        }
        let again = self.client.sent_now(now_ns, repeated.segment);
        Some(Segment {
            delay_ns: 0,
            ..again
        })
    }

    /// True if the client's host has disappeared.
    pub(super) fn client_is_gone(&self) -> bool {
        matches!(self.behaviour.ending, Ending::Gone { after_bytes }
            if self.received_bytes() >= after_bytes)
    }
}
