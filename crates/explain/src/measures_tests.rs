//! Observation, parameters and transfers of hand-written flows.

use whydrop_path::fit::Interval;
use whydrop_path::{Arrival, Fifo, Limit, PathElement, Policer, Random};
use whydrop_tcp::{Account, Flow, Limiter, Segment, Span, Transfer};

use crate::cause::describe;
use crate::cause::{Outcome, judge, weigh};
use crate::limited::{Bottleneck, judge_lossless};
use crate::observe::{Observation, laws_of_group};
use crate::testing::{MS, delivered, flow, group, lost};
use crate::transfers::{ExpectedLosses, judge_transfer};
use crate::vantage::observe_group;
use whydrop_verdict::Cause;

/// Bursts of ten packets, 100 us apart, one every 20 ms: 6 Mbit/s through 4 Mbit/s with room for 12 packets.
/// Occasional pauses in which the bucket fills up.
fn policed() -> Flow {
    let mut policer = Policer::new(4_000_000, 18_000);
    let segments: Vec<Segment> = (0..2_000i64)
        .map(|number| {
            let time_ns =
                (number / 10) * 20 * MS + (number % 10) * 100_000 + (number / 300) * 170 * MS;
            let packet = Arrival {
                time_ns,
                bytes: 1_500,
            };
            if policer.arrive(packet).is_dropped() {
                lost(time_ns)
            } else {
                delivered(time_ns, 30)
            }
        })
        .collect();
    flow(1, segments)
}

fn observed(flows: &[Flow]) -> Observation {
    observe_group(&group(flows))
}

#[test]
fn a_policer_is_judged_by_losses_and_the_absence_of_delay() {
    let seen = observed(&[policed()]);
    let outcome = weigh(&seen);
    assert_eq!(outcome.cause, Cause::Policer);
    assert_eq!(outcome.against[0].0, Cause::ShallowQueue);
    let replay = seen.replay.unwrap();
    let lost = seen.totals.lost as usize;
    assert!(
        replay.hits * 10 >= lost * 9 && replay.dropped * 9 <= lost * 10,
        "{replay:?}"
    );
    let parameters = describe(&Outcome::new(Cause::Policer, 1.0), &seen).parameters;
    let (rate, burst) = (parameters["rate_bps"], parameters["burst_bytes"]);
    assert!(
        rate.low.unwrap() <= 4e6 && 4e6 <= rate.high.unwrap(),
        "{rate:?}"
    );
    assert!(
        burst.low.unwrap() <= 18e3 && 18e3 <= burst.high.unwrap(),
        "{burst:?}"
    );
    // for any byte basis: 4 Mbit/s of Ethernet packets with preamble and gap are fewer IP bytes
    assert!(
        rate.high.unwrap() >= rate.value * 1538.0 / 1500.0,
        "{rate:?}"
    );
    assert!(
        burst.high.unwrap() - burst.low.unwrap() >= 2.0 * 1500.0,
        "{burst:?}"
    );
}

/// A FIFO of one second that overflows each time the sender has probed for more, while the queue of the
/// return path, in which acknowledgments wait, grows and shrinks independently.
fn overflows_beside_a_long_return_path() -> Flow {
    let mut queue = Fifo::new(10_000_000, Limit::packets(850));
    let mut time_ns = 0;
    let segments = (0..20_000i64)
        .map(|number| {
            // at 1.25 and at 0.8 times the rate of the queue
            time_ns += if number % 6_000 < 4_200 {
                960_000
            } else {
                1_500_000
            };
            let back_ms = 450.0 - 440.0 * (time_ns as f64 / 1e9 * 0.9).cos();
            let packet = Arrival {
                time_ns,
                bytes: 1_500,
            };
            match queue.arrive(packet).departure_ns() {
                Some(departs_ns) => {
                    delivered(time_ns, 50 + (departs_ns - time_ns) / MS + back_ms as i64)
                }
                None => lost(time_ns),
            }
        })
        .collect();
    flow(1, segments)
}

#[test]
fn no_queue_management_is_named_if_half_of_all_packets_wait_longer_than_it_allows() {
    let flows = [overflows_beside_a_long_return_path()];
    let mut seen = observed(&flows);
    assert!(seen.totals.lost > 100, "{}", seen.totals.lost);
    assert!(weigh(&seen).rules_out(Cause::Aqm));
    let group = group(&flows);
    let outcome = judge(&mut seen, |seen| laws_of_group(&group, seen));
    assert_eq!(outcome.cause, Cause::DeepQueue, "{outcome:?}");
    assert!(seen.laws.is_none());
}

#[test]
fn an_open_end_stays_open_on_every_byte_basis() {
    let mut seen = observed(&[policed()]);
    let bucket = seen.bucket.as_mut().unwrap();
    bucket.rate_bps = Interval {
        high: None,
        ..bucket.rate_bps
    };
    bucket.limit_bytes = Interval {
        low: None,
        high: None,
        ..bucket.limit_bytes
    };
    let parameters = describe(&Outcome::new(Cause::Policer, 1.0), &seen).parameters;
    assert!(parameters["rate_bps"].low.is_some() && parameters["rate_bps"].high.is_none());
    let burst = parameters["burst_bytes"];
    assert_eq!((burst.low, burst.high), (None, None));
}

#[test]
fn a_loss_probability_has_wilsons_interval() {
    // 10 of 100: center (0.1 + 1.9208 / 100) / 1.038416 = 0.11480, half width 0.05956
    let segments: Vec<Segment> = (0..100)
        .map(|i| {
            if i % 10 == 3 {
                lost(i * MS)
            } else {
                delivered(i * MS, 10)
            }
        })
        .collect();
    let seen = observed(&[flow(1, segments)]);
    let share =
        describe(&Outcome::new(Cause::RandomLoss, 1.0), &seen).parameters["loss_probability"];
    assert_eq!(share.value, 0.1);
    assert!((share.low.unwrap() - 0.05523).abs() < 1e-4, "{share:?}");
    assert!((share.high.unwrap() - 0.17437).abs() < 1e-4, "{share:?}");
}

#[test]
fn few_measured_delays_do_not_support_random_loss() {
    let confidence = |packets: i64| {
        let at = [
            packets / 5,
            packets * 2 / 5,
            packets * 3 / 5,
            packets * 4 / 5,
        ];
        let segments = (0..packets).map(|number| {
            // not all multiples of one step: such timestamps would be coarse
            let time_ns = number * 50 * MS + number * number * 17;
            match at.contains(&number) {
                true => lost(time_ns),
                false => delivered(time_ns, 10 + (number * 7) % 30),
            }
        });
        weigh(&observed(&[flow(1, segments.collect())])).confidence
    };
    let (few, enough) = (confidence(18), confidence(60));
    assert!(few < 0.5 && enough > 0.6, "{few} {enough}");
}

#[test]
fn three_losses_are_too_few_to_call_them_chance() {
    let judged = |lost_at: &[i64]| {
        let segments = (0..600i64).map(|number| {
            let time_ns = number * 50 * MS + number * number * 17;
            match lost_at.contains(&number) {
                true => lost(time_ns),
                false => delivered(time_ns, 10 + (number * 7) % 30),
            }
        });
        let seen = observed(&[flow(1, segments.collect())]);
        weigh(&seen).cause
    };
    assert_eq!(judged(&[120, 300, 480]), Cause::Unknown);
    assert_eq!(judged(&[90, 220, 380, 500]), Cause::RandomLoss);
}

#[test]
fn losses_in_runs_by_chance_are_bursty_and_single_ones_are_not() {
    let judged = |is_lost: fn(usize) -> bool| {
        let mut random = Random::new(7);
        let mut left = 0;
        let segments = (0..10_000i64).map(|number| {
            if random.below(300) == 0 {
                left = 1 + random.below(5) as usize;
            }
            let time_ns = number * 50 * MS + number * number * 17;
            let lost_now = left > 0 && is_lost(left);
            left = left.saturating_sub(1);
            match lost_now {
                true => lost(time_ns),
                false => delivered(time_ns, 10 + random.below(30) as i64),
            }
        });
        let seen = observed(&[flow(1, segments.collect())]);
        let outcome = weigh(&seen);
        (describe(&outcome, &seen), outcome, seen.totals.lost)
    };
    let (said, outcome, lost) = judged(|_| true);
    assert!(lost >= 80, "{lost}");
    assert_eq!(
        (outcome.cause, said.detail),
        (Cause::RandomLoss, Some("bursty"))
    );
    let mean = said.parameters["mean_burst_packets"];
    assert!(
        mean.low.unwrap() <= 3.0 && 3.0 <= mean.high.unwrap(),
        "{mean:?}"
    );

    let (said, outcome, _) = judged(|left| left == 1);
    assert_eq!((outcome.cause, said.detail), (Cause::RandomLoss, None));
    assert!(!said.parameters.contains_key("mean_burst_packets"));
}

#[test]
fn a_cause_without_parameters_has_none() {
    let seen = observed(&[policed()]);
    for cause in [
        Cause::Unknown,
        Cause::None,
        Cause::Sender,
        Cause::Reordering,
    ] {
        assert!(
            describe(&Outcome::new(cause, 1.0), &seen)
                .parameters
                .is_empty(),
            "{cause}"
        );
    }
}

#[test]
fn time_of_transfers_at_the_same_time_counts_once() {
    let span = |from_ms: i64, to_ms: i64| {
        flow(
            1,
            vec![delivered(from_ms * MS, 5), delivered(to_ms * MS, 5)],
        )
    };
    let seen = observed(&[span(0, 100), span(50, 150), span(400, 500)]);
    assert!((seen.totals.union_busy_s - 0.25).abs() < 1e-9);
    assert!((seen.totals.busy_s - 0.3).abs() < 1e-9);
}

#[test]
fn hardly_any_packets_have_no_cause() {
    for segments in [
        vec![],
        vec![lost(0)],
        vec![delivered(0, 1)],
        vec![lost(0); 2],
        vec![lost(0), delivered(0, 1)],
    ] {
        let seen = observed(&[flow(1, segments)]);
        assert_eq!(weigh(&seen).cause, Cause::Unknown);
        assert_eq!(judge_lossless(&seen).cause, Cause::None);
        for cause in [
            Cause::Policer,
            Cause::DeepQueue,
            Cause::Shaper,
            Cause::Aqm,
            Cause::RandomLoss,
        ] {
            let finite = describe(&Outcome::new(cause, 1.0), &seen)
                .parameters
                .values()
                .all(|p| p.value.is_finite());
            assert!(finite, "{cause}");
        }
    }
}

/// Cause of a transfer of the segments `first..end` of a flow of a policed connection.
fn cause_of(flow: &Flow, (first, end): (usize, usize)) -> Cause {
    let flows = [flow.clone()];
    let group = group(&flows);
    let seen = observe_group(&group);
    let outcome = Outcome::new(Cause::Policer, 0.9);
    let transfer = Transfer {
        first,
        end,
        ..flow.transfers[0]
    };
    let expected = ExpectedLosses::of(&group, &seen);
    let path = Bottleneck::of(&seen).dropping(outcome.cause);
    judge_transfer(&outcome, &path, &expected, (0, &flows[0]), &transfer).0
}

#[test]
fn losses_of_a_transfer_are_the_policers_only_if_its_bucket_is_empty() {
    let mut flow = policed();
    let first_lost = flow.segments.iter().position(Segment::is_lost).unwrap();
    let expected = (first_lost, first_lost + 5);
    assert_eq!(cause_of(&flow, expected), Cause::Policer);
    assert_eq!(cause_of(&flow, (0, first_lost)), Cause::None);
    // the third packet finds a bucket of twelve nearly full
    flow.segments[2] = lost(flow.segments[2].time_ns);
    assert_eq!(cause_of(&flow, (0, 10)), Cause::Unknown);
}

#[test]
fn a_transfer_without_loss_may_wait_for_the_window_in_a_policed_connection() {
    let mut flow = policed();
    let span = |until_ns, limiter| Span {
        from_ns: 0,
        until_ns,
        limiter,
    };
    flow.account = Some(Box::new(Account {
        spans: vec![span(1_000 * MS, Limiter::ReceiveWindow)],
        transfers: vec![(0, 1_000 * MS)],
        near_rtt_ns: None,
        usual_near_rtt_ns: None,
        sees_waits: false,
        ..Account::default()
    }));
    assert_eq!(cause_of(&flow, (0, 9)), Cause::ReceiverWindow);
}

#[test]
fn the_round_trip_is_given_from_the_sender_or_not_at_all() {
    let flow_at = |near_rtt_ns| {
        let mut flow = flow(1, vec![delivered(0, 5)]);
        flow.account = Some(Box::new(Account {
            near_rtt_ns,
            ..Account::default()
        }));
        flow
    };
    let whole_rtt_s = |near_rtt_ns| observed(&[flow_at(near_rtt_ns)]).totals.whole_rtt_s;
    assert_eq!(whole_rtt_s(Some(20_000_000)), Some(0.025));
    assert_eq!(whole_rtt_s(None), None);
}
