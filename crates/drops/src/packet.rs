//! The headers of a dropped packet: its source and destination, and its bytes of the TCP stream.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// IPv6 headers that may precede the transport header (RFC 8200, section 4.1).
const EXTENSIONS: [u8; 4] = [0, 43, 60, 135];
const MOST_EXTENSIONS: usize = 8;

/// Bytes of a TCP stream: from the first sequence number to the one after the last (SYN and FIN take one each).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub first: u32,
    pub end: u32,
}

/// The innermost known protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// The protocol number in an IP packet.
    InIp(u8),
    /// The EtherType of an Ethernet frame.
    InEthernet(u16),
}

/// The known parts of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    pub protocol: Protocol,
    /// Source and destination; ports are 0 for protocols without ports.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    pub span: Option<Span>,
}

/// Parses the headers; `bytes` begin with the network layer header, and may end anywhere.
pub fn parse(ethertype: u16, bytes: &[u8]) -> Packet {
    let known = match ethertype {
        IPV4 => ipv4(bytes),
        IPV6 => ipv6(bytes),
        _ => None,
    };
    let Some(network) = known else {
        return Packet {
            protocol: Protocol::InEthernet(ethertype),
            ends: None,
            span: None,
        };
    };
    let transport = network.payload;
    let ports = if network.first && matches!(network.protocol, TCP | UDP) {
        u16_at(transport, 0).zip(u16_at(transport, 2))
    } else {
        None
    };
    let (from, to) = ports.unwrap_or_default();
    Packet {
        protocol: Protocol::InIp(network.protocol),
        ends: Some((
            SocketAddr::new(network.source, from),
            SocketAddr::new(network.destination, to),
        )),
        span: (network.protocol == TCP && network.first)
            .then(|| span(transport, network.length))
            .flatten(),
    }
}

struct Network<'a> {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    /// True if this fragment contains the transport header.
    first: bool,
    payload: &'a [u8],
    /// Payload length from the header.
    length: usize,
}

fn ipv4(bytes: &[u8]) -> Option<Network<'_>> {
    if bytes.first()? >> 4 != 4 {
        return None;
    }
    let header = usize::from(bytes[0] & 0xf) * 4;
    let four = |at: usize| -> Option<[u8; 4]> { bytes.get(at..at + 4)?.try_into().ok() };
    Some(Network {
        source: Ipv4Addr::from(four(12)?).into(),
        destination: Ipv4Addr::from(four(16)?).into(),
        protocol: bytes[9],
        first: u16_at(bytes, 6)? & 0x1fff == 0,
        payload: bytes.get(header.max(20)..).unwrap_or_default(),
        length: usize::from(u16_at(bytes, 2)?).saturating_sub(header),
    })
}

fn ipv6(bytes: &[u8]) -> Option<Network<'_>> {
    if bytes.first()? >> 4 != 6 {
        return None;
    }
    let sixteen = |at: usize| -> Option<[u8; 16]> { bytes.get(at..at + 16)?.try_into().ok() };
    let mut found = Network {
        source: Ipv6Addr::from(sixteen(8)?).into(),
        destination: Ipv6Addr::from(sixteen(24)?).into(),
        protocol: bytes[6],
        first: true,
        payload: &bytes[40..],
        length: usize::from(u16_at(bytes, 4)?),
    };
    for _ in 0..MOST_EXTENSIONS {
        let (next, size) = match (found.protocol, found.payload) {
            (kind, [next, length, ..]) if EXTENSIONS.contains(&kind) => {
                (*next, 8 + 8 * usize::from(*length))
            }
            // A fragment: its offset is in the upper 13 bits.
            (44, [next, _, high, low, ..]) => {
                found.first &= u16::from_be_bytes([*high, *low]) & 0xfff8 == 0;
                (*next, 8)
            }
            _ => break,
        };
        found.protocol = next;
        found.payload = found.payload.get(size..).unwrap_or_default();
        found.length = found.length.saturating_sub(size);
    }
    Some(found)
}

/// `length`: of header and payload together.
fn span(tcp: &[u8], length: usize) -> Option<Span> {
    let first = u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?);
    let header = usize::from(tcp.get(12)? >> 4) * 4;
    let flags = *tcp.get(13)?;
    let ends = u32::from(flags & 1) + u32::from(flags >> 1 & 1);
    let payload = u32::try_from(length.checked_sub(header)?).ok()?;
    Some(Span {
        first,
        end: first.wrapping_add(payload).wrapping_add(ends),
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Protocol::InIp(1) => "icmp",
            Protocol::InIp(TCP) => "tcp",
            Protocol::InIp(UDP) => "udp",
            Protocol::InIp(47) => "gre",
            Protocol::InIp(50) => "esp",
            Protocol::InIp(58) => "icmpv6",
            Protocol::InIp(132) => "sctp",
            Protocol::InIp(other) => return write!(f, "ip {other}"),
            Protocol::InEthernet(IPV4) => "ipv4",
            Protocol::InEthernet(IPV6) => "ipv6",
            Protocol::InEthernet(0x0806) => "arp",
            Protocol::InEthernet(other) => return write!(f, "ethertype {other:#06x}"),
        };
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use whydrop_testkit::{Ipv4, Tcp};

    use super::*;

    fn segment() -> Vec<u8> {
        let tcp = Tcp {
            ports: (49_152, 443),
            sequence: 0xffff_fff0,
            options: Vec::new(),
            payload: Vec::new(),
            ..Tcp::default()
        };
        Ipv4 {
            source: [192, 0, 2, 1],
            destination: [198, 51, 100, 7],
            total_bytes: Some(140),
            ..Ipv4::default()
        }
        .bytes(&tcp.bytes())
    }

    #[test]
    fn a_segment_s_ends_and_its_bytes_of_the_stream_are_read_across_the_wrap() {
        let found = parse(IPV4, &segment());
        assert_eq!(found.protocol.to_string(), "tcp");
        let (from, to) = found.ends.unwrap();
        assert_eq!(from.to_string(), "192.0.2.1:49152");
        assert_eq!(to.to_string(), "198.51.100.7:443");
        // 140 bytes less two headers of 20.
        let span = Span {
            first: 0xffff_fff0,
            end: 84,
        };
        assert_eq!(found.span, Some(span));
    }

    #[test]
    fn a_later_fragment_has_no_ports() {
        let mut bytes = segment();
        bytes[7] = 10;
        let found = parse(IPV4, &bytes);
        assert_eq!(found.ends.unwrap().0.port(), 0);
        assert_eq!(found.span, None);
    }

    #[test]
    fn headers_of_extensions_are_passed_over() {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 16, 0, 64];
        bytes.extend([0; 15]);
        bytes.push(1);
        bytes.extend([0; 15]);
        bytes.push(2);
        bytes.extend([UDP, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend([0, 53, 0, 80, 0, 8, 0, 0]);
        let found = parse(IPV6, &bytes);
        assert_eq!(found.protocol.to_string(), "udp");
        assert_eq!(found.ends.unwrap().0.to_string(), "[::1]:53");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(kind: u16, bytes: Vec<u8>) {
            parse(kind, &bytes);
            parse(IPV4, &bytes);
            parse(IPV6, &bytes);
        }
    }
}
