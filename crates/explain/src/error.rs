//! Notes on verdicts that are missing because of a defect in whydrop.

use whydrop_capture::{Defect, contain};

use crate::observe::group::Group;

/// The note on a group that has no verdict because of a defect.
pub(crate) fn without_verdict(group: &Group, defect: &Defect) -> String {
    let packets: u64 = (group.flows.iter())
        .map(|flow| flow.flow.counters.packets)
        .sum();
    let first = group.flows.first().map(|flow| flow.flow.name());
    let others = match group.flows.len().saturating_sub(1) {
        0 => String::new(),
        1 => " and 1 more flow".to_owned(),
        others => format!(" and {others} more flows"),
    };
    let named = first.unwrap_or_default();
    note(
        &format!("no verdict on {named}{others} ({packets} packets)"),
        defect,
    )
}

fn note(missing: &str, defect: &Defect) -> String {
    format!("{missing}, because of {defect}. Please report it")
}

/// Parts of the analysis that concern a capture as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Judging {
    Endings,
    Datagrams,
    Capture,
    RoundTrips,
}

impl Judging {
    /// The note on a capture that lacks this part because of a defect.
    pub fn note(self, defect: &Defect) -> String {
        let missing = match self {
            Judging::Endings => "no verdict on how connections ended",
            Judging::Datagrams => "no verdict on UDP and ICMP",
            Judging::Capture => "no verdict on the capture as a whole",
            Judging::RoundTrips => "the verdicts give no longest round trips",
        };
        note(missing, defect)
    }
}

/// The result of `work`; if a defect stops it, the default value and a note on what is missing.
pub(crate) fn or_note<T: Default>(
    notes: &mut Vec<String>,
    judging: Judging,
    work: impl FnOnce() -> T,
) -> T {
    contain(work).unwrap_or_else(|defect| {
        notes.push(judging.note(&defect));
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
                panic!("on purpose")
            }),
            0
        );
        assert!(
            notes[0].starts_with(
                "no verdict on the capture as a whole, because of a defect of whydrop at "
            ),
            "{notes:?}"
        );
    }
}
