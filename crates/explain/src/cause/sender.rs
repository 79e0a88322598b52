//! The sender: its application, its buffer, or its pacing.

use whydrop_tcp::Limiter;
use whydrop_verdict::{Cause, Fact, fact};

use super::answers::limited;
use super::{Description, Hypothesis};
use crate::limits;
use crate::observe::Observation;
use crate::thresholds::STATED_IDLE_SHARE;

pub struct Sender;

impl Hypothesis for Sender {
    fn causes(&self) -> &'static [Cause] {
        &[Cause::Sender]
    }

    fn describe(&self, cause: Cause, seen: &Observation) -> Description {
        let totals = &seen.totals;
        let largest = limits::largest(&totals.limited_s);
        let headline = fact!(
            "limited-by-sender",
            window_known = totals.window_known,
            lost_besides = totals.lost_besides,
            limiter = largest.map(|(limiter, _)| limiter.name()),
            limiter_share = largest.map(|(_, share)| share)
        );
        let share = limits::share_at_the_ends(&totals.limited_s, cause);
        Description {
            facts: facts(seen),
            limited_share: match largest {
                // a window full of packets that are queued nowhere is the sender's own
                Some((Limiter::CongestionWindow, most)) => share + most,
                _ => share,
            },
            ..Description::new(headline)
        }
    }
}

fn facts(seen: &Observation) -> Vec<Fact> {
    let totals = &seen.totals;
    if totals.at_receiver {
        return vec![limited(Limiter::Application, "application-silent", seen)];
    }
    // only a part of each may lie beyond the capture point
    let round_trips = totals
        .whole_rtt_s
        .map(|whole_s| (totals.busy_s / whole_s) as u64)
        .filter(|round_trips| *round_trips > 0);
    let idle_share = totals.idle_s / totals.active_s();
    let window_share = totals.window_known.then(|| totals.window_share());
    let in_flight = fact!(
        "nothing-lost-in-flight",
        busy_s = totals.busy_s,
        round_trips = round_trips,
        lost_besides = totals.lost_besides,
        window_share = window_share
    );
    let idle = (idle_share > STATED_IDLE_SHARE).then(|| fact!("idle", idle_share = idle_share));
    [in_flight].into_iter().chain(idle).collect()
}
