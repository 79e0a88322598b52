//! Outcomes of a connection: established or not, closed, reset, or without an answer.

/// The state of a connection at its end, or at that of the capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Outcome {
    /// Still open when the capture ended.
    #[default]
    Open,
    /// No SYN was answered.
    NoAnswer,
    /// The SYN was answered by a reset.
    Refused,
    /// Reset after it was established, by a side that had not closed it before.
    Reset,
    /// Data was retransmitted repeatedly without any answer.
    DataUnanswered,
    /// One side closed.
    HalfClosed,
    /// Both sides closed, or one side did and then reset the remaining direction.
    Closed,
}

impl Outcome {
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Open => "open",
            Outcome::NoAnswer => "no-answer",
            Outcome::Refused => "refused",
            Outcome::Reset => "reset",
            Outcome::DataUnanswered => "data-unanswered",
            Outcome::HalfClosed => "half-closed",
            Outcome::Closed => "closed",
        }
    }

    /// True if a connection that never carried data failed.
    pub fn is_failure(self) -> bool {
        matches!(self, Outcome::NoAnswer | Outcome::Refused | Outcome::Reset)
    }
}

/// Attempts to establish a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Setup {
    /// SYNs of the initiator, including retransmissions.
    pub syns: u32,
    /// SYN/ACKs of the responder, including retransmissions.
    pub syn_acks: u32,
    pub first_syn_ns: Option<i64>,
    pub last_syn_ns: Option<i64>,
    /// Hop limit of the initiator's first packet, as captured.
    pub ttl: Option<u8>,
}

/// The first reset of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reset {
    pub time_ns: i64,
    /// The side that appears as its source: 0 for the initiator.
    pub by: usize,
    /// It answers a SYN.
    pub answers_syn: bool,
    /// Time since the last packet before it, of either side.
    pub idle_ns: i64,
    pub ttl: u8,
    /// Least and largest TTL of that side's packets before it; `None` if there were none.
    pub usual_ttls: Option<(u8, u8)>,
    pub identification: Option<u16>,
    /// IP identification of that side's packet before it.
    pub previous_identification: Option<u16>,
    pub window: u16,
    /// Window in the latest packet of that side before it.
    pub previous_window: Option<u16>,
    /// Its number in the capture, from 1.
    pub packet: u64,
    /// It answers a segment of a connection that its sender does not know: without ACK, and with the acknowledgment
    /// number of that segment as its sequence number (RFC 9293, section 3.10.7.1).
    pub knows_no_connection: bool,
    /// Packets of the same side, none of them a reset, that passed after all packets in flight at that time. A side
    /// that resets a connection sends nothing more on it.
    pub packets_after: u32,
    /// Number of the first of them.
    pub first_after: Option<u64>,
}

/// Initial hop limits of the systems in use.
const INITIAL_TTLS: [u8; 4] = [32, 64, 128, 255];

impl Reset {
    /// True if a device on the path sent it: its distance differs from that of all that side's packets before it, or
    /// that side continued as if there had been no reset.
    pub fn is_from_elsewhere(&self) -> bool {
        self.has_other_distance() || self.packets_after > 0
    }

    /// True if the hop limit shows another distance. Some systems start resets with another hop limit, which alone is
    /// no difference.
    pub fn has_other_distance(&self) -> bool {
        let hops = |ttl: u8| {
            let initial = INITIAL_TTLS.into_iter().find(|initial| *initial >= ttl);
            initial.unwrap_or(u8::MAX) - ttl
        };
        self.usual_ttls.is_some_and(|(least, largest)| {
            let near = hops(least).min(hops(largest));
            let far = hops(least).max(hops(largest));
            !(least..=largest).contains(&self.ttl) && !(near..=far).contains(&hops(self.ttl))
        })
    }
}

/// Unanswered data of one direction at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unanswered {
    /// Retransmissions since the last packet of the other side.
    pub repeats: u32,
    /// Bytes outstanding at the end.
    pub bytes: u64,
    /// Time of the other side's last packet; `None` if it never sent one.
    pub last_answer_ns: Option<i64>,
    pub last_sent_ns: i64,
    /// Capture number (from 1) of the latest remembered of those retransmissions; 0 if there is none.
    pub packet: u32,
}

impl Unanswered {
    /// True if there are so many retransmissions that the peer or the path must be gone.
    pub fn is_dead(&self) -> bool {
        self.repeats >= REPEATS_OF_A_DEAD_PEER
    }
}

/// After this many retransmissions the path is considered failed (R1 of RFC 9293, section 3.8.3).
const REPEATS_OF_A_DEAD_PEER: u32 = 3;
/// A SYN is unanswered after this time: the longest initial timeout in use (RFC 6298, section 5.7).
const SYN_TIMEOUT_NS: i64 = 3_000_000_000;
/// The shortest timeout in use (Linux's minimum).
const SHORTEST_TIMEOUT_NS: i64 = 200_000_000;

/// The evidence that decides the outcome.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ending {
    pub setup: Setup,
    pub reset: Option<Reset>,
    pub closed: [bool; 2],
    pub unanswered: [Unanswered; 2],
    /// The responder sent a packet: it was captured, or the initiator acknowledged it.
    pub is_answered: bool,
    /// An ICMP error reports that its SYN did not reach a host.
    pub is_unreachable: bool,
    /// How long the capture continued after the last SYN.
    pub after_syn_ns: i64,
}

impl Ending {
    pub fn outcome(&self) -> Outcome {
        let is_dead = |direction: usize| self.unanswered[direction].is_dead();
        match self.reset {
            Some(reset) if reset.answers_syn => Outcome::Refused,
            // a sender without answers gives up
            Some(reset) if is_dead(reset.by) => Outcome::DataUnanswered,
            Some(reset) if self.closed[reset.by] || self.closed == [true; 2] => Outcome::Closed,
            Some(_) => Outcome::Reset,
            // even behind a FIN of either side: the sender never learned that the last retransmissions arrived
            None if is_dead(0) || is_dead(1) => Outcome::DataUnanswered,
            None if self.closed == [true; 2] => Outcome::Closed,
            None if self.is_without_answer() => Outcome::NoAnswer,
            None if self.closed != [false; 2] => Outcome::HalfClosed,
            None => Outcome::Open,
        }
    }

    /// True if no SYN was answered. A retransmitted SYN proves that the first one's timeout passed, unless it came
    /// sooner than any timeout.
    fn is_without_answer(&self) -> bool {
        let tried_ns = self.setup.last_syn_ns.zip(self.setup.first_syn_ns);
        let repeated = tried_ns.is_some_and(|(last, first)| last - first >= SHORTEST_TIMEOUT_NS);
        let timed_out = repeated || self.after_syn_ns >= SYN_TIMEOUT_NS;
        self.setup.syns > 0 && !self.is_answered && (timed_out || self.is_unreachable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reset(ttl: u8, usual: (u8, u8)) -> Reset {
        Reset {
            by: 1,
            ttl,
            usual_ttls: Some(usual),
            ..Reset::default()
        }
    }

    #[test]
    fn a_reset_of_another_distance_is_from_elsewhere() {
        assert!(reset(61, (53, 54)).is_from_elsewhere());
        assert!(!reset(53, (53, 54)).is_from_elsewhere());
        // the same host starts with 255 instead of 64
        assert!(!reset(244, (53, 54)).is_from_elsewhere());
        // the host continues
        let mut forged = reset(53, (53, 54));
        forged.packets_after = 1;
        assert!(forged.is_from_elsewhere() && !forged.has_other_distance());
    }

    #[test]
    fn a_side_that_closed_and_then_resets_has_closed() {
        let mut ending = Ending {
            reset: Some(reset(64, (64, 64))),
            ..Ending::default()
        };
        assert_eq!(ending.outcome(), Outcome::Reset);
        ending.closed = [false, true];
        assert_eq!(ending.outcome(), Outcome::Closed);
        ending.closed = [true, false];
        assert_eq!(ending.outcome(), Outcome::Reset);
    }

    #[test]
    fn data_repeated_to_the_end_has_no_answer_though_both_sides_closed() {
        let mut ending = Ending {
            closed: [true, true],
            ..Ending::default()
        };
        assert_eq!(ending.outcome(), Outcome::Closed);
        ending.unanswered[1].repeats = 9;
        assert_eq!(ending.outcome(), Outcome::DataUnanswered);
    }
}
