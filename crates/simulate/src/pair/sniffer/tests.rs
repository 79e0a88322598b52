use whydrop_hosts::{Reason, SackBlocks, Segment, flags};

use super::*;
use whydrop_network::history::Datagram;

const MSS: u32 = 1_000;

/// Data segment `number` of a flow, at both points at this time.
fn data(flow: usize, number: u64, time_ns: i64) -> Crossing {
    let segment = Segment {
        flow,
        toward: Toward::Client,
        flags: flags::ACK,
        sequence: 1 + number * u64::from(MSS),
        acknowledgment: 1,
        payload_bytes: MSS,
        window_bytes: 65_535,
        timestamps: None,
        sack: SackBlocks::default(),
        reason: Reason::New,
        identification: number as u16,
        ecn: whydrop_path::Ecn::NotCapable,
        delay_ns: 0,
    };
    Crossing {
        body: Body::Tcp(segment),
        at_b_ns: Some(time_ns),
        at_y_ns: Some(time_ns),
        lost_between: false,
        marked_between: false,
    }
}

fn back(time_ns: i64) -> Crossing {
    let mut crossing = data(0, 0, time_ns);
    if let Body::Tcp(segment) = &mut crossing.body {
        segment.toward = Toward::Server;
        segment.payload_bytes = 0;
    }
    crossing
}

fn watch(sniffer: &Sniffer, crossings: &[Crossing]) -> Sighting {
    sniffer.watch(crossings, &mut Random::new(1))
}

fn shapes(sighting: &Sighting) -> Vec<(u32, u32, i64)> {
    let of = |record: &Seen| (record.packets, record.body.payload_bytes(), record.time_ns);
    sighting.records.iter().map(of).collect()
}

#[test]
fn segments_handed_over_together_are_one_record_stamped_first() {
    let sniffer = Sniffer {
        offload: Some(Offload {
            gap_ns: 1_000,
            most_payload_bytes: 3_500,
            stamp: OffloadStamp::First,
        }),
        ..Sniffer::new(Point::B)
    };
    let crossings: Vec<Crossing> = (0..5).map(|n| data(0, n, 10_000)).collect();
    assert_eq!(
        shapes(&watch(&sniffer, &crossings)),
        [(3, 3_000, 10_000), (2, 2_000, 10_700)]
    );
    // Retransmissions, later packets and packets of other flows stay separate.
    let mut again = data(0, 0, 10_000);
    if let Body::Tcp(segment) = &mut again.body {
        segment.reason = Reason::FastRetransmission;
    }
    let crossings = [
        again,
        data(0, 1, 10_000),
        data(1, 2, 10_000),
        data(0, 2, 20_000),
    ];
    assert_eq!(watch(&sniffer, &crossings).records.len(), 4);
}

#[test]
fn segments_received_close_together_are_one_record_stamped_last() {
    let sniffer = Sniffer {
        offload: Some(Offload {
            gap_ns: 20_000,
            most_payload_bytes: 64_000,
            stamp: OffloadStamp::Last,
        }),
        ..Sniffer::new(Point::Y)
    };
    // A packet of another flow in between does not end the run; a missing segment does.
    let crossings = [
        data(0, 0, 0),
        data(0, 1, 12_000),
        data(1, 0, 15_000),
        data(0, 2, 24_000),
        data(0, 4, 36_000),
    ];
    let expected = [(1, 1_000, 15_000), (3, 3_000, 24_000), (1, 1_000, 36_000)];
    assert_eq!(shapes(&watch(&sniffer, &crossings)), expected);
}

#[test]
fn coalesced_packets_are_stamped_together_when_the_interrupt_comes() {
    let sniffer = Sniffer {
        coalesce_ns: 50_000,
        ..Sniffer::new(Point::Y)
    };
    let crossings = [data(0, 0, 0), data(0, 1, 30_000), data(0, 2, 60_000)];
    let sighting = watch(&sniffer, &crossings);
    let stamps: Vec<i64> = sighting
        .records
        .iter()
        .map(|r| r.stamp_ns - EPOCH_NS)
        .collect();
    assert_eq!(stamps, [50_000, 50_350, 110_000]);
}

#[test]
fn stamps_keep_the_order_of_the_packets_however_late_they_are() {
    let sniffer = Sniffer {
        jitter_ns: 30_000,
        ..Sniffer::new(Point::B)
    };
    let crossings: Vec<Crossing> = (0..500).map(|n| data(0, n, n as i64 * 5_000)).collect();
    let sighting = watch(&sniffer, &crossings);
    assert!(sighting.records.is_sorted_by_key(|record| record.stamp_ns));
    assert!(
        sighting
            .records
            .iter()
            .all(|record| record.stamp_ns >= EPOCH_NS + record.time_ns)
    );
}

#[test]
fn a_clock_runs_from_its_origin_and_jumps_where_it_is_set() {
    let clock = Clock {
        offset_ns: 1_000,
        drift_ppm: -100.0,
        t0_ns: 5_000_000_000,
        steps: vec![(7_000_000_000, 40_000)],
    };
    assert_eq!(clock.shows_ns(5_000_000_000), 5_000_001_000);
    assert_eq!(clock.shows_ns(6_000_000_000), 5_999_901_000);
    assert_eq!(clock.shows_ns(7_000_000_000), 6_999_841_000);
}

#[test]
fn a_sniffer_misses_the_configured_share_singly_or_in_runs() {
    let crossings: Vec<Crossing> = (0..40_000).map(|n| data(0, n, n as i64 * 10_000)).collect();
    for missed_together in [1.0, 4.0] {
        let sniffer = Sniffer {
            missed: 0.1,
            missed_together,
            ..Sniffer::new(Point::Y)
        };
        let sighting = watch(&sniffer, &crossings);
        assert_eq!(
            sighting.records.len() as u64 + sighting.missed_records,
            40_000
        );
        let share = sighting.missed_packets as f64 / 40_000.0;
        assert!(
            (0.085..0.115).contains(&share),
            "{share} in runs of {missed_together}"
        );
    }
}

#[test]
fn a_file_that_is_cut_covers_the_time_up_to_its_last_whole_record() {
    let sniffer = Sniffer {
        cut_after: Some(0.5),
        ..Sniffer::new(Point::Y)
    };
    let crossings: Vec<Crossing> = (0..10).map(|n| data(0, n, n as i64 * 1_000)).collect();
    let sighting = watch(&sniffer, &crossings);
    assert!(sighting.last_is_cut);
    assert_eq!((sighting.records.len(), sighting.ends_ns), (6, 4_000));
}

#[test]
fn a_sniffer_writes_only_while_it_watches_and_what_it_watches() {
    let datagram = Crossing {
        body: Body::Udp(Datagram {
            flow: 0,
            number: 0,
            payload_bytes: 40,
            identification: 0,
        }),
        ..data(0, 0, 2_000)
    };
    let crossings = [
        data(0, 0, 0),
        back(1_000),
        datagram,
        data(0, 1, 3_000),
        back(4_000),
    ];
    let sniffer = Sniffer {
        begins_ns: 500,
        ends_ns: 3_500,
        ..Sniffer::new(Point::B)
    };
    assert_eq!(watch(&sniffer, &crossings).records.len(), 3);
    let forward = Sniffer {
        forward_only: true,
        ..sniffer
    };
    assert_eq!(watch(&forward, &crossings).records.len(), 2);
}
