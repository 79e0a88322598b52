//! Limiters of a sender, from the event that ended each wait.

use crate::limits::Limiter;
use crate::testing::{Extra, MS, MSS, Talk};

/// Twenty times two segments and one more, each group acknowledged after `wait` before the next one leaves.
fn share_of_delayed_acks(wait_ms: i64) -> f64 {
    let mut talk = Talk::new();
    talk.open(0);
    let mut now = 21 * MS;
    for lot in 0..20 {
        let first = 3 * lot;
        talk.segments(now, first, first + 3);
        talk.ack(now + 20 * MS, (first + 2) * MSS);
        talk.ack(now + (20 + wait_ms) * MS, (first + 3) * MSS);
        now += (20 + wait_ms) * MS;
    }
    let account = talk.finish().account().clone();
    let (from_ns, until_ns) = account.bounds().unwrap();
    let times_ns = account.times_ns(from_ns, until_ns);
    assert_eq!(times_ns.iter().sum::<i64>(), until_ns - from_ns);
    times_ns[Limiter::DelayedAck as usize] as f64 / (until_ns - from_ns) as f64
}

#[test]
fn a_late_acknowledgment_of_all_outstanding_data_was_delayed() {
    let share = share_of_delayed_acks(40);
    assert!((share - 40.0 / 60.0).abs() < 0.03, "{share}");
}

#[test]
fn immediate_acknowledgments_are_not_delayed() {
    assert_eq!(share_of_delayed_acks(0), 0.0);
}

#[test]
fn a_receiver_that_waits_for_four_segments_holds_back_the_acknowledgment_of_three() {
    let mut talk = Talk::new();
    talk.open(0);
    let mut now = 21 * MS;
    for lot in 0..20 {
        let first = 7 * lot;
        talk.segments(now, first, first + 7);
        talk.ack(now + 20 * MS, (first + 4) * MSS);
        talk.ack(now + 60 * MS, (first + 7) * MSS);
        now += 60 * MS;
    }
    let times = times_of(talk);
    let delayed = times(Limiter::DelayedAck);
    assert!((20 * 38..=20 * 42).contains(&delayed), "{delayed} ms");
}

/// The time of a limiter, in milliseconds, if an answer begins after `think_ms` and continues after `pause_ms`.
fn times_of_an_answer(think_ms: i64, pause_ms: i64) -> impl Fn(Limiter) -> i64 {
    let mut talk = Talk::new();
    talk.open(0);
    let begin = (20 + think_ms) * MS;
    talk.segments(begin, 0, 4);
    talk.ack(begin + 20 * MS, 4 * MSS);
    talk.segments(begin + (20 + pause_ms) * MS, 4, 8);
    talk.ack(begin + (40 + pause_ms) * MS, 8 * MSS);
    let account = talk.finish().account().clone();
    let (from_ns, until_ns) = account.bounds().unwrap();
    let times_ns = account.times_ns(from_ns, until_ns);
    move |limiter| times_ns[limiter as usize] / MS
}

#[test]
fn an_answer_that_begins_late_is_the_far_applications() {
    let times = times_of_an_answer(300, 0);
    assert_eq!(times(Limiter::PeerApplication), 300);
    assert_eq!(times(Limiter::ConnectionSetup), 20);
    assert_eq!(times(Limiter::Application), 0);
}

#[test]
fn an_answer_that_pauses_is_this_applications() {
    let times = times_of_an_answer(0, 500);
    assert_eq!(times(Limiter::PeerApplication), 0);
    // the wait for the last acknowledgment belongs to the limiter of the answer
    assert_eq!(times(Limiter::Application), 540);
}

const RTT: i64 = 50 * MS;

/// A sender answers each acknowledgment of two segments with four for `doubling` round trips, then with two for
/// `steady` ones. Returns the times of slow start and of the congestion window, milliseconds.
fn times_of_growth(doubling: usize, steady: usize) -> (i64, i64) {
    let begin = 21 * MS;
    // when pairs of segments leave
    let mut sent: Vec<i64> = (0..5).map(|pair| begin + pair * MS / 100).collect();
    let mut all = sent.clone();
    for round in 0..doubling + steady {
        let released = if round < doubling { 2 } else { 1 };
        sent = (sent.iter())
            .flat_map(|at| (0..released).map(move |pair| at + RTT + pair * MS / 100))
            .collect();
        sent.sort_unstable();
        all.extend(&sent);
    }
    let acknowledged = all.iter().map(|at| (at + RTT, false));
    let mut events: Vec<(i64, bool)> = all
        .iter()
        .map(|at| (*at, true))
        .chain(acknowledged)
        .collect();
    events.sort_unstable();
    let mut talk = Talk::new();
    talk.open(0);
    let (mut next, mut acknowledged) = (0, 0);
    for (at, is_data) in events {
        if is_data {
            talk.segments(at, next, next + 2);
            next += 2;
        } else {
            acknowledged += 2;
            talk.ack(at, acknowledged * MSS);
        }
    }
    let account = talk.finish().account().clone();
    let (from_ns, until_ns) = account.bounds().unwrap();
    let times_ns = account.times_ns(from_ns, until_ns);
    let time = |limiter: Limiter| times_ns[limiter as usize] / MS;
    (
        time(Limiter::SlowStart),
        time(Limiter::CongestionWindow) + time(Limiter::SendBuffer),
    )
}

#[test]
fn a_flight_that_grows_by_all_that_is_acknowledged_is_slow_starts() {
    let (slow_start, window) = times_of_growth(3, 0);
    assert_eq!(window, 0);
    assert!((199..=202).contains(&slow_start), "{slow_start} ms");
}

#[test]
fn slow_start_ends_where_the_flight_stops_growing() {
    let (slow_start, window) = times_of_growth(3, 4);
    assert!((149..=152).contains(&slow_start), "{slow_start} ms");
    assert!((249..=252).contains(&window), "{window} ms");
}

#[test]
fn an_answer_that_fills_a_window_which_stands_is_not_slow_starts() {
    let mut talk = Talk::new();
    talk.open(0);
    // the first answer fits into the initial window; the second one finds a window of twenty segments
    talk.segments(21 * MS, 0, 10);
    talk.ack(71 * MS, 10 * MSS);
    talk.request(1021 * MS, 10 * MSS, 100);
    talk.segments(1022 * MS, 10, 30);
    for pair in 0..10 {
        let at = 1072 * MS + i64::from(pair) * MS;
        let acknowledged = 12 + 2 * pair;
        talk.ack(at, acknowledged * MSS);
        talk.segments(at + MS / 100, acknowledged + 18, acknowledged + 20);
    }
    talk.ack(1132 * MS, 50 * MSS);
    let times = times_of(talk);
    assert_eq!(times(Limiter::SlowStart), 50);
    let window = times(Limiter::CongestionWindow);
    assert!((108..=112).contains(&window), "{window} ms");
}

#[test]
fn a_sender_with_a_rate_waits_for_acknowledgments_where_its_window_is_full() {
    let mut talk = Talk::new();
    talk.open(0);
    // segments 1 ms apart, four more after each wait of 12 ms
    let mut now = 71 * MS;
    let mut next = 0;
    for lot in 0..8 {
        let many = 10 + 4 * lot;
        for number in 0..many {
            talk.segments(
                now + i64::from(number) * MS,
                next + number,
                next + number + 1,
            );
        }
        for pair in (0..many).step_by(2) {
            let at = now + i64::from(many + 10) * MS + i64::from(pair) * MS / 1000;
            talk.ack(at, (next + pair + 2) * MSS);
        }
        next += many;
        now += i64::from(many + 11) * MS;
    }
    let times = times_of(talk);
    let pacing = times(Limiter::Pacing);
    // 9 + 13 + ... + 37 gaps, and the last wait, which belongs to the limiter before it
    assert!((194..=196).contains(&pacing), "{pacing} ms");
}

/// The time of a limiter in a flow, milliseconds.
pub(crate) fn times_of(talk: Talk) -> impl Fn(Limiter) -> i64 {
    let account = talk.finish().account().clone();
    let (from_ns, until_ns) = account.bounds().unwrap();
    let times_ns = account.times_ns(from_ns, until_ns);
    move |limiter| times_ns[limiter as usize] / MS
}

#[test]
fn an_application_that_pauses_does_not_wait_for_a_delayed_acknowledgment() {
    let mut talk = Talk::new();
    talk.open(0);
    for number in 0..20 {
        let now = (21 + 130 * i64::from(number)) * MS;
        talk.segments(now, number, number + 1);
        talk.ack(now + 60 * MS, (number + 1) * MSS);
    }
    let times = times_of(talk);
    // except for the last segment, which only its acknowledgment ends
    assert!(times(Limiter::DelayedAck) <= 40);
    assert!(times(Limiter::Application) >= 19 * 130);
}

#[test]
fn an_answer_without_a_captured_last_acknowledgment_is_over_a_round_trip_after_it_left() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 4);
    talk.ack(41 * MS, 2 * MSS);
    talk.request(1021 * MS, 4 * MSS, 100);
    talk.segments(1022 * MS, 4, 8);
    talk.ack(1042 * MS, 8 * MSS);
    let times = times_of(talk);
    let at_work = times(Limiter::SlowStart) + times(Limiter::CongestionWindow);
    assert!((39..=42).contains(&at_work), "{at_work} ms");
}

#[test]
fn a_retransmission_that_its_timestamp_proves_needless_ends_slow_start_for_no_longer_than_its_round_trip()
 {
    let stamped = |value, echo| Extra {
        timestamps: Some((value, echo)),
        ..Extra::default()
    };
    let mut talk = Talk::new();
    talk.open(0);
    let data = |talk: &mut Talk, ms: i64, number: u32| {
        talk.data_with(ms * MS, number * MSS, MSS, stamped(1000 + ms as u32, 1));
    };
    for number in 0..10 {
        data(&mut talk, 21, number);
    }
    // the first segment is delayed: the others report it missing, and it is retransmitted before it is acknowledged
    for number in 1..10 {
        let sack = [(MSS, (number + 1) * MSS)];
        let extra = Extra {
            sack: &sack,
            ..stamped(50, 1021)
        };
        talk.ack_with(41 * MS, 0, extra);
    }
    data(&mut talk, 42, 0);
    talk.ack_with(45 * MS, 10 * MSS, stamped(54, 1021));
    for number in 10..30 {
        data(&mut talk, 45, number);
    }
    talk.ack_with(65 * MS, 30 * MSS, stamped(74, 1045));
    for number in 30..70 {
        data(&mut talk, 65, number);
    }
    talk.ack_with(85 * MS, 70 * MSS, stamped(94, 1065));
    let times = times_of(talk);
    assert!(
        times(Limiter::LossRecovery) <= 3,
        "{} ms",
        times(Limiter::LossRecovery)
    );
    assert_eq!(times(Limiter::CongestionWindow), 0);
}

#[test]
fn all_that_the_end_of_a_recovery_releases_is_its_tail() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 10);
    for number in 1..10 {
        talk.sack(41 * MS, 0, &[(MSS, (number + 1) * MSS)]);
    }
    talk.segments(41 * MS, 0, 1);
    talk.ack(61 * MS, 10 * MSS);
    talk.segments(61 * MS, 10, 15);
    talk.ack(81 * MS, 15 * MSS);
    assert_eq!(times_of(talk)(Limiter::LossRecovery), 40);
}

#[test]
fn a_timer_that_expires_while_an_acknowledgment_is_delayed_waited_for_the_acknowledgment() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    for number in 1..11 {
        let now = (41 + 260 * i64::from(number)) * MS;
        talk.segments(now, number, number + 1);
        // arrives less than a round trip after the retransmission: it answers the original
        talk.data(now + 239 * MS, number * MSS, MSS);
        talk.ack(now + 240 * MS, (number + 1) * MSS);
    }
    let times = times_of(talk);
    let delayed = times(Limiter::DelayedAck);
    assert!((10 * 215..=10 * 221).contains(&delayed), "{delayed} ms");
    assert_eq!(times(Limiter::LossRecovery), 0);
}

/// `lots` groups of `bytes` every `each_ms`, each acknowledged a round trip later, whatever else is outstanding.
fn stream(lots: u32, each_ms: i64, bytes: u32) -> Talk {
    let mut events: Vec<(i64, u32, bool)> = (0..lots)
        .flat_map(|lot| {
            let at = 71 * MS + i64::from(lot) * each_ms * MS;
            [(at, lot, true), (at + RTT, lot + 1, false)]
        })
        .collect();
    events.sort_unstable();
    let mut talk = Talk::new();
    talk.open(0);
    for (at, lot, is_data) in events {
        let first = lot * bytes;
        if !is_data {
            talk.ack(at, first);
            continue;
        }
        for sent in (0..bytes).step_by(MSS as usize) {
            let number = i64::from(sent / MSS);
            talk.data(at + number * 1000, first + sent, MSS.min(bytes - sent));
        }
    }
    talk
}

#[test]
fn data_sent_with_much_in_flight_and_no_acknowledgment_before_it_waited_for_its_application() {
    // acknowledgments arrive 10 ms before the next group
    let times = times_of(stream(100, 15, 4 * MSS));
    assert!(times(Limiter::Application) > 1300);
    assert_eq!(times(Limiter::SendBuffer), 0);
}

#[test]
fn bursts_that_end_with_less_than_a_segment_waited_for_their_application() {
    // acknowledgments arrive 1 ms before the next group, and release no data
    let times = times_of(stream(100, 17, 4 * MSS + 500));
    assert!(times(Limiter::Application) > 1500);
}

#[test]
fn packets_that_leave_evenly_whenever_acknowledgments_come_leave_by_a_rate() {
    let mut talk = Talk::new();
    talk.open(0);
    let at = |number: u32| 71 * MS + i64::from(number) * 22 * MS;
    for number in 0..100 {
        talk.segments(at(number), number, number + 1);
        if number % 4 == 2 {
            talk.ack(at(number) + 7 * MS, (number - 1) * MSS);
        }
    }
    let times = times_of(talk);
    let (pacing, buffer) = (times(Limiter::Pacing), times(Limiter::SendBuffer));
    assert!(pacing > 1500 && buffer == 0, "{pacing} ms, {buffer} ms");
}

/// Bursts of 10, 20, ... 160 segments with gaps of half a millisecond, each after the acknowledgment of the one before.
/// The sender's clock advances during a burst, or stands still.
fn bursts_at_a_rate(clock_goes_on: bool) -> Talk {
    let mut talk = Talk::new();
    talk.open(0);
    let (mut now, mut next) = (121 * MS, 0);
    for many in [10, 20, 40, 80, 160] {
        for number in 0..many {
            let at = now + i64::from(number) * MS / 2;
            let sent = if clock_goes_on { at } else { now };
            let extra = Extra {
                timestamps: Some(((sent / MS) as u32, (now / MS) as u32)),
                ..Extra::default()
            };
            talk.data_with(at, (next + number) * MSS, MSS, extra);
        }
        next += many;
        now += i64::from(many) * MS / 2 + 100 * MS;
        let extra = Extra {
            timestamps: Some(((now / MS) as u32, 1)),
            ..Extra::default()
        };
        talk.ack_with(now - MS / 10, next * MSS, extra);
    }
    talk
}

#[test]
fn segments_that_leave_evenly_while_the_senders_clock_goes_on_wait_for_no_line() {
    let paced = times_of(bursts_at_a_rate(true))(Limiter::Pacing);
    assert!(paced > 140, "{paced} ms");
    assert_eq!(times_of(bursts_at_a_rate(false))(Limiter::Pacing), 0);
}

#[test]
fn the_port_identifies_the_responder_if_the_capture_has_no_syn() {
    let mut talk = Talk::new();
    let mut now = 0;
    for lot in 0..5 {
        talk.segments(now, 4 * lot, 4 * (lot + 1));
        talk.ack(now + 20 * MS, 4 * (lot + 1) * MSS);
        talk.request(now + 21 * MS, 4 * (lot + 1) * MSS, 100);
        now += 300 * MS;
    }
    // arrived first
    let account = talk.finish_connection().flows[0].account().clone();
    let (from_ns, until_ns) = account.bounds().unwrap();
    let far = account.times_ns(from_ns, until_ns)[Limiter::PeerApplication as usize] / MS;
    assert!((4 * 270..=4 * 280).contains(&far), "{far} ms");
}

#[test]
fn nothing_passes_where_what_the_timer_sends_again_is_not_heard_of_either() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 10);
    talk.ack(41 * MS, 4 * MSS);
    talk.segments(42 * MS, 10, 14);
    // the timeout, and again after twice the time
    talk.segments(261 * MS, 4, 5);
    talk.segments(701 * MS, 4, 5);
    talk.ack(721 * MS, 5 * MSS);
    talk.segments(722 * MS, 5, 14);
    talk.ack(742 * MS, 14 * MSS);
    let times = times_of(talk);
    let outage = times(Limiter::Outage);
    assert!((678..=682).contains(&outage), "{outage} ms");
}

#[test]
fn one_timeout_is_no_outage() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 10);
    talk.ack(41 * MS, 9 * MSS);
    talk.segments(261 * MS, 9, 10);
    talk.ack(281 * MS, 10 * MSS);
    assert_eq!(times_of(talk)(Limiter::Outage), 0);
}

#[test]
fn timeouts_in_a_row_are_no_outage_where_most_packets_are_lost() {
    let mut talk = Talk::new();
    talk.open(0);
    for number in 0..6 {
        let now = (21 + 620 * i64::from(number)) * MS;
        for after in [0, 200, 600] {
            talk.segments(now + after * MS, number, number + 1);
        }
        talk.ack(now + 620 * MS, (number + 1) * MSS);
    }
    assert_eq!(times_of(talk)(Limiter::Outage), 0);
}

/// Round trips of `round_trip_ns`, in each of which `flights` segments leave at once; the path alone takes 20 ms.
fn rounds(flights: &[u32], round_trip_ns: i64) -> Talk {
    let mut talk = Talk::new();
    talk.open(0);
    let (mut now, mut sent) = (21 * MS, 0);
    for flight in flights {
        talk.segments(now, sent, sent + flight);
        sent += flight;
        now += round_trip_ns;
        talk.ack(now, sent * MSS);
    }
    talk
}

#[test]
fn a_flight_that_stops_growing_without_a_loss_is_a_send_buffers_where_a_window_would_have_grown() {
    let stands = times_of(rounds(&[10, 20, 40, 50, 50, 50], 20 * MS));
    assert_eq!(stands(Limiter::SendBuffer), 60);
    let grows = times_of(rounds(&[10, 20, 40, 50, 51, 52, 53], 20 * MS));
    assert_eq!(grows(Limiter::SendBuffer), 0);
}

#[test]
fn acknowledgments_that_pass_here_and_make_nothing_leave_for_a_timeout_do_not_come_through() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 10);
    for number in 1..=5 {
        talk.ack((40 + i64::from(number)) * MS, 2 * number * MSS);
    }
    // all data is acknowledged, and then all of it is retransmitted
    talk.segments(301 * MS, 0, 10);
    talk.ack(321 * MS, 10 * MSS);
    let times = times_of(talk);
    assert!(times(Limiter::Outage) > 240);
}

#[test]
fn a_sender_that_spreads_what_the_receiver_allows_waits_for_its_window_though_more_was_allowed_before()
 {
    let mut talk = Talk::new();
    let window = |segments: u32| Extra {
        window: Some(((segments * MSS) >> 4) as u16),
        ..Extra::default()
    };
    talk.open(0);
    talk.segments(21 * MS, 0, 60);
    talk.ack_with(41 * MS, 60 * MSS, window(20));
    // half of a window at once, the other half later, when no more than that is outstanding
    for lot in 0..20 {
        let now = 41 * MS + i64::from(lot) * 20 * MS;
        let first = 60 + 20 * lot;
        talk.segments(now, first, first + 10);
        talk.ack_with(now + 9 * MS, (first + 5) * MSS, window(15));
        talk.segments(now + 10 * MS, first + 10, first + 20);
        talk.ack_with(now + 20 * MS, (first + 20) * MSS, window(20));
    }
    let full = times_of(talk)(Limiter::ReceiveWindow);
    assert!((385..=400).contains(&full), "{full} ms");
}

/// Round trips of 20 ms with the given numbers of segments. The first segment of some is lost; after its retransmission
/// all outstanding data is acknowledged at once.
fn rounds_with_losses(flights: &[(u32, bool)]) -> Talk {
    let mut talk = Talk::new();
    talk.open(0);
    let (mut now, mut sent) = (21 * MS, 0);
    for &(flight, is_lost) in flights {
        talk.segments(now, sent, sent + flight);
        if is_lost {
            for arrived in 2..6 {
                let blocks = [((sent + 1) * MSS, (sent + arrived) * MSS)];
                talk.sack(now + 20 * MS, sent * MSS, &blocks);
            }
            talk.segments(now + 20 * MS, sent, sent + 1);
            now += 20 * MS;
        }
        sent += flight;
        now += 20 * MS;
        talk.ack(now, sent * MSS);
    }
    talk
}

#[test]
fn slow_start_goes_on_after_losses_where_the_window_is_soon_far_beyond_what_was_out_then() {
    let grows = [
        (10, false),
        (20, true),
        (20, false),
        (60, false),
        (150, true),
        (150, false),
    ];
    let times = times_of(rounds_with_losses(&grows));
    let (slow_start, window) = (times(Limiter::SlowStart), times(Limiter::CongestionWindow));
    assert!(
        window == 0 && (100..=125).contains(&slow_start),
        "{slow_start} ms, {window} ms"
    );
    let halves = [
        (10, false),
        (20, true),
        (10, false),
        (11, false),
        (12, true),
        (6, false),
    ];
    assert_eq!(
        times_of(rounds_with_losses(&halves))(Limiter::SlowStart),
        40
    );
}

#[test]
fn an_acknowledgment_that_only_a_timeout_brings_was_lost_and_not_delayed() {
    let mut talk = Talk::new();
    talk.open(0);
    let (mut now, mut next) = (21 * MS, 0);
    // a receiver, or the return path, that leaves out three of four acknowledgments
    for _ in 0..20 {
        talk.segments(now, next, next + 4);
        now += 20 * MS;
        next += 4;
        talk.ack(now, next * MSS);
    }
    talk.segments(now, next, next + 3);
    talk.segments(now + 260 * MS, next + 2, next + 3);
    talk.sack(
        now + 280 * MS,
        (next + 3) * MSS,
        &[((next + 2) * MSS, (next + 3) * MSS)],
    );
    assert_eq!(times_of(talk)(Limiter::DelayedAck), 0);
}
