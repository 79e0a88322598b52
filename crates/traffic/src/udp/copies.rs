//! Copies of authentic packets that had arrived before: made by a path that duplicates, or replayed by an attacker.

use crate::flow::Direction;

/// How an authentic packet relates to those of its flow that arrived before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    New,
    Duplicate,
    /// Older than the window of sequences, or after the end of its flow: no longer distinguishable from a duplicate.
    Stale,
    /// It cannot belong to this flow.
    Misplaced,
}

/// Copies of the packets of one flow in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copies {
    duplicates: u64,
    stale: u64,
}

impl Copies {
    /// Counts a packet if it is a copy; returns its admission.
    pub(crate) fn count(&mut self, admission: Admission) -> Admission {
        self.duplicates += u64::from(admission == Admission::Duplicate);
        self.stale += u64::from(admission == Admission::Stale);
        admission
    }

    /// The counts as facts of the flow; none without copies.
    pub(crate) fn to_facts(
        self,
        direction: Direction,
    ) -> impl Iterator<Item = (&'static str, String)> {
        let keys = match direction {
            Direction::Up => ["duplicates_up", "stale_packets_up"],
            _ => ["duplicates_down", "stale_packets_down"],
        };
        let counts = keys.into_iter().zip([self.duplicates, self.stale]);
        counts
            .filter(|(_, count)| *count > 0)
            .map(|(key, count)| (key, count.to_string()))
    }
}

/// The numbers of one flow's requests. Each attempt has a higher number than those before it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Requests {
    latest: Option<u64>,
}

impl Requests {
    /// Registers a request. A copy, and a request that a later one overtook, are duplicates.
    pub(crate) fn admit(&mut self, number: u64) -> Admission {
        if self.latest.is_some_and(|latest| number <= latest) {
            return Admission::Duplicate;
        }
        self.latest = Some(number);
        Admission::New
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_accepted_once_and_not_after_a_later_one() {
        let mut requests = Requests::default();
        let admitted = [0, 0, 1, 3, 2, 3, u64::MAX, u64::MAX]
            .map(|number| requests.admit(number) == Admission::New);
        assert_eq!(
            admitted,
            [true, false, true, true, false, false, true, false]
        );
    }

    #[test]
    fn copies_are_facts_of_their_direction() {
        let mut copies = Copies::default();
        assert_eq!(copies.to_facts(Direction::Up).count(), 0);
        for admission in [
            Admission::New,
            Admission::Duplicate,
            Admission::Duplicate,
            Admission::Stale,
            Admission::Misplaced,
        ] {
            copies.count(admission);
        }
        let facts: Vec<_> = copies.to_facts(Direction::Down).collect();
        let expected = [("duplicates_down", "2"), ("stale_packets_down", "1")];
        assert_eq!(facts, expected.map(|(key, value)| (key, value.to_owned())));
    }
}
