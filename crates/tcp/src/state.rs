//! One connection while it is followed: its state, and how each packet changes it.

mod accounting;
mod data;
mod ending;
mod opening;
mod trouble;

use whydrop_capture::{Defect, Network, TcpFlags, TcpSegment};

use crate::abandoned::Abandoned;
use crate::echoed::Echoed;
use crate::flow::{Endpoint, Handshake};
use crate::half::Half;
use crate::key::ConnectionKey;
use crate::options::TrackerOptions;
use crate::outcome::Reset;
use crate::signs::ConnectionSigns;
use opening::Opening;

/// A connection that has packets again after this time is likely to have more: the packets of a flood's connections
/// arrive at once.
const LASTING_NS: i64 = 1_000_000_000;

/// One connection while it is followed.
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

    /// Processes the connection's next packet.
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
        self.look_for_trouble(direction, time_ns, packet, network, tcp);
        self.note_headers(direction, time_ns, network, tcp);
        self.note_echoes(direction, time_ns, tcp, options);
        self.note_handshake(direction, time_ns, packet, tcp);
        if self.halves.is_none() && tcp.payload_bytes > 0 && !is_reset {
            self.begin_data(options);
        }
        let opening = &mut self.opening[direction];
        opening.packets = opening.packets.saturating_add(1);
        match self.halves {
            Some(_) => self.take_in_full(direction, time_ns, packet, network, tcp),
            None => opening.ip_bytes += u64::from(network.ip_bytes),
        }
    }

    fn note_headers(
        &mut self,
        direction: usize,
        time_ns: i64,
        network: &Network,
        tcp: &TcpSegment,
    ) {
        let is_reset = tcp.flags.has(TcpFlags::RST);
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
        if tcp.flags.has(TcpFlags::FIN) {
            opening.finished_ns.get_or_insert(time_ns);
        }
        if opening.packets == 0 {
            opening.first_ns = time_ns;
            opening.ttl = Some(network.ttl);
        }
        opening.last_ns = opening.last_ns.max(time_ns);
    }

    /// Registers the peer's clock in the packets of one direction, as long as the peer has no captured packets.
    fn note_echoes(
        &mut self,
        direction: usize,
        time_ns: i64,
        tcp: &TcpSegment,
        options: &TrackerOptions,
    ) {
        if self.opening[1 - direction].packets > 0 {
            self.echoed = None;
        } else if options.account_for_time
            && tcp.flags.has(TcpFlags::ACK)
            && tcp.options.timestamps.is_some()
        {
            self.echoed.get_or_insert_default().packet(time_ns, tcp);
        }
    }

    fn note_handshake(&mut self, direction: usize, time_ns: i64, packet: u64, tcp: &TcpSegment) {
        let has = |flag| tcp.flags.has(flag);
        let Handshake {
            syn_ack_ns, ack_ns, ..
        } = self.handshake;
        if has(TcpFlags::SYN) {
            self.take_syn(direction, time_ns, packet, tcp);
        } else if direction == 0 && has(TcpFlags::ACK) && ack_ns.is_none() && syn_ack_ns.is_some() {
            self.handshake.ack_ns = Some(time_ns);
        }
        let is_plain = !has(TcpFlags::SYN) && !has(TcpFlags::RST);
        if self.halves.is_none() && is_plain && tcp.options.timestamps.is_some() {
            // only if both sides agreed (RFC 7323, section 3.2), even if a SYN is missing
            for opening in &mut self.opening {
                opening.timestamps = true;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.reset.is_some()
            || self
                .opening
                .iter()
                .all(|opening| opening.finished_ns.is_some())
    }
}
