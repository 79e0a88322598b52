//! A device between the points changes sequence numbers; and similar cases.

use std::net::{IpAddr, Ipv4Addr};

use crate::testing::{Body, Passing, Path, Scene, Transfer};
use crate::{Crossing, Direction, Pair, PairError};

/// Constants that a device adds to the numbers that the client sends, and to those that the server sends.
const BOTH: [u32; 2] = [0x9abc_def1, 0x1357_9bdf];

fn scene(transfer: &Transfer) -> Scene {
    lossy().carry(std::slice::from_ref(transfer))
}

fn lossy() -> Path {
    Path {
        lost: [0.03, 0.0],
        ..Path::default()
    }
}

fn without_timestamps() -> Transfer {
    Transfer {
        timestamps: false,
        ..Transfer::default()
    }
}

/// Adds constants to the numbers of a packet, also to those of SACK blocks if `with_sack`.
fn renumber(by: [u32; 2], with_sack: bool) -> impl Fn(&mut Passing) {
    move |passing| {
        let from = usize::from(passing.wire.source.1 == 443);
        let (own, others) = (by[from], by[1 - from]);
        let Body::Tcp {
            sequence,
            acknowledgment,
            flags,
            sack,
            ..
        } = &mut passing.wire.body
        else {
            return;
        };
        *sequence = sequence.wrapping_add(own);
        if *flags & 0x10 != 0 {
            *acknowledgment = acknowledgment.wrapping_add(others);
        }
        if with_sack {
            for edge in sack.iter_mut().flat_map(|(left, right)| [left, right]) {
                *edge = edge.wrapping_add(others);
            }
        }
    }
}

fn translate(passing: &mut Passing) {
    let wire = &mut passing.wire;
    for end in [&mut wire.source, &mut wire.destination] {
        if end.0 == IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1)) {
            *end = (IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), end.1 + 7000);
        }
    }
}

/// Every packet has the same fate as without the device.
#[track_caller]
fn assert_added(pair: &Pair, by: [u32; 2]) {
    for (flow, added) in pair.flows.iter().zip(by) {
        assert_eq!(flow.sequence_added, added);
        assert_eq!(flow.is_renumbered(), added != 0);
    }
    assert_eq!(pair.flows[0].direction, Direction::FirstToSecond);
    assert!(pair.counts.lost[0] > 3 && pair.counts.lost[1] == 0);
}

#[test]
fn packets_match_where_a_device_adds_a_constant_to_either_direction_or_both() {
    for by in [BOTH, [BOTH[0], 0], [0, BOTH[1]], [1000, u32::MAX]] {
        for transfer in [Transfer::default(), without_timestamps()] {
            let scene = scene(&transfer).at(1, renumber(by, true));
            assert_added(&scene.check(), by);
        }
    }
}

#[test]
fn the_capture_with_other_numbers_may_be_the_first() {
    let pair = scene(&Transfer::default())
        .at(1, renumber(BOTH, true))
        .swapped()
        .check();
    assert_eq!(pair.flows[0].sequence_added, BOTH[0].wrapping_neg());
    assert_eq!(pair.flows[0].direction, Direction::SecondToFirst);
}

#[test]
fn a_handshake_is_not_needed() {
    for timestamps in [true, false] {
        let transfer = Transfer {
            handshake: false,
            timestamps,
            ..Transfer::default()
        };
        let pair = scene(&transfer).at(1, renumber(BOTH, true)).check();
        assert_added(&pair, BOTH);
    }
}

#[test]
fn the_device_may_translate_addresses_and_ports_too() {
    for (timestamps, handshake) in [(true, true), (true, false), (false, true), (false, false)] {
        let transfer = Transfer {
            timestamps,
            handshake,
            ..Transfer::default()
        };
        let scene = scene(&transfer).at(1, renumber(BOTH, true));
        let pair = scene.at(1, translate).check();
        assert_added(&pair, BOTH);
        assert!(pair.flows[0].is_translated());
    }
}

#[test]
fn each_connection_has_constants_of_its_own() {
    let transfers: Vec<Transfer> = (0..10)
        .map(|number| Transfer {
            client: (Transfer::default().client.0, 40_000 + number),
            first_sequence: u32::from(number) * 7_000_003,
            segments: 100,
            timestamps: number % 2 == 0,
            ..Transfer::default()
        })
        .collect();
    let client_port = |passing: &Passing| passing.wire.source.1.max(passing.wire.destination.1);
    // hosts number the packets of each connection from a separate start
    let number = |passing: &mut Passing| {
        let port = client_port(passing);
        let id = &mut passing.wire.identification;
        *id = id.wrapping_add(port.wrapping_mul(5003));
    };
    let renumber = |passing: &mut Passing| {
        let port = u32::from(client_port(passing));
        renumber(BOTH.map(|added| added.wrapping_mul(port)), true)(passing);
    };
    let scene = lossy().carry(&transfers).at(0, number).at(1, number);
    let pair = scene.at(1, renumber).at(1, translate).check();
    assert_eq!(pair.flows.len(), 20);
    assert!(pair.flows.iter().all(|flow| flow.is_renumbered()));
}

#[test]
fn identifications_may_change_if_timestamps_distinguish_packets() {
    let pair = scene(&Transfer::default())
        .at(1, renumber(BOTH, true))
        .at(1, |passing| {
            let id = &mut passing.wire.identification;
            *id = id.wrapping_mul(40_503).wrapping_add(1);
        })
        .check();
    assert_added(&pair, BOTH);
}

#[test]
fn sack_blocks_that_keep_their_numbers_are_counted() {
    let pair = scene(&Transfer::default())
        .at(1, renumber(BOTH, false))
        .check();
    assert_added(&pair, BOTH);
    assert_eq!(pair.flows[0].sack_left, 0);
    assert!(pair.flows[1].sack_left > 10);
}

#[test]
fn sack_blocks_are_correct_if_they_change_with_the_data_and_if_the_data_do_not_change() {
    for (by, with_sack) in [(BOTH, true), ([0, BOTH[1]], false)] {
        let pair = scene(&Transfer::default())
            .at(1, renumber(by, with_sack))
            .check();
        assert!(pair.flows.iter().all(|flow| flow.sack_left == 0));
    }
}

#[test]
fn one_direction_is_enough_with_timestamps() {
    let mut scene = scene(&Transfer::default()).at(1, renumber(BOTH, true));
    scene.journeys.retain(|journey| {
        journey.seen[0]
            .as_ref()
            .is_some_and(|one| one.wire.source.1 != 443)
    });
    let pair = scene.read().expect("packets in common");
    assert_eq!(pair.flows.len(), 1);
    assert_eq!(pair.flows[0].sequence_added, BOTH[0]);
}

#[test]
fn captures_may_begin_at_different_packets() {
    for (one, two) in [(300, 0), (0, 300), (250, 400)] {
        let mut scene = scene(&Transfer::default()).at(1, renumber(BOTH, true));
        for (side, missing) in [(0, one), (1, two)] {
            for journey in scene.journeys.iter_mut().take(missing) {
                journey.seen[side] = None;
            }
        }
        let pair = scene.read().expect("packets in common");
        let both = scene.journeys[one.max(two)..]
            .iter()
            .filter(|journey| journey.seen.iter().all(Option::is_some));
        assert_eq!(pair.counts.matched, both.count() as u64);
    }
}

#[test]
fn clocks_may_be_an_hour_apart() {
    let pair = scene(&Transfer::default())
        .at(1, renumber(BOTH, true))
        .at(1, |passing| passing.time_ns += 3_600_000_000_000)
        .check();
    assert_added(&pair, BOTH);
}

/// The same bytes on a connection that a proxy opened, in packets of its own.
fn by_proxy(ids: [u16; 2], clock: u32) -> impl Fn(&mut Passing) {
    move |passing| {
        renumber(BOTH, true)(passing);
        let from = usize::from(passing.wire.source.1 == 443);
        let id = &mut passing.wire.identification;
        *id = id.wrapping_add(ids[from]);
        if let Body::Tcp {
            timestamps: Some((value, echo)),
            ..
        } = &mut passing.wire.body
        {
            *value = value.wrapping_add(clock);
            *echo = echo.wrapping_add(clock);
        }
    }
}

#[test]
fn connections_of_a_proxy_do_not_match() {
    let apart = [[20_000, 30_000], [5, 9], [5, 20_000]];
    for timestamps in [true, false] {
        for handshake in [true, false] {
            for ids in apart {
                let transfer = Transfer {
                    timestamps,
                    handshake,
                    ..Transfer::default()
                };
                let scene = scene(&transfer).at(1, by_proxy(ids, 0x0123_4567));
                let read = scene.read();
                assert!(matches!(read, Err(PairError::NothingInCommon { .. })));
            }
        }
    }
}

#[test]
fn nothing_is_learnt_without_timestamps_and_identifications() {
    let transfer = Transfer {
        numbered: false,
        ..without_timestamps()
    };
    let read = scene(&transfer).at(1, renumber(BOTH, true)).read();
    assert!(matches!(read, Err(PairError::NothingInCommon { .. })));
}

#[test]
fn flows_with_the_same_numbers_at_both_points_stay_as_they_are() {
    for transfer in [Transfer::default(), without_timestamps()] {
        let pair = scene(&transfer).check();
        assert!(pair.flows.iter().all(|flow| flow.sequence_added == 0));
    }
}

/// One packet of the client's to a closed port, and no answer.
fn unanswered(port: u16, id: u16) -> Scene {
    let transfer = Transfer {
        client: (Transfer::default().client.0, port),
        first_sequence: u32::from(port) * 70_003,
        start_ns: Transfer::default().start_ns + 50_000_000,
        segments: 0,
        ..Transfer::default()
    };
    let mut scene = Path::default().carry(&[transfer]);
    scene.journeys.truncate(1);
    scene
        .at(0, |one| one.wire.identification = id)
        .at(1, |one| one.wire.identification = id)
}

#[test]
fn beside_renumbered_ones_a_connection_of_one_packet_matches() {
    let mut scene = scene(&Transfer::default());
    scene.journeys.extend(unanswered(45_000, 4711).journeys);
    let pair = scene.at(1, renumber(BOTH, true)).at(1, translate).check();
    assert_eq!(
        pair.counts.packets,
        [
            pair.counts.matched + pair.counts.lost[0],
            pair.counts.matched
        ]
    );
}

#[test]
fn indistinguishable_packets_are_neither_lost_nor_missed() {
    let twin = |port| {
        let mut scene = unanswered(port, 0);
        scene.journeys[0].crossing = Crossing::Undecided;
        scene.journeys
    };
    let mut scene = scene(&Transfer::default());
    scene.journeys.extend(twin(45_000));
    scene.journeys.extend(twin(45_001));
    let pair = scene
        .at(1, renumber(BOTH, true))
        .at(1, translate)
        .read()
        .expect("packets in common");
    assert_eq!(pair.counts.undecided, [2, 2]);
    assert_eq!(pair.counts.missed, [0, 0]);
}
