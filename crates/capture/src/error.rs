//! Errors of captures that cannot be read: one line for the user.

use std::fmt;

/// A capture, or the rest of one, that cannot be read.
///
/// `Display` is one line: the file, the byte, what was found, what was expected, what to try; of a file that cannot be
/// read at all, what it is and what to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureError {
    /// The path as given; `-` for standard input.
    pub path: String,
    /// The position in bytes from the start of the capture. In a compressed file this is the offset after
    /// decompression. `None` if the file cannot be read at all, whatever it contains.
    pub offset: Option<u64>,
    /// True if the file was being decompressed, so that `offset` is not a position in the file on disk.
    pub decompressed: bool,
    pub found: String,
    /// Empty without an offset.
    pub expected: String,
    /// An action for the user to try.
    pub remedy: String,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = on_one_line(&self.path);
        let found = on_one_line(&self.found);
        let remedy = on_one_line(&self.remedy);
        let Some(offset) = self.offset else {
            return write!(f, "{path}: {found}; {remedy}");
        };
        let stream = if self.decompressed {
            " of the decompressed stream"
        } else {
            ""
        };
        write!(
            f,
            "{path}: at byte {offset}{stream}: found {found}, expected {}; {remedy}",
            on_one_line(&self.expected),
        )
    }
}

impl std::error::Error for CaptureError {}

/// File names and operating system messages may contain line breaks and terminal escapes.
fn on_one_line(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = (!c.is_control()).then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

/// A fault as seen by a format reader; its caller adds the path.
#[derive(Debug)]
pub(crate) struct Damage {
    pub(crate) offset: Option<u64>,
    pub(crate) found: String,
    pub(crate) expected: String,
    pub(crate) remedy: String,
}

impl Damage {
    /// A fault of the file as a whole.
    pub(crate) fn of_file(found: impl Into<String>, remedy: &str) -> Self {
        Self {
            offset: None,
            found: found.into(),
            expected: String::new(),
            remedy: remedy.into(),
        }
    }

    pub(crate) fn at(self, path: &str, decompressed: bool) -> CaptureError {
        CaptureError {
            path: path.to_owned(),
            offset: self.offset,
            decompressed,
            found: self.found,
            expected: self.expected,
            remedy: self.remedy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_whatever_the_file_is_called() {
        let error = CaptureError {
            path: "evil\n\u{1b}[31mname".into(),
            offset: Some(24),
            decompressed: true,
            found: "a\r\nb".into(),
            expected: "a packet".into(),
            remedy: "capture again".into(),
        };
        let line = error.to_string();
        assert!(!line.contains(['\n', '\r', '\u{1b}']), "{line}");
        assert!(
            line.contains("at byte 24 of the decompressed stream"),
            "{line}"
        );
    }
}
