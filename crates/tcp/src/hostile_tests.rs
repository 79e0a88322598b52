//! Damaged and forged packets: the flow continues as if they had not arrived, and no memory grows with their claims.

use whydrop_capture::{TcpFlags, TcpOptions};

use crate::testing::*;
use crate::*;
use Fate::Delivered;

#[test]
fn one_packet_with_a_damaged_sequence_number_changes_nothing() {
    for damage in [1u32 << 25, 1 << 30, 3 << 30, u32::MAX - (1 << 26)] {
        let mut talk = Talk::new();
        talk.open(0);
        talk.segments(21 * MS, 0, 3);
        talk.data(22 * MS, (3 * MSS).wrapping_add(damage), MSS);
        talk.segments(23 * MS, 3, 6);
        talk.ack(43 * MS, 6 * MSS);
        let flow = talk.finish();
        let sound = flow.segments.iter().filter(|s| s.kind == Kind::New);
        assert_eq!(sound.count(), 6, "{damage:#x}");
        let counters = &flow.counters;
        assert_eq!((counters.missed_by_capture_bytes, counters.lost), (0, 0));
        assert_eq!(fates(&flow)[..3], [Delivered; 3]);
    }
}

#[test]
fn a_hole_in_the_capture_is_believed_when_the_next_packet_confirms_it() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 3);
    talk.segments(900 * MS, 50_000, 50_003);
    talk.ack(920 * MS, 50_003 * MSS);
    let flow = talk.finish();
    // the first packet behind the hole was not confirmed at first
    assert_eq!(flow.segments.len(), 5);
    assert_eq!(fates(&flow)[3..], [Delivered; 2]);
    assert!(flow.counters.missed_by_capture_bytes >= 49_997 * u64::from(MSS));
}

#[test]
fn one_damaged_acknowledgment_acknowledges_nothing() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 3);
    talk.ack(22 * MS, 500_000 * MSS);
    talk.segments(23 * MS, 3, 6);
    talk.ack(43 * MS, 6 * MSS);
    let flow = talk.finish();
    assert_eq!(fates(&flow), [Delivered; 6]);
    assert_eq!(
        (
            flow.counters.retransmitted,
            flow.counters.missed_by_capture_bytes
        ),
        (0, 0)
    );
}

#[test]
fn clocks_at_both_ends_of_time_are_survived() {
    let mut talk = Talk::new();
    talk.open(0);
    for (number, time_ns) in [i64::MIN, i64::MAX, 0, i64::MIN, -1, i64::MAX]
        .into_iter()
        .enumerate()
    {
        let number = number as u32;
        talk.segments(time_ns, number, number + 1);
        talk.ack(!time_ns, number * MSS);
        talk.segments(!time_ns, number, number + 1);
    }
    let flow = talk.finish();
    assert!(flow.segments.iter().all(|segment| segment.rtt_ns >= -1));
    assert!(flow.limited.busy_ns >= 0 && flow.limited.idle_ns >= 0);
}

fn talk_with_tiny_segments() -> Talk {
    let mut talk = Talk::new();
    let isn = talk.server_isn;
    let options = TcpOptions {
        mss: Some(1),
        ..TcpOptions::default()
    };
    let both = TcpFlags::SYN | TcpFlags::ACK;
    talk.push(
        0,
        false,
        5000,
        segment(499, 0, TcpFlags::SYN, 0, options),
        1,
    );
    let answer = segment(isn.wrapping_sub(1), 500, both, 0, options);
    talk.push(0, true, 5000, answer, 1);
    talk
}

#[test]
fn a_gap_of_fifteen_megabytes_is_not_filled_with_packets_of_one_byte() {
    let mut talk = talk_with_tiny_segments();
    talk.data(21 * MS, 0, 1);
    talk.ack(22 * MS, 1);
    talk.data(23 * MS, 15_000_000, 1);
    talk.ack(43 * MS, 15_000_001);
    let flow = talk.finish();
    assert!(flow.segments.len() < 100, "{}", flow.segments.len());
    assert_eq!(flow.counters.missed_by_capture_bytes, 14_999_999);
}

#[test]
fn gaps_are_inferred_in_proportion_to_what_was_captured() {
    let mut talk = Talk::new();
    talk.open(0);
    for number in 0..1000 {
        talk.data((21 + i64::from(number)) * MS, number * 60 * MSS, MSS);
    }
    let flow = talk.finish();
    assert!(flow.segments.len() < 3 * 1000 + 100);
}

#[test]
fn a_length_that_no_packet_has_sends_nothing() {
    let mut talk = talk_with_tiny_segments();
    talk.data(21 * MS, 0, 1);
    talk.data(22 * MS, 1, u32::MAX - 100);
    talk.data(23 * MS, 1, 65_000);
    let flow = talk.finish();
    assert!(
        flow.segments.len() <= 1 + 65_000 / 76 + 1,
        "{}",
        flow.segments.len()
    );
}

#[test]
fn a_limit_of_no_connections_still_follows_the_one_at_hand() {
    let options = TrackerOptions {
        most_without_data: 0,
        ..TrackerOptions::default()
    };
    let mut talk = Talk::with(1, options);
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    assert_eq!(fates(&talk.finish()), [Delivered]);
}

#[test]
fn a_late_packet_that_repeats_something_too_is_a_repeat() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.segments(22 * MS, 2, 3);
    talk.data(22 * MS, MSS, MSS / 2);
    talk.data(22 * MS, MSS + MSS / 2, MSS);
    talk.sack(43 * MS, 3 * MSS, &[(2 * MSS, 2 * MSS + 500)]);
    let flow = talk.finish();
    assert!(flow.counters.spurious <= flow.counters.retransmitted);
    assert_eq!(flow.counters.retransmitted, 1);
}

#[test]
fn connections_without_data_are_not_forgotten_for_those_with_data() {
    let options = TrackerOptions {
        most_without_data: 10,
        ..TrackerOptions::default()
    };
    let mut talk = Talk::with(1_000_000, options);
    for port in 1..100 {
        talk.handshake(0, port);
        let request = segment(
            500,
            talk.server_isn,
            TcpFlags::ACK,
            100,
            TcpOptions::default(),
        );
        talk.push(21 * MS, false, port, request, 3);
    }
    let tracked = talk.tracker.finish();
    assert_eq!((tracked.connections.len(), tracked.forgotten), (99, 0));
}

#[test]
fn ended_connections_give_their_slots_to_later_ones() {
    let mut talk = Talk::new();
    let options = TcpOptions::default();
    let isn = talk.server_isn;
    for number in 0..1000u16 {
        let (at, port) = (i64::from(number) * 1000 * MS, 5000 + number);
        talk.handshake(at, port);
        let flags = TcpFlags::ACK | TcpFlags::FIN;
        talk.push(
            at + 21 * MS,
            false,
            port,
            segment(500, isn, flags, 100, options),
            3,
        );
        talk.push(
            at + 22 * MS,
            true,
            port,
            segment(isn, 601, flags, 0, options),
            3,
        );
        talk.push(
            at + 42 * MS,
            false,
            port,
            segment(601, isn.wrapping_add(1), TcpFlags::ACK, 0, options),
            4,
        );
    }
    assert!(talk.tracker.slots() < 70, "{}", talk.tracker.slots());
    let tracked = talk.tracker.finish();
    assert_eq!((tracked.connections.len(), tracked.without_data), (1000, 0));
    let lost = |connection: &Connection| connection.flows[0].segments[0].is_lost();
    assert!(!tracked.connections.iter().any(lost));
}

#[test]
fn a_connection_that_goes_on_after_a_forged_reset_stays_one() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    let options = TcpOptions::default();
    let reset = segment(500, 0, TcpFlags::RST, 0, options);
    talk.push(42 * MS, false, 5000, reset, 3);
    for number in 1..100u32 {
        let at = i64::from(number) * 10_000 * MS;
        talk.segments(at, number, number + 1);
        talk.ack(at + 20 * MS, (number + 1) * MSS);
        let syn = segment(number, 0, TcpFlags::SYN, 0, options);
        talk.push(at + 30 * MS, false, 6000 + number as u16, syn, 1);
    }
    let flow = talk.finish();
    assert_eq!(fates(&flow), [Delivered; 100]);
}

/// The server's only data is window probes, and then the capture ends.
#[test]
fn a_transfer_of_nothing_but_probes_is_none() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 3);
    talk.ack(41 * MS, 3 * MSS);
    talk.request(70 * MS, 3 * MSS, 4);
    talk.ack_with(
        80 * MS,
        3 * MSS,
        Extra {
            window: Some(0),
            ..Extra::default()
        },
    );
    talk.data(320 * MS, 3 * MSS, 1);
    let flow = talk.finish();
    assert_eq!(flow.transfers.len(), 1, "{:?}", flow.transfers);
    assert_eq!(flow.account().transfers.len(), 1);
}

#[test]
fn round_trips_of_centuries_are_survived() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 2);
    talk.ack(i64::MAX, MSS);
    talk.ack(i64::MAX, 2 * MSS);
    talk.segments(i64::MAX, 2, 4);
    assert!(!talk.finish().segments.is_empty());
}

#[test]
fn a_defect_costs_its_own_connection_alone() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 3);
    talk.ack(41 * MS, 3 * MSS);
    talk.tracker.abandon_latest(7);
    talk.segments(50 * MS, 3, 5);
    talk.handshake(60 * MS, 5001);
    let (isn, options) = (talk.server_isn, TcpOptions::default());
    let request = segment(500, isn, TcpFlags::ACK, 100, options);
    talk.push(90 * MS, false, 5001, request, 3);
    let tracked = talk.tracker.finish();
    assert_eq!(tracked.connections.len(), 1);
    assert_eq!(
        (tracked.abandoned.connections, tracked.without_data),
        (1, 0)
    );
    let [note] = &tracked.abandoned.notes()[..] else {
        panic!("one note");
    };
    assert!(
        note.contains(":5000") && note.contains("at packet 7"),
        "{note}"
    );
    assert!(note.contains("a defect of whydrop"), "{note}");
}
