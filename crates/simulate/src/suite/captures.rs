//! Suites of single captures: `sim-0000.pcap` and `sim-0000.truth.json` for each.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};
use whydrop_path::Random;

use super::kind::{CAPTURES, Kind, Shows};
use super::world::{World, single};
use super::{Independent, Oracle, SuiteConfig, write_all};
use crate::capture::write_capture;
use crate::files::{self, WriteError, at};
use crate::truth::{FlowTruth, cross_traffic, flow_truths, flows_json};
use whydrop_network::Simulation;
use whydrop_network::history::History;
use whydrop_network::{CaptureConfig, FlowConfig};

/// A draw that does not show its kind (a policer that never dropped) is repeated, up to this often.
const MOST_DRAWS: u64 = 40;
/// The least number of data packets of the first connection.
const LEAST_DATA_PACKETS: u64 = 300;

/// A capture that was simulated and shows what its kind promises.
pub struct Played {
    pub kind: &'static Kind,
    /// Named values for the truth, in the units of their names.
    pub parameters: Map<String, Value>,
    pub flows: Vec<FlowConfig>,
    pub capture: CaptureConfig,
    pub history: History,
    pub truths: Vec<FlowTruth>,
    /// For hops with drops determined by their arrivals, if the capture is taken before them.
    pub oracle: Option<Oracle>,
    pub seed: u64,
}

impl Played {
    fn shows_its_kind(&self) -> bool {
        let Shows::Capture(shows) = self.kind.shows else {
            return false;
        };
        let first = &self.truths[0];
        first.sent >= LEAST_DATA_PACKETS && shows(first, first.lost_by_stage[single::ELEMENT])
    }
}

/// Draws and simulates the capture with this index: the same for the same split, seed and index, whatever the count.
pub fn play(config: &SuiteConfig, index: usize) -> Option<Played> {
    let kind = config.kind(CAPTURES, index);
    let mut seeds = Independent::Captures.seeds(config, index, MOST_DRAWS);
    seeds.find_map(|seed| attempt(kind, config, seed))
}

fn attempt(kind: &'static Kind, config: &SuiteConfig, seed: u64) -> Option<Played> {
    let random = &mut Random::new(seed);
    let mut world = World::of_capture(random);
    (kind.draw)(&mut world, random);
    config.without.apply(&mut world.scenario.flows);
    if let Some(tap) = config.tap {
        world.move_tap(tap);
    }
    let (flows, capture) = (world.scenario.flows.clone(), world.scenario.capture);
    let history = Simulation::new(world.scenario()).run();
    let truths = flow_truths(&history, &flows);
    let knows = kind.is_determined() && capture.tap <= single::ELEMENT;
    let oracle = knows.then(|| {
        let mut element = world.parts[single::ELEMENT].path.assemble(0);
        Oracle::ask(&history, &mut element)
    });
    let played = Played {
        kind,
        parameters: world.pair.parameters,
        flows,
        capture,
        history,
        truths,
        oracle,
        seed,
    };
    played.shows_its_kind().then_some(played)
}

/// Writes a suite into a folder. `progress` is called for each capture.
pub fn write(
    config: &SuiteConfig,
    folder: &Path,
    progress: impl FnMut(usize, &str),
) -> Result<(), WriteError> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    let play = |index| play(config, index);
    write_all(config.count, progress, play, |index, played| {
        write_one(&played, folder, &format!("sim-{index:04}"))
    })
}

/// Writes one capture with its truth; returns a summary line.
fn write_one(played: &Played, folder: &Path, stem: &str) -> Result<String, WriteError> {
    let file = format!("{stem}.pcap");
    let path = folder.join(&file);
    let written = write_capture(
        files::create(&path)?,
        &played.history,
        &played.flows,
        &played.capture,
        played.seed,
    );
    let (frames, missed) = written.map_err(at(&path))?;
    let truth = truth(&file, played, frames, missed);
    files::write_json(&folder.join(format!("{stem}.truth.json")), &truth)?;
    let lost = played.truths[0].lost();
    Ok(format!(
        "{file} {}: {frames} frames, {lost} lost",
        played.kind.name
    ))
}

fn truth(file: &str, played: &Played, frames: usize, missed: usize) -> Value {
    let (hidden_sent, hidden_dropped) = cross_traffic(&played.history);
    json!({
        "file": file,
        "kind": played.kind.name,
        "right_causes": played.kind.right_causes,
        "aside": played.kind.is_aside(),
        "policed": played.kind.has_policer(),
        "parameters": played.parameters,
        "oracle": played.oracle.map(Oracle::to_json),
        "flows": flows_json(&played.truths, &played.flows, &played.history),
        "hidden": { "sent": hidden_sent, "dropped": hidden_dropped },
        "capture": {
            "frames": frames,
            "missed_by_sniffer": missed,
            "resolution": played.capture.resolution.name(),
            "snaplen": played.capture.snaplen,
        },
        "complete": played.history.complete,
        "duration_s": played.history.end_ns as f64 / 1e9,
        "seed": played.seed,
    })
}
