//! Queues that timestamps reveal: those in which only acknowledgments wait, and those before the capture
//! point.

use whydrop_path::{Arrival, Fifo, Limit, PathElement};
use whydrop_tcp::{Account, ByClocks, ClockedWait, Flow, Segment, SegmentFlags};

use crate::cause::weigh;
use crate::testing::{MS, delivered, flow, group, lost};
use crate::vantage::observe_group;
use whydrop_verdict::Cause;

/// A FIFO of 100 packets at 10 Mbit/s, overloaded for one second of four: when each packet is sent, and when
/// it leaves the queue.
fn through_a_fifo() -> Vec<(i64, Option<i64>)> {
    let mut queue = Fifo::new(10_000_000, Limit::packets(100));
    let mut time_ns = 0;
    let passed = (0..12_000i64).map(|number| {
        time_ns += if number % 3_000 < 1_200 {
            1_000_000
        } else {
            1_500_000
        };
        time_ns += number * 7_919 % 50_000; // hosts are not as even
        let packet = Arrival {
            time_ns,
            bytes: 1_500,
        };
        (time_ns, queue.arrive(packet).departure_ns())
    });
    passed.collect()
}

fn with_clocks(flow: Flow, clocks: ByClocks) -> Flow {
    let account = Some(Box::new(Account {
        by_clocks: Some(Box::new(clocks)),
        ..Account::default()
    }));
    Flow { account, ..flow }
}

/// The wait of an acknowledgment in the queue of the return path: up to 400 ms, arbitrary.
fn wait_back_ms(sent_ns: i64) -> i64 {
    200 - (200.0 * (sent_ns as f64 / 0.7e9).cos()) as i64
}

#[test]
fn a_full_queue_is_found_beside_one_on_the_return_path_by_the_clock_of_acknowledgments() {
    let mut waits_back = Vec::new();
    let segments = through_a_fifo().into_iter().map(|(sent_ns, left_ns)| {
        let Some(left_ns) = left_ns else {
            return lost(sent_ns);
        };
        let back_ms = wait_back_ms(sent_ns);
        let rtt_ms = (left_ns - sent_ns) / MS + 20 + back_ms;
        waits_back.push(ClockedWait {
            time_ns: sent_ns + rtt_ms * MS,
            wait_ns: back_ms * MS,
        });
        delivered(sent_ns, rtt_ms)
    });
    let plain = flow(1, segments.collect());
    let cause = |flow: Flow| weigh(&observe_group(&group(&[flow]))).cause;
    waits_back.sort_by_key(|wait| wait.time_ns);
    let clocks = ByClocks {
        waits_back,
        ..ByClocks::default()
    };
    assert_eq!(cause(with_clocks(plain, clocks)), Cause::DeepQueue);
}

/// The packets that pass after the queue: each at its departure, a lost one as a gap before the next.
fn behind_the_queue() -> (Vec<Segment>, Vec<ClockedWait>) {
    let mut waits = Vec::new();
    let mut next_ns = 0;
    let mut segments: Vec<Segment> = Vec::new();
    for (sent_ns, left_ns) in through_a_fifo().into_iter().rev() {
        next_ns = left_ns.unwrap_or(next_ns);
        segments.push(match left_ns {
            Some(left_ns) => {
                waits.push(ClockedWait {
                    time_ns: left_ns,
                    wait_ns: left_ns - sent_ns,
                });
                delivered(left_ns, 0)
            }
            None => {
                let mut hole = lost(next_ns);
                hole.flags.set(SegmentFlags::INFERRED);
                hole
            }
        });
    }
    waits.reverse();
    segments.reverse();
    (segments, waits)
}

#[test]
fn a_full_queue_before_the_capture_is_found_by_the_clock_of_data() {
    let (segments, waits_before) = behind_the_queue();
    let plain = flow(1, segments);
    let clocks = ByClocks {
        waits_before,
        ..ByClocks::default()
    };
    let behind = with_clocks(plain.clone(), clocks);
    let flows = [behind];
    let seen = observe_group(&group(&flows));
    assert!(seen.by_clocks);
    assert_eq!(weigh(&seen).cause, Cause::DeepQueue);
    let flows = [plain];
    let seen = observe_group(&group(&flows));
    assert!(!seen.by_clocks);
    assert_ne!(weigh(&seen).cause, Cause::DeepQueue);
}

#[test]
fn behind_a_queue_no_policer_is_named() {
    let (segments, mut waits_before) = behind_the_queue();
    // other delays beside the queue: waits that hardly depend on the queue's contents
    for wait in &mut waits_before {
        wait.wait_ns = (wait_back_ms(wait.time_ns) + 50) * MS;
    }
    let clocks = ByClocks {
        waits_before,
        ..ByClocks::default()
    };
    let flows = [with_clocks(flow(1, segments), clocks)];
    assert_ne!(weigh(&observe_group(&group(&flows))).cause, Cause::Policer);
}

#[test]
fn a_flow_that_never_saw_the_queue_empty_waits_by_the_excess_of_its_round_trip() {
    let (segments, mut waits_before) = behind_the_queue();
    let clocks = ByClocks {
        waits_before: waits_before.clone(),
        near_rtt_ns: Some(10 * MS),
        ..ByClocks::default()
    };
    let first = with_clocks(flow(1, segments.clone()), clocks);
    for wait in &mut waits_before {
        wait.wait_ns -= 30 * MS;
    }
    let clocks = ByClocks {
        waits_before,
        near_rtt_ns: Some(40 * MS),
        ..ByClocks::default()
    };
    let late = with_clocks(flow(1, segments), clocks);
    let flows = [first, late];
    let trace = group(&flows).trace_as_sent().trace;
    for pair in trace.delay_s.chunks(2).filter(|pair| !pair[0].is_nan()) {
        assert!((pair[0] - pair[1]).abs() < 1e-6, "{pair:?}");
    }
}
