//! A share of the packets takes a longer path.

use whydrop_path::{Arrival, Outcome, PathElement, Random};

/// Two parallel links: each packet takes the longer one with the same probability, so that later packets overtake it.
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
