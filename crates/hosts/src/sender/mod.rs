//! The sending half of a TCP connection, close to Linux: recovery with SACK or as NewReno, proportional rate reduction,
//! RACK, tail-loss probes, and a retransmission timer of at least 200 ms.

mod duplicates;
mod pacing;
mod recovery;
mod rtt;
mod scoreboard;

use crate::control::{Algorithm, Answer, Congestion, PathSample, Sampled};
use crate::segment::{Range, Reason};
use pacing::Pacer;
pub use pacing::{Pace, Pacing};
use recovery::{Progress, Recovery, Undo};
use rtt::RttEstimator;
pub use scoreboard::RateSample;
use scoreboard::Scoreboard;

/// The behaviour of a sender. Defaults are those of a current Linux.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SenderConfig {
    pub algorithm: Algorithm,
    /// Payload of a full segment.
    pub mss: u64,
    /// Use selective acknowledgments (RFC 2018). Without them NewReno repairs one hole per round trip (RFC 6582), there
    /// are no tail-loss probes, and a timeout retransmits everything from the first hole on.
    pub sack: bool,
    /// Packets (RFC 6928).
    pub initial_window: f64,
    /// Detect losses by time, including lost retransmissions (RFC 8985); otherwise by three SACKed segments (RFC 6675),
    /// where a lost retransmission waits for the timer.
    pub rack: bool,
    /// With RACK: a fixed reordering window and no threshold of SACKed segments, as with Linux's `tcp_recovery` = 7.
    pub fixed_reordering_ns: Option<i64>,
    /// Probe the tail after two round trips of silence (RFC 8985, section 7).
    pub tail_loss_probe: bool,
    pub hystart: bool,
    pub pacing: Pacing,
    /// Restart from the initial window after a pause longer than the timer.
    pub slow_start_after_idle: bool,
    /// Send buffer: the most data outstanding, however large the windows.
    pub buffer_bytes: u64,
    /// Less than a full segment waits until all outstanding data is acknowledged (RFC 896; RFC 9293, section 3.7.4).
    pub nagle: bool,
    /// Only few packets wait in the host's own queue (Linux's TCP small queues): the caller reports with
    /// [`Sender::on_left_host`] when one has left it.
    pub small_queues: bool,
}

/// The most that Linux hands to a queue at once, and the most in it (`tcp_limit_output_bytes`).
const LARGEST_HANDOVER_BYTES: f64 = 65_536.0;
const MOST_IN_HOST_BYTES: f64 = 1_048_576.0;
/// So many of what it hands over at once may wait there, of which each is at least two segments.
const HANDOVERS_IN_HOST: f64 = 2.5;
const LEAST_IN_HOST: f64 = 2.0 * HANDOVERS_IN_HOST;

impl Default for SenderConfig {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Cubic,
            mss: 1_448,
            sack: true,
            initial_window: 10.0,
            rack: true,
            fixed_reordering_ns: None,
            tail_loss_probe: true,
            hystart: true,
            pacing: Pacing::None,
            slow_start_after_idle: true,
            buffer_bytes: 16_000_000,
            nagle: false,
            small_queues: false,
        }
    }
}

/// The event that a sender waits for before it sends more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The end of a loss recovery.
    Recovery,
    /// Writes: all written data has been sent.
    Writes,
    /// Acknowledgments: the congestion window is full and still grows by the acknowledged data (or by BBR's start-up).
    SlowStart,
    CongestionWindow,
    ReceiveWindow,
    SendBuffer,
    /// Acknowledgments: less than a segment is to be sent, and data is outstanding.
    Nagle,
    /// Its turn, at a rate set by the application or the administrator.
    Pacing,
}

/// A segment to send now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmission {
    pub range: Range,
    pub reason: Reason,
    /// Probes the receiver's window and carries no data.
    pub window_probe: bool,
    /// The last of the data written so far.
    pub push: bool,
}

/// An acknowledgment as the sender sees it.
#[derive(Debug, Clone, Copy)]
pub struct AckIn<'a> {
    pub acknowledgment: u64,
    pub window_bytes: u64,
    pub sack: &'a [Range],
    /// It carries no data.
    pub pure: bool,
    /// The receiver's echo of the sender's timestamp, in nanoseconds, if the connection uses timestamps.
    pub echo_ns: Option<i64>,
}

/// Call [`on_ack`](Self::on_ack) and [`on_timer`](Self::on_timer), then [`transmit`](Self::transmit) until it returns
/// `None`, then read [`deadline_ns`](Self::deadline_ns).
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    congestion: Congestion,
    board: Scoreboard,
    rtt: RttEstimator,
    pacer: Pacer,
    recovery: Recovery,
    undo: Undo,
    una: u64,
    next: u64,
    /// Payload in the host's own queue.
    in_host_bytes: u64,
    /// End of the written data.
    written: u64,
    window_end: u64,
    reordering_seen: bool,
    /// The window limited sending the last time data was sent.
    cwnd_limited: bool,
    /// When the window was last full.
    full_ns: Option<i64>,
    /// When the receive window or the send buffer was last full, and which.
    bounded: Option<(i64, Wait)>,
    last_sent_ns: i64,
    timer: Timer,
    /// A tail-loss probe is due now.
    probe_due: bool,
    /// A tail-loss probe is outstanding: no second one before an acknowledgment.
    probe_out: bool,
    window_probe_due: bool,
    /// The window is not reduced for marks again before this is acknowledged; the receiver must be informed of the
    /// reduction.
    marks_until: u64,
    tell_reduced: bool,
    /// Without SACK: duplicate acknowledgments indicate a new loss only if all data below this is acknowledged (RFC
    /// 6582).
    recover: u64,
}

/// Only one timer for the tail runs at a time.
#[derive(Debug, Clone, Copy, Default)]
struct Timer {
    retransmission_ns: Option<i64>,
    probe_ns: Option<i64>,
    reordering_ns: Option<i64>,
    window_ns: Option<i64>,
    backoff: u32,
}

const DUPLICATE_THRESHOLD: usize = 3;

impl Sender {
    pub fn new(config: SenderConfig) -> Self {
        Self {
            config,
            congestion: Congestion::new(config.algorithm, config.initial_window, config.hystart),
            board: Scoreboard::default(),
            rtt: RttEstimator::default(),
            pacer: Pacer::new(config.pacing),
            recovery: Recovery::Open,
            undo: Undo::default(),
            una: 1,
            next: 1,
            in_host_bytes: 0,
            written: 1,
            window_end: 1,
            reordering_seen: false,
            cwnd_limited: false,
            full_ns: None,
            bounded: None,
            last_sent_ns: 0,
            timer: Timer::default(),
            probe_due: false,
            probe_out: false,
            window_probe_due: false,
            marks_until: 0,
            tell_reduced: false,
            recover: 0,
        }
    }

    /// Completes the handshake: its round trip is the first sample.
    pub fn on_established(&mut self, now_ns: i64, rtt_ns: i64, window_bytes: u64) {
        self.rtt.sample(rtt_ns);
        self.window_end = self.una + window_bytes;
        self.last_sent_ns = now_ns;
    }

    /// Adds data written by the application.
    pub fn write(&mut self, now_ns: i64, bytes: u64) {
        if self.board.is_empty() && self.config.slow_start_after_idle {
            let idle_ns = now_ns - self.last_sent_ns;
            self.congestion
                .on_idle(idle_ns, self.rtt.rto_ns(0), self.config.initial_window);
        }
        self.written += bytes;
    }

    /// The state of its congestion window: [`Wait::SlowStart`] or [`Wait::CongestionWindow`].
    pub fn window(&self) -> Wait {
        let startup = self.congestion.controller().in_startup();
        if startup.unwrap_or_else(|| self.congestion.in_slow_start()) {
            Wait::SlowStart
        } else {
            Wait::CongestionWindow
        }
    }

    /// Since when the window of a start-up has not grown, which becomes known only later.
    pub fn stands_since_ns(&self) -> Option<i64> {
        self.congestion.controller().stands_since_ns()
    }

    /// The limit that keeps it from sending, once [`transmit`](Self::transmit) returns `None`.
    pub fn waits_for(&self) -> Wait {
        let window = self.window();
        if !matches!(self.recovery, Recovery::Open) {
            Wait::Recovery
        } else if self.next == self.written {
            Wait::Writes
        } else if self.board.pipe() as f64 + 1.0 > self.congestion.cwnd.max(1.0) {
            window
        } else if !self.window_takes_next() {
            Wait::ReceiveWindow
        } else if self.buffer_is_full() {
            Wait::SendBuffer
        } else if self.nagle_holds() {
            Wait::Nagle
        } else if self.pacer.is_waiting() && matches!(self.config.pacing, Pacing::Rate(_)) {
            Wait::Pacing
        } else {
            window
        }
    }

    /// True if it only paces written data that does not fill the window over a round trip.
    pub fn spreads_less_than_a_window(&self, now_ns: i64) -> bool {
        let full_ns = self.full_ns.map(|ns| now_ns - ns);
        self.pacer.is_waiting()
            && self.config.pacing == Pacing::Window
            && self.own_pace().is_none()
            && full_ns.is_none_or(|ns| ns > self.rtt.smoothed_ns())
    }

    /// The bound within which it paces, if it waits for its turn and that bound, unlike the window, was full within a
    /// round trip: without pacing it would wait for that bound alone.
    pub fn spreads_a_bound(&self, now_ns: i64) -> Option<Wait> {
        let is_old = |ns: i64| now_ns - ns > self.rtt.smoothed_ns();
        let (bounded_ns, wait) = self.bounded?;
        let is_waiting = self.pacer.is_waiting() && !matches!(self.config.pacing, Pacing::Rate(_));
        let spreads = is_waiting && !is_old(bounded_ns) && self.full_ns.is_none_or(is_old);
        spreads.then_some(wait)
    }

    /// True if all written data is acknowledged.
    pub fn is_idle(&self) -> bool {
        self.una == self.written
    }

    /// Segments presumed lost and not retransmitted since.
    pub fn to_retransmit(&self) -> usize {
        self.board.lost() - self.board.retransmitted()
    }

    /// Bytes acknowledged.
    pub fn acknowledged_bytes(&self) -> u64 {
        self.una - 1
    }

    /// When all outstanding data should have been acknowledged.
    pub fn answers_due_ns(&self) -> Option<i64> {
        let sent_ns = self.board.last_sent_ns()?;
        Some(sent_ns.saturating_add(self.rtt.smoothed_ns()))
    }

    /// Reacts to an echoed mark: once for each window of data, as for a loss (RFC 3168, section 6.1.2).
    pub fn on_echo(&mut self) {
        let again = self.una < self.marks_until || !matches!(self.recovery, Recovery::Open);
        if again || self.congestion.has_own_window() {
            return;
        }
        self.congestion.on_loss(self.board.len() as f64);
        self.congestion.cwnd = self.congestion.ssthresh;
        self.marks_until = self.next;
        self.tell_reduced = true;
    }

    /// True if the new segment sent now must report that the window was reduced.
    pub fn take_reduced(&mut self) -> bool {
        std::mem::take(&mut self.tell_reduced)
    }

    /// Where the next new data begins.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    /// The congestion window, packets.
    #[cfg(test)]
    pub fn cwnd(&self) -> f64 {
        self.congestion.cwnd
    }

    pub fn on_ack(&mut self, now_ns: i64, ack: AckIn<'_>) {
        if ack.acknowledgment < self.una || ack.acknowledgment > self.next {
            return;
        }
        let window_before = self.window_end;
        self.window_end = self.window_end.max(ack.acknowledgment + ack.window_bytes);
        let same_window = self.window_end == window_before;
        let duplicate = is_duplicate_sack(ack.acknowledgment, ack.sack);
        let blocks = if duplicate { &ack.sack[1..] } else { ack.sack };
        let advanced = ack.acknowledgment > self.una;
        let (in_flight_before, delivered_before) = (self.board.pipe(), self.board.delivered());
        let lost_until_now = self.board.losses_found();
        let mut delivered = self.board.on_ack(
            now_ns,
            ack.acknowledgment,
            blocks,
            ack.echo_ns,
            self.rtt.min_ns(),
        );
        self.una = ack.acknowledgment;
        if !self.config.sack && !advanced && ack.pure && same_window {
            delivered.arrived += self.count_duplicate();
        }
        self.reordering_seen |= delivered.reordered;
        self.congestion.on_path(PathSample {
            now_ns,
            rate: delivered.rate,
            rtt_ns: delivered.sent_once_ns.map(|sent_ns| now_ns - sent_ns),
            in_flight: self.board.pipe(),
            delivered: self.board.delivered(),
            lost: self.board.losses_found(),
            starved: self.next == self.written,
        });
        // without SACK, data that waited behind a hole measures the time of the repair
        let in_time = self.config.sack || !delivered.released;
        if let Some(sent_ns) = delivered.sent_once_ns.filter(|_| in_time) {
            let rtt_ns = now_ns - sent_ns;
            self.rtt.sample(rtt_ns);
            self.congestion.on_rtt(Sampled {
                now_ns,
                rtt_ns,
                min_rtt_ns: self.rtt.min_ns(),
                acknowledged: self.una,
                sent: self.next,
                paced: self.config.pacing != Pacing::None,
            });
        }
        if duplicate {
            self.undo.on_duplicate();
        }
        if advanced {
            self.timer.backoff = 0;
            self.probe_out = false;
        }
        let lost_before = self.board.losses_found();
        let again = match self.config.sack {
            true => self.find_losses(now_ns),
            false => self.find_losses_by_duplicates(advanced),
        };
        self.move_recovery(ack.echo_ns, advanced, again);
        let progress = Progress {
            acked: delivered.acked,
            delivered: delivered.arrived,
            advanced,
            more_lost: self.board.losses_found() > lost_before,
        };
        self.move_window(now_ns, progress);
        self.congestion.on_answer(Answer {
            now_ns,
            rate: delivered.rate,
            rtt_ns: delivered.sent_once_ns.map(|sent_ns| now_ns - sent_ns),
            smoothed_rtt_ns: self.rtt.smoothed_ns(),
            in_flight: self.board.pipe(),
            in_flight_before,
            delivered: self.board.delivered(),
            newly_delivered: self.board.delivered() - delivered_before,
            lost: self.board.losses_found(),
            newly_lost: self.board.losses_found() - lost_until_now,
            starved: self.next == self.written,
            cwnd: self.congestion.cwnd,
            repair: self.recovery.repair(),
            next_send_ns: self.pacer.next_ns(),
        });
        self.restart_timers(now_ns, advanced);
    }

    /// Detects losses; returns whether retransmissions are among them.
    fn find_losses(&mut self, now_ns: i64) -> bool {
        let before = self.board.retransmissions_lost();
        self.timer.reordering_ns = None;
        if self.config.rack {
            let window_ns = self.reordering_window_ns();
            self.timer.reordering_ns = self.board.mark_lost_by_time(now_ns, window_ns);
        }
        // Before RACK, Linux raised the threshold after reordering; this model does so too, without RACK's clock.
        let threshold = if self.reordering_seen {
            10 * DUPLICATE_THRESHOLD
        } else {
            DUPLICATE_THRESHOLD
        };
        let by_time_alone = self.reordering_seen || self.config.fixed_reordering_ns.is_some();
        if !self.config.rack || !by_time_alone {
            self.board.mark_lost_by_count(threshold);
        }
        self.board.retransmissions_lost() > before
    }

    /// RFC 8985, section 6.2, step 4.
    fn reordering_window_ns(&self) -> i64 {
        if let Some(fixed_ns) = self.config.fixed_reordering_ns {
            return fixed_ns;
        }
        let many =
            self.board.sacked() >= DUPLICATE_THRESHOLD || !matches!(self.recovery, Recovery::Open);
        if !self.reordering_seen && many {
            0
        } else {
            self.rtt.min_ns() / 4
        }
    }

    fn restart_timers(&mut self, now_ns: i64, advanced: bool) {
        if self.board.is_empty() {
            self.timer.retransmission_ns = None;
            self.timer.probe_ns = None;
        } else if advanced {
            // Not for SACKed data: a lost retransmission would then never time out (RFC 6298, section 5.3).
            self.arm_retransmission(now_ns);
        }
        let blocked =
            self.board.is_empty() && self.next < self.written && !self.window_takes_next();
        if !blocked {
            self.timer.window_ns = None;
        } else if self.timer.window_ns.is_none() {
            self.timer.window_ns = Some(now_ns + self.rtt.rto_ns(self.timer.backoff));
        }
    }

    fn arm_retransmission(&mut self, now_ns: i64) {
        self.timer.retransmission_ns = Some(now_ns + self.rtt.rto_ns(self.timer.backoff));
        let may_probe = self.config.tail_loss_probe
            && self.config.sack
            && matches!(self.recovery, Recovery::Open)
            && self.board.sacked() == 0
            && !self.probe_out;
        self.timer.probe_ns = may_probe.then(|| now_ns + self.rtt.probe_ns(self.board.len()));
    }

    /// When to wake up.
    pub fn deadline_ns(&self) -> Option<i64> {
        const NEVER_NS: i64 = i64::MAX;
        let timer = &self.timer;
        let earliest_ns = [
            timer.retransmission_ns,
            timer.probe_ns,
            timer.reordering_ns,
            timer.window_ns,
            self.pacer.deadline_ns(),
        ]
        .map(|at_ns| at_ns.unwrap_or(NEVER_NS))
        .into_iter()
        .fold(NEVER_NS, i64::min);
        (earliest_ns != NEVER_NS).then_some(earliest_ns)
    }

    pub fn on_timer(&mut self, now_ns: i64) {
        let due = |at_ns: Option<i64>| at_ns.is_some_and(|at_ns| at_ns <= now_ns);
        if due(self.timer.reordering_ns) {
            let again = self.find_losses(now_ns);
            self.move_recovery(None, false, again);
        }
        if due(self.timer.window_ns) {
            self.timer.backoff += 1;
            self.timer.window_ns = Some(now_ns + self.rtt.rto_ns(self.timer.backoff));
            self.window_probe_due = true;
        }
        if due(self.timer.retransmission_ns) {
            self.on_timeout(now_ns);
        } else if due(self.timer.probe_ns) {
            self.timer.probe_ns = None;
            self.probe_due = true;
        }
        self.pacer.on_timer(now_ns);
    }

    /// Returns the next segment to send at this time, if any.
    pub fn transmit(&mut self, now_ns: i64) -> Option<Transmission> {
        if std::mem::take(&mut self.window_probe_due) {
            // As Linux: an old byte's sequence number and no data; the receiver must answer with its window.
            let range = (self.una - 1, self.una - 1);
            return Some(Transmission {
                range,
                reason: Reason::New,
                window_probe: true,
                push: false,
            });
        }
        if std::mem::take(&mut self.probe_due) {
            return self.send_probe(now_ns);
        }
        if self.board.pipe() as f64 + 1.0 > self.congestion.cwnd.max(1.0) {
            self.cwnd_limited = true;
            self.full_ns = Some(now_ns);
            return None;
        }
        if self.board.first_lost().is_none() && !self.may_send_new() {
            // data waiting behind a hole fills either of them only until the hole is repaired
            let repairs = !matches!(self.recovery, Recovery::Open);
            if repairs {
                self.bounded = None;
            } else if matches!(self.waits_for(), Wait::ReceiveWindow | Wait::SendBuffer) {
                self.bounded = Some((now_ns, self.waits_for()));
            }
            return None;
        }
        if !self.pacer.admits(now_ns) || self.own_queue_is_full() {
            return None;
        }
        let sent = match self.board.first_lost() {
            Some(place) => {
                let timeout = matches!(self.recovery, Recovery::Timeout { .. });
                let reason = if timeout {
                    Reason::Timeout
                } else {
                    Reason::FastRetransmission
                };
                self.retransmit(now_ns, place, reason)
            }
            None => self.send_new(now_ns),
        };
        self.paced(now_ns, sent.range);
        Some(sent)
    }

    fn paced(&mut self, now_ns: i64, range: Range) {
        if self.config.small_queues {
            self.in_host_bytes += range.1 - range.0;
        }
        let own_rate = self.own_pace();
        if self.config.pacing == Pacing::None && own_rate.is_none() {
            return;
        }
        let wire_bytes = range.1 - range.0 + 66;
        let slow_start = self.congestion.in_slow_start();
        // As in Linux, which uses the flight if recovery has made the window smaller than it.
        let window = self.congestion.cwnd.max(self.board.len() as f64).max(1.0);
        let rtt_ns = self.rtt.smoothed_ns();
        let wire_mss = (self.config.mss + 66) as f64;
        let pace = Pace {
            window_bytes: window * self.config.mss as f64,
            rtt_ns,
            slow_start,
            own_bytes_per_s: own_rate.map(|rate| rate * wire_mss),
            in_host: self.congestion.controller().paces_in_its_host(),
        };
        self.pacer.on_sent(now_ns, wire_bytes, pace);
    }

    /// Reports that a packet with this much data has left the host's own queue.
    pub fn on_left_host(&mut self, payload_bytes: u64) {
        self.in_host_bytes = self.in_host_bytes.saturating_sub(payload_bytes);
    }

    /// `tcp_small_queue_check`: at most about what leaves in two milliseconds at twice the present rate (1.2 times, after
    /// slow start), in units of what it hands to the queue at once.
    fn own_queue_is_full(&self) -> bool {
        let least = LEAST_IN_HOST * self.config.mss as f64;
        if !self.config.small_queues || self.in_host_bytes as f64 <= least {
            return false;
        }
        let factor = if self.congestion.in_slow_start() {
            2.0
        } else {
            1.2
        };
        let window = self.congestion.cwnd.max(self.board.len() as f64).max(1.0);
        let rtt_s = self.rtt.smoothed_ns().max(1) as f64 / 1e9;
        let per_ms = factor * window * self.config.mss as f64 / rtt_s / 1024.0;
        let most = (HANDOVERS_IN_HOST * per_ms.min(LARGEST_HANDOVER_BYTES)).max(least);
        self.in_host_bytes as f64 > most.min(MOST_IN_HOST_BYTES)
    }

    /// The rate at which its congestion control paces, segments per second.
    fn own_pace(&self) -> Option<f64> {
        let rtt_ns = self.rtt.smoothed_ns();
        self.congestion.controller().pacing_rate(rtt_ns)
    }

    fn may_send_new(&self) -> bool {
        self.next < self.written
            && self.window_takes_next()
            && !self.buffer_is_full()
            && !self.nagle_holds()
    }

    fn buffer_is_full(&self) -> bool {
        self.next - self.una >= self.config.buffer_bytes
    }

    fn nagle_holds(&self) -> bool {
        let small = self.written - self.next < self.config.mss;
        self.config.nagle && small && !self.board.is_empty()
    }

    /// True if the receive window has room for the whole next segment.
    fn window_takes_next(&self) -> bool {
        self.next + self.config.mss.min(self.written - self.next) <= self.window_end
    }

    fn send_new(&mut self, now_ns: i64) -> Transmission {
        let range = (
            self.next,
            self.next + self.config.mss.min(self.written - self.next),
        );
        let was_empty = self.board.is_empty();
        self.board.on_sent(range.0, range.1, now_ns);
        self.next = range.1;
        self.recovery.on_sent();
        self.last_sent_ns = now_ns;
        self.cwnd_limited = self.board.pipe() as f64 + 1.0 > self.congestion.cwnd;
        if was_empty || self.timer.retransmission_ns.is_none() {
            self.arm_retransmission(now_ns);
        } else if self.timer.probe_ns.is_some() {
            self.timer.probe_ns = Some(now_ns + self.rtt.probe_ns(self.board.len()));
        }
        Transmission {
            range,
            reason: Reason::New,
            window_probe: false,
            push: range.1 == self.written,
        }
    }

    fn retransmit(&mut self, now_ns: i64, place: usize, reason: Reason) -> Transmission {
        let range = self.board.on_retransmitted(place, now_ns);
        self.undo.on_retransmitted(now_ns);
        self.recovery.on_sent();
        self.last_sent_ns = now_ns;
        if self.timer.retransmission_ns.is_none() {
            self.arm_retransmission(now_ns);
        }
        Transmission {
            range,
            reason,
            window_probe: false,
            push: range.1 == self.written,
        }
    }

    /// Sends new data if there is any, otherwise the last segment again (RFC 8985, section 7.3), and restarts the
    /// timer.
    fn send_probe(&mut self, now_ns: i64) -> Option<Transmission> {
        let sent = if self.may_send_new() {
            Some(self.send_new(now_ns))
        } else {
            let place = self.board.last()?;
            Some(self.retransmit(now_ns, place, Reason::TailLossProbe))
        };
        self.probe_out = true;
        self.arm_retransmission(now_ns);
        sent
    }
}

/// RFC 2883, section 4: a first block at or below the acknowledgment, or inside the second, reports a duplicate.
fn is_duplicate_sack(acknowledgment: u64, sack: &[Range]) -> bool {
    match sack {
        [first, ..] if first.1 <= acknowledgment => true,
        [first, second, ..] => second.0 <= first.0 && first.1 <= second.1,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
