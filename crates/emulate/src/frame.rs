//! Ethernet frames: what the elements of a path read of them, and the mark that they set.

use whydrop_path::{Ecn, Header};

/// Length of the Ethernet header.
pub const ETHERNET_BYTES: usize = 14;

const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xDD];
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The length of the IP packet in a frame, its flow and its ECN field; `None` if the frame has no IP packet.
pub fn read(frame: &[u8]) -> Option<(u32, Header)> {
    let packet = frame.get(ETHERNET_BYTES..)?;
    let kind = frame.get(ETHERNET_BYTES - 2..ETHERNET_BYTES)?;
    let (ecn, flow) = if kind == IPV4 {
        read_ipv4(packet)?
    } else if kind == IPV6 {
        read_ipv6(packet)?
    } else {
        return None;
    };
    let header = Header {
        flow,
        ecn: Ecn::of_bits(ecn),
    };
    Some((packet.len() as u32, header))
}

fn read_ipv4(packet: &[u8]) -> Option<(u8, u64)> {
    let header = packet.get(..IPV4_BYTES)?;
    let protocol = header[9];
    let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3FFF != 0;
    let length = usize::from(header[0] & 0xF) * 4;
    let ports = ports(protocol, packet.get(length..)).filter(|_| !is_fragment);
    Some((header[1], hash(&header[12..20], protocol, ports)))
}

fn read_ipv6(packet: &[u8]) -> Option<(u8, u64)> {
    let header = packet.get(..IPV6_BYTES)?;
    let protocol = header[6];
    let ports = ports(protocol, packet.get(IPV6_BYTES..));
    Some((header[1] >> 4, hash(&header[8..40], protocol, ports)))
}

fn ports(protocol: u8, transport: Option<&[u8]>) -> Option<&[u8]> {
    match protocol {
        TCP | UDP => transport?.get(..4),
        _ => None,
    }
}

/// FNV-1a of the 5-tuple.
fn hash(addresses: &[u8], protocol: u8, ports: Option<&[u8]>) -> u64 {
    let bytes = (addresses.iter().chain([&protocol])).chain(ports.unwrap_or_default());
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

/// Sets Congestion Experienced in the IP header, with the checksum that follows from it.
pub fn mark(frame: &mut [u8]) {
    let is_ipv4 = frame.get(ETHERNET_BYTES - 2..ETHERNET_BYTES) == Some(&IPV4[..]);
    let Some(packet) = frame.get_mut(ETHERNET_BYTES..) else {
        return;
    };
    if packet.len() < IPV4_BYTES {
        return;
    }
    if !is_ipv4 {
        packet[1] |= 0b11 << 4;
        return;
    }
    let before = u16::from_be_bytes([packet[0], packet[1]]);
    packet[1] |= 0b11;
    let after = u16::from_be_bytes([packet[0], packet[1]]);
    let checksum = u16::from_be_bytes([packet[10], packet[11]]);
    packet[10..12].copy_from_slice(&updated(checksum, before, after).to_be_bytes());
}

/// The checksum after a change of one word (RFC 1624, equation 3).
fn updated(checksum: u16, before: u16, after: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !((folded & 0xFFFF) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(traffic_class: u8, protocol: u8) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend(IPV4);
        frame.extend([
            0x45,
            traffic_class,
            0,
            28,
            0,
            0,
            0x40,
            0,
            64,
            protocol,
            0,
            0,
        ]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x30, 0x39, 0x14, 0x51, 0, 8, 0, 0]);
        let sum = checksum(&frame[ETHERNET_BYTES..ETHERNET_BYTES + IPV4_BYTES]);
        frame[ETHERNET_BYTES + 10..ETHERNET_BYTES + 12].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    fn ipv6(traffic_class: u8) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend(IPV6);
        frame.extend([
            0x60 | traffic_class >> 4,
            traffic_class << 4,
            0,
            0,
            0,
            4,
            UDP,
            64,
        ]);
        frame.extend([1; 32]);
        frame.extend([0x30, 0x39, 0x14, 0x51]);
        frame
    }

    /// The checksum of a header, by its definition (RFC 791): 0 if the header has a valid one.
    fn checksum(header: &[u8]) -> u16 {
        let words = header.chunks(2);
        let mut sum: u32 = words
            .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
            .sum();
        while sum > 0xFFFF {
            sum = (sum & 0xFFFF) + (sum >> 16);
        }
        !sum as u16
    }

    #[test]
    fn the_length_is_that_of_the_ip_packet_and_the_ecn_field_is_read() {
        for (traffic_class, ecn) in [
            (0, Ecn::NotCapable),
            (1, Ecn::Ect1),
            (0xB8 | 2, Ecn::Ect0),
            (3, Ecn::Ce),
        ] {
            let (bytes, header) = read(&ipv4(traffic_class, UDP)).unwrap();
            assert_eq!((bytes, header.ecn), (28, ecn));
            let (bytes, header) = read(&ipv6(traffic_class)).unwrap();
            assert_eq!((bytes, header.ecn), (44, ecn));
        }
    }

    #[test]
    fn packets_of_one_5_tuple_are_one_flow_and_others_are_not() {
        let flow = |frame: &[u8]| read(frame).unwrap().1.flow;
        let mut other_port = ipv4(0, UDP);
        other_port[ETHERNET_BYTES + IPV4_BYTES] ^= 1;
        assert_eq!(flow(&ipv4(0, UDP)), flow(&ipv4(3, UDP)));
        assert_ne!(flow(&ipv4(0, UDP)), flow(&other_port));
        assert_ne!(flow(&ipv4(0, UDP)), flow(&ipv4(0, TCP)));
        assert_ne!(flow(&ipv4(0, UDP)), flow(&ipv6(0)));
        // Of protocols without ports those bytes are data.
        let mut other_data = ipv4(0, 1);
        other_data[ETHERNET_BYTES + IPV4_BYTES] ^= 1;
        assert_eq!(flow(&ipv4(0, 1)), flow(&other_data));
    }

    #[test]
    fn a_mark_changes_the_ecn_field_and_leaves_a_valid_checksum() {
        for traffic_class in 0..=255 {
            let mut frame = ipv4(traffic_class, TCP);
            mark(&mut frame);
            let header = &frame[ETHERNET_BYTES..ETHERNET_BYTES + IPV4_BYTES];
            assert_eq!((header[1], checksum(header)), (traffic_class | 3, 0));
            let mut frame = ipv6(traffic_class);
            mark(&mut frame);
            assert_eq!(frame, ipv6(traffic_class | 3));
        }
    }

    #[test]
    fn frames_without_an_ip_packet_and_short_ones_are_not_read() {
        let mut arp = ipv4(0, UDP);
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        assert_eq!(read(&arp), None);
        for frame in [ipv4(1, UDP), ipv6(1)] {
            for length in 0..frame.len() {
                let mut cut = frame[..length].to_vec();
                let _ = read(&cut);
                mark(&mut cut);
            }
        }
    }
}
