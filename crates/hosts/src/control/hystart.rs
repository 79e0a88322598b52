//! The end of slow start where a round's RTT shows that a queue is building: Linux's HyStart (Ha and Rhee, "Taming the
//! elephants: new TCP slow start", Computer Networks 55, 2011).

/// A round with a least RTT, over this many samples, that exceeds the least of all by a margin ends slow start.
const SAMPLES: u32 = 8;
const LEAST_CWND: f64 = 16.0;

#[derive(Debug, Clone, Copy, Default)]
pub struct HyStart {
    round_end: u64,
    samples: u32,
    round_min_ns: i64,
}

impl HyStart {
    /// Adds a sample; returns whether slow start ends with it at this window.
    pub fn on_rtt(
        &mut self,
        cwnd: f64,
        rtt_ns: i64,
        min_rtt_ns: i64,
        (acknowledged, sent): (u64, u64),
    ) -> bool {
        if acknowledged > self.round_end {
            *self = HyStart {
                round_end: sent,
                samples: 0,
                round_min_ns: i64::MAX,
            };
        }
        self.samples += 1;
        self.round_min_ns = self.round_min_ns.min(rtt_ns);
        let allowance_ns = (min_rtt_ns / 8).clamp(4_000_000, 16_000_000);
        cwnd >= LEAST_CWND
            && self.samples >= SAMPLES
            && self.round_min_ns > min_rtt_ns.saturating_add(allowance_ns)
    }
}
