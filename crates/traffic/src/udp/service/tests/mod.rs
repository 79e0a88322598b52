//! Client and service in one process, over 127.0.0.1 and ::1.

mod copies;
mod unknown_senders;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use super::super::proxy::{Action, Proxy};
use super::super::{FarSide, Link, run, synchronise};
use super::*;
use crate::flow::{Direction, Kind};
use crate::local_end::LocalEnd;
use crate::sample::{BurstPacket, Datagrams, Ending, Fate, Probe, Samples};

const TOKEN: u64 = 0x1234_5678_9abc_def0;
const KEY: [u8; 32] = [3; 32];
/// Longer than any test takes, on any machine.
const HANGS: Duration = Duration::from_secs(120);
const LIMITS: SessionLimits = SessionLimits {
    max_rate_bps: 1e9,
    max_packet_bytes: 9000,
    min_interval_ns: 100_000,
};

/// A responder with one session, and what both ends measured.
struct World {
    service: Arc<Service>,
    responders_sink: Arc<Sink>,
    overrun: Stop,
    sink: Sink,
    stop: Stop,
    link: Link,
}

impl World {
    fn with(flows: &[FlowSpec]) -> World {
        World::at("127.0.0.1:0", flows, LIMITS)
    }

    fn at(address: &str, flows: &[FlowSpec], limits: SessionLimits) -> World {
        let service = Arc::new(Service::bind(&[address.parse().unwrap()]).unwrap());
        let responders_sink = Arc::new(Sink::default());
        let overrun = Stop::default();
        service.register(Registration {
            token: TOKEN,
            key: KEY,
            flows: flows.to_vec(),
            limits,
            ends_ns: clock::now_ns() + 600_000_000_000,
            overrun: overrun.clone(),
            activity: Activity::default(),
            sink: Arc::clone(&responders_sink),
        });
        let remote = service.local_addresses()[0];
        World {
            service,
            responders_sink,
            overrun,
            sink: Sink::default(),
            stop: Stop::default(),
            link: Link {
                remote,
                source: LocalEnd::default(),
                token: TOKEN,
                key: KEY,
            },
        }
    }

    /// The same link through a proxy, with the actions that `choose` selects for each direction.
    fn through(mut self, choose: fn(bool, u64) -> Action) -> (World, Proxy) {
        let proxy = Proxy::towards(self.link.remote, choose);
        self.link.remote = proxy.address();
        (self, proxy)
    }

    fn run(&self, spec: &FlowSpec) -> Ending {
        let start_ns = clock::now_ns() + 300_000_000;
        run(spec, &self.link, start_ns, &self.stop, &self.sink, self)
    }

    fn responders(&self) -> Samples {
        self.service.remove(TOKEN);
        self.responders_sink.take()
    }
}

impl FarSide for World {
    fn arrivals(&self, flow: u32) -> Option<Vec<(u64, u64)>> {
        Some(self.service.arrivals(TOKEN, flow))
    }
}

fn probes(count: u32) -> FlowSpec {
    FlowSpec {
        interval_s: 0.002,
        duration_s: Some(f64::from(count) * 0.002 - 0.001),
        packet_payload_bytes: Some(100),
        // On a busy machine an answer may take long; the wait ends when all have arrived.
        timeout_s: Some(30.0),
        ..FlowSpec::new(5, Kind::Probe, Direction::Both)
    }
}

fn stream(direction: Direction) -> FlowSpec {
    FlowSpec {
        duration_s: Some(0.5),
        interval_s: 0.1,
        // So few that the socket's buffer holds them all while a busy machine runs other processes.
        rate_bps: Some(1e6),
        packet_payload_bytes: Some(500),
        ..FlowSpec::new(6, Kind::Udp, direction)
    }
}

fn bursts(direction: Direction) -> FlowSpec {
    FlowSpec {
        duration_s: Some(0.3),
        packets_per_burst: Some(40),
        burst_every_s: Some(0.1),
        packet_payload_bytes: Some(300),
        ..FlowSpec::new(7, Kind::Burst, direction)
    }
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < HANGS, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Checks all cases in parallel, since most of their time is waiting.
fn at_once<T: Sync>(cases: &[T], check: impl Fn(&T) + Sync) {
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| check(case));
        }
    });
}

fn fact(samples: &Samples, key: &str) -> Option<String> {
    let found = samples.facts.iter().find(|(_, found, _)| found == key);
    found.map(|(_, _, value)| value.clone())
}

fn sorted(mut probes: Vec<Probe>) -> Vec<Probe> {
    probes.sort_by_key(|probe| probe.sequence);
    probes
}

fn total(samples: &Samples, value: fn(&Datagrams) -> i64) -> i64 {
    let counts = samples
        .intervals
        .iter()
        .filter_map(|interval| interval.datagrams);
    counts.map(|counts| value(&counts)).sum()
}

#[test]
fn probes_are_answered_over_both_families_with_their_marks() {
    at_once(&["127.0.0.1:0", "[::1]:0"], |address| {
        let spec = FlowSpec {
            dscp: 46,
            ecn: Some(true),
            ..probes(50)
        };
        let world = World::at(address, std::slice::from_ref(&spec), LIMITS);
        assert_eq!(world.run(&spec), Ending::Complete);
        let samples = world.sink.take();
        let probes = sorted(samples.probes.clone());
        let sequences: Vec<u64> = probes.iter().map(|probe| probe.sequence).collect();
        assert_eq!(sequences, (0..50).collect::<Vec<u64>>());
        for probe in &probes {
            assert_eq!(
                (probe.fate, probe.duplicates, probe.payload_bytes),
                (Fate::Ok, 0, 100)
            );
            assert!(probe.sent_ns.unwrap() >= probe.scheduled_ns);
            // One host, one clock.
            let stamps = [
                probe.sent_ns,
                probe.far_received_ns,
                probe.far_sent_ns,
                probe.received_ns,
            ];
            assert!(
                stamps
                    .windows(2)
                    .all(|pair| pair[0].unwrap() <= pair[1].unwrap() + 1000),
                "{stamps:?}"
            );
        }
        assert!(
            probes
                .windows(2)
                .all(|pair| pair[1].scheduled_ns - pair[0].scheduled_ns == 2_000_000)
        );
        for key in ["dscp_received_up", "dscp_received_down"] {
            assert_eq!(fact(&samples, key).as_deref(), Some("46"));
        }
        assert_eq!(fact(&samples, "ecn_received_up").as_deref(), Some("ECT(0)"));
        assert!(fact(&samples, "timer_scheduling").is_some());
        assert!(!samples.exchanges.is_empty());
        assert_eq!(world.service.arrivals(TOKEN, 5), [(0, 49)]);
    });
}

#[test]
fn losses_and_delays_of_probes_are_reported_by_direction() {
    let spec = probes(200);
    let choose = |is_up, number: u64| match (is_up, number % 20) {
        (true, 3) => Action::Drop,
        (false, 7) => Action::Drop,
        (true, 11) => Action::Twice,
        (false, 15) => Action::Hold,
        (false, 18) => Action::Twice,
        _ => Action::Pass,
    };
    let (world, proxy) = World::with(std::slice::from_ref(&spec)).through(choose);
    assert_eq!(world.run(&spec), Ending::Complete);
    let samples = world.sink.take();
    let probes = sorted(samples.probes);
    assert_eq!(probes.len(), 200);
    let did = proxy.stop();
    for probe in &probes {
        let (up, down) = (did.up(probe.sequence), did.down(probe.sequence));
        let answers = down.iter().map(|action| action.copies()).sum::<usize>();
        match probe.fate {
            Fate::LostUp => assert_eq!(up, [Action::Drop], "probe {}", probe.sequence),
            Fate::LostDown => assert!(!up.is_empty() && answers == 0, "probe {}", probe.sequence),
            Fate::Ok => assert_eq!(
                answers,
                1 + probe.duplicates as usize,
                "probe {}",
                probe.sequence
            ),
            other => panic!("probe {}: {other:?}", probe.sequence),
        }
    }
    let count = |fate| probes.iter().filter(|probe| probe.fate == fate).count();
    assert_eq!(count(Fate::LostUp), 10);
    assert!(count(Fate::LostDown) >= 5);
    assert!(probes.iter().any(|probe| probe.duplicates > 0));
    assert!(probes.iter().any(|probe| probe.reordered));
}

#[test]
fn an_outage_until_the_end_is_resolved_by_asking_the_far_end() {
    let spec = probes(150);
    let cases = [
        (
            (|is_up, number| {
                if is_up && number >= 40 {
                    Action::Drop
                } else {
                    Action::Pass
                }
            }) as fn(bool, u64) -> Action,
            Fate::LostUp,
        ),
        (
            |is_up, number| {
                if !is_up && number >= 40 {
                    Action::Drop
                } else {
                    Action::Pass
                }
            },
            Fate::LostDown,
        ),
    ];
    at_once(&cases, |&(choose, fate)| {
        let (world, _proxy) = World::with(std::slice::from_ref(&spec)).through(choose);
        assert_eq!(world.run(&spec), Ending::Complete);
        let probes = sorted(world.sink.take().probes);
        assert_eq!(probes.len(), 150);
        assert!(probes[..40].iter().all(|probe| probe.fate == Fate::Ok));
        assert!(
            probes[40..].iter().all(|probe| probe.fate == fate),
            "{fate:?}"
        );
    });
}

#[test]
fn a_wrong_key_gets_no_answer_at_all() {
    let spec = FlowSpec {
        timeout_s: Some(0.2),
        ..probes(10)
    };
    let mut world = World::with(std::slice::from_ref(&spec));
    world.link.key = [4; 32];
    let Ending::Failed(words) = world.run(&spec) else {
        panic!("it ran")
    };
    assert!(words.contains("no probe was answered"), "{words}");
    wait_for("all that was sent", || {
        world.service.statistics().wrong_key == 10
    });
    assert_eq!(world.service.statistics().answered_packets, 0);
    assert!(
        world
            .sink
            .take()
            .probes
            .iter()
            .all(|probe| probe.fate == Fate::LostUp)
    );
}

#[test]
fn a_responder_that_is_not_there_fails_with_words() {
    let spec = FlowSpec {
        timeout_s: Some(0.2),
        interval_s: 0.05,
        duration_s: Some(30.0),
        ..probes(10)
    };
    let mut world = World::with(&[]);
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap();
    world.link.remote = gone.local_addr().unwrap();
    drop(gone);
    let Ending::Failed(words) = world.run(&spec) else {
        panic!("it ran")
    };
    assert!(words.contains("no program listens"), "{words}");
}

#[test]
fn a_stop_ends_every_kind_of_flow_early_and_keeps_what_was_measured() {
    let flows = [
        FlowSpec {
            duration_s: Some(60.0),
            ..probes(0)
        },
        FlowSpec {
            duration_s: Some(60.0),
            flow: 11,
            ..stream(Direction::Up)
        },
        FlowSpec {
            duration_s: Some(60.0),
            flow: 12,
            ..stream(Direction::Down)
        },
        FlowSpec {
            duration_s: Some(60.0),
            flow: 13,
            ..bursts(Direction::Down)
        },
    ];
    let world = World::with(&flows);
    std::thread::scope(|scope| {
        let threads: Vec<_> = flows
            .iter()
            .map(|spec| scope.spawn(|| world.run(spec)))
            .collect();
        wait_for("something of every flow", || {
            let has_here = world.sink.with(|samples| {
                !samples.probes.is_empty()
                    && !samples.intervals.is_empty()
                    && !samples.bursts.is_empty()
            });
            let has_there = |samples: &mut Samples| !samples.intervals.is_empty();
            has_here && world.responders_sink.with(has_there)
        });
        world.stop.set();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), Ending::Stopped);
        }
    });
    let samples = world.sink.take();
    assert!(
        !samples.probes.is_empty() && !samples.intervals.is_empty() && !samples.bursts.is_empty()
    );
    assert!(!world.responders().intervals.is_empty());
}

#[test]
fn streams_are_counted_at_their_receiver_in_both_directions() {
    let cases = [
        ("127.0.0.1:0", Direction::Up),
        ("127.0.0.1:0", Direction::Down),
        ("[::1]:0", Direction::Up),
        ("[::1]:0", Direction::Down),
    ];
    at_once(&cases, |&(address, direction)| {
        let spec = FlowSpec {
            dscp: 10,
            ..stream(direction)
        };
        let world = World::at(address, std::slice::from_ref(&spec), LIMITS);
        assert_eq!(world.run(&spec), Ending::Complete);
        let (here, there) = (world.sink.take(), world.responders());
        let receiver = if direction == Direction::Up {
            &there
        } else {
            &here
        };
        assert_eq!(total(receiver, |counts| counts.lost), 0);
        let sent: i64 = fact(
            if direction == Direction::Up {
                &here
            } else {
                &there
            },
            "packets_sent",
        )
        .unwrap()
        .parse()
        .unwrap();
        assert_eq!(total(receiver, |counts| counts.packets as i64), sent);
        let bytes: u64 = receiver
            .intervals
            .iter()
            .map(|interval| interval.payload_bytes)
            .sum();
        assert_eq!(bytes, sent as u64 * 500);
        assert!(
            receiver
                .intervals
                .windows(2)
                .all(|pair| pair[0].end_ns == pair[1].start_ns)
        );
        let key = if direction == Direction::Up {
            "dscp_received_up"
        } else {
            "dscp_received_down"
        };
        assert_eq!(fact(receiver, key).as_deref(), Some("10"));
    });
}

#[test]
fn losses_and_reordering_of_streams_are_counted_packet_by_packet() {
    at_once(&[Direction::Up, Direction::Down], |&direction| {
        let spec = stream(direction);
        let choose = |_, number: u64| match number % 25 {
            5 => Action::Drop,
            10 => Action::Hold,
            20 => Action::Twice,
            _ => Action::Pass,
        };
        let (world, proxy) = World::with(std::slice::from_ref(&spec)).through(choose);
        assert_eq!(world.run(&spec), Ending::Complete);
        let (here, there) = (world.sink.take(), world.responders());
        let receiver = if direction == Direction::Up {
            &there
        } else {
            &here
        };
        let did = proxy.stop();
        let data = did.data(direction == Direction::Up);
        let dropped = data
            .iter()
            .filter(|(_, action)| *action == Action::Drop)
            .count() as i64;
        assert!(dropped > 0);
        assert_eq!(total(receiver, |counts| counts.lost), dropped);
        assert!(total(receiver, |counts| counts.reordered as i64) > 0);
        let twice = data
            .iter()
            .filter(|(_, action)| *action == Action::Twice)
            .count();
        let key = match direction {
            Direction::Up => "duplicates_up",
            _ => "duplicates_down",
        };
        assert_eq!(fact(receiver, key), Some(twice.to_string()));
    });
}

#[test]
fn every_packet_of_bursts_has_a_row_in_both_directions() {
    at_once(&[Direction::Up, Direction::Down], |&direction| {
        let spec = bursts(direction);
        let choose = |_, number: u64| {
            if number % 25 == 24 {
                Action::Drop
            } else {
                Action::Pass
            }
        };
        let (world, proxy) = World::with(std::slice::from_ref(&spec)).through(choose);
        assert_eq!(world.run(&spec), Ending::Complete);
        let (here, there) = (world.sink.take(), world.responders());
        let mut rows: Vec<BurstPacket> = if direction == Direction::Up {
            there.bursts
        } else {
            here.bursts
        };
        rows.sort_by_key(|row| row.sequence);
        let sequences: Vec<u64> = rows.iter().map(|row| row.sequence).collect();
        assert_eq!(sequences, (0..120).collect::<Vec<u64>>());
        let dropped: Vec<u64> = proxy
            .stop()
            .data(direction == Direction::Up)
            .into_iter()
            .filter(|(_, action)| *action == Action::Drop)
            .map(|(sequence, _)| sequence)
            .collect();
        let lost: Vec<u64> = rows
            .iter()
            .filter(|row| row.received_ns.is_none())
            .map(|row| row.sequence)
            .collect();
        assert_eq!(lost, dropped);
        assert!(
            rows.iter()
                .all(|row| row.payload_bytes == 300 && u64::from(row.burst) == row.sequence / 40)
        );
    });
}

#[test]
fn what_the_limits_do_not_allow_is_refused_in_words() {
    let spec = stream(Direction::Down);
    let slow = SessionLimits {
        max_rate_bps: 5e5,
        ..LIMITS
    };
    let world = World::at("127.0.0.1:0", std::slice::from_ref(&spec), slow);
    let Ending::Failed(words) = world.run(&spec) else {
        panic!("it ran")
    };
    assert!(words.contains("500000 bit/s"), "{words}");

    let small = SessionLimits {
        max_packet_bytes: 100,
        ..LIMITS
    };
    let world = World::at("127.0.0.1:0", std::slice::from_ref(&spec), small);
    let Ending::Failed(words) = world.run(&spec) else {
        panic!("it ran")
    };
    assert!(words.contains("100 bytes"), "{words}");

    let world = World::with(&[]);
    let Ending::Failed(words) = world.run(&spec) else {
        panic!("it ran")
    };
    assert!(words.contains("does not know this flow"), "{words}");
}

#[test]
fn probes_faster_than_the_limit_are_not_answered_and_this_is_reported() {
    let spec = FlowSpec {
        timeout_s: Some(0.1),
        ..probes(150)
    };
    let slow = SessionLimits {
        min_interval_ns: 20_000_000,
        ..LIMITS
    };
    let world = World::at("127.0.0.1:0", std::slice::from_ref(&spec), slow);
    assert_eq!(world.run(&spec), Ending::Complete);
    let withheld = world.service.statistics().withheld;
    assert!(withheld > 0);
    let there = world.responders();
    assert_eq!(
        fact(&there, "answers_withheld_by_responders_limits"),
        Some(withheld.to_string())
    );
}

#[test]
fn stamps_are_exchanged_before_any_flow() {
    let world = World::with(&[]);
    assert_eq!(
        synchronise(&world.link, 10, 2_000_000, &world.stop, &world.sink),
        Ending::Complete
    );
    let samples = world.sink.take();
    assert_eq!(samples.exchanges.len(), 10);
    assert!(samples.probes.is_empty() && samples.facts.is_empty());
}

#[test]
fn one_port_serves_both_families() {
    let wildcards = ["0.0.0.0:0".parse().unwrap(), "[::]:0".parse().unwrap()];
    let both = Service::bind(&wildcards).unwrap();
    let addresses = both.local_addresses();
    assert_eq!(addresses[0].port(), addresses[1].port());
    let alone = Service::bind(&["[::]:0".parse().unwrap()]).unwrap();
    for (service, port) in [
        (&both, addresses[0].port()),
        (&alone, alone.local_addresses()[0].port()),
    ] {
        for host in ["127.0.0.1", "[::1]"] {
            // A session's clocks are compared once.
            service.register(Registration {
                token: TOKEN,
                key: KEY,
                flows: vec![],
                limits: LIMITS,
                ends_ns: i64::MAX,
                overrun: Stop::default(),
                activity: Activity::default(),
                sink: Arc::default(),
            });
            let link = Link {
                remote: format!("{host}:{port}").parse().unwrap(),
                source: LocalEnd::default(),
                token: TOKEN,
                key: KEY,
            };
            let (stop, sink) = (Stop::default(), Sink::default());
            assert_eq!(
                synchronise(&link, 3, 1_000_000, &stop, &sink),
                Ending::Complete,
                "{host}"
            );
        }
    }
}
