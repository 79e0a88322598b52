//! Segmentation offload: super-segments at one point or both.

use std::collections::HashSet;

use crate::testing::{Body, Path, Scene, Transfer, read_files};
use crate::{Crossing, Direction, Pair, PairOptions};

const MSS: u32 = 1448;

/// Merges runs of consecutive data packets at one point into super-segments of up to `most` packets, as they come or
/// as a network card would hand them over. The first packet's header stays.
fn merge(scene: &mut Scene, side: usize, most: usize, first: usize, within_ns: i64) {
    let mut order: Vec<usize> = (0..scene.journeys.len())
        .filter(|&number| scene.journeys[number].seen[side].is_some())
        .collect();
    order.sort_by_key(|&number| {
        scene.journeys[number].seen[side]
            .as_ref()
            .map(|p| p.order_ns)
    });
    let mut head: Option<(usize, u32, usize)> = None;
    let mut room = first;
    for number in order {
        let Some(passing) = scene.journeys[number].seen[side].clone() else {
            continue;
        };
        let Body::Tcp {
            sequence,
            payload_bytes,
            ..
        } = passing.wire.body
        else {
            continue;
        };
        if payload_bytes == 0 {
            continue;
        }
        if let Some((at, next, count)) = head
            && sequence == next
            && count < room
            && let Some(super_segment) = &mut scene.journeys[at].seen[side]
            && passing.order_ns - super_segment.order_ns < within_ns
            && let Body::Tcp { payload_bytes, .. } = &mut super_segment.wire.body
        {
            *payload_bytes += MSS;
            scene.journeys[number].seen[side] = None;
            head = Some((at, next.wrapping_add(MSS), count + 1));
            continue;
        }
        room = if head.is_none() { first } else { most };
        head = Some((number, sequence.wrapping_add(payload_bytes), 1));
    }
}

struct Lab {
    lost: f64,
    transfer: Transfer,
}

impl Default for Lab {
    fn default() -> Self {
        Self {
            lost: 0.02,
            transfer: Transfer {
                segments: 2000,
                gap_ns: 20_000,
                ..Transfer::default()
            },
        }
    }
}

impl Lab {
    fn scene(&self) -> (Scene, HashSet<(u32, i64)>) {
        let path = Path {
            lost: [self.lost, 0.0],
            ..Path::default()
        };
        let scene = path.carry(std::slice::from_ref(&self.transfer));
        let lost = scene
            .journeys
            .iter()
            .filter(|journey| journey.crossing == Crossing::Lost)
            .filter_map(|journey| match journey.seen[0].as_ref()?.wire.body {
                Body::Tcp { sequence, .. } => Some((sequence, journey.seen[0].as_ref()?.time_ns)),
                _ => None,
            })
            .collect();
        (scene, lost)
    }
}

#[track_caller]
fn check(scene: &Scene, lost: &HashSet<(u32, i64)>) -> Pair {
    let (files, _) = scene.files();
    let pair = read_files(files, PairOptions::default()).unwrap();
    assert_eq!(
        pair.counts.lost,
        [lost.len() as u64, 0],
        "{:?}",
        pair.counts
    );
    assert_eq!(pair.counts.missed, [0, 0], "{:?}", pair.counts);
    let found: HashSet<u32> = pair
        .packets
        .iter()
        .filter(|packet| packet.crossing == Crossing::Lost)
        .map(|packet| packet.sequence)
        .collect();
    let expected: HashSet<u32> = lost.iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(found, expected);
    assert!(
        pair.packets
            .iter()
            .all(|packet| packet.payload_bytes <= MSS)
    );
    assert_eq!(pair.flows[0].direction, Direction::FirstToSecond);
    pair
}

#[test]
fn super_segments_at_the_sender_are_cut_into_what_went_on_the_wire() {
    let (mut scene, lost) = Lab::default().scene();
    merge(&mut scene, 0, 30, 30, 10_000_000);
    let pair = check(&scene, &lost);
    assert!(pair.flows[0].offloaded[0] > 1000);
    assert_eq!(pair.flows[0].offloaded[1], 0);
}

#[test]
fn super_segments_merged_by_the_receiver_are_cut() {
    let (mut scene, lost) = Lab::default().scene();
    merge(&mut scene, 1, 12, 12, 1_000_000);
    check(&scene, &lost);
}

#[test]
fn super_segments_at_both_points_need_not_agree() {
    let (mut scene, lost) = Lab::default().scene();
    merge(&mut scene, 0, 40, 40, 10_000_000);
    merge(&mut scene, 1, 17, 5, 1_000_000);
    let pair = check(&scene, &lost);
    assert!(pair.flows[0].offloaded[0] > 1000 && pair.flows[0].offloaded[1] > 1000);
}

#[test]
fn without_a_handshake_the_other_point_tells_how_to_cut() {
    for side in 0..2 {
        let lab = Lab {
            transfer: Transfer {
                handshake: false,
                ..Lab::default().transfer
            },
            ..Lab::default()
        };
        let (mut scene, lost) = lab.scene();
        merge(&mut scene, side, 30, 30, 3_000_000);
        check(&scene, &lost);
    }
}

#[test]
fn without_a_handshake_and_with_super_segments_at_both_points_the_likeliest_size_is_taken() {
    let lab = Lab {
        transfer: Transfer {
            handshake: false,
            ..Lab::default().transfer
        },
        ..Lab::default()
    };
    let (mut scene, lost) = lab.scene();
    merge(&mut scene, 0, 30, 30, 3_000_000);
    merge(&mut scene, 1, 17, 5, 1_000_000);
    check(&scene, &lost);
}

#[test]
fn packets_without_numbers_or_timestamps_survive_offload() {
    for (numbered, timestamps) in [(false, true), (true, false)] {
        let lab = Lab {
            transfer: Transfer {
                numbered,
                timestamps,
                segment_bytes: MSS,
                ..Lab::default().transfer
            },
            ..Lab::default()
        };
        let (mut scene, lost) = lab.scene();
        merge(&mut scene, 0, 30, 30, 3_000_000);
        // without timestamps the announced size would be 1460: the wire packets at the other point know better
        check(&scene, &lost);
    }
}

#[test]
fn merged_packets_have_the_numbers_that_counting_up_gives_or_their_timestamps_decide() {
    // the receiver's side shows one identification per super-segment, whatever its packets had
    let (mut scene, lost) = Lab::default().scene();
    for (number, journey) in scene.journeys.iter_mut().enumerate() {
        for passing in journey.seen.iter_mut().flatten() {
            passing.wire.identification = (number as u16).wrapping_mul(40_503) | 1;
        }
    }
    merge(&mut scene, 1, 12, 12, 1_000_000);
    check(&scene, &lost);
}
