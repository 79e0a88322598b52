//! The other end answers late: its application, or its acknowledgments.

use whydrop_tcp::Limiter;
use whydrop_verdict::{Cause, Fact};

use super::{Description, Hypothesis};
use crate::limits;
use crate::observe::Observation;
use crate::thresholds::SHORTEST_TIME_S;

pub struct Answers;

impl Hypothesis for Answers {
    fn causes(&self) -> &'static [Cause] {
        &[Cause::PeerApplication, Cause::DelayedAck]
    }

    fn describe(&self, cause: Cause, seen: &Observation) -> Description {
        let headline = match cause {
            Cause::DelayedAck => limited(Limiter::DelayedAck, "acknowledgments-delayed", seen),
            _ => limited(Limiter::PeerApplication, "answered-late", seen),
        };
        Description {
            limited_share: limits::share_at_the_ends(&seen.totals.limited_s, cause),
            ..Description::new(headline)
        }
    }
}

/// Time for which a limiter limited the transfers, and its share of their time.
pub fn limited(limiter: Limiter, code: &'static str, seen: &Observation) -> Fact {
    let limited_s = seen.totals.limited_s;
    let own_s = limited_s[limiter as usize];
    let share = own_s / limited_s.iter().sum::<f64>().max(SHORTEST_TIME_S);
    Fact::new(code)
        .with("limited_s", own_s)
        .with("limited_share", share)
}
