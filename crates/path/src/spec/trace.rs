//! The text of a trace file: recorded delivery opportunities, in mahimahi's format.

use std::fmt;

/// A line of a trace file that is no time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceError {
    /// From 1; 0 if the error concerns the whole file.
    pub line: usize,
    pub message: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self.line {
            0 => formatter.write_str(&self.message),
            line => write!(formatter, "line {line}: {}", self.message),
        }
    }
}

impl std::error::Error for TraceError {}

/// The times of a trace file: one line for each opportunity, with its time in milliseconds.
///
/// # Errors
/// A line is no whole number, is smaller than the one before it, or the trace has no length.
pub fn read_trace(text: &str) -> Result<Vec<u64>, TraceError> {
    const LONGEST_MS: u64 = 1 << 40;
    let mut times_ms: Vec<u64> = Vec::new();
    for (place, line) in text.lines().enumerate() {
        let fault = |message: String| TraceError {
            line: place + 1,
            message,
        };
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let time_ms = line.parse().ok().filter(|&time_ms| time_ms < LONGEST_MS);
        let expected = || fault(format!("{line:?}: expected a time in whole milliseconds"));
        let time_ms = time_ms.ok_or_else(expected)?;
        if times_ms.last().is_some_and(|&last| time_ms < last) {
            return Err(fault(format!(
                "{line}: is before the time of the line above"
            )));
        }
        times_ms.push(time_ms);
    }
    match times_ms.last() {
        Some(&last) if last > 0 => Ok(times_ms),
        _ => Err(TraceError {
            line: 0,
            message: "expected at least one time after 0 ms".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_time_a_line() {
        assert_eq!(read_trace("0\n 7\n\n7\n12\n"), Ok(vec![0, 7, 7, 12]));
        for (text, line) in [
            ("", 0),
            ("0\n0\n", 0),
            ("3\n2\n", 2),
            ("1\n2.5\n", 2),
            ("x", 1),
        ] {
            assert_eq!(
                read_trace(text).map_err(|error| error.line),
                Err(line),
                "{text:?}"
            );
        }
    }
}
