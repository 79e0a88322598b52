//! Delays of transit.

use crate::{Arrival, Outcome, PathElement, Random};

/// Every packet takes the same time.
#[derive(Debug, Clone)]
pub struct Delay {
    delay_ns: i64,
}

impl Delay {
    /// A negative delay counts as none.
    pub fn new(delay_ns: i64) -> Self {
        Self {
            delay_ns: delay_ns.max(0),
        }
    }
}

impl PathElement for Delay {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        Outcome::Departs {
            time_ns: packet.time_ns.saturating_add(self.delay_ns),
        }
    }

    fn reset(&mut self) {}
}

/// Every packet takes a random time, uniform between two bounds.
#[derive(Debug, Clone)]
pub struct Jitter {
    low_ns: i64,
    high_ns: i64,
    reorders: bool,
    last_departure_ns: i64,
    random: Random,
}

impl Jitter {
    /// Preserves the order: a packet that would overtake leaves together with the one ahead, as behind a busy
    /// queue.
    pub fn new(low_ns: i64, high_ns: i64, seed: u64) -> Self {
        let low_ns = low_ns.max(0);
        Self {
            low_ns,
            high_ns: high_ns.max(low_ns),
            reorders: false,
            last_departure_ns: i64::MIN,
            random: Random::new(seed),
        }
    }

    /// Let packets overtake each other, as over links in parallel.
    pub fn reordering(mut self) -> Self {
        self.reorders = true;
        self
    }
}

impl PathElement for Jitter {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        let spread_ns = self.high_ns.abs_diff(self.low_ns).saturating_add(1);
        let delay_ns = self
            .low_ns
            .saturating_add_unsigned(self.random.below(spread_ns));
        let mut time_ns = packet.time_ns.saturating_add(delay_ns);
        if !self.reorders {
            time_ns = time_ns.max(self.last_departure_ns);
            self.last_departure_ns = time_ns;
        }
        Outcome::Departs { time_ns }
    }

    fn reset(&mut self) {
        self.last_departure_ns = i64::MIN;
        self.random.reset();
    }

    fn keeps_order(&self) -> bool {
        !self.reorders
    }
}

/// Two parallel links: each packet takes the longer one with the same probability, so that later packets overtake it.
#[derive(Debug, Clone)]
pub struct Detour {
    probability: f64,
    extra_ns: i64,
    random: Random,
}

impl Detour {
    pub fn new(probability: f64, extra_ns: i64, seed: u64) -> Self {
        Self {
            probability,
            extra_ns,
            random: Random::new(seed),
        }
    }
}

impl PathElement for Detour {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        let longer = self.random.chance(self.probability);
        let extra_ns = if longer { self.extra_ns } else { 0 };
        Outcome::Departs {
            time_ns: packet.time_ns.saturating_add(extra_ns),
        }
    }

    fn reset(&mut self) {
        self.random.reset();
    }

    fn keeps_order(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay;

    fn departures(element: &mut dyn PathElement, arrivals: &[Arrival]) -> Vec<i64> {
        replay(element, arrivals)
            .into_iter()
            .filter_map(Outcome::departure_ns)
            .collect()
    }

    #[test]
    fn a_delay_is_added_and_saturates() {
        let arrivals = [5, i64::MAX].map(|time_ns| Arrival { time_ns, bytes: 1 });
        assert_eq!(departures(&mut Delay::new(10), &arrivals), [15, i64::MAX]);
        assert_eq!(departures(&mut Delay::new(-10), &arrivals), [5, i64::MAX]);
    }

    #[test]
    fn jitter_stays_within_its_bounds_and_reorders_only_when_asked() {
        let arrivals: Vec<Arrival> = (0..1_000)
            .map(|i| Arrival {
                time_ns: i * 10,
                bytes: 1,
            })
            .collect();
        let in_order = departures(&mut Jitter::new(100, 200, 1), &arrivals);
        assert!(in_order.is_sorted());
        let free = departures(&mut Jitter::new(100, 200, 1).reordering(), &arrivals);
        assert!(!free.is_sorted());
        for (arrival, departure) in arrivals.iter().zip(free) {
            assert!((100..=200).contains(&(departure - arrival.time_ns)));
        }
        // In order, a packet exceeds the bound only by waiting for one ahead, itself within it.
        assert!(
            arrivals
                .iter()
                .zip(in_order)
                .all(|(a, d)| (100..=200).contains(&(d - a.time_ns)))
        );
    }
}
