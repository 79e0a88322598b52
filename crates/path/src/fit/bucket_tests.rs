//! A fit recovers a token bucket's parameters.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::lanes::follow;
use super::profile::Interval;
use super::rows::{RateAndLimit, Rows};
use super::testing::{Pattern, arrivals, observed};
use super::trace::{Seen, Trace, TracePacket};
use super::virtual_queue::{Start, corrected};
use super::{fit_bucket, search_bucket};
use crate::{Arrival, Fifo, InService, Limit, PathElement, Policer, RandomLoss};

/// A bucket and the traffic through it.
#[derive(Debug, Clone)]
struct Case {
    rate_bps: u64,
    limit_bytes: u64,
    pattern: Pattern,
    load: f64,
    full_bytes: u32,
    seed: u64,
}

impl Case {
    fn arrivals(&self) -> Vec<Arrival> {
        let size = (3_000, self.full_bytes);
        arrivals(
            self.pattern,
            self.rate_bps as f64,
            self.load,
            size,
            self.seed,
        )
    }
}

/// Buckets from half a Mbit/s to half a Gbit/s and from 5 packets to 200 kB, offered 5 to 100 % more than their rate.
fn case() -> impl Strategy<Value = Case> {
    let pattern = prop_oneof![
        Just(Pattern::Steady),
        Just(Pattern::Poisson),
        (5u32..150).prop_map(|round_trip_ms| Pattern::Windows { round_trip_ms }),
    ];
    let logarithm = |low: f64, high: f64| (low.ln()..high.ln()).prop_map(f64::exp);
    (
        pattern,
        logarithm(5e5, 5e8),
        logarithm(7_500.0, 2e5),
        1.05f64..2.0,
        prop_oneof![Just(1500u32), Just(1492), 576u32..1500],
        any::<u64>(),
    )
        .prop_map(|(pattern, rate, limit, load, full_bytes, seed)| Case {
            rate_bps: rate as u64,
            limit_bytes: limit as u64,
            pattern,
            load,
            full_bytes,
            seed,
        })
}

fn policed(case: &Case) -> Trace {
    observed(
        &mut Policer::new(case.rate_bps, case.limit_bytes),
        &case.arrivals(),
    )
}

fn truth(case: &Case) -> RateAndLimit {
    (case.rate_bps as f64 / 8.0, case.limit_bytes as f64)
}

fn holds(interval: Interval, truth: f64) -> bool {
    interval.low.is_none_or(|low| low <= truth) && interval.high.is_none_or(|high| truth <= high)
}

/// Enough to distinguish a pattern from chance.
const ENOUGH_LOSSES: usize = 30;

fn reproducible(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(20_160_822),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(reproducible(75))]

    #[test]
    fn a_policer_is_found_again_within_the_stated_intervals(case in case()) {
        let trace = policed(&case);
        prop_assume!(trace.lost >= ENOUGH_LOSSES);
        let fit = fit_bucket(&trace).expect("the losses follow a bucket");
        let (rate, limit) = (case.rate_bps as f64, case.limit_bytes as f64);
        prop_assert!(holds(fit.rate_bps, rate), "{:?} does not contain {rate}", fit.rate_bps);
        prop_assert!(holds(fit.limit_bytes, limit), "{:?} does not contain {limit}", fit.limit_bytes);
        prop_assert!(f64::from(fit.agreement.expected_losses()) > 0.95 * trace.lost as f64, "{:?}", fit.agreement);
        prop_assert!(fit.certainty() > 0.5, "{}", fit.certainty());
    }
}

proptest! {
    #![proptest_config(reproducible(200))]

    #[test]
    fn the_true_rate_and_limit_need_hardly_any_correction(case in case()) {
        let trace = policed(&case);
        let agreement = follow(&Rows::single(&trace), truth(&case), Start::Empty);
        // only rounding of times is left
        prop_assert!(agreement.corrected_bytes() < 1.0, "{agreement:?}");
        prop_assert_eq!(agreement.expected_losses() as usize, trace.lost);
    }

    #[test]
    fn condensing_a_trace_hardly_changes_the_result_of_the_true_bucket(case in case()) {
        let trace = policed(&case);
        let rows = Rows::condense(&trace, 0, trace.len(), 16);
        let agreement = follow(&rows, truth(&case), Start::Empty);
        let packets = agreement.corrected_bytes() / rows.packet_bytes;
        prop_assert!(packets < 1.0 + 0.05 * trace.lost as f64, "{packets} of {}", trace.lost);
    }

    #[test]
    fn the_deficit_of_a_bucket_and_the_backlog_of_a_queue_are_one_number(case in case()) {
        let mut policer = Policer::new(case.rate_bps, case.limit_bytes);
        let mut fifo = Fifo::new(case.rate_bps, Limit::bytes(case.limit_bytes))
            .with_in_service(InService::Counted);
        for arrival in case.arrivals() {
            policer.arrive(arrival);
            fifo.arrive(arrival);
            let deficit = case.limit_bytes as f64 - policer.level_bytes_at(arrival.time_ns);
            let backlog = fifo.wait_ns_at(arrival.time_ns) as f64 * 1e-9 * case.rate_bps as f64 / 8.0;
            // the queue counts the whole packet in service, the bucket only the rest of it, so that the queue
            // may refuse a packet that the bucket takes (up to two packets more in the bucket), and then vice
            // versa
            let (packet, rounding) = (f64::from(case.full_bytes), 100.0);
            let more = deficit - backlog;
            prop_assert!(-packet - rounding < more && more < 2.0 * packet + rounding, "{deficit} and {backlog}");
        }
    }

    #[test]
    fn the_corrected_queue_never_leaves_its_bounds(case in case(), rate_factor in 0.2f64..5.0, limit_factor in 0.2f64..5.0) {
        let (rate, limit) = truth(&case);
        let limit = limit * limit_factor;
        let trace = policed(&case);
        let queue = corrected(&trace, rate * rate_factor, limit);
        prop_assert_eq!(queue.len(), trace.len());
        prop_assert!(queue.iter().all(|found| (0.0..=limit as f32 * 1.000_001).contains(found)));
    }
}

#[test]
fn a_drop_tail_queue_is_found_by_its_losses_as_a_bucket_is() {
    let windows = Pattern::Windows { round_trip_ms: 40 };
    let arrivals = arrivals(windows, 10e6, 1.2, (6_000, 1500), 3);
    let mut fifo = Fifo::new(10_000_000, Limit::bytes(60_000)).with_in_service(InService::Counted);
    let fit = fit_bucket(&observed(&mut fifo, &arrivals)).unwrap();
    assert!(holds(fit.rate_bps, 10e6), "{:?}", fit.rate_bps);
    assert!(holds(fit.limit_bytes, 60e3), "{:?}", fit.limit_bytes);
}

#[test]
fn a_bucket_that_never_fills_again_has_no_upper_end() {
    // one burst of 100 packets at once, the last 40 of which are dropped: any bucket that was not full at the
    // start explains it, if it contained 60 packets then
    let arrivals: Vec<Arrival> = (0..100)
        .map(|i| Arrival {
            time_ns: i * 1_000,
            bytes: 1_500,
        })
        .collect();
    let fit = fit_bucket(&observed(&mut Policer::new(1_000_000, 90_000), &arrivals)).unwrap();
    assert_eq!(fit.limit_bytes.high, None, "{:?}", fit.limit_bytes);
    assert!(holds(fit.limit_bytes, 90e3), "{:?}", fit.limit_bytes);
    // ... and so does any rate that adds little in a tenth of a millisecond
    assert_eq!(fit.rate_bps.low, None, "{:?}", fit.rate_bps);
    assert!(holds(fit.rate_bps, 1e6), "{:?}", fit.rate_bps);
}

#[test]
fn random_losses_leave_most_of_the_uncertainty() {
    for seed in 0..8 {
        let windows = Pattern::Windows { round_trip_ms: 30 };
        let arrivals = arrivals(windows, 20e6, 1.0, (4_000, 1500), seed);
        let trace = observed(&mut RandomLoss::independent(0.01, seed), &arrivals);
        let certainty = fit_bucket(&trace).map_or(0.0, |fit| fit.certainty());
        assert!(certainty < 0.3, "seed {seed}: {certainty}");
    }
}

#[test]
fn a_known_fit_is_found_again_from_nearby() {
    let arrivals = arrivals(Pattern::Poisson, 5e6, 1.3, (4_000, 1500), 9);
    let trace = observed(&mut Policer::new(5_000_000, 30_000), &arrivals);
    let found = search_bucket(&trace, None).unwrap();
    let known = found.complete(&trace);
    let again = search_bucket(&trace, Some(&found))
        .unwrap()
        .complete(&trace);
    assert!((again.rate_bps.value / known.rate_bps.value - 1.0).abs() < 1e-3);
    assert!((again.limit_bytes.value / known.limit_bytes.value - 1.0).abs() < 2e-2);
}

fn seen() -> impl Strategy<Value = Seen> {
    prop_oneof![Just(Seen::Passed), Just(Seen::Lost), Just(Seen::Unknown)]
}

/// Arbitrary traces: any clock, any size, any fate.
fn odd_trace() -> impl Strategy<Value = Trace> {
    let time_ns = prop_oneof![
        Just(0i64),
        0..1_000i64,
        0..10_000_000_000i64,
        Just(i64::MIN),
        Just(i64::MAX),
        any::<i64>()
    ];
    let bytes = prop_oneof![Just(0u32), Just(1500), 0u32..3_000, any::<u32>()];
    let delay_s = prop_oneof![Just(None), (0.0f32..10.0).prop_map(Some)];
    let observation =
        (time_ns, bytes, seen(), delay_s).prop_map(|(time_ns, bytes, outcome, delay_s)| {
            TracePacket {
                time_ns,
                bytes,
                outcome,
                delay_s,
            }
        });
    prop::collection::vec(observation, 0..80).prop_map(Trace::new)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_traces_are_fitted_with_finite_numbers_or_not_at_all(trace in odd_trace(), line_bps in 1e3f64..1e11) {
        for trace in [trace.through_line(line_bps), trace] {
            if let Some(fit) = fit_bucket(&trace) {
                let numbers = [
                    Some(fit.rate_bps.value), fit.rate_bps.low, fit.rate_bps.high,
                    Some(fit.limit_bytes.value), fit.limit_bytes.low, fit.limit_bytes.high,
                    Some(fit.certainty()), Some(fit.gain()), Some(fit.score()),
                ];
                prop_assert!(numbers.iter().flatten().all(|number| number.is_finite()), "{fit:?}");
                let by_occupancy = super::delay_by_occupancy(&trace, fit.rate_bps.value, fit.limit_bytes.value);
                prop_assert!(by_occupancy.is_none_or(|by| by.expected_s.is_finite() && by.error_s.is_finite()));
            }
            let drain = super::fit_drain_rate(&trace);
            prop_assert!(drain.is_none_or(|drain| drain.rate_bps.is_finite() && drain.explained.is_finite()), "{drain:?}");
            let at_loss = super::delay_at_loss(&trace);
            prop_assert!(at_loss.is_none_or(|at| at.log_chance <= 0.0 && at.mean_rank.is_finite()), "{at_loss:?}");
        }
    }
}
