//! The long-term rate of Linux's BBR: what a policer lets pass.

/// How long-term rates are found (`bbr_lt_bw_sampling` in Linux's tcp_bbr.c): from the first loss on, intervals of 4
/// to 16 round trips that end with a loss and in which a fifth was lost. Two successive ones with about the same
/// delivery rate show a policer. The sender then keeps that rate, without probing, for 48 round trips.
#[derive(Debug, Default)]
pub struct LongTerm {
    /// The present interval.
    interval: Option<Interval>,
    /// Rate of the last interval, segments per second.
    last_rate: Option<f64>,
    /// Rate in use, and the round trips since then.
    in_use: Option<(f64, u32)>,
    lost_before: u64,
}

#[derive(Debug, Clone, Copy)]
struct Interval {
    since_ns: i64,
    delivered: u64,
    lost: u64,
    rounds: u32,
}

/// The state of a connection at an acknowledgment; segments are counted from its beginning.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    pub now_ns: i64,
    pub delivered: u64,
    pub lost: u64,
    pub starved: bool,
    pub new_round: bool,
    /// Start-up and its drain are over.
    pub is_steady: bool,
}

const LEAST_ROUNDS: u32 = 4;
const MOST_ROUNDS: u32 = 4 * LEAST_ROUNDS;
const LEAST_LOSS: f64 = 50.0 / 256.0;
const SAME_WITHIN: f64 = 1.0 / 8.0;
const USED_FOR_ROUNDS: u32 = 48;
const LEAST_INTERVAL_NS: i64 = 1_000_000;

impl LongTerm {
    /// The rate in use, segments per second.
    pub fn rate(&self) -> Option<f64> {
        self.in_use.map(|(rate, _)| rate)
    }

    /// Adds an acknowledgment; returns true where the rate is no longer used and probing starts again.
    pub fn on_ack(&mut self, counts: Counts) -> bool {
        let more_lost = counts.lost > std::mem::replace(&mut self.lost_before, counts.lost);
        if let Some((_, rounds)) = &mut self.in_use {
            *rounds += u32::from(counts.new_round && counts.is_steady);
            let is_over = *rounds >= USED_FOR_ROUNDS;
            if is_over {
                self.reset();
            }
            return is_over;
        }
        if let Some(interval) = &mut self.interval {
            interval.rounds += u32::from(counts.new_round);
        } else if more_lost {
            self.interval = Some(Interval::from(counts));
        }
        if let Some(interval) = self.interval {
            self.look_at(interval, counts, more_lost);
        }
        false
    }

    fn look_at(&mut self, interval: Interval, counts: Counts, more_lost: bool) {
        if counts.starved || interval.rounds > MOST_ROUNDS {
            self.reset();
        } else if interval.rounds >= LEAST_ROUNDS
            && more_lost
            && let Some(rate) = interval.rate_until(counts)
        {
            self.end_interval(rate, counts);
        }
    }

    fn end_interval(&mut self, rate: f64, counts: Counts) {
        match self.last_rate {
            Some(last) if (rate - last).abs() <= SAME_WITHIN * last => {
                self.in_use = Some((f64::midpoint(rate, last), 0));
            }
            _ => {
                self.last_rate = Some(rate);
                self.interval = Some(Interval::from(counts));
            }
        }
    }

    fn reset(&mut self) {
        (self.interval, self.last_rate, self.in_use) = (None, None, None);
    }
}

impl Interval {
    /// Its delivery rate, if it has lost enough.
    fn rate_until(&self, counts: Counts) -> Option<f64> {
        let delivered = (counts.delivered - self.delivered) as f64;
        let lost = (counts.lost - self.lost) as f64;
        let time_ns = counts.now_ns - self.since_ns;
        (delivered > 0.0 && lost >= LEAST_LOSS * delivered && time_ns >= LEAST_INTERVAL_NS)
            .then(|| delivered * 1e9 / time_ns as f64)
    }
}

impl From<Counts> for Interval {
    fn from(counts: Counts) -> Self {
        Self {
            since_ns: counts.now_ns,
            delivered: counts.delivered,
            lost: counts.lost,
            rounds: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of 10 ms with 100 segments delivered and so many lost in each; the rate that is used after them.
    fn after(lost: &[u64]) -> (LongTerm, Vec<bool>) {
        let mut long_term = LongTerm::default();
        let mut all_lost = 0;
        let ended = (1..).zip(lost).map(|(round, &lost)| {
            all_lost += lost;
            long_term.on_ack(Counts {
                now_ns: round * 10_000_000,
                delivered: 100 * round as u64,
                lost: all_lost,
                starved: false,
                new_round: true,
                is_steady: true,
            })
        });
        let ended = ended.collect();
        (long_term, ended)
    }

    #[test]
    fn two_intervals_with_much_loss_and_the_same_rate_show_a_policer() {
        let (long_term, _) = after(&[30; 6]);
        assert_eq!(long_term.rate(), None);
        let (long_term, _) = after(&[30; 9]);
        assert_eq!(long_term.rate(), Some(10_000.0));
    }

    #[test]
    fn little_loss_shows_none() {
        assert_eq!(after(&[10; 100]).0.rate(), None);
    }

    #[test]
    fn after_48_rounds_probing_starts_again() {
        let (_, ended) = after(&[30; 60]);
        let rounds: Vec<usize> = (ended.iter().enumerate())
            .filter_map(|(round, &ended)| ended.then_some(round))
            .collect();
        assert_eq!(rounds, [8 + 48]);
    }
}
