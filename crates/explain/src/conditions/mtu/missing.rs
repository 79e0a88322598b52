//! Large packets that never arrive, if the capture was taken behind the device that drops them and shows only
//! their absence.
//!
//! The receiver asks for data that stays missing to the end, although later data arrived. Packets too large
//! leave holes of whole full-size segments, and no full-size segment ever arrives. Otherwise the cause stays
//! unknown; but "nothing was lost" would be untrue.

use whydrop_tcp::{Flow, OpenHole, Segment, SegmentFlags};
use whydrop_verdict::{Cause, Fact, fact};

use super::{Condition, between, condition as named};
use crate::conditions::seconds;
use crate::observe::group::FlowRef;

/// First retransmission timeout of a sender without a measured round trip (RFC 6298, section 2.1): by then
/// the data was retransmitted.
const FIRST_TIMEOUT_NS: i64 = 1_000_000_000;
/// Confidence if the path passes packets of that sender all the while, so that neither it nor the sender is
/// dead.
const SURE_WHERE_HEARD: f64 = 0.9;
const LIKELY: f64 = 0.7;

/// Flows with data missing at the end, by number, and the condition of each.
pub(super) fn find(flows: &[FlowRef]) -> Vec<(usize, Condition)> {
    let holes = flows
        .iter()
        .filter_map(|flow| Some((flow, open(flow.flow)?)));
    let found = holes.map(|(flow, hole)| {
        let too_large = too_large(flow, hole, flows);
        (
            flow.index,
            too_large.unwrap_or_else(|| unknown(flow.flow, hole)),
        )
    });
    found.collect()
}

/// The data that was missing for so long that it was retransmitted.
fn open(flow: &Flow) -> Option<&OpenHole> {
    let hole = flow.signs.as_ref()?.open_hole.as_ref()?;
    (hole.until_ns.saturating_sub(hole.since_ns) >= FIRST_TIMEOUT_NS).then_some(hole)
}

fn too_large(flow: &FlowRef, hole: &OpenHole, flows: &[FlowRef]) -> Option<Condition> {
    let full_bytes = flow.flow.mss_bytes.filter(|_| flow.flow.mss_announced)?;
    let is_whole = |bytes: &i64| *bytes > 0 && bytes % i64::from(full_bytes.max(1)) == 0;
    let source = flow.flow.source.address;
    let of_source = || {
        let alike = flows
            .iter()
            .filter(move |other| other.flow.source.address == source);
        alike.map(|other| other.flow)
    };
    let largest = of_source().flat_map(seen).map(Segment::ip_bytes).max()?;
    let headers = flow.flow.segments.first()?.header_bytes;
    let smallest_failed = full_bytes + u32::from(headers);
    if !hole.runs_bytes.iter().all(is_whole) || largest >= smallest_failed {
        return None;
    }
    let repeated_ns = hole.since_ns.saturating_add(FIRST_TIMEOUT_NS);
    let heard = of_source().any(|other| other.last_ns > repeated_ns);
    let mut condition = named("black-hole", vec![flow.flow.name()]);
    condition.confidence = if heard { SURE_WHERE_HEARD } else { LIKELY };
    condition.limited_s = seconds(hole.until_ns - hole.since_ns);
    condition
        .quantities
        .insert("mtu_bytes".to_owned(), between(largest, smallest_failed));
    condition.facts = vec![
        fact!(
            "too-large-unreported",
            flows = 1_u64,
            failed_bytes = u64::from(smallest_failed),
            passed_bytes = u64::from(largest)
        ),
        stays_open(hole).with("full_bytes", u64::from(full_bytes)),
    ];
    Some(condition)
}

fn unknown(flow: &Flow, hole: &OpenHole) -> Condition {
    let mut condition = Condition::new(Cause::Unknown, vec![flow.name()]);
    condition.confidence = 0.0;
    condition.limited_s = seconds(hole.until_ns - hole.since_ns);
    condition.facts = vec![stays_open(hole)];
    condition
}

fn stays_open(hole: &OpenHole) -> Fact {
    let bytes: i64 = hole.runs_bytes.iter().sum();
    fact!(
        "gap-remains",
        missing_bytes = bytes.max(0) as u64,
        waited_s = seconds(hole.until_ns - hole.since_ns)
    )
}

fn seen(flow: &Flow) -> impl Iterator<Item = &Segment> {
    let is_seen = |segment: &&Segment| !segment.flags.has(SegmentFlags::INFERRED);
    flow.segments.iter().filter(is_seen)
}
