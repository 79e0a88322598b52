//! Notes on what a defect cost: errors, and no verdicts.

use whydrop_capture::Defect;

use crate::group::Group;

/// The note on a group that a defect cost its verdict.
pub(crate) fn without_verdict(group: &Group, defect: &Defect) -> String {
    let packets: u64 = (group.flows.iter())
        .map(|flow| flow.flow.counters.packets)
        .sum();
    let first = group.flows.first().map(|flow| flow.flow.name());
    let others = match group.flows.len().saturating_sub(1) {
        0 => String::new(),
        others => format!(" and {others} more flows"),
    };
    let named = first.unwrap_or_default();
    format!("no verdict on {named}{others} ({packets} packets): {defect}. Please report it")
}
