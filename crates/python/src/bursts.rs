//! Bursts explained, for the measurement of a queue's depth.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use whydrop_explain::bursts::{BurstPacket, explain_bursts as explain};

use crate::json;

/// Judges what bursts met, from columns of one length: the lot and the burst of each packet, when it left and arrived (by the two
/// ends' own clocks; `None`: it was lost), its IP bytes, and whether it was marked. `None` where nothing arrived.
#[pyfunction]
pub fn explain_bursts<'py>(
    py: Python<'py>,
    lots: Vec<u32>,
    bursts: Vec<u32>,
    left_ns: Vec<i64>,
    arrived_ns: Vec<Option<i64>>,
    ip_bytes: Vec<u32>,
    marked: Vec<bool>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let lengths = [
        bursts.len(),
        left_ns.len(),
        arrived_ns.len(),
        ip_bytes.len(),
        marked.len(),
    ];
    if lengths.iter().any(|length| *length != lots.len()) {
        return Err(PyValueError::new_err("columns of one length were expected"));
    }
    let packets: Vec<BurstPacket> = (0..lots.len())
        .map(|row| BurstPacket {
            lot: lots[row],
            burst: bursts[row],
            left_ns: left_ns[row],
            arrived_ns: arrived_ns[row],
            ip_bytes: ip_bytes[row],
            marked: marked[row],
        })
        .collect();
    let Some(found) = py.detach(|| explain(&packets)) else {
        return Ok(None);
    };
    let text =
        serde_json::to_string(&found).map_err(|error| PyValueError::new_err(error.to_string()))?;
    json::loads(py, &text).map(Some)
}
