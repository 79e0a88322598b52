//! The monitor of TCP's events in this host's kernel, for Python.

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use whydrop_events::attribution::{Cause, Event};
use whydrop_events::filter::Filter;
use whydrop_events::monitor::{Count, Monitor, Row};

use crate::rows::batch;
use crate::sockets::raised;
use crate::table::Table;

/// Thresholds from here on mean that there is none (`TCP_INFINITE_SSTHRESH`).
const NO_THRESHOLD: u32 = 0x7fff_ffff;
const STATES: [&str; 5] = ["open", "disorder", "reduced", "recovery", "loss"];

/// A thread that collects TCP's events in this host's kernel, until it is stopped.
#[pyclass(frozen, module = "whydrop._core")]
pub struct EventMonitor {
    monitor: Mutex<Monitor>,
}

impl EventMonitor {
    fn with<R>(&self, act: impl FnOnce(&mut Monitor) -> R) -> R {
        act(&mut self.monitor.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl EventMonitor {
    /// Starts the monitor for connections with these ports and remote networks (empty: all) of this thread's network
    /// namespace. Counts are reported no more often than `counts_every_ns`. Raises `OSError` where the kernel does not
    /// allow it.
    #[new]
    fn new(
        py: Python<'_>,
        ports: Vec<u16>,
        networks: Vec<(String, u8)>,
        counts_every_ns: u32,
    ) -> PyResult<EventMonitor> {
        let parsed = networks.iter().map(|(address, prefix)| {
            let address: IpAddr = address
                .parse()
                .map_err(|_| PyValueError::new_err(format!("{address}: expected an IP address")))?;
            Ok((address, *prefix))
        });
        let networks = parsed.collect::<PyResult<Vec<_>>>()?;
        let monitor = py
            .detach(|| {
                let namespace = std::fs::metadata("/proc/thread-self/ns/net")?.ino() as u32;
                let filter = Filter {
                    namespace,
                    ports,
                    networks,
                };
                Monitor::start(&filter, counts_every_ns)
            })
            .map_err(|error| raised(&error))?;
        Ok(EventMonitor {
            monitor: Mutex::new(monitor),
        })
    }

    /// Take the events until now: their rows, and the counts of the connections.
    fn take(&self, py: Python<'_>) -> PyResult<(Table, Table)> {
        py.detach(|| {
            let seen = self.with(|monitor| monitor.take());
            Ok((
                Table::new(rows(&seen.rows)?),
                Table::new(counts(&seen.counts)?),
            ))
        })
        .map_err(|error: ArrowError| PyValueError::new_err(error.to_string()))
    }

    /// State of the monitor, as a dictionary.
    fn standing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = PyDict::new(py);
        self.with(|monitor| {
            let standing = monitor.standing();
            state.set_item("missing", monitor.missing.clone())?;
            state.set_item("lost", standing.lost)?;
            state.set_item("unreported", standing.unreported)?;
            state.set_item("lost_rows", standing.lost_rows)?;
            state.set_item("programs_ns", standing.programs.run_ns)?;
            state.set_item("programs_runs", standing.programs.runs)?;
            state.set_item("cpu_ns", standing.cpu_ns)
        })?;
        Ok(state)
    }

    /// Stops after a last reading; its rows can still be taken.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.with(Monitor::stop));
    }
}

fn state(number: u32) -> Option<&'static str> {
    STATES.get(number as usize).copied()
}

fn threshold(packets: u32) -> Option<u32> {
    (packets < NO_THRESHOLD).then_some(packets)
}

fn rows(rows: &[Row]) -> Result<RecordBatch, ArrowError> {
    batch!(rows, row =>
        time_ns,
        source: row.report.ends.0.to_string(),
        destination: row.report.ends.1.to_string(),
        cookie: (row.report.cookie != 0).then_some(row.report.cookie),
        event: row.event.name(),
        cause: row.event.cause().map(Cause::name),
        congestion_state_before: state(row.report.from),
        congestion_state: state(row.report.to),
        window_before_packets: row.window_before(),
        window_packets: row.report.window,
        threshold_before_packets: threshold(row.report.threshold_before),
        threshold_packets: threshold(row.report.threshold),
        unacked_packets: row.report.packets_out,
        sacked_packets: row.report.sacked,
        lost_packets: row.report.lost,
        retransmitted_packets: row.report.retransmitted,
        srtt_ns: row.report.srtt_ns,
        mss_bytes: row.report.mss,
        timeouts_in_a_row: row.report.timeouts_in_a_row,
        sequence: retransmitted(row).then_some(row.report.first),
        payload_bytes: retransmitted(row).then(|| row.report.end.wrapping_sub(row.report.first)),
        duplicate_acks: row.report.counts.duplicate_acks,
        duplicate_acks_of_reordering: row.report.counts.duplicate_acks_of_reordering,
        reordering_seen: row.report.reordered,
        duplicate_sacks: row.report.duplicate_sacks,
        delivered_ce_packets: row.report.marked,
    )
}

fn retransmitted(row: &Row) -> bool {
    row.event == Event::Retransmission
}

fn counts(rows: &[Count]) -> Result<RecordBatch, ArrowError> {
    batch!(rows, row =>
        time_ns,
        source: row.report.ends.0.to_string(),
        destination: row.report.ends.1.to_string(),
        congestion_signals: row.totals.congestion_signals,
        congestion_over_count: row.totals.undone,
        fast_retransmits: row.totals.fast_retransmits,
        timeouts: row.totals.timeouts,
        subsequent_timeouts: row.totals.subsequent_timeouts,
        abrupt_timeouts: row.totals.abrupt_timeouts,
        other_reductions: row.totals.other_reductions,
        send_stalls: row.totals.counts.stalls,
        slow_start_increases: row.totals.counts.slow_start_increases,
        congestion_avoidance_increases: row.totals.counts.avoidance_increases,
        duplicate_acks: row.totals.counts.duplicate_acks,
        ece_received: row.totals.counts.echoes,
    )
}
