//! The sampler of the kernel's sockets, for Python.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Deserialize;
use whydrop_sockets::batch::{Batch, Connection, DatagramSample, Interval, Poll, Value};
use whydrop_sockets::filter::{Filter, MOST_CONDITIONS, Network};
use whydrop_sockets::processes;
use whydrop_sockets::sampler::{Config, Sampler, Standing};
use whydrop_sockets::tracking::Settings;

use crate::rows::{batch, goodput_bps};
use crate::table::Table;
use crate::tcp_columns::tcp_info;

/// The sockets to watch, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    every_ns: u64,
    /// Length of an interval of payload.
    interval_ns: u64,
    /// Interval between rows of an idle connection.
    quiet_ns: u64,
    /// Memory limit for rows that have not been taken.
    most_bytes: usize,
    #[serde(default)]
    ports: Vec<u16>,
    /// Addresses of the other end, with prefix lengths.
    #[serde(default)]
    networks: Vec<(IpAddr, u8)>,
    #[serde(default)]
    cgroups: Vec<u64>,
    processes: Option<Vec<u32>>,
    #[serde(default)]
    datagrams: bool,
}

impl Wanted {
    fn config(self) -> Result<Config, String> {
        let network = |(address, bits)| {
            Network::new(address, bits).ok_or(format!(
                "{address}/{bits}: the prefix is longer than the address"
            ))
        };
        let filter = Filter {
            ports: self.ports,
            networks: self
                .networks
                .into_iter()
                .map(network)
                .collect::<Result<_, _>>()?,
            cgroups: self.cgroups,
        };
        if filter.conditions() > MOST_CONDITIONS {
            return Err(format!(
                "too many conditions: {} ports, addresses and control groups; at most {MOST_CONDITIONS} are allowed (a port counts twice)",
                filter.conditions()
            ));
        }
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        Ok(Config {
            every: Duration::from_nanos(self.every_ns),
            filter,
            processes: self.processes,
            datagrams: self.datagrams,
            tracking: Settings {
                interval_ns: signed(self.interval_ns),
                quiet_ns: signed(self.quiet_ns),
            },
            most_bytes: self.most_bytes,
        })
    }
}

/// A thread that polls the kernel's sockets, until it is stopped.
#[pyclass(frozen, module = "whydrop._core")]
pub struct SocketSampler {
    sampler: Mutex<Sampler>,
}

impl SocketSampler {
    fn with<R>(&self, act: impl FnOnce(&mut Sampler) -> R) -> R {
        act(&mut self.sampler.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

type Taken<'py> = (
    Vec<(&'static str, Table)>,
    Vec<Bound<'py, PyDict>>,
    Vec<(u32, i64)>,
    u64,
);

#[pymethods]
impl SocketSampler {
    /// Starts the sampler; `wanted` is JSON. Raises `OSError` where the kernel does not answer.
    #[new]
    fn new(py: Python<'_>, wanted: &str) -> PyResult<SocketSampler> {
        let wanted: Wanted = serde_json::from_str(wanted)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let config = wanted.config().map_err(PyValueError::new_err)?;
        let sampler = py
            .detach(|| Sampler::start(config))
            .map_err(|error| raised(&error))?;
        Ok(SocketSampler {
            sampler: Mutex::new(sampler),
        })
    }

    /// Take the observations since the last call: tables by name; connections that are new or changed; those
    /// that ended (flow, time_ns); and the number of rows discarded because they were not taken in time.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Taken<'py>> {
        let batch = py.detach(|| self.with(|sampler| sampler.take()));
        let connections = batch.connections.iter().map(|one| described(py, one));
        let connections = connections.collect::<PyResult<Vec<_>>>()?;
        let ended = batch
            .ended
            .iter()
            .map(|one| (one.flow, one.time_ns))
            .collect();
        let lost_rows = batch.lost_rows;
        let tables = py
            .detach(|| tables(&batch))
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((tables, connections, ended, lost_rows))
    }

    /// State of the sampler: `connections`, `problem`, `ends_lost`, `ends_told`, `processes_gone`.
    fn standing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Standing {
            connections,
            problem,
            ends_lost,
            ends_told,
            processes_gone,
        } = self.with(|sampler| sampler.standing());
        let values = PyDict::new(py);
        values.set_item("connections", connections)?;
        values.set_item("problem", problem)?;
        values.set_item("ends_lost", ends_lost)?;
        values.set_item("ends_told", ends_told)?;
        values.set_item("processes_gone", processes_gone)?;
        Ok(values)
    }

    /// Stops after a last poll; its rows can still be taken.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.with(Sampler::stop));
    }
}

/// The process that owns each of these sockets (by inode): its number, its name, and its control group.
#[pyfunction]
pub fn socket_owners(
    py: Python<'_>,
    inodes: HashSet<u32>,
) -> HashMap<u32, (u32, String, Option<String>)> {
    let found = py.detach(|| processes::owners(&inodes));
    found
        .into_iter()
        .map(|(inode, owner)| {
            let values = (
                owner.pid(),
                owner.name().to_owned(),
                owner.cgroup().map(str::to_owned),
            );
            (inode, values)
        })
        .collect()
}

pub(crate) fn raised(error: &io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(number) => {
            let words = io::Error::from_raw_os_error(number).to_string();
            let words = words
                .split(" (os error")
                .next()
                .unwrap_or_default()
                .to_owned();
            PyOSError::new_err((number, words))
        }
        None => PyOSError::new_err(error.to_string()),
    }
}

/// For speed with thousands of connections: each key is created once and found by its address.
fn described<'py>(py: Python<'py>, one: &Connection) -> PyResult<Bound<'py, PyDict>> {
    let values = PyDict::new(py);
    values.set_item(intern!(py, "flow"), one.flow)?;
    values.set_item(intern!(py, "seen_ns"), one.seen_ns)?;
    values.set_item(intern!(py, "older"), one.older)?;
    values.set_item(intern!(py, "local_address"), one.local.ip().to_string())?;
    values.set_item(intern!(py, "local_port"), one.local.port())?;
    values.set_item(intern!(py, "remote_address"), one.remote.ip().to_string())?;
    values.set_item(intern!(py, "remote_port"), one.remote.port())?;
    values.set_item(intern!(py, "cookie"), one.cookie)?;
    values.set_item(intern!(py, "uid"), one.uid)?;
    values.set_item(intern!(py, "inode"), one.inode)?;
    values.set_item(intern!(py, "interface"), one.interface)?;
    values.set_item(
        intern!(py, "congestion_control"),
        one.congestion_control.as_deref(),
    )?;
    values.set_item(intern!(py, "ecn"), one.ecn)?;
    values.set_item(intern!(py, "traffic_class"), one.traffic_class)?;
    values.set_item(intern!(py, "mark"), one.mark)?;
    values.set_item(intern!(py, "cgroup_id"), one.cgroup_id)?;
    values.set_item(intern!(py, "upper_layer"), one.upper_layer.as_deref())?;
    values.set_item(intern!(py, "mptcp_token"), one.mptcp_token)?;
    Ok(values)
}

/// The tables that have rows, by their names in a recording; `datagrams` does not exist there.
fn tables(batch: &Batch) -> Result<Vec<(&'static str, Table)>, ArrowError> {
    let batches = [
        ("tcp_info", tcp_info(&batch.tcp)?),
        ("intervals", intervals(&batch.intervals)?),
        ("values", values(&batch.values)?),
        ("datagrams", datagrams(&batch.datagrams)?),
        ("polls", polls(&batch.polls)?),
    ];
    Ok(batches
        .into_iter()
        .filter(|(_, batch)| batch.num_rows() > 0)
        .map(|(name, batch)| (name, Table::new(batch)))
        .collect())
}

fn intervals(rows: &[Interval]) -> Result<RecordBatch, ArrowError> {
    batch!(rows, row =>
        flow: row.flow as i32,
        start_ns, end_ns, payload_bytes,
        goodput_bps: goodput_bps(row.payload_bytes, row.start_ns, row.end_ns),
    )
}

fn values(rows: &[Value]) -> Result<RecordBatch, ArrowError> {
    batch!(rows, row => flow: row.flow as i32, time_ns, value, key)
}

fn datagrams(rows: &[DatagramSample]) -> Result<RecordBatch, ArrowError> {
    batch!(rows, row =>
        time_ns, cookie, receive_queue_bytes, drops,
        local: row.local.to_string(),
        remote: row.remote.to_string(),
    )
}

fn polls(rows: &[Poll]) -> Result<RecordBatch, ArrowError> {
    batch!(rows, row => start_ns, end_ns, cpu_ns, sockets, missed, interrupted)
}
