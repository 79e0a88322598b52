//! Three-colour markers as policers.

use serde::{Deserialize, Serialize};

use crate::element::with_overhead;
use crate::{Arrival, Outcome, PathElement, TokenBucket};

/// The colour that a marker gives a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Colour {
    /// Within the committed rate and burst.
    Green,
    /// Beyond the committed, within the excess burst or the peak rate.
    #[default]
    Yellow,
    /// Beyond both.
    Red,
}

/// Applies a colour: the policer drops everything worse than `worst_passed`.
fn police(colour: Colour, worst_passed: Colour, packet: Arrival) -> Outcome {
    if colour > worst_passed {
        Outcome::Dropped
    } else {
        Outcome::Departs {
            time_ns: packet.time_ns,
        }
    }
}

/// The single-rate three-colour marker of RFC 2697 (colour-blind), dropping red packets.
///
/// Tokens at the committed information rate fill the committed bucket (CBS) and, while that is full, the
/// excess bucket (EBS). A packet that finds its tokens in the committed bucket is green and takes them there;
/// otherwise, in the excess bucket, yellow; otherwise it is red and takes none.
#[derive(Debug, Clone)]
pub struct SingleRateThreeColour {
    committed: TokenBucket,
    excess: TokenBucket,
    worst_passed: Colour,
    overhead_bytes: u32,
}

impl SingleRateThreeColour {
    pub fn new(rate_bps: u64, committed_burst_bytes: u64, excess_burst_bytes: u64) -> Self {
        Self {
            committed: TokenBucket::new(rate_bps, committed_burst_bytes),
            // Filled by the overflow of the committed bucket, not by time.
            excess: TokenBucket::new(0, excess_burst_bytes),
            worst_passed: Colour::Yellow,
            overhead_bytes: 0,
        }
    }

    /// Drop packets worse than this; by default yellow passes and red is dropped.
    pub fn passing(mut self, worst_passed: Colour) -> Self {
        self.worst_passed = worst_passed;
        self
    }

    with_overhead!();

    /// Meter a packet: returns its colour and takes the tokens.
    pub fn colour(&mut self, packet: Arrival) -> Colour {
        let bytes = u64::from(packet.bytes) + u64::from(self.overhead_bytes);
        let surplus = self.committed.refill(packet.time_ns);
        self.excess.add(surplus);
        for (bucket, colour) in [
            (&mut self.committed, Colour::Green),
            (&mut self.excess, Colour::Yellow),
        ] {
            if bucket.holds(bytes) {
                bucket.take(bytes);
                return colour;
            }
        }
        Colour::Red
    }
}

impl PathElement for SingleRateThreeColour {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        police(self.colour(packet), self.worst_passed, packet)
    }

    fn reset(&mut self) {
        self.committed.reset();
        self.excess.reset();
    }
}

/// The two-rate three-colour marker of RFC 2698 (colour-blind), dropping red packets.
///
/// A packet that does not find its tokens in the peak bucket (PIR, PBS) is red and takes none; otherwise, if
/// not in the committed bucket (CIR, CBS), it is yellow and takes from the peak bucket; otherwise it is green
/// and takes from both.
#[derive(Debug, Clone)]
pub struct TwoRateThreeColour {
    committed: TokenBucket,
    peak: TokenBucket,
    worst_passed: Colour,
    overhead_bytes: u32,
}

impl TwoRateThreeColour {
    pub fn new(rate_bps: u64, burst_bytes: u64, peak_rate_bps: u64, peak_burst_bytes: u64) -> Self {
        Self {
            committed: TokenBucket::new(rate_bps, burst_bytes),
            peak: TokenBucket::new(peak_rate_bps, peak_burst_bytes),
            worst_passed: Colour::Yellow,
            overhead_bytes: 0,
        }
    }

    /// Drop packets worse than this; by default yellow passes and red is dropped.
    pub fn passing(mut self, worst_passed: Colour) -> Self {
        self.worst_passed = worst_passed;
        self
    }

    with_overhead!();

    /// Meter a packet: returns its colour and takes the tokens.
    pub fn colour(&mut self, packet: Arrival) -> Colour {
        let bytes = u64::from(packet.bytes) + u64::from(self.overhead_bytes);
        self.committed.refill(packet.time_ns);
        self.peak.refill(packet.time_ns);
        if !self.peak.holds(bytes) {
            return Colour::Red;
        }
        self.peak.take(bytes);
        if !self.committed.holds(bytes) {
            return Colour::Yellow;
        }
        self.committed.take(bytes);
        Colour::Green
    }
}

impl PathElement for TwoRateThreeColour {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        police(self.colour(packet), self.worst_passed, packet)
    }

    fn reset(&mut self) {
        self.committed.reset();
        self.peak.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::Colour::{Green, Red, Yellow};
    use super::*;
    use crate::{Policer, replay};

    fn at(time_ns: i64, bytes: u32) -> Arrival {
        Arrival { time_ns, bytes }
    }

    #[test]
    fn single_rate_spends_the_committed_burst_then_the_excess_burst() {
        // CBS two packets, EBS one. Then 12 Mbit/s bring a packet's tokens each millisecond to the committed bucket.
        let mut marker = SingleRateThreeColour::new(12_000_000, 3_000, 1_500);
        let colours: Vec<Colour> = (0..4).map(|_| marker.colour(at(0, 1_500))).collect();
        assert_eq!(colours, [Green, Green, Yellow, Red]);
        assert_eq!(marker.colour(at(1_000_000, 1_500)), Green);
        assert_eq!(marker.colour(at(1_000_000, 1_500)), Red);
    }

    #[test]
    fn the_excess_bucket_fills_only_while_the_committed_one_is_full() {
        // Empty at 0. 2 ms refill the committed bucket (3000), the third the excess bucket (1500).
        let spend = |wait_ns: i64| {
            let mut marker = SingleRateThreeColour::new(12_000_000, 3_000, 1_500);
            (0..3).for_each(|_| _ = marker.colour(at(0, 1_500)));
            (0..3)
                .map(|_| marker.colour(at(wait_ns, 1_500)))
                .collect::<Vec<_>>()
        };
        assert_eq!(spend(2_999_999), [Green, Green, Red]);
        assert_eq!(spend(3_000_000), [Green, Green, Yellow]);
    }

    #[test]
    fn two_rates_colour_by_the_peak_first() {
        // CIR 12 Mbit/s, CBS one packet; PIR 24 Mbit/s, PBS two packets.
        let mut marker = TwoRateThreeColour::new(12_000_000, 1_500, 24_000_000, 3_000);
        let at_zero: Vec<Colour> = (0..3).map(|_| marker.colour(at(0, 1_500))).collect();
        assert_eq!(at_zero, [Green, Yellow, Red]);
        // 0.5 ms: the peak bucket has one packet, the committed half of one.
        assert_eq!(marker.colour(at(500_000, 1_500)), Yellow);
        // 1 ms: both have one.
        assert_eq!(marker.colour(at(1_000_000, 1_500)), Green);
    }

    #[test]
    fn without_excess_or_peak_beyond_the_committed_they_are_plain_policers() {
        let arrivals: Vec<Arrival> = (0..200)
            .map(|i| at(i * 400_000, 100 + 7 * (i as u32 % 200)))
            .collect();
        let plain = replay(&mut Policer::new(5_000_000, 4_000), &arrivals);
        assert!(plain.iter().any(|o| o.is_dropped()));
        assert_eq!(
            replay(
                &mut SingleRateThreeColour::new(5_000_000, 4_000, 0),
                &arrivals
            ),
            plain
        );
        let mut two = TwoRateThreeColour::new(5_000_000, 4_000, 5_000_000, 4_000);
        assert_eq!(replay(&mut two, &arrivals), plain);
    }

    #[test]
    fn a_policer_may_drop_yellow_too() {
        let mut strict = SingleRateThreeColour::new(1, 1_500, 1_500).passing(Green);
        let outcomes = replay(&mut strict, &[at(0, 1_500), at(0, 1_500)]);
        assert_eq!(
            outcomes,
            [Outcome::Departs { time_ns: 0 }, Outcome::Dropped]
        );
    }
}
