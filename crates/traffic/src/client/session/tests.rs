use std::net::TcpListener;

use super::*;
use crate::flow::Direction;
use crate::message::{Reply, Report};
use crate::noise;
use crate::sample::Interval;
use crate::tcp::options;

/// A session without a control channel and with one download, and the download's far end.
fn session(spec: FlowSpec) -> (Arc<HostSession>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let near = TcpStream::connect(address).unwrap();
    let (far, _) = listener.accept().unwrap();
    options::look_up_often(&near).unwrap();
    let flow = spec.flow;
    let host = Host::new("127.0.0.1");
    let session = HostSession::new(&host, address, vec![spec], None, 0, [0; 32], Instant::now());
    session.connections().insert(flow, Arc::new(near));
    (Arc::new(session), far)
}

fn transfer() -> FlowSpec {
    FlowSpec {
        payload_bytes: Some(1_000_000),
        ..FlowSpec::new(3, Kind::Tcp, Direction::Down)
    }
}

fn failure(flow: u32) -> Reply {
    Reply::Report(Report {
        endings: vec![(
            flow,
            Ending::Failed("at the responder: the disk burns".to_owned()),
        )],
        ..Report::default()
    })
}

fn endings(session: &HostSession) -> Vec<(u32, Ending)> {
    let mut taken = Taken::default();
    session.take(0, &mut taken);
    taken.endings
}

#[test]
fn a_transfer_that_has_failed_at_its_far_end_is_not_waited_for_here() {
    let (session, _far) = session(transfer());
    session.start(clock::now_ns());
    thread::sleep(Duration::from_millis(100));
    assert!(!session.is_over());
    session.apply(failure(3));
    let began = Instant::now();
    while !session.is_over() {
        assert!(began.elapsed() < Duration::from_secs(300));
        thread::sleep(Duration::from_millis(5));
    }
    let found = endings(&session);
    assert_eq!(found.len(), 1);
    let Ending::Failed(reason) = &found[0].1 else {
        panic!("{found:?}")
    };
    assert!(reason.contains("the disk burns"), "{reason}");
    session.disconnect();
}

#[test]
fn a_flow_that_ended_here_by_its_time_is_complete_whatever_a_late_responder_says_of_the_close() {
    for direction in [Direction::Down, Direction::Up] {
        let timed = FlowSpec {
            duration_s: Some(1.0),
            ..FlowSpec::new(3, Kind::Tcp, direction)
        };
        let (session, _far) = session(timed.clone());
        session.end_flow(3, Ending::Complete);
        session.apply(failure(3));
        assert_eq!(endings(&session), [(3, Ending::Complete)]);
        assert_eq!(endings(&session), []);
        let (session, _far) = self::session(timed);
        session.apply(failure(3));
        session.end_flow(3, Ending::Complete);
        assert!(matches!(endings(&session)[..], [(3, Ending::Failed(_))]));
    }
}

#[test]
fn a_failure_that_the_far_end_reports_late_counts_once() {
    let (session, _far) = session(transfer());
    session.end_flow(3, Ending::Complete);
    assert_eq!(endings(&session), [(3, Ending::Complete)]);
    session.apply(failure(3));
    assert!(matches!(endings(&session)[..], [(3, Ending::Failed(_))]));
    assert_eq!(endings(&session), []);
}

#[test]
fn what_was_stopped_here_has_not_failed_because_it_broke_off_there() {
    let (session, _far) = session(transfer());
    session.end_flow(3, Ending::Stopped);
    session.apply(failure(3));
    assert_eq!(endings(&session), [(3, Ending::Stopped)]);
    assert_eq!(endings(&session), []);
}

fn interval(flow: u32) -> Interval {
    Interval {
        flow,
        ..Interval::default()
    }
}

/// Sends reports of the only upload, then `replies`, the last of which ends the test; returns the reason and the number
/// of intervals kept.
fn put_out_by(replies: impl IntoIterator<Item = Reply>) -> (String, usize) {
    let (session, _far) = session(FlowSpec::new(3, Kind::Tcp, Direction::Up));
    session.apply(Reply::Report(Report {
        intervals: vec![interval(3)],
        ..Report::default()
    }));
    for reply in replies {
        assert_eq!(session.far_end().lost, None);
        session.apply(reply);
    }
    session.end_flow(3, Ending::Stopped);
    let reason = session.far_end().lost.expect("the session ends");
    let mut taken = Taken::default();
    session.take(0, &mut taken);
    assert_eq!(taken.endings, [(3, Ending::Failed(reason.clone()))]);
    assert!(session.stop.is_set() && session.known().finished);
    assert!(taken.facts.is_empty() && session.known().arrivals.is_empty());
    (reason, taken.intervals.len())
}

#[test]
fn rows_of_unplanned_flows_end_the_test_and_earlier_measurements_are_kept() {
    let lie = Report {
        intervals: vec![interval(3), interval(4)],
        facts: vec![(3, "a".to_owned(), "b".to_owned())],
        ..Report::default()
    };
    let (reason, kept) = put_out_by([Reply::Report(lie)]);
    for part in ["127.0.0.1", "intervals of TCP", "flow 4", "expected"] {
        assert!(reason.contains(part), "{reason}");
    }
    assert_eq!(kept, 1);
}

#[test]
fn an_unrequested_reply_ends_the_test() {
    let arrivals = Reply::Arrivals {
        flow: 7,
        ranges: vec![(0, 1); 1000],
    };
    let echo = Reply::Echo {
        sent_ns: 1,
        far_ns: 2,
    };
    for (reply, expected) in [
        (arrivals, "the arrivals of flow 7"),
        (echo, "an echo of 1"),
        (Reply::Finished, "not asked to finish"),
        (Reply::Accepted { session: 1 }, "a second answer"),
    ] {
        let (reason, kept) = put_out_by([reply]);
        assert!(reason.contains(expected), "{reason}");
        assert_eq!(kept, 1);
    }
}

#[test]
fn flows_that_looked_complete_have_failed_where_the_responder_lies_in_the_end() {
    let (session, _far) = session(FlowSpec::new(3, Kind::Tcp, Direction::Up));
    session.end_flow(3, Ending::Complete);
    assert_eq!(endings(&session), [(3, Ending::Complete)]);
    session.known().finishing = true;
    session.apply(Reply::Report(Report {
        intervals: vec![interval(4)],
        ..Report::default()
    }));
    assert!(matches!(endings(&session)[..], [(3, Ending::Failed(_))]));
    assert!(session.far_end().lost.is_some());
}

#[test]
fn a_responder_that_reports_without_end_is_hung_up_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    let spec = FlowSpec::new(3, Kind::Tcp, Direction::Up);
    let (ours, theirs) = noise::both_ends();
    let (ours, theirs) = (Arc::new(ours), Arc::new(theirs));
    let writer = Writer::new(stream.try_clone().unwrap(), ours.clone(), SILENCE).unwrap();
    let reader = Reader::new(stream.try_clone().unwrap(), ours, LONGEST_REPLY_BYTES);
    let session = Arc::new(HostSession::new(
        &Host::new("127.0.0.1"),
        far.local_addr().unwrap(),
        vec![spec],
        Some((stream, writer)),
        0,
        [7; 32],
        Instant::now(),
    ));
    session.spawn("control", move |session| session.receive_replies(reader));
    let mut writer = Writer::new(far, theirs, Duration::from_secs(300)).unwrap();
    let report = Reply::Report(Report {
        intervals: vec![interval(3); 10],
        ..Report::default()
    });
    // A hundred megabytes of rows, if all were accepted.
    let sent = (0..100_000).find(|_| writer.send(&report).is_err());
    assert!(sent.is_some(), "all rows were accepted");
    let reason = session.far_end().lost.unwrap();
    assert!(reason.contains("more than"), "{reason}");
    let mut taken = Taken::default();
    session.take(0, &mut taken);
    assert!((1..10_000).contains(&taken.intervals.len()));
}
