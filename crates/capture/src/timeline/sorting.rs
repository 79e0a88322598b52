//! Sorting of packets by timestamp, as far as memory permits.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::Waiting;

/// Memory for packets that wait for earlier ones.
pub(crate) const MOST_BYTES: usize = 128 << 20;

/// Buffered packets, earliest first.
pub(crate) struct Sorting<W> {
    heap: BinaryHeap<Place<W>>,
    bytes: usize,
    /// Latest time returned, and the number of packets that arrived too late for their position.
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

/// A packet with its time, and its position in the file for equal times.
struct Place<W> {
    time_ns: i64,
    number: u64,
    bytes: usize,
    packet: W,
}

impl<W: Waiting> Sorting<W> {
    /// True if the memory is used up.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= MOST_BYTES
    }

    /// Adds the packet with this number in the file, which needs this much memory.
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

    /// Removes the earliest packet.
    pub(crate) fn pop(&mut self) -> Option<W> {
        let place = self.heap.pop()?;
        self.bytes -= place.bytes;
        self.latest_ns = self.latest_ns.max(place.time_ns);
        Some(place.packet)
    }
}

impl<W> Ord for Place<W> {
    /// The earliest is the greatest, which a heap returns first.
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
