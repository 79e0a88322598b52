//! How late packets are sent: a histogram of fixed size.

use serde::Serialize;

/// Values below this have a place each; above it, each power of two has this many places: an error below 2 %.
const PLACES: u64 = 64;
const OCTAVES: usize = 40;

/// Times from the departure that an element decided to the moment at which the packet is handed to the kernel.
#[derive(Debug, Clone)]
pub struct Lateness {
    counts: Vec<u64>,
    packets: u64,
    sum_ns: u64,
    greatest_ns: u64,
}

/// The lateness of all packets of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    pub packets: u64,
    pub mean_ns: f64,
    pub median_ns: f64,
    pub p99_ns: f64,
    pub greatest_ns: u64,
}

impl Default for Lateness {
    fn default() -> Self {
        Self {
            counts: vec![0; PLACES as usize * (OCTAVES + 1)],
            packets: 0,
            sum_ns: 0,
            greatest_ns: 0,
        }
    }
}

impl Lateness {
    #[inline]
    pub fn record(&mut self, late_ns: i64) {
        let late_ns = late_ns.max(0) as u64;
        let last = self.counts.len() - 1;
        self.counts[place(late_ns).min(last)] += 1;
        self.packets += 1;
        self.sum_ns += late_ns;
        self.greatest_ns = self.greatest_ns.max(late_ns);
    }

    /// `None` if no packet was sent.
    pub fn summary(&self) -> Option<Summary> {
        (self.packets > 0).then(|| Summary {
            packets: self.packets,
            mean_ns: self.sum_ns as f64 / self.packets as f64,
            median_ns: self.quantile_ns(0.5),
            p99_ns: self.quantile_ns(0.99),
            greatest_ns: self.greatest_ns,
        })
    }

    fn quantile_ns(&self, share: f64) -> f64 {
        let rank = (share * self.packets as f64).ceil() as u64;
        let mut counted = 0;
        for (place, count) in self.counts.iter().enumerate() {
            counted += count;
            if counted >= rank {
                return middle_ns(place).min(self.greatest_ns as f64);
            }
        }
        self.greatest_ns as f64
    }
}

/// The place of a value in the histogram.
fn place(value: u64) -> usize {
    let Some(octave) = (value / PLACES).checked_ilog2() else {
        return value as usize;
    };
    let within = (value >> octave) - PLACES;
    (PLACES * (u64::from(octave) + 1) + within) as usize
}

/// The middle of the values of a place.
fn middle_ns(place: usize) -> f64 {
    let place = place as u64;
    if place < PLACES {
        return place as f64;
    }
    let (octave, within) = (place / PLACES - 1, place % PLACES);
    let width = (1_u64 << octave) as f64;
    (PLACES + within) as f64 * width + (width - 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_within_2_percent_of_the_middle_of_its_place() {
        for value in (0..5_000).chain([123_456, 7_890_123, 60_000_000_000]) {
            let middle = middle_ns(place(value));
            assert!(
                (middle - value as f64).abs() <= 0.02 * value as f64,
                "{value}: {middle}"
            );
        }
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.summary(), None);
        for late_ns in 1..=100 {
            lateness.record(late_ns * 1_000);
        }
        let summary = lateness.summary().unwrap();
        assert_eq!(
            (summary.packets, summary.mean_ns, summary.greatest_ns),
            (100, 50_500.0, 100_000)
        );
        assert!((summary.median_ns - 50_000.0).abs() < 1_000.0);
        assert!((summary.p99_ns - 99_000.0).abs() < 2_000.0);
    }

    #[test]
    fn a_packet_that_is_early_or_absurdly_late_is_counted() {
        let mut lateness = Lateness::default();
        lateness.record(-5);
        lateness.record(i64::MAX);
        let summary = lateness.summary().unwrap();
        assert_eq!((summary.packets, summary.median_ns), (2, 0.0));
        assert_eq!(summary.greatest_ns, i64::MAX as u64);
    }
}
