//! Packets as a capture file without payload, so that a seed of a few kilobytes contains a whole loss and its repair.

use std::net::IpAddr;

use whydrop_capture::{Packet, Transport};

/// Writes pcap with nanoseconds and link type raw IP: headers only, with the original lengths. IPv4 TCP packets only.
pub fn pcap(packets: &[Packet]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4du32, 0x0004_0002, 0, 0, 96, 101] {
        file.extend(word.to_le_bytes());
    }
    for packet in packets {
        let Some(headers) = headers(packet) else {
            continue;
        };
        let (seconds, rest) = (
            packet.time_ns / 1_000_000_000,
            packet.time_ns % 1_000_000_000,
        );
        let ip_bytes = packet.network.map_or(0, |network| network.ip_bytes);
        for word in [seconds as u32, rest as u32, headers.len() as u32, ip_bytes] {
            file.extend(word.to_le_bytes());
        }
        file.extend(headers);
    }
    file
}

/// Writes pcapng with microseconds: one section, one interface, enhanced packet blocks.
pub fn pcapng(packets: &[Packet]) -> Vec<u8> {
    let mut file = Vec::new();
    let block = |kind: u32, body: &[u8], file: &mut Vec<u8>| {
        let padded = body.len().next_multiple_of(4);
        let length = (padded + 12) as u32;
        file.extend(kind.to_le_bytes());
        file.extend(length.to_le_bytes());
        file.extend(body);
        file.resize(file.len() + padded - body.len(), 0);
        file.extend(length.to_le_bytes());
    };
    let mut section = 0x1a2b_3c4du32.to_le_bytes().to_vec();
    section.extend([1, 0, 0, 0]);
    section.extend([0xff; 8]);
    block(0x0a0d_0d0a, &section, &mut file);
    block(1, &[101, 0, 0, 0, 96, 0, 0, 0], &mut file);
    for packet in packets {
        let Some(headers) = headers(packet) else {
            continue;
        };
        let microseconds = packet.time_ns as u64 / 1000;
        let ip_bytes = packet.network.map_or(0, |network| network.ip_bytes);
        let mut body = Vec::new();
        for word in [
            0,
            (microseconds >> 32) as u32,
            microseconds as u32,
            headers.len() as u32,
            ip_bytes,
        ] {
            body.extend(word.to_le_bytes());
        }
        body.extend(headers);
        block(6, &body, &mut file);
    }
    file
}

fn headers(packet: &Packet) -> Option<Vec<u8>> {
    let network = packet.network?;
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (network.source, network.destination)
    else {
        return None;
    };
    let Transport::Tcp(tcp) = packet.transport else {
        return None;
    };
    let options = options(&tcp.options);
    let mut bytes = vec![0x45, network.ecn & 3];
    bytes.extend((network.ip_bytes.min(65_535) as u16).to_be_bytes());
    bytes.extend(network.identification.unwrap_or(0).to_be_bytes());
    bytes.extend([0x40, 0, network.ttl, 6, 0, 0]);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    bytes.extend(tcp.source_port.to_be_bytes());
    bytes.extend(tcp.destination_port.to_be_bytes());
    bytes.extend(tcp.sequence.to_be_bytes());
    bytes.extend(tcp.acknowledgment.to_be_bytes());
    let words = 5 + options.len() as u16 / 4;
    bytes.extend((words << 12 | tcp.flags.0 & 0x1ff).to_be_bytes());
    bytes.extend(tcp.window.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(options);
    Some(bytes)
}

fn options(options: &whydrop_capture::TcpOptions) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mss) = options.mss {
        bytes.extend([2, 4]);
        bytes.extend(mss.to_be_bytes());
    }
    if options.sack_permitted {
        bytes.extend([1, 1, 4, 2]);
    }
    if let Some(shift) = options.window_scale {
        bytes.extend([1, 3, 3, shift]);
    }
    if let Some((value, echo)) = options.timestamps {
        bytes.extend([1, 1, 8, 10]);
        bytes.extend(value.to_be_bytes());
        bytes.extend(echo.to_be_bytes());
    }
    let blocks = options.sack_blocks();
    let room = (40 - bytes.len()).saturating_sub(4) / 8;
    let blocks = &blocks[..blocks.len().min(room)];
    if !blocks.is_empty() {
        bytes.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (start, end) in blocks {
            bytes.extend(start.to_be_bytes());
            bytes.extend(end.to_be_bytes());
        }
    }
    bytes
}
