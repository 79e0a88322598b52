//! Packets too large for the path.
//!
//! A router that cannot pass a packet on says so, with the MTU of the next link (RFC 1191, RFC 8201). Where its message
//! is filtered, or nobody sends one, all packets above a size are lost for ever while smaller ones pass at the same time:
//! a black hole (RFC 2923, section 2.1; RFC 4821).
//!
//! Silent without a message where segments exceed what the other side announced (the capture shows them as an interface cut
//! or joined them, not as they were sent), and unless sizes tell the lost from the delivered without exception, by more than chance, and a
//! smaller packet arrived between large ones that did not: a dead peer answers none of them.

use whydrop_capture::IcmpErrorKind;
use whydrop_tcp::{Fate, Flow, Notice, Segment, SegmentFlags};
use whydrop_verdict::{Cause, Fact, Quantity, Value, fact};

use super::{CHANCE_NATS, Condition, seconds};
use crate::group::Group;

/// Bounds of what a path passes, and what it did not.
struct Sizes {
    largest_passed_bytes: u32,
    /// Of the packets above it, which all failed.
    smallest_lost_bytes: u32,
    lost: u64,
    /// Transmissions of them, and how many packets passed.
    failed: u64,
    passed: u64,
    first_ns: i64,
    last_ns: i64,
}

/// Find the limit that packets of a group were too large for.
pub(super) fn find(group: &Group) -> Option<Condition> {
    let mut found: Option<Condition> = None;
    for flow in group.flows.iter().map(|flow| flow.flow) {
        let told = told(flow);
        let hole = told.is_none().then(|| black_hole(flow)).flatten();
        let Some(one) = told
            .map(|notice| by_message(flow, notice))
            .or(hole.map(|s| by_sizes(flow, &s)))
        else {
            continue;
        };
        match &mut found {
            None => found = Some(one),
            Some(all) => {
                all.flows.extend(one.flows);
                all.lost += one.lost;
                all.limited_s += one.limited_s;
            }
        }
    }
    found
}

/// True if large packets of a flow vanished while small ones passed, without a message that says so.
pub(super) fn is_black_hole(flow: &Flow) -> bool {
    told(flow).is_some() || black_hole(flow).is_some()
}

/// A message about this flow's packets.
fn told(flow: &Flow) -> Option<&Notice> {
    let about_size = |notice: &&Notice| notice.kind == IcmpErrorKind::TooBig;
    flow.notices().iter().find(about_size)
}

fn by_message(flow: &Flow, notice: &Notice) -> Condition {
    let mtu_bytes = notice
        .mtu_bytes
        .unwrap_or(notice.ip_bytes.saturating_sub(1));
    let large = || {
        flow.segments
            .iter()
            .filter(|segment| segment.ip_bytes() > mtu_bytes)
    };
    let lost = large().filter(|segment| segment.is_lost());
    let (first_ns, last_ns) = span(large());
    let mut condition = Condition::new(Cause::Mtu, vec![flow.name()]);
    condition.detail = Some("told");
    condition.lost = lost.count() as u64;
    condition.limited_s = seconds(last_ns.saturating_sub(first_ns));
    condition.quantities.insert(
        "mtu_bytes".to_owned(),
        Quantity {
            value: f64::from(mtu_bytes),
            low: notice.mtu_bytes.map(f64::from),
            high: Some(f64::from(mtu_bytes)),
        },
    );
    let router = Value::Text(notice.from.to_string().into());
    condition.facts = vec![
        fact!("too-large-told", flows = 1_u64).with("router", router.clone()),
        Fact {
            packets: vec![notice.packet],
            ..fact!(
                "too-big-messages",
                messages = u64::from(notice.count),
                packet_bytes = u64::from(notice.ip_bytes),
                mtu_bytes = notice.mtu_bytes.map(u64::from)
            )
            .with("router", router)
        },
    ];
    condition
}

fn by_sizes(flow: &Flow, sizes: &Sizes) -> Condition {
    let mut condition = Condition::new(Cause::Mtu, vec![flow.name()]);
    condition.detail = Some("black-hole");
    condition.lost = sizes.lost;
    condition.limited_s = seconds(sizes.last_ns - sizes.first_ns);
    let (low, high) = (sizes.largest_passed_bytes, sizes.smallest_lost_bytes - 1);
    condition.quantities.insert(
        "mtu_bytes".to_owned(),
        Quantity {
            value: f64::from(low),
            low: Some(f64::from(low)),
            high: Some(f64::from(high)),
        },
    );
    condition.facts = vec![
        fact!("too-large-untold", flows = 1_u64),
        fact!(
            "sizes-tell",
            failed = sizes.failed,
            smallest_lost_bytes = u64::from(sizes.smallest_lost_bytes),
            passed = sizes.passed,
            largest_passed_bytes = u64::from(sizes.largest_passed_bytes)
        ),
    ];
    condition
}

/// Retransmissions of one segment after which something is wrong with the path (R1 of RFC 9293, section 3.8.3).
const REPEATS: usize = 3;

/// Find out if sizes alone tell the packets that vanished from those that arrived.
fn black_hole(flow: &Flow) -> Option<Sizes> {
    let is_seen = |segment: &&Segment| !segment.flags.has(SegmentFlags::INFERRED);
    let segments = || flow.segments.iter().filter(is_seen);
    let announced = flow.offers[1]
        .and_then(|offer| offer.mss)
        .map(|mss| u32::from(mss.get()));
    let is_as_sent = |segment: &Segment| announced.is_none_or(|mss| segment.payload_bytes <= mss);
    if !segments().all(is_as_sent) {
        return None;
    }
    let arrived = |segment: &&Segment| segment.fate == Fate::Delivered;
    let largest_passed_bytes = segments().filter(arrived).map(Segment::ip_bytes).max()?;
    let large = || segments().filter(|segment| segment.ip_bytes() > largest_passed_bytes);
    let (first_ns, last_ns) = span(large());
    let mut starts: Vec<i64> = large().map(|segment| segment.sequence).collect();
    starts.sort_unstable();
    let mut runs = starts.chunk_by(|one, other| one == other);
    if !runs.any(|run| run.len() > REPEATS) {
        return None;
    }
    let between = segments()
        .filter(arrived)
        .any(|segment| (first_ns..last_ns).contains(&segment.time_ns));
    let sizes = Sizes {
        largest_passed_bytes,
        smallest_lost_bytes: large().map(Segment::ip_bytes).min()?,
        lost: large().filter(|segment| segment.is_lost()).count() as u64,
        failed: large().count() as u64,
        // its SYN arrived, or there were no data
        passed: segments().filter(arrived).count() as u64 + u64::from(flow.offers[0].is_some()),
        first_ns,
        last_ns,
    };
    (between && chance_nats(sizes.failed, sizes.passed) < CHANCE_NATS).then_some(sizes)
}

/// The chance that those which failed are just the largest of all, in nats: one over the number of ways to choose them.
fn chance_nats(failed: u64, passed: u64) -> f64 {
    let few = failed.min(passed);
    let all = failed + passed;
    -(1..=few)
        .map(|k| ((all - few + k) as f64 / k as f64).ln())
        .sum::<f64>()
}

fn span<'a>(segments: impl Iterator<Item = &'a Segment>) -> (i64, i64) {
    segments.fold((i64::MAX, i64::MIN), |(first, last), segment| {
        (first.min(segment.time_ns), last.max(segment.time_ns))
    })
}
