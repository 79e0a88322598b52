//! Flows that overtake each other in the hop: the mark of a scheduler with a queue for each.

use super::Passages;

/// Number of times that packets overtook packets of other flows, and of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowOvertaking {
    /// Packets that left before one of another flow that had entered earlier.
    pub between_flows: usize,
    /// Packets that left before one of their own flow that had entered earlier.
    pub within_flows: usize,
    /// Packets that entered while one of another flow was in the hop.
    pub chances: usize,
}

/// Overtaking by less than this is noise of simultaneous timestamps.
const SAME_MOMENT_S: f64 = 2e-6;

/// Counts overtaking. `least_s` is the variation of timestamps: overtaking by less does not count.
pub fn flow_overtaking(passages: &Passages, least_s: f64) -> FlowOvertaking {
    let least_s = least_s.max(SAME_MOMENT_S);
    let mut found = FlowOvertaking::default();
    // latest departures so far: of one flow, and of the flow that is latest among the others
    let mut latest: Vec<f64> = Vec::new();
    let (mut first, mut second) = ((f64::MIN, u32::MAX), (f64::MIN, u32::MAX));
    for index in 0..passages.len() {
        if passages.wait_s[index].is_nan() {
            continue;
        }
        let flow = passages.flow[index];
        let (arrival_s, departure_s) = (passages.arrival_s[index], passages.departure_s(index));
        if latest.len() <= flow as usize {
            latest.resize(flow as usize + 1, f64::MIN);
        }
        let of_others = if first.1 == flow { second.0 } else { first.0 };
        found.chances += usize::from(of_others > arrival_s + least_s);
        found.between_flows += usize::from(of_others > departure_s + least_s);
        found.within_flows += usize::from(latest[flow as usize] > departure_s + least_s);
        latest[flow as usize] = latest[flow as usize].max(departure_s);
        if first.1 == flow {
            first.0 = first.0.max(departure_s);
        } else if departure_s > first.0 {
            (first, second) = ((departure_s, flow), first);
        } else if departure_s > second.0 || second.1 == flow {
            second = (departure_s.max(second.0), flow);
        }
    }
    found
}
