//! Outcomes of connections.

use whydrop_capture::{TcpFlags, TcpOptions};

use crate::testing::*;
use crate::*;

fn bare(flags: u16, sequence: u32, acknowledgment: u32) -> whydrop_capture::TcpSegment<'static> {
    segment(sequence, acknowledgment, flags, 0, TcpOptions::default())
}

#[test]
fn unanswered_syns_are_counted_and_timed() {
    let mut talk = Talk::new();
    for time_s in [0, 1, 3, 7] {
        talk.push(
            time_s * 1000 * MS,
            false,
            5000,
            bare(TcpFlags::SYN, 499, 0),
            1,
        );
    }
    let tracked = talk.tracker.finish();
    assert_eq!((tracked.without_data, tracked.failed.no_answer), (1, 1));
    let connection = &tracked.failed.kept[0];
    assert_eq!(connection.outcome, Outcome::NoAnswer);
    let setup = connection.setup;
    assert_eq!((setup.syns, setup.syn_acks), (4, 0));
    assert_eq!(
        (setup.first_syn_ns, setup.last_syn_ns),
        (Some(0), Some(7000 * MS))
    );
    assert_eq!(
        connection.flows[0].name(),
        "198.51.100.7:5000 > 192.0.2.1:80"
    );
}

#[test]
fn one_syn_at_the_end_of_a_capture_has_not_failed() {
    let mut talk = Talk::new();
    talk.push(0, false, 5000, bare(TcpFlags::SYN, 499, 0), 1);
    let tracked = talk.tracker.finish();
    assert_eq!((tracked.without_data, tracked.failed.count()), (1, 0));
}

#[test]
fn a_reset_in_answer_to_a_syn_is_a_refusal() {
    let mut talk = Talk::new();
    talk.push(0, false, 5000, bare(TcpFlags::SYN, 499, 0), 1);
    talk.push(
        MS,
        true,
        5000,
        bare(TcpFlags::RST | TcpFlags::ACK, 0, 500),
        0,
    );
    let tracked = talk.tracker.finish();
    assert_eq!(
        (tracked.failed.refused, tracked.failed.kept[0].outcome),
        (1, Outcome::Refused)
    );
}

#[test]
fn a_reset_from_another_distance_after_a_long_silence_is_reported() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 2);
    talk.ack(41 * MS, 2 * MSS);
    talk.client_ttl = 60;
    let acknowledgment = talk.server_isn + 2 * MSS;
    talk.push(
        300_041 * MS,
        false,
        5000,
        bare(TcpFlags::RST, 600, acknowledgment),
        77,
    );
    let connection = talk.finish_connection();
    let reset = connection.reset.expect("a reset");
    assert_eq!((connection.outcome, reset.by), (Outcome::Reset, 0));
    assert_eq!(
        (reset.ttl, reset.usual_ttls, reset.idle_ns),
        (60, Some((53, 53)), 300_000 * MS)
    );
    assert_eq!(
        (reset.identification, reset.previous_identification),
        (Some(77), Some(9))
    );
    assert!(reset.is_from_elsewhere() && !reset.answers_syn);
}

#[test]
fn data_that_is_repeated_into_silence_has_no_answer() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    for time_ms in [50, 300, 800, 1800] {
        talk.segments(time_ms * MS, 1, 2);
    }
    let connection = talk.finish_connection();
    assert_eq!(connection.outcome, Outcome::DataUnanswered);
    let unanswered = connection.unanswered[1];
    assert_eq!((unanswered.repeats, unanswered.bytes), (3, u64::from(MSS)));
    assert_eq!(unanswered.last_answer_ns, Some(41 * MS));
    assert_eq!(unanswered.last_sent_ns, 1800 * MS);
    // three retransmissions, of which the last may have arrived
    assert_eq!(connection.flows[1].counters.lost, 3);
}

#[test]
fn an_answer_between_repeats_shows_that_the_peer_lives() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 4);
    for time_ms in [300, 800, 1800] {
        talk.sack((time_ms - 1) * MS, 0, &[(MSS, 2 * MSS)]);
        talk.segments(time_ms * MS, 0, 1);
    }
    let connection = talk.finish_connection();
    assert_eq!(
        (connection.outcome, connection.unanswered[1].repeats),
        (Outcome::Open, 1)
    );
}

#[test]
fn a_flood_of_failures_is_counted_and_some_are_kept() {
    let options = TrackerOptions {
        most_without_data: 100,
        most_failed: 10,
        ..TrackerOptions::default()
    };
    let mut talk = Talk::with(1, options);
    for number in 0..5000u32 {
        let (at, port) = (i64::from(number), number as u16);
        talk.push(at, false, port, bare(TcpFlags::SYN, number, 0), 1);
        talk.push(
            at,
            true,
            port,
            bare(TcpFlags::RST | TcpFlags::ACK, 0, number + 1),
            0,
        );
    }
    let tracked = talk.tracker.finish();
    assert_eq!((tracked.without_data, tracked.failed.refused), (5000, 5000));
    assert_eq!(tracked.failed.kept.len(), 10);
}

/// A handshake with these ECN bits in its SYN and SYN/ACK, then segments and acknowledgments with these.
fn with_ecn(syn: u16, syn_ack: u16, acknowledgments: &[u16]) -> Connection {
    let mut talk = Talk::new();
    let isn = talk.server_isn;
    let both = TcpFlags::SYN | TcpFlags::ACK;
    talk.push(0, false, 5000, bare(TcpFlags::SYN | syn << 6, 499, 0), 1);
    talk.push(0, true, 5000, bare(both | syn_ack << 6, isn - 1, 500), 1);
    // the last packet of the handshake reports that the SYN/ACK was not marked
    talk.push(
        20 * MS,
        false,
        5000,
        bare(TcpFlags::ACK | 0b010 << 6, 500, isn),
        2,
    );
    for (number, ace) in (0u32..).zip(acknowledgments) {
        let at = (21 + 20 * i64::from(number)) * MS;
        talk.data(at, 2 * number * MSS, MSS);
        talk.data(at, (2 * number + 1) * MSS, MSS);
        let acknowledged = isn + 2 * (number + 1) * MSS;
        talk.push(
            at + 19 * MS,
            false,
            5000,
            bare(TcpFlags::ACK | ace << 6, 500, acknowledged),
            3,
        );
    }
    talk.finish_connection()
}

#[test]
fn the_bits_of_accurate_ecn_are_a_count_and_no_echoes() {
    let connection = with_ecn(0b111, 0b010, &[5, 5, 7, 1, 2, 2]);
    assert_eq!(connection.ecn_offered, Ecn::Accurate);
    let flow = &connection.flows[1];
    assert_eq!(
        (
            flow.ecn,
            flow.counters.ce_reported,
            flow.counters.ecn_echoes
        ),
        (Ecn::Accurate, 5, 0)
    );
}

#[test]
fn the_same_bits_of_classic_ecn_are_echoes() {
    let flow = &with_ecn(0b011, 0b001, &[0, 1, 1, 0]).flows[1];
    assert_eq!(
        (
            flow.ecn,
            flow.counters.ecn_echoes,
            flow.counters.ce_reported
        ),
        (Ecn::Classic, 2, 0)
    );
    let echoes = flow.acknowledgments.iter().map(|one| one.ecn_echo);
    assert_eq!(echoes.filter(|echo| *echo).count(), 2);
    // the second acknowledgment is the first to report congestion, and the last packet that it covers was marked
    let echoed = |segment: &Segment| segment.flags.has(SegmentFlags::CE_ECHOED);
    let marked: Vec<usize> = (0..8).filter(|&n| echoed(&flow.segments[n])).collect();
    assert_eq!(marked, [3]);
}

#[test]
fn a_capture_that_begins_later_recognises_accurate_ecn_by_its_own_bit() {
    let mut talk = Talk::new();
    let isn = talk.server_isn;
    for (number, ace) in (0u32..).zip([1u16, 1, 4, 6]) {
        let at = (21 + 20 * i64::from(number)) * MS;
        talk.data(at, number * MSS, MSS);
        let acknowledged = isn + (number + 1) * MSS;
        let acknowledgment = bare(TcpFlags::ACK | ace << 6, 500, acknowledged);
        talk.push(at + 19 * MS, false, 5000, acknowledgment, 3);
    }
    let connection = talk.finish_connection();
    let counters = &connection.flows[0].counters;
    assert_eq!(connection.flows[0].ecn, Ecn::Accurate);
    assert_eq!((counters.ecn_echoes, counters.ce_reported), (0, 2));
}

#[test]
fn bits_without_an_agreement_say_nothing() {
    let flow = &with_ecn(0b011, 0b000, &[1, 1]).flows[1];
    assert_eq!((flow.ecn, flow.counters.ecn_echoes), (Ecn::Off, 0));
}

#[test]
fn a_host_that_continues_after_a_reset_is_reported() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 2);
    talk.ack(41 * MS, 2 * MSS);
    let reset = bare(TcpFlags::RST, talk.client_next, 0);
    talk.push(50 * MS, false, 5000, reset, 0);
    // in flight when the reset left
    talk.request(60 * MS, 2 * MSS, 10);
    talk.request(500 * MS, 2 * MSS, 10);
    let reset = talk.finish_connection().reset.expect("a reset");
    assert_eq!((reset.packets_after, reset.first_after), (1, Some(10)));
    assert!(reset.is_from_elsewhere() && !reset.has_other_distance());
}

#[test]
fn a_reset_without_ack_that_takes_up_the_acknowledgment_knows_no_connection() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    talk.segments(60_000 * MS, 1, 2);
    let reset = bare(TcpFlags::RST, talk.client_next, 0);
    talk.push(60_020 * MS, false, 5000, reset, 0);
    let connection = talk.finish_connection();
    assert!(
        connection
            .reset
            .as_ref()
            .expect("a reset")
            .knows_no_connection
    );
    let pause = connection.pauses().unanswered.expect("a pause");
    assert_eq!((pause.idle_ns, pause.by), ((60_000 - 41) * MS, 1));
}

#[test]
fn a_pause_that_was_survived_is_remembered() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    talk.segments(7_041 * MS, 1, 2);
    talk.ack(7_061 * MS, 2 * MSS);
    let pauses = talk.finish_connection().pauses();
    assert_eq!(
        (pauses.unanswered, pauses.longest_answered_ns),
        (None, 7_000 * MS)
    );
}

#[test]
fn data_repeated_into_silence_and_answered_at_last_is_a_silence() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    for time_ms in [50, 300, 800, 1800] {
        talk.segments(time_ms * MS, 1, 2);
    }
    talk.ack(1820 * MS, 2 * MSS);
    let flow = &talk.finish_connection().flows[1];
    let [silence] = flow.silences() else {
        panic!("{:?}", flow.silences())
    };
    assert_eq!((silence.since_ns, silence.sent_ns), (50 * MS, 1800 * MS));
    assert_eq!((silence.until_ns, silence.repeats), (1820 * MS, 3));
    assert_eq!(silence.packets.len(), 3);
    assert_eq!(flow.unanswered_since_ns(), None);
}

#[test]
fn an_icmp_error_goes_to_its_connection_unless_it_quotes_what_was_never_near() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    for sequence in [talk.server_isn, talk.server_isn.wrapping_add(1 << 31)] {
        talk.too_big(22 * MS, sequence, 900);
    }
    let flow = &talk.finish_connection().flows[1];
    let [notice] = flow.notices() else {
        panic!("{:?}", flow.notices())
    };
    assert_eq!(
        (notice.count, notice.mtu_bytes, notice.direction),
        (1, Some(900), 1)
    );
}

#[test]
fn blocks_that_report_what_was_never_sent_are_counted() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 4);
    talk.sack(41 * MS, MSS, &[(2 * MSS, 3 * MSS)]);
    talk.sack(42 * MS, MSS, &[(0x2000_0000, 0x2000_0000 + MSS)]);
    let sack = talk.finish_connection().flows[1].sack();
    assert_eq!((sack.blocks, sack.outside), (2, 1));
}

#[test]
fn a_hole_repaired_after_duplicate_acknowledgments_without_blocks_is_counted() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 5);
    talk.ack(41 * MS, MSS);
    for time_ms in [42, 43, 44] {
        talk.ack(time_ms * MS, MSS);
    }
    talk.segments(45 * MS, 1, 2);
    talk.ack(65 * MS, 5 * MSS);
    assert_eq!(talk.finish_connection().flows[1].sack().holes_without, 1);
}

#[test]
fn who_acknowledges_had_answers_though_none_was_captured() {
    let mut talk = Talk::new();
    talk.push(0, false, 5000, bare(TcpFlags::SYN, 499, 0), 1);
    for count in 0..=20 {
        let acknowledgment = 77_001 + 1000 * count;
        let at_ns = 20 * MS + i64::from(count) * 500 * MS;
        talk.push(
            at_ns,
            false,
            5000,
            bare(TcpFlags::ACK, 500, acknowledgment),
            2,
        );
    }
    let tracked = talk.tracker.finish();
    assert_eq!((tracked.without_data, tracked.failed.count()), (1, 0));
    let unseen = &tracked.unseen;
    assert_eq!((unseen.flows, unseen.bytes), (1, 20_000));
    let (source, destination) = unseen.named[0];
    assert_eq!((source.port, destination.port), (80, 5000));
}

#[test]
fn new_data_after_retransmissions_shows_that_answers_took_another_path() {
    for goes_on in [false, true] {
        let mut talk = Talk::new();
        talk.data(0, 0, MSS);
        for time_ms in [300, 900, 2100] {
            talk.data(time_ms * MS, 0, MSS);
        }
        if goes_on {
            talk.data(2200 * MS, MSS, MSS);
        }
        let outcome = talk.finish_connection().outcome;
        let expected = [Outcome::DataUnanswered, Outcome::Open][usize::from(goes_on)];
        assert_eq!(outcome, expected);
    }
}
