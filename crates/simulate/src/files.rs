//! Files that are written, and why one was not.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// A file could not be written.
#[derive(Debug)]
pub struct WriteError {
    path: PathBuf,
    cause: io::Error,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: cannot write: {}; choose a folder with --out that can be written",
            self.path.display(),
            self.cause
        )
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// Names the path of a failed operation.
pub fn at(path: &Path) -> impl FnOnce(io::Error) -> WriteError + '_ {
    |cause| WriteError {
        path: path.to_path_buf(),
        cause,
    }
}

pub fn create(path: &Path) -> Result<BufWriter<File>, WriteError> {
    File::create(path).map(BufWriter::new).map_err(at(path))
}

pub fn write_json(path: &Path, value: &serde_json::Value) -> Result<(), WriteError> {
    fs::write(path, format!("{value:#}\n")).map_err(at(path))
}
