//! Echo requests (`ping`) and their replies (RFC 792; RFC 4443, section 4).

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use whydrop_capture::{Packet, Transport};

/// The most runs of echo requests followed, unanswered requests in one, and outcomes and packets kept for it.
const MOST_PINGS: usize = 1 << 10;
const MOST_WAITING: usize = 256;
const MOST_OUTCOMES: usize = 1 << 12;
const MOST_SHOWN: usize = 16;
/// The time to wait for a reply: ping waits for 1 s after its last request, other programs for up to 4 s.
const PATIENCE_NS: i64 = 1_000_000_000;
/// Numbers missing between two requests were lost before the capture, unless there are more than this.
const MOST_MISSING: u16 = 100;

type Key = (IpAddr, IpAddr, u16);

/// Echo requests from one host to another under one identifier.
#[derive(Debug, Clone)]
pub struct Pings {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub sent: u64,
    pub answered: u64,
    /// Numbers missing among the requests.
    pub missing: u64,
    /// Sent too close to the end of the capture for a reply.
    pub too_late: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    /// Largest hop limit of the requests, as captured.
    pub ttl: u8,
    /// For the first requests, in order: whether they had a reply.
    pub outcomes: Vec<bool>,
    /// Of the first replies, shortest first.
    pub round_trips_ns: Vec<i64>,
    /// Packets of requests without a reply.
    pub packets: Vec<u64>,
    waiting: VecDeque<Waiting>,
    latest: u16,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    number: u16,
    time_ns: i64,
    packet: u64,
    outcome: usize,
}

/// All echo requests of a capture.
#[derive(Debug, Default)]
pub(crate) struct Echoes {
    places: HashMap<Key, usize>,
    pings: Vec<Pings>,
    dropped: u64,
}

impl Echoes {
    pub fn take(&mut self, packet: &Packet) {
        let (Some(network), Transport::Icmp { kind, payload, .. }) =
            (&packet.network, packet.transport)
        else {
            return;
        };
        let is_reply = match (network.source.is_ipv4(), kind) {
            (true, 8) | (false, 128) => false,
            (true, 0) | (false, 129) => true,
            _ => return,
        };
        let Some(&[a, b, c, d]) = payload.first_chunk() else {
            return;
        };
        let (identifier, number) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let (source, destination) = (network.source, network.destination);
        if is_reply {
            let place = self.places.get(&(destination, source, identifier));
            if let Some(pings) = place.and_then(|place| self.pings.get_mut(*place)) {
                pings.reply(packet.time_ns, number);
            }
            return;
        }
        let key = (source, destination, identifier);
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None if self.pings.len() >= MOST_PINGS => {
                self.dropped += 1;
                return;
            }
            None => {
                self.places.insert(key, self.pings.len());
                self.pings
                    .push(Pings::new(source, destination, packet.time_ns));
                self.pings.len() - 1
            }
        };
        if let Some(pings) = self.pings.get_mut(place) {
            pings.request(
                packet.time_ns,
                packet.index.saturating_add(1),
                number,
                network.ttl,
            );
        }
    }

    /// Hop limit of the requests between two hosts, as captured.
    pub fn ttl(&self, source: IpAddr, destination: IpAddr, identifier: u16) -> Option<u8> {
        let place = self.places.get(&(source, destination, identifier))?;
        self.pings.get(*place).map(|pings| pings.ttl)
    }

    pub fn finish(mut self, now_ns: i64) -> (Vec<Pings>, u64) {
        for pings in &mut self.pings {
            pings.finish(now_ns);
        }
        (self.pings, self.dropped)
    }
}

impl Pings {
    fn new(source: IpAddr, destination: IpAddr, first_ns: i64) -> Self {
        Self {
            source,
            destination,
            sent: 0,
            answered: 0,
            missing: 0,
            too_late: 0,
            first_ns,
            last_ns: first_ns,
            ttl: 0,
            outcomes: Vec::new(),
            round_trips_ns: Vec::new(),
            packets: Vec::new(),
            waiting: VecDeque::new(),
            latest: 0,
        }
    }

    fn request(&mut self, time_ns: i64, packet: u64, number: u16, ttl: u8) {
        let step = number.wrapping_sub(self.latest);
        if self.sent > 0 && (2..=MOST_MISSING).contains(&step) {
            self.missing += u64::from(step - 1);
        }
        self.latest = number;
        self.sent += 1;
        self.last_ns = self.last_ns.max(time_ns);
        self.ttl = self.ttl.max(ttl);
        let outcome = self.outcomes.len();
        if outcome < MOST_OUTCOMES {
            self.outcomes.push(false);
        }
        if self.waiting.len() >= MOST_WAITING
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.show(oldest.packet);
        }
        self.waiting.push_back(Waiting {
            number,
            time_ns,
            packet,
            outcome,
        });
    }

    fn reply(&mut self, time_ns: i64, number: u16) {
        let place = self.waiting.iter().position(|one| one.number == number);
        let Some(request) = place.and_then(|place| self.waiting.remove(place)) else {
            return;
        };
        self.answered += 1;
        if let Some(outcome) = self.outcomes.get_mut(request.outcome) {
            *outcome = true;
            let took_ns = time_ns.saturating_sub(request.time_ns).max(0);
            self.round_trips_ns.push(took_ns);
        }
    }

    fn show(&mut self, packet: u64) {
        if self.packets.len() < MOST_SHOWN {
            self.packets.push(packet);
        }
    }

    fn finish(&mut self, now_ns: i64) {
        for request in std::mem::take(&mut self.waiting) {
            if now_ns.saturating_sub(request.time_ns) >= PATIENCE_NS {
                self.show(request.packet);
            } else {
                self.too_late += 1;
                self.outcomes.truncate(request.outcome);
            }
        }
        self.round_trips_ns.sort_unstable();
    }

    /// Requests that had enough time for a reply and got none.
    pub fn unanswered(&self) -> u64 {
        (self.sent - self.answered).saturating_sub(self.too_late)
    }
}
