//! Hand-written flows that prove a cause by themselves, and similar flows that do not.

use std::num::NonZeroU16;

use whydrop_tcp::{Ecn, Fate, Flow, Offer, SackCounters, Segment, Silence, Vantage};
use whydrop_verdict::Cause;

use super::*;
use crate::testing::{MS, delivered, flow, group, lost};
use crate::vantage::observe_group;

pub(super) fn conditions(flow: &Flow) -> Conditions {
    let flows = [flow.clone()];
    let group = group(&flows);
    let seen = observe_group(&group);
    let judged = if seen.totals.lost > 0 {
        Cause::Unknown
    } else {
        Cause::ReceiverWindow
    };
    of_group(&group, &seen, judged)
}

/// Cause, detail and losses of each.
pub(super) fn found(flow: &Flow) -> Vec<(Cause, Option<&'static str>, u64)> {
    let conditions = conditions(flow).found;
    conditions
        .iter()
        .map(|one| (one.cause(), one.detail, one.lost))
        .collect()
}

/// A packet every 10 ms; those at `lost_ms` are lost; round trips take 20 ms.
pub(super) fn steady(lost_ms: &[i64]) -> Vec<Segment> {
    let mut segments: Vec<Segment> = (0..200).map(|n| delivered(10 * n * MS, 20)).collect();
    segments.extend(lost_ms.iter().map(|at_ms| lost(at_ms * MS)));
    segments.sort_by_key(|segment| segment.time_ns);
    segments
}

/// Silence from 2005 ms on, with transmissions at these times, the last of which was answered after 20 ms.
fn silent(sent_ms: &[i64]) -> Flow {
    let (last, swallowed) = sent_ms.split_last().expect("some");
    let mut segments = steady(swallowed);
    segments.push(delivered(last * MS, 20));
    let mut flow = flow(1, segments);
    flow.signs_mut().silences.push(Silence {
        since_ns: sent_ms[0] * MS,
        sent_ns: last * MS,
        until_ns: (last + 20) * MS,
        repeats: sent_ms.len() as u32 - 1,
        packets: vec![7],
    });
    flow
}

#[test]
fn transmissions_that_all_fail_over_many_round_trips_are_an_outage() {
    let flow = silent(&[2005, 2250, 2700, 3600]);
    assert_eq!(found(&flow), [(Cause::Outage, None, 3)]);
    let all = conditions(&flow);
    assert_eq!(
        all.instead_of(Cause::Unknown).map(|(cause, _)| cause),
        Some(Cause::Outage)
    );
    assert_eq!(all.instead_of(Cause::Policer), None);
    let duration = all.found[0].quantities["outage_s"];
    assert!((duration.value - 1.595).abs() < 1e-9);
    assert!((duration.low.unwrap() - 0.695).abs() < 1e-9);
    assert!((duration.high.unwrap() - 1.610).abs() < 1e-9);
    assert_eq!(all.found[0].facts[1].packets, [7]);
}

#[test]
fn two_lost_transmissions_or_a_burst_are_no_outage() {
    assert_eq!(found(&silent(&[2005, 2250, 3600])), []);
    // one overflow, and one lost retransmission
    assert_eq!(found(&silent(&[2005, 2006, 2007, 2250, 3600])), []);
}

#[test]
fn as_many_failures_are_chance_where_every_third_packet_is_lost() {
    let mut flow = silent(&[2005, 2250, 2700, 3600]);
    let every_third = flow.segments.iter_mut().step_by(3).take(60);
    every_third.for_each(|segment| segment.fate = Fate::Lost);
    flow.counters.lost += 60;
    assert_eq!(found(&flow), []);
}

#[test]
fn data_that_kept_arriving_was_only_answered_late() {
    let mut flow = silent(&[2005, 2250, 2700, 3600]);
    let late = flow
        .segments
        .iter_mut()
        .filter(|segment| segment.time_ns == 2250 * MS);
    late.for_each(|segment| segment.fate = Fate::Delivered);
    assert_eq!(found(&flow), []);
}

#[test]
fn deliveries_of_other_flows_to_the_host_exclude_an_outage() {
    let silent = silent(&[2005, 2250, 2700, 3600]);
    let other = |at_ms: i64| [silent.clone(), flow(1, vec![delivered(at_ms * MS, 20)])];
    let found = |flows: &[Flow]| {
        let group = group(flows);
        of_group(&group, &observe_group(&group), Cause::Unknown)
            .found
            .len()
    };
    assert_eq!(found(&other(2300)), 0);
    assert_eq!(found(&other(3000)), 1);
}

pub(super) fn offer(packet: u32) -> Offer {
    Offer {
        window_scale: Some(7),
        sack_permitted: true,
        mss: NonZeroU16::new(1460),
        window: 65_160,
        packet,
        truncated: false,
    }
}

#[test]
fn a_window_at_its_ceiling_without_a_scale_is_no_small_buffer() {
    let mut flow = flow(1, steady(&[]));
    flow.mss_bytes = Some(1448);
    flow.largest_window = 65_000;
    flow.offers = [
        Some(Offer {
            window_scale: None,
            ..offer(2)
        }),
        Some(offer(1)),
    ];
    assert_eq!(found(&flow), [(Cause::WindowScaling, Some("missing"), 0)]);
    let instead = conditions(&flow).instead_of(Cause::ReceiverWindow);
    assert_eq!(instead.map(|(cause, _)| cause), Some(Cause::WindowScaling));
    let but = |change: fn(&mut Flow)| {
        let mut other = flow.clone();
        change(&mut other);
        found(&other)
    };
    assert_eq!(but(|flow| flow.largest_window = 30_000), []);
    assert_eq!(but(|flow| flow.counters.zero_windows = 1), []);
    assert_eq!(but(|flow| flow.offers[0] = Some(offer(2))), []);
    assert_eq!(but(|flow| flow.offers[0] = None), []);
}

#[test]
fn a_window_scaled_only_by_the_receiver_is_misread() {
    let mut flow = flow(1, steady(&[]));
    flow.mss_bytes = Some(1448);
    flow.offers = [
        Some(offer(1)),
        Some(Offer {
            window_scale: None,
            ..offer(2)
        }),
    ];
    (flow.first_window, flow.largest_window) = (509, 900);
    assert_eq!(found(&flow), [(Cause::WindowScaling, Some("misread"), 0)]);
    // a window that shrank by another factor has another reason
    flow.first_window = 700;
    assert_eq!(found(&flow), []);
}

#[test]
fn selective_acknowledgments_are_mangled_stripped_or_refused() {
    let mut flow = flow(1, steady(&[500, 1000, 1500]));
    flow.offers = [Some(offer(1)), Some(offer(2))];
    let but = |change: fn(&mut Flow)| {
        let mut other = flow.clone();
        change(&mut other);
        found(&other)
            .first()
            .map(|(cause, detail, _)| (*cause, *detail))
    };
    fn sack(flow: &mut Flow, (blocks, outside, holes_without): (u64, u64, u64)) {
        flow.signs_mut().sack = SackCounters {
            blocks,
            outside,
            holes_without,
        };
    }
    let is = |detail| Some((Cause::Sack, Some(detail)));
    assert_eq!(but(|_| ()), None);
    assert_eq!(but(|flow| sack(flow, (4, 3, 0))), is("mangled"));
    // below the acknowledgment, they look like reports of copies
    assert_eq!(
        but(|flow| {
            sack(flow, (4, 3, 0));
            flow.counters.duplicated_on_path = 4;
        }),
        is("mangled")
    );
    assert_eq!(but(|flow| sack(flow, (40, 3, 0))), None);
    assert_eq!(but(|flow| sack(flow, (0, 0, 3))), is("stripped"));
    assert_eq!(but(|flow| sack(flow, (1, 0, 3))), None);
    let refusing = |flow: &mut Flow| {
        flow.offers[1] = Some(Offer {
            sack_permitted: false,
            ..offer(2)
        })
    };
    assert_eq!(but(refusing), is("refused"));
}

#[test]
fn marks_without_echoes_and_data_without_marks_are_faults_of_ecn() {
    let mut flow = flow(1, steady(&[]));
    flow.ecn = Ecn::Classic;
    flow.vantage = Vantage::Receiver;
    (
        flow.counters.ect0,
        flow.counters.ce_marked,
        flow.counters.ecn_echoes,
    ) = (190, 3, 1);
    assert_eq!(found(&flow), []);
    flow.counters.ecn_echoes = 0;
    assert_eq!(found(&flow), [(Cause::Ecn, Some("not-echoed"), 0)]);
    (flow.counters.ect0, flow.counters.ce_marked) = (0, 0);
    assert_eq!(found(&flow), [(Cause::Ecn, Some("bleached"), 0)]);
    // the sender set these fields itself
    flow.vantage = Vantage::Sender;
    assert_eq!(found(&flow), []);
}

#[test]
fn data_reported_twice_and_sent_once_was_doubled_on_the_path() {
    let mut flow = flow(1, steady(&[]));
    flow.counters.duplicated_on_path = 3;
    assert_eq!(found(&flow), [(Cause::Duplicate, Some("path"), 0)]);
    flow.counters.retransmitted = 3;
    assert_eq!(found(&flow), []);
}

#[test]
fn losses_of_a_connection_that_fell_silent_are_not_unexplained() {
    let mut flow = flow(1, steady(&[2005, 2250, 2700]));
    assert_eq!(conditions(&flow).instead_of(Cause::Unknown), None);
    flow.signs_mut().unanswered_since_ns = Some(2000 * MS);
    let instead = conditions(&flow).instead_of(Cause::Unknown);
    assert_eq!(instead.map(|(cause, _)| cause), Some(Cause::NoAnswer));
    assert_eq!(lost_unanswered(&flow), 3);
}
