//! The coming events in order of time; simultaneous ones in the order in which they were scheduled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An event. Numbers are indices into the simulation's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The client sends its SYN.
    Open {
        flow: usize,
    },
    /// The client requests the next chunk.
    Request {
        flow: usize,
    },
    /// The server's application writes.
    Write {
        flow: usize,
        left: u32,
    },
    ServerTimer {
        flow: usize,
    },
    ClientTimer {
        flow: usize,
    },
    /// A packet on the forward path reaches a stage, or the client.
    Reach {
        stage: usize,
        packet: usize,
    },
    /// An element has to make decisions.
    Poll {
        stage: usize,
    },
    /// A packet on the return path reaches the server.
    Return {
        packet: usize,
    },
    /// A source of cross traffic sends its next packet.
    Cross {
        source: usize,
    },
    /// A source of UDP packets sends its next packet.
    Datagram {
        source: usize,
    },
    /// A packet on the return path reaches the narrow link there.
    EnterBack {
        packet: usize,
    },
    /// That link has sent a packet.
    LeaveBack,
}

/// The coming events.
#[derive(Debug)]
pub struct Calendar<E> {
    heap: BinaryHeap<Reverse<(i64, u64, E)>>,
    scheduled: u64,
}

impl<E: Ord> Default for Calendar<E> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            scheduled: 0,
        }
    }
}

impl<E: Ord> Calendar<E> {
    pub fn at(&mut self, time_ns: i64, event: E) {
        self.heap.push(Reverse((time_ns, self.scheduled, event)));
        self.scheduled += 1;
    }

    /// The time of the next event.
    pub fn next_ns(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse((time_ns, _, _))| *time_ns)
    }

    pub fn pop(&mut self) -> Option<(i64, E)> {
        self.heap
            .pop()
            .map(|Reverse((time_ns, _, event))| (time_ns, event))
    }
}
