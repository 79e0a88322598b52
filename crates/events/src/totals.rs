//! Counts of each connection since the programs know it, as web100 kept them (RFC 4898).

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::attribution::{Cause, Event};
use crate::report::{Counts, Kind, Report};

const LOSS: u32 = 4;
/// Connections beyond this begin again with zero.
const MOST: usize = 1 << 18;

/// Counts that grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub congestion_signals: u64,
    pub undone: u64,
    pub fast_retransmits: u64,
    pub timeouts: u64,
    /// Timeouts that followed another without progress.
    pub subsequent_timeouts: u64,
    /// Timeouts without duplicate acknowledgments before them.
    pub abrupt_timeouts: u64,
    /// Reductions of the window that are no congestion signals.
    pub other_reductions: u64,
    pub counts: Counts,
    /// TCP's own count of retransmitted segments, as of the last report.
    retransmitted: u32,
}

/// The totals of all connections.
#[derive(Debug, Default)]
pub struct Book {
    totals: HashMap<(SocketAddr, SocketAddr), Totals>,
}

impl Book {
    /// Reports of a connection that have not arrived since the last one that did; call it before [`Book::count`].
    pub fn newly_failed(&self, report: &Report) -> u64 {
        let known = self.totals.get(&report.ends);
        let before = known.map_or(0, |totals| totals.counts.failed);
        u64::from(report.counts.failed.saturating_sub(before))
    }

    /// Retransmitted segments that TCP has counted since the last report and no report names; call it before
    /// [`Book::count`]. The kernel ran no program for them; or it could not send them, and its tracepoint reports only
    /// what was sent.
    pub fn newly_unreported(&self, report: &Report) -> u64 {
        let known = self.totals.get(&report.ends);
        let before = known.map_or(report.retransmitted_first, |totals| totals.retransmitted);
        let named = match report.kind {
            Kind::Retransmission => report.segments(),
            _ => 0,
        };
        // A smaller count is that of another connection with the same ends.
        let counted = report.retransmitted.saturating_sub(before);
        u64::from(counted.saturating_sub(named))
    }

    /// Counts an event, and returns the connection's totals.
    pub fn count(&mut self, report: &Report, event: Option<Event>) -> Totals {
        if self.totals.len() >= MOST {
            self.totals.clear();
        }
        let totals = self.totals.entry(report.ends).or_default();
        totals.counts = report.counts;
        totals.retransmitted = report.retransmitted;
        match event {
            Some(Event::Reduction(cause)) => totals.reduced(report, cause),
            Some(Event::Undone) => totals.undone += 1,
            _ => {}
        }
        let result = *totals;
        if report.kind == Kind::Closed {
            self.totals.remove(&report.ends);
        }
        result
    }
}

impl Totals {
    fn reduced(&mut self, report: &Report, cause: Cause) {
        if cause.is_signal() {
            self.congestion_signals += 1;
        } else {
            self.other_reductions += 1;
        }
        match cause {
            Cause::FastRetransmit => self.fast_retransmits += 1,
            Cause::Timeout => {
                self.timeouts += 1;
                self.subsequent_timeouts += u64::from(report.from == LOSS);
                self.abrupt_timeouts += u64::from(report.from == 0);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::plain;

    #[test]
    fn a_retransmission_that_only_the_kernel_counts_is_unreported() {
        let mut book = Book::default();
        let mut unreported = |kind, retransmitted, payload_bytes| {
            let report = Report {
                retransmitted,
                retransmitted_first: 4,
                mss: 1448,
                end: payload_bytes,
                ..plain(kind)
            };
            let found = book.newly_unreported(&report);
            book.count(&report, None);
            found
        };
        assert_eq!(
            unreported(Kind::Counts, 5, 0),
            1,
            "four were before the watch"
        );
        assert_eq!(unreported(Kind::Retransmission, 6, 1448), 0);
        assert_eq!(
            unreported(Kind::Retransmission, 9, 2000),
            1,
            "two segments at once"
        );
        assert_eq!(unreported(Kind::State, 10, 0), 1);
        assert_eq!(unreported(Kind::Counts, 0, 0), 0, "another connection");
    }

    #[test]
    fn a_timeout_is_subsequent_or_abrupt_by_the_state_before() {
        let mut book = Book::default();
        let timeout = Some(Event::Reduction(Cause::Timeout));
        let first = plain(Kind::State);
        let second = Report {
            from: LOSS,
            ..first
        };
        book.count(&first, timeout);
        let totals = book.count(&second, timeout);
        let counted = (
            totals.timeouts,
            totals.abrupt_timeouts,
            totals.subsequent_timeouts,
        );
        assert_eq!(counted, (2, 1, 1));
        assert_eq!((totals.congestion_signals, totals.other_reductions), (2, 0));
    }

    #[test]
    fn reports_that_did_not_arrive_are_counted_once() {
        let mut book = Book::default();
        let mut report = plain(Kind::Counts);
        report.counts.failed = 2;
        assert_eq!(book.newly_failed(&report), 2);
        book.count(&report, None);
        assert_eq!(book.newly_failed(&report), 0);
    }

    #[test]
    fn a_connection_that_has_closed_begins_again_with_zero() {
        let mut book = Book::default();
        let undone = Some(Event::Undone);
        assert_eq!(book.count(&plain(Kind::Closed), undone).undone, 1);
        assert_eq!(book.count(&plain(Kind::Raised), undone).undone, 1);
    }
}
