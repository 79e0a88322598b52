//! The limit on how fast a responder reads what its clients send.
//!
//! Unread data fills the receive buffer, the window closes, and TCP slows the sender down.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::clock;
use crate::stop::Stop;

/// How far a session may exceed its limit after having been slower.
const AHEAD_NS: i64 = 100_000_000;
/// How much of the limit's time is read at once, to keep the rate even.
const PORTION_S: f64 = 0.005;
/// Smallest portion: one segment.
const SMALLEST_PORTION_BYTES: usize = 1448;

/// The rate that all flows of one session share.
///
/// A token bucket, stored as the time at which everything read so far is paid for: one number, without a lock.
#[derive(Debug)]
pub struct Limit {
    rate_bps: f64,
    paid_ns: AtomicI64,
}

impl Limit {
    pub fn new(rate_bps: f64) -> Limit {
        Limit {
            rate_bps,
            paid_ns: AtomicI64::new(i64::MIN),
        }
    }

    pub fn rate_bps(&self) -> f64 {
        self.rate_bps
    }

    /// How much may be read at once, at most `most` bytes.
    pub fn portion_bytes(&self, most: usize) -> usize {
        ((self.rate_bps / 8.0 * PORTION_S) as usize)
            .max(SMALLEST_PORTION_BYTES)
            .min(most)
    }

    /// Charges bytes that were read; returns the time before which the reader must not read again.
    fn pay(&self, bytes: usize, now_ns: i64) -> i64 {
        let cost_ns = clock::ns(bytes as f64 * 8.0 / self.rate_bps);
        let after = |paid_ns: i64| {
            paid_ns
                .max(now_ns.saturating_sub(AHEAD_NS))
                .saturating_add(cost_ns)
        };
        // The closure always returns a value, so both results contain the previous one.
        let (Ok(before) | Err(before)) =
            self.paid_ns
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |paid_ns| {
                    Some(after(paid_ns))
                });
        after(before)
    }
}

/// Applies the session's limit to one flow.
#[derive(Debug)]
pub struct Brake<'a> {
    limit: &'a Limit,
    waited_ns: i64,
}

impl<'a> Brake<'a> {
    pub fn new(limit: &'a Limit) -> Brake<'a> {
        Brake {
            limit,
            waited_ns: 0,
        }
    }

    /// How much may be read at once, at most `most` bytes.
    pub fn portion_bytes(&self, most: usize) -> usize {
        self.limit.portion_bytes(most)
    }

    /// Waits until more may be read, but not past `end_ns` or `stop`.
    pub fn hold(&mut self, bytes: usize, end_ns: i64, stop: &Stop) {
        let now_ns = clock::now_ns();
        let until_ns = self.limit.pay(bytes, now_ns).min(end_ns);
        if until_ns > now_ns {
            stop.sleep_until_ns(until_ns);
            self.waited_ns += until_ns - now_ns;
        }
    }

    /// The total time for which the limit kept the flow from reading.
    pub fn waited_ns(&self) -> i64 {
        self.waited_ns
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;

    #[test]
    fn what_stays_below_the_limit_never_waits() {
        let limit = Limit::new(8e6);
        for number in 0..1000 {
            let now_ns = SECOND_NS + number * 1_000_000;
            assert!(limit.pay(1000, now_ns) <= now_ns, "{number}");
        }
    }

    #[test]
    fn flows_that_share_a_limit_take_turns_and_wait_for_each_others_bytes() {
        let limit = Limit::new(8e6);
        let first_ns = limit.pay(1_000_000, SECOND_NS);
        assert_eq!(first_ns, 2 * SECOND_NS - AHEAD_NS);
        assert_eq!(limit.pay(1_000_000, SECOND_NS), first_ns + SECOND_NS);
    }

    #[test]
    fn portions_are_short_in_time_and_no_smaller_than_a_segment() {
        assert_eq!(Limit::new(8e6).portion_bytes(1 << 20), 5000);
        assert_eq!(Limit::new(1.0).portion_bytes(1 << 20), 1448);
        assert_eq!(Limit::new(1e12).portion_bytes(1 << 20), 1 << 20);
    }

    proptest! {
        #[test]
        fn who_obeys_the_limit_reads_no_more_than_it_allows(
            rate_bps in 1e3_f64..1e10,
            reads in proptest::collection::vec((1_usize..1 << 20, 0_i64..50_000_000), 1..200),
        ) {
            let limit = Limit::new(rate_bps);
            let (mut now_ns, mut bytes) = (SECOND_NS, 0);
            for (read, pause_ns) in reads {
                // Time advances, and the reader waits as long as the last call requires.
                let until_ns = limit.pay(read, now_ns);
                bytes += read;
                now_ns = now_ns.max(until_ns);
                let passed_s = (now_ns - SECOND_NS + AHEAD_NS) as f64 / 1e9;
                prop_assert!(bytes as f64 * 8.0 <= rate_bps * passed_s * 1.001 + 8.0);
                now_ns += pause_ns;
            }
        }

        #[test]
        fn no_rate_and_no_time_make_the_computation_overflow(
            rate_bps in proptest::num::f64::ANY,
            bytes: usize,
            times: [i64; 3],
        ) {
            let limit = Limit::new(rate_bps);
            for now_ns in times {
                limit.pay(bytes, now_ns);
            }
            prop_assert!((SMALLEST_PORTION_BYTES..=1 << 20).contains(&limit.portion_bytes(1 << 20)));
        }
    }
}
