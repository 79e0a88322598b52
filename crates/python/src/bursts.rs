//! Explanations of bursts, for measuring the depth of a queue.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use whydrop_explain::bursts::{
    BurstPacket, Bursts, CountedTrain, explain_bursts as explain,
    explain_counted_trains as explain_counted,
};

use crate::json;

/// Explains what happened to bursts, from columns of equal length: the lot and the burst of each packet, its
/// departure and arrival time (each by the clock of its end; `None` if the packet was lost), its IP bytes,
/// and its congestion mark. Returns `None` if nothing arrived.
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
        return Err(PyValueError::new_err(
            "the columns differ in length; equal lengths were expected",
        ));
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
    json_of(py, py.detach(|| explain(&packets)))
}

/// A train as Python passes it: IP bytes of its packets; packets sent and received; seconds of sending, their
/// uncertainty, and the most by which the first packet may have arrived after the start of the first
/// interval; intervals in seconds and packets.
type Counts = (u32, u64, u64, (f64, f64, f64), Vec<(f64, u64)>);

/// Explains what happened to trains of which the far end only counted arrivals. Returns `None` if nothing
/// arrived.
#[pyfunction]
pub fn explain_counted_trains<'py>(
    py: Python<'py>,
    trains: Vec<Counts>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let trains: Vec<CountedTrain> = trains
        .into_iter()
        .map(
            |(ip_bytes, sent, received, (sending_s, sending_error_s, late_s), intervals)| {
                CountedTrain {
                    ip_bytes,
                    sent,
                    received,
                    sending_s,
                    sending_error_s,
                    late_s,
                    intervals,
                }
            },
        )
        .collect();
    json_of(py, py.detach(|| explain_counted(&trains)))
}

fn json_of<'py>(py: Python<'py>, found: Option<Bursts>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(found) = found else {
        return Ok(None);
    };
    let text =
        serde_json::to_string(&found).map_err(|error| PyValueError::new_err(error.to_string()))?;
    json::loads(py, &text).map(Some)
}
