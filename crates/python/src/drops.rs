//! The monitor of this host's drops, for Python.

use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use whydrop_drops::monitor::{DropRow, Monitor, RetransmissionRow};
use whydrop_drops::source::Method;

use crate::rows::batch;
use crate::sockets::raised;
use crate::table::Table;

/// A thread that counts the packets that this host's kernel drops, until it is stopped.
#[pyclass(frozen, module = "whydrop._core")]
pub struct DropMonitor {
    monitor: Mutex<Monitor>,
}

impl DropMonitor {
    fn with<R>(&self, act: impl FnOnce(&mut Monitor) -> R) -> R {
        act(&mut self.monitor.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl DropMonitor {
    /// Starts the monitor: `program`, `drop-monitor`, `tracepoint`, or `auto`, the first of them that the kernel
    /// allows. Raises `OSError` where it allows none.
    #[new]
    fn new(py: Python<'_>, way: &str) -> PyResult<DropMonitor> {
        let wanted = match way {
            "auto" => None,
            "program" => Some(Method::Program),
            "tracepoint" => Some(Method::Tracepoint),
            "drop-monitor" => Some(Method::DropMonitor),
            other => {
                return Err(PyValueError::new_err(format!(
                    "{other}: unknown method of watching drops; expected auto, program, drop-monitor or tracepoint"
                )));
            }
        };
        let monitor = py
            .detach(|| Monitor::start(wanted))
            .map_err(|error| raised(&error))?;
        Ok(DropMonitor {
            monitor: Mutex::new(monitor),
        })
    }

    /// Take the counts since the last call: tables by name.
    fn take(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, Table)>> {
        py.detach(|| {
            let seen = self.with(|monitor| monitor.take());
            let tables = [
                ("drops", drops(&seen.drops)?),
                ("retransmissions", retransmissions(&seen.retransmissions)?),
            ];
            let filled = tables.into_iter().filter(|(_, rows)| rows.num_rows() > 0);
            Ok(filled
                .map(|(name, rows)| (name, Table::new(rows)))
                .collect())
        })
        .map_err(|error: ArrowError| PyValueError::new_err(error.to_string()))
    }

    /// State of the monitor, as a dictionary.
    fn standing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = PyDict::new(py);
        self.with(|monitor| {
            let standing = monitor.standing();
            state.set_item(
                "way",
                match monitor.method {
                    Method::Program => "program",
                    Method::Tracepoint => "tracepoint",
                    Method::DropMonitor => "drop-monitor",
                },
            )?;
            state.set_item("tells_sent_again", monitor.reports_retransmissions)?;
            state.set_item("shortfall", monitor.shortfall.as_deref())?;
            state.set_item("lost", standing.lost)?;
            state.set_item("not_looked_at", standing.not_looked_at)?;
            state.set_item("lost_rows", standing.lost_rows)?;
            state.set_item("cpu_ns", standing.cpu_ns)
        })?;
        Ok(state)
    }

    /// Stops after a last count; its rows can still be taken.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.with(Monitor::stop));
    }
}

fn drops(rows: &[DropRow]) -> Result<RecordBatch, ArrowError> {
    batch!(rows, row =>
        start_ns, end_ns,
        reason: row.reason.clone(),
        location: row.location.clone(),
        protocol: row.protocol.clone(),
        interface: row.interface.clone(),
        arrived_by: row.arrived_by.clone(),
        source: row.source.clone(),
        destination: row.destination.clone(),
        packets, bytes,
        here: row.here.then_some(true),
    )
}

fn retransmissions(rows: &[RetransmissionRow]) -> Result<RecordBatch, ArrowError> {
    batch!(rows, row =>
        start_ns, end_ns,
        source: row.source.clone(),
        destination: row.destination.clone(),
        packets, payload_bytes,
        reason: row.reason.clone(),
        location: row.location.clone(),
    )
}
