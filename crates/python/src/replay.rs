//! Replays of a path that a user describes.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use whydrop_capture::contain;
use whydrop_explain::hop::models;
use whydrop_path::fit::Seen;
use whydrop_path::fit::passage::{self, Passage};
use whydrop_path::{ElementSpec, PathSpec};

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

/// The elements of paths with their fields, and the units of these.
#[pyfunction]
pub fn elements(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    as_python(py, &ElementSpec::catalogue())
}

/// Packets, sorted by time, over which paths are replayed. `lost` is `None` where the fate is unknown; `wait_ns` is the
/// excess of the transit time over the fastest.
#[pyclass(frozen, module = "whydrop._core")]
pub struct Passages {
    passages: passage::Passages,
    idle_wait_s: f64,
}

#[pymethods]
impl Passages {
    #[new]
    fn new(
        py: Python<'_>,
        time_ns: Vec<i64>,
        ip_bytes: Vec<u32>,
        flow: Vec<u32>,
        lost: Vec<Option<bool>>,
        wait_ns: Vec<Option<i64>>,
    ) -> PyResult<Self> {
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
        contained(py, || {
            let passages = passage::Passages::new(packets);
            let idle_wait_s = models::idle_wait_s(&passages);
            Self {
                passages,
                idle_wait_s,
            }
        })
    }

    /// A comparison of a path with what happened, and a table with a row for each packet: `level_bytes`,
    /// `predicted_drop`, `predicted_mark`, `predicted_wait_ns`. `capable` says of each packet whether it may be marked;
    /// without it all may.
    #[pyo3(signature = (description, capable=None))]
    fn replay<'py>(
        &self,
        py: Python<'py>,
        description: &str,
        capable: Option<Vec<bool>>,
    ) -> PyResult<(Bound<'py, PyAny>, Table)> {
        let path = read(description)?;
        let is_capable = |index: usize| {
            let known = capable.as_ref().and_then(|capable| capable.get(index));
            known.copied().unwrap_or(true)
        };
        let replay = contained(py, || {
            models::replay_capable(&self.passages, path, self.idle_wait_s, is_capable)
        })?;
        let compared = as_python(py, &replay.info("given", None))?;
        let batch = columns::replayed(&replay.packets).map_err(|error| {
            PyRuntimeError::new_err(format!("the replay could not be passed to Python: {error}"))
        })?;
        Ok((compared, Table::new(batch)))
    }
}

fn contained<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| contain(work))
        .map_err(|defect| CaptureError::new_err(defect.to_string()))
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
