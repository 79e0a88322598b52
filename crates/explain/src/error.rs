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

/// Judgements of a capture as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Judging {
    Endings,
    Datagrams,
    Capture,
    RoundTrips,
}

/// Gives what `work` finds; where a defect ends it, nothing, and a note that says what is missing.
pub(crate) fn or_note<T: Default>(
    notes: &mut Vec<String>,
    judging: Judging,
    work: impl FnOnce() -> T,
) -> T {
    contain(work).unwrap_or_else(|defect| {
        let missing = match judging {
            Judging::Endings => "no verdict on how connections ended",
            Judging::Datagrams => "no verdict on UDP and ICMP",
            Judging::Capture => "no verdict on the capture as a whole",
            Judging::RoundTrips => "no round trips beside the verdicts",
        };
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
        assert_eq!(or_note(&mut notes, Judging::Capture, || 2 + 2), 4);
        assert!(notes.is_empty());
        assert_eq!(
            or_note(&mut notes, Judging::Capture, || -> u8 {
                panic!("of a test")
            }),
            0
        );
        assert!(
            notes[0].starts_with("no verdict on the capture as a whole: a defect of whydrop at "),
            "{notes:?}"
        );
    }
}
