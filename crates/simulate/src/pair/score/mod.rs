//! Scoring a diagnosis of pairs against their truths.

mod judge;
mod tables;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::score::{ScoreError, in_parallel, run_command};
pub(crate) use judge::{BURST, ONE_PACKET_BYTES, RATE};
pub use judge::{Compared, Judged, judge};

/// Runs `command` (its words; the captures at `points` are appended) on every pair in `folder` and prints tables.
pub fn score(
    folder: &Path,
    command: &[String],
    jobs: usize,
    points: &[&str],
) -> Result<(), ScoreError> {
    let folders = pair_folders(folder)?;
    let results = in_parallel(&folders, jobs, |folder| {
        judge_folder(folder, command, points)
            .map_err(|what| format!("{}: {what}", folder.display()))
    });
    let (judged, failures): (Vec<_>, Vec<_>) = results.into_iter().partition(|r| r.is_ok());
    let mut judged: Vec<Judged> = judged.into_iter().flatten().collect();
    judged.sort_by(|a, b| a.name.cmp(&b.name));
    let mut failures: Vec<String> = failures.into_iter().filter_map(Result::err).collect();
    failures.sort();
    tables::print(&judged, &failures);
    Ok(())
}

/// The folder itself if it is a pair, otherwise the pairs in it.
pub(crate) fn pair_folders(folder: &Path) -> Result<Vec<PathBuf>, ScoreError> {
    let is_pair = |path: &Path| path.join("truth.json").is_file();
    if is_pair(folder) {
        return Ok(vec![folder.to_path_buf()]);
    }
    let unreadable =
        |e: std::io::Error| ScoreError(format!("{}: cannot list: {e}", folder.display()));
    let mut folders = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if is_pair(&path) {
            folders.push(path);
        }
    }
    if folders.is_empty() {
        return Err(ScoreError(format!(
            "{}: no folder with a truth.json here: make pairs first with `whydrop-simulate pairs`",
            folder.display()
        )));
    }
    folders.sort();
    Ok(folders)
}

fn judge_folder(folder: &Path, command: &[String], points: &[&str]) -> Result<Judged, String> {
    let text = fs::read_to_string(folder.join("truth.json")).map_err(|e| e.to_string())?;
    let truth: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let captures: Result<Vec<_>, _> = points.iter().map(|point| capture(folder, point)).collect();
    let report = run_command(command, &captures?)?;
    Ok(judge(&truth, &report))
}

/// A capture, plain or compressed.
pub(crate) fn capture(folder: &Path, point: &str) -> Result<PathBuf, String> {
    let names = [format!("{point}.pcap"), format!("{point}.pcap.zst")];
    let found = names
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file());
    found.ok_or_else(|| format!("neither {} nor {} exists", names[0], names[1]))
}
