//! Reordering: packets that others overtake are retransmitted needlessly, and nothing is lost.

use whydrop_verdict::{Cause, fact};

use super::{Description, Hypothesis};
use crate::observe::Observation;

pub struct Reordering;

impl Hypothesis for Reordering {
    fn causes(&self) -> &'static [Cause] {
        &[Cause::Reordering]
    }

    fn describe(&self, _cause: Cause, seen: &Observation) -> Description {
        let totals = &seen.totals;
        let headline = fact!(
            "reordered",
            reordered = totals.reordered,
            spurious = totals.spurious,
            lost_besides = totals.lost_besides
        );
        let late = fact!(
            "acknowledged-late",
            reordered = totals.reordered,
            data_packets = totals.data_packets
        );
        Description {
            facts: vec![late],
            limited_share: seen.busy_share(),
            ..Description::new(headline)
        }
    }
}
