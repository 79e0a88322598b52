//! Closed windows and their probes.

use whydrop_capture::{TcpFlags, TcpOptions};

use crate::testing::*;

fn window(bytes: u16) -> Extra<'static> {
    Extra {
        window: Some(bytes >> 4),
        ..Extra::default()
    }
}

/// Four segments arrive and fill the window; it is closed from 41 ms on.
fn closed() -> Talk {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 4);
    talk.ack_with(41 * MS, 4 * MSS, window(0));
    talk
}

/// A probe in Linux's form: no data, one byte before the acknowledged data.
fn bare_probe(talk: &mut Talk, time_ns: i64, offset: u32) {
    let sequence = talk.server_isn + offset - 1;
    let probe = segment(
        sequence,
        talk.client_next,
        TcpFlags::ACK,
        0,
        TcpOptions::default(),
    );
    talk.push(time_ns, true, 5000, probe, 1);
}

#[test]
fn a_closed_window_is_counted_for_as_long_as_it_is_closed() {
    let mut talk = closed();
    talk.data(241 * MS, 4 * MSS, 1);
    talk.ack_with(261 * MS, 4 * MSS, window(0));
    talk.data(661 * MS, 4 * MSS, 1);
    talk.ack_with(681 * MS, 4 * MSS, window(0));
    talk.ack_with(841 * MS, 4 * MSS, window(60_000));
    talk.segments(842 * MS, 4, 8);
    talk.ack(862 * MS, 8 * MSS);
    let flow = talk.finish();
    assert_eq!(flow.limited.closed_ns, 800 * MS);
    let counters = &flow.counters;
    assert_eq!((counters.window_closures, counters.window_probes), (1, 2));
    assert_eq!(
        (counters.lost, counters.retransmitted, counters.keep_alives),
        (0, 0, 0)
    );
    assert_eq!(counters.missed_by_capture_bytes, 0);
}

#[test]
fn a_window_that_stays_closed_is_counted_to_the_last_probe() {
    let mut talk = closed();
    bare_probe(&mut talk, 300 * MS, 4 * MSS);
    talk.ack_with(320 * MS, 4 * MSS, window(0));
    bare_probe(&mut talk, 1041 * MS, 4 * MSS);
    let flow = talk.finish();
    assert_eq!(
        (flow.limited.closed_ns, flow.counters.window_probes),
        (1000 * MS, 2)
    );
}

#[test]
fn a_window_that_closes_while_nothing_waits_holds_nothing_up() {
    let mut talk = closed();
    talk.ack_with(1000 * MS, 4 * MSS, window(60_000));
    talk.segments(5000 * MS, 4, 8);
    talk.ack(5020 * MS, 8 * MSS);
    let flow = talk.finish();
    assert_eq!(
        (flow.limited.closed_ns, flow.counters.window_closures),
        (0, 0)
    );
}

#[test]
fn data_that_follows_the_opening_at_once_was_waiting() {
    let mut talk = closed();
    talk.ack_with(1041 * MS, 4 * MSS, window(60_000));
    talk.segments(1042 * MS, 4, 8);
    assert_eq!(talk.finish().limited.closed_ns, 1000 * MS);
}

#[test]
fn less_than_a_segment_is_closed_if_the_window_was_once_large() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 4);
    talk.ack_with(41 * MS, 4 * MSS, window(400));
    talk.ack_with(541 * MS, 4 * MSS, window(60_000));
    talk.segments(542 * MS, 4, 8);
    assert_eq!(talk.finish().limited.closed_ns, 500 * MS);
}

#[test]
fn a_full_segment_beyond_all_that_was_allowed_is_a_probe() {
    let mut talk = Talk::new();
    talk.open(0);
    // all that the request's window permitted: 60 000 << 4 bytes
    talk.segments(21 * MS, 0, 960);
    talk.ack_with(41 * MS, 960 * MSS, window(0));
    for at in [400, 800, 1600] {
        talk.segments(at * MS, 960, 961);
        talk.ack_with((at + 20) * MS, 960 * MSS, window(0));
    }
    // the last segment was accepted
    talk.ack_with(2000 * MS, 961 * MSS, window(60_000));
    let flow = talk.finish();
    assert_eq!(flow.counters.window_probes, 3);
    assert_eq!((flow.counters.lost, flow.counters.retransmitted), (0, 0));
    assert_eq!(flow.counters.missed_by_capture_bytes, 0);
    assert_eq!(flow.limited.closed_ns, 1959 * MS);
}

#[test]
fn a_keep_alive_without_data_is_counted() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    bare_probe(&mut talk, 10_000 * MS, MSS);
    let flow = talk.finish();
    assert_eq!(
        (flow.counters.keep_alives, flow.counters.window_probes),
        (1, 0)
    );
}

/// A handshake with options cut off behind the maximum segment size.
fn cut_handshake(talk: &mut Talk, scale: [Option<u8>; 2], truncated: [bool; 2]) {
    for (direction, flags) in [(0, TcpFlags::SYN), (1, TcpFlags::SYN | TcpFlags::ACK)] {
        let options = TcpOptions {
            mss: Some(MSS as u16),
            window_scale: scale[direction],
            truncated: truncated[direction],
            ..TcpOptions::default()
        };
        let sequence = [499, talk.server_isn - 1][direction];
        let tcp = segment(sequence, 500 * direction as u32, flags, 0, options);
        talk.push(0, direction == 1, 5000, tcp, 1);
    }
}

#[test]
fn a_scale_that_the_snapshot_length_may_have_cut_off_is_not_known() {
    for (scale, truncated, known) in [
        ([None, None], [true, true], None),
        ([Some(7), None], [false, true], None),
        // one side without the option decides for both
        ([None, None], [false, true], Some(0)),
        ([Some(7), Some(9)], [true, false], Some(7)),
    ] {
        let mut talk = Talk::new();
        cut_handshake(&mut talk, scale, truncated);
        talk.segments(21 * MS, 0, 1);
        assert_eq!(talk.finish().window_scale, known, "{scale:?} {truncated:?}");
    }
}

#[test]
fn a_full_segment_is_what_most_are_where_the_path_takes_less_than_was_announced() {
    for (bytes, count, full) in [(900, 30, 900), (900, 6, MSS), (700, 30, MSS)] {
        let mut talk = Talk::new();
        talk.open(0);
        for number in 0..count {
            talk.data((21 + i64::from(number)) * MS, number * bytes, bytes);
        }
        talk.data(60 * MS, count * bytes, 100);
        assert_eq!(talk.finish().mss_bytes, Some(full), "{count} of {bytes}");
    }
}
