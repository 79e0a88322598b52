//! The kind of an event, and the cause of a reduction of the window.
//!
//! Linux (`net/ipv4/tcp_input.c`, `tcp_output.c`) reduces the window at these places only. Loss recovery: after
//! duplicate or selective acknowledgments (state Recovery), or after a timeout (state Loss; also, without an undo
//! marker, when the path's MTU has fallen). State CWR: an acknowledgment echoes a congestion mark, the own queue
//! refuses a segment, or a tail loss probe has repaired a loss. Outside of these states: the window was not used (RFC
//! 2861 and 7661) or the connection was idle, which keeps the threshold at three quarters of the window at least; or a
//! congestion control such as BBR sets its window by a model of the path.

use crate::report::{Kind, Report, flags};

const REDUCED: u32 = 2;
const RECOVERY: u32 = 3;
const LOSS: u32 = 4;

/// The cause of a reduction of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    FastRetransmit,
    Timeout,
    Ecn,
    LocalQueue,
    TailLossProbe,
    PathMtu,
    ApplicationLimited,
    CongestionControl,
    Unexplained,
}

impl Cause {
    pub fn name(self) -> &'static str {
        match self {
            Cause::FastRetransmit => "fast-retransmit",
            Cause::Timeout => "timeout",
            Cause::Ecn => "ecn",
            Cause::LocalQueue => "local-queue",
            Cause::TailLossProbe => "tail-loss-probe",
            Cause::PathMtu => "path-mtu",
            Cause::ApplicationLimited => "application-limited",
            Cause::CongestionControl => "congestion-control",
            Cause::Unexplained => "unexplained",
        }
    }

    /// True for a sign of congestion (RFC 4898, CongSignals), and not another reduction.
    pub fn is_signal(self) -> bool {
        matches!(
            self,
            Cause::FastRetransmit
                | Cause::Timeout
                | Cause::Ecn
                | Cause::LocalQueue
                | Cause::TailLossProbe
        )
    }
}

/// An event, as a recording has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Reduction(Cause),
    /// A reduction is reverted, because nothing had been lost.
    Undone,
    /// The congestion state changes without a further reduction.
    State,
    /// Slow start ends before a loss (RFC 9406).
    SlowStartEnd,
    Retransmission,
    /// The own queue refuses a segment.
    Stall,
    Counts,
}

impl Event {
    pub fn name(self) -> &'static str {
        match self {
            Event::Reduction(_) => "reduction",
            Event::Undone => "undone",
            Event::State => "state",
            Event::SlowStartEnd => "slow-start-end",
            Event::Retransmission => "retransmission",
            Event::Stall => "local-drop",
            Event::Counts => "counts",
        }
    }

    pub fn cause(self) -> Option<Cause> {
        match self {
            Event::Reduction(cause) => Some(cause),
            _ => None,
        }
    }
}

/// The event of a report; `None` if it is a part of one that was reported before.
pub fn event(report: &Report) -> Option<Event> {
    match report.kind {
        Kind::State | Kind::StateSeen => Some(of_state(report)),
        Kind::Fell => outside_of_recovery(report).map(Event::Reduction),
        Kind::Raised => Some(Event::Undone),
        Kind::Threshold if report.flags & flags::ENDING != 0 => None,
        Kind::Threshold => Some(Event::SlowStartEnd),
        Kind::Closed => Some(of_end(report)),
        Kind::Counts => Some(Event::Counts),
        Kind::Retransmission => Some(Event::Retransmission),
        Kind::Stall => Some(Event::Stall),
    }
}

/// After this end has closed the connection, only its end shows that the last packets found the window unused.
fn of_end(report: &Report) -> Event {
    let fell = report.window < report.window_before && report.from < REDUCED && report.to < REDUCED;
    match outside_of_recovery(report) {
        Some(cause @ Cause::ApplicationLimited) if fell => Event::Reduction(cause),
        _ => Event::Counts,
    }
}

fn of_state(report: &Report) -> Event {
    let reduced_before = matches!(report.from, REDUCED | RECOVERY);
    match report.to {
        // The window is reduced already.
        REDUCED | RECOVERY if reduced_before => Event::State,
        RECOVERY => Event::Reduction(Cause::FastRetransmit),
        REDUCED => Event::Reduction(of_reduced(report)),
        LOSS if report.undo_marker == 0 => Event::Reduction(Cause::PathMtu),
        LOSS => Event::Reduction(Cause::Timeout),
        _ if report.from >= REDUCED && report.threshold > report.threshold_before => Event::Undone,
        _ => Event::State,
    }
}

fn of_reduced(report: &Report) -> Cause {
    if report.flags & flags::STALL != 0 {
        return Cause::LocalQueue;
    }
    if report.flags & flags::ECHO != 0 || report.marked != report.marked_before {
        return Cause::Ecn;
    }
    if report.flags & flags::PROBE != 0 {
        return Cause::TailLossProbe;
    }
    // The kernel has no other reason than its own queue. (A queue that drops another packet in place of this one says
    // so too.) After this end has closed the connection, acknowledgments are not seen.
    if report.established && report.flags & flags::SEEN != 0 {
        Cause::LocalQueue
    } else {
        Cause::Unexplained
    }
}

fn outside_of_recovery(report: &Report) -> Option<Cause> {
    if report.own_window {
        return Some(Cause::CongestionControl);
    }
    if report.flags & flags::ENDING != 0 && report.window >= report.threshold {
        // The last step of a recovery, to the threshold.
        return None;
    }
    let before = report.window_before;
    let kept = report.threshold >= (before >> 1) + (before >> 2);
    if kept && report.threshold >= report.threshold_before {
        return Some(Cause::ApplicationLimited);
    }
    Some(Cause::Unexplained)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::plain;

    fn state(from: u32, to: u32) -> Report {
        Report {
            from,
            to,
            undo_marker: 1,
            flags: flags::SEEN,
            ..plain(Kind::State)
        }
    }

    #[test]
    fn recovery_is_a_fast_retransmit_and_loss_a_timeout() {
        let recovery = event(&state(1, RECOVERY));
        assert_eq!(recovery, Some(Event::Reduction(Cause::FastRetransmit)));
        let loss = event(&state(RECOVERY, LOSS));
        assert_eq!(loss, Some(Event::Reduction(Cause::Timeout)));
        let again = event(&state(LOSS, LOSS));
        assert_eq!(again, Some(Event::Reduction(Cause::Timeout)));
    }

    #[test]
    fn a_smaller_path_mtu_is_no_timeout() {
        let report = Report {
            undo_marker: 0,
            ..state(0, LOSS)
        };
        assert_eq!(event(&report), Some(Event::Reduction(Cause::PathMtu)));
    }

    #[test]
    fn recovery_in_a_reduced_window_is_no_further_reduction() {
        assert_eq!(event(&state(REDUCED, RECOVERY)), Some(Event::State));
        assert_eq!(event(&state(RECOVERY, 0)), Some(Event::State));
    }

    #[test]
    fn a_reduced_window_has_its_cause_from_the_last_acknowledgment() {
        for (flag, cause) in [
            (flags::ECHO, Cause::Ecn),
            (flags::STALL, Cause::LocalQueue),
            (flags::STALL | flags::ECHO, Cause::LocalQueue),
            (flags::PROBE, Cause::TailLossProbe),
            (0, Cause::LocalQueue),
        ] {
            let report = Report {
                flags: flag | flags::SEEN,
                ..state(0, REDUCED)
            };
            assert_eq!(event(&report), Some(Event::Reduction(cause)));
        }
    }

    #[test]
    fn without_acknowledgments_a_reduced_window_is_unexplained_unless_a_mark_was_counted() {
        let blind = Report {
            established: false,
            ..state(0, REDUCED)
        };
        assert_eq!(event(&blind), Some(Event::Reduction(Cause::Unexplained)));
        let marked = Report { marked: 1, ..blind };
        assert_eq!(event(&marked), Some(Event::Reduction(Cause::Ecn)));
    }

    #[test]
    fn a_threshold_that_rises_as_recovery_ends_undoes_the_reduction() {
        let report = Report {
            threshold: 20,
            threshold_before: 10,
            ..state(RECOVERY, 0)
        };
        assert_eq!(event(&report), Some(Event::Undone));
    }

    #[test]
    fn a_window_that_was_not_used_keeps_three_quarters_as_threshold() {
        let unused = Report {
            window: 25,
            window_before: 40,
            threshold: 30,
            threshold_before: 20,
            ..plain(Kind::Fell)
        };
        let cause = Cause::ApplicationLimited;
        assert_eq!(event(&unused), Some(Event::Reduction(cause)));
        let lower = Report {
            threshold: 28,
            ..unused
        };
        let cause = Cause::Unexplained;
        assert_eq!(event(&lower), Some(Event::Reduction(cause)));
        let own = Report {
            own_window: true,
            ..lower
        };
        let cause = Cause::CongestionControl;
        assert_eq!(event(&own), Some(Event::Reduction(cause)));
    }

    #[test]
    fn a_connection_that_ends_shows_that_its_last_packets_found_the_window_unused() {
        let ends = Report {
            window: 10,
            window_before: 40,
            threshold: 30,
            threshold_before: 30,
            ..plain(Kind::Closed)
        };
        let cause = Cause::ApplicationLimited;
        assert_eq!(event(&ends), Some(Event::Reduction(cause)));
        let grown = Report { window: 41, ..ends };
        assert_eq!(event(&grown), Some(Event::Counts));
        let recovering = Report { to: LOSS, ..ends };
        assert_eq!(event(&recovering), Some(Event::Counts));
    }

    #[test]
    fn the_last_step_of_a_recovery_is_no_reduction_of_its_own() {
        let last = Report {
            window: 10,
            window_before: 12,
            threshold: 10,
            threshold_before: 10,
            flags: flags::ENDING,
            ..plain(Kind::Fell)
        };
        assert_eq!(event(&last), None);
    }
}
