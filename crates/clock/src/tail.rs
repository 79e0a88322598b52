//! The lower end of the distribution of transit times: is the smallest one a floor, or only a lucky packet?
//!
//! The lowest values of a sample show how its distribution ends (order statistics; J. Pickands, "Statistical
//! Inference Using Extreme Order Statistics", Annals of Statistics 1975). With a sharp end the k-th lowest
//! value grows in proportion to a power of k; without one (a bell's tail) it grows with the logarithm of k.
//!
//! A bell has two similar tails. Jitter that is spread evenly and preserves packet order has a long lower
//! one, from packets that did not wait for any before them, but ends sharply above; so does a queue with a
//! limit that is occasionally short.
//!
//! Order statistics assume independent values. Jitter nearly is independent: it affects each packet
//! separately, unless it has to wait for the one before it. The length of a queue is not: packets near one
//! that met a short queue meet a short queue too. A queue's lowest values are those of its few emptiest
//! moments, and show nothing about lower ones.

use crate::anchor::Floor;
use crate::level::median;
use crate::track::{Step, Tracks, sign};

/// Ranks of the lowest values, each this many times the last, show how the distribution ends. The very lowest
/// scatter most.
const FIRST_RANK: usize = 4;
const NEXT_RANK: usize = 4;
/// Four ranks give three increments.
const LEAST_RANKS: usize = 4;
/// The ranks go up to this share of all values: beyond it the body of the bell determines the increments.
const TAIL_SHARE: usize = 16;
/// The increments of a bell's two tails agree within this factor.
const ALIKE: f64 = 2.0;
/// The ranks between which an increment is about one standard deviation of a bell of thousands.
const CLIMB_RANKS: [usize; 2] = [1, 16];
/// Without a sharp end equal logarithmic steps give equal increments; with one each is at least twice the
/// last (four times if packets are spread evenly above the floor). Halfway, on a logarithmic scale:
const SHARP_END: f64 = 1.4;
/// A bell of jitter may end this many increments below its luckiest packet: the bells of path emulators and
/// radio links end within four standard deviations of their middle, and the luckiest packet is one or two
/// short of that.
const CLIMBS: f64 = 5.0;
/// Packets closer than this to a lucky one, in order of arrival, may have waited for it.
const APART: usize = 64;
/// Number of the lowest packets to compare with those at that distance, the mean rank of which must be above
/// this share of all packets: one half if each packet is affected independently. The mean of 512 such ranks
/// scatters by 0.013.
const COMPARED: usize = 256;
const INDEPENDENT: f64 = 0.45;

/// Probable distance of each direction's own smallest transit below the smallest observed one, nanoseconds.
///
/// Their sum never exceeds the smallest round trip: then the path itself takes no time.
pub(crate) fn excess(
    tracks: &Tracks,
    steps: &[Step],
    interval: usize,
    rate: f64,
    floors: &[Option<Floor>; 2],
) -> [f64; 2] {
    let [Some(forward), Some(backward)] = floors else {
        return [0.0; 2];
    };
    let round_trip = (forward.lowest + backward.lowest).max(0.0);
    let excess = [0, 1].map(|direction| {
        let track = &tracks.by_direction[direction];
        let points = &track.points[track.interval(steps, interval, direction)];
        let slope = sign(direction) * rate;
        let heights: Vec<f64> = points.iter().map(|point| point.above(slope)).collect();
        open_end(&heights)
    });
    let sum = excess[0] + excess[1];
    if sum > round_trip {
        excess.map(|part| part / sum * round_trip)
    } else {
        excess
    }
}

/// Possible extent of the distribution below the lowest value; 0 if it ends sharply, and if the values
/// (sorted by time) are correlated.
fn open_end(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let ranks = std::iter::successors(Some(FIRST_RANK), |rank| Some(rank * NEXT_RANK))
        .take_while(|rank| rank * TAIL_SHARE <= sorted.len());
    let (lower, upper): (Vec<f64>, Vec<f64>) = ranks
        .map(|rank| (sorted[rank - 1], sorted[sorted.len() - rank]))
        .unzip();
    if lower.len() < LEAST_RANKS
        || ends_sharply(&lower)
        || !are_alike(&lower, &upper)
        || rank_nearby(values, &sorted) < INDEPENDENT
    {
        return 0.0;
    }
    let [low, high] = CLIMB_RANKS.map(|rank| sorted[rank - 1]);
    CLIMBS * (high - low)
}

/// Ranks of the lowest values that show the tail below a floor, each this many times the last.
const LATE_RANKS: [usize; 3] = [2, 8, 32];
const LATE_RATIO: f64 = 4.0;
/// Fewer values than this many times the last rank show no tail.
const VALUES_PER_RANK: usize = 8;
/// Largest delay of a timestamp, nanoseconds: the usual delay of interrupts and readers.
const LATEST_NS: f64 = 2e6;
/// Least delay of a timestamp, nanoseconds: the time in which a kernel processes packets that arrived
/// together, 64 of them (Linux's poll budget) at a fraction of a microsecond each.
const LEAST_LATE_NS: f64 = 1e4;

/// Possible distance of the lowest value below the floor because of late timestamps at the upstream point,
/// nanoseconds: the packets then seem to have taken less time than they did.
///
/// Values that end in an exponential tail grow by its scale times the logarithm of the ratio between two
/// ranks, and `k` times the spacing after the `k`-th is that scale (A. Rényi, 1953); at a sharp end both are
/// almost zero. If one of two increments is much longer, a queue begins there; the median of the spacings is
/// robust against one. The larger counts: coarse timestamps leave no spacings. The lowest of `n` lies the
/// logarithm of `n` scales down.
pub(crate) fn late_stamps(mut values: Vec<f64>) -> f64 {
    let count = values.len();
    let [first, middle, last] = LATE_RANKS;
    if count < VALUES_PER_RANK * last {
        return LEAST_LATE_NS;
    }
    let (lowest, at_last, _) = values.select_nth_unstable_by(last - 1, f64::total_cmp);
    let at_last = *at_last;
    lowest.sort_unstable_by(f64::total_cmp);
    let climbs = [
        lowest[middle - 1] - lowest[first - 1],
        at_last - lowest[middle - 1],
    ];
    let shorter = climbs[0].min(climbs[1]);
    let mean = (climbs[0] + climbs[1]) / 2.0;
    let climb = mean.min(LATE_RATIO * shorter);
    let mut spacings: Vec<f64> = lowest
        .windows(2)
        .zip(1..)
        .map(|(pair, rank)| f64::from(rank) * (pair[1] - pair[0]))
        .collect();
    let scale = (climb / LATE_RATIO.ln()).max(median(&mut spacings) / std::f64::consts::LN_2);
    (scale * (count as f64).ln()).clamp(LEAST_LATE_NS, LATEST_NS)
}

/// True if the increments of the values at the ranks accelerate, from any rank on: a few packets of a special
/// kind may lie below the sharp end of all others.
fn ends_sharply(at_ranks: &[f64]) -> bool {
    at_ranks.windows(LEAST_RANKS).any(|at| {
        let (first, last) = (at[1] - at[0], at[LEAST_RANKS - 1] - at[LEAST_RANKS - 2]);
        last > SHARP_END * SHARP_END * first
    })
}

fn are_alike(lower: &[f64], upper: &[f64]) -> bool {
    let climb = |tail: &[f64]| (tail[tail.len() - 1] - tail[0]).abs();
    let (lower, upper) = (climb(lower), climb(upper));
    lower.max(upper) <= ALIKE * lower.min(upper)
}

/// Mean rank, as a share of all values, of the values at a distance from the lowest ones.
fn rank_nearby(values: &[f64], sorted: &[f64]) -> f64 {
    let low = sorted[COMPARED.min(sorted.len()) - 1];
    let (mut sum, mut count) = (0, 0);
    for around in values.windows(2 * APART + 1) {
        if around[APART] > low {
            continue;
        }
        for other in [around[0], around[2 * APART]] {
            sum += sorted.partition_point(|&value| value < other);
            count += sorted.len();
        }
    }
    sum as f64 / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values at the quantiles of a distribution, shuffled: a sample without chance.
    fn quantiles(of: impl Fn(f64) -> f64) -> Vec<f64> {
        const COUNT: u64 = 20_000;
        (0..COUNT)
            // 7 919 is prime: every quantile occurs once, far from its neighbours
            .map(|i| of(((i * 7919 % COUNT) as f64 + 0.5) / COUNT as f64))
            .collect()
    }

    /// The logistic distribution: a bell with a tail that falls exponentially.
    fn bell(p: f64) -> f64 {
        (p / (1.0 - p)).ln()
    }

    #[test]
    fn evenly_spread_values_and_those_of_a_queue_end_sharply() {
        assert_eq!(open_end(&quantiles(|p| p)), 0.0);
        assert_eq!(open_end(&quantiles(|p| -(1.0 - p).ln())), 0.0);
        assert_eq!(open_end(&quantiles(|p| p.powi(2))), 0.0);
        assert_eq!(open_end(&quantiles(|p| p.sqrt())), 0.0);
        // half of the packets within microseconds, the others in a queue
        assert_eq!(
            open_end(&quantiles(|p| if p < 0.5 { p * 1e-3 } else { p * 1e6 })),
            0.0
        );
    }

    #[test]
    fn the_tail_of_a_bell_has_no_sharp_end() {
        let end = open_end(&quantiles(bell));
        assert!(end > 5.0, "{end}");
    }

    #[test]
    fn a_queue_that_is_seldom_short_has_no_bell_shaped_tail() {
        let mut moments = quantiles(bell);
        // the same values, packet after packet at almost the same queue length
        moments.sort_by(f64::total_cmp);
        assert_eq!(open_end(&moments), 0.0);
    }

    #[test]
    fn late_stamps_make_a_tail_below_the_floor_as_long_as_its_lowest_packet() {
        // 20 µs late on average
        let late = quantiles(|p| 2e4 * p.ln());
        let lowest = late.iter().copied().fold(f64::INFINITY, f64::min);
        let found = late_stamps(late);
        assert!(
            found > 0.5 * -lowest && found < 2.0 * -lowest,
            "{found} {lowest}"
        );
        // a sharp floor under a queue of milliseconds
        assert!(late_stamps(quantiles(|p| 1e6 * p)) < 2.0 * LEAST_LATE_NS);
    }

    #[test]
    fn few_values_show_no_tail() {
        assert_eq!(open_end(&[0.0, 1.0, 1.1, 1.2]), 0.0);
    }
}
