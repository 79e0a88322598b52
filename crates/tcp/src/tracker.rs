//! Packets to connections: finds the connection of each packet and feeds both of its directions.

use std::collections::VecDeque;

use whydrop_capture::{Network, Packet, TcpFlags, TcpSegment, Transport};

use crate::acknowledgments::AckPacket;
use crate::flow::{Connection, Endpoint, Handshake};
use crate::hash::{ConnectionKey, ConnectionMap};
use crate::scoreboard::Half;
use crate::sequence::Unwrapper;
use crate::small::{Completed, SMALL_PACKETS, SmallConnections};
use crate::transmissions::DataPacket;
use crate::vantage;

/// What the tracker keeps.
#[derive(Debug, Clone)]
pub struct TrackerOptions {
    /// Keep acknowledgments and SACK blocks (charts need them, verdicts do not).
    pub keep_acknowledgments: bool,
    /// Connections without data to remember at most: a SYN flood must not fill the memory. The oldest are forgotten
    /// first and counted in [`Tracked::forgotten`].
    pub most_without_data: usize,
    /// Small connections with data (fewer than [`SMALL_PACKETS`] packets) to follow at most at one time: those idle
    /// for longest are completed before their end. What comes of them later is another connection.
    pub most_small_open: usize,
    /// Small connections to keep at most, those with most losses and data. The others are summed up in
    /// [`Tracked::small`].
    pub most_small: usize,
}

impl Default for TrackerOptions {
    fn default() -> Self {
        Self {
            keep_acknowledgments: false,
            most_without_data: 1 << 16,
            most_small_open: 1 << 15,
            most_small: 1 << 14,
        }
    }
}

/// The largest scaled window (RFC 7323): nothing acknowledged can be further from what was sent.
pub(crate) const PLAUSIBLE_BYTES: i64 = 1 << 30;
/// Times outside 1970 to 2116 are those of a broken clock or a damaged file. Inside, differences fit 64 bits.
const PLAUSIBLE_TIMES_NS: std::ops::RangeInclusive<i64> = 0..=1 << 62;
/// What Linux takes for a maximum segment size that makes sense (`TCP_MIN_MSS`: an IPv4 datagram that every host
/// must accept, with all options): a smaller one would let one captured packet stand for thousands.
const SMALLEST_MSS: u16 = 88;

/// Ended connections are kept open for packets that come late: for the time that a closed one keeps its ports
/// (TIME-WAIT of Linux; RFC 9293 asks for twice the segment lifetime) ...
const LINGER_NS: i64 = 60_000_000_000;
/// ... but no more than this many, since an open one takes several times the memory.
const MOST_LINGERING: usize = 1 << 14;
/// A connection that has packets again after this time is likely to have more: those of a flood come at once.
const LASTING_NS: i64 = 1_000_000_000;

/// What the tracker found.
#[derive(Debug, Default)]
pub struct Tracked {
    /// Connections that carried data, in the order of their first packet.
    pub connections: Vec<Connection>,
    /// Further connections that carried data, too small and too many to be among them.
    pub small: SmallConnections,
    /// Connections that never carried data.
    pub without_data: u64,
    /// Of those, how many were forgotten before the end of the capture to bound memory.
    pub forgotten: u64,
    /// TCP packets.
    pub packets: u64,
}

/// The SYN of one endpoint and the little that is known of it before data flows.
#[derive(Debug, Clone, Copy, Default)]
struct Opening {
    /// Sequence number of the SYN.
    syn: Option<u32>,
    mss: Option<u16>,
    window_scale: Option<u8>,
    sack_permitted: bool,
    timestamps: bool,
    ttl: Option<u8>,
    packets: u32,
    ip_bytes: u64,
    first_ns: i64,
    last_ns: i64,
    finished: bool,
}

#[derive(Debug)]
struct State {
    key: ConnectionKey,
    endpoints: [Endpoint; 2],
    /// Whether endpoint 0 (the initiator) is the lower one of the key.
    initiator_is_low: bool,
    opening: [Opening; 2],
    handshake: Handshake,
    reset: bool,
    /// Only connections that carry data have halves.
    halves: Option<Box<[Half; 2]>>,
    /// Direction of the latest new data.
    talking: Option<usize>,
    /// Waits among the ended connections for late packets.
    lingering: bool,
    /// Had packets since it was last looked at as one that might be idle.
    active: bool,
}

/// Follows every TCP connection of a capture.
#[derive(Debug, Default)]
pub struct Tracker {
    options: TrackerOptions,
    index: ConnectionMap<u32>,
    states: Vec<State>,
    /// Slots of forgotten connections, to be used again.
    free: Vec<u32>,
    /// Connections without data, oldest first; some may have got data since.
    waiting: VecDeque<(u32, ConnectionKey)>,
    /// Ended connections with data, and when they ended, oldest first.
    ended: VecDeque<(u32, ConnectionKey, i64)>,
    /// Connections with data, in the order in which they were last looked at; some may have ended or grown since.
    small_open: VecDeque<(u32, ConnectionKey)>,
    complete: Completed,
    last: Option<(ConnectionKey, u32)>,
    without_data: u64,
    forgotten: u64,
    packets: u64,
}

impl Tracker {
    pub fn new(options: TrackerOptions) -> Self {
        let options = TrackerOptions {
            // the connection at hand must stay
            most_without_data: options.most_without_data.max(1),
            most_small_open: options.most_small_open.max(1),
            ..options
        };
        Self {
            complete: Completed::new(options.most_small),
            options,
            ..Self::default()
        }
    }

    /// Takes the next packet of the capture; anything but TCP is ignored.
    #[inline]
    pub fn push(&mut self, packet: &Packet) {
        let (Some(network), Transport::Tcp(tcp)) = (&packet.network, &packet.transport) else {
            return;
        };
        self.packets += 1;
        let (key, source_is_low) = ConnectionKey::new(
            network.source,
            tcp.source_port,
            network.destination,
            tcp.destination_port,
        );
        let (&first, &last) = (PLAUSIBLE_TIMES_NS.start(), PLAUSIBLE_TIMES_NS.end());
        let time_ns = packet.time_ns.clamp(first, last);
        let slot = self.slot(time_ns, key, source_is_low, network, tcp);
        let state = &mut self.states[slot as usize];
        let direction = usize::from(source_is_low != state.initiator_is_low);
        let had_data = state.halves.is_some();
        state.take(direction, time_ns, network, tcp, &self.options);
        state.active = true;
        if tcp.flags.has(TcpFlags::FIN | TcpFlags::RST) && state.begins_to_linger() {
            self.ended.push_back((slot, key, time_ns));
        }
        if !had_data && state.halves.is_some() {
            self.small_open.push_back((slot, key));
            self.complete_idle();
        }
    }

    /// Room for connections that are followed: those with data that have not ended, and the latest others.
    pub fn slots(&self) -> usize {
        self.states.len()
    }

    fn slot(
        &mut self,
        time_ns: i64,
        key: ConnectionKey,
        source_is_low: bool,
        network: &Network,
        tcp: &TcpSegment,
    ) -> u32 {
        let known = match self.last {
            Some((last, slot)) if last == key => Some(slot),
            _ => self.index.get(&key).copied(),
        };
        if let Some(slot) = known {
            let state = &self.states[slot as usize];
            let direction = usize::from(source_is_low != state.initiator_is_low);
            if !state.is_reused_by(direction, tcp) {
                self.last = Some((key, slot));
                return slot;
            }
            let slot = self.retire(slot, key, source_is_low, network, tcp);
            self.last = Some((key, slot));
            return slot;
        }
        self.complete_ended(time_ns);
        let state = State::new(key, source_is_low, network, tcp);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.states[slot as usize] = state;
                slot
            }
            None => {
                self.states.push(state);
                (self.states.len() - 1) as u32
            }
        };
        self.index.insert(key, slot);
        self.waiting.push_back((slot, key));
        self.forget_oldest();
        self.last = Some((key, slot));
        slot
    }

    /// The ports are used again: the old connection is complete, the new one takes its slot.
    fn retire(
        &mut self,
        slot: u32,
        key: ConnectionKey,
        source_is_low: bool,
        network: &Network,
        tcp: &TcpSegment,
    ) -> u32 {
        let fresh = State::new(key, source_is_low, network, tcp);
        let mut old = std::mem::replace(&mut self.states[slot as usize], fresh);
        let packets = old.packets();
        if let Some(connection) = old.finish() {
            self.complete.take(connection, packets);
            self.waiting.push_back((slot, key));
        } else {
            self.without_data += 1;
        }
        slot
    }

    /// Makes compact what has ended a while ago, and frees its slot.
    fn complete_ended(&mut self, now_ns: i64) {
        while let Some(&(slot, key, ended_ns)) = self.ended.front() {
            let crowded = self.ended.len() > MOST_LINGERING;
            if !crowded && now_ns - ended_ns < LINGER_NS {
                return;
            }
            self.ended.pop_front();
            let state = &mut self.states[slot as usize];
            if state.key != key || !state.lingering || self.index.get(&key) != Some(&slot) {
                continue; // the ports were used again since
            }
            let last_ns = state.opening[0].last_ns.max(state.opening[1].last_ns);
            if !crowded && last_ns - ended_ns > LINGER_NS / 2 {
                // a reset that was forged, or not believed: it goes on
                self.ended.push_back((slot, key, last_ns));
                continue;
            }
            self.complete(slot, key);
        }
    }

    /// Makes room: completes small connections that are idle, or have been followed for longest.
    fn complete_idle(&mut self) {
        while self.small_open.len() > self.options.most_small_open
            && let Some((slot, key)) = self.small_open.pop_front()
        {
            let state = &mut self.states[slot as usize];
            let is_open = state.key == key && self.index.get(&key) == Some(&slot);
            if !is_open || state.halves.is_none() || state.packets() >= SMALL_PACKETS {
                continue;
            }
            if state.goes_on() {
                self.small_open.push_back((slot, key));
                continue;
            }
            self.complete(slot, key);
        }
    }

    /// Makes a connection compact and frees its slot.
    fn complete(&mut self, slot: u32, key: ConnectionKey) {
        let state = &mut self.states[slot as usize];
        let packets = state.packets();
        if let Some(connection) = state.finish() {
            self.complete.take(connection, packets);
        }
        self.index.remove(&key);
        self.free.push(slot);
        if self.last == Some((key, slot)) {
            self.last = None;
        }
    }

    /// Makes room: drops the oldest connections that carried no data.
    fn forget_oldest(&mut self) {
        while self.waiting.len() > self.options.most_without_data
            && let Some((slot, key)) = self.waiting.pop_front()
        {
            let state = &self.states[slot as usize];
            if state.key != key || state.halves.is_some() || self.index.get(&key) != Some(&slot) {
                continue;
            }
            self.index.remove(&key);
            self.free.push(slot);
            self.forgotten += 1;
            self.without_data += 1;
        }
    }

    /// Completes every connection.
    pub fn finish(mut self) -> Tracked {
        let mut tracked = Tracked {
            without_data: self.without_data,
            forgotten: self.forgotten,
            packets: self.packets,
            ..Tracked::default()
        };
        self.index = ConnectionMap::default();
        let free = self.free.len() as u64;
        for mut state in self.states {
            let packets = state.packets();
            match state.finish() {
                Some(connection) => self.complete.take(connection, packets),
                None => tracked.without_data += 1,
            }
        }
        tracked.without_data -= free;
        (tracked.connections, tracked.small) = self.complete.finish();
        // in place: a stable sort would copy half of all connections
        tracked.connections.sort_unstable_by_key(|connection| {
            let [one, other] = &connection.flows;
            (
                one.first_ns.min(other.first_ns),
                one.source,
                one.destination,
            )
        });
        tracked
    }
}

impl State {
    fn new(key: ConnectionKey, source_is_low: bool, network: &Network, tcp: &TcpSegment) -> Self {
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
            handshake: Handshake::default(),
            reset: false,
            halves: None,
            talking: None,
            lingering: false,
            active: false,
        }
    }

    /// Captured of both directions.
    fn packets(&self) -> u64 {
        self.opening
            .iter()
            .map(|opening| u64::from(opening.packets))
            .sum()
    }

    /// Whether a connection that has lasted had packets since this was last asked.
    fn goes_on(&mut self) -> bool {
        let first_ns = self
            .opening
            .iter()
            .filter(|opening| opening.packets > 0)
            .map(|opening| opening.first_ns)
            .min()
            .unwrap_or(0);
        let last_ns = self.opening[0].last_ns.max(self.opening[1].last_ns);
        std::mem::take(&mut self.active) && last_ns - first_ns > LASTING_NS
    }

    /// True once, when a connection with data has ended in both directions.
    fn begins_to_linger(&mut self) -> bool {
        let over = self.reset || self.opening.iter().all(|opening| opening.finished);
        let begins = over && self.halves.is_some() && !self.lingering;
        self.lingering |= begins;
        begins
    }

    /// A SYN with another sequence number than the connection's own opens a new connection on the same ports.
    fn is_reused_by(&self, direction: usize, tcp: &TcpSegment) -> bool {
        if !tcp.flags.has(TcpFlags::SYN) || tcp.flags.has(TcpFlags::RST) {
            return false;
        }
        let opening = &self.opening[direction];
        let over = self.reset || self.opening.iter().any(|opening| opening.finished);
        match opening.syn {
            Some(syn) if syn == tcp.sequence => false,
            Some(_) => true,
            // no SYN of this side yet: the SYN/ACK of a new connection, unless data has flowed before it
            None => self.halves.is_some() && (over || !tcp.flags.has(TcpFlags::ACK)),
        }
    }

    fn take(
        &mut self,
        direction: usize,
        time_ns: i64,
        network: &Network,
        tcp: &TcpSegment,
        options: &TrackerOptions,
    ) {
        let opening = &mut self.opening[direction];
        if opening.packets == 0 {
            opening.first_ns = time_ns;
            opening.ttl = Some(network.ttl);
        }
        opening.last_ns = opening.last_ns.max(time_ns);
        opening.finished |= tcp.flags.has(TcpFlags::FIN);
        self.reset |= tcp.flags.has(TcpFlags::RST);
        let syn = tcp.flags.has(TcpFlags::SYN);
        if syn {
            self.take_syn(direction, time_ns, tcp);
        } else if self.handshake.ack_ns.is_none()
            && direction == 0
            && tcp.flags.has(TcpFlags::ACK)
            && self.handshake.syn_ack_ns.is_some()
        {
            self.handshake.ack_ns = Some(time_ns);
        }
        if self.halves.is_none() && tcp.payload_bytes > 0 && !tcp.flags.has(TcpFlags::RST) {
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
        if tcp.flags.has(TcpFlags::RST) {
            half.flow.counters.packets += 1;
            return;
        }
        if tcp.flags.has(TcpFlags::ACK) {
            acknowledge(&mut halves[1 - direction], time_ns, tcp);
        }
        if tcp.payload_bytes > 0 {
            self.take_data(direction, time_ns, network, tcp, syn);
        } else {
            let half = &mut halves[direction];
            if tcp.flags.has(TcpFlags::FIN) {
                half.on_bare_fin(&data_packet(time_ns, network, tcp));
            }
            half.flow.counters.packets += 1;
            half.flow.counters.ip_bytes += u64::from(network.ip_bytes);
        }
    }

    fn take_syn(&mut self, direction: usize, time_ns: i64, tcp: &TcpSegment) {
        let opening = &mut self.opening[direction];
        opening.syn = Some(tcp.sequence);
        opening.mss = tcp.options.mss;
        opening.window_scale = tcp.options.window_scale;
        opening.sack_permitted = tcp.options.sack_permitted;
        opening.timestamps = tcp.options.timestamps.is_some();
        // a repeated SYN makes the time of the first useless: keep the last one before the answer
        if tcp.flags.has(TcpFlags::ACK) {
            self.handshake.syn_ack_ns = Some(time_ns);
        } else if self.handshake.syn_ack_ns.is_none() {
            self.handshake.syn_ns = Some(time_ns);
        }
    }

    fn take_data(
        &mut self,
        direction: usize,
        time_ns: i64,
        network: &Network,
        tcp: &TcpSegment,
        syn: bool,
    ) {
        let Some(halves) = &mut self.halves else {
            return;
        };
        let sequence = tcp.sequence.wrapping_add(u32::from(syn));
        let half = &halves[direction];
        let is_new = half
            .unwrapper
            .is_none_or(|u| u.relative(sequence) + i64::from(tcp.payload_bytes) > half.next);
        // both sides may talk at once; a transfer ends when the other side speaks after having got all of it
        let other_is_quiet = halves[1 - direction].in_flight_bytes() == 0;
        if is_new && self.talking != Some(direction) && (other_is_quiet || self.talking.is_none()) {
            halves[direction].begin_transfer(time_ns);
            self.talking = Some(direction);
        } else if is_new && halves[direction].flow.transfers.is_empty() {
            halves[direction].begin_transfer(time_ns);
        }
        halves[direction].on_data(&DataPacket {
            sequence,
            ..data_packet(time_ns, network, tcp)
        });
    }

    /// The first data: from here on both directions are followed in full.
    fn begin_data(&mut self, options: &TrackerOptions) {
        let mut halves: Box<[Half; 2]> = Box::default();
        let both_scale = self
            .opening
            .iter()
            .all(|opening| opening.window_scale.is_some());
        let both_syns = self.opening.iter().all(|opening| opening.syn.is_some());
        let near = vantage::near_rtts(&self.handshake);
        for (direction, half) in halves.iter_mut().enumerate() {
            let (own, peer) = (&self.opening[direction], &self.opening[1 - direction]);
            half.keep_acknowledgments = options.keep_acknowledgments;
            half.flow.source = self.endpoints[direction];
            half.flow.destination = self.endpoints[1 - direction];
            half.flow.first_ns = own.first_ns;
            half.flow.last_ns = own.last_ns;
            half.flow.counters.packets = u64::from(own.packets);
            half.flow.counters.ip_bytes = own.ip_bytes;
            half.flow.sack_permitted = own.sack_permitted && peer.sack_permitted;
            half.flow.timestamps = own.timestamps && peer.timestamps;
            if let Some(syn) = own.syn {
                half.unwrapper = Some(Unwrapper::new(syn.wrapping_add(1)));
                half.from_first_byte = true;
            }
            if both_syns {
                // without the option on both sides windows are not scaled (RFC 7323, section 2.2)
                let shift = if both_scale {
                    peer.window_scale.unwrap_or(0).min(14)
                } else {
                    0
                };
                half.window_shift = Some(shift);
                // absent option: the default of RFC 9293, section 3.7.1
                let options_bytes = if half.flow.timestamps { 12 } else { 0 };
                let announced = own.mss.unwrap_or(536).min(peer.mss.unwrap_or(536));
                half.announced_mss = Some(u32::from(announced.max(SMALLEST_MSS)) - options_bytes);
            }
            if let Some((initiator, responder)) = near {
                half.near_rtt_ns = if direction == 0 { initiator } else { responder };
            }
        }
        self.halves = Some(halves);
    }

    /// What became of the connection; nothing is left of it here.
    fn finish(&mut self) -> Option<Connection> {
        let halves = self.halves.take()?;
        let ttls = [self.opening[0].ttl, self.opening[1].ttl];
        let mut connection = Connection {
            handshake: self.handshake,
            from_start: self.opening.iter().any(|opening| opening.syn.is_some()),
            ..Connection::default()
        };
        for (direction, half) in halves.into_iter().enumerate() {
            let mut flow = half.finish();
            flow.vantage = vantage::vantage(&self.handshake, ttls, direction);
            connection.flows[direction] = flow;
        }
        Some(connection)
    }
}

fn data_packet(time_ns: i64, network: &Network, tcp: &TcpSegment) -> DataPacket {
    let header_bytes = network.ip_bytes.saturating_sub(tcp.payload_bytes);
    DataPacket {
        time_ns,
        sequence: tcp.sequence,
        payload_bytes: tcp.payload_bytes,
        header_bytes: header_bytes.min(u32::from(u16::MAX)) as u16,
        timestamp: tcp.options.timestamps.map(|(value, _)| value),
        identification: network.identification,
        congestion_experienced: network.ecn == 3,
    }
}

fn acknowledge(half: &mut Half, time_ns: i64, tcp: &TcpSegment) {
    // an acknowledgment that is nowhere near what was sent is damaged or forged
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
    half.on_acknowledgment(&AckPacket {
        time_ns,
        acknowledgment: tcp.acknowledgment,
        window: tcp.window,
        syn: tcp.flags.has(TcpFlags::SYN),
        sack_blocks: tcp.options.sack_blocks(),
        echo: tcp.options.timestamps.map(|(_, echo)| echo),
        // on a SYN the flag only offers ECN (RFC 3168, section 6.1.1)
        ecn_echo: tcp.flags.has(TcpFlags::ECE) && !tcp.flags.has(TcpFlags::SYN),
        pure: tcp.payload_bytes == 0 && plain,
    });
}
