//! From a path, standard input or any reader to a stream of decompressed bytes.

mod background;
mod compression;
mod window;

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use crate::error::{CaptureError, Damage};
use background::Background;
pub(crate) use compression::Compression;
pub(crate) use window::Window;

/// The path that means standard input.
pub(crate) const STANDARD_INPUT: &str = "-";

/// An opened stream and what it was packed in.
pub(crate) struct Input {
    pub(crate) window: Window,
    pub(crate) compression: Option<Compression>,
}

impl Input {
    pub(crate) fn open(path: &Path) -> Result<Self, CaptureError> {
        let label = path.to_string_lossy();
        if label == STANDARD_INPUT {
            return Self::from_reader(&label, Box::new(io::stdin()));
        }
        let cannot_open = |error: io::Error| {
            Damage {
                offset: 0,
                found: format!("a file that cannot be opened ({error})"),
                expected: "a readable capture file".into(),
                remedy: "check the path and its permissions".into(),
            }
            .at(&label, false)
        };
        let file = File::open(path).map_err(cannot_open)?;
        if file.metadata().map_err(cannot_open)?.is_dir() {
            return Err(Damage {
                offset: 0,
                found: "a directory".into(),
                expected: "a capture file".into(),
                remedy: "name the files in it, oldest first".into(),
            }
            .at(&label, false));
        }
        Self::from_reader(&label, Box::new(file))
    }

    /// `label` is what errors call the stream.
    pub(crate) fn from_reader(
        label: &str,
        mut reader: Box<dyn Read + Send>,
    ) -> Result<Self, CaptureError> {
        let cannot_read = |error: io::Error| {
            Damage {
                offset: 0,
                found: format!("a stream that cannot be read ({error})"),
                expected: "a capture".into(),
                remedy: "check the file system or the program that writes the stream".into(),
            }
            .at(label, false)
        };
        let head = read_head(&mut reader).map_err(cannot_read)?;
        let compression = Compression::of(&head);
        let whole: Box<dyn Read + Send> = Box::new(Cursor::new(head).chain(reader));
        let source: Box<dyn Read + Send> = match compression {
            None => whole,
            Some(compression) => {
                let decoder = compression.decoder(whole).map_err(cannot_read)?;
                Box::new(Background::start(decoder).map_err(cannot_read)?)
            }
        };
        Ok(Self {
            window: Window::new(source),
            compression,
        })
    }
}

/// The first bytes, as many as the longest magic number has.
fn read_head(reader: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    reader.take(6).read_to_end(&mut head)?;
    Ok(head)
}
