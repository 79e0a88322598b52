//! The path of the published case between the two points.

use whydrop_path::{Arrival, LinuxPolice, PathElement, Random};

use super::{BESIDE_NS, BURST_BYTES, RATE_BPS, ROUND_TRIP_NS};

/// Least transit, the same in both directions. Variations are added, so that a burst's first acknowledgments return
/// just in time for the next burst.
pub const BASE_NS: i64 = (ROUND_TRIP_NS - WAKING_NS - 4 * BESIDE_NS) / 2;
/// The most that all variations and the jitter of the bursts may add to a round trip.
const WAKING_NS: i64 = VARIATION_NS + AFTER_GAP_NS + BACK_VARIATION_NS as i64 + 100_000;
/// Transit varies within this range ...
pub const VARIATION_NS: i64 = 450_000;
/// ... plus this for a packet that finds the path idle, and for those that would overtake it.
pub const AFTER_GAP_NS: i64 = 400_000;
/// After being idle this long, the path has to wake up.
const GAP_NS: i64 = 10_000_000;
/// Most that transit changes from one packet to the next.
const STEP_NS: i64 = 8_000;
/// A full packet at 10 Gbit/s: delayed packets leave this far apart.
const CATCH_UP_NS: i64 = 1_230;
/// Acknowledgments take up to this much more than the least.
const BACK_VARIATION_NS: u64 = 150_000;

pub struct Path {
    policer: LinuxPolice,
    random: Random,
    last_in_ns: i64,
    last_out_ns: i64,
    last_back_ns: i64,
    more_ns: i64,
}

impl Path {
    pub fn new(seed: u64) -> Self {
        Self {
            policer: LinuxPolice::new(RATE_BPS, BURST_BYTES),
            random: Random::new(seed),
            last_in_ns: i64::MIN,
            last_out_ns: i64::MIN,
            last_back_ns: i64::MIN,
            more_ns: 0,
        }
    }

    /// When a packet that passes B at this time passes Y, if the policer forwards it.
    pub fn forth(&mut self, time_ns: i64, bytes: u32) -> Option<i64> {
        let after_gap = time_ns.saturating_sub(self.last_in_ns) >= GAP_NS;
        self.last_in_ns = time_ns;
        self.wander(after_gap);
        self.policer
            .arrive(Arrival { time_ns, bytes })
            .departure_ns()?;
        let wakes_ns = if after_gap { AFTER_GAP_NS } else { 0 };
        let out_ns = time_ns + BASE_NS + self.more_ns + wakes_ns;
        self.last_out_ns = out_ns.max(self.last_out_ns.saturating_add(CATCH_UP_NS));
        Some(self.last_out_ns)
    }

    /// When a packet that passes Y at this time passes B. No packet overtakes another.
    pub fn back(&mut self, time_ns: i64) -> i64 {
        let out_ns = time_ns + BASE_NS + self.random.below(BACK_VARIATION_NS) as i64;
        self.last_back_ns = out_ns.max(self.last_back_ns.saturating_add(100));
        self.last_back_ns
    }

    /// After a gap, transit may be anywhere in its range; from packet to packet it changes slightly.
    fn wander(&mut self, after_gap: bool) {
        if after_gap {
            self.more_ns = self.random.below(VARIATION_NS as u64 + 1) as i64;
            return;
        }
        let step_ns = self.random.below(2 * STEP_NS as u64 + 1) as i64 - STEP_NS;
        let wanted_ns = self.more_ns + step_ns;
        // A value that would leave the range is reflected into it.
        self.more_ns = match wanted_ns {
            low if low < 0 => -low,
            high if high > VARIATION_NS => 2 * VARIATION_NS - high,
            within => within,
        };
    }
}
