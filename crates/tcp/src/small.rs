//! Completed connections: important ones in full, and sums of small ones if there are too many.

use std::cmp::Reverse;

use crate::control::ControlConnections;
use crate::flow::{Connection, Flow};
use crate::hosts::Hosts;

/// A connection with fewer packets than this, in both directions together, is small: its record takes as much memory as
/// this many packets, and only the amount of data limited it.
pub const SMALL_PACKETS: u64 = 32;

/// Connections of fewer than [`SMALL_PACKETS`] packets that are summed up, because there were too many to keep.
#[derive(Debug, Clone, Default)]
pub struct SmallConnections {
    pub connections: u64,
    /// Their directions that carried data.
    pub flows: u64,
    /// Totals as in [`crate::FlowCounters`].
    pub packets: u64,
    pub payload_bytes: u64,
    pub ip_bytes: u64,
    pub lost: u64,
    pub retransmitted: u64,
    pub spurious: u64,
    pub reordered: u64,
    /// Connections with a captured SYN.
    pub attempts: u64,
    /// Connections with packets from both sides.
    pub answered: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    /// Senders of the SYN, or of the first captured packet.
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

/// The rank of a small connection: losses first, then data.
type Weight = (u64, u64, u64);

fn weight(connection: &Connection) -> Weight {
    let sum = |of: fn(&Flow) -> u64| connection.flows.iter().map(of).sum();
    (
        sum(|flow| flow.counters.lost),
        sum(|flow| flow.segments.len() as u64),
        sum(|flow| flow.counters.payload_bytes),
    )
}

/// Completed connections: all large ones, and the most informative small ones.
#[derive(Debug, Default)]
pub(crate) struct Completed {
    /// The most small connections to keep.
    most_small: usize,
    large: Vec<Connection>,
    small: Vec<Connection>,
    /// Once the limit is reached, the lowest rank of a small connection that is kept.
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

    /// Adds a connection; `packets` is how many were captured of it.
    pub fn take(&mut self, connection: Connection, packets: u64) {
        if let Some(program) = connection.control {
            ControlConnections::add(&mut self.control, program, &connection);
        } else if packets >= SMALL_PACKETS {
            self.large.push(connection);
        } else if self.least.is_some_and(|least| weight(&connection) <= least) {
            self.summed.add(&connection);
        } else {
            self.small.push(connection);
            // selecting among twice as many keeps the cost per connection low
            if self.small.len() > 2 * self.most_small {
                self.sum_up();
            }
        }
    }

    /// Returns the kept connections, unordered, and the sums of small connections and of control connections.
    pub fn finish(mut self) -> (Vec<Connection>, SmallConnections, Vec<ControlConnections>) {
        if self.small.len() > self.most_small {
            self.sum_up();
        }
        self.large.append(&mut self.small);
        (self.large, self.summed, self.control)
    }

    /// Sums up all small connections except the most informative; among equals, the first ones are kept.
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
