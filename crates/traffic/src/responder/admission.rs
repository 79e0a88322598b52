//! Admission of new connections: until a connection is authenticated it costs no thread and little memory.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use crate::auth::Bytes32;
use crate::clock;
use crate::hello::{self, ClientHello, Greeting, HelloError, Purpose, ResponderHello, Status};
use crate::keyring::Keyring;
use crate::noise::Mode;
use crate::responder::greeting::{self, Accepted, Greeted};
use crate::responder::limits::{Limits, neighbourhood, network};
use crate::responder::rate::Handshakes;
use crate::stop::Stop;

/// The most unauthenticated connections at once. Beyond it, the oldest one from the address with most of them, in
/// the network with most of them, is closed.
const MOST_UNPROVED: usize = 2048;
/// The time within which a client must authenticate: two round trips and a lost packet on any path.
const PATIENCE_NS: i64 = 10_000_000_000;
/// The longest sleep of the admission loop when nothing arrives.
const TICK_MS: u16 = 50;
const EVENTS_AT_ONCE: usize = 256;
/// Keys below are listeners, keys from here on are connections.
const FIRST_CONNECTION: u64 = 1 << 16;

/// Statistics of admission.
#[derive(Debug, Default)]
pub struct Counts {
    pub accepted: AtomicU64,
    pub authenticated: AtomicU64,
    /// Closed because they did not use this protocol.
    pub foreign: AtomicU64,
    /// Closed because of a wrong proof, or by a client that did not accept the responder's.
    pub wrong_proof: AtomicU64,
    /// Closed because too many handshakes began at the time.
    pub crowded: AtomicU64,
    /// Closed because they were silent for too long, or to make room.
    pub expired: AtomicU64,
    /// Authenticated, and refused because all sessions were taken.
    pub busy: AtomicU64,
    /// Sessions that were ended because no flow was active.
    pub idle: AtomicU64,
}

pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The sessions, which admission consults and which take over connections.
pub trait Sessions {
    fn limits(&self) -> &Limits;
    /// The secrets of which clients must know one, if they must.
    fn keyring(&self) -> Option<&Keyring>;
    /// The key that data connections of a session must know; `None` if the session does not exist.
    fn data_key(&self, session: u64) -> Option<Bytes32>;
    /// True if one more connection for this purpose can be served.
    fn has_room(&self, purpose: Purpose, from: IpAddr) -> bool;
    /// Takes over an authenticated control channel.
    fn begin(&self, stream: TcpStream, accepted: Accepted);
    /// Takes over an authenticated connection for the data of a flow.
    fn attach(&self, stream: TcpStream, session: u64, flow: u32);
}

/// A connection that is not authenticated yet.
struct Pending {
    stream: TcpStream,
    from: IpAddr,
    neighbourhood: IpAddr,
    network: IpAddr,
    since_ns: i64,
    received: Vec<u8>,
    /// The client's hello has been answered.
    greeted: Option<Box<Greeted>>,
}

/// The next step for a connection after data arrived on it.
enum Step {
    /// More data must arrive.
    Incomplete,
    Close,
    Authenticated(Purpose, Option<Accepted>),
}

/// Accepts connections on all listeners until `stop`.
///
/// # Errors
/// The kernel provides no epoll descriptor.
pub fn run(
    listeners: &[TcpListener],
    sessions: &impl Sessions,
    counts: &Counts,
    stop: &Stop,
) -> io::Result<()> {
    let mut admission = Admission {
        epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
        pending: BTreeMap::new(),
        next: FIRST_CONNECTION,
        handshakes: Handshakes::new(sessions.limits(), clock::monotonic_ns()),
        sessions,
        counts,
    };
    for (number, listener) in listeners.iter().enumerate() {
        listener.set_nonblocking(true)?;
        admission.watch(listener, number as u64)?;
    }
    let mut events = [EpollEvent::empty(); EVENTS_AT_ONCE];
    while !stop.is_set() {
        // A signal ends the wait early; the loop then waits again.
        let ready = admission.epoll.wait(&mut events, TICK_MS).unwrap_or(0);
        for key in events[..ready].iter().map(EpollEvent::data) {
            match listeners.get(key as usize) {
                Some(listener) => admission.accept(listener),
                None => admission.receive(key),
            }
        }
        admission.expire_idle();
    }
    Ok(())
}

struct Admission<'a, S> {
    /// For a closed connection the kernel reports no further events.
    epoll: Epoll,
    /// By key, which is also the order of arrival.
    pending: BTreeMap<u64, Pending>,
    next: u64,
    handshakes: Handshakes,
    sessions: &'a S,
    counts: &'a Counts,
}

impl<S: Sessions> Admission<'_, S> {
    /// Reports `key` whenever data can be read.
    fn watch(&self, socket: &impl AsFd, key: u64) -> io::Result<()> {
        Ok(self
            .epoll
            .add(socket, EpollEvent::new(EpollFlags::EPOLLIN, key))?)
    }

    fn accept(&mut self, listener: &TcpListener) {
        // At most this many at a time, so that pending connections are not starved.
        for _ in 0..64 {
            match listener.accept() {
                Ok((stream, address)) => self.admit(stream, address.ip()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // If descriptors or memory have run out, pending connections are closed; otherwise the new connection
                // is gone.
                Err(error) => {
                    if matches!(
                        error.raw_os_error(),
                        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS)
                    ) {
                        self.make_room();
                        std::thread::sleep(Duration::from_millis(1));
                        return;
                    }
                }
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, from: IpAddr) {
        count(&self.counts.accepted);
        if self.pending.len() >= MOST_UNPROVED {
            self.make_room();
        }
        let key = self.next;
        if stream.set_nonblocking(true).is_err() || self.watch(&stream, key).is_err() {
            return;
        }
        self.next += 1;
        let connection = Pending {
            stream,
            from,
            neighbourhood: neighbourhood(from),
            network: network(from),
            since_ns: clock::monotonic_ns(),
            received: Vec::new(),
            greeted: None,
        };
        self.pending.insert(key, connection);
    }

    /// Closes the oldest connection from the address with the most connections, in the network with the most.
    fn make_room(&mut self) {
        let all = || self.pending.values();
        let Some(network) = most_frequent(all().map(|one| one.network)) else {
            return;
        };
        let inside = all().filter(|one| one.network == network);
        let busiest = most_frequent(inside.map(|one| one.neighbourhood));
        let oldest = self
            .pending
            .iter()
            .find(|(_, connection)| Some(connection.neighbourhood) == busiest)
            .map(|(&key, _)| key);
        if let Some(key) = oldest {
            self.pending.remove(&key);
            count(&self.counts.expired);
        }
    }

    fn receive(&mut self, key: u64) {
        let Some(connection) = self.pending.get_mut(&key) else {
            return;
        };
        match connection.receive(self.sessions, &mut self.handshakes, self.counts) {
            Step::Incomplete => {}
            Step::Close => {
                self.pending.remove(&key);
            }
            Step::Authenticated(purpose, accepted) => {
                if let Some(connection) = self.pending.remove(&key) {
                    self.hand_over(connection.stream, purpose, accepted);
                }
            }
        }
    }

    fn hand_over(&self, stream: TcpStream, purpose: Purpose, accepted: Option<Accepted>) {
        if self.epoll.delete(&stream).is_err() || stream.set_nonblocking(false).is_err() {
            return;
        }
        count(&self.counts.authenticated);
        match (purpose, accepted) {
            (Purpose::Control(_), Some(accepted)) => self.sessions.begin(stream, accepted),
            (Purpose::Data { session, flow }, _) => self.sessions.attach(stream, session, flow),
            (Purpose::Control(_), None) => {}
        }
    }

    fn expire_idle(&mut self) {
        let now_ns = clock::monotonic_ns();
        while let Some((&key, connection)) = self.pending.first_key_value() {
            if now_ns - connection.since_ns < PATIENCE_NS {
                return;
            }
            self.pending.remove(&key);
            count(&self.counts.expired);
        }
    }
}

fn most_frequent(places: impl Iterator<Item = IpAddr>) -> Option<IpAddr> {
    let mut numbers: HashMap<IpAddr, usize> = HashMap::new();
    for place in places {
        *numbers.entry(place).or_default() += 1;
    }
    let most = numbers.into_iter().max_by_key(|&(_, number)| number);
    most.map(|(place, _)| place)
}

impl Pending {
    fn receive(
        &mut self,
        sessions: &impl Sessions,
        handshakes: &mut Handshakes,
        counts: &Counts,
    ) -> Step {
        // Never more than the next item: the bytes after the proof belong to the session that takes over the
        // connection.
        let wanted = match &self.greeted {
            Some(greeted) => greeted.proof_bytes(),
            None => hello::CLIENT_HELLO_BYTES,
        };
        let mut chunk = [0; hello::CLIENT_HELLO_BYTES];
        match self.stream.read(&mut chunk[..wanted - self.received.len()]) {
            Ok(0) if self.greeted.is_some() => {
                // A client with another secret leaves when it has seen the responder's proof.
                count(&counts.wrong_proof);
                return Step::Close;
            }
            Ok(0) => return Step::Close,
            Ok(length) => self.received.extend_from_slice(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Step::Incomplete,
            Err(_) => return Step::Close,
        }
        if self.greeted.is_none() && self.is_foreign() {
            count(&counts.foreign);
            return Step::Close;
        }
        if self.received.len() < wanted {
            return Step::Incomplete;
        }
        match self.greeted.take() {
            None => self.greet(sessions, handshakes, counts),
            Some(greeted) => self.check_proof(*greeted, sessions, counts),
        }
    }

    /// True at the first byte of another protocol. Another version of this one is answered when its hello is complete.
    fn is_foreign(&self) -> bool {
        hello::check_magic(&self.received) == Err(HelloError::Foreign)
    }

    fn greet(
        &mut self,
        sessions: &impl Sessions,
        handshakes: &mut Handshakes,
        counts: &Counts,
    ) -> Step {
        let received = std::mem::take(&mut self.received);
        let bytes = received.as_slice().try_into();
        let bytes = bytes.expect("this many were requested");
        match answer(bytes, self.from, sessions, handshakes) {
            Ok((greeted, bytes)) if self.stream.write_all(&bytes).is_ok() => {
                self.greeted = Some(Box::new(greeted));
                Step::Incomplete
            }
            Ok(_) => Step::Close,
            Err(greeting) => {
                count(match greeting {
                    Some(Greeting::Crowded) => &counts.crowded,
                    Some(Greeting::NeedsSecret | Greeting::IsOpen) => &counts.wrong_proof,
                    _ => &counts.foreign,
                });
                if let Some(greeting) = greeting {
                    let refusal = ResponderHello::refusal(greeting).encode();
                    // A client that has gone needs no reason.
                    let _ = self.stream.write_all(&refusal);
                }
                Step::Close
            }
        }
    }

    fn check_proof(&mut self, greeted: Greeted, sessions: &impl Sessions, counts: &Counts) -> Step {
        let purpose = greeted.purpose();
        let status = if !greeted.proves(&self.received) {
            count(&counts.wrong_proof);
            Status::WrongProof
        } else if !sessions.has_room(purpose, self.from) {
            count(&counts.busy);
            Status::Busy
        } else {
            Status::Accepted
        };
        if status == Status::WrongProof && matches!(purpose, Purpose::Control(_)) {
            // It could not read an answer.
            return Step::Close;
        }
        let (answer, accepted) = greeted.answer(status);
        if self.stream.write_all(&answer).is_err() || status != Status::Accepted {
            return Step::Close;
        }
        Step::Authenticated(purpose, accepted)
    }
}

/// Answers a client's hello.
///
/// # Errors
/// What to answer before the connection is closed; `None`: nothing, since the hello is invalid.
fn answer(
    hello: &[u8; hello::CLIENT_HELLO_BYTES],
    from: IpAddr,
    sessions: &impl Sessions,
    handshakes: &mut Handshakes,
) -> Result<(Greeted, [u8; hello::RESPONDER_HELLO_BYTES]), Option<Greeting>> {
    let hello = ClientHello::decode(hello).map_err(|error| match error {
        HelloError::Version(_) => Some(Greeting::OtherVersion),
        HelloError::Foreign | HelloError::Malformed => None,
    })?;
    let mode = match hello.purpose {
        Purpose::Control(mode) => mode,
        Purpose::Data { session, flow } => {
            let key = sessions.data_key(session);
            return Ok(greeting::data(&hello, session, flow, key));
        }
    };
    let secret = match (mode, sessions.keyring()) {
        (Mode::Open, Some(_)) => return Err(Some(Greeting::NeedsSecret)),
        (Mode::Secret(_), None) => return Err(Some(Greeting::IsOpen)),
        (Mode::Open, None) => None,
        (Mode::Secret(name), Some(keyring)) => Some(keyring.secret(name)),
    };
    if !handshakes.begin(from, clock::monotonic_ns()) {
        return Err(Some(Greeting::Crowded));
    }
    greeting::control(&hello, secret).ok_or(None)
}
