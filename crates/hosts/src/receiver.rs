//! The receiving half of a TCP connection: what it acknowledges, when, and with which window.

use crate::autotuning::Autotuning;
use crate::segment::{Range, SackBlocks, join};

/// The behaviour of a receiver. Defaults are Linux's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReceiverConfig {
    /// In-order segments for each acknowledgment (RFC 5681: 2; more with receive offload).
    pub segments_per_ack: u32,
    /// Linux's delayed acknowledgment timer.
    pub delayed_ack_ns: i64,
    /// Receive offload gives on what it has when no further segment comes for this time; two segments or more are
    /// acknowledged then. `None`: fewer than `segments_per_ack` wait for the timer.
    pub offload_waits_ns: Option<i64>,
    /// Segments at the start of the connection that are acknowledged singly (Linux: 16, so that slow start opens
    /// quickly).
    pub quick_acks: u32,
    /// Largest receive buffer.
    pub buffer_bytes: u64,
    /// The window grows from this by twice the arriving data, up to the buffer.
    pub initial_window_bytes: u64,
    /// The window grows as Linux's does, and each segment that lets it grow is acknowledged.
    pub autotunes: bool,
    /// How fast the application reads; immediately if `None`.
    pub read_rate_bps: Option<u64>,
    pub timestamps: bool,
    pub sack: bool,
    /// The application stops reading once this much has arrived, for this long.
    pub stops_reading: Option<StopsReading>,
}

/// An application that stops reading for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopsReading {
    pub after_bytes: u64,
    pub for_ns: i64,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self {
            segments_per_ack: 2,
            delayed_ack_ns: 40_000_000,
            offload_waits_ns: None,
            quick_acks: 16,
            buffer_bytes: 6_291_456,
            initial_window_bytes: 64_240,
            autotunes: false,
            read_rate_bps: None,
            timestamps: true,
            sack: true,
            stops_reading: None,
        }
    }
}

/// Contents of an acknowledgment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Acknowledgment {
    pub acknowledgment: u64,
    pub window_bytes: u64,
    pub sack: SackBlocks,
    /// How long it was delayed.
    pub delay_ns: i64,
}

/// The receiving half of a connection. Give it data with [`on_data`](Self::on_data), wake it at its
/// [`deadline_ns`](Self::deadline_ns); whenever either returns true, send an acknowledgment.
#[derive(Debug, Clone)]
pub struct Receiver {
    config: ReceiverConfig,
    mss: u64,
    next: u64,
    /// Data beyond `next`, as disjoint ranges, the most recently changed first.
    out_of_order: Vec<Range>,
    duplicate: Option<Range>,
    unacknowledged_segments: u32,
    quick_acks_left: u32,
    /// An acknowledgment that waits: since when, and until when.
    waiting_ack_ns: Option<(i64, i64)>,
    /// In-order bytes that the application has not read yet, at `read_at_ns`.
    unread_bytes: f64,
    read_at_ns: i64,
    /// The span in which the application does not read.
    stopped: Option<(i64, i64)>,
    last_data_ns: i64,
    autotuning: Option<Autotuning>,
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
            waiting_ack_ns: None,
            unread_bytes: 0.0,
            read_at_ns: 0,
            stopped: None,
            last_data_ns: i64::MIN,
            autotuning: (config.autotunes)
                .then(|| Autotuning::new(config.initial_window_bytes, config.buffer_bytes, mss)),
            advertised: 1 + config.initial_window_bytes,
        }
    }

    /// All data before this sequence number has arrived.
    pub fn received(&self) -> u64 {
        self.next
    }

    fn buffer_bytes(&self) -> u64 {
        if let Some(autotuning) = &self.autotuning {
            return autotuning.window_bytes();
        }
        (self.config.initial_window_bytes + 2 * (self.next - 1)).min(self.config.buffer_bytes)
    }

    /// Adds the time of the acknowledgment that a data segment echoes.
    pub fn on_echo(&mut self, now_ns: i64, echo_ns: i64) {
        if let Some(autotuning) = &mut self.autotuning {
            autotuning.on_echo(now_ns, echo_ns);
        }
    }

    /// Lets the application read as much as it can until now.
    fn read(&mut self, now_ns: i64) {
        let mut elapsed_ns = now_ns - self.read_at_ns;
        if let Some((from_ns, until_ns)) = self.stopped {
            elapsed_ns -= (now_ns.min(until_ns) - self.read_at_ns.max(from_ns)).max(0);
        }
        self.read_at_ns = now_ns;
        let reads = self.stopped.is_none_or(|(_, until_ns)| now_ns >= until_ns);
        self.unread_bytes = match self.config.read_rate_bps {
            Some(rate) => {
                let read_bytes = elapsed_ns.max(0) as f64 / 1e9 * rate as f64 / 8.0;
                (self.unread_bytes - read_bytes).max(0.0)
            }
            None if reads => 0.0,
            None => self.unread_bytes,
        };
    }

    /// Stops the application's reading once the configured amount has arrived.
    fn stop_reading(&mut self, now_ns: i64) {
        if let (Some(stops), None) = (self.config.stops_reading, self.stopped)
            && self.next > stops.after_bytes
        {
            self.stopped = Some((now_ns, now_ns.saturating_add(stops.for_ns)));
        }
    }

    fn free_bytes(&self) -> u64 {
        self.buffer_bytes().saturating_sub(self.unread_bytes as u64)
    }

    /// True if a window can reopen: with room for two segments or half the buffer (silly window avoidance, RFC 9293,
    /// 3.8.6.2.2).
    fn worthwhile_window(&self) -> u64 {
        (2 * self.mss).min(self.buffer_bytes() / 2)
    }

    /// Processes a data segment; returns whether to acknowledge immediately.
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
        // the acknowledgment of a retransmission counts as delayed until then
        self.last_data_ns = now_ns;
        let received = if start > self.next { self.next } else { end };
        let (autotuning, mss) = (self.autotuning.as_mut(), self.mss);
        if autotuning.is_some_and(|window| window.on_data(now_ns, received, mss)) {
            self.quick_acks_left = self.quick_acks_left.max(1);
        }
        if start > self.next {
            self.store((start, end));
            return true;
        }
        let fills_hole = !self.out_of_order.is_empty();
        self.unread_bytes += (end - self.next) as f64;
        self.next = end;
        self.absorb();
        self.stop_reading(now_ns);
        self.unacknowledged_segments += 1;
        if fills_hole || self.unacknowledged_segments >= self.config.segments_per_ack {
            return true;
        }
        if self.quick_acks_left > 0 {
            self.quick_acks_left -= 1;
            return true;
        }
        self.delay_acknowledgment(now_ns);
        false
    }

    fn delay_acknowledgment(&mut self, now_ns: i64) {
        let timer = (now_ns, now_ns + self.config.delayed_ack_ns);
        let (_, until_ns) = self.waiting_ack_ns.get_or_insert(timer);
        if self.unacknowledged_segments > 1
            && let Some(wait_ns) = self.config.offload_waits_ns
        {
            *until_ns = now_ns + wait_ns;
        }
    }

    /// Stores data beyond a hole, merged with adjacent ranges, as the most recent range.
    fn store(&mut self, range: Range) {
        let joined = join(&mut self.out_of_order, range);
        self.out_of_order.insert(0, joined);
    }

    /// Advances over the ranges that are no longer beyond a hole.
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

    /// Returns the acknowledgment to send now, which also covers a delayed one.
    pub fn acknowledge(&mut self, now_ns: i64) -> Acknowledgment {
        self.read(now_ns);
        self.unacknowledged_segments = 0;
        // An acknowledgment that newly arrived data requires is not delayed, even if an earlier one was.
        let delay_ns = match self.waiting_ack_ns.take() {
            Some((since_ns, _)) if self.last_data_ns != now_ns => now_ns - since_ns,
            _ => 0,
        };
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
            delay_ns,
        }
    }

    /// When to wake up: for a delayed acknowledgment, or because reading has reopened a closed window.
    pub fn deadline_ns(&self) -> Option<i64> {
        let delayed = self.waiting_ack_ns.map(|(_, until_ns)| until_ns);
        delayed.into_iter().chain(self.window_opens_ns()).min()
    }

    fn window_opens_ns(&self) -> Option<i64> {
        let wanted = self.worthwhile_window();
        if self.advertised.saturating_sub(self.next) >= wanted {
            return None;
        }
        let starts_ns = match self.stopped {
            Some((_, until_ns)) if until_ns > self.read_at_ns => until_ns,
            _ => self.read_at_ns,
        };
        let Some(rate) = self.config.read_rate_bps else {
            return self.stopped.map(|_| starts_ns);
        };
        let missing = wanted as f64 - (self.buffer_bytes() as f64 - self.unread_bytes);
        Some(starts_ns.saturating_add((missing.max(0.0) * 8e9 / rate as f64) as i64 + 1))
    }

    /// True where an acknowledgment is due at this time.
    pub fn on_timer(&mut self, now_ns: i64) -> bool {
        self.read(now_ns);
        let delayed = (self.waiting_ack_ns).is_some_and(|(_, until_ns)| until_ns <= now_ns);
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
    fn segments_that_receive_offload_joins_are_acknowledged_when_their_burst_ends() {
        let config = ReceiverConfig {
            segments_per_ack: 4,
            offload_waits_ns: Some(100_000),
            quick_acks: 0,
            ..ReceiverConfig::default()
        };
        let mut receiver = Receiver::new(config, 100);
        let burst = [(1, 0), (101, 9), (201, 18)];
        assert!(
            burst
                .iter()
                .all(|&(at, now_ns)| !receiver.on_data(now_ns, at, at + 100))
        );
        assert_eq!(receiver.deadline_ns(), Some(100_018));
        assert!(receiver.on_timer(100_018));
        assert_eq!(receiver.acknowledge(100_018).acknowledgment, 301);
        // A single one waits for a second.
        assert!(!receiver.on_data(200_000, 301, 401));
        assert_eq!(receiver.deadline_ns(), Some(40_200_000));
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

    #[test]
    fn an_application_that_stops_reading_closes_the_window_for_as_long_as_it_stops() {
        let config = ReceiverConfig {
            buffer_bytes: 1_000,
            initial_window_bytes: 1_000,
            segments_per_ack: 1,
            stops_reading: Some(StopsReading {
                after_bytes: 200,
                for_ns: 3_000_000_000,
            }),
            ..ReceiverConfig::default()
        };
        let mut receiver = Receiver::new(config, 100);
        receiver.on_data(0, 1, 101);
        assert_eq!(receiver.acknowledge(0).window_bytes, 1_000);
        // It stops with the second segment; that and nine more fill the buffer.
        (1..11).for_each(|i| _ = receiver.on_data(5, 1 + i * 100, 101 + i * 100));
        assert_eq!(receiver.acknowledge(5).window_bytes, 0);
        assert_eq!(receiver.deadline_ns(), Some(3_000_000_005));
        assert!(receiver.on_timer(3_000_000_005));
        assert_eq!(receiver.acknowledge(3_000_000_005).window_bytes, 1_000);
    }

    #[test]
    fn an_acknowledgment_says_for_how_long_it_was_delayed() {
        let mut receiver = receiver();
        receiver.on_data(0, 1, 101);
        assert_eq!(receiver.acknowledge(40_000_000).delay_ns, 40_000_000);
        receiver.on_data(50_000_000, 101, 201);
        receiver.on_data(60_000_000, 201, 301);
        assert_eq!(
            receiver.acknowledge(60_000_000).delay_ns,
            0,
            "the second segment requires it"
        );
    }
}
