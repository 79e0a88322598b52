//! Loss that does not depend on the packets.

use crate::{Arrival, Outcome, PathElement, Random};

/// Packets are lost by chance: each with the same probability, or in bursts by a Markov chain of two states.
///
/// The two-state model is that of E. N. Gilbert (Capacity of a burst-noise channel, Bell System Technical Journal
/// 39, 1960) and E. O. Elliott (Estimates of error rates for codes on burst-noise channels, BSTJ 42, 1963): a
/// packet is lost with one probability in the good state and another in the bad one. The state changes from packet
/// to packet, as in the papers, or with time, as where a radio link fades whether or not anything is sent.
#[derive(Debug, Clone)]
pub struct RandomLoss {
    changes: Changes,
    loss_in_good: f64,
    loss_in_bad: f64,
    bad: bool,
    random: Random,
}

#[derive(Debug, Clone, Copy)]
enum Changes {
    /// Probabilities, after each packet.
    ByPacket { good_to_bad: f64, bad_to_good: f64 },
    /// Mean times in each state, exponential; the next change, once there was a packet.
    ByTime {
        mean_good_ns: f64,
        mean_bad_ns: f64,
        next_ns: Option<i64>,
    },
}

/// After a gap of this many mean cycles the state is drawn again instead of followed through all of its changes.
const CYCLES_TO_FORGET: f64 = 100.0;

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
        let changes = Changes::ByPacket {
            good_to_bad,
            bad_to_good,
        };
        Self {
            changes,
            loss_in_good,
            loss_in_bad,
            bad: false,
            random: Random::new(seed),
        }
    }

    /// Bursts in which every packet is lost, and no losses between them: Gilbert's model given the share of lost
    /// packets (0 to 1) and the mean number of consecutive losses (at least 1).
    ///
    /// A burst ends after each packet with probability r = 1/`mean_burst_packets`; the chain is bad for a share
    /// p/(p + r) of packets, which equals `loss`, so p = r * loss / (1 - loss).
    pub fn bursts(loss: f64, mean_burst_packets: f64, seed: u64) -> Self {
        let bad_to_good = 1.0 / mean_burst_packets.max(1.0);
        let good_to_bad = bad_to_good * loss / (1.0 - loss);
        Self::gilbert_elliott(good_to_bad, bad_to_good, 0.0, 1.0, seed)
    }

    /// Outages in which every packet is lost, and no losses between them, given their share of the time (0 to 1)
    /// and their mean length; the durations of both states are exponentially distributed.
    pub fn outages(share: f64, mean_outage_ns: i64, seed: u64) -> Self {
        let mean_bad_ns = mean_outage_ns.max(1) as f64;
        let mean_good_ns = mean_bad_ns * (1.0 - share) / share;
        let changes = Changes::ByTime {
            mean_good_ns,
            mean_bad_ns,
            next_ns: None,
        };
        Self {
            changes,
            loss_in_good: 0.0,
            loss_in_bad: 1.0,
            bad: false,
            random: Random::new(seed),
        }
    }

    /// Follow the state through the changes that are due.
    fn advance(&mut self, now_ns: i64) {
        let Changes::ByTime {
            mean_good_ns,
            mean_bad_ns,
            next_ns,
        } = &mut self.changes
        else {
            return;
        };
        let cycle_ns = *mean_good_ns + *mean_bad_ns;
        let stay_ns = |random: &mut Random, bad: bool| {
            let mean_ns = if bad { *mean_bad_ns } else { *mean_good_ns };
            (random.exponential(mean_ns) as i64).max(1)
        };
        let followed = next_ns
            .filter(|&due_ns| now_ns.saturating_sub(due_ns) as f64 <= CYCLES_TO_FORGET * cycle_ns);
        let mut due_ns = match followed {
            Some(due_ns) => due_ns,
            None => {
                self.bad = self.random.chance(*mean_bad_ns / cycle_ns);
                now_ns.saturating_add(stay_ns(&mut self.random, self.bad))
            }
        };
        while due_ns <= now_ns && due_ns < i64::MAX {
            self.bad = !self.bad;
            due_ns = due_ns.saturating_add(stay_ns(&mut self.random, self.bad));
        }
        *next_ns = Some(due_ns);
    }
}

impl PathElement for RandomLoss {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        self.advance(packet.time_ns);
        let loss = if self.bad {
            self.loss_in_bad
        } else {
            self.loss_in_good
        };
        let lost = self.random.chance(loss);
        if let Changes::ByPacket {
            good_to_bad,
            bad_to_good,
        } = self.changes
        {
            let change = if self.bad { bad_to_good } else { good_to_bad };
            if self.random.chance(change) {
                self.bad = !self.bad;
            }
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
        if let Changes::ByTime { next_ns, .. } = &mut self.changes {
            *next_ns = None;
        }
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
    fn independent_losses_occur_at_their_rate_and_singly() {
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
    fn outages_take_their_share_of_time_and_end_without_packets() {
        // 2 % of the time in outages of 5 ms; a packet every 100 us: 50 in an outage, 100 000 s / 0.25 s outages.
        let mut loss = RandomLoss::outages(0.02, 5_000_000, 7);
        let arrivals: Vec<Arrival> = (0..1_000_000)
            .map(|i| Arrival {
                time_ns: i * 100_000,
                bytes: 1_500,
            })
            .collect();
        let lost = replay(&mut loss, &arrivals)
            .into_iter()
            .filter(|o| o.is_dropped())
            .count();
        // 400 outages: known to 5 % of the count (standard deviation), and lengths vary as much again.
        assert!((14_000..26_000).contains(&lost), "{lost}");
        // A packet a second later meets an independent state: 2 % lost, never many in a row.
        let seconds: Vec<Arrival> = (0..100_000)
            .map(|i| Arrival {
                time_ns: i * 1_000_000_000,
                bytes: 1_500,
            })
            .collect();
        let rare = replay(&mut loss, &seconds);
        let lost = rare.iter().filter(|o| o.is_dropped()).count();
        assert!((1_700..2_300).contains(&lost), "{lost}");
        assert!(
            rare.windows(6)
                .all(|run| run.iter().any(|o| !o.is_dropped()))
        );
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
