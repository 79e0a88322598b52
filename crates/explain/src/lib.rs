//! Causes compete for the losses and delays of each flow.
//!
//! ```no_run
//! use whydrop_explain::{Options, explain_paths};
//!
//! let explanation = explain_paths(&["server.pcap.xz".into()], Options::default())?;
//! for verdict in &explanation.document.verdicts {
//!     println!("{} ({})", verdict.cause, verdict.confidence);
//! }
//! # Ok::<(), whydrop_explain::ExplainError>(())
//! ```
//!
//! | module | subject |
//! |---|---|
//! | `one_group`, `vantage` | the judgement of the flows to one host, and the part of the path that is judged |
//! | [`observe`] | what captures show of a group of flows: fates, delays, fitted buckets and queues |
//! | [`cause`], `thresholds` | the hypotheses, one file a cause, that compete for the losses |
//! | [`limited`], `limits` | the cause of slow flows without losses |
//! | [`hop`], `pair` | the same for the hops between two captures |
//! | `fitted_path`, `quantities` | fitted parameters as a path, and with their intervals |
//! | `verdict`, `ranked` | an outcome in the form of the document, and the order of the verdicts |
//! | [`bursts`] | bursts of a measurement, judged like a hop between two captures |
//! | `conditions`, `failures`, `endings` | causes proved by themselves, connections that failed, and endings of the others |
//! | `requests` | requests that waited, and for how long |
//! | `waits` | waiting times outside the account of a flow, as part of its time |
//! | `beside` | everything but TCP data: requests without an answer, ICMP errors, echo requests, marked datagrams |
//! | `transfers` | the cause of each transfer |
//! | `untimed` | what is left to say if the timestamps show no time |
//! | `assemble`, `tabulate` | the [`document`] and the [`tables`] |

#![forbid(unsafe_code)]

mod assemble;
mod beside;
pub mod bursts;
pub mod cause;
mod conditions;
pub mod document;
mod endings;
mod error;
mod failures;
mod fitted_path;
pub mod hop;
pub mod limited;
mod limits;
mod noticeable;
pub mod observe;
mod one_group;
mod pair;
mod parallel;
mod quantities;
mod ranked;
mod requests;
mod seconds;
mod small_connections;
pub mod tables;
mod tabulate;
mod thresholds;
mod transfers;
mod untimed;
pub mod vantage;
mod verdict;
mod waits;

#[cfg(test)]
mod clock_tests;
#[cfg(test)]
mod measures_tests;
#[cfg(test)]
mod testing;

use std::fmt;
use std::path::PathBuf;

use whydrop_capture::{Capture, CaptureError, OpenOptions};
use whydrop_datagrams::{DatagramTracker, Datagrams};
use whydrop_tcp::{Tracked, Tracker, TrackerOptions};

use document::Document;
pub use pair::{explain_pair, match_pair, measure_pair};
use tables::Tables;
pub use whydrop_pair::PairHints;

/// Called from time to time with the bytes read and their total (0 if unknown); `false` stops the analysis.
pub type Progress<'a> = Box<dyn FnMut(u64, u64) -> bool + 'a>;

/// Options of the analysis.
#[derive(Default)]
pub struct Options<'a> {
    /// Fill the tables for charts and notebooks.
    pub keep_tables: bool,
    pub progress: Option<Progress<'a>>,
    pub open: OpenOptions,
    /// Knowledge of the path between two captures.
    pub hints: PairHints,
}

/// The result of an analysis.
#[derive(Debug, Clone)]
pub struct Explanation {
    pub document: Document,
    /// Empty unless requested.
    pub tables: Tables,
}

/// The reason for no explanation.
#[derive(Debug)]
pub enum ExplainError {
    Capture(CaptureError),
    /// Captures that cannot be compared; the message gives the reason, and what to check.
    Pair(String),
    /// The progress callback asked to stop.
    Stopped,
}

impl fmt::Display for ExplainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capture(error) => error.fmt(f),
            Self::Pair(message) => f.write_str(message),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for ExplainError {}

impl From<CaptureError> for ExplainError {
    fn from(error: CaptureError) -> Self {
        Self::Capture(error)
    }
}

/// Packets between two reports of progress.
const PACKETS_PER_REPORT: u64 = 1 << 16;

/// Explains one capture: one file, or the files of a rotated sequence. `-` is standard input.
pub fn explain_paths(paths: &[PathBuf], options: Options) -> Result<Explanation, ExplainError> {
    explain(Capture::open(paths, options.open.clone())?, options)
}

/// Explains an open capture.
pub fn explain(mut capture: Capture, mut options: Options) -> Result<Explanation, ExplainError> {
    capture.keep_clock_steady();
    let (mut tracked, datagrams) = loop {
        match read(&mut capture, &mut options)? {
            Some(read) => break read,
            None => capture = capture.in_order()?,
        }
    };
    let summary = capture.summary();
    conditions::checksum::look(&capture, &mut tracked);
    let (mut document, tables) =
        assemble::assemble(&summary, &tracked, &datagrams, options.keep_tables);
    if summary.timeless.is_none() {
        document.datagrams = datagrams.info();
        document.servers = datagrams.servers();
    }
    Ok(Explanation { document, tables })
}

/// Reads a capture to its end; `None` as soon as it turns out that its packets must be sorted first.
fn read(
    capture: &mut Capture,
    options: &mut Options,
) -> Result<Option<(Tracked, Datagrams)>, ExplainError> {
    let mut tracker = Tracker::new(TrackerOptions {
        keep_acknowledgments: options.keep_tables,
        ..TrackerOptions::default()
    });
    let mut datagrams = DatagramTracker::keeping_streams(options.keep_tables);
    let mut until_report = 0;
    loop {
        if until_report == 0 {
            until_report = PACKETS_PER_REPORT;
            let (done, total) = (capture.bytes_done(), capture.bytes_total());
            if options
                .progress
                .as_mut()
                .is_some_and(|progress| !progress(done, total))
            {
                return Err(ExplainError::Stopped);
            }
        }
        until_report -= 1;
        if capture.is_disordered() {
            return Ok(None);
        }
        let Some(packet) = capture.next_packet() else {
            break;
        };
        tracker.push(&packet);
        datagrams.push(&packet);
    }
    Ok(Some((tracker.finish(), datagrams.finish())))
}
