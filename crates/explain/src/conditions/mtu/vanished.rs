//! Large packets that never arrive while smaller ones do, if the capture shows how often they were sent.
//!
//! A verdict needs sizes that separate the lost from the delivered packets without exception, one segment
//! that failed at least four times, and a small packet that arrived in between: a dead peer answers none of
//! them. It is also given if a sender without answers sends the same bytes in smaller packets, as path MTU
//! discovery without messages does (RFC 4821), and all of those arrive. No verdict if segments exceed the
//! announced size (the capture then shows them as an interface split or joined them, not as they were sent).

use whydrop_tcp::{Fate, Flow, Segment, SegmentFlags};
use whydrop_verdict::fact;

use super::{Condition, between, condition as named, seconds_of, span};
use crate::conditions::{CHANCE_NATS, SURE};
use crate::observe::group::FlowRef;

/// Retransmissions of one segment that indicate a defective path (R1 of RFC 9293, section 3.8.3).
const REPEATS: usize = 3;
/// Sizes of a few packets mean more than chance: the same packet fails for long while packets sent with it
/// arrive. A dead peer looks like that only if it dies within that round trip, just after the large packet
/// was lost.
const LIKELY: f64 = 0.8;
/// Every host accepts packets of this size (RFC 791, section 3.1), so every link in use passes them.
const ALWAYS_PASSES_BYTES: u32 = 576;
/// Connections that fail alike, if the packets that arrived in between belong to other connections: a single
/// one may have expired on the path.
const FEWEST_ALIKE: usize = 2;

/// Bounds of the sizes that a path passes, and those that it did not.
struct Sizes {
    largest_passed_bytes: u32,
    /// The smallest of the packets above it, all of which failed.
    smallest_lost_bytes: u32,
    lost: u64,
    /// Transmissions of them, and the number of packets that passed.
    failed: u64,
    passed: u64,
    /// Their sender reduced its packet size, and the smaller packets arrived.
    lowered: bool,
    limited_s: f64,
}

/// The flows with vanished large packets, if size alone separates them from the packets that arrived of all
/// these flows to one host.
pub(super) fn find(flows: &[FlowRef]) -> Option<(Vec<usize>, Condition)> {
    let as_sent = flows.iter().copied().filter(|flow| is_as_sent(flow.flow));
    let flows: Vec<FlowRef> = as_sent.collect();
    let largest_passed_bytes = flows.iter().filter_map(|flow| largest_passed(flow.flow));
    let largest_passed_bytes = largest_passed_bytes.max()?;
    let is_large = |segment: &&Segment| segment.ip_bytes() > largest_passed_bytes;
    let with_large: Vec<&FlowRef> = flows
        .iter()
        .filter(|flow| seen(flow.flow).any(|segment| is_large(&segment)))
        .collect();
    let all_large = || {
        with_large
            .iter()
            .flat_map(|flow| seen(flow.flow).filter(is_large))
    };
    let repeats = with_large
        .iter()
        .map(|flow| most_transmissions(seen(flow.flow).filter(is_large)));
    if repeats.max()? <= REPEATS {
        return None;
    }
    let smallest_lost_bytes = all_large().map(Segment::ip_bytes).min()?;
    if smallest_lost_bytes <= ALWAYS_PASSES_BYTES {
        return None;
    }
    let lowered = with_large
        .iter()
        .any(|flow| is_lowered(flow.flow, largest_passed_bytes));
    let passed = || flows.iter().flat_map(|flow| passed_ns(flow.flow));
    let amid = match with_large.len() >= FEWEST_ALIKE {
        true => is_amid(span(all_large()), passed()),
        false => with_large.iter().all(|flow| {
            let large = seen(flow.flow).filter(is_large);
            is_amid(span(large), passed_ns(flow.flow))
        }),
    };
    let sizes = Sizes {
        largest_passed_bytes,
        smallest_lost_bytes,
        lost: all_large().filter(|segment| segment.is_lost()).count() as u64,
        failed: all_large().count() as u64,
        passed: passed().count() as u64,
        lowered,
        limited_s: with_large
            .iter()
            .map(|flow| seconds_of(span(seen(flow.flow).filter(is_large))))
            .sum(),
    };
    let confidence = match chance_nats(sizes.failed, sizes.passed) < CHANCE_NATS {
        true if amid => SURE,
        true if lowered => LIKELY,
        _ if with_large
            .iter()
            .any(|flow| overtaken(flow.flow, largest_passed_bytes)) =>
        {
            LIKELY
        }
        _ => return None,
    };
    let names = with_large.iter().map(|flow| flow.flow.name()).collect();
    let condition = Condition {
        confidence,
        ..by_sizes(names, &sizes)
    };
    Some((
        with_large.iter().map(|flow| flow.index).collect(),
        condition,
    ))
}

fn by_sizes(names: Vec<String>, sizes: &Sizes) -> Condition {
    let flows = names.len() as u64;
    let mut condition = named("black-hole", names);
    condition.lost = sizes.lost;
    condition.limited_s = sizes.limited_s;
    let (low, high) = (sizes.largest_passed_bytes, sizes.smallest_lost_bytes);
    condition
        .quantities
        .insert("mtu_bytes".to_owned(), between(low, high));
    condition.facts = vec![
        fact!(
            "too-large-unreported",
            flows = flows,
            failed_bytes = u64::from(high),
            passed_bytes = u64::from(low)
        ),
        fact!(
            "sizes-show",
            failed = sizes.failed,
            smallest_lost_bytes = u64::from(high),
            passed = sizes.passed,
            largest_passed_bytes = u64::from(low),
            lowered = sizes.lowered
        ),
    ];
    condition
}

fn is_amid((first_ns, last_ns): (i64, i64), mut passed_ns: impl Iterator<Item = i64>) -> bool {
    passed_ns.any(|at_ns| (first_ns..last_ns).contains(&at_ns))
}

/// Segments that the capture holds.
fn seen(flow: &Flow) -> impl Iterator<Item = &Segment> {
    let is_seen = |segment: &&Segment| !segment.flags.has(SegmentFlags::INFERRED);
    flow.segments.iter().filter(is_seen)
}

/// True if no segment is larger than the other side announced.
fn is_as_sent(flow: &Flow) -> bool {
    let announced = flow.offers[1].and_then(|offer| offer.mss);
    let announced = announced.map(|mss| u32::from(mss.get()));
    announced.is_none_or(|mss| seen(flow).all(|segment| segment.payload_bytes <= mss))
}

fn arrived(segment: &&Segment) -> bool {
    segment.fate == Fate::Delivered
}

/// Of a flow's data, otherwise of the SYN that was answered.
fn largest_passed(flow: &Flow) -> Option<u32> {
    const SYN_BYTES: u32 = 60;
    let data = seen(flow).filter(arrived).map(Segment::ip_bytes).max();
    data.or(flow.offers[0].map(|_| SYN_BYTES))
}

/// Times at which packets were sent that arrived: data, and the SYN, which precedes all data.
fn passed_ns(flow: &Flow) -> impl Iterator<Item = i64> {
    let syn = flow.offers[0].map(|_| flow.first_ns);
    let data = seen(flow).filter(arrived).map(|segment| segment.time_ns);
    syn.into_iter().chain(data)
}

/// Number of transmissions of the segment that was sent most often.
fn most_transmissions<'a>(segments: impl Iterator<Item = &'a Segment>) -> usize {
    let mut starts: Vec<i64> = segments.map(|segment| segment.sequence).collect();
    starts.sort_unstable();
    let runs = starts.chunk_by(|one, other| one == other);
    runs.map(<[i64]>::len).max().unwrap_or(0)
}

/// True if small data after one of the large packets was sent before its first repeat and arrived, and no
/// repeat did.
fn overtaken(flow: &Flow, largest_passed_bytes: u32) -> bool {
    let large = || seen(flow).filter(|segment| segment.ip_bytes() > largest_passed_bytes);
    let Some(first) = large().next() else {
        return false;
    };
    let repeats = large().filter(|segment| segment.sequence == first.sequence);
    let behind = seen(flow)
        .filter(arrived)
        .any(|small| small.sequence > first.sequence && small.time_ns >= first.time_ns);
    behind && repeats.count() > REPEATS
}

/// True if bytes that failed repeatedly in a large packet arrived as soon as they were sent in a smaller one,
/// and no large one was sent since.
fn is_lowered(flow: &Flow, largest_passed_bytes: u32) -> bool {
    let is_large = |segment: &Segment| segment.ip_bytes() > largest_passed_bytes;
    let Some(last) = seen(flow).filter(|segment| is_large(segment)).last() else {
        return false;
    };
    let mut after = seen(flow).filter(|segment| segment.time_ns > last.time_ns);
    let first = after.next();
    first.is_some_and(|small| {
        small.sequence <= last.sequence && small.end() > small.sequence && arrived(&small)
    }) && after.all(|segment| segment.fate != Fate::Lost)
}

/// The chance that the failed packets are exactly the largest of all, in nats: one over the number of
/// possible choices.
fn chance_nats(failed: u64, passed: u64) -> f64 {
    let few = failed.min(passed);
    let all = failed + passed;
    -(1..=few)
        .map(|k| ((all - few + k) as f64 / k as f64).ln())
        .sum::<f64>()
}
