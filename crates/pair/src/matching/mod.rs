//! Finds for each packet of one capture the same packet in the other, in one pass and limited memory.

mod discard;
pub(crate) mod flows;
mod leftovers;
mod likeness;
mod offload;
pub(crate) mod pending;
mod recut;
pub(crate) mod renumbered;
pub(crate) mod sighting;
mod tiles;

use std::net::IpAddr;

use ahash::{HashMap, RandomState};
use whydrop_capture::{Network, Packet, TcpFlags, TcpSegment, Transport};

use crate::flow::LeftOut;
use crate::packet::{Crossing, NO_TIME, NOT_CAPTURED, PacketFlags, PairPacket};
use crate::reading::PairHints;
use flows::{Flows, Tuple};
use likeness::Found;
use pending::Pending;
use renumbered::Numbering;
use sighting::{FRAGMENT, PAYLOAD_KEY_BYTES, Parts, Precision, Sighting};

/// A packet that later ones have overtaken by this much, on its own clock, will not arrive any more.
const SETTLED_AFTER_NS: i64 = 10_000_000_000;
/// Most super-segments of one flow that wait for their segment size.
const MOST_WHOLE: usize = 1024;

/// True for broadcast and multicast: copies of such a packet reach both points independently, so that a copy
/// at each is no transit from the one to the other, and its times do not constrain the clocks. The broadcast
/// address of most networks ends in 255 (RFC 922); a host in a larger network may have such an address, but
/// then TCP is sent to it too, which never has many receivers.
fn is_to_many(network: &Network, transport: &Transport) -> bool {
    if network.destination.is_multicast() {
        return true;
    }
    match network.destination {
        IpAddr::V4(address) => {
            !matches!(transport, Transport::Tcp(_)) && address.octets()[3] == 255
        }
        IpAddr::V6(_) => false,
    }
}

pub(crate) struct Matcher {
    hints: PairHints,
    hashes: RandomState,
    precision: Precision,
    most_pending: usize,
    /// Packets that started to wait since super-segments were split like the other point's.
    waited: usize,
    /// Packets that may start to wait before the next search for renumbered flows.
    until_learning: usize,
    most_small_flows: usize,
    pending: [Pending; 2],
    pub(crate) flows: Flows,
    pub(crate) rows: Vec<PairPacket>,
    /// Rows of super-segments with an unknown segment size, by flow.
    whole: [HashMap<u32, Vec<(u32, Parts)>>; 2],
    /// Time at point 2 minus time at point 1 of the latest match.
    pub(crate) delta_ns: Option<i64>,
    /// Latest matched time at each point.
    matched_ns: [i64; 2],
    pub(crate) matches: u64,
    nothing_else_arrives: bool,
    left_out: LeftOut,
    /// Rows of discarded flows that still take up space.
    left_out_rows: usize,
    /// Frames without an IP packet that could be matched.
    pub(crate) unmatchable: [u64; 2],
    /// Packets to many hosts at once.
    pub(crate) to_many: [u64; 2],
    /// Packets longer than the longest to match.
    pub(crate) too_long: [u64; 2],
}

impl Matcher {
    pub(crate) fn new(most_pending: usize, most_small_flows: usize, hints: PairHints) -> Self {
        Self {
            hints,
            hashes: RandomState::new(),
            precision: Precision::default(),
            most_pending: most_pending.max(1),
            waited: 0,
            until_learning: renumbered::LEARNT_AFTER,
            most_small_flows,
            pending: [Pending::default(), Pending::default()],
            flows: Flows::default(),
            rows: Vec::new(),
            whole: Default::default(),
            delta_ns: None,
            matched_ns: [i64::MIN; 2],
            matches: 0,
            nothing_else_arrives: false,
            left_out: LeftOut::default(),
            left_out_rows: 0,
            unmatchable: [0; 2],
            to_many: [0; 2],
            too_long: [0; 2],
        }
    }

    pub(crate) fn pending(&self, side: usize) -> usize {
        self.pending[side].len()
    }

    /// Adds the next packet of capture 1 (`side` 0) or 2.
    #[inline]
    pub(crate) fn take(&mut self, side: usize, packet: &Packet) {
        let Some(network) = &packet.network else {
            self.unmatchable[side] += 1;
            return;
        };
        if is_to_many(network, &packet.transport) {
            self.to_many[side] += 1;
            return;
        }
        if let Some(longest) = self.hints.longest_bytes
            && network.ip_bytes > longest
        {
            self.too_long[side] += 1;
            return;
        }
        match &packet.transport {
            Transport::Tcp(tcp) => self.take_tcp(side, packet, network, tcp),
            Transport::NotIp(_) | Transport::Undecodable => self.unmatchable[side] += 1,
            other => self.take_other(side, packet, network, other),
        }
    }

    #[inline]
    fn take_tcp(&mut self, side: usize, packet: &Packet, network: &Network, tcp: &TcpSegment) {
        if tcp.options.truncated {
            self.lower_precision(self.precision.without_options(tcp));
        }
        if self.until_learning == 0 {
            self.learn_numberings();
        }
        let tuple = Tuple::new(network, 6, (tcp.source_port, tcp.destination_port));
        let flow = self
            .flows
            .flow_of(side, tuple, plausible(packet.time_ns), Some(tcp));
        self.bound_flows(side, flow);
        let mut flags = PacketFlags::TCP;
        for (bit, flag) in [
            (TcpFlags::SYN, PacketFlags::SYN),
            (TcpFlags::FIN, PacketFlags::FIN),
            (TcpFlags::RST, PacketFlags::RST),
        ] {
            if tcp.flags.has(bit) {
                flags |= flag;
            }
        }
        let mut sighting = Sighting {
            sequence: tcp.sequence,
            payload_bytes: tcp.payload_bytes,
            flags,
            ..sighting(
                packet,
                network,
                flow,
                Parts::of_tcp(&self.hashes, network, tcp),
            )
        };
        if let Numbering::Changed(added) = self.flows.get(side, flow).numbering {
            added.undo(side, &mut sighting);
        }
        if tcp.payload_bytes > offload::SMALLEST_SEGMENT_BYTES {
            self.take_data(side, sighting);
        } else {
            self.place(side, &sighting, true);
        }
    }

    /// Adds a packet that may be a super-segment.
    fn take_data(&mut self, side: usize, mut sighting: Sighting) {
        let known = self.flows.segment_bytes(side, sighting.flow);
        let suspect = match known {
            Some(bytes) => sighting.payload_bytes > bytes,
            None => sighting.payload_bytes > offload::LARGEST_ETHERNET_PAYLOAD_BYTES,
        };
        if !suspect {
            let flow = self.flows.get_mut(side, sighting.flow);
            flow.on_plain(sighting.payload_bytes);
            self.place(side, &sighting, true);
            return;
        }
        self.expect_offload();
        let segment_bytes = match self.first_piece_elsewhere(side, &sighting) {
            Some(bytes) => Some(bytes),
            None => known.or_else(|| self.guess_for_both(side, &sighting)),
        };
        match segment_bytes {
            Some(bytes) if offload::can_cut(sighting.payload_bytes, bytes) => {
                self.learn_segment_bytes(side, sighting.flow, bytes);
                for piece in offload::pieces(&sighting, side, bytes) {
                    self.place(side, &piece, true);
                }
            }
            Some(bytes) => {
                if bytes == sighting.payload_bytes {
                    self.learn_segment_bytes(side, sighting.flow, bytes);
                }
                self.place(side, &sighting, true);
            }
            None => {
                sighting.parts.bits |= Parts::WHOLE;
                self.flows.get_mut(side, sighting.flow).whole_super_segments = true;
                self.place(side, &sighting, true);
            }
        }
    }

    fn take_other(
        &mut self,
        side: usize,
        packet: &Packet,
        network: &Network,
        transport: &Transport,
    ) {
        let icmp = if network.source.is_ipv4() { 1 } else { 58 };
        let (protocol, ports, payload_bytes, payload, telling) = match *transport {
            Transport::Udp {
                source_port,
                destination_port,
                payload_bytes,
                payload,
            } => (
                17,
                (source_port, destination_port),
                payload_bytes,
                payload,
                0..PAYLOAD_KEY_BYTES,
            ),
            Transport::Icmp { kind, payload, .. } => (
                icmp,
                (0, 0),
                network.ip_bytes,
                payload,
                lasting_icmp_bytes(kind),
            ),
            Transport::OtherProtocol(number) => (number, (0, 0), network.ip_bytes, &[][..], 0..0),
            _ => (FRAGMENT, (0, 0), network.ip_bytes, &[][..], 0..0),
        };
        let tuple = Tuple::new(network, protocol, ports);
        let flow = self
            .flows
            .flow_of(side, tuple, plausible(packet.time_ns), None);
        self.bound_flows(side, flow);
        let end = telling.end.min(payload.len());
        let telling_bytes = telling.len();
        let payload = &payload[telling.start.min(end)..end];
        if packet.captured_bytes < packet.wire_bytes && payload.len() < telling_bytes {
            self.lower_precision(Precision {
                payload_bytes: self.precision.payload_bytes.min(payload.len() as u8),
                ..self.precision
            });
        }
        let token = self.flows.token(side, flow);
        let mut parts = Parts::of_other(network, protocol, payload, token);
        if protocol == FRAGMENT {
            parts.material[0] = u32::from(parts.identification);
        }
        let sighting = Sighting {
            payload_bytes,
            ..sighting(packet, network, flow, parts)
        };
        self.place(side, &sighting, true);
    }

    #[inline]
    fn key(&self, sighting: &Sighting) -> u64 {
        self.precision.key(
            &self.hashes,
            &sighting.parts,
            sighting.sequence,
            sighting.payload_bytes,
        )
    }

    #[inline]
    fn may_be_one(&self, side: usize, flow: u32, other: u32) -> bool {
        match side {
            0 => self.flows.may_be_one(flow, other),
            _ => self.flows.may_be_one(other, flow),
        }
    }

    /// Matches a packet with one that waits at the other point, or lets it wait.
    #[inline]
    fn place(&mut self, side: usize, sighting: &Sighting, may_cut: bool) {
        let mut key = self.key(sighting);
        let mut found = self.find(side, sighting, key);
        if let Found::CutTo(slot, bytes) = found {
            found = Found::Nothing;
            if may_cut && self.cut(1 - side, slot, bytes) {
                // which may have changed the composition of keys
                key = self.key(sighting);
                found = self.find(side, sighting, key);
            }
        }
        match found {
            Found::CutSelfTo(bytes)
                if may_cut && offload::can_cut(sighting.payload_bytes, bytes) =>
            {
                self.expect_offload();
                for piece in offload::pieces(sighting, side, bytes) {
                    self.place(side, &piece, false);
                }
            }
            Found::Same(slot, same_id)
                if same_id == Some(true) || !self.doubts(side, sighting, slot, same_id) =>
            {
                self.on_match(side, sighting, slot, same_id);
            }
            _ => self.wait(side, sighting, key),
        }
    }

    #[inline]
    fn on_match(&mut self, side: usize, sighting: &Sighting, slot: u32, same_id: Option<bool>) {
        let entry = self.pending[1 - side].remove(slot);
        let row = &mut self.rows[entry.row as usize];
        let there = row.flow;
        row.index[side] = sighting.index;
        row.time_ns[side] = sighting.time_ns;
        row.ttl[side] = sighting.ttl;
        row.tos[side] = sighting.tos;
        row.flags.set(sighting.flags);
        row.crossing = Crossing::Matched;
        row.content = self.precision.content(entry.key, &entry.parts);
        if side == 0 {
            row.flow = sighting.flow;
            row.ip_bytes = sighting.ip_bytes;
            row.identification = sighting.parts.identification;
        }
        if entry.parts.has(Parts::SYN) && entry.parts.material[4] != sighting.parts.material[4] {
            row.flags.set(PacketFlags::MSS_CHANGED);
        }
        let delta_ns = row.time_ns[1].wrapping_sub(row.time_ns[0]);
        for (matched, time) in self.matched_ns.iter_mut().zip(row.time_ns) {
            *matched = time;
        }
        self.delta_ns = Some(delta_ns);
        self.matches += 1;
        let (first, second) = match side {
            0 => (sighting.flow, there),
            _ => (there, sighting.flow),
        };
        self.flows
            .get_mut(side, sighting.flow)
            .few_rows
            .push(entry.row);
        let later = (sighting.parts.bits | entry.parts.bits) & Parts::LATER_PIECE != 0;
        self.flows.on_match(first, second, delta_ns, same_id, later);
        self.flows
            .on_numbers(first, second, &sighting.parts, &entry.parts);
    }

    #[inline]
    fn wait(&mut self, side: usize, sighting: &Sighting, key: u64) {
        if self.pending[side].len() >= self.most_pending {
            self.make_room(side);
        }
        self.waited += 1;
        self.until_learning = self.until_learning.saturating_sub(1);
        self.add_waiting(side, sighting, key);
    }

    fn add_waiting(&mut self, side: usize, sighting: &Sighting, key: u64) {
        let row = self.rows.len() as u32;
        if row == pending::NONE {
            return; // 2^32 packets: memory would be exhausted first
        }
        let content = self.precision.content(key, &sighting.parts);
        self.rows.push(new_row(side, sighting, content));
        self.pending[side].insert(key, row, sighting.parts);
        self.flows.get_mut(side, sighting.flow).few_rows.push(row);
        if sighting.parts.has(Parts::WHOLE) {
            let waiting = self.whole[side].entry(sighting.flow).or_default();
            if waiting.len() < MOST_WHOLE {
                waiting.push((row, sighting.parts));
            }
        }
    }

    #[cold]
    fn make_room(&mut self, side: usize) {
        // which checks all waiting packets, so not for every packet
        if self.waited >= self.most_pending / 2 {
            self.waited = 0;
            self.cut_like_the_other_point(None);
        }
        while self.pending[side].len() >= self.most_pending {
            self.give_up_oldest(side);
        }
    }

    fn give_up_oldest(&mut self, side: usize) {
        let Some((slot, _)) = self.pending[side].oldest() else {
            return;
        };
        if self.match_after_all(side, slot, None) {
            return;
        }
        let entry = self.pending[side].remove(slot);
        let row = &mut self.rows[entry.row as usize];
        // a packet that others have long overtaken was not captured there; the rest might still have arrived
        let settled = self.matched_ns[side].saturating_sub(row.time_ns[side]) > SETTLED_AFTER_NS;
        if !settled {
            row.crossing = Crossing::Forgotten;
        }
    }

    /// A capture lacks a field that keys included so far: the keys of all waiting packets are rebuilt without
    /// it.
    #[inline]
    fn lower_precision(&mut self, precision: Precision) {
        if precision == self.precision {
            return;
        }
        self.precision = precision;
        for pending in &mut self.pending {
            let (rows, hashes) = (&mut self.rows, &self.hashes);
            pending.rekey(|entry| {
                let row = &mut rows[entry.row as usize];
                let key = precision.key(hashes, &entry.parts, row.sequence, row.payload_bytes);
                row.content = precision.content(key, &entry.parts);
                key
            });
        }
    }
}

/// The bytes of an ICMP message's body that address translation preserves (RFC 5508): of an echo all but the
/// identifier; of an error the first eight of the header that it quotes, up to its TTL and checksum.
fn lasting_icmp_bytes(kind: u8) -> std::ops::Range<usize> {
    match kind {
        0 | 8 | 128 | 129 => 2..2 + PAYLOAD_KEY_BYTES,
        _ => 4..12,
    }
}

/// Times outside 1970 to 2116 come from a broken clock or a damaged file; inside, differences fit 64 bits.
#[inline]
pub(crate) fn plausible(time_ns: i64) -> i64 {
    time_ns.clamp(0, 1 << 62)
}

#[inline]
fn sighting(packet: &Packet, network: &Network, flow: u32, parts: Parts) -> Sighting {
    Sighting {
        parts,
        flow,
        index: packet.index.min(u64::from(NOT_CAPTURED - 1)) as u32,
        time_ns: plausible(packet.time_ns),
        sequence: 0,
        payload_bytes: 0,
        ip_bytes: network.ip_bytes,
        ttl: network.ttl,
        tos: network.dscp << 2 | network.ecn,
        flags: 0,
    }
}

#[inline]
fn new_row(side: usize, sighting: &Sighting, content: u32) -> PairPacket {
    let mut row = PairPacket {
        flow: sighting.flow,
        index: [NOT_CAPTURED; 2],
        time_ns: [NO_TIME; 2],
        sequence: sighting.sequence,
        payload_bytes: sighting.payload_bytes,
        ip_bytes: sighting.ip_bytes,
        identification: sighting.parts.identification,
        content,
        ttl: [0; 2],
        tos: [0; 2],
        crossing: Crossing::Undecided,
        flags: PacketFlags(sighting.flags),
    };
    row.index[side] = sighting.index;
    row.time_ns[side] = sighting.time_ns;
    row.ttl[side] = sighting.ttl;
    row.tos[side] = sighting.tos;
    row
}
