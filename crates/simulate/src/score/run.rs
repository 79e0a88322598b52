//! Running the scored command on what a folder contains.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

/// A folder that cannot be scored.
#[derive(Debug)]
pub struct ScoreError(String);

impl fmt::Display for ScoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScoreError {}

/// The scored folder and command.
#[derive(Debug, clap::Args)]
pub struct Scoring {
    /// Folder of a suite
    pub(super) folder: PathBuf,
    /// Number of commands that run in parallel
    #[arg(long, default_value_t = 1)]
    pub(super) jobs: usize,
    /// Command to run, with the paths of captures appended
    #[arg(last = true, default_values = ["whydrop", "explain", "--json"])]
    pub(super) command: Vec<String>,
}

impl Scoring {
    /// The entries of the folder with a truth, in order: the truth files of captures, or the folders of pairs; the
    /// folder itself if it is a pair.
    pub(super) fn entries(&self) -> Result<Vec<PathBuf>, ScoreError> {
        let is_pair = |path: &Path| path.join("truth.json").is_file();
        let is_truth = |path: &Path| path.to_string_lossy().ends_with(".truth.json");
        if is_pair(&self.folder) {
            return Ok(vec![self.folder.clone()]);
        }
        let shown = self.folder.display();
        let unreadable = |e: std::io::Error| ScoreError(format!("{shown}: cannot list: {e}"));
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if is_pair(&path) || is_truth(&path) {
                found.push(path);
            }
        }
        if found.is_empty() {
            return Err(ScoreError(format!(
                "{shown}: neither *.truth.json nor folders with a truth.json here: make some first with \
                 `whydrop-simulate suite` or `whydrop-simulate pairs`"
            )));
        }
        found.sort();
        Ok(found)
    }

    /// Applies `work` to every path. Returns the results in no particular order, and the failures by path.
    pub(super) fn each<R: Send>(
        &self,
        paths: &[PathBuf],
        work: impl Fn(&Path) -> Result<R, String> + Sync,
    ) -> (Vec<R>, Vec<String>) {
        let next = AtomicUsize::new(0);
        let results = Mutex::new((Vec::new(), Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(|| {
                    while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let result = work(path);
                        // A poisoned lock means that another thread has panicked, which the scope reports.
                        let Ok(mut results) = results.lock() else {
                            return;
                        };
                        match result {
                            Ok(result) => results.0.push(result),
                            Err(what) => results.1.push(format!("{}: {what}", path.display())),
                        }
                    }
                });
            }
        });
        let (done, mut failures) = results.into_inner().unwrap_or_default();
        failures.sort();
        (done, failures)
    }

    /// Runs the command on captures and parses the document that it prints.
    pub(super) fn report(&self, captures: &[PathBuf]) -> Result<Value, String> {
        let (program, arguments) = self.command.split_first().ok_or("no command given")?;
        let output = Command::new(program)
            .args(arguments)
            .args(captures)
            .output();
        let output = output.map_err(|e| format!("cannot run {program}: {e}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: {}", output.status, said.trim()));
        }
        serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())
    }
}

pub(super) fn print_failures(failures: &[String]) {
    println!("failures: {}", failures.len());
    failures.iter().for_each(|failure| println!("  {failure}"));
}

/// The truth of an entry.
pub(super) fn read_truth(entry: &Path) -> Result<Value, String> {
    let path = match entry.is_dir() {
        true => entry.join("truth.json"),
        false => entry.to_path_buf(),
    };
    let text = fs::read_to_string(path).map_err(|e| e.to_string())?;
    serde_json::from_str(&text).map_err(|e| e.to_string())
}

/// A capture of a pair, plain or compressed.
pub(super) fn capture(folder: &Path, point: &str) -> Result<PathBuf, String> {
    let names = [format!("{point}.pcap"), format!("{point}.pcap.zst")];
    let found = names
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file());
    found.ok_or_else(|| format!("neither {} nor {} exists", names[0], names[1]))
}
