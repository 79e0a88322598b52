use super::*;
use crate::testing::{Path, Queue, START_NS};

fn fitted(path: &Path) -> ClockFit {
    fit(&path.samples()).unwrap()
}

fn drift(fit: &ClockFit) -> f64 {
    fit.intervals[0].drift_ppm
}

#[test]
fn no_samples_give_no_fit() {
    assert_eq!(fit(&[]), None);
}

#[test]
fn few_samples_give_no_drift_with_a_large_error() {
    for count in [1, 2, 3] {
        let samples: Vec<ClockSample> = Path {
            drift_ppm: 50.0,
            ..Path::default()
        }
        .samples();
        let fit = fit(&samples[..count]).unwrap();
        assert_eq!(fit.intervals.len(), 1);
        assert!(fit.drift_error_ppm >= 50.0, "{count}: {fit:?}");
        assert!(drift(&fit).abs() <= 500.0);
    }
}

#[test]
fn ten_samples_give_a_valid_error() {
    for seed in 0..50 {
        let path = Path {
            packets_per_second: 1.25,
            drift_ppm: 20.0,
            offset_ns: 5e6,
            seed,
            ..Path::default()
        };
        let fit = fitted(&path);
        assert!((drift(&fit) - 20.0).abs() <= fit.drift_error_ppm, "{fit:?}");
    }
}

#[test]
fn offset_and_drift_are_found_with_a_queue_of_hundreds_of_milliseconds_forward() {
    for queue in [
        Queue::Sawtooth(300e6),
        Queue::Standing(500e6),
        Queue::Jitter(3e6),
    ] {
        let path = Path {
            queue,
            offset_ns: -350e6,
            drift_ppm: 45.0,
            ..Path::default()
        };
        let fit = fitted(&path);
        assert_eq!(fit.intervals.len(), 1, "{queue:?}: {fit:?}");
        assert!((drift(&fit) - 45.0).abs() < 0.1, "{queue:?}: {fit:?}");
        assert!(
            path.offset_error(&fit, 0.0).abs() < 50e3,
            "{queue:?}: {fit:?}"
        );
        assert!(
            path.offset_error(&fit, 8.0).abs() < 50e3,
            "{queue:?}: {fit:?}"
        );
    }
}

#[test]
fn one_packet_stamped_early_does_not_turn_the_slope() {
    let path = Path {
        drift_ppm: 10.0,
        offset_ns: 1e9,
        ..Path::default()
    };
    let mut samples = path.samples();
    let clean = drift(&fit(&samples).unwrap());
    for place in [10, 4000, 8000, 15_900] {
        let sample = &mut samples[place];
        sample.second_ns += if sample.forward { -30_000 } else { 30_000 };
    }
    let turned = drift(&fit(&samples).unwrap());
    assert!((turned - clean).abs() < 0.1, "{clean} became {turned}");
}

#[test]
fn microsecond_stamps_coalesced_in_batches_leave_the_drift_within_half_a_part_per_million() {
    let path = Path {
        drift_ppm: -120.0,
        offset_ns: 3e9,
        queue: Queue::Jitter(1e6),
        ..Path::default()
    };
    let mut samples = path.samples();
    for batch in samples.chunks_mut(5) {
        // capture 2 stamps a batch when its interrupt comes, up to 80 us late
        let late = batch[0].second_ns.rem_euclid(80_000);
        for sample in batch {
            sample.second_ns = (sample.second_ns + late) / 1000 * 1000;
            sample.first_ns = sample.first_ns / 1000 * 1000;
        }
    }
    let fit = fit(&samples).unwrap();
    assert_eq!(fit.intervals.len(), 1);
    assert!((drift(&fit) + 120.0).abs() < 0.5, "{fit:?}");
    assert!((drift(&fit) + 120.0).abs() < fit.drift_error_ppm, "{fit:?}");
    assert!(path.offset_error(&fit, 4.0).abs() < 100e3, "{fit:?}");
}

#[test]
fn steps_of_either_clock_are_found_at_their_packet() {
    for size in [1e6, -1e6, 40e6, -40e6, 3600e9, -3600e9] {
        for of_first in [false, true] {
            for transit in [4e3, 20e6] {
                let steps = vec![(3.3, size)];
                let (steps_1, steps_2) = if of_first {
                    (steps, vec![])
                } else {
                    (vec![], steps)
                };
                let path = Path {
                    steps_1,
                    steps_2,
                    transit_ns: [transit; 2],
                    offset_ns: 7e6,
                    drift_ppm: 30.0,
                    ..Path::default()
                };
                let samples = path.samples();
                let fit = fit(&samples).unwrap();
                let what = format!("step {size} of first {of_first} transit {transit}: {fit:?}");
                assert_eq!(fit.intervals.len(), 2, "{what}");
                // every packet on its own side, except for those at the very moment
                for (i, sample) in samples.iter().enumerate() {
                    let in_transit = match (of_first, sample.forward) {
                        (true, _) => 0.0,
                        (false, true) => transit * 1e-9,
                        (false, false) => -transit * 1e-9,
                    };
                    let late = i as f64 / 2000.0 + in_transit - 3.3;
                    let interval = &fit.intervals[usize::from(late >= 0.0)];
                    let outside = interval.distance_of(sample);
                    assert!(outside == 0 || late.abs() <= 1e-3, "{i} {what}");
                }
                assert!(
                    path.offset_error(&fit, 1.0).abs() < 20e3 || (of_first && size < 0.0),
                    "{what}"
                );
                assert!(path.offset_error(&fit, 7.0).abs() < 20e3, "{what}");
                assert!((fit.intervals[1].drift_ppm - 30.0).abs() < 0.5, "{what}");
            }
        }
    }
}

#[test]
fn packets_in_transit_when_the_second_clock_is_set_keep_their_transit() {
    for size in [-60e6, -9e6, 9e6, 60e6] {
        let path = Path {
            queue: Queue::Sawtooth(40e6),
            steps_2: vec![(3.0, size)],
            transit_ns: [15e6; 2],
            offset_ns: 5e6,
            ..Path::default()
        };
        let samples = path.samples();
        let fit = fit(&samples).unwrap();
        assert_eq!(fit.intervals.len(), 2, "{size}: {fit:?}");
        for (i, sample) in samples.iter().enumerate() {
            let apart = (sample.second_ns - sample.first_ns) as f64 - fit.offset_of(sample);
            let transit = if sample.forward { apart } else { -apart };
            let most = if sample.forward { 56e6 } else { 16e6 };
            assert!(
                (14.9e6..most).contains(&transit),
                "{size} {i}: {transit} {fit:?}"
            );
        }
    }
}

#[test]
fn several_steps_are_found_under_a_queue() {
    let path = Path {
        queue: Queue::Sawtooth(80e6),
        steps_2: vec![(1.2, 25e6), (3.0, -6e6), (6.1, 2e9)],
        offset_ns: -4e6,
        drift_ppm: -80.0,
        ..Path::default()
    };
    let fit = fitted(&path);
    assert_eq!(fit.intervals.len(), 4, "{fit:?}");
    for at in [0.5, 2.0, 4.0, 7.5] {
        assert!(path.offset_error(&fit, at).abs() < 50e3, "{at}: {fit:?}");
    }
    assert!(
        fit.intervals
            .iter()
            .all(|interval| (interval.drift_ppm + 80.0).abs() < 0.5),
        "{fit:?}"
    );
}

#[test]
fn a_step_is_proven_where_jitter_hides_it_from_one_direction() {
    let path = Path {
        queue: Queue::Jitter(3e6),
        steps_2: vec![(4.0, 30e6)],
        ..Path::default()
    };
    assert_eq!(fitted(&path).intervals.len(), 2);
}

#[test]
fn a_clock_that_was_tuned_when_it_was_set_runs_at_its_own_rate_afterwards() {
    let samples: Vec<ClockSample> = Path {
        drift_ppm: 20.0,
        ..Path::default()
    }
    .samples()
    .into_iter()
    .map(|sample| {
        let since = sample.first_ns - START_NS as i64 - 4_000_000_000;
        let tuned = if since < 0 {
            0
        } else {
            50_000_000 + (since as f64 * 80e-6) as i64
        };
        ClockSample {
            second_ns: sample.second_ns + tuned,
            ..sample
        }
    })
    .collect();
    let fit = fit(&samples).unwrap();
    let rates: Vec<f64> = fit
        .intervals
        .iter()
        .map(|interval| interval.drift_ppm)
        .collect();
    assert_eq!(rates.len(), 2, "{fit:?}");
    assert!(
        (rates[0] - 20.0).abs() < 0.5 && (rates[1] - 100.0).abs() < 0.5,
        "{fit:?}"
    );
}

#[test]
fn a_route_change_in_one_direction_is_not_a_step() {
    for by in [2e6, -2e6, 30e6, -15e6] {
        let path = Path {
            forward_routes: vec![(4.0, by)],
            transit_ns: [20e6; 2],
            drift_ppm: 5.0,
            ..Path::default()
        };
        let fit = fitted(&path);
        assert_eq!(fit.intervals.len(), 1, "{by}: {fit:?}");
    }
}

#[test]
fn queues_are_not_steps() {
    for peak in [2e6, 50e6, 900e6] {
        for queue in [
            Queue::Sawtooth(peak),
            Queue::Standing(peak),
            Queue::Jitter(peak / 50.0),
        ] {
            for backward_share in [0.0, 0.35] {
                let path = Path {
                    queue,
                    backward_share,
                    ..Path::default()
                };
                assert_eq!(
                    fitted(&path).intervals.len(),
                    1,
                    "{queue:?} {backward_share}"
                );
            }
        }
    }
}

#[test]
fn an_idle_gap_with_drift_is_not_a_step() {
    let path = Path {
        seconds: 600.0,
        packets_per_second: 100.0,
        drift_ppm: 300.0,
        ..Path::default()
    };
    let mut samples = path.samples();
    samples.retain(|sample| !(30e9..570e9).contains(&(sample.first_ns as f64 - START_NS)));
    let fit = fit(&samples).unwrap();
    assert_eq!(fit.intervals.len(), 1, "{fit:?}");
    assert!((drift(&fit) - 300.0).abs() < 0.01, "{fit:?}");
}

#[test]
fn with_one_direction_a_transit_below_the_minimum_is_a_step_and_above_it_only_from_a_second_on() {
    for (backward_share, down) in [(0.0, -20e6), (1.0, 20e6)] {
        for (size, intervals) in [(down, 2), (-down, 1), (-100.0 * down, 2)] {
            let path = Path {
                backward_share,
                steps_2: vec![(5.0, size)],
                ..Path::default()
            };
            let fit = fitted(&path);
            assert_eq!(
                fit.intervals.len(),
                intervals,
                "{backward_share} {size}: {fit:?}"
            );
            assert_eq!(fit.offset_bounds_ns, None);
        }
    }
}

#[test]
fn with_one_direction_a_jump_upward_that_outlasts_silences_is_a_step() {
    for (packets_per_second, intervals) in [(20.0, 2), (2000.0, 1)] {
        let path = Path {
            seconds: 20.0,
            packets_per_second,
            backward_share: 0.0,
            steps_2: vec![(10.0, 80e6)],
            ..Path::default()
        };
        let fit = fitted(&path);
        assert_eq!(
            fit.intervals.len(),
            intervals,
            "{packets_per_second}: {fit:?}"
        );
    }
}

#[test]
fn with_one_direction_the_smallest_transit_counts_as_zero() {
    let path = Path {
        backward_share: 0.0,
        transit_ns: [10e6; 2],
        offset_ns: 1e9,
        ..Path::default()
    };
    let fit = fitted(&path);
    assert!((path.offset_error(&fit, 0.0) - 10e6).abs() < 1e3, "{fit:?}");
    assert_eq!(fit.samples[1], 0);
}

#[test]
fn bounds_include_the_offset_however_the_transit_is_shared() {
    let path = Path {
        transit_ns: [12e6, 3e6],
        offset_ns: 50e6,
        ..Path::default()
    };
    let fit = fitted(&path);
    let (low, high) = fit.offset_bounds_ns.unwrap();
    let error = path.offset_error(&fit, 0.0);
    assert!((error - 4.5e6).abs() < 5e3, "{error}");
    assert!(low < -error && -error < high, "{low} {error} {high}");
    // with room for late timestamps in both directions
    assert!((high - low - 15e6).abs() < 25e3, "{fit:?}");
}

#[test]
fn one_clock_is_recognised_behind_an_element_that_delays_one_direction() {
    let path = Path {
        transit_ns: [4e6, 4e3],
        ..Path::default()
    };
    let fit = fitted(&path);
    assert_eq!(
        fit.offset_at(START_NS as i64 + 1_000_000_000),
        0.0,
        "{fit:?}"
    );
    // two clocks are not mistaken for one
    let path = Path {
        offset_ns: 1e6,
        ..Path::default()
    };
    assert!(path.offset_error(&fitted(&path), 1.0).abs() < 1e3);
}

#[test]
fn each_lookup_is_the_others_inverse() {
    let path = Path {
        offset_ns: 1.7e18 - START_NS,
        drift_ppm: -219.485,
        steps_2: vec![(4.0, 3e9)],
        ..Path::default()
    };
    let fit = fitted(&path);
    for seconds in [0.0, 1.0, 3.9, 4.1, 7.9] {
        let first = START_NS as i64 + (seconds * 1e9) as i64;
        let second = (i128::from(first) + fit.offset_at(first) as i128) as i64;
        assert!((fit.first_at(second) - first).abs() <= 64, "{seconds}");
    }
}

#[test]
fn if_a_time_occurs_twice_the_packet_decides_the_interval() {
    let path = Path {
        steps_1: vec![(4.0, -2e9)],
        transit_ns: [1e6; 2],
        ..Path::default()
    };
    let samples = path.samples();
    let fit = fit(&samples).unwrap();
    assert_eq!(fit.intervals.len(), 2);
    assert!((fit.offset_of(&samples[7900]) - 0.0).abs() < 1e5);
    assert!((fit.offset_of(&samples[8100]) - 2e9).abs() < 1e5);
}

#[test]
fn hostile_times_neither_overflow_nor_stop_the_fit() {
    let extremes = [i64::MIN, i64::MAX, 0, -1, i64::MAX / 2];
    let samples: Vec<ClockSample> = (0..5000)
        .map(|i| ClockSample {
            first_ns: extremes[i * 7 % 5],
            second_ns: extremes[i * 11 % 5].wrapping_add(i as i64),
            forward: i % 3 > 0,
        })
        .collect();
    for count in [1, 2, 5, 100, 5000] {
        let fit = fit(&samples[..count]).unwrap();
        for time in extremes {
            assert!(fit.offset_at(time).is_finite());
            fit.first_at(time);
        }
        assert!(fit.drift_error_ppm.is_finite());
    }
    let frozen = vec![
        ClockSample {
            first_ns: 5,
            second_ns: 9,
            forward: true
        };
        1000
    ];
    assert_eq!(fit(&frozen).unwrap().offset_at(5), 4.0);
}

#[test]
fn the_drift_interval_has_its_stated_coverage() {
    let mut covered = 0;
    let mut worst: f64 = 0.0;
    for seed in 0..300u64 {
        let mut random = crate::testing::Random::new(seed + 1000);
        let queue = match seed % 4 {
            0 => Queue::Empty,
            1 => Queue::Sawtooth(1e5 + 1e8 * random.uniform()),
            2 => Queue::Standing(1e5 + 1e8 * random.uniform()),
            _ => Queue::Jitter(1e4 + 3e6 * random.uniform()),
        };
        let path = Path {
            queue,
            packets_per_second: 60.0 + 2000.0 * random.uniform(),
            noise_ns: 100.0 + 5000.0 * random.uniform(),
            resolution_ns: if random.uniform() < 0.5 { 1 } else { 1000 },
            backward_share: 0.05 + 0.4 * random.uniform(),
            drift_ppm: 100.0 * random.normal(),
            offset_ns: 1e9,
            seed,
            ..Path::default()
        };
        let fit = fitted(&path);
        let error = (drift(&fit) - path.drift_ppm).abs() / fit.drift_error_ppm;
        worst = worst.max(error);
        covered += usize::from(error <= 1.0);
    }
    assert!(
        covered >= 280,
        "{covered} of 300, the worst {worst} half-widths off"
    );
    assert!(worst < 3.0, "{worst}");
}

#[test]
fn with_standing_queues_and_jitter_both_intervals_have_their_stated_coverage() {
    const DRAWN: u64 = 80;
    let mut covered = [[0; 2]; 4];
    for seed in 0..DRAWN {
        let mut random = crate::testing::Random::new(seed + 9000);
        let level = 1e6 * (3.0 * random.uniform()).exp2() * 4.0;
        let kind = (seed % 4) as usize;
        let [queue, queue_back] = match kind {
            0 => [Queue::NeverEmpty(level), Queue::Empty],
            1 => [
                Queue::NeverEmpty(level),
                Queue::Jitter(1e5 + 1e6 * random.uniform()),
            ],
            2 => [Queue::Jitter(1e5 + 3e6 * random.uniform()), Queue::Empty],
            _ => [
                Queue::NeverEmpty(level),
                Queue::NeverEmpty(level * random.uniform()),
            ],
        };
        let path = Path {
            queue,
            queue_back,
            transit_ns: [1e6 * random.uniform(), 1e6 * random.uniform()],
            seconds: 6.0 + 6.0 * random.uniform(),
            packets_per_second: 300.0 + 1000.0 * random.uniform(),
            resolution_ns: if random.uniform() < 0.5 { 1 } else { 1000 },
            backward_share: 0.1 + 0.4 * random.uniform(),
            drift_ppm: 100.0 * random.normal(),
            offset_ns: 1e9,
            seed,
            ..Path::default()
        };
        let fit = fitted(&path);
        let (low, high) = fit.offset_bounds_ns.expect("both directions");
        let away = -path.offset_error(&fit, 0.0);
        covered[kind][0] += u64::from((drift(&fit) - path.drift_ppm).abs() <= fit.drift_error_ppm);
        covered[kind][1] += u64::from(low <= away && away <= high);
    }
    // together as often as claimed; the hardest case is jitter in one direction beside a queue that never
    // empties in the other
    for what in 0..2 {
        let sum: u64 = covered.iter().map(|kind| kind[what]).sum();
        assert!(100 * sum >= 93 * DRAWN, "{covered:?} of {}", DRAWN / 4);
    }
    let least = DRAWN / 4 * 3 / 4;
    assert!(
        covered.iter().flatten().all(|covered| *covered >= least),
        "{covered:?} of {}",
        DRAWN / 4
    );
}
