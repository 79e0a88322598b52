//! The end of slow start where a round of acknowledgments lasts for half of the least RTT, or where its RTT shows that
//! a queue is building: HyStart (Ha and Rhee, "Taming the elephants: new TCP slow start", Computer Networks 55, 2011) as
//! in Linux (`hystart_update` in `net/ipv4/tcp_cubic.c`).

/// A round with a least RTT, over more than this many samples, that exceeds the least of all by a margin ends slow start.
const SAMPLES: u32 = 8;
const LEAST_CWND: f64 = 16.0;
/// Acknowledgments belong to one train if they come within this time of each other.
const TRAIN_GAP_NS: i64 = 2_000_000;

#[derive(Debug, Clone, Copy, Default)]
pub struct HyStart {
    round_end: u64,
    round_start_ns: i64,
    last_of_train_ns: i64,
    samples: u32,
    round_min_ns: i64,
}

/// An acknowledgment that gives a round-trip time.
#[derive(Debug, Clone, Copy)]
pub struct Sampled {
    pub now_ns: i64,
    pub rtt_ns: i64,
    pub min_rtt_ns: i64,
    pub acknowledged: u64,
    pub sent: u64,
    /// Pacing spreads the packets, and so the acknowledgments, of slow start.
    pub paced: bool,
}

impl HyStart {
    /// Adds a sample; returns whether slow start ends with it at this window.
    pub fn on_rtt(&mut self, cwnd: f64, sample: Sampled) -> bool {
        if sample.acknowledged > self.round_end {
            *self = HyStart {
                round_end: sample.sent,
                round_start_ns: sample.now_ns,
                last_of_train_ns: sample.now_ns,
                samples: 0,
                round_min_ns: i64::MAX,
            };
        }
        if cwnd < LEAST_CWND {
            return false;
        }
        self.is_long_train(sample) || self.is_delayed(sample)
    }

    fn is_long_train(&mut self, sample: Sampled) -> bool {
        if sample.now_ns - self.last_of_train_ns > TRAIN_GAP_NS {
            return false;
        }
        self.last_of_train_ns = sample.now_ns;
        let longest_ns = match sample.paced {
            true => sample.min_rtt_ns,
            false => sample.min_rtt_ns / 2,
        };
        sample.now_ns - self.round_start_ns > longest_ns
    }

    fn is_delayed(&mut self, sample: Sampled) -> bool {
        self.round_min_ns = self.round_min_ns.min(sample.rtt_ns);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        let allowance_ns = (sample.min_rtt_ns / 8).clamp(4_000_000, 16_000_000);
        self.round_min_ns > sample.min_rtt_ns.saturating_add(allowance_ns)
    }
}
