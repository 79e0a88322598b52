//! Finds for each packet of one capture the same packet in the other, in one pass and bounded memory.

pub(crate) mod flows;
mod leftovers;
mod offload;
pub(crate) mod pending;
pub(crate) mod sighting;

use whydrop_capture::{Network, Packet, TcpFlags, TcpSegment, Transport};

use crate::hash::{FoldMap, Words};
use crate::packet::{Crossing, NO_TIME, NOT_CAPTURED, PacketFlags, PairPacket};
use flows::{FlowState, Flows, Tuple};
use pending::{Entry, Pending};
use sighting::{FRAGMENT, PAYLOAD_KEY_BYTES, Parts, Precision, Sighting};

/// Among equal packets the oldest is taken, unless the time on the way of another one is nearer to that of the packet
/// before by more than so many times what it varies: then the older one was lost.
const UNLIKELY_VARIATIONS: u64 = 4;
/// Clocks of captures are no finer than this.
const CLOCK_GRAIN_NS: u64 = 5_000;
/// A match that nothing but the contents proves, and whose time on the way is that unlikely, is put off: the right one
/// may come yet. So many in a row show that the path or a clock has changed, and the next one is believed.
const MOST_DOUBTS: u8 = 32;
/// Doubts in a row about packets with different identifications, while other flows' cross unchanged.
const MOST_DOUBTS_OF_IDS: u8 = 4;
/// A packet that later ones have overtaken by this much, by its own clock, is not coming any more.
const SETTLED_AFTER_NS: i64 = 10_000_000_000;
/// Super-segments of one flow that wait for their segment size at most.
const MOST_WHOLE: usize = 1024;

pub(crate) struct Matcher {
    words: Words,
    precision: Precision,
    most_pending: usize,
    pending: [Pending; 2],
    pub(crate) flows: Flows,
    pub(crate) rows: Vec<PairPacket>,
    /// Rows of super-segments whose segment size is not known yet, by flow.
    whole: [FoldMap<u32, Vec<(u32, Parts)>>; 2],
    /// Time at point 2 less time at point 1 of the latest match.
    pub(crate) delta_ns: Option<i64>,
    /// Latest matched time at each point.
    matched_ns: [i64; 2],
    pub(crate) matches: u64,
    nothing_else_comes: bool,
    /// Frames without an IP packet that could be matched.
    pub(crate) unmatchable: [u64; 2],
}

/// How a waiting packet compares with one just seen at the other point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    Different,
    /// May be the same.
    Possible,
    /// The same, by its identification too.
    SameId,
    /// The waiting one is a super-segment that begins like this packet: its segments are as long as this packet.
    CutTo(u32),
    /// This packet is one that begins like the waiting one, which is so long.
    CutSelfTo(u32),
}

enum Found {
    Nothing,
    Same(u32, Option<bool>),
    CutTo(u32, u32),
    CutSelfTo(u32),
}

impl Matcher {
    pub(crate) fn new(most_pending: usize) -> Self {
        Self {
            words: Words::new(),
            precision: Precision::default(),
            most_pending: most_pending.max(1),
            pending: [Pending::default(), Pending::default()],
            flows: Flows::default(),
            rows: Vec::new(),
            whole: Default::default(),
            delta_ns: None,
            matched_ns: [i64::MIN; 2],
            matches: 0,
            nothing_else_comes: false,
            unmatchable: [0; 2],
        }
    }

    pub(crate) fn pending(&self, side: usize) -> usize {
        self.pending[side].len()
    }

    /// Takes the next packet of capture 1 (`side` 0) or 2.
    #[inline]
    pub(crate) fn take(&mut self, side: usize, packet: &Packet) {
        let Some(network) = &packet.network else {
            self.unmatchable[side] += 1;
            return;
        };
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
        let tuple = Tuple::new(network, 6, (tcp.source_port, tcp.destination_port));
        let flow = self
            .flows
            .flow_of(side, tuple, plausible(packet.time_ns), Some(tcp));
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
        let sighting = Sighting {
            sequence: tcp.sequence,
            payload_bytes: tcp.payload_bytes,
            flags,
            ..sighting(packet, network, flow, Parts::of_tcp(network, tcp))
        };
        if tcp.payload_bytes > offload::SMALLEST_SEGMENT_BYTES {
            self.take_data(side, sighting);
        } else {
            self.place(side, &sighting, true);
        }
    }

    /// A packet that may be a super-segment.
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

    /// There are super-segments: their pieces need not agree in all that keys hold otherwise.
    fn expect_offload(&mut self) {
        self.lower_precision(Precision {
            strict_data: false,
            ..self.precision
        });
    }

    /// The length of the wire packet at the other point that begins as this super-segment does.
    fn first_piece_elsewhere(&self, side: usize, sighting: &Sighting) -> Option<u32> {
        let key = self.key(sighting);
        let entry = self.pending[1 - side].with_key(key).find(|(_, entry)| {
            let row = &self.rows[entry.row as usize];
            !entry.parts.has(Parts::PIECE | Parts::WHOLE)
                && self.precision.are_near(&entry.parts, &sighting.parts)
                && row.payload_bytes <= sighting.payload_bytes
                && row.payload_bytes >= offload::SMALLEST_SEGMENT_BYTES
                && self.may_be_one(side, sighting.flow, row.flow)
        })?;
        Some(self.rows[entry.1.row as usize].payload_bytes)
    }

    /// Where both points hold super-segments and no handshake, neither can tell the other: the likeliest size is
    /// taken at both.
    fn guess_for_both(&mut self, side: usize, sighting: &Sighting) -> Option<u32> {
        let partner = self.flows.get(side, sighting.flow).partner;
        if partner == pending::NONE || !self.flows.get(1 - side, partner).whole_super_segments {
            return None;
        }
        // equal boundaries match as they are
        let same = self.pending[1 - side]
            .with_key(self.key(sighting))
            .any(|(_, entry)| {
                self.rows[entry.row as usize].payload_bytes == sighting.payload_bytes
            });
        if same {
            return None;
        }
        let plain = [(side, sighting.flow), (1 - side, partner)]
            .map(|(side, flow)| self.flows.get(side, flow).plain_segment_bytes());
        let bytes = offload::likely_segment_bytes(sighting, plain.into_iter().flatten().max())?;
        self.cut_waiting(1 - side, partner, bytes);
        Some(bytes)
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
            self.words,
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

    /// Matches a packet with one that waits at the other point, or lets it wait itself.
    #[inline]
    fn place(&mut self, side: usize, sighting: &Sighting, may_cut: bool) {
        let mut key = self.key(sighting);
        let mut found = self.find(side, sighting, key);
        if let Found::CutTo(slot, bytes) = found {
            found = Found::Nothing;
            if may_cut && self.cut(1 - side, slot, bytes) {
                // which may have changed what keys are made of
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

    /// Whether a packet should rather wait for a better match than this one.
    fn doubts(
        &mut self,
        side: usize,
        sighting: &Sighting,
        slot: u32,
        same_id: Option<bool>,
    ) -> bool {
        let entry = *self.pending[1 - side].entry(slot);
        let other = self.rows[entry.row as usize].flow;
        let first = if side == 0 { sighting.flow } else { other };
        let guessed = (sighting.parts.bits | entry.parts.bits) & Parts::LATER_PIECE != 0;
        let by_id = same_id == Some(false) && !guessed && self.flows.ids_should_be_preserved(first);
        let by_time = !sighting.parts.has_timestamps() && !entry.parts.has_timestamps() && {
            let delta_ns = self.delta_to(side, sighting, &entry);
            let flow = self.flows.get(side, sighting.flow);
            let expected = flow.delta_ns;
            expected.is_some_and(|ns| delta_ns.abs_diff(ns) > tolerance_ns(flow))
        };
        let flow = self.flows.get_mut(side, sighting.flow);
        let doubtful =
            by_time && flow.doubts < MOST_DOUBTS || by_id && flow.doubts < MOST_DOUBTS_OF_IDS;
        flow.doubts += u8::from(doubtful);
        doubtful
    }

    /// Time at point 2 less time at point 1 if these two are one packet.
    #[inline]
    fn delta_to(&self, side: usize, sighting: &Sighting, entry: &Entry) -> i64 {
        let there = self.rows[entry.row as usize].time_ns[1 - side];
        match side {
            0 => there - sighting.time_ns,
            _ => sighting.time_ns - there,
        }
    }

    #[inline]
    fn find(&self, side: usize, sighting: &Sighting, key: u64) -> Found {
        let mut cut = Found::Nothing;
        let mut best: Option<(u32, &Entry, Likeness)> = None;
        for (slot, entry) in self.pending[1 - side].with_key(key) {
            match self.compare(side, sighting, entry) {
                Likeness::Different => {}
                Likeness::CutTo(bytes) => cut = Found::CutTo(slot, bytes),
                Likeness::CutSelfTo(bytes) => cut = Found::CutSelfTo(bytes),
                likeness => {
                    let better = best.is_none_or(|(_, other, known)| {
                        self.is_better(side, sighting, (entry, likeness), (other, known))
                    });
                    if better {
                        best = Some((slot, entry, likeness));
                    }
                }
            }
        }
        match best {
            Some((slot, entry, likeness)) => {
                let both = sighting.parts.identification != 0 && entry.parts.identification != 0;
                Found::Same(slot, both.then_some(likeness == Likeness::SameId))
            }
            None => cut,
        }
    }

    /// Whether a waiting packet is a better match than an older one.
    #[cold]
    fn is_better(
        &self,
        side: usize,
        sighting: &Sighting,
        (entry, likeness): (&Entry, Likeness),
        (older, known): (&Entry, Likeness),
    ) -> bool {
        if likeness != known {
            return likeness == Likeness::SameId;
        }
        let flow = self.flows.get(side, sighting.flow);
        let Some(expected) = flow.delta_ns.or(self.delta_ns) else {
            return false;
        };
        let apart = |entry: &Entry| self.delta_to(side, sighting, entry).abs_diff(expected);
        let tolerance_ns = if self.nothing_else_comes {
            0
        } else {
            tolerance_ns(flow)
        };
        apart(entry).saturating_add(tolerance_ns) < apart(older)
    }

    #[inline]
    fn compare(&self, side: usize, sighting: &Sighting, entry: &Entry) -> Likeness {
        let row = &self.rows[entry.row as usize];
        if !self.may_be_one(side, sighting.flow, row.flow)
            || entry.parts.protocol != sighting.parts.protocol
        {
            return Likeness::Different;
        }
        let (first, second) = match side {
            0 => (sighting.flow, row.flow),
            _ => (row.flow, sighting.flow),
        };
        let offloaded = [sighting.parts, entry.parts].map(|p| p.has(Parts::PIECE | Parts::WHOLE));
        let likeness = match offloaded {
            [false, false] => self.compare_wire(first, second, &sighting.parts, &entry.parts),
            _ if row.flags.has(PacketFlags::WITHDRAWN) => Likeness::Different,
            _ => self.compare_offloaded(first, second, &sighting.parts, &entry.parts),
        };
        let (here, there) = (sighting.payload_bytes, row.payload_bytes);
        if likeness == Likeness::Different || here == there {
            return likeness;
        }
        // Linux joins small packets on receipt too: what is certainly the same transmission is cut like the other
        let certain = likeness == Likeness::SameId
            || sighting.parts.has_timestamps()
                && self.precision.agree(&sighting.parts, &entry.parts);
        match offloaded {
            [false, true] => Likeness::CutTo(here),
            [false, false] if certain && here < there => Likeness::CutTo(here),
            [false, false] if certain => Likeness::CutSelfTo(there),
            _ => Likeness::Different,
        }
    }

    /// Two packets with equal keys that were captured as they were on the wire.
    #[inline]
    fn compare_wire(&self, first: u32, second: u32, one: &Parts, other: &Parts) -> Likeness {
        if self.precision.is_commonplace(one) && !self.flows.are_partners(first, second) {
            return Likeness::Different;
        }
        if !self.precision.strict_data && !self.precision.agree(one, other) {
            return Likeness::Different;
        }
        let (here, there) = (one.identification, other.identification);
        if here == there && here != 0 {
            Likeness::SameId
        } else if here == 0 || there == 0 || !self.flows.ids_are_preserved(first) {
            Likeness::Possible
        } else {
            Likeness::Different
        }
    }

    /// Two packets of which one at least is a piece of a super-segment. What merges packets on receipt may take the
    /// acknowledgment number and the timestamps of any of them.
    fn compare_offloaded(&self, first: u32, second: u32, one: &Parts, other: &Parts) -> Likeness {
        let agree = self.precision.agree(one, other);
        if !agree && !self.flows.are_partners(first, second) {
            return Likeness::Different;
        }
        let (here, there) = (one.identification, other.identification);
        if here == there && here != 0 {
            return Likeness::SameId;
        }
        if agree {
            return Likeness::Possible;
        }
        let later = (one.bits | other.bits) & Parts::LATER_PIECE != 0;
        let ids_tell = match later {
            true => self.flows.ids_of_pieces_are_counted(),
            false => self.flows.ids_are_preserved(first),
        };
        if here != 0 && there != 0 && ids_tell || !self.precision.are_near(one, other) {
            return Likeness::Different;
        }
        Likeness::Possible
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
        let later = (sighting.parts.bits | entry.parts.bits) & Parts::LATER_PIECE != 0;
        self.flows.on_match(first, second, delta_ns, same_id, later);
    }

    #[inline]
    fn wait(&mut self, side: usize, sighting: &Sighting, key: u64) {
        let row = self.rows.len() as u32;
        if row == pending::NONE {
            return; // 2^32 packets: hundreds of gigabytes of rows would come first
        }
        if self.pending[side].len() >= self.most_pending {
            self.give_up_oldest(side);
        }
        self.rows.push(new_row(side, sighting));
        self.pending[side].insert(key, row, sighting.parts);
        if sighting.parts.has(Parts::WHOLE) {
            let waiting = self.whole[side].entry(sighting.flow).or_default();
            if waiting.len() < MOST_WHOLE {
                waiting.push((row, sighting.parts));
            }
        }
    }

    fn give_up_oldest(&mut self, side: usize) {
        let Some(entry) = self.pending[side].remove_oldest() else {
            return;
        };
        if self.match_after_all(side, &entry, None) {
            return;
        }
        let row = &mut self.rows[entry.row as usize];
        // what others have long overtaken was not captured there; the rest might still have come
        let settled = self.matched_ns[side].saturating_sub(row.time_ns[side]) > SETTLED_AFTER_NS;
        if !settled {
            row.crossing = Crossing::Forgotten;
        }
    }

    /// A capture lacks what keys were made of so far: those of all waiting packets are made anew without it.
    #[inline]
    fn lower_precision(&mut self, precision: Precision) {
        if precision == self.precision {
            return;
        }
        self.precision = precision;
        for pending in &mut self.pending {
            let (rows, words) = (&self.rows, self.words);
            pending.rekey(|entry| {
                let row = &rows[entry.row as usize];
                precision.key(words, &entry.parts, row.sequence, row.payload_bytes)
            });
        }
    }

    /// The segment size of a flow has become known: all that waited for it are cut.
    fn learn_segment_bytes(&mut self, side: usize, flow: u32, bytes: u32) {
        let state = self.flows.get_mut(side, flow);
        if state.segment_bytes == bytes && !state.whole_super_segments {
            return;
        }
        state.segment_bytes = bytes;
        if state.whole_super_segments {
            self.cut_waiting(side, flow, bytes);
        }
    }

    fn cut_waiting(&mut self, side: usize, flow: u32, bytes: u32) {
        self.flows.get_mut(side, flow).whole_super_segments = false;
        self.flows.get_mut(side, flow).segment_bytes = bytes;
        for (row, parts) in self.whole[side].remove(&flow).unwrap_or_default() {
            if let Some(slot) = self.slot_of(side, row, &parts) {
                self.cut(side, slot, bytes);
            }
        }
    }

    /// Where the packet of a row waits, if it still does. `parts` are its own, or those of another piece of the same
    /// super-segment: their keys differ by what the row tells.
    fn slot_of(&self, side: usize, row: u32, parts: &Parts) -> Option<u32> {
        let waiting = &self.rows[row as usize];
        let (sequence, bytes) = (waiting.sequence, waiting.payload_bytes);
        let key = self.precision.key(self.words, parts, sequence, bytes);
        let mut candidates = self.pending[side].with_key(key);
        candidates
            .find(|(_, entry)| entry.row == row)
            .map(|(slot, _)| slot)
    }

    /// Cuts a super-segment that waits, whole or cut otherwise, into segments of `bytes`. False if it cannot be.
    #[cold]
    fn cut(&mut self, side: usize, slot: u32, bytes: u32) -> bool {
        let entry = *self.pending[side].entry(slot);
        let Some((first, whole)) = self.reassembled(side, &entry) else {
            return false;
        };
        self.expect_offload();
        // no super-segment at all, but a packet larger than was announced
        let is_one = bytes == whole.payload_bytes && entry.parts.has(Parts::PIECE);
        if !is_one && !offload::can_cut(whole.payload_bytes, bytes) {
            return false;
        }
        let mut row = first;
        while let Some(piece) = self.rows.get_mut(row as usize)
            && piece.index[side] == whole.index
            && piece.flow == whole.flow
            && !piece.flags.has(PacketFlags::WITHDRAWN)
        {
            piece.flags.set(PacketFlags::WITHDRAWN);
            if let Some(slot) = self.slot_of(side, row, &entry.parts) {
                self.pending[side].remove(slot);
            }
            row += 1;
        }
        if is_one {
            self.place(side, &whole, false);
        } else {
            for piece in offload::pieces(&whole, side, bytes) {
                self.place(side, &piece, false);
            }
        }
        if entry.parts.has(Parts::PIECE | Parts::WHOLE) {
            self.learn_segment_bytes(side, whole.flow, bytes);
        }
        true
    }

    /// The super-segment that a waiting entry is, or is a piece of, with its first row; `None` if a piece of it has
    /// been matched already.
    fn reassembled(&self, side: usize, entry: &Entry) -> Option<(u32, Sighting)> {
        let own = self.rows[entry.row as usize];
        let belongs = |row: &PairPacket| {
            row.index[side] == own.index[side]
                && row.flow == own.flow
                && !row.flags.has(PacketFlags::WITHDRAWN)
        };
        let before = self.rows[..entry.row as usize].iter().rev();
        let first = entry.row as usize - before.take_while(|row| belongs(row)).count();
        let all = self.rows[first..].iter().take_while(|row| belongs(row));
        let (mut payload_bytes, mut flags) = (0u32, 0);
        for row in all {
            if row.is_matched() {
                return None;
            }
            payload_bytes = payload_bytes.saturating_add(row.payload_bytes);
            flags |= row.flags.0;
        }
        let head = self.rows[first];
        let mut parts = entry.parts;
        parts.bits &= !(Parts::PIECE | Parts::LATER_PIECE);
        parts.identification = head.identification;
        Some((
            first as u32,
            Sighting {
                parts,
                flow: own.flow,
                index: own.index[side],
                time_ns: own.time_ns[side],
                sequence: head.sequence,
                payload_bytes,
                ip_bytes: head.ip_bytes.saturating_sub(head.payload_bytes) + payload_bytes,
                ttl: own.ttl[side],
                tos: own.tos[side],
                flags: flags & !(PacketFlags::LATER_PIECE | PacketFlags::offloaded(side)),
            },
        ))
    }
}

/// Which bytes of an ICMP message's body address translation leaves alone (RFC 5508): of an echo all but the
/// identifier; of an error the first eight of the header that it quotes, up to its TTL and checksum.
fn lasting_icmp_bytes(kind: u8) -> std::ops::Range<usize> {
    match kind {
        0 | 8 | 128 | 129 => 2..2 + PAYLOAD_KEY_BYTES,
        _ => 4..12,
    }
}

/// Times outside 1970 to 2116 are those of a broken clock or a damaged file; inside, differences fit 64 bits.
#[inline]
pub(crate) fn plausible(time_ns: i64) -> i64 {
    time_ns.clamp(0, 1 << 62)
}

/// How far times on the way differ without being unlikely.
fn tolerance_ns(flow: &FlowState) -> u64 {
    CLOCK_GRAIN_NS + UNLIKELY_VARIATIONS * flow.variation_ns.unsigned_abs()
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
fn new_row(side: usize, sighting: &Sighting) -> PairPacket {
    let mut row = PairPacket {
        flow: sighting.flow,
        index: [NOT_CAPTURED; 2],
        time_ns: [NO_TIME; 2],
        sequence: sighting.sequence,
        payload_bytes: sighting.payload_bytes,
        ip_bytes: sighting.ip_bytes,
        identification: sighting.parts.identification,
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
