//! Packets that exist twice: in the record alone, or on the path.
//!
//! Copies that only the capture got come from the tap (`-i any`, a mirror port): they are recognised by
//! fields that are unique to one packet (`whydrop_capture`'s `duplicates`). A receiver that reports data as
//! received twice (RFC 2883) which was not retransmitted got a copy that the path made, whether the capture
//! holds it or not: a tap's copy gets no answer. No verdict on copies by the path if the sender retransmitted
//! as much as was reported: the report may be late.

use whydrop_capture::Summary;
use whydrop_tcp::{Flow, Tracked};
use whydrop_verdict::{Cause, Value, fact};

use super::Condition;
use super::options::is_mangled;
use crate::observe::group::Group;

/// Fewer copies may have any origin.
const SEVERAL: u64 = 3;
/// Share worth reporting: one packet in a thousand.
const SHARE: f64 = 1e-3;
/// Most pairs of points named.
const MOST_PAIRS: usize = 4;

/// Copies made on the path to a host.
pub(super) fn on_path(group: &Group) -> Option<Condition> {
    let is_doubled = |flow: &&Flow| {
        let counters = &flow.counters;
        // mangled SACK blocks below the acknowledgment look like reports of copies
        !is_mangled(flow)
            && counters.duplicated_on_path >= SEVERAL
            && counters.duplicated_on_path > counters.retransmitted
            && counters.duplicated_on_path as f64 > SHARE * flow.segments.len() as f64
    };
    let flows = group.flows.iter().map(|flow| flow.flow);
    let doubled: Vec<&Flow> = flows.filter(is_doubled).collect();
    let copies: u64 = doubled
        .iter()
        .map(|flow| flow.counters.duplicated_on_path)
        .sum();
    let data_packets: usize = doubled.iter().map(|flow| flow.segments.len()).sum();
    let mut condition = Condition::new(
        Cause::Duplicate,
        doubled.iter().map(|flow| flow.name()).collect(),
    );
    condition.detail = Some("path");
    condition.facts = vec![fact!(
        "doubled-on-path",
        copies = copies,
        data_packets = data_packets
    )];
    (!doubled.is_empty()).then_some(condition)
}

/// Share of the copies in a capture that are answered if the path made them: copies of acknowledgments get no
/// answer.
const ANSWERED_SHARE: f64 = 0.25;

/// Copies that only the capture holds, or that the receiver got as well according to the capture.
pub(super) fn in_capture(summary: &Summary, tracked: &Tracked) -> Option<Condition> {
    let copies = summary.duplicates;
    let many = copies >= SEVERAL && copies as f64 > SHARE * summary.packets as f64;
    let answered = Answered::of(tracked);
    let of_path = |answers: u64| answers as f64 >= ANSWERED_SHARE * copies as f64;
    if !many || of_path(answered.reported) {
        // the receivers' reports are part of the verdict on each group
        return None;
    }
    match of_path(answered.acknowledged_again) && summary.translated_connections == 0 {
        true => Some(acknowledged_again(copies, &answered)),
        false => Some(by_tap(summary)),
    }
}

/// Answers to data that arrived again without a retransmission.
#[derive(Default)]
struct Answered {
    /// With a duplicate SACK.
    reported: u64,
    /// With an additional plain acknowledgment, if SACK is not in use and nothing is missing.
    acknowledged_again: u64,
    data_packets: u64,
    flows: Vec<String>,
}

impl Answered {
    fn of(tracked: &Tracked) -> Self {
        let mut answered = Self::default();
        let flows = tracked
            .connections
            .iter()
            .flat_map(|connection| &connection.flows);
        for flow in flows {
            let counters = &flow.counters;
            if !is_mangled(flow) {
                answered.reported += counters.duplicated_on_path;
            }
            let whole = counters.lost + counters.retransmitted + counters.reordered == 0;
            if !flow.sack_permitted && whole && counters.duplicate_acknowledgments >= SEVERAL {
                answered.acknowledged_again += counters.duplicate_acknowledgments;
                answered.data_packets += flow.segments.len() as u64;
                answered.flows.push(flow.name());
            }
        }
        answered
    }
}

fn acknowledged_again(copies: u64, answered: &Answered) -> Condition {
    let mut condition = Condition::new(Cause::Duplicate, answered.flows.clone());
    condition.detail = Some("path");
    condition.facts = vec![fact!(
        "doubled-on-path",
        copies = copies.min(answered.acknowledged_again),
        data_packets = answered.data_packets
    )];
    condition
}

fn by_tap(summary: &Summary) -> Condition {
    let text = |text: &str| Value::Text(text.to_owned().into());
    let mut condition = Condition::new(Cause::Duplicate, Vec::new());
    condition.detail = Some("tap");
    condition.facts = vec![fact!(
        "doubled-by-tap",
        copies = summary.duplicates,
        packets = summary.packets
    )];
    let pairs = summary.copies.iter().take(MOST_PAIRS);
    condition.facts.extend(pairs.map(|pair| {
        fact!("copies-from", copies = pair.packets)
            .with("first", text(&pair.first))
            .with("copy", text(&pair.copy))
            .with("hops_further", f64::from(pair.hops_further))
    }));
    condition
        .facts
        .extend(summary.translations.first().map(|translation| {
            fact!(
                "translated-in-capture",
                connections = summary.translated_connections
            )
            .with("kept", text(&translation.kept))
            .with("copy", text(&translation.copy))
        }));
    condition
}
