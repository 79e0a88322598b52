//! Congestion control: how many packets may be in flight.

/// The algorithm of a sender.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Algorithm {
    /// RFC 9438.
    Cubic,
    /// RFC 5681 with the recovery of RFC 6675.
    NewReno,
    /// Paced at a fixed rate and not reacting to loss, as BBR between its probes.
    FixedRate { rate_bps: u64 },
    /// A model of the steady state of draft-ietf-ccwg-bbr: see [`Bbr`](crate::sender::Bbr).
    Bbr,
}

/// RFC 9438, section 4.6 and 5.1: multiplicative decrease and aggressiveness.
const CUBIC_BETA: f64 = 0.7;
const CUBIC_C: f64 = 0.4;
/// Linux's HyStart: a round with a least RTT, over this many samples, that exceeds the least of all by this much ends
/// slow start (Ha and Rhee, Taming the elephants: new TCP slow start, Computer Networks 55, 2011).
const HYSTART_SAMPLES: u32 = 8;
const HYSTART_MIN_CWND: f64 = 16.0;

#[derive(Debug, Clone)]
pub struct Congestion {
    algorithm: Algorithm,
    hystart: Option<HyStart>,
    /// Packets.
    pub cwnd: f64,
    pub ssthresh: f64,
    /// CUBIC: the window before the last reduction, and when the present epoch began.
    w_max: f64,
    epoch: Option<Epoch>,
}

#[derive(Debug, Clone, Copy)]
struct Epoch {
    start_ns: i64,
    /// Seconds to reach `origin`.
    k_s: f64,
    origin: f64,
    /// The window NewReno would have.
    reno: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct HyStart {
    round_end: u64,
    samples: u32,
    round_min_ns: i64,
}

impl Congestion {
    pub fn new(algorithm: Algorithm, initial_window: f64, hystart: bool) -> Self {
        Self {
            algorithm,
            hystart: hystart.then(HyStart::default),
            cwnd: initial_window,
            ssthresh: f64::INFINITY,
            w_max: 0.0,
            epoch: None,
        }
    }

    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// True if losses and pauses do not change the window, because a rate or a model of the path sets it.
    pub fn has_own_window(&self) -> bool {
        matches!(self.algorithm, Algorithm::FixedRate { .. } | Algorithm::Bbr)
    }

    /// Grows the window after `acked` packets were acknowledged while it was the limit.
    pub fn on_acked(&mut self, now_ns: i64, acked: f64, srtt_ns: i64) {
        let mut left = acked;
        if self.in_slow_start() {
            let growth = left.min(self.ssthresh - self.cwnd);
            self.cwnd += growth;
            left -= growth;
        }
        if left <= 0.0 {
            return;
        }
        match self.algorithm {
            Algorithm::Cubic => self.grow_cubic(now_ns, left, srtt_ns),
            Algorithm::NewReno => self.cwnd += left / self.cwnd,
            Algorithm::FixedRate { .. } | Algorithm::Bbr => {}
        }
    }

    /// RFC 9438, sections 4.2 to 4.5.
    fn grow_cubic(&mut self, now_ns: i64, acked: f64, srtt_ns: i64) {
        let (cwnd, w_max) = (self.cwnd, self.w_max);
        let epoch = self.epoch.get_or_insert_with(|| {
            let distance = (w_max - cwnd).max(0.0);
            Epoch {
                start_ns: now_ns,
                k_s: (distance / CUBIC_C).cbrt(),
                origin: w_max.max(cwnd),
                reno: cwnd,
            }
        });
        let t_s = (now_ns - epoch.start_ns + srtt_ns) as f64 / 1e9;
        let cubic = CUBIC_C * (t_s - epoch.k_s).powi(3) + epoch.origin;
        let alpha = if epoch.reno < w_max {
            3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA)
        } else {
            1.0
        };
        epoch.reno += alpha * acked / cwnd;
        // At most half as much again in a round trip (section 4.4).
        let target = cubic.clamp(cwnd, 1.5 * cwnd).max(epoch.reno);
        self.cwnd += (target - cwnd) / cwnd * acked;
    }

    /// Reduces the window after losses; returns the threshold at which recovery ends. `in_flight` is the number of
    /// packets in flight.
    pub fn on_loss(&mut self, in_flight: f64) -> f64 {
        self.epoch = None;
        self.ssthresh = match self.algorithm {
            Algorithm::Cubic => {
                let converging = self.cwnd < self.w_max;
                self.w_max = if converging {
                    self.cwnd * (1.0 + CUBIC_BETA) / 2.0
                } else {
                    self.cwnd
                };
                (self.cwnd * CUBIC_BETA).max(2.0)
            }
            Algorithm::NewReno => (in_flight.min(self.cwnd) / 2.0).max(2.0),
            Algorithm::FixedRate { .. } | Algorithm::Bbr => self.cwnd,
        };
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
        self.epoch = None;
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
        self.epoch = None;
    }

    /// Leaves slow start when the RTT of a round shows that a queue is building.
    pub fn on_rtt(&mut self, rtt_ns: i64, min_rtt_ns: i64, acknowledged: u64, sent: u64) {
        let slow_start = self.in_slow_start() && self.cwnd >= HYSTART_MIN_CWND;
        let Some(hystart) = &mut self.hystart else {
            return;
        };
        if acknowledged > hystart.round_end {
            *hystart = HyStart {
                round_end: sent,
                samples: 0,
                round_min_ns: i64::MAX,
            };
        }
        hystart.samples += 1;
        hystart.round_min_ns = hystart.round_min_ns.min(rtt_ns);
        let allowance_ns = (min_rtt_ns / 8).clamp(4_000_000, 16_000_000);
        if slow_start
            && hystart.samples >= HYSTART_SAMPLES
            && hystart.round_min_ns > min_rtt_ns.saturating_add(allowance_ns)
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
    fn cubic_is_back_at_its_old_window_after_k_seconds() {
        // W_max 100, reduced to 70: K = cbrt(30 / 0.4) = 4.217 s.
        let mut cubic = Congestion::new(Algorithm::Cubic, 100.0, false);
        cubic.cwnd = cubic.on_loss(100.0);
        assert!((cubic.cwnd - 70.0).abs() < 1e-9);
        let mut now_ns = 0;
        while now_ns < 4_217_000_000 {
            cubic.on_acked(now_ns, cubic.cwnd, RTT_NS);
            now_ns += RTT_NS;
        }
        assert!((cubic.cwnd - 100.0).abs() < 1.5, "{}", cubic.cwnd);
        (0..40).for_each(|i| cubic.on_acked(now_ns + i * RTT_NS, cubic.cwnd, RTT_NS));
        assert!(cubic.cwnd > 120.0, "and grows beyond it: {}", cubic.cwnd);
    }

    #[test]
    fn new_reno_halves_and_grows_by_one_in_a_round_trip() {
        let mut reno = Congestion::new(Algorithm::NewReno, 40.0, false);
        reno.cwnd = reno.on_loss(40.0);
        assert_eq!(reno.cwnd, 20.0);
        reno.on_acked(0, 20.0, RTT_NS);
        assert_eq!(reno.cwnd, 21.0);
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
