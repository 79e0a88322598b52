//! Growth of a window by whole packets.

/// Packets acknowledged since the window last grew (`tcp_cong_avoid_ai` in Linux's tcp_cong.c).
#[derive(Debug, Clone, Copy, Default)]
pub struct Whole {
    counted: f64,
}

impl Whole {
    /// The window after so many packets were acknowledged, where it grows by one for each `each` of them.
    pub fn grow(&mut self, cwnd: f64, each: f64, packets: f64) -> f64 {
        let mut cwnd = cwnd;
        if self.counted >= each {
            self.counted = 0.0;
            cwnd += 1.0;
        }
        self.counted += packets;
        if self.counted >= each {
            let grown = (self.counted / each).floor();
            self.counted -= grown * each;
            cwnd += grown;
        }
        cwnd
    }
}
