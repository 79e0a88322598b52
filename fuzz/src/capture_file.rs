//! Packets as a capture file without payload, so that a seed of a few kilobytes contains a whole loss and its repair.

use std::net::IpAddr;

use whydrop_capture::{Packet, Transport};
use whydrop_testkit::{
    ByteOrder, Ipv4, PcapFile, Tcp, TcpOptions, Udp, block, interface, section_header,
};

const RAW_IP: u16 = 101;
const SNAPLEN_BYTES: u32 = 96;

/// Writes pcap with nanoseconds and link type raw IP: headers only, with the original lengths. IPv4 TCP packets only.
pub fn pcap(packets: &[Packet]) -> Vec<u8> {
    let file = PcapFile {
        link: RAW_IP,
        snaplen_bytes: SNAPLEN_BYTES,
        ..PcapFile::default()
    };
    let mut bytes = file.header();
    for packet in packets {
        if let Some(headers) = headers(packet) {
            bytes.extend(file.record(packet.time_ns, ip_bytes(packet), &headers));
        }
    }
    bytes
}

/// Writes pcapng with microseconds: one section, one interface, enhanced packet blocks.
pub fn pcapng(packets: &[Packet]) -> Vec<u8> {
    let order = ByteOrder::Little;
    let mut file = section_header(order);
    file.extend(interface(order, RAW_IP, SNAPLEN_BYTES, &[]));
    for packet in packets {
        let Some(headers) = headers(packet) else {
            continue;
        };
        let microseconds = packet.time_ns as u64 / 1000;
        let words = [
            0,
            (microseconds >> 32) as u32,
            microseconds as u32,
            headers.len() as u32,
            ip_bytes(packet),
        ];
        let mut body = words.map(u32::to_le_bytes).concat();
        body.extend(headers);
        file.extend(block(order, 6, &body));
    }
    file
}

fn ip_bytes(packet: &Packet) -> u32 {
    packet.network.map_or(0, |network| network.ip_bytes)
}

/// The IP packet of a datagram, as far as it was captured. IPv4 only.
pub fn datagram(packet: &Packet) -> Option<Vec<u8>> {
    let Transport::Udp {
        source_port,
        destination_port,
        payload,
        ..
    } = packet.transport
    else {
        return None;
    };
    let datagram = Udp {
        ports: (source_port, destination_port),
        payload,
        ..Udp::default()
    };
    ipv4(packet, 17, &datagram.bytes())
}

fn ipv4(packet: &Packet, protocol: u8, body: &[u8]) -> Option<Vec<u8>> {
    let network = packet.network?;
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (network.source, network.destination)
    else {
        return None;
    };
    let header = Ipv4 {
        source: source.octets(),
        destination: destination.octets(),
        protocol,
        identification: network.identification.unwrap_or(0),
        ttl: network.ttl,
        type_of_service: network.ecn & 3,
        total_bytes: Some(network.ip_bytes.min(65_535) as u16),
        ..Ipv4::default()
    };
    Some(header.bytes(body))
}

fn headers(packet: &Packet) -> Option<Vec<u8>> {
    let Transport::Tcp(tcp) = packet.transport else {
        return None;
    };
    let mut options = TcpOptions {
        mss: tcp.options.mss,
        sack_permitted: tcp.options.sack_permitted,
        window_scale: tcp.options.window_scale,
        timestamps: tcp.options.timestamps,
        sack: &[],
    };
    // there are 40 bytes
    let room = (40 - options.bytes().len()).saturating_sub(4) / 8;
    let blocks = tcp.options.sack_blocks();
    options.sack = &blocks[..blocks.len().min(room)];
    let segment = Tcp {
        ports: (tcp.source_port, tcp.destination_port),
        sequence: tcp.sequence,
        acknowledgment: tcp.acknowledgment,
        flags: tcp.flags.0 & 0x1ff,
        window: tcp.window,
        checksum: 0,
        options: options.bytes(),
        payload: Vec::new(),
    };
    ipv4(packet, 6, &segment.bytes())
}
