//! Nothing was lost, and no packet was delayed for long.

use whydrop_verdict::{Cause, fact};

use super::{Description, Hypothesis};
use crate::observe::Observation;

pub struct Nothing;

impl Hypothesis for Nothing {
    fn causes(&self) -> &'static [Cause] {
        &[Cause::None]
    }

    fn describe(&self, _cause: Cause, seen: &Observation) -> Description {
        Description::new(fact!(
            "nothing-lost",
            lasted_s = seen.totals.longest_transfer_s
        ))
    }
}
