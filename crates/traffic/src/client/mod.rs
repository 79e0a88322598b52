//! The near end of a test: connects to the responders, starts all flows at a common time and hands over their
//! measurements while they run.
//!
//! ```no_run
//! use whydrop_traffic::client::{Host, Planned, Test};
//! use whydrop_traffic::flow::{Direction, FlowSpec, Kind};
//! use whydrop_traffic::clock;
//!
//! let host = Host::new("server.example");
//! let spec = FlowSpec { duration_s: Some(10.0), ..FlowSpec::new(0, Kind::Tcp, Direction::Up) };
//! let test = Test::prepare(&[host], vec![Planned { host: 0, spec }]).unwrap();
//! test.start(clock::now_ns() + 100_000_000);
//! while !test.is_over() {
//!     println!("{} intervals", test.take().intervals.len());
//!     std::thread::sleep(std::time::Duration::from_secs(1));
//! }
//! test.finish();
//! ```

mod connecting;
mod correcting;
mod expected;
mod plausible;
mod session;
pub(crate) mod words;

use std::io;
use std::sync::Arc;

use crate::flow::FlowSpec;
use crate::local_end::LocalEnd;
use crate::responder::DEFAULT_PORT;
use crate::secret::Secret;
use crate::udp::Trouble;

pub use correcting::{ClockRow, ProbeRow, Taken};
use session::HostSession;

/// A host with a responder.
#[derive(Clone, Debug)]
pub struct Host {
    /// A name or an address, as the user gave it.
    pub name: String,
    pub port: u16,
    pub secret: Option<Secret>,
    /// 4 or 6; `None`: the version that the system prefers.
    pub ip_version: Option<u8>,
    /// The local address and interface of all packets to it.
    pub source: LocalEnd,
}

impl Host {
    /// Creates a host with the default port and no secret.
    pub fn new(name: &str) -> Host {
        Host {
            name: name.to_owned(),
            port: DEFAULT_PORT,
            secret: None,
            ip_version: None,
            source: LocalEnd::default(),
        }
    }
}

/// A flow and the number of its host.
#[derive(Clone, Debug)]
pub struct Planned {
    pub host: usize,
    pub spec: FlowSpec,
}

/// Facts about a far end, known once it is connected.
#[derive(Clone, Debug)]
pub struct FarEnd {
    pub name: String,
    /// With its zone if the address is link-local.
    pub address: String,
    /// JSON; `None` if the far end sent none (yet).
    pub metadata: Option<String>,
    /// Why the session ended early.
    pub lost: Option<String>,
    /// Why the clocks could not be compared over UDP.
    pub without_udp: Option<String>,
    /// When the responder was not running or its receive buffer overflowed, in this host's clock.
    pub troubles: Vec<Trouble>,
    /// When this host's own process was not running.
    pub own_pauses: Vec<Trouble>,
}

/// A test that is ready to start: all its hosts are connected.
pub struct Test {
    hosts: Vec<Arc<HostSession>>,
}

impl Test {
    /// Connects to every host, authenticates, registers the flows, opens their connections and compares the clocks.
    ///
    /// # Errors
    /// The first failure; the message names the host.
    pub fn prepare(hosts: &[Host], flows: Vec<Planned>) -> io::Result<Test> {
        for Planned { spec, .. } in &flows {
            spec.check().map_err(|problem| {
                io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("flow {}: {problem}", spec.flow),
                )
            })?;
        }
        let mut of_host: Vec<Vec<FlowSpec>> = vec![Vec::new(); hosts.len()];
        for flow in flows {
            let specs = of_host.get_mut(flow.host).ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("flow {} names no host", flow.spec.flow),
                )
            })?;
            specs.push(flow.spec);
        }
        // If one host fails, dropping the test closes the connections to those before it.
        let mut test = Test { hosts: Vec::new() };
        for (host, specs) in hosts.iter().zip(of_host) {
            let session = HostSession::open(host, specs)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", host.name)))?;
            test.hosts.push(session);
        }
        Ok(test)
    }

    /// Starts the test: each flow begins at its own time after `start_ns` ([`clock::now_ns`](crate::clock::now_ns)).
    pub fn start(&self, start_ns: i64) {
        for host in &self.hosts {
            host.start(start_ns);
        }
    }

    /// True if all flows have ended.
    pub fn is_over(&self) -> bool {
        self.hosts.iter().all(|host| host.is_over())
    }

    /// Requests that all flows end now.
    pub fn stop(&self) {
        for host in &self.hosts {
            host.stop();
        }
    }

    /// Returns the measurements since the last call, with far times converted to this host's clock.
    pub fn take(&self) -> Taken {
        let mut taken = Taken::default();
        for (number, host) in self.hosts.iter().enumerate() {
            host.take(number, &mut taken);
        }
        taken
    }

    /// Returns the state of the far clocks over the whole test, from everything taken so far. Between two rows of a
    /// host the offset is interpolated linearly. Measurements taken earlier were corrected by what was known at that
    /// time.
    pub fn clocks(&self) -> Vec<ClockRow> {
        let rows = |(number, host): (usize, &Arc<HostSession>)| {
            let estimates = host.clocks();
            estimates
                .into_iter()
                .map(move |estimate| ClockRow::new(number, &estimate))
        };
        self.hosts.iter().enumerate().flat_map(rows).collect()
    }

    pub fn far_ends(&self) -> Vec<FarEnd> {
        self.hosts.iter().map(|host| host.far_end()).collect()
    }

    /// Ends all sessions; their last measurements can be taken afterwards.
    pub fn finish(&self) {
        for host in &self.hosts {
            host.ask_to_finish();
        }
        for host in &self.hosts {
            host.await_finish();
        }
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        self.stop();
        for host in &self.hosts {
            host.disconnect();
        }
    }
}
