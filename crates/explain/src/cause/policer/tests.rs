//! Hand-written hops: bursts of packets through one element, with losses that a bucket may or may not have
//! caused.

use whydrop_path::fit::Seen;
use whydrop_path::fit::passage::{Passage, Passages};
use whydrop_path::{Arrival, CoDel, Fifo, InService, Limit, PathElement, Policer, replay};

use super::exact::*;
use super::*;
use crate::cause::{Outcome, judge};
use crate::hop;
use crate::observe::totals::Totals;
use crate::observe::{HopInput, laws_of_hop};

const RATE_BPS: u64 = 20_000_000;
const BYTES: u32 = 1_500;
const MS: i64 = 1_000_000;

/// Interval between bursts: 37 ms.
const EVERY_NS: i64 = 37 * MS;

/// Sixty bursts of ten to sixty packets each, at 60 to 120 Mbit/s.
fn bursts() -> Vec<Arrival> {
    let packets = |burst: i64| (0..10 + burst * 17 % 51).map(move |packet| (burst, packet));
    let arrival = |(burst, packet): (i64, i64)| Arrival {
        time_ns: burst * EVERY_NS + packet * (100_000 + burst * 7 % 10 * 10_000),
        bytes: BYTES,
    };
    (0..60).flat_map(packets).map(arrival).collect()
}

/// The hop formed by an element, 5 ms long; `lost` selects further packets that it drops.
fn hop_of(element: &mut dyn PathElement, lost: impl Fn(Arrival) -> bool) -> Observation {
    hop_over(&bursts(), element, lost)
}

fn hop_over(
    arrivals: &[Arrival],
    element: &mut dyn PathElement,
    lost: impl Fn(Arrival) -> bool,
) -> Observation {
    let outcomes = replay(element, arrivals);
    let passage = |(index, outcome): (usize, whydrop_path::Outcome)| {
        let arrival = arrivals[index];
        let out_ns = outcome.departure_ns().filter(|_| !lost(arrival));
        Passage {
            arrival_ns: arrival.time_ns,
            bytes: arrival.bytes,
            outcome: if out_ns.is_some() {
                Seen::Passed
            } else {
                Seen::Lost
            },
            transit_ns: out_ns.map(|out_ns| out_ns - arrival.time_ns + 5 * MS),
            flow: 0,
            marked: false,
        }
    };
    let passages = Passages::new(outcomes.into_iter().enumerate().map(passage).collect());
    hop::measure(HopInput {
        totals: Totals {
            packets: passages.len() as u64,
            data_packets: passages.len() as u64,
            lost: passages.lost as u64,
            busy_s: passages.duration_s(),
            union_busy_s: passages.duration_s(),
            ..Totals::default()
        },
        passages,
        offloaded: false,
        base_rtt_s: Some(0.02),
        missed_share: 0.0,
    })
}

fn exact(seen: &Observation) -> &Exact {
    seen.exact.as_ref().expect("observed between two captures")
}

fn judged(mut seen: Observation) -> (Observation, Outcome) {
    let outcome = judge(&mut seen, |seen| Some(laws_of_hop(exact(seen))));
    (seen, outcome)
}

fn policed() -> Observation {
    hop_of(&mut Policer::new(RATE_BPS, 30_000), |_| false)
}

fn queue_of(packets: u64) -> Fifo {
    Fifo::new(RATE_BPS, Limit::packets(packets)).with_in_service(InService::Counted)
}

fn queued() -> Observation {
    hop_of(&mut queue_of(30), |_| false)
}

#[test]
fn few_losses_of_a_full_queue_are_among_those_of_its_replay() {
    let hops = (20..60).map(|packets| hop_of(&mut queue_of(packets), |_| false));
    let few: Vec<Observation> = hops
        .filter(|hop| (3..10).contains(&hop.totals.lost))
        .collect();
    assert!(!few.is_empty());
    assert!(few.iter().all(|hop| exact(hop).full_queue_misses.is_none()));
}

#[test]
fn few_losses_of_queue_management_are_not_those_of_a_full_queue() {
    // half a second at 22 Mbit/s, in which the queue grows by 50 ms, and two seconds at 10 Mbit/s
    let fast = (0..900).map(|packet| packet * 545_000);
    let slow = (0..1_700).map(|packet| 500 * MS + packet * 1_200_000);
    let arrivals: Vec<Arrival> = fast
        .chain(slow)
        .map(|time_ns| Arrival {
            time_ns,
            bytes: BYTES,
        })
        .collect();
    let mut managed = CoDel::new(RATE_BPS, Limit::packets(1_000));
    let hop = hop_over(&arrivals, &mut managed, |_| false);
    assert!((3..10).contains(&hop.totals.lost), "{}", hop.totals.lost);
    assert!(exact(&hop).full_queue_misses.is_some());
    let (_, found) = judged(hop);
    let queues = [Cause::ShallowQueue, Cause::DeepQueue];
    assert!(!queues.contains(&found.cause), "{found:?}");
}

#[test]
fn a_policer_is_named_with_its_bucket() {
    let (hop, found) = judged(policed());
    assert_eq!(found.cause, Cause::Policer, "{found:?}");
    let exact = exact(&hop);
    let fit = exact.bucket.expect("a bucket is fitted");
    assert!((fit.rate_bps.value / RATE_BPS as f64 - 1.0).abs() < 0.01);
    assert!(!waits_for_its_backlog(&hop, exact));
    assert!(starves(exact, &fit).is_none());
    assert!(failing_replay(exact, &fit).is_none());
}

#[test]
fn a_full_queue_is_no_policer_because_packets_wait() {
    let (hop, found) = judged(queued());
    assert_eq!(found.cause, Cause::DeepQueue, "{found:?}");
    let exact = exact(&hop);
    assert!(waits_for_its_backlog(&hop, exact));
    let fit = exact.bucket.expect("its losses are those of a bucket");
    assert!(drains_as_drops(exact, &fit).is_some());
}

#[test]
fn a_bucket_without_passes_for_longer_than_its_fill_time_is_rejected() {
    let hop = policed();
    let fit = exact(&hop).bucket.expect("a bucket is fitted");
    // every third burst is lost as a whole, and the end of the burst before it
    let silent = |arrival: Arrival| {
        let (burst, since_ns) = (arrival.time_ns / EVERY_NS, arrival.time_ns % EVERY_NS);
        burst % 3 == 2 || burst % 3 == 1 && since_ns > 2 * MS
    };
    let starved = hop_of(&mut Policer::new(RATE_BPS, 30_000), silent);
    assert!(starves(exact(&starved), &fit).is_some());
}

#[test]
fn losses_at_the_longest_queueing_delays_are_not_those_of_a_bucket_with_other_drops() {
    let policed = policed();
    let fit = exact(&policed).bucket.expect("a bucket is fitted");
    assert!(drops_what_waits(&policed, exact(&policed), &fit).is_none());
    let queued = queued();
    assert!(drops_what_waits(&queued, exact(&queued), &fit).is_some());
    // its own backlog drops exactly these packets, and other rules distinguish it from a policer
    let own = exact(&queued)
        .bucket
        .expect("its losses are those of a bucket");
    assert!(drops_what_waits(&queued, exact(&queued), &own).is_none());
}
