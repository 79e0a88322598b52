use crate::testing::*;
use crate::*;

fn hole(talk: Talk) -> Option<OpenHole> {
    talk.finish().signs?.open_hole
}

/// The second segment of the first flight arrives, the first never does; the receiver requests it.
fn without_the_first() -> Talk {
    let mut talk = Talk::new();
    talk.open(0);
    talk.data(21 * MS, MSS, 300);
    talk.sack(21 * MS, 0, &[(MSS, MSS + 300)]);
    talk
}

#[test]
fn what_never_came_before_the_capture_ended_is_an_open_hole() {
    let mut talk = without_the_first();
    talk.ack(2000 * MS, 0);
    let hole = hole(talk).expect("a hole");
    assert_eq!(hole.runs_bytes, [1000]);
    assert_eq!((hole.since_ns, hole.until_ns), (21 * MS, 2000 * MS));
}

#[test]
fn what_never_came_was_not_seen_to_be_sent() {
    let flow = without_the_first().finish();
    assert_eq!(
        (flow.segments.len(), flow.transfers[0].payload_bytes),
        (1, 300)
    );
}

#[test]
fn a_hole_that_was_filled_or_acknowledged_is_none() {
    let mut talk = without_the_first();
    talk.segments(300 * MS, 0, 1);
    assert_eq!(hole(talk), None);
    // the segment arrived, and the capture missed it
    let mut talk = without_the_first();
    talk.ack(40 * MS, MSS + 300);
    assert_eq!(hole(talk), None);
}

#[test]
fn the_position_of_a_bare_acknowledgment_shows_what_was_sent_before() {
    let mut talk = Talk::new();
    talk.open(0);
    let seen_bytes = 200;
    talk.data(21 * MS, 0, seen_bytes);
    talk.ack(21 * MS, seen_bytes);
    // the server acknowledges a second request, two segments further on
    talk.data(900 * MS, seen_bytes + 2 * MSS, 0);
    talk.ack(2000 * MS, seen_bytes);
    let hole = hole(talk).expect("a hole");
    assert_eq!((hole.runs_bytes, hole.since_ns), (vec![2000], 900 * MS));
}
