//! Mismatched packets: for example one of several equal acknowledgments, some of which a capture lacks.
//!
//! A mismatch makes the transit too long or too short; only the latter does harm, because it lowers a floor.
//! If a path preserves packet order, it is visible: most packets leave in the order in which they arrived
//! (the longest such sequence), and the mismatched one seems to have overtaken many of these. The transit
//! times before and after it are alike, unlike after a clock is set back, when all packets for a while seem
//! out of order. A path with frequent reordering is not corrected.

use crate::ClockSample;
use crate::track::difference;

/// A mismatched packet seems to have overtaken at least this many of those in order.
const OVERTAKEN: usize = 4;
/// Packets in order on each side, from which a mismatched one differs.
const BESIDE: usize = 8;
/// One in this many packets may be mismatched; with more, the path does not preserve order.
const ONE_OUT_OF: usize = 20;

/// For each sample, true if it is mismatched.
pub(crate) fn find(samples: &[ClockSample]) -> Vec<bool> {
    let mut mismatched = vec![false; samples.len()];
    for forward in [true, false] {
        let own: Vec<usize> = (0..samples.len())
            .filter(|&i| samples[i].forward == forward)
            .collect();
        let own_samples: Vec<ClockSample> = own.iter().map(|&i| samples[i]).collect();
        let found = overtakers(&own_samples);
        if found.len() * ONE_OUT_OF <= own.len() {
            found.into_iter().for_each(|i| mismatched[own[i]] = true);
        }
    }
    mismatched
}

/// Positions of packets that overtook others without a clock step, among those of one direction.
fn overtakers(samples: &[ClockSample]) -> Vec<usize> {
    let stamps: Vec<i64> = samples.iter().map(|sample| sample.second_ns).collect();
    let in_order = longest_in_order(&stamps);
    if in_order.len() == samples.len() {
        return Vec::new();
    }
    let kept: Vec<i64> = in_order.iter().map(|&i| stamps[i]).collect();
    let mut found = Vec::new();
    // number of those in order before
    let mut before = 0;
    for (i, sample) in samples.iter().enumerate() {
        if in_order.get(before) == Some(&i) {
            before += 1;
            continue;
        }
        let by_stamp = kept.partition_point(|&kept| kept <= sample.second_ns);
        // a fast packet leaves earlier than others that entered before it: at capture 2 in the forward
        // direction, at capture 1 in the other
        let overtaken = if sample.forward {
            before.saturating_sub(by_stamp)
        } else {
            by_stamp.saturating_sub(before)
        };
        let left = &in_order[before.saturating_sub(BESIDE)..before];
        let right = &in_order[before..in_order.len().min(before + BESIDE)];
        let level = |places: &[usize]| middle_transit(samples, places);
        if overtaken >= OVERTAKEN && stands_apart(transit(sample), level(left), level(right)) {
            found.push(i);
        }
    }
    found
}

/// True if the transit is below that on either side by more than these differ: a clock step leaves it at the
/// level of one of them.
fn stands_apart(transit: i128, left: Option<i128>, right: Option<i128>) -> bool {
    let apart = |level: Option<i128>| level.map(|level| level - transit);
    match (apart(left), apart(right)) {
        (Some(left), Some(right)) => left.min(right) > (left - right).abs(),
        // at an end of the capture it may be the first of another level
        _ => false,
    }
}

/// The transit time, including the clocks' difference.
fn transit(sample: &ClockSample) -> i128 {
    if sample.forward {
        difference(sample)
    } else {
        -difference(sample)
    }
}

fn middle_transit(samples: &[ClockSample], places: &[usize]) -> Option<i128> {
    let mut transits: Vec<i128> = places
        .iter()
        .map(|&place| transit(&samples[place]))
        .collect();
    transits.sort_unstable();
    transits.get(transits.len() / 2).copied()
}

/// The positions of the longest non-decreasing sequence of timestamps (by patience sorting: C. Schensted,
/// "Longest Increasing and Decreasing Subsequences", Canadian Journal of Mathematics 1961).
fn longest_in_order(stamps: &[i64]) -> Vec<usize> {
    const NONE: u32 = u32::MAX;
    // the position of the smallest timestamp that ends a sequence of each length, and the predecessor of each
    // position
    let mut ends: Vec<u32> = Vec::new();
    let mut previous = vec![NONE; stamps.len()];
    for (i, stamp) in stamps.iter().enumerate() {
        let length = match ends.last() {
            Some(&last) if stamps[last as usize] > *stamp => {
                ends.partition_point(|&end| stamps[end as usize] <= *stamp)
            }
            _ => ends.len(),
        };
        if length > 0 {
            previous[i] = ends[length - 1];
        }
        if length == ends.len() {
            ends.push(i as u32);
        } else {
            ends[length] = i as u32;
        }
    }
    let mut places = Vec::with_capacity(ends.len());
    let mut place = ends.last().copied().unwrap_or(NONE);
    while place != NONE {
        places.push(place as usize);
        place = previous[place as usize];
    }
    places.reverse();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet every millisecond in both directions, 20 ms in transit, with the second clock set at packet
    /// `step`.
    fn samples(step: usize, by_ns: i64) -> Vec<ClockSample> {
        (0..400)
            .map(|i| {
                let forward = i % 2 == 0;
                let transit = if forward { 20_000_000 } else { -20_000_000 };
                let first_ns = i as i64 * 500_000;
                let stepped = if i < step { 0 } else { by_ns };
                ClockSample {
                    first_ns,
                    second_ns: first_ns + transit + stepped,
                    forward,
                }
            })
            .collect()
    }

    fn found(samples: &[ClockSample]) -> Vec<usize> {
        let mismatched = find(samples);
        (0..mismatched.len()).filter(|&i| mismatched[i]).collect()
    }

    #[test]
    fn false_matches_that_shorten_transit_are_detected_in_either_direction() {
        for (place, shorter) in [(100, -9_000_000), (101, 9_000_000)] {
            let mut samples = samples(0, 0);
            samples[place].second_ns += shorter;
            assert_eq!(found(&samples), [place]);
            samples[place].second_ns -= 2 * shorter;
            assert_eq!(found(&samples), []);
        }
    }

    #[test]
    fn a_run_of_false_matches_is_detected() {
        let mut samples = samples(0, 0);
        let run: Vec<usize> = (201..221).step_by(2).collect();
        for &place in &run {
            samples[place].second_ns += 50_000_000;
        }
        assert_eq!(found(&samples), run);
    }

    #[test]
    fn a_clock_step_makes_no_packet_look_mismatched() {
        for by_ns in [-1_000_000_000, -7_000_000, 7_000_000, 1_000_000_000] {
            assert_eq!(found(&samples(200, by_ns)), []);
        }
    }

    #[test]
    fn frequent_overtaking_is_no_mismatch() {
        let mut samples = samples(0, 0);
        for sample in samples.iter_mut().step_by(14) {
            sample.second_ns -= 9_000_000;
        }
        assert_eq!(found(&samples), []);
    }
}
