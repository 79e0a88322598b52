//! Packets other than TCP in one capture: UDP flows, requests and their answers, echo requests, ICMP errors.
//!
//! Datagrams are not acknowledged. One capture shows their loss only if a protocol numbers its packets in the clear,
//! and their delay only if it marks round trips or answers each request:
//!
//! | module | contents |
//! |---|---|
//! | `exchange`, `messages`, `dns` | requests: when they were answered, unanswered, or refused |
//! | `repeats` | the same for unknown protocols, from repeated payloads |
//! | `echo` | echo requests (`ping`) and their replies |
//! | `reports` | ICMP errors: the sender, the error, and the packets quoted |
//! | `tls` | TLS handshakes that one side ended with an alert in the clear |
//! | [`rtp`] | RTP (RFC 3550): loss, duplicates, reordering, interarrival jitter, from its header's numbers and timestamps |
//! | `rtcp` | its receivers' reports: losses, jitter, round trips |
//! | [`voice`] | the effect of loss on speech, by the E-model (ITU-T G.107) |
//! | [`spin`] | QUIC's latency spin bit (RFC 9000, section 17.4): round-trip times |
//! | `flow` | the flows, with marks of congestion (RFC 3168) |
//! | `info` | all of it in the shape of the JSON document |
//!
//! Of all other flows only the size is known. The tables are bounded, whatever a capture contains.

#![forbid(unsafe_code)]

mod dns;
mod echo;
mod exchange;
mod flow;
mod info;
mod measuring;
mod messages;
mod repeats;
mod reports;
pub mod rtcp;
pub mod rtp;
pub mod spin;
mod tls;
pub mod voice;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::IpAddr;

use whydrop_capture::{Defect, Packet, TcpSegment, Transport, contain};

use echo::Echoes;
pub use echo::Pings;
pub use exchange::{Exchanged, SLOW_NS, Server};
use exchange::{Exchanges, Seen};
use flow::Key;
pub use flow::{Datagrams, Flow};
pub use info::{DatagramsInfo, ServerInfo};
pub use messages::Service;
use reports::Reports;
pub use reports::{Report, is_probe_of_the_way};
use rtcp::ControlReports;
pub use tls::Alert;
use tls::Alerts;

/// The most flows followed at one time; beyond it those with the fewest packets are dropped.
const MOST_FLOWS: usize = 1 << 13;

/// DNS over TCP (RFC 7766).
const DNS: u16 = 53;

/// Follows the UDP flows of a capture, requests and ICMP.
#[derive(Debug, Default)]
pub struct DatagramTracker {
    places: HashMap<Key, usize>,
    flows: Vec<Flow>,
    dropped: Dropped,
    exchanges: Exchanges,
    echoes: Echoes,
    reports: Reports,
    alerts: Alerts,
    control: ControlReports,
    /// Keep each packet of RTP streams, which charts need.
    keeps_streams: bool,
    now_ns: i64,
    /// The defect that ended tracking: later packets are ignored.
    defect: Option<Defect>,
}

/// Flows that were dropped, and their packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    pub flows: u64,
    pub packets: u64,
    pub ip_bytes: u64,
}

impl DatagramTracker {
    /// A tracker that also keeps each packet of RTP streams, which charts need.
    pub fn keeping_streams(keeps_streams: bool) -> Self {
        Self {
            keeps_streams,
            ..Self::default()
        }
    }

    /// Processes the next packet of the capture.
    #[inline]
    pub fn push(&mut self, packet: &Packet) {
        if self.defect.is_some() {
            return;
        }
        if let Err(defect) = contain(|| self.take(packet)) {
            *self = Self {
                defect: Some(defect),
                ..Self::default()
            };
        }
    }

    #[inline]
    fn take(&mut self, packet: &Packet) {
        self.now_ns = self.now_ns.max(packet.time_ns);
        match &packet.transport {
            Transport::Udp { .. } => self.push_datagram(packet),
            Transport::Icmp { .. } => self.push_icmp(packet),
            Transport::Tcp(tcp) => self.push_segment(packet, tcp),
            _ => {}
        }
    }

    fn push_segment(&mut self, packet: &Packet, tcp: &TcpSegment) {
        self.alerts.take(packet, tcp);
        let ports = (tcp.source_port, tcp.destination_port);
        if (ports.0 == DNS || ports.1 == DNS)
            && let Some(seen) = seen(packet, ports)
        {
            self.exchanges.take_segment(&seen, tcp.payload);
        }
    }

    fn push_datagram(&mut self, packet: &Packet) {
        let (
            Some(network),
            &Transport::Udp {
                source_port,
                destination_port,
                payload_bytes,
                payload,
            },
        ) = (&packet.network, &packet.transport)
        else {
            return;
        };
        let ports = (source_port, destination_port);
        let is_part = seen(packet, ports)
            .is_some_and(|seen| self.exchanges.take(&seen, payload_bytes, payload));
        if rtcp::is_control(payload) {
            self.control.take(packet.time_ns, network.source, payload);
        }
        let source = (network.source, source_port);
        let destination = (network.destination, destination_port);
        let place = self.place(source, destination);
        if let Some(flow) = self.flows.get_mut(place) {
            flow.is_exchange |= is_part;
            flow.take(packet, network, payload_bytes, payload);
        }
    }

    fn push_icmp(&mut self, packet: &Packet) {
        self.echoes.take(packet);
        let Some((network, error)) = packet.network.zip(packet.icmp_error()) else {
            return;
        };
        let source = (error.source, error.source_port);
        let destination = (error.destination, error.destination_port);
        let flow = self.places.get(&(source, destination));
        let flow = flow.and_then(|place| self.flows.get(*place));
        let echoed = || {
            let identifier = u16::try_from(error.sequence? >> 16).ok()?;
            self.echoes.ttl(error.source, error.destination, identifier)
        };
        let ttl = flow.map(|flow| flow.largest_ttl).or_else(echoed);
        let number = packet.index.saturating_add(1);
        self.reports
            .take(&error, network.source, packet.time_ns, number, ttl);
    }

    fn place(&mut self, source: (IpAddr, u16), destination: (IpAddr, u16)) -> usize {
        let key = (source, destination);
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        if self.flows.len() >= MOST_FLOWS {
            self.drop_half();
        }
        let place = self.flows.len();
        self.flows
            .push(Flow::new(source, destination, self.keeps_streams));
        self.places.insert(key, place);
        place
    }

    /// Drops half of the flows, those with the fewest packets: each of them cost at least one packet.
    #[cold]
    fn drop_half(&mut self) {
        self.flows
            .sort_by_key(|flow| std::cmp::Reverse(flow.packets));
        for flow in self.flows.drain(MOST_FLOWS / 2..) {
            self.dropped.flows += 1;
            self.dropped.packets += flow.packets;
            self.dropped.ip_bytes += flow.ip_bytes;
        }
        self.places.clear();
        let keys = self.flows.iter().map(Flow::key).zip(0..);
        self.places.extend(keys);
    }

    /// Returns the flows at the end of the capture, in the order of their first packets.
    pub fn finish(self) -> Datagrams {
        let without_any = |defect| Datagrams {
            defect: Some(defect),
            ..Datagrams::default()
        };
        match self.defect {
            Some(defect) => without_any(defect),
            None => contain(|| self.summed_up()).unwrap_or_else(without_any),
        }
    }

    fn summed_up(mut self) -> Datagrams {
        self.flows.sort_by_key(|flow| flow.first_ns);
        let exchanged = self.exchanges.finish(self.now_ns);
        let (pings, _) = self.echoes.finish(self.now_ns);
        let (reports, _) = self.reports.finish();
        Datagrams {
            exchanged,
            pings,
            reports,
            alerts: self.alerts.0,
            ..Datagrams::of(self.flows, self.dropped, &self.control)
        }
    }
}

fn seen(packet: &Packet, ports: (u16, u16)) -> Option<Seen> {
    let network = packet.network.as_ref()?;
    Some(Seen {
        time_ns: packet.time_ns,
        packet: packet.index.saturating_add(1),
        source: network.source,
        destination: network.destination,
        ports,
    })
}
