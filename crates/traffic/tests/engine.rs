//! Client and responder in one process over loopback: end-to-end tests of documented behaviour.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use whydrop_traffic::auth::SessionKeys;
use whydrop_traffic::channel::{Reader, Writer};
use whydrop_traffic::client::{Host, Planned, Taken, Test};
use whydrop_traffic::clock;
use whydrop_traffic::flow::{Direction, FlowSpec, Kind};
use whydrop_traffic::handshake;
use whydrop_traffic::keyring::Keyring;
use whydrop_traffic::local_end::LocalEnd;
use whydrop_traffic::message::{Reply, Request};
use whydrop_traffic::responder::{Config, Limits, Responder};
use whydrop_traffic::sample::{Ending, Fate, Interval, Sink};
use whydrop_traffic::secret::Secret;
use whydrop_traffic::stop::Stop;
use whydrop_traffic::udp::{self, FarSide, Link};

const SECRET: &str = "a secret of some length";
/// Longer than any test takes, on any machine.
const PATIENCE: Duration = Duration::from_secs(300);

struct Running {
    responder: Arc<Responder>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(secret: Option<&str>, limits: Limits) -> Running {
        let responder = Arc::new(
            Responder::bind(Config {
                addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
                port: 0,
                keyring: secret.map(|text| Keyring::new(text).unwrap()),
                limits,
                describe: Some(Box::new(|from| format!("{{\"asked_from\": \"{from}\"}}"))),
                metrics: None,
            })
            .unwrap(),
        );
        let serving = responder.clone();
        let thread = Some(thread::spawn(move || serving.run().unwrap()));
        Running { responder, thread }
    }

    fn open() -> Running {
        Running::start(None, Limits::open())
    }

    fn host(&self) -> Host {
        Host {
            port: self.responder.port(),
            ..Host::new("127.0.0.1")
        }
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.responder.port()))
    }

    fn stop(&mut self) {
        self.responder.stopper().set();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn tcp(flow: u32, direction: Direction, seconds: f64) -> FlowSpec {
    FlowSpec {
        duration_s: Some(seconds),
        interval_s: 0.1,
        ..FlowSpec::new(flow, Kind::Tcp, direction)
    }
}

fn prepare(host: &Host, specs: Vec<FlowSpec>) -> std::io::Result<Test> {
    let flows = specs
        .into_iter()
        .map(|spec| Planned { host: 0, spec })
        .collect();
    Test::prepare(std::slice::from_ref(host), flows)
}

/// Runs flows to their end and returns all measurements.
fn measured(host: &Host, specs: Vec<FlowSpec>) -> Vec<Taken> {
    let test = prepare(host, specs).unwrap();
    test.start(clock::now_ns());
    let mut taken = Vec::new();
    wait_for("the end of the flows", || {
        taken.push(test.take());
        test.is_over()
    });
    test.finish();
    taken.push(test.take());
    taken
}

/// Measures for some tenths of a second, or on a busy machine until `enough` is satisfied.
fn measured_until(
    host: &Host,
    specs: impl Fn(f64) -> Vec<FlowSpec>,
    enough: impl Fn(&[Taken]) -> bool,
) -> Vec<Taken> {
    let mut seconds = 0.65;
    loop {
        let taken = measured(host, specs(seconds));
        if enough(&taken) || seconds > 60.0 {
            return taken;
        }
        seconds *= 5.0;
    }
}

fn intervals_of(taken: &[Taken], flow: u32) -> Vec<&Interval> {
    let intervals = taken.iter().flat_map(|part| &part.intervals);
    intervals.filter(|one| one.flow == flow).collect()
}

fn bytes_of(taken: &[Taken], flow: u32) -> u64 {
    let intervals = taken.iter().flat_map(|part| &part.intervals);
    intervals
        .filter(|interval| interval.flow == flow)
        .map(|interval| interval.payload_bytes)
        .sum()
}

fn ending_of(taken: &[Taken], flow: u32) -> Ending {
    let mut endings = taken
        .iter()
        .flat_map(|part| &part.endings)
        .filter(|(number, _)| *number == flow);
    endings.next().expect("the flow has an ending").1.clone()
}

#[test]
fn transfers_of_so_many_bytes_arrive_whole_in_both_directions() {
    let running = Running::open();
    let transfer = |flow, direction| FlowSpec {
        payload_bytes: Some(3_000_000 + u64::from(flow)),
        duration_s: None,
        ..tcp(flow, direction, 0.0)
    };
    let taken = measured(
        &running.host(),
        vec![transfer(0, Direction::Up), transfer(1, Direction::Down)],
    );
    for flow in 0..2 {
        assert_eq!(ending_of(&taken, flow), Ending::Complete);
        assert_eq!(bytes_of(&taken, flow), 3_000_000 + u64::from(flow));
    }
}

#[test]
fn the_intervals_of_a_flow_follow_each_other_without_gaps_at_either_receiver() {
    let running = Running::open();
    let taken = measured_until(
        &running.host(),
        |seconds| {
            vec![
                tcp(0, Direction::Up, seconds),
                tcp(1, Direction::Down, seconds),
            ]
        },
        |taken| (0..2).all(|flow| intervals_of(taken, flow).len() >= 5),
    );
    // The far end's clock is this host's clock; on a busy machine a new estimate of its offset can be inaccurate.
    let clocks = taken.iter().flat_map(|part| &part.clocks);
    let uncertainty_ns = clocks.map(|clock| clock.uncertainty_ns).max().unwrap_or(0);
    for flow in 0..2 {
        assert_eq!(ending_of(&taken, flow), Ending::Complete);
        let intervals = intervals_of(&taken, flow);
        assert!(intervals.len() >= 5, "{}", intervals.len());
        for pair in intervals.windows(2) {
            assert!(
                (pair[0].end_ns - pair[1].start_ns).abs() < 5_000_000 + 2 * uncertainty_ns,
                "{pair:?}, with clocks known to {uncertainty_ns} ns"
            );
        }
    }
    let samples: Vec<_> = taken.iter().flat_map(|part| &part.tcp).collect();
    for flow in 0..2 {
        assert!(
            samples
                .iter()
                .any(|sample| sample.flow == flow && sample.acked_bytes > Some(0))
        );
    }
    let facts: Vec<_> = taken.iter().flat_map(|part| &part.facts).collect();
    assert!(
        facts
            .iter()
            .any(|(flow, key, _)| *flow == 1 && key == "congestion_control")
    );
}

#[test]
fn probes_are_answered_while_flows_run_and_measure_delays_in_each_direction() {
    let running = Running::start(Some(SECRET), Limits::authenticated());
    let host = Host {
        secret: Some(Secret::new(SECRET.as_bytes()).unwrap()),
        ..running.host()
    };
    let probe = FlowSpec {
        duration_s: Some(0.25),
        interval_s: 0.005,
        ..FlowSpec::new(1, Kind::Probe, Direction::Both)
    };
    let taken = measured(&host, vec![tcp(0, Direction::Up, 0.25), probe]);
    let probes: Vec<_> = taken.iter().flat_map(|part| &part.probes).collect();
    assert!(probes.len() >= 49, "{}", probes.len());
    let with = |wanted: fn(Fate) -> bool| probes.iter().filter(move |row| wanted(row.probe.fate));
    // A busy host skips overdue probes, and may answer late.
    let sent = with(|fate| fate != Fate::NotSent).count();
    let served = with(|fate| matches!(fate, Fate::Ok | Fate::Late)).count();
    assert!(sent > 0 && served * 2 > sent, "{served} of {sent}");
    let answered: Vec<_> = with(|fate| fate == Fate::Ok).collect();
    for row in answered {
        let (up_ns, down_ns) = (row.up_ns.unwrap(), row.down_ns.unwrap());
        assert!(
            (up_ns + down_ns - row.probe.rtt_ns.unwrap()).abs() <= 1,
            "{row:?}"
        );
    }
    let clocks: Vec<_> = taken.iter().flat_map(|part| &part.clocks).collect();
    // Both ends have the same clock.
    assert!(
        clocks
            .iter()
            .all(|clock| clock.offset_ns.abs() <= clock.uncertainty_ns.max(1_000_000)),
        "{clocks:?}"
    );
}

#[test]
fn a_responder_reports_for_every_kind_of_flow_what_its_client_expects() {
    let running = Running::open();
    let of_kind = |flow, kind, direction| FlowSpec {
        rate_bps: (kind != Kind::Tcp).then_some(1e6),
        interval_s: 0.02,
        packets_per_burst: Some(5),
        burst_every_s: Some(0.1),
        ..FlowSpec {
            kind,
            ..tcp(flow, direction, 0.2)
        }
    };
    let specs = vec![
        of_kind(0, Kind::Tcp, Direction::Up),
        of_kind(1, Kind::Tcp, Direction::Down),
        of_kind(2, Kind::Udp, Direction::Up),
        of_kind(3, Kind::Udp, Direction::Down),
        of_kind(4, Kind::Burst, Direction::Up),
        of_kind(5, Kind::Burst, Direction::Down),
        of_kind(6, Kind::Probe, Direction::Both),
    ];
    let flows = specs.len() as u32;
    let test = prepare(&running.host(), specs).unwrap();
    test.start(clock::now_ns() + 100_000_000);
    wait_for("the end of the flows", || test.is_over());
    test.finish();
    assert_eq!(test.far_ends()[0].lost, None);
    let taken = [test.take()];
    for flow in 0..flows {
        assert_eq!(ending_of(&taken, flow), Ending::Complete, "flow {flow}");
    }
    assert!(taken[0].bursts.iter().any(|packet| packet.flow == 4));
    // For bursts in both directions, the departure of each packet is known, and the arrival is later.
    for flow in [4, 5] {
        let left: HashMap<u64, i64> = taken[0]
            .departures
            .iter()
            .filter(|departure| departure.flow == flow)
            .map(|departure| (departure.sequence, departure.left_ns))
            .collect();
        let mut packets = taken[0].bursts.iter().filter(|packet| packet.flow == flow);
        assert!(packets.clone().count() > 0);
        assert!(packets.all(|packet| {
            let received_ns = packet.received_ns.unwrap_or(i64::MAX);
            left.get(&packet.sequence)
                .is_some_and(|left_ns| *left_ns < received_ns + 50_000_000)
        }));
    }
    assert!(bytes_of(&taken, 0) > 0 && bytes_of(&taken, 2) > 0);
}

#[test]
fn a_client_learns_why_it_is_not_served() {
    let secret = Running::start(Some(SECRET), Limits::authenticated());
    let open = Running::start(
        None,
        Limits {
            max_duration_s: 5.0,
            ..Limits::open()
        },
    );
    let wrong = Secret::new(b"another secret of some length").unwrap();
    let unknown = FlowSpec {
        congestion_control: Some("nonesuch".to_owned()),
        ..tcp(0, Direction::Down, 1.0)
    };
    let cases = [
        (
            Host {
                secret: Some(wrong.clone()),
                ..secret.host()
            },
            tcp(0, Direction::Up, 1.0),
            "different ones",
        ),
        (
            secret.host(),
            tcp(0, Direction::Up, 1.0),
            "requires a secret",
        ),
        (
            Host {
                secret: Some(wrong),
                ..open.host()
            },
            tcp(0, Direction::Up, 1.0),
            "open",
        ),
        (open.host(), tcp(0, Direction::Up, 60.0), "5 s"),
        (open.host(), unknown, "nonesuch"),
        (
            Host {
                port: 1,
                ..open.host()
            },
            tcp(0, Direction::Up, 1.0),
            "whydrop responder",
        ),
    ];
    for (host, spec, expected) in cases {
        let message = prepare(&host, vec![spec])
            .err()
            .expect("it is refused")
            .to_string();
        assert!(message.contains(expected), "{message}");
        assert!(message.starts_with("127.0.0.1"), "{message}");
    }
}

#[test]
fn a_responder_that_goes_away_ends_the_test_and_what_was_measured_stays() {
    let mut running = Running::open();
    let test = prepare(
        &running.host(),
        vec![tcp(0, Direction::Up, 60.0), tcp(1, Direction::Down, 60.0)],
    )
    .unwrap();
    test.start(clock::now_ns());
    let mut taken = Vec::new();
    wait_for("data in both directions", || {
        taken.push(test.take());
        bytes_of(&taken, 0) > 0 && bytes_of(&taken, 1) > 0
    });
    running.stop();
    wait_for("the end of the flows", || test.is_over());
    test.finish();
    taken.push(test.take());
    for flow in 0..2 {
        let Ending::Failed(reason) = ending_of(&taken, flow) else {
            panic!("flow {flow} did not fail")
        };
        assert!(reason.contains("responder"), "{reason}");
    }
}

#[test]
fn the_responder_forgets_a_client_that_vanishes() {
    let running = Running::open();
    let test = prepare(&running.host(), vec![tcp(0, Direction::Down, 60.0)]).unwrap();
    test.start(clock::now_ns());
    wait_for("the session", || {
        running.responder.statistics().sessions == 1
    });
    drop(test);
    wait_for("the end of the session", || {
        running.responder.statistics().sessions == 0
    });
}

#[test]
fn connections_that_speak_something_else_or_nothing_do_not_disturb_a_test() {
    let running = Running::open();
    let (mut taken, mut sent, mut seconds) = (Vec::new(), 0, 0.2);
    // Fifty connections during one test; on a busy machine, during a longer one.
    while sent <= 50 && seconds < 100.0 {
        (taken, sent) = test_among_cross_traffic(&running, seconds);
        seconds *= 5.0;
    }
    assert!(sent > 50, "{sent}");
    assert!(bytes_of(&taken, 0) > 0 && bytes_of(&taken, 1) > 0);
    assert_eq!(
        (ending_of(&taken, 0), ending_of(&taken, 1)),
        (Ending::Complete, Ending::Complete)
    );
    assert!(running.responder.statistics().foreign > 0);
}

/// Runs a test while other clients connect; returns its measurements and the number of connections.
fn test_among_cross_traffic(running: &Running, seconds: f64) -> (Vec<Taken>, u32) {
    let flows = vec![
        tcp(0, Direction::Up, seconds),
        tcp(1, Direction::Down, seconds),
    ];
    let test = prepare(&running.host(), flows).unwrap();
    test.start(clock::now_ns());
    let mut silent = Vec::new();
    let mut sent = 0;
    while !test.is_over() {
        let mut stream = TcpStream::connect(running.address()).unwrap();
        match sent % 3 {
            0 => silent.push(stream),
            1 => drop(stream),
            _ => {
                stream
                    .write_all(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n")
                    .unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                // Closed without an answer.
                assert!(matches!(stream.read(&mut [0; 64]), Ok(0) | Err(_)));
            }
        }
        sent += 1;
        if silent.len() > 300 {
            silent.clear();
        }
    }
    test.finish();
    (vec![test.take()], sent)
}

#[test]
fn a_full_responder_says_so() {
    let running = Running::start(
        None,
        Limits {
            max_sessions: 1,
            ..Limits::open()
        },
    );
    let _first = prepare(&running.host(), vec![tcp(0, Direction::Up, 5.0)]).unwrap();
    let message = prepare(&running.host(), vec![tcp(0, Direction::Up, 5.0)])
        .err()
        .unwrap()
        .to_string();
    assert!(message.contains("no more sessions"), "{message}");
}

#[test]
fn the_far_end_describes_itself_once_it_is_connected() {
    let running = Running::open();
    let test = prepare(&running.host(), vec![tcp(0, Direction::Up, 5.0)]).unwrap();
    wait_for("metadata", || test.far_ends()[0].metadata.is_some());
    assert_eq!(
        test.far_ends()[0].metadata.as_deref(),
        Some("{\"asked_from\": \"127.0.0.1\"}")
    );
}

#[test]
fn a_client_that_never_says_what_it_wants_takes_a_place_like_any_other() {
    let running = Running::start(
        None,
        Limits {
            max_sessions: 1,
            ..Limits::open()
        },
    );
    let mut silent = TcpStream::connect(running.address()).unwrap();
    handshake::control(&mut silent, None).unwrap();
    let message = prepare(&running.host(), vec![tcp(0, Direction::Up, 5.0)])
        .err()
        .expect("the only place is taken")
        .to_string();
    assert!(message.contains("no more sessions"), "{message}");
    drop(silent);
    wait_for("the place", || {
        prepare(&running.host(), vec![tcp(0, Direction::Up, 5.0)]).is_ok()
    });
}

#[test]
fn where_one_host_cannot_be_reached_the_others_are_let_go() {
    let running = Running::open();
    let absent = Host {
        port: 1,
        ..running.host()
    };
    let flows = (0..2)
        .map(|host| Planned {
            host,
            spec: tcp(host as u32, Direction::Up, 5.0),
        })
        .collect();
    assert!(Test::prepare(&[running.host(), absent], flows).is_err());
    wait_for("the end of the session", || {
        running.responder.statistics().sessions == 0
    });
}

#[test]
fn a_flow_may_last_as_long_as_the_responder_says() {
    let running = Running::start(
        None,
        Limits {
            max_duration_s: 0.2,
            ..Limits::open()
        },
    );
    let taken = measured(&running.host(), vec![tcp(0, Direction::Down, 0.2)]);
    assert_eq!(ending_of(&taken, 0), Ending::Complete);
}

#[test]
fn what_a_stream_up_still_holds_at_its_end_is_reported() {
    let running = Running::open();
    let stream = FlowSpec {
        rate_bps: Some(1e6),
        duration_s: Some(60.0),
        interval_s: 30.0,
        ..FlowSpec::new(0, Kind::Udp, Direction::Up)
    };
    // No event marks the arrival of the first packet, so several times are tried.
    let held = [0.1, 0.5, 5.0, 50.0].into_iter().any(|seconds| {
        let test = prepare(&running.host(), vec![stream.clone()]).unwrap();
        test.start(clock::now_ns());
        thread::sleep(Duration::from_secs_f64(seconds));
        test.finish();
        bytes_of(&[test.take()], 0) > 0
    });
    assert!(held);
}

#[test]
fn a_plan_that_cannot_be_computed_with_is_refused_before_anything_is_connected() {
    let host = Host {
        port: 1,
        ..Host::new("127.0.0.1")
    };
    let spec = FlowSpec {
        interval_s: 0.0,
        ..FlowSpec::new(7, Kind::Icmp, Direction::Both)
    };
    let message = prepare(&host, vec![spec]).err().unwrap().to_string();
    assert!(message.contains("flow 7: an interval"), "{message}");
}

fn limited_to(rate_bps: f64) -> Running {
    let limits = Limits {
        max_rate_bps: Some(rate_bps),
        ..Limits::open()
    };
    Running::start(None, limits)
}

#[test]
fn uploads_are_read_no_faster_than_the_limit_and_this_is_reported() {
    let running = limited_to(8e6);
    let specs = vec![tcp(0, Direction::Up, 0.4), tcp(1, Direction::Up, 0.4)];
    let taken = measured(&running.host(), specs);
    let intervals: Vec<_> = taken.iter().flat_map(|part| &part.intervals).collect();
    let first_ns = intervals.iter().map(|one| one.start_ns).min().unwrap();
    let last_ns = intervals.iter().map(|one| one.end_ns).max().unwrap();
    let bits: f64 = [0, 1]
        .map(|flow| bytes_of(&taken, flow) as f64 * 8.0)
        .iter()
        .sum();
    // A session may exceed its rate by a tenth of a second's worth.
    let span_s = (last_ns - first_ns) as f64 / 1e9;
    assert!(bits <= 8e6 * (span_s + 0.11), "{bits} bits in {span_s} s");
    for flow in [0, 1] {
        assert_eq!(ending_of(&taken, flow), Ending::Complete);
        assert!(bytes_of(&taken, flow) > 0);
        let mut facts = taken.iter().flat_map(|part| &part.facts);
        assert!(facts.any(|(of, key, _)| *of == flow && key == "held_back_s_by_responder"));
    }
}

#[test]
fn a_flow_below_the_limit_is_not_delayed() {
    let running = limited_to(1e9);
    let spec = FlowSpec {
        rate_bps: Some(1e6),
        ..tcp(0, Direction::Up, 0.2)
    };
    let taken = measured(&running.host(), vec![spec]);
    assert_eq!(ending_of(&taken, 0), Ending::Complete);
    let mut facts = taken.iter().flat_map(|part| &part.facts);
    assert!(!facts.any(|(_, key, _)| key.starts_with("held_")));
}

/// A far end that returns no arrivals.
struct NoFarSide;

impl FarSide for NoFarSide {
    fn arrivals(&self, _: u32) -> Option<Vec<(u64, u64)>> {
        None
    }
}

/// Opens a session's control channel for these flows without whydrop's client; also returns its number and keys.
fn opened(running: &Running, flows: Vec<FlowSpec>) -> (Writer, Reader, u64, SessionKeys) {
    let mut stream = TcpStream::connect(running.address()).unwrap();
    let opened = handshake::control(&mut stream, None).unwrap();
    let cipher = || opened.cipher.clone();
    let mut writer = Writer::new(stream.try_clone().unwrap(), cipher(), PATIENCE).unwrap();
    writer.send(&Request::Open { flows }).unwrap();
    let mut reader = Reader::new(stream, cipher(), 1 << 20);
    match reader.receive(PATIENCE).unwrap() {
        Some(Reply::Accepted { session }) => (writer, reader, session, opened.keys),
        other => panic!("the session was not accepted: {other:?}"),
    }
}

#[test]
fn a_client_that_sends_far_more_over_udp_than_it_asked_for_is_put_out() {
    let running = limited_to(1e9);
    let asked = FlowSpec {
        rate_bps: Some(1e5),
        duration_s: Some(60.0),
        ..FlowSpec::new(0, Kind::Udp, Direction::Up)
    };
    let (_writer, mut reader, token, keys) = opened(&running, vec![asked.clone()]);
    let link = Link {
        remote: running.address(),
        source: LocalEnd::default(),
        token,
        key: keys.udp,
    };
    let sent = FlowSpec {
        rate_bps: Some(5e8),
        ..asked
    };
    let (stop, sink) = (Stop::default(), Sink::default());
    thread::scope(|scope| {
        scope.spawn(|| udp::run(&sent, &link, clock::now_ns(), &stop, &sink, &NoFarSide));
        let reason = loop {
            match reader.receive(PATIENCE).unwrap() {
                Some(Reply::Ended(reason)) => break reason,
                Some(_) => {}
                None => panic!("the session goes on"),
            }
        };
        stop.set();
        assert!(
            reason.contains("far more data arrived over UDP"),
            "{reason}"
        );
    });
}

#[test]
fn requests_are_answered_no_faster_than_any_client_of_ours_needs() {
    let running = limited_to(1e9);
    let (mut writer, mut reader, ..) = opened(&running, vec![tcp(0, Direction::Up, 60.0)]);
    let began = Instant::now();
    for sent_ns in 0..1000 {
        writer.send(&Request::Echo { sent_ns }).unwrap();
    }
    let mut answers = 0;
    while answers < 1000 {
        match reader.receive(PATIENCE).unwrap() {
            Some(Reply::Echo { .. }) => answers += 1,
            Some(_) => {}
            None => panic!("the session is silent"),
        }
    }
    // 256 in each 200 ms; a busy machine takes longer.
    assert!(began.elapsed() >= Duration::from_millis(400));
}

#[test]
fn arrivals_are_reported_once_and_only_for_probe_flows() {
    let running = Running::open();
    let probe = FlowSpec {
        duration_s: Some(1.0),
        ..FlowSpec::new(1, Kind::Probe, Direction::Both)
    };
    let (mut writer, mut reader, ..) = opened(&running, vec![tcp(0, Direction::Up, 1.0), probe]);
    for flow in [1, 1, 0, 9] {
        writer.send(&Request::Arrivals { flow }).unwrap();
    }
    writer.send(&Request::Echo { sent_ns: 7 }).unwrap();
    let mut received = Vec::new();
    loop {
        match reader.receive(PATIENCE).unwrap() {
            Some(Reply::Arrivals { flow, .. }) => received.push(flow),
            Some(Reply::Echo { .. }) => break,
            Some(_) => {}
            None => panic!("the session is silent"),
        }
    }
    assert_eq!(received, [1]);
}

#[test]
fn all_connections_of_a_test_leave_from_the_address_that_was_named() {
    let running = Running::open();
    let host = Host {
        source: LocalEnd {
            address: Some("127.0.0.9".parse().unwrap()),
            interface: Some("lo".to_owned()),
        },
        ..running.host()
    };
    let probe = FlowSpec {
        duration_s: Some(0.2),
        interval_s: 0.02,
        ..FlowSpec::new(1, Kind::Probe, Direction::Both)
    };
    let test = prepare(&host, vec![tcp(0, Direction::Up, 0.2), probe]).unwrap();
    test.start(clock::now_ns());
    wait_for("the end of the flows", || test.is_over());
    test.finish();
    let taken = [test.take()];
    assert_eq!(ending_of(&taken, 0), Ending::Complete);
    assert_eq!(ending_of(&taken, 1), Ending::Complete);
    let facts = &taken[0].facts;
    assert!(
        facts
            .iter()
            .any(|(_, key, value)| key == "sender" && value.starts_with("127.0.0.9:"))
    );
    let received = test.far_ends().remove(0).metadata.unwrap();
    assert!(received.contains("127.0.0.9"), "{received}");
}

/// The reason for which the responder ends a session, without reading anything else.
fn reason_of(reader: &mut Reader) -> String {
    loop {
        match reader.receive(PATIENCE).unwrap() {
            Some(Reply::Ended(reason)) => return reason,
            Some(_) => {}
            None => panic!("the session goes on"),
        }
    }
}

#[test]
fn an_open_session_without_an_active_flow_ends_though_its_client_echoes() {
    let idle_for = |max_idle_s| Limits {
        max_idle_s: Some(max_idle_s),
        ..Limits::open()
    };
    let running = Running::start(None, idle_for(0.3));
    let (mut writer, mut reader, ..) = opened(&running, vec![tcp(0, Direction::Up, 60.0)]);
    // The client shows that it is running.
    writer.send(&Request::Echo { sent_ns: 1 }).unwrap();
    let reason = reason_of(&mut reader);
    assert!(reason.contains("no flow was active"), "{reason}");
    wait_for("the place", || running.responder.statistics().sessions == 0);
    assert_eq!(running.responder.statistics().idle, 1);
}

#[test]
fn sessions_with_an_active_flow_of_any_kind_are_not_idle() {
    let running = Running::start(
        None,
        Limits {
            max_idle_s: Some(4.0),
            ..Limits::open()
        },
    );
    let kinds = [
        (Kind::Probe, Direction::Both),
        (Kind::Udp, Direction::Down),
        (Kind::Tcp, Direction::Down),
    ];
    // Each in a session of its own.
    thread::scope(|scope| {
        for (kind, direction) in kinds {
            let host = running.host();
            scope.spawn(move || {
                let spec = FlowSpec {
                    duration_s: Some(6.0),
                    rate_bps: Some(1e5),
                    ..FlowSpec::new(0, kind, direction)
                };
                let taken = measured(&host, vec![spec]);
                assert_eq!(ending_of(&taken, 0), Ending::Complete);
            });
        }
    });
    assert_eq!(running.responder.statistics().idle, 0);
}

#[test]
fn a_network_leaves_half_of_the_sessions_to_others() {
    let running = Running::open();
    let from = |address: &str| Host {
        source: LocalEnd {
            address: Some(address.parse().unwrap()),
            ..LocalEnd::default()
        },
        ..running.host()
    };
    let plan = || vec![tcp(0, Direction::Up, 5.0)];
    let of_network: Vec<Test> = (1..=4)
        .map(|host| prepare(&from(&format!("127.0.0.{host}")), plan()).unwrap())
        .collect();
    let message = prepare(&from("127.0.0.9"), plan()).err().unwrap();
    assert!(message.to_string().contains("its network"), "{message}");
    assert!(prepare(&from("127.0.1.1"), plan()).is_ok());
    drop(of_network);
    wait_for("the place", || prepare(&from("127.0.0.9"), plan()).is_ok());
}

#[test]
fn a_client_that_never_reads_does_not_keep_its_place() {
    let running = Running::start(
        None,
        Limits {
            max_idle_s: Some(0.3),
            ..Limits::open()
        },
    );
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(2048).unwrap();
    socket.connect(&running.address().into()).unwrap();
    let mut stream = TcpStream::from(socket);
    let opened = handshake::control(&mut stream, None).unwrap();
    let mut writer = Writer::new(stream.try_clone().unwrap(), opened.cipher, PATIENCE).unwrap();
    let flows = vec![tcp(0, Direction::Up, 60.0)];
    writer.send(&Request::Open { flows }).unwrap();
    for sent_ns in 0..1000 {
        writer.send(&Request::Echo { sent_ns }).unwrap();
    }
    wait_for("the place", || running.responder.statistics().sessions == 0);
    drop(stream);
}
