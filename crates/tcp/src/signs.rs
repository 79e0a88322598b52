//! Signs of trouble on a connection's way, beside the fates of its packets: errors that routers sent, silences, what
//! its SYNs offered, how it was answered after a pause.

use std::net::IpAddr;
use std::num::NonZeroU16;

use whydrop_capture::{IcmpErrorKind, TcpSegment};

/// Different notices kept of one connection, and numbers of packets kept of one sign, at most.
const MOST_NOTICES: usize = 8;
/// Packets quoted that are kept of one kind of notice at most: more tell nothing new.
const MOST_QUOTED: usize = 64;
pub(crate) const MOST_NUMBERS: usize = 8;

/// A connection that has been silent for so long, with nothing outstanding, has paused.
pub(crate) const PAUSE_NS: i64 = 1_000_000_000;

/// ICMP errors of one kind, from one router, about packets of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub kind: IcmpErrorKind,
    pub from: IpAddr,
    /// Of the packets quoted: 0 for the initiator's.
    pub direction: usize,
    /// The smallest MTU told, bytes of IP.
    pub mtu_bytes: Option<u32>,
    /// Largest packet quoted, bytes of IP.
    pub ip_bytes: u32,
    pub count: u32,
    pub first_ns: i64,
    /// Number of the first in the capture, from 1.
    pub packet: u64,
    /// The first of the packets quoted whose place in the flow is known.
    pub quoted: Vec<Quoted>,
}

/// A packet that an ICMP error quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quoted {
    /// When the error came.
    pub time_ns: i64,
    /// Relative to the flow's first byte.
    pub sequence: i64,
    pub ip_bytes: u32,
}

/// Adds an error to those of its kind.
pub(crate) fn add_notice(notices: &mut Vec<Notice>, new: Notice) {
    let alike = |known: &&mut Notice| {
        (known.kind, known.from, known.direction) == (new.kind, new.from, new.direction)
    };
    if let Some(known) = notices.iter_mut().find(alike) {
        known.count = known.count.saturating_add(1);
        known.ip_bytes = known.ip_bytes.max(new.ip_bytes);
        known.mtu_bytes = match (known.mtu_bytes, new.mtu_bytes) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let room = MOST_QUOTED.saturating_sub(known.quoted.len());
        known.quoted.extend(new.quoted.into_iter().take(room));
    } else if notices.len() < MOST_NOTICES {
        notices.push(new);
    }
}

/// Data was retransmitted over and over without any packet from the other side, until one came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Silence {
    /// The first transmission in it: that of what was then repeated, or the first repeat after the last answer.
    pub since_ns: i64,
    /// Latest transmission before the answer: which was let through.
    pub sent_ns: i64,
    /// The answer.
    pub until_ns: i64,
    /// Repeats of the first outstanding segment.
    pub repeats: u32,
    /// Numbers of the first of these repeats in the capture.
    pub packets: Vec<u64>,
}

/// The offer in the SYN of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offer {
    pub window_scale: Option<u8>,
    pub sack_permitted: bool,
    pub mss: Option<NonZeroU16>,
    /// Never scaled.
    pub window: u16,
    /// Number of the latest SYN in the capture, from 1.
    pub packet: u32,
    /// The capture holds only a part of the options.
    pub truncated: bool,
}

impl Offer {
    pub(crate) fn of(tcp: &TcpSegment, packet: u64) -> Self {
        let options = &tcp.options;
        Self {
            window_scale: options.window_scale,
            sack_permitted: options.sack_permitted,
            mss: options.mss.and_then(NonZeroU16::new),
            window: tcp.window,
            packet: u32::try_from(packet).unwrap_or(u32::MAX),
            truncated: options.truncated,
        }
    }
}

/// The first SYN that did not offer ECN, after others that did had no answer (RFC 3168, section 6.1.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EcnWithdrawn {
    /// SYNs that offered it.
    pub after: u32,
    pub time_ns: i64,
    pub packet: u64,
}

/// A SYN that met what is left of an earlier connection on the same ports: the responder repeated the latest acknowledgment
/// of that one (RFC 9293, section 3.10.7.4; RFC 5961, section 4), and the initiator, which knows it no more, reset it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TakenForOld {
    pub syn_ns: i64,
    /// Until the SYN/ACK; `None` where none came.
    pub accepted_ns: Option<i64>,
    /// Number of the answering acknowledgment in the capture, from 1.
    pub packet: u64,
    /// The initiator reset the earlier connection.
    pub is_reset: bool,
}

/// Signs that few connections show, kept of those alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnectionSigns {
    pub notices: Vec<Notice>,
    pub pauses: Pauses,
    pub ecn_withdrawn: Option<EcnWithdrawn>,
    pub taken_for_old: Option<TakenForOld>,
}

/// Selective acknowledgments of a flow (RFC 2018).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackCounters {
    pub blocks: u64,
    /// Of them, those that report what was never sent.
    pub outside: u64,
    /// Repairs after duplicate acknowledgments that reported nothing selectively, although what had arrived above the hole
    /// was to be reported (RFC 2018, section 4).
    pub holes_without: u64,
}

/// Data that its receiver never got, although what was sent behind it arrived: the capture ends, and nothing has filled the hole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenHole {
    /// When the first packet behind it came, and the end of the capture.
    pub since_ns: i64,
    pub until_ns: i64,
    /// Bytes of each run that is missing, in the order of the sequence.
    pub runs_bytes: Vec<i64>,
    /// Latest packet of its sender: there is a path for some.
    pub last_heard_ns: i64,
}

/// The same of one direction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlowSigns {
    /// Times when its data was repeated into silence, and then answered.
    pub silences: Vec<Silence>,
    /// Errors that routers sent about its packets.
    pub notices: Vec<Notice>,
    /// From when on its data had no answer to the end; `None` unless that is how the connection ended.
    pub unanswered_since_ns: Option<i64>,
    /// Data that is missing at the end.
    pub open_hole: Option<OpenHole>,
    pub sack: SackCounters,
    /// Numbers of packets that were damaged; known only where they were looked for.
    pub damaged: Vec<u64>,
}

/// The latest pause of a connection that the other side has not answered since, and the longest that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pauses {
    pub unanswered: Option<Pause>,
    pub longest_answered_ns: i64,
}

/// Nothing outstanding and nothing sent, until one side sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    pub idle_ns: i64,
    /// When it ended, and which direction ended it.
    pub ended_ns: i64,
    pub by: usize,
    pub packet: u64,
}

impl Pauses {
    /// A side sends data, or asks whether the other is there, with nothing outstanding.
    pub(crate) fn end(&mut self, pause: Pause) {
        self.unanswered.get_or_insert(pause);
    }

    /// A packet of `direction` that is no reset.
    pub(crate) fn on_packet(&mut self, direction: usize) {
        if let Some(pause) = self.unanswered.filter(|pause| pause.by != direction) {
            self.longest_answered_ns = self.longest_answered_ns.max(pause.idle_ns);
            self.unanswered = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_one_kind_from_one_router_are_counted_together() {
        let notice = |mtu_bytes, packet| Notice {
            kind: IcmpErrorKind::TooBig,
            from: IpAddr::from([10, 0, 0, 1]),
            direction: 0,
            mtu_bytes,
            ip_bytes: 1500,
            count: 1,
            first_ns: 0,
            packet,
            quoted: vec![Quoted {
                time_ns: 0,
                sequence: 7,
                ip_bytes: 1500,
            }],
        };
        let mut notices = Vec::new();
        add_notice(&mut notices, notice(Some(1400), 3));
        add_notice(&mut notices, notice(Some(1300), 9));
        let other = IcmpErrorKind::Prohibited;
        add_notice(
            &mut notices,
            Notice {
                kind: other,
                ..notice(None, 11)
            },
        );
        assert_eq!(notices.len(), 2);
        let first = &notices[0];
        assert_eq!(first.quoted.len(), 2);
        assert_eq!(
            (first.count, first.mtu_bytes, first.packet),
            (2, Some(1300), 3)
        );
    }

    #[test]
    fn a_pause_is_answered_by_the_other_side_alone() {
        let pause = Pause {
            idle_ns: 7,
            ended_ns: 8,
            by: 0,
            packet: 1,
        };
        let mut pauses = Pauses::default();
        pauses.end(pause);
        pauses.on_packet(0);
        assert_eq!(pauses.unanswered, Some(pause));
        pauses.on_packet(1);
        assert_eq!((pauses.unanswered, pauses.longest_answered_ns), (None, 7));
    }
}
