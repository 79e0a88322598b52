//! Closed windows for which the sender waited.

use super::Half;
use super::transmissions::DataPacket;

/// Data that follows the opening of a window within this time had waited for it: the shortest persist timer (Linux's
/// minimum timeout), or two round trips if they are longer.
const WAITED_NS: f64 = 200e6;

impl Half {
    /// Checks the window after an acknowledgment that advertises it.
    pub fn judge_window(&mut self, now_ns: i64, syn: bool) {
        if syn {
            return;
        }
        let is_closed = match self.window_bytes {
            _ if self.window_raw == 0 => true,
            Some(window) => {
                self.closed.largest_bytes = self.closed.largest_bytes.max(window);
                let edge = self.acknowledged + window;
                self.closed.right_edge = self.closed.right_edge.max(Some(edge));
                self.is_silly(window)
            }
            None => false,
        };
        match (self.closed.since_ns, is_closed) {
            (None, true) => {
                self.closed.since_ns = Some(now_ns);
                self.closed.undecided = None;
            }
            (Some(since_ns), false) => {
                if std::mem::take(&mut self.closed.has_data_waiting) {
                    self.count_closed(since_ns, now_ns);
                } else {
                    self.closed.undecided = Some((since_ns, now_ns));
                }
                self.closed.since_ns = None;
            }
            _ => {}
        }
    }

    /// True for a window so small that a sender waits: less than a full segment, and less than half of the largest
    /// window (RFC 9293, section 3.8.6.2.1).
    fn is_silly(&self, window: i64) -> bool {
        window < i64::from(self.segment_size()) && 2 * window < self.closed.largest_bytes
    }

    /// True if data at `start` lies beyond all that the receiver ever allowed, while its window is zero and all earlier
    /// data is acknowledged: a probe, which may be as large as a segment.
    pub fn is_beyond_window(&self, start: i64) -> bool {
        self.window_raw == 0
            && self.acknowledgment_seen
            && self.proven == Some(start)
            && self.closed.right_edge.is_some_and(|edge| start >= edge)
    }

    /// Registers a probe that ends at `end`.
    pub fn on_window_probe(&mut self, end: i64) {
        self.closed.probed_to = self.closed.probed_to.max(end);
        self.flow.counters.window_probes += 1;
        self.closed.has_data_waiting |= self.closed.since_ns.is_some();
    }

    /// Registers data sent into a window that has been closed for a while, or after one opened.
    pub fn on_data_and_window(&mut self, packet: &DataPacket) {
        if let Some(since_ns) = self.closed.since_ns {
            // data that follows sooner left before the sender knew of the window
            let knows_ns = (self.near_rtt_ns as f64).max(self.smoothed_rtt_ns) as i64;
            self.closed.has_data_waiting |= packet.time_ns.saturating_sub(since_ns) > knows_ns;
        }
        if let Some((since_ns, opened_ns)) = self.closed.undecided.take() {
            let after_ns = packet.time_ns.saturating_sub(opened_ns) as f64;
            if after_ns <= WAITED_NS.max(2.0 * self.smoothed_rtt_ns) {
                self.count_closed(since_ns, opened_ns);
            }
        }
    }

    /// Registers that the connection, or the capture, ended at `end_ns`.
    pub fn end_closed_window(&mut self, end_ns: i64) {
        if let Some(since_ns) = self
            .closed
            .since_ns
            .filter(|_| self.closed.has_data_waiting)
        {
            self.count_closed(since_ns, end_ns);
        }
    }

    fn count_closed(&mut self, since_ns: i64, until_ns: i64) {
        self.flow.counters.window_closures += 1;
        self.flow.limited.closed_ns += until_ns.saturating_sub(since_ns).max(0);
    }
}
