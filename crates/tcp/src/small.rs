//! Connections that are complete: in full those that matter, together the small ones that are too many.

use std::cmp::Reverse;

use crate::control::ControlConnections;
use crate::flow::{Connection, Flow};
use crate::hosts::Hosts;

/// A connection of fewer packets than this, both directions together, is small: what is kept of a connection takes as
/// much memory as so many packets do, and nothing but what there was to send has limited it.
pub const SMALL_PACKETS: u64 = 32;

/// Connections of fewer than [`SMALL_PACKETS`] packets that are summed up, because there were too many to keep.
#[derive(Debug, Clone, Default)]
pub struct SmallConnections {
    pub connections: u64,
    /// Directions of them that carried data.
    pub flows: u64,
    /// All of these as in [`crate::FlowCounters`].
    pub packets: u64,
    pub payload_bytes: u64,
    pub ip_bytes: u64,
    pub lost: u64,
    pub retransmitted: u64,
    pub spurious: u64,
    pub reordered: u64,
    /// Connections whose SYN was captured.
    pub attempts: u64,
    /// Connections with packets of both sides.
    pub answered: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    /// Who sent the SYN, or the first packet seen.
    pub initiators: Hosts,
    pub responders: Hosts,
}

impl SmallConnections {
    fn add(&mut self, connection: &Connection) {
        let flows = &connection.flows;
        let began_ns = began_ns(connection);
        self.first_ns = match self.connections {
            0 => began_ns,
            _ => self.first_ns.min(began_ns),
        };
        self.connections += 1;
        for flow in flows {
            let counters = &flow.counters;
            self.flows += u64::from(flow.carried_data());
            self.packets += counters.packets;
            self.payload_bytes += counters.payload_bytes;
            self.ip_bytes += counters.ip_bytes;
            self.lost += counters.lost;
            self.retransmitted += counters.retransmitted;
            self.spurious += counters.spurious;
            self.reordered += counters.reordered;
            self.last_ns = self.last_ns.max(flow.last_ns);
        }
        self.attempts += u64::from(connection.from_start);
        self.answered += u64::from(flows.iter().all(|flow| flow.counters.packets > 0));
        self.initiators.add(flows[0].source.address);
        self.responders.add(flows[1].source.address);
    }
}

/// Time of the first packet of either side.
fn began_ns(connection: &Connection) -> i64 {
    let flows = connection.flows.iter();
    let seen = flows.filter(|flow| flow.counters.packets > 0);
    seen.map(|flow| flow.first_ns).min().unwrap_or(0)
}

/// The weight of a small connection: losses first, then data.
type Weight = (u64, u64, u64);

fn weight(connection: &Connection) -> Weight {
    let sum = |of: fn(&Flow) -> u64| connection.flows.iter().map(of).sum();
    (
        sum(|flow| flow.counters.lost),
        sum(|flow| flow.segments.len() as u64),
        sum(|flow| flow.counters.payload_bytes),
    )
}

/// Complete connections: all that are not small, and of the small ones those that have most to tell.
#[derive(Debug, Default)]
pub(crate) struct Completed {
    /// Small connections to keep at most.
    most_small: usize,
    large: Vec<Connection>,
    small: Vec<Connection>,
    /// So many small ones are kept that others must have more to tell than this.
    least: Option<Weight>,
    summed: SmallConnections,
    control: Vec<ControlConnections>,
}

impl Completed {
    pub fn new(most_small: usize) -> Self {
        Self {
            most_small,
            ..Self::default()
        }
    }

    /// Takes a connection; `packets` were captured of it.
    pub fn take(&mut self, connection: Connection, packets: u64) {
        if let Some(program) = connection.control {
            ControlConnections::add(&mut self.control, program, &connection);
        } else if packets >= SMALL_PACKETS {
            self.large.push(connection);
        } else if self.least.is_some_and(|least| weight(&connection) <= least) {
            self.summed.add(&connection);
        } else {
            self.small.push(connection);
            // choosing among twice as many costs each of them little
            if self.small.len() > 2 * self.most_small {
                self.sum_up();
            }
        }
    }

    /// The connections that are kept, in no order, and the sums of the others: of small ones, and of those for control.
    pub fn finish(mut self) -> (Vec<Connection>, SmallConnections, Vec<ControlConnections>) {
        if self.small.len() > self.most_small {
            self.sum_up();
        }
        self.large.append(&mut self.small);
        (self.large, self.summed, self.control)
    }

    /// Sums up all small ones but those that have most to tell; of equals, the first.
    fn sum_up(&mut self) {
        let mut order: Vec<(Reverse<Weight>, i64, usize)> = self
            .small
            .iter()
            .enumerate()
            .map(|(at, one)| (Reverse(weight(one)), began_ns(one), at))
            .collect();
        order.select_nth_unstable(self.most_small);
        let mut is_kept = vec![false; order.len()];
        for &(_, _, at) in &order[..self.most_small] {
            is_kept[at] = true;
        }
        let kept = order[..self.most_small].iter();
        self.least = kept.map(|(Reverse(weight), _, _)| *weight).min();
        let mut at = 0;
        self.small.retain(|connection| {
            let kept = is_kept[at];
            at += 1;
            if !kept {
                self.summed.add(connection);
            }
            kept
        });
    }
}
