//! Clocks that were set, files out of order, and pauses that are neither.

use std::io::Cursor;

use crate::testing::*;
use crate::{Capture, LinkType, OpenOptions, Summary};

const US: i64 = 1000;
const MS: i64 = 1_000_000;
const S: i64 = 1_000_000_000;
const START_NS: i64 = 1_700_000_000 * S;

/// A packet of a transfer: data, or the acknowledgment of it.
#[derive(Clone, Copy)]
struct Sent {
    time_ns: i64,
    is_data: bool,
    number: u32,
    /// The sender's clock in milliseconds, if it sends one.
    clock: Option<u32>,
}

/// Data every 2 ms, acknowledged after 40 ms.
fn transfer(packets: u32, has_clock: bool) -> Vec<Sent> {
    let packet = |time_ns: i64, is_data: bool, number: u32| Sent {
        time_ns: START_NS + time_ns,
        is_data,
        number,
        clock: has_clock.then_some(77_000 + (time_ns / MS) as u32),
    };
    let both = (0..packets).flat_map(|number| {
        let sent_ns = i64::from(number) * 2 * MS + i64::from(number % 7) * 10 * US;
        [
            packet(sent_ns, true, number),
            packet(sent_ns + 40 * MS, false, number),
        ]
    });
    let mut packets: Vec<Sent> = both.collect();
    packets.sort_by_key(|packet| packet.time_ns);
    packets
}

fn frame_of(sent: &Sent) -> Vec<u8> {
    let sequence = 1000 + sent.number * 100;
    let options = sent.clock.map_or(Vec::new(), |clock| {
        join(&[&[1, 1, 8, 10], &clock.to_be_bytes(), &[0; 4]])
    });
    let segment = match sent.is_data {
        true => Tcp {
            sequence,
            acknowledgment: 1,
            flags: ACK,
            options,
            payload: vec![0; 100],
            ..Tcp::default()
        },
        false => Tcp {
            sequence: 1,
            acknowledgment: sequence + 100,
            flags: ACK,
            options,
            payload: Vec::new(),
            ..Tcp::default()
        },
    };
    let header = Ipv4 {
        identification: sent.number as u16 + 1,
        ..Ipv4::default()
    };
    let mut packet = header.bytes(&segment.bytes());
    if !sent.is_data {
        for octet in 0..4 {
            packet.swap(12 + octet, 16 + octet);
        }
        packet.swap(20, 22);
        packet.swap(21, 23);
    }
    packet
}

fn file_of(packets: &[Sent]) -> Vec<u8> {
    let frames: Vec<Vec<u8>> = packets.iter().map(frame_of).collect();
    let times = packets.iter().map(|packet| packet.time_ns);
    let frames: Vec<(i64, &[u8])> = times.zip(frames.iter().map(|frame| &frame[..])).collect();
    let file = PcapFile {
        nanoseconds: true,
        link: LinkType::RAW.0,
        ..PcapFile::default()
    };
    file.of(&frames)
}

/// The returned times, relative to the start, with clock steps undone.
fn steady(packets: &[Sent]) -> (Vec<i64>, Summary, bool) {
    let bytes = Cursor::new(file_of(packets));
    let mut capture = Capture::from_reader("test", bytes, OpenOptions::default()).unwrap();
    capture.keep_clock_steady();
    let times = drain(&mut capture)
        .iter()
        .map(|line| line.time_ns - START_NS)
        .collect();
    let summary = capture.summary();
    let is_disordered = summary
        .notes
        .iter()
        .any(|note| note.contains("not in time order"));
    (times, summary, is_disordered)
}

fn true_times(packets: &[Sent]) -> Vec<i64> {
    packets
        .iter()
        .map(|packet| packet.time_ns - START_NS)
        .collect()
}

/// The packets, with the clock set by `by_ns` before the one at this index.
fn set_at(packets: &[Sent], place: usize, by_ns: i64) -> Vec<Sent> {
    let mut packets = packets.to_vec();
    for packet in packets.iter_mut().skip(place) {
        packet.time_ns += by_ns;
    }
    packets
}

fn largest_error_ns(found: &[i64], truth: &[i64]) -> i64 {
    assert_eq!(found.len(), truth.len());
    let errors = found
        .iter()
        .zip(truth)
        .map(|(found, truth)| (found - truth).abs());
    errors.max().unwrap_or(0)
}

#[test]
fn a_clock_step_is_undone_in_both_directions() {
    let packets = transfer(500, true);
    for by_ns in [
        3600 * S,
        30 * S,
        2 * S,
        -30 * MS,
        -S,
        -3600 * S,
        -86_400 * S,
    ] {
        let (times, summary, is_disordered) = steady(&set_at(&packets, 400, by_ns));
        let error_ns = largest_error_ns(&times, &true_times(&packets));
        assert!(error_ns < 3 * MS, "set by {by_ns} ns: {error_ns} ns wrong");
        assert!(!is_disordered);
        let clock = summary
            .notes
            .iter()
            .filter(|note| note.contains("clock was set"));
        assert_eq!(
            (clock.count(), summary.notes.len()),
            (1, 1),
            "{:?}",
            summary.notes
        );
    }
}

#[test]
fn a_clock_that_is_set_back_again_and_again_by_little_goes_on() {
    let packets = transfer(500, true);
    let mut set = packets.clone();
    for (place, packet) in set.iter_mut().enumerate() {
        packet.time_ns -= place as i64 / 100 * 5 * MS;
    }
    let (times, _, is_disordered) = steady(&set);
    assert!(!is_disordered);
    assert!(times.is_sorted());
    let error_ns = largest_error_ns(&times, &true_times(&packets));
    assert!(error_ns < 20 * MS, "{error_ns} ns");
}

#[test]
fn without_timestamps_the_sequence_numbers_decide() {
    let packets = transfer(500, false);
    for by_ns in [-5 * S, -3600 * S, 3600 * S] {
        let (times, summary, is_disordered) = steady(&set_at(&packets, 400, by_ns));
        assert!(!is_disordered);
        let error_ns = largest_error_ns(&times, &true_times(&packets));
        assert!(error_ns < 3 * MS, "set by {by_ns} ns: {error_ns} ns wrong");
        assert!(
            summary.notes[0].contains("clock was set"),
            "{:?}",
            summary.notes
        );
    }
}

#[test]
fn a_pause_is_a_pause_if_the_hosts_clocks_go_on() {
    for has_clock in [true, false] {
        // everything acknowledged, then an hour without packets
        let mut packets = transfer(200, has_clock);
        let mut after: Vec<Sent> = transfer(400, has_clock).into_iter().skip(400).collect();
        after.retain(|packet| packet.number >= 200);
        for packet in &mut after {
            packet.time_ns += 3600 * S;
            packet.clock = packet.clock.map(|clock| clock + 3_600_000);
        }
        packets.extend(after);
        let (times, summary, _) = steady(&packets);
        assert_eq!(times, true_times(&packets));
        assert_eq!(summary.notes, Vec::<String>::new());
    }
}

#[test]
fn packets_queued_for_seconds_are_no_clock_step() {
    // packets sent before a stall of 5 s arrive after it; the hosts' clocks advanced
    let mut packets = transfer(300, true);
    let stall_at = START_NS + 300 * MS;
    for packet in &mut packets {
        if packet.time_ns >= stall_at {
            packet.time_ns += 5 * S;
            let waited = packet.is_data && packet.number < 170;
            packet.clock = packet
                .clock
                .map(|clock| clock + if waited { 0 } else { 5000 });
        }
    }
    let (times, ..) = steady(&packets);
    assert_eq!(times, true_times(&packets));
}

#[test]
fn records_of_two_queues_are_put_in_order() {
    let packets = transfer(500, true);
    let mut late = packets.clone();
    // each direction is in order, acknowledgments are written half a second late
    late.sort_by_key(|packet| packet.time_ns + if packet.is_data { 0 } else { 500 * MS });
    assert_is_sorted(&late, &packets);
    // one direction behind the other
    late.sort_by_key(|packet| !packet.is_data);
    assert_is_sorted(&late, &packets);
    // and records slightly late, without any clock
    let packets = transfer(500, false);
    let mut late = packets.clone();
    late.sort_by_key(|packet| packet.time_ns + if packet.number % 5 == 0 { 3 * MS } else { 0 });
    assert_is_sorted(&late, &packets);
}

#[track_caller]
fn assert_is_sorted(in_file: &[Sent], packets: &[Sent]) {
    let (_, summary, is_disordered) = steady(in_file);
    assert!(is_disordered);
    assert!(
        summary.notes.iter().any(|note| note.contains("only once")),
        "{:?}",
        summary.notes
    );

    let name = format!(
        "whydrop-timeline-{}-{}",
        std::process::id(),
        in_file.len() + usize::from(in_file[0].clock.is_some())
    );
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, file_of(in_file)).unwrap();
    let mut capture = Capture::open(&[&path], OpenOptions::default()).unwrap();
    while capture.next_packet().is_some() {}
    assert!(capture.is_disordered());
    let mut capture = capture.in_order().unwrap();
    let times: Vec<i64> = drain(&mut capture)
        .iter()
        .map(|line| line.time_ns - START_NS)
        .collect();
    assert_eq!(times, true_times(packets));
    std::fs::remove_file(&path).unwrap();
    let summary = capture.summary();
    assert_eq!(summary.packets as usize, packets.len());
    assert!(!capture.is_disordered());
    assert!(summary.notes[0].contains("are read in time order"));
}

#[test]
fn stamps_that_jump_to_and_fro_while_the_file_is_in_order_are_left_alone() {
    let mut packets = transfer(300, false);
    for packet in packets
        .iter_mut()
        .filter(|packet| packet.is_data && packet.number % 3 == 0)
    {
        packet.time_ns += 45 * MS;
    }
    let truth = transfer(300, false);
    let numbers = |packets: &[Sent]| {
        packets
            .iter()
            .map(|p| (p.is_data, p.number))
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(&packets), numbers(&truth));
    let (times, _, _) = steady(&packets);
    assert_eq!(times, true_times(&packets));
}

#[test]
fn hostile_stamps_do_not_overflow_and_all_packets_are_given() {
    let mut packets = transfer(300, true);
    let stamps = [0, i64::from(u32::MAX) * S, S, 1, i64::from(u32::MAX) * S];
    for (place, packet) in packets.iter_mut().enumerate() {
        packet.time_ns = stamps[place % stamps.len()];
    }
    let (times, ..) = steady(&packets);
    assert_eq!(times.len(), packets.len());
}
