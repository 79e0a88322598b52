//! Measurements of a simulated run.

use serde::Serialize;
use whydrop_hosts::{Segment, Toward};
use whydrop_network::{Packet, PacketFate};

use crate::setting::Setting;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Of all connections: see [`together_bps`].
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
    /// Payload over the time from the first data to the acknowledgment of the last.
    pub goodput_bps: f64,
    pub packets: u64,
    pub lost: u64,
    pub marked: u64,
    pub retransmitted: u64,
}

/// The payload that a connection carried, from the first data to the acknowledgment of the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    pub begin_ns: i64,
    pub end_ns: i64,
    pub payload_bytes: u64,
}

impl Carried {
    /// 0 of a connection that carried nothing.
    fn goodput_bps(&self) -> f64 {
        match self.end_ns - self.begin_ns {
            time_ns @ 1.. => self.payload_bytes as f64 * 8e9 / time_ns as f64,
            _ => 0.0,
        }
    }
}

/// Goodput of connections together: at each moment the sum over those that carry data then, averaged over all payload.
///
/// Of connections one after the other it is no more than each had, and one that is idle for long does not lower it.
#[must_use]
pub fn together_bps(connections: &[Carried]) -> f64 {
    let mut changes: Vec<(i64, f64)> = (connections.iter())
        .flat_map(|one| {
            let goodput_bps = one.goodput_bps();
            [(one.begin_ns, goodput_bps), (one.end_ns, -goodput_bps)]
        })
        .collect();
    changes.sort_by_key(|&(time_ns, _)| time_ns);
    let [mut sum_bps, mut bits, mut weighted] = [0.0; 3];
    for (place, &(time_ns, change_bps)) in changes.iter().enumerate() {
        sum_bps += change_bps;
        let until_ns = changes.get(place + 1).map_or(time_ns, |next| next.0);
        let carried_bits = sum_bps * (until_ns - time_ns) as f64 / 1e9;
        bits += carried_bits;
        weighted += carried_bits * sum_bps;
    }
    if bits > 0.0 { weighted / bits } else { 0.0 }
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
        let carried: Vec<Carried> = self.counts.iter().map(Counts::carried).collect();
        let flows = self.counts.iter().map(Counts::outcome).collect();
        Outcome {
            goodput_bps: together_bps(&carried),
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

    fn carried(&self) -> Carried {
        Carried {
            begin_ns: self.first_ns.unwrap_or(self.acknowledged_ns),
            end_ns: self.acknowledged_ns,
            // The SYN counts as one.
            payload_bytes: self.acknowledged.saturating_sub(1),
        }
    }

    fn outcome(&self) -> FlowOutcome {
        FlowOutcome {
            goodput_bps: self.carried().goodput_bps(),
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

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    /// A connection that carries 10 Mbit/s from one second to another.
    fn from_to(begin_s: i64, end_s: i64) -> Carried {
        Carried {
            begin_ns: begin_s * S,
            end_ns: end_s * S,
            payload_bytes: 1_250_000 * (end_s - begin_s) as u64,
        }
    }

    fn mbit(connections: &[Carried]) -> f64 {
        together_bps(connections) / 1e6
    }

    #[test]
    fn connections_at_the_same_time_are_added_and_others_are_not() {
        assert!((mbit(&[from_to(0, 4)]) - 10.0).abs() < 1e-9);
        assert!((mbit(&[from_to(0, 4), from_to(0, 4)]) - 20.0).abs() < 1e-9);
        assert!((mbit(&[from_to(0, 4), from_to(4, 9)]) - 10.0).abs() < 1e-9);
        // 10 Mbit of each at 10 Mbit/s, and 20 Mbit at 20 Mbit/s.
        assert!((mbit(&[from_to(0, 2), from_to(1, 3)]) - 15.0).abs() < 1e-9);
    }

    #[test]
    fn a_connection_with_little_data_does_not_lower_the_goodput_of_others() {
        let idle = Carried {
            begin_ns: 0,
            end_ns: 100 * S,
            payload_bytes: 1_000,
        };
        assert!((9.9..10.1).contains(&mbit(&[idle, from_to(3, 8)])));
    }

    #[test]
    fn nothing_carried_is_no_goodput() {
        let nothing = Carried {
            begin_ns: S,
            end_ns: S,
            payload_bytes: 0,
        };
        assert_eq!(together_bps(&[]), 0.0);
        assert_eq!(together_bps(&[nothing]), 0.0);
        assert!((mbit(&[nothing, from_to(0, 2)]) - 10.0).abs() < 1e-9);
    }
}
