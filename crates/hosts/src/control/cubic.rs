//! CUBIC (RFC 9438) as in Linux (`net/ipv4/tcp_cubic.c`): windows are whole packets, and grow by one for each so many
//! that are acknowledged.

use super::whole::Whole;
use super::{Acked, Controller};

/// Multiplicative decrease: 717 of 1024 (RFC 9438, section 4.6: 0.7).
const BETA: f64 = 717.0 / 1024.0;
/// Aggressiveness (section 5.1).
const C: f64 = 0.4;
/// Packets acknowledged, for each of the window, until a Reno-friendly window is one larger (section 4.3):
/// (1 + beta) / (3 (1 - beta)), rounded to eighths.
const RENO_FRIENDLY: f64 = 15.0 / 8.0;
/// The growth is computed again when the window has changed, or after 1/32 s.
const COMPUTED_EVERY_NS: i64 = 31_250_000;
/// One packet for each of this many acknowledged, at most and, before the first loss, at least.
const FASTEST: f64 = 2.0;
const SLOWEST_AT_FIRST: f64 = 20.0;
/// Where the function is below the window, it hardly grows.
const BELOW: f64 = 100.0;

#[derive(Debug, Default)]
pub struct Cubic {
    /// The window before the last reduction; 0 before the first.
    w_max: f64,
    epoch: Option<Epoch>,
    whole: Whole,
}

#[derive(Debug, Clone, Copy)]
struct Epoch {
    start_ns: i64,
    /// Seconds to reach `origin`.
    k_s: f64,
    origin: f64,
    /// The window NewReno would have, and the packets acknowledged since it last grew.
    reno: f64,
    reno_counted: f64,
    /// Packets acknowledged for each by which the window grows, and the window and time for which that was computed.
    packets_each: f64,
    computed_for: f64,
    computed_ns: i64,
}

impl Epoch {
    fn new(now_ns: i64, cwnd: f64, w_max: f64) -> Self {
        Self {
            start_ns: now_ns,
            k_s: ((w_max - cwnd).max(0.0) / C).cbrt(),
            origin: w_max.max(cwnd),
            reno: cwnd,
            reno_counted: 0.0,
            packets_each: f64::INFINITY,
            computed_for: 0.0,
            computed_ns: i64::MIN,
        }
    }

    /// `bictcp_update`.
    fn update(&mut self, cwnd: f64, acked: Acked, w_max: f64) {
        self.reno_counted += acked.packets;
        let is_recent = acked.now_ns.saturating_sub(self.computed_ns) <= COMPUTED_EVERY_NS;
        if self.computed_for == cwnd && is_recent {
            return;
        }
        (self.computed_for, self.computed_ns) = (cwnd, acked.now_ns);
        let t_s = (acked.now_ns - self.start_ns + acked.least_rtt_ns) as f64 / 1e9;
        let target = (C * (t_s - self.k_s).powi(3) + self.origin).floor();
        let by_function = match target > cwnd {
            true => (cwnd / (target - cwnd)).floor(),
            false => BELOW * cwnd,
        };
        let at_first = if w_max == 0.0 {
            SLOWEST_AT_FIRST
        } else {
            f64::INFINITY
        };
        let by_reno = self.by_reno(cwnd);
        self.packets_each = by_function.min(at_first).min(by_reno).max(FASTEST);
    }

    fn by_reno(&mut self, cwnd: f64) -> f64 {
        let each = (cwnd * RENO_FRIENDLY).floor().max(1.0);
        let grown = (self.reno_counted / each).floor();
        self.reno += grown;
        self.reno_counted -= grown * each;
        match self.reno > cwnd {
            true => (cwnd / (self.reno - cwnd)).floor(),
            false => f64::INFINITY,
        }
    }
}

impl Controller for Cubic {
    fn grow(&mut self, cwnd: f64, acked: Acked) -> f64 {
        let w_max = self.w_max;
        let epoch = (self.epoch).get_or_insert_with(|| Epoch::new(acked.now_ns, cwnd, w_max));
        epoch.update(cwnd, acked, w_max);
        let each = epoch.packets_each;
        self.whole.grow(cwnd, each, acked.packets)
    }

    fn on_loss(&mut self, cwnd: f64, _in_flight: f64) -> f64 {
        self.epoch = None;
        self.whole = Whole::default();
        // Fast convergence (section 4.7).
        self.w_max = match cwnd < self.w_max {
            true => (cwnd * (1.0 + BETA) / 2.0).floor(),
            false => cwnd,
        };
        (cwnd * BETA).floor().max(2.0)
    }

    fn restart(&mut self) {
        self.epoch = None;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Algorithm, Congestion};

    const RTT_NS: i64 = 100_000_000;

    #[test]
    fn cubic_is_back_at_its_old_window_after_k_seconds() {
        // W_max 100, reduced to 70: K = cbrt(30 / 0.4) = 4.217 s.
        let mut cubic = Congestion::new(Algorithm::Cubic, 100.0, false);
        cubic.cwnd = cubic.on_loss(100.0);
        assert_eq!(cubic.cwnd, 70.0);
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
    fn a_small_window_grows_like_renos_by_about_half_a_packet_a_round_trip() {
        let mut cubic = Congestion::new(Algorithm::Cubic, 20.0, false);
        cubic.cwnd = cubic.on_loss(20.0);
        assert_eq!(cubic.cwnd, 14.0);
        let rtt_ns = 10_000_000;
        for round in 0..30 {
            cubic.on_acked(round * rtt_ns, cubic.cwnd, rtt_ns);
        }
        assert!((28.0..=31.0).contains(&cubic.cwnd), "{}", cubic.cwnd);
    }
}
