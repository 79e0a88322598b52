//! Hints of the user on the path.

use crate::testing::{Body, Passing, Path, Scene, Transfer};
use crate::{Direction, Pair, PairError, PairHints, PairOptions};

fn scene() -> Scene {
    let path = Path {
        lost: [0.03, 0.0],
        ..Path::default()
    };
    path.carry(std::slice::from_ref(&Transfer::default()))
}

fn read(scene: &Scene, hints: PairHints) -> Result<Pair, PairError> {
    scene.read_with(PairOptions {
        hints,
        ..PairOptions::default()
    })
}

fn with(hints: PairHints) -> Pair {
    read(&scene(), hints).expect("packets in common")
}

#[test]
fn the_side_of_the_clients_sets_the_direction_of_every_flow() {
    for (client_side, direction) in [(0, Direction::FirstToSecond), (1, Direction::SecondToFirst)] {
        let pair = with(PairHints {
            client_side: Some(client_side),
            ..PairHints::default()
        });
        assert_eq!(pair.flows[0].direction, direction);
        let contradicted = pair.order.contradicted == pair.order.matched;
        assert_eq!(contradicted, client_side == 1);
        assert_eq!(pair.order.guessed, 0);
    }
}

#[test]
fn packets_longer_than_the_longest_are_counted_and_not_matched() {
    let pair = with(PairHints {
        longest_bytes: Some(200),
        ..PairHints::default()
    });
    let all = with(PairHints::default());
    assert!(pair.packets.iter().all(|packet| packet.ip_bytes <= 200));
    for side in 0..2 {
        assert!(pair.counts.too_long[side] > 0);
        assert_eq!(
            pair.counts.packets[side] + pair.counts.too_long[side],
            all.counts.packets[side]
        );
    }
}

#[test]
fn a_device_that_changes_numbers_is_not_looked_for_if_there_is_none() {
    let add = |passing: &mut Passing| {
        if let Body::Tcp {
            sequence,
            acknowledgment,
            ..
        } = &mut passing.wire.body
        {
            *sequence = sequence.wrapping_add(77);
            *acknowledgment = acknowledgment.wrapping_add(77);
        }
    };
    let scene = scene().at(1, add);
    assert!(read(&scene, PairHints::default()).is_ok());
    let same = PairHints {
        same_sequence_numbers: true,
        ..PairHints::default()
    };
    assert!(read(&scene, same).is_err());
    assert_eq!(with(same).counts, with(PairHints::default()).counts);
}
