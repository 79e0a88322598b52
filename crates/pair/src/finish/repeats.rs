//! Evidence on other transmissions of a packet's bytes.

use crate::packet::{Crossing, PairPacket};

/// Equal sequence numbers further apart than this belong to other bytes.
const SAME_BYTES_NS: i64 = 120_000_000_000;

/// Evidence on other transmissions of a packet's bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Others {
    /// One is in both captures.
    pub matched: bool,
    /// One is in the downstream capture only.
    pub missed_upstream: bool,
    /// One passed the upstream point later.
    pub later: bool,
}

/// For each data packet of a flow that only the upstream capture holds, its position and the evidence on
/// other packets that carry some of its bytes.
pub(super) struct Repeats(Vec<(u32, Others)>);

/// A data packet: its bytes on a number line that does not wrap, and its position.
struct Range {
    start: i64,
    end: i64,
    at: u32,
}

impl Repeats {
    /// In `n log n` steps: ranges sorted by their start, and a sliding window of two minutes.
    pub fn of(packets: &[PairPacket], places: &[u32], upstream: usize) -> Self {
        let ranges = ranges(packets, places);
        let packet = |rank: usize| &packets[ranges[rank].at as usize];
        let time_ns = |rank: usize| packet(rank).time_ns[upstream];
        let mut by_time: Vec<usize> = (0..ranges.len())
            .filter(|&rank| packet(rank).is_at(upstream))
            .collect();
        by_time.sort_by_key(|&rank| time_ns(rank));
        let mut missed_upstream = Ends::of(ranges.len());
        for rank in (0..ranges.len()).filter(|&rank| !packet(rank).is_at(upstream)) {
            missed_upstream.set(rank, ranges[rank].end);
        }
        let (mut matched, mut later) = (Ends::of(ranges.len()), Ends::of(ranges.len()));
        let (mut arrived, mut passed, mut gone) = (0, 0, 0);
        let mut found = Vec::new();
        for &rank in by_time.iter().filter(|&&rank| !packet(rank).is_matched()) {
            let now_ns = time_ns(rank);
            let after_ns = |position: usize| time_ns(by_time[position]).saturating_sub(now_ns);
            while arrived < by_time.len() && after_ns(arrived) <= SAME_BYTES_NS {
                let rank = by_time[arrived];
                later.set(rank, ranges[rank].end);
                if packet(rank).is_matched() {
                    matched.set(rank, ranges[rank].end);
                }
                arrived += 1;
            }
            while passed < arrived && after_ns(passed) <= 0 {
                later.clear(by_time[passed]);
                passed += 1;
            }
            while gone < arrived && after_ns(gone) < -SAME_BYTES_NS {
                matched.clear(by_time[gone]);
                gone += 1;
            }
            let Range { start, end, at } = ranges[rank];
            let before = ranges.partition_point(|other| other.start < end);
            let overlaps = |ends: &Ends| ends.highest(before) > start;
            let others = Others {
                matched: overlaps(&matched),
                missed_upstream: overlaps(&missed_upstream),
                later: overlaps(&later),
            };
            found.push((at, others));
        }
        found.sort_unstable_by_key(|(at, _)| *at);
        Self(found)
    }

    /// The evidence on the packet at this position.
    pub fn others(&self, at: u32) -> Others {
        let found = self.0.binary_search_by_key(&at, |(at, _)| *at);
        found.map_or_else(|_| Others::default(), |index| self.0[index].1)
    }
}

/// Sequence numbers of flows of more than 2 GiB repeat; times then distinguish transmissions.
fn ranges(packets: &[PairPacket], places: &[u32]) -> Vec<Range> {
    let data = || {
        let data = places.iter().map(|&at| (at, &packets[at as usize]));
        data.filter(|(_, packet)| packet.payload_bytes > 0)
    };
    let origin = data().next().map_or(0, |(_, packet)| packet.sequence);
    let range = |(at, packet): (u32, &PairPacket)| {
        let start = i64::from(packet.sequence.wrapping_sub(origin) as i32);
        let end = start + i64::from(packet.payload_bytes);
        Range { start, end, at }
    };
    let asked = merged(data().filter(|(_, packet)| !packet.is_matched()).map(range));
    // for most packets' bytes there is no question
    let is_asked = |range: &Range| {
        let behind = asked.partition_point(|&(_, end)| end <= range.start);
        asked
            .get(behind)
            .is_some_and(|&(start, _)| start < range.end)
    };
    let mut ranges: Vec<Range> = data()
        .filter(|(_, packet)| packet.crossing != Crossing::Duplicated)
        .map(range)
        .filter(is_asked)
        .collect();
    ranges.sort_unstable_by_key(|range| (range.start, range.at));
    ranges
}

/// The bytes of some ranges: starts and ends in order, without overlaps.
fn merged(ranges: impl Iterator<Item = Range>) -> Vec<(i64, i64)> {
    let mut bytes: Vec<(i64, i64)> = ranges.map(|range| (range.start, range.end)).collect();
    bytes.sort_unstable();
    bytes.dedup_by(|next, before| {
        let overlaps = next.0 <= before.1;
        if overlaps {
            before.1 = before.1.max(next.1);
        }
        overlaps
    });
    bytes
}

/// The ends of ranges that are ranked by their start, and the maximum end up to a rank: a tree of maxima.
struct Ends(Vec<i64>);

impl Ends {
    fn of(ranks: usize) -> Self {
        Self(vec![i64::MIN; 2 * ranks])
    }

    fn set(&mut self, rank: usize, end: i64) {
        let tree = &mut self.0;
        let mut node = rank + tree.len() / 2;
        tree[node] = end;
        while node > 1 {
            node /= 2;
            tree[node] = tree[2 * node].max(tree[2 * node + 1]);
        }
    }

    fn clear(&mut self, rank: usize) {
        self.set(rank, i64::MIN);
    }

    /// Among this many first ranks.
    fn highest(&self, ranks: usize) -> i64 {
        let leaves = self.0.len() / 2;
        let (mut low, mut high) = (leaves, leaves + ranks);
        let mut highest = i64::MIN;
        while low < high {
            if low % 2 == 1 {
                highest = highest.max(self.0[low]);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                highest = highest.max(self.0[high]);
            }
            (low, high) = (low / 2, high / 2);
        }
        highest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{NO_TIME, NOT_CAPTURED, PacketFlags};
    use proptest::prelude::*;

    const SECOND_NS: i64 = 1_000_000_000;

    /// A packet of capture 1 (0), capture 2 (1) or both.
    fn packet(index: u32, sides: [bool; 2], time_s: i64, sequence: u32, bytes: u32) -> PairPacket {
        PairPacket {
            flow: 0,
            index: sides.map(|present| if present { index } else { NOT_CAPTURED }),
            time_ns: sides.map(|present| if present { time_s * SECOND_NS } else { NO_TIME }),
            sequence,
            payload_bytes: bytes,
            ip_bytes: bytes + 40,
            identification: 0,
            ttl: [64; 2],
            tos: [0; 2],
            content: 0,
            crossing: Crossing::Undecided,
            flags: PacketFlags::default(),
        }
    }

    /// Every pair of packets compared.
    fn one_by_one(packets: &[PairPacket], of: usize) -> Others {
        let mut found = Others::default();
        let line =
            |one: &PairPacket| i64::from(one.sequence.wrapping_sub(packets[0].sequence) as i32);
        let (start, bytes) = (line(&packets[of]), i64::from(packets[of].payload_bytes));
        for other in packets {
            let apart = line(other) >= start + bytes
                || line(other) + i64::from(other.payload_bytes) <= start
                || other.crossing == Crossing::Duplicated;
            if apart {
                continue;
            }
            if !other.is_at(0) {
                found.missed_upstream = true;
                continue;
            }
            let after_ns = other.time_ns[0] - packets[of].time_ns[0];
            if after_ns.abs() <= SAME_BYTES_NS {
                found.matched |= other.is_matched();
                found.later |= after_ns > 0;
            }
        }
        found
    }

    proptest! {
        #[test]
        fn the_evidence_on_repeats_equals_that_of_comparing_all_pairs(
            made in prop::collection::vec((0usize..3, 0i64..400, 0u32..60, 1u32..20, 0u8..8), 1..60),
            origin in any::<u32>(),
        ) {
            let packets: Vec<PairPacket> = (0u32..).zip(&made).map(|(index, &(present, time_s, start, bytes, copy))| {
                let sides = [[true, false], [false, true], [true, true]][present];
                let mut one = packet(index, sides, time_s, origin.wrapping_add(start), bytes);
                if copy == 0 {
                    one.crossing = Crossing::Duplicated;
                }
                one
            }).collect();
            let places: Vec<u32> = (0..packets.len() as u32).collect();
            let repeats = Repeats::of(&packets, &places, 0);
            for &at in &places {
                let one = &packets[at as usize];
                if one.is_at(0) && !one.is_matched() && one.crossing == Crossing::Undecided {
                    prop_assert_eq!(repeats.others(at), one_by_one(&packets, at as usize));
                }
            }
        }
    }

    /// The test is that it ends: comparing every pair would take hours.
    #[test]
    fn one_range_sent_a_million_times_is_handled() {
        let packets: Vec<PairPacket> = (0..1_000_000)
            .map(|index| packet(index, [true, false], i64::from(index) / 10_000, 7, 1448))
            .collect();
        let places: Vec<u32> = (0..packets.len() as u32).collect();
        let repeats = Repeats::of(&packets, &places, 0);
        let later = Others {
            later: true,
            ..Others::default()
        };
        assert_eq!(repeats.others(0), later);
        assert_eq!(repeats.others(999_999), Others::default());
    }
}
