//! Conversations and the expected results of the tracker.

use proptest::prelude::*;
use whydrop_capture::{TcpFlags, TcpOptions};

use crate::testing::*;
use crate::*;

use Fate::{Delivered, Lost, Unknown};

#[test]
fn an_acknowledged_segment_is_delivered_and_measures_one_round_trip() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 4);
    talk.ack(41 * MS, 2 * MSS);
    talk.ack(45 * MS, 4 * MSS);
    let flow = talk.finish();
    assert_eq!(fates(&flow), [Delivered; 4]);
    let exact: Vec<_> = flow
        .segments
        .iter()
        .map(|s| s.flags.has(SegmentFlags::RTT_EXACT))
        .collect();
    assert_eq!(exact, [false, true, false, true]);
    assert_eq!(
        (flow.segments[1].rtt_ns, flow.segments[3].rtt_ns),
        (20 * MS, 24 * MS)
    );
    assert_eq!((flow.counters.lost, flow.counters.retransmitted), (0, 0));
    assert_eq!(flow.vantage, Vantage::Sender);
    assert_eq!((flow.window_scale, flow.mss_bytes), (Some(4), Some(MSS)));
    assert_eq!(flow.segments[3].in_flight_bytes, 4 * MSS);
    assert_eq!(flow.name(), "192.0.2.1:80 > 198.51.100.7:5000");
}

/// True if the acknowledgment of segment 1 measures its round trip, although 2 is lost and 3, sent `later_ns` later,
/// releases it.
fn measures_beside_a_hole(later_ns: i64, queue_ns: i64) -> bool {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    talk.segments(42 * MS, 1, 3);
    talk.segments(42 * MS + later_ns, 3, 4);
    talk.sack(
        62 * MS + later_ns + queue_ns,
        2 * MSS,
        &[(3 * MSS, 4 * MSS)],
    );
    let flow = talk.finish();
    assert_eq!(flow.segments[1].rtt_ns, 20 * MS + later_ns + queue_ns);
    assert!(flow.segments[3].flags.has(SegmentFlags::RTT_EXACT));
    flow.segments[1].flags.has(SegmentFlags::RTT_EXACT)
}

#[test]
fn an_acknowledgment_delayed_until_data_arrives_beyond_a_hole_measures_no_wait_on_the_path() {
    assert!(!measures_beside_a_hole(9 * MS, 0));
    assert!(!measures_beside_a_hole(9 * MS, 3 * MS));
    // most of the wait is a queue's, or the acknowledgment was not delayed
    assert!(measures_beside_a_hole(9 * MS, 12 * MS));
    assert!(measures_beside_a_hole(0, 3 * MS));
    assert!(measures_beside_a_hole(0, 0));
}

#[test]
fn a_hole_in_the_sack_blocks_that_is_repeated_at_once_is_a_loss_and_a_fast_retransmission() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 5);
    talk.ack(41 * MS, MSS);
    for (at, end) in [(41, 3), (42, 4), (43, 5)] {
        talk.sack(at * MS, MSS, &[(2 * MSS, end * MSS)]);
    }
    talk.data(43 * MS, MSS, MSS);
    talk.ack(63 * MS, 5 * MSS);
    let flow = talk.finish();
    assert_eq!(
        fates(&flow),
        [Delivered, Lost, Delivered, Delivered, Delivered, Delivered]
    );
    assert_eq!(kinds(&flow)[5], Kind::Fast);
    assert_eq!(
        (
            flow.counters.lost,
            flow.counters.spurious,
            flow.counters.duplicate_acknowledgments
        ),
        (1, 0, 3)
    );
    assert_eq!(flow.segments[4].rtt_ns, 22 * MS);
    assert_eq!(flow.sack_blocks.len(), 3);
}

#[test]
fn a_repeat_in_silence_is_a_timeout_and_one_of_the_last_segment_a_probe() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    talk.segments(42 * MS, 1, 4);
    talk.segments(92 * MS, 3, 4); // 50 ms of silence: more than two round trips, less than any timeout
    talk.segments(400 * MS, 1, 2); // the first outstanding one, after 300 ms
    talk.ack(420 * MS, 4 * MSS);
    let flow = talk.finish();
    assert_eq!(kinds(&flow)[4..], [Kind::TailLossProbe, Kind::Timeout]);
    assert_eq!(flow.counters.retransmitted_by_kind, [0, 0, 1, 1, 0]);
}

#[test]
fn a_repeat_that_is_lost_too_counts_as_a_second_loss() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 3);
    talk.sack(41 * MS, 0, &[(MSS, 3 * MSS)]);
    talk.segments(42 * MS, 0, 1);
    talk.segments(400 * MS, 0, 1);
    talk.ack(420 * MS, 3 * MSS);
    let flow = talk.finish();
    assert_eq!(fates(&flow), [Lost, Delivered, Delivered, Lost, Delivered]);
    assert_eq!(flow.counters.lost, 2);
}

#[test]
fn a_duplicate_sack_clears_the_loss_and_marks_the_repeat_spurious() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 4);
    talk.sack(41 * MS, 0, &[(MSS, 4 * MSS)]);
    talk.segments(42 * MS, 0, 1);
    talk.ack(64 * MS, 4 * MSS);
    talk.sack(65 * MS, 4 * MSS, &[(0, MSS)]);
    let flow = talk.finish();
    assert_eq!((flow.counters.lost, flow.counters.spurious), (0, 1));
    assert_eq!(fates(&flow)[0], Delivered);
    assert!(flow.sack_blocks.last().unwrap().duplicate);
}

#[test]
fn a_timestamp_echo_older_than_the_repeat_proves_that_the_original_arrived() {
    let mut talk = Talk::new();
    talk.open(0);
    let stamped = |value| Extra {
        timestamps: Some((value, 7)),
        ..Extra::default()
    };
    talk.data_with(21 * MS, 0, MSS, stamped(100));
    talk.data_with(300 * MS, 0, MSS, stamped(400));
    talk.ack_with(
        330 * MS,
        MSS,
        Extra {
            timestamps: Some((9, 100)),
            ..Extra::default()
        },
    );
    let flow = talk.finish();
    assert_eq!((flow.counters.lost, flow.counters.spurious), (0, 1));
    assert_eq!(flow.segments[0].rtt_ns, 309 * MS);
}

#[test]
fn an_answer_sooner_than_light_proves_that_the_original_arrived() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    talk.segments(50 * MS, 1, 2);
    talk.segments(300 * MS, 1, 2);
    talk.ack(305 * MS, 2 * MSS);
    let flow = talk.finish();
    assert_eq!((flow.counters.lost, flow.counters.spurious), (0, 1));
}

#[test]
fn a_segment_acknowledged_after_its_successors_without_a_repeat_was_reordered() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 4);
    talk.sack(41 * MS, 0, &[(MSS, 2 * MSS)]);
    talk.ack(42 * MS, 2 * MSS);
    talk.ack(43 * MS, 4 * MSS);
    let flow = talk.finish();
    assert_eq!((flow.counters.reordered, flow.counters.lost), (1, 0));
    assert!(flow.segments[0].flags.has(SegmentFlags::REORDERED));
}

#[test]
fn data_acknowledged_but_never_captured_was_missed_by_the_capture() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 2);
    talk.segments(21 * MS, 4, 6);
    talk.ack(41 * MS, 6 * MSS);
    let flow = talk.finish();
    assert_eq!(
        (
            flow.counters.missed_by_capture_bytes,
            flow.counters.missed_by_capture_packets
        ),
        (2000, 2)
    );
    assert_eq!(flow.counters.lost, 0);
    assert_eq!(
        flow.segments
            .iter()
            .filter(|s| s.flags.has(SegmentFlags::INFERRED))
            .count(),
        2
    );
}

#[test]
fn a_gap_filled_a_round_trip_later_was_a_loss_before_the_capture_point() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.segments(22 * MS, 2, 4);
    talk.sack(23 * MS, MSS, &[(2 * MSS, 4 * MSS)]);
    talk.segments(60 * MS, 1, 2);
    talk.ack(61 * MS, 4 * MSS);
    let flow = talk.finish();
    assert_eq!(
        fates(&flow),
        [Delivered, Lost, Delivered, Delivered, Delivered]
    );
    assert_eq!(
        (
            flow.counters.lost,
            flow.counters.retransmitted,
            flow.counters.reordered
        ),
        (1, 1, 0)
    );
}

#[test]
fn a_gap_filled_at_once_was_reordering() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.data_with(
        21 * MS,
        2 * MSS,
        MSS,
        Extra {
            identification: Some(40),
            ..Extra::default()
        },
    );
    talk.data_with(
        21 * MS + 100_000,
        MSS,
        MSS,
        Extra {
            identification: Some(39),
            ..Extra::default()
        },
    );
    talk.ack(41 * MS, 3 * MSS);
    let flow = talk.finish();
    assert_eq!(
        (
            flow.counters.lost,
            flow.counters.reordered,
            flow.counters.retransmitted
        ),
        (0, 1, 0)
    );
    assert_eq!(flow.segments.len(), 3);
    assert_eq!(flow.transfers[0].end, 3);
}

#[test]
fn a_super_segment_counts_as_the_wire_packets_that_it_became() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.data(21 * MS, 0, 4 * MSS + 300);
    talk.ack(41 * MS, 2 * MSS);
    talk.ack(42 * MS, 4 * MSS + 300);
    let flow = talk.finish();
    let sizes: Vec<_> = flow
        .segments
        .iter()
        .map(|s| (s.payload_bytes, s.header_bytes))
        .collect();
    assert_eq!(
        sizes,
        [(MSS, 40), (MSS, 40), (MSS, 40), (MSS, 40), (300, 40)]
    );
    assert_eq!(flow.counters.offloaded_super_segments, 1);
    assert!(flow.segments[0].flags.has(SegmentFlags::OFFLOADED));
}

#[test]
fn sequence_numbers_run_on_across_the_wrap() {
    let mut talk = Talk::with(u32::MAX - 1500, TrackerOptions::default());
    talk.open(0);
    talk.segments(21 * MS, 0, 5);
    talk.ack(41 * MS, 5 * MSS);
    let flow = talk.finish();
    assert_eq!(fates(&flow), [Delivered; 5]);
    assert_eq!(flow.segments[4].sequence, 4000);
}

#[test]
fn a_new_syn_on_used_ports_opens_a_new_connection() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    let options = TcpOptions::default();
    talk.push(
        60 * MS,
        false,
        5000,
        segment(90_000, 0, TcpFlags::SYN, 0, options),
        1,
    );
    talk.push(
        61 * MS,
        true,
        5000,
        segment(70_000, 90_001, TcpFlags::SYN | TcpFlags::ACK, 0, options),
        1,
    );
    talk.push(
        62 * MS,
        false,
        5000,
        segment(90_001, 70_001, TcpFlags::ACK, 10, options),
        1,
    );
    let tracked = talk.tracker.finish();
    assert_eq!(tracked.connections.len(), 2);
    assert_eq!(tracked.connections[1].flows[0].segments.len(), 1);
    assert_eq!(tracked.connections[1].flows[1].counters.retransmitted, 0);
}

#[test]
fn a_full_window_is_seen_as_the_limit() {
    let mut talk = Talk::new();
    talk.open(0);
    let narrow = |acknowledged| {
        (
            acknowledged,
            Extra {
                window: Some(4 * MSS as u16 / 16),
                ..Extra::default()
            },
        )
    };
    for round in 0..10u32 {
        let at = (21 + 20 * i64::from(round)) * MS;
        talk.segments(at, 4 * round, 4 * round + 4);
        let (acknowledged, extra) = narrow((4 * round + 4) * MSS);
        talk.ack_with(at + 19 * MS, acknowledged, extra);
    }
    let flow = talk.finish();
    assert!(flow.limited.window_ns as f64 > 0.85 * flow.limited.busy_ns as f64);
    assert_eq!(flow.counters.window_limited_packets, 9);
}

#[test]
fn data_in_the_other_direction_delimits_transfers() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 3);
    talk.ack(41 * MS, 3 * MSS);
    talk.request(50 * MS, 3 * MSS, 100);
    talk.segments(51 * MS, 3, 5);
    talk.ack(71 * MS, 5 * MSS);
    let flow = talk.finish();
    let payloads: Vec<_> = flow
        .transfers
        .iter()
        .map(|t| (t.first, t.end, t.payload_bytes))
        .collect();
    assert_eq!(payloads, [(0, 3, 3000), (3, 5, 2000)]);
    assert_eq!(flow.transfers[0].end_ns, 41 * MS);
}

#[test]
fn a_capture_that_begins_in_the_middle_knows_no_window_scale_and_invents_no_gap() {
    let mut tracker = Talk::new();
    tracker.segments(21 * MS, 1000, 1003);
    tracker.ack(41 * MS, 1003 * MSS);
    let tracked = tracker.tracker.finish();
    let flow = &tracked.connections[0].flows[0];
    assert_eq!(fates(flow), [Delivered; 3]);
    assert_eq!(
        (flow.window_scale, flow.counters.missed_by_capture_bytes),
        (None, 0)
    );
    assert!(!tracked.connections[0].from_start);
}

#[test]
fn what_is_not_acknowledged_before_the_capture_ends_stays_unknown() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 3);
    talk.ack(41 * MS, MSS);
    assert_eq!(fates(&talk.finish()), [Delivered, Unknown, Unknown]);
}

#[test]
fn a_keep_alive_is_no_retransmission() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    talk.data(10_000 * MS, MSS - 1, 1);
    let flow = talk.finish();
    assert_eq!(
        (flow.counters.keep_alives, flow.counters.retransmitted),
        (1, 0)
    );
}

#[test]
fn a_syn_flood_is_counted_and_forgotten() {
    let mut talk = Talk::with(
        1,
        TrackerOptions {
            most_without_data: 1000,
            ..TrackerOptions::default()
        },
    );
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    for number in 0..50_000u32 {
        let port = (number % 60_000) as u16 + 5001;
        let syn = segment(number, 0, TcpFlags::SYN, 0, TcpOptions::default());
        talk.push(i64::from(number), false, port, syn, 1);
    }
    let tracked = talk.tracker.finish();
    assert_eq!(tracked.connections.len(), 1);
    assert_eq!(tracked.without_data, 50_000);
    assert!(tracked.forgotten >= 48_999);
}

proptest! {
    /// Any packets in any order: no panic, and the counters are consistent.
    #[test]
    fn any_sequence_of_packets_is_survived(
        packets in proptest::collection::vec(
            (any::<bool>(), 0u32..40_000, 0u32..40_000, 0u16..64, 0u32..5_000, 0i64..50,
             proptest::collection::vec((0u32..40_000, 0u32..40_000), 0..3)),
            1..200),
        isn in any::<u32>(),
    ) {
        let mut talk = Talk::with(isn, TrackerOptions { keep_acknowledgments: true, ..TrackerOptions::default() });
        let mut now = 0;
        for (from_server, sequence, acknowledgment, flags, payload, step, sacks) in packets {
            now += (step - 5) * MS;
            let mut options = TcpOptions { timestamps: Some((sequence, acknowledgment)), ..TcpOptions::default() };
            for (slot, (a, b)) in options.sack.iter_mut().zip(&sacks) {
                *slot = (isn.wrapping_add(*a), isn.wrapping_add(*b));
                options.sack_blocks += 1;
            }
            let tcp = segment(isn.wrapping_add(sequence), isn.wrapping_add(acknowledgment), flags, payload, options);
            talk.push(now, from_server, 5000, tcp, sequence as u16);
        }
        for connection in talk.tracker.finish().connections {
            for flow in &connection.flows {
                let lost = flow.segments.iter().filter(|s| s.is_lost()).count() as u64;
                let counters = &flow.counters;
                prop_assert!(lost <= counters.lost_low && counters.lost_low <= counters.lost);
                prop_assert!(counters.lost <= counters.lost_high);
                let repeats = flow.segments.iter().filter(|s| s.kind != Kind::New).count() as u64;
                prop_assert_eq!(repeats, flow.counters.retransmitted);
                // a retransmission proves at most one loss; a spurious one proves only its own
                let needless = |s: &&Segment| s.is_lost() && s.flags.has(SegmentFlags::SPURIOUS);
                let needless = flow.segments.iter().filter(needless).count() as u64;
                prop_assert!(lost - needless + counters.spurious <= repeats);
                for transfer in &flow.transfers {
                    prop_assert!(transfer.first <= transfer.end && transfer.end <= flow.segments.len());
                }
            }
        }
    }
}
