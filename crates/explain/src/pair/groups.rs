//! Flows of one direction to one host, and their packets between the points.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;

use whydrop_pair::{Crossing, Direction, PacketFlags, Pair, PairFlow};
use whydrop_path::fit::Seen;
use whydrop_path::fit::passage::{Passage, Passages};
use whydrop_tcp::Flow;
use whydrop_verdict::{Place, PlaceKind};

use super::timeline::Timeline;
use crate::observe::Observation;
use crate::observe::group::{FlowRef, Group};

/// Flows of one direction to one destination host, under the name at the upstream point.
pub struct PairGroup<'a> {
    pub direction: Direction,
    /// Numbers of the captures in the document, from 0.
    places: [usize; 2],
    /// Positions in [`Pair::flows`] of all of them, whatever they carry.
    pub members: Vec<u32>,
    /// Those with TCP data, as in the upstream capture, numbered as in the document; and as in the downstream
    /// one.
    pub at_upstream: Group<'a>,
    pub at_downstream: Group<'a>,
    /// The document's number of each member, `u32::MAX` for flows without data.
    pub numbers: Vec<u32>,
}

/// Standard deviations beyond which a count is not chance (one case in 30 000).
const SIGNIFICANT_DEVIATIONS: f64 = 4.0;

fn tracked<'a>(pair: &'a Pair, flow: &PairFlow, side: usize) -> Option<&'a Flow> {
    let place = flow.tracked[side]?;
    let connection = pair.tracked[side].connections.get(place.connection)?;
    let flow = connection.flows.get(place.flow)?;
    flow.is_of_interest().then_some(flow)
}

/// The flows with data, in the document's order, and all flows in groups.
///
/// `numbered` are the captures' numbers in the document, from 0.
pub fn of(pair: &Pair, numbered: [usize; 2]) -> (Vec<FlowRef<'_>>, Vec<PairGroup<'_>>) {
    let mut flows = Vec::new();
    let mut groups: Vec<PairGroup> = Vec::new();
    let mut places: HashMap<(usize, IpAddr), usize> = HashMap::new();
    for (member, flow) in pair.flows.iter().enumerate() {
        let upstream = flow.direction.upstream().unwrap_or(0);
        let Some(name) = flow.names[upstream].or(flow.names[1 - upstream]) else {
            continue;
        };
        let place = *places
            .entry((upstream, name.destination.address))
            .or_insert_with(|| {
                groups.push(PairGroup {
                    direction: flow.direction,
                    places: numbered,
                    members: Vec::new(),
                    at_upstream: Group { flows: Vec::new() },
                    at_downstream: Group { flows: Vec::new() },
                    numbers: Vec::new(),
                });
                groups.len() - 1
            });
        let group = &mut groups[place];
        group.members.push(member as u32);
        let mut number = u32::MAX;
        if let Some(seen) = tracked(pair, flow, upstream).or(tracked(pair, flow, 1 - upstream)) {
            number = flows.len() as u32;
            let reference = FlowRef {
                index: flows.len(),
                flow: seen,
            };
            flows.push(reference);
            group.at_upstream.flows.push(reference);
            group.at_downstream.flows.extend(
                tracked(pair, flow, 1 - upstream).map(|flow| FlowRef { flow, ..reference }),
            );
        }
        group.numbers.push(number);
    }
    (flows, groups)
}

/// Names of flows: those with the most losses between the points first, then those with the most packets
/// there.
fn by_losses(mut flows: Vec<&PairFlow>) -> Vec<String> {
    flows.sort_by_key(|flow| Reverse((flow.lost(), flow.matched())));
    flows.iter().map(|flow| flow.name()).collect()
}

impl PairGroup<'_> {
    /// True for groups with data, and for others that lost packets.
    pub fn is_worth_a_verdict(&self, passages: &Passages) -> bool {
        !self.at_upstream.flows.is_empty() || passages.lost > 0
    }

    /// Flows with TCP data, and others that lost packets, the most losses first; only the others, if no other
    /// flow lost any.
    pub fn names(&self, pair: &Pair) -> Vec<String> {
        let members = || {
            let flows = self.members.iter().map(|flow| &pair.flows[*flow as usize]);
            flows.zip(&self.numbers)
        };
        let lossy = |with_data: bool| {
            members()
                .filter(move |(flow, number)| {
                    flow.lost() > 0 && (**number != u32::MAX) == with_data
                })
                .map(|(flow, _)| flow)
        };
        let others = by_losses(lossy(false).collect());
        if self.at_upstream.flows.is_empty() && others.is_empty() {
            return members().map(|(flow, _)| flow.name()).collect();
        }
        let outside = self
            .at_upstream
            .flows
            .iter()
            .any(|flow| flow.flow.counters.lost > 0);
        if !others.is_empty() && !outside && lossy(true).next().is_none() {
            return others;
        }
        let with_data = members().filter(|(flow, number)| **number != u32::MAX || flow.lost() > 0);
        by_losses(with_data.map(|(flow, _)| flow).collect())
    }

    /// True if TCP data is less than half of this group's traffic: it says little about the rest.
    pub fn is_mostly_datagrams(&self, passages: &Passages) -> bool {
        let bytes = passages.flow.iter().zip(&passages.bytes);
        let (mut all, mut of_others) = (0.0, 0.0);
        for (member, bytes) in bytes {
            all += f64::from(*bytes);
            if self.numbers[*member as usize] == u32::MAX {
                of_others += f64::from(*bytes);
            }
        }
        of_others > all / 2.0
    }

    pub fn missed(&self, pair: &Pair) -> [u64; 2] {
        let members = self
            .members
            .iter()
            .map(|member| pair.flows[*member as usize].missed);
        members.fold([0, 0], |sum, missed| {
            [sum[0] + missed[0], sum[1] + missed[1]]
        })
    }

    /// For each capture, the share of the packets that passed its point and that it lacks.
    pub fn missed_share(&self, pair: &Pair) -> [f64; 2] {
        let present = |side: usize| {
            let members = self
                .members
                .iter()
                .map(|member| &pair.flows[*member as usize]);
            members.map(|flow| flow.packets[side]).sum::<u64>()
        };
        let missed = self.missed(pair);
        [0, 1].map(|side| missed[side] as f64 / (present(side) + missed[side]).max(1) as f64)
    }

    /// True if gaps prove losses. A loss before the upstream point shows there as a gap that a retransmission
    /// fills. A packet that this capture lacks, and that its sender retransmitted for another reason, looks
    /// the same: the share is that of retransmitted packets of which the capture lacks the first copy. More
    /// gaps than that by chance are losses.
    pub fn gaps_prove_losses(&self, pair: &Pair, seen: &Observation) -> bool {
        let upstream = self.direction.upstream().unwrap_or(0);
        let lost = seen.totals.lost_before_capture;
        let of_others = seen.totals.retransmitted.saturating_sub(lost) as f64;
        let missed_share = self.missed_share(pair)[upstream];
        let by_capture = of_others * missed_share / (1.0 - missed_share).max(1e-9);
        lost == 0 || lost as f64 > by_capture + SIGNIFICANT_DEVIATIONS * by_capture.sqrt()
    }

    pub fn overtaken(&self, pair: &Pair) -> u64 {
        self.members
            .iter()
            .map(|member| pair.flows[*member as usize].overtaken)
            .sum()
    }

    pub fn place(&self) -> Place {
        between(self.places)
    }

    /// The parts of the path before and beyond the points, in the direction of this group.
    pub fn outer_places(&self) -> [Place; 2] {
        let [mut near, mut far] = self.places.map(|place| place + 1);
        if self.direction == Direction::SecondToFirst {
            (near, far) = (far, near);
        }
        [
            Place::of(PlaceKind::Before, &[near]),
            Place::of(PlaceKind::Beyond, &[far]),
        ]
    }
}

/// The hop between two captures, numbered from 0.
pub fn between(places: [usize; 2]) -> Place {
    Place::of(PlaceKind::Between, &places.map(|place| place + 1))
}

/// The packets of each group between the points, in the order of sending.
pub fn passages_of_groups(pair: &Pair, timeline: &Timeline, groups: &[PairGroup]) -> Vec<Passages> {
    // group and member of each flow
    let mut places = vec![(u32::MAX, 0); pair.flows.len()];
    for (place, group) in groups.iter().enumerate() {
        for (member, flow) in group.members.iter().enumerate() {
            places[*flow as usize] = (place as u32, member as u32);
        }
    }
    let mut rows: Vec<Vec<Passage>> = groups.iter().map(|_| Vec::new()).collect();
    let mut last_transit_ns = vec![0i64; groups.len()];
    for order in &timeline.in_order {
        for &index in order {
            let packet = &pair.packets[index as usize];
            let (place, member) = places[packet.flow as usize];
            let Some(rows) = rows.get_mut(place as usize) else {
                continue;
            };
            let transit_ns = timeline.transit_ns[index as usize];
            let sent_ns = timeline.sent_ns[index as usize];
            let last_transit_ns = &mut last_transit_ns[place as usize];
            let (arrival_ns, outcome) = match packet.crossing {
                Crossing::Matched => (sent_ns, Seen::Passed),
                Crossing::Lost => (sent_ns, Seen::Lost),
                Crossing::MissedDownstream => (sent_ns, Seen::Passed),
                // only its departure was captured: it arrived earlier by the transit time of the packet
                // before it
                Crossing::MissedUpstream => {
                    (sent_ns.saturating_sub(*last_transit_ns), Seen::Passed)
                }
                Crossing::OutsideOverlap | Crossing::Undecided | Crossing::Forgotten => {
                    (sent_ns, Seen::Unknown)
                }
                Crossing::Duplicated | Crossing::OtherPath => continue,
            };
            // resets of a connection are identical: that some were lost is known, but not which
            let (outcome, transit_ns) = match packet.flags.has(PacketFlags::RST) {
                true => (Seen::Unknown, -1),
                false => (outcome, transit_ns),
            };
            if transit_ns >= 0 {
                *last_transit_ns = transit_ns;
            }
            let upstream = groups[place as usize].direction.upstream().unwrap_or(0);
            let ce = |side: usize| packet.tos[side] & 3 == 3;
            rows.push(Passage {
                arrival_ns,
                bytes: packet.ip_bytes,
                outcome,
                transit_ns: (transit_ns >= 0).then_some(transit_ns),
                flow: member,
                marked: packet.is_matched() && ce(1 - upstream) && !ce(upstream),
            });
        }
    }
    rows.into_iter().map(Passages::new).collect()
}
