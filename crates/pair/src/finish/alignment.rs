//! Times of both captures on one clock.

use whydrop_clock::{ClockFit, ClockSample};

use super::order::by_index;
use crate::flow::{Direction, PairFlow};
use crate::packet::{PacketFlags, PairPacket};

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
    whydrop_clock::fit(&samples)
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
