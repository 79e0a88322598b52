//! The program `whydrop-responder`: the far end of tests, without Python.
//!
//! Its options, limits, lines and exit status are those of `whydrop responder`.

#![forbid(unsafe_code)]

mod arguments;
mod quantities;

use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;

use nix::sys::signal::{SigSet, Signal};
use whydrop_traffic::clock;
use whydrop_traffic::keyring::Keyring;
use whydrop_traffic::responder::{Config, Describe, Responder};
use whydrop_traffic::secret_file::FileError;
use whydrop_traffic::stop::Stop;

use arguments::{Arguments, Request};

const HELP: &str = include_str!("help.txt");
const USAGE: u8 = 2;

/// A reason to end, with its lines for standard error and its exit status.
struct Failure {
    lines: String,
    status: u8,
}

impl Failure {
    fn other(reason: impl ToString) -> Failure {
        Failure {
            lines: format!("whydrop: {}", reason.to_string()),
            status: 1,
        }
    }

    fn usage(problem: &str) -> Failure {
        let first =
            "Usage: whydrop-responder [OPTIONS]\nTry 'whydrop-responder --help' for help.\n";
        Failure {
            lines: format!("{first}\nError: {problem}"),
            status: USAGE,
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        let status = match error {
            FileError::Refused(_) => USAGE,
            FileError::Invalid(_) | FileError::Unreadable { .. } => 1,
        };
        Failure {
            lines: format!("whydrop: {error}"),
            status,
        }
    }
}

fn main() -> ExitCode {
    match arguments::read(std::env::args_os().skip(1)) {
        Ok(Request::Help) => say(&mut io::stdout(), HELP.trim_end()),
        Ok(Request::Version) => say(
            &mut io::stdout(),
            concat!("whydrop-responder ", env!("CARGO_PKG_VERSION")),
        ),
        Ok(Request::Serve(arguments)) => return ended(serve(arguments)),
        Err(problem) => return ended(Err(Failure::usage(&problem))),
    }
    ExitCode::SUCCESS
}

fn ended(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&mut io::stderr(), &failure.lines);
            ExitCode::from(failure.status)
        }
    }
}

fn serve(arguments: Arguments) -> Result<(), Failure> {
    let signals = blocked_signals().map_err(Failure::other)?;
    let keyring = keyring(&arguments)?;
    let clients = match &keyring {
        None => "everyone, within limits".to_owned(),
        Some(keyring) => keyring.clients(),
    };
    let responder = Responder::bind(Config {
        limits: arguments.limits(),
        addresses: arguments.addresses,
        port: arguments.port,
        keyring,
        describe: arguments
            .metadata
            .then(|| Box::new(whydrop_host::described) as Describe),
        metrics: arguments.metrics,
    })
    .map_err(Failure::other)?;
    stop_at(signals, responder.stopper());
    report(&format!(
        "TCP and UDP port {}, open to {clients}",
        responder.port()
    ));
    let stop = responder.stopper();
    thread::scope(|scope| {
        scope.spawn(|| report_notes(&responder, &stop));
        responder.run()
    })
    .map_err(Failure::other)?;
    report(&responder.statistics().to_string());
    Ok(())
}

/// Prints the responder's notes until it stops.
fn report_notes(responder: &Responder, stop: &Stop) {
    while stop.sleep_until_ns(clock::now_ns() + 1_000_000_000) {
        for note in responder.notes() {
            say(&mut io::stderr(), &format!("whydrop responder: {note}"));
        }
    }
}

fn keyring(arguments: &Arguments) -> Result<Option<Keyring>, Failure> {
    if arguments.open {
        return Ok(None);
    }
    let keyring = Keyring::read(arguments.secret_file.as_deref())?;
    keyring.map(Some).ok_or_else(|| {
        Failure::usage(
            "Give --secret-file FILE (or set WHYDROP_SECRET), or --open to serve everyone.",
        )
    })
}

/// Blocks the signals that stop a responder: SIGINT, SIGTERM and SIGHUP. An ignored SIGHUP stays ignored (nohup).
///
/// This happens before any other thread starts, so that only the waiting thread receives them.
fn blocked_signals() -> nix::Result<SigSet> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    if !ignores_hangup() {
        signals.add(Signal::SIGHUP);
    }
    signals.thread_block()?;
    Ok(signals)
}

/// Stops the responder at the first of these signals.
fn stop_at(signals: SigSet, stop: Stop) {
    thread::spawn(move || {
        // An error would leave a responder that no signal stops.
        let _ = signals.wait();
        stop.set();
    });
}

/// Reads the mask of ignored signals, in hexadecimal, from proc(5).
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 << (Signal::SIGHUP as u64 - 1) != 0)
}

fn report(line: &str) {
    say(&mut io::stdout(), &format!("whydrop responder: {line}"));
}

/// Writes a line. The responder serves even if nothing reads its output.
fn say(stream: &mut dyn Write, line: &str) {
    let _ = writeln!(stream, "{line}").and_then(|()| stream.flush());
}
