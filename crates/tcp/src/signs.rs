//! Signs of trouble on a connection besides the fates of its packets: ICMP errors from routers, silences, the offers of
//! its SYNs, answers after a pause.

use std::net::IpAddr;
use std::num::NonZeroU16;

use whydrop_capture::{IcmpErrorKind, TcpSegment};

/// The most different notices kept for one connection, and packet numbers kept for one sign.
const MOST_NOTICES: usize = 8;
/// The most quoted packets kept for one kind of notice: more add no information.
const MOST_QUOTED: usize = 64;
pub(crate) const MOST_NUMBERS: usize = 8;

/// A connection has paused if it has been silent this long with no data outstanding.
pub(crate) const PAUSE_NS: i64 = 1_000_000_000;

/// ICMP errors of one kind, from one router, about packets of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub kind: IcmpErrorKind,
    pub from: IpAddr,
    /// Direction of the quoted packets: 0 for the initiator's.
    pub direction: usize,
    /// The smallest MTU reported, bytes of IP.
    pub mtu_bytes: Option<u32>,
    /// Largest packet quoted, bytes of IP.
    pub ip_bytes: u32,
    pub count: u32,
    pub first_ns: i64,
    /// Number of the first in the capture, from 1.
    pub packet: u64,
    /// The first quoted packets with a known position in the flow.
    pub quoted: Vec<Quoted>,
}

/// A packet that an ICMP error quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quoted {
    /// When the error arrived.
    pub time_ns: i64,
    /// Relative to the flow's first byte.
    pub sequence: i64,
    pub ip_bytes: u32,
}

/// Merges an error with those of its kind.
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

/// Data was retransmitted repeatedly without any packet from the other side, until one arrived.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Silence {
    /// The first transmission in it: that of the data retransmitted, or the first retransmission after the last answer.
    pub since_ns: i64,
    /// Latest transmission before the answer, which arrived.
    pub sent_ns: i64,
    /// The answer.
    pub until_ns: i64,
    /// Retransmissions of the first outstanding segment.
    pub repeats: u32,
    /// Capture numbers of the first of these retransmissions.
    pub packets: Vec<u64>,
}

/// The offer in one side's SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offer {
    pub window_scale: Option<u8>,
    pub sack_permitted: bool,
    pub mss: Option<NonZeroU16>,
    /// Unscaled.
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

/// The first SYN that did not offer ECN, after others that did were not answered (RFC 3168, section 6.1.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EcnWithdrawn {
    /// SYNs that offered it.
    pub after: u32,
    pub time_ns: i64,
    pub packet: u64,
}

/// A SYN that met the remains of an earlier connection on the same ports. The responder repeated that connection's
/// latest acknowledgment (RFC 9293, section 3.10.7.4; RFC 5961, section 4), and the initiator, to which it is unknown,
/// reset it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TakenForOld {
    pub syn_ns: i64,
    /// Time until the SYN/ACK; `None` if there was none.
    pub accepted_ns: Option<i64>,
    /// Number of the answering acknowledgment in the capture, from 1.
    pub packet: u64,
    /// The initiator reset the earlier connection.
    pub is_reset: bool,
}

/// Signs that few connections show, allocated for those only.
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
    /// Of them, those for data that was never sent.
    pub outside: u64,
    /// Repairs after duplicate acknowledgments without SACK blocks, although data above the hole had arrived and should
    /// have been reported (RFC 2018, section 4).
    pub holes_without: u64,
}

/// Data that its receiver never got although later data arrived: the hole is still open when the capture ends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenHole {
    /// When the first packet behind it arrived, and the end of the capture.
    pub since_ns: i64,
    pub until_ns: i64,
    /// Bytes of each missing run, in sequence order.
    pub runs_bytes: Vec<i64>,
    /// Time of its sender's latest packet: the path works for some packets.
    pub last_heard_ns: i64,
}

/// The same for one direction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlowSigns {
    /// Times when its data was retransmitted without an answer until one arrived.
    pub silences: Vec<Silence>,
    /// ICMP errors about its packets.
    pub notices: Vec<Notice>,
    /// Start of the time without any answer to its data; `None` unless the connection ended without one.
    pub unanswered_since_ns: Option<i64>,
    /// Data missing at the end.
    pub open_hole: Option<OpenHole>,
    pub sack: SackCounters,
    /// Numbers of damaged packets; known only if they were looked for.
    pub damaged: Vec<u64>,
}

/// The latest pause of a connection that the other side has not answered yet, and the longest answered one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pauses {
    pub unanswered: Option<Pause>,
    pub longest_answered_ns: i64,
}

/// A time with no data outstanding and none sent, until one side sent data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    pub idle_ns: i64,
    /// When it ended, and which direction ended it.
    pub ended_ns: i64,
    pub by: usize,
    pub packet: u64,
}

impl Pauses {
    /// Registers that a side sends data or a keep-alive with nothing outstanding.
    pub(crate) fn end(&mut self, pause: Pause) {
        self.unanswered.get_or_insert(pause);
    }

    /// Registers a packet of `direction` that is no reset.
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
