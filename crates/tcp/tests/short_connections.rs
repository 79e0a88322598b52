//! Very many short connections, in a process of its own because it measures the memory of the whole process.

mod synthetic;

use synthetic::{ACK, Client, FIN, Fields, SYN, peak_memory_bytes};
use whydrop_tcp::{Tracker, TrackerOptions};

const CONNECTIONS: u32 = 2_000_000;
const REQUEST_BYTES: u32 = 200;
/// For those that are followed or kept at one time; however many they are in all.
const MOST_BYTES: u64 = 150_000_000;

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
fn two_million_short_connections_cost_no_more_memory_than_some_thousand_do() {
    let before = peak_memory_bytes();
    let mut tracker = Tracker::new(TrackerOptions::default());
    for number in 0..CONNECTIONS {
        request(&mut tracker, number);
    }
    let tracked = tracker.finish();
    let listed = tracked.connections.len();
    assert_eq!(listed, TrackerOptions::default().most_small);
    let summed = &tracked.small;
    assert_eq!(listed as u64 + summed.connections, u64::from(CONNECTIONS));
    assert_eq!((summed.lost, summed.answered), (0, summed.connections));
    let delivered = |connection: &whydrop_tcp::Connection| {
        connection.flows[0].segments.len() == 1 && connection.flows[0].counters.lost == 0
    };
    assert!(tracked.connections.iter().all(delivered));
    if let (Some(before), Some(after)) = (before, peak_memory_bytes()) {
        let taken = after - before;
        println!("{} MB", taken / 1_000_000);
        assert!(taken < MOST_BYTES, "{taken} bytes");
    }
}
