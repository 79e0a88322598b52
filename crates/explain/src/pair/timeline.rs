//! All packets of a pair on capture 1's clock: send time, transit time, and distance from the packet before.

use std::cmp::Ordering;

use whydrop_clock::ClockSample;
use whydrop_pair::{Crossing, Direction, NOT_CAPTURED, Pair, PairPacket};

/// The times of each packet from clocks and neighbours, in the order of [`Pair::packets`].
#[derive(Debug, Default)]
pub struct Timeline {
    /// Time at the upstream point on capture 1's clock, nanoseconds; for packets that only the downstream
    /// point has, the time there.
    pub sent_ns: Vec<i64>,
    /// Time between the points, nanoseconds; -1 unless both have the packet. Never negative: clocks are
    /// aligned only to within the asymmetry of the path, and values below zero count as zero.
    pub transit_ns: Vec<i64>,
    /// Time since the previous packet in its direction, nanoseconds; -1 for the first.
    pub gap_ns: Vec<i64>,
    /// Position in its run of losses, from 1, and the run's length; zeros for packets that were not lost.
    pub burst: Vec<(u32, u32)>,
    /// Positions in the order of sending, by direction: from point 1 to 2, back, unknown.
    pub in_order: [Vec<u32>; 3],
}

/// The order of packets with equal times, from their positions in both captures and their sequence numbers:
/// that of the upstream capture; for packets it lacks that of the other one; for pieces of one super-segment
/// that of their bytes. Sequence numbers wrap around, so that only those near each other have an order (RFC
/// 9293, section 3.4).
fn in_super_segment(a: ([u32; 2], u32), b: ([u32; 2], u32), upstream: usize) -> Ordering {
    let ((a, a_sequence), (b, b_sequence)) = (a, b);
    let by_other = || match a[upstream] {
        NOT_CAPTURED => a[1 - upstream].cmp(&b[1 - upstream]),
        _ => Ordering::Equal,
    };
    a[upstream]
        .cmp(&b[upstream])
        .then_with(by_other)
        .then_with(|| (a_sequence.wrapping_sub(b_sequence) as i32).cmp(&0))
}

/// 0 from point 1 to point 2, 1 back, 2 unknown.
pub fn direction_number(direction: Direction) -> usize {
    match direction {
        Direction::FirstToSecond => 0,
        Direction::SecondToFirst => 1,
        Direction::Unknown => 2,
    }
}

impl Timeline {
    pub fn of(pair: &Pair) -> Self {
        let count = pair.packets.len();
        let mut timeline = Self {
            sent_ns: Vec::with_capacity(count),
            transit_ns: Vec::with_capacity(count),
            gap_ns: vec![-1; count],
            burst: vec![(0, 0); count],
            in_order: Default::default(),
        };
        for (index, packet) in pair.packets.iter().enumerate() {
            let direction = pair.flows[packet.flow as usize].direction;
            let (sent_ns, transit_ns) = sent_and_transit(pair, packet, direction);
            timeline.sent_ns.push(sent_ns);
            timeline.transit_ns.push(transit_ns);
            timeline.in_order[direction_number(direction)].push(index as u32);
        }
        let sent_ns = &timeline.sent_ns;
        for (upstream, order) in [0, 1, 0].into_iter().zip(&mut timeline.in_order) {
            let before = |a: &u32, b: &u32| {
                let (a, b) = (*a as usize, *b as usize);
                let place = |packet: &PairPacket| (packet.index, packet.sequence);
                sent_ns[a].cmp(&sent_ns[b]).then_with(|| {
                    in_super_segment(place(&pair.packets[a]), place(&pair.packets[b]), upstream)
                })
            };
            if !order.is_sorted_by(|a, b| before(a, b).is_le()) {
                order.sort_by(before);
            }
        }
        timeline.follow(pair);
        timeline
    }

    /// Fills in the gaps and the runs of losses.
    fn follow(&mut self, pair: &Pair) {
        for order in &self.in_order {
            for neighbours in order.windows(2) {
                let [before, after] = [neighbours[0] as usize, neighbours[1] as usize];
                self.gap_ns[after] = self.sent_ns[after].saturating_sub(self.sent_ns[before]);
            }
            let lost = |index: &u32| pair.packets[*index as usize].crossing == Crossing::Lost;
            for run in order.chunk_by(|a, b| lost(a) == lost(b)) {
                if lost(&run[0]) {
                    for (position, index) in run.iter().enumerate() {
                        self.burst[*index as usize] = (position as u32 + 1, run.len() as u32);
                    }
                }
            }
        }
    }

    /// Transit times of the packets of one direction (see [`direction_number`]) that `wanted` selects,
    /// nanoseconds, unsorted.
    pub fn transits_ns(&self, direction: usize, wanted: impl Fn(usize) -> bool) -> Vec<i64> {
        self.in_order[direction]
            .iter()
            .map(|index| *index as usize)
            .filter(|index| self.transit_ns[*index] >= 0 && wanted(*index))
            .map(|index| self.transit_ns[index])
            .collect()
    }
}

fn sent_and_transit(pair: &Pair, packet: &PairPacket, direction: Direction) -> (i64, i64) {
    let upstream = direction.upstream().unwrap_or(0);
    let on_first_clock = |side: usize| match (side, &pair.clock) {
        (0, _) | (_, None) => packet.time_ns[side],
        (_, Some(clock)) => clock.first_at(packet.time_ns[side]),
    };
    if !packet.is_matched() {
        let side = usize::from(!packet.is_at(0));
        return (on_first_clock(side), -1);
    }
    let sent_ns = on_first_clock(upstream);
    let arrived_ns = match &pair.clock {
        // if a clock was set back, a time occurs twice: the pair of times resolves it
        Some(clock) => {
            let sample = ClockSample {
                first_ns: packet.time_ns[0],
                second_ns: packet.time_ns[1],
                forward: upstream == 0,
            };
            let apart_ns = packet.time_ns[1].saturating_sub(packet.time_ns[0]);
            let transit_ns = apart_ns.saturating_sub(clock.whole_offset_of(&sample));
            let transit_ns = if upstream == 0 {
                transit_ns
            } else {
                transit_ns.saturating_neg()
            };
            sent_ns.saturating_add(transit_ns)
        }
        None => packet.time_ns[1 - upstream],
    };
    (sent_ns, arrived_ns.saturating_sub(sent_ns).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_with_equal_times_only_in_the_other_capture_keep_its_order() {
        // of several flows: a third of the sequence space apart, each precedes the next, and the last the
        // first
        let mut places: Vec<([u32; 2], u32)> = (0..60)
            .map(|number| ([NOT_CAPTURED, 59 - number], (number % 3) * (u32::MAX / 3)))
            .collect();
        places.sort_by(|a, b| in_super_segment(*a, *b, 0));
        let others: Vec<u32> = places.iter().map(|(index, _)| index[1]).collect();
        assert!(others.is_sorted());
    }

    #[test]
    fn pieces_of_a_super_segment_are_in_the_order_of_their_bytes_across_the_wrap() {
        let (first, second) = (([7, 3], u32::MAX - 100), ([7, 2], 1347));
        assert_eq!(in_super_segment(first, second, 0), Ordering::Less);
    }
}
