//! Endings of connections that did not fail, and which of them are reported.

use whydrop_tcp::Reset;

use super::*;
use crate::testing::{MS, delivered, flow};

/// A client asks and gets its answer 10 ms later; after `asks_again_ms` it asks again and gets its
/// acknowledgment 10 ms later.
fn connection(asks_again_ms: Option<i64>) -> Connection {
    let mut connection = Connection::default();
    let mut asked = vec![delivered(0, 10)];
    asked.extend(asks_again_ms.map(|ms| delivered(ms * MS, 10)));
    let (mut asking, mut answering) = (flow(1, asked), flow(1, vec![delivered(10 * MS, 10)]));
    (answering.source, answering.destination) = (asking.destination, asking.source);
    if let Some(ms) = asks_again_ms {
        let first = asking.transfers[0];
        asking.transfers = vec![
            whydrop_tcp::Transfer {
                end: 1,
                end_ns: 10 * MS,
                payload_bytes: 100,
                ..first
            },
            whydrop_tcp::Transfer {
                first: 1,
                end: 2,
                start_ns: ms * MS,
                end_ns: (ms + 10) * MS,
                payload_bytes: 100,
            },
        ];
    }
    connection.flows = [asking, answering];
    connection.handshake.syn_ns = Some(0);
    connection.from_start = true;
    connection
}

/// The cause and detail of the verdict if the capture continues for a minute.
fn verdict(connection: &Connection) -> Option<(String, String)> {
    let mut endings = Endings::default();
    endings.take(connection, 60_000 * MS, &mut Waits::default());
    let found = endings.verdicts().pop()?.verdict;
    Some((
        found.cause.name().to_owned(),
        found.detail.unwrap_or_default(),
    ))
}

fn reset(connection: &mut Connection, by: usize, at_ms: i64, idle_ms: i64) {
    connection.outcome = Outcome::Reset;
    connection.reset = Some(Box::new(Reset {
        by,
        time_ns: at_ms * MS,
        idle_ns: idle_ms * MS,
        packet: 7,
        ..Reset::default()
    }));
}

fn is(cause: &str, detail: &str) -> Option<(String, String)> {
    Some((cause.to_owned(), detail.to_owned()))
}

#[test]
fn a_side_that_closes_after_its_answer_waited_for_nothing() {
    let mut done = connection(None);
    done.closed_ns[0] = Some(30_000 * MS);
    assert_eq!(verdict(&done), None);
}

#[test]
fn an_abandoned_request_had_no_answer() {
    let mut asking = connection(Some(100));
    asking.closed_ns[0] = Some(2_000 * MS);
    assert_eq!(verdict(&asking), is("peer-application", "unanswered"));
    // one that closes while it asks continues to wait
    asking.closed_ns[0] = Some(112 * MS);
    assert_eq!(verdict(&asking), None);
}

#[test]
fn data_smaller_than_all_answered_requests_may_need_no_answer() {
    let mut asking = connection(Some(100));
    asking.closed_ns[0] = Some(2_000 * MS);
    asking.flows[0].transfers[1].payload_bytes = 31;
    assert_eq!(verdict(&asking), None);
}

#[test]
fn an_open_connection_that_had_answers_may_be_idle() {
    assert_eq!(verdict(&connection(Some(100))), None);
}

#[test]
fn a_request_without_any_answer_waits_to_the_end_of_the_capture() {
    let mut asking = connection(None);
    let answering = &mut asking.flows[1];
    (answering.segments, answering.transfers) = (Vec::new(), Vec::new());
    asking.flows[0].transfers[0].end_ns = 10 * MS;
    assert_eq!(verdict(&asking), is("peer-application", "unanswered"));
}

#[test]
fn occasional_writes_wait_for_no_answer() {
    let mut writing = connection(None);
    writing.flows[1].segments.clear();
    writing.flows[1].transfers.clear();
    writing.flows[0] = flow(1, vec![delivered(0, 10), delivered(5_000 * MS, 10)]);
    writing.flows[0].transfers[0].end_ns = 5_010 * MS;
    assert_eq!(verdict(&writing), None);
}

#[test]
fn a_reset_in_place_of_an_answer_is_distinguished_from_one_after_it() {
    let mut asking = connection(Some(100));
    reset(&mut asking, 1, 120, 5);
    assert_eq!(verdict(&asking), is("reset", "in-place-of-answer"));
    let mut done = connection(None);
    reset(&mut done, 1, 30, 5);
    assert_eq!(verdict(&done), None);
}

#[test]
fn only_a_reset_of_an_idle_connection_by_the_accepting_side_is_reported() {
    let mut idle = connection(None);
    reset(&mut idle, 1, 30_000, 29_000);
    assert_eq!(verdict(&idle), is("reset", "idle"));
    reset(&mut idle, 0, 30_000, 29_000);
    assert_eq!(verdict(&idle), None);
}

#[test]
fn a_stream_of_full_segments_does_not_end_by_a_reset() {
    let mut streaming = connection(None);
    let stream: Vec<_> = (0..20)
        .map(|number| delivered((10 + number) * MS, 10))
        .collect();
    let answering = &mut streaming.flows[1];
    answering.mss_bytes = Some(stream[0].payload_bytes);
    answering.transfers[0].end = stream.len();
    answering.segments = stream;
    reset(&mut streaming, 0, 40, 5);
    assert_eq!(verdict(&streaming), is("reset", "mid-stream"));
    streaming.flows[1].segments[19].payload_bytes = 500;
    assert_eq!(verdict(&streaming), None);
}

#[test]
fn data_for_a_side_that_closed_is_answered_by_a_reset() {
    let mut closing = connection(None);
    closing.closed_ns[0] = Some(5 * MS);
    reset(&mut closing, 0, 30, 5);
    closing.outcome = Outcome::Closed;
    closing.unanswered[1].bytes = 3_000;
    assert_eq!(verdict(&closing), is("reset", "after-close"));
    // a TLS alert
    closing.unanswered[1].bytes = 31;
    assert_eq!(verdict(&closing), None);
}

#[test]
fn a_connection_with_unanswered_first_syns_started_late() {
    let mut late = connection(None);
    (late.setup.syns, late.setup.syn_acks) = (3, 1);
    late.setup.first_syn_ns = Some(-3_000 * MS);
    assert_eq!(verdict(&late), is("unknown", "set-up"));
    late.setup.first_syn_ns = Some(-100 * MS);
    assert_eq!(verdict(&late), None);
}

#[test]
fn a_syn_with_ecn_to_a_host_that_drops_these_is_no_other_loss() {
    let mut late = connection(None);
    (late.setup.syns, late.setup.syn_acks) = (2, 1);
    late.setup.first_syn_ns = Some(-1_000 * MS);
    let signs = late.signs.get_or_insert_default();
    signs.ecn_withdrawn = Some(whydrop_tcp::EcnWithdrawn {
        after: 1,
        time_ns: 0,
        packet: 2,
    });
    assert_eq!(verdict(&late), is("unknown", "set-up"));
    let responder = late.flows[late.responder()].source.address;
    let mut endings = Endings::new(HashSet::from([responder]));
    endings.take(&late, 60_000 * MS, &mut Waits::default());
    assert!(endings.verdicts().is_empty());
}
