//! Recovery from losses: when it begins and ends, how much may be sent meanwhile, and how it is taken back.

use super::Sender;

/// Where a sender stands with its losses.
#[derive(Debug, Clone, Copy)]
pub(super) enum Recovery {
    /// Nothing is thought lost.
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
    pub fn on_sent(&mut self) {
        if let Recovery::Fast { prr_out, .. } = self {
            *prr_out += 1;
        }
    }
}

/// The progress by an acknowledgment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// Segments acknowledged by number.
    pub acked: u32,
    /// Segments known to have arrived that were not before.
    pub delivered: u32,
    /// The cumulative acknowledgment moved.
    pub advanced: bool,
    /// More segments are thought lost than before it.
    pub more_lost: bool,
}

/// State to take a reduction back when all its retransmissions prove to have been unnecessary.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Undo {
    active: bool,
    cwnd: f64,
    ssthresh: f64,
    /// Retransmissions that no duplicate report has been seen for.
    outstanding: i64,
    first_retransmission_ns: Option<i64>,
}

impl Undo {
    /// `out`: retransmissions that are still out from before. An acknowledgment of these proves nothing that came later, so
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

    /// Every retransmission arrived twice, or (RFC 3522) the acknowledgment that ends the hole echoes a timestamp from
    /// before the first retransmission.
    fn proven(&self, echo_ns: Option<i64>, advanced: bool) -> bool {
        let Some(first_ns) = self.first_retransmission_ns.filter(|_| self.active) else {
            return false;
        };
        self.outstanding <= 0 || (advanced && echo_ns.is_some_and(|echo_ns| echo_ns < first_ns))
    }
}

impl Sender {
    /// Enter, leave or take back recovery. `again`: retransmissions were lost, which after a timeout means, as in
    /// Linux, a fast recovery with a reduction of its own.
    pub(super) fn move_recovery(&mut self, echo_ns: Option<i64>, advanced: bool, again: bool) {
        if self.undo.proven(echo_ns, advanced) {
            self.undo.active = false;
            self.congestion.undo(self.undo.cwnd, self.undo.ssthresh);
            self.board.forgive();
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

    /// The window after an acknowledgment.
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
                    // Packet conservation while losses go on: no more out than in. Linux does so since policers were
                    // seen to drop whole recoveries (Flach et al., SIGCOMM 2016).
                    behind.min(ssthresh - pipe)
                };
                // The first loss is repaired at once, whatever the window.
                let first = if *prr_out == 0 { 1.0 } else { 0.0 };
                self.congestion.cwnd = pipe + room.max(first);
            }
            Recovery::Open | Recovery::Timeout { .. } if progress.advanced && grows => {
                self.congestion
                    .on_acked(now_ns, f64::from(progress.acked), self.rtt.smoothed_ns());
            }
            _ => {}
        }
    }

    /// The window grows only if it was what held the sender back; in slow start half of it in use is enough (Linux's
    /// reading of RFC 7661).
    fn grows(&self) -> bool {
        let half_used = self.congestion.in_slow_start()
            && self.congestion.cwnd < 2.0 * (self.board.len() as f64 + 1.0);
        self.cwnd_limited || half_used
    }

    /// The retransmission timer ran out: all is lost, begin again with one segment (RFC 6298, section 5.4 to 5.7).
    pub(super) fn on_timeout(&mut self, now_ns: i64) {
        let first = !matches!(self.recovery, Recovery::Timeout { .. });
        if first {
            self.begin_undo();
        }
        // Once for each window of data; anew where something was acknowledged since the last timeout (as Linux).
        let reduce = match self.recovery {
            Recovery::Open => true,
            Recovery::Fast { .. } => false,
            Recovery::Timeout { .. } => self.timer.backoff == 0,
        };
        self.congestion.on_timeout(self.board.len() as f64, reduce);
        self.board.forget_unnamed();
        self.board.mark_all_lost(now_ns, self.config.rack);
        self.recover = self.next;
        self.recovery = Recovery::Timeout { high: self.next };
        self.timer.backoff += 1;
        self.probe_due = false;
        self.probe_out = false;
        self.arm_retransmission(now_ns);
    }
}
