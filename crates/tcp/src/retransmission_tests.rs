//! Why data was retransmitted, and whether that was necessary.

use whydrop_capture::{TcpFlags, TcpOptions};

use crate::testing::*;
use crate::*;
use Fate::{Delivered, Lost, Unknown};

fn stamped(value: u32) -> Extra<'static> {
    Extra {
        timestamps: Some((value, 7)),
        ..Extra::default()
    }
}

#[test]
fn an_acknowledgment_reveals_data_that_was_lost_before_this_point() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.data(21 * MS, 0, 8);
    talk.ack(41 * MS, 8);
    // the server acknowledges the next request, and has sent two bytes that were not captured
    talk.request(60 * MS, 8, 2);
    talk.data(60 * MS, 10, 0);
    talk.data(400 * MS, 8, 2);
    talk.ack(420 * MS, 10);
    let flow = talk.finish();
    assert_eq!(fates(&flow), [Delivered, Lost, Delivered]);
    assert_eq!((flow.counters.lost, flow.counters.retransmitted), (1, 1));
}

#[test]
fn an_acknowledgment_after_a_fin_reveals_no_data() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    talk.data(50 * MS, MSS + 1, 0);
    let flow = talk.finish();
    assert_eq!(fates(&flow), [Delivered]);
}

#[test]
fn data_that_an_acknowledgment_overtakes_is_late() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.data(22 * MS, 2 * MSS, 0);
    talk.segments(22 * MS + 50_000, 1, 2);
    talk.ack(42 * MS, 2 * MSS);
    let flow = talk.finish();
    assert_eq!((flow.counters.lost, flow.counters.retransmitted), (0, 0));
    assert_eq!(fates(&flow), [Delivered; 2]);
}

#[test]
fn a_hole_before_the_first_data_that_was_captured_is_a_loss_where_it_is_filled_late() {
    let mut talk = Talk::new();
    talk.handshake(0, 5000);
    talk.data(21 * MS, 100, 51);
    talk.sack(41 * MS, 0, &[(100, 151)]);
    talk.data(2_300 * MS, 0, 151);
    talk.ack(2_320 * MS, 151);
    let flow = talk.finish();
    assert_eq!((flow.counters.lost, flow.counters.retransmitted), (1, 1));
}

#[test]
fn a_delayed_acknowledgment_sent_early_for_a_hole_above_is_no_reordering() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 4);
    // segment 0 waited for a second one; 1 is lost, 2 arrives, and one acknowledgment covers both
    talk.sack(41 * MS, MSS, &[(2 * MSS, 3 * MSS)]);
    talk.sack(42 * MS, MSS, &[(2 * MSS, 4 * MSS)]);
    talk.segments(42 * MS, 1, 2);
    talk.ack(62 * MS, 4 * MSS);
    let flow = talk.finish();
    assert_eq!((flow.counters.reordered, flow.counters.lost), (0, 1));
}

#[test]
fn a_repeat_after_something_sent_later_arrived_is_fast_though_nothing_above_it_did() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 5);
    talk.sack(41 * MS, 0, &[(2 * MSS, 4 * MSS)]);
    talk.segments(42 * MS, 0, 2);
    // the retransmission of 0 arrived, that of 1 not yet; 4 was sent before both
    talk.sack(62 * MS, MSS, &[(2 * MSS, 4 * MSS)]);
    talk.segments(62 * MS, 4, 5);
    talk.ack(83 * MS, 5 * MSS);
    let flow = talk.finish();
    assert_eq!(kinds(&flow)[5..], [Kind::Fast; 3]);
    assert_eq!(flow.counters.lost, 3);
}

#[test]
fn a_repeat_that_waited_for_reordering_is_fast_and_no_timeout() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    talk.segments(42 * MS, 1, 4);
    talk.sack(62 * MS, MSS, &[(2 * MSS, 4 * MSS)]);
    // the reordering window of RACK, with the granularity of the kernel's clock: more than half a round trip
    talk.segments(74 * MS, 1, 2);
    talk.ack(94 * MS, 4 * MSS);
    let flow = talk.finish();
    assert_eq!(kinds(&flow)[4..], [Kind::Fast]);
}

#[test]
fn a_timeout_with_holes_above_is_a_timeout() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    talk.segments(42 * MS, 1, 4);
    talk.sack(62 * MS, MSS, &[(2 * MSS, 4 * MSS)]);
    talk.segments(63 * MS, 1, 2);
    talk.segments(300 * MS, 1, 2);
    talk.ack(320 * MS, 4 * MSS);
    let flow = talk.finish();
    assert_eq!(kinds(&flow)[4..], [Kind::Fast, Kind::Timeout]);
}

#[test]
fn the_only_segment_repeated_in_silence_is_a_probe_and_then_a_timeout() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    talk.segments(50 * MS, 1, 2);
    talk.segments(290 * MS, 1, 2);
    talk.segments(530 * MS, 1, 2);
    talk.ack(551 * MS, 2 * MSS);
    let flow = talk.finish();
    assert_eq!(kinds(&flow)[2..], [Kind::TailLossProbe, Kind::Timeout]);
}

#[test]
fn a_spurious_repeat_of_two_segments_in_one_clears_both() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.data_with(21 * MS, 0, 400, stamped(100));
    talk.data_with(22 * MS, 400, 400, stamped(101));
    talk.data_with(300 * MS, 0, 800, stamped(400));
    let echo = Extra {
        timestamps: Some((9, 100)),
        ..Extra::default()
    };
    talk.ack_with(330 * MS, 800, echo);
    let flow = talk.finish();
    assert_eq!(fates(&flow), [Delivered; 3]);
    assert_eq!((flow.counters.lost, flow.counters.spurious), (0, 1));
}

#[test]
fn a_duplicate_sack_for_a_repeat_already_known_as_spurious_is_no_copy_made_on_the_path() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    talk.segments(50 * MS, 1, 2);
    talk.segments(300 * MS, 1, 2);
    talk.ack(305 * MS, 2 * MSS);
    talk.sack(325 * MS, 2 * MSS, &[(MSS, 2 * MSS)]);
    talk.sack(330 * MS, 2 * MSS, &[(0, MSS)]);
    let flow = talk.finish();
    assert_eq!(
        (flow.counters.spurious, flow.counters.duplicated_on_path),
        (1, 1)
    );
}

#[test]
fn an_answer_to_a_keep_alive_of_one_old_byte_reports_no_copy() {
    let mut talk = Talk::new();
    // the connection began before the capture, which contains only keep-alives
    for at in [45_000, 90_000, 135_000, 180_000] {
        talk.data(at * MS, MSS - 1, 1);
        talk.sack((at + 20) * MS, MSS, &[(MSS - 1, MSS)]);
    }
    assert_eq!(talk.finish().counters.duplicated_on_path, 0);
}

#[test]
fn one_byte_repeated_soon_after_its_acknowledgment_is_a_retransmission() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.data(22 * MS, MSS, 1);
    talk.ack(42 * MS, MSS + 1);
    talk.data(250 * MS, MSS, 1);
    talk.sack(270 * MS, MSS + 1, &[(MSS, MSS + 1)]);
    let flow = talk.finish();
    assert_eq!(
        (flow.counters.keep_alives, flow.counters.retransmitted),
        (0, 1)
    );
    assert_eq!(
        (flow.counters.spurious, flow.counters.duplicated_on_path),
        (1, 0)
    );
}

#[test]
fn probes_of_a_closed_window_are_neither_lost_nor_retransmitted() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 2);
    let window = |bytes| Extra {
        window: Some(bytes),
        ..Extra::default()
    };
    talk.ack_with(41 * MS, 2 * MSS, window(0));
    for at in [300, 800, 1800] {
        talk.data(at * MS, 2 * MSS, 1);
        talk.ack_with((at + 20) * MS, 2 * MSS, window(0));
    }
    talk.data(3800 * MS, 2 * MSS, 1);
    // open again, and the byte was accepted
    talk.ack_with(3820 * MS, 2 * MSS + 1, window(1000));
    talk.data(3821 * MS, 2 * MSS + 1, MSS);
    talk.ack(3841 * MS, 3 * MSS + 1);
    let flow = talk.finish();
    let counters = &flow.counters;
    assert_eq!(fates(&flow), [Delivered; 3]);
    assert_eq!((counters.window_probes, counters.retransmitted), (4, 0));
    assert_eq!(counters.keep_alives, 0);
    assert_eq!((counters.lost, counters.missed_by_capture_bytes), (0, 0));
    assert_eq!(counters.packets, 8, "SYN/ACK, 3 segments, 4 probes");
}

#[test]
fn what_was_in_flight_before_the_capture_began_was_not_missed_by_it() {
    let mut talk = Talk::new();
    talk.ack(20 * MS, 1000 * MSS);
    talk.segments(21 * MS, 1040, 1043);
    talk.ack(25 * MS, 1020 * MSS);
    // lost before the capture began: needed, as far as known
    talk.segments(26 * MS, 1020, 1021);
    talk.ack(46 * MS, 1043 * MSS);
    let flow = talk.finish();
    assert_eq!(flow.counters.missed_by_capture_bytes, 0);
    assert_eq!(fates(&flow)[..3], [Delivered; 3]);
    assert_eq!(
        (flow.counters.retransmitted, flow.counters.spurious),
        (1, 0)
    );
}

#[test]
fn a_packet_that_fills_a_gap_and_goes_on_leaves_no_gap_behind() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.segments(22 * MS, 2, 3);
    talk.data(60 * MS, MSS, 2 * MSS + 500);
    talk.ack(80 * MS, 3 * MSS + 500);
    let flow = talk.finish();
    assert_eq!(flow.counters.missed_by_capture_bytes, 0);
    assert_eq!(flow.counters.lost, 2, "the gap, and the segment above it");
    let sent: u64 = flow.transfers.iter().map(|t| t.payload_bytes).sum();
    assert_eq!(sent, 3500);
}

#[test]
fn of_a_gap_filled_late_in_part_the_rest_stays_lost() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.segments(22 * MS, 2, 3);
    talk.data(22 * MS + 100_000, MSS, 400);
    talk.data(60 * MS, MSS + 400, 600);
    talk.ack(80 * MS, 3 * MSS);
    let flow = talk.finish();
    assert_eq!((flow.counters.reordered, flow.counters.lost), (1, 1));
    assert_eq!(
        flow.segments
            .iter()
            .filter(|s| s.is_lost())
            .map(|s| s.payload_bytes)
            .sum::<u32>(),
        600
    );
}

#[test]
fn a_repeated_syn_and_fin_are_no_data() {
    let mut talk = Talk::new();
    let options = TcpOptions::default();
    let syn = segment(499, 0, TcpFlags::SYN, 0, options);
    talk.push(-1000 * MS, false, 5000, syn, 1);
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    let isn = talk.server_isn;
    let fin = |sequence| {
        let flags = TcpFlags::ACK | TcpFlags::FIN;
        segment(isn.wrapping_add(sequence), 600, flags, 0, options)
    };
    talk.push(42 * MS, true, 5000, fin(MSS), 9);
    talk.push(300 * MS, true, 5000, fin(MSS), 10);
    talk.ack(320 * MS, MSS + 1);
    let flow = talk.finish();
    assert_eq!(fates(&flow), [Delivered]);
    assert_eq!(
        (
            flow.counters.retransmitted,
            flow.counters.missed_by_capture_bytes
        ),
        (0, 0)
    );
}

#[test]
fn a_retransmission_at_the_end_of_the_capture_leaves_the_original_lost() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 3);
    talk.sack(41 * MS, 0, &[(MSS, 3 * MSS)]);
    talk.segments(42 * MS, 0, 1);
    assert_eq!(fates(&talk.finish()), [Lost, Delivered, Delivered, Unknown]);
}

#[test]
fn the_last_segment_repeated_after_a_fin_without_data_was_lost() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    let sequence = talk.server_isn.wrapping_add(2 * MSS);
    let identification = talk.identification;
    talk.identification += 1;
    let flags = TcpFlags::ACK | TcpFlags::FIN;
    talk.push(
        22 * MS,
        true,
        5000,
        segment(sequence, 600, flags, 0, TcpOptions::default()),
        identification,
    );
    talk.ack(42 * MS, MSS);
    talk.segments(62 * MS, 1, 2);
    talk.ack(82 * MS, 2 * MSS + 1);
    let flow = talk.finish();
    assert_eq!(fates(&flow), [Delivered, Lost, Delivered]);
    assert_eq!((flow.counters.lost, flow.counters.retransmitted), (1, 1));
    assert_eq!(flow.counters.missed_by_capture_bytes, 0);
}

#[test]
fn data_of_the_other_side_does_not_make_a_timeout_look_fast() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    talk.segments(50 * MS, 1, 3);
    talk.request(349 * MS, MSS, 100);
    talk.segments(350 * MS, 1, 2);
    talk.ack(370 * MS, 3 * MSS);
    let flow = talk.finish();
    assert_eq!(kinds(&flow)[3..], [Kind::Timeout]);
}

#[test]
fn packets_stored_out_of_order_but_stamped_in_order_were_not_reordered() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.segments(23 * MS, 2, 4);
    talk.segments(22 * MS, 1, 2);
    talk.ack(43 * MS, 4 * MSS);
    let flow = talk.finish();
    assert_eq!(fates(&flow), [Delivered; 4]);
    assert_eq!(
        (flow.counters.reordered, flow.counters.retransmitted),
        (0, 0)
    );
}

#[test]
fn a_timeout_that_fires_too_early_is_no_reordering() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    talk.segments(50 * MS, 1, 3);
    talk.segments(300 * MS, 1, 2);
    talk.ack(305 * MS, 3 * MSS);
    let flow = talk.finish();
    assert_eq!((flow.counters.spurious, flow.counters.reordered), (1, 0));
    assert!(!flow.segments[1].flags.has(SegmentFlags::REORDERED));
}

#[test]
fn a_fast_retransmission_of_what_was_only_late_is_reordering() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 4);
    talk.sack(41 * MS, 0, &[(MSS, 4 * MSS)]);
    talk.segments(42 * MS, 0, 1);
    talk.ack(44 * MS, 4 * MSS);
    let flow = talk.finish();
    assert_eq!((flow.counters.spurious, flow.counters.reordered), (1, 1));
}

#[test]
fn one_repeat_of_many_small_segments_proves_one_loss() {
    let mut talk = Talk::new();
    talk.open(0);
    for number in 0..10 {
        talk.data((21 + i64::from(number)) * MS, number * 100, 100);
    }
    talk.data(500 * MS, 0, 1000);
    talk.ack(520 * MS, 1000);
    let flow = talk.finish();
    assert_eq!((flow.counters.lost, flow.counters.retransmitted), (1, 1));
    assert_eq!(fates(&flow)[..2], [Lost, Unknown]);
    assert_eq!(flow.segments[10].fate, Delivered);
}

/// Segments of 100 bytes without a handshake; then the data up to `missing` is absent, and arrives later in these
/// parts.
fn filled(missing: u32, parts: &[(u32, u32)]) -> Flow {
    let mut talk = Talk::new();
    talk.data(21 * MS, 1_000_000, 100);
    talk.ack(41 * MS, 1_000_100);
    talk.data(42 * MS, 1_000_100 + missing, 100);
    for (number, (start, bytes)) in (0i64..).zip(parts) {
        talk.data((300 + number) * MS, 1_000_100 + start, *bytes);
    }
    talk.ack(400 * MS, 1_000_200 + missing);
    talk.tracker.finish().connections.remove(0).flows[0].clone()
}

#[test]
fn a_gap_filled_by_one_packet_was_one_packet() {
    let flow = filled(1400, &[(0, 1400)]);
    assert_eq!((flow.counters.lost, flow.counters.retransmitted), (1, 1));
    let lost = flow
        .segments
        .iter()
        .find(|segment| segment.is_lost())
        .expect("a loss");
    assert_eq!((lost.payload_bytes, flow.segments.len()), (1400, 4));
}

#[test]
fn a_gap_filled_in_parts_was_as_many_packets() {
    let flow = filled(300, &[(0, 50), (50, 50), (100, 60), (160, 140)]);
    assert_eq!((flow.counters.lost, flow.counters.retransmitted), (4, 4));
    let lost = flow.segments.iter().filter(|segment| segment.is_lost());
    assert_eq!(lost.map(|segment| segment.payload_bytes).sum::<u32>(), 300);
    let transfer = flow.transfers[0];
    assert_eq!((transfer.first, transfer.end), (0, flow.segments.len()));
}

#[test]
fn what_was_outstanding_at_losses_has_a_mean_and_a_deviation() {
    let mut talk = Talk::new();
    talk.open(0);
    talk.segments(21 * MS, 0, 5);
    talk.sack(41 * MS, MSS, &[(2 * MSS, 3 * MSS), (4 * MSS, 5 * MSS)]);
    talk.segments(42 * MS, 1, 2);
    talk.segments(42 * MS, 3, 4);
    talk.ack(62 * MS, 5 * MSS);
    // segments 1 and 3 left with 2 and 4 segments outstanding, including themselves
    let at_loss = talk.finish().outstanding_at_loss.expect("losses");
    assert_eq!(
        (at_loss.mean_bytes, at_loss.deviation_bytes),
        (3000.0, 1000.0)
    );
}
