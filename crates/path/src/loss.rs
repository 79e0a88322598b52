//! Loss that depends on nothing a packet does.

use crate::{Arrival, Outcome, PathElement, Random};

/// Packets are lost by chance: each with the same probability, or in bursts by a Markov chain of two states.
///
/// The two-state model is that of E. N. Gilbert (Capacity of a burst-noise channel, Bell System Technical Journal
/// 39, 1960) and E. O. Elliott (Estimates of error rates for codes on burst-noise channels, BSTJ 42, 1963): a
/// packet is lost with one probability in the good state and another in the bad one, and after each packet the
/// state may change.
#[derive(Debug, Clone)]
pub struct RandomLoss {
    good_to_bad: f64,
    bad_to_good: f64,
    loss_in_good: f64,
    loss_in_bad: f64,
    bad: bool,
    random: Random,
}

impl RandomLoss {
    /// Each packet is lost with this probability, independently of all others.
    pub fn independent(probability: f64, seed: u64) -> Self {
        Self::gilbert_elliott(0.0, 1.0, probability, 0.0, seed)
    }

    /// Starts in the good state. All four are probabilities for one packet.
    pub fn gilbert_elliott(
        good_to_bad: f64,
        bad_to_good: f64,
        loss_in_good: f64,
        loss_in_bad: f64,
        seed: u64,
    ) -> Self {
        Self {
            good_to_bad,
            bad_to_good,
            loss_in_good,
            loss_in_bad,
            bad: false,
            random: Random::new(seed),
        }
    }

    /// Bursts in which all is lost, nothing between them: Gilbert's model by what one sees, the share of packets
    /// lost (0 to 1) and the mean number of consecutive losses (at least 1).
    ///
    /// A burst ends after each packet with probability r = 1/`mean_burst_packets`; the chain is bad for a share
    /// p/(p + r) of packets, which is to be `loss`, so p = r * loss / (1 - loss).
    pub fn bursts(loss: f64, mean_burst_packets: f64, seed: u64) -> Self {
        let bad_to_good = 1.0 / mean_burst_packets.max(1.0);
        let good_to_bad = bad_to_good * loss / (1.0 - loss);
        Self::gilbert_elliott(good_to_bad, bad_to_good, 0.0, 1.0, seed)
    }
}

impl PathElement for RandomLoss {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        let loss = if self.bad {
            self.loss_in_bad
        } else {
            self.loss_in_good
        };
        let change = if self.bad {
            self.bad_to_good
        } else {
            self.good_to_bad
        };
        let lost = self.random.chance(loss);
        if self.random.chance(change) {
            self.bad = !self.bad;
        }
        if lost {
            Outcome::Dropped
        } else {
            Outcome::Departs {
                time_ns: packet.time_ns,
            }
        }
    }

    fn reset(&mut self) {
        self.bad = false;
        self.random.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay;

    /// (share of packets lost, mean number of consecutive losses)
    fn measure(mut loss: RandomLoss, packets: i64) -> (f64, f64) {
        let arrivals: Vec<Arrival> = (0..packets)
            .map(|time_ns| Arrival {
                time_ns,
                bytes: 1_500,
            })
            .collect();
        let lost: Vec<bool> = replay(&mut loss, &arrivals)
            .into_iter()
            .map(Outcome::is_dropped)
            .collect();
        let count = lost.iter().filter(|&&lost| lost).count() as f64;
        let bursts = lost
            .iter()
            .enumerate()
            .filter(|&(i, &lost_now)| lost_now && (i == 0 || !lost[i - 1]))
            .count();
        (count / packets as f64, count / bursts.max(1) as f64)
    }

    #[test]
    fn independent_losses_come_at_their_rate_and_alone() {
        let (share, burst) = measure(RandomLoss::independent(0.01, 7), 1_000_000);
        // Standard deviation of the share: sqrt(0.01 * 0.99 / 10^6) = 0.0001; mean run of losses 1 / (1 - 0.01).
        assert!((share - 0.01).abs() < 0.0005, "{share}");
        assert!((burst - 1.0101).abs() < 0.01, "{burst}");
    }

    #[test]
    fn bursts_have_the_share_and_the_length_asked_for() {
        let (share, burst) = measure(RandomLoss::bursts(0.01, 5.0, 7), 2_000_000);
        // About 4000 bursts: the mean length is known to 1 / sqrt(4000) of it, 1.6 %, and so is the share.
        assert!((share / 0.01 - 1.0).abs() < 0.08, "{share}");
        assert!((burst / 5.0 - 1.0).abs() < 0.08, "{burst}");
    }

    #[test]
    fn no_probability_loses_nothing_and_certainty_everything() {
        assert_eq!(measure(RandomLoss::independent(0.0, 3), 10_000).0, 0.0);
        assert_eq!(measure(RandomLoss::independent(1.0, 3), 10_000).0, 1.0);
    }

    #[test]
    fn the_same_seed_loses_the_same_packets_and_another_loses_others() {
        let arrivals: Vec<Arrival> = (0..1_000)
            .map(|time_ns| Arrival { time_ns, bytes: 1 })
            .collect();
        let mut loss = RandomLoss::bursts(0.05, 3.0, 11);
        let first = replay(&mut loss, &arrivals);
        assert_eq!(first, replay(&mut loss, &arrivals));
        assert_ne!(
            first,
            replay(&mut RandomLoss::bursts(0.05, 3.0, 12), &arrivals)
        );
    }
}
