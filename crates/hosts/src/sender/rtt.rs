//! The round-trip time and the timers that follow from it.

/// Linux's least margin of the retransmission timeout over the smoothed RTT (`tcp_rto_min`).
const RTO_MIN_NS: i64 = 200_000_000;
const RTO_MAX_NS: i64 = 120_000_000_000;
/// Before any sample (RFC 6298, section 2.1).
const RTO_INITIAL_NS: i64 = 1_000_000_000;

#[derive(Debug, Clone, Copy, Default)]
pub struct RttEstimator {
    smoothed_ns: i64,
    variation_ns: i64,
    min_ns: Option<i64>,
}

impl RttEstimator {
    /// RFC 6298, section 2.
    pub fn sample(&mut self, rtt_ns: i64) {
        let rtt_ns = rtt_ns.max(1);
        if self.min_ns.is_none() {
            self.smoothed_ns = rtt_ns;
            self.variation_ns = rtt_ns / 2;
        } else {
            let error_ns = rtt_ns - self.smoothed_ns;
            self.variation_ns += (error_ns.abs() - self.variation_ns) / 4;
            self.smoothed_ns += error_ns / 8;
        }
        self.min_ns = Some(self.min_ns.map_or(rtt_ns, |min_ns| min_ns.min(rtt_ns)));
    }

    /// Least of all samples; 0 without samples.
    pub fn min_ns(&self) -> i64 {
        self.min_ns.unwrap_or(0)
    }

    pub fn smoothed_ns(&self) -> i64 {
        self.smoothed_ns
    }

    /// As in Linux: the variation counts at least 200 ms, so the timeout always exceeds the smoothed RTT by that much.
    pub fn rto_ns(&self, backoff: u32) -> i64 {
        let base_ns = match self.min_ns {
            None => RTO_INITIAL_NS,
            Some(_) => self.smoothed_ns + (4 * self.variation_ns).max(RTO_MIN_NS),
        };
        base_ns.saturating_mul(1 << backoff.min(10)).min(RTO_MAX_NS)
    }

    /// When to probe the tail (RFC 8985, section 7.2): after two round trips; a single segment may also wait for a
    /// delayed acknowledgment.
    pub fn probe_ns(&self, in_flight: usize) -> i64 {
        let delayed_ns = if in_flight <= 1 {
            RTO_MIN_NS
        } else {
            2_000_000
        };
        (2 * self.smoothed_ns + delayed_ns).min(self.rto_ns(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_is_the_smoothed_rtt_and_at_least_200_ms() {
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.rto_ns(0), 1_000_000_000);
        rtt.sample(50_000_000);
        // Variation 25 ms, times 4: 100 ms, raised to 200.
        assert_eq!(rtt.rto_ns(0), 250_000_000);
        assert_eq!(rtt.rto_ns(2), 1_000_000_000);
        rtt.sample(450_000_000);
        // Variation 25 + (400 - 25) / 4 = 118.75 ms; smoothed 50 + 400 / 8 = 100 ms.
        assert_eq!(rtt.rto_ns(0), 575_000_000);
        assert_eq!(rtt.min_ns(), 50_000_000);
    }
}
