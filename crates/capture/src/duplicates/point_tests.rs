//! Packets on both sides of a router that translates addresses, coalesces and splits, as `-i any` captures them.

use std::io::Cursor;

use crate::testing::*;
use crate::{Capture, LinkType, OpenOptions, Summary};

const US: i64 = 1000;
const MS: i64 = 1_000_000;
const SYN: u16 = 2;

type Ends = ([u8; 4], [u8; 4]);
const INSIDE: Ends = ([192, 168, 1, 5], [10, 9, 0, 2]);
const OUTSIDE: Ends = ([10, 9, 0, 1], [10, 9, 0, 2]);

fn back(ends: Ends) -> Ends {
    (ends.1, ends.0)
}

/// A packet captured on one of a host's interfaces, with the interface's number.
fn cooked(interface: u8, ip: &[u8]) -> Vec<u8> {
    let header = [
        8, 0, 0, 0, 0, 0, 0, interface, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0,
    ];
    join(&[&header, ip])
}

fn packet(number: u16, interface: u8, ttl: u8, ends: Ends, segment: &Tcp) -> Vec<u8> {
    let fields = Ipv4 {
        identification: number,
        ttl,
        ..Ipv4::default()
    };
    let mut bytes = fields.bytes(&segment.bytes());
    bytes[12..16].copy_from_slice(&ends.0);
    bytes[16..20].copy_from_slice(&ends.1);
    if ends.0 == INSIDE.1 {
        // the server's port comes first
        bytes[20..24].rotate_left(2);
    }
    cooked(interface, &bytes)
}

fn stamped(sequence: u32, tick: u8) -> Tcp {
    let mut options = TIMESTAMPS.to_vec();
    options[7] = tick;
    Tcp {
        sequence,
        options,
        ..Tcp::default()
    }
}

/// Number and addresses of each returned packet.
fn given(frames: &[(i64, Vec<u8>)]) -> (Vec<(u64, String)>, Summary) {
    let frames: Vec<(i64, &[u8])> = frames.iter().map(|(at, frame)| (*at, &frame[..])).collect();
    let file = PcapFile {
        link: LinkType::LINUX_COOKED_2.0,
        ..PcapFile::default()
    };
    let bytes = Cursor::new(file.of(&frames));
    let mut capture = Capture::from_reader("test", bytes, OpenOptions::default()).unwrap();
    let mut given = Vec::new();
    while let Some(packet) = capture.next_packet() {
        let network = packet.network.expect("an IP packet");
        let ends = format!("{} > {}", network.source, network.destination);
        given.push((packet.index, ends));
    }
    (given, capture.summary())
}

const FORTH: &str = "192.168.1.5 > 10.9.0.2";
const BACK: &str = "10.9.0.2 > 192.168.1.5";

#[test]
fn a_translated_connection_is_one_connection_in_both_directions() {
    let request = stamped(7, 1);
    let answer = stamped(9000, 2);
    let frames = [
        (0, packet(5, 2, 64, INSIDE, &request)),
        (30 * US, packet(5, 3, 63, OUTSIDE, &request)),
        (20 * MS, packet(8, 3, 60, back(OUTSIDE), &answer)),
        (20 * MS + 30 * US, packet(8, 2, 59, back(INSIDE), &answer)),
        (40 * MS, packet(6, 2, 64, INSIDE, &stamped(12, 3))),
        (
            40 * MS + 30 * US,
            packet(6, 3, 63, OUTSIDE, &stamped(12, 3)),
        ),
    ];
    let (given, summary) = given(&frames);
    let expected = [(0, FORTH), (2, BACK), (4, FORTH)];
    assert_eq!(
        given,
        expected.map(|(index, ends)| (index, ends.to_owned()))
    );
    assert_eq!((summary.duplicates, summary.translated_connections), (3, 1));
    assert_eq!(
        summary.translations[0].kept,
        "192.168.1.5:40000 > 10.9.0.2:443"
    );
}

#[test]
fn what_the_router_dropped_or_did_not_forward_is_still_given_once() {
    let frames = [
        (0, packet(5, 2, 64, INSIDE, &stamped(7, 1))),
        (30 * US, packet(5, 3, 63, OUTSIDE, &stamped(7, 1))),
        // dropped before the second interface, then retransmitted
        (MS, packet(6, 2, 64, INSIDE, &stamped(12, 2))),
        (300 * MS, packet(9, 2, 64, INSIDE, &stamped(12, 3))),
        (
            300 * MS + 30 * US,
            packet(9, 3, 63, OUTSIDE, &stamped(12, 3)),
        ),
    ];
    let (given, _) = given(&frames);
    let indices: Vec<u64> = given.iter().map(|(index, _)| *index).collect();
    assert_eq!(indices, [0, 2, 3]);
}

#[test]
fn packets_of_two_connections_that_are_alike_in_all_but_their_ends_need_a_hop_between_them() {
    let segment = stamped(7, 1);
    let frames = [
        (0, packet(5, 2, 64, INSIDE, &segment)),
        (30 * US, packet(5, 3, 64, OUTSIDE, &segment)),
    ];
    assert_eq!(given(&frames).1.duplicates, 0);
    // from a program that sets no identification
    let bare = Tcp {
        sequence: 0,
        flags: SYN,
        options: Vec::new(),
        ..Tcp::default()
    };
    let frames = [
        (0, packet(1, 2, 64, INSIDE, &bare)),
        (30 * US, packet(1, 3, 63, OUTSIDE, &bare)),
    ];
    assert_eq!(given(&frames).1.duplicates, 0);
}

#[test]
fn ports_that_are_used_again_for_what_is_seen_once_are_a_connection_of_their_own() {
    let opening = |sequence: u32, tick: u8| Tcp {
        flags: SYN,
        ..stamped(sequence, tick)
    };
    let frames = [
        (0, packet(5, 2, 64, INSIDE, &opening(7, 1))),
        (30 * US, packet(5, 3, 63, OUTSIDE, &opening(7, 1))),
        (5_000 * MS, packet(6, 3, 63, OUTSIDE, &opening(99, 200))),
    ];
    let (given, _) = given(&frames);
    assert_eq!(given[1], (2, "10.9.0.1 > 10.9.0.2".to_owned()));
}

fn of_bytes(sequence: u32, bytes: usize, tick: u8) -> Tcp {
    Tcp {
        payload: vec![1; bytes],
        ..stamped(sequence, tick)
    }
}

/// A super-segment of 3000 bytes at one interface and its pieces at the next.
fn cut() -> Vec<(i64, Vec<u8>)> {
    let mut frames = vec![(0, packet(70, 2, 64, INSIDE, &of_bytes(1000, 3000, 1)))];
    for piece in 0..3u16 {
        let segment = of_bytes(1000 + 1000 * u32::from(piece), 1000, 1);
        let at = 10 * US * i64::from(piece + 1);
        frames.push((at, packet(70 + piece, 3, 63, INSIDE, &segment)));
    }
    frames
}

#[test]
fn pieces_of_a_super_segment_are_copies_and_the_reverse() {
    let (cut_given, summary) = given(&cut());
    assert_eq!((cut_given.len(), summary.duplicates), (1, 3));
    let mut frames = cut();
    frames.rotate_left(1);
    frames[3].0 = 50 * US;
    let (joined_given, summary) = given(&frames);
    assert_eq!((joined_given.len(), summary.duplicates), (3, 1));
}

#[test]
fn a_retransmitted_piece_is_no_copy() {
    let mut frames = cut();
    // at the first interface, with a later timestamp
    frames.push((5 * MS, packet(90, 2, 64, INSIDE, &of_bytes(2000, 1000, 9))));
    frames.push((
        5 * MS + 10 * US,
        packet(90, 3, 63, INSIDE, &of_bytes(2000, 1000, 9)),
    ));
    let (given, _) = given(&frames);
    let indices: Vec<u64> = given.iter().map(|(index, _)| *index).collect();
    assert_eq!(indices, [0, 4]);
}
