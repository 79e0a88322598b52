//! ICMP errors, and the packets they quote (RFC 792, RFC 1191, RFC 1812; RFC 4443 for IPv6).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::{be16, be32};
use crate::packet::{Packet, Transport};

/// Errors and advice from a router or a host about a packet that it received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IcmpErrorKind {
    NetworkUnreachable,
    HostUnreachable,
    /// No program listens there, or the protocol is unknown.
    PortUnreachable,
    /// Administratively prohibited: by a filter.
    Prohibited,
    /// Larger than the next link's MTU, with fragmentation forbidden.
    TooBig,
    /// The hop limit expired in transit: a loop, or too small a limit.
    TimeExceeded,
    /// One of its fragments never arrived.
    NotReassembled,
    /// A field of its header is invalid.
    ParameterProblem,
    /// The router's queue was full (RFC 792; not sent any more since RFC 6633).
    SourceQuench,
    /// It was forwarded; another router is nearer.
    Redirect,
}

impl IcmpErrorKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::NetworkUnreachable => "network-unreachable",
            Self::HostUnreachable => "host-unreachable",
            Self::PortUnreachable => "port-unreachable",
            Self::Prohibited => "prohibited",
            Self::TooBig => "too-big",
            Self::TimeExceeded => "time-exceeded",
            Self::NotReassembled => "not-reassembled",
            Self::ParameterProblem => "parameter-problem",
            Self::SourceQuench => "source-quench",
            Self::Redirect => "redirect",
        }
    }

    /// True if its destination cannot be reached on that path, whatever the packet's size.
    pub fn is_unreachable(self) -> bool {
        matches!(
            self,
            Self::NetworkUnreachable
                | Self::HostUnreachable
                | Self::PortUnreachable
                | Self::Prohibited
                | Self::TimeExceeded
        )
    }

    fn of_ipv4(kind: u8, code: u8) -> Option<Self> {
        Some(match (kind, code) {
            (3, 0 | 5 | 6 | 11) => Self::NetworkUnreachable,
            (3, 1 | 7 | 8 | 12) => Self::HostUnreachable,
            (3, 2 | 3) => Self::PortUnreachable,
            (3, 4) => Self::TooBig,
            (3, 9 | 10 | 13 | 14 | 15) => Self::Prohibited,
            (4, 0) => Self::SourceQuench,
            (5, _) => Self::Redirect,
            (11, 0) => Self::TimeExceeded,
            (11, 1) => Self::NotReassembled,
            (12, _) => Self::ParameterProblem,
            _ => return None,
        })
    }

    fn of_ipv6(kind: u8, code: u8) -> Option<Self> {
        Some(match (kind, code) {
            (1, 0 | 2) => Self::NetworkUnreachable,
            (1, 3) => Self::HostUnreachable,
            (1, 4) => Self::PortUnreachable,
            (1, 1 | 5 | 6) => Self::Prohibited,
            (2, _) => Self::TooBig,
            (3, 0) => Self::TimeExceeded,
            (3, 1) => Self::NotReassembled,
            (4, _) => Self::ParameterProblem,
            _ => return None,
        })
    }
}

/// An error and the beginning of the packet that it quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpError {
    pub kind: IcmpErrorKind,
    /// MTU of the next link, bytes of IP; `None` if the router does not report it (before RFC 1191), or for another
    /// kind.
    pub mtu_bytes: Option<u32>,
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Length of the quoted IP packet.
    pub ip_bytes: u32,
    /// By its number in IANA's registry.
    pub protocol: u8,
    pub source_port: u16,
    pub destination_port: u16,
    /// The four bytes after the ports: a TCP segment's sequence number.
    pub sequence: Option<u32>,
}

impl Packet<'_> {
    /// Parses the ICMP error, if this is one that quotes a whole IP header and ports.
    pub fn icmp_error(&self) -> Option<IcmpError> {
        let (
            Some(network),
            Transport::Icmp {
                kind,
                code,
                payload,
            },
        ) = (&self.network, self.transport)
        else {
            return None;
        };
        // four bytes of the ICMP header precede the quoted packet
        let quoted = payload.get(4..)?;
        match network.source {
            IpAddr::V4(_) => {
                let kind = IcmpErrorKind::of_ipv4(kind, code)?;
                let mtu = be16(payload, 2).map(u32::from);
                quoted_ipv4(kind, mtu, quoted)
            }
            IpAddr::V6(_) => {
                let kind = IcmpErrorKind::of_ipv6(kind, code)?;
                quoted_ipv6(kind, be32(payload, 0), quoted)
            }
        }
    }
}

fn quoted_ipv4(kind: IcmpErrorKind, mtu: Option<u32>, quoted: &[u8]) -> Option<IcmpError> {
    let header: &[u8; 20] = quoted.first_chunk()?;
    let header_bytes = usize::from(header[0] & 0x0f) * 4;
    let is_first = be16(quoted, 6)? & 0x1fff == 0;
    if header[0] >> 4 != 4 || header_bytes < header.len() || !is_first {
        return None;
    }
    let address = |at: usize| {
        let octets: [u8; 4] = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        IpAddr::V4(Ipv4Addr::from(octets))
    };
    Some(IcmpError {
        kind,
        mtu_bytes: reported_mtu(kind, mtu),
        source: address(12),
        destination: address(16),
        ip_bytes: u32::from(be16(quoted, 2)?),
        protocol: header[9],
        source_port: be16(quoted, header_bytes)?,
        destination_port: be16(quoted, header_bytes + 2)?,
        sequence: be32(quoted, header_bytes + 4),
    })
}

fn quoted_ipv6(kind: IcmpErrorKind, mtu: Option<u32>, quoted: &[u8]) -> Option<IcmpError> {
    let header: &[u8; 40] = quoted.first_chunk()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let address = |at: usize| {
        let octets: [u8; 16] = *header[at..].first_chunk().expect("two end the header");
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    Some(IcmpError {
        kind,
        mtu_bytes: reported_mtu(kind, mtu),
        source: address(8),
        destination: address(24),
        ip_bytes: 40 + u32::from(be16(quoted, 4)?),
        protocol: header[6],
        source_port: be16(quoted, 40)?,
        destination_port: be16(quoted, 42)?,
        sequence: be32(quoted, 44),
    })
}

fn reported_mtu(kind: IcmpErrorKind, mtu: Option<u32>) -> Option<u32> {
    mtu.filter(|mtu| kind == IcmpErrorKind::TooBig && *mtu > 0)
}

#[cfg(test)]
mod tests {
    use whydrop_testkit::Ipv4;

    use super::*;
    use crate::{LinkType, decode_frame};

    /// A router's answer to 192.0.2.1:443 > 198.51.100.7:5000: 1500 bytes exceed an MTU of 1300.
    fn too_big() -> Vec<u8> {
        let quoted = Ipv4 {
            source: [192, 0, 2, 1],
            destination: [198, 51, 100, 7],
            ttl: 60,
            total_bytes: Some(1500),
            ..Ipv4::default()
        };
        let quoted = quoted.bytes(&[0x01, 0xbb, 0x13, 0x88, 0, 0, 0x10, 0x00]);
        let message = [&[3, 4, 0, 0, 0, 0, 0x05, 0x14], &quoted[..]].concat();
        Ipv4 {
            destination: [192, 0, 2, 1],
            protocol: 1,
            ..Ipv4::default()
        }
        .bytes(&message)
    }

    fn read(frame: &[u8]) -> Option<IcmpError> {
        decode_frame(LinkType::RAW, frame, frame.len() as u32, 0).icmp_error()
    }

    #[test]
    fn the_quoted_packet_and_the_mtu_are_read() {
        let error = read(&too_big()).expect("an error");
        assert_eq!(
            (error.kind, error.mtu_bytes, error.ip_bytes),
            (IcmpErrorKind::TooBig, Some(1300), 1500)
        );
        assert_eq!((error.source_port, error.destination_port), (443, 5000));
        assert_eq!((error.protocol, error.sequence), (6, Some(0x1000)));
        assert_eq!(error.destination.to_string(), "198.51.100.7");
    }

    #[test]
    fn packet_too_big_of_ipv6_is_read() {
        let mut frame = vec![0x60, 0, 0, 0, 0, 56, 58, 64];
        frame.extend([0; 32]);
        frame.extend([2, 0, 0, 0, 0, 0, 0x05, 0x00]);
        frame.extend([0x60, 0, 0, 0, 0x05, 0xb4, 6, 60]);
        frame.extend([1; 16]);
        frame.extend([2; 16]);
        frame.extend([0x01, 0xbb, 0x13, 0x88, 0, 0, 0, 9]);
        let error = read(&frame).expect("an error");
        assert_eq!(
            (error.kind, error.mtu_bytes, error.ip_bytes),
            (IcmpErrorKind::TooBig, Some(1280), 1500)
        );
        assert_eq!((error.source_port, error.sequence), (443, Some(9)));
    }

    #[test]
    fn what_is_cut_off_or_no_error_says_nothing() {
        let whole = too_big();
        for length in 0..whole.len() {
            let read = read(&whole[..length]);
            assert!(read.is_none_or(|error| length >= 52 && error.sequence.is_none()));
        }
        let mut echo = whole.clone();
        (echo[20], echo[21]) = (8, 0);
        assert_eq!(read(&echo), None);
        let mut fragment = whole;
        fragment[28 + 7] = 1;
        assert_eq!(read(&fragment), None);
    }
}
