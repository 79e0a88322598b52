//! Whole captures: compressed, in several files, from streams.

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::testing::*;
use crate::{Capture, LinkType, OpenOptions, Transport};

/// A folder that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let unique = format!(
            "whydrop-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(unique);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(paths: &[PathBuf]) -> Capture {
    Capture::open(paths, OpenOptions::default()).unwrap()
}

fn pcap_at(seconds: i64) -> Vec<u8> {
    PcapFile::default().of(&[(seconds * 1_000_000_000, &frame())])
}

#[test]
fn every_compression_is_recognised_by_content_and_read() {
    let plain = many_frames(3000);
    let expected = read(&plain).0;
    for (extension, bytes) in compressed(&plain) {
        let (lines, summary) = read(&bytes);
        assert!(lines == expected, "{extension}");
        assert_eq!(summary.format, format!("pcap.{extension}"));
        assert!(!summary.truncated, "{:?}", summary.notes);
    }
}

#[test]
fn compressed_parts_that_follow_one_another_are_one_capture() {
    let plain = many_frames(1000);
    let (first, second) = plain.split_at(12_345);
    for ((extension, one), (_, two)) in compressed(first).into_iter().zip(compressed(second)) {
        let (lines, summary) = read(&join(&[&one, &two]));
        assert_eq!(
            (lines.len(), summary.truncated),
            (1000, false),
            "{extension}: {:?}",
            summary.notes
        );
    }
}

#[test]
fn a_compressed_file_cut_off_is_read_up_to_there() {
    let plain = many_frames(20_000);
    for (extension, bytes) in compressed(&plain) {
        let (lines, summary) = read(&bytes[..bytes.len() * 3 / 4]);
        assert!(
            lines.len() > 5000 && lines.len() < 20_000,
            "{extension}: {}",
            lines.len()
        );
        assert!(summary.truncated);
        assert!(
            summary.notes[0].contains("of the decompressed stream"),
            "{:?}",
            summary.notes
        );
    }
}

#[test]
fn garbage_after_compressed_data_is_reported() {
    let plain = many_frames(100);
    let mut bytes = compressed(&plain).swap_remove(0).1;
    bytes.extend([1, 2, 3]);
    let (lines, summary) = read(&bytes);
    assert_eq!((lines.len(), summary.truncated), (100, true));
}

#[test]
fn files_of_a_rotation_are_one_capture() {
    let folder = Folder::new();
    let order = ByteOrder::Big;
    let pcapng = join(&[
        &section_header(order),
        &interface(order, LinkType::RAW, 200, &[]),
        &enhanced_packet(order, 0, 2_000_000, &packet(), &[]),
    ]);
    let paths = [
        folder.file("a", &pcap_at(1)),
        folder.file("b", &pcapng),
        folder.file("c", &compressed(&pcap_at(3))[1].1),
    ];
    let mut capture = open(&paths);
    let lines = drain(&mut capture);
    let seen: Vec<_> = lines
        .iter()
        .map(|line| (line.index, line.time_ns / 1_000_000_000))
        .collect();
    assert_eq!(seen, [(0, 1), (1, 2), (2, 3)]);
    // The first and the last file have the same interface, the second has another link type.
    assert_eq!(
        lines.iter().map(|line| line.interface).collect::<Vec<_>>(),
        [0, 1, 0]
    );
    let summary = capture.summary();
    assert_eq!(summary.format, "pcap, pcapng, pcap.zst");
    assert_eq!(summary.link_types, ["Ethernet", "raw IP"]);
    assert_eq!(summary.paths.len(), 3);
    assert_eq!((summary.packets, summary.notes.len()), (3, 0));
}

#[test]
fn files_out_of_order_are_put_in_order() {
    let folder = Folder::new();
    let empty = PcapFile::default().header();
    let paths = [
        folder.file("dump.pcap10", &pcap_at(10)),
        folder.file("dump.pcap1", &pcap_at(1)),
        folder.file("dump.pcap2", &empty),
        folder.file("dump.pcap3", &pcap_at(3)),
    ];
    let mut capture = open(&paths);
    let times: Vec<_> = drain(&mut capture)
        .iter()
        .map(|line| line.time_ns / 1_000_000_000)
        .collect();
    assert_eq!(times, [1, 3, 10]);
    let summary = capture.summary();
    assert!(summary.notes[0].starts_with("the 4 files were not given in time order"));
    assert!(summary.paths[0].ends_with("dump.pcap1"));
    assert_eq!(summary.out_of_order, 0);
}

#[test]
fn a_damaged_file_does_not_end_the_sequence() {
    let folder = Folder::new();
    let mut cut = pcap_at(1);
    cut.extend(&pcap_at(2)[24..60]);
    let paths = [folder.file("one", &cut), folder.file("two", &pcap_at(5))];
    let mut capture = open(&paths);
    assert_eq!(drain(&mut capture).len(), 2);
    let summary = capture.summary();
    assert!(summary.truncated);
    assert!(
        summary.notes[0].contains("one: at byte 111: found the end of the file after 36 bytes")
    );
}

#[test]
fn files_that_cannot_be_opened_are_named() {
    let folder = Folder::new();
    let good = folder.file("good", &pcap_at(1));
    let missing = folder.0.join("missing");
    let text = folder.file("text", b"# notes on the capture");
    let empty = folder.file("empty", b"");
    for (bad, expected) in [
        (empty, ": an empty file; "),
        (missing, ": no such file; check the path"),
        (text, "found the bytes 23 20 6e"),
        (folder.0.clone(), ": a directory, not a capture file; "),
    ] {
        for paths in [vec![bad.clone()], vec![good.clone(), bad.clone()]] {
            let Err(error) = Capture::open(&paths, OpenOptions::default()) else {
                panic!("{} was opened", bad.display());
            };
            let line = error.to_string();
            assert!(
                line.starts_with(bad.to_str().unwrap()) && line.contains(expected),
                "{line}"
            );
        }
    }
    let none: [&str; 0] = [];
    assert!(Capture::open(&none, OpenOptions::default()).is_err());
}

/// A stream that returns one byte at a time and fails at its end.
struct Drip {
    bytes: io::Cursor<Vec<u8>>,
}

impl Read for Drip {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.bytes.read(&mut buffer[..1])? {
            0 => Err(io::Error::new(
                io::ErrorKind::ConnectionReset,
                "the far end went away",
            )),
            count => Ok(count),
        }
    }
}

#[test]
fn a_slow_stream_that_breaks_off_is_read_to_its_end() {
    let plain = many_frames(50);
    for (name, bytes) in [vec![("plain", plain.clone())], compressed(&plain)].concat() {
        let drip = Drip {
            bytes: io::Cursor::new(bytes),
        };
        let mut capture = Capture::from_reader("stream", drip, OpenOptions::default()).unwrap();
        assert_eq!(drain(&mut capture).len(), 50, "{name}");
    }
    let drip = Drip {
        bytes: io::Cursor::new(plain),
    };
    let mut capture = Capture::from_reader("stream", drip, OpenOptions::default()).unwrap();
    drain(&mut capture);
    assert!(capture.summary().notes[0].contains("the far end went away"));
}

#[test]
fn packets_of_a_live_stream_come_as_soon_as_they_are_there() {
    /// Panics when read beyond the first packet.
    struct Live(io::Cursor<Vec<u8>>);
    impl Read for Live {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => panic!("the reader waits for more than it needs"),
                count => Ok(count),
            }
        }
    }
    let live = Live(io::Cursor::new(pcap_at(1)));
    let mut capture = Capture::from_reader("-", live, OpenOptions::default()).unwrap();
    assert!(capture.next_packet().is_some());
}

#[test]
fn kinds_add_up_to_the_packets() {
    let file = PcapFile {
        link: LinkType::RAW.0,
        ..PcapFile::default()
    };
    let frames = [
        ipv4(6, &Tcp::default().bytes()),
        ipv4(17, &udp(53, b"?")),
        ipv4(1, &[8, 0, 0, 0, 0, 0, 0, 0]),
        Ipv4 {
            flags_and_offset: 1,
            ..Ipv4::default()
        }
        .bytes(&[0; 8]),
        ipv4(132, &[0; 12]),
        vec![0x45],
    ];
    let frames: Vec<(i64, &[u8])> = frames.iter().map(|frame| (0, &frame[..])).collect();
    let kinds = read(&file.of(&frames)).1.kinds;
    assert_eq!((kinds.tcp, kinds.udp, kinds.icmp), (1, 1, 1));
    assert_eq!(
        (kinds.fragment, kinds.other_ip, kinds.undecodable),
        (1, 1, 1)
    );
    assert_eq!(kinds.total(), 6);
    let arp = PcapFile::default().of(&[(0, &ethernet(0x0806, &[0; 28]))]);
    assert_eq!(read(&arp).1.kinds.not_ip, 1);
}

#[test]
fn steps_back_in_time_are_counted_and_reported() {
    let frame = frame();
    let bytes =
        PcapFile::default().of(&[(3_000_000, &frame), (500_000, &frame), (4_000_000, &frame)]);
    let summary = read(&bytes).1;
    assert_eq!(summary.out_of_order, 1);
    assert_eq!(
        (summary.first_ns, summary.last_ns),
        (Some(500_000), Some(4_000_000))
    );
    assert_eq!(
        summary.notes,
        [
            "the file is not in time order: 1 packet with an earlier timestamp than the packet before, by up to 2.5 ms; \
             the input can be read only once and is not sorted: write it to a file first"
        ]
    );
}

#[test]
fn tunnels_are_left_alone_on_request() {
    let outer = ethernet(0x0800, &ipv4(4, &packet()));
    let bytes = PcapFile::default().of(&[(0, &outer)]);
    for (tunnel_levels, unwrapped) in [(0, false), (1, true)] {
        let options = OpenOptions {
            tunnel_levels,
            ..OpenOptions::default()
        };
        let reader = io::Cursor::new(bytes.clone());
        let mut capture = Capture::from_reader("test", reader, options).unwrap();
        let packet = capture.next_packet().unwrap();
        assert_eq!(matches!(packet.transport, Transport::Tcp(_)), unwrapped);
    }
}

#[test]
fn thousands_of_link_types_are_summarised_as_a_number() {
    let order = ByteOrder::Little;
    let mut bytes = section_header(order);
    for link in 0..60_000 {
        bytes.extend(interface(order, LinkType(link), 0, &[]));
    }
    let summary = read(&bytes).1;
    assert_eq!(summary.link_types.len(), 17);
    assert_eq!(summary.link_types[16], "59984 more");
}

#[test]
fn progress_counts_the_bytes_of_all_files_and_ends_at_their_total() {
    let folder = Folder::new();
    let plain = many_frames(20_000);
    let packed = compressed(&plain).swap_remove(0).1;
    let damaged = &plain[..plain.len() - 3];
    let paths = [
        folder.file("1.pcap", &plain),
        folder.file("2.pcap.gz", &packed),
        folder.file("3.pcap", damaged),
    ];
    let total = (plain.len() + packed.len() + damaged.len()) as u64;
    let options = OpenOptions {
        keep_duplicates: true,
        ..OpenOptions::default()
    };
    let mut capture = Capture::open(&paths, options).unwrap();
    assert_eq!(capture.bytes_total(), total);
    let mut before = capture.bytes_done();
    assert!(before < 100, "only the file header is read: {before}");
    let mut read = 0;
    while capture.next_packet().is_some() {
        let done = capture.bytes_done();
        assert!(before <= done && done <= total);
        before = done;
        read += 1;
        if read == 10_000 {
            let middle = plain.len() as u64 / 2;
            assert!(done.abs_diff(middle) < 200, "{done} of {middle}");
        }
        if read == 20_001 {
            assert!(done > plain.len() as u64);
        }
    }
    assert_eq!((read, capture.bytes_done()), (59_999, total));
}

#[test]
fn a_stream_has_bytes_done_but_no_total() {
    let plain = many_frames(100);
    let length = plain.len() as u64;
    let reader = io::Cursor::new(plain);
    let mut capture = Capture::from_reader("stream", reader, OpenOptions::default()).unwrap();
    while capture.next_packet().is_some() {}
    assert_eq!((capture.bytes_done(), capture.bytes_total()), (length, 0));
}
