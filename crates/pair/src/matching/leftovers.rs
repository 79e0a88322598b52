//! Postponed matches, made when no better one can arrive any more.

use ahash::HashMap;

use super::Matcher;
use super::likeness::Found;
use super::pending::Entry;
use super::sighting::{Parts, Sighting};
use crate::packet::PacketFlags;

/// Matched packets to evaluate before and after one.
const NEIGHBOURS: usize = 16;

/// The order of a flow's matched packets at both points.
///
/// Data that only its contents distinguish from its retransmission is matched so that the order is preserved.
/// A retransmission matched with the lost original would seem to be overtaken by all packets sent in between.
#[derive(Debug, Default)]
struct Order {
    /// Positions in both captures, in the order of the first.
    matched: Vec<[u32; 2]>,
}

impl Order {
    /// True if a packet at these positions is in order with most of its neighbours: a few may be reordered,
    /// or mismatched themselves.
    fn keeps(&self, [first, second]: [u32; 2]) -> bool {
        let before = self.matched.partition_point(|[other, _]| *other < first);
        let after = self.matched.partition_point(|[other, _]| *other <= first);
        let earlier = &self.matched[before.saturating_sub(NEIGHBOURS)..before];
        let later = &self.matched[after..self.matched.len().min(after + NEIGHBOURS)];
        let overtaken = later.iter().filter(|[_, other]| *other < second).count();
        let overtaking = earlier.iter().filter(|[_, other]| *other > second).count();
        4 * (overtaken + overtaking) <= earlier.len() + later.len()
    }
}

/// By number of the flow at point 1: the flows with packets missing from both captures, so that the
/// retransmission of a packet may be captured at one point only.
pub(super) struct Orders(HashMap<u32, Order>);

impl Orders {
    fn of(matcher: &Matcher) -> Self {
        // unmatched data of each flow at either point without an equal at the other
        let mut alone: HashMap<u32, [bool; 2]> = HashMap::default();
        for side in 0..2 {
            for (_, entry) in matcher.pending[side].iter() {
                if !is_repeatable(&entry.parts) {
                    continue;
                }
                let sighting = matcher.sighting_of(side, entry);
                let first = match side {
                    0 => sighting.flow,
                    _ => matcher.flows.get(1, sighting.flow).partner,
                };
                if let Found::Nothing = matcher.find(side, &sighting, entry.key) {
                    alone.entry(first).or_default()[side] = true;
                }
            }
        }
        let flows = alone.into_iter().filter(|(_, sides)| *sides == [true; 2]);
        let mut orders: HashMap<u32, Order> =
            flows.map(|(flow, _)| (flow, Order::default())).collect();
        if orders.is_empty() {
            return Self(orders);
        }
        for row in matcher.rows.iter().filter(|row| row.is_matched()) {
            if let Some(order) = orders.get_mut(&row.flow) {
                order.matched.push(row.index);
            }
        }
        for order in orders.values_mut() {
            order.matched.sort_unstable();
        }
        Self(orders)
    }
}

/// True if a packet may be retransmitted and be identical to the original.
fn is_repeatable(parts: &Parts) -> bool {
    parts.has(Parts::DATA) && !parts.has_timestamps()
}

impl Matcher {
    /// Makes the matches that were postponed as uncertain: no better one arrived.
    pub(crate) fn finish(&mut self) {
        self.nothing_else_arrives = true;
        self.learn_numberings();
        let orders = Orders::of(self);
        // from the side with fewer unmatched packets: each of them takes the most likely of the other side
        let side = usize::from(self.pending[1].len() < self.pending[0].len());
        let waiting: Vec<u32> = self.pending[side].iter().map(|(slot, _)| slot).collect();
        for slot in waiting {
            self.match_after_all(side, slot, Some(&orders));
        }
        self.cut_like_the_other_point(Some(&orders));
    }

    /// Matches an unmatched packet with the most likely of the other side. False if there is none.
    pub(super) fn match_after_all(
        &mut self,
        side: usize,
        own: u32,
        orders: Option<&Orders>,
    ) -> bool {
        let entry = *self.pending[side].entry(own);
        let sighting = self.sighting_of(side, &entry);
        let Found::Same(slot, same_id) = self.find(side, &sighting, entry.key) else {
            return false;
        };
        let other = &self.rows[self.pending[1 - side].entry(slot).row as usize];
        if is_repeatable(&sighting.parts) && same_id != Some(true) {
            let (first, positions) = match side {
                0 => (sighting.flow, [sighting.index, other.index[1]]),
                _ => (other.flow, [other.index[0], sighting.index]),
            };
            let order = orders.and_then(|orders| orders.0.get(&first));
            if order.is_some_and(|order| !order.keeps(positions)) {
                return false;
            }
        }
        self.rows[entry.row as usize]
            .flags
            .set(PacketFlags::WITHDRAWN);
        self.pending[side].remove(own);
        self.on_match(side, &sighting, slot, same_id);
        true
    }

    /// An unmatched packet, as it was captured.
    pub(super) fn sighting_of(&self, side: usize, entry: &Entry) -> Sighting {
        let row = &self.rows[entry.row as usize];
        Sighting {
            parts: entry.parts,
            flow: row.flow,
            index: row.index[side],
            time_ns: row.time_ns[side],
            sequence: row.sequence,
            payload_bytes: row.payload_bytes,
            ip_bytes: row.ip_bytes,
            ttl: row.ttl[side],
            tos: row.tos[side],
            flags: row.flags.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_keeps_the_order_only_between_its_neighbours() {
        let order = Order {
            matched: vec![[10, 100], [20, 200], [30, 300]],
        };
        assert!(order.keeps([15, 150]));
        assert!(order.keeps([5, 50]));
        assert!(order.keeps([35, 350]));
        assert!(!order.keeps([15, 250]));
        assert!(!order.keeps([15, 50]));
        assert!(!order.keeps([35, 250]));
        // a piece of a super-segment has the position of the others
        assert!(order.keeps([20, 201]));
    }
}
