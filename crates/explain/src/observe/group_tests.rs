use whydrop_path::fit::Seen;
use whydrop_tcp::{Fate, Kind, SegmentFlags};

use super::group::{FlowRef, Origin, by_destination, line_rate_bps};
use crate::testing::{MS, PAYLOAD_BYTES, delivered, flow, group, lost};

#[test]
fn flows_to_one_host_are_one_group_in_the_order_of_their_first_appearance() {
    let flows = [7, 3, 7, 5, 3].map(|host| flow(host, vec![delivered(0, 10)]));
    let references: Vec<FlowRef> = flows
        .iter()
        .enumerate()
        .map(|(index, flow)| FlowRef { index, flow })
        .collect();
    let groups = by_destination(&references);
    let members: Vec<Vec<usize>> = groups
        .iter()
        .map(|group| group.flows.iter().map(|flow| flow.index).collect())
        .collect();
    assert_eq!(members, [vec![0, 2], vec![1, 4], vec![3]]);
}

#[test]
fn the_trace_of_a_group_is_sorted_by_time_and_keeps_the_flow_of_each_packet() {
    let flows = [
        flow(1, vec![delivered(MS, 10), lost(5 * MS)]),
        flow(1, vec![delivered(0, 10), delivered(3 * MS, 10)]),
    ];
    let trace = group(&flows).trace();
    let origin = |member, segment| Origin { member, segment };
    assert_eq!(
        trace.origins,
        [origin(1, 0), origin(0, 0), origin(1, 1), origin(0, 1)]
    );
    assert_eq!(trace.trace.outcome[3], Seen::Lost);
    assert_eq!(trace.trace.bytes, [1500.0; 4]);
    assert!((trace.trace.time_s[3] - 0.005).abs() < 1e-12);
}

#[test]
fn delays_are_above_the_fastest_of_their_own_flow_and_only_of_new_data() {
    let mut repeated = delivered(2 * MS, 90);
    repeated.kind = Kind::Fast;
    let mut cumulative = delivered(3 * MS, 70);
    cumulative.flags.clear(SegmentFlags::RTT_EXACT);
    let flows = [
        flow(
            1,
            vec![delivered(0, 12), delivered(MS, 10), repeated, cumulative],
        ),
        flow(1, vec![delivered(4 * MS, 50), delivered(5 * MS, 53)]),
    ];
    let delays = group(&flows).trace().trace.delay_s;
    let expected = [Some(0.002), Some(0.0), None, None, Some(0.0), Some(0.003)];
    for (delay, expected) in delays.iter().zip(expected) {
        match expected {
            Some(expected) => assert!((delay - expected).abs() < 1e-7, "{delay} {expected}"),
            None => assert!(delay.is_nan()),
        }
    }
}

#[test]
fn packets_of_unknown_fate_are_neither_lost_nor_counted_as_passed() {
    let mut unknown = delivered(MS, 10);
    unknown.fate = Fate::Unknown;
    let flows = [flow(1, vec![delivered(0, 10), unknown, lost(2 * MS)])];
    let trace = group(&flows).trace().trace;
    assert_eq!((trace.passed, trace.lost), (1, 1));
    assert_eq!(trace.passed_bytes, 3000.0);
}

#[test]
fn the_line_is_as_fast_as_round_trips_grow_along_super_segments() {
    // packets of 1448 bytes of payload, 100 us apart on the line
    let mut segments = Vec::new();
    for burst in 0..20 {
        for place in 0..3i64 {
            let mut segment = delivered(burst * 10 * MS, 0);
            segment.sequence = (burst * 3 + place) * i64::from(PAYLOAD_BYTES);
            segment.rtt_ns = 20 * MS + place * 100_000;
            segment.flags.set(SegmentFlags::OFFLOADED);
            segments.push(segment);
        }
    }
    let rate = line_rate_bps(&flow(1, segments.clone())).unwrap();
    assert!(
        (rate - f64::from(PAYLOAD_BYTES) * 8.0 / 100e-6).abs() < 1e3,
        "{rate}"
    );
    segments.truncate(9);
    assert_eq!(line_rate_bps(&flow(1, segments)), None, "too few");
    assert_eq!(line_rate_bps(&flow(1, vec![delivered(0, 1)])), None);
}
