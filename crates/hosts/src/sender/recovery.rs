//! Recovery from losses: its beginning and end, how much may be sent meanwhile, and how it is undone.

use super::Sender;
use crate::control::Repair;

/// A sender's state of recovery.
#[derive(Debug, Clone, Copy)]
pub(super) enum Recovery {
    /// No segment is presumed lost.
    Open,
    /// Fast recovery until `high` is acknowledged, with proportional rate reduction (RFC 6937).
    Fast {
        high: u64,
        prr_delivered: u64,
        prr_out: u64,
        flight_at_start: u64,
    },
    /// After a timeout, until `high` is acknowledged.
    Timeout { high: u64 },
}

impl Recovery {
    pub fn repair(&self) -> Repair {
        match self {
            Recovery::Open => Repair::None,
            Recovery::Fast { .. } => Repair::Losses,
            Recovery::Timeout { .. } => Repair::Timeout,
        }
    }

    pub fn on_sent(&mut self) {
        if let Recovery::Fast { prr_out, .. } = self {
            *prr_out += 1;
        }
    }
}

/// The effect of an acknowledgment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// Segments acknowledged cumulatively.
    pub acked: u32,
    /// Segments newly known to have arrived.
    pub delivered: u32,
    /// The cumulative acknowledgment moved.
    pub advanced: bool,
    /// More segments are presumed lost than before it.
    pub more_lost: bool,
}

/// State for undoing a reduction if all its retransmissions prove unnecessary.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Undo {
    active: bool,
    cwnd: f64,
    ssthresh: f64,
    /// Retransmissions that no duplicate report covers yet.
    outstanding: i64,
    first_retransmission_ns: Option<i64>,
}

impl Undo {
    /// `out`: retransmissions still outstanding from before. Their acknowledgment proves nothing about later ones, so
    /// the first of them still counts (as in Linux's `tcp_init_undo`).
    fn begin(self, cwnd: f64, ssthresh: f64, out: usize) -> Self {
        Self {
            active: true,
            cwnd,
            ssthresh,
            outstanding: out as i64,
            first_retransmission_ns: self.first_retransmission_ns.filter(|_| out > 0),
        }
    }

    pub fn on_retransmitted(&mut self, now_ns: i64) {
        self.outstanding += 1;
        self.first_retransmission_ns.get_or_insert(now_ns);
    }

    pub fn on_duplicate(&mut self) {
        self.outstanding -= 1;
    }

    /// True if every retransmission arrived twice, or (RFC 3522) if the acknowledgment that ends the hole echoes a
    /// timestamp from before the first retransmission.
    fn proven(&self, echo_ns: Option<i64>, advanced: bool) -> bool {
        let Some(first_ns) = self.first_retransmission_ns.filter(|_| self.active) else {
            return false;
        };
        self.outstanding <= 0 || (advanced && echo_ns.is_some_and(|echo_ns| echo_ns < first_ns))
    }
}

impl Sender {
    /// Enters, leaves or undoes recovery. `again`: retransmissions were lost, which after a timeout means, as in Linux,
    /// a fast recovery with its own reduction.
    pub(super) fn move_recovery(&mut self, echo_ns: Option<i64>, advanced: bool, again: bool) {
        if self.undo.proven(echo_ns, advanced) {
            self.undo.active = false;
            self.congestion.undo(self.undo.cwnd, self.undo.ssthresh);
            self.board.clear_lost();
            self.recovery = Recovery::Open;
            self.recover = 0;
            return;
        }
        match self.recovery {
            Recovery::Fast { high, .. } if self.una >= high => {
                if !self.congestion.has_own_window() {
                    self.congestion.cwnd = self.congestion.ssthresh;
                }
                self.end_recovery();
            }
            Recovery::Timeout { high } if self.una >= high => self.end_recovery(),
            _ => {}
        }
        let anew = match self.recovery {
            Recovery::Open => self.board.lost() > 0,
            Recovery::Timeout { .. } => again,
            Recovery::Fast { .. } => false,
        };
        if anew {
            self.enter_fast_recovery();
        }
    }

    fn end_recovery(&mut self) {
        self.recovery = Recovery::Open;
        self.undo.active = false;
        self.board.forget_unnamed();
    }

    fn enter_fast_recovery(&mut self) {
        self.begin_undo();
        self.recover = self.next;
        let in_flight = self.board.len();
        self.congestion.on_loss(in_flight as f64);
        self.recovery = Recovery::Fast {
            high: self.next,
            prr_delivered: 0,
            prr_out: 0,
            flight_at_start: in_flight.max(1) as u64,
        };
        self.timer.probe_ns = None;
    }

    fn begin_undo(&mut self) {
        let (cwnd, ssthresh) = (self.congestion.cwnd, self.congestion.ssthresh);
        self.undo = (self.undo).begin(cwnd, ssthresh, self.board.retransmitted());
    }

    /// Updates the window after an acknowledgment.
    pub(super) fn move_window(&mut self, now_ns: i64, progress: Progress) {
        if self.congestion.has_own_window() {
            return;
        }
        let grows = self.grows();
        match &mut self.recovery {
            Recovery::Fast {
                prr_delivered,
                prr_out,
                flight_at_start,
                ..
            } => {
                *prr_delivered += u64::from(progress.delivered);
                let pipe = self.board.pipe() as f64;
                let ssthresh = self.congestion.ssthresh;
                let behind = *prr_delivered as f64 - *prr_out as f64;
                let room = if pipe > ssthresh {
                    let share = *prr_delivered as f64 * ssthresh / *flight_at_start as f64;
                    share.ceil() - *prr_out as f64
                } else if progress.advanced && !progress.more_lost {
                    (behind.max(f64::from(progress.delivered)) + 1.0).min(ssthresh - pipe)
                } else {
                    // Packet conservation while losses continue: no more packets leave than arrive. Linux does so since
                    // policers were found to drop whole recoveries (Flach et al., SIGCOMM 2016).
                    behind.min(ssthresh - pipe)
                };
                // The first loss is repaired immediately, whatever the window.
                let first = if *prr_out == 0 { 1.0 } else { 0.0 };
                self.congestion.cwnd = pipe + room.max(first);
            }
            Recovery::Open | Recovery::Timeout { .. } if progress.advanced && grows => {
                self.congestion
                    .on_acked(now_ns, f64::from(progress.acked), self.rtt.min_ns());
            }
            _ => {}
        }
    }

    /// True if the window may grow: only if it limited the sender; in slow start half of it in use is enough (Linux's
    /// interpretation of RFC 7661).
    fn grows(&self) -> bool {
        let half_used = self.congestion.in_slow_start()
            && self.congestion.cwnd < 2.0 * (self.board.len() as f64 + 1.0);
        self.cwnd_limited || half_used
    }

    /// Handles an expired retransmission timer: all data counts as lost, restart with one segment (RFC 6298, section
    /// 5.4 to 5.7).
    pub(super) fn on_timeout(&mut self, now_ns: i64) {
        let first = !matches!(self.recovery, Recovery::Timeout { .. });
        if first {
            self.begin_undo();
        }
        // Once for each window of data; again if data was acknowledged since the last timeout (as in Linux).
        let reduce = match self.recovery {
            Recovery::Open => true,
            Recovery::Fast { .. } => false,
            Recovery::Timeout { .. } => self.timer.backoff == 0,
        };
        self.congestion.on_timeout(self.board.len() as f64, reduce);
        self.board.forget_unnamed();
        self.board.mark_all_lost(now_ns, self.config.rack);
        self.congestion.after_timeout(self.board.pipe() as f64);
        self.recover = self.next;
        self.recovery = Recovery::Timeout { high: self.next };
        self.timer.backoff += 1;
        self.probe_due = false;
        self.probe_out = false;
        self.arm_retransmission(now_ns);
    }
}
