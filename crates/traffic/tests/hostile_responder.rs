//! A client and responders that lie, close, stay silent or are slow at each step of a session, over loopback.
//!
//! No lie is believed, and none keeps the client for longer than it waits for an honest responder.

#[path = "hostile/far.rs"]
mod far;

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use far::{Channel, Lie, Then, lying, proceed};
use whydrop_traffic::client::{Host, Planned, Taken, Test};
use whydrop_traffic::clock;
use whydrop_traffic::flow::{Direction, FlowSpec, Kind};
use whydrop_traffic::hello::{self, Greeting, ResponderHello};
use whydrop_traffic::message::{Reply, Report};
use whydrop_traffic::sample::{BurstPacket, Datagrams, Ending, Interval, TcpSample};

/// Longer than anything takes, on any machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A name, the lie, and a part of the line that the user reads.
type Scenario = (&'static str, Lie, Then, &'static str);

/// A responder that closes the connection after its lie.
fn closing(name: &'static str, lie: Lie, expected: &'static str) -> Scenario {
    (name, lie, Then::Close, expected)
}

/// A responder that is silent after its lie.
fn waiting(name: &'static str, lie: Lie, expected: &'static str) -> Scenario {
    (name, lie, Then::Wait, expected)
}

/// A responder that lies in a report.
fn report(
    name: &'static str,
    lie: fn(&mut Channel) -> Vec<u8>,
    expected: &'static str,
) -> Scenario {
    waiting(name, Lie::Run(lie), expected)
}

/// A responder that sends a byte every two seconds.
fn slow(name: &'static str, lie: Lie, expected: &'static str) -> Scenario {
    (name, lie, Then::Drip, expected)
}

/// An upload and a download by TCP; with a long duration also UDP, which would fail at its end by itself.
fn plan(duration_s: f64) -> Vec<Planned> {
    let flow = |number, kind, direction| FlowSpec {
        duration_s: Some(duration_s),
        rate_bps: Some(1e6),
        packet_payload_bytes: Some(1250),
        packets_per_burst: Some(10),
        ..FlowSpec::new(number, kind, direction)
    };
    let specs = [
        flow(0, Kind::Tcp, Direction::Up),
        flow(1, Kind::Udp, Direction::Up),
        flow(2, Kind::Burst, Direction::Up),
        flow(3, Kind::Probe, Direction::Both),
        flow(4, Kind::Tcp, Direction::Down),
    ];
    let is_wanted = |spec: &FlowSpec| spec.kind == Kind::Tcp || duration_s > 10.0;
    let wanted = specs.into_iter().filter(is_wanted);
    wanted.map(|spec| Planned { host: 0, spec }).collect()
}

/// Runs a test until it ends.
fn run(host: &Host, duration_s: f64) -> io::Result<(Taken, Option<String>)> {
    let test = Test::prepare(std::slice::from_ref(host), plan(duration_s))?;
    test.start(clock::now_ns());
    let began = Instant::now();
    while !test.is_over() {
        assert!(began.elapsed() < PATIENCE, "the test does not end");
        thread::sleep(Duration::from_millis(10));
    }
    test.finish();
    Ok((test.take(), test.far_ends()[0].lost.clone()))
}

/// Checks that the test of one scenario fails, with the expected line, and that nothing of the lie is kept.
fn check(&(name, lie, then, expected): &Scenario) {
    // Tests that a lie does not end last for a few tenths of a second.
    let duration_s = match lie {
        Lie::Finish(_) => 0.3,
        _ => 3600.0,
    };
    let line = match run(&lying(lie, then), duration_s) {
        Err(error) => error.to_string(),
        Ok((taken, lost)) => {
            let line = lost.unwrap_or_else(|| panic!("{name}: the responder is believed"));
            let planned = plan(duration_s).len();
            assert_eq!(taken.endings.len(), planned, "{name}: {:?}", taken.endings);
            for (flow, ending) in &taken.endings {
                let Ending::Failed(reason) = ending else {
                    panic!("{name}: flow {flow} has not failed")
                };
                assert!(reason.contains(expected), "{name}: flow {flow}: {reason}");
            }
            let is_upload = |interval: &Interval| interval.flow != 4;
            assert!(!taken.intervals.iter().any(is_upload), "{name}");
            assert!(taken.tcp.iter().all(|sample| sample.flow == 0), "{name}");
            assert_eq!(taken.bursts, [], "{name}");
            line
        }
    };
    assert!(line.contains(expected), "{name}: {line}");
    assert!(
        line.len() < 1000 && !line.contains(char::is_control),
        "{name}: {line}"
    );
}

#[test]
fn no_lie_of_a_responder_is_believed_and_none_holds_the_client_up() {
    let scenarios = [
        in_the_hello(),
        in_the_answer(),
        in_the_plan(),
        on_data_connections(),
        on_a_running_channel(),
        in_reports(),
        in_more_reports(),
        at_the_end(),
    ];
    // All at the same time, since many of them wait.
    thread::scope(|scope| {
        for scenario in scenarios.iter().flatten() {
            scope.spawn(move || check(scenario));
        }
    });
}

fn refusal(greeting: Greeting) -> Vec<u8> {
    ResponderHello::refusal(greeting).encode().to_vec()
}

fn in_the_hello() -> Vec<Scenario> {
    let closes = "closes the connection";
    let silent = "does not answer";
    let foreign = "not a whydrop responder";
    let faulty = "the responder's handshake is invalid";
    vec![
        closing("nothing", Lie::Hello(|_| vec![]), closes),
        waiting("silence", Lie::Hello(|_| vec![]), silent),
        waiting(
            "another protocol",
            Lie::Hello(|_| b"SSH-2.0-x\r\n".to_vec()),
            foreign,
        ),
        closing(
            "half a hello",
            Lie::Hello(|_| proceed([7; 48])[..30].to_vec()),
            closes,
        ),
        waiting(
            "half a hello, then silence",
            Lie::Hello(|_| proceed([7; 48])[..30].to_vec()),
            silent,
        ),
        slow("slow", Lie::Hello(|_| proceed([7; 48]).to_vec()), silent),
        waiting(
            "an earlier version",
            Lie::Hello(|_| hello::hello_of_version(3).to_vec()),
            "update whydrop there",
        ),
        waiting(
            "a later version",
            Lie::Hello(|_| hello::hello_of_version(200).to_vec()),
            "update whydrop here",
        ),
        waiting(
            "an unknown greeting",
            Lie::Hello(|_| [b"whydrop\x05\xff".to_vec(), vec![0; 55]].concat()),
            foreign,
        ),
        waiting(
            "a secret is required",
            Lie::Hello(|_| refusal(Greeting::NeedsSecret)),
            "--secret-file",
        ),
        waiting(
            "no secret is required",
            Lie::Hello(|_| refusal(Greeting::IsOpen)),
            "omit the secret",
        ),
        waiting(
            "too many clients",
            Lie::Hello(|_| refusal(Greeting::Crowded)),
            "try again",
        ),
        waiting(
            "garbage in the handshake",
            Lie::Hello(|_| proceed([7; 48]).to_vec()),
            faulty,
        ),
        waiting(
            "a point of low order",
            Lie::Hello(|_| proceed([0; 48]).to_vec()),
            faulty,
        ),
        waiting(
            "the client's own key",
            Lie::Hello(|client| {
                let mut opening = [0; 48];
                opening[..32].copy_from_slice(&client.opening);
                proceed(opening).to_vec()
            }),
            faulty,
        ),
    ]
}

fn in_the_answer() -> Vec<Scenario> {
    let silent = "does not answer";
    vec![
        closing("nothing", Lie::Answer(|_| vec![]), "closes the connection"),
        waiting("silence", Lie::Answer(|_| vec![]), silent),
        waiting("garbage", Lie::Answer(|_| vec![7; 49]), "altered or forged"),
        slow(
            "slow",
            Lie::Answer(|cipher| cipher.seal(0, &[0; 33]).unwrap()),
            silent,
        ),
        waiting(
            "an unknown status",
            Lie::Answer(|cipher| cipher.seal(0, &[77; 33]).unwrap()),
            "unknown status 77",
        ),
        waiting(
            "no room",
            Lie::Answer(|cipher| cipher.seal(0, &[2; 33]).unwrap()),
            "accepts no more sessions",
        ),
        waiting(
            "an answer of a later place",
            Lie::Answer(|cipher| cipher.seal(1, &[0; 33]).unwrap()),
            "altered or forged",
        ),
    ]
}

/// Words that would clear a terminal, on many lines.
fn shouted() -> String {
    "\x1b[2J\nno\r\u{9b}1m".repeat(50_000)
}

fn in_the_plan() -> Vec<Scenario> {
    let silent = "no answer from the responder for 20 s";
    vec![
        closing("nothing", Lie::Plan(|_| vec![]), "closed the connection"),
        waiting("silence", Lie::Plan(|_| vec![]), silent),
        slow(
            "slow",
            Lie::Plan(|far| far.frames(&Reply::Accepted { session: 7 })),
            silent,
        ),
        waiting(
            "a forged frame",
            Lie::Plan(|_| [vec![0, 30], vec![7; 30]].concat()),
            "wrong authentication code",
        ),
        waiting(
            "a long frame",
            Lie::Plan(|far| far.frame(&u32::MAX.to_be_bytes())),
            "at most 1048576",
        ),
        waiting(
            "an empty frame",
            Lie::Plan(|far| far.frame(&[])),
            "an empty frame",
        ),
        waiting(
            "a frame without length",
            Lie::Plan(|far| far.frame(&[0])),
            "without its length",
        ),
        waiting(
            "no message",
            Lie::Plan(|far| far.payload(&[0xff; 100])),
            "no valid message",
        ),
        waiting(
            // Arrivals of flow 0 with 2^63 ranges.
            "a list without end",
            Lie::Plan(|far| far.payload(&[4, 0, 255, 255, 255, 255, 255, 255, 255, 255, 127])),
            "no valid message",
        ),
        waiting(
            "another answer",
            Lie::Plan(|far| far.frames(&Reply::Finished)),
            "something else than the answer to the plan",
        ),
        waiting(
            "a refusal of many lines",
            Lie::Plan(|far| far.frames(&Reply::Refused(shouted()))),
            "the responder refuses:",
        ),
        waiting(
            "an end of many lines",
            Lie::Plan(|far| far.frames(&Reply::Ended(shouted()))),
            "the responder ended the session:",
        ),
    ]
}

fn on_data_connections() -> Vec<Scenario> {
    let silent = "does not answer";
    let closes = "closes the connection";
    vec![
        closing("nothing", Lie::Data(Vec::new), closes),
        waiting("silence", Lie::Data(Vec::new), silent),
        waiting(
            "garbage",
            Lie::Data(|| vec![7; 64]),
            "not a whydrop responder",
        ),
        slow("slow", Lie::Data(|| proceed([7; 48]).to_vec()), silent),
        closing("no answer to the proof", Lie::DataAnswer(Vec::new), closes),
        waiting("silence after the proof", Lie::DataAnswer(Vec::new), silent),
        waiting(
            "no proof",
            Lie::DataAnswer(|| vec![0; 33]),
            "not the intended one",
        ),
        waiting(
            "the session is over",
            Lie::DataAnswer(|| vec![1; 33]),
            "ended the session",
        ),
        waiting(
            "an unknown status",
            Lie::DataAnswer(|| vec![9; 33]),
            "unknown status 9",
        ),
    ]
}

fn described(far: &mut Channel, text: String) -> Vec<u8> {
    far.frames(&Reply::Description(text))
}

fn reported(far: &mut Channel, report: Report) -> Vec<u8> {
    far.frames(&Reply::Report(report))
}

fn on_a_running_channel() -> Vec<Scenario> {
    let forged = "wrong authentication code";
    vec![
        closing("nothing", Lie::Run(|_| vec![]), "closed the connection"),
        waiting(
            "silence",
            Lie::Run(|_| vec![]),
            "no answer from the responder for 20 s",
        ),
        waiting(
            "garbage",
            Lie::Run(|_| [vec![0, 30], vec![7; 30]].concat()),
            forged,
        ),
        waiting(
            "a frame twice",
            Lie::Run(|far| far.frames(&Reply::Report(Report::default())).repeat(2)),
            forged,
        ),
        waiting(
            "a second answer to the plan",
            Lie::Run(|far| far.frames(&Reply::Accepted { session: 8 })),
            "a second answer",
        ),
        waiting(
            "an end that was not asked for",
            Lie::Run(|far| far.frames(&Reply::Finished)),
            "not asked to finish",
        ),
        waiting(
            "arrivals that were not asked for",
            Lie::Run(|far| {
                let ranges = vec![(0, 9); 9];
                far.frames(&Reply::Arrivals { flow: 3, ranges })
            }),
            "the arrivals of flow 3",
        ),
        waiting(
            "an echo that was not asked for",
            Lie::Run(|far| {
                far.frames(&Reply::Echo {
                    sent_ns: 1,
                    far_ns: 2,
                })
            }),
            "an echo of 1",
        ),
        waiting(
            "an end of many lines",
            Lie::Run(|far| far.frames(&Reply::Ended(shouted()))),
            "ended the session:",
        ),
        waiting(
            "a deep description",
            Lie::Run(|far| described(far, "[".repeat(200_000))),
            "levels deep",
        ),
        waiting(
            "a deep description with a flat end",
            Lie::Run(|far| described(far, "{\"a\":".repeat(900) + "1" + &"}".repeat(900))),
            "levels deep",
        ),
        waiting(
            "a huge description",
            Lie::Run(|far| described(far, " ".repeat(1_000_000))),
            "at most 262144",
        ),
        waiting(
            "a description longer than any message",
            Lie::Run(|far| described(far, " ".repeat(2_000_000))),
            "at most 1048576",
        ),
        waiting(
            "a second description",
            Lie::Run(|far| [described(far, "{}".into()), described(far, "{}".into())].concat()),
            "a second description",
        ),
    ]
}

fn interval(flow: u32, end_ns: i64, payload_bytes: u64) -> Report {
    Report {
        intervals: vec![Interval {
            flow,
            start_ns: 0,
            end_ns,
            payload_bytes,
            datagrams: None,
        }],
        ..Report::default()
    }
}

fn rows(count: usize) -> Report {
    Report {
        intervals: vec![Interval::default(); count],
        ..Report::default()
    }
}

fn stream(packets: u64, lost: i64) -> Report {
    let mut report = interval(1, 9, 0);
    report.intervals[0].datagrams = Some(Datagrams {
        packets,
        lost,
        ..Datagrams::default()
    });
    report
}

fn sample(acked_bytes: u64, rate_bps: f64) -> Report {
    Report {
        tcp: vec![TcpSample {
            flow: 4,
            acked_bytes: Some(acked_bytes),
            delivery_rate_bps: Some(rate_bps),
            ..TcpSample::default()
        }],
        ..Report::default()
    }
}

fn burst(sequence: u64, received_ns: i64) -> Report {
    Report {
        bursts: vec![BurstPacket {
            flow: 2,
            burst: 0,
            sequence,
            sent_ns: 0,
            received_ns: Some(received_ns),
            payload_bytes: 1,
            marked: false,
        }],
        ..Report::default()
    }
}

fn words(length: usize) -> Report {
    Report {
        facts: vec![(0, "key".to_owned(), "x".repeat(length))],
        ..Report::default()
    }
}

fn failed(flow: u32, length: usize) -> Report {
    Report {
        endings: vec![(flow, Ending::Failed("x".repeat(length)))],
        ..Report::default()
    }
}

fn in_reports() -> Vec<Scenario> {
    let a_time = "which no clock shows";
    vec![
        report(
            "a flow of no plan",
            |far| reported(far, interval(9, 9, 1)),
            "of flow 9",
        ),
        report(
            "another kind of row",
            |far| reported(far, interval(3, 9, 1)),
            "no rows were expected",
        ),
        report(
            "most bytes",
            |far| reported(far, interval(0, 9, u64::MAX)),
            "bytes in one interval",
        ),
        report(
            "the last time",
            |far| reported(far, interval(0, i64::MAX, 1)),
            a_time,
        ),
        report(
            "the first time",
            |far| reported(far, interval(0, i64::MIN, 1)),
            "was expected",
        ),
        report(
            "more packets than sent",
            |far| reported(far, stream(1 << 60, 0)),
            "packets in one",
        ),
        report(
            "fewer lost than none",
            |far| reported(far, stream(1, i64::MIN)),
            "lost packets",
        ),
    ]
}

fn in_more_reports() -> Vec<Scenario> {
    let a_time = "which no clock shows";
    vec![
        report(
            "most acknowledged",
            |far| reported(far, sample(u64::MAX, 1.0)),
            "a count of",
        ),
        report(
            "no rate",
            |far| reported(far, sample(1, f64::NAN)),
            "a rate of NaN",
        ),
        report(
            "an endless rate",
            |far| reported(far, sample(1, f64::INFINITY)),
            "a rate of inf",
        ),
        report(
            "a packet of no burst",
            |far| reported(far, burst(99, 1)),
            "packet 99 of burst 0",
        ),
        report(
            "a packet at no time",
            |far| reported(far, burst(0, i64::MIN)),
            a_time,
        ),
        report(
            "facts without end",
            |far| reported(far, words(900_000)),
            "of facts of flow 0",
        ),
        report(
            "a reason without end",
            |far| reported(far, failed(0, 900_000)),
            "of facts of flow 0",
        ),
        report(
            "an end of no flow",
            |far| reported(far, failed(77, 1)),
            "the ending of flow 77",
        ),
        report(
            "rows without end",
            |far| reported(far, rows(2000)),
            "more than",
        ),
    ]
}

fn at_the_end() -> Vec<Scenario> {
    let early = "before it had sent its last measurements";
    vec![
        closing("nothing", Lie::Finish(|_| vec![]), early),
        waiting(
            "silence",
            Lie::Finish(|_| vec![]),
            "no answer from the responder for 10 s",
        ),
        slow(
            "slow",
            Lie::Finish(|far| far.frames(&Reply::Finished)),
            early,
        ),
        waiting(
            "a flow of no plan",
            Lie::Finish(|far| {
                [
                    reported(far, interval(9, 9, 1)),
                    far.frames(&Reply::Finished),
                ]
                .concat()
            }),
            "of flow 9",
        ),
    ]
}

#[test]
fn more_bytes_than_this_hosts_kernel_saw_acknowledged_are_not_believed() {
    let host = lying(
        Lie::Finish(|far| {
            let report = reported(far, interval(0, 1_000_000_000, 625_000_000_000));
            [report, far.frames(&Reply::Finished)].concat()
        }),
        Then::Wait,
    );
    let (taken, _) = run(&host, 0.3).unwrap();
    let (_, ending) = &taken.endings[0];
    assert!(
        matches!(ending, Ending::Failed(reason) if reason.contains("kernel saw")),
        "{ending:?}"
    );
}
