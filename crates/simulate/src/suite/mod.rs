//! Labelled suites: worlds drawn at random over a wide range of physics, simulated, kept if they show their kind, and
//! written with their truth.
//!
//! Nothing is taken from samples of real captures, so a suite can test rules and thresholds that must work on any path.
//! `train` and `validation` draw from the same ranges with different seeds.
//!
//! | module | subject |
//! |---|---|
//! | [`kind`] | every kind of captures and of pairs: **a new one is a row here**, and a function that draws it |
//! | `world` | hosts, distances and points of capture, before a kind changes them |
//! | `draw` | the path, hosts and traffic of each kind |
//! | `treatments` | the defects of the captures of a pair |
//! | [`captures`] | single captures, and what they know about the hop: `oracle` |
//! | [`pairs`] | pairs, and what they show: `shows`, `observer`, `windows` |
//! | [`transfers`] | pairs of short transfers, whatever they show |

pub mod captures;
mod draw;
pub mod kind;
mod observer;
mod oracle;
pub mod pairs;
mod shows;
#[cfg(test)]
mod tests;
pub mod transfers;
mod treatments;
mod windows;
mod world;

use whydrop_path::Random;

use crate::files::WriteError;
pub use kind::{CAPTURES, Kind, PAIRS};
pub use oracle::Oracle;
use whydrop_network::FlowConfig;
pub use world::TAP_NAMES;

/// Which part of the suite: for tuning, or for validation afterwards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Split {
    #[default]
    Train,
    Validation,
}

impl Split {
    /// The name on the command line and in truths.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
        }
    }

    fn salt(self) -> u64 {
        match self {
            Self::Train => 0x7472_6169_6e00_0000,
            Self::Validation => 0x7661_6c69_6461_7465,
        }
    }
}

/// Suites with draws of their own, independent of the others.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
enum Independent {
    Captures = 0,
    Pairs = 0x7061_6972,
    Transfers = 0x7368_6f72_7400,
}

impl Independent {
    /// The seeds to try, at most so many, for what has this index: the same whatever the count.
    fn seeds(self, config: &SuiteConfig, index: usize, most: u64) -> impl Iterator<Item = u64> {
        let base = Random::new(config.seed ^ config.split.salt() ^ self as u64).next_u64();
        let base = base.wrapping_add((index as u64) << 16);
        (0..most).map(move |attempt| Random::new(base.wrapping_add(attempt)).next_u64())
    }
}

/// Settings of a suite.
#[derive(Debug, Clone, Default)]
pub struct SuiteConfig {
    pub split: Split,
    pub seed: u64,
    pub count: usize,
    /// Only this kind.
    pub only: Option<&'static Kind>,
    /// Of single captures only.
    pub without: Without,
    /// Take the single capture before the stage with this number instead of the drawn one.
    pub tap: Option<usize>,
}

impl SuiteConfig {
    /// The kind with this index in a suite of all of them.
    fn kind(&self, kinds: &'static [Kind], index: usize) -> &'static Kind {
        self.only.unwrap_or(&kinds[index % kinds.len()])
    }
}

/// Bytes of timestamps in each segment (RFC 7323, appendix A).
const TIMESTAMPS_BYTES: u64 = 12;

/// TCP options that the drawn hosts do not use; everything else is drawn unchanged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Without {
    pub sack: bool,
    pub timestamps: bool,
}

impl Without {
    fn apply(self, flows: &mut [FlowConfig]) {
        for flow in flows {
            if self.sack {
                flow.sender.sack = false;
                flow.receiver.sack = false;
            }
            if self.timestamps && flow.timestamps {
                flow.sender.mss += TIMESTAMPS_BYTES;
                flow.receiver.timestamps = false;
                flow.timestamps = false;
            }
        }
    }
}

/// Writes what is drawn, one after the other; draws that show nothing are reported.
fn write_all<D>(
    count: usize,
    mut progress: impl FnMut(usize, &str),
    play: impl Fn(usize) -> Option<D>,
    mut write: impl FnMut(usize, D) -> Result<String, WriteError>,
) -> Result<(), WriteError> {
    for index in 0..count {
        match play(index) {
            Some(drawn) => progress(index, &write(index, drawn)?),
            None => progress(index, "no draw showed its kind: left out"),
        }
    }
    Ok(())
}
