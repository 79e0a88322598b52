//! Packets put in the order of their stamps, as far as memory for the disorder allows.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::Waiting;

/// Memory of packets that wait for earlier ones.
pub(crate) const MOST_BYTES: usize = 128 << 20;

/// Packets that wait, the earliest of them first.
pub(crate) struct Sorting<W> {
    heap: BinaryHeap<Place<W>>,
    bytes: usize,
    /// Latest time that was given, and packets that came too late for their place.
    latest_ns: i64,
    pub(crate) too_late: u64,
}

impl<W> Default for Sorting<W> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            bytes: 0,
            latest_ns: i64::MIN,
            too_late: 0,
        }
    }
}

/// A packet by its time, and by its place in the file where times are equal.
struct Place<W> {
    time_ns: i64,
    number: u64,
    bytes: usize,
    packet: W,
}

impl<W: Waiting> Sorting<W> {
    /// True if no more fits.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= MOST_BYTES
    }

    /// Takes the packet of this number in the file, which needs so much memory.
    pub(crate) fn push(&mut self, packet: W, number: u64, bytes: usize) {
        let time_ns = packet.stamped_ns();
        if time_ns < self.latest_ns {
            self.too_late += 1;
        }
        self.bytes += bytes;
        self.heap.push(Place {
            time_ns,
            number,
            bytes,
            packet,
        });
    }

    /// The earliest packet that waits.
    pub(crate) fn pop(&mut self) -> Option<W> {
        let place = self.heap.pop()?;
        self.bytes -= place.bytes;
        self.latest_ns = self.latest_ns.max(place.time_ns);
        Some(place.packet)
    }
}

impl<W> Ord for Place<W> {
    /// The earliest is the greatest: what a heap gives first.
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |place: &Self| (place.time_ns, place.number);
        key(other).cmp(&key(self))
    }
}

impl<W> PartialOrd for Place<W> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<W> PartialEq for Place<W> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<W> Eq for Place<W> {}
