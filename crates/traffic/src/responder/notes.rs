//! Reports of a running responder for its administrator: lines about refused connections, at most one a minute, lines
//! about other news, and a file of metrics.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock;
use crate::responder::Statistics;
use crate::stop::Stop;

/// The least time between two lines about refused connections.
const LINE_EVERY_NS: i64 = 60_000_000_000;
/// How often the file is written: scrapers of Prometheus read it every 15 s or less often.
const FILE_EVERY_NS: i64 = 10_000_000_000;
const LOOK_EVERY_NS: i64 = 1_000_000_000;
/// Further lines that the program does not take are omitted.
const MOST_LINES: usize = 16;

/// The lines that the program has not taken yet, and the file.
pub struct Notes {
    file: Option<PathBuf>,
    lines: Mutex<Vec<String>>,
}

impl Notes {
    /// Writes the file for the first time, if there is to be one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(file: Option<PathBuf>) -> io::Result<Notes> {
        if let Some(file) = &file {
            write(file, &Statistics::default())?;
        }
        let lines = Mutex::default();
        Ok(Notes { file, lines })
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines())
    }

    /// Reports until `stop`; asks once a second for news.
    pub fn run(
        &self,
        statistics: impl Fn() -> Statistics,
        news: impl Fn() -> Option<String>,
        stop: &Stop,
    ) {
        let mut refusals = Refusals::default();
        let (mut file_ns, mut is_failing) = (i64::MIN, false);
        loop {
            let (now_ns, goes_on) = (clock::monotonic_ns(), !stop.is_set());
            let found = statistics();
            self.lines_add(news());
            self.lines_add(refusals.line(&found, now_ns));
            if let Some(file) = &self.file
                && (now_ns >= file_ns || !goes_on)
            {
                file_ns = now_ns + FILE_EVERY_NS;
                let written = write(file, &found);
                let is_new = written.is_err() && !is_failing;
                is_failing = written.is_err();
                self.lines_add(
                    written
                        .err()
                        .filter(|_| is_new)
                        .map(|error| error.to_string()),
                );
            }
            if !goes_on {
                return;
            }
            stop.sleep_until_ns(clock::now_ns() + LOOK_EVERY_NS);
        }
    }

    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lines_add(&self, line: Option<String>) {
        let mut lines = self.lines();
        if lines.len() < MOST_LINES {
            lines.extend(line);
        }
    }
}

/// The refused connections that no line has reported yet.
#[derive(Default)]
struct Refusals {
    reported: Statistics,
    next_ns: Option<i64>,
}

impl Refusals {
    /// Returns a line with the counts since the last one, if there are any and that one is old enough.
    fn line(&mut self, found: &Statistics, now_ns: i64) -> Option<String> {
        if self.next_ns.is_some_and(|next_ns| now_ns < next_ns) {
            return None;
        }
        let before = refusals(&self.reported);
        let counts: Vec<String> = refusals(found)
            .iter()
            .zip(before)
            .filter(|((.., count), (.., before))| count > before)
            .map(|((_, words, count), (.., before))| format!("{} {words}", count - before))
            .collect();
        if counts.is_empty() {
            return None;
        }
        self.reported = found.clone();
        self.next_ns = Some(now_ns + LINE_EVERY_NS);
        Some(format!(
            "refused since the last such line: {}",
            counts.join(", ")
        ))
    }
}

/// The reasons for which connections are refused and sessions ended: a label, words, the count.
pub fn refusals(statistics: &Statistics) -> [(&'static str, &'static str, u64); 6] {
    [
        (
            "wrong_secret",
            "with another secret",
            statistics.wrong_proof,
        ),
        ("other_protocol", "of another protocol", statistics.foreign),
        ("rate", "above the rate of handshakes", statistics.crowded),
        ("silent", "silent", statistics.expired),
        ("no_room", "for lack of room", statistics.busy),
        ("idle", "without an active flow", statistics.idle),
    ]
}

/// Replaces the file, so that readers see the old or the new one as a whole.
fn write(file: &Path, statistics: &Statistics) -> io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    fs::write(&beside, metrics(statistics))
        .and_then(|()| fs::rename(&beside, file))
        .map_err(|error| {
            let what = format!("cannot write the metrics: {}: {error}", file.display());
            io::Error::new(error.kind(), what)
        })
}

/// Returns the metrics in the text format of Prometheus.
fn metrics(statistics: &Statistics) -> String {
    let mut text = String::new();
    let mut add = |name: &str, kind: &str, help: &str, rows: &[(&str, u64)]| {
        let name = format!("whydrop_responder_{name}");
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in rows {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let connections = [("", statistics.connections)];
    add(
        "connections_total",
        "counter",
        "Accepted connections.",
        &connections,
    );
    let proved = [("", statistics.proved)];
    add(
        "authenticated_total",
        "counter",
        "Authenticated connections.",
        &proved,
    );
    let refused =
        refusals(statistics).map(|(label, _, count)| (format!("{{reason=\"{label}\"}}"), count));
    let refused: Vec<_> = refused
        .iter()
        .map(|(labels, count)| (labels.as_str(), *count))
        .collect();
    let help = "Connections that were refused, and sessions that were ended, by reason.";
    add("refused_total", "counter", help, &refused);
    let sessions = [("", statistics.sessions as u64)];
    add("sessions", "gauge", "Sessions now.", &sessions);
    let clients: Vec<_> = statistics
        .clients
        .iter()
        .map(|(name, count)| (format!("{{client=\"{name}\"}}"), *count))
        .collect();
    let clients: Vec<_> = clients
        .iter()
        .map(|(labels, count)| (labels.as_str(), *count))
        .collect();
    let help = "Sessions of clients with a name, by client.";
    add("client_sessions_total", "counter", help, &clients);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_reported_at_once_and_then_summed_up_once_a_minute() {
        let mut refusals = Refusals::default();
        let at = |foreign, crowded| Statistics {
            foreign,
            crowded,
            ..Statistics::default()
        };
        assert_eq!(refusals.line(&at(0, 0), 0), None);
        let line = refusals.line(&at(1, 0), 1).unwrap();
        assert!(line.ends_with(": 1 of another protocol"), "{line}");
        assert_eq!(refusals.line(&at(500, 30), LINE_EVERY_NS), None);
        let line = refusals.line(&at(900, 31), LINE_EVERY_NS + 1).unwrap();
        assert!(
            line.ends_with(": 899 of another protocol, 31 above the rate of handshakes"),
            "{line}"
        );
        assert_eq!(refusals.line(&at(900, 31), i64::MAX / 2), None);
    }

    #[test]
    fn metrics_are_text_that_prometheus_reads() {
        let text = metrics(&Statistics {
            connections: 7,
            idle: 2,
            sessions: 1,
            clients: [(crate::name::Name::new("alice").unwrap(), 3)].into(),
            ..Statistics::default()
        });
        for line in [
            "# TYPE whydrop_responder_connections_total counter",
            "whydrop_responder_connections_total 7",
            "whydrop_responder_refused_total{reason=\"idle\"} 2",
            "whydrop_responder_refused_total{reason=\"wrong_secret\"} 0",
            "# TYPE whydrop_responder_sessions gauge",
            "whydrop_responder_sessions 1",
            "whydrop_responder_client_sessions_total{client=\"alice\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named_at_the_start() {
        let file = PathBuf::from("/nonexistent/whydrop.prom");
        let error = Notes::new(Some(file))
            .err()
            .expect("there is no such folder");
        assert!(
            error.to_string().contains("/nonexistent/whydrop.prom"),
            "{error}"
        );
    }
}
