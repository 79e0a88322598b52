//! Paths that duplicate packets, and attackers that replay what they overhear.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::super::packet::{Body, HEADER_BYTES, MAX_BYTES, Nonce, Total};
use super::unknown_senders::RawClient;
use super::*;

/// Copies a fifth of the packets, but not the last ones: a copy may arrive after the end of its flow.
fn a_fifth_twice(_: bool, number: u64) -> Action {
    match number % 5 {
        2 => Action::Twice,
        _ => Action::Pass,
    }
}

#[test]
fn a_path_that_duplicates_a_fifth_loses_nothing_and_its_copies_are_counted_exactly() {
    let spec = probes(500);
    let world = World::with(std::slice::from_ref(&spec));
    let (world, proxy) = world.through(a_fifth_twice);
    assert_eq!(world.run(&spec), Ending::Complete);
    let samples = world.sink.take();
    let probes = sorted(samples.probes.clone());
    assert_eq!(probes.len(), 500);
    assert!(probes.iter().all(|probe| probe.fate == Fate::Ok));
    let did = proxy.stop();
    let twice = |actions: Vec<Action>| actions.iter().filter(|one| **one == Action::Twice).count();
    let (mut up, mut down) = (0, 0);
    for probe in &probes {
        up += twice(did.up(probe.sequence));
        down += twice(did.down(probe.sequence));
        // A copy on the path up is not answered.
        assert_eq!(did.down(probe.sequence).len(), 1);
    }
    // A busy machine may deliver a copy after its row was passed on.
    let late = ["duplicates_too_late", "answers_given_up"]
        .iter()
        .filter_map(|key| fact(&samples, key)?.parse::<usize>().ok())
        .sum::<usize>();
    let seen: usize = probes.iter().map(|probe| probe.duplicates as usize).sum();
    assert_eq!((up, down), (100, 100));
    assert_eq!(seen + late, down);
    let there = world.responders();
    assert_eq!(fact(&there, "duplicates_up"), Some(up.to_string()));
}

/// Sends copies of what it overhears to the responder: unchanged ones in any order, lengthened, cut and changed ones.
fn replay(overheard: impl Fn() -> Vec<Vec<u8>>, to: SocketAddr, is_over: &AtomicBool) {
    const EVERY_NS: i64 = 200_000;
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (mut due_ns, mut number) = (clock::now_ns(), 0_usize);
    while !is_over.load(Ordering::Relaxed) {
        for packet in overheard().iter().rev() {
            let mut copy = packet.clone();
            match number % 64 {
                // Large enough to exceed any limit on what the client may send.
                1 => copy.resize(MAX_BYTES, 0),
                2 => copy.truncate(HEADER_BYTES),
                3 => copy[23] ^= 1,
                _ => {}
            }
            // Fails only if a buffer is full.
            let _ = socket.send_to(&copy, to);
            number += 1;
            due_ns += EVERY_NS;
            clock::sleep_until_ns(due_ns);
        }
        clock::sleep_until_ns(clock::now_ns() + 1_000_000);
    }
}

#[test]
fn replayed_lengthened_cut_and_reordered_probes_harm_no_test() {
    let spec = probes(1000);
    // Enough answers for the probes, even if a busy machine delays them for a second, and too few for the copies too.
    let limits = SessionLimits {
        min_interval_ns: 1_000_000,
        ..LIMITS
    };
    let world = World::at("127.0.0.1:0", std::slice::from_ref(&spec), limits);
    let responder = world.link.remote;
    let (world, proxy) = world.through(|_, _| Action::Pass);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| replay(|| proxy.overheard(), responder, &is_over));
        let ending = world.run(&spec);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(ending, Ending::Complete);
    });
    let statistics = world.service.statistics();
    assert!(!world.overrun.is_set());
    assert!(statistics.repeated > 1000 && statistics.wrong_key > 10);
    assert_eq!((statistics.withheld, statistics.overrun), (0, 0));
    let probes = world.sink.take().probes;
    assert_eq!(probes.len(), 1000);
    let lost = probes.iter().filter(|probe| probe.fate != Fate::Ok).count() as u64;
    // A machine with a small receive buffer may drop datagrams there; the attack itself makes no probe look lost.
    assert!(lost <= statistics.lost_in_receive_buffer, "{lost} lost");
    assert!(probes.iter().all(|probe| probe.duplicates == 0));
    assert_eq!(
        fact(&world.responders(), "duplicates_up"),
        Some(statistics.repeated.to_string())
    );
}

#[test]
fn copies_of_probes_and_data_are_counted_and_not_answered() {
    let world = World::with(&[probes(100), stream(Direction::Up)]);
    let client = RawClient::towards(&world);
    let probe = RawClient::packet(5, 4, Body::Probe).bytes(&client.keys);
    let data = RawClient::packet(6, 0, Body::Stream).bytes(&client.keys);
    for _ in 0..5 {
        client.socket.send(&probe).unwrap();
        client.socket.send(&data).unwrap();
    }
    match client.receive().map(|packet| packet.body) {
        Some(Body::Answer(answer)) => assert_eq!((answer.arrived, answer.window), (1, 1)),
        other => panic!("{other:?}"),
    }
    assert!(client.receives_nothing());
    assert_eq!(world.service.statistics().repeated, 8);
    assert_eq!(world.service.arrivals(TOKEN, 5), [(4, 4)]);
    let there = world.responders();
    assert_eq!(total(&there, |counts| counts.packets as i64), 1);
    let duplicates = there
        .facts
        .iter()
        .filter(|(_, key, _)| key == "duplicates_up");
    let mut duplicates: Vec<_> = duplicates
        .map(|(flow, _, count)| (*flow, count.as_str()))
        .collect();
    duplicates.sort_unstable();
    assert_eq!(duplicates, [(5, "4"), (6, "4")]);
}

#[test]
fn copies_of_requests_are_not_answered_and_each_attempt_is() {
    let down = FlowSpec {
        flow: 8,
        duration_s: Some(60.0),
        ..stream(Direction::Down)
    };
    let world = World::with(&[stream(Direction::Up), down]);
    let client = RawClient::towards(&world);
    let finish =
        |number| RawClient::packet(6, number, Body::Finish(Total::default())).bytes(&client.keys);
    let proof = |number| {
        let nonce: Nonce = [1; 16];
        let start_in_ns = 0;
        RawClient::packet(8, number, Body::Proof { nonce, start_in_ns }).bytes(&client.keys)
    };
    let hello = |number| RawClient::packet(8, number, Body::Hello).bytes(&client.keys);
    for attempt in [0, 2] {
        for copy in [finish(attempt), hello(attempt)] {
            for _ in 0..3 {
                client.socket.send(&copy).unwrap();
            }
            assert!(client.receive().is_some());
            assert!(client.receives_nothing());
        }
        client.socket.send(&proof(attempt + 1)).unwrap();
        client.socket.send(&hello(attempt + 1)).unwrap();
        assert!(client.receives_nothing());
    }
    assert_eq!(world.service.statistics().repeated, 10);
}

#[test]
fn copies_use_nothing_of_what_the_client_may_send() {
    let world = World::with(&[probes(100)]);
    let client = RawClient::towards(&world);
    let mut probe = vec![0; MAX_BYTES];
    RawClient::packet(5, 0, Body::Probe).write(&mut probe, &client.keys);
    // Far more than the flow may send.
    for copies in 0..1000 {
        client.socket.send(&probe).unwrap();
        wait_for("the copy", || {
            let statistics = world.service.statistics();
            statistics.repeated + statistics.lost_in_receive_buffer >= copies
        });
    }
    assert!(!world.overrun.is_set());
    // Too large to be answered, but the session goes on.
    client.send(5, 1, Body::Probe);
    assert!(client.receive().is_some());
}
