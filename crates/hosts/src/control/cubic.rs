//! CUBIC (RFC 9438): the window follows a cubic function of the time since the last reduction.

use super::{Acked, Controller};

/// RFC 9438, section 4.6 and 5.1: multiplicative decrease and aggressiveness.
const BETA: f64 = 0.7;
const C: f64 = 0.4;

#[derive(Debug, Default)]
pub struct Cubic {
    /// The window before the last reduction, and when the present epoch began.
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

impl Controller for Cubic {
    /// RFC 9438, sections 4.2 to 4.5.
    fn grow(&mut self, cwnd: f64, acked: Acked) -> f64 {
        let w_max = self.w_max;
        let epoch = self.epoch.get_or_insert_with(|| {
            let distance = (w_max - cwnd).max(0.0);
            Epoch {
                start_ns: acked.now_ns,
                k_s: (distance / C).cbrt(),
                origin: w_max.max(cwnd),
                reno: cwnd,
            }
        });
        let t_s = (acked.now_ns - epoch.start_ns + acked.smoothed_rtt_ns) as f64 / 1e9;
        let cubic = C * (t_s - epoch.k_s).powi(3) + epoch.origin;
        let alpha = if epoch.reno < w_max {
            3.0 * (1.0 - BETA) / (1.0 + BETA)
        } else {
            1.0
        };
        epoch.reno += alpha * acked.packets / cwnd;
        // At most half as much again in a round trip (section 4.4).
        let target = cubic.clamp(cwnd, 1.5 * cwnd).max(epoch.reno);
        cwnd + (target - cwnd) / cwnd * acked.packets
    }

    fn on_loss(&mut self, cwnd: f64, _in_flight: f64) -> f64 {
        self.epoch = None;
        let converging = cwnd < self.w_max;
        self.w_max = if converging {
            cwnd * (1.0 + BETA) / 2.0
        } else {
            cwnd
        };
        (cwnd * BETA).max(2.0)
    }

    fn restart(&mut self) {
        self.epoch = None;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Algorithm, Congestion};

    #[test]
    fn cubic_is_back_at_its_old_window_after_k_seconds() {
        const RTT_NS: i64 = 100_000_000;
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
}
