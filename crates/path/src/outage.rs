//! Times in which nothing passes.

use crate::{Arrival, Outcome, PathElement};

/// Drops everything that arrives in one of these times; delays nothing.
#[derive(Debug, Clone)]
pub struct Outage {
    /// Start and (excluded) end of each, in order and disjoint.
    times: Vec<(i64, i64)>,
}

impl Outage {
    /// Start and (excluded) end of each, in any order.
    pub fn new(mut times: Vec<(i64, i64)>) -> Self {
        times.retain(|&(from_ns, until_ns)| until_ns > from_ns);
        times.sort_unstable();
        times.dedup_by(|later, earlier| {
            let touches = later.0 <= earlier.1;
            if touches {
                earlier.1 = earlier.1.max(later.1);
            }
            touches
        });
        Self { times }
    }

    /// The outage at this time.
    pub fn at(&self, time_ns: i64) -> Option<(i64, i64)> {
        let after = self
            .times
            .partition_point(|&(from_ns, _)| from_ns <= time_ns);
        let outage = *self.times.get(after.checked_sub(1)?)?;
        (time_ns < outage.1).then_some(outage)
    }
}

impl PathElement for Outage {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        match self.at(packet.time_ns) {
            Some(_) => Outcome::Dropped,
            None => Outcome::Departs {
                time_ns: packet.time_ns,
            },
        }
    }

    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay;

    #[test]
    fn exactly_the_arrivals_during_an_outage_are_lost() {
        let mut outage = Outage::new(vec![(50, 60), (10, 20), (15, 30), (40, 40)]);
        let arrivals =
            [9, 10, 29, 30, 40, 49, 50, 59, 60].map(|time_ns| Arrival { time_ns, bytes: 1 });
        let lost: Vec<bool> = replay(&mut outage, &arrivals)
            .into_iter()
            .map(Outcome::is_dropped)
            .collect();
        assert_eq!(
            lost,
            [false, true, true, false, false, false, true, true, false]
        );
        assert_eq!(outage.at(12), Some((10, 30)), "adjacent outages are merged");
    }
}
