//! Whether the smallest transit seen is a floor, or only the luckiest packet.
//!
//! The lowest values of a sample show how its distribution ends (order statistics; J. Pickands, "Statistical
//! Inference Using Extreme Order Statistics", Annals of Statistics 1975). With a sharp end the k-th lowest
//! value climbs in proportion to a power of k; with none (a bell's tail) it climbs with the logarithm of k.

use super::anchor::Floor;
use super::track::{Tracks, sign};

/// Which of the lowest values are looked at: equal steps on a logarithmic scale.
const RANKS: [usize; 4] = [1, 4, 16, 64];
/// Without a sharp end equal logarithmic steps climb equally; with one each climbs at least twice as far as
/// the last (fourfold where packets are spread evenly above the floor). Halfway, on a logarithmic scale:
const SHARP_END: f64 = 1.4;
/// A bell of jitter may end this many climbs below its luckiest packet: a climb, from the first to the
/// sixteenth of thousands, is about one standard deviation, and the bells that path emulators and radio
/// links make end within four of their middle, to which the luckiest packet owes them one or two.
const CLIMBS: f64 = 5.0;

/// How far each direction's own smallest transit probably lies below the smallest seen, nanoseconds.
///
/// Together never more than what both directions have in common: then the path itself takes no time.
pub(super) fn excess(
    tracks: &Tracks,
    from: usize,
    to: usize,
    rate: f64,
    floors: &[Option<Floor>; 2],
) -> [f64; 2] {
    let [Some(forward), Some(backward)] = floors else {
        return [0.0; 2];
    };
    let round_trip = (forward.lowest + backward.lowest).max(0.0);
    let excess = [0, 1].map(|direction| {
        let track = &tracks.by_direction[direction];
        let points = &track.points[track.position(from)..track.position(to)];
        let slope = sign(direction) * rate;
        open_end(
            points
                .iter()
                .map(|point| point.z - slope * point.x)
                .collect(),
        )
    });
    let sum = excess[0] + excess[1];
    if sum > round_trip {
        excess.map(|part| part / sum * round_trip)
    } else {
        excess
    }
}

/// How far below the lowest value the distribution may go on; 0 where it ends sharply.
fn open_end(mut values: Vec<f64>) -> f64 {
    let highest = RANKS[RANKS.len() - 1];
    if values.len() < 4 * highest {
        return 0.0;
    }
    values.select_nth_unstable_by(highest, f64::total_cmp);
    values.truncate(highest);
    values.sort_unstable_by(f64::total_cmp);
    let at = RANKS.map(|rank| values[rank - 1]);
    let climbs = [at[1] - at[0], at[2] - at[1], at[3] - at[2]];
    // two steps together are less at the mercy of one packet
    let grows = (climbs[2] * climbs[1]) > SHARP_END * SHARP_END * (climbs[1] * climbs[0]);
    if grows { 0.0 } else { CLIMBS * (at[2] - at[0]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values at the quantiles of a distribution: a sample without luck.
    fn quantiles(of: impl Fn(f64) -> f64) -> Vec<f64> {
        (0..20_000)
            .map(|i| of((f64::from(i) + 0.5) / 20_000.0))
            .collect()
    }

    #[test]
    fn evenly_spread_values_and_those_of_a_queue_end_sharply() {
        assert_eq!(open_end(quantiles(|p| p)), 0.0);
        assert_eq!(open_end(quantiles(|p| -(1.0 - p).ln())), 0.0);
        assert_eq!(open_end(quantiles(|p| p.powi(2))), 0.0);
        // half of the packets within microseconds, the others in a queue
        assert_eq!(
            open_end(quantiles(|p| if p < 0.5 { p * 1e-3 } else { p * 1e6 })),
            0.0
        );
    }

    #[test]
    fn the_tail_of_a_bell_has_no_sharp_end() {
        // the logistic distribution: a bell with a tail that falls exponentially
        let end = open_end(quantiles(|p| (p / (1.0 - p)).ln()));
        assert!(end > 5.0, "{end}");
    }

    #[test]
    fn few_values_say_nothing_of_their_tail() {
        assert_eq!(open_end(vec![0.0, 1.0, 1.1, 1.2]), 0.0);
    }
}
