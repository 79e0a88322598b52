//! Times of both captures on one clock.

use super::order::by_index;
use crate::clock::{self, ClockFit, ClockSample};
use crate::flow::{Direction, PairFlow};
use crate::packet::{PacketFlags, PairPacket};

/// Most samples for a fit.
const MOST_SAMPLES: usize = 200_000;
/// With more: number of windows from which the fastest and slowest packet of each direction are kept.
const WINDOWS: usize = MOST_SAMPLES / 4;

/// Fits the clocks to the packets that both captures hold.
pub(super) fn fit(flows: &[PairFlow], packets: &[PairPacket]) -> Option<ClockFit> {
    let sample = |packet: &PairPacket| {
        let direction = flows[packet.flow as usize].direction;
        // later pieces of a super-segment have the time of the first, or none
        let is_sample = packet.is_matched()
            && !packet.flags.has(PacketFlags::LATER_PIECE)
            && direction != Direction::Unknown;
        is_sample.then(|| ClockSample {
            first_ns: packet.time_ns[0],
            second_ns: packet.time_ns[1],
            forward: direction == Direction::FirstToSecond,
        })
    };
    // in capture 1's order
    let order = by_index(packets, 0, |packet| sample(packet).is_some());
    let samples: Vec<ClockSample> = order
        .into_iter()
        .filter_map(|at| sample(&packets[at as usize]))
        .collect();
    if samples.len() <= MOST_SAMPLES {
        return clock::fit(&samples);
    }
    clock::fit(&thinned(&samples))
}

/// The fastest and the slowest packet of each direction in each window of equally many samples, in order.
fn thinned(samples: &[ClockSample]) -> Vec<ClockSample> {
    let window = samples.len().div_ceil(WINDOWS);
    let mut kept = Vec::with_capacity(MOST_SAMPLES);
    for samples in samples.chunks(window) {
        let mut chosen: Vec<usize> = Vec::with_capacity(4);
        for forward in [true, false] {
            let own = || {
                samples
                    .iter()
                    .enumerate()
                    .filter(|(_, sample)| sample.forward == forward)
                    .map(|(at, sample)| (sample.second_ns - sample.first_ns, at))
            };
            chosen.extend(own().min().map(|(_, at)| at));
            chosen.extend(own().max().map(|(_, at)| at));
        }
        chosen.sort_unstable();
        chosen.dedup();
        kept.extend(chosen.into_iter().map(|at| samples[at]));
    }
    kept
}

/// Both captures' times on capture 1's clock.
pub(super) struct Aligned<'a> {
    clock: Option<&'a ClockFit>,
    /// Used without a fit.
    constant_offset_ns: i64,
}

impl<'a> Aligned<'a> {
    pub(super) fn new(clock: Option<&'a ClockFit>, constant_offset_ns: i64) -> Self {
        Self {
            clock,
            constant_offset_ns,
        }
    }

    /// A time of capture 1 (`side` 0) or 2 on capture 1's clock.
    #[inline]
    pub(super) fn first_clock_ns(&self, side: usize, time_ns: i64) -> i64 {
        match (side, self.clock) {
            (0, _) => time_ns,
            (_, Some(clock)) => clock.first_at(time_ns),
            (_, None) => time_ns.saturating_sub(self.constant_offset_ns),
        }
    }
}
