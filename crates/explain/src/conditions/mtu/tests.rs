//! Hand-written flows with large packets that do not pass, and similar flows with large packets that do.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;

use whydrop_capture::IcmpErrorKind;
use whydrop_tcp::{Flow, Notice, Offer, OpenHole, Quoted, Segment};
use whydrop_verdict::Cause;

use crate::conditions::of_group;
use crate::conditions::tests::{conditions, found, offer, steady};
use crate::testing::{MS, delivered, flow, group, lost};
use crate::vantage::observe_group;

const BLACK_HOLE: (Cause, Option<&str>) = (Cause::Mtu, Some("black-hole"));

/// Ten small packets that arrived and one large one that was sent `times` times and never arrived; one small
/// one between.
fn large_ones_vanish(times: i64, small_between: bool) -> Flow {
    let small = |at_ms: i64| Segment {
        payload_bytes: 100,
        ..delivered(at_ms * MS, 20)
    };
    let mut segments: Vec<Segment> = (0..10).map(|n| small(30 * n)).collect();
    segments.extend((0..times).map(|n| lost((400 + 300 * n) * MS)));
    if small_between {
        segments.push(small(401));
    }
    segments.sort_by_key(|segment| segment.time_ns);
    let mut flow = flow(1, segments);
    flow.offers = [Some(offer(1)), Some(offer(2))];
    flow
}

#[test]
fn losses_separated_by_size_are_a_black_hole() {
    let flow = large_ones_vanish(5, true);
    assert_eq!(found(&flow), [(Cause::Mtu, Some("black-hole"), 5)]);
    let mtu = conditions(&flow).found[0].quantities["mtu_bytes"];
    assert_eq!((mtu.low, mtu.high), (Some(152.0), Some(1499.0)));
    // a dead path lets nothing through
    assert_eq!(found(&large_ones_vanish(5, false)), []);
    // three losses may be chance
    assert_eq!(found(&large_ones_vanish(3, true)), []);
    // larger than announced: not as it was sent
    let mut joined = flow;
    joined.offers[1] = Some(Offer {
        mss: NonZeroU16::new(1400),
        ..offer(2)
    });
    assert_eq!(found(&joined), []);
}

#[test]
fn a_router_message_explains_packets_that_were_too_large() {
    let mut flow = flow(1, steady(&[2005]));
    flow.segments
        .iter_mut()
        .for_each(|segment| segment.payload_bytes = 1200);
    flow.segments
        .last_mut()
        .expect("the lost one")
        .payload_bytes = 1448;
    assert_eq!(found(&flow), []);
    flow.signs_mut().notices.push(Notice {
        kind: IcmpErrorKind::TooBig,
        from: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        direction: 0,
        mtu_bytes: Some(1300),
        ip_bytes: 1500,
        count: 1,
        first_ns: 2006 * MS,
        packet: 300,
        quoted: Vec::new(),
    });
    assert_eq!(found(&flow), [(Cause::Mtu, Some("told"), 1)]);
    flow.signs_mut().notices[0].kind = IcmpErrorKind::HostUnreachable;
    assert_eq!(found(&flow), []);
}

/// One segment that never passes, sent `times` times, and the last 452 bytes of the same message, which pass.
fn one_message(port: u16, at_ms: i64, times: i64) -> Flow {
    let tail = Segment {
        sequence: 1448,
        payload_bytes: 452,
        ..delivered(at_ms * MS, 40)
    };
    let large = |n: i64| lost((at_ms + (1 << n) * 100 - 100) * MS);
    let mut segments: Vec<Segment> = (0..times).map(large).collect();
    segments.insert(1, tail);
    let mut flow = flow(1, segments);
    flow.destination.port = port;
    flow.offers = [Some(offer(1)), Some(offer(2))];
    flow
}

fn of_all(flows: &[Flow]) -> Vec<(Cause, Option<&'static str>, f64)> {
    let group = group(flows);
    let found = of_group(&group, &observe_group(&group), Cause::Unknown).found;
    let named = found.iter();
    named
        .map(|one| (one.cause(), one.detail, one.confidence))
        .collect()
}

#[test]
fn one_message_is_likely_too_large_and_several_surely() {
    let (cause, detail) = BLACK_HOLE;
    assert_eq!(of_all(&[one_message(1, 0, 6)]), [(cause, detail, 0.8)]);
    let twice = [one_message(1, 0, 6), one_message(2, 9000, 6)];
    assert_eq!(of_all(&twice), [(cause, detail, 0.95)]);
    let large_on_another = flow(1, vec![delivered(100 * MS, 40)]);
    assert_eq!(of_all(&[one_message(1, 0, 6), large_on_another]), []);
}

#[test]
fn packets_that_every_host_accepts_are_not_too_large() {
    let small = |flow: &mut Flow| {
        let large = flow.segments.iter_mut().filter(|segment| segment.is_lost());
        large.for_each(|segment| segment.payload_bytes = 500);
    };
    let mut flows = [one_message(1, 0, 6), one_message(2, 9000, 6)];
    flows.iter_mut().for_each(small);
    assert_eq!(of_all(&flows), []);
}

#[test]
fn a_sender_that_succeeds_with_smaller_packets_found_the_limit() {
    let after = |bytes: u32, n: i64| Segment {
        payload_bytes: bytes,
        sequence: n * i64::from(bytes),
        ..delivered((2000 + n) * MS, 40)
    };
    let lowered = |bytes: u32| {
        let large = (0..5).map(|n| lost((100 + n * 300) * MS));
        let mut flow = flow(1, large.chain((0..20).map(|n| after(bytes, n))).collect());
        flow.offers = [Some(offer(1)), Some(offer(2))];
        flow.first_ns = 0;
        flow
    };
    let (cause, detail) = BLACK_HOLE;
    assert_eq!(of_all(&[lowered(1000)]), [(cause, detail, 0.8)]);
    // an outage, after which packets of the same size pass
    assert_eq!(of_all(&[lowered(1448)]), []);
}

/// A receiver asks for `missing` bytes from `since_ms` on until ten seconds have passed.
fn waits_for(missing: i64, since_ms: i64) -> Flow {
    let tail = Segment {
        sequence: missing,
        payload_bytes: 452,
        ..delivered(since_ms * MS, 0)
    };
    let mut flow = flow(1, vec![tail]);
    (flow.mss_bytes, flow.mss_announced) = (Some(1448), true);
    flow.signs_mut().open_hole = Some(OpenHole {
        since_ns: since_ms * MS,
        until_ns: 10_000 * MS,
        runs_bytes: vec![missing],
        last_heard_ns: since_ms * MS,
    });
    flow
}

#[test]
fn whole_segments_that_never_arrive_were_too_large() {
    let (cause, detail) = BLACK_HOLE;
    let judged = |flow: &Flow| {
        let group = group(std::slice::from_ref(flow));
        let of_group = of_group(&group, &observe_group(&group), Cause::None);
        let instead = of_group.instead_of_flow(0, Cause::None);
        let found = &of_group.found;
        let named = found.iter().map(|one| (one.cause(), one.detail)).collect();
        let named: Vec<_> = named;
        (named, instead.map(|(cause, _)| cause))
    };
    assert_eq!(
        judged(&waits_for(2896, 40)),
        (vec![(cause, detail)], Some(cause))
    );
    // any other size shows only that data is missing
    let other = (vec![(Cause::Unknown, None)], Some(Cause::Unknown));
    assert_eq!(judged(&waits_for(2000, 40)), other);
    // not missing long enough for a retransmission
    assert_eq!(judged(&waits_for(2896, 9_500)), (vec![], None));
}

#[test]
fn a_router_that_quotes_larger_packets_than_sent_received_joined_ones() {
    let part = |sequence: i64, payload_bytes: u32, at_ms: i64| Segment {
        sequence,
        payload_bytes,
        ..lost(at_ms * MS)
    };
    let again = |segment: Segment| Segment {
        time_ns: segment.time_ns + 300 * MS,
        ..delivered(0, 40)
    };
    let (first, second) = (part(0, 1448, 10), part(1448, 145, 10));
    let mut flow = flow(1, vec![first, second, again(first), again(second)]);
    flow.signs_mut().notices.push(Notice {
        kind: IcmpErrorKind::TooBig,
        from: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        direction: 0,
        mtu_bytes: Some(1500),
        ip_bytes: 1645,
        count: 1,
        first_ns: 50 * MS,
        packet: 3,
        quoted: vec![Quoted {
            time_ns: 50 * MS,
            sequence: 0,
            ip_bytes: 1645,
        }],
    });
    assert_eq!(found(&flow), [(Cause::Mtu, Some("joined"), 2)]);
}
