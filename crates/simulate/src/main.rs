//! `whydrop-simulate`: captures with known truth, for development.

mod pair_commands;

use std::path::PathBuf;
use std::process::ExitCode;

use whydrop_simulate::score;
use whydrop_simulate::suite::{self, Kind, Split, SuiteConfig};

const USAGE: &str = "\
Make captures with known truth, by simulating TCP over models of paths.

usage: whydrop-simulate suite --out DIR [--split train|validation] [--seed N] [--count N] [--only KIND]
       whydrop-simulate score DIR [--jobs N] [-- COMMAND ...]
       whydrop-simulate kinds
       whydrop-simulate published --out DIR [--seed N] [--one-way]
       whydrop-simulate pairs --out DIR [--seed N] [--count N] [--split train|validation] [--only MECHANISM]
       whydrop-simulate transfers --out DIR [--seed N] [--count N] [--split train|validation] [--only MECHANISM]
       whydrop-simulate mechanisms
       whydrop-simulate score-pairs DIR [--single] [--jobs N] [-- COMMAND ...]
       whydrop-simulate score-time DIR [--jobs N] [-- COMMAND ...]

  --out DIR      folder for the captures (sim-0000.pcap ...), their truths (sim-0000.truth.json ...),
                 labels.csv and others.csv
  --split NAME   train (default): to tune on; validation: to look at afterwards
  --seed N       another suite of the same world (default 1)
  --count N      number of captures (default 104: four of each kind)
  --only KIND    captures of one kind; `whydrop-simulate kinds` lists them

score runs a command (default: whydrop explain --json) on every capture of a suite and compares its JSON with the
truths: causes, accusations, losses, parameters.

published writes a pair of captures (b.pcap before, y.pcap behind a policer of 300 Mbit/s with a bucket of 50 KB) and
truth.json: bursts that a published analysis describes. --one-way leaves out what goes back.
pairs writes pairs of captures of simulated TCP through every mechanism (default: two of each), as untidy as real ones;
each has a folder with b.pcap, y.pcap and truth.json. score-pairs runs a command on both captures of every pair:
causes, lost packets, clocks, parameters, families of queue management; by mechanism and by treatment. --single runs it
on the first capture of each alone: causes and families.
transfers writes pairs of captures of short transfers (default: 200), kept whether or not they show what is on their
path: the truth says what is right by what happened. score-pairs scores them, too; score-time compares the account of
time of each capture alone with the simulator's.

examples:
         whydrop-simulate suite --out /tmp/suite --split train --seed 1 --count 52
         whydrop-simulate score /tmp/suite --jobs 2 -- uv run --no-sync whydrop explain --json
         whydrop-simulate pairs --out /tmp/pairs --seed 1 --count 48
         whydrop-simulate score-pairs /tmp/pairs --jobs 2 -- uv run --no-sync whydrop explain --json
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("suite") => match parse(&arguments[1..]) {
            Ok((folder, config)) => run(&folder, &config),
            Err(problem) => misused(&problem),
        },
        Some("score-pairs") => {
            let is_single = |argument: &&String| argument.as_str() == "--single";
            let single = arguments
                .iter()
                .take_while(|argument| *argument != "--")
                .any(|argument| is_single(&argument));
            let others: Vec<String> = arguments[1..]
                .iter()
                .filter(|argument| !is_single(argument))
                .cloned()
                .collect();
            match parse_score(&others) {
                Ok((folder, jobs, command)) => {
                    let points: &[&str] = if single { &["b"] } else { &["b", "y"] };
                    finish(whydrop_simulate::pair::score::score(
                        &folder, &command, jobs, points,
                    ))
                }
                Err(problem) => misused(&problem),
            }
        }
        Some("score-time") => match parse_score(&arguments[1..]) {
            Ok((folder, jobs, command)) => {
                finish(whydrop_simulate::time_score::score(&folder, &command, jobs))
            }
            Err(problem) => misused(&problem),
        },
        Some("score") => match parse_score(&arguments[1..]) {
            Ok((folder, jobs, command)) => finish(score::score(&folder, &command, jobs)),
            Err(problem) => misused(&problem),
        },
        Some("published") => match pair_commands::published(&arguments[1..]) {
            Ok(result) => finish(result),
            Err(problem) => misused(&problem),
        },
        Some("transfers") => match pair_commands::transfers(&arguments[1..]) {
            Ok(result) => finish(result),
            Err(problem) => misused(&problem),
        },
        Some("pairs") => match pair_commands::pairs(&arguments[1..]) {
            Ok(result) => finish(result),
            Err(problem) => misused(&problem),
        },
        Some("kinds") => {
            Kind::ALL
                .iter()
                .for_each(|kind| println!("{:30} {}", kind.name(), kind.right_causes().join(", ")));
            ExitCode::SUCCESS
        }
        Some("mechanisms") => {
            pair_commands::print_mechanisms();
            ExitCode::SUCCESS
        }
        Some("--help" | "-h" | "help") => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn misused(problem: &str) -> ExitCode {
    eprintln!("whydrop-simulate: {problem}; see whydrop-simulate --help");
    ExitCode::from(2)
}

fn run(folder: &std::path::Path, config: &SuiteConfig) -> ExitCode {
    finish(suite::write(config, folder, |index, line| {
        eprintln!("{:4}/{} {line}", index + 1, config.count)
    }))
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

fn parse_score(arguments: &[String]) -> Result<(PathBuf, usize, Vec<String>), String> {
    let (options, command) = match arguments.iter().position(|word| word == "--") {
        Some(place) => (&arguments[..place], arguments[place + 1..].to_vec()),
        None => (
            arguments,
            ["whydrop", "explain", "--json"].map(String::from).to_vec(),
        ),
    };
    let (folder, rest) = options
        .split_first()
        .ok_or("score: the folder of a suite is missing")?;
    let jobs = match rest {
        [] => 1,
        [option, value] if option == "--jobs" => value
            .parse()
            .map_err(|_| format!("--jobs {value}: expected a number"))?,
        [option, ..] => return Err(format!("{option}: no such option")),
    };
    Ok((PathBuf::from(folder), jobs, command))
}

fn parse(arguments: &[String]) -> Result<(PathBuf, SuiteConfig), String> {
    let mut folder = None;
    let mut config = SuiteConfig {
        split: Split::Train,
        seed: 1,
        count: 4 * Kind::ALL.len(),
        only: None,
    };
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        let value = rest
            .next()
            .ok_or_else(|| format!("{option}: a value is missing"))?;
        let number = || {
            value
                .parse::<u64>()
                .map_err(|_| format!("{option} {value}: expected a number"))
        };
        match option.as_str() {
            "--out" => folder = Some(PathBuf::from(value)),
            "--seed" => config.seed = number()?,
            "--count" => {
                config.count =
                    usize::try_from(number()?).map_err(|e| format!("{option} {value}: {e}"))?
            }
            "--split" => {
                let split = Split::parse(value);
                config.split = split
                    .ok_or_else(|| format!("--split {value}: expected train or validation"))?;
            }
            "--only" => {
                let kind = Kind::parse(value);
                config.only = Some(kind.ok_or_else(|| format!("--only {value}: no such kind"))?);
            }
            _ => return Err(format!("{option}: no such option")),
        }
    }
    let folder = folder.ok_or("--out DIR is missing")?;
    Ok((folder, config))
}
