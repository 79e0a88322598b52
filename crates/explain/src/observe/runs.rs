//! Runs of consecutively lost packets, and whether independent losses would form them.

use whydrop_path::fit::virtual_queue::binomial_log_likelihood;
use whydrop_path::fit::{Seen, Trace};
use whydrop_verdict::Quantity;

use crate::quantities::share;

/// The packets of known fate that follow a lost packet, and those that follow one that passed: the two states
/// of a Markov chain (Gilbert, *Capacity of a burst-noise channel*, 1960, without losses in the good state).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Runs {
    after_lost: Followers,
    after_passed: Followers,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Followers {
    lost: usize,
    passed: usize,
}

impl Runs {
    pub fn of(trace: &Trace) -> Self {
        let mut runs = Self::default();
        for pair in trace.outcome.windows(2) {
            let followers = match pair[0] {
                Seen::Lost => &mut runs.after_lost,
                Seen::Passed => &mut runs.after_passed,
                Seen::Unknown => continue,
            };
            match pair[1] {
                Seen::Lost => followers.lost += 1,
                Seen::Passed => followers.passed += 1,
                Seen::Unknown => {}
            }
        }
        runs
    }

    /// How much more likely losses that depend on the packet before are than independent ones, nats.
    pub fn nats(&self) -> f64 {
        self.after_lost.log_likelihood() + self.after_passed.log_likelihood()
            - self.all().log_likelihood()
    }

    /// Mean number of packets lost in a row, with the interval of the probability that a run ends.
    /// `None` if no run ended.
    pub fn mean_packets(&self) -> Option<Quantity> {
        let ends = share(self.after_lost.passed, self.after_lost.count())?;
        let ended = self.after_lost.passed > 0;
        ended.then(|| Quantity {
            value: 1.0 / ends.value,
            low: ends.high.map(|high| 1.0 / high),
            high: ends.low.map(|low| 1.0 / low),
        })
    }

    /// Mean number of packets that independent losses at the same rate lose in a row.
    pub fn mean_by_chance_packets(&self) -> f64 {
        let all = self.all();
        all.count() as f64 / all.passed.max(1) as f64
    }

    fn all(&self) -> Followers {
        Followers {
            lost: self.after_lost.lost + self.after_passed.lost,
            passed: self.after_lost.passed + self.after_passed.passed,
        }
    }
}

impl Followers {
    fn count(&self) -> usize {
        self.lost + self.passed
    }

    fn log_likelihood(&self) -> f64 {
        binomial_log_likelihood(self.lost as f64, self.passed as f64)
    }
}

#[cfg(test)]
mod tests {
    use whydrop_path::fit::TracePacket;

    use super::*;

    /// A packet for each letter: `l`ost, `p`assed, `u`nknown.
    fn runs(fates: &str) -> Runs {
        let packet = |(number, fate)| TracePacket {
            time_ns: number as i64 * 1_000_000,
            bytes: 1500,
            outcome: match fate {
                'l' => Seen::Lost,
                'p' => Seen::Passed,
                _ => Seen::Unknown,
            },
            delay_s: None,
        };
        Runs::of(&Trace::new(fates.chars().enumerate().map(packet).collect()))
    }

    #[test]
    fn runs_are_as_long_as_the_packets_lost_in_a_row() {
        let mean = runs("ppplllpppplpppp").mean_packets().unwrap();
        assert_eq!(mean.value, 2.0);
        assert!(
            mean.low.unwrap() < 2.0 && mean.high.unwrap() > 2.0,
            "{mean:?}"
        );
    }

    #[test]
    fn a_hundred_losses_in_runs_of_three_exclude_independent_losses_and_single_ones_do_not() {
        let in_runs = runs(&"pppppppppppppppplllpppppppppppppp".repeat(33));
        assert!(in_runs.nats() > 100.0, "{in_runs:?}");
        let single = runs(&"pppplppppppppppppppppppppplppppppp".repeat(50));
        assert!(single.nats() < 10.0, "{single:?}");
        assert_eq!(single.mean_packets().unwrap().value, 1.0);
    }

    #[test]
    fn unknown_fates_and_a_run_without_an_end_give_no_length() {
        assert_eq!(runs("lulup").mean_packets().map(|mean| mean.value), None);
        assert_eq!(runs("plll").mean_packets(), None);
        assert_eq!(runs("").nats(), 0.0);
    }
}
