//! Outcomes of a connection: set up or not, closed, reset, or left without an answer.

/// How a connection stands at its end, or that of the capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Outcome {
    /// Nothing ended it.
    #[default]
    Open,
    /// SYNs that nobody answered.
    NoAnswer,
    /// The SYN was answered by a reset.
    Refused,
    /// Reset after it was set up, by a side that had not closed it before.
    Reset,
    /// Data was retransmitted over and over, and nothing came back.
    DataUnanswered,
    /// One side closed.
    HalfClosed,
    /// Both sides closed, or one side did and then reset what was left.
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

/// Attempts to set a connection up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Setup {
    /// SYNs of the initiator, repeats included.
    pub syns: u32,
    /// SYN/ACKs of the responder, repeats included.
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
    /// The direction whose source it has: 0 for the initiator.
    pub by: usize,
    /// It answers a SYN.
    pub answers_syn: bool,
    /// Since the last packet before it, of either side.
    pub idle_ns: i64,
    pub ttl: u8,
    /// Least and largest of the packets of that side before it; `None` where there were none.
    pub usual_ttls: Option<(u8, u8)>,
    pub identification: Option<u16>,
    /// Of that side's packet before it.
    pub previous_identification: Option<u16>,
    pub window: u16,
    /// Of the latest packet of that side before it.
    pub previous_window: Option<u16>,
    /// Its number in the capture, from 1.
    pub packet: u64,
    /// It answers a segment of a connection that its sender does not know: without ACK, its sequence number the
    /// acknowledgment number of that segment (RFC 9293, section 3.10.7.1).
    pub knows_no_connection: bool,
    /// Packets of the same side, none of them a reset, that came later than any that was under way before: whoever resets
    /// a connection has nothing more to say on it.
    pub packets_after: u32,
    /// Number of the first of them.
    pub first_after: Option<u64>,
}

/// Initial hop limits of the systems in use.
const INITIAL_TTLS: [u8; 4] = [32, 64, 128, 255];

impl Reset {
    /// It came from something on the path: from another distance than all packets of that side before it, or that side
    /// went on as if there had been none.
    pub fn is_from_elsewhere(&self) -> bool {
        self.has_other_distance() || self.packets_after > 0
    }

    /// Some systems begin resets with another hop limit, so that alone is no difference.
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

/// Data of one direction that nothing answered before the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unanswered {
    /// Retransmissions since the last packet of the other side.
    pub repeats: u32,
    /// Outstanding at the end.
    pub bytes: u64,
    /// When the other side's last packet came; `None` where it never sent one.
    pub last_answer_ns: Option<i64>,
    pub last_sent_ns: i64,
    /// Number of the latest of those retransmissions that are remembered in the capture, from 1; 0 where there is none.
    pub packet: u32,
}

impl Unanswered {
    /// So many repeats that nobody is there any more, or no path.
    pub fn is_dead(&self) -> bool {
        self.repeats >= REPEATS_OF_A_DEAD_PEER
    }
}

/// After so many retransmissions something is wrong with the path (R1 of RFC 9293, section 3.8.3).
const REPEATS_OF_A_DEAD_PEER: u32 = 3;
/// A SYN without an answer for so long has none: the longest initial timeout in use (RFC 6298, section 5.7).
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
    /// The responder sent something: it was captured, or the initiator acknowledged it.
    pub is_answered: bool,
    /// An ICMP error says that its SYN reached nobody.
    pub is_unreachable: bool,
    /// The capture went on after the last SYN for so long.
    pub after_syn_ns: i64,
}

impl Ending {
    pub fn outcome(&self) -> Outcome {
        let is_dead = |direction: usize| self.unanswered[direction].is_dead();
        match self.reset {
            Some(reset) if reset.answers_syn => Outcome::Refused,
            // whoever sent without an answer gives up
            Some(reset) if is_dead(reset.by) => Outcome::DataUnanswered,
            Some(reset) if self.closed[reset.by] || self.closed == [true; 2] => Outcome::Closed,
            Some(_) => Outcome::Reset,
            // also behind a FIN of either side: what was repeated to the end never arrived as far as its sender knows
            None if is_dead(0) || is_dead(1) => Outcome::DataUnanswered,
            None if self.closed == [true; 2] => Outcome::Closed,
            None if self.is_without_answer() => Outcome::NoAnswer,
            None if self.closed != [false; 2] => Outcome::HalfClosed,
            None => Outcome::Open,
        }
    }

    /// A repeated SYN is proof that the first one's timeout passed, unless it came sooner than any.
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
        // the same host begins with 255 instead of 64
        assert!(!reset(244, (53, 54)).is_from_elsewhere());
        // the host goes on
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
