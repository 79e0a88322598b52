//! Losses of senders without SACK: what their retransmissions prove, and what they do not.

use crate::testing::*;
use crate::*;
use Fate::{Delivered, Lost};

/// A server has sent ten segments at 21 ms; the first answers arrive at 41 ms.
fn ten_out() -> Talk {
    let mut talk = Talk::new();
    talk.sack_permitted = false;
    talk.open(0);
    talk.segments(21 * MS, 0, 10);
    talk
}

fn duplicates(talk: &mut Talk, from_ns: i64, acknowledged: u32, count: i64) {
    for number in 0..count {
        talk.ack(from_ns + number * MS / 10, acknowledged * MSS);
    }
}

fn lost(flow: &Flow) -> Vec<i64> {
    let lost = flow.segments.iter().filter(|segment| segment.is_lost());
    lost.map(|segment| segment.sequence / i64::from(MSS))
        .collect()
}

fn counts(flow: &Flow) -> (u64, u64, u64) {
    let counters = &flow.counters;
    (counters.lost, counters.lost_low, counters.lost_high)
}

#[test]
fn a_partial_acknowledgment_reveals_only_the_next_hole() {
    let mut talk = ten_out();
    // 2 and 6 are lost
    talk.ack(41 * MS, 2 * MSS);
    duplicates(&mut talk, 42 * MS, 2, 6);
    talk.segments(43 * MS, 2, 3);
    talk.ack(63 * MS, 6 * MSS);
    talk.segments(64 * MS, 6, 7);
    talk.ack(84 * MS, 10 * MSS);
    let flow = talk.finish();
    assert_eq!(lost(&flow), [2, 6]);
    assert_eq!(counts(&flow), (2, 2, 2));
}

#[test]
fn data_retransmitted_by_a_timeout_had_arrived_if_the_acknowledgment_jumps_over_it() {
    let mut talk = ten_out();
    // 0 and 5 are lost, and so is the repair of 0
    duplicates(&mut talk, 41 * MS, 0, 8);
    talk.segments(42 * MS, 0, 1);
    talk.segments(300 * MS, 0, 1);
    talk.ack(320 * MS, 5 * MSS);
    talk.segments(321 * MS, 5, 8);
    talk.ack(341 * MS, 10 * MSS);
    duplicates(&mut talk, 342 * MS, 10, 2);
    let flow = talk.finish();
    assert_eq!(lost(&flow), [0, 5, 0]);
    assert_eq!(counts(&flow), (3, 3, 3));
    assert_eq!(flow.counters.spurious, 2);
    assert_eq!(fates(&flow)[13..], [Delivered; 2], "two answers for two");
}

#[test]
fn needless_retransmissions_that_nothing_answers_were_lost_themselves() {
    let mut talk = ten_out();
    duplicates(&mut talk, 41 * MS, 0, 9);
    talk.segments(42 * MS, 0, 1);
    talk.segments(300 * MS, 0, 4);
    talk.ack(320 * MS, 10 * MSS);
    talk.segments(321 * MS, 10, 12);
    talk.ack(341 * MS, 12 * MSS);
    let flow = talk.finish();
    assert_eq!(lost(&flow), [0, 0, 1, 2, 3]);
}

#[test]
fn answers_show_how_many_needless_retransmissions_were_lost_but_not_which() {
    let mut talk = ten_out();
    duplicates(&mut talk, 41 * MS, 0, 9);
    talk.segments(42 * MS, 0, 1);
    talk.segments(300 * MS, 0, 4);
    talk.ack(320 * MS, 10 * MSS);
    duplicates(&mut talk, 321 * MS, 10, 2);
    talk.segments(322 * MS, 10, 12);
    talk.ack(342 * MS, 12 * MSS);
    let flow = talk.finish();
    assert_eq!(lost(&flow), [0, 0]);
    let (all, low, high) = counts(&flow);
    assert_eq!(all, 3);
    assert!(low < 3 && 3 < high);
    assert_eq!(flow.lost_in(&flow.transfers[0]), 3);
}

#[test]
fn two_that_one_acknowledgment_answers_were_both_lost_unless_a_duplicate_follows() {
    for (answers, expected) in [(0, &[0, 1, 2, 3, 4, 5][..]), (1, &[0])] {
        let mut talk = Talk::new();
        talk.sack_permitted = false;
        talk.open(0);
        talk.segments(21 * MS, 0, 2);
        if answers == 0 {
            talk.segments(21 * MS, 2, 6);
        }
        talk.segments(300 * MS, 0, 1);
        talk.segments(301 * MS, 1, 2);
        talk.ack(321 * MS, 2 * MSS);
        duplicates(&mut talk, 322 * MS, 2, answers);
        if answers == 0 {
            for pair in 1..3 {
                talk.segments((302 + 20 * pair) * MS, 2 * pair as u32, 2 * pair as u32 + 2);
                talk.ack((322 + 20 * pair) * MS, (2 * pair as u32 + 2) * MSS);
            }
        }
        assert_eq!(lost(&talk.finish()), expected);
    }
}

#[test]
fn a_timer_that_ran_out_too_soon_loses_nothing() {
    let mut talk = Talk::new();
    talk.sack_permitted = false;
    talk.open(0);
    talk.segments(21 * MS, 0, 1);
    talk.ack(41 * MS, MSS);
    talk.segments(50 * MS, 1, 4);
    talk.segments(300 * MS, 1, 2);
    // sooner than any round trip after the retransmission
    talk.ack(305 * MS, 2 * MSS);
    talk.ack(306 * MS, 4 * MSS);
    duplicates(&mut talk, 320 * MS, 4, 1);
    talk.segments(330 * MS, 4, 5);
    talk.ack(350 * MS, 5 * MSS);
    let flow = talk.finish();
    assert_eq!(fates(&flow), [Delivered; 6]);
    assert_eq!(counts(&flow), (0, 0, 0));
}

#[test]
fn acknowledgments_that_are_lost_make_no_losses_of_data_certain() {
    let mut talk = ten_out();
    // only 0 is lost, and so are three of nine duplicate acknowledgments
    duplicates(&mut talk, 41 * MS, 0, 6);
    talk.segments(42 * MS, 0, 1);
    talk.ack(62 * MS, 10 * MSS);
    // the same, after a timeout with needless retransmissions
    talk.segments(63 * MS, 10, 20);
    duplicates(&mut talk, 83 * MS, 10, 6);
    talk.segments(84 * MS, 10, 11);
    talk.segments(400 * MS, 10, 13);
    talk.ack(420 * MS, 20 * MSS);
    talk.segments(421 * MS, 20, 21);
    talk.ack(441 * MS, 21 * MSS);
    let flow = talk.finish();
    assert_eq!(lost(&flow), [0, 10, 10]);
    assert!(flow.counters.lost_high >= flow.counters.lost);
}

#[test]
fn behind_the_loss_what_was_seen_before_its_hole_was_filled_is_not_lost() {
    let mut talk = Talk::new();
    talk.sack_permitted = false;
    talk.open(0);
    talk.segments(21 * MS, 0, 2);
    talk.segments(22 * MS, 3, 6);
    duplicates(&mut talk, 22 * MS + MS / 2, 2, 3);
    // 2 was never captured; everything from it on is retransmitted
    talk.segments(300 * MS, 2, 6);
    talk.ack(300 * MS, 6 * MSS);
    duplicates(&mut talk, 300 * MS, 6, 3);
    let flow = talk.finish();
    assert_eq!(flow.counters.lost, 1);
    assert_eq!(lost(&flow), [2]);
    assert_eq!(flow.counters.spurious, 3);
}

#[test]
fn a_sender_that_repeats_every_other_segment_knows_what_arrived_whatever_the_capture_contains() {
    let mut talk = ten_out();
    duplicates(&mut talk, 41 * MS, 0, 5);
    for number in [0, 2, 4, 6, 8] {
        talk.segments(42 * MS, number, number + 1);
    }
    // the first is lost again
    talk.segments(63 * MS, 0, 1);
    talk.ack(83 * MS, 10 * MSS);
    let flow = talk.finish();
    assert_eq!(lost(&flow), [0, 2, 4, 6, 8, 0]);
}

#[test]
fn a_capture_that_ends_amid_a_window_loses_none_of_it() {
    let mut talk = ten_out();
    talk.ack(41 * MS, 4 * MSS);
    talk.segments(42 * MS, 10, 14);
    duplicates(&mut talk, 43 * MS, 4, 3);
    talk.segments(44 * MS, 4, 5);
    let flow = talk.finish();
    assert_eq!(fates(&flow)[4], Lost);
    assert_eq!(flow.counters.lost, 1);
}
