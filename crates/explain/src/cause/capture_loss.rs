//! The capture itself missed packets that were acknowledged.

use whydrop_verdict::{Cause, fact};

use super::{Description, Hypothesis};
use crate::observe::Observation;

pub struct CaptureLoss;

impl Hypothesis for CaptureLoss {
    fn causes(&self) -> &'static [Cause] {
        &[Cause::CaptureLoss]
    }

    fn describe(&self, _cause: Cause, seen: &Observation) -> Description {
        let totals = &seen.totals;
        let missed = totals.missed_by_capture_packets;
        Description::new(fact!(
            "missed-by-capture",
            missed = missed,
            acknowledged = missed.saturating_sub(totals.passed_over_packets),
            missed_share = totals.missed_share()
        ))
    }
}
