use std::net::TcpListener;

use super::*;
use crate::flow::Direction;
use crate::message::Report;
use crate::sample::Interval;
use crate::tcp::options;

/// A session without a control channel, with one download whose far end is the second.
fn session(spec: FlowSpec) -> (Arc<HostSession>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let near = TcpStream::connect(address).unwrap();
    let (far, _) = listener.accept().unwrap();
    options::look_up_often(&near).unwrap();
    let flow = spec.flow;
    let host = Host::new("127.0.0.1");
    let session = HostSession::new(&host, address, vec![spec], None, 0, [0; 32]).unwrap();
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
    session.heed(failure(3));
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
    session.hang_up();
}

#[test]
fn a_failure_that_the_far_end_tells_late_still_counts_once() {
    let (session, _far) = session(transfer());
    session.end_flow(3, Ending::Complete);
    assert_eq!(endings(&session), [(3, Ending::Complete)]);
    session.heed(failure(3));
    assert!(matches!(endings(&session)[..], [(3, Ending::Failed(_))]));
    assert_eq!(endings(&session), []);
}

#[test]
fn what_was_stopped_here_has_not_failed_because_it_broke_off_there() {
    let (session, _far) = session(transfer());
    session.end_flow(3, Ending::Stopped);
    session.heed(failure(3));
    assert_eq!(endings(&session), [(3, Ending::Stopped)]);
    assert_eq!(endings(&session), []);
}

#[test]
fn rows_of_flows_that_nobody_planned_are_not_taken() {
    let (session, _far) = session(transfer());
    let interval = |flow| Interval {
        flow,
        ..Interval::default()
    };
    session.heed(Reply::Report(Report {
        intervals: vec![interval(3), interval(4)],
        facts: vec![(9, "a".to_owned(), "b".to_owned())],
        ..Report::default()
    }));
    session.heed(failure(4));
    let mut taken = Taken::default();
    session.take(0, &mut taken);
    assert_eq!(taken.intervals.len(), 1);
    assert!(taken.facts.is_empty() && taken.endings.is_empty());
}
