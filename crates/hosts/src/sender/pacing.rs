//! Pacing: packets are spread over time instead of sent as soon as the window permits.

/// The pacing mode of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Pacing {
    #[default]
    None,
    /// As Linux `fq` with a window-based control: twice the window per round trip in slow start, 1.2 times after.
    Window,
    /// At a rate on the wire, in bit/s, set by the application or the administrator.
    Rate(u64),
}

/// The input of a sender's pacing, besides its configuration.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub window_bytes: f64,
    pub rtt_ns: i64,
    pub slow_start: bool,
    /// The rate of a congestion control that paces by itself.
    pub own_bytes_per_s: Option<f64>,
    /// The host itself paces at that rate.
    pub in_host: bool,
}

/// Linux's hosts do not pace so many segments at the start of a connection; later they make up for up to half of the gap
/// between packets if the one before was late.
const UNPACED: u64 = 10;

#[derive(Debug, Clone, Copy)]
pub struct Pacer {
    pacing: Pacing,
    next_ns: i64,
    /// A packet waits for its turn.
    waiting: bool,
    sent: u64,
}

impl Pacer {
    pub fn new(pacing: Pacing) -> Self {
        Self {
            pacing,
            next_ns: i64::MIN,
            waiting: false,
            sent: 0,
        }
    }

    /// True if a packet may leave now; if not, [`deadline_ns`](Self::deadline_ns) returns when.
    pub fn admits(&mut self, now_ns: i64) -> bool {
        // Without pacing the next time never changes.
        self.waiting = now_ns < self.next_ns;
        !self.waiting
    }

    /// When the next packet may leave.
    pub fn next_ns(&self) -> i64 {
        self.next_ns
    }

    pub fn on_sent(&mut self, now_ns: i64, wire_bytes: u64, pace: Pace) {
        let bytes_per_s = match (self.pacing, pace.own_bytes_per_s) {
            (Pacing::Rate(bps), own) => {
                let rate = bps as f64 / 8.0;
                own.map_or(rate, |own| own.min(rate))
            }
            (_, Some(own)) => own,
            (Pacing::None, None) => return,
            (Pacing::Window, None) => {
                let factor = if pace.slow_start { 2.0 } else { 1.2 };
                factor * pace.window_bytes * 1e9 / pace.rtt_ns.max(1) as f64
            }
        };
        let gap_ns = (wire_bytes as f64 * 1e9 / bytes_per_s.max(1.0)) as i64;
        self.sent += 1;
        if !pace.in_host {
            self.next_ns = self.next_ns.max(now_ns) + gap_ns;
        } else if self.sent > UNPACED {
            let late_ns = now_ns.saturating_sub(self.next_ns).max(0);
            self.next_ns = self.next_ns.max(now_ns) + gap_ns - late_ns.min(gap_ns / 2);
        }
    }

    /// True if a packet that is otherwise permitted waits for its turn.
    pub fn is_waiting(&self) -> bool {
        self.waiting
    }

    pub fn deadline_ns(&self) -> Option<i64> {
        self.waiting.then_some(self.next_ns)
    }

    pub fn on_timer(&mut self, now_ns: i64) {
        self.waiting &= now_ns < self.next_ns;
    }
}
