//! Tracks TCP packets of a few connections in any order, with any numbers and times: the tracker's counters stay
//! consistent.

#![no_main]

use libfuzzer_sys::fuzz_target;
use whydrop_fuzz::packets::decode;
use whydrop_tcp::{Flow, Kind, SegmentFlags, Tracker, TrackerOptions};

fuzz_target!(|bytes: &[u8]| {
    let packets = decode(bytes);
    let mut tracker = Tracker::new(TrackerOptions {
        keep_acknowledgments: true,
        most_without_data: 2,
        most_small_open: 2,
        most_small: 2,
        ..TrackerOptions::default()
    });
    for (index, packet) in packets.iter().enumerate() {
        tracker.push(&packet.packet(index as u64));
    }
    let tracked = tracker.finish();
    assert_eq!(tracked.packets, packets.len() as u64);
    let with_data = tracked.connections.len() as u64 + tracked.small.connections;
    let connections = with_data + tracked.without_data;
    assert!(connections <= tracked.packets);
    for connection in &tracked.connections {
        connection.flows.iter().for_each(check);
    }
});

fn check(flow: &Flow) {
    let counters = &flow.counters;
    let count = |what: &dyn Fn(&whydrop_tcp::Segment) -> bool| {
        flow.segments.iter().filter(|segment| what(segment)).count() as u64
    };
    let flagged = |flag: u8| count(&|segment| segment.flags.has(flag));
    // without SACK, some lost segments are counted, but not known
    let losses = [
        count(&|segment| segment.is_lost()),
        counters.lost_low,
        counters.lost,
        counters.lost_high,
    ];
    assert!(losses.is_sorted(), "{losses:?}");
    assert_eq!(flagged(SegmentFlags::SPURIOUS), counters.spurious);
    assert_eq!(
        count(&|segment| segment.kind != Kind::New),
        counters.retransmitted
    );
    assert_eq!(
        counters.retransmitted_by_kind.iter().sum::<u64>(),
        counters.retransmitted
    );
    assert!(counters.spurious <= counters.retransmitted);
    let inferred = flagged(SegmentFlags::INFERRED);
    assert!(count(&|_| true) - inferred <= counters.packets);
    let sent: u64 = flow
        .segments
        .iter()
        .map(|segment| u64::from(segment.payload_bytes))
        .sum();
    assert!(
        sent >= counters.payload_bytes,
        "{sent} of {}",
        counters.payload_bytes
    );
    let mut before = 0;
    for transfer in &flow.transfers {
        assert!(before <= transfer.first && transfer.first <= transfer.end);
        assert!(transfer.start_ns <= transfer.end_ns);
        before = transfer.end;
    }
    assert!(before <= flow.segments.len());
    for segment in &flow.segments {
        assert!(segment.rtt_ns >= -1, "{segment:?}");
        assert!(segment.payload_bytes > 0, "{segment:?}");
        assert!(
            !segment.flags.has(SegmentFlags::RTT_EXACT) || segment.rtt_ns >= 0,
            "{segment:?}"
        );
        assert!(
            segment.kind != Kind::New || !segment.flags.has(SegmentFlags::SPURIOUS),
            "{segment:?}"
        );
    }
    let limited = &flow.limited;
    assert!(limited.window_ns <= limited.busy_ns && limited.window_ns >= 0 && limited.idle_ns >= 0);
    assert!(flow.first_ns <= flow.last_ns);
}
