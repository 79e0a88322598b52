//! Unusual captures: of other paths, of other times, damaged, the same twice, too large for the memory.

use std::net::{IpAddr, Ipv4Addr};

use crate::testing::{Encoding, Path, Scene, Transfer, read_files};
use crate::{Crossing, Direction, Pair, PairError, PairOptions};

const MS: i64 = 1_000_000;

fn scene(lost: f64) -> Scene {
    let path = Path {
        lost: [lost, 0.0],
        ..Path::default()
    };
    path.carry(&[Transfer::default()])
}

fn count(pair: &Pair, crossing: Crossing) -> usize {
    let packets = pair.packets.iter();
    packets.filter(|packet| packet.crossing == crossing).count()
}

#[test]
fn captures_of_different_paths_have_no_packet_in_common() {
    let elsewhere = Transfer {
        client: (IpAddr::V4(Ipv4Addr::new(172, 16, 0, 9)), 50_000),
        server: (IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7)), 80),
        first_sequence: 77_777,
        ..Transfer::default()
    };
    let ([first, _], _) = scene(0.0).files();
    let ([_, second], _) = Path::default().carry(&[elsewhere]).files();
    let error = read_files([first, second], PairOptions::default()).unwrap_err();
    let PairError::NothingInCommon { message } = &error else {
        panic!("{error:?}");
    };
    assert!(message.starts_with("no packet in common: "), "{message}");
    for part in [
        "capture-1 holds 1006 packets of 10.0.1.1, 192.0.2.7",
        "capture-2 holds 1006 packets of 172.16.0.9, 198.51.100.7",
        "2023-11-14 22:13:20 UTC",
        "check",
    ] {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    assert!(!error.to_string().contains('\n'));
}

#[test]
fn an_empty_capture_has_nothing_in_common_with_any() {
    let ([first, second], _) = scene(0.0).files();
    let error = read_files([first, second[..24].to_vec()], PairOptions::default()).unwrap_err();
    assert!(error.to_string().contains("holds 0 packets"), "{error}");
}

#[test]
fn a_flow_that_passes_one_point_only_is_on_another_path() {
    let other = Transfer {
        client: (IpAddr::V4(Ipv4Addr::new(172, 16, 0, 9)), 50_000),
        first_sequence: 123,
        ..Transfer::default()
    };
    let mut scene = Path::default().carry(&[Transfer::default(), other]);
    for journey in &mut scene.journeys {
        let own = journey.seen.iter().flatten().any(|passing| {
            let hosts = [passing.wire.source.0, passing.wire.destination.0];
            hosts.contains(&IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1)))
        });
        if !own {
            journey.seen[1] = None;
            journey.crossing = Crossing::OtherPath;
        }
    }
    let pair = scene.check();
    assert_eq!(pair.counts.other_path, [1006, 0]);
    assert_eq!(pair.counts.lost, [0, 0]);
}

#[test]
fn the_same_capture_twice_is_all_matched_and_shows_no_direction() {
    let ([first, _], _) = scene(0.02).files();
    let pair = read_files([first.clone(), first], PairOptions::default()).unwrap();
    assert_eq!(count(&pair, Crossing::Matched), pair.packets.len());
    assert!(
        pair.flows
            .iter()
            .all(|flow| flow.direction == Direction::Unknown)
    );
}

#[test]
fn packets_while_one_capture_was_not_running_are_outside_of_the_overlap() {
    let mut scene = scene(0.02);
    let start = Transfer::default().start_ns;
    for journey in &mut scene.journeys {
        // capture 2 begins later, capture 1 ends earlier
        if journey.seen[0]
            .as_ref()
            .is_some_and(|p| p.time_ns > start + 90 * MS)
        {
            journey.seen[0] = None;
        }
        if journey.seen[1]
            .as_ref()
            .is_some_and(|p| p.time_ns < start + 40 * MS)
        {
            journey.seen[1] = None;
        }
    }
    let pair = scene.read().unwrap();
    assert_eq!(pair.counts.missed, [0, 0], "{:?}", pair.counts);
    assert!(pair.counts.outside_overlap[0] > 100 && pair.counts.outside_overlap[1] > 100);
    let lost = |journey: &&crate::testing::Journey| {
        let time = journey.seen[0]
            .as_ref()
            .map_or(0, |passing| passing.time_ns);
        journey.crossing == Crossing::Lost && time > start + 41 * MS && time < start + 87 * MS
    };
    let expected = scene.journeys.iter().filter(lost).count() as u64;
    assert!(expected > 0);
    assert!(
        pair.counts.lost[0].abs_diff(expected) <= 1,
        "{:?} {expected}",
        pair.counts
    );
    assert_eq!(pair.counts.lost[1], 0);
}

#[test]
fn a_truncated_second_capture_counts_up_to_its_end() {
    let ([first, second], _) = scene(0.02).files();
    let cut = second.len() * 3 / 5 + 7;
    let pair = read_files([first, second[..cut].to_vec()], PairOptions::default()).unwrap();
    assert!(pair.summaries[1].truncated);
    assert!(pair.counts.outside_overlap[0] > 300, "{:?}", pair.counts);
    assert_eq!(pair.counts.missed, [0, 0]);
    assert!((1..15).contains(&pair.counts.lost[0]), "{:?}", pair.counts);
}

#[test]
fn losses_that_a_long_path_has_not_repaired_when_both_captures_end_are_losses() {
    let path = Path {
        transit_ns: [400 * MS, 400 * MS],
        lost: [0.1, 0.0],
        ..Path::default()
    };
    let transfer = Transfer {
        segments: 1000,
        gap_ns: 2 * MS,
        ..Transfer::default()
    };
    let mut scene = path.carry(&[transfer]);
    // amid traffic
    let end_ns = Transfer::default().start_ns + 2500 * MS;
    for journey in &mut scene.journeys {
        for seen in &mut journey.seen {
            seen.take_if(|passing| passing.time_ns > end_ns);
        }
    }
    let pair = scene.read().unwrap();
    assert_eq!(pair.counts.missed, [0, 0], "{:?}", pair.counts);
    assert!(pair.counts.lost[0] > 60, "{:?}", pair.counts);
}

#[test]
fn one_direction_alone_shows_losses_and_its_origin() {
    let mut scene = scene(0.03);
    scene.journeys.retain(|journey| {
        let passing = journey.seen.iter().flatten().next();
        passing.is_some_and(|passing| passing.wire.source.1 == 40_000)
    });
    let pair = scene.check();
    assert_eq!(pair.flows[0].direction, Direction::FirstToSecond);
    assert!(pair.counts.lost[0] > 3);
}

#[test]
fn one_direction_without_hop_counts_is_known_by_its_losses() {
    let mut scene = scene(0.03).at(1, |passing| passing.wire.ttl = 63);
    scene.journeys.retain(|journey| {
        let passing = journey.seen.iter().flatten().next();
        passing.is_some_and(|passing| passing.wire.source.1 == 40_000)
    });
    // the clocks show the opposite
    let scene = scene.at(1, |passing| passing.time_ns -= 1000 * MS);
    let pair = scene.read().unwrap();
    assert_eq!(pair.flows[0].direction, Direction::FirstToSecond);
}

#[test]
fn little_memory_gives_up_packets_and_counts_them() {
    let scene = scene(0.3);
    for most_pending in [0, 1, 2, 20] {
        let options = PairOptions {
            most_pending,
            ..PairOptions::default()
        };
        let pair = match scene.read_with(options) {
            Ok(pair) => pair,
            Err(PairError::NothingInCommon { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let forgotten: u64 = pair.counts.forgotten.iter().sum();
        assert!(forgotten > 0, "{most_pending}: {:?}", pair.counts);
        assert_eq!(
            pair.counts.packets[0] as usize,
            scene
                .journeys
                .iter()
                .filter(|j| j.seen[0].is_some())
                .count()
        );
    }
}

#[test]
fn the_progress_function_can_stop_the_reading() {
    let ([first, second], _) = scene(0.0).files();
    let options = PairOptions {
        progress: Some(Box::new(|_, _| false)),
        ..PairOptions::default()
    };
    assert_eq!(
        read_files([first, second], options).unwrap_err(),
        PairError::Stopped
    );
}

#[test]
fn snapshot_lengths_may_differ() {
    // without TCP options; with part of them; the other capture is complete
    for snaplen_bytes in [40, 52, 54, 60, 64] {
        for side in 0..2 {
            let encoding = Encoding {
                snaplen_bytes,
                ..Encoding::default()
            };
            let pair = scene(0.03).encoded(side, encoding).check();
            assert_eq!(pair.counts.missed, [0, 0]);
        }
    }
}

#[test]
fn packets_cut_off_before_the_transport_header_ends_are_counted_as_unmatchable() {
    let encoding = Encoding {
        snaplen_bytes: 36,
        ..Encoding::default()
    };
    let error = scene(0.0).encoded(1, encoding).read().unwrap_err();
    assert!(matches!(error, PairError::NothingInCommon { .. }));
}

#[test]
fn a_packet_duplicated_between_the_points_is_counted_as_such() {
    let mut scene = scene(0.0);
    let again: Vec<_> = scene
        .journeys
        .iter()
        .filter(|journey| {
            journey.seen[1]
                .as_ref()
                .is_some_and(|p| p.wire.source.1 == 40_000)
        })
        .step_by(50)
        .map(|journey| {
            let mut copy = journey.clone();
            copy.seen[0] = None;
            copy.crossing = Crossing::Duplicated;
            // later than a copy made by the capture could be
            if let Some(passing) = &mut copy.seen[1] {
                passing.time_ns += 150 * MS;
                passing.order_ns += 150 * MS;
            }
            copy
        })
        .collect();
    let copies = again.len() as u64;
    scene.journeys.extend(again);
    let pair = scene.check();
    assert_eq!(pair.counts.duplicated, [copies, 0]);
}

#[test]
fn reused_ports_are_a_new_flow() {
    let transfers: Vec<Transfer> = (0..4)
        .map(|number| Transfer {
            start_ns: Transfer::default().start_ns + i64::from(number) * 1_000 * MS,
            first_sequence: number * 1_000_003,
            segments: 50,
            ..Transfer::default()
        })
        .collect();
    let path = Path {
        lost: [0.05, 0.0],
        ..Path::default()
    };
    let pair = path.carry(&transfers).check();
    assert_eq!(pair.flows.len(), 8);
    let mut connections: Vec<_> = pair.flows.iter().map(|flow| flow.tracked[0]).collect();
    connections.dedup();
    assert_eq!(connections.len(), 8, "{connections:?}");
    assert!(connections.iter().all(Option::is_some));
}
