//! Super-segments, which segmentation offload makes of many wire packets, split into these packets.

use super::sighting::{Parts, Sighting};
use crate::packet::PacketFlags;

/// The smallest sensible maximum segment size according to Linux (`TCP_MIN_MSS`): a smaller one would let one
/// captured packet represent thousands.
pub(crate) const SMALLEST_SEGMENT_BYTES: u32 = 88;
/// The payload of an Ethernet frame less IPv4 and TCP headers without options: more may be a super-segment.
pub(crate) const LARGEST_ETHERNET_PAYLOAD_BYTES: u32 = 1460;
/// Ethernet's payload.
const ETHERNET_MTU_BYTES: u32 = 1500;
/// Payload above this cannot be one packet even with jumbo frames of 9000 bytes.
const LARGEST_JUMBO_PAYLOAD_BYTES: u32 = 9000;
/// Most pieces of one super-segment: Linux's `GSO_MAX_SIZE` in the smallest segments.
const MOST_PIECES: u32 = 8 * 65_535 / SMALLEST_SEGMENT_BYTES;

/// The most likely segment size of a super-segment if neither the handshake nor the other point shows it.
///
/// `plain_bytes` is the largest payload of the flow's other packets.
pub(crate) fn likely_segment_bytes(sighting: &Sighting, plain_bytes: Option<u32>) -> Option<u32> {
    if let Some(bytes) = plain_bytes.filter(|bytes| can_cut(sighting.payload_bytes, *bytes)) {
        return Some(bytes);
    }
    let header_bytes = sighting.ip_bytes.saturating_sub(sighting.payload_bytes);
    let guess = ETHERNET_MTU_BYTES.checked_sub(header_bytes)?;
    let whole = guess > 0 && sighting.payload_bytes.is_multiple_of(guess);
    (guess >= SMALLEST_SEGMENT_BYTES
        && sighting.payload_bytes > guess
        && (whole || sighting.payload_bytes > LARGEST_JUMBO_PAYLOAD_BYTES))
        .then_some(guess)
}

/// True if a super-segment can be split like this.
pub(crate) fn can_cut(payload_bytes: u32, segment_bytes: u32) -> bool {
    /// Most small packets that Linux joins on receipt (64 KiB in frames of the smallest size, rounded).
    const MOST_SMALL_PIECES: u32 = 64;
    let most = match segment_bytes {
        SMALLEST_SEGMENT_BYTES.. => MOST_PIECES,
        _ => MOST_SMALL_PIECES,
    };
    segment_bytes > 0
        && segment_bytes < payload_bytes
        && payload_bytes.div_ceil(segment_bytes) <= most
}

/// The wire packets of a super-segment. Hardware and Linux both count the identification up from piece to
/// piece; only the last has FIN.
pub(crate) fn pieces(
    whole: &Sighting,
    side: usize,
    segment_bytes: u32,
) -> impl Iterator<Item = Sighting> + use<> {
    pieces_of(*whole, side, lengths(whole.payload_bytes, segment_bytes))
}

/// The lengths of the segments into which these bytes are split.
pub(crate) fn lengths(payload_bytes: u32, segment_bytes: u32) -> impl Iterator<Item = u32> + use<> {
    let count = payload_bytes.div_ceil(segment_bytes);
    (0..count).map(move |number| segment_bytes.min(payload_bytes - number * segment_bytes))
}

/// The same for pieces of given lengths, which together are as long as the whole. The whole may itself be the
/// rest of a super-segment.
pub(crate) fn pieces_of(
    whole: Sighting,
    side: usize,
    lengths: impl Iterator<Item = u32>,
) -> impl Iterator<Item = Sighting> {
    let header_bytes = whole.ip_bytes.saturating_sub(whole.payload_bytes);
    let mut offset = 0;
    lengths.enumerate().map(move |(number, payload_bytes)| {
        let mut piece = Sighting {
            sequence: whole.sequence.wrapping_add(offset),
            payload_bytes,
            ip_bytes: header_bytes + payload_bytes,
            ..whole
        };
        piece.flags |= PacketFlags::offloaded(side);
        piece.parts.bits &= !Parts::WHOLE;
        piece.parts.bits |= Parts::PIECE;
        if number > 0 {
            piece.parts.bits |= Parts::LATER_PIECE;
            piece.flags |= PacketFlags::LATER_PIECE;
            if whole.parts.identification != 0 {
                piece.parts.identification = whole.parts.identification.wrapping_add(number as u16);
            }
        }
        offset += payload_bytes;
        if offset < whole.payload_bytes {
            piece.flags &= !PacketFlags::FIN;
        }
        piece
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(payload_bytes: u32) -> Sighting {
        Sighting {
            parts: Parts {
                material: [0; 5],
                identification: 0xffff,
                protocol: 6,
                bits: Parts::DATA | Parts::WHOLE,
            },
            flow: 0,
            index: 7,
            time_ns: 1,
            sequence: u32::MAX - 999,
            payload_bytes,
            ip_bytes: payload_bytes + 52,
            ttl: 64,
            tos: 0,
            flags: PacketFlags::TCP | PacketFlags::FIN,
        }
    }

    #[test]
    fn pieces_equal_the_wire_packets() {
        let pieces: Vec<Sighting> = pieces(&whole(2500), 1, 1000).collect();
        let sizes: Vec<u32> = pieces.iter().map(|piece| piece.ip_bytes).collect();
        assert_eq!(sizes, [1052, 1052, 552]);
        let sequences: Vec<u32> = pieces.iter().map(|piece| piece.sequence).collect();
        assert_eq!(sequences, [u32::MAX - 999, 0, 1000]);
        let ids: Vec<u16> = pieces.iter().map(|p| p.parts.identification).collect();
        assert_eq!(ids, [0xffff, 0, 1]);
        let finished: Vec<bool> = pieces
            .iter()
            .map(|piece| piece.flags & PacketFlags::FIN != 0)
            .collect();
        assert_eq!(finished, [false, false, true]);
        assert!(pieces.iter().all(|piece| !piece.parts.has(Parts::WHOLE)));
    }

    #[test]
    fn no_packet_is_split_into_thousands() {
        assert!(can_cut(65_000, 1448));
        assert!(can_cut(70, 35));
        assert!(!can_cut(65_000, 1));
        assert!(!can_cut(1448, 1448));
        assert!(!can_cut(1448, 0));
    }

    #[test]
    fn without_other_evidence_the_size_is_that_of_ethernet() {
        assert_eq!(likely_segment_bytes(&whole(1448 * 7), None), Some(1448));
        assert_eq!(likely_segment_bytes(&whole(8948), None), None);
        assert_eq!(likely_segment_bytes(&whole(5000), Some(1228)), Some(1228));
    }
}
