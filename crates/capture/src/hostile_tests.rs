//! Invalid input: whatever the bytes, reading ends, without a panic.

use std::io::Cursor;

use proptest::prelude::*;

use crate::testing::*;
use crate::{Capture, LinkType, OpenOptions};

/// Reads to the end; returns the number of packets, `None` if the bytes are refused as a capture.
fn survive(bytes: &[u8]) -> Option<u64> {
    let reader = Cursor::new(bytes.to_vec());
    let mut capture = Capture::from_reader("hostile", reader, OpenOptions::default())
        .inspect_err(|error| assert!(!error.to_string().contains('\n')))
        .ok()?;
    let mut packets = 0;
    while capture.next_packet().is_some() {
        packets += 1;
        // A packet takes 16 bytes, and the best compression reduces those well over a thousandfold.
        assert!(
            packets <= bytes.len() as u64 * 10_000,
            "reading does not end"
        );
    }
    assert!(capture.next_packet().is_none());
    let summary = capture.summary();
    assert!(summary.notes.iter().all(|note| !note.contains('\n')));
    assert_eq!(summary.packets, packets + summary.duplicates);
    assert_eq!(summary.kinds.total(), summary.packets);
    Some(packets)
}

/// A pcapng file of some 6 KB with blocks of all kinds.
fn pcapng_of_all_blocks() -> Vec<u8> {
    let mut bytes = Vec::new();
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let options = join(&[
            &option(order, 2, b"eth0"),
            &option(order, 9, &[9]),
            &option(order, 0, &[]),
        ]);
        bytes.extend(section_header(order));
        bytes.extend(interface(order, LinkType::ETHERNET, 200, &options));
        bytes.extend(interface(
            order,
            LinkType::LINUX_COOKED_2,
            0,
            &option(order, 9, &[0x86]),
        ));
        for place in 0..12 {
            let flags = option(order, 2, &[place as u8 & 3, 0, 0, 0]);
            bytes.extend(enhanced_packet(
                order,
                place & 1,
                u64::from(place) << 30,
                &frame(),
                &flags,
            ));
            bytes.extend(block(order, 3, &join(&[&put32(order, 71), &frame()])));
            bytes.extend(block(order, 2, &join(&[&[0; 20], &frame()])));
        }
        bytes.extend(block(order, 4, &[0; 50]));
        bytes.extend(block(
            order,
            5,
            &join(&[&[0; 12], &option(order, 5, &[1; 8])]),
        ));
    }
    assert!(bytes.len() > 4096);
    bytes
}

/// Valid files of every format and compression.
fn valid_files() -> Vec<Vec<u8>> {
    let pcap = many_frames(12);
    let mut files = vec![pcap.clone(), pcapng_of_all_blocks()];
    files.extend(compressed(&pcap).into_iter().map(|(_, bytes)| bytes));
    files
}

#[test]
fn a_file_cut_at_any_byte_is_read_up_to_there() {
    for file in valid_files() {
        let whole = survive(&file).expect("a valid file");
        let mut least = 0;
        for cut in 0..file.len().min(4096) {
            let packets = survive(&file[..cut]).unwrap_or(0);
            assert!(packets >= least && packets <= whole, "cut at {cut}");
            least = packets;
        }
    }
}

#[test]
fn lengths_of_all_sizes_in_every_place_are_survived() {
    let file = pcapng_of_all_blocks();
    for at in (0..file.len().min(2000)).step_by(4) {
        for value in [0, 1, 11, 12, 0x7fff_fff0, 0x8000_0000, u32::MAX] {
            let mut bytes = file.clone();
            bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
            survive(&bytes);
        }
    }
}

/// A thousand times larger than on disk.
#[test]
fn a_compressed_bomb_is_read_as_a_stream() {
    let mut bytes = section_header(ByteOrder::Little);
    let length = 16 << 20;
    bytes.extend(0x0bad_u32.to_le_bytes());
    bytes.extend(u32::to_le_bytes(length));
    bytes.resize(length as usize, 0);
    for (_, bomb) in compressed(&bytes) {
        assert_eq!(survive(&bomb), Some(0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn arbitrary_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        survive(&bytes);
    }

    #[test]
    fn arbitrary_bytes_behind_a_magic_number_are_survived(
        magic in prop::sample::select(vec![
            vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0],
            vec![0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4],
            vec![0x34, 0xcd, 0xb2, 0xa1, 2, 0, 4, 0],
            section_header(ByteOrder::Little),
            section_header(ByteOrder::Big),
            vec![0x1f, 0x8b, 8, 0],
            vec![0x28, 0xb5, 0x2f, 0xfd],
            vec![0xfd, b'7', b'z', b'X', b'Z', 0],
            vec![0x04, 0x22, 0x4d, 0x18],
            b"BZh9".to_vec(),
        ]),
        bytes in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..2000),
    ) {
        survive(&join(&[&magic, &bytes]));
    }

    #[test]
    fn a_long_file_cut_at_any_place_is_read_up_to_there(
        which in 0usize..6,
        cut in any::<prop::sample::Index>(),
    ) {
        thread_local!(static FILES: Vec<Vec<u8>> = {
            let pcap = many_frames(400);
            let compressed = compressed(&pcap).into_iter().map(|(_, bytes)| bytes);
            compressed.chain([pcap.clone()]).collect()
        });
        let file = FILES.with(|files| files[which].clone());
        let packets = survive(&file[..cut.index(file.len())]);
        prop_assert!(packets.unwrap_or(0) <= 400);
    }

    #[test]
    fn flipped_bits_are_survived(
        which in 0usize..7,
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..8),
    ) {
        thread_local!(static FILES: Vec<Vec<u8>> = valid_files());
        let mut bytes = FILES.with(|files| files[which].clone());
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        survive(&bytes);
    }
}
