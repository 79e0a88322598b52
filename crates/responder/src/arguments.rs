//! The command line, with the options of `whydrop responder`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use whydrop_traffic::responder::{DEFAULT_PORT, Limits};

use crate::quantities::{rate_bps, seconds};

/// The options as they are given.
#[derive(Debug, PartialEq)]
pub struct Arguments {
    pub secret_file: Option<PathBuf>,
    pub open: bool,
    pub addresses: Vec<IpAddr>,
    pub port: u16,
    pub max_sessions: Option<usize>,
    pub max_duration_s: Option<f64>,
    pub max_rate_bps: Option<f64>,
    pub metadata: bool,
    pub metrics: Option<PathBuf>,
}

/// A request of the command line.
#[derive(Debug, PartialEq)]
pub enum Request {
    Serve(Arguments),
    Help,
    Version,
}

impl Arguments {
    fn defaults() -> Arguments {
        Arguments {
            secret_file: None,
            open: false,
            addresses: Vec::new(),
            port: DEFAULT_PORT,
            max_sessions: None,
            max_duration_s: None,
            max_rate_bps: None,
            metadata: true,
            metrics: None,
        }
    }

    /// The limits: the defaults, of clients with the secret or of everyone, with the given changes.
    pub fn limits(&self) -> Limits {
        Limits::with(
            self.open,
            self.max_sessions,
            self.max_duration_s,
            self.max_rate_bps,
        )
    }
}

/// Reads the command line, without the name of the program.
///
/// # Errors
/// A message that names the option and the expected value.
pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Request, String> {
    let mut found = Arguments::defaults();
    let mut left = arguments.into_iter();
    while let Some(argument) = left.next() {
        let text = argument.to_string_lossy().into_owned();
        let (name, attached) = name_and_value(&text);
        match name {
            "-h" | "--help" => return Ok(Request::Help),
            "--version" => return Ok(Request::Version),
            "--open" | "--no-metadata" if attached.is_some() => {
                return Err(format!("Option '{name}' does not take a value."));
            }
            "--open" => found.open = true,
            "--no-metadata" => found.metadata = false,
            "--secret-file" | "--listen" | "-p" | "--port" | "--max-sessions"
            | "--max-duration" | "--max-rate" | "--metrics" => {
                let value = attached.map(OsString::from).or_else(|| left.next());
                let value =
                    value.ok_or_else(|| format!("Option '{name}' requires an argument."))?;
                set(&mut found, name, value)
                    .map_err(|problem| format!("Invalid value for '{name}': {problem}"))?;
            }
            _ if name.starts_with('-') => {
                return Err(format!("No such option '{}'.", name.escape_debug()));
            }
            _ => {
                return Err(format!(
                    "Got unexpected extra argument ({})",
                    name.escape_debug()
                ));
            }
        }
    }
    if found.open && found.secret_file.is_some() {
        return Err("Give --secret-file FILE, or --open to serve everyone; not both.".to_owned());
    }
    Ok(Request::Serve(found))
}

/// Splits `--name=value` and `-pVALUE`.
fn name_and_value(text: &str) -> (&str, Option<&str>) {
    if text.starts_with("--") {
        return text
            .split_once('=')
            .map_or((text, None), |(name, value)| (name, Some(value)));
    }
    match text.strip_prefix("-p") {
        Some(value) if !value.is_empty() => ("-p", Some(value)),
        _ => (text, None),
    }
}

fn set(found: &mut Arguments, name: &str, value: OsString) -> Result<(), String> {
    if name == "--secret-file" {
        found.secret_file = Some(value.into());
        return Ok(());
    }
    if name == "--metrics" {
        found.metrics = Some(value.into());
        return Ok(());
    }
    let text = value.to_string_lossy();
    match name {
        "--listen" => found.addresses.push(address(&text)?),
        "--max-sessions" => found.max_sessions = Some(whole(&text, 1, 10_000)?),
        "--max-duration" => found.max_duration_s = Some(seconds(&text)?),
        "--max-rate" => found.max_rate_bps = Some(rate_bps(&text)?),
        _ => found.port = whole(&text, 0, 65_535)?,
    }
    Ok(())
}

fn address(text: &str) -> Result<IpAddr, String> {
    let inner = text.strip_prefix('[').unwrap_or(text);
    let inner = inner.strip_suffix(']').unwrap_or(inner);
    inner.parse().map_err(|_| {
        format!(
            "'{}': expected an address of this host, such as 192.0.2.7 or 2001:db8::7.",
            text.escape_debug()
        )
    })
}

fn whole<T: TryFrom<u64>>(text: &str, least: u64, most: u64) -> Result<T, String> {
    let number = Some(text)
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .filter(|number| (least..=most).contains(number));
    number
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| {
            format!(
                "'{}': expected a whole number from {least} to {most}",
                text.escape_debug()
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> Result<Request, String> {
        read(words.split_whitespace().map(OsString::from))
    }

    fn served(words: &str) -> Arguments {
        match of(words) {
            Ok(Request::Serve(arguments)) => arguments,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_options_the_defaults_apply() {
        assert_eq!(served(""), Arguments::defaults());
    }

    #[test]
    fn every_option_is_read() {
        let found = served(
            "--secret-file s --listen 127.0.0.1 --listen=[::1] -p 4000 --max-sessions 3 --max-duration 90s \
             --max-rate=100M --no-metadata --metrics far.prom",
        );
        let addresses = ["127.0.0.1", "::1"].map(|text| text.parse().unwrap());
        let expected = Arguments {
            secret_file: Some("s".into()),
            open: false,
            addresses: addresses.to_vec(),
            port: 4000,
            max_sessions: Some(3),
            max_duration_s: Some(90.0),
            max_rate_bps: Some(1e8),
            metadata: false,
            metrics: Some("far.prom".into()),
        };
        assert_eq!(found, expected);
        assert_eq!(served("-p4001").port, 4001);
        assert!(served("--open").open);
    }

    #[test]
    fn a_mistake_names_the_option_and_the_expected_value() {
        for (words, expected) in [
            ("--listen localhost", "expected an address"),
            ("--port 65536", "from 0 to 65535"),
            ("--port +1", "from 0 to 65535"),
            ("--max-sessions 0", "from 1 to 10000"),
            ("--max-duration x", "20 ms"),
            ("--max-rate 1x", "unknown unit"),
            ("--port", "requires an argument"),
            ("--open=1", "does not take a value"),
            ("--fast", "No such option '--fast'"),
            ("here", "unexpected extra argument"),
            ("--open --secret-file s", "not both"),
        ] {
            let message = of(words).unwrap_err();
            assert!(message.contains(expected), "{words}: {message}");
        }
    }

    #[test]
    fn help_and_version_end_the_reading() {
        assert_eq!(of("--open -h --nonsense"), Ok(Request::Help));
        assert_eq!(of("--version"), Ok(Request::Version));
    }
}
