//! The process of an emulation, and traces for it.

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use whydrop_path::read_trace;

/// Becomes an emulation until it has ended. Takes over both descriptors: the settings come from the first one, and the
/// report goes to the second. For a process that has one thread.
#[pyfunction]
pub fn emulate(parent: i32, report: i32) {
    // SAFETY: the caller owns them, and does not use them any more.
    let (parent, report) = unsafe { (OwnedFd::from_raw_fd(parent), File::from_raw_fd(report)) };
    whydrop_emulate::run(parent, report);
}

/// The times of a trace file, in ms. Raises `ValueError`: which line, and what was expected.
#[pyfunction]
pub fn trace_times(text: &str) -> PyResult<Vec<u64>> {
    read_trace(text).map_err(|error| PyValueError::new_err(error.to_string()))
}
