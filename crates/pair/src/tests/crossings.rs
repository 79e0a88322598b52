//! Losses on the path and packets missing from captures.

use crate::testing::{Path, Transfer};
use crate::{Crossing, Direction, PacketFlags};

fn one(path: &Path) -> crate::testing::Scene {
    path.carry(&[Transfer::default()])
}

#[test]
fn on_a_path_without_loss_every_packet_is_matched() {
    let pair = one(&Path::default()).check();
    assert_eq!(pair.counts.lost, [0, 0]);
    assert_eq!(pair.counts.matched, 3 + 500 + 500 + 3);
    assert_eq!(pair.flows.len(), 2);
    assert_eq!(pair.flows[0].direction, Direction::FirstToSecond);
    assert_eq!(pair.flows[1].direction, Direction::SecondToFirst);
    assert_eq!(pair.flows[0].reverse, Some(1));
    assert_eq!(pair.flows[0].hops, Some(1));
}

#[test]
fn every_lost_packet_is_named() {
    let path = Path {
        lost: [0.05, 0.02],
        ..Path::default()
    };
    let pair = one(&path).check();
    assert!(pair.counts.lost[0] > 10 && pair.counts.lost[1] > 2);
    assert_eq!(pair.counts.missed, [0, 0]);
}

#[test]
fn a_retransmission_is_not_mistaken_for_its_lost_original() {
    let path = Path {
        lost: [0.2, 0.0],
        ..Path::default()
    };
    let plain = Transfer::default();
    for (timestamps, numbered) in [(true, true), (false, true), (true, false), (false, false)] {
        let transfer = Transfer {
            timestamps,
            numbered,
            ..plain.clone()
        };
        let pair = path.carry(&[transfer]).check();
        let retransmitted = pair
            .packets
            .iter()
            .filter(|packet| packet.flags.has(PacketFlags::RETRANSMISSION));
        assert!(retransmitted.count() > 50);
    }
}

#[test]
fn packets_lost_beyond_the_second_point_crossed() {
    let path = Path {
        lost_beyond: 0.05,
        ..Path::default()
    };
    let pair = one(&path).check();
    assert_eq!(pair.counts.lost, [0, 0]);
}

#[test]
fn a_third_of_the_packets_missing_from_either_capture_is_no_loss() {
    for missed in [[0.3, 0.0], [0.0, 0.3]] {
        let path = Path {
            missed,
            ..Path::default()
        };
        let pair = one(&path).check();
        assert_eq!(pair.counts.lost, [0, 0]);
        let side = usize::from(missed[1] > 0.0);
        assert!(pair.counts.missed[side] > 200, "{:?}", pair.counts);
        assert_eq!(pair.counts.missed[1 - side], 0);
    }
}

#[test]
fn losses_are_distinguished_from_missing_packets() {
    let path = Path {
        lost: [0.03, 0.0],
        missed: [0.0, 0.2],
        ..Path::default()
    };
    let transfer = Transfer {
        segments: 4000,
        ..Transfer::default()
    };
    let scene = path.carry(&[transfer]);
    let pair = scene.read().unwrap();
    let truly_lost = scene
        .journeys
        .iter()
        .filter(|journey| journey.crossing == Crossing::Lost && journey.seen[0].is_some())
        .count() as f64;
    let lost = pair.counts.lost[0] as f64;
    assert!(
        (lost / truly_lost - 1.0).abs() < 0.1,
        "{lost} of {truly_lost}"
    );
    assert_eq!(pair.counts.lost[1], 0);
}

#[test]
fn both_captures_may_miss_packets() {
    let path = Path {
        missed: [0.05, 0.05],
        ..Path::default()
    };
    let pair = one(&path).read().unwrap();
    assert_eq!(pair.counts.lost, [0, 0], "{:?}", pair.counts);
}

#[test]
fn many_lost_acknowledgments_are_recognised_even_if_the_capture_lacks_some() {
    let path = Path {
        lost: [0.0, 0.2],
        missed: [0.02, 0.0],
        ..Path::default()
    };
    let transfer = Transfer {
        segments: 4000,
        ..Transfer::default()
    };
    let pair = path.carry(&[transfer]).read().unwrap();
    let lost = pair.counts.lost[1] as f64;
    assert!((lost / 800.0 - 1.0).abs() < 0.15, "{:?}", pair.counts);
    assert_eq!(pair.counts.lost[0], 0);
}

#[test]
fn overtaken_and_overtaking_packets_are_marked() {
    let path = Path {
        reordered: 0.02,
        ..Path::default()
    };
    let pair = one(&path).check();
    assert_eq!(pair.counts.lost, [0, 0]);
    // a packet delayed by 1 ms is overtaken by those of 1 ms, one every 200 µs
    let flow = &pair.flows[0];
    assert!(
        flow.overtaken >= 3 && flow.overtook > 3 * flow.overtaken,
        "{flow:?}"
    );
    assert_eq!(pair.counts.overtaken[0], flow.overtaken);
}

#[test]
fn swapping_the_captures_swaps_all_directions() {
    let path = Path {
        lost: [0.05, 0.01],
        ..Path::default()
    };
    let scene = one(&path);
    let pair = scene.check();
    let swapped = scene.swapped().check();
    assert_eq!(
        swapped.counts.lost,
        [pair.counts.lost[1], pair.counts.lost[0]]
    );
    for (flow, other) in pair.flows.iter().zip(&swapped.flows) {
        assert_eq!(flow.direction, other.direction.reversed());
    }
}

#[test]
fn several_connections_at_once_keep_apart() {
    let path = Path {
        lost: [0.03, 0.0],
        ..Path::default()
    };
    let transfers: Vec<Transfer> = (0..20)
        .map(|number| Transfer {
            client: (Transfer::default().client.0, 40_000 + number),
            segments: 100,
            // all begin with the same numbers
            first_sequence: 0,
            timestamps: false,
            numbered: number % 2 == 0,
            start_ns: Transfer::default().start_ns + i64::from(number) * 777_777,
            ..Transfer::default()
        })
        .collect();
    path.carry(&transfers).check();
}
