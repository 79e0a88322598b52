//! The background: no cause explains what was observed better than chance.

use whydrop_verdict::{Fact, fact};

use super::Description;
use crate::observe::Observation;
use crate::thresholds::FEWEST_BY_CHANCE;

pub fn describe(seen: &Observation) -> Description {
    let lost = seen.totals.lost;
    let facts = [seen.spacing(), arrives_evenly(seen)];
    Description {
        facts: facts.into_iter().flatten().collect(),
        ..Description::new(fact!(
            "unexplained",
            few = lost > 0 && lost < FEWEST_BY_CHANCE
        ))
    }
}

/// The rate at which packets arrive at the receiver, if it is steady.
fn arrives_evenly(seen: &Observation) -> Option<Fact> {
    let arrivals = seen.arrivals.filter(|arrivals| arrivals.are_steady(1.0))?;
    (seen.totals.lost == 0).then(|| {
        fact!(
            "arrives-evenly",
            rate_bps = arrivals.rate_bps,
            steady_share = arrivals.steady_share
        )
    })
}
