//! Random early detection.

use crate::element::with_overhead;
use crate::queue::Places;
use crate::transmitter::Transmitter;
use crate::{Arrival, Header, Limit, Outcome, PathElement, Random};

/// RED (S. Floyd and V. Jacobson, Random Early Detection Gateways for Congestion Avoidance, IEEE/ACM Transactions on
/// Networking 1(4), 1993): an average of the queue in packets; below the lower threshold nothing is dropped, between
/// the thresholds a share that rises to `max_probability`, evenly spaced, above the upper one everything.
#[derive(Debug, Clone)]
pub struct Red {
    line: Transmitter,
    limit: Limit,
    overhead_bytes: u32,
    min_packets: f64,
    max_packets: f64,
    max_probability: f64,
    weight: f64,
    gentle: bool,
    marks: bool,
    average: f64,
    /// Packets since the last drop; -1 while the average is below the lower threshold.
    count: i64,
    places: Places,
    random: Random,
}

/// The paper's typical transmission time, for ageing the average over idle times, is that of such a packet.
const TYPICAL_PACKET_BYTES: f64 = 1_500.0;

impl Red {
    /// Thresholds in packets. The weight of the average is the paper's 0.002.
    pub fn new(
        drain_rate_bps: u64,
        limit: Limit,
        min_packets: f64,
        max_packets: f64,
        max_probability: f64,
        seed: u64,
    ) -> Self {
        Self {
            line: Transmitter::new(drain_rate_bps),
            limit,
            overhead_bytes: 0,
            min_packets,
            max_packets: max_packets.max(min_packets),
            max_probability,
            weight: 0.002,
            gentle: false,
            marks: false,
            average: 0.0,
            count: -1,
            places: Places::default(),
            random: Random::new(seed),
        }
    }

    pub fn with_weight(mut self, weight: f64) -> Self {
        self.weight = weight;
        self
    }

    /// Let the share rise to 1 at twice the upper threshold, instead of a step (S. Floyd, Recommendation on
    /// using the gentle variant of RED, 2000).
    pub fn gentle(mut self) -> Self {
        self.gentle = true;
        self
    }

    /// Mark packets instead of dropping them early; see [`Header`].
    pub fn marking(mut self) -> Self {
        self.marks = true;
        self
    }

    with_overhead!();

    /// Update the average, as the paper's figure 2 does at each arrival.
    fn measure(&mut self, now_ns: i64) {
        let queued = self.places.backlog().packets;
        let idle_since_ns = self.line.free_ns();
        if queued > 0 || idle_since_ns > now_ns {
            self.average += self.weight * (queued as f64 - self.average);
            return;
        }
        let idle_ns = now_ns.saturating_sub(idle_since_ns) as f64;
        let packets_not_sent = idle_ns * self.line.rate_bps() as f64 / (TYPICAL_PACKET_BYTES * 8e9);
        self.average *= (1.0 - self.weight).powf(packets_not_sent);
    }

    /// Share of packets to drop at this average, before they are evenly spaced.
    fn probability(&self) -> f64 {
        let (min, max) = (self.min_packets, self.max_packets);
        if self.average < min {
            0.0
        } else if self.average < max {
            self.max_probability * (self.average - min) / (max - min)
        } else if self.gentle && self.average < 2.0 * max {
            self.max_probability + (1.0 - self.max_probability) * (self.average - max) / max
        } else {
            1.0
        }
    }

    /// True if this packet is to be dropped early.
    fn chooses(&mut self) -> bool {
        let probability = self.probability();
        if probability <= 0.0 {
            self.count = -1;
            return false;
        }
        self.count += 1;
        // Packets since the last drop count towards the next, so that drops are neither clustered nor far
        // apart.
        let left = 1.0 - self.count as f64 * probability;
        let chosen = left <= 0.0 || self.random.chance(probability / left);
        if chosen {
            self.count = 0;
        }
        chosen
    }
}

impl PathElement for Red {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        self.arrive_with(packet, Header::default())
    }

    fn arrive_with(&mut self, packet: Arrival, header: Header) -> Outcome {
        let bytes = u64::from(packet.bytes) + u64::from(self.overhead_bytes);
        let now_ns = self.places.advance(packet.time_ns);
        self.measure(now_ns);
        let chosen = self.chooses();
        let waits = self.line.free_ns() > now_ns;
        let may_mark = self.marks && header.ecn.is_capable();
        if (chosen && !may_mark) || (waits && !self.limit.admits(self.places.backlog(), bytes)) {
            return Outcome::Dropped;
        }
        let service = self.line.send(now_ns, bytes);
        if service.start_ns > now_ns {
            self.places.hold(service.start_ns, bytes);
        }
        Outcome::leaves(service.end_ns, chosen)
    }

    fn reset(&mut self) {
        self.line.reset();
        self.places.clear();
        self.random.reset();
        self.average = 0.0;
        self.count = -1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay;

    fn steady(packets: i64, every_ns: i64) -> Vec<Arrival> {
        (0..packets)
            .map(|i| Arrival {
                time_ns: i * every_ns,
                bytes: 1_500,
            })
            .collect()
    }

    fn red() -> Red {
        Red::new(12_000_000, Limit::packets(1_000), 5.0, 15.0, 0.1, 9)
    }

    #[test]
    fn a_queue_below_the_lower_threshold_loses_nothing() {
        // Batches of four into an otherwise idle link.
        let arrivals: Vec<Arrival> = (0..4_000i64)
            .map(|i| Arrival {
                time_ns: i / 4 * 5_000_000,
                bytes: 1_500,
            })
            .collect();
        assert!(
            replay(&mut red(), &arrivals)
                .iter()
                .all(|o| !o.is_dropped())
        );
    }

    #[test]
    fn under_steady_overload_the_average_stays_between_the_thresholds() {
        // 1500 bytes every 0.95 ms into 1 ms of service: 5 % must be dropped, half the maximum early share.
        let arrivals = steady(40_000, 950_000);
        let mut red = red();
        let outcomes = replay(&mut red, &arrivals);
        let settled = 20_000;
        let share = outcomes[settled..]
            .iter()
            .filter(|o| o.is_dropped())
            .count() as f64
            / 20_000.0;
        assert!((share - 0.05).abs() < 0.005, "{share}");
        assert!((5.0..15.0).contains(&red.average), "{}", red.average);
    }

    #[test]
    fn drops_are_evenly_spaced() {
        // With a constant probability p = 0.05 the gap is uniform on 1..1/p = 20 packets (the paper, section
        // IV).
        let mut red = red();
        red.average = 10.0;
        let mut gaps = Vec::new();
        let mut gap = 0;
        for _ in 0..100_000 {
            gap += 1;
            if red.chooses() {
                gaps.push(gap);
                gap = 0;
            }
        }
        let longest = gaps.iter().max().unwrap();
        assert!((19..=21).contains(longest), "{longest}");
        let mean = gaps.iter().sum::<i32>() as f64 / gaps.len() as f64;
        assert!((mean - 10.5).abs() < 0.6, "{mean}");
    }

    #[test]
    fn an_idle_time_ages_the_average() {
        // 347 packet times at weight 0.002 halve it: 0.998^346.2 = 0.5.
        let mut red = red();
        red.arrive(Arrival {
            time_ns: 0,
            bytes: 1_500,
        });
        red.average = 8.0;
        red.arrive(Arrival {
            time_ns: 1_000_000 + 346_227_000,
            bytes: 1_500,
        });
        assert!((red.average - 4.0).abs() < 0.001, "{}", red.average);
    }

    #[test]
    fn marking_loses_only_packets_that_find_the_queue_full() {
        let outcomes = replay(&mut red().marking(), &steady(2_000, 950_000));
        assert!(outcomes.iter().any(|o| matches!(o, Outcome::Marked { .. })));
        assert!(outcomes.iter().all(|o| !o.is_dropped()));
    }
}
