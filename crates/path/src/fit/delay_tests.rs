//! Delays show the queue that caused them.

use super::delay::{log_binomial_tail, log_gamma_tail};
use super::testing::{Pattern, arrivals, observed};
use super::trace::Trace;
use super::{delay_at_loss, delay_by_occupancy, fit_drain_rate};
use crate::{Arrival, Fifo, InService, Limit, Policer, RandomLoss, Shaper};

const RATE_BPS: u64 = 20_000_000;
const LIMIT_BYTES: u64 = 90_000;

fn windows(load: f64, seed: u64) -> Vec<Arrival> {
    let pattern = Pattern::Windows { round_trip_ms: 50 };
    arrivals(pattern, RATE_BPS as f64, load, (6_000, 1500), seed)
}

fn queue() -> Fifo {
    Fifo::new(RATE_BPS, Limit::bytes(LIMIT_BYTES)).with_in_service(InService::Counted)
}

fn ratio(trace: &Trace) -> f64 {
    let by_occupancy =
        delay_by_occupancy(trace, RATE_BPS as f64, LIMIT_BYTES as f64).expect("enough delays");
    by_occupancy.ratio()
}

#[test]
fn delay_grows_with_the_occupancy_of_a_queue_and_not_with_that_of_a_bucket() {
    for seed in 0..5 {
        let arrivals = windows(1.1, seed);
        let of_queue = ratio(&observed(&mut queue(), &arrivals));
        assert!((0.9..1.1).contains(&of_queue), "seed {seed}: {of_queue}");
        let of_bucket = ratio(&observed(
            &mut Policer::new(RATE_BPS, LIMIT_BYTES),
            &arrivals,
        ));
        assert!(of_bucket.abs() < 1e-6, "seed {seed}: {of_bucket}");
    }
}

#[test]
fn losses_of_a_full_queue_occur_at_the_longest_delays() {
    let at_loss = delay_at_loss(&observed(&mut queue(), &windows(1.1, 1))).unwrap();
    assert!(at_loss.mean_rank > 0.75, "{at_loss:?}");
    assert!(at_loss.log_chance < -20.0, "{at_loss:?}");
    // a full queue of 90 kB drains in 36 ms at 20 Mbit/s; a packet takes 0.6 ms
    let full_s = LIMIT_BYTES as f64 * 8.0 / RATE_BPS as f64;
    assert!((at_loss.median_s - full_s).abs() < 2e-3, "{at_loss:?}");
    assert_eq!(at_loss.share_delayed, 1.0);
}

#[test]
fn random_losses_occur_at_any_delay() {
    for seed in 0..8 {
        // random loss before a queue that never overflows
        let arrivals = windows(0.97, seed);
        let mut trace = observed(&mut Fifo::new(RATE_BPS, Limit::NONE), &arrivals);
        let lossy = observed(&mut RandomLoss::independent(0.01, seed), &arrivals);
        for index in 0..trace.len() {
            if lossy.outcome[index] == super::Seen::Lost {
                (trace.outcome[index], trace.delay_s[index]) = (super::Seen::Lost, f32::NAN);
            }
        }
        (trace.lost, trace.passed) = (lossy.lost, lossy.passed);
        let at_loss = delay_at_loss(&trace).unwrap();
        assert!(at_loss.log_chance > -7.0, "seed {seed}: {at_loss:?}");
        assert!(
            (0.3..0.7).contains(&at_loss.mean_rank),
            "seed {seed}: {at_loss:?}"
        );
    }
}

#[test]
fn the_drain_rate_of_a_queue_that_never_drops_is_found_by_its_delays() {
    for seed in 0..5 {
        let trace = observed(&mut Fifo::new(RATE_BPS, Limit::NONE), &windows(0.95, seed));
        let fit = fit_drain_rate(&trace).unwrap();
        assert!(
            (fit.rate_bps / RATE_BPS as f64 - 1.0).abs() < 0.01,
            "seed {seed}: {fit:?}"
        );
        assert!(fit.low_bps <= fit.rate_bps && fit.rate_bps <= fit.high_bps);
        assert!(fit.explained > 0.9, "seed {seed}: {fit:?}");
    }
}

#[test]
fn the_tokens_of_a_shaper_equal_the_bytes_that_pass_before_delays_begin() {
    let trace = observed(
        &mut Shaper::new(RATE_BPS, 50_000, Limit::NONE),
        &windows(0.95, 2),
    );
    let fit = fit_drain_rate(&trace).unwrap();
    assert!(
        (fit.rate_bps / RATE_BPS as f64 - 1.0).abs() < 0.02,
        "{fit:?}"
    );
    assert!((fit.burst_bytes - 50_000.0).abs() < 5_000.0, "{fit:?}");
}

#[test]
fn without_delays_or_losses_there_is_no_result() {
    assert!(delay_at_loss(&Trace::default()).is_none());
    assert!(fit_drain_rate(&Trace::default()).is_none());
    assert!(delay_by_occupancy(&Trace::default(), 1e6, 1e4).is_none());
    let lossless = observed(&mut Fifo::new(RATE_BPS, Limit::NONE), &windows(0.9, 1));
    assert!(delay_at_loss(&lossless).is_none());
}

#[test]
fn the_chance_of_ranks_is_that_of_a_gamma_distribution() {
    // shape 1: e^-x; shape 3 at 5: e^-5 (1 + 5 + 12.5)
    assert!((log_gamma_tail(1, 4.0) + 4.0).abs() < 1e-12);
    assert!((log_gamma_tail(3, 5.0) - (18.5f64.ln() - 5.0)).abs() < 1e-12);
    // below its mean the tail is one, and large shapes do not overflow
    assert_eq!(log_gamma_tail(10, 3.0), 0.0);
    let large = log_gamma_tail(100_000, 200_000.0);
    assert!(large.is_finite() && large < -10_000.0);
}

#[test]
fn the_bound_on_few_successes_is_above_their_probability() {
    // no success in 10 trials of 1/4 is exactly 0.75^10
    assert!((log_binomial_tail(10, 0, 0.25) - 10.0 * 0.75f64.ln()).abs() < 1e-12);
    // at most 1: 0.75^10 + 10 * 0.25 * 0.75^9
    let exact = (0.75f64.powi(10) + 2.5 * 0.75f64.powi(9)).ln();
    let bound = log_binomial_tail(10, 1, 0.25);
    assert!(bound >= exact && bound < 0.0, "{bound} {exact}");
    assert_eq!(log_binomial_tail(10, 4, 0.25), 0.0);
}
