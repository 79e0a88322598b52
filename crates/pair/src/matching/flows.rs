//! The flows at both points, and their correspondence.
//!
//! Addresses and ports may be rewritten between the points, so the one-to-one map is learnt from the packets
//! that match. Until a packet has matched, the flow with the same addresses and ports is assumed to be the
//! partner.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};

use ahash::{HashMap, RandomState};
use whydrop_capture::{Network, TcpFlags, TcpSegment};
use whydrop_tcp::Endpoint;

use super::discard::{Candidate, FewRows};
use super::pending::NONE;
use super::renumbered::Numbering;

/// Addresses, ports and protocol of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tuple {
    source: u128,
    destination: u128,
    ports: u32,
    pub(crate) protocol: u8,
}

/// IPv4 as IPv4-mapped IPv6 address (RFC 4291, section 2.5.5.2): one space for both families.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => 0xffff_0000_0000 | u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

fn address(number: u128) -> IpAddr {
    let v6 = Ipv6Addr::from(number);
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
}

impl Tuple {
    #[inline]
    pub(crate) fn new(network: &Network, protocol: u8, ports: (u16, u16)) -> Self {
        Self {
            source: number(network.source),
            destination: number(network.destination),
            ports: u32::from(ports.0) << 16 | u32::from(ports.1),
            protocol,
        }
    }

    pub(crate) fn reversed(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            ports: self.ports.rotate_left(16),
            protocol: self.protocol,
        }
    }

    pub(crate) fn source(&self) -> Endpoint {
        Endpoint {
            address: address(self.source),
            port: (self.ports >> 16) as u16,
        }
    }

    pub(crate) fn destination(&self) -> Endpoint {
        Endpoint {
            address: address(self.destination),
            port: self.ports as u16,
        }
    }

    /// True if address and port of at least one end are equal.
    pub(super) fn shares_an_end(&self, other: &Self) -> bool {
        let same_source = self.source == other.source && self.ports >> 16 == other.ports >> 16;
        let same_destination =
            self.destination == other.destination && self.ports as u16 == other.ports as u16;
        same_source || same_destination
    }
}

/// One direction of a connection at one point.
#[derive(Debug, Clone)]
pub(crate) struct FlowState {
    pub tuple: Tuple,
    token: u32,
    /// Number among all flows so far; [`DISCARDED`] if it no longer exists.
    pub(super) birth: u64,
    pub(super) few_rows: FewRows,
    /// The flow of the other direction at this point.
    pub reverse: u32,
    /// The flow at the other point; only a guess before the first match.
    pub partner: u32,
    pub matched: u32,
    pub packets: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    /// Sequence number of the SYN.
    pub(super) syn: Option<u32>,
    announced_mss: u16,
    timestamps: bool,
    /// Payload of the wire packets of super-segments; 0 while unknown.
    pub segment_bytes: u32,
    /// The largest payload of packets that are no super-segments, and their number.
    plain: (u32, u32),
    /// Has super-segments that arrived while their segment size was unknown.
    pub whole_super_segments: bool,
    /// Matched packets with equal, and with different, identifications at the two points.
    ids: IdVotes,
    /// Time at point 2 minus time at point 1 of the latest match.
    pub delta_ns: Option<i64>,
    /// Smoothed variation of that difference between matches.
    pub variation_ns: i64,
    /// Matches postponed since the latest one because of an unlikely transit time.
    pub doubts: u8,
    pub numbering: Numbering,
    /// Acknowledgments with SACK blocks that a renumbering device left unchanged.
    pub sack_left: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct IdVotes {
    equal: u32,
    different: u32,
}

impl IdVotes {
    #[inline]
    fn take(&mut self, same: bool) {
        self.equal += u32::from(same);
        self.different += u32::from(!same);
        // old votes fade, and the counters stay small
        if self.equal.max(self.different) > 1 << 20 {
            self.equal /= 2;
            self.different /= 2;
        }
    }

    /// True if identifications cross unchanged; `None` if undecided.
    fn preserved(self) -> Option<bool> {
        if self.equal >= 4 && self.different <= self.equal / 8 {
            Some(true)
        } else if self.different >= 4 && self.equal <= self.different / 8 {
            Some(false)
        } else {
            None
        }
    }
}

#[derive(Debug, Default)]
struct Side {
    flows: Vec<FlowState>,
    by_tuple: HashMap<Tuple, u32>,
    births: u64,
    /// Numbers of discarded flows, for reuse.
    free: Vec<u32>,
    /// Flows that may have few packets, oldest first.
    candidates: VecDeque<Candidate>,
    /// Flows of the latest packets.
    recent: [u32; 8],
}

#[derive(Debug, Default)]
pub(crate) struct Flows {
    sides: [Side; 2],
    /// Of the tokens.
    hashes: RandomState,
    ids: IdVotes,
    /// The same for pieces of super-segments, with identifications counted up from the first's.
    piece_ids: IdVotes,
    /// A device changes the sequence numbers of some flows.
    pub(super) renumbered: bool,
}

impl Flows {
    #[inline]
    pub(crate) fn get(&self, side: usize, flow: u32) -> &FlowState {
        &self.sides[side].flows[flow as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, side: usize, flow: u32) -> &mut FlowState {
        &mut self.sides[side].flows[flow as usize]
    }

    /// By number, including those that were discarded.
    pub(crate) fn all(&self, side: usize) -> &[FlowState] {
        &self.sides[side].flows
    }

    pub(super) fn all_mut(&mut self, side: usize) -> &mut [FlowState] {
        &mut self.sides[side].flows
    }

    #[inline]
    pub(super) fn candidates(&mut self, side: usize) -> &mut VecDeque<Candidate> {
        &mut self.sides[side].candidates
    }

    /// The flow of such a packet; `tcp` serves to detect reused ports.
    #[inline]
    pub(crate) fn flow_of(
        &mut self,
        side: usize,
        tuple: Tuple,
        time_ns: i64,
        tcp: Option<&TcpSegment>,
    ) -> u32 {
        let here = &mut self.sides[side];
        let place = (tuple.ports ^ tuple.ports >> 16 ^ tuple.source as u32) as usize % 8;
        let recent = here.recent[place];
        let known = match here.flows.get(recent as usize) {
            Some(flow) if flow.tuple == tuple => Some(recent),
            _ => here.by_tuple.get(&tuple).copied(),
        };
        let flow = match (known, tcp) {
            (Some(flow), Some(tcp)) if tcp.flags.has(TcpFlags::SYN) => {
                if here.flows[flow as usize].is_reused_by(tcp) {
                    here.by_tuple.remove(&tuple.reversed());
                    here.recent = [NONE; 8];
                    self.add(side, tuple)
                } else {
                    flow
                }
            }
            (Some(flow), _) => flow,
            (None, _) => self.add(side, tuple),
        };
        let here = &mut self.sides[side];
        here.recent[place] = flow;
        let state = &mut here.flows[flow as usize];
        state.packets += 1;
        state.first_ns = state.first_ns.min(time_ns);
        state.last_ns = state.last_ns.max(time_ns);
        if let Some(tcp) = tcp.filter(|tcp| tcp.flags.has(TcpFlags::SYN)) {
            state.syn = Some(tcp.sequence);
            // absent: the default of RFC 9293, section 3.7.1
            state.announced_mss =
                tcp.options
                    .mss
                    .unwrap_or(if tcp.options.truncated { 0 } else { 536 });
            state.timestamps = tcp.options.timestamps.is_some();
        }
        flow
    }

    fn add(&mut self, side: usize, tuple: Tuple) -> u32 {
        let other = &self.sides[1 - side];
        // the partner with the same name, unless it has another partner
        let partner = other.by_tuple.get(&tuple).copied().filter(|&flow| {
            let state = &other.flows[flow as usize];
            state.partner == NONE && state.matched == 0
        });
        let here = &mut self.sides[side];
        let reverse = here.by_tuple.get(&tuple.reversed()).copied();
        here.births += 1;
        let state = FlowState {
            tuple,
            token: self.hashes.hash_one(tuple) as u32,
            birth: here.births,
            few_rows: FewRows::default(),
            reverse: reverse.unwrap_or(NONE),
            partner: partner.unwrap_or(NONE),
            matched: 0,
            packets: 0,
            first_ns: i64::MAX,
            last_ns: i64::MIN,
            syn: None,
            announced_mss: 0,
            timestamps: false,
            segment_bytes: 0,
            plain: (0, 0),
            whole_super_segments: false,
            ids: IdVotes::default(),
            delta_ns: None,
            variation_ns: FIRST_VARIATION_NS,
            doubts: 0,
            numbering: reverse.map_or(Numbering::Unknown, |reverse| {
                here.flows[reverse as usize].numbering.of_reverse()
            }),
            sack_left: 0,
        };
        let flow = match here.free.pop() {
            Some(flow) => {
                here.flows[flow as usize] = state;
                flow
            }
            None => {
                here.flows.push(state);
                (here.flows.len() - 1) as u32
            }
        };
        here.candidates.push_back(Candidate {
            flow,
            birth: here.births,
            packets: 1,
        });
        here.by_tuple.insert(tuple, flow);
        if let Some(reverse) = reverse {
            here.flows[reverse as usize].reverse = flow;
        }
        if let Some(partner) = partner {
            self.sides[1 - side].flows[partner as usize].partner = flow;
        }
        flow
    }

    /// Removes a flow; its number will be reused.
    pub(super) fn remove(&mut self, side: usize, flow: u32) {
        let FlowState {
            tuple,
            reverse,
            partner,
            ..
        } = *self.get(side, flow);
        if reverse != NONE && self.get(side, reverse).reverse == flow {
            self.get_mut(side, reverse).reverse = NONE;
        }
        if partner != NONE {
            self.get_mut(1 - side, partner).partner = NONE;
        }
        let here = &mut self.sides[side];
        if here.by_tuple.get(&tuple) == Some(&flow) {
            here.by_tuple.remove(&tuple);
        }
        here.recent = [NONE; 8];
        here.free.push(flow);
        self.get_mut(side, flow).birth = DISCARDED;
    }

    /// The token for the flow in keys: equal at both points once the flow is known at both.
    #[inline]
    pub(crate) fn token(&self, side: usize, flow: u32) -> u32 {
        let state = self.get(side, flow);
        if side == 1 && state.partner != NONE {
            return self.get(0, state.partner).token;
        }
        state.token
    }

    /// True if packets of these flows can be the same packets. `first` is a flow at point 1.
    #[inline]
    pub(crate) fn may_be_one(&self, first: u32, second: u32) -> bool {
        let (one, two) = (self.get(0, first), self.get(1, second));
        if one.partner == second && two.partner == first {
            return true;
        }
        if one.matched == 0 && two.matched == 0 {
            let others_by_tuple = one.expects_same_tuple() || two.expects_same_tuple();
            return !others_by_tuple && self.reverses_agree(one, two);
        }
        // reused ports, when one of the captures lacks the SYN that shows it
        let renewed_first = two.partner != NONE && self.get(0, two.partner).tuple == one.tuple;
        let renewed_second = one.partner != NONE && self.get(1, one.partner).tuple == two.tuple;
        renewed_first || renewed_second
    }

    /// True if the other directions, as far as they are known, belong to one connection too.
    fn reverses_agree(&self, one: &FlowState, two: &FlowState) -> bool {
        let known = |side: usize, flow: u32| {
            let state = (flow != NONE).then(|| self.get(side, flow))?;
            (state.matched > 0).then_some(state.partner)
        };
        known(0, one.reverse).is_none_or(|partner| partner == two.reverse)
            && known(1, two.reverse).is_none_or(|partner| partner == one.reverse)
    }

    /// True if they are known, or expected from their names, to be one flow.
    #[inline]
    pub(crate) fn are_partners(&self, first: u32, second: u32) -> bool {
        self.get(0, first).partner == second
    }

    /// True if a different identification proves a different packet of this flow.
    #[inline]
    pub(crate) fn ids_are_preserved(&self, first: u32) -> bool {
        self.get(0, first).ids.preserved() == Some(true)
    }

    /// True if a different identification is suspicious: it is unknown for this flow, but other flows'
    /// identifications are preserved.
    pub(crate) fn ids_should_be_preserved(&self, first: u32) -> bool {
        self.get(0, first).ids.preserved().is_none() && self.ids.preserved() == Some(true)
    }

    /// True if the pieces of super-segments have consecutive identifications.
    #[inline]
    pub(crate) fn ids_of_pieces_are_counted(&self) -> bool {
        self.piece_ids.preserved() == Some(true)
    }

    /// Records that a packet of `first` at point 1 is one of `second` at point 2. `later_piece`: its
    /// identification is a guess.
    #[inline]
    pub(crate) fn on_match(
        &mut self,
        first: u32,
        second: u32,
        delta_ns: i64,
        same_id: Option<bool>,
        later_piece: bool,
    ) {
        if self.get(0, first).partner != second || self.get(1, second).partner != first {
            self.bind(first, second);
        }
        match same_id {
            Some(same) if later_piece => self.piece_ids.take(same),
            Some(same) => {
                self.ids.take(same);
                self.sides[0].flows[first as usize].ids.take(same);
            }
            None => {}
        }
        for (side, flow) in [(0, first), (1, second)] {
            let state = self.get_mut(side, flow);
            state.matched = state.matched.saturating_add(1);
            if let Some(before) = state.delta_ns {
                let change = (delta_ns - before).abs().min(LARGEST_VARIATION_NS);
                state.variation_ns += (change - state.variation_ns) / 8;
            }
            state.delta_ns = Some(delta_ns);
            state.doubts = 0;
        }
    }

    /// Replaces guessed partners by proven ones.
    #[cold]
    pub(super) fn bind(&mut self, first: u32, second: u32) {
        for (side, flow) in [(0, first), (1, second)] {
            let former = self.get(side, flow).partner;
            if former != NONE {
                self.get_mut(1 - side, former).partner = NONE;
            }
        }
        self.get_mut(0, first).partner = second;
        self.get_mut(1, second).partner = first;
        // then the other directions belong together, unless they are known to have other partners
        let (reverse, opposite) = (self.get(0, first).reverse, self.get(1, second).reverse);
        if reverse != NONE
            && opposite != NONE
            && self.get(0, reverse).partner == NONE
            && self.get(1, opposite).partner == NONE
        {
            self.get_mut(0, reverse).partner = opposite;
            self.get_mut(1, opposite).partner = reverse;
        }
    }

    /// Payload of the wire packets of a super-segment of this flow, if known.
    pub(crate) fn segment_bytes(&mut self, side: usize, flow: u32) -> Option<u32> {
        let state = self.get(side, flow);
        if state.segment_bytes != 0 {
            return Some(state.segment_bytes);
        }
        let partner = state.partner;
        let known = self.announced_segment_bytes(side, flow).or_else(|| {
            (partner != NONE)
                .then(|| self.announced_segment_bytes(1 - side, partner))
                .flatten()
        })?;
        self.get_mut(side, flow).segment_bytes = known;
        Some(known)
    }

    /// From the handshake: the smaller of both maximum segment sizes, less the timestamp option (RFC 6691).
    fn announced_segment_bytes(&self, side: usize, flow: u32) -> Option<u32> {
        /// NOP, NOP, timestamps.
        const TIMESTAMP_BYTES: u32 = 12;
        let own = self.get(side, flow);
        if own.reverse == NONE {
            return None;
        }
        let peer = self.get(side, own.reverse);
        if own.announced_mss == 0 || peer.announced_mss == 0 {
            return None;
        }
        let mss = u32::from(own.announced_mss.min(peer.announced_mss));
        let options = match own.timestamps && peer.timestamps {
            true => TIMESTAMP_BYTES,
            false => 0,
        };
        Some(
            mss.saturating_sub(options)
                .max(super::offload::SMALLEST_SEGMENT_BYTES),
        )
    }
}

/// Value of [`FlowState::birth`] for a discarded flow.
const DISCARDED: u64 = 0;
/// Number of packets of a flow's largest payload that make it the likely segment size.
const TELLING_PACKETS: u32 = 8;
/// Initial and largest variation of a flow's transit time.
const FIRST_VARIATION_NS: i64 = 250_000;
const LARGEST_VARIATION_NS: i64 = 10_000_000;
/// Packets after which a flow that shares none with the flow of the same 5-tuple at the other point may be
/// another one there.
const SAME_TUPLE_PACKETS: u64 = 16;

impl FlowState {
    /// Records a packet of this payload that is no super-segment.
    #[inline]
    pub(crate) fn on_plain(&mut self, payload_bytes: u32) {
        if payload_bytes > self.plain.0 {
            self.plain = (payload_bytes, 0);
        }
        if payload_bytes == self.plain.0 {
            self.plain.1 = self.plain.1.saturating_add(1);
        }
    }

    /// The segment size that packets other than super-segments suggest.
    pub(crate) fn plain_segment_bytes(&self) -> Option<u32> {
        let (bytes, packets) = self.plain;
        (packets >= TELLING_PACKETS).then_some(bytes)
    }

    pub(crate) fn was_discarded(&self) -> bool {
        self.birth == DISCARDED
    }

    /// True if the partner with the same 5-tuple may still prove right.
    fn expects_same_tuple(&self) -> bool {
        self.partner != NONE && self.packets < SAME_TUPLE_PACKETS
    }

    /// True for a SYN with another sequence number than the flow's own: it opens a new connection on the same
    /// ports.
    fn is_reused_by(&self, tcp: &TcpSegment) -> bool {
        match self.syn {
            Some(syn) => syn != tcp.sequence,
            None => self.packets > 0 && !tcp.flags.has(TcpFlags::ACK),
        }
    }
}
