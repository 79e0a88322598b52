//! The responder: the far end of every test. It uses one TCP port and the UDP port of the same number.
//!
//! Connections arrive at the [`admission`]. Authenticated ones become sessions, or flows of a session. [`Limits`] bound
//! everything that a client may do, and a session ends completely with its control channel.

mod admission;
mod greeting;
mod limits;
mod notes;
mod rate;
mod session;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};

use crate::auth::Bytes32;
use crate::hello::Purpose;
use crate::keyring::Keyring;
use crate::name::Name;
use crate::secret::Secret;
use crate::stop::Stop;
use crate::udp;

use greeting::Accepted;
pub use limits::Limits;
use limits::{neighbourhood, network};
use notes::Notes;
use session::Session;

/// The default TCP and UDP port.
pub const DEFAULT_PORT: u16 = 17370;
const BACKLOG: i32 = 1024;
/// How often to try when any port will do: a port that is free for TCP may be in use for UDP.
const PORTS_TO_TRY: usize = 16;

/// Returns this host's metadata, as JSON, for an authenticated client at this address.
pub type Describe = Box<dyn Fn(IpAddr) -> String + Send + Sync>;

/// The configuration of a responder.
pub struct Config {
    /// Empty: every address of the host.
    pub addresses: Vec<IpAddr>,
    /// 0: any port that is free for both protocols.
    pub port: u16,
    /// `None`: any client may use the responder.
    pub keyring: Option<Keyring>,
    pub limits: Limits,
    /// `None`: clients get no metadata.
    pub describe: Option<Describe>,
    /// Replaced every 10 s with statistics in the text format of Prometheus; `None`: not written.
    pub metrics: Option<PathBuf>,
}

/// Statistics of a responder so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub connections: u64,
    pub proved: u64,
    pub foreign: u64,
    pub wrong_proof: u64,
    pub crowded: u64,
    pub expired: u64,
    pub busy: u64,
    pub idle: u64,
    pub sessions: usize,
    /// The sessions so far of each client with a name.
    pub clients: BTreeMap<Name, u64>,
}

impl fmt::Display for Statistics {
    /// Writes the line with which a responder ends.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refusals = notes::refusals(self).map(|(_, words, count)| format!("{count} {words}"));
        write!(
            formatter,
            "stopped after {} connections: {} authenticated, {}",
            self.connections,
            self.proved,
            refusals.join(", ")
        )
    }
}

/// A responder that is bound to its port.
pub struct Responder {
    listeners: Vec<TcpListener>,
    state: Arc<ServerState>,
    port: u16,
    notes: Notes,
}

impl Responder {
    /// Binds both ports.
    ///
    /// # Errors
    /// The errors of the sockets, such as a port that is in use.
    pub fn bind(config: Config) -> io::Result<Responder> {
        allow_many_files();
        let tries = if config.port == 0 { PORTS_TO_TRY } else { 1 };
        let (listeners, addresses, udp) = until_free(tries, || {
            let (listeners, addresses) = listen(&config.addresses, config.port)?;
            let udp = udp::Service::bind(&addresses).map_err(|error| {
                io::Error::new(error.kind(), format!("cannot listen on {error}"))
            })?;
            Ok((listeners, addresses, udp))
        })
        .map_err(|error| with_advice(error, config.port))?;
        let port = addresses.first().map_or(config.port, SocketAddr::port);
        let state = Arc::new(ServerState {
            clients: Mutex::new(clients(config.keyring.as_ref())),
            keyring: config.keyring,
            limits: config.limits,
            describe: config.describe,
            udp,
            by_address: Mutex::default(),
            sessions: Mutex::default(),
            counts: admission::Counts::default(),
            stop: Stop::default(),
        });
        Ok(Responder {
            listeners,
            state,
            port,
            notes: Notes::new(config.metrics)?,
        })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns a handle that ends [`Responder::run`] from another thread.
    pub fn stopper(&self) -> Stop {
        self.state.stop.clone()
    }

    /// Serves until it is stopped, and then notifies all sessions.
    ///
    /// # Errors
    /// The kernel has no descriptors left at the start.
    pub fn run(&self) -> io::Result<()> {
        let result = thread::scope(|scope| {
            thread::Builder::new()
                .name("notes".to_owned())
                .spawn_scoped(scope, || {
                    let keyring = self.state.keyring.as_ref();
                    let news = || keyring.and_then(Keyring::refresh);
                    self.notes.run(|| self.statistics(), news, &self.state.stop);
                })?;
            let result = admission::run(
                &self.listeners,
                &self.state,
                &self.state.counts,
                &self.state.stop,
            );
            self.state.stop.set();
            result
        });
        // If no thread could be started, too.
        self.state.stop.set();
        // Sessions check for a stop every 200 ms.
        for _ in 0..40 {
            if self.state.sessions().is_empty() {
                break;
            }
            thread::sleep(std::time::Duration::from_millis(25));
        }
        self.state.udp.stop();
        result
    }

    /// Returns lines for the log since the last call: refused connections, at most once a minute, changed secrets, and a
    /// file of metrics that cannot be written.
    pub fn notes(&self) -> Vec<String> {
        self.notes.take()
    }

    pub fn statistics(&self) -> Statistics {
        let counts = &self.state.counts;
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            connections: read(&counts.accepted),
            proved: read(&counts.authenticated),
            foreign: read(&counts.foreign),
            wrong_proof: read(&counts.wrong_proof),
            crowded: read(&counts.crowded),
            expired: read(&counts.expired),
            busy: read(&counts.busy),
            idle: read(&counts.idle),
            sessions: self.state.sessions().len(),
            clients: self.state.clients().clone(),
        }
    }
}

/// State that all sessions share.
pub(crate) struct ServerState {
    keyring: Option<Keyring>,
    limits: Limits,
    describe: Option<Describe>,
    udp: udp::Service,
    /// Control channels by source address, including those that have not sent a request yet.
    by_address: Mutex<HashMap<IpAddr, usize>>,
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
    clients: Mutex<BTreeMap<Name, u64>>,
    counts: admission::Counts,
    stop: Stop,
}

impl ServerState {
    fn sessions(&self) -> MutexGuard<'_, HashMap<u64, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn by_address(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn clients(&self) -> MutexGuard<'_, BTreeMap<Name, u64>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, session: &Arc<Session>) {
        let name = session.secret.as_ref().map(Secret::name);
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            *self.clients().entry(name).or_default() += 1;
        }
        self.sessions().insert(session.token, session.clone());
    }

    fn forget(&self, session: &Session) {
        session.end();
        self.udp.remove(session.token);
        self.sessions().remove(&session.token);
    }

    fn describe(&self, to: IpAddr) -> String {
        self.describe
            .as_ref()
            .map_or_else(|| "{}".to_owned(), |describe| describe(to))
    }

    fn udp_limits(&self) -> udp::SessionLimits {
        udp::SessionLimits {
            max_rate_bps: self.limits.max_rate_bps.unwrap_or(f64::INFINITY),
            max_packet_bytes: self.limits.max_packet_payload_bytes,
            min_interval_ns: crate::clock::ns(self.limits.min_interval_s),
        }
    }
}

/// Counts a control channel for as long as this value lives.
struct Admitted {
    state: Arc<ServerState>,
    from: IpAddr,
}

impl Admitted {
    fn new(state: &Arc<ServerState>, from: IpAddr) -> Admitted {
        let from = neighbourhood(from);
        *state.by_address().entry(from).or_default() += 1;
        Admitted {
            state: state.clone(),
            from,
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut by_address = self.state.by_address();
        if let Some(number) = by_address.get_mut(&self.from) {
            *number -= 1;
            if *number == 0 {
                by_address.remove(&self.from);
            }
        }
    }
}

impl admission::Sessions for Arc<ServerState> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn keyring(&self) -> Option<&Keyring> {
        self.keyring.as_ref()
    }

    fn data_key(&self, session: u64) -> Option<Bytes32> {
        let sessions = self.sessions();
        sessions.get(&session).map(|session| session.keys.data)
    }

    fn has_room(&self, purpose: Purpose, from: IpAddr) -> bool {
        match purpose {
            Purpose::Control(_) => {
                let by_address = self.by_address();
                let number = |is_counted: &dyn Fn(IpAddr) -> bool| -> usize {
                    let counted = by_address.iter().filter(|(place, _)| is_counted(**place));
                    counted.map(|(_, number)| number).sum()
                };
                let (own, shared) = (neighbourhood(from), network(from));
                number(&|_| true) < self.limits.max_sessions
                    && number(&|place| place == own) < self.limits.max_sessions_per_address
                    && number(&|place| network(place) == shared)
                        < self.limits.sessions_per_network()
            }
            Purpose::Data { session, flow } => self
                .sessions()
                .get(&session)
                .is_some_and(|session| session.awaits(flow)),
        }
    }

    fn begin(&self, stream: TcpStream, accepted: Accepted) {
        let Ok(peer) = stream.peer_addr() else { return };
        let state = self.clone();
        let admitted = Admitted::new(self, peer.ip());
        // If no thread can be started, the connection is closed, which the client reports.
        let _ = thread::Builder::new()
            .name("session".to_owned())
            .spawn(move || {
                Session::serve(&state, stream, accepted, peer.ip());
                drop(admitted);
            });
    }

    fn attach(&self, stream: TcpStream, session: u64, flow: u32) {
        let session = self.sessions().get(&session).cloned();
        if let Some(session) = session {
            session.attach(stream, flow);
        }
    }
}

/// A count of sessions for each client with a name.
fn clients(keyring: Option<&Keyring>) -> BTreeMap<Name, u64> {
    let names = keyring.map(Keyring::names).unwrap_or_default();
    names.into_iter().map(|name| (name, 0)).collect()
}

/// Retries while an address is in use, this many times in all.
fn until_free<T>(tries: usize, mut bind: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..tries {
        match bind() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            other => return other,
        }
    }
    bind()
}

/// Adds advice to an error of the sockets.
fn with_advice(error: io::Error, port: u16) -> io::Error {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => "; is another responder running? (--port chooses another port)",
        io::ErrorKind::AddrNotAvailable => "; --listen takes addresses of this host",
        io::ErrorKind::PermissionDenied if port < 1024 => {
            "; ports below 1024 are for root (--port chooses another)"
        }
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{error}{advice}"))
}

/// Listens on all addresses, in both IP versions if none is given. All use the same port.
fn listen(addresses: &[IpAddr], port: u16) -> io::Result<(Vec<TcpListener>, Vec<SocketAddr>)> {
    let everywhere = [
        IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    ];
    let wanted = if addresses.is_empty() {
        &everywhere[..]
    } else {
        addresses
    };
    let (mut listeners, mut bound, mut port) = (Vec::new(), Vec::new(), port);
    for &address in wanted {
        match listen_on(SocketAddr::new(address, port)) {
            Ok(listener) => {
                let local = listener.local_addr()?;
                port = local.port();
                bound.push(local);
                listeners.push(listener);
            }
            // A host without one IP version serves the other.
            Err(error) if addresses.is_empty() && is_missing_version(&error) => {}
            Err(error) => {
                let place = SocketAddr::new(address, port);
                return Err(io::Error::new(
                    error.kind(),
                    format!("cannot listen on {place}: {error}"),
                ));
            }
        }
    }
    if listeners.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::AddrNotAvailable,
            "this host has no address to listen on",
        ));
    }
    Ok((listeners, bound))
}

fn is_missing_version(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
    )
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Raises the limit of open files as far as possible: a flood of connections needs many before admission closes them.
fn allow_many_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // On failure the limit stays as it was.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(port: u16) -> Config {
        Config {
            addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            port,
            keyring: None,
            limits: Limits::open(),
            describe: None,
            metrics: None,
        }
    }

    #[test]
    fn where_any_port_will_do_one_that_is_taken_is_passed_over() {
        let mut asked = 0;
        let found = until_free(3, || {
            asked += 1;
            if asked < 3 {
                Err(io::ErrorKind::AddrInUse.into())
            } else {
                Ok(asked)
            }
        });
        assert_eq!(found.unwrap(), 3);
        let error = until_free::<()>(3, || Err(io::ErrorKind::AddrInUse.into())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_port_that_is_in_use_for_either_protocol_is_named_with_what_to_try() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for taken in [tcp.local_addr().unwrap(), udp.local_addr().unwrap()] {
            let message = Responder::bind(config(taken.port()))
                .err()
                .expect("the port is in use")
                .to_string();
            assert!(message.contains(&taken.to_string()), "{message}");
            assert!(message.contains("--port"), "{message}");
        }
    }
}
