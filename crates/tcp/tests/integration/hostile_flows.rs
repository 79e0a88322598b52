//! Flows of millions of packets designed to be expensive. The test is that they finish soon enough: quadratic work
//! would take hours.

use crate::synthetic::{ACK, Client, Fields, Random, SYN, grows_linearly};
use whydrop_tcp::{Flow, Tracker, TrackerOptions};

const CLIENT: Client = Client(7);

fn open(tracker: &mut Tracker, mss: u16) {
    let syn = Fields {
        flags: SYN,
        mss: Some(mss),
        ..Fields::default()
    };
    CLIENT.sends(tracker, syn);
    CLIENT.gets(
        tracker,
        Fields {
            flags: SYN | ACK,
            acknowledgment: 1,
            ..syn
        },
    );
}

/// The only flow that carried data.
fn finish(tracker: Tracker) -> Flow {
    let connections = tracker.finish().connections;
    assert_eq!(connections.len(), 1);
    let mut flows = connections
        .into_iter()
        .flat_map(|connection| connection.flows);
    flows.find(Flow::carried_data).expect("data")
}

fn data(number: u32, sequence: u32, payload_bytes: u32) -> Fields<'static> {
    let time_ns = i64::from(number) * 10_000;
    Fields {
        time_ns,
        flags: ACK,
        sequence,
        acknowledgment: 1,
        payload_bytes,
        ..Fields::default()
    }
}

#[test]
fn five_million_segments_without_an_acknowledgment_are_followed() {
    let mut tracker = Tracker::new(TrackerOptions::default());
    for number in 0..5_000_000u32 {
        CLIENT.gets(&mut tracker, data(number, number.wrapping_mul(1448), 1448));
    }
    let flow = finish(tracker);
    assert_eq!(flow.segments.len(), 5_000_000);
    assert_eq!((flow.counters.lost, flow.counters.retransmitted), (0, 0));
}

#[test]
fn acknowledgments_of_random_ranges_cost_the_same_however_many_they_are() {
    grows_linearly(50_000, acknowledge_random_ranges);
}

fn acknowledge_random_ranges(acknowledgments: u32) {
    let mut tracker = Tracker::new(TrackerOptions {
        keep_acknowledgments: true,
        ..TrackerOptions::default()
    });
    open(&mut tracker, 1448);
    let mut random = Random(1);
    let window = 200_000 * 1448;
    for number in 0..200_000 {
        CLIENT.gets(&mut tracker, data(number, 1 + number * 1448, 1448));
    }
    for number in 0..acknowledgments {
        let mut block = || {
            let start = random.below(window);
            (start, start + 1 + random.below(3000))
        };
        let sack = [block(), block(), block(), block()];
        let acknowledgment = Fields {
            time_ns: 3_000_000_000 + i64::from(number) * 10_000,
            flags: ACK,
            sequence: 1,
            acknowledgment: 1,
            sack: &sack,
            ..Fields::default()
        };
        CLIENT.sends(&mut tracker, acknowledgment);
        if number % 4 == 0 {
            CLIENT.gets(
                &mut tracker,
                data(
                    200_000 + number,
                    random.below(window),
                    1 + random.below(1448),
                ),
            );
        }
    }
    let flow = finish(tracker);
    assert!(flow.segments.len() <= 200_000 + acknowledgments as usize / 4);
}

#[test]
fn a_window_of_one_byte_segments_repeated_in_large_ones_is_survived() {
    let mut tracker = Tracker::new(TrackerOptions::default());
    open(&mut tracker, 1448);
    for number in 0..130_000 {
        CLIENT.gets(&mut tracker, data(number, 1 + number, 1));
    }
    for number in 0..20_000 {
        CLIENT.gets(
            &mut tracker,
            data(130_000 + number, 1 + number % 2 * 65_000, 65_000),
        );
    }
    let flow = finish(tracker);
    assert_eq!(
        flow.counters.retransmitted,
        20_000 * 65_000u64.div_ceil(1448)
    );
}

#[test]
fn reports_of_duplicates_that_never_were_cost_the_same_however_many_they_are() {
    grows_linearly(20_000, report_duplicates);
}

fn report_duplicates(reports: u32) {
    let mut tracker = Tracker::new(TrackerOptions::default());
    open(&mut tracker, 1448);
    for number in 0..10_000 {
        CLIENT.gets(&mut tracker, data(number, 1 + number * 1448, 1448));
    }
    for number in 0..5_000 {
        CLIENT.gets(
            &mut tracker,
            data(10_000 + number, 1 + number * 2 * 1448, 1448),
        );
    }
    let acknowledgment = 1 + 9_999 * 1448;
    for number in 0..reports {
        let start = 1 + (2 * (number % 4_000) + 1) * 1448;
        let report = Fields {
            time_ns: 1_000_000_000 + i64::from(number) * 10_000,
            flags: ACK,
            sequence: 1,
            acknowledgment,
            sack: &[(start, start + 1448)],
            ..Fields::default()
        };
        CLIENT.sends(&mut tracker, report);
    }
    let flow = finish(tracker);
    assert_eq!(flow.counters.duplicated_on_path, u64::from(reports));
}
