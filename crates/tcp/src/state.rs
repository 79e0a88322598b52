//! One connection while it is followed: its handshake, its two halves once it carries data, and its end.

mod trouble;

use whydrop_capture::{Defect, Network, TcpFlags, TcpSegment};

use crate::abandoned::Abandoned;
use crate::account::{AccountInput, account};
use crate::control;
use crate::echoed::Echoed;
use crate::ecn::{AceCounter, Ecn, EcnReport};
use crate::flow::{Connection, Endpoint, Flow, Handshake, SegmentFlags};
use crate::half::Half;
use crate::half::acknowledgments::AckPacket;
use crate::half::transmissions::DataPacket;
use crate::key::ConnectionKey;
use crate::options::TrackerOptions;
use crate::outcome::{Ending, Outcome, Reset, Setup, Unanswered};
use crate::segmentation::SegmentSize;
use crate::sender_clock::{Echoes, SenderClock};
use crate::sequence::{PLAUSIBLE_BYTES, Unwrapper};
use crate::signs::{ConnectionSigns, EcnWithdrawn, Offer};
use crate::timestamp_clock::Reading;
use crate::unseen::UnseenFlow;
use crate::vantage;
use crate::window_scale;

/// The smallest maximum segment size that Linux accepts (`TCP_MIN_MSS`: an IPv4 datagram that every host must accept,
/// with all options). With a smaller one, one captured packet could stand for thousands.
const SMALLEST_MSS: u16 = 88;

/// The window of a path with 1 Gbit/s and 1 s, or an equally large hole in the capture: no acknowledgment advances
/// further at once.
const LARGEST_STEP_BYTES: i64 = 1 << 27;

/// A connection that has packets again after this time is likely to have more: the packets of a flood's connections
/// arrive at once.
const LASTING_NS: i64 = 1_000_000_000;
/// A sender that waits for a window probes at least this often (Linux's `TCP_RTO_MAX`), so it counts as waiting for
/// this long after its last packet.
const PROBE_INTERVAL_NS: i64 = 120_000_000_000;

/// The SYN of one endpoint, and the state needed before data flows.
#[derive(Debug, Clone, Copy, Default)]
struct Opening {
    /// Sequence number of the SYN.
    syn: Option<u32>,
    offer: Option<Offer>,
    timestamps: bool,
    /// Timestamp in the latest SYN.
    ticks: u32,
    flags: TcpFlags,
    syns: u32,
    first_syn_ns: i64,
    last_syn_ns: i64,
    ttl: Option<u8>,
    /// Least and largest TTL of all packets except resets.
    ttls: Option<(u8, u8)>,
    /// Identification in the latest packet that is no reset.
    identification: Option<u16>,
    window: u16,
    /// Number in the latest packet with ACK.
    acknowledgment: u32,
    /// A packet with ACK was captured, and this many bytes were acknowledged by later ones.
    acknowledges: bool,
    acknowledged_bytes: u64,
    packets: u32,
    ip_bytes: u64,
    first_ns: i64,
    last_ns: i64,
    /// When its first FIN passed.
    finished_ns: Option<i64>,
}

impl Opening {
    /// Its sender's clock when the latest SYN left.
    fn clock(&self) -> Option<Reading> {
        self.syn.filter(|_| self.timestamps).map(|_| Reading {
            time_ns: self.last_syn_ns,
            ticks: self.ticks,
        })
    }

    fn acknowledge(&mut self, acknowledgment: u32, is_reset: bool) {
        if self.acknowledges && !is_reset {
            let more = i64::from(acknowledgment.wrapping_sub(self.acknowledgment) as i32);
            // a larger step is damaged or forged
            if (1..=LARGEST_STEP_BYTES).contains(&more) {
                self.acknowledged_bytes += more as u64;
            }
        }
        self.acknowledgment = acknowledgment;
        self.acknowledges |= !is_reset;
    }
}

#[derive(Debug)]
pub(crate) struct State {
    pub key: ConnectionKey,
    endpoints: [Endpoint; 2],
    /// True if endpoint 0 (the initiator) is the lower one of the key.
    pub initiator_is_low: bool,
    opening: [Opening; 2],
    /// The clock of a side without captured packets.
    echoed: Option<Box<Echoed>>,
    handshake: Handshake,
    reset: Option<Box<Reset>>,
    signs: Option<Box<ConnectionSigns>>,
    /// Allocated only for connections that carry data.
    halves: Option<Box<[Half; 2]>>,
    /// Direction of the latest new data.
    talking: Option<usize>,
    /// Among the ended connections, waiting for late packets.
    pub lingering: bool,
    /// Dropped because of a defect: its packets are ignored.
    pub abandoned: bool,
    /// Had packets since the last check for idle connections.
    pub active: bool,
}

impl State {
    pub fn new(
        key: ConnectionKey,
        source_is_low: bool,
        network: &Network,
        tcp: &TcpSegment,
    ) -> Self {
        let source = Endpoint {
            address: network.source,
            port: tcp.source_port,
        };
        let destination = Endpoint {
            address: network.destination,
            port: tcp.destination_port,
        };
        // a SYN/ACK without its SYN comes from the responder
        let answered = tcp.flags.has(TcpFlags::SYN) && tcp.flags.has(TcpFlags::ACK);
        let (endpoints, initiator_is_low) = if answered {
            ([destination, source], !source_is_low)
        } else {
            ([source, destination], source_is_low)
        };
        Self {
            key,
            endpoints,
            initiator_is_low,
            opening: [Opening::default(); 2],
            echoed: None,
            handshake: Handshake::default(),
            reset: None,
            signs: None,
            halves: None,
            talking: None,
            lingering: false,
            abandoned: false,
            active: false,
        }
    }

    /// Drops the connection; only its name is kept.
    pub fn abandon(&mut self, at_packet: Option<u64>, defect: Defect) -> Abandoned {
        let abandoned = Abandoned {
            endpoints: self.endpoints,
            packets: self.packets(),
            at_packet,
            defect,
        };
        self.opening = Default::default();
        self.handshake = Handshake::default();
        (self.echoed, self.reset, self.signs, self.halves) = (None, None, None, None);
        (self.lingering, self.abandoned) = (false, true);
        abandoned
    }

    /// Packets captured in both directions.
    pub fn packets(&self) -> u64 {
        self.opening
            .iter()
            .map(|opening| u64::from(opening.packets))
            .sum()
    }

    /// True if a connection has lasted and had packets since the last call.
    pub fn goes_on(&mut self) -> bool {
        let first_ns = self
            .opening
            .iter()
            .filter(|opening| opening.packets > 0)
            .map(|opening| opening.first_ns)
            .min()
            .unwrap_or(0);
        let last_ns = self.last_ns();
        std::mem::take(&mut self.active) && last_ns - first_ns > LASTING_NS
    }

    /// Resets it as if it had never existed, unless it carries data: its slot is free.
    pub fn clear(&mut self) {
        if self.halves.is_none() {
            self.opening = Default::default();
            self.reset = None;
        }
    }

    /// True if it carries data.
    pub fn has_data(&self) -> bool {
        self.halves.is_some()
    }

    /// Time of the latest packet of either side.
    pub fn last_ns(&self) -> i64 {
        self.opening[0].last_ns.max(self.opening[1].last_ns)
    }

    /// True once, when a connection with data has ended in both directions.
    pub fn begins_to_linger(&mut self) -> bool {
        let begins = self.is_over() && self.halves.is_some() && !self.lingering;
        self.lingering |= begins;
        begins
    }

    /// True if a SYN with a different sequence number opens a new connection on the same ports.
    pub fn is_reused_by(&self, direction: usize, tcp: &TcpSegment) -> bool {
        if !tcp.flags.has(TcpFlags::SYN) || tcp.flags.has(TcpFlags::RST) {
            return false;
        }
        let opening = &self.opening[direction];
        let over = self.reset.is_some()
            || self
                .opening
                .iter()
                .any(|opening| opening.finished_ns.is_some());
        match opening.syn {
            Some(syn) if syn == tcp.sequence => false,
            Some(_) => true,
            // no SYN of this side yet: this is the SYN/ACK of a new connection, unless data was captured before
            None => self.halves.is_some() && (over || !tcp.flags.has(TcpFlags::ACK)),
        }
    }

    pub fn take(
        &mut self,
        direction: usize,
        time_ns: i64,
        packet: u64,
        network: &Network,
        tcp: &TcpSegment,
        options: &TrackerOptions,
    ) {
        let is_reset = tcp.flags.has(TcpFlags::RST);
        self.look_for_old(direction, time_ns, packet, tcp);
        if is_reset && self.is_of_old(direction) {
            // of the earlier connection, not of this one
        } else if is_reset {
            self.note_reset(direction, time_ns, packet, network, tcp);
        } else {
            self.look_for_pause(direction, time_ns, packet, tcp);
            self.look_after_reset(direction, time_ns, packet);
        }
        let opening = &mut self.opening[direction];
        if !is_reset {
            let (least, largest) = opening.ttls.unwrap_or((network.ttl, network.ttl));
            opening.ttls = Some((least.min(network.ttl), largest.max(network.ttl)));
            opening.identification = network.identification;
            opening.window = tcp.window;
        }
        if tcp.flags.has(TcpFlags::ACK) {
            opening.acknowledge(tcp.acknowledgment, is_reset);
        }
        if opening.packets == 0 {
            opening.first_ns = time_ns;
            opening.ttl = Some(network.ttl);
        }
        opening.last_ns = opening.last_ns.max(time_ns);
        if self.opening[1 - direction].packets > 0 {
            self.echoed = None;
        } else if options.account_for_time
            && tcp.flags.has(TcpFlags::ACK)
            && tcp.options.timestamps.is_some()
        {
            self.echoed.get_or_insert_default().packet(time_ns, tcp);
        }
        let opening = &mut self.opening[direction];
        if tcp.flags.has(TcpFlags::FIN) {
            opening.finished_ns.get_or_insert(time_ns);
        }
        let syn = tcp.flags.has(TcpFlags::SYN);
        if syn {
            self.take_syn(direction, time_ns, packet, tcp);
        } else if self.handshake.ack_ns.is_none()
            && direction == 0
            && tcp.flags.has(TcpFlags::ACK)
            && self.handshake.syn_ack_ns.is_some()
        {
            self.handshake.ack_ns = Some(time_ns);
        }
        if self.halves.is_none() && !syn && !is_reset && tcp.options.timestamps.is_some() {
            // only if both sides agreed (RFC 7323, section 3.2), even if a SYN is missing
            self.opening
                .iter_mut()
                .for_each(|opening| opening.timestamps = true);
        }
        if self.halves.is_none() && tcp.payload_bytes > 0 && !is_reset {
            self.begin_data(options);
        }
        let Some(halves) = &mut self.halves else {
            let opening = &mut self.opening[direction];
            opening.packets += 1;
            opening.ip_bytes += u64::from(network.ip_bytes);
            return;
        };
        let opening = &mut self.opening[direction];
        opening.packets = opening.packets.saturating_add(1);
        let half = &mut halves[direction];
        half.flow.first_ns = if half.flow.first_ns == 0 {
            opening.first_ns
        } else {
            half.flow.first_ns
        };
        half.flow.last_ns = half.flow.last_ns.max(time_ns);
        if is_reset {
            half.flow.counters.packets += 1;
            return;
        }
        halves[1 - direction].end_silence(time_ns);
        if tcp.flags.has(TcpFlags::ACK) {
            acknowledge(&mut halves[1 - direction], time_ns, tcp, direction == 0);
        }
        if tcp.payload_bytes > 0 {
            self.take_data(direction, time_ns, packet, network, tcp);
        } else {
            let half = &mut halves[direction];
            if tcp.flags.has(TcpFlags::FIN) {
                half.on_end_of_sent(&data_packet(time_ns, packet, network, tcp));
            } else if !syn {
                half.on_bare_acknowledgment(time_ns, tcp.sequence);
                // it carries the number of the next byte to send (RFC 9293, section 3.10.7.4); a forged reset may not
                if !tcp.flags.has(TcpFlags::RST) && half.was_sent_unseen(tcp.sequence) {
                    half.on_end_of_sent(&data_packet(time_ns, packet, network, tcp));
                }
            }
            half.flow.counters.packets += 1;
            half.flow.counters.ip_bytes += u64::from(network.ip_bytes);
        }
    }

    fn take_syn(&mut self, direction: usize, time_ns: i64, packet: u64, tcp: &TcpSegment) {
        let opening = &mut self.opening[direction];
        if opening.syns == 0 {
            opening.first_syn_ns = time_ns;
        }
        let before = (opening.syns > 0).then_some(opening.flags);
        opening.syns = opening.syns.saturating_add(1);
        opening.last_syn_ns = time_ns;
        opening.flags = tcp.flags;
        opening.syn = Some(tcp.sequence);
        opening.offer = Some(Offer::of(tcp, packet));
        opening.timestamps = tcp.options.timestamps.is_some();
        opening.ticks = tcp.options.timestamps.map_or(0, |(value, _)| value);
        // a retransmitted SYN invalidates the time of the first: keep the last one before the answer
        if tcp.flags.has(TcpFlags::ACK) {
            self.handshake.syn_ack_ns = Some(time_ns);
            if self.halves.is_some() {
                self.agree_on_ecn(); // data came with the SYN (RFC 7413)
            }
        } else if self.handshake.syn_ack_ns.is_none() {
            self.handshake.syn_ns = Some(time_ns);
            if before.is_some_and(offers_ecn) && !offers_ecn(tcp.flags) {
                let signs = self.signs.get_or_insert_default();
                signs.ecn_withdrawn.get_or_insert(EcnWithdrawn {
                    after: self.opening[direction].syns - 1,
                    time_ns,
                    packet,
                });
            }
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

    /// Round-trip times to the initiator and to the responder.
    fn near_rtts_ns(&self) -> Option<(i64, i64)> {
        vantage::near_rtts(&self.handshake, self.opening[1].first_syn_ns)
    }

    /// Processes the first data: from here on both directions are followed in full.
    fn begin_data(&mut self, options: &TrackerOptions) {
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

    fn offers(&self) -> [Option<Offer>; 2] {
        [self.opening[0].offer, self.opening[1].offer]
    }

    fn agree_on_ecn(&mut self) {
        let ecn = self.ecn();
        for half in self.halves.iter_mut().flat_map(|halves| halves.iter_mut()) {
            half.flow.ecn = ecn;
            if ecn == Ecn::Accurate {
                half.ace = AceCounter::from_handshake();
            }
        }
    }

    /// The kind of ECN that the handshake negotiated.
    fn ecn(&self) -> Ecn {
        let [syn, syn_ack] = &self.opening;
        let offered = syn.syn.map(|_| Ecn::offered(syn.flags));
        match (offered, syn_ack.syn) {
            (Some(Ecn::Off), _) => Ecn::Off,
            (_, None) => Ecn::Unknown,
            (offered, Some(_)) => Ecn::agreed(offered, syn_ack.flags),
        }
    }

    fn ending(&self, now_ns: i64) -> Ending {
        let [initiator, responder] = &self.opening;
        let began = initiator.syns > 0;
        Ending {
            setup: Setup {
                syns: initiator.syns,
                syn_acks: responder.syns,
                first_syn_ns: began.then_some(initiator.first_syn_ns),
                last_syn_ns: began.then_some(initiator.last_syn_ns),
                ttl: initiator.ttl,
            },
            reset: self.reset.as_deref().copied(),
            closed: [initiator, responder].map(|opening| opening.finished_ns.is_some()),
            unanswered: [self.unanswered(0), self.unanswered(1)],
            is_answered: responder.packets > 0 || initiator.acknowledges,
            is_unreachable: self.is_syn_unreachable(),
            after_syn_ns: now_ns - initiator.last_syn_ns,
        }
    }

    fn unanswered(&self, direction: usize) -> Unanswered {
        let peer = &self.opening[1 - direction];
        let Some(halves) = &self.halves else {
            return Unanswered::default();
        };
        let half = &halves[direction];
        let last = half.silence.as_ref().and_then(|s| s.packets.last());
        Unanswered {
            repeats: half.silence.as_ref().map_or(0, |silence| silence.repeats),
            bytes: half.in_flight_bytes() as u64,
            last_answer_ns: (peer.packets > 0).then_some(peer.last_ns),
            last_sent_ns: half.last_sent_ns,
            packet: last
                .and_then(|number| u32::try_from(*number).ok())
                .unwrap_or(0),
        }
    }

    /// Builds the result for the whole connection; `now_ns` is the time of the capture's latest packet.
    fn connection(&self, now_ns: i64) -> Connection {
        let ending = self.ending(now_ns);
        let initiator = &self.opening[0];
        Connection {
            handshake: self.handshake,
            from_start: self.opening.iter().any(|opening| opening.syn.is_some()),
            outcome: ending.outcome(),
            setup: ending.setup,
            reset: self.reset.clone(),
            closed: ending.closed,
            closed_ns: [initiator.finished_ns, self.opening[1].finished_ns],
            unanswered: ending.unanswered,
            ecn_offered: match initiator.syn {
                Some(_) => Ecn::offered(initiator.flags),
                None => Ecn::Unknown,
            },
            signs: self.signs.clone(),
            ..Connection::default()
        }
    }

    /// Data acknowledged in a direction without captured packets.
    pub fn unseen(&self) -> Option<UnseenFlow> {
        let unseen = (0..2).find(|direction| self.opening[*direction].packets == 0)?;
        let by = &self.opening[1 - unseen];
        Some(UnseenFlow {
            source: self.endpoints[unseen],
            destination: self.endpoints[1 - unseen],
            bytes: by.acknowledged_bytes,
            lasted_ns: by.last_ns - by.first_ns,
        })
    }

    /// The result for a connection that failed without carrying data.
    pub fn failure(&self, now_ns: i64) -> Option<Connection> {
        let mut connection = self.connection(now_ns);
        let failed = connection.outcome.is_failure() || connection.taken_for_old().is_some();
        if self.abandoned || self.halves.is_some() || !failed {
            return None;
        }
        for (direction, flow) in connection.flows.iter_mut().enumerate() {
            let own = &self.opening[direction];
            flow.source = self.endpoints[direction];
            flow.destination = self.endpoints[1 - direction];
            (flow.first_ns, flow.last_ns) = (own.first_ns, own.last_ns);
            flow.counters.packets = u64::from(own.packets);
            flow.counters.ip_bytes = own.ip_bytes;
            self.add_signs(direction, flow);
        }
        Some(connection)
    }

    fn is_over(&self) -> bool {
        self.reset.is_some()
            || self
                .opening
                .iter()
                .all(|opening| opening.finished_ns.is_some())
    }

    /// The latest time until which a sender that waits for a window can be assumed to wait.
    fn waits_until_ns(&self, now_ns: i64) -> i64 {
        match self.is_over() {
            true => self.last_ns(),
            false => now_ns.clamp(self.last_ns(), self.last_ns() + PROBE_INTERVAL_NS),
        }
    }

    /// Returns the result for the connection, if it carried data, and clears it.
    pub fn finish(&mut self, now_ns: i64) -> Option<Connection> {
        let mut connection = self.connection(now_ns);
        let waits_until_ns = self.waits_until_ns(now_ns);
        let ended_ns = match self.is_over() {
            true => self.last_ns(),
            false => now_ns,
        };
        let halves = self.halves.take()?;
        let beginnings = [halves[0].beginning, halves[1].beginning];
        let sent = [halves[0].next, halves[1].next];
        connection.control = control::program(self.endpoints, beginnings, sent);
        connection.carries_load = control::carries_load(beginnings);
        let only_greet = control::only_greet(beginnings, sent);
        let ttls = [self.opening[0].ttl, self.opening[1].ttl];
        let near_rtts_ns = self.near_rtts_ns();
        let (mut echoes, [mut keep_acknowledgments, mut accounts]) = ([None, None], [false; 2]);
        for (direction, mut half) in halves.into_iter().enumerate() {
            half.end_closed_window(waits_until_ns);
            keep_acknowledgments = half.keep_acknowledgments;
            accounts = half.account_for_time;
            echoes[direction] = half.echoes.take();
            if let (Some(echoes), Some(first)) = (&mut echoes[direction], half.first_clock) {
                echoes.begin(self.opening[direction].clock(), first);
            }
            let open_hole = half.open_hole(ended_ns);
            let mut flow = half.finish();
            if open_hole.is_some() {
                flow.signs_mut().open_hole = open_hole;
            }
            if self.opening[1 - direction].packets == 0 {
                flow.believe_delivered();
            }
            self.add_signs(direction, &mut flow);
            flow.only_greets = only_greet[direction];
            let unanswered = connection.unanswered[direction];
            let dead = connection.outcome == Outcome::DataUnanswered && unanswered.is_dead();
            if dead {
                let since_ns = unanswered.last_answer_ns.unwrap_or(i64::MIN);
                flow.signs_mut().unanswered_since_ns = Some(since_ns);
            }
            connection.flows[direction] = flow;
        }
        let near_rtts_ns =
            near_rtts_ns.or_else(|| vantage::near_rtts_by_requests(&connection.flows, ttls));
        for (direction, flow) in connection.flows.iter_mut().enumerate() {
            flow.vantage = vantage::vantage(near_rtts_ns, ttls, direction);
        }
        for direction in (0..2).filter(|_| accounts) {
            let alone = self.opening[1 - direction].packets == 0;
            let echoed = self.echoed.as_deref().filter(|_| alone);
            let echoes = echoes[direction].as_deref();
            account_for_time(&mut connection, direction, near_rtts_ns, echoes, echoed);
        }
        if !keep_acknowledgments {
            for flow in &mut connection.flows {
                flow.acknowledgments = Vec::new();
            }
        }
        Some(connection)
    }
}

/// True if a SYN offers ECN with ECE and CWR (RFC 3168, section 6.1.1).
fn offers_ecn(flags: TcpFlags) -> bool {
    flags.has(TcpFlags::ECE) && flags.has(TcpFlags::CWR)
}

fn account_for_time(
    connection: &mut Connection,
    direction: usize,
    near_rtts_ns: Option<(i64, i64)>,
    echoes: Option<&Echoes>,
    echoed: Option<&Echoed>,
) {
    let handshake = connection.handshake;
    let is_responder = direction == connection.responder();
    let [flow, other] = &mut connection.flows;
    let (flow, other) = match direction {
        0 => (flow, other),
        _ => (other, flow),
    };
    let opened_ns = [handshake.syn_ns, handshake.syn_ack_ns][usize::from(is_responder)];
    let inferred = echoed.and_then(|echoed| echoed.infer(flow, opened_ns, echoes));
    let echoed_rtt_ns = inferred.as_ref().map(|inferred| inferred.round_trip_ns);
    let late_ns = inferred.as_ref().map_or(0, |inferred| inferred.late_ns);
    let mut answers = Vec::new();
    if let Some(inferred) = inferred {
        flow.divide(inferred.answers.iter().map(|answer| answer.0));
        for (index, rtt_ns) in inferred.round_trips_ns {
            let segment = &mut flow.segments[index];
            segment.rtt_ns = rtt_ns;
            segment.flags.set(SegmentFlags::RTT_EXACT);
        }
        (flow.acknowledgments, answers) = (inferred.acknowledgments, inferred.answers);
    }
    let near_rtts_ns = near_rtts_ns.map(|(initiator, responder)| match direction {
        0 => (initiator, responder),
        _ => (responder, initiator),
    });
    if flow.window_scale.is_none() && echoed_rtt_ns.is_none() {
        let clock = SenderClock::of(flow, near_rtts_ns.map(|(near, _)| near), echoes);
        window_scale::infer(flow, &clock);
    }
    let unseen_ns = unseen_requests_ns(other, &handshake);
    let until = |passed: usize| passed.checked_sub(1);
    let request_until = |until_ns: i64| match echoed_rtt_ns {
        Some(_) => Some(answers[until(answers.partition_point(|a| a.1 <= until_ns))?].1),
        None => {
            let requests = &other.segments;
            let seen = until(requests.partition_point(|s| s.time_ns <= until_ns));
            let unseen = until(unseen_ns.partition_point(|ns| *ns <= until_ns));
            let seen_ns = seen.map(|index| requests[index].time_ns);
            seen_ns.max(unseen.map(|index| unseen_ns[index]))
        }
    };
    let account = account(&AccountInput {
        flow,
        request_until: &request_until,
        handshake,
        is_responder,
        near_rtts_ns,
        echoes,
        echoed_rtt_ns,
    });
    flow.account = account.map(|mut account| {
        if let Some(clocks) = &mut account.by_clocks {
            clocks.late_ns = late_ns;
        }
        account
    });
    if echoed_rtt_ns.is_some() {
        flow.acknowledgments = Vec::new(); // only what was captured is kept for charts
    }
}

/// When data that the capture missed was acknowledged: it had arrived before. The first request of a connection follows
/// the handshake.
fn unseen_requests_ns(requests: &Flow, handshake: &Handshake) -> Vec<i64> {
    let mut segments = requests.segments.iter().peekable();
    let mut captured = None;
    let unseen_ns = requests
        .acknowledgments
        .iter()
        .filter_map(|acknowledgment| {
            while let Some(segment) =
                segments.next_if(|segment| segment.time_ns <= acknowledgment.time_ns)
            {
                captured = captured.max(Some(segment.end()));
            }
            let is_first = captured.is_none();
            // the FIN takes a sequence number too
            let beyond = acknowledgment.acknowledged > captured.unwrap_or(0) + 1;
            captured = captured.max(Some(acknowledgment.acknowledged));
            beyond.then_some(match handshake.ack_ns {
                Some(ack_ns) if is_first => ack_ns,
                _ => acknowledgment.time_ns,
            })
        });
    unseen_ns.collect()
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
