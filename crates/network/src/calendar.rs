//! The coming events in order of time; simultaneous ones in the order in which they were scheduled.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// An event. Numbers are indices into the simulation's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    heap: BinaryHeap<Entry<E>>,
    scheduled: u64,
}

/// An event with its place in the order: a heap returns the greatest first, so the earliest is the greatest.
#[derive(Debug)]
struct Entry<E> {
    time_ns: i64,
    number: u64,
    event: E,
}

impl<E> Entry<E> {
    fn place(&self) -> (i64, u64) {
        (self.time_ns, self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.place().cmp(&self.place())
    }
}

impl<E> Default for Calendar<E> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            scheduled: 0,
        }
    }
}

impl<E> Calendar<E> {
    pub fn at(&mut self, time_ns: i64, event: E) {
        let number = self.scheduled;
        self.scheduled += 1;
        self.heap.push(Entry {
            time_ns,
            number,
            event,
        });
    }

    /// The time of the next event.
    pub fn next_ns(&self) -> Option<i64> {
        self.heap.peek().map(|entry| entry.time_ns)
    }

    pub fn pop(&mut self) -> Option<(i64, E)> {
        self.heap.pop().map(|entry| (entry.time_ns, entry.event))
    }
}
