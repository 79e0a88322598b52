//! Segmentation offload: super-segments at one point or both.

use std::collections::HashSet;

use crate::testing::{Body, Path, Scene, Transfer, read_files};
use crate::{Crossing, Direction, Pair, PairOptions, PairPacket};

const MSS: u32 = 1448;

/// Merges runs of consecutive data packets at one point into super-segments of up to `most` packets, as a
/// network card passes them on. The first packet's header stays.
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
            payload_bytes: bytes,
            ..
        } = passing.wire.body
        else {
            continue;
        };
        if bytes == 0 {
            continue;
        }
        if let Some((at, next, count)) = head
            && sequence == next
            && count < room
            && let Some(super_segment) = &mut scene.journeys[at].seen[side]
            && passing.order_ns - super_segment.order_ns < within_ns
            && let Body::Tcp { payload_bytes, .. } = &mut super_segment.wire.body
        {
            *payload_bytes += bytes;
            scene.journeys[number].seen[side] = None;
            head = Some((at, next.wrapping_add(bytes), count + 1));
            continue;
        }
        room = if head.is_none() { first } else { most };
        head = Some((number, sequence.wrapping_add(bytes), 1));
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
fn super_segments_at_the_sender_are_split_into_wire_packets() {
    let (mut scene, lost) = Lab::default().scene();
    merge(&mut scene, 0, 30, 30, 10_000_000);
    let pair = check(&scene, &lost);
    assert!(pair.flows[0].offloaded[0] > 1000);
    assert_eq!(pair.flows[0].offloaded[1], 0);
}

#[test]
fn super_segments_merged_by_the_receiver_are_split() {
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
fn without_a_handshake_the_other_point_shows_how_to_split() {
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
fn without_a_handshake_and_with_super_segments_at_both_points_the_most_likely_size_is_used() {
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
        // without timestamps the announced size would be 1460: the wire packets at the other point show the
        // real one
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

/// A sender that often has less to send than a full segment.
fn with_short_segments(transfer: Transfer, lost: f64) -> Lab {
    Lab {
        lost,
        transfer: Transfer {
            short_every: 37,
            ..transfer
        },
    }
}

#[test]
fn short_segments_anywhere_in_super_segments_are_found_at_the_other_point() {
    for side in 0..2 {
        for most in [5, 30] {
            let (mut scene, _) = with_short_segments(Lab::default().transfer, 0.0).scene();
            merge(&mut scene, side, most, most, 10_000_000);
            let pair = check(&scene, &HashSet::new());
            let data = pair.packets.iter().filter(|row| row.payload_bytes > 0);
            let data: Vec<&PairPacket> = data.collect();
            assert_eq!(data.len(), 2000, "side {side}, {most} joined");
            let in_order = data
                .windows(2)
                .all(|two| two[0].sequence.wrapping_add(two[0].payload_bytes) == two[1].sequence);
            assert!(in_order, "side {side}, {most} joined");
        }
    }
}

#[test]
fn exactly_the_lost_parts_of_super_segments_with_short_segments_are_lost() {
    for side in 0..2 {
        let (mut scene, lost) = with_short_segments(Lab::default().transfer, 0.02).scene();
        merge(&mut scene, side, 30, 30, 10_000_000);
        let pair = check(&scene, &lost);
        let swapped = scene.swapped().read().unwrap();
        assert_eq!(swapped.counts.lost, [0, lost.len() as u64]);
        assert_eq!(swapped.counts.matched, pair.counts.matched);
        assert_eq!(
            swapped.flows[0].retransmissions,
            pair.flows[0].retransmissions
        );
    }
}

#[test]
fn short_segments_are_found_without_timestamps_numbers_or_a_handshake() {
    let plain = Lab::default().transfer;
    let transfers = [
        Transfer {
            timestamps: false,
            segment_bytes: 1460,
            ..plain.clone()
        },
        Transfer {
            numbered: false,
            ..plain.clone()
        },
        Transfer {
            handshake: false,
            ..plain
        },
    ];
    for transfer in transfers {
        let (mut scene, lost) = with_short_segments(transfer.clone(), 0.02).scene();
        merge(&mut scene, 0, 30, 30, 3_000_000);
        let counts = scene.read().unwrap().counts;
        assert_eq!(counts.lost, [lost.len() as u64, 0], "{transfer:?}");
        assert_eq!(counts.missed, [0, 0], "{transfer:?}");
    }
}

#[test]
fn super_segments_of_both_points_with_short_segments_need_not_agree() {
    let (mut scene, lost) = with_short_segments(Lab::default().transfer, 0.02).scene();
    merge(&mut scene, 0, 40, 40, 10_000_000);
    merge(&mut scene, 1, 17, 5, 1_000_000);
    check(&scene, &lost);
}

#[test]
fn short_segments_alone_are_lost_as_one_packet_each() {
    let (mut scene, _) = with_short_segments(Lab::default().transfer, 0.0).scene();
    let mut lost = HashSet::new();
    for journey in &mut scene.journeys {
        let Some(sent) = &journey.seen[0] else {
            continue;
        };
        if let Body::Tcp {
            sequence,
            payload_bytes: 1..MSS,
            ..
        } = sent.wire.body
        {
            lost.insert((sequence, sent.time_ns));
            journey.seen[1] = None;
        }
    }
    assert_eq!(lost.len(), 54);
    merge(&mut scene, 0, 30, 30, 10_000_000);
    let pair = scene.read().unwrap();
    // the path did not retransmit them: acknowledgments only show that capture 2 lacks them
    assert_eq!(pair.counts.lost[0] + pair.counts.missed[1], 54);
    assert_eq!(pair.counts.missed[0], 0);
}

#[test]
fn short_segments_are_found_before_packets_are_given_up() {
    let lab = with_short_segments(
        Transfer {
            segments: 20_000,
            ..Lab::default().transfer
        },
        0.0,
    );
    let (mut scene, _) = lab.scene();
    merge(&mut scene, 0, 30, 30, 10_000_000);
    let options = PairOptions {
        most_pending: 1000,
        ..PairOptions::default()
    };
    let pair = scene.read_with(options).unwrap();
    assert_eq!(pair.counts.lost, [0, 0], "{:?}", pair.counts);
    assert_eq!(pair.counts.missed, [0, 0], "{:?}", pair.counts);
    assert_eq!(pair.counts.forgotten, [0, 0], "{:?}", pair.counts);
}

#[test]
fn splitting_leaves_every_captured_byte_in_one_row() {
    for (lost, most_pending) in [(0.1, 1000), (0.4, 1000), (0.4, 20)] {
        let transfer = Transfer {
            timestamps: most_pending == 20,
            segment_bytes: 1460,
            gap_ns: 1_000_000,
            ..Lab::default().transfer
        };
        let (mut scene, _) = with_short_segments(transfer, lost).scene();
        merge(&mut scene, 0, 40, 40, 100_000_000);
        merge(&mut scene, 1, 17, 5, 100_000_000);
        let options = PairOptions {
            most_pending,
            ..PairOptions::default()
        };
        let pair = scene.read_with(options).unwrap();
        for side in 0..2 {
            let captured = scene.journeys.iter().filter_map(|journey| {
                match journey.seen[side].as_ref()?.wire.body {
                    Body::Tcp { payload_bytes, .. } => Some(u64::from(payload_bytes)),
                    _ => None,
                }
            });
            let rows = pair.packets.iter().filter(|row| row.is_at(side));
            let bytes: u64 = rows.map(|row| u64::from(row.payload_bytes)).sum();
            assert_eq!(bytes, captured.sum(), "side {side}, {lost} {most_pending}");
        }
    }
}
