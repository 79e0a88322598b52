//! Frames as a sniffer at one of the points sees them: link layer, tunnel, IPv4 or IPv6, TCP or UDP, with payload.

use std::net::{IpAddr, Ipv4Addr};

use whydrop_path::Ecn;

use super::crossing::Body;
use crate::pcap::{self, Endpoints};
use crate::segment::{Datagram, Toward};

/// What lies around the IP packets at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    Ethernet,
    /// IEEE 802.1Q, by the number of the virtual network.
    Vlan(u16),
    /// RFC 2784, without checksum, key and sequence number.
    Gre,
    /// RFC 7348, by the network identifier.
    Vxlan(u32),
}

/// The two ends of a flow as they look at one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    pub client: IpAddr,
    pub server: IpAddr,
    /// Ports and what the TCP header needs; its IPv4 addresses and times to live are not used.
    pub tcp: Endpoints,
    /// Distinguishes the payload of flows.
    pub payload_seed: u64,
}

/// What is written into the IP header beside addresses and lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpMarks {
    pub ttl: u8,
    pub dscp: u8,
    pub ecn: Ecn,
    pub identification: u16,
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
/// Frames are not padded to the 60 bytes of IEEE 802.3: a host's own sniffer sees them before that happens.
const MAC_NEAR_CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 1];
const MAC_NEAR_SERVER: [u8; 6] = [2, 0, 0, 0, 0, 2];
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_GRE: u8 = 47;
const VXLAN_PORT: u16 = 4789;
const TUNNEL_TTL: u8 = 64;

/// Build the whole frame, payload and checksums included.
pub fn build(frame: &mut Vec<u8>, link: Link, ends: &Ends, marks: IpMarks, body: &Body) {
    let mut packet = Vec::with_capacity(128 + body.payload_bytes() as usize);
    push_ip(&mut packet, ends, marks, body);
    let ethertype = if ends.client.is_ipv4() {
        ETHERTYPE_IPV4
    } else {
        ETHERTYPE_IPV6
    };
    frame.clear();
    push_macs(frame, body.toward());
    match link {
        Link::Ethernet => frame.extend_from_slice(&ethertype.to_be_bytes()),
        Link::Vlan(number) => {
            frame.extend_from_slice(&ETHERTYPE_VLAN.to_be_bytes());
            frame.extend_from_slice(&(number & 0x0fff).to_be_bytes());
            frame.extend_from_slice(&ethertype.to_be_bytes());
        }
        Link::Gre => {
            frame.extend_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
            push_tunnel_ipv4(frame, body.toward(), PROTOCOL_GRE, 4 + packet.len());
            frame.extend_from_slice(&[0, 0]);
            frame.extend_from_slice(&ethertype.to_be_bytes());
        }
        Link::Vxlan(network) => push_vxlan(frame, network, body.toward(), ethertype, packet.len()),
    }
    frame.extend_from_slice(&packet);
}

fn push_macs(frame: &mut Vec<u8>, toward: Toward) {
    let (to, from) = match toward {
        Toward::Client => (MAC_NEAR_CLIENT, MAC_NEAR_SERVER),
        Toward::Server => (MAC_NEAR_SERVER, MAC_NEAR_CLIENT),
    };
    frame.extend_from_slice(&to);
    frame.extend_from_slice(&from);
}

/// Everything between the outer Ethernet header and the inner IP packet.
fn push_vxlan(
    frame: &mut Vec<u8>,
    network: u32,
    toward: Toward,
    ethertype: u16,
    packet_bytes: usize,
) {
    const UDP_BYTES: usize = 8;
    const VXLAN_BYTES: usize = 8;
    const ETHERNET_BYTES: usize = 14;
    let udp_bytes = UDP_BYTES + VXLAN_BYTES + ETHERNET_BYTES + packet_bytes;
    frame.extend_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
    push_tunnel_ipv4(frame, toward, PROTOCOL_UDP, udp_bytes);
    // The source port spreads flows over links; the checksum may be zero (RFC 7348, section 5).
    frame.extend_from_slice(&50_000u16.to_be_bytes());
    frame.extend_from_slice(&VXLAN_PORT.to_be_bytes());
    frame.extend_from_slice(&(udp_bytes as u16).to_be_bytes());
    frame.extend_from_slice(&[0, 0]);
    frame.extend_from_slice(&[0x08, 0, 0, 0]);
    frame.extend_from_slice(&(network << 8).to_be_bytes());
    push_macs(frame, toward);
    frame.extend_from_slice(&ethertype.to_be_bytes());
}

fn push_tunnel_ipv4(frame: &mut Vec<u8>, toward: Toward, protocol: u8, carried_bytes: usize) {
    let (near_server, near_client) = (Ipv4Addr::new(172, 16, 0, 1), Ipv4Addr::new(172, 16, 0, 2));
    let (source, destination) = match toward {
        Toward::Client => (near_server, near_client),
        Toward::Server => (near_client, near_server),
    };
    let marks = IpMarks {
        ttl: TUNNEL_TTL,
        dscp: 0,
        ecn: Ecn::NotCapable,
        identification: 0,
    };
    push_ipv4(frame, source, destination, marks, protocol, carried_bytes);
}

fn push_ip(packet: &mut Vec<u8>, ends: &Ends, marks: IpMarks, body: &Body) {
    let (source, destination) = match body.toward() {
        Toward::Client => (ends.server, ends.client),
        Toward::Server => (ends.client, ends.server),
    };
    let mut transport = Vec::with_capacity(80 + body.payload_bytes() as usize);
    let protocol = match body {
        Body::Tcp(segment) => {
            pcap::push_tcp(&mut transport, segment, &ends.tcp);
            PROTOCOL_TCP
        }
        Body::Udp(datagram) => {
            push_udp(&mut transport, ends, datagram);
            PROTOCOL_UDP
        }
    };
    push_payload(&mut transport, ends.payload_seed, body);
    set_checksum(&mut transport, source, destination, protocol);
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            push_ipv4(
                packet,
                source,
                destination,
                marks,
                protocol,
                transport.len(),
            );
        }
        _ => push_ipv6(
            packet,
            source,
            destination,
            marks,
            protocol,
            transport.len(),
        ),
    }
    packet.extend_from_slice(&transport);
}

fn push_ipv4(
    out: &mut Vec<u8>,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    marks: IpMarks,
    protocol: u8,
    carried_bytes: usize,
) {
    const HEADER_BYTES: usize = 20;
    let start = out.len();
    // A total of 0 says "too long for the field", as kernels write for the largest super-segments.
    let total = u16::try_from(HEADER_BYTES + carried_bytes).unwrap_or(0);
    out.extend_from_slice(&[0x45, marks.dscp << 2 | marks.ecn.bits()]);
    out.extend_from_slice(&total.to_be_bytes());
    out.extend_from_slice(&marks.identification.to_be_bytes());
    out.extend_from_slice(&[0x40, 0, marks.ttl, protocol, 0, 0]);
    out.extend_from_slice(&source.octets());
    out.extend_from_slice(&destination.octets());
    let checksum = pcap::fold(pcap::sum_words(&out[start..start + HEADER_BYTES]));
    out[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
}

fn push_ipv6(
    out: &mut Vec<u8>,
    source: IpAddr,
    destination: IpAddr,
    marks: IpMarks,
    protocol: u8,
    carried_bytes: usize,
) {
    let first_word = 6u32 << 28 | u32::from(marks.dscp << 2 | marks.ecn.bits()) << 20;
    out.extend_from_slice(&first_word.to_be_bytes());
    out.extend_from_slice(&u16::try_from(carried_bytes).unwrap_or(0).to_be_bytes());
    out.extend_from_slice(&[protocol, marks.ttl]);
    out.extend_from_slice(&octets(source));
    out.extend_from_slice(&octets(destination));
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn push_udp(out: &mut Vec<u8>, ends: &Ends, datagram: &Datagram) {
    out.extend_from_slice(&ends.tcp.server_port.to_be_bytes());
    out.extend_from_slice(&ends.tcp.client_port.to_be_bytes());
    out.extend_from_slice(&((8 + datagram.payload_bytes) as u16).to_be_bytes());
    out.extend_from_slice(&[0, 0]);
}

/// The checksum of the transport header, over pseudo-header, header and payload (RFC 9293, 768, 8200).
fn set_checksum(transport: &mut [u8], source: IpAddr, destination: IpAddr, protocol: u8) {
    let place = if protocol == PROTOCOL_TCP { 16 } else { 6 };
    transport[place..place + 2].copy_from_slice(&[0, 0]);
    let addresses = pcap::sum_words(&octets(source)) + pcap::sum_words(&octets(destination));
    let pseudo_header = addresses + u32::from(protocol) + transport.len() as u32;
    let mut checksum = pcap::fold(pseudo_header + pcap::sum_words(transport));
    if protocol == PROTOCOL_UDP && checksum == 0 {
        checksum = 0xffff;
    }
    transport[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Bytes that follow from flow, direction and place in the stream: a retransmission repeats them, nothing else does.
fn push_payload(out: &mut Vec<u8>, seed: u64, body: &Body) {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    use crate::segment::{Reason, SackBlocks, Segment, flags};

    fn ends(ipv6: bool) -> Ends {
        let address = |last: u8| match ipv6 {
            true => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into())),
            false => IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)),
        };
        Ends {
            client: address(1),
            server: address(2),
            tcp: Endpoints::for_ports(40_000, 443, 7, 9, 1_460),
            payload_seed: 5,
        }
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
            held_ns: 0,
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
                let pseudo = pcap::sum_words(&octets(network.source))
                    + pcap::sum_words(&octets(network.destination))
                    + 6
                    + inner.len() as u32;
                assert_eq!(
                    pcap::fold(pseudo + pcap::sum_words(inner)),
                    0,
                    "{link:?} {ipv6}"
                );
            }
        }
    }

    #[test]
    fn a_part_of_the_stream_has_the_same_payload_however_it_is_cut() {
        let (mut whole, mut parts) = (Vec::new(), Vec::new());
        push_payload(&mut whole, 5, &Body::Tcp(segment(3, 100)));
        push_payload(&mut parts, 5, &Body::Tcp(segment(3, 30)));
        push_payload(&mut parts, 5, &Body::Tcp(segment(33, 70)));
        assert_eq!(whole, parts);
        assert_eq!(whole.len(), 100);
    }
}
