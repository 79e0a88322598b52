//! All packets of a pair on capture 1's clock: when they were sent, how long they took, what they followed.

use whydrop_pair::clock::ClockSample;
use whydrop_pair::{Crossing, Direction, Pair, PairPacket};

/// What the clocks and the neighbours say of each packet, in the order of [`Pair::packets`].
#[derive(Debug, Default)]
pub struct Timeline {
    /// When it passed the upstream point by capture 1's clock, nanoseconds; where only the downstream point has it,
    /// when it passed there.
    pub sent_ns: Vec<i64>,
    /// Time between the points, nanoseconds; -1 where not both have it. Never negative: clocks are only aligned to
    /// within the asymmetry of the path, and what falls below zero counts as zero.
    pub transit_ns: Vec<i64>,
    /// Time since the packet before in its direction, nanoseconds; -1 for the first.
    pub gap_ns: Vec<i64>,
    /// Position in its run of losses from 1 and the run's length; zeros for packets that were not lost.
    pub burst: Vec<(u32, u32)>,
    /// Positions in the order of sending, by direction: from point 1 to 2, back, unknown.
    pub in_order: [Vec<u32>; 3],
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
        for order in &mut timeline.in_order {
            let key = |index: &u32| sent_ns[*index as usize];
            if !order.is_sorted_by_key(key) {
                order.sort_by_key(key);
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

    /// Transits of the packets of one direction (see [`direction_number`]) that `wanted` picks, nanoseconds, sorted.
    pub fn transits_ns(&self, direction: usize, wanted: impl Fn(usize) -> bool) -> Vec<i64> {
        let mut transits: Vec<i64> = self.in_order[direction]
            .iter()
            .map(|index| *index as usize)
            .filter(|index| self.transit_ns[*index] >= 0 && wanted(*index))
            .map(|index| self.transit_ns[index])
            .collect();
        transits.sort_unstable();
        transits
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
    let sample = ClockSample {
        first_ns: packet.time_ns[0],
        second_ns: packet.time_ns[1],
        forward: upstream == 0,
    };
    let offset_ns = pair
        .clock
        .as_ref()
        .map_or(0.0, |clock| clock.offset_of(&sample));
    let apart_ns = packet.time_ns[1]
        .saturating_sub(packet.time_ns[0])
        .saturating_sub(offset_ns.round() as i64);
    let transit_ns = if upstream == 0 {
        apart_ns
    } else {
        apart_ns.saturating_neg()
    }
    .max(0);
    let sent_ns = if upstream == 0 {
        packet.time_ns[0]
    } else {
        packet.time_ns[0].saturating_sub(transit_ns)
    };
    (sent_ns, transit_ns)
}
