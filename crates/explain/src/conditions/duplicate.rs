//! Packets that exist twice: in the record alone, or on the path.
//!
//! Copies that nobody but the capture got are the tap's (`-i any`, a mirror port): they are recognised by what only one packet
//! can have (`whydrop_capture`'s `duplicates`). A receiver that reports data as received twice (RFC 2883) which was not
//! retransmitted got a copy that the path made. Silent on the path's where its sender repeats as much as was reported:
//! the report may be late.

use whydrop_capture::Summary;
use whydrop_tcp::Flow;
use whydrop_verdict::{Cause, fact};

use super::Condition;
use crate::group::Group;

/// Fewer copies may be of any origin.
const SEVERAL: u64 = 3;
/// One packet in a thousand is what is worth a word.
const SHARE: f64 = 1e-3;

/// Copies made on the way to a host.
pub(super) fn on_path(group: &Group) -> Option<Condition> {
    let is_doubled = |flow: &&Flow| {
        let counters = &flow.counters;
        counters.duplicated_on_path >= SEVERAL
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

/// Copies that only the capture holds.
pub(super) fn by_tap(summary: &Summary) -> Option<Condition> {
    let copies = summary.duplicates;
    let mut condition = Condition::new(Cause::Duplicate, Vec::new());
    condition.detail = Some("tap");
    condition.facts = vec![fact!(
        "doubled-by-tap",
        copies = copies,
        packets = summary.packets
    )];
    let many = copies >= SEVERAL && copies as f64 > SHARE * summary.packets as f64;
    many.then_some(condition)
}
