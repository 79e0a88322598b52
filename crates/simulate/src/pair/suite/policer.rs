//! A policer with one or two rates, alone or with a shaper.

use whydrop_path::{Chain, Limit, LinuxPolice, PathElement, Policer, Random, Shaper};

use super::kind::Mechanism;

pub type Element = Box<dyn PathElement + Send>;

/// A full packet on the IP layer.
pub const FULL_PACKET_BYTES: u64 = 1_500;

/// A rate and the bucket that it fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    pub rate_bps: u64,
    pub burst_bytes: u64,
}

/// The parameters of a drawn policer, from which it can be built repeatedly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicerSpec {
    pub committed: Bucket,
    pub peak: Option<Bucket>,
    pub shaper: Option<Bucket>,
    pub shaper_first: bool,
    pub linux: bool,
    pub overhead_bytes: u32,
}

impl PolicerSpec {
    pub fn draw(
        mechanism: Mechanism,
        overhead_bytes: u32,
        committed: Bucket,
        random: &mut Random,
    ) -> Self {
        let rate_bps = committed.rate_bps as f64;
        let shaped = matches!(
            mechanism,
            Mechanism::PolicerThenShaper | Mechanism::ShaperThenPolicer
        );
        let dual = matches!(
            mechanism,
            Mechanism::PolicerDualRate | Mechanism::TwoRatePolicerAndLoss
        );
        Self {
            committed,
            peak: dual.then(|| Bucket {
                rate_bps: (rate_bps * random.uniform(1.5, 6.0)) as u64,
                burst_bytes: FULL_PACKET_BYTES * (3 + random.below(20)),
            }),
            shaper: shaped.then(|| Bucket {
                rate_bps: (rate_bps * random.uniform(1.3, 5.0)) as u64,
                burst_bytes: 2 * FULL_PACKET_BYTES,
            }),
            shaper_first: mechanism == Mechanism::ShaperThenPolicer,
            linux: mechanism == Mechanism::Policer && random.chance(0.3),
            overhead_bytes,
        }
    }

    pub fn build(&self) -> Element {
        let Bucket {
            rate_bps,
            burst_bytes,
        } = self.committed;
        let policer: Element = if self.linux {
            Box::new(LinuxPolice::new(rate_bps, burst_bytes).with_overhead(self.overhead_bytes))
        } else {
            let plain = Policer::new(rate_bps, burst_bytes).with_overhead(self.overhead_bytes);
            Box::new(match self.peak {
                Some(peak) => plain.with_peak(peak.rate_bps, peak.burst_bytes),
                None => plain,
            })
        };
        let Some(shaper) = self.shaper else {
            return policer;
        };
        let shaper = Shaper::new(shaper.rate_bps, shaper.burst_bytes, Limit::NONE);
        let shaper: Element = Box::new(shaper.with_overhead(self.overhead_bytes));
        Box::new(Chain::new(match self.shaper_first {
            true => vec![shaper, policer],
            false => vec![policer, shaper],
        }))
    }

    /// Returns a copy with one parameter, by its name in the truth, multiplied by a factor.
    pub fn with(mut self, name: &str, factor: f64) -> Self {
        let changed = |value: u64| (value as f64 * factor).round() as u64;
        match (name, &mut self.peak) {
            ("rate_bps", _) => self.committed.rate_bps = changed(self.committed.rate_bps),
            ("burst_bytes", _) => self.committed.burst_bytes = changed(self.committed.burst_bytes),
            ("peak_rate_bps", Some(peak)) => peak.rate_bps = changed(peak.rate_bps),
            ("peak_burst_bytes", Some(peak)) => peak.burst_bytes = changed(peak.burst_bytes),
            _ => {}
        }
        self
    }

    pub fn names(&self) -> Vec<&'static str> {
        let mut names = vec!["rate_bps", "burst_bytes"];
        if self.peak.is_some() {
            names.extend(["peak_rate_bps", "peak_burst_bytes"]);
        }
        names
    }
}
