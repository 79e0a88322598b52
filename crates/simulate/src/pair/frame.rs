//! Frames as a sniffer at one of the points sees them: link layer, tunnel, IPv4 or IPv6, TCP or UDP, with payload.

use std::net::IpAddr;

use etherparse::{
    EtherType, Ethernet2Header, IpNumber, SingleVlanHeader, UdpHeader, VlanId, ip_number,
};
use whydrop_hosts::Toward;
use whydrop_path::Ecn;

use super::crossing::Body;
use crate::headers::{self, Endpoints, IpMarks};
use whydrop_network::history::Datagram;

/// The headers around the IP packets at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    Ethernet,
    /// IEEE 802.1Q, with the number of the virtual network.
    Vlan(u16),
    /// RFC 2784, without checksum, key and sequence number.
    Gre,
    /// RFC 7348, with the network identifier.
    Vxlan(u32),
}

/// The two ends of a flow as they appear at one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    pub client: IpAddr,
    pub server: IpAddr,
    pub tcp: Endpoints,
    /// Distinguishes the payload of flows; without one it is all zeros.
    pub payload_seed: Option<u64>,
}

const VXLAN_PORT: u16 = 4789;

/// Builds the whole frame, including payload and checksums.
pub fn build(frame: &mut Vec<u8>, link: Link, ends: &Ends, marks: IpMarks, body: &Body) {
    let packet = ip_packet(ends, marks, body);
    let (toward, inner) = (body.toward(), ether_type(ends));
    frame.clear();
    match link {
        Link::Ethernet => headers::push_ethernet(frame, toward, inner),
        Link::Vlan(number) => {
            headers::push_ethernet(frame, toward, EtherType::VLAN_TAGGED_FRAME);
            let header = SingleVlanHeader {
                vlan_id: VlanId::try_new(number & 0x0fff).expect("twelve bits"),
                ether_type: inner,
                ..SingleVlanHeader::default()
            };
            frame.extend_from_slice(&header.to_bytes());
        }
        Link::Gre => {
            push_tunnel(frame, toward, ip_number::GRE, 4 + packet.len());
            frame.extend_from_slice(&[0, 0]);
            frame.extend_from_slice(&inner.0.to_be_bytes());
        }
        Link::Vxlan(network) => push_vxlan(frame, network, toward, inner, packet.len()),
    }
    frame.extend_from_slice(&packet);
}

fn ether_type(ends: &Ends) -> EtherType {
    match ends.client {
        IpAddr::V4(_) => EtherType::IPV4,
        IpAddr::V6(_) => EtherType::IPV6,
    }
}

/// Appends everything before the inner IP packet.
fn push_vxlan(
    frame: &mut Vec<u8>,
    network: u32,
    toward: Toward,
    inner: EtherType,
    packet_bytes: usize,
) {
    const VXLAN_BYTES: usize = 8;
    let udp_bytes = UdpHeader::LEN + VXLAN_BYTES + Ethernet2Header::LEN + packet_bytes;
    push_tunnel(frame, toward, ip_number::UDP, udp_bytes);
    // The source port spreads flows over links; the checksum may be zero (RFC 7348, section 5).
    let udp = UdpHeader {
        source_port: 50_000,
        destination_port: VXLAN_PORT,
        length: udp_bytes as u16,
        checksum: 0,
    };
    frame.extend_from_slice(&udp.to_bytes());
    frame.extend_from_slice(&[0x08, 0, 0, 0]);
    frame.extend_from_slice(&(network << 8).to_be_bytes());
    headers::push_ethernet(frame, toward, inner);
}

/// Appends the outer Ethernet and IPv4 headers.
fn push_tunnel(frame: &mut Vec<u8>, toward: Toward, protocol: IpNumber, carried_bytes: usize) {
    headers::push_ethernet(frame, toward, EtherType::IPV4);
    let near_server = IpAddr::from([172, 16, 0, 1]);
    let near_client = IpAddr::from([172, 16, 0, 2]);
    let (source, destination) = match toward {
        Toward::Client => (near_server, near_client),
        Toward::Server => (near_client, near_server),
    };
    let marks = IpMarks {
        ttl: 64,
        dscp: 0,
        ecn: Ecn::NotCapable,
        identification: 0,
    };
    headers::push_ip(frame, source, destination, marks, protocol, carried_bytes);
}

fn ip_packet(ends: &Ends, marks: IpMarks, body: &Body) -> Vec<u8> {
    let (source, destination) = match body.toward() {
        Toward::Client => (ends.server, ends.client),
        Toward::Server => (ends.client, ends.server),
    };
    let payload = payload(ends.payload_seed, body);
    let mut packet = Vec::with_capacity(128 + payload.len());
    let mut push_ip = |protocol, header: &[u8]| {
        let carried_bytes = header.len() + payload.len();
        headers::push_ip(
            &mut packet,
            source,
            destination,
            marks,
            protocol,
            carried_bytes,
        );
        packet.extend_from_slice(header);
    };
    match body {
        Body::Tcp(segment) => {
            let header = headers::tcp(segment, &ends.tcp, source, destination, &payload);
            push_ip(ip_number::TCP, &header.to_bytes());
        }
        Body::Udp(datagram) => {
            let header = udp(ends, datagram, source, destination, &payload);
            push_ip(ip_number::UDP, &header.to_bytes());
        }
    }
    packet.extend_from_slice(&payload);
    packet
}

fn udp(
    ends: &Ends,
    datagram: &Datagram,
    source: IpAddr,
    destination: IpAddr,
    payload: &[u8],
) -> UdpHeader {
    let mut header = UdpHeader {
        source_port: ends.tcp.server_port,
        destination_port: ends.tcp.client_port,
        length: (UdpHeader::LEN as u32 + datagram.payload_bytes) as u16,
        checksum: 0,
    };
    header.checksum = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            header.calc_checksum_ipv4_raw(source.octets(), destination.octets(), payload)
        }
        _ => header.calc_checksum_ipv6_raw(
            headers::ipv6_octets(source),
            headers::ipv6_octets(destination),
            payload,
        ),
    }
    .unwrap_or(0);
    header
}

/// Bytes determined by flow, direction and position in the stream: only a retransmission repeats them.
fn payload(seed: Option<u64>, body: &Body) -> Vec<u8> {
    let Some(seed) = seed else {
        return vec![0; body.payload_bytes() as usize];
    };
    let mut out = Vec::with_capacity(body.payload_bytes() as usize);
    let (place, salt) = match body {
        Body::Tcp(segment) => (
            segment.sequence,
            u64::from(segment.toward == Toward::Client) << 62,
        ),
        Body::Udp(datagram) => (u64::from(datagram.number) << 16, 1 << 61),
    };
    let (mut at, end) = (place, place + u64::from(body.payload_bytes()));
    while at < end {
        let word = whydrop_path::Random::new(seed ^ salt ^ (at & !7))
            .next_u64()
            .to_le_bytes();
        let from = (at % 8) as usize;
        let until = (8u64.min(end - (at & !7))) as usize;
        out.extend_from_slice(&word[from..until]);
        at = (at & !7) + 8;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use whydrop_hosts::{Reason, SackBlocks, Segment, flags};

    fn ends(ipv6: bool) -> Ends {
        let address = |last: u8| match ipv6 {
            true => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into())),
            false => IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)),
        };
        Ends {
            client: address(1),
            server: address(2),
            tcp: Endpoints {
                client_port: 40_000,
                server_port: 443,
                client_isn: 7,
                server_isn: 9,
                mss: 1_460,
                sack: true,
            },
            payload_seed: Some(5),
        }
    }

    /// Sum over pseudo-header, header and payload, as a receiver verifies it (RFC 1071).
    fn ones_complement_sum(source: IpAddr, destination: IpAddr, tcp: &[u8]) -> u32 {
        let mut bytes = Vec::new();
        for address in [source, destination] {
            match address {
                IpAddr::V4(address) => bytes.extend(address.octets()),
                IpAddr::V6(address) => bytes.extend(address.octets()),
            }
        }
        bytes.extend([0, 6]);
        bytes.extend((tcp.len() as u16).to_be_bytes());
        bytes.extend(tcp);
        let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        let mut sum: u32 = bytes.chunks(2).map(word).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum
    }

    fn segment(sequence: u64, payload_bytes: u32) -> Segment {
        Segment {
            flow: 0,
            toward: Toward::Client,
            flags: flags::ACK,
            sequence,
            acknowledgment: 1,
            payload_bytes,
            window_bytes: 65_535,
            timestamps: Some((1, 2)),
            sack: SackBlocks::default(),
            reason: Reason::New,
            identification: 77,
            ecn: whydrop_path::Ecn::NotCapable,
            delay_ns: 0,
        }
    }

    #[test]
    fn checksums_are_right_and_every_wrapping_decodes_to_the_same_segment() {
        let marks = IpMarks {
            ttl: 60,
            dscp: 10,
            ecn: Ecn::Ce,
            identification: 77,
        };
        for ipv6 in [false, true] {
            for link in [Link::Ethernet, Link::Vlan(7), Link::Gre, Link::Vxlan(99)] {
                let mut frame = Vec::new();
                build(
                    &mut frame,
                    link,
                    &ends(ipv6),
                    marks,
                    &Body::Tcp(segment(3, 1_001)),
                );
                let wire_bytes = frame.len() as u32;
                let decoded = whydrop_capture::decode_frame(
                    whydrop_capture::LinkType::ETHERNET,
                    &frame,
                    wire_bytes,
                    1,
                );
                let (network, transport) = (decoded.network.unwrap(), decoded.transport);
                assert_eq!((network.ttl, network.dscp), (60, 10), "{link:?}");
                let whydrop_capture::Transport::Tcp(tcp) = transport else {
                    panic!("{link:?}")
                };
                assert_eq!((tcp.payload_bytes, tcp.sequence), (1_001, 12));
                let header = if ipv6 { 40 } else { 20 };
                let inner = &frame[frame.len() - network.ip_bytes as usize + header..];
                assert_eq!(
                    ones_complement_sum(network.source, network.destination, inner),
                    0xffff,
                    "{link:?} {ipv6}"
                );
            }
        }
    }

    #[test]
    fn a_part_of_the_stream_has_the_same_payload_however_it_is_cut() {
        let of = |first, bytes| payload(Some(5), &Body::Tcp(segment(first, bytes)));
        let (whole, parts) = (of(3, 100), [of(3, 30), of(33, 70)].concat());
        assert_eq!(whole, parts);
        assert_eq!(whole.len(), 100);
    }

    #[test]
    fn the_header_is_as_long_as_the_segment_says() {
        let mut sack = SackBlocks::default();
        sack.push((10, 20));
        sack.push((30, 40));
        for (flags, timestamps, sack) in [
            (flags::SYN, Some((1, 0)), SackBlocks::default()),
            (flags::SYN, None, SackBlocks::default()),
            (flags::ACK, Some((1, 2)), sack),
            (flags::ACK, None, sack),
            (flags::ACK, None, SackBlocks::default()),
        ] {
            let segment = Segment {
                toward: Toward::Server,
                flags,
                timestamps,
                sack,
                ..segment(1, 0)
            };
            let marks = IpMarks {
                ttl: 60,
                dscp: 0,
                ecn: Ecn::NotCapable,
                identification: 7,
            };
            let mut frame = Vec::new();
            build(
                &mut frame,
                Link::Ethernet,
                &ends(false),
                marks,
                &Body::Tcp(segment),
            );
            assert_eq!(frame.len() as u32, 14 + segment.ip_bytes());
        }
    }
}
