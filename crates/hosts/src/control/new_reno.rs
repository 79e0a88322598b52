//! NewReno (RFC 5681): half of the flight after losses, and one packet more for each round trip.

use super::{Acked, Controller};

#[derive(Debug)]
pub struct NewReno;

impl Controller for NewReno {
    fn grow(&mut self, cwnd: f64, acked: Acked) -> f64 {
        cwnd + acked.packets / cwnd
    }

    fn on_loss(&mut self, cwnd: f64, in_flight: f64) -> f64 {
        (in_flight.min(cwnd) / 2.0).max(2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Algorithm, Congestion};

    #[test]
    fn new_reno_halves_and_grows_by_one_in_a_round_trip() {
        let mut reno = Congestion::new(Algorithm::NewReno, 40.0, false);
        reno.cwnd = reno.on_loss(40.0);
        assert_eq!(reno.cwnd, 20.0);
        reno.on_acked(0, 20.0, 100_000_000);
        assert_eq!(reno.cwnd, 21.0);
    }
}
