//! The receive window as the sender knows it.
//!
//! An acknowledgment that passes the capture point has not reached the sender yet, and data that it releases passes
//! here a round trip to the sender later. Until then, the sender fills the window of older acknowledgments: without
//! this correction, a window that is always full would look half open from the middle of a path.

use std::collections::VecDeque;

/// The most acknowledgments in flight to the sender that are remembered; beyond it the oldest count as arrived.
const MOST_ON_THEIR_WAY: usize = 1 << 12;

/// Right edges of the window, and when packets sent with knowledge of them can pass here first.
#[derive(Debug, Default)]
pub(crate) struct KnownWindow {
    /// Upper bound of the round-trip time from the capture point to the sender.
    near_rtt_ns: Option<i64>,
    coming: VecDeque<(i64, i64)>,
    /// Right edge known to the sender: one past the last byte that it may send.
    pub edge: Option<i64>,
}

impl KnownWindow {
    /// Registers that an acknowledgment passing now permits bytes up to `edge`. `near_rtt_ns` is from the handshake.
    pub fn allow(&mut self, now_ns: i64, edge: i64, near_rtt_ns: i64) {
        let near_rtt_ns = *self.near_rtt_ns.get_or_insert(near_rtt_ns);
        if near_rtt_ns <= 0 {
            self.edge = Some(edge);
            return;
        }
        if self.coming.len() >= MOST_ON_THEIR_WAY
            && let Some((_, oldest)) = self.coming.pop_front()
        {
            self.edge = Some(oldest);
        }
        self.coming
            .push_back((now_ns.saturating_add(near_rtt_ns), edge));
    }

    /// Advances time and examines the data sent: a byte beyond the known edge shows that the sender is nearer than the
    /// handshake suggested.
    pub fn advance(&mut self, now_ns: i64, next: i64) {
        while let Some(&(due_ns, edge)) = self.coming.front() {
            let early = self.edge.is_some_and(|edge| next > edge);
            if due_ns > now_ns && !early {
                break;
            }
            if due_ns > now_ns
                && let Some(near_rtt_ns) = &mut self.near_rtt_ns
            {
                *near_rtt_ns -= (due_ns - now_ns).min(*near_rtt_ns);
            }
            self.edge = Some(edge);
            self.coming.pop_front();
        }
    }

    /// When packets sent with knowledge of the next edge can pass first.
    pub fn next_due_ns(&self) -> Option<i64> {
        self.coming.front().map(|(due_ns, _)| *due_ns)
    }

    pub fn forget(&mut self) {
        self.coming.clear();
        self.edge = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgment_counts_when_what_it_allows_can_pass() {
        let mut window = KnownWindow::default();
        window.allow(0, 1000, 10);
        window.advance(9, 0);
        assert_eq!(window.edge, None);
        window.advance(10, 0);
        assert_eq!(window.edge, Some(1000));
    }

    #[test]
    fn at_the_sender_it_counts_at_once() {
        let mut window = KnownWindow::default();
        window.allow(5, 1000, 0);
        assert_eq!(window.edge, Some(1000));
    }

    #[test]
    fn a_byte_beyond_the_known_window_shows_that_the_sender_is_nearer() {
        let mut window = KnownWindow::default();
        window.allow(0, 1000, 100);
        window.advance(100, 500);
        window.allow(110, 2000, 100);
        // sent 40 after that acknowledgment passed, and only it permits so much
        window.advance(150, 1500);
        assert_eq!((window.edge, window.near_rtt_ns), (Some(2000), Some(40)));
    }
}
