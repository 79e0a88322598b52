//! A TCP transfer over a path with two capture points: sender, point 1, the path, point 2, receiver.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::net::{IpAddr, Ipv4Addr};

use super::wire::{Body, Passing, Wire};
use super::{Journey, Scene};
use crate::Crossing;

const ACK: u16 = 0x10;
const SYN: u16 = 0x02;
const FIN: u16 = 0x01;
const US: i64 = 1_000;
const MS: i64 = 1_000_000;

/// Numbers without a pattern (xorshift, Marsaglia 2003), the same in every run.
#[derive(Debug, Clone)]
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.below(1 << 32) as f64 / (1u64 << 32) as f64 <= probability && probability > 0.0
    }
}

/// Events that affect packets between the points and at them.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    /// Time from point 1 to 2, and from 2 to 1.
    pub transit_ns: [i64; 2],
    /// Random addition of up to this, in order.
    pub jitter_ns: i64,
    /// Probability that a packet is delayed so that others overtake it.
    pub reordered: f64,
    /// Probabilities of loss between the points, by direction.
    pub lost: [f64; 2],
    /// Probability of loss beyond point 2, for data.
    pub lost_beyond: f64,
    /// Probability that a capture misses a packet.
    pub missed: [f64; 2],
    pub seed: u64,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            transit_ns: [2 * MS, 2 * MS],
            jitter_ns: 50 * US,
            reordered: 0.0,
            lost: [0.0; 2],
            lost_beyond: 0.0,
            missed: [0.0; 2],
            seed: 0x1234_5678_9abc_def1,
        }
    }
}

/// One connection with data from the client.
#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    pub client: (IpAddr, u16),
    pub server: (IpAddr, u16),
    pub start_ns: i64,
    pub segments: u32,
    pub segment_bytes: u32,
    /// After this many segments, one is shorter by [`SHORTER_BYTES`]; 0 for none.
    pub short_every: u32,
    /// Interval between segments.
    pub gap_ns: i64,
    pub handshake: bool,
    pub timestamps: bool,
    /// Number packets; otherwise the identification is 0.
    pub numbered: bool,
    pub first_sequence: u32,
}

impl Default for Transfer {
    fn default() -> Self {
        Self {
            client: (IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1)), 40_000),
            server: (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), 443),
            start_ns: 1_700_000_000_000_000_000,
            segments: 500,
            segment_bytes: 1448,
            short_every: 0,
            gap_ns: 200 * US,
            handshake: true,
            timestamps: true,
            numbered: true,
            first_sequence: 0xffff_0000,
        }
    }
}

/// Difference of short segments from full ones.
const SHORTER_BYTES: u32 = 24;

/// The next event.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The receiver gets segment `0`.
    Arrives(u32),
    /// The sender gets an acknowledgment of everything below `0`, and of `1` selectively.
    Acknowledged(u32, Vec<u32>),
    /// The sender sends segment `0` for the first time.
    Sends(u32),
    /// No acknowledgment of segment `0`, sent `1` times, arrived.
    TimesOut(u32, u32),
}

struct Simulation<'a> {
    path: &'a Path,
    transfer: &'a Transfer,
    random: Random,
    journeys: Vec<Journey>,
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    event_number: u64,
    identifications: [u16; 2],
    /// Latest time at which a packet left the path, by direction: it preserves the order.
    left_ns: [i64; 2],
    received: BTreeSet<u32>,
    expected: u32,
    /// All segments below are acknowledged, and these above.
    below: u32,
    acknowledged: BTreeSet<u32>,
    /// Transmissions and last time of sending of each segment.
    sent: Vec<(u32, i64)>,
}

/// Time between a point and its end.
const ACCESS_NS: i64 = 500 * US;
const RESEND_AFTER_NS: i64 = 12 * MS;

impl Path {
    /// Sends the transfers over the path and returns what each capture holds.
    pub(crate) fn carry(&self, transfers: &[Transfer]) -> Scene {
        let mut journeys = Vec::new();
        for (number, transfer) in transfers.iter().enumerate() {
            let mut simulation = Simulation {
                path: self,
                transfer,
                random: Random(self.seed ^ (number as u64 + 1) << 40),
                journeys: Vec::new(),
                events: BinaryHeap::new(),
                event_number: 0,
                identifications: [100, 20_000],
                left_ns: [0; 2],
                received: BTreeSet::new(),
                expected: 0,
                below: 0,
                acknowledged: BTreeSet::new(),
                sent: vec![(0, 0); transfer.segments as usize],
            };
            simulation.run();
            journeys.extend(simulation.journeys);
        }
        Scene::new(journeys)
    }
}

impl Simulation<'_> {
    fn run(&mut self) {
        let mut start = self.transfer.start_ns;
        if self.transfer.handshake {
            for (direction, flags, after) in [(0, SYN, 0), (1, SYN | ACK, 5), (0, ACK, 10)] {
                let body = self.handshake_body(direction, flags);
                self.pass(direction, start + after * MS, body, true);
            }
            start += 15 * MS;
        }
        for segment in 0..self.transfer.segments {
            self.at(
                start + i64::from(segment) * self.transfer.gap_ns,
                Event::Sends(segment),
            );
        }
        let mut end = start;
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            if !matches!(event, Event::TimesOut(..)) {
                end = now;
            }
            match event {
                Event::Sends(segment) => self.send(now, segment),
                Event::Arrives(segment) => self.arrive(now, segment),
                Event::Acknowledged(below, selectively) => {
                    self.on_acknowledgment(now, below, &selectively);
                }
                Event::TimesOut(segment, times) => {
                    let waiting = self.sent[segment as usize].0 == times;
                    if waiting && !self.is_acknowledged(segment) {
                        self.send(now, segment);
                    }
                }
            }
        }
        // both captures continue past the last data
        for (direction, after) in [(0, 20), (1, 25), (0, 30)] {
            let body = self.closing_body(direction);
            self.pass(direction, end + after * MS, body, true);
        }
    }

    fn closing_body(&self, direction: usize) -> Body {
        let end = self.sequence_of(self.transfer.segments);
        let (sequence, acknowledgment) = if direction == 0 {
            (end, 4001)
        } else {
            (4001, end.wrapping_add(1))
        };
        Body::Tcp {
            sequence,
            acknowledgment,
            flags: FIN | ACK,
            window: 64_000,
            timestamps: self.timestamps(self.transfer.start_ns),
            mss: None,
            sack: Vec::new(),
            payload_bytes: 0,
        }
    }

    fn at(&mut self, time: i64, event: Event) {
        self.event_number += 1;
        self.events.push(Reverse((time, self.event_number, event)));
    }

    fn sequence_of(&self, segment: u32) -> u32 {
        let short = segment.checked_div(self.transfer.short_every).unwrap_or(0);
        let offset = segment
            .wrapping_mul(self.transfer.segment_bytes)
            .wrapping_sub(short * SHORTER_BYTES);
        self.transfer
            .first_sequence
            .wrapping_add(1)
            .wrapping_add(offset)
    }

    fn timestamps(&self, now: i64) -> Option<(u32, u32)> {
        let ticks = (now / MS) as u32;
        self.transfer
            .timestamps
            .then_some((ticks, ticks.wrapping_add(77)))
    }

    fn handshake_body(&self, direction: usize, flags: u16) -> Body {
        Body::Tcp {
            sequence: match (direction, flags) {
                (0, SYN) => self.transfer.first_sequence,
                (0, _) => self.transfer.first_sequence.wrapping_add(1),
                _ => 4000,
            },
            acknowledgment: match (direction, flags) {
                (0, SYN) => 0,
                (0, _) => 4001,
                _ => self.transfer.first_sequence.wrapping_add(1),
            },
            flags,
            window: 64_000,
            timestamps: self.timestamps(self.transfer.start_ns),
            mss: (flags & SYN != 0).then_some(1460),
            sack: Vec::new(),
            payload_bytes: 0,
        }
    }

    fn send(&mut self, now: i64, segment: u32) {
        let body = Body::Tcp {
            sequence: self.sequence_of(segment),
            acknowledgment: 4001,
            flags: ACK,
            window: 64_000,
            timestamps: self.timestamps(now),
            mss: None,
            sack: Vec::new(),
            payload_bytes: self
                .sequence_of(segment + 1)
                .wrapping_sub(self.sequence_of(segment)),
        };
        let sent = &mut self.sent[segment as usize];
        *sent = (sent.0 + 1, now);
        let times = sent.0;
        if let Some(arrival) = self.pass(0, now, body, false) {
            self.at(arrival, Event::Arrives(segment));
        }
        let round_trip_ns: i64 = self.path.transit_ns.iter().sum();
        self.at(
            now + round_trip_ns + 250 * MS + (i64::from(times) * 100 * MS),
            Event::TimesOut(segment, times),
        );
    }

    fn arrive(&mut self, now: i64, segment: u32) {
        self.received.insert(segment);
        while self.received.remove(&self.expected) {
            self.expected += 1;
        }
        let above: Vec<u32> = self.received.iter().copied().collect();
        let sack: Vec<(u32, u32)> = above
            .iter()
            .rev()
            .take(3)
            .map(|&segment| (self.sequence_of(segment), self.sequence_of(segment + 1)))
            .collect();
        let body = Body::Tcp {
            sequence: 4001,
            acknowledgment: self.sequence_of(self.expected),
            flags: ACK,
            window: 64_000,
            timestamps: self.timestamps(now),
            mss: None,
            sack,
            payload_bytes: 0,
        };
        let below = self.expected;
        if let Some(arrival) = self.pass(1, now, body, false) {
            let selectively = above.into_iter().rev().take(3).collect();
            self.at(arrival, Event::Acknowledged(below, selectively));
        }
    }

    fn is_acknowledged(&self, segment: u32) -> bool {
        segment < self.below || self.acknowledged.contains(&segment)
    }

    fn on_acknowledgment(&mut self, now: i64, below: u32, selectively: &[u32]) {
        self.below = self.below.max(below);
        self.acknowledged.extend(selectively);
        self.acknowledged = self.acknowledged.split_off(&self.below);
        let Some(&highest) = self.acknowledged.last() else {
            return;
        };
        let below = self.below;
        // three segments above a hole, and no information about the hole for a round trip
        for hole in below..highest.saturating_sub(3) {
            let (_, sent) = self.sent[hole as usize];
            if !self.is_acknowledged(hole) && now - sent > RESEND_AFTER_NS {
                self.send(now, hole);
            }
        }
    }

    /// A packet leaves its end at `now`; returns when it arrives at the other, if it does. Direction 0 is the
    /// client's.
    fn pass(&mut self, direction: usize, now: i64, body: Body, safe: bool) -> Option<i64> {
        let identification = &mut self.identifications[direction];
        *identification = identification.wrapping_add(1);
        let identification = if self.transfer.numbered {
            *identification
        } else {
            0
        };
        let (source, destination) = match direction {
            0 => (self.transfer.client, self.transfer.server),
            _ => (self.transfer.server, self.transfer.client),
        };
        let wire = Wire {
            source,
            destination,
            ttl: 64,
            tos: 0,
            identification,
            body,
        };
        let path = self.path;
        let lost = !safe && self.random.chance(path.lost[direction]);
        let lost_beyond = !safe && direction == 0 && self.random.chance(path.lost_beyond);
        let missed = [0, 1].map(|side| !safe && self.random.chance(path.missed[side]));
        let jitter = self.random.below(path.jitter_ns.max(1) as u64) as i64;
        let before_ns = now + ACCESS_NS;
        let mut after_ns = before_ns + path.transit_ns[direction] + jitter;
        if !safe && self.random.chance(path.reordered) {
            after_ns += MS;
        } else {
            // queues preserve the order
            after_ns = after_ns.max(self.left_ns[direction] + 1);
            self.left_ns[direction] = after_ns;
        }
        let passing = |time_ns: i64, hops: u8| Passing {
            time_ns,
            order_ns: time_ns,
            wire: Wire {
                ttl: wire.ttl - hops,
                ..wire.clone()
            },
        };
        let (upstream, downstream) = (direction, 1 - direction);
        let mut seen = [None, None];
        seen[upstream] = (!missed[upstream]).then(|| passing(before_ns, 1));
        seen[downstream] = (!lost && !missed[downstream]).then(|| passing(after_ns, 2));
        let crossing = match (&seen[upstream], &seen[downstream], lost) {
            (Some(_), Some(_), _) => Crossing::Matched,
            (_, None, true) => Crossing::Lost,
            (_, None, false) => Crossing::MissedDownstream,
            (None, Some(_), _) => Crossing::MissedUpstream,
        };
        self.journeys.push(Journey { seen, crossing });
        (!lost && !lost_beyond).then_some(after_ns + ACCESS_NS)
    }
}
