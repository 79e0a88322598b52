//! Notes on what a defect cost: errors, and no verdicts.

use whydrop_capture::{Defect, contain};

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

/// The note on a capture whose datagrams a defect cost their place.
pub(crate) fn without_datagrams(defect: &Defect) -> String {
    format!("no verdict on UDP and ICMP: {defect}. Please report it")
}

/// What `work` finds; where a defect ends it, nothing, and a note that says what is missing.
pub(crate) fn or_note<T: Default>(
    notes: &mut Vec<String>,
    missing: &str,
    work: impl FnOnce() -> T,
) -> T {
    contain(work).unwrap_or_else(|defect| {
        notes.push(format!("{missing}: {defect}. Please report it"));
        T::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_defect_leaves_a_note_of_what_is_missing() {
        let mut notes = Vec::new();
        assert_eq!(or_note(&mut notes, "no sum", || 2 + 2), 4);
        assert!(notes.is_empty());
        assert_eq!(
            or_note(&mut notes, "no sum", || -> u8 { panic!("of a test") }),
            0
        );
        assert!(
            notes[0].starts_with("no sum: a defect of whydrop at "),
            "{notes:?}"
        );
    }
}
