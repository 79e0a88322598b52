//! The interval of CoDel as the drops of an episode show it, without its target.

use super::queue::Queue;

/// Drops of an episode that show an interval: three gaps.
const FEWEST_DROPS: usize = 4;
/// More drops add little: gaps become as short as the uncertainty of their times.
const MOST_DROPS: usize = 12;
/// Counts from which an episode may start: one that begins soon after another does not start from 1 (RFC 8289,
/// section 5).
const FIRST_COUNTS: std::ops::RangeInclusive<usize> = 1..=4;
/// Intervals to try, and the factor between those that are not the same.
const MOST_INTERVALS: usize = 2;
const ANOTHER: f64 = 1.02;

/// Intervals, seconds, that drops in succession agree on: the gap after the `n`-th is the interval over the
/// square root of `n`. Those with the most drops come first. Other laws may drop so by chance.
///
/// # Arguments
///
/// `near_s`: uncertainty of the time of a drop.
pub(super) fn intervals_s(queues: &[Queue], near_s: f64) -> Vec<f64> {
    let mut found: Vec<(usize, f64)> = queues
        .iter()
        .flat_map(|queue| {
            let dropped = queue.items.iter().filter(|item| item.chosen);
            let times_s: Vec<f64> = dropped.map(|item| item.turn_s).collect();
            in_order(&times_s, near_s)
        })
        .collect();
    found.sort_by_key(|(drops, _)| std::cmp::Reverse(*drops));
    let mut intervals_s: Vec<f64> = Vec::new();
    for (_, interval_s) in found {
        let is_known = |known: &f64| (known / interval_s).ln().abs() < ANOTHER.ln();
        if intervals_s.len() < MOST_INTERVALS && !intervals_s.iter().any(is_known) {
            intervals_s.push(interval_s);
        }
    }
    intervals_s
}

/// Each number of drops in succession that agree on an interval, with that interval.
fn in_order(times_s: &[f64], near_s: f64) -> Vec<(usize, f64)> {
    let starts = 0..times_s.len();
    starts
        .flat_map(|start| FIRST_COUNTS.map(move |count| (start, count)))
        .filter_map(|(start, count)| agreeing(&times_s[start..], count, near_s))
        .collect()
}

/// Number of drops from the first that agree on an interval, and the interval. `first_count`: the count of the
/// law after the first drop.
fn agreeing(times_s: &[f64], first_count: usize, near_s: f64) -> Option<(usize, f64)> {
    let most = times_s.len().min(MOST_DROPS);
    // from the first drop to each other one
    let distances: Vec<f64> = (1..most)
        .scan(0.0, |sum, gap| {
            *sum += ((first_count + gap - 1) as f64).sqrt().recip();
            Some(*sum)
        })
        .collect();
    let since_first_s = |drop: usize| times_s[drop] - times_s[0];
    let interval_s = |last: usize| since_first_s(last) / distances[last - 1];
    let agree = |last: &usize| {
        let late_s = |drop| since_first_s(drop) - interval_s(*last) * distances[drop - 1];
        (1..*last).all(|drop| late_s(drop).abs() <= near_s)
    };
    // Drops at one moment would agree on any short interval.
    let are_apart = |last: &usize| {
        let last_gap = ((first_count + last - 1) as f64).sqrt().recip();
        interval_s(*last) * last_gap > near_s
    };
    let mut lasts = (FEWEST_DROPS - 1..most).rev();
    let last = lasts.find(|last| are_apart(last) && agree(last))?;
    Some((last + 1, interval_s(last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR_S: f64 = 1.2e-3;

    /// Drops of an episode with an interval of 150 ms, each late by up to a packet's time of 0.6 ms.
    fn episode(start_s: f64, first_count: u32, drops: u32) -> Vec<f64> {
        let mut next_s = start_s;
        let late_s = |drop: u32| 2e-4 * f64::from(drop * 7 % 4);
        (0..drops)
            .map(|drop| {
                let now_s = next_s + late_s(drop);
                next_s += 0.15 / f64::from(first_count + drop).sqrt();
                now_s
            })
            .collect()
    }

    #[test]
    fn an_episode_shows_the_interval_from_any_of_the_first_counts() {
        for (first_count, drops, agree) in [(1, 30, MOST_DROPS), (2, 4, 4), (4, 6, 6)] {
            let mut times_s = episode(0.0, 1, 2);
            times_s.extend(episode(0.7, first_count, drops));
            let most = in_order(&times_s, NEAR_S)
                .into_iter()
                .max_by_key(|found| found.0);
            let (drops, interval_s) = most.unwrap();
            assert_eq!(drops, agree);
            assert!((interval_s / 0.15 - 1.0).abs() < 0.01, "{interval_s}");
        }
    }

    #[test]
    fn drops_at_one_moment_show_none_and_hide_none() {
        let moment = |start_s: f64| (0..20).map(move |drop| start_s + 1e-4 * f64::from(drop));
        assert!(in_order(&moment(0.0).collect::<Vec<_>>(), NEAR_S).is_empty());
        let mut times_s: Vec<f64> = moment(0.0).collect();
        times_s.extend(episode(0.7, 1, 6));
        times_s.extend(moment(2.0));
        let most = in_order(&times_s, NEAR_S)
            .into_iter()
            .max_by_key(|found| found.0);
        let (drops, interval_s) = most.unwrap();
        assert_eq!(drops, 6);
        assert!((interval_s / 0.15 - 1.0).abs() < 0.01, "{interval_s}");
    }

    #[test]
    fn drops_within_an_episode_or_at_equal_distances_show_none() {
        assert!(in_order(&episode(0.0, 30, 30), NEAR_S).is_empty());
        let equal: Vec<f64> = (0..20).map(|drop| 0.03 * f64::from(drop)).collect();
        assert!(in_order(&equal, NEAR_S).is_empty());
    }
}
