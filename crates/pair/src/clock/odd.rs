//! Packets that were taken for another: of equal acknowledgments, say, of which either capture missed some.
//!
//! A wrong twin from too early or too late makes transit too long or too short, and only the latter does harm,
//! for it lowers a floor. Where a path keeps packets in order it shows: most packets leave in the order in which
//! they came (the longest sequence of them that does), and the odd one seems to have overtaken many of these.
//! Transit before it and after it is alike, for a clock that is set back makes all packets of a while seem out
//! of order. A path on which overtaking is common is left alone.
//!
//! What is left is odd where it contradicts the other direction: a round trip cannot take less than nothing. Most
//! around it do not, and it is over after a short spell: after a clock was set, contradictions go on.

use super::ClockSample;
use super::slope::Drift;
use super::steps::LEAST_STEP_NS;

/// An odd packet seems to have overtaken at least this many of those in order.
const OVERTAKEN: usize = 4;
/// Packets in order on each side of it, from which an odd one stands apart.
const BESIDE: usize = 8;
/// One out of so many packets may be odd, or the path does not keep packets in order.
const ONE_OUT_OF: usize = 20;

/// The other direction's smallest transit is looked for in so many parts of the time, as the median of so many
/// packets, which an odd one does not move.
const PARTS: usize = 64;
const TOGETHER: usize = 8;
/// Packets on each side of a contradicting one of which most do not.
const AROUND: usize = 32;

/// Contradictions are confined to one out of so many parts of the time.
const SPELL: u64 = 16;

/// For each sample, whether it is odd, as far as the drift is known.
pub(super) fn find(samples: &[ClockSample], drift: &Drift) -> Vec<bool> {
    let mut odd = vec![false; samples.len()];
    for forward in [true, false] {
        let own: Vec<usize> = (0..samples.len())
            .filter(|&i| samples[i].forward == forward)
            .collect();
        let own_samples: Vec<ClockSample> = own.iter().map(|&i| samples[i]).collect();
        let found = overtakers(&own_samples);
        if found.len() * ONE_OUT_OF <= own.len() {
            found.into_iter().for_each(|i| odd[own[i]] = true);
        }
    }
    let contradicting = [true, false].map(|forward| contradicting(samples, &odd, forward, drift));
    for i in contradicting.into_iter().flatten() {
        odd[i] = true;
    }
    odd
}

/// Samples of one direction that contradict the other, among most that do not.
fn contradicting(
    samples: &[ClockSample],
    odd: &[bool],
    forward: bool,
    drift: &Drift,
) -> Vec<usize> {
    let of = |direction: bool| {
        (0..samples.len()).filter(move |&i| !odd[i] && samples[i].forward == direction)
    };
    let others: Vec<&ClockSample> = of(!forward).map(|i| &samples[i]).collect();
    let floors: Vec<(i64, i128)> = others
        .chunks(others.len().div_ceil(PARTS).max(TOGETHER))
        .filter_map(lowest_together)
        .collect();
    let is_impossible = |sample: &ClockSample| {
        floors.iter().any(|(first_ns, floor)| {
            let since = (i128::from(sample.first_ns) - i128::from(*first_ns)) as f64;
            let drifted = if forward {
                drift.rate * since
            } else {
                -drift.rate * since
            };
            let shared = (transit(sample) + floor) as f64 - drifted;
            shared < -LEAST_STEP_NS - drift.error * since.abs()
        })
    };
    let own: Vec<usize> = of(forward).collect();
    let impossible: Vec<bool> = own.iter().map(|&i| is_impossible(&samples[i])).collect();
    let times = |places: &mut dyn Iterator<Item = usize>| -> u64 {
        let first_ns: Vec<i64> = places.map(|place| samples[own[place]].first_ns).collect();
        first_ns
            .iter()
            .max()
            .zip(first_ns.iter().min())
            .map_or(0, |(last, first)| last.abs_diff(*first))
    };
    let spell_ns = times(&mut (0..own.len()).filter(|&place| impossible[place]));
    if spell_ns > times(&mut (0..own.len())) / SPELL {
        return Vec::new();
    }
    let most_around_do_not = |place: usize| {
        let near = &impossible[place.saturating_sub(AROUND)..own.len().min(place + AROUND + 1)];
        2 * near.iter().filter(|&&impossible| impossible).count() < near.len()
    };
    (0..own.len())
        .filter(|&place| impossible[place] && most_around_do_not(place))
        .map(|place| own[place])
        .collect()
}

/// The smallest median transit of packets that came together, and when.
fn lowest_together(samples: &[&ClockSample]) -> Option<(i64, i128)> {
    let lowest = samples.chunks_exact(TOGETHER).map(|together| {
        let mut transits: Vec<i128> = together.iter().map(|sample| transit(sample)).collect();
        transits.sort_unstable();
        (together[0].first_ns, transits[TOGETHER / 2])
    });
    lowest.min_by_key(|(_, transit)| *transit)
}

/// Places of packets that overtook others, and by no clock's step, among those of one direction.
fn overtakers(samples: &[ClockSample]) -> Vec<usize> {
    let stamps: Vec<i64> = samples.iter().map(|sample| sample.second_ns).collect();
    let in_order = longest_in_order(&stamps);
    if in_order.len() == samples.len() {
        return Vec::new();
    }
    let kept: Vec<i64> = in_order.iter().map(|&i| stamps[i]).collect();
    let mut found = Vec::new();
    // how many of those in order come before
    let mut before = 0;
    for (i, sample) in samples.iter().enumerate() {
        if in_order.get(before) == Some(&i) {
            before += 1;
            continue;
        }
        let by_stamp = kept.partition_point(|&kept| kept <= sample.second_ns);
        // a fast packet comes out earlier than others that went in before it: at capture 2 as data go forward,
        // at capture 1 as they go back
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

/// Transit is below that on either side by more than these differ: a clock that is set leaves it at the level of
/// one of them.
fn stands_apart(transit: i128, left: Option<i128>, right: Option<i128>) -> bool {
    let apart = |level: Option<i128>| level.map(|level| level - transit);
    match (apart(left), apart(right)) {
        (Some(left), Some(right)) => left.min(right) > (left - right).abs(),
        // at an end of the capture it may as well be the first of another level
        _ => false,
    }
}

/// With the clocks' difference in it.
fn transit(sample: &ClockSample) -> i128 {
    let difference = i128::from(sample.second_ns) - i128::from(sample.first_ns);
    if sample.forward {
        difference
    } else {
        -difference
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

/// The places of the longest sequence of stamps that never fall (by patience sorting: C. Schensted, "Longest
/// Increasing and Decreasing Subsequences", Canadian Journal of Mathematics 1961).
fn longest_in_order(stamps: &[i64]) -> Vec<usize> {
    const NONE: u32 = u32::MAX;
    // the place of the least stamp that ends a sequence of each length, and what comes before each place
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

    /// A packet each millisecond in both directions, 20 ms on the way, the second clock set at packet `step`.
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
        let odd = find(samples, &Drift::unmeasured());
        (0..odd.len()).filter(|&i| odd[i]).collect()
    }

    #[test]
    fn twins_that_shorten_transit_are_odd_in_either_direction() {
        for (place, shorter) in [(100, -9_000_000), (101, 9_000_000)] {
            let mut samples = samples(0, 0);
            samples[place].second_ns += shorter;
            assert_eq!(found(&samples), [place]);
            samples[place].second_ns -= 2 * shorter;
            assert_eq!(found(&samples), []);
        }
    }

    #[test]
    fn packets_that_the_other_direction_makes_impossible_are_odd() {
        let mut samples = samples(0, 0);
        // not out of order: nothing else runs backward around it
        samples.retain(|sample| sample.forward || (sample.first_ns / 500_000) % 40 == 1);
        let place = (samples.len() / 2..)
            .find(|&i| !samples[i].forward)
            .unwrap();
        samples[place].second_ns += 45_000_000;
        assert_eq!(found(&samples), [place]);
    }

    #[test]
    fn a_run_of_twins_is_odd() {
        let mut samples = samples(0, 0);
        let run: Vec<usize> = (201..221).step_by(2).collect();
        for &place in &run {
            samples[place].second_ns += 50_000_000;
        }
        assert_eq!(found(&samples), run);
    }

    #[test]
    fn a_clock_that_is_set_makes_no_packet_odd() {
        for by_ns in [-1_000_000_000, -7_000_000, 7_000_000, 1_000_000_000] {
            assert_eq!(found(&samples(200, by_ns)), []);
        }
    }

    #[test]
    fn overtaking_that_is_common_is_not_odd() {
        let mut samples = samples(0, 0);
        for sample in samples.iter_mut().step_by(14) {
            sample.second_ns -= 9_000_000;
        }
        assert_eq!(found(&samples), []);
    }
}
