//! The flows of both points joined, and their positions in the TCP trackers.

use std::collections::HashMap;

use whydrop_tcp::{Endpoint, Tracked};

use crate::flow::{FlowName, PairFlow, TrackedFlow};
use crate::matching::flows::{FlowState, Flows};
use crate::matching::pending::NONE;

const TCP: u8 = 6;

/// New numbers of each capture's flows; [`NONE`] for those that were discarded.
pub(super) type Numbers = [Vec<u32>; 2];

pub(super) fn resolve(states: &Flows, tracked: &[Tracked; 2]) -> (Vec<PairFlow>, Numbers) {
    let [first, second] = [states.all(0), states.all(1)];
    let mut flows: Vec<PairFlow> = Vec::new();
    let mut numbers = [first, second].map(|states| Vec::with_capacity(states.len()));
    for state in first {
        if state.was_discarded() {
            numbers[0].push(NONE);
            continue;
        }
        numbers[0].push(flows.len() as u32);
        flows.push(new_flow(0, state));
    }
    for state in second {
        if state.was_discarded() {
            numbers[1].push(NONE);
            continue;
        }
        // with reused ports, several flows at point 1 may have one partner at point 2: it belongs to the
        // latest
        if state.partner != NONE {
            let number: u32 = numbers[0][state.partner as usize];
            numbers[1].push(number);
            flows[number as usize].names[1] = Some(name(state));
        } else {
            numbers[1].push(flows.len() as u32);
            flows.push(new_flow(1, state));
        }
    }
    for (side, states) in [first, second].into_iter().enumerate() {
        for (state, number) in kept(states, &numbers[side]) {
            if state.reverse != NONE {
                let reverse = numbers[side][state.reverse as usize];
                flows[number as usize].reverse.get_or_insert(reverse);
            }
        }
    }
    for (side, tracked) in tracked.iter().enumerate() {
        find_tracked(side, &mut flows, &numbers, states.all(side), tracked);
    }
    (flows, numbers)
}

/// The flows of a capture that were not discarded, and their new numbers.
fn kept<'a>(
    states: &'a [FlowState],
    numbers: &'a [u32],
) -> impl Iterator<Item = (&'a FlowState, u32)> {
    let all = states.iter().zip(numbers.iter().copied());
    all.filter(|(state, _)| !state.was_discarded())
}

fn name(state: &FlowState) -> FlowName {
    FlowName {
        source: state.tuple.source(),
        destination: state.tuple.destination(),
    }
}

fn new_flow(side: usize, state: &FlowState) -> PairFlow {
    let mut flow = PairFlow {
        protocol: state.tuple.protocol,
        sequence_added: state.numbering.sequence_added(),
        sack_left: u64::from(state.sack_left),
        ..PairFlow::default()
    };
    flow.names[side] = Some(name(state));
    flow
}

/// Connections of the tracker by name and time. With reused ports the names repeat, sorted by time on both
/// sides.
fn find_tracked(
    side: usize,
    flows: &mut [PairFlow],
    numbers: &Numbers,
    states: &[FlowState],
    tracked: &Tracked,
) {
    let mut by_name: HashMap<(Endpoint, Endpoint), Vec<TrackedFlow>> = HashMap::new();
    for (connection, both) in tracked.connections.iter().enumerate() {
        for (flow, one) in both.flows.iter().enumerate() {
            by_name
                .entry((one.source, one.destination))
                .or_default()
                .push(TrackedFlow { connection, flow });
        }
    }
    for (state, number) in kept(states, &numbers[side]) {
        if state.tuple.protocol != TCP {
            continue;
        }
        let ends = name(state);
        let Some(found) = by_name.get(&(ends.source, ends.destination)) else {
            continue;
        };
        let began = |place: &TrackedFlow| {
            let connection = &tracked.connections[place.connection];
            let times = connection.flows.each_ref().map(|flow| flow.first_ns);
            (
                times[place.flow].abs_diff(state.first_ns),
                times[1 - place.flow],
            )
        };
        let nearest = found.iter().min_by_key(|place| began(place)).copied();
        flows[number as usize].tracked[side] = nearest.filter(|place| {
            let flow = &tracked.connections[place.connection].flows[place.flow];
            flow.first_ns <= state.last_ns && state.first_ns <= flow.last_ns
        });
    }
}
