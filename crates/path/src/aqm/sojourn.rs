//! The queue of CoDel, which all disciplines that drop by sojourn time share: packets, and the control law.

use std::collections::VecDeque;

use crate::{Decision, Outcome};

/// A waiting packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub packet: u64,
    pub arrived_ns: i64,
    pub bytes: u64,
    /// ECN-capable.
    pub capable: bool,
    /// Marked on arrival.
    pub marked: bool,
}

impl Waiting {
    pub fn lost_at(self, time_ns: i64) -> Decision {
        Decision {
            packet: self.packet,
            time_ns,
            outcome: Outcome::Dropped,
        }
    }

    /// Its transmission began at `start_ns` and ends at `time_ns`.
    pub fn sent_at(self, start_ns: i64, time_ns: i64, marked: bool) -> Decision {
        let outcome = Outcome::leaves(time_ns, marked);
        Decision {
            packet: self.packet,
            time_ns: start_ns,
            outcome,
        }
    }
}

/// The parameters of RFC 8289.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub target_ns: i64,
    pub interval_ns: i64,
    pub marks: bool,
    /// Bytes in other queues that count as backlog.
    pub beside_bytes: u64,
    /// As Linux (`codel_impl.h`), one step of Newton's method approximates the square root whenever the count changes:
    /// the second drop comes after half an interval, where the RFC has 0.71 of it.
    pub like_linux: bool,
}

impl Default for Settings {
    /// The RFC's 5 ms and 100 ms, dropping.
    fn default() -> Self {
        Self {
            target_ns: 5_000_000,
            interval_ns: 100_000_000,
            marks: false,
            beside_bytes: 0,
            like_linux: false,
        }
    }
}

/// The variables of RFC 8289, section 5.2, under their names there, and Linux's approximation of 1 over the square root
/// of the count.
#[derive(Debug, Clone, Copy, Default)]
struct Control {
    first_above_time_ns: Option<i64>,
    drop_next_ns: i64,
    count: u32,
    last_count: u32,
    dropping: bool,
    inverse_root: f64,
}

impl Control {
    fn set_count(&mut self, count: u32) {
        self.count = count;
        self.inverse_root = match count {
            0 | 1 => 1.0,
            _ => self.inverse_root * (1.5 - 0.5 * f64::from(count) * self.inverse_root.powi(2)),
        };
    }
}

/// With less than this in the queue no packet is dropped: the RFC's "maximum packet size".
const MAX_PACKET_BYTES: u64 = 1_514;

/// A FIFO with the state of CoDel (RFC 8289, section 5).
#[derive(Debug, Clone, Default)]
pub(super) struct SojournQueue {
    queue: VecDeque<Waiting>,
    bytes: u64,
    control: Control,
}

impl SojournQueue {
    pub fn push(&mut self, waiting: Waiting) {
        self.bytes += waiting.bytes;
        self.queue.push_back(waiting);
    }

    pub fn head(&self) -> Option<&Waiting> {
        self.queue.front()
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Remove the head, regardless of the law.
    pub fn pop(&mut self) -> Option<Waiting> {
        let head = self.queue.pop_front()?;
        self.bytes -= head.bytes;
        Some(head)
    }

    /// The RFC's `dodequeue`: the head of the queue, and whether it may be dropped.
    fn take_head(&mut self, now_ns: i64, settings: Settings) -> Option<(Waiting, bool)> {
        let Some(head) = self.pop() else {
            self.control.first_above_time_ns = None;
            return None;
        };
        let sojourn_ns = now_ns.saturating_sub(head.arrived_ns);
        if sojourn_ns < settings.target_ns || self.bytes + settings.beside_bytes <= MAX_PACKET_BYTES
        {
            self.control.first_above_time_ns = None;
            return Some((head, false));
        }
        match self.control.first_above_time_ns {
            None => {
                let first_ns = now_ns.saturating_add(settings.interval_ns);
                self.control.first_above_time_ns = Some(first_ns);
                Some((head, false))
            }
            Some(first_above_ns) => Some((head, now_ns >= first_above_ns)),
        }
    }

    /// The RFC's `dequeue`: the packet to send, and whether it is to be marked; dropped packets are added to
    /// `dropped`.
    pub fn dequeue(
        &mut self,
        now_ns: i64,
        settings: Settings,
        dropped: &mut Vec<Waiting>,
    ) -> Option<(Waiting, bool)> {
        let (mut head, mut may_drop) = self.take_head(now_ns, settings).or_else(|| {
            self.control.dropping = false;
            None
        })?;
        if self.control.dropping {
            self.control.dropping = may_drop;
            while self.control.dropping && now_ns >= self.control.drop_next_ns {
                self.control.set_count(self.control.count.saturating_add(1));
                if settings.marks && head.capable {
                    self.control.drop_next_ns =
                        self.control_law_ns(self.control.drop_next_ns, settings);
                    return Some((head, true));
                }
                dropped.push(head);
                (head, may_drop) = self.take_head(now_ns, settings).or_else(|| {
                    self.control.dropping = false;
                    None
                })?;
                self.control.dropping = may_drop;
                if may_drop {
                    self.control.drop_next_ns =
                        self.control_law_ns(self.control.drop_next_ns, settings);
                }
            }
            return Some((head, false));
        }
        if !may_drop {
            return Some((head, false));
        }
        self.start_dropping(now_ns, settings);
        if settings.marks && head.capable {
            return Some((head, true));
        }
        dropped.push(head);
        self.take_head(now_ns, settings)
            .map(|(next, _)| (next, false))
    }

    /// RFC 8289, section 5.3: the next drop comes an interval over the square root of the count later.
    fn control_law_ns(&self, from_ns: i64, settings: Settings) -> i64 {
        let interval_ns = settings.interval_ns as f64;
        let step_ns = match settings.like_linux {
            true => interval_ns * self.control.inverse_root,
            false => interval_ns / f64::from(self.control.count.max(1)).sqrt(),
        };
        from_ns.saturating_add((step_ns as i64).max(1))
    }

    /// Enter the dropping state; if it was left recently, at about the rate that worked then.
    fn start_dropping(&mut self, now_ns: i64, settings: Settings) {
        let control = &mut self.control;
        let delta = control.count.saturating_sub(control.last_count);
        let recent =
            now_ns.saturating_sub(control.drop_next_ns) < settings.interval_ns.saturating_mul(16);
        control.dropping = true;
        control.set_count(if delta > 1 && recent { delta } else { 1 });
        control.last_count = control.count;
        self.control.drop_next_ns = self.control_law_ns(now_ns, settings);
    }
}
