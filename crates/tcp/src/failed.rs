//! Connections that failed without carrying data.

use crate::flow::Connection;
use crate::outcome::Outcome;

/// Their number, and the first of them.
#[derive(Debug, Clone, Default)]
pub struct FailedConnections {
    pub no_answer: u64,
    pub refused: u64,
    pub reset: u64,
    /// Accepted late, or never, because the SYN was attributed to an earlier connection.
    pub taken_for_old: u64,
    /// Not all, if they are many: [`FailedConnections::count`] is their number. In the order of their first packet;
    /// their flows have endpoints, times and packet counts.
    pub kept: Vec<Connection>,
    most_kept: usize,
}

impl FailedConnections {
    pub(crate) fn new(most_kept: usize) -> Self {
        Self {
            most_kept,
            ..Self::default()
        }
    }

    pub fn count(&self) -> u64 {
        self.no_answer + self.refused + self.reset + self.taken_for_old
    }

    pub(crate) fn take(&mut self, failed: Option<Connection>) {
        let Some(failed) = failed else { return };
        match failed.outcome {
            Outcome::NoAnswer => self.no_answer += 1,
            Outcome::Refused => self.refused += 1,
            Outcome::Reset => self.reset += 1,
            _ => self.taken_for_old += 1,
        }
        if self.kept.len() < self.most_kept {
            self.kept.push(failed);
        }
    }

    pub(crate) fn finish(mut self) -> Self {
        self.kept.sort_unstable_by_key(|connection| {
            let [one, other] = &connection.flows;
            (one.first_ns, one.source, other.source)
        });
        self
    }
}
