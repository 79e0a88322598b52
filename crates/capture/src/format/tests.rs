//! Files of both formats, in both byte orders, from bytes built by hand.

use proptest::prelude::*;

use super::LARGEST_FRAME_BYTES;
use crate::testing::ByteOrder::{Big, Little};
use crate::testing::*;
use crate::{LinkType, Summary};

/// 2023-11-14 22:13:20 UTC.
const START_NS: i64 = 1_700_000_000_000_000_000;

fn pcap_with_lengths(version: (u16, u16), lengths: (u32, u32), frame: &[u8]) -> Vec<u8> {
    let file = PcapFile::default();
    let mut bytes = file.header();
    bytes[4..6].copy_from_slice(&version.0.to_le_bytes());
    bytes[6..8].copy_from_slice(&version.1.to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(lengths.0.to_le_bytes());
    bytes.extend(lengths.1.to_le_bytes());
    bytes.extend(frame);
    bytes
}

#[track_caller]
fn only_note(summary: &Summary) -> &str {
    match &summary.notes[..] {
        [note] => note,
        notes => panic!("expected one note, found {notes:?}"),
    }
}

#[test]
fn pcap_is_read_in_both_byte_orders_and_units() {
    let frame = frame();
    for order in [Little, Big] {
        for nanoseconds in [false, true] {
            let file = PcapFile {
                order,
                nanoseconds,
                ..PcapFile::default()
            };
            let time_ns = START_NS + 123_456_789;
            let (lines, summary) = read(&file.of(&[(START_NS, &frame), (time_ns, &frame)]));
            assert_eq!(lines.len(), 2);
            let expected_ns = if nanoseconds { time_ns } else { time_ns - 789 };
            assert_eq!((lines[1].index, lines[1].time_ns), (1, expected_ns));
            assert_eq!(lines[0].wire_bytes as usize, frame.len());
            assert_eq!((summary.format.as_str(), summary.packets), ("pcap", 2));
            assert_eq!(
                (summary.first_ns, summary.last_ns),
                (Some(START_NS), Some(expected_ns))
            );
            assert_eq!(summary.link_types, ["Ethernet"]);
            assert_eq!(summary.snaplen_bytes, Some(65_535));
            assert_eq!((summary.kinds.tcp, summary.truncated), (2, false));
        }
    }
}

#[test]
fn a_pcap_without_packets_is_sound() {
    let (lines, summary) = read(&PcapFile::default().header());
    assert!(lines.is_empty());
    assert_eq!(
        (summary.first_ns, summary.truncated, summary.notes.len()),
        (None, false, 0)
    );
}

#[test]
fn patched_record_headers_are_longer() {
    let file = PcapFile::default();
    let mut bytes = file.header();
    bytes[..4].copy_from_slice(&0xa1b2_cd34u32.to_le_bytes());
    for _ in 0..2 {
        let mut record = file.record(START_NS, 71, &frame());
        record.splice(16..16, [9; 8]);
        bytes.extend(record);
    }
    let (lines, summary) = read(&bytes);
    assert_eq!((lines.len(), summary.kinds.tcp), (2, 2));
}

#[test]
fn old_versions_have_their_lengths_swapped() {
    let frame = [0; 60];
    for (version, lengths) in [
        ((2, 4), (60, 90)),
        ((2, 3), (60, 90)),
        ((2, 3), (90, 60)),
        ((2, 2), (90, 60)),
        ((543, 0), (90, 60)),
    ] {
        let (lines, summary) = read(&pcap_with_lengths(version, lengths, &frame));
        assert_eq!(
            (lines[0].captured_bytes, lines[0].wire_bytes),
            (60, 90),
            "version {version:?}"
        );
        assert!(!summary.truncated);
    }
    assert!(refusal(&pcap_with_lengths((3, 0), (60, 60), &frame)).contains("pcap version 3.0"));
}

#[test]
fn a_fraction_beyond_its_second_does_not_move_the_packet_into_another() {
    let mut bytes = PcapFile {
        nanoseconds: false,
        ..PcapFile::default()
    }
    .of(&[(START_NS, &frame())]);
    bytes[28..32].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(read(&bytes).0[0].time_ns, START_NS + 999_999_000);
}

#[test]
fn upper_bits_of_the_link_type_field_have_another_meaning() {
    let mut bytes = PcapFile::default().of(&[(START_NS, &frame())]);
    bytes[23] = 0x54;
    assert_eq!(read(&bytes).1.kinds.tcp, 1);
}

#[test]
fn a_pcap_cut_anywhere_is_read_up_to_there() {
    let frame = frame();
    let whole = PcapFile::default().of(&[(START_NS, &frame), (START_NS + 1, &frame)]);
    let record = 16 + frame.len();
    for cut in 24..whole.len() {
        let (lines, summary) = read(&whole[..cut]);
        assert_eq!(lines.len(), (cut - 24) / record);
        let sound = (cut - 24) % record == 0;
        assert_eq!(summary.truncated, !sound, "cut at {cut}");
        if !sound {
            let start = 24 + lines.len() * record;
            assert!(
                only_note(&summary).starts_with(&format!("test: at byte {start}: found the end"))
            );
        }
    }
}

#[test]
fn a_length_that_cannot_be_is_damage_and_is_not_allocated() {
    for claim in [LARGEST_FRAME_BYTES + 1, 0x7fff_ffff, u32::MAX] {
        let bytes = pcap_with_lengths((2, 4), (claim, claim), &frame());
        let (lines, summary) = read(&bytes);
        assert!(lines.is_empty() && summary.truncated);
        let note = only_note(&summary);
        assert!(
            note.contains(&format!(
                "claims {claim} captured bytes, expected at most 262144"
            )),
            "{note}"
        );
    }
    let largest = vec![0; LARGEST_FRAME_BYTES as usize];
    let bytes = PcapFile::default().of(&[(START_NS, &largest), (START_NS, &largest)]);
    assert_eq!(read(&bytes).0.len(), 2);
}

#[test]
fn what_is_not_a_capture_is_refused_in_one_line_that_says_what_it_is() {
    for (bytes, expected) in [
        (&b"<html>"[..], "the bytes 3c 68 74 6d 6c 3e"),
        (b"PK\x03\x04abc", "a ZIP archive"),
        (b"snoop\0\0\0\0\0\0\x02", "a Solaris snoop file"),
        (b"\x1f\x9d\x90", "a compress (.Z) file"),
        (
            &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0],
            "the end of the file after 6 bytes",
        ),
        (
            &[0x0a, 0x0d, 0x0d, 0x0a],
            "the end of the file after 4 bytes",
        ),
        (&[0x1f, 0x8b, 8, 0], "a stream that ends with an error"),
    ] {
        let line = refusal(bytes);
        assert!(line.contains(expected), "{line}");
        assert!(line.starts_with("test: at byte 0"), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }
}

#[test]
fn pcapng_is_read_in_both_byte_orders() {
    for order in [Little, Big] {
        let bytes = join(&[
            &section_header(order),
            &interface(order, LinkType::ETHERNET, 96, &[]),
            &enhanced_packet(order, 0, START_NS as u64 / 1000, &frame(), &[]),
            &enhanced_packet(order, 0, START_NS as u64 / 1000 + 5, &frame(), &[]),
        ]);
        let (lines, summary) = read(&bytes);
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[1].index, lines[1].time_ns), (1, START_NS + 5000));
        assert_eq!((summary.format.as_str(), summary.kinds.tcp), ("pcapng", 2));
        assert_eq!(
            (summary.snaplen_bytes, summary.link_types),
            (Some(96), vec!["Ethernet".to_owned()])
        );
        assert!(!summary.truncated);
    }
}

#[test]
fn each_interface_has_its_own_link_type_and_clock() {
    let order = Big;
    let nanoseconds = option(order, 9, &[9]);
    let binary = join(&[
        &option(order, 9, &[0x80 | 10]),
        &option(order, 14, &100u64.to_be_bytes()),
    ]);
    let bytes = join(&[
        &section_header(order),
        &interface(order, LinkType::ETHERNET, 0, &[]),
        &interface(order, LinkType::RAW, 64, &nanoseconds),
        &interface(order, LinkType::RAW, 64, &binary),
        &enhanced_packet(order, 1, 1_000_000_007, &packet(), &[]),
        &enhanced_packet(order, 0, 2_000_000, &frame(), &[]),
        &enhanced_packet(order, 2, 512, &packet(), &[]),
    ]);
    let (lines, summary) = read(&bytes);
    let seen: Vec<(u32, i64)> = lines
        .iter()
        .map(|line| (line.interface, line.time_ns))
        .collect();
    assert_eq!(
        seen,
        [(1, 1_000_000_007), (0, 2_000_000_000), (2, 100_500_000_000)]
    );
    assert_eq!(summary.kinds.tcp, 3);
    assert_eq!(summary.link_types, ["Ethernet", "raw IP"]);
    // One of the interfaces states no limit.
    assert_eq!(summary.snaplen_bytes, None);
}

#[test]
fn a_new_section_has_its_own_byte_order_and_interfaces() {
    let bytes = join(&[
        &section_header(Little),
        &interface(Little, LinkType::ETHERNET, 96, &option(Little, 2, b"eth0")),
        &enhanced_packet(Little, 0, 1, &frame(), &[]),
        &section_header(Big),
        &interface(Big, LinkType::RAW, 96, &option(Big, 2, b"tun0")),
        &interface(Big, LinkType::ETHERNET, 128, &option(Big, 2, b"eth0")),
        &enhanced_packet(Big, 0, 2, &packet(), &[]),
        &enhanced_packet(Big, 1, 3, &frame(), &[]),
    ]);
    let (lines, summary) = read(&bytes);
    // eth0 keeps its number over both sections.
    assert_eq!(
        lines.iter().map(|line| line.interface).collect::<Vec<_>>(),
        [0, 1, 0]
    );
    assert_eq!((summary.kinds.tcp, summary.snaplen_bytes), (3, Some(128)));
}

#[test]
fn simple_and_obsolete_packet_blocks_are_read() {
    let order = Little;
    let frame = frame();
    let length = (frame.len() as u32).to_le_bytes();
    let simple = join(&[&length, &frame]);
    let cut_simple = join(&[&1500u32.to_le_bytes(), &[0; 80]]);
    let obsolete = join(&[
        &[0, 0, 9, 0],
        &[0; 4],
        &[7, 0, 0, 0],
        &length,
        &length,
        &frame,
        &[0],
    ]);
    let bytes = join(&[
        &section_header(order),
        &interface(order, LinkType::ETHERNET, 80, &[]),
        &block(order, 2, &obsolete),
        &block(order, 3, &simple),
        &block(order, 3, &cut_simple),
    ]);
    let (lines, summary) = read(&bytes);
    assert_eq!(
        lines.iter().map(|line| line.time_ns).collect::<Vec<_>>(),
        [7000, 7000, 7000]
    );
    let lengths: Vec<_> = lines
        .iter()
        .map(|line| (line.captured_bytes, line.wire_bytes))
        .collect();
    assert_eq!(lengths, [(71, 71), (71, 71), (80, 1500)]);
    assert_eq!(summary.timeless, Some(crate::Timeless::Equal));
    assert!(summary.notes[1].contains("(simple packet blocks): 2 packets"));
}

#[test]
fn unknown_blocks_are_skipped_however_long() {
    let order = Little;
    let huge = block(order, 0x0bad, &vec![1; 3 << 20]);
    let bytes = join(&[
        &section_header(order),
        &block(order, 4, &[0; 20]),
        &interface(order, LinkType::ETHERNET, 0, &[]),
        &huge,
        &enhanced_packet(order, 0, 1, &frame(), &option(order, 2, &[1, 0, 0, 0])),
        &block(order, 0x8000_0000, &[]),
    ]);
    let (lines, summary) = read(&bytes);
    assert_eq!((lines.len(), summary.truncated), (1, false));
    let (lines, summary) = read(&bytes[..500_000]);
    assert_eq!((lines.len(), summary.truncated), (0, true));
}

#[test]
fn drops_of_the_capturing_host_are_reported() {
    let order = Big;
    let statistics = |interface: u32, dropped: u64| {
        let options = join(&[
            &option(order, 4, &1000u64.to_be_bytes()),
            &option(order, 5, &dropped.to_be_bytes()),
            &option(order, 7, &1u64.to_be_bytes()),
        ]);
        block(
            order,
            5,
            &join(&[&interface.to_be_bytes(), &[0; 8], &options]),
        )
    };
    let bytes = join(&[
        &section_header(order),
        &interface(order, LinkType::ETHERNET, 0, &[]),
        &interface(order, LinkType::RAW, 0, &[]),
        &statistics(0, 3),
        &statistics(0, 10),
        &statistics(1, 30),
        &statistics(9, 900),
    ]);
    let summary = read(&bytes).1;
    assert_eq!(summary.dropped_by_capture, Some(42));
    assert_eq!(
        only_note(&summary),
        "dropped by the capturing host, as it reports: 42 packets (it received 2000 in all)"
    );
}

#[test]
fn what_was_dropped_before_single_packets_is_added_up() {
    let order = Little;
    let packet = |dropped: u64, ticks: u64| {
        let dropped = option(order, 4, &dropped.to_le_bytes());
        enhanced_packet(order, 0, ticks, &frame(), &dropped)
    };
    let bytes = join(&[
        &section_header(order),
        &interface(order, LinkType::ETHERNET, 0, &[]),
        &packet(0, 1),
        &packet(5, 2),
        &packet(u64::MAX, 3),
        &packet(2, 4),
    ]);
    let summary = read(&bytes).1;
    assert_eq!(summary.dropped_by_capture, Some(7));
    assert_eq!(
        only_note(&summary),
        "dropped by the capturing host, as it reports: 7 packets"
    );
}

#[test]
fn nanoseconds_under_the_magic_number_of_microseconds_are_read_as_such() {
    let file = |nanoseconds: bool| PcapFile {
        nanoseconds,
        ..PcapFile::default()
    };
    let (header, nanoseconds) = (file(false).header(), file(true));
    let frame = frame();
    let times: Vec<i64> = (0..100).map(|n| START_NS + n * 7_300_100).collect();
    let frames: Vec<(i64, &[u8])> = times.iter().map(|at| (*at, &frame[..])).collect();
    let records = &nanoseconds.of(&frames)[header.len()..];
    let (lines, summary) = read(&join(&[&header, records]));
    let read: Vec<i64> = lines.iter().map(|line| line.time_ns).collect();
    assert_eq!(read, times);
    assert!(only_note(&summary).contains("are nanoseconds"));
}

#[test]
fn padding_that_a_writer_did_not_count_is_skipped() {
    let order = Little;
    let frame = frame();
    let length = (frame.len() as u32).to_le_bytes();
    let total = (32 + frame.len() as u32).to_le_bytes();
    assert_ne!(frame.len() % 4, 0);
    let padding = vec![0; frame.len().wrapping_neg() & 3];
    let uncounted = join(&[
        &6u32.to_le_bytes(),
        &total,
        &[0; 12],
        &length,
        &length,
        &frame,
        &padding,
        &total,
    ]);
    let bytes = join(&[
        &section_header(order),
        &interface(order, LinkType::ETHERNET, 0, &[]),
        &uncounted,
        &uncounted,
    ]);
    let (lines, summary) = read(&bytes);
    assert_eq!((lines.len(), summary.truncated), (2, false));
}

#[test]
fn a_damaged_block_ends_the_file_with_its_place() {
    let order = Little;
    let head = join(&[
        &section_header(order),
        &interface(order, LinkType::ETHERNET, 0, &[]),
    ]);
    let good = enhanced_packet(order, 0, 1, &frame(), &[]);
    let place = head.len() + good.len();
    let with = |bad: &[u8]| read(&join(&[&head, &good, bad, &good]));
    let patched = |at: usize, value: u32| {
        let mut block = good.clone();
        block[at..at + 4].copy_from_slice(&value.to_le_bytes());
        block
    };
    let trailer_at = good.len() - 4;
    for (bad, at, expected) in [
        (patched(4, 8), 0, "claims 8 bytes, expected 12 to"),
        (patched(4, u32::MAX), 0, "claims 4294967295 bytes"),
        (
            patched(8, 7),
            0,
            "a packet on interface 7, expected one of the 1 interfaces",
        ),
        (
            patched(20, 5000),
            0,
            "claims 5000 captured bytes and has room for 72",
        ),
        (
            patched(trailer_at, 3),
            trailer_at,
            "3 at the end of a block",
        ),
        (block(order, 6, &[0; 16]), 0, "a packet block of 28 bytes"),
        (block(order, 3, &[]), 0, "a simple packet block of 12 bytes"),
        (
            block(order, 1, &[0; 4]),
            0,
            "an interface description block of 16 bytes",
        ),
    ] {
        let (lines, summary) = with(&bad);
        assert_eq!((lines.len(), summary.truncated), (1, true), "{expected}");
        let note = only_note(&summary);
        assert!(note.contains(expected), "{note}");
        assert!(
            note.starts_with(&format!("test: at byte {}:", place + at)),
            "{note}"
        );
    }
}

#[test]
fn a_section_that_is_not_understood_is_refused() {
    let mut bytes = section_header(Little);
    bytes[8] = 0;
    assert!(refusal(&bytes).contains("byte-order magic"));
    let mut bytes = section_header(Big);
    bytes[13] = 2;
    assert!(refusal(&bytes).contains("pcapng version 2"));
}

#[test]
fn a_flood_of_interfaces_ends_the_file() {
    let one = interface(Little, LinkType::ETHERNET, 0, &[]);
    let bytes = join(&[&section_header(Little), &one.repeat(70_000)]);
    let summary = read(&bytes).1;
    assert!(only_note(&summary).contains("expected at most 65536 interfaces"));
}

fn any_order() -> impl Strategy<Value = ByteOrder> {
    prop::sample::select(vec![Little, Big])
}

/// Times in µs, lengths on the wire above the captured ones, and frames.
fn any_records() -> impl Strategy<Value = Vec<(u32, u32, Vec<u8>)>> {
    prop::collection::vec(
        (
            any::<u32>(),
            0u32..100_000,
            prop::collection::vec(any::<u8>(), 0..300),
        ),
        0..40,
    )
}

proptest! {
    #[test]
    fn what_is_written_as_pcap_is_read_back(
        order in any_order(),
        nanoseconds: bool,
        link: u16,
        records in any_records(),
    ) {
        let file = PcapFile { order, nanoseconds, link, ..PcapFile::default() };
        let mut bytes = file.header();
        for (time, more, frame) in &records {
            bytes.extend(file.record(i64::from(*time) * 1000, frame.len() as u32 + more, frame));
        }
        let (lines, summary) = read(&bytes);
        prop_assert_eq!(lines.len(), records.len());
        prop_assert!(!summary.truncated);
        prop_assert_eq!(summary.kinds.total(), summary.packets);
        for (line, (time, more, frame)) in lines.iter().zip(&records) {
            prop_assert_eq!(line.time_ns, i64::from(*time) * 1000);
            prop_assert_eq!(line.captured_bytes as usize, frame.len());
            prop_assert_eq!(line.wire_bytes, frame.len() as u32 + more);
        }
    }

    #[test]
    fn what_is_written_as_pcapng_is_read_back(
        sections in prop::collection::vec((any_order(), 1usize..4, any_records()), 1..4),
    ) {
        let mut bytes = Vec::new();
        for (order, interfaces, records) in &sections {
            bytes.extend(section_header(*order));
            bytes.extend(interface(*order, LinkType::ETHERNET, 0, &[]).repeat(*interfaces));
            for (place, (time, _, frame)) in records.iter().enumerate() {
                let number = (place % interfaces) as u32;
                bytes.extend(enhanced_packet(*order, number, u64::from(*time), frame, &[]));
            }
        }
        let (lines, summary) = read(&bytes);
        prop_assert!(!summary.truncated);
        let records = sections.iter().flat_map(|(_, interfaces, records)| {
            records.iter().enumerate().map(move |(place, record)| (place % interfaces, record))
        });
        prop_assert_eq!(lines.len(), records.clone().count());
        for (line, (number, (time, _, frame))) in lines.iter().zip(records) {
            prop_assert_eq!(line.interface as usize, number);
            prop_assert_eq!(line.time_ns, i64::from(*time) * 1000);
            prop_assert_eq!(line.captured_bytes as usize, frame.len());
        }
    }
}
