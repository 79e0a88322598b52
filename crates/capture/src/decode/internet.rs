//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::carried::{Carried, protocol};
use super::{Decoded, Frame, transport, tunnel};
use crate::bytes::{be16, be32};
use crate::packet::{Network, Transport};

const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;

/// An IP header of either version.
pub(super) fn ip(frame: Frame<'_>, at: usize, link_bytes: usize, depth: u8) -> Decoded {
    match frame.bytes.get(at).map(|first| first >> 4) {
        Some(4) => ipv4(frame, at, link_bytes, depth),
        Some(6) => ipv6(frame, at, link_bytes, depth),
        _ => Decoded::without_network(Transport::Undecodable),
    }
}

#[inline(always)]
pub(super) fn ipv4(frame: Frame<'_>, at: usize, link_bytes: usize, depth: u8) -> Decoded {
    let Some(header) = frame
        .bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk::<IPV4_BYTES>())
    else {
        return Decoded::without_network(Transport::Undecodable);
    };
    let header_bytes = usize::from(header[0] & 0x0f) * 4;
    let stated_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let ip_bytes = match stated_bytes {
        // Segmentation offload: the packet was captured before it was split, and is too long for the field.
        0 => (frame.wire_bytes as usize)
            .max(frame.bytes.len())
            .saturating_sub(at),
        stated => stated,
    };
    let network = Network {
        source: IpAddr::V4(Ipv4Addr::new(
            header[12], header[13], header[14], header[15],
        )),
        destination: IpAddr::V4(Ipv4Addr::new(
            header[16], header[17], header[18], header[19],
        )),
        ip_bytes: ip_bytes as u32,
        identification: Some(u16::from_be_bytes([header[4], header[5]])),
        ttl: header[8],
        dscp: header[1] >> 2,
        ecn: header[1] & 3,
        tunnel_depth: depth,
    };
    let carried = Carried {
        network,
        protocol: header[9],
        link_bytes,
        network_at: at,
        at: at + header_bytes,
        end: at + ip_bytes,
    };
    if header_bytes < IPV4_BYTES || ip_bytes < header_bytes {
        return carried.decoded(Transport::Undecodable);
    }
    let fragment_offset = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
    if fragment_offset != 0 {
        return carried.decoded(Transport::Fragment);
    }
    if carried.protocol == protocol::TCP {
        return transport::tcp(frame, carried);
    }
    after_ip(frame, carried)
}

pub(super) fn ipv6(frame: Frame<'_>, at: usize, link_bytes: usize, depth: u8) -> Decoded {
    let Some(header) = frame
        .bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk::<IPV6_BYTES>())
    else {
        return Decoded::without_network(Transport::Undecodable);
    };
    let traffic_class = (u16::from_be_bytes([header[0], header[1]]) >> 4) as u8;
    let stated_bytes = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let ip_bytes = match (stated_bytes, header[6]) {
        (0, protocol::HOP_BY_HOP) => jumbo_bytes(frame, at),
        // As with IPv4: a super-segment from before segmentation offload.
        (0, protocol::TCP | protocol::UDP) => super_segment_bytes(frame, at),
        (stated, _) => IPV6_BYTES + stated,
    };
    let address = |from: usize| {
        let octets: [u8; 16] = *header[from..]
            .first_chunk()
            .expect("two addresses end the header");
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let network = Network {
        source: address(8),
        destination: address(24),
        ip_bytes: u32::try_from(ip_bytes).unwrap_or(u32::MAX),
        identification: None,
        ttl: header[7],
        dscp: traffic_class >> 2,
        ecn: traffic_class & 3,
        tunnel_depth: depth,
    };
    let carried = Carried {
        network,
        protocol: header[6],
        link_bytes,
        network_at: at,
        at: at + IPV6_BYTES,
        end: at + ip_bytes,
    };
    after_ip(frame, carried)
}

fn super_segment_bytes(frame: Frame<'_>, at: usize) -> usize {
    (frame.wire_bytes as usize)
        .max(frame.bytes.len())
        .saturating_sub(at)
}

/// The length of an IPv6 packet with 0 in its length field and a hop-by-hop header: from RFC 2675's jumbo payload
/// option, if it is the first option as in Linux's BIG TCP; otherwise the frame's length.
fn jumbo_bytes(frame: Frame<'_>, at: usize) -> usize {
    const JUMBO_PAYLOAD: [u8; 2] = [0xc2, 4];
    let option = at + IPV6_BYTES + 2;
    match (
        frame.bytes.get(option..option + 2),
        be32(frame.bytes, option + 2),
    ) {
        (Some(kind), Some(bytes)) if kind == JUMBO_PAYLOAD => IPV6_BYTES + bytes as usize,
        _ => super_segment_bytes(frame, at),
    }
}

/// Skips extension headers, then decodes what follows them. Each step advances by 8 bytes or more, so the loop ends
/// with the frame.
fn after_ip(frame: Frame<'_>, mut carried: Carried) -> Decoded {
    loop {
        let bytes = frame.bytes;
        let header_bytes = match carried.protocol {
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => bytes
                .get(carried.at + 1)
                .map(|&words| (usize::from(words) + 1) * 8),
            protocol::AUTHENTICATION => bytes
                .get(carried.at + 1)
                .map(|&words| (usize::from(words) + 2) * 4),
            protocol::FRAGMENT => {
                let (Some(place), Some(identification)) =
                    (be16(bytes, carried.at + 2), be16(bytes, carried.at + 6))
                else {
                    return carried.decoded(Transport::Undecodable);
                };
                carried.network.identification = Some(identification);
                if place >> 3 != 0 {
                    return carried.decoded(Transport::Fragment);
                }
                Some(8)
            }
            _ => return upper_layer(frame, carried),
        };
        let (Some(header_bytes), Some(&next)) = (header_bytes, bytes.get(carried.at)) else {
            return carried.decoded(Transport::Undecodable);
        };
        carried.protocol = next;
        carried.at += header_bytes;
        if carried.at > carried.end {
            return carried.decoded(Transport::Undecodable);
        }
    }
}

fn upper_layer(frame: Frame<'_>, carried: Carried) -> Decoded {
    match carried.protocol {
        protocol::TCP => transport::tcp(frame, carried),
        protocol::UDP => match tunnel::unwrap_udp(frame, &carried) {
            Some(inner) => inner,
            None => transport::udp(frame, carried),
        },
        protocol::ICMP | protocol::ICMPV6 => transport::icmp(frame, carried),
        protocol::IPV4
        | protocol::IPV6
        | protocol::GRE
        | protocol::ETHER_IP
        | protocol::L2TP
        | protocol::MPLS => tunnel::unwrap_protocol(frame, carried),
        other => carried.decoded(Transport::OtherProtocol(other)),
    }
}
