//! The contents of a queue, and its limits.

use std::collections::VecDeque;

/// Capacity of a queue: packets, bytes, both (whichever is reached first), or unlimited.
///
/// As in Linux: a packet enters if the queue including it does not exceed the limit. Bytes include the
/// element's overhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    pub packets: Option<u64>,
    pub bytes: Option<u64>,
}

impl Limit {
    pub const NONE: Self = Self {
        packets: None,
        bytes: None,
    };

    pub fn packets(packets: u64) -> Self {
        Self {
            packets: Some(packets),
            bytes: None,
        }
    }

    pub fn bytes(bytes: u64) -> Self {
        Self {
            packets: None,
            bytes: Some(bytes),
        }
    }

    /// True if a packet of `bytes` may join `backlog`.
    #[inline]
    pub fn admits(self, backlog: Backlog, bytes: u64) -> bool {
        self.packets.is_none_or(|limit| backlog.packets < limit)
            && self
                .bytes
                .is_none_or(|limit| backlog.bytes.saturating_add(bytes) <= limit)
    }
}

/// The contents of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    pub packets: u64,
    /// With the overhead of each packet.
    pub bytes: u64,
}

/// The packets that take up a place in a queue, each until a time known at its arrival.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    /// (when the place is free, bytes), in that order.
    places: VecDeque<(i64, u64)>,
    bytes: u64,
    /// The latest time so far.
    now_ns: Option<i64>,
}

impl Places {
    pub fn clear(&mut self) {
        self.places.clear();
        self.bytes = 0;
        self.now_ns = None;
    }

    /// Advance to `time_ns`, or stay if time decreases; returns the current time. A place that becomes free
    /// in this very nanosecond is free.
    #[inline]
    pub fn advance(&mut self, time_ns: i64) -> i64 {
        let now_ns = self.now_ns.map_or(time_ns, |seen| seen.max(time_ns));
        self.now_ns = Some(now_ns);
        while let Some(&(free_ns, bytes)) = self.places.front() {
            if free_ns > now_ns {
                break;
            }
            self.places.pop_front();
            self.bytes -= bytes;
        }
        now_ns
    }

    /// Take up a place until `free_ns`, which is not before that of any packet ahead.
    #[inline]
    pub fn hold(&mut self, free_ns: i64, bytes: u64) {
        self.places.push_back((free_ns, bytes));
        self.bytes += bytes;
    }

    #[inline]
    pub fn backlog(&self) -> Backlog {
        Backlog {
            packets: self.places.len() as u64,
            bytes: self.bytes,
        }
    }
}
