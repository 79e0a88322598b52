//! The measurements of a group of flows, before any cause is named.

use whydrop_path::fit::{
    BucketFit, DelayAtLoss, DelayByOccupancy, DrainFit, Interval, LossPattern,
};

use super::arrivals::Arrivals;
use super::before_capture::{Holes, holes};
use super::datagram_share::DatagramsBeside;
use super::exact::Exact;
use super::group::GroupTrace;
use super::laws::Laws;
use super::replay_check::ReplayCheck;
use super::totals::Totals;
use crate::thresholds::*;

/// All measurements of the packets of a group of flows on one part of a path.
#[derive(Debug)]
pub struct Observation {
    pub group_trace: GroupTrace,
    pub totals: Totals,
    /// From the capture point to the receiver and back.
    pub base_rtt_s: Option<f64>,
    pub bucket: Option<BucketFit>,
    pub occupancy: Option<DelayByOccupancy>,
    pub replay: Option<ReplayCheck>,
    pub at_loss: Option<DelayAtLoss>,
    pub pattern: Option<LossPattern>,
    pub drain: Option<DrainFit>,
    /// Rate at which super-segments are assumed to leave the sender, if the capture holds any.
    pub line_rate_bps: Option<f64>,
    /// Delays are those of the packets themselves, measured at both ends of a hop; otherwise they are
    /// round-trip times, including the delays of acknowledgments.
    pub delays_are_own: bool,
    /// Delays are those before the capture point, from the senders' clocks.
    pub by_clocks: bool,
    /// For one capture: other traffic to the same receiver.
    pub beside: DatagramsBeside,
    /// Tick of the timestamps in seconds: the resolution of delays. 0 without a capture.
    pub tick_s: f64,
    /// Seconds by which all queueing delays may be longer than measured: with a standing queue the fastest
    /// packet waited too.
    pub stood_s: f64,
    /// Gaps left by losses before the capture point.
    pub holes: Holes,
    /// For a capture at the receiver: how evenly packets arrive.
    pub arrivals: Option<Arrivals>,
    /// The part of the path before or beyond two captures.
    pub outside: bool,
    /// Between two captures: exact fates, delays and departures.
    pub exact: Option<Exact>,
    /// The laws of queue management, if they were measured.
    pub laws: Option<Laws>,
}

impl Observation {
    /// True if at least half of the losses happened before the capture point: delays behind it do not concern
    /// them.
    pub fn lost_mostly_before(&self) -> bool {
        self.totals.lost > 0 && self.totals.lost_before_capture * 2 >= self.totals.lost
    }

    /// For losses before the capture point: drops the delays behind it, which do not concern them, and keeps
    /// the gaps that they left.
    pub fn by_spacing(self) -> Self {
        Self {
            at_loss: None,
            occupancy: None,
            holes: holes(&self.group_trace.trace),
            ..self
        }
    }

    /// Rate at which the queue drains in bit/s: from the delays if they show it, otherwise from the losses,
    /// otherwise at least the rate of arrivals.
    pub fn queue_rate_bps(&self) -> Interval {
        if let Some(drain) = self.drain.filter(|_| self.queue_rate_is_seen()) {
            return Interval {
                value: drain.rate_bps,
                low: Some(drain.low_bps),
                high: Some(drain.high_bps),
            };
        }
        if let Some(fit) = self
            .bucket
            .as_ref()
            .filter(|fit| fit.certainty() > NEEDED_CERTAINTY)
        {
            return fit.rate_bps;
        }
        let arrived_bps =
            self.totals.payload_bytes as f64 * 8.0 / self.totals.union_busy_s.max(SHORTEST_TIME_S);
        Interval {
            value: arrived_bps,
            low: Some(arrived_bps),
            high: None,
        }
    }

    /// Bytes that passed, with the most that a device may count on top of each packet, as a multiple of the
    /// IP bytes (there are small packets among full ones); and the same including the datagrams beside them.
    pub fn most_counted(&self, overhead_bytes: f64) -> MostCounted {
        let trace = &self.group_trace.trace;
        let packets = (trace.len() - trace.lost) as f64;
        let bytes = trace.passed_bytes.max(1.0);
        let typical = 1.0 + overhead_bytes / trace.typical_bytes.max(1.0);
        let own = (1.0 + overhead_bytes * packets / bytes).max(typical);
        let beside = self.beside.bytes + overhead_bytes * self.beside.packets;
        MostCounted {
            own,
            with_beside: own + beside / bytes,
        }
    }

    /// True if the delays show the rate at which the queue drains.
    pub fn queue_rate_is_seen(&self) -> bool {
        self.drain
            .as_ref()
            .is_some_and(|drain| drain.explained > DELAY_RELATED)
    }

    /// The link that a queue reveals behind the capture point, and the share of the flows' time in which it
    /// was busy. `None` if no queue explains the delays.
    pub fn link_busy(&self) -> Option<LinkBusy> {
        let drain = (self.drain).filter(|drain| drain.explained > DELAY_EXPLAINED)?;
        let sending_s = self.group_trace.trace.passed_bytes * 8.0 / drain.rate_bps;
        let share = sending_s / self.totals.union_busy_s;
        share.is_finite().then(|| LinkBusy {
            rate_bps: drain.rate_bps,
            share: share.clamp(0.0, 1.0),
        })
    }

    /// A typical full packet, IP bytes.
    pub fn packet_bytes(&self) -> f64 {
        self.group_trace.trace.typical_bytes
    }

    /// Transmission time of a full packet at that rate, seconds.
    pub fn packet_time_s(&self) -> f64 {
        self.group_trace.trace.typical_bytes * 8.0 / self.queue_rate_bps().value.max(1.0)
    }
}

/// See [`Observation::link_busy`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkBusy {
    pub rate_bps: f64,
    /// Share of the time with data of any flow in flight.
    pub share: f64,
}

impl LinkBusy {
    /// True if the link's rate sets the throughput of the flows, whatever else affects them.
    pub fn is_full(&self) -> bool {
        self.share > FULL_LINK_SHARE
    }
}

/// Multiples of the IP bytes that passed: see [`Observation::most_counted`].
#[derive(Debug, Clone, Copy)]
pub struct MostCounted {
    pub own: f64,
    pub with_beside: f64,
}
