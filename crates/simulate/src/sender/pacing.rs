//! Spreading packets over time instead of sending all that the window allows at once.

/// Whether and how fast a sender paces.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Pacing {
    #[default]
    None,
    /// As Linux `fq` with a window-based control: twice the window in a round trip in slow start, 1.2 times after.
    Window,
    /// At a rate on the wire, in bit/s.
    Rate(u64),
}

#[derive(Debug, Clone, Copy)]
pub struct Pacer {
    pacing: Pacing,
    next_ns: i64,
    /// Something waits for its turn.
    waiting: bool,
}

impl Pacer {
    pub fn new(pacing: Pacing) -> Self {
        Self {
            pacing,
            next_ns: i64::MIN,
            waiting: false,
        }
    }

    /// Whether a packet may go now; if not, [`deadline_ns`](Self::deadline_ns) says when.
    pub fn admits(&mut self, now_ns: i64) -> bool {
        self.waiting = self.pacing != Pacing::None && now_ns < self.next_ns;
        !self.waiting
    }

    pub fn on_sent(
        &mut self,
        now_ns: i64,
        wire_bytes: u64,
        window_bytes: f64,
        rtt_ns: i64,
        slow_start: bool,
    ) {
        let bytes_per_s = match self.pacing {
            Pacing::None => return,
            Pacing::Rate(bps) => bps as f64 / 8.0,
            Pacing::Window => {
                let factor = if slow_start { 2.0 } else { 1.2 };
                factor * window_bytes * 1e9 / rtt_ns.max(1) as f64
            }
        };
        let gap_ns = (wire_bytes as f64 * 1e9 / bytes_per_s.max(1.0)) as i64;
        self.next_ns = self.next_ns.max(now_ns) + gap_ns;
    }

    pub fn deadline_ns(&self) -> Option<i64> {
        self.waiting.then_some(self.next_ns)
    }

    pub fn on_timer(&mut self, now_ns: i64) {
        self.waiting &= now_ns < self.next_ns;
    }
}
