//! Reports of a hostile responder.

use std::time::Duration;

use super::*;
use crate::sample::{Datagrams, Departure};

const ELAPSED: Duration = Duration::from_secs(5);
const NOW_NS: i64 = 1_800_000_000_000_000_000;
const SECOND_NS: i64 = 1_000_000_000;

/// TCP in both directions, and a stream, bursts and probes. The stream sends 100 packets a second of 1250 bytes.
fn plan() -> Vec<FlowSpec> {
    let udp = |flow, kind, direction| FlowSpec {
        rate_bps: Some(1e6),
        duration_s: Some(10.0),
        packet_payload_bytes: Some(1250),
        packets_per_burst: Some(10),
        ..FlowSpec::new(flow, kind, direction)
    };
    vec![
        FlowSpec::new(0, Kind::Tcp, Direction::Up),
        FlowSpec::new(1, Kind::Tcp, Direction::Down),
        udp(2, Kind::Udp, Direction::Up),
        udp(3, Kind::Burst, Direction::Up),
        udp(4, Kind::Burst, Direction::Down),
        FlowSpec {
            interval_s: 0.01,
            packet_payload_bytes: None,
            ..udp(5, Kind::Probe, Direction::Both)
        },
    ]
}

fn intervals(rows: impl IntoIterator<Item = Interval>) -> Report {
    Report {
        intervals: rows.into_iter().collect(),
        ..Report::default()
    }
}

fn tcp(start_ns: i64, end_ns: i64, payload_bytes: u64) -> Interval {
    Interval {
        flow: 0,
        start_ns,
        end_ns,
        payload_bytes,
        datagrams: None,
    }
}

fn stream(datagrams: Datagrams, payload_bytes: u64) -> Report {
    intervals([Interval {
        flow: 2,
        datagrams: Some(datagrams),
        ..tcp(NOW_NS, NOW_NS + SECOND_NS, payload_bytes)
    }])
}

/// Ten packets, changed.
fn ten(change: impl FnOnce(&mut Datagrams)) -> Report {
    let mut datagrams = Datagrams {
        packets: 10,
        ..Datagrams::default()
    };
    change(&mut datagrams);
    stream(datagrams, 12_500)
}

fn sample(change: impl FnOnce(&mut TcpSample)) -> Report {
    let mut sample = TcpSample {
        flow: 1,
        time_ns: NOW_NS,
        ..TcpSample::default()
    };
    change(&mut sample);
    Report {
        tcp: vec![sample],
        ..Report::default()
    }
}

fn burst(change: impl FnOnce(&mut BurstPacket)) -> Report {
    let mut packet = BurstPacket {
        flow: 3,
        burst: 0,
        sequence: 0,
        sent_ns: NOW_NS,
        received_ns: Some(NOW_NS),
        payload_bytes: 1250,
        marked: false,
    };
    change(&mut packet);
    Report {
        bursts: vec![packet],
        ..Report::default()
    }
}

fn departure(sequence: u64, left_ns: i64) -> Report {
    let departure = Departure {
        flow: 4,
        sequence,
        left_ns,
    };
    Report {
        departures: vec![departure],
        ..Report::default()
    }
}

#[test]
fn the_same_reports_with_possible_values_are_believed() {
    let good = [
        intervals([
            tcp(NOW_NS, NOW_NS + SECOND_NS, 1 << 40),
            tcp(NOW_NS + SECOND_NS, NOW_NS + 2 * SECOND_NS, 0),
        ]),
        ten(|_| {}),
        sample(|_| {}),
        burst(|_| {}),
        departure(7, NOW_NS),
    ];
    for report in good {
        assert_eq!(Expected::new(&plan()).check(&report, ELAPSED), Ok(()));
    }
}

#[test]
fn no_impossible_report_is_believed() {
    let hour_ns = 3600 * SECOND_NS;
    let bad = [
        ("before the epoch", intervals([tcp(-1, NOW_NS, 1)])),
        (
            "starts at the least time",
            intervals([tcp(i64::MIN, NOW_NS, 1)]),
        ),
        (
            "ends at the last time",
            intervals([tcp(NOW_NS, i64::MAX, 1)]),
        ),
        ("all of time", intervals([tcp(i64::MIN, i64::MAX, 1)])),
        ("runs backwards", intervals([tcp(NOW_NS, NOW_NS - 1, 1)])),
        (
            "longer than the test",
            intervals([tcp(NOW_NS, NOW_NS + hour_ns, 1)]),
        ),
        (
            "an hour later",
            intervals([
                tcp(NOW_NS, NOW_NS, 1),
                tcp(NOW_NS + hour_ns, NOW_NS + hour_ns, 1),
            ]),
        ),
        (
            "the same time again",
            intervals([tcp(NOW_NS, NOW_NS + 9, 1), tcp(NOW_NS, NOW_NS + 9, 1)]),
        ),
        (
            "overlaps",
            intervals([tcp(NOW_NS, NOW_NS + 9, 1), tcp(NOW_NS + 8, NOW_NS + 18, 1)]),
        ),
        (
            "unsorted",
            intervals([tcp(NOW_NS + 9, NOW_NS + 18, 1), tcp(NOW_NS, NOW_NS + 9, 1)]),
        ),
        ("most bytes", intervals([tcp(NOW_NS, NOW_NS + 9, u64::MAX)])),
        (
            "a negative count once stored",
            intervals([tcp(NOW_NS, NOW_NS + 9, 1 << 63)]),
        ),
        (
            "most bytes in two",
            intervals([tcp(NOW_NS, NOW_NS, 1 << 61), tcp(NOW_NS, NOW_NS, 1 << 62)]),
        ),
        ("most packets", ten(|row| row.packets = u64::MAX)),
        ("more packets than time", ten(|row| row.packets = 600)),
        (
            "more bytes than packets",
            stream(
                Datagrams {
                    packets: 10,
                    ..Datagrams::default()
                },
                12_501,
            ),
        ),
        ("bytes without packets", stream(Datagrams::default(), 1)),
        ("more reordered than arrived", ten(|row| row.reordered = 11)),
        ("most reordered", ten(|row| row.reordered = u64::MAX)),
        ("more lost than planned", ten(|row| row.lost = 1001)),
        ("fewer lost than none", ten(|row| row.lost = -1)),
        ("most lost", ten(|row| row.lost = i64::MAX)),
        ("least lost", ten(|row| row.lost = i64::MIN)),
        ("longest delay", ten(|row| row.delay_ns = i64::MAX)),
        ("shortest delay", ten(|row| row.delay_ns = i64::MIN)),
        ("longest jitter", ten(|row| row.jitter_ns = i64::MAX)),
        ("negative jitter", ten(|row| row.jitter_ns = -1)),
        (
            "a sample at the last time",
            sample(|row| row.time_ns = i64::MAX),
        ),
        (
            "a sample at the least time",
            sample(|row| row.time_ns = i64::MIN),
        ),
        (
            "most acknowledged",
            sample(|row| row.acked_bytes = Some(u64::MAX)),
        ),
        (
            "most retransmitted",
            sample(|row| row.retransmitted_bytes = Some(u64::MAX)),
        ),
        ("most sent", sample(|row| row.sent_bytes = Some(u64::MAX))),
        (
            "most received",
            sample(|row| row.received_bytes = Some(u64::MAX)),
        ),
        (
            "no rate",
            sample(|row| row.pacing_rate_bps = Some(f64::NAN)),
        ),
        (
            "an endless rate",
            sample(|row| row.delivery_rate_bps = Some(f64::INFINITY)),
        ),
        (
            "a negative rate",
            sample(|row| row.max_pacing_rate_bps = Some(-1.0)),
        ),
        (
            "a burst at the last time",
            burst(|row| row.received_ns = Some(i64::MAX)),
        ),
        (
            "a burst at the least time",
            burst(|row| row.received_ns = Some(i64::MIN)),
        ),
        (
            "a burst sent at the last time",
            burst(|row| row.sent_ns = i64::MAX),
        ),
        (
            "a packet longer than sent",
            burst(|row| row.payload_bytes = 1251),
        ),
        ("a departure at the last time", departure(7, i64::MAX)),
        ("a departure at the least time", departure(7, i64::MIN)),
        ("a departure of no packet", departure(u64::MAX, NOW_NS)),
    ];
    for (name, report) in bad {
        let checked = Expected::new(&plan()).check(&report, ELAPSED);
        let message = checked.expect_err(name);
        assert!(message.contains("of flow"), "{name}: {message}");
    }
}

#[test]
fn no_impossible_arrivals_and_echoes_are_believed() {
    // The flow has 1000 probes.
    let possible: [&[(u64, u64)]; 3] = [&[], &[(0, 999)], &[(0, 0), (2, 5), (6, 6)]];
    let impossible: [&[(u64, u64)]; 6] = [
        &[(0, 1000)],
        &[(5, 4)],
        &[(0, u64::MAX)],
        &[(u64::MAX, u64::MAX)],
        &[(4, 5), (1, 2)],
        &[(0, 5), (5, 6)],
    ];
    let checked = |ranges: &[(u64, u64)]| {
        let mut expected = Expected::new(&plan());
        expected.ask_for_arrivals(5);
        expected.check_arrivals(5, ranges)
    };
    assert!(possible.iter().all(|ranges| checked(ranges).is_ok()));
    assert!(impossible.iter().all(|ranges| checked(ranges).is_err()));
    for far_ns in [i64::MIN, -1, i64::MAX] {
        let mut expected = Expected::new(&plan());
        expected.ask_for_echo(1);
        assert!(expected.check_echo(1, far_ns).is_err());
    }
}

#[test]
fn a_receiver_cannot_count_much_more_than_it_acknowledged() {
    // 5000 Gbit/s for a second, where this host's kernel saw 1 GB acknowledged.
    for (counted, is_believed) in [(625_000_000_000, false), (1_100_000_000, true)] {
        let mut expected = Expected::new(&plan());
        let report = intervals([tcp(NOW_NS, NOW_NS + SECOND_NS, counted)]);
        assert_eq!(expected.check(&report, ELAPSED), Ok(()));
        assert_eq!(expected.check_totals(), Ok(()));
        expected.acknowledge(&[TcpSample {
            acked_bytes: Some(1_000_000_000),
            ..TcpSample::default()
        }]);
        assert_eq!(expected.check_totals().is_ok(), is_believed);
    }
}
