//! Turns a packet into that of another connection: addresses, numbers, and checksums to match.
//!
//! Packets of two captures are matched by identification, sequence numbers and timestamps, not by addresses, which
//! translation rewrites. With the same numbers in all replicas, their packets would be indistinguishable.

/// Where things are, from the start of an IPv4 header without options.
pub const SOURCE: usize = 12;
pub const DESTINATION: usize = 16;
const IDENTIFICATION: usize = 4;
const IP_CHECKSUM: usize = 10;
const TCP: usize = 20;
const SEQUENCE: usize = TCP + 4;
const ACKNOWLEDGMENT: usize = TCP + 8;
const DATA_OFFSET: usize = TCP + 12;
const FLAGS: usize = TCP + 13;
const TCP_CHECKSUM: usize = TCP + 16;
const OPTIONS: usize = TCP + 20;
const ACK: u8 = 0x10;

/// By how much the numbers of one replica differ from those of the template: the same in both directions.
#[derive(Debug, Clone, Copy)]
pub struct Shift {
    identification: u16,
    /// For sequence and acknowledgment numbers.
    sequence: u32,
    /// For the values and echoes of timestamps.
    timestamp: u32,
}

impl Shift {
    /// Of a replica, by its number from 0; that of the first is nothing.
    pub fn of_replica(number: u32) -> Self {
        // odd multipliers near the golden ratio spread successive numbers evenly
        Self {
            identification: (number as u16).wrapping_mul(0x9e37),
            sequence: number.wrapping_mul(0x9e37_79b1),
            timestamp: number.wrapping_mul(0x85eb_ca6b),
        }
    }

    /// Rewrites an IPv4 packet with a TCP header, as much of it as was captured.
    pub fn apply(self, packet: &mut [u8]) {
        let id = u16::from_be_bytes([packet[IDENTIFICATION], packet[IDENTIFICATION + 1]]);
        // zero says that there is none (RFC 6864)
        if id != 0 {
            let id_after = id.wrapping_add(self.identification);
            update_checksum(&mut packet[IP_CHECKSUM..][..2], id, id_after);
            packet[IDENTIFICATION..][..2].copy_from_slice(&id_after.to_be_bytes());
        }
        add_to_tcp(packet, SEQUENCE, self.sequence);
        if packet[FLAGS] & ACK != 0 {
            add_to_tcp(packet, ACKNOWLEDGMENT, self.sequence);
        }
        self.apply_to_options(packet);
    }

    fn apply_to_options(self, packet: &mut [u8]) {
        const END: u8 = 0;
        const NO_OPERATION: u8 = 1;
        const SACK: u8 = 5;
        const TIMESTAMPS: u8 = 8;
        let end = (TCP + usize::from(packet[DATA_OFFSET] >> 4) * 4).min(packet.len());
        let mut at = OPTIONS;
        while at + 1 < end && packet[at] != END {
            if packet[at] == NO_OPERATION {
                at += 1;
                continue;
            }
            let (kind, length) = (packet[at], usize::from(packet[at + 1]));
            if length < 2 || at + length > end {
                return;
            }
            for number in (at + 2..at + length)
                .step_by(4)
                .filter(|number| number + 4 <= at + length)
            {
                match kind {
                    SACK => add_to_tcp(packet, number, self.sequence),
                    // an echo of 0 is none: that of a SYN
                    TIMESTAMPS if packet[number..number + 4] != [0; 4] => {
                        add_to_tcp(packet, number, self.timestamp);
                    }
                    _ => {}
                }
            }
            at += length;
        }
    }
}

/// Adds to a number of four bytes in the TCP header.
fn add_to_tcp(packet: &mut [u8], at: usize, summand: u32) {
    let old = u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]]);
    let new = old.wrapping_add(summand);
    // a number that begins at an odd place lies across three words of the checksum
    let swap = |half: u32| {
        if at.is_multiple_of(2) {
            half as u16
        } else {
            (half as u16).swap_bytes()
        }
    };
    for shift in [16, 0] {
        update_checksum(
            &mut packet[TCP_CHECKSUM..][..2],
            swap(old >> shift),
            swap(new >> shift),
        );
    }
    packet[at..at + 4].copy_from_slice(&new.to_be_bytes());
}

/// Writes an address into an IPv4 packet. Its own checksum covers it; so does TCP's, through the pseudo-header.
pub fn set_address(packet: &mut [u8], at: usize, address: [u8; 4]) {
    for half in [0, 2] {
        let old = u16::from_be_bytes([packet[at + half], packet[at + half + 1]]);
        let new = u16::from_be_bytes([address[half], address[half + 1]]);
        update_checksum(&mut packet[IP_CHECKSUM..][..2], old, new);
        update_checksum(&mut packet[TCP_CHECKSUM..][..2], old, new);
    }
    packet[at..at + 4].copy_from_slice(&address);
}

/// RFC 1624, equation 3: `HC' = ~(~HC + ~m + m')`.
fn update_checksum(checksum: &mut [u8], old: u16, new: u16) {
    let before = u16::from_be_bytes([checksum[0], checksum[1]]);
    let mut sum = u32::from(!before) + u32::from(!old) + u32::from(new);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    checksum.copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::template::{ETHERNET_BYTES, SMALLEST_FRAME_BYTES};

    /// An acknowledgment with timestamps and, at an odd place, a SACK block; both checksums right.
    pub fn packet(source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0; SMALLEST_FRAME_BYTES - ETHERNET_BYTES + 24];
        let bytes = packet.len() as u8;
        packet[0] = 0x45;
        packet[3] = bytes;
        packet[IDENTIFICATION..][..2].copy_from_slice(&[0x12, 0x34]);
        packet[8..10].copy_from_slice(&[64, 6]);
        packet[SOURCE..][..4].copy_from_slice(&source);
        packet[DESTINATION..][..4].copy_from_slice(&destination);
        packet[TCP..][..4].copy_from_slice(&[0xd4, 0x31, 0x14, 0x51]);
        packet[SEQUENCE..][..4].copy_from_slice(&7u32.to_be_bytes());
        packet[ACKNOWLEDGMENT..][..4].copy_from_slice(&0xffff_fff0u32.to_be_bytes());
        packet[DATA_OFFSET..][..2].copy_from_slice(&[0xb0, ACK]);
        packet[OPTIONS..][..24].copy_from_slice(&[
            8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1, 0,
        ]);
        let ip = !sum(&packet[..20]);
        let tcp = !pseudo_sum(&packet);
        packet[IP_CHECKSUM..][..2].copy_from_slice(&ip.to_be_bytes());
        packet[TCP_CHECKSUM..][..2].copy_from_slice(&tcp.to_be_bytes());
        packet
    }

    /// RFC 1071: 0xffff where the checksum is right.
    fn sum(bytes: &[u8]) -> u16 {
        let words = bytes
            .chunks(2)
            .map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |&low| u32::from(low)));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// Over the pseudo-header (addresses, protocol, length) and the TCP header.
    fn pseudo_sum(packet: &[u8]) -> u16 {
        let tcp_bytes = (packet.len() - TCP) as u8;
        sum(&[&packet[SOURCE..20], &[0, 6, 0, tcp_bytes], &packet[TCP..]].concat())
    }

    pub fn checksums_are_right(packet: &[u8]) -> bool {
        (sum(&packet[..20]), pseudo_sum(packet)) == (0xffff, 0xffff)
    }

    #[test]
    fn all_numbers_of_a_replica_move_and_checksums_stay_right() {
        let before = packet([192, 0, 2, 1], [198, 51, 100, 7]);
        assert!(checksums_are_right(&before));
        for number in [1, 2, 77, 65_535] {
            let (mut after, shift) = (before.clone(), Shift::of_replica(number));
            shift.apply(&mut after);
            assert!(checksums_are_right(&after), "{number}");
            let u32_at = |at: usize| u32::from_be_bytes(after[at..at + 4].try_into().unwrap());
            assert_eq!(u32_at(SEQUENCE), shift.sequence.wrapping_add(7));
            assert_eq!(u32_at(ACKNOWLEDGMENT), shift.sequence.wrapping_sub(16));
            let [value, echo] = [u32_at(OPTIONS + 2), u32_at(OPTIONS + 6)];
            assert_eq!((value, echo), (shift.timestamp.wrapping_add(9), 0));
            let [left, right] = [u32_at(OPTIONS + 13), u32_at(OPTIONS + 17)];
            assert_eq!(
                (left, right),
                (
                    shift.sequence.wrapping_add(1),
                    shift.sequence.wrapping_add(2)
                )
            );
            assert_ne!(after[IDENTIFICATION..][..2], before[IDENTIFICATION..][..2]);
        }
    }

    #[test]
    fn the_first_replica_keeps_the_numbers_of_the_template() {
        let before = packet([192, 0, 2, 1], [198, 51, 100, 7]);
        let mut after = before.clone();
        Shift::of_replica(0).apply(&mut after);
        assert_eq!(before, after);
    }

    #[test]
    fn options_that_lie_about_their_length_are_left_alone() {
        let mut packet = packet([192, 0, 2, 1], [198, 51, 100, 7]);
        packet[OPTIONS + 1] = 200;
        let options = packet[OPTIONS..].to_vec();
        Shift::of_replica(3).apply(&mut packet);
        assert_eq!(packet[OPTIONS..], options);
        packet.truncate(OPTIONS + 1);
        Shift::of_replica(3).apply(&mut packet);
    }
}
