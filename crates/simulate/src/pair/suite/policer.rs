//! A policer with one or two rates, alone or with a shaper.

use whydrop_path::{ElementSpec, PathElement, PathSpec, Random};

use super::kind::Mechanism;

pub type Element = Box<dyn PathElement + Send>;

/// A full packet on the IP layer.
pub const FULL_PACKET_BYTES: u64 = 1_500;

/// Draws a path with a policer of this rate and burst.
pub fn draw(
    mechanism: Mechanism,
    overhead_bytes: u32,
    (rate_bps, burst_bytes): (u64, u64),
    random: &mut Random,
) -> PathSpec {
    let (rate_bps, burst_bytes) = (rate_bps as f64, burst_bytes as f64);
    let shaped = matches!(
        mechanism,
        Mechanism::PolicerThenShaper | Mechanism::ShaperThenPolicer
    );
    let dual = matches!(
        mechanism,
        Mechanism::PolicerDualRate | Mechanism::TwoRatePolicerAndLoss
    );
    let full_bytes = FULL_PACKET_BYTES as f64;
    let peak = dual.then(|| {
        let peak_rate_bps = (rate_bps * random.uniform(1.5, 6.0)).floor();
        (peak_rate_bps, full_bytes * (3 + random.below(20)) as f64)
    });
    let shaper = shaped.then(|| {
        let shaper_rate_bps = (rate_bps * random.uniform(1.3, 5.0)).floor();
        ElementSpec::shaper(shaper_rate_bps, 2.0 * full_bytes)
    });
    let policer = match mechanism == Mechanism::Policer && random.chance(0.3) {
        true => ElementSpec::LinuxPolice {
            rate_bps,
            burst_bytes,
            peak_rate_bps: None,
            mtu_bytes: None,
            overhead_bytes,
        },
        false => ElementSpec::policer(rate_bps, burst_bytes).with_peak(peak),
    };
    let mut elements: Vec<ElementSpec> = [policer].into_iter().chain(shaper).collect();
    if mechanism == Mechanism::ShaperThenPolicer {
        elements.reverse();
    }
    PathSpec { elements }.with_overhead(overhead_bytes)
}
