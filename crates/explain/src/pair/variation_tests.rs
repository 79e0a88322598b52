use whydrop_path::fit::Seen;
use whydrop_path::fit::passage::{Passage, Passages};
use whydrop_verdict::Cause;

use super::find;

const MS: i64 = 1_000_000;

/// Packets of 1500 bytes at these times, each with the transit time that `takes_ns` gives for its number and
/// time.
fn passing(times_ns: &[i64], mut takes_ns: impl FnMut(usize, i64) -> i64) -> Passages {
    let passage = |(index, time_ns): (usize, &i64)| Passage {
        arrival_ns: *time_ns,
        bytes: 1500,
        outcome: Seen::Passed,
        transit_ns: Some(10 * MS + takes_ns(index, *time_ns)),
        flow: 0,
        marked: false,
    };
    Passages::new(times_ns.iter().enumerate().map(passage).collect())
}

fn every(step_ns: i64, count: i64) -> Vec<i64> {
    (0..count).map(|number| number * step_ns).collect()
}

fn cause(passages: &Passages) -> Option<(Cause, Option<&'static str>)> {
    find(passages, 0.03).map(|found| (found.cause, found.detail))
}

/// Scattered numbers below `below`.
fn scattered(index: usize, below: i64) -> i64 {
    (index as i64 * 7919 + (index as i64).pow(2) * 104_729) % 1009 * below / 1009
}

#[test]
fn delays_that_vary_after_pauses_are_jitter() {
    for below in [15, 25, 40] {
        let passages = passing(&every(100 * MS, 200), |index, _| {
            scattered(index, below * MS)
        });
        assert_eq!(cause(&passages), Some((Cause::Jitter, None)), "{below} ms");
    }
}

#[test]
fn delay_variation_below_a_quarter_of_the_round_trip_is_no_jitter() {
    let passages = passing(&every(100 * MS, 200), |index, _| scattered(index, 6 * MS));
    assert_eq!(cause(&passages), None);
}

#[test]
fn queueing_of_the_own_load_is_no_jitter() {
    // flights of 20 packets, each of which takes a millisecond to send
    let times: Vec<i64> = (0..2000)
        .map(|n| n / 20 * 50 * MS + n % 20 * MS / 100)
        .collect();
    let mut free_ns = 0;
    let passages = passing(&times, |_, time_ns| {
        free_ns = free_ns.max(time_ns) + MS;
        free_ns - time_ns
    });
    assert_eq!(cause(&passages), None);
}

#[test]
fn a_route_that_changes_is_no_jitter() {
    let passages = passing(&every(100 * MS, 200), |index, _| {
        i64::from(index > 100) * 20 * MS
    });
    assert_eq!(cause(&passages), None);
}

#[test]
fn a_bucket_that_is_not_full_is_no_jitter() {
    // one packet leaves every 20 ms; they arrive after pauses of any length
    let mut time_ns = 0;
    let times: Vec<i64> = (0..600)
        .map(|index| {
            time_ns += scattered(index, 60 * MS);
            time_ns
        })
        .collect();
    let mut free_ns = 0;
    let passages = passing(&times, |_, time_ns| {
        let leaves_ns = free_ns.max(time_ns);
        free_ns = leaves_ns + 20 * MS;
        leaves_ns - time_ns
    });
    assert_eq!(cause(&passages), None);
}

#[test]
fn packets_that_a_link_releases_together_are_batches_with_their_interval() {
    for (interval_ms, detail) in [(4, "aggregation"), (8, "aggregation"), (102, "power-save")] {
        let interval_ns = interval_ms * MS;
        let step_ns = interval_ns / 7;
        let passages = passing(&every(step_ns, 700), |_, time_ns| {
            (time_ns / interval_ns + 1) * interval_ns - time_ns
        });
        assert_eq!(
            cause(&passages),
            Some((Cause::Batching, Some(detail))),
            "{interval_ms} ms"
        );
    }
}

#[test]
fn bursts_of_the_sender_and_interrupt_coalescing_are_no_batches() {
    let bursts: Vec<i64> = (0..700)
        .map(|n| n / 7 * 10 * MS + n % 7 * MS / 1000)
        .collect();
    assert_eq!(cause(&passing(&bursts, |_, _| 0)), None);
    let coalesced = passing(&every(MS / 20, 7000), |_, time_ns| {
        (time_ns / (MS / 4) + 1) * (MS / 4) - time_ns
    });
    assert_eq!(cause(&coalesced), None);
}
