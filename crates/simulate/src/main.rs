//! `whydrop-simulate`: captures with known truth, for development.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use whydrop_simulate::pair::published::{self, PublishedConfig};
use whydrop_simulate::score::{self, Scoring};
use whydrop_simulate::suite::transfers::{self, Drawn};
use whydrop_simulate::suite::{
    CAPTURES, Kind, PAIRS, Split, SuiteConfig, TAP_NAMES, Without, captures, pairs,
};
use whydrop_simulate::{WriteError, pair};

const EXAMPLES: &str = "\
Examples:
  whydrop-simulate suite --out /tmp/suite --split train --seed 1 --count 52
  whydrop-simulate score /tmp/suite --jobs 2 -- uv run --no-sync whydrop explain --json
  whydrop-simulate pairs --out /tmp/pairs --seed 1 --count 48
  whydrop-simulate score /tmp/pairs --jobs 2 -- uv run --no-sync whydrop explain --json";

/// Make captures with known truth by simulating TCP over models of paths.
#[derive(Parser)]
#[command(name = "whydrop-simulate", after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write captures (sim-0000.pcap ...) and their truths (sim-0000.truth.json ...)
    Suite {
        #[command(flatten)]
        drawn: Wanted,
        /// Only captures of this kind
        #[arg(long, value_name = "KIND", value_parser = one_of(CAPTURES, |kind| kind.name))]
        only: Option<&'static Kind>,
        /// Hosts without selective acknowledgments (RFC 2018); everything else is drawn unchanged
        #[arg(long)]
        no_sack: bool,
        /// Hosts without TCP timestamps (RFC 7323); everything else is drawn unchanged
        #[arg(long)]
        no_timestamps: bool,
        /// Take every capture at this place
        #[arg(long, value_name = "PLACE", value_parser = PossibleValuesParser::new(TAP_NAMES))]
        tap: Option<String>,
    },
    /// List the kinds of captures and the correct causes of each
    Kinds,
    /// Write b.pcap and y.pcap, taken before and behind a policer of 300 Mbit/s with a bucket of 50 KB, and truth.json:
    /// the bursts of a published analysis
    Published {
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Leave out the return direction
        #[arg(long)]
        one_way: bool,
    },
    /// Write pairs of captures of simulated TCP through every mechanism, with the defects of real captures: folders
    /// with b.pcap, y.pcap and truth.json
    Pairs(DrawnPairs),
    /// Write pairs of captures of short transfers, whether or not they show the mechanism on their path; the correct
    /// causes in the truth follow from what happened
    Transfers(DrawnPairs),
    /// Write pairs of captures of longer transfers, with y.pcap captured at the downloading client
    Downloads(DrawnPairs),
    /// List the mechanisms of pairs and the correct causes of each
    Mechanisms,
    /// Compare a command's JSON for every capture, or for both captures of every pair, with the truths: causes, false
    /// accusations, lost packets, clocks, parameters, families of queue management; by mechanism and by treatment
    #[command(alias = "score-pairs")]
    Score {
        /// Explain only the first capture of each pair: causes and families
        #[arg(long)]
        single: bool,
        /// Explain only the second capture of each pair, taken behind the mechanism
        #[arg(long, conflicts_with = "single")]
        behind: bool,
        #[command(flatten)]
        scoring: Scoring,
    },
    /// Compare the account of time of each single capture with the simulator's
    ScoreTime(Scoring),
}

#[derive(Args)]
struct Wanted {
    /// Folder for the output
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// train: to tune on; validation: for checking afterwards
    #[arg(long, default_value = "train", value_parser = one_of_splits())]
    split: Split,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number to write [default: captures: 4 of each kind, pairs: 2 of each mechanism, transfers: 200]
    #[arg(long)]
    count: Option<usize>,
}

#[derive(Args)]
struct DrawnPairs {
    #[command(flatten)]
    drawn: Wanted,
    /// Only pairs of this mechanism
    #[arg(long, value_name = "MECHANISM", value_parser = one_of(PAIRS, |kind| kind.name))]
    only: Option<&'static Kind>,
}

/// Parses one of `all` by its name; an unknown name is refused with the list of valid ones.
fn one_of<T: Send + Sync>(
    all: &'static [T],
    name: fn(&T) -> &'static str,
) -> impl TypedValueParser<Value = &'static T> {
    PossibleValuesParser::new(all.iter().map(name)).map(move |given| {
        let found = all.iter().find(|each| name(each) == given);
        found.expect("clap accepts only possible values")
    })
}

fn one_of_splits() -> impl TypedValueParser<Value = Split> {
    one_of(&[Split::Train, Split::Validation], |split| split.name()).map(|split| *split)
}

impl Wanted {
    fn config(&self, count: usize) -> SuiteConfig {
        SuiteConfig {
            split: self.split,
            seed: self.seed,
            count: self.count.unwrap_or(count),
            ..SuiteConfig::default()
        }
    }
}

impl DrawnPairs {
    fn config(&self, count: usize) -> SuiteConfig {
        SuiteConfig {
            only: self.only,
            ..self.drawn.config(count)
        }
    }
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Suite {
            drawn,
            only,
            no_sack,
            no_timestamps,
            tap,
        } => {
            let config = SuiteConfig {
                only,
                without: Without {
                    sack: no_sack,
                    timestamps: no_timestamps,
                },
                tap: tap.and_then(|name| TAP_NAMES.iter().position(|tap| *tap == name)),
                ..drawn.config(4 * CAPTURES.len())
            };
            finish(captures::write(&config, &drawn.out, progress(config.count)))
        }
        Command::Kinds => {
            for kind in CAPTURES {
                println!("{:30} {}", kind.name, kind.right_causes.join(", "));
            }
            ExitCode::SUCCESS
        }
        Command::Published { out, seed, one_way } => finish(write_published(&out, seed, one_way)),
        Command::Pairs(asked) => {
            let config = asked.config(2 * PAIRS.len());
            finish(pairs::write(
                &config,
                &asked.drawn.out,
                progress(config.count),
            ))
        }
        Command::Transfers(asked) => finish(write_transfers(&asked, Drawn::Transfers)),
        Command::Downloads(asked) => finish(write_transfers(&asked, Drawn::Downloads)),
        Command::Mechanisms => {
            for kind in PAIRS {
                let right = kind.right_causes.join(", ");
                println!("{:22} {:14} {right}", kind.name, kind.family);
            }
            ExitCode::SUCCESS
        }
        Command::Score {
            single,
            behind,
            scoring,
        } => {
            let points: &[&str] = match (single, behind) {
                (true, _) => &["b"],
                (_, true) => &["y"],
                _ => &["b", "y"],
            };
            finish(score::score(&scoring, points))
        }
        Command::ScoreTime(scoring) => finish(score::time::score(&scoring)),
    }
}

fn write_transfers(asked: &DrawnPairs, drawn: Drawn) -> Result<(), WriteError> {
    let config = asked.config(200);
    transfers::write(&config, drawn, &asked.drawn.out, progress(config.count))
}

fn write_published(folder: &Path, seed: u64, one_way: bool) -> Result<(), WriteError> {
    let mut played = published::pair(PublishedConfig {
        seed,
        one_way,
        ..PublishedConfig::default()
    });
    let truth = pair::write(&mut played, folder)?;
    eprintln!(
        "{}: {} packets lost between the points",
        folder.display(),
        truth["forward_packets_lost_between"]
    );
    Ok(())
}

fn progress(count: usize) -> impl FnMut(usize, &str) {
    move |index, line| eprintln!("{:4}/{count} {line}", index + 1)
}

fn finish(result: Result<(), impl std::error::Error>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("whydrop-simulate: {problem}");
            ExitCode::FAILURE
        }
    }
}
