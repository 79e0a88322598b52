//! Packets captured on both sides of address translation: `-i any` on a router, a container host or a load balancer.
//!
//! Addresses and ports differ, but all fields that hosts choose are equal: sequence and acknowledgment numbers,
//! timestamps, window, flags, length, IPv4 identification. If two packets agree in these, are at most [`TWO_POINTS_NS`]
//! apart, and one has passed a few hops more, one connection was captured twice. From then on each of its packets is
//! returned once, at its first capture, with the addresses and ports of the side captured first.

use std::collections::HashMap;
use std::net::IpAddr;

use super::{KEY_1, TWO_POINTS_NS, beginning, mix, word};
use crate::decode::Decoded;
use crate::packet::{TcpFlags, Transport};
use crate::summary::Translation;

/// Packets remembered: ten milliseconds of a fast link.
const SETS: usize = 1024;
/// Hops between the two points: routers and container hosts add one or two.
const MOST_HOPS: u8 = 3;
/// The most translated connections that are remembered.
const MOST_ALIASES: usize = 1 << 16;
/// Translated ports not seen together with their original for this long may belong to another connection: the shortest
/// time for which translators remember UDP (RFC 4787, REQ-5).
const FORGOTTEN_NS: i64 = 120_000_000_000;
/// The most connections named in the summary.
const MOST_NAMED: usize = 8;

/// The addresses and ports of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ends {
    source: (IpAddr, u16),
    destination: (IpAddr, u16),
}

impl Ends {
    /// The same hash for both directions.
    fn connection(&self) -> u64 {
        let hash = |(address, port): (IpAddr, u16)| match address {
            IpAddr::V4(v4) => mix(u64::from(v4.to_bits()), u64::from(port)),
            IpAddr::V6(v6) => {
                let bits = v6.to_bits();
                mix(mix(bits as u64, (bits >> 64) as u64), u64::from(port))
            }
        };
        hash(self.source).wrapping_add(hash(self.destination))
    }

    fn reversed(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
        }
    }

    fn name(&self) -> String {
        let end = |(address, port): (IpAddr, u16)| match address {
            IpAddr::V4(v4) => format!("{v4}:{port}"),
            IpAddr::V6(v6) => format!("[{v6}]:{port}"),
        };
        format!("{} > {}", end(self.source), end(self.destination))
    }
}

/// A packet's fields that translation keeps, and those that it changes.
#[derive(Debug, Clone, Copy)]
struct Sighting {
    content: u64,
    ends: Ends,
    connection: u64,
    ttl: u8,
    time_ns: i64,
    /// It opens a connection.
    opens: bool,
}

#[derive(Debug, Clone, Copy)]
struct Alias {
    /// The connection as it was first captured.
    of: u64,
    /// Its ends, in the direction in which `own` are those of the alias.
    first: Ends,
    own: Ends,
    seen_beside_ns: i64,
}

impl Alias {
    /// The first ends of a packet that has the alias's ends.
    fn first_ends(&self, own: &Ends) -> Ends {
        match *own == self.own {
            true => self.first,
            false => self.first.reversed(),
        }
    }
}

/// A packet of a connection that may be captured on both sides.
#[derive(Debug, Clone, Copy)]
enum Seen {
    /// Captured at the other side just before.
    Before,
    /// Captured for the first time; with the ends to return it with, if they differ from its own.
    First(Option<Ends>),
}

/// Connections captured on both sides of a translation.
#[derive(Default)]
pub(super) struct Translations {
    sets: Vec<[Option<Sighting>; 2]>,
    aliases: HashMap<u64, Alias>,
    pub(super) named: Vec<Translation>,
    /// Number of connections found.
    pub(super) connections: u64,
}

impl Translations {
    /// True if this packet was just captured at the other side of a translation; otherwise sets its ends to those of
    /// the first side.
    ///
    /// Examines all packets if the capture may contain several points, otherwise only those that open a connection.
    #[inline(always)]
    pub(super) fn is_copy(
        &mut self,
        time_ns: i64,
        frame: &[u8],
        decoded: &mut Decoded,
        several_points: bool,
    ) -> bool {
        let opens =
            matches!(decoded.transport, Transport::Tcp(tcp) if tcp.flags.has(TcpFlags::SYN));
        let look = opens || several_points || !self.aliases.is_empty();
        let sighting = look.then(|| sighting(time_ns, frame, decoded)).flatten();
        match sighting.map(|sighting| self.check(&sighting)) {
            Some(Seen::Before) => true,
            Some(Seen::First(Some(ends))) => {
                rename(decoded, &ends);
                false
            }
            Some(Seen::First(None)) | None => false,
        }
    }

    #[inline(never)]
    fn check(&mut self, sighting: &Sighting) -> Seen {
        if self.sets.is_empty() {
            self.sets = vec![[None; 2]; SETS];
        }
        let beside = self.beside(sighting);
        if let Some(alias) = self.aliases.get_mut(&sighting.connection) {
            if beside.is_some() {
                alias.seen_beside_ns = sighting.time_ns;
                return Seen::Before;
            }
            let alone_ns = sighting.time_ns.saturating_sub(alias.seen_beside_ns);
            if !sighting.opens && alone_ns < FORGOTTEN_NS {
                let ends = alias.first_ends(&sighting.ends);
                self.remember(sighting);
                return Seen::First(Some(ends));
            }
            self.aliases.remove(&sighting.connection);
        } else if let Some(first) = beside
            && (self.is_alias_of(&first, sighting) || self.learn(&first, sighting))
        {
            return Seen::Before;
        }
        self.remember(sighting);
        Seen::First(None)
    }

    /// True for the return direction, which is captured first with the ends of the other side.
    fn is_alias_of(&mut self, first: &Sighting, sighting: &Sighting) -> bool {
        let alias = self.aliases.get_mut(&first.connection);
        let Some(alias) = alias.filter(|alias| alias.of == sighting.connection) else {
            return false;
        };
        alias.seen_beside_ns = sighting.time_ns;
        true
    }

    /// Finds the same packet on the other side of a translation.
    fn beside(&self, sighting: &Sighting) -> Option<Sighting> {
        let set = self.sets.get(sighting.content as usize % SETS)?;
        let mut seen = set.iter().flatten();
        let is_same = |seen: &&Sighting| {
            let hops = seen.ttl.abs_diff(sighting.ttl);
            seen.content == sighting.content
                && seen.connection != sighting.connection
                && (1..=MOST_HOPS).contains(&hops)
                && seen.time_ns.abs_diff(sighting.time_ns) <= TWO_POINTS_NS
        };
        seen.find(is_same).copied()
    }

    fn learn(&mut self, first: &Sighting, sighting: &Sighting) -> bool {
        if self.aliases.len() >= MOST_ALIASES {
            let now_ns = sighting.time_ns;
            self.aliases
                .retain(|_, alias| now_ns.saturating_sub(alias.seen_beside_ns) < FORGOTTEN_NS);
        }
        // connections with aliases are not dropped
        let is_root = self.connections > 0
            && self
                .aliases
                .values()
                .any(|alias| alias.of == sighting.connection);
        if self.aliases.len() >= MOST_ALIASES || is_root {
            return false;
        }
        let alias = Alias {
            of: first.connection,
            first: first.ends,
            own: sighting.ends,
            seen_beside_ns: sighting.time_ns,
        };
        self.aliases.insert(sighting.connection, alias);
        self.connections += 1;
        if self.named.len() < MOST_NAMED {
            self.named.push(Translation {
                kept: first.ends.name(),
                copy: sighting.ends.name(),
            });
        }
        true
    }

    fn remember(&mut self, sighting: &Sighting) {
        if let Some(set) = self.sets.get_mut(sighting.content as usize % SETS) {
            set.swap(0, 1);
            set[0] = Some(*sighting);
        }
    }
}

fn rename(decoded: &mut Decoded, ends: &Ends) {
    if let Some(network) = &mut decoded.network {
        (network.source, network.destination) = (ends.source.0, ends.destination.0);
    }
    match &mut decoded.transport {
        Transport::Tcp(tcp) => {
            (tcp.source_port, tcp.destination_port) = (ends.source.1, ends.destination.1);
        }
        Transport::Udp {
            source_port,
            destination_port,
            ..
        } => (*source_port, *destination_port) = (ends.source.1, ends.destination.1),
        _ => {}
    }
}

/// `None` for packets with too few distinctive fields.
fn sighting(time_ns: i64, frame: &[u8], decoded: &Decoded) -> Option<Sighting> {
    let network = decoded.network.as_ref()?;
    let header = frame.get(decoded.transport_at as usize..decoded.transport_end as usize)?;
    let number = network.identification.unwrap_or(0);
    let lengths = u64::from(network.ip_bytes) << 16 | u64::from(number);
    let (ports, content, opens) = match decoded.transport {
        Transport::Tcp(tcp) => {
            let syn = tcp.flags.has(TcpFlags::SYN);
            let acknowledges = tcp.flags.has(TcpFlags::ACK);
            let stamps = tcp.options.timestamps;
            let known_position = tcp.sequence != 0 && (syn || acknowledges);
            if !known_position || (number == 0 && stamps.is_none()) {
                return None;
            }
            let numbers = u64::from(tcp.sequence) << 32 | u64::from(tcp.acknowledgment);
            let (value, echo) = stamps.unwrap_or((0, 0));
            let stamps = u64::from(value) << 32 | u64::from(echo);
            let flags = u64::from(tcp.flags.0) << 16 | u64::from(tcp.window);
            let content = mix(mix(numbers, stamps), mix(flags, lengths));
            (
                (tcp.source_port, tcp.destination_port),
                content,
                syn && !acknowledges,
            )
        }
        Transport::Udp {
            source_port,
            destination_port,
            payload_bytes,
            ..
        } => {
            let payload = beginning(frame, decoded, decoded.transport_end);
            let first = word(payload, 0)?;
            if number == 0 || payload_bytes < 8 {
                return None;
            }
            let rest = word(payload, payload.len().saturating_sub(8))?;
            let content = mix(mix(first, rest), mix(lengths, KEY_1));
            ((source_port, destination_port), content, false)
        }
        _ => return None,
    };
    (!header.is_empty()).then_some(())?;
    let ends = Ends {
        source: (network.source, ports.0),
        destination: (network.destination, ports.1),
    };
    Some(Sighting {
        content,
        ends,
        connection: ends.connection(),
        ttl: network.ttl,
        time_ns,
        opens,
    })
}
