//! Reno in Linux's arithmetic (`net/ipv4/tcp_cong.c`): windows are whole packets.

use super::whole::Whole;
use super::{Acked, Controller};

#[derive(Debug, Default)]
pub struct Reno {
    whole: Whole,
}

impl Controller for Reno {
    fn grow(&mut self, cwnd: f64, acked: Acked) -> f64 {
        self.whole.grow(cwnd, cwnd, acked.packets)
    }

    fn on_loss(&mut self, cwnd: f64, _in_flight: f64) -> f64 {
        self.whole = Whole::default();
        (cwnd / 2.0).floor().max(2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Algorithm, Congestion};

    #[test]
    fn reno_halves_to_a_whole_packet_and_grows_by_one_for_each_window() {
        let mut reno = Congestion::new(Algorithm::Reno, 27.0, false);
        reno.cwnd = reno.on_loss(27.0);
        assert_eq!(reno.cwnd, 13.0);
        reno.on_acked(0, 12.0, 100_000_000);
        assert_eq!(reno.cwnd, 13.0);
        reno.on_acked(0, 1.0, 100_000_000);
        assert_eq!(reno.cwnd, 14.0);
    }

    #[test]
    fn packets_acknowledged_before_a_loss_do_not_count_after_it() {
        let mut reno = Congestion::new(Algorithm::Reno, 20.0, false);
        reno.ssthresh = 20.0;
        reno.on_acked(0, 19.0, 100_000_000);
        reno.cwnd = reno.on_loss(20.0);
        reno.on_acked(0, 9.0, 100_000_000);
        assert_eq!(reno.cwnd, 10.0);
    }
}
