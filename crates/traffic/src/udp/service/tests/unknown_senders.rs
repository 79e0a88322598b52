//! Peers that violate the protocol.

use std::net::UdpSocket;
use std::time::Duration;

use super::super::super::SYNCHRONISATION_FLOW;
use super::super::super::packet::{Body, BurstPlace, HEADER_BYTES, Keys, Nonce, Refusal, Total};
use super::super::super::schedule::Schedule;
use super::super::*;
use super::{HANGS, KEY, LIMITS, TOKEN, World, bursts, probes, stream, total, wait_for};
use crate::flow::Direction;

/// A peer that builds its packets itself.
pub(super) struct RawClient {
    pub(super) socket: UdpSocket,
    pub(super) keys: Keys,
}

impl RawClient {
    pub(super) fn towards(world: &World) -> RawClient {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(world.link.remote).unwrap();
        socket.set_read_timeout(Some(HANGS)).unwrap();
        RawClient {
            socket,
            keys: Keys::of_client(&KEY, TOKEN),
        }
    }

    pub(super) fn packet(flow: u32, sequence: u64, body: Body) -> Packet {
        Packet {
            flow,
            sequence,
            sent_ns: clock::now_ns(),
            body,
        }
    }

    pub(super) fn send(&self, flow: u32, sequence: u64, body: Body) {
        self.socket
            .send(&RawClient::packet(flow, sequence, body).bytes(&self.keys))
            .unwrap();
    }

    pub(super) fn receive(&self) -> Option<Packet> {
        let mut bytes = [0; 2000];
        let length = self.socket.recv(&mut bytes).ok()?;
        Packet::open(&bytes[..length], length, &self.keys).ok()
    }

    /// True if no packet arrives for a while.
    pub(super) fn receives_nothing(&self) -> bool {
        let patience = Duration::from_millis(300);
        self.socket.set_read_timeout(Some(patience)).unwrap();
        let received = self.receive();
        self.socket.set_read_timeout(Some(HANGS)).unwrap();
        received.is_none()
    }

    fn challenge(&self, flow: u32) -> Nonce {
        self.send(flow, 0, Body::Hello);
        match self.receive().map(|packet| packet.body) {
            Some(Body::Challenge(nonce)) => nonce,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn nothing_unproved_is_answered_with_more_bytes_than_it_had() {
    let flows = [
        probes(100),
        stream(Direction::Up),
        FlowSpec {
            flow: 8,
            ..stream(Direction::Down)
        },
    ];
    let world = World::with(&flows);
    let client = RawClient::towards(&world);
    let bodies = [
        Body::Probe,
        Body::Answer(Default::default()),
        Body::Stream,
        Body::Burst(Default::default()),
        Body::Hello,
        Body::Challenge([1; 16]),
        Body::Proof {
            nonce: [1; 16],
            start_in_ns: 0,
        },
        Body::Accepted,
        Body::Refused(Refusal::NoSuchFlow),
        Body::Leave([1; 16]),
        Body::Finish(Total::default()),
        Body::Finished(Total::default()),
    ];
    let mut sent: Vec<usize> = Vec::new();
    let mut answers = vec![0; 1000];
    let mut count_answers = |patience_ms: u64, sent: &[usize]| {
        let mut answer = [0; 2000];
        let patience = Duration::from_millis(patience_ms);
        client.socket.set_read_timeout(Some(patience)).unwrap();
        while let Ok(length) = client.socket.recv(&mut answer) {
            let packet = Packet::open(&answer[..length], length, &client.keys).unwrap();
            // An answer repeats the stamp, which numbers the requests here.
            let number = packet.sent_ns as usize;
            answers[number] += 1;
            assert!(length <= sent[number], "{packet:?}");
            assert!(answers[number] <= 1, "{packet:?}");
        }
    };
    for flow in [5, 6, 8, 99, SYNCHRONISATION_FLOW] {
        for body in bodies {
            for padding in [0, 1, 700] {
                // Copies would not be answered.
                let mut packet = RawClient::packet(flow, sent.len() as u64, body);
                packet.sent_ns = sent.len() as i64;
                let mut bytes = vec![0x55; HEADER_BYTES + padding];
                packet.write(&mut bytes, &client.keys);
                sent.push(bytes.len());
                client.socket.send(&bytes).unwrap();
                count_answers(1, &sent);
            }
        }
    }
    wait_for("all that was sent", || {
        world.service.statistics().received_packets == sent.len() as u64
    });
    count_answers(500, &sent);
    let statistics = world.service.statistics();
    assert!(
        statistics.answered_bytes > 0 && statistics.answered_bytes <= statistics.received_bytes
    );
}

#[test]
fn garbage_and_unknown_senders_are_counted_and_left_alone() {
    let world = World::with(&[probes(10)]);
    let client = RawClient::towards(&world);
    let unknown = Keys::of_client(&KEY, TOKEN + 1);
    let mut broken = RawClient::packet(5, 0, Body::Probe).bytes(&client.keys);
    broken[63] ^= 1;
    let garbage: [&[u8]; 5] = [
        &[],
        &[0; 63],
        &[0x77; 200],
        &RawClient::packet(5, 0, Body::Probe).bytes(&unknown),
        &broken,
    ];
    for bytes in garbage {
        client.socket.send(bytes).unwrap();
    }
    client.send(5, 1 << 50, Body::Probe);
    client.send(5, 3, Body::Stream);
    wait_for("all that was sent", || {
        world.service.statistics().received_packets == 7
    });
    assert!(client.receives_nothing());
    let statistics = world.service.statistics();
    assert_eq!(
        (
            statistics.garbage,
            statistics.unknown_token,
            statistics.wrong_key,
            statistics.misplaced
        ),
        (3, 1, 1, 2)
    );
    assert_eq!(statistics.answered_packets, 0);
}

#[test]
fn a_stream_down_needs_a_proof_from_the_address_it_goes_to() {
    let spec = FlowSpec {
        duration_s: Some(60.0),
        ..stream(Direction::Down)
    };
    let world = World::with(std::slice::from_ref(&spec));
    let (thief, owner) = (RawClient::towards(&world), RawClient::towards(&world));
    let nonce = owner.challenge(6);
    thief.send(
        6,
        1,
        Body::Proof {
            nonce,
            start_in_ns: 0,
        },
    );
    assert!(thief.receives_nothing());
    owner.send(
        6,
        2,
        Body::Proof {
            nonce,
            start_in_ns: 0,
        },
    );
    let mut bodies = Vec::new();
    while !(bodies.contains(&Body::Accepted) && bodies.contains(&Body::Stream)) {
        bodies.push(owner.receive().expect("the proof and the stream").body);
    }
    assert!(thief.receives_nothing());
}

#[test]
fn a_stream_down_ends_when_no_sign_of_life_comes() {
    let spec = FlowSpec {
        duration_s: Some(550.0),
        ..stream(Direction::Down)
    };
    let world = World::with(std::slice::from_ref(&spec));
    let owner = RawClient::towards(&world);
    let silence = Duration::from_secs(1);
    owner.socket.set_read_timeout(Some(silence)).unwrap();
    let nonce = owner.challenge(6);
    let start_ns = clock::now_ns();
    owner.send(
        6,
        1,
        Body::Proof {
            nonce,
            start_in_ns: 0,
        },
    );
    // The same proof again, as an eavesdropper could replay it, does not keep the flow alive.
    let mut replays = 0;
    while owner.receive().is_some() {
        if clock::now_ns() > start_ns + replays * 1_000_000_000 {
            owner.send(
                6,
                1,
                Body::Proof {
                    nonce,
                    start_in_ns: 0,
                },
            );
            replays += 1;
        }
        assert!(
            clock::now_ns() < start_ns + 300_000_000_000,
            "it still sends"
        );
    }
    assert!(replays > 0);
}

#[test]
fn nothing_is_answered_when_the_session_is_over_or_removed() {
    let world = World::with(&[probes(100)]);
    let client = RawClient::towards(&world);
    client.send(5, 0, Body::Probe);
    assert!(client.receive().is_some());
    world.service.register(Registration {
        token: TOKEN,
        key: KEY,
        flows: vec![probes(100)],
        limits: LIMITS,
        ends_ns: clock::now_ns(),
        overrun: Stop::default(),
        activity: Activity::default(),
        sink: Arc::default(),
    });
    for (sequence, unknown) in [(1, 1), (2, 2)] {
        client.send(5, sequence, Body::Probe);
        wait_for("the probe", || {
            world.service.statistics().unknown_token == unknown
        });
        assert!(client.receives_nothing());
        world.service.remove(TOKEN);
    }
}

#[test]
fn what_a_sender_says_beyond_its_plan_is_not_believed() {
    let spec = stream(Direction::Up);
    let planned = Schedule::of(&spec).unwrap().slots().unwrap();
    let world = World::with(&[spec]);
    let client = RawClient::towards(&world);
    client.send(6, 0, Body::Stream);
    client.send(6, 1 << 60, Body::Stream);
    let claim = Total {
        packets: u64::MAX,
        bursts: u32::MAX,
    };
    client.send(6, 0, Body::Finish(claim));
    assert!(client.receive().is_some());
    // the batch of all three packets may be counted only after the answer to the last has arrived
    wait_for("the count of the batch", || {
        world.service.statistics().misplaced == 1
    });
    let there = world.responders();
    assert_eq!(total(&there, |counts| counts.packets as i64), 1);
    assert_eq!(total(&there, |counts| counts.lost), planned as i64 - 1);
}

#[test]
fn bursts_that_leap_ahead_of_time_leave_no_rows_of_what_they_leap_over() {
    let world = World::with(&[FlowSpec {
        duration_s: None,
        ..bursts(Direction::Up)
    }]);
    let client = RawClient::towards(&world);
    for leap in 0..20_u32 {
        let place = BurstPlace {
            burst: leap * 100_000,
            place: 0,
            packets: 40,
        };
        client.send(7, 0, Body::Burst(place));
    }
    wait_for("all that was sent", || {
        world.service.statistics().received_packets == 20
    });
    assert_eq!(world.service.statistics().misplaced, 19);
    assert_eq!(world.responders().bursts.len(), 40);
}

#[test]
fn many_flows_of_probes_share_what_a_session_remembers() {
    for (flows, remembered) in [
        (1, vec![(0, 0), (200_000, 200_000)]),
        (1024, vec![(200_000, 200_000)]),
    ] {
        let specs: Vec<FlowSpec> = (0..flows)
            .map(|number| FlowSpec {
                flow: 5 + number,
                duration_s: None,
                ..probes(1)
            })
            .collect();
        let world = World::with(&specs);
        let client = RawClient::towards(&world);
        for sequence in [0, 200_000] {
            client.send(5, sequence, Body::Probe);
            assert!(client.receive().is_some());
        }
        assert_eq!(world.service.arrivals(TOKEN, 5), remembered);
    }
}
