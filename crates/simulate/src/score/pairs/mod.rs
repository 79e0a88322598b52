//! Scores of pairs, from both captures or from one of them.

mod judge;
mod tables;
#[cfg(test)]
mod tests;

use std::path::Path;

use super::run::{ScoreError, Scoring, capture, read_truth};
pub(crate) use judge::{BURST, ONE_PACKET_BYTES, RATE};
pub use judge::{Compared, Judged, judge};

/// Runs the command on the captures at `points` of every pair in the folder and prints tables.
pub fn score(scoring: &Scoring, points: &[&str]) -> Result<(), ScoreError> {
    let folders = scoring.pair_folders()?;
    let (mut judged, failures) =
        scoring.each(&folders, |folder| judge_folder(folder, scoring, points));
    judged.sort_by(|a, b| a.name.cmp(&b.name));
    tables::print(&judged, &failures);
    Ok(())
}

fn judge_folder(folder: &Path, scoring: &Scoring, points: &[&str]) -> Result<Judged, String> {
    let truth = read_truth(&folder.join("truth.json"))?;
    let captures: Result<Vec<_>, _> = points.iter().map(|point| capture(folder, point)).collect();
    Ok(judge(&truth, &scoring.report(&captures?)?))
}
