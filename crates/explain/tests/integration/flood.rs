//! A capture of a flood: the document is short and describes the flood, and its sums are those of all
//! packets.

use crate::common::{captured, explain_bytes, headline, holds, joined, path};
use whydrop_path::Policer;
use whydrop_testkit::{Ipv4, PcapFile, Tcp, ethernet};

const TUPLES: u32 = 20_000;
/// Most small connections that are listed (`TrackerOptions::most_small`).
const MOST_LISTED: usize = 1 << 14;
const SYN: u16 = 2;
const PUSH_ACK: u16 = 24;
/// The client of the simulated downloads.
const VICTIM: [u8; 4] = [192, 0, 2, 10];

fn segment(tuple: u32, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let tcp = Tcp {
        ports: (1024, 80),
        sequence,
        acknowledgment: 0,
        flags,
        window: 65_535,
        options: Vec::new(),
        payload: payload.to_vec(),
        ..Tcp::default()
    };
    let packet = Ipv4 {
        source: (0x0a00_0000 + tuple).to_be_bytes(),
        destination: VICTIM,
        ..Ipv4::default()
    };
    ethernet(0x0800, &packet.bytes(&tcp.bytes()))
}

/// A SYN and a byte from each of this many hosts.
fn flood(tuples: u32) -> Vec<u8> {
    let file = PcapFile::default();
    let mut pcap = file.header();
    let mut push = |number: u32, frame: &[u8]| {
        pcap.extend(file.record(10_000 * i64::from(number), frame.len() as u32, frame));
    };
    for tuple in 0..tuples {
        push(2 * tuple, &segment(tuple, SYN, 7, &[]));
        push(2 * tuple + 1, &segment(tuple, PUSH_ACK, 8, b"x"));
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
