//! One capture shows two parts of a path: the part behind the capture point, by the time of arrival, and the
//! part before it, by the senders' clocks. The part that explains the losses is judged.

use whydrop_verdict::Cause;

use crate::cause::weigh;
use crate::observe::{Group, Observation, measure_before, measure_behind};
use crate::thresholds::SHORTEST_CLOCKED_S;

/// Observes a group from one capture: the path behind the capture point, or, if the senders' clocks show that
/// a queue before it delayed and dropped packets, the path before it. If losses occur at many different
/// delays, another element than the queue may have dropped them; exact times can show this.
pub fn observe_group(group: &Group) -> Observation {
    let Some(by_clocks) = measure_before(group) else {
        return measure_behind(group);
    };
    if by_clocks.totals.lost == 0 {
        return by_clocks;
    }
    match weigh(&by_clocks).cause {
        // losses unrelated to delays are explained as well without the clocks, and from exact times
        Cause::RandomLoss => measure_behind(group),
        _ if !is_slower_than_clocks(&by_clocks) => measure_behind(group),
        Cause::Unknown | Cause::Aqm => {
            let by_times = measure_behind(group);
            match weigh(&by_times).cause {
                Cause::Policer => by_times,
                _ => by_clocks,
            }
        }
        _ => by_clocks,
    }
}

/// True if losses come with delays long enough for the senders' clocks.
fn is_slower_than_clocks(seen: &Observation) -> bool {
    seen.waited_at_loss_s() > SHORTEST_CLOCKED_S
}
