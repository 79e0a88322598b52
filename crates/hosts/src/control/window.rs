//! The congestion window: slow start, and what happens to every window after silence.

use super::hystart::{HyStart, Sampled};
use super::{Acked, Algorithm, Answer, Controller, PathSample};

#[derive(Debug)]
pub struct Congestion {
    controller: Box<dyn Controller>,
    hystart: Option<HyStart>,
    /// Packets.
    pub cwnd: f64,
    pub ssthresh: f64,
}

impl Congestion {
    pub fn new(algorithm: Algorithm, initial_window: f64, hystart: bool) -> Self {
        Self {
            controller: algorithm.controller(initial_window),
            hystart: (hystart && algorithm == Algorithm::Cubic).then(HyStart::default),
            cwnd: initial_window,
            ssthresh: f64::INFINITY,
        }
    }

    /// The algorithm, to ask what it alone knows.
    pub fn controller(&self) -> &dyn Controller {
        &*self.controller
    }

    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    pub fn has_own_window(&self) -> bool {
        self.controller.has_own_window()
    }

    /// Grows the window after `acked` packets were acknowledged while it was the limit.
    pub fn on_acked(&mut self, now_ns: i64, acked: f64, least_rtt_ns: i64) {
        let mut left = acked;
        if self.in_slow_start() {
            let growth = left.min(self.ssthresh - self.cwnd);
            self.cwnd += growth;
            left -= growth;
        }
        if left > 0.0 {
            let acked = Acked {
                now_ns,
                packets: left,
                least_rtt_ns,
            };
            self.cwnd = self.controller.grow(self.cwnd, acked);
        }
    }

    /// Sets the window that a model of the path wants.
    pub fn on_path(&mut self, sample: PathSample) {
        if let Some(cwnd) = self.controller.on_ack(sample) {
            self.cwnd = cwnd;
        }
    }

    /// Sets the window that a model of the path wants after losses were detected.
    pub fn on_answer(&mut self, answer: Answer) {
        if let Some(cwnd) = self.controller.on_answer(answer) {
            self.cwnd = cwnd;
        }
    }

    /// Sets the window of a model of the path after a timeout, with this many segments still in flight.
    pub fn after_timeout(&mut self, in_flight: f64) {
        if let Some(cwnd) = self.controller.on_timeout(in_flight) {
            self.cwnd = cwnd;
        }
    }

    /// Reduces the threshold after losses and returns it: recovery ends there. `in_flight` is the number of packets in
    /// flight.
    pub fn on_loss(&mut self, in_flight: f64) -> f64 {
        self.ssthresh = self.controller.on_loss(self.cwnd, in_flight);
        self.ssthresh
    }

    /// Reacts to an expired retransmission timer.
    pub fn on_timeout(&mut self, in_flight: f64, first: bool) {
        if first {
            self.on_loss(in_flight);
        }
        if !self.has_own_window() {
            self.cwnd = 1.0;
        }
    }

    /// Reduces the window after a pause with no data in flight (RFC 2861, as in Linux: halved for each RTO, not below
    /// the initial window).
    pub fn on_idle(&mut self, idle_ns: i64, rto_ns: i64, initial_window: f64) {
        if self.has_own_window() || idle_ns <= rto_ns {
            return;
        }
        self.controller.restart();
        self.ssthresh = self.ssthresh.max(0.75 * self.cwnd);
        let mut left_ns = idle_ns;
        while left_ns > rto_ns && self.cwnd > initial_window {
            left_ns -= rto_ns;
            self.cwnd /= 2.0;
        }
        self.cwnd = self.cwnd.max(initial_window.min(self.ssthresh));
    }

    /// Reverts a reduction that turned out to be spurious.
    pub fn undo(&mut self, cwnd: f64, ssthresh: f64) {
        self.cwnd = self.cwnd.max(cwnd);
        self.ssthresh = ssthresh;
        self.controller.restart();
    }

    /// Leaves slow start when a round of acknowledgments shows that the path is full.
    pub fn on_rtt(&mut self, sample: Sampled) {
        if self.in_slow_start()
            && let Some(hystart) = &mut self.hystart
            && hystart.on_rtt(self.cwnd, sample)
        {
            self.ssthresh = self.cwnd;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT_NS: i64 = 100_000_000;

    #[test]
    fn slow_start_doubles_in_a_round_trip() {
        let mut cubic = Congestion::new(Algorithm::Cubic, 10.0, false);
        cubic.on_acked(0, 10.0, RTT_NS);
        assert_eq!(cubic.cwnd, 20.0);
    }

    #[test]
    fn a_long_pause_brings_the_window_back_to_the_initial_one() {
        let mut cubic = Congestion::new(Algorithm::Cubic, 10.0, false);
        cubic.cwnd = 100.0;
        cubic.ssthresh = 50.0;
        cubic.on_idle(2 * RTT_NS, RTT_NS, 10.0);
        assert_eq!((cubic.cwnd, cubic.ssthresh), (50.0, 75.0));
        cubic.on_idle(100 * RTT_NS, RTT_NS, 10.0);
        assert_eq!(cubic.cwnd, 10.0);
    }
}
