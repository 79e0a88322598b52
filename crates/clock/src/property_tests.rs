use super::*;
use crate::testing::{Path, Queue};
use proptest::prelude::*;

fn queue() -> impl Strategy<Value = Queue> {
    prop_oneof![
        Just(Queue::Empty),
        (1e5..400e6).prop_map(Queue::Sawtooth),
        (1e5..400e6).prop_map(Queue::Standing),
        (1e4..3e6).prop_map(Queue::Jitter),
    ]
}

prop_compose! {
    fn path()(
        queue in queue(),
        offset_ns in -1e12..1e12,
        drift_ppm in -500.0..500.0,
        packets_per_second in 300.0..3000.0,
        noise_ns in 100.0..3000.0,
        resolution_ns in prop_oneof![Just(1i64), Just(1000)],
        backward_share in 0.1..0.5,
        seed in 0u64..1 << 40,
    ) -> Path {
        Path {
            queue, offset_ns, drift_ppm, packets_per_second, noise_ns, resolution_ns, backward_share, seed,
            ..Path::default()
        }
    }
}

fn any_sample() -> impl Strategy<Value = ClockSample> {
    (any::<i64>(), any::<i64>(), any::<bool>()).prop_map(|(first_ns, second_ns, forward)| {
        ClockSample {
            first_ns,
            second_ns,
            forward,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn clean_acknowledgments_give_drift_and_offset_despite_a_forward_queue(path in path()) {
        let fit = fit(&path.samples()).unwrap();
        prop_assert_eq!(fit.intervals.len(), 1, "{:?}", fit);
        let error = fit.intervals[0].drift_ppm - path.drift_ppm;
        prop_assert!(error.abs() < 0.5, "{} {:?}", error, fit);
        prop_assert!(error.abs() <= 3.0 * fit.drift_error_ppm, "{} {:?}", error, fit);
        if !matches!(path.queue, Queue::Jitter(deviation) if deviation > 25e3) {
            prop_assert!(path.offset_error(&fit, 0.0).abs() < 100e3, "{:?}", fit);
        }
    }

    #[test]
    fn lost_packets_change_nothing_of_substance(path in path(), keep in 2usize..20) {
        let samples: Vec<ClockSample> = path.samples().into_iter().step_by(keep).collect();
        let fit = fit(&samples).unwrap();
        prop_assert_eq!(fit.intervals.len(), 1, "{:?}", fit);
        let error = fit.intervals[0].drift_ppm - path.drift_ppm;
        prop_assert!(error.abs() <= 2.0 && error.abs() <= 3.0 * fit.drift_error_ppm, "{} {:?}", error, fit);
    }

    #[test]
    fn one_clean_direction_gives_the_drift(path in path(), forward in any::<bool>()) {
        let path = Path { queue: Queue::Empty, backward_share: if forward { 0.0 } else { 1.0 }, ..path };
        let fit = fit(&path.samples()).unwrap();
        prop_assert_eq!(fit.intervals.len(), 1, "{:?}", fit);
        prop_assert!((fit.intervals[0].drift_ppm - path.drift_ppm).abs() < 0.5, "{:?}", fit);
    }

    #[test]
    fn a_step_is_found_once_and_drift_survives_it(
        path in path(), at in 1.0f64..7.0, size in 20e6f64..1e12, up in any::<bool>(), of_first in any::<bool>(),
    ) {
        let steps = vec![(at, if up { size } else { -size })];
        let path = if of_first { Path { steps_1: steps, ..path } } else { Path { steps_2: steps, ..path } };
        let fit = fit(&path.samples()).unwrap();
        prop_assert_eq!(fit.intervals.len(), 2, "{:?}", fit);
        for interval in &fit.intervals {
            prop_assert!((interval.drift_ppm - path.drift_ppm).abs() < 2.0, "{:?}", fit);
        }
    }

    #[test]
    fn any_trace_gives_finite_numbers(
        samples in proptest::collection::vec(any_sample(), 1..300), time in any::<i64>(),
    ) {
        let fit = fit(&samples).unwrap();
        prop_assert!(fit.offset_at(time).is_finite() && fit.drift_error_ppm.is_finite());
        prop_assert!(fit.intervals.iter().all(|interval| interval.start_ns <= interval.end_ns));
        fit.first_at(time);
        fit.offset_of(&samples[0]);
    }
}

proptest! {
    #[test]
    fn narrow_numbers_give_the_same_times_as_wide_ones(
        start_ns in 0i64..1 << 62,
        offset_ns in prop_oneof![-1e18..1e18, -1e6..1e6],
        drift_ppm in -1e3..1e3,
        since_ns in prop_oneof![-1i64 << 61..1 << 61, -1_000_000i64..1_000_000],
    ) {
        let interval = ClockInterval {
            start_ns,
            end_ns: start_ns,
            offset_ns,
            drift_ppm,
            begins_at_second: false,
            ends_at_second: false,
        };
        let second_ns = start_ns.saturating_add(since_ns);
        prop_assert_eq!(interval.first_at(second_ns), interval.first_in_128_bits(second_ns));
    }

    #[test]
    fn rounding_goes_half_away_from_zero(
        number in prop_oneof![any::<f64>(), -1e4..1e4, (-9i32..9).prop_map(|halves| f64::from(halves) / 2.0)],
    ) {
        prop_assert_eq!(rounded(number), number.round() as i64);
    }
}
