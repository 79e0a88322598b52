//! The data of a connection: from its first segment on, both directions are followed in full.

use whydrop_capture::{Network, TcpFlags, TcpSegment};

use super::State;
use crate::ecn::EcnReport;
use crate::half::Half;
use crate::half::acknowledgments::AckPacket;
use crate::half::transmissions::DataPacket;
use crate::options::TrackerOptions;
use crate::segmentation::SegmentSize;
use crate::sequence::{PLAUSIBLE_BYTES, Unwrapper};
use crate::signs::Offer;

/// The smallest maximum segment size that Linux accepts (`TCP_MIN_MSS`: an IPv4 datagram that every host must accept,
/// with all options). With a smaller one, one captured packet could stand for thousands.
const SMALLEST_MSS: u16 = 88;

impl State {
    /// Processes the first data: from here on both directions are followed in full.
    pub(super) fn begin_data(&mut self, options: &TrackerOptions) {
        let mut halves: Box<[Half; 2]> = Box::default();
        let offers = self.offers();
        let scale = |offer: Option<Offer>| offer.and_then(|offer| offer.window_scale);
        let both_scale = offers.iter().all(|offer| scale(*offer).is_some());
        // the option may be in the part that the snapshot length cut off
        let lacks_scale = |offer: &Option<Offer>| {
            offer.is_some_and(|offer| offer.window_scale.is_none() && !offer.truncated)
        };
        let both_syns = self.opening.iter().all(|opening| opening.syn.is_some());
        let near = self.near_rtts_ns();
        for (direction, half) in halves.iter_mut().enumerate() {
            let (own, peer) = (&self.opening[direction], &self.opening[1 - direction]);
            half.keep_acknowledgments = options.keep_acknowledgments;
            half.account_for_time = options.account_for_time;
            half.flow.source = self.endpoints[direction];
            half.flow.destination = self.endpoints[1 - direction];
            half.flow.first_ns = own.first_ns;
            half.flow.last_ns = own.last_ns;
            half.flow.counters.packets = u64::from(own.packets);
            half.flow.counters.ip_bytes = own.ip_bytes;
            half.flow.sack_permitted = offers
                .iter()
                .all(|offer| offer.is_some_and(|offer| offer.sack_permitted));
            half.flow.timestamps = own.timestamps && peer.timestamps;
            if let Some(syn) = own.syn {
                half.unwrapper = Some(Unwrapper::new(syn.wrapping_add(1)));
                half.from_first_byte = true;
                half.from_handshake =
                    peer.acknowledges && peer.acknowledgment == syn.wrapping_add(1);
            }
            if both_syns && both_scale {
                half.window_shift = Some(scale(offers[1 - direction]).unwrap_or(0).min(14));
            } else if both_syns && offers.iter().any(lacks_scale) {
                // without the option on both sides windows are not scaled (RFC 7323, section 2.2)
                half.window_shift = Some(0);
            }
            // the peer's option limits a sender; its own describes its link, which usually limits it too
            let mss = |offer: Option<Offer>| Some(offer?.mss?.get());
            let (own_mss, peers_mss) = (mss(offers[direction]), mss(offers[1 - direction]));
            let options_bytes = if half.flow.timestamps { 12 } else { 0 };
            let payload = |mss: u16| u32::from(mss.max(SMALLEST_MSS)) - options_bytes;
            half.segment_size = match (own_mss, peers_mss) {
                (own, Some(peers)) => {
                    SegmentSize::announced(payload(own.unwrap_or(peers).min(peers)))
                }
                (Some(own), None) => SegmentSize::at_most(payload(own)),
                (None, None) => SegmentSize::default(),
            };
            if let Some((initiator, responder)) = near {
                half.near_rtt_ns = if direction == 0 { initiator } else { responder };
            }
        }
        self.halves = Some(halves);
        self.agree_on_ecn();
    }

    /// Processes a packet of a connection with data.
    pub(super) fn take_in_full(
        &mut self,
        direction: usize,
        time_ns: i64,
        packet: u64,
        network: &Network,
        tcp: &TcpSegment,
    ) {
        let Some(halves) = &mut self.halves else {
            return;
        };
        let opening = &self.opening[direction];
        let half = &mut halves[direction];
        if half.flow.first_ns == 0 {
            half.flow.first_ns = opening.first_ns;
        }
        half.flow.last_ns = half.flow.last_ns.max(time_ns);
        if tcp.flags.has(TcpFlags::RST) {
            half.flow.counters.packets += 1;
            return;
        }
        halves[1 - direction].end_silence(time_ns);
        if tcp.flags.has(TcpFlags::ACK) {
            acknowledge(&mut halves[1 - direction], time_ns, tcp, direction == 0);
        }
        match tcp.payload_bytes {
            0 => take_without_data(&mut halves[direction], time_ns, packet, network, tcp),
            _ => self.take_data(direction, time_ns, packet, network, tcp),
        }
    }

    fn take_data(
        &mut self,
        direction: usize,
        time_ns: i64,
        packet: u64,
        network: &Network,
        tcp: &TcpSegment,
    ) {
        let Some(halves) = &mut self.halves else {
            return;
        };
        halves[direction].beginning.take(tcp);
        let syn = tcp.flags.has(TcpFlags::SYN);
        let sequence = tcp.sequence.wrapping_add(u32::from(syn));
        let half = &halves[direction];
        let is_new = half
            .unwrapper
            .is_none_or(|u| u.relative(sequence) + i64::from(tcp.payload_bytes) > half.next);
        // both sides may send at once; a transfer ends when the other side sends after having received all of it
        let other_is_quiet = halves[1 - direction].in_flight_bytes() == 0;
        if is_new && self.talking != Some(direction) && (other_is_quiet || self.talking.is_none()) {
            halves[direction].begin_transfer(time_ns);
            self.talking = Some(direction);
        } else if is_new && halves[direction].flow.transfers.is_empty() {
            halves[direction].begin_transfer(time_ns);
        }
        halves[direction].on_data(&DataPacket {
            sequence,
            answered_ns: self.opening[1 - direction].last_ns,
            ..data_packet(time_ns, packet, network, tcp)
        });
        halves[direction].note_timestamps(time_ns, tcp.options.timestamps);
    }
}

/// Processes a packet without data that is no reset.
fn take_without_data(
    half: &mut Half,
    time_ns: i64,
    packet: u64,
    network: &Network,
    tcp: &TcpSegment,
) {
    if tcp.flags.has(TcpFlags::FIN) {
        half.on_end_of_sent(&data_packet(time_ns, packet, network, tcp));
    } else if !tcp.flags.has(TcpFlags::SYN) {
        half.on_bare_acknowledgment(time_ns, tcp.sequence);
        // it carries the number of the next byte to send (RFC 9293, section 3.10.7.4)
        if half.was_sent_unseen(tcp.sequence) {
            half.on_end_of_sent(&data_packet(time_ns, packet, network, tcp));
        }
    }
    half.flow.counters.packets += 1;
    half.flow.counters.ip_bytes += u64::from(network.ip_bytes);
}

fn data_packet(time_ns: i64, packet: u64, network: &Network, tcp: &TcpSegment) -> DataPacket {
    let header_bytes = network.ip_bytes.saturating_sub(tcp.payload_bytes);
    DataPacket {
        time_ns,
        number: packet,
        answered_ns: 0,
        sequence: tcp.sequence,
        payload_bytes: tcp.payload_bytes,
        header_bytes: header_bytes.min(u32::from(u16::MAX)) as u16,
        timestamp: tcp.options.timestamps.map(|(value, _)| value),
        identification: network.identification,
        ecn: network.ecn,
        window_reduced: tcp.flags.has(TcpFlags::CWR),
    }
}

fn acknowledge(half: &mut Half, time_ns: i64, tcp: &TcpSegment, by_initiator: bool) {
    // an acknowledgment far from the data sent is damaged or forged
    if half
        .unwrapper
        .is_some_and(|u| (u.relative(tcp.acknowledgment) - half.next).abs() > PLAUSIBLE_BYTES)
    {
        return;
    }
    if tcp.options.sack_blocks > 0 {
        half.flow.sack_permitted = true;
    }
    let plain = tcp.flags.0 & (TcpFlags::SYN | TcpFlags::FIN) == 0;
    let pure = tcp.payload_bytes == 0 && plain;
    half.on_acknowledgment(&AckPacket {
        time_ns,
        acknowledgment: tcp.acknowledgment,
        window: tcp.window,
        syn: tcp.flags.has(TcpFlags::SYN),
        sack_blocks: tcp.options.sack_blocks(),
        options_cut: tcp.options.truncated,
        echo: tcp.options.timestamps.map(|(_, echo)| echo),
        ecn: EcnReport {
            flags: tcp.flags,
            ce_bytes: tcp.options.ce_bytes,
            ends_handshake: by_initiator && pure && half.is_before_first_byte(tcp.acknowledgment),
        },
        pure,
    });
    if let (Some(echoes), Some((value, _))) = (&mut half.echoes, tcp.options.timestamps) {
        echoes.acknowledgment(time_ns, value, half.flow.acknowledgments.len());
    }
}
