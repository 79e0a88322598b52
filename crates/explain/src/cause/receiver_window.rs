//! The receive window is full: the receiver's application or its buffer is the limit.

use whydrop_verdict::{Cause, fact};

use super::{Description, Hypothesis};
use crate::limits;
use crate::observe::Observation;
use crate::thresholds::SHORTEST_TIME_S;

pub struct ReceiverWindow;

impl Hypothesis for ReceiverWindow {
    fn causes(&self) -> &'static [Cause] {
        &[Cause::ReceiverWindow]
    }

    fn describe(&self, cause: Cause, seen: &Observation) -> Description {
        let totals = &seen.totals;
        let limited_s = totals.window_limited_s();
        let headline = fact!(
            "limited-by-window",
            window_share = totals.window_share(),
            closed_s = totals.window_closed_s,
            closed_share = totals.window_closed_s / limited_s.max(SHORTEST_TIME_S),
            lost_besides = totals.lost_besides
        );
        let full = fact!(
            "window-full",
            window_share = totals.window_share(),
            busy_s = totals.busy_s
        );
        let closed = fact!(
            "window-closed",
            times = totals.zero_windows,
            closed_s = totals.window_closed_s,
            probes = totals.window_probes
        );
        let was_closed = totals.zero_windows > 0 || totals.window_closed_s > 0.0;
        let share = limits::share_at_the_ends(&totals.limited_s, cause);
        Description {
            facts: [full]
                .into_iter()
                .chain(was_closed.then_some(closed))
                .collect(),
            limited_share: share.max(limited_s / totals.active_s()),
            ..Description::new(headline)
        }
    }
}
