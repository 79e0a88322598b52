//! ICMP errors: their senders, their kinds and the packets they quote.

use std::collections::HashMap;
use std::net::IpAddr;

use whydrop_capture::{IcmpError, IcmpErrorKind};

/// The most different errors, and example packets of one, that are kept.
const MOST_REPORTS: usize = 1 << 10;
const MOST_SHOWN: usize = 8;

/// Hosts start with hop limits of 64 and more (RFC 9293, section 3.9.2; IANA's "IP Option Numbers"), and no path in use
/// is longer than half of that: a packet with fewer remaining hops was sent to discover the routers on the path.
const MOST_HOPS_OF_A_PROBE: u8 = 31;

/// True for a packet with such a hop limit, as captured, sent by a path tracing program.
pub fn is_probe_of_the_way(ttl: Option<u8>) -> bool {
    ttl.is_some_and(|ttl| ttl <= MOST_HOPS_OF_A_PROBE)
}

/// Errors of one kind, from one router, about packets of one host to one port of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub kind: IcmpErrorKind,
    pub router: IpAddr,
    pub source: IpAddr,
    pub source_port: u16,
    pub destination: IpAddr,
    /// `None` for protocols without ports.
    pub destination_port: Option<u16>,
    pub protocol: u8,
    pub messages: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    /// Numbers of the first packets in the capture, from 1.
    pub packets: Vec<u64>,
    /// Smallest MTU reported, and largest packet quoted, bytes of IP.
    pub mtu_bytes: Option<u32>,
    pub ip_bytes: u32,
    /// Hop limit of a quoted packet when it was itself captured.
    pub ttl: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    kind: IcmpErrorKind,
    router: IpAddr,
    source: IpAddr,
    destination: IpAddr,
    port: Option<u16>,
    protocol: u8,
}

/// All errors of a capture.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    places: HashMap<Key, usize>,
    reports: Vec<Report>,
    /// Messages with kinds, routers or destinations beyond those that are kept.
    dropped: u64,
}

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;

impl Report {
    pub fn is_tcp(&self) -> bool {
        self.protocol == TCP
    }

    pub fn is_udp(&self) -> bool {
        self.protocol == UDP
    }

    pub fn is_icmp(&self) -> bool {
        matches!(self.protocol, ICMP | ICMPV6)
    }
}

/// True for protocols with a header that begins with two ports.
fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | DCCP | SCTP)
}

impl Reports {
    /// Processes an error, with its number in the capture, and the hop limit of the quoted packet if that was captured.
    pub fn take(
        &mut self,
        error: &IcmpError,
        router: IpAddr,
        time_ns: i64,
        packet: u64,
        ttl: Option<u8>,
    ) {
        let port = has_ports(error.protocol).then_some(error.destination_port);
        let key = Key {
            kind: error.kind,
            router,
            source: error.source,
            destination: error.destination,
            port,
            protocol: error.protocol,
        };
        let place = self.places.get(&key).copied();
        let Some(known) = place.and_then(|place| self.reports.get_mut(place)) else {
            if self.reports.len() >= MOST_REPORTS {
                self.dropped += 1;
                return;
            }
            self.places.insert(key, self.reports.len());
            self.reports.push(Report {
                kind: error.kind,
                router,
                source: error.source,
                source_port: error.source_port,
                destination: error.destination,
                destination_port: port,
                protocol: error.protocol,
                messages: 1,
                first_ns: time_ns,
                last_ns: time_ns,
                packets: vec![packet],
                mtu_bytes: error.mtu_bytes,
                ip_bytes: error.ip_bytes,
                ttl,
            });
            return;
        };
        known.messages += 1;
        known.last_ns = known.last_ns.max(time_ns);
        known.ip_bytes = known.ip_bytes.max(error.ip_bytes);
        known.ttl = known.ttl.max(ttl);
        known.mtu_bytes = match (known.mtu_bytes, error.mtu_bytes) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if known.packets.len() < MOST_SHOWN {
            known.packets.push(packet);
        }
    }

    pub fn finish(self) -> (Vec<Report>, u64) {
        (self.reports, self.dropped)
    }
}
