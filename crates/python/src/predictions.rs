//! Predictions: settings and outcomes as JSON text.

use pyo3::exceptions::{PyLookupError, PyValueError};
use pyo3::prelude::*;
use whydrop_predict::{Carried, Setting};

use crate::progress::Watch;

/// The setting with one change. Raises `ValueError`: which change, and what was expected; `LookupError` where the path
/// has no such element.
#[pyfunction]
pub fn changed_setting(setting: &str, change: &str) -> PyResult<String> {
    let mut setting = read(setting)?;
    whydrop_predict::change(&mut setting, change).map_err(|error| match error.is_missing {
        true => PyLookupError::new_err(error.to_string()),
        false => refused(error),
    })?;
    serde_json::to_string(&setting).map_err(refused)
}

/// Outcomes of a setting, one for each seed. Raises `ValueError` for a setting that makes no sense.
///
/// `progress` is called with the number of runs that have ended, and that of all.
#[pyfunction]
#[pyo3(signature = (setting, seeds, progress=None))]
pub fn predict(
    py: Python<'_>,
    setting: &str,
    seeds: Vec<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let setting = read(setting)?;
    let mut watch = Watch::new(progress);
    let report = |ended| watch.report(ended as u64, seeds.len() as u64);
    let outcomes = py.detach(|| whydrop_predict::run_watched(&setting, &seeds, report));
    match outcomes.map_err(refused)? {
        Some(outcomes) => serde_json::to_string(&outcomes).map_err(refused),
        None => Err(watch.raised().unwrap_or_else(|| refused("stopped"))),
    }
}

/// The course of one run of a setting. Raises `ValueError` for a setting that makes no sense.
#[pyfunction]
pub fn predicted_course(py: Python<'_>, setting: &str, seed: u64) -> PyResult<String> {
    let setting = read(setting)?;
    let course = py.detach(|| whydrop_predict::course(&setting, seed));
    serde_json::to_string(&course.map_err(refused)?).map_err(refused)
}

/// Goodput in bit/s of connections together, each as (ns of its first data, ns of its last acknowledgment, payload in
/// bytes).
#[pyfunction]
pub fn together_bps(connections: Vec<(i64, i64, u64)>) -> f64 {
    let carried = (connections.into_iter()).map(|(begin_ns, end_ns, payload_bytes)| Carried {
        begin_ns,
        end_ns,
        payload_bytes,
    });
    whydrop_predict::together_bps(&carried.collect::<Vec<_>>())
}

fn read(setting: &str) -> PyResult<Setting> {
    serde_json::from_str(setting).map_err(refused)
}

fn refused(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
