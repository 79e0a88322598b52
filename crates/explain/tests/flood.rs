//! A capture of a flood: the document is short, says what the flood was, and its sums are those of all packets.

use std::io::Cursor;

use whydrop_capture::{Capture, OpenOptions};
use whydrop_explain::{Explanation, Options, explain};

const TUPLES: u32 = 20_000;
/// As many small connections are listed at most (`TrackerOptions::most_small`).
const MOST_LISTED: usize = 1 << 14;
const SYN: u8 = 2;
const PUSH_ACK: u8 = 24;
const VICTIM: [u8; 4] = [192, 0, 2, 1];

/// A record of a pcap file of raw IP packets.
fn record(pcap: &mut Vec<u8>, number: u32, tuple: u32, flags: u8, sequence: u32, payload: &[u8]) {
    let bytes = 40 + payload.len() as u32;
    let micros = 10 * number;
    for word in [
        1_700_000_000 + micros / 1_000_000,
        micros % 1_000_000,
        bytes,
        bytes,
    ] {
        pcap.extend(word.to_le_bytes());
    }
    let [a, b] = (bytes as u16).to_be_bytes();
    pcap.extend([0x45, 0, a, b, 0, 0, 0, 0, 64, 6, 0, 0]);
    pcap.extend((0x0a00_0000 + tuple).to_be_bytes());
    pcap.extend(VICTIM);
    pcap.extend([4, 0, 0, 80]);
    pcap.extend(sequence.to_be_bytes());
    pcap.extend([0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    pcap.extend(payload);
}

/// A SYN and a byte from each of so many hosts.
fn flood(tuples: u32) -> Vec<u8> {
    let mut pcap = Vec::new();
    for word in [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, 101u32] {
        pcap.extend(word.to_le_bytes());
    }
    for tuple in 0..tuples {
        record(&mut pcap, 2 * tuple, tuple, SYN, 7, &[]);
        record(&mut pcap, 2 * tuple + 1, tuple, PUSH_ACK, 8, b"x");
    }
    pcap
}

fn explained(pcap: Vec<u8>) -> Explanation {
    let options = Options {
        keep_tables: true,
        ..Options::default()
    };
    let capture = Capture::from_reader("flood.pcap", Cursor::new(pcap), OpenOptions::default());
    explain(capture.expect("a capture"), options).expect("an explanation")
}

#[test]
fn a_flood_is_summed_up_beside_the_connections_that_are_listed() {
    let found = explained(flood(TUPLES));
    let (document, segments) = (&found.document, &found.tables.segments);
    assert_eq!(document.flows.len(), MOST_LISTED);
    assert_eq!(document.transfers.len(), MOST_LISTED);
    assert_eq!(
        (segments.flow.len(), document.verdicts.len()),
        (MOST_LISTED, 1)
    );
    let capture = &document.captures[0];
    let small = capture.small_connections.as_ref().expect("summed up");
    assert_eq!(small.connections, u64::from(TUPLES) - MOST_LISTED as u64);
    let packets: u64 = document.flows.iter().map(|flow| flow.packets).sum();
    assert_eq!(packets + small.packets, capture.packets_by_kind["tcp"]);
    let payload_bytes: u64 = document.flows.iter().map(|flow| flow.payload_bytes).sum();
    assert_eq!(payload_bytes + small.payload_bytes, u64::from(TUPLES));
    assert_eq!((small.attempts, small.answered), (small.connections, 0));
    assert_eq!(small.responders.hosts, 1);
    assert_eq!(small.responders.busiest.as_deref(), Some("192.0.2.1"));
    assert_eq!(small.initiators.hosts, small.connections);
    assert_eq!(small.initiators.busiest, None);
}

#[test]
fn a_person_is_told_of_a_flood_in_one_line() {
    let found = explained(flood(TUPLES));
    let [note] = &found.document.captures[0].notes[..] else {
        panic!("{:?}", found.document.captures[0].notes);
    };
    let expected =
        "3\u{a0}616 TCP connections of fewer than 32 packets each, from 3\u{a0}616 hosts";
    assert!(note.contains(expected), "{note}");
    assert!(
        note.contains(
            " hosts to 1 host (192.0.2.1): 7\u{a0}232 packets with 3.62 kB of data, 0 lost"
        ),
        "{note}"
    );
    assert!(
        note.contains("3\u{a0}616 began with a SYN, 0 had packets both ways"),
        "{note}"
    );
}

#[test]
fn where_every_connection_is_listed_the_document_has_nothing_summed_up() {
    let found = explained(flood(1000));
    assert_eq!(found.document.flows.len(), 1000);
    assert!(found.document.captures[0].notes.is_empty());
    let json = serde_json::to_string(&found.document).expect("a document is JSON");
    assert!(!json.contains("small_connections"));
}
