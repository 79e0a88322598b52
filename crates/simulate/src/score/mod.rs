//! Scoring of a command's diagnoses against the truths of drawn captures.
//!
//! | module | subject |
//! |---|---|
//! | [`suite`] | single captures of a suite: causes, false accusations, losses, parameters |
//! | [`pairs`] | pairs, from both captures or either: causes, losses, clocks, parameters, families |
//! | [`time`] | the account of time from each capture of a pair |
//! | `run` | the folder, the command, its reports |
//! | `statistics` | groups, counts, quantiles, coverage |

pub mod pairs;
mod run;
mod statistics;
pub mod suite;
pub mod time;

pub use run::{ScoreError, Scoring};
