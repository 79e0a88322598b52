//! The receiving half of a TCP connection: what it acknowledges, when, and with what window.

use crate::segment::{Range, SackBlocks};

/// How a receiver behaves. Defaults are Linux's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReceiverConfig {
    /// Segments received in order for each acknowledgment (RFC 5681: 2; more with receive offload).
    pub segments_per_ack: u32,
    /// Linux's delayed acknowledgment timer.
    pub delayed_ack_ns: i64,
    /// Segments at the start of the connection that are acknowledged one by one (Linux: 16, so that slow start
    /// opens fast).
    pub quick_acks: u32,
    /// Largest receive buffer.
    pub buffer_bytes: u64,
    /// The window grows from this by twice of what arrives, up to the buffer.
    pub initial_window_bytes: u64,
    /// How fast the application reads; at once if `None`.
    pub read_rate_bps: Option<u64>,
    pub timestamps: bool,
    pub sack: bool,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self {
            segments_per_ack: 2,
            delayed_ack_ns: 40_000_000,
            quick_acks: 16,
            buffer_bytes: 6_291_456,
            initial_window_bytes: 64_240,
            read_rate_bps: None,
            timestamps: true,
            sack: true,
        }
    }
}

/// What an acknowledgment says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Acknowledgment {
    pub acknowledgment: u64,
    pub window_bytes: u64,
    pub sack: SackBlocks,
}

/// The receiving half of a connection. Give it data with [`on_data`](Self::on_data), wake it at its
/// [`deadline_ns`](Self::deadline_ns); whenever either returns true it wants an acknowledgment sent.
#[derive(Debug, Clone)]
pub struct Receiver {
    config: ReceiverConfig,
    mss: u64,
    next: u64,
    /// Data beyond `next`, as disjoint ranges, the most recently touched first.
    out_of_order: Vec<Range>,
    duplicate: Option<Range>,
    unacknowledged_segments: u32,
    quick_acks_left: u32,
    delayed_ack_at_ns: Option<i64>,
    /// In-order bytes the application has not read yet, at `read_at_ns`.
    unread_bytes: f64,
    read_at_ns: i64,
    /// Right edge of the window as last advertised: it never moves back (RFC 9293, 3.8.6).
    advertised: u64,
}

impl Receiver {
    /// `mss` is the payload of a full segment.
    pub fn new(config: ReceiverConfig, mss: u64) -> Self {
        Self {
            config,
            mss,
            next: 1,
            out_of_order: Vec::new(),
            duplicate: None,
            unacknowledged_segments: 0,
            quick_acks_left: config.quick_acks,
            delayed_ack_at_ns: None,
            unread_bytes: 0.0,
            read_at_ns: 0,
            advertised: 1 + config.initial_window_bytes,
        }
    }

    /// All data before this sequence number has arrived.
    pub fn received(&self) -> u64 {
        self.next
    }

    fn buffer_bytes(&self) -> u64 {
        (self.config.initial_window_bytes + 2 * (self.next - 1)).min(self.config.buffer_bytes)
    }

    /// Let the application read what it can until now.
    fn read(&mut self, now_ns: i64) {
        let elapsed_s = (now_ns - self.read_at_ns).max(0) as f64 / 1e9;
        self.read_at_ns = now_ns;
        self.unread_bytes = match self.config.read_rate_bps {
            Some(rate) => (self.unread_bytes - elapsed_s * rate as f64 / 8.0).max(0.0),
            None => 0.0,
        };
    }

    fn free_bytes(&self) -> u64 {
        self.buffer_bytes().saturating_sub(self.unread_bytes as u64)
    }

    /// A window opens again once it can take two segments or half the buffer (silly window avoidance, RFC 9293,
    /// 3.8.6.2.2).
    fn worthwhile_window(&self) -> u64 {
        (2 * self.mss).min(self.buffer_bytes() / 2)
    }

    /// Take a data segment, and say whether to acknowledge at once.
    pub fn on_data(&mut self, now_ns: i64, start: u64, end: u64) -> bool {
        self.read(now_ns);
        if end <= self.next
            || self
                .out_of_order
                .iter()
                .any(|range| range.0 <= start && end <= range.1)
        {
            self.duplicate = Some((start, end));
            return true;
        }
        if start > self.next {
            self.store((start, end));
            return true;
        }
        let fills_hole = !self.out_of_order.is_empty();
        self.unread_bytes += (end - self.next) as f64;
        self.next = end;
        self.absorb();
        self.unacknowledged_segments += 1;
        if fills_hole || self.unacknowledged_segments >= self.config.segments_per_ack {
            return true;
        }
        if self.quick_acks_left > 0 {
            self.quick_acks_left -= 1;
            return true;
        }
        self.delayed_ack_at_ns
            .get_or_insert(now_ns + self.config.delayed_ack_ns);
        false
    }

    /// Keep data beyond a hole, merged with what it touches, as the most recent range.
    fn store(&mut self, mut merged: Range) {
        self.out_of_order.retain(|range| {
            let touches = range.0 <= merged.1 && merged.0 <= range.1;
            if touches {
                merged = (merged.0.min(range.0), merged.1.max(range.1));
            }
            !touches
        });
        self.out_of_order.insert(0, merged);
    }

    /// Move over the ranges that are no longer beyond a hole.
    fn absorb(&mut self) {
        while let Some(place) = self
            .out_of_order
            .iter()
            .position(|range| range.0 <= self.next)
        {
            let range = self.out_of_order.remove(place);
            self.unread_bytes += range.1.saturating_sub(self.next) as f64;
            self.next = self.next.max(range.1);
        }
    }

    /// The acknowledgment to send now. What was delayed is thereby done.
    pub fn acknowledge(&mut self, now_ns: i64) -> Acknowledgment {
        self.read(now_ns);
        self.unacknowledged_segments = 0;
        self.delayed_ack_at_ns = None;
        self.advertised = self.advertised.max(self.next + self.free_bytes());
        let mut sack = SackBlocks::default();
        if self.config.sack {
            let room = if self.config.timestamps { 3 } else { 4 };
            let blocks = self
                .duplicate
                .take()
                .into_iter()
                .chain(self.out_of_order.iter().copied());
            blocks.take(room).for_each(|block| sack.push(block));
        }
        Acknowledgment {
            acknowledgment: self.next,
            window_bytes: self.advertised.saturating_sub(self.next),
            sack,
        }
    }

    /// When to wake up: for a delayed acknowledgment, or because reading has opened a closed window.
    pub fn deadline_ns(&self) -> Option<i64> {
        self.delayed_ack_at_ns
            .into_iter()
            .chain(self.window_opens_ns())
            .min()
    }

    fn window_opens_ns(&self) -> Option<i64> {
        let rate = self.config.read_rate_bps?;
        let wanted = self.worthwhile_window();
        if self.advertised.saturating_sub(self.next) >= wanted {
            return None;
        }
        let missing = wanted as f64 - (self.buffer_bytes() as f64 - self.unread_bytes);
        Some(self.read_at_ns + (missing.max(0.0) * 8e9 / rate as f64) as i64 + 1)
    }

    /// Say whether to acknowledge now that this time has come.
    pub fn on_timer(&mut self, now_ns: i64) -> bool {
        self.read(now_ns);
        let delayed = self
            .delayed_ack_at_ns
            .is_some_and(|due_ns| due_ns <= now_ns);
        let closed = self.advertised.saturating_sub(self.next) < self.worthwhile_window();
        delayed || (closed && self.free_bytes() >= self.worthwhile_window())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver() -> Receiver {
        Receiver::new(
            ReceiverConfig {
                quick_acks: 0,
                ..ReceiverConfig::default()
            },
            100,
        )
    }

    #[test]
    fn every_second_segment_is_acknowledged_and_a_single_one_after_40_ms() {
        let mut receiver = receiver();
        assert!(!receiver.on_data(0, 1, 101));
        assert!(receiver.on_data(1, 101, 201));
        assert_eq!(receiver.acknowledge(1).acknowledgment, 201);
        assert!(!receiver.on_data(10, 201, 301));
        assert_eq!(receiver.deadline_ns(), Some(40_000_010));
        assert!(receiver.on_timer(40_000_010));
    }

    #[test]
    fn holes_are_reported_with_the_most_recent_block_first_and_at_most_three() {
        let mut receiver = receiver();
        for start in [101, 301, 501, 701] {
            assert!(
                receiver.on_data(0, start, start + 100),
                "data beyond a hole is acknowledged at once"
            );
        }
        let ack = receiver.acknowledge(0);
        assert_eq!(ack.acknowledgment, 1);
        assert_eq!(ack.sack.as_slice(), [(701, 801), (501, 601), (301, 401)]);
        assert!(receiver.on_data(0, 201, 301));
        assert_eq!(
            receiver.acknowledge(0).sack.as_slice()[0],
            (101, 401),
            "merged with both neighbours"
        );
        assert!(receiver.on_data(0, 1, 101));
        assert_eq!(receiver.acknowledge(0).acknowledgment, 401);
    }

    #[test]
    fn a_duplicate_is_reported_once_and_first() {
        let mut receiver = receiver();
        receiver.on_data(0, 1, 101);
        receiver.on_data(0, 201, 301);
        assert!(receiver.on_data(0, 1, 101));
        assert_eq!(
            receiver.acknowledge(0).sack.as_slice(),
            [(1, 101), (201, 301)]
        );
        assert_eq!(receiver.acknowledge(0).sack.as_slice(), [(201, 301)]);
    }

    #[test]
    fn a_slow_reader_closes_the_window_and_opens_it_again() {
        // 1000 bytes of buffer, read at 8000 bit/s = 1000 bytes a second.
        let config = ReceiverConfig {
            buffer_bytes: 1_000,
            initial_window_bytes: 1_000,
            read_rate_bps: Some(8_000),
            segments_per_ack: 1,
            ..ReceiverConfig::default()
        };
        let mut receiver = Receiver::new(config, 100);
        (0..10).for_each(|i| _ = receiver.on_data(0, 1 + i * 100, 101 + i * 100));
        assert_eq!(receiver.acknowledge(0).window_bytes, 0);
        // Two segments are free after 0.2 s.
        let opens_ns = receiver.deadline_ns().unwrap();
        assert!((200_000_000..200_100_000).contains(&opens_ns), "{opens_ns}");
        assert!(receiver.on_timer(opens_ns));
        assert!((200..=201).contains(&receiver.acknowledge(opens_ns).window_bytes));
    }
}
