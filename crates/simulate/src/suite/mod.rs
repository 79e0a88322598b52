//! Labelled suites: scenarios drawn at random over a wide range of physics, written as captures with their truth.
//!
//! Nothing is taken from samples of real captures, so a suite can test rules and thresholds that must work on any path.
//! `train` and `validation` draw from the same ranges with different seeds.

mod draw;
mod impairments;
mod kind;
mod limits;
mod oracle;
mod output;

use std::path::Path;

use whydrop_path::Random;

use crate::files::WriteError;
use crate::history::History;
use crate::network::Simulation;
use crate::scenario::{CaptureConfig, FlowConfig, Scenario};
use crate::truth::{FlowTruth, flow_truths};
pub use draw::TAP_NAMES;
pub(crate) use draw::{data_receiver, data_sender};
pub use kind::Kind;
pub use oracle::Oracle;

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

    /// The seeds to try, at most so many, for what has this index: the same whatever the count.
    pub(crate) fn seeds(
        self,
        drawn: Independent,
        seed: u64,
        index: usize,
        most: u64,
    ) -> impl Iterator<Item = u64> {
        let base = Random::new(seed ^ self.salt() ^ drawn as u64).next_u64();
        let base = base.wrapping_add((index as u64) << 16);
        (0..most).map(move |attempt| Random::new(base.wrapping_add(attempt)).next_u64())
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
pub(crate) enum Independent {
    Captures = 0,
    Pairs = 0x7061_6972,
    Transfers = 0x7368_6f72_7400,
}

/// Settings of a suite.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SuiteConfig {
    pub split: Split,
    pub seed: u64,
    pub count: usize,
    /// Only captures of this kind.
    pub only: Option<Kind>,
    pub without: Without,
    /// Take the capture before the stage with this number instead of the drawn one.
    pub tap: Option<usize>,
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
    pub(crate) fn apply(self, flows: &mut [FlowConfig]) {
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

/// A scenario with everything known about it.
pub struct Case {
    pub kind: Kind,
    pub scenario: Scenario,
    pub facts: Facts,
}

/// The parameters of a case, for its truth and its label.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Named values for the truth, in the units of their names.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    pub policer_rate_bps: Option<u64>,
    pub policer_burst_bytes: Option<u64>,
    pub link_rate_bps: Option<u64>,
    pub link_burst_bytes: Option<u64>,
    pub random_loss_percent: Option<f64>,
    pub cross_traffic: bool,
    pub rtt_ns: i64,
    pub pause_ns: i64,
}

/// A case that was simulated and shows what its kind promises.
pub struct Played {
    pub kind: Kind,
    pub facts: Facts,
    pub flows: Vec<FlowConfig>,
    pub capture: CaptureConfig,
    pub history: History,
    pub truths: Vec<FlowTruth>,
    /// For hops with drops determined by their arrivals, if the capture is taken before them.
    pub oracle: Option<Oracle>,
    pub seed: u64,
}

/// A draw that does not show its kind (a policer that never dropped) is repeated, up to this often.
const MOST_DRAWS: u64 = 40;

/// Draws hosts and distances, and the impairment.
fn draw_case(kind: Kind, config: &SuiteConfig, random: &mut Random) -> Case {
    let mut case = draw::base(kind, random);
    match kind {
        Kind::Reordering
        | Kind::ReceiverWindow
        | Kind::SlowReader
        | Kind::Stream
        | Kind::SendBuffer => limits::apply(&mut case, random),
        Kind::CaptureLoss | Kind::Clean => limits::apply(&mut case, random),
        _ => impairments::apply(&mut case, random),
    }
    config.without.apply(&mut case.scenario.flows);
    if let Some(tap) = config.tap {
        draw::move_tap(&mut case, tap);
    }
    case
}

/// Draws and simulates the case with this index: the same for the same split, seed and index, whatever the count.
pub fn play(config: &SuiteConfig, index: usize) -> Option<Played> {
    let kind = config.only.unwrap_or(Kind::ALL[index % Kind::ALL.len()]);
    let split = config.split;
    let mut seeds = split.seeds(Independent::Captures, config.seed, index, MOST_DRAWS);
    seeds.find_map(|seed| {
        let case = draw_case(kind, config, &mut Random::new(seed));
        let (flows, capture) = (case.scenario.flows.clone(), case.scenario.capture);
        let history = Simulation::new(case.scenario).run();
        let truths = flow_truths(&history, &flows);
        let mut played = Played {
            kind,
            facts: case.facts,
            flows,
            capture,
            history,
            truths,
            oracle: None,
            seed,
        };
        if !kind.shows_itself(&played) {
            return None;
        }
        if kind.is_determined() && capture.tap <= draw::ELEMENT_STAGE {
            // The simulation has consumed the element; the same seed draws it again.
            let mut again = draw_case(kind, config, &mut Random::new(seed)).scenario;
            let element = &mut again.stages[draw::ELEMENT_STAGE].element;
            played.oracle = Some(Oracle::ask(&played.history, element));
        }
        Some(played)
    })
}

/// Writes a suite into a folder. `progress` is called for each capture.
pub fn write(
    config: &SuiteConfig,
    folder: &Path,
    mut progress: impl FnMut(usize, &str),
) -> Result<(), WriteError> {
    let mut suite = output::Output::create(folder)?;
    for index in 0..config.count {
        let Some(played) = play(config, index) else {
            progress(index, "no draw showed its kind: left out");
            continue;
        };
        let line = suite.add(index, &played)?;
        progress(index, &line);
    }
    suite.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_shows_itself_and_is_the_same_when_drawn_again() {
        for &kind in Kind::ALL {
            let config = SuiteConfig {
                split: Split::Train,
                seed: 7,
                count: 1,
                only: Some(kind),
                ..SuiteConfig::default()
            };
            let played = play(&config, 3)
                .unwrap_or_else(|| panic!("{}: nothing in {MOST_DRAWS} draws", kind.name()));
            let again = play(&config, 3).unwrap();
            assert_eq!(played.truths, again.truths, "{}", kind.name());
            assert!(played.history.records.len() > 100, "{}", kind.name());
        }
    }

    #[test]
    fn the_splits_differ() {
        let of = |split| SuiteConfig {
            split,
            seed: 7,
            count: 1,
            only: Some(Kind::RandomLoss),
            ..SuiteConfig::default()
        };
        let train = play(&of(Split::Train), 0).unwrap();
        let validation = play(&of(Split::Validation), 0).unwrap();
        assert_ne!(train.seed, validation.seed);
    }
}
