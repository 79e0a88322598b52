//! From a path, standard input or any reader to a stream of decompressed bytes.

mod background;
mod compression;
mod counted;
mod window;

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use crate::error::{CaptureError, Damage};
use background::Background;
pub(crate) use compression::Compression;
use counted::{Counted, Counter};
pub(crate) use window::Window;

/// The path that means standard input.
pub(crate) const STANDARD_INPUT: &str = "-";

/// An opened stream and its compression.
pub(crate) struct Input {
    pub(crate) window: Window,
    pub(crate) compression: Option<Compression>,
    /// Size of the file; `None` for a stream.
    file_bytes: Option<u64>,
    /// Compressed bytes that the decompressor has taken.
    decompressed: Option<Counter>,
}

impl Input {
    pub(crate) fn open(path: &Path) -> Result<Self, CaptureError> {
        let label = path.to_string_lossy();
        if label == STANDARD_INPUT {
            return Self::from_reader(&label, Box::new(io::stdin()));
        }
        let cannot_open = |error: io::Error| not_opened(&error).at(&label, false);
        let file = File::open(path).map_err(cannot_open)?;
        let metadata = file.metadata().map_err(cannot_open)?;
        if metadata.is_dir() {
            let found = "a directory, not a capture file";
            return Err(Damage::of_file(found, "name the files in it").at(&label, false));
        }
        let mut input = Self::from_reader(&label, Box::new(file))?;
        input.file_bytes = metadata.is_file().then_some(metadata.len());
        Ok(input)
    }

    /// Bytes of the file read so far, compressed if it is.
    pub(crate) fn bytes_done(&self) -> u64 {
        match &self.decompressed {
            Some(counter) => counter.bytes(),
            None => self.window.offset(),
        }
    }

    /// Bytes to count for this file when it is closed, even before its end.
    pub(crate) fn bytes_at_end(&self) -> u64 {
        self.file_bytes.unwrap_or_else(|| self.bytes_done())
    }

    /// `label` is the stream's name in errors.
    pub(crate) fn from_reader(
        label: &str,
        mut reader: Box<dyn Read + Send>,
    ) -> Result<Self, CaptureError> {
        let cannot_read = |error: io::Error| {
            Damage::of_file(
                format!("cannot be read ({error})"),
                "check the file system or the program that writes the stream",
            )
            .at(label, false)
        };
        let head = read_head(&mut reader).map_err(cannot_read)?;
        let compression = Compression::of(&head);
        let whole: Box<dyn Read + Send> = Box::new(Cursor::new(head).chain(reader));
        let mut decompressed = None;
        let source: Box<dyn Read + Send> = match compression {
            None => whole,
            Some(compression) => {
                let (counted, counter) = Counted::new(whole);
                decompressed = Some(counter);
                let decoder = compression
                    .decoder(Box::new(counted))
                    .map_err(cannot_read)?;
                Box::new(Background::start(decoder).map_err(cannot_read)?)
            }
        };
        Ok(Self {
            window: Window::new(source),
            compression,
            file_bytes: None,
            decompressed,
        })
    }
}

fn not_opened(error: &io::Error) -> Damage {
    match error.kind() {
        io::ErrorKind::NotFound => Damage::of_file("no such file", "check the path"),
        io::ErrorKind::PermissionDenied => {
            Damage::of_file("permission denied", "check who may read the file")
        }
        _ => Damage::of_file(format!("cannot be opened ({error})"), "check the path"),
    }
}

/// The first bytes, as many as the longest magic number has.
fn read_head(reader: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    reader.take(6).read_to_end(&mut head)?;
    Ok(head)
}
