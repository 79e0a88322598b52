//! The files of a capture: opening one, and sorting several by time.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{CaptureError, Damage};
use crate::format::{Format, Interfaces};
use crate::input::{Input, STANDARD_INPUT};

/// A file with its header read.
pub(crate) struct OpenFile {
    pub(crate) label: String,
    pub(crate) input: Input,
    pub(crate) format: Format,
}

impl OpenFile {
    pub(crate) fn open(path: &Path) -> Result<Self, CaptureError> {
        Self::from_input(path.to_string_lossy().into_owned(), Input::open(path)?)
    }

    pub(crate) fn from_input(label: String, mut input: Input) -> Result<Self, CaptureError> {
        match Format::open(&mut input.window) {
            Ok(format) => Ok(Self {
                label,
                input,
                format,
            }),
            Err(damage) => Err(damage.at(&label, input.compression.is_some())),
        }
    }

    pub(crate) fn format_name(&self) -> String {
        match self.input.compression {
            None => self.format.name().to_owned(),
            Some(compression) => format!("{}.{}", self.format.name(), compression.extension()),
        }
    }
}

/// The files of a capture, the first of them opened.
pub(crate) struct Sequence {
    pub(crate) first: OpenFile,
    pub(crate) following: VecDeque<PathBuf>,
    /// A note on the order, if it differs from the given one.
    pub(crate) note: Option<String>,
    /// Size of all files; 0 if one is a stream.
    pub(crate) total_bytes: u64,
}

/// Opens the first of the files, after examining the others.
pub(crate) fn open(paths: Vec<PathBuf>) -> Result<Sequence, CaptureError> {
    let total_bytes = paths
        .iter()
        .map(|path| file_bytes(path))
        .sum::<Option<u64>>()
        .unwrap_or(0);
    let only_files = paths.iter().all(|path| path.as_os_str() != STANDARD_INPUT);
    // Standard input can be read only once, so it keeps its position.
    let (order, note) = match paths.len() {
        2.. if only_files => in_order_of_time(paths)?,
        _ => (paths, None),
    };
    let mut following = VecDeque::from(order);
    let Some(first) = following.pop_front() else {
        return Err(Damage::of_file(
            "no capture file is given",
            "name one, or - for standard input",
        )
        .at("", false));
    };
    Ok(Sequence {
        first: OpenFile::open(&first)?,
        following,
        note,
        total_bytes,
    })
}

/// True if all can be opened again: none is standard input, a pipe or a device.
pub(crate) fn are_files(paths: &[PathBuf]) -> bool {
    paths.iter().all(|path| file_bytes(path).is_some())
}

/// `None` for standard input, pipes and devices.
fn file_bytes(path: &Path) -> Option<u64> {
    if path.as_os_str() == STANDARD_INPUT {
        return None;
    }
    let metadata = fs::metadata(path).ok()?;
    metadata.is_file().then_some(metadata.len())
}

/// Sorts by the time of each file's first packet. Shells do not list rotated files in time order: `dump.pcap10`
/// precedes `dump.pcap2`.
fn in_order_of_time(paths: Vec<PathBuf>) -> Result<(Vec<PathBuf>, Option<String>), CaptureError> {
    let mut previous_ns = i64::MIN;
    let mut timed = Vec::with_capacity(paths.len());
    for path in paths {
        // A file without packets stays behind the file before it.
        previous_ns = first_time_ns(&path)?.unwrap_or(previous_ns);
        timed.push((previous_ns, path));
    }
    let note = (!timed.is_sorted_by_key(|(time_ns, _)| *time_ns)).then(|| {
        format!(
            "the {} files were not given in time order: they are read in the order of the times of their \
             first packets",
            timed.len()
        )
    });
    timed.sort_by_key(|(time_ns, _)| *time_ns);
    Ok((timed.into_iter().map(|(_, path)| path).collect(), note))
}

/// `None` if the file has no readable packet.
fn first_time_ns(path: &Path) -> Result<Option<i64>, CaptureError> {
    let mut file = OpenFile::open(path)?;
    let record = file
        .format
        .next_record(&mut file.input.window, &mut Interfaces::default());
    Ok(record.ok().flatten().map(|record| record.time_ns))
}
