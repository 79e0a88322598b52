//! Limiters of a sender, by captures that were taken elsewhere.

use whydrop_capture::{TcpFlags, TcpOptions};

use crate::limits::Limiter;
use crate::testing::{MS, MSS, Talk, segment};

/// To the sender and back.
const NEAR: i64 = 10 * MS;
/// To the receiver and back.
const FAR: i64 = 20 * MS;

/// A request that passes half-way between, at 30 ms.
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

fn times_of(talk: Talk) -> impl Fn(Limiter) -> i64 {
    let account = talk.finish().account().clone();
    let (from_ns, until_ns) = account.bounds().unwrap();
    let times_ns = account.times_ns(from_ns, until_ns);
    move |limiter| times_ns[limiter as usize] / MS
}

/// Packets one by one, each a millisecond after the one before and acknowledged a round trip later, and then a tenth of one:
/// as late as a full one, or as much sooner as it is smaller.
fn evenly(is_line: bool) -> Talk {
    let mut talk = open();
    let mut events: Vec<(i64, u32, bool)> = Vec::new();
    let mut last_ns = 0;
    for number in 0..=200 {
        let after_ns = if is_line && number == 200 { MS / 6 } else { MS };
        last_ns = if number == 0 {
            41 * MS
        } else {
            last_ns + after_ns
        };
        events.push((last_ns, number, true));
        events.push((last_ns + FAR, number, false));
    }
    events.sort_unstable();
    for (at, number, is_data) in events {
        let bytes = if number == 200 { MSS / 10 } else { MSS };
        match is_data {
            true => talk.data(at, number * MSS, bytes),
            false => talk.ack(at, number * MSS + bytes),
        }
    }
    talk
}

#[test]
fn small_packets_tell_a_rate_from_a_line_where_no_timestamps_do() {
    let paced = times_of(evenly(false));
    assert!(paced(Limiter::Pacing) > 180);
    let line = times_of(evenly(true));
    assert_eq!(line(Limiter::Pacing), 0);
    // nor is what stands here a send buffer's, or the end of slow start: it waits before
    assert_eq!(line(Limiter::SendBuffer), 0);
    assert!(line(Limiter::SlowStart) > 180);
}

/// Ten segments of which all are acknowledged, and so many more that pass when the timer has run out, before the rest.
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
fn one_segment_after_as_long_as_a_timer_takes_is_sent_again_though_the_first_was_lost_before() {
    let times = times_of(after_a_silence(1));
    // from a round trip after the last acknowledgment until its own
    let recovers = times(Limiter::LossRecovery);
    assert!((230..=260).contains(&recovers), "{recovers} ms");
    assert_eq!(times(Limiter::Application), 0);
    let times = times_of(after_a_silence(3));
    assert_eq!(times(Limiter::LossRecovery), 0);
    assert!(times(Limiter::Application) > 200);
}

#[test]
fn an_acknowledgment_that_passed_here_and_did_not_come_was_not_held_back() {
    let mut talk = open();
    talk.segments(41 * MS, 0, 10);
    talk.ack(41 * MS + FAR, 10 * MSS);
    // the timer sends the last segment again
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
