//! The commands about pairs of captures: their options.

use std::path::PathBuf;

use whydrop_simulate::pair::published::{self, PublishedConfig};
use whydrop_simulate::pair::suite::{self, Mechanism, PairsConfig};
use whydrop_simulate::pair::{self, PairError};
use whydrop_simulate::suite::Split;

/// `published --out DIR [--seed N] [--one-way]`
pub fn published(arguments: &[String]) -> Result<Result<(), PairError>, String> {
    let mut config = PublishedConfig::default();
    let mut folder = None;
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--one-way" => config.one_way = true,
            "--out" => folder = Some(PathBuf::from(value(option, rest.next())?)),
            "--seed" => config.seed = number(option, rest.next())?,
            _ => return Err(format!("{option}: no such option")),
        }
    }
    let folder = folder.ok_or("--out DIR is missing")?;
    let mut played = published::pair(config);
    Ok(pair::write(&mut played, &folder).map(|truth| {
        eprintln!(
            "{}: {} packets lost between the points",
            folder.display(),
            truth["forward_packets_lost_between"]
        );
    }))
}

/// `pairs --out DIR [--seed N] [--count N] [--split NAME] [--only NAME]`
pub fn pairs(arguments: &[String]) -> Result<Result<(), PairError>, String> {
    let (folder, config) = drawn(arguments, 2 * Mechanism::ALL.len())?;
    Ok(suite::write(&config, &folder, |index, line| {
        eprintln!("{:4}/{} {line}", index + 1, config.count);
    }))
}

/// `transfers --out DIR [--seed N] [--count N] [--split NAME] [--only NAME]`
pub fn transfers(arguments: &[String]) -> Result<Result<(), PairError>, String> {
    let (folder, config) = drawn(arguments, MANY_TRANSFERS)?;
    Ok(suite::transfers::write(&config, &folder, |index, line| {
        eprintln!("{:4}/{} {line}", index + 1, config.count);
    }))
}

/// Transfers that are drawn where nobody says how many.
const MANY_TRANSFERS: usize = 200;

/// What is to be drawn, and where to.
fn drawn(arguments: &[String], count: usize) -> Result<(PathBuf, PairsConfig), String> {
    let mut config = PairsConfig {
        split: Split::Train,
        seed: 1,
        count,
        only: None,
    };
    let mut folder = None;
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        match option.as_str() {
            "--out" => folder = Some(PathBuf::from(value(option, rest.next())?)),
            "--seed" => config.seed = number(option, rest.next())?,
            "--count" => config.count = number(option, rest.next())?,
            "--split" => {
                let name = value(option, rest.next())?;
                config.split = Split::parse(name)
                    .ok_or_else(|| format!("--split {name}: expected train or validation"))?;
            }
            "--only" => {
                let name = value(option, rest.next())?;
                let known = Mechanism::parse(name);
                config.only = Some(known.ok_or_else(|| {
                    format!(
                        "--only {name}: no such mechanism; expected one of {}",
                        mechanisms()
                    )
                })?);
            }
            _ => return Err(format!("{option}: no such option")),
        }
    }
    let folder = folder.ok_or("--out DIR is missing")?;
    Ok((folder, config))
}

/// The mechanisms of pairs, with what is right to call each.
pub fn print_mechanisms() {
    for mechanism in Mechanism::ALL {
        let right = suite::kind::right_causes(mechanism.kind()).join(", ");
        println!("{:22} {:14} {right}", mechanism.name(), mechanism.kind());
    }
}

fn mechanisms() -> String {
    let names: Vec<&str> = Mechanism::ALL
        .iter()
        .map(|mechanism| mechanism.name())
        .collect();
    names.join(", ")
}

fn value<'a>(option: &str, value: Option<&'a String>) -> Result<&'a str, String> {
    value
        .map(String::as_str)
        .ok_or_else(|| format!("{option}: a value is missing"))
}

fn number<N: std::str::FromStr>(option: &str, given: Option<&String>) -> Result<N, String> {
    let given = value(option, given)?;
    given
        .parse()
        .map_err(|_| format!("{option} {given}: expected a number"))
}
