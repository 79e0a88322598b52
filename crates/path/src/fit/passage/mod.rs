//! The path between two points: when each packet entered, and when it left or that it was lost.
//!
//! From one point a queue has to be inferred from acknowledgments. Between two it is observed: a packet is in
//! the hop from its arrival to its departure, so the contents that a lost packet found are counted, not
//! fitted, and the times between departures while packets are queued are the service times of the hop.

mod contents;
mod departures;
mod overtaking;

#[cfg(test)]
mod tests;

pub use contents::{BacklogAtLosses, Contents, backlog_at_losses, contents, packets_at_losses};
pub use departures::{Departures, measure_departures};
pub use overtaking::{FlowOvertaking, flow_overtaking};

use super::level::Server;
use super::trace::{Seen, Trace, TracePacket};

/// One packet's transit between two points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Passage {
    /// Time at the first point, nanoseconds.
    pub arrival_ns: i64,
    /// IP bytes.
    pub bytes: u32,
    pub outcome: Seen,
    /// Time to the second point; `None` if it never arrived there, or was not captured.
    pub transit_ns: Option<i64>,
    /// Number of its flow.
    pub flow: u32,
    /// Congestion Experienced was set between the points.
    pub marked: bool,
}

/// Passages as columns, sorted by arrival.
#[derive(Debug, Clone, Default)]
pub struct Passages {
    /// Arrival of the first packet, the origin of the times.
    pub start_ns: i64,
    pub arrival_s: Vec<f64>,
    pub bytes: Vec<f32>,
    pub outcome: Vec<Seen>,
    /// Transit above the smallest one; NaN if unknown.
    pub wait_s: Vec<f64>,
    pub flow: Vec<u32>,
    pub marked: Vec<bool>,
    /// The smallest transit, relative to which delays are counted.
    pub shortest_transit_s: f64,
    pub lost: usize,
    pub passed: usize,
}

impl Passages {
    /// Sorts by arrival; packets with equal times keep their order.
    pub fn new(mut passages: Vec<Passage>) -> Self {
        if !passages.is_sorted_by_key(|passage| passage.arrival_ns) {
            passages.sort_by_key(|passage| passage.arrival_ns);
        }
        let start_ns = passages.first().map_or(0, |first| first.arrival_ns);
        let shortest_ns = passages
            .iter()
            .filter_map(|passage| passage.transit_ns)
            .min();
        let shortest_ns = shortest_ns.unwrap_or(0);
        let mut columns = Self {
            start_ns,
            shortest_transit_s: shortest_ns as f64 * 1e-9,
            ..Self::default()
        };
        for passage in &passages {
            let since_start_ns = passage.arrival_ns.saturating_sub(start_ns);
            let wait_s = passage.transit_ns.map_or(f64::NAN, |transit_ns| {
                transit_ns.saturating_sub(shortest_ns) as f64 * 1e-9
            });
            columns.arrival_s.push(since_start_ns as f64 * 1e-9);
            columns.bytes.push(passage.bytes as f32);
            columns.outcome.push(passage.outcome);
            columns.wait_s.push(wait_s);
            columns.flow.push(passage.flow);
            columns.marked.push(passage.marked);
            columns.lost += usize::from(passage.outcome == Seen::Lost);
            columns.passed += usize::from(passage.outcome == Seen::Passed);
        }
        columns
    }

    /// Share of all packets that were lost, 0 to 1.
    pub fn lost_share(&self) -> f64 {
        self.lost as f64 / self.len().max(1) as f64
    }

    pub fn len(&self) -> usize {
        self.arrival_s.len()
    }

    pub fn is_empty(&self) -> bool {
        self.arrival_s.is_empty()
    }

    pub fn duration_s(&self) -> f64 {
        self.arrival_s.last().copied().unwrap_or(0.0)
    }

    /// Departure of packet `index`, seconds; NaN if unknown.
    #[inline]
    pub fn departure_s(&self, index: usize) -> f64 {
        self.arrival_s[index] + self.wait_s[index]
    }

    /// The same packets as they leave a line of `rate_bps` behind the first point, one after the other: see
    /// [`Trace::through_line`]. Delays no longer include the wait for that line.
    pub fn through_line(&self, rate_bps: f64) -> Self {
        let mut through = self.clone();
        let mut line = Server::IDLE;
        let mut shortest_s = f64::INFINITY;
        for index in 0..self.len() {
            let service_s = f64::from(self.bytes[index]) * 8.0 / rate_bps;
            let leaves_s = line.serve(self.arrival_s[index], service_s);
            through.wait_s[index] = self.departure_s(index) - leaves_s;
            through.arrival_s[index] = leaves_s;
            shortest_s = shortest_s.min(through.wait_s[index]);
        }
        if shortest_s.is_finite() {
            for wait_s in &mut through.wait_s {
                *wait_s -= shortest_s;
            }
            through.shortest_transit_s += shortest_s;
        }
        through
    }

    /// Mean size of the packets, IP bytes.
    pub fn mean_bytes(&self) -> f64 {
        let bytes: f64 = self.bytes.iter().copied().map(f64::from).sum();
        (bytes / self.len().max(1) as f64).max(1.0)
    }

    /// The trace for fits of losses and delays, with `overhead_bytes` added to every packet.
    pub fn trace(&self, overhead_bytes: u32) -> Trace {
        let observation = |index: usize| TracePacket {
            time_ns: self
                .start_ns
                .saturating_add((self.arrival_s[index] * 1e9).round() as i64),
            bytes: self.bytes[index] as u32 + overhead_bytes,
            outcome: self.outcome[index],
            delay_s: (!self.wait_s[index].is_nan()).then_some(self.wait_s[index] as f32),
        };
        Trace::new((0..self.len()).map(observation).collect())
    }

    /// Positions of the packets with a known departure, sorted by departure.
    pub(super) fn in_departure_order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.len() as u32)
            .filter(|index| !self.wait_s[*index as usize].is_nan())
            .collect();
        let departure = |index: u32| self.departure_s(index as usize);
        if !order.is_sorted_by(|a, b| departure(*a) <= departure(*b)) {
            order.sort_by(|a, b| departure(*a).total_cmp(&departure(*b)));
        }
        order
    }
}
