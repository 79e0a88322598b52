//! Measurements of a simulated run.

use serde::Serialize;
use whydrop_hosts::{Segment, Toward};
use whydrop_network::{Packet, PacketFate};

use crate::setting::Setting;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Of all connections: payload over the time from the first data to the acknowledgment of the last.
    pub goodput_bps: f64,
    /// Data packets that were dropped, as a share of those sent.
    pub loss_rate: f64,
    pub marked_rate: f64,
    /// Time in the path beyond the least, over the packets that arrived: median, 95th percentile and greatest.
    pub queueing_median_s: f64,
    pub queueing_p95_s: f64,
    pub queueing_greatest_s: f64,
    /// Data packets of all connections.
    pub packets: u64,
    pub flows: Vec<FlowOutcome>,
}

/// One connection of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowOutcome {
    pub goodput_bps: f64,
    pub packets: u64,
    pub lost: u64,
    pub marked: u64,
    pub retransmitted: u64,
}

/// The counts of one connection.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    packets: u64,
    lost: u64,
    marked: u64,
    retransmitted: u64,
    first_ns: Option<i64>,
    /// The end of the data that was sent in time.
    sent: u64,
    /// How much of it was acknowledged, and when.
    acknowledged: u64,
    acknowledged_ns: i64,
}

/// The packets of a run, counted as their fates become known.
pub(crate) struct Tally {
    duration_ns: i64,
    counts: Vec<Counts>,
    transits_ns: Vec<i64>,
}

impl Tally {
    pub fn of(setting: &Setting) -> Self {
        Self {
            duration_ns: setting.duration_ns,
            counts: vec![Counts::default(); setting.flows.len()],
            transits_ns: Vec::new(),
        }
    }

    /// Counts a packet that entered the path and left it at these times.
    pub fn add(&mut self, packet: &Packet, passed: [Option<i64>; 2]) {
        let Some(segment) = packet.segment else {
            return;
        };
        let own = &mut self.counts[segment.flow];
        let is_in_time = packet.sent_ns <= self.duration_ns;
        match segment.toward {
            Toward::Client if is_in_time && segment.payload_bytes > 0 => {
                own.add_data(packet, &segment);
                self.transits_ns.extend(transit_ns(passed));
            }
            Toward::Client => {}
            Toward::Server => own.add_acknowledgment(packet, &segment),
        }
    }

    pub fn outcome(mut self) -> Outcome {
        let least_ns = self.transits_ns.iter().copied().min().unwrap_or(0);
        let mut queueing_s =
            |share| (quantile(&mut self.transits_ns, share) - least_ns) as f64 / 1e9;
        let [queueing_median_s, queueing_p95_s, queueing_greatest_s] =
            [0.5, 0.95, 1.0].map(&mut queueing_s);
        let sum = |of: fn(&Counts) -> u64| self.counts.iter().map(of).sum::<u64>() as f64;
        let packets = sum(|one| one.packets);
        let flows: Vec<FlowOutcome> = self.counts.iter().map(Counts::outcome).collect();
        Outcome {
            goodput_bps: flows.iter().map(|flow| flow.goodput_bps).sum(),
            loss_rate: sum(|one| one.lost) / packets.max(1.0),
            marked_rate: sum(|one| one.marked) / packets.max(1.0),
            queueing_median_s,
            queueing_p95_s,
            queueing_greatest_s,
            packets: packets as u64,
            flows,
        }
    }
}

impl Counts {
    fn add_data(&mut self, packet: &Packet, segment: &Segment) {
        self.packets += 1;
        self.lost += u64::from(matches!(packet.fate, PacketFate::Dropped { .. }));
        self.marked += u64::from(packet.marked.is_some());
        self.retransmitted += u64::from(segment.reason.is_retransmission());
        let first_ns = self
            .first_ns
            .map_or(packet.sent_ns, |first| first.min(packet.sent_ns));
        self.first_ns = Some(first_ns);
        self.sent = self.sent.max(segment.end());
    }

    fn add_acknowledgment(&mut self, packet: &Packet, segment: &Segment) {
        if let PacketFate::Delivered { time_ns } = packet.fate
            && segment.acknowledgment.min(self.sent) > self.acknowledged
        {
            self.acknowledged = segment.acknowledgment.min(self.sent);
            self.acknowledged_ns = time_ns;
        }
    }

    fn outcome(&self) -> FlowOutcome {
        // The SYN counts as one.
        let payload_bytes = self.acknowledged.saturating_sub(1);
        let begin_ns = self.first_ns.unwrap_or(self.acknowledged_ns);
        let time_s = (self.acknowledged_ns - begin_ns) as f64 / 1e9;
        let goodput_bps = payload_bytes as f64 * 8.0 / time_s;
        FlowOutcome {
            goodput_bps: if time_s > 0.0 { goodput_bps } else { 0.0 },
            packets: self.packets,
            lost: self.lost,
            marked: self.marked,
            retransmitted: self.retransmitted,
        }
    }
}

/// Time in the path of a packet that left it.
fn transit_ns(passed: [Option<i64>; 2]) -> Option<i64> {
    let [entered_ns, left_ns] = passed;
    Some(left_ns? - entered_ns?)
}

/// A quantile, without interpolation; 0 of no values. It changes their order.
fn quantile(values: &mut [i64], share: f64) -> i64 {
    let Some(last) = values.len().checked_sub(1) else {
        return 0;
    };
    let place = (share * values.len() as f64) as usize;
    *values.select_nth_unstable(place.min(last)).1
}
