//! A window that nothing changes.

use super::{Acked, Controller};

#[derive(Debug)]
pub struct Fixed;

impl Controller for Fixed {
    fn grow(&mut self, cwnd: f64, _acked: Acked) -> f64 {
        cwnd
    }

    fn on_loss(&mut self, cwnd: f64, _in_flight: f64) -> f64 {
        cwnd
    }

    fn has_own_window(&self) -> bool {
        true
    }
}
