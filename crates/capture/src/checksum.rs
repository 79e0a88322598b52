//! Checksums of TCP segments: whether one arrived intact (RFC 9293, section 3.1; RFC 1071).

use std::net::IpAddr;

use crate::decode::Decoded;
use crate::packet::Transport;

/// The state of a TCP segment's checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    Right,
    /// Damaged; or not computed yet, in a capture at a sender that leaves this to its network card.
    Wrong,
    /// No TCP, or not captured completely.
    Unknown,
}

const TCP: u64 = 6;

pub(crate) fn of_segment(decoded: &Decoded, frame: &[u8]) -> Checksum {
    let (Some(network), Transport::Tcp(_)) = (&decoded.network, &decoded.transport) else {
        return Checksum::Unknown;
    };
    let (start, header_at) = (decoded.transport_at as usize, decoded.network_at as usize);
    let end = header_at.saturating_add(network.ip_bytes as usize);
    let Some(segment) = frame.get(start..end) else {
        return Checksum::Unknown;
    };
    // the addresses in the frame: a translated packet is returned with others
    let addresses = match network.source {
        IpAddr::V4(_) => header_at.saturating_add(12)..header_at.saturating_add(20),
        IpAddr::V6(_) => header_at.saturating_add(8)..header_at.saturating_add(40),
    };
    let Some(addresses) = frame.get(addresses).map(sum) else {
        return Checksum::Unknown;
    };
    match fold(addresses + TCP + segment.len() as u64 + sum(segment)) {
        0xffff => Checksum::Right,
        _ => Checksum::Wrong,
    }
}

/// Sum of the 16-bit words, the last one padded with zero.
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2);
    words
        .map(|word| u64::from(word[0]) << 8 | u64::from(word.get(1).copied().unwrap_or(0)))
        .sum()
}

/// Adds the carries, as ones' complement requires.
fn fold(mut sum: u64) -> u64 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

#[cfg(test)]
mod tests {
    use whydrop_testkit::{Ipv4, Tcp};

    use super::*;
    use crate::LinkType;
    use crate::decode::{Frame, decode};

    fn checked(bytes: &[u8]) -> Checksum {
        let frame = Frame {
            bytes,
            wire_bytes: bytes.len() as u32,
            tunnel_levels: 0,
        };
        of_segment(&decode(LinkType::RAW, frame), bytes)
    }

    /// Three bytes from 10.0.0.1:1 to 10.0.0.2:2, with the checksum that a kernel computed.
    fn segment() -> Vec<u8> {
        let tcp = Tcp {
            ports: (1, 2),
            sequence: 1,
            acknowledgment: 1,
            window: 256,
            checksum: 0,
            options: Vec::new(),
            payload: vec![1, 2, 3],
            ..Tcp::default()
        };
        let mut frame = Ipv4::default().bytes(&tcp.bytes());
        let total = 0x0a00 * 2 + 1 + 2 + 6 + 23 + 1 + 2 + 1 + 1 + 0x5010 + 0x0100 + 0x0102 + 0x0300;
        let right = !(fold(total) as u16);
        frame[36..38].copy_from_slice(&right.to_be_bytes());
        frame
    }

    #[test]
    fn a_changed_bit_makes_it_wrong_and_a_missing_byte_unknown() {
        let whole = segment();
        assert_eq!(checked(&whole), Checksum::Right);
        for at in 20..whole.len() {
            // the bytes of the header's length and of the flags decide what is parsed at all
            if at == 32 {
                continue;
            }
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            assert_eq!(checked(&damaged), Checksum::Wrong, "byte {at}");
        }
        assert_eq!(checked(&whole[..whole.len() - 1]), Checksum::Unknown);
    }
}
