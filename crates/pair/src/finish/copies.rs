//! Packets that arrived twice downstream but passed once upstream.
//!
//! A copy is identical to a matched packet, and arrives shortly before or after it. But identity proves
//! nothing if packets of the flow are identical anyway: atomic datagrams may all have one identification (RFC
//! 6864, section 4.1; 0 means that the sender does not count), and many have one length.

use ahash::HashMap;

use crate::packet::{Crossing, PacketFlags, PairPacket};

/// Copies of one packet follow each other within this time.
const COPIES_WITHIN_NS: i64 = 1_000_000_000;

/// All captured fields of a packet that its copies share.
type Identity = (u16, u32, u32, u32);

fn identity(packet: &PairPacket) -> Identity {
    (
        packet.identification,
        packet.sequence,
        packet.payload_bytes,
        packet.content,
    )
}

/// True if a packet is not identical to others by habit: it has a number, or contents that do not repeat.
fn is_telling(packet: &PairPacket) -> bool {
    packet.identification != 0 || packet.content & 1 != 0
}

/// Marks the copies among the packets of a flow. Returns those that may be copies or may be missing upstream.
pub(super) fn mark(packets: &mut [PairPacket], places: &[u32], downstream: usize) -> Vec<u32> {
    // TCP retransmits identical packets: only the identification distinguishes these from copies
    let may_be_copy = |packet: &PairPacket| {
        !packet.is_matched()
            && packet.is_at(downstream)
            && packet.crossing == Crossing::Undecided
            && (packet.identification != 0 || !packet.flags.has(PacketFlags::TCP))
    };
    let mut times_ns: HashMap<Identity, Vec<i64>> = HashMap::default();
    for &at in places {
        let packet = &packets[at as usize];
        if may_be_copy(packet) {
            times_ns.entry(identity(packet)).or_default();
        }
    }
    if times_ns.is_empty() {
        return Vec::new();
    }
    for &at in places {
        let packet = &packets[at as usize];
        if packet.is_matched()
            && let Some(times_ns) = times_ns.get_mut(&identity(packet))
        {
            times_ns.push(packet.time_ns[downstream]);
        }
    }
    for times_ns in times_ns.values_mut() {
        times_ns.sort_unstable();
    }
    let mut unclear = Vec::new();
    for &at in places {
        let packet = &mut packets[at as usize];
        if !may_be_copy(packet) {
            continue;
        }
        let times_ns = times_ns
            .get(&identity(packet))
            .map_or(&[][..], Vec::as_slice);
        match near(times_ns, packet.time_ns[downstream]) {
            [] => {}
            // with several packets of one identity, the original is unknown
            [only] if is_telling(packet) && near(times_ns, *only).len() == 1 => {
                packet.crossing = Crossing::Duplicated;
            }
            _ => unclear.push(at),
        }
    }
    unclear
}

/// The sorted times near a given one.
fn near(sorted_ns: &[i64], time_ns: i64) -> &[i64] {
    let until = |end_ns: i64| sorted_ns.partition_point(|&other_ns| other_ns < end_ns);
    let first = until(time_ns.saturating_sub(COPIES_WITHIN_NS - 1));
    &sorted_ns[first..until(time_ns.saturating_add(COPIES_WITHIN_NS))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{NO_TIME, NOT_CAPTURED};
    use proptest::prelude::*;

    const TELLING: u32 = 0x1235;
    const COMMONPLACE: u32 = 0x1234;

    /// A datagram that both captures hold, or only the second.
    fn datagram(time_ns: i64, matched: bool, identification: u16, content: u32) -> PairPacket {
        PairPacket {
            flow: 0,
            index: [if matched { 0 } else { NOT_CAPTURED }, 0],
            time_ns: [if matched { time_ns } else { NO_TIME }, time_ns],
            sequence: 0,
            payload_bytes: 200,
            ip_bytes: 228,
            identification,
            content,
            ttl: [0; 2],
            tos: [0; 2],
            crossing: if matched {
                Crossing::Matched
            } else {
                Crossing::Undecided
            },
            flags: PacketFlags::default(),
        }
    }

    /// Find the fate of the last of the packets, and whether that is uncertain.
    fn found(mut packets: Vec<PairPacket>) -> (Crossing, bool) {
        let places: Vec<u32> = (0..packets.len() as u32).collect();
        let unclear = mark(&mut packets, &places, 1);
        (packets[packets.len() - 1].crossing, !unclear.is_empty())
    }

    #[test]
    fn a_copy_is_recognised_by_its_identification_or_distinctive_contents() {
        for (identification, content, expected) in [
            (7, COMMONPLACE, (Crossing::Duplicated, false)),
            (0, TELLING, (Crossing::Duplicated, false)),
            (0, COMMONPLACE, (Crossing::Undecided, true)),
        ] {
            let packets = [(10, true), (20, false)]
                .map(|(time_ns, matched)| datagram(time_ns, matched, identification, content));
            assert_eq!(found(packets.to_vec()), expected);
        }
    }

    #[test]
    fn other_contents_are_another_packet() {
        let packets = vec![datagram(10, true, 7, 2), datagram(20, false, 7, 4)];
        assert_eq!(found(packets), (Crossing::Undecided, false));
    }

    #[test]
    fn several_identical_packets_stay_undecided() {
        let packets = [(10, true), (20, true), (30, false)]
            .map(|(time_ns, matched)| datagram(time_ns, matched, 7, TELLING));
        assert_eq!(found(packets.to_vec()), (Crossing::Undecided, true));
        // only one of them is near, but its identity with another one proves nothing
        let packets = [(0, true), (700_000_000, true), (1_400_000_000, false)]
            .map(|(time_ns, matched)| datagram(time_ns, matched, 7, TELLING));
        assert_eq!(found(packets.to_vec()), (Crossing::Undecided, true));
    }

    proptest! {
        #[test]
        fn times_are_near_within_less_than_the_limit(
            mut times_ns in prop::collection::vec(-3_000_000_000i64..3_000_000_000, 0..30),
            time_ns in prop_oneof![Just(i64::MIN), Just(i64::MAX), -3i64..3],
        ) {
            times_ns.extend([-COPIES_WITHIN_NS, COPIES_WITHIN_NS]);
            times_ns.sort_unstable();
            let is_near = |other: &&i64| other.abs_diff(time_ns) < COPIES_WITHIN_NS as u64;
            let expected: Vec<i64> = times_ns.iter().filter(is_near).copied().collect();
            prop_assert_eq!(near(&times_ns, time_ns), expected);
        }
    }

    #[test]
    fn copies_of_many_identical_packets_are_found_in_one_pass() {
        // comparing every pair would take 90 thousand million comparisons
        const ALIKE: i64 = 300_000;
        let matched = (0..ALIKE).map(|number| datagram(number, true, 7, TELLING));
        let later = (0..ALIKE).map(|number| datagram((number + 2) * ALIKE, false, 7, TELLING));
        assert_eq!(found(matched.chain(later).collect()).0, Crossing::Undecided);
    }
}
