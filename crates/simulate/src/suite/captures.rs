//! Suites of single captures: `sim-0000.pcap` and `sim-0000.truth.json` for each, `labels.csv` for the kinds that the
//! scoring script knows, `others.csv` for the rest.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use whydrop_path::Random;

use super::kind::{CAPTURES, Kind, Shows};
use super::world::{World, single};
use super::{Independent, Oracle, SuiteConfig, write_all};
use crate::capture::write_capture;
use crate::files::{self, WriteError, at};
use crate::history::History;
use crate::network::Simulation;
use crate::scenario::{Application, CaptureConfig, FlowConfig};
use crate::truth::{FlowTruth, cross_traffic, flow_truths, flows_json};

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
    let mut output = Output::create(folder)?;
    let play = |index| play(config, index);
    write_all(config.count, progress, play, |index, played| {
        output.add(index, &played)
    })?;
    output.finish()
}

const LABEL_COLUMNS: &str = "file,kind,policer_rate_bps,policer_burst_bytes,link_rate_bps,link_burst_bytes,\
random_loss,cross_traffic,flows,chunk_delay_ms,rtt_ms,client_port,client_port_2,pd_lost_by_transfer,\
pd_policed_by_transfer,pd_rate_bps_by_transfer,pd_burst_bytes_by_transfer,origin";
const OTHER_COLUMNS: &str = "file,kind,right_causes,client_port,lost";

struct Output {
    folder: PathBuf,
    labels: Table,
    others: Table,
}

struct Table {
    path: PathBuf,
    out: BufWriter<File>,
}

impl Table {
    fn create(path: PathBuf, columns: &str) -> Result<Self, WriteError> {
        let out = files::create(&path)?;
        let mut table = Self { path, out };
        table.line(columns)?;
        Ok(table)
    }

    fn line(&mut self, line: &str) -> Result<(), WriteError> {
        writeln!(self.out, "{line}").map_err(at(&self.path))
    }

    fn finish(mut self) -> Result<(), WriteError> {
        self.out.flush().map_err(at(&self.path))
    }
}

impl Output {
    pub fn create(folder: &Path) -> Result<Self, WriteError> {
        fs::create_dir_all(folder).map_err(at(folder))?;
        Ok(Self {
            folder: folder.to_path_buf(),
            labels: Table::create(folder.join("labels.csv"), LABEL_COLUMNS)?,
            others: Table::create(folder.join("others.csv"), OTHER_COLUMNS)?,
        })
    }

    /// Writes one capture with its truth; returns a summary line.
    pub fn add(&mut self, index: usize, played: &Played) -> Result<String, WriteError> {
        let stem = format!("sim-{index:04}");
        let file = format!("{stem}.pcap");
        let path = self.folder.join(&file);
        let written = write_capture(
            files::create(&path)?,
            &played.history,
            &played.flows,
            &played.capture,
            played.seed,
        );
        let (frames, missed) = written.map_err(at(&path))?;
        let path = self.folder.join(format!("{stem}.truth.json"));
        let truth = truth(&file, played, frames, missed);
        files::write_json(&path, &truth)?;
        if played.kind.is_labelled() {
            self.labels.line(&label(&file, played))?;
        } else {
            let right = played.kind.right_causes.join(";");
            let first = &played.flows[0];
            let lost = played.truths[0].lost();
            self.others.line(&format!(
                "{file},{},{right},{},{lost}",
                played.kind.name, first.client_port
            ))?;
        }
        Ok(format!(
            "{file} {}: {frames} frames, {} lost",
            played.kind.name,
            played.truths[0].lost()
        ))
    }

    pub fn finish(self) -> Result<(), WriteError> {
        self.labels.finish()?;
        self.others.finish()
    }
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

fn label(file: &str, played: &Played) -> String {
    let number = |names: &[&str]| {
        let known = names.iter().find_map(|name| played.parameters.get(*name));
        known.map(Value::to_string).unwrap_or_default()
    };
    let flow = |number: usize| {
        let port = played.flows.get(number).map(|flow| flow.client_port);
        port.map(|port| port.to_string()).unwrap_or_default()
    };
    let value = |name: &str| played.parameters.get(name).and_then(Value::as_f64);
    let full_packets =
        |packets: f64| (packets * super::world::FULL_PACKET_BYTES as f64).to_string();
    let policed = played.kind.has_policer();
    let policer = |names| {
        if policed {
            number(names)
        } else {
            String::new()
        }
    };
    let limit_bytes = value("limit_packets").map_or(number(&["limit_bytes"]), full_packets);
    let loss = value("random_loss").map_or("0".into(), |loss| format!("{:.3}", loss * 100.0));
    let cross_traffic = played.kind.name.ends_with("cross-traffic");
    let pause_ns = match played.flows[0].application {
        Application::Chunks { pause_ns, .. } => pause_ns,
        _ => 0,
    };
    let fields = [
        file.to_string(),
        played.kind.name.to_string(),
        policer(&["rate_bps"]),
        policer(&["burst_bytes"]),
        number(&["drain_rate_bps", "link_rate_bps"]),
        limit_bytes,
        loss,
        u8::from(cross_traffic).to_string(),
        played.flows.len().to_string(),
        (pause_ns / 1_000_000).to_string(),
        format!("{:.3}", value("rtt_ms").unwrap_or(0.0)),
        flow(0),
        flow(1),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        format!("simulated seed {}", played.seed),
    ];
    fields.join(",")
}
