//! The common part of queues that decide when a transmission begins: the line, the clock, and pending
//! decisions.

use super::sojourn::Waiting;
use crate::transmitter::Transmitter;
use crate::{Arrival, Decision, Header, Outcome, PathElement};

/// A queue in front of a line. Times never decrease; packets are numbered from 0.
pub(super) trait Discipline: Clone {
    /// Add a packet; returns whether there is room. Packets dropped in its place are added to `dropped`.
    fn enqueue(&mut self, waiting: Waiting, header: Header, dropped: &mut Vec<Waiting>) -> bool;

    /// The packet with the next transmission, starting now, and whether it is to be marked; dropped packets
    /// are added to `dropped`. `None` only if no packet waits any more.
    fn dequeue(&mut self, now_ns: i64, dropped: &mut Vec<Waiting>) -> Option<(Waiting, bool)>;

    /// Number of waiting packets.
    fn waiting(&self) -> usize;

    fn reset(&mut self);
}

/// A discipline in front of its line.
#[derive(Debug, Clone)]
pub(super) struct Served<D> {
    pub discipline: D,
    line: Transmitter,
    pub overhead_bytes: u32,
    decided: Vec<Decision>,
    arrivals: u64,
    now_ns: i64,
    /// Arrival of the oldest waiting packet, if it arrived after the line was free: the next transmission
    /// begins then.
    first_wait_ns: i64,
}

impl<D: Discipline> Served<D> {
    pub fn new(drain_rate_bps: u64, discipline: D) -> Self {
        Self {
            discipline,
            line: Transmitter::new(drain_rate_bps),
            overhead_bytes: 0,
            decided: Vec::new(),
            arrivals: 0,
            now_ns: i64::MIN,
            first_wait_ns: i64::MIN,
        }
    }

    pub fn rate_bps(&self) -> u64 {
        self.line.rate_bps()
    }

    fn next_start_ns(&self) -> Option<i64> {
        (self.discipline.waiting() > 0).then(|| self.first_wait_ns.max(self.line.free_ns()))
    }

    fn advance(&mut self, now_ns: i64) {
        let mut dropped = Vec::new();
        while let Some(start_ns) = self.next_start_ns().filter(|&start_ns| start_ns <= now_ns) {
            let sent = self.discipline.dequeue(start_ns, &mut dropped);
            self.decided
                .extend(dropped.drain(..).map(|lost| lost.lost_at(start_ns)));
            if let Some((sent, marked)) = sent {
                let end_ns = self.line.send(start_ns, sent.bytes).end_ns;
                self.decided.push(sent.sent_at(start_ns, end_ns, marked));
            }
        }
    }
}

impl<D: Discipline> PathElement for Served<D> {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        self.arrive_with(packet, Header::default())
    }

    fn arrive_with(&mut self, packet: Arrival, header: Header) -> Outcome {
        self.now_ns = self.now_ns.max(packet.time_ns);
        self.advance(self.now_ns);
        let number = self.arrivals;
        self.arrivals += 1;
        if self.discipline.waiting() == 0 {
            self.first_wait_ns = self.now_ns;
        }
        let waiting = Waiting {
            packet: number,
            arrived_ns: self.now_ns,
            bytes: u64::from(packet.bytes) + u64::from(self.overhead_bytes),
            capable: header.ecn.is_capable(),
            marked: false,
        };
        let mut dropped = Vec::new();
        let taken = self.discipline.enqueue(waiting, header, &mut dropped);
        let now_ns = self.now_ns;
        self.decided
            .extend(dropped.into_iter().map(|lost| lost.lost_at(now_ns)));
        match taken {
            true => Outcome::Queued { packet: number },
            false => Outcome::Dropped,
        }
    }

    fn reset(&mut self) {
        let mut discipline = self.discipline.clone();
        discipline.reset();
        let overhead_bytes = self.overhead_bytes;
        *self = Self::new(self.line.rate_bps(), discipline);
        self.overhead_bytes = overhead_bytes;
    }

    fn next_event_ns(&self) -> Option<i64> {
        if self.decided.is_empty() {
            self.next_start_ns()
        } else {
            Some(self.now_ns)
        }
    }

    fn poll(&mut self, now_ns: i64, decided: &mut Vec<Decision>) {
        self.now_ns = self.now_ns.max(now_ns);
        self.advance(self.now_ns);
        decided.append(&mut self.decided);
    }

    fn decides_at_arrival(&self) -> bool {
        false
    }

    /// Flows overtake each other.
    fn keeps_order(&self) -> bool {
        false
    }
}

/// Make a public element of its [`Served`] discipline.
macro_rules! served_element {
    ($element:ty) => {
        impl $element {
            /// Bytes counted for each packet on top of the IP packet: see [`overhead`](crate::overhead).
            pub fn with_overhead(mut self, overhead_bytes: u32) -> Self {
                self.0.overhead_bytes = overhead_bytes;
                self
            }
        }

        impl crate::PathElement for $element {
            fn arrive(&mut self, packet: crate::Arrival) -> crate::Outcome {
                self.0.arrive(packet)
            }
            fn arrive_with(
                &mut self,
                packet: crate::Arrival,
                header: crate::Header,
            ) -> crate::Outcome {
                self.0.arrive_with(packet, header)
            }
            fn reset(&mut self) {
                self.0.reset();
            }
            fn next_event_ns(&self) -> Option<i64> {
                self.0.next_event_ns()
            }
            fn poll(&mut self, now_ns: i64, decided: &mut Vec<crate::Decision>) {
                self.0.poll(now_ns, decided);
            }
            fn decides_at_arrival(&self) -> bool {
                self.0.decides_at_arrival()
            }
            fn keeps_order(&self) -> bool {
                self.0.keeps_order()
            }
        }
    };
}
pub(super) use served_element;
