//! Scoring of a command's diagnoses against the truths of drawn captures and pairs.
//!
//! | module | subject |
//! |---|---|
//! | `judge` | one diagnosis and its truth: cause, losses, accusations, the family of queue management |
//! | `numbers` | its parameters and clocks, with the errors that are permitted |
//! | `tables` | what is printed: by mechanism, by treatment, by number |
//! | [`time`] | the account of time from each capture of a pair |
//! | `run` | the folder, the command, its reports |
//! | `statistics` | groups, counts, quantiles, coverage |

mod judge;
mod numbers;
mod run;
mod statistics;
mod tables;
#[cfg(test)]
mod tests;
pub mod time;

use std::path::Path;

pub(crate) use numbers::{RATE, burst_share};
pub use run::{ScoreError, Scoring};

use judge::{Judged, judge};

/// Runs the command on every capture of the folder, or on those at `points` of every pair, and prints tables.
pub fn score(scoring: &Scoring, points: &[&str]) -> Result<(), ScoreError> {
    let entries = scoring.entries()?;
    let (mut judged, failures) =
        scoring.each(&entries, |entry| judge_entry(entry, scoring, points));
    judged.sort_by(|a, b| a.name.cmp(&b.name));
    tables::print(&judged, &failures);
    Ok(())
}

/// Judges a capture by its truth file, or a pair by its folder.
fn judge_entry(entry: &Path, scoring: &Scoring, points: &[&str]) -> Result<Judged, String> {
    let truth = run::read_truth(entry)?;
    let captures = match truth["file"].as_str() {
        Some(file) => vec![entry.with_file_name(file)],
        None => points
            .iter()
            .map(|point| run::capture(entry, point))
            .collect::<Result<_, _>>()?,
    };
    Ok(judge(&truth, &scoring.report(&captures)?))
}
