//! The traffic engine, for Python: one object for a running test, one for a responder.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use serde::Deserialize;
use whydrop_traffic::client::{Host, Planned, Test};
use whydrop_traffic::clock;
use whydrop_traffic::flow::FlowSpec;
use whydrop_traffic::keyring::Keyring as Secrets;
use whydrop_traffic::local_end::LocalEnd;
use whydrop_traffic::name::Name;
use whydrop_traffic::responder::{Config, Describe, Limits, Responder as Serving};
use whydrop_traffic::sample::Ending;
use whydrop_traffic::secret::{self, Secret};
use whydrop_traffic::secret_file::{self, FileError};
use whydrop_traffic::udp::Trouble;

use crate::table::Table;
use crate::traffic_columns as columns;

pyo3::create_exception!(
    whydrop._core,
    TrafficError,
    crate::errors::Error,
    "A test or a responder that cannot start. The message names the host and what to try."
);

/// The configuration of a test, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TestConfig {
    hosts: Vec<HostConfig>,
    flows: Vec<PlannedConfig>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostConfig {
    name: String,
    port: Option<u16>,
    secret: Option<String>,
    ip_version: Option<u8>,
    local_address: Option<IpAddr>,
    interface: Option<String>,
}

#[derive(Deserialize)]
struct PlannedConfig {
    host: usize,
    #[serde(flatten)]
    spec: FlowSpec,
}

/// The configuration of a responder, as JSON. An omitted key has the default of its kind (open or not).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResponderConfig {
    addresses: Vec<IpAddr>,
    port: Option<u16>,
    max_sessions: Option<usize>,
    max_duration_s: Option<f64>,
    max_rate_bps: Option<f64>,
    metrics: Option<PathBuf>,
}

/// A test connected to its responders.
#[pyclass(frozen, module = "whydrop._core")]
pub struct TrafficTest {
    test: Test,
}

#[pymethods]
impl TrafficTest {
    /// Connects to every host of the plan (JSON), and waits until all are ready.
    #[new]
    fn new(py: Python<'_>, plan: &str) -> PyResult<TrafficTest> {
        let config: TestConfig = serde_json::from_str(plan)
            .map_err(|error| PyValueError::new_err(format!("the plan: {error}")))?;
        let secrets = py.detach(|| secrets(&config.hosts))?;
        let hosts: Vec<Host> = config
            .hosts
            .into_iter()
            .map(|one| host(one, &secrets))
            .collect();
        let flows = config
            .flows
            .into_iter()
            .map(|PlannedConfig { host, spec }| Planned { host, spec })
            .collect();
        // Anchored here and not in the engine: a responder in the same process must not have its clock moved.
        clock::anchor();
        let test = py
            .detach(|| Test::prepare(&hosts, flows))
            .map_err(|error| TrafficError::new_err(error.to_string()))?;
        Ok(TrafficTest { test })
    }

    /// Starts the flows at this time of `time.monotonic_ns`.
    fn start(&self, at_monotonic_ns: i64) {
        self.test
            .start(at_monotonic_ns.saturating_add(clock::epoch_minus_monotonic_ns()));
    }

    fn is_over(&self) -> bool {
        self.test.is_over()
    }

    fn stop(&self) {
        self.test.stop();
    }

    /// Ends all sessions and waits for the last measurements.
    fn finish(&self, py: Python<'_>) {
        py.detach(|| self.test.finish());
    }

    /// Measurements since the last call: tables by name, how flows ended (flow, status, message), and facts
    /// about flows (flow, key, value).
    fn take(&self, py: Python<'_>) -> PyResult<Measured> {
        let taken = py.detach(|| self.test.take());
        let endings = taken
            .endings
            .iter()
            .map(|(flow, ending)| ended(*flow, ending))
            .collect();
        let facts = taken
            .facts
            .iter()
            .map(|(flow, key, value)| (*flow, key.to_string(), value.clone()))
            .collect();
        let tables = columns::tables(taken).map_err(|error| {
            TrafficError::new_err(format!("the tables could not be passed to Python: {error}"))
        })?;
        Ok((tables, endings, facts))
    }

    /// The far clocks over the whole test: (number of the host, time_ns, offset_ns, uncertainty_ns,
    /// drift_ppm), sorted by host and time; between two rows of a host the offset is linear.
    fn clocks(&self, py: Python<'_>) -> Vec<(usize, i64, i64, i64, Option<f64>)> {
        py.detach(|| self.test.clocks())
            .into_iter()
            .map(|row| {
                (
                    row.host,
                    row.time_ns,
                    row.offset_ns,
                    row.uncertainty_ns,
                    row.drift_ppm,
                )
            })
            .collect()
    }

    /// Times at which an end itself was disturbed: those of each host, then this host's.
    ///
    /// Each is (name of the host, `None` for this one; `pause` or `overflow`; from; to; datagrams discarded),
    /// times in nanoseconds of this host's clock.
    fn troubles(&self) -> Vec<TroubleRow> {
        let ends = self.test.far_ends();
        // all sessions belong to one process, and pause together
        let own = ends.first().map(|end| end.own_pauses.clone());
        let own = own.into_iter().flatten().map(|one| (None, one));
        let far = ends.iter().flat_map(|end| {
            let named = |one: &Trouble| (Some(end.name.clone()), *one);
            end.troubles.iter().map(named)
        });
        far.chain(own)
            .map(|(name, one)| (name, one.kind.name(), one.from_ns, one.to_ns, one.count))
            .collect()
    }

    /// Facts about each host: (name, address, metadata, reason why it was lost, reason for no UDP).
    fn far_ends(&self) -> Vec<FarEndRow> {
        self.test
            .far_ends()
            .into_iter()
            .map(|end| {
                (
                    end.name,
                    end.address,
                    end.metadata,
                    end.lost,
                    end.without_udp,
                )
            })
            .collect()
    }
}

/// Name of the host, kind, from, to, count.
type TroubleRow = (Option<String>, &'static str, i64, i64, u64);

/// Name, address, metadata, reason why it was lost, reason for no UDP.
type FarEndRow = (
    String,
    String,
    Option<String>,
    Option<String>,
    Option<String>,
);

type Measured = (
    Vec<(&'static str, Table)>,
    Vec<(u32, &'static str, Option<String>)>,
    Vec<(u32, String, String)>,
);

fn ended(flow: u32, ending: &Ending) -> (u32, &'static str, Option<String>) {
    match ending {
        Ending::Complete => (flow, "complete", None),
        Ending::Stopped => (flow, "stopped", None),
        Ending::Failed(reason) => (flow, "failed", Some(reason.clone())),
    }
}

fn host(config: HostConfig, secrets: &HashMap<String, Secret>) -> Host {
    let mut host = Host::new(&config.name);
    host.port = config.port.unwrap_or(host.port);
    host.ip_version = config.ip_version;
    host.source = LocalEnd {
        address: config.local_address,
        interface: config.interface,
    };
    host.secret = config.secret.and_then(|text| secrets.get(&text).cloned());
    host
}

/// Stretches the secrets of all hosts, each once, since that takes some tenths of a second.
fn secrets(hosts: &[HostConfig]) -> PyResult<HashMap<String, Secret>> {
    let mut found = HashMap::new();
    for text in hosts.iter().filter_map(|host| host.secret.as_ref()) {
        if !found.contains_key(text) {
            found.insert(text.clone(), stretched(text)?);
        }
    }
    Ok(found)
}

fn stretched(text: &str) -> PyResult<Secret> {
    Secret::new(text.as_bytes()).map_err(TrafficError::new_err)
}

/// The secret in a file or in the environment, or the reason for which the file is refused.
#[pyfunction]
#[pyo3(signature = (path))]
pub fn shared_secret(
    py: Python<'_>,
    path: Option<PathBuf>,
) -> PyResult<(Option<String>, Option<String>)> {
    // A pipe may be empty for a while.
    refusable(py.detach(|| secret_file::shared_secret(path.as_deref())))
}

/// The value or the reason for which the file is refused; raises other errors.
fn refusable<T>(read: Result<Option<T>, FileError>) -> PyResult<(Option<T>, Option<String>)> {
    match read {
        Ok(found) => Ok((found, None)),
        Err(FileError::Refused(message)) => Ok((None, Some(message))),
        Err(FileError::Invalid(message)) => Err(TrafficError::new_err(message)),
        Err(
            ref error @ FileError::Unreadable {
                ref path,
                ref reason,
            },
        ) => {
            let number = reason.raw_os_error();
            Err(PyOSError::new_err((number, error.words(), path.clone())))
        }
    }
}

/// The secrets that a responder accepts; for one responder.
#[pyclass(frozen, module = "whydrop._core")]
pub struct Keyring(Mutex<Option<Secrets>>);

#[pymethods]
impl Keyring {
    /// Reads a text with one secret, or with a name and a secret in each line.
    #[new]
    fn new(py: Python<'_>, text: &str) -> PyResult<Keyring> {
        let secrets = py.detach(|| Secrets::new(text));
        let secrets = secrets.map_err(TrafficError::new_err)?;
        Ok(Keyring(Mutex::new(Some(secrets))))
    }

    /// Reads the secrets in a file or in the environment; returns them, or the reason for which the file is refused.
    #[staticmethod]
    fn read(py: Python<'_>, path: Option<PathBuf>) -> PyResult<(Option<Keyring>, Option<String>)> {
        let read = py.detach(|| Secrets::read(path.as_deref()));
        refusable(read.map(|found| found.map(|secrets| Keyring(Mutex::new(Some(secrets))))))
    }

    /// The clients that are served, in words.
    fn clients(&self) -> String {
        let secrets = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        secrets.as_ref().map_or_else(String::new, Secrets::clients)
    }
}

impl Keyring {
    fn take(&self) -> PyResult<Secrets> {
        let mut secrets = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        secrets
            .take()
            .ok_or_else(|| PyValueError::new_err("another responder has this keyring"))
    }
}

/// A random secret, to be given to a responder and its clients; with a name that of one client.
#[pyfunction]
#[pyo3(signature = (name = None))]
pub fn new_secret(name: Option<&str>) -> PyResult<String> {
    let Some(name) = name else {
        return Ok(secret::random());
    };
    let name = Name::new(name).map_err(TrafficError::new_err)?;
    Ok(format!("{name} {}", secret::random()))
}

/// A responder bound to its port; `run` serves until `stop`.
#[pyclass(frozen, module = "whydrop._core")]
pub struct Responder {
    serving: Serving,
    /// The exception that `describe` raised, to be shown once.
    raised: std::sync::Arc<Mutex<Option<String>>>,
}

#[pymethods]
impl Responder {
    /// `describe(address)` gives this host's metadata as JSON; it is called from other threads.
    #[new]
    #[pyo3(signature = (config, keyring = None, describe = None))]
    fn new(
        config: &str,
        keyring: Option<&Keyring>,
        describe: Option<Py<PyAny>>,
    ) -> PyResult<Responder> {
        let config: ResponderConfig = serde_json::from_str(config)
            .map_err(|error| PyValueError::new_err(format!("the responder's options: {error}")))?;
        let raised = std::sync::Arc::new(Mutex::new(None));
        let keyring = keyring.map(Keyring::take).transpose()?;
        let limits = Limits::with(
            keyring.is_none(),
            config.max_sessions,
            config.max_duration_s,
            config.max_rate_bps,
        );
        let serving = Serving::bind(Config {
            addresses: config.addresses,
            port: config
                .port
                .unwrap_or(whydrop_traffic::responder::DEFAULT_PORT),
            keyring,
            limits,
            describe: describe.map(|call| described_by(call, raised.clone())),
            metrics: config.metrics,
        })
        .map_err(|error| TrafficError::new_err(error.to_string()))?;
        Ok(Responder { serving, raised })
    }

    #[getter]
    fn port(&self) -> u16 {
        self.serving.port()
    }

    /// Serves until `stop` is called from another thread.
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.serving.run())
            .map_err(|error| TrafficError::new_err(error.to_string()))
    }

    fn stop(&self) {
        self.serving.stopper().set();
    }

    /// Connections, authenticated ones, foreign ones, wrong proofs, those above the rate of handshakes, expired ones, and
    /// current sessions.
    fn statistics(&self) -> (u64, u64, u64, u64, u64, u64, usize) {
        let found = self.serving.statistics();
        (
            found.connections,
            found.proved,
            found.foreign,
            found.wrong_proof,
            found.crowded,
            found.expired,
            found.sessions,
        )
    }

    /// The line with which a responder ends.
    fn summary(&self) -> String {
        self.serving.statistics().to_string()
    }

    /// Lines for the log since the last call.
    fn notes(&self) -> Vec<String> {
        self.serving.notes()
    }

    /// The reason why the last attempt to gather metadata failed, if it did.
    fn problem(&self) -> Option<String> {
        self.raised.lock().ok().and_then(|mut raised| raised.take())
    }
}

fn described_by(call: Py<PyAny>, raised: std::sync::Arc<Mutex<Option<String>>>) -> Describe {
    Box::new(move |address| {
        Python::attach(|py| {
            let described = call
                .call1(py, (address.to_string(),))
                .and_then(|text| text.extract::<String>(py));
            described.unwrap_or_else(|error| {
                if let Ok(mut raised) = raised.lock() {
                    *raised = Some(error.to_string());
                }
                "{}".to_owned()
            })
        })
    })
}
