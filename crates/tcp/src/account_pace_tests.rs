//! Configured pacing rates, and the senders' own pacing.

use crate::account_tests::times_of;
use crate::limits::Limiter;
use crate::testing::{MS, MSS, Talk};

/// Four segments and a small one, spread over part of the round trip, each time all earlier data is acknowledged.
#[test]
fn bursts_that_an_application_fills_leave_by_no_rate_though_their_sender_spreads_them() {
    let mut talk = Talk::new();
    talk.open(0);
    let (mut now, mut next) = (21 * MS, 0);
    for _ in 0..40 {
        for number in 0..4 {
            talk.data(now + i64::from(number) * MS, next + number * MSS, MSS);
        }
        next += 4 * MSS;
        talk.data(now + 4 * MS, next, 500);
        next += 500;
        talk.ack(now + 24 * MS, next);
        now += 25 * MS;
    }
    let times = times_of(talk);
    assert_eq!(times(Limiter::Pacing), 0);
    let application = times(Limiter::Application);
    assert!(application > 900, "{application} ms");
}

#[test]
fn a_pace_of_two_and_a_half_windows_a_round_trip_is_no_rate_before_a_window_had_the_packets_to_grow()
 {
    let mut talk = Talk::new();
    talk.open(0);
    let mut events: Vec<(i64, u32, bool)> = Vec::new();
    for number in 0..60 {
        let begins = if number < 10 { 21 * MS } else { 41 * MS };
        let at = begins + i64::from(number) * MS * 4 / 5;
        events.extend([(at, number, true), (at + 20 * MS, number, false)]);
    }
    events.sort_unstable();
    for (at, number, is_data) in events {
        match is_data {
            true => talk.segments(at, number, number + 1),
            false => talk.ack(at, (number + 1) * MSS),
        }
    }
    assert_eq!(times_of(talk)(Limiter::Pacing), 0);
}
