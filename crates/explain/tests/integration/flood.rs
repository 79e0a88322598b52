//! A capture of a flood: the document is short and describes the flood, and its sums are those of all
//! packets.

use crate::common::{captured, explain_bytes, headline, holds, joined, path};
use whydrop_path::Policer;

const TUPLES: u32 = 20_000;
/// Most small connections that are listed (`TrackerOptions::most_small`).
const MOST_LISTED: usize = 1 << 14;
const SYN: u8 = 2;
const PUSH_ACK: u8 = 24;
/// The client of the simulated downloads.
const VICTIM: [u8; 4] = [192, 0, 2, 10];

/// A record of an Ethernet capture.
fn record(pcap: &mut Vec<u8>, number: u32, tuple: u32, flags: u8, sequence: u32, payload: &[u8]) {
    let bytes = 40 + payload.len() as u32;
    let time_ns = 10_000 * number;
    for word in [
        time_ns / 1_000_000_000,
        time_ns % 1_000_000_000,
        14 + bytes,
        14 + bytes,
    ] {
        pcap.extend(word.to_le_bytes());
    }
    let [high, low] = (bytes as u16).to_be_bytes();
    pcap.extend([0; 12]);
    pcap.extend([8, 0, 0x45, 0, high, low, 0, 0, 0, 0, 64, 6, 0, 0]);
    pcap.extend((0x0a00_0000 + tuple).to_be_bytes());
    pcap.extend(VICTIM);
    pcap.extend([4, 0, 0, 80]);
    pcap.extend(sequence.to_be_bytes());
    pcap.extend([0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    pcap.extend(payload);
}

/// A SYN and a byte from each of this many hosts.
fn flood(tuples: u32) -> Vec<u8> {
    let mut pcap = Vec::new();
    for word in [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 65_535, 1u32] {
        pcap.extend(word.to_le_bytes());
    }
    for tuple in 0..tuples {
        record(&mut pcap, 2 * tuple, tuple, SYN, 7, &[]);
        record(&mut pcap, 2 * tuple + 1, tuple, PUSH_ACK, 8, b"x");
    }
    pcap
}

#[test]
fn a_flood_is_summed_up_beside_the_connections_that_are_listed() {
    let found = explain_bytes(flood(TUPLES), true);
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
    assert_eq!(small.responders.busiest.as_deref(), Some("192.0.2.10"));
    assert_eq!(small.initiators.hosts, small.connections);
    assert_eq!(small.initiators.busiest, None);
}

#[test]
fn if_all_connections_are_listed_the_document_has_no_totals() {
    let found = explain_bytes(flood(1000), true);
    assert_eq!(found.document.flows.len(), 1000);
    assert!(found.document.captures[0].notes.is_empty());
    let json = serde_json::to_string(&found.document).expect("a document is JSON");
    assert!(!json.contains("small_connections"));
}

#[test]
fn a_policer_is_named_though_a_flood_goes_to_the_same_host() {
    let download = captured(path(Box::new(Policer::new(5_000_000, 40_000)), 30));
    let found = explain_bytes(joined(&flood(TUPLES), &download.pcap), false);
    let verdict = headline(&found.document);
    assert_eq!(verdict.cause.name(), "policer", "{:?}", verdict.facts);
    assert!(holds(verdict, "rate_bps", 5e6), "{:?}", verdict.parameters);
    assert!(found.document.captures[0].small_connections.is_some());
}
