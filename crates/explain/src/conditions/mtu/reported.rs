//! Routers that report packets as too large.
//!
//! A router that quotes a packet larger than those sent received something else: a device before it joined
//! packets (large or generic receive offload, which must not be used where packets are forwarded).

use whydrop_capture::IcmpErrorKind;
use whydrop_tcp::{Flow, Notice, Quoted, Segment, SegmentFlags};
use whydrop_verdict::{Fact, Quantity, Value, fact};

use super::{Condition, condition as named, seconds_of, span};

/// A message about the packet size of this flow.
pub(super) fn notice(flow: &Flow) -> Option<&Notice> {
    let about_size = |notice: &&Notice| notice.kind == IcmpErrorKind::TooBig;
    flow.notices().iter().find(about_size)
}

pub(super) fn condition(flow: &Flow) -> Condition {
    let Some(notice) = notice(flow) else {
        return named("told", vec![flow.name()]);
    };
    let joined = joined(flow, notice);
    match joined.is_empty() {
        true => by_size(flow, notice),
        false => by_joining(flow, notice, &joined),
    }
}

fn by_size(flow: &Flow, notice: &Notice) -> Condition {
    let mtu_bytes = mtu_bytes_of(notice);
    let large = || {
        let segments = flow.segments.iter();
        segments.filter(|segment| segment.ip_bytes() > mtu_bytes)
    };
    let mut condition = named("told", vec![flow.name()]);
    condition.lost = large().filter(|segment| segment.is_lost()).count() as u64;
    condition.limited_s = seconds_of(span(large()));
    condition.quantities.insert(
        "mtu_bytes".to_owned(),
        Quantity {
            value: f64::from(mtu_bytes),
            low: notice.mtu_bytes.map(f64::from),
            high: Some(f64::from(mtu_bytes)),
        },
    );
    let headline = fact!("too-large-reported", flows = 1_u64).with("router", router(notice));
    condition.facts = vec![headline, messages(notice)];
    condition
}

/// Runs of packets that reached the router as one.
fn by_joining(flow: &Flow, notice: &Notice, joined: &[Vec<&Segment>]) -> Condition {
    let mut condition = named("joined", vec![flow.name()]);
    let lost = joined.iter().flatten().filter(|segment| segment.is_lost());
    condition.lost = lost.count() as u64;
    let waits = joined.iter().map(|run| seconds_of(repaired(flow, run)));
    condition.limited_s = waits.sum();
    let mtu_bytes = mtu_bytes_of(notice);
    condition.quantities.insert(
        "mtu_bytes".to_owned(),
        Quantity {
            value: f64::from(mtu_bytes),
            low: notice.mtu_bytes.map(f64::from),
            high: notice.mtu_bytes.map(f64::from),
        },
    );
    let largest = joined.iter().flatten().map(|segment| segment.ip_bytes());
    let headline = fact!(
        "joined-before-router",
        flows = 1_u64,
        packet_bytes = u64::from(notice.ip_bytes),
        largest_sent_bytes = u64::from(largest.max().unwrap_or(0))
    );
    condition.facts = vec![headline.with("router", router(notice)), messages(notice)];
    condition
}

/// From the first of these segments to the last transmission of their last bytes.
fn repaired(flow: &Flow, run: &[&Segment]) -> (i64, i64) {
    let (first_ns, _) = span(run.iter().copied());
    let start = run.first().map_or(0, |segment| segment.sequence);
    let end = run.last().map_or(0, |segment| segment.end());
    let of_run = |segment: &&Segment| (start..end).contains(&segment.sequence);
    let (_, last_ns) = span(flow.segments.iter().filter(of_run));
    (first_ns, last_ns)
}

/// The packets that were joined into each quoted one, if it is larger than the largest of them.
fn joined<'a>(flow: &'a Flow, notice: &Notice) -> Vec<Vec<&'a Segment>> {
    let quoted = notice.quoted.iter();
    let parts = quoted.map(|quoted| parts(flow, quoted));
    parts.filter(|run| run.len() > 1).collect()
}

/// Contiguous packets that were sent individually before the message, the first of which begins with the
/// quoted one and which are no longer than it together.
fn parts<'a>(flow: &'a Flow, quoted: &Quoted) -> Vec<&'a Segment> {
    let end = quoted.sequence + i64::from(quoted.ip_bytes);
    let sent = flow.segments.iter().filter(|segment| {
        !segment.flags.has(SegmentFlags::INFERRED) && segment.time_ns <= quoted.time_ns
    });
    let mut run: Vec<&Segment> = Vec::new();
    let mut next = quoted.sequence;
    for segment in sent {
        if segment.sequence == quoted.sequence {
            // the latest transmission before the message
            run.clear();
            next = quoted.sequence;
        }
        let header_bytes = i64::from(segment.header_bytes);
        if segment.sequence == next && segment.end() + header_bytes <= end {
            run.push(segment);
            next = segment.end();
        }
    }
    let largest_bytes = run.iter().map(|segment| segment.ip_bytes()).max();
    let is_larger = largest_bytes.is_some_and(|largest| quoted.ip_bytes > largest);
    match is_larger && !run.iter().any(|segment| is_cut(segment)) {
        true => run,
        false => Vec::new(),
    }
}

/// True if it left its host as a part of a super-segment, which the reader split.
fn is_cut(segment: &Segment) -> bool {
    segment.flags.has(SegmentFlags::OFFLOADED)
}

/// The MTU that the router reports; otherwise less than the packet that it quotes.
fn mtu_bytes_of(notice: &Notice) -> u32 {
    notice
        .mtu_bytes
        .unwrap_or(notice.ip_bytes.saturating_sub(1))
}

fn router(notice: &Notice) -> Value {
    Value::Text(notice.from.to_string().into())
}

fn messages(notice: &Notice) -> Fact {
    Fact {
        packets: vec![notice.packet],
        ..fact!(
            "too-big-messages",
            messages = u64::from(notice.count),
            packet_bytes = u64::from(notice.ip_bytes),
            mtu_bytes = notice.mtu_bytes.map(u64::from)
        )
        .with("router", router(notice))
    }
}
