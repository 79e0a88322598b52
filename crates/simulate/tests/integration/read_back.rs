//! Captures are read back by the project's own reader and tracker: an exact copy of the packets, and the losses.

use std::path::PathBuf;

use whydrop_capture::{Capture, OpenOptions, Packet, TcpFlags, Transport};
use whydrop_simulate::suite::captures::{self, Played};
use whydrop_simulate::suite::{Kind, Split, SuiteConfig, Without};
use whydrop_simulate::{EPOCH_NS, Resolution, Toward, write_capture};
use whydrop_tcp::{Tracker, TrackerOptions};

fn played(kind: &str, index: usize) -> Played {
    played_without(Without::default(), kind, index)
}

fn played_without(without: Without, kind: &str, index: usize) -> Played {
    let config = SuiteConfig {
        split: Split::Validation,
        seed: 5,
        count: 1,
        only: Some(Kind::of_capture(kind).expect("a kind of captures")),
        without,
        ..SuiteConfig::default()
    };
    captures::play(&config, index).expect("a draw that shows its kind")
}

/// Writes the capture of a case to a separate file.
fn written(played: &Played, name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.pcap"));
    let file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    write_capture(
        file,
        &played.history,
        &played.flows,
        &played.capture,
        played.seed,
    )
    .unwrap();
    path
}

fn each_packet(path: &PathBuf, mut see: impl FnMut(&Packet)) {
    let mut capture = Capture::open(&[path], OpenOptions::default()).unwrap();
    while let Some(packet) = capture.next_packet() {
        see(&packet);
    }
    let summary = capture.summary();
    assert!(!summary.truncated, "{:?}", summary.notes);
    assert_eq!(summary.kinds.undecodable, 0);
}

#[test]
fn every_packet_is_read_back_as_it_was_written() {
    for kind in [
        "policer",
        "queue-cross-traffic",
        "random-loss",
        "reordering",
    ] {
        let mut played = played(kind, 0);
        played.capture.segmentation_offload = false;
        played.capture.resolution = Resolution::Nanoseconds;
        let path = written(&played, &format!("read-back-{}", kind));
        let mut records = played.history.records.iter();
        // The initial sequence numbers are known from the first packet of each direction.
        let mut origins = std::collections::HashMap::new();
        each_packet(&path, |packet| {
            let record = records.next().expect("no more packets than were written");
            let segment = played.history.packets[record.packet].segment.unwrap();
            let Transport::Tcp(tcp) = packet.transport else {
                panic!("not TCP")
            };
            assert_eq!(packet.time_ns, EPOCH_NS + record.time_ns);
            assert_eq!(tcp.payload_bytes, segment.payload_bytes);
            let network = packet.network.unwrap();
            assert_eq!(network.ip_bytes, segment.ip_bytes());
            assert_eq!(network.identification, Some(segment.identification));
            let from_client = segment.toward == Toward::Server;
            let origin = tcp.sequence.wrapping_sub(segment.sequence as u32);
            assert_eq!(
                *origins.entry((segment.flow, from_client)).or_insert(origin),
                origin
            );
            assert_eq!(
                tcp.options.timestamps.is_some(),
                segment.timestamps.is_some()
            );
            let blocks: Vec<u32> = tcp
                .options
                .sack_blocks()
                .iter()
                .map(|b| b.1.wrapping_sub(b.0))
                .collect();
            let expected: Vec<u32> = segment
                .sack
                .as_slice()
                .iter()
                .map(|b| (b.1 - b.0) as u32)
                .collect();
            assert_eq!(blocks, expected);
            assert!(!tcp.options.truncated);
        });
        assert!(records.next().is_none(), "no more records");
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_capture_at_the_sender_shows_the_losses_that_happened() {
    for kind in [
        "policer",
        "policer-shared",
        "queue",
        "queue-shallow",
        "random-loss",
    ] {
        // Taken at the sender from the beginning, whatever was drawn.
        let played = (0..40)
            .map(|index| played(kind, index))
            .find(|p| p.capture.tap == 0 && p.capture.begins_ns == 0)
            .unwrap();
        let path = written(&played, &format!("losses-{}", kind));
        let mut tracker = Tracker::new(TrackerOptions::default());
        each_packet(&path, |packet| tracker.push(packet));
        let tracked = tracker.finish();
        for (flow, truth) in played.flows.iter().zip(&played.truths) {
            let tail = format!(":{}", flow.client_port);
            let flows = tracked.connections.iter().flat_map(|c| &c.flows);
            let found = flows
                .filter(|f| f.name().ends_with(&tail))
                .map(|f| f.counters.lost)
                .sum::<u64>();
            let error = found.abs_diff(truth.lost());
            assert!(
                error <= 3 + truth.lost() / 50,
                "{}: {found} found, {} lost",
                kind,
                truth.lost()
            );
        }
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn hosts_do_without_the_options_that_are_taken_from_them() {
    let without = Without {
        sack: true,
        timestamps: true,
    };
    let played = played_without(without, "random-loss", 0);
    let path = written(&played, "without-options");
    let mut syns = 0;
    each_packet(&path, |packet| {
        let Transport::Tcp(tcp) = packet.transport else {
            panic!("not TCP")
        };
        syns += u32::from(tcp.flags.has(TcpFlags::SYN));
        assert!(tcp.options.timestamps.is_none() && !tcp.options.sack_permitted);
        assert!(tcp.options.sack_blocks().is_empty());
    });
    assert_eq!(syns, 2);
    assert!(played.truths[0].lost() > 0 && played.history.complete[0]);
    std::fs::remove_file(path).unwrap();
}
