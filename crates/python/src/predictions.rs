//! Predictions: settings and outcomes as JSON text.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use whydrop_predict::Setting;

/// The setting with one change. Raises `ValueError`: which change, and what was expected.
#[pyfunction]
pub fn changed_setting(setting: &str, change: &str) -> PyResult<String> {
    let mut setting = read(setting)?;
    whydrop_predict::change(&mut setting, change).map_err(refused)?;
    serde_json::to_string(&setting).map_err(refused)
}

/// Outcomes of a setting, one for each seed. Raises `ValueError` for a setting that makes no sense.
#[pyfunction]
pub fn predict(py: Python<'_>, setting: &str, seeds: Vec<u64>) -> PyResult<String> {
    let setting = read(setting)?;
    let outcomes = py.detach(|| whydrop_predict::run(&setting, &seeds));
    serde_json::to_string(&outcomes.map_err(refused)?).map_err(refused)
}

fn read(setting: &str) -> PyResult<Setting> {
    serde_json::from_str(setting).map_err(refused)
}

fn refused(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
