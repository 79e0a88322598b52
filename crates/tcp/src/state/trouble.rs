//! Trouble of a connection while it is followed: pauses, resets, ICMP errors.

use whydrop_capture::{IcmpError, Network, TcpFlags, TcpSegment};

use super::State;
use crate::flow::{Flow, Handshake};
use crate::outcome::Reset;
use crate::sequence::PLAUSIBLE_BYTES;
use crate::sequence::Unwrapper;
use crate::signs::{Notice, PAUSE_NS, Pause, Quoted, TakenForOld, add_notice};

/// A packet is in flight for less than this if the round trip is unknown; otherwise for less than two round trips and a
/// tenth of this.
const UNDER_WAY_NS: i64 = 1_000_000_000;

impl State {
    /// Examines a packet for a reset, a pause before it, and an earlier connection on the same ports.
    pub(super) fn look_for_trouble(
        &mut self,
        direction: usize,
        time_ns: i64,
        packet: u64,
        network: &Network,
        tcp: &TcpSegment,
    ) {
        self.look_for_old(direction, time_ns, packet, tcp);
        if !tcp.flags.has(TcpFlags::RST) {
            self.look_for_pause(direction, time_ns, packet, tcp);
            self.look_after_reset(direction, time_ns, packet);
        } else if !self.is_of_old(direction) {
            self.note_reset(direction, time_ns, packet, network, tcp);
        }
    }

    /// Registers a side that sends after a pause and needs an answer, to data or to a keep-alive.
    fn look_for_pause(&mut self, direction: usize, time_ns: i64, packet: u64, tcp: &TcpSegment) {
        if let Some(signs) = &mut self.signs {
            signs.pauses.on_packet(direction);
        }
        let idle_ns = time_ns - self.last_ns();
        let Some(halves) = self.halves.as_ref().filter(|_| idle_ns >= PAUSE_NS) else {
            return;
        };
        let half = &halves[direction];
        let sent_before = |unwrapper: Unwrapper| unwrapper.relative(tcp.sequence) + 1 == half.next;
        let asks = tcp.payload_bytes > 0 || half.unwrapper.is_some_and(sent_before);
        if asks && halves.iter().all(|half| half.in_flight_bytes() == 0) {
            let signs = self.signs.get_or_insert_default();
            signs.pauses.end(Pause {
                idle_ns,
                ended_ns: time_ns,
                by: direction,
                packet,
            });
        }
    }

    /// Records whether the apparent sender of a reset continues after it.
    fn look_after_reset(&mut self, direction: usize, time_ns: i64, packet: u64) {
        let Some(reset) = &mut self.reset else { return };
        let Handshake { syn_ns, ack_ns, .. } = self.handshake;
        let rtt_ns = syn_ns.zip(ack_ns).map(|(syn, ack)| (ack - syn).max(0));
        let under_way_ns = rtt_ns.map_or(UNDER_WAY_NS, |rtt| 2 * rtt + UNDER_WAY_NS / 10);
        if reset.by == direction && time_ns - reset.time_ns > under_way_ns {
            reset.packets_after = reset.packets_after.saturating_add(1);
            reset.first_after.get_or_insert(packet);
        }
    }

    /// Registers an ICMP error about a packet of this connection.
    pub fn take_notice(&mut self, error: &IcmpError, mut notice: Notice) {
        let position = self.halves.as_ref().zip(error.sequence);
        let position = position.and_then(|(halves, sequence)| {
            let half = &halves[notice.direction];
            Some((half.unwrapper?.relative(sequence), half.next))
        });
        if let Some((sequence, next)) = position {
            // a forged error is unlikely to quote a number that was sent (RFC 5927, section 4.1)
            if sequence.saturating_sub(next).abs() > PLAUSIBLE_BYTES {
                return;
            }
            notice.quoted.push(Quoted {
                time_ns: notice.first_ns,
                sequence,
                ip_bytes: notice.ip_bytes,
            });
        }
        add_notice(&mut self.signs.get_or_insert_default().notices, notice);
    }

    /// Records whether the responder answers the SYN for an earlier connection on the same ports, what the initiator
    /// does then, and when its SYN is accepted.
    fn look_for_old(&mut self, direction: usize, time_ns: i64, packet: u64, tcp: &TcpSegment) {
        let [initiator, responder] = &self.opening;
        let is_bare = !tcp.flags.has(TcpFlags::SYN | TcpFlags::RST | TcpFlags::FIN);
        // data behind the SYN that the capture missed would account for a small difference
        let ahead = initiator
            .syn
            .map(|syn| tcp.acknowledgment.wrapping_sub(syn));
        let is_of_other =
            ahead.is_some_and(|bytes| bytes == 0 || i64::from(bytes) > PLAUSIBLE_BYTES);
        let is_without_data = self.halves.is_none() && tcp.payload_bytes == 0;
        if direction == 1
            && responder.syns == 0
            && is_bare
            && tcp.flags.has(TcpFlags::ACK)
            && is_of_other
            && is_without_data
        {
            let syn_ns = initiator.first_syn_ns;
            let signs = self.signs.get_or_insert_default();
            signs.taken_for_old.get_or_insert(TakenForOld {
                syn_ns,
                packet,
                ..TakenForOld::default()
            });
            return;
        }
        let Some(old) = self.signs.as_mut().and_then(|s| s.taken_for_old.as_mut()) else {
            return;
        };
        if old.accepted_ns.is_none() {
            old.is_reset |= direction == 0 && tcp.flags.has(TcpFlags::RST);
            let accepted = direction == 1 && tcp.flags.has(TcpFlags::SYN);
            old.accepted_ns = accepted.then_some(time_ns);
        }
    }

    /// True for a reset in that direction which ends an earlier connection that the responder still had.
    fn is_of_old(&self, direction: usize) -> bool {
        let old = self.signs.as_ref().and_then(|signs| signs.taken_for_old);
        direction == 0 && old.is_some_and(|old| old.accepted_ns.is_none())
    }

    /// True if an ICMP error reports that the initiator's packets do not arrive.
    pub(super) fn is_syn_unreachable(&self) -> bool {
        let mut notices = self.signs.iter().flat_map(|signs| &signs.notices);
        notices.any(|notice| notice.direction == 0 && notice.kind.is_unreachable())
    }

    fn note_reset(
        &mut self,
        by: usize,
        time_ns: i64,
        packet: u64,
        network: &Network,
        tcp: &TcpSegment,
    ) {
        if self.reset.is_some() {
            return;
        }
        let [initiator, responder] = &self.opening;
        let own = &self.opening[by];
        let is_first = self.packets() == 0;
        self.reset = Some(Box::new(Reset {
            time_ns,
            by,
            answers_syn: by == 1 && initiator.syns > 0 && responder.packets == 0,
            idle_ns: if is_first {
                0
            } else {
                (time_ns - self.last_ns()).max(0)
            },
            ttl: network.ttl,
            usual_ttls: own.ttls,
            identification: network.identification,
            previous_identification: own.identification,
            window: tcp.window,
            previous_window: own.ttls.map(|_| own.window),
            packet,
            knows_no_connection: !tcp.flags.has(TcpFlags::ACK)
                && self.opening[1 - by].acknowledgment == tcp.sequence
                && self.opening[1 - by].packets > 0,
            packets_after: 0,
            first_after: None,
        }));
    }

    /// Records the signs of a direction, whether it carried data or not.
    pub(super) fn add_signs(&self, direction: usize, flow: &mut Flow) {
        let offers = self.offers();
        flow.offers = [offers[direction], offers[1 - direction]];
        let of_direction = |notice: &&Notice| notice.direction == direction;
        let notices = self.signs.iter().flat_map(|signs| &signs.notices);
        let notices: Vec<Notice> = notices.filter(of_direction).cloned().collect();
        if !notices.is_empty() {
            flow.signs_mut().notices = notices;
        }
    }
}
