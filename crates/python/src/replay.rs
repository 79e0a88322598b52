//! Replays of a path that a user describes.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use whydrop_capture::contain;
use whydrop_explain::hop::models::{Replay, replay as replay_path};
use whydrop_path::PathSpec;
use whydrop_path::fit::Seen;
use whydrop_path::fit::passage::Passage;

use crate::analysis::CaptureError;
use crate::table::Table;
use crate::{columns, json};

/// The path that a text or JSON describes: as JSON values, and in the text form. Raises `ValueError` for one that
/// makes no sense; the message says where.
#[pyfunction]
pub fn path<'py>(py: Python<'py>, description: &str) -> PyResult<(Bound<'py, PyAny>, String)> {
    let path = read(description)?;
    Ok((as_python(py, &path)?, path.to_string()))
}

/// Replays a path over packets, sorted by time. `lost` is `None` where the fate is unknown; `wait_ns` is the excess of
/// the transit time over the fastest. Returns how it compares with what happened, and a table with a row for each
/// packet: `level_bytes`, `predicted_drop`, `predicted_wait_ns`.
#[pyfunction]
pub fn replay<'py>(
    py: Python<'py>,
    description: &str,
    time_ns: Vec<i64>,
    ip_bytes: Vec<u32>,
    flow: Vec<u32>,
    lost: Vec<Option<bool>>,
    wait_ns: Vec<Option<i64>>,
) -> PyResult<(Bound<'py, PyAny>, Table)> {
    let path = read(description)?;
    let rows = time_ns.len();
    if [ip_bytes.len(), flow.len(), lost.len(), wait_ns.len()] != [rows; 4] {
        return Err(PyValueError::new_err("columns of different lengths"));
    }
    let packets: Vec<Passage> = (0..rows)
        .map(|row| Passage {
            arrival_ns: time_ns[row],
            bytes: ip_bytes[row],
            outcome: match lost[row] {
                Some(true) => Seen::Lost,
                Some(false) => Seen::Passed,
                None => Seen::Unknown,
            },
            transit_ns: wait_ns[row],
            flow: flow[row],
            marked: false,
        })
        .collect();
    let outcome = py.detach(|| contain(|| replay_path(packets, path)));
    let replay: Replay = outcome.map_err(|defect| CaptureError::new_err(defect.to_string()))?;
    let compared = as_python(py, &replay.info("given", None))?;
    let batch = columns::replayed(&replay.packets).map_err(|error| {
        PyRuntimeError::new_err(format!("the replay could not be passed to Python: {error}"))
    })?;
    Ok((compared, Table::new(batch)))
}

fn read(description: &str) -> PyResult<PathSpec> {
    let refused = |error: &dyn std::fmt::Display| PyValueError::new_err(error.to_string());
    let path: PathSpec = match description.trim_start().starts_with('{') {
        true => serde_json::from_str(description).map_err(|error| refused(&error))?,
        false => description.parse().map_err(|error| refused(&error))?,
    };
    path.check().map_err(|error| refused(&error))?;
    Ok(path)
}

fn as_python<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value);
    json::loads(
        py,
        &text.map_err(|error| PyRuntimeError::new_err(error.to_string()))?,
    )
}
