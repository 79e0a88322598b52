//! The policer of Linux traffic control.

use crate::{Arrival, Outcome, PathElement};

/// `tc ... action police rate RATE burst BURST [peakrate RATE mtu BYTES]`, with the arithmetic of `act_police`
/// (net/sched/act_police.c): tokens are nanoseconds of sending at the rate, and each packet's cost is rounded down
/// to a whole number of them.
///
/// Differences from [`Policer`](crate::Policer): a packet longer than `mtu` exceeds, regardless of the
/// tokens; tokens are rounded; and the peak bucket holds `mtu` bytes.
#[derive(Debug, Clone)]
pub struct LinuxPolice {
    rate_bps: u64,
    burst_ns: i64,
    peak_rate_bps: Option<u64>,
    mtu_bytes: u32,
    overhead_bytes: u32,
    tokens_ns: i64,
    peak_tokens_ns: i64,
    time_ns: Option<i64>,
}

/// The kernel's default limit for a packet: iproute2 sends a rate table with 255 cells of 8 bytes (its
/// default MTU is 2047), and the kernel uses 255 * 8.
const DEFAULT_MTU_BYTES: u32 = 2_040;

/// Time to send `bytes` at a rate, rounded down to nanoseconds; infinite at 0 bit/s.
fn sending_ns(bytes: u64, rate_bps: u64) -> i64 {
    let units = u128::from(bytes) * 8_000_000_000;
    units
        .checked_div(u128::from(rate_bps))
        .and_then(|ns| i64::try_from(ns).ok())
        .unwrap_or(i64::MAX)
}

impl LinuxPolice {
    pub fn new(rate_bps: u64, burst_bytes: u64) -> Self {
        let burst_ns = sending_ns(burst_bytes, rate_bps);
        Self {
            rate_bps,
            burst_ns,
            peak_rate_bps: None,
            mtu_bytes: DEFAULT_MTU_BYTES,
            overhead_bytes: 0,
            tokens_ns: burst_ns,
            peak_tokens_ns: 0,
            time_ns: None,
        }
    }

    /// Largest packet that may conform. With segmentation offload before the policer, packets are longer than the
    /// default, and all of them exceed.
    pub fn with_mtu(mut self, mtu_bytes: u32) -> Self {
        self.mtu_bytes = mtu_bytes;
        self.reset();
        self
    }

    /// Police a peak rate as well; its bucket holds one `mtu`.
    pub fn with_peak_rate(mut self, peak_rate_bps: u64) -> Self {
        self.peak_rate_bps = Some(peak_rate_bps);
        self.reset();
        self
    }

    /// Bytes counted for each packet on top of the IP packet: none at ingress of a device, 14 at its egress.
    pub fn with_overhead(mut self, overhead_bytes: u32) -> Self {
        self.overhead_bytes = overhead_bytes;
        self
    }

    fn peak_burst_ns(&self) -> i64 {
        self.peak_rate_bps
            .map_or(0, |rate| sending_ns(u64::from(self.mtu_bytes), rate))
    }
}

impl PathElement for LinuxPolice {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        let bytes = u64::from(packet.bytes) + u64::from(self.overhead_bytes);
        if bytes > u64::from(self.mtu_bytes) {
            return Outcome::Dropped;
        }
        // As in the kernel: nothing is stored unless the packet conforms, so an exceeding one does not change
        // the clock.
        let now_ns = self
            .time_ns
            .map_or(packet.time_ns, |seen| seen.max(packet.time_ns));
        let elapsed_ns = now_ns
            .saturating_sub(self.time_ns.unwrap_or(now_ns))
            .min(self.burst_ns);
        let mut peak_tokens_ns = 0;
        if let Some(rate) = self.peak_rate_bps {
            peak_tokens_ns = self
                .peak_tokens_ns
                .saturating_add(elapsed_ns)
                .min(self.peak_burst_ns());
            peak_tokens_ns = peak_tokens_ns.saturating_sub(sending_ns(bytes, rate));
        }
        let tokens_ns = self.tokens_ns.saturating_add(elapsed_ns).min(self.burst_ns);
        let tokens_ns = tokens_ns.saturating_sub(sending_ns(bytes, self.rate_bps));
        if tokens_ns < 0 || peak_tokens_ns < 0 {
            return Outcome::Dropped;
        }
        self.time_ns = Some(now_ns);
        self.tokens_ns = tokens_ns;
        self.peak_tokens_ns = peak_tokens_ns;
        Outcome::Departs {
            time_ns: packet.time_ns,
        }
    }

    fn reset(&mut self) {
        self.tokens_ns = self.burst_ns;
        self.peak_tokens_ns = self.peak_burst_ns();
        self.time_ns = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policer, replay};

    fn at(time_ns: i64, bytes: u32) -> Arrival {
        Arrival { time_ns, bytes }
    }

    fn passes(police: &mut dyn PathElement, arrivals: &[Arrival]) -> Vec<bool> {
        replay(police, arrivals)
            .into_iter()
            .map(|outcome| !outcome.is_dropped())
            .collect()
    }

    #[test]
    fn it_equals_a_plain_policer_except_for_rounding() {
        // 8 Mbit/s are one byte in 1000 ns, without rounding: no difference at all.
        let arrivals: Vec<Arrival> = (0..500)
            .map(|i| at(i * 900_000, 40 + 13 * (i as u32 % 110)))
            .collect();
        let plain = passes(&mut Policer::new(8_000_000, 10_000), &arrivals);
        assert!(plain.contains(&false));
        assert_eq!(
            passes(&mut LinuxPolice::new(8_000_000, 10_000), &arrivals),
            plain
        );
    }

    #[test]
    fn a_packet_longer_than_the_mtu_exceeds_however_many_tokens_there_are() {
        let arrivals = [at(0, 2_041), at(0, 2_040), at(0, 5_792)];
        assert_eq!(
            passes(&mut LinuxPolice::new(1_000_000_000, 1_000_000), &arrivals),
            [false, true, false]
        );
        let mut large = LinuxPolice::new(1_000_000_000, 1_000_000).with_mtu(65_535);
        assert_eq!(passes(&mut large, &arrivals), [true, true, true]);
    }

    #[test]
    fn the_peak_rate_lets_one_mtu_pass_at_a_time() {
        // 12 Mbit/s: 1500 bytes in 1 ms. The first takes the whole peak bucket.
        let mut police = LinuxPolice::new(1_000_000, 100_000)
            .with_mtu(1_500)
            .with_peak_rate(12_000_000);
        let arrivals = [
            at(0, 1_500),
            at(999_999, 1_500),
            at(1_000_000, 1_500),
            at(1_000_000, 1),
        ];
        assert_eq!(passes(&mut police, &arrivals), [true, false, true, false]);
    }

    #[test]
    fn decreasing_time_neither_panics_nor_adds_tokens() {
        let mut police = LinuxPolice::new(12_000_000, 1_500);
        let arrivals = [
            at(1_000_000, 1_500),
            at(i64::MIN, 1_500),
            at(1_999_999, 1_500),
            at(i64::MAX, 1_500),
        ];
        assert_eq!(passes(&mut police, &arrivals), [true, false, false, true]);
        assert_eq!(
            passes(&mut LinuxPolice::new(0, 1), &[at(0, 1)]),
            [true],
            "infinite times are equal"
        );
    }
}
