//! A packet at one point, and the key by which it is found at the other.
//!
//! The key is a hash of fields that neither routers nor address translation rewrite. For TCP these are the
//! sequence and acknowledgment numbers, the timestamps, SYN, RST, whether there is data, and without data the
//! window, SACK blocks and FIN. Excluded are the length, PSH and FIN of data (segmentation offload moves
//! them), addresses, ports, TTL, DSCP and ECN. For other protocols these are the length and the first bytes
//! of the payload.

use ahash::RandomState;
use whydrop_capture::{Network, TcpFlags, TcpSegment};

/// Bytes of payload that distinguish packets without sequence numbers.
pub(crate) const PAYLOAD_KEY_BYTES: usize = 16;
/// In place of a protocol number: IP fragments other than the first.
pub(crate) const FRAGMENT: u8 = 255;
const TCP: u8 = 6;

/// The parts of the key, stored so that it can be rebuilt with less precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    /// TCP: acknowledgment, TSval, TSecr, window or 0, hash of the SACK blocks (for a SYN: the MSS option,
    /// which is no part of the key). Others: 16 bytes of payload, and the token of the flow if the payload is
    /// commonplace.
    pub material: [u32; 5],
    pub identification: u16,
    pub protocol: u8,
    pub bits: u8,
}

impl Parts {
    pub(crate) const SYN: u8 = 1;
    pub(crate) const RST: u8 = 2;
    pub(crate) const DATA: u8 = 4;
    pub(crate) const BARE_FIN: u8 = 8;
    /// A device between the points changes the numbers of its flow; those of capture 2 are converted to
    /// capture 1's. SACK blocks may be changed or not, so they are no part of the key.
    pub(crate) const RENUMBERED: u8 = 16;
    /// A piece of a super-segment.
    pub(crate) const PIECE: u8 = 32;
    /// A piece of a super-segment other than the first: its identification is a guess.
    pub(crate) const LATER_PIECE: u8 = 64;
    /// A super-segment with an unknown segment size.
    pub(crate) const WHOLE: u8 = 128;
    const IN_KEY: u8 = Self::SYN | Self::RST | Self::DATA | Self::BARE_FIN;

    #[inline]
    pub(crate) fn has(&self, bits: u8) -> bool {
        self.bits & bits != 0
    }

    #[inline]
    pub(crate) fn is_tcp(&self) -> bool {
        self.protocol == TCP
    }

    /// True if a TCP packet acknowledges data. One in 2^32 that does has the number 0.
    #[inline]
    pub(crate) fn acknowledges(&self) -> bool {
        self.protocol == TCP && self.material[0] != 0
    }

    /// The bits that are part of the key.
    pub(crate) fn kind_bits(&self) -> u8 {
        self.bits & Self::IN_KEY
    }

    /// True if timestamps distinguish a packet from its retransmission.
    #[inline]
    pub(crate) fn has_timestamps(&self) -> bool {
        self.protocol == TCP && (self.material[1], self.material[2]) != (0, 0)
    }

    #[inline]
    pub(crate) fn of_tcp(hashes: &RandomState, network: &Network, tcp: &TcpSegment) -> Self {
        let mut bits = 0;
        if tcp.flags.has(TcpFlags::SYN) {
            bits |= Self::SYN;
        }
        if tcp.flags.has(TcpFlags::RST) {
            bits |= Self::RST;
        }
        let (mut window, mut sack) = (0, 0);
        if tcp.payload_bytes > 0 {
            bits |= Self::DATA;
        } else if bits & Self::SYN == 0 {
            window = u32::from(tcp.window);
            sack = match tcp.options.sack_blocks() {
                [] => 0,
                blocks => hashes.hash_one(blocks) as u32,
            };
            if tcp.flags.has(TcpFlags::FIN) {
                bits |= Self::BARE_FIN;
            }
        }
        if bits & Self::SYN != 0 {
            sack = u32::from(tcp.options.mss.unwrap_or(0));
        }
        let (value, echo) = tcp.options.timestamps.unwrap_or((0, 0));
        Self {
            material: [tcp.acknowledgment, value, echo, window, sack],
            identification: network.identification.unwrap_or(0),
            protocol: TCP,
            bits,
        }
    }

    /// `payload` is the captured part that is not rewritten on the path.
    pub(crate) fn of_other(
        network: &Network,
        protocol: u8,
        payload: &[u8],
        flow_token: u32,
    ) -> Self {
        let mut bytes = [0u8; PAYLOAD_KEY_BYTES];
        let length = payload.len().min(PAYLOAD_KEY_BYTES);
        bytes[..length].copy_from_slice(&payload[..length]);
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Self {
            material: [word(0), word(4), word(8), word(12), flow_token],
            identification: network.identification.unwrap_or(0),
            protocol,
            bits: 0,
        }
    }
}

/// True if chance or habit repeats such a payload: fewer than six different bytes.
fn is_commonplace(words: [u64; 2]) -> bool {
    let mut seen = [0u64; 4];
    for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
        seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
    let different: u32 = seen.iter().map(|word| word.count_ones()).sum();
    different < 6
}

/// The fields that the captures hold for every packet, of which keys may consist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Precision {
    pub timestamps: bool,
    pub sack: bool,
    pub payload_bytes: u8,
    /// No super-segments so far: keys of data packets include all fields that those of others do, not only
    /// the sequence number.
    pub strict_data: bool,
}

impl Default for Precision {
    fn default() -> Self {
        Self {
            timestamps: true,
            sack: true,
            payload_bytes: PAYLOAD_KEY_BYTES as u8,
            strict_data: true,
        }
    }
}

impl Precision {
    /// The precision left if a snapshot length cut the options of such a packet off.
    pub(crate) fn without_options(self, tcp: &TcpSegment) -> Self {
        Self {
            timestamps: self.timestamps && tcp.options.timestamps.is_some(),
            sack: false,
            ..self
        }
    }

    #[inline]
    pub(crate) fn key(
        self,
        hashes: &RandomState,
        parts: &Parts,
        sequence: u32,
        payload_bytes: u32,
    ) -> u64 {
        let [a, b, c, d, e] = parts.material.map(u64::from);
        let kind = u64::from(parts.protocol) | u64::from(parts.kind_bits()) << 8;
        if parts.protocol == TCP {
            if parts.has(Parts::DATA) && !self.strict_data {
                return hashes.hash_one((u64::from(sequence), kind));
            }
            let timestamps = if self.timestamps { b | c << 32 } else { 0 };
            let sack = if self.sack && !parts.has(Parts::SYN | Parts::RENUMBERED) {
                e << 32
            } else {
                0
            };
            return hashes.hash_one((
                u64::from(sequence) | a << 32,
                timestamps,
                kind ^ d << 16 ^ sack,
            ));
        }
        let payload = self.masked([a | b << 32, c | d << 32]);
        let token = if is_commonplace(payload) { e << 32 } else { 0 };
        hashes.hash_one((
            payload[0],
            payload[1],
            kind ^ u64::from(payload_bytes) << 16 ^ token,
        ))
    }

    /// The mark of copies of a packet among other packets of its flow: its key's hash, odd unless chance or
    /// habit repeats such contents. TCP repeats them in retransmissions, and receive offload changes
    /// everything but the numbers of the bytes: its data has no other contents.
    #[inline]
    pub(crate) fn content(self, key: u64, parts: &Parts) -> u32 {
        if parts.protocol == TCP {
            return if parts.has(Parts::DATA) {
                0
            } else {
                key as u32 & !1
            };
        }
        key as u32 & !1 | u32::from(!self.is_commonplace(parts))
    }

    /// True if acknowledgment numbers and timestamps are equal: they are no part of the keys of data packets
    /// that may be pieces of super-segments.
    #[inline]
    pub(crate) fn agree(self, one: &Parts, other: &Parts) -> bool {
        one.material[0] == other.material[0]
            && (!self.timestamps || one.material[1..3] == other.material[1..3])
    }

    /// True if the timestamps are close enough for both packets to belong to one super-segment.
    pub(crate) fn are_near(self, one: &Parts, other: &Parts) -> bool {
        /// Clocks for timestamps tick once per millisecond in most systems (RFC 7323, section 5.4: 1 ms to 1 s).
        const NEAR_TICKS: i32 = 50;
        let apart = one.material[1].wrapping_sub(other.material[1]) as i32;
        !self.timestamps || (-NEAR_TICKS..=NEAR_TICKS).contains(&apart)
    }

    /// True if this packet has so few distinguishing fields that it matches only within its own flow.
    pub(crate) fn is_commonplace(self, parts: &Parts) -> bool {
        let [a, b, c, d, _] = parts.material.map(u64::from);
        parts.protocol != TCP && is_commonplace(self.masked([a | b << 32, c | d << 32]))
    }

    fn masked(self, words: [u64; 2]) -> [u64; 2] {
        let keep = |bytes: u32| match bytes {
            8.. => u64::MAX,
            _ => (1 << (8 * bytes)) - 1,
        };
        let bytes = u32::from(self.payload_bytes);
        [
            words[0] & keep(bytes),
            words[1] & keep(bytes.saturating_sub(8)),
        ]
    }
}

/// A packet, or a piece of a super-segment, at one point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sighting {
    pub parts: Parts,
    /// Number of the flow at this point.
    pub flow: u32,
    pub index: u32,
    pub time_ns: i64,
    pub sequence: u32,
    pub payload_bytes: u32,
    pub ip_bytes: u32,
    pub ttl: u8,
    pub tos: u8,
    /// Initial [`crate::PacketFlags`].
    pub flags: u16,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::pending::Pending;

    /// The packets of this test had keys of equal low bits, in each process, while keys were such products.
    fn product(one: u64, other: u64) -> u64 {
        let product = u128::from(one ^ 0x9e37_79b9_7f4a_7c15) * u128::from(other ^ ZEROED_BY);
        product as u64 ^ (product >> 64) as u64
    }

    const ZEROED_BY: u64 = 0x243f_6a88_85a3_08d3;
    const UDP: u8 = 17;
    const BYTES: u32 = 64;

    fn datagram(payload: [u64; 2]) -> Parts {
        let [a, b] = payload.map(|word| [word as u32, (word >> 32) as u32]);
        Parts {
            material: [a[0], a[1], b[0], b[1], 0],
            identification: 0,
            protocol: UDP,
            bits: 0,
        }
    }

    #[test]
    fn a_sender_cannot_choose_packets_whose_keys_share_a_bucket() {
        const PACKETS: usize = 2_000;
        let end = u64::from(UDP) | u64::from(BYTES) << 16;
        let collides = |second: &u64| product(product(0, *second), end) & 0xfff == 0;
        let seconds = (0..u64::MAX).filter(collides).take(PACKETS);
        let hashes = RandomState::new();
        let mut pending = Pending::default();
        for (row, second) in (0..).zip(seconds) {
            let parts = datagram([ZEROED_BY, second]);
            let key = Precision::default().key(&hashes, &parts, 0, BYTES);
            pending.insert(key, row, parts);
        }
        let longest = pending.longest_bucket();
        assert!(
            longest < 20,
            "{longest} of {PACKETS} packets share a bucket"
        );
    }

    #[test]
    fn no_packet_has_a_key_that_its_sender_can_foresee() {
        let [one, other] = [RandomState::new(), RandomState::new()];
        for payload in [[ZEROED_BY, 1], [0, ZEROED_BY], [ZEROED_BY; 2], [0, 0]] {
            let key = |hashes| Precision::default().key(hashes, &datagram(payload), 0, BYTES);
            assert_ne!(key(&one), key(&other), "{payload:x?}");
        }
    }
}
