//! Limiters of a sender, from captures taken elsewhere.

use whydrop_capture::{TcpFlags, TcpOptions};

use crate::account_tests::times_of;
use crate::limits::Limiter;
use crate::testing::{MS, MSS, Talk, segment};

/// Round-trip time to the sender.
const NEAR: i64 = 10 * MS;
/// Round-trip time to the receiver.
const FAR: i64 = 20 * MS;

/// A request that passes in the middle of the path, at 30 ms.
fn open() -> Talk {
    let mut talk = Talk::new();
    let options = TcpOptions {
        mss: Some(MSS as u16),
        window_scale: Some(7),
        ..TcpOptions::default()
    };
    let isn = talk.server_isn;
    let syn = segment(499, 0, TcpFlags::SYN, 0, options);
    talk.push(0, false, 5000, syn, 1);
    let both = TcpFlags::SYN | TcpFlags::ACK;
    let syn_ack = segment(isn.wrapping_sub(1), 500, both, 0, options);
    talk.push(NEAR, true, 5000, syn_ack, 1);
    talk.ack(NEAR + FAR, 0);
    talk.request(NEAR + FAR, 0, 100);
    talk
}

/// `full` packets at even intervals, each acknowledged a round trip later, then one of a tenth of the size. It follows
/// as late as a full packet, or, on a line, sooner in proportion to its size. Every other packet is late.
fn evenly(full: u32, gap_ns: i64, is_line: bool, late_ns: i64) -> Talk {
    let mut talk = open();
    let mut events: Vec<(i64, u32, bool)> = Vec::new();
    for number in 0..=full {
        let is_early = is_line && number == full;
        let early_ns = if is_early { gap_ns / 6 * 5 } else { 0 };
        let late_ns = if number % 2 == 1 && number + 2 < full {
            late_ns
        } else {
            0
        };
        let at = 41 * MS + i64::from(number) * gap_ns - early_ns + late_ns;
        events.push((at, number, true));
        events.push((at + FAR, number, false));
    }
    events.sort_unstable();
    for (at, number, is_data) in events {
        let bytes = if number == full { MSS / 10 } else { MSS };
        match is_data {
            true => talk.data(at, number * MSS, bytes),
            false => talk.ack(at, number * MSS + bytes),
        }
    }
    talk
}

#[test]
fn small_packets_distinguish_a_rate_from_a_line_without_timestamps() {
    let paced = times_of(evenly(200, MS, false, 0));
    assert!(paced(Limiter::Pacing) > 180);
    let line = times_of(evenly(200, MS, true, 0));
    assert_eq!(line(Limiter::Pacing), 0);
    // the flight that stands here is neither a send buffer nor the end of slow start: packets wait before the capture
    // point
    assert_eq!(line(Limiter::SendBuffer), 0);
    assert!(line(Limiter::SlowStart) > 180);
}

#[test]
fn a_small_flight_that_a_line_lets_out_is_no_send_buffers() {
    let line = times_of(evenly(100, 6 * MS, true, 0));
    assert_eq!(line(Limiter::SendBuffer), 0);
}

#[test]
fn a_flight_that_stands_since_its_line_is_busy_is_no_send_buffers() {
    let mut talk = open();
    let mut events: Vec<(i64, u32, bool)> = Vec::new();
    let (mut begins, mut number) = (41 * MS, 0);
    for many in [10, 20, 40, 200] {
        for place in 0..many {
            let at = begins + i64::from(place) * MS / 2;
            events.extend([(at, number, true), (at + FAR, number, false)]);
            number += 1;
        }
        begins += NEAR + FAR;
    }
    events.sort_unstable();
    for (at, number, is_data) in events {
        match is_data {
            true => talk.data(at, number * MSS, MSS),
            false => talk.ack(at, (number + 1) * MSS),
        }
    }
    assert_eq!(times_of(talk)(Limiter::SendBuffer), 0);
}

#[test]
fn a_rate_shows_in_several_packets_where_single_ones_are_late() {
    let paced = times_of(evenly(400, MS / 2, false, MS / 10));
    assert!(paced(Limiter::Pacing) > 180);
}

/// Ten segments that are all acknowledged, then `alone` segments that pass after the timeout, then the rest.
fn after_a_silence(alone: u32) -> Talk {
    let mut talk = open();
    talk.segments(41 * MS, 0, 10);
    talk.ack(41 * MS + FAR, 10 * MSS);
    let again = 41 * MS + FAR + 240 * MS;
    talk.segments(again, 10, 10 + alone);
    talk.ack(again + FAR, (10 + alone) * MSS);
    let then = again + FAR + NEAR;
    talk.segments(then, 10 + alone, 14);
    talk.ack(then + FAR, 14 * MSS);
    talk
}

#[test]
fn one_segment_after_a_timeout_is_a_retransmission_even_if_the_first_was_lost_before() {
    let times = times_of(after_a_silence(1));
    // from a round trip after the last acknowledgment until the acknowledgment of the repair
    let recovers = times(Limiter::LossRecovery);
    assert!((230..=260).contains(&recovers), "{recovers} ms");
    assert_eq!(times(Limiter::Application), 0);
    let times = times_of(after_a_silence(3));
    assert_eq!(times(Limiter::LossRecovery), 0);
    assert!(times(Limiter::Application) > 200);
}

#[test]
fn an_acknowledgment_that_passed_here_and_was_lost_was_not_delayed() {
    let mut talk = open();
    talk.segments(41 * MS, 0, 10);
    talk.ack(41 * MS + FAR, 10 * MSS);
    // the timer retransmits the last segment
    talk.segments(341 * MS, 9, 10);
    talk.ack(341 * MS + FAR, 10 * MSS);
    assert_eq!(times_of(talk)(Limiter::DelayedAck), 0);
}

#[test]
fn packets_that_acknowledgments_release_evenly_leave_by_no_rate_where_the_first_were_not_captured()
{
    let mut talk = Talk::new();
    for number in 0..200 {
        let at = i64::from(number) * 5 * MS;
        talk.ack(at, number * MSS);
        talk.segments(at, number + 4, number + 5);
    }
    assert_eq!(times_of(talk)(Limiter::Pacing), 0);
}

#[test]
fn a_connection_is_set_up_though_the_answer_to_its_syn_was_missed() {
    let mut talk = Talk::new();
    let syn = segment(499, 0, TcpFlags::SYN, 0, TcpOptions::default());
    talk.push(0, false, 5000, syn, 1);
    talk.request(20 * MS, 0, 100);
    talk.segments(20 * MS, 0, 10);
    talk.ack(40 * MS, 10 * MSS);
    assert_eq!(times_of(talk)(Limiter::ConnectionSetup), 20);
}
