//! Facts about this host, for Python, as JSON.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Map, Value};
use whydrop_host::Target;

use crate::sockets::raised;

/// The name of a target, and its address or the reason for none.
type Named = (String, Option<String>, String);

/// Source, object, counter, value, and whether the counter only grows.
type Row = (&'static str, String, String, f64, bool);

/// Facts about this host and its route to each target.
#[pyfunction]
pub fn host_metadata(py: Python<'_>, targets: Vec<Named>) -> String {
    py.detach(|| Value::Object(whydrop_host::gather(&known(targets))).to_string())
}

/// The facts that were gathered before a test, with those that changed by it.
#[pyfunction]
pub fn host_metadata_after(py: Python<'_>, before: &str, targets: Vec<Named>) -> PyResult<String> {
    let before: Map<String, Value> = serde_json::from_str(before)
        .map_err(|error| PyValueError::new_err(format!("the facts about this host: {error}")))?;
    Ok(py.detach(|| Value::Object(whydrop_host::with_after(before, &known(targets))).to_string()))
}

/// Counters of the interfaces (`None`: of all) and of their queueing disciplines.
#[pyfunction]
#[pyo3(signature = (interfaces))]
pub fn queue_counters(py: Python<'_>, interfaces: Option<Vec<String>>) -> PyResult<Vec<Row>> {
    let found = py
        .detach(|| whydrop_host::queue_counters(interfaces.as_deref()))
        .map_err(|error| raised(&error))?;
    let row = |one: whydrop_host::Reading| {
        (
            one.source,
            one.object,
            one.counter.name,
            one.counter.value as f64,
            one.counter.is_cumulative,
        )
    };
    Ok(found.into_iter().map(row).collect())
}

fn known(targets: Vec<Named>) -> Vec<Target> {
    let target = |(name, address, reason): Named| Target {
        name,
        address: address
            .ok_or(reason)
            .and_then(|text| text.parse().map_err(|_| format!("{text} is no address"))),
    };
    targets.into_iter().map(target).collect()
}
