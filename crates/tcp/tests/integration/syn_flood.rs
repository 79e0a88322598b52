//! A SYN flood.

use crate::synthetic::{Client, Fields, SYN, peak_memory_bytes};
use whydrop_tcp::{Tracker, TrackerOptions};

/// Sixteen times the limit of connections without data.
const FLOWS: u32 = 1 << 20;

#[test]
fn a_flood_of_a_million_connections_is_counted_in_bounded_memory() {
    let options = TrackerOptions::default();
    let bound = options.most_without_data + 1;
    let mut tracker = Tracker::new(options);
    for number in 0..FLOWS {
        let syn = Fields {
            time_ns: i64::from(number) * 1000,
            flags: SYN,
            sequence: number.wrapping_mul(0x9e37_79b9),
            ..Fields::default()
        };
        Client(number).sends(&mut tracker, syn);
        assert!(tracker.slots() <= bound);
    }
    let tracked = tracker.finish();
    assert_eq!(tracked.connections.len(), 0);
    assert_eq!(tracked.without_data, u64::from(FLOWS));
    if let Some(peak) = peak_memory_bytes() {
        println!("peak memory: {} MB", peak / 1_000_000);
        assert!(peak < 95_000_000, "{peak} bytes");
    }
}
