//! The commands about pairs of captures: their options.

use std::path::PathBuf;

use whydrop_simulate::pair::published::{self, PublishedConfig};
use whydrop_simulate::pair::{self, PairError};

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
