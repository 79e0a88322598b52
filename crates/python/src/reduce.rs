//! Findings of producers written in Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use whydrop_verdict::Finding;

/// Lets the causes of the findings compete: a JSON list of findings in, a JSON list of verdicts out.
///
/// Raises `ValueError` for findings of the wrong form, or with numbers out of range.
#[pyfunction]
pub fn reduce(findings: &str) -> PyResult<String> {
    let refused = |error: &dyn std::fmt::Display| PyValueError::new_err(error.to_string());
    let findings: Vec<Finding> = serde_json::from_str(findings).map_err(|error| refused(&error))?;
    let verdicts = whydrop_verdict::reduce(findings).map_err(|error| refused(&error))?;
    serde_json::to_string(&verdicts).map_err(|error| refused(&error))
}
