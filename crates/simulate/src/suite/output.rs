//! A suite on disk: `sim-0000.pcap` and `sim-0000.truth.json` for each capture, `labels.csv` for the kinds that the
//! scoring script knows, `others.csv` for the rest.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Oracle, Played};
use crate::capture::{resolution_name, write_capture};
use crate::files::{self, WriteError, at};
use crate::truth::{cross_traffic, flows_json};

const LABEL_COLUMNS: &str = "file,kind,policer_rate_bps,policer_burst_bytes,link_rate_bps,link_burst_bytes,\
random_loss,cross_traffic,flows,chunk_delay_ms,rtt_ms,client_port,client_port_2,pd_lost_by_transfer,\
pd_policed_by_transfer,pd_rate_bps_by_transfer,pd_burst_bytes_by_transfer,origin";
const OTHER_COLUMNS: &str = "file,kind,right_causes,client_port,lost";

pub(super) struct Output {
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
            let right = played.kind.right_causes().join(";");
            let first = &played.flows[0];
            let lost = played.truths[0].lost();
            self.others.line(&format!(
                "{file},{},{right},{},{lost}",
                played.kind.name(),
                first.client_port
            ))?;
        }
        Ok(format!(
            "{file} {}: {frames} frames, {} lost",
            played.kind.name(),
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
        "kind": played.kind.name(),
        "right_causes": played.kind.right_causes(),
        "aside": played.kind.is_aside(),
        "policed": played.kind.has_policer(),
        "parameters": played.facts.parameters,
        "oracle": played.oracle.map(Oracle::to_json),
        "flows": flows_json(&played.truths, &played.flows, &played.history),
        "hidden": { "sent": hidden_sent, "dropped": hidden_dropped },
        "capture": {
            "frames": frames,
            "missed_by_sniffer": missed,
            "resolution": resolution_name(played.capture.resolution),
            "snaplen": played.capture.snaplen,
        },
        "complete": played.history.complete,
        "duration_s": played.history.end_ns as f64 / 1e9,
        "seed": played.seed,
    })
}

fn label(file: &str, played: &Played) -> String {
    let facts = &played.facts;
    let optional = |value: Option<u64>| value.map(|v| v.to_string()).unwrap_or_default();
    let fields = [
        file.to_string(),
        played.kind.name().to_string(),
        optional(facts.policer_rate_bps),
        optional(facts.policer_burst_bytes),
        optional(facts.link_rate_bps),
        optional(facts.link_burst_bytes),
        facts
            .random_loss_percent
            .map_or("0".into(), |percent| format!("{percent:.3}")),
        u8::from(facts.cross_traffic).to_string(),
        played.flows.len().to_string(),
        (facts.pause_ns / 1_000_000).to_string(),
        format!("{:.3}", facts.rtt_ns as f64 / 1e6),
        played.flows[0].client_port.to_string(),
        played
            .flows
            .get(1)
            .map(|flow| flow.client_port.to_string())
            .unwrap_or_default(),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
        format!("simulated seed {}", played.seed),
    ];
    fields.join(",")
}
