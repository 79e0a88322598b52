//! Very many short connections.

use crate::synthetic::{ACK, Client, FIN, Fields, SYN, grows_linearly, peak_memory_bytes};
use whydrop_tcp::{Tracker, TrackerOptions};

const CONNECTIONS: u32 = 120_000;
const REQUEST_BYTES: u32 = 200;
/// For connections that are followed or kept at one time, however many there are in all.
const MOST_BYTES: u64 = 170_000_000;

fn request(tracker: &mut Tracker, number: u32) {
    let client = Client(number);
    let time_ns = i64::from(number) * 10_000;
    let (isn, server_isn) = (number, !number);
    let from_client = |flags, sequence: u32| Fields {
        time_ns,
        flags,
        sequence: isn.wrapping_add(sequence),
        acknowledgment: server_isn.wrapping_add(1),
        ..Fields::default()
    };
    let from_server = |flags, sequence: u32, acknowledged: u32| Fields {
        time_ns,
        flags,
        sequence: server_isn.wrapping_add(sequence),
        acknowledgment: isn.wrapping_add(acknowledged),
        ..Fields::default()
    };
    client.sends(tracker, from_client(SYN, 0));
    client.gets(tracker, from_server(SYN | ACK, 0, 1));
    let payload_bytes = REQUEST_BYTES;
    client.sends(
        tracker,
        Fields {
            payload_bytes,
            ..from_client(ACK, 1)
        },
    );
    client.sends(tracker, from_client(FIN | ACK, 1 + REQUEST_BYTES));
    client.gets(tracker, from_server(FIN | ACK, 1, 2 + REQUEST_BYTES));
    client.sends(
        tracker,
        Fields {
            acknowledgment: server_isn.wrapping_add(2),
            ..from_client(ACK, 2 + REQUEST_BYTES)
        },
    );
}

#[test]
fn many_short_connections_cost_no_more_memory_than_some_thousand_do() {
    grows_linearly(CONNECTIONS / 4, follow);
    if let Some(peak_bytes) = peak_memory_bytes() {
        println!("{} MB", peak_bytes / 1_000_000);
        assert!(peak_bytes < MOST_BYTES, "{peak_bytes} bytes");
    }
}

fn follow(connections: u32) {
    let mut tracker = Tracker::new(TrackerOptions::default());
    for number in 0..connections {
        request(&mut tracker, number);
    }
    let tracked = tracker.finish();
    let listed = tracked.connections.len();
    assert_eq!(listed, TrackerOptions::default().most_small);
    let summed = &tracked.small;
    assert_eq!(listed as u64 + summed.connections, u64::from(connections));
    assert_eq!((summed.lost, summed.answered), (0, summed.connections));
    let delivered = |connection: &whydrop_tcp::Connection| {
        connection.flows[0].segments.len() == 1 && connection.flows[0].counters.lost == 0
    };
    assert!(tracked.connections.iter().all(delivered));
}
