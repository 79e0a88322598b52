//! Admission of new connections: until a connection is authenticated it costs no thread and little memory.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use crate::auth::{self, Bytes32, Role};
use crate::clock;
use crate::hello::{self, ClientHello, PROOF_BYTES, Purpose, ResponderHello, Status};
use crate::responder::limits::neighbourhood;
use crate::stop::Stop;

/// The most unauthenticated connections at once. Beyond it, the oldest one from the address with most of them is
/// closed.
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
    /// Closed because of a wrong proof.
    pub wrong_proof: AtomicU64,
    /// Closed because they were silent for too long, or to make room.
    pub expired: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The sessions, which admission consults and which take over connections.
pub trait Sessions {
    /// The key that a connection for this purpose must know; `None` if the session does not exist.
    fn key(&self, purpose: Purpose) -> Option<Vec<u8>>;
    /// True if clients must know a secret.
    fn asks_for_secret(&self) -> bool;
    /// True if one more connection for this purpose can be served.
    fn has_room(&self, purpose: Purpose, from: IpAddr) -> bool;
    /// Takes over an authenticated connection, with the key of the session that begins with it.
    fn authenticated(&self, stream: TcpStream, purpose: Purpose, session_key: Bytes32);
}

/// A connection that is not authenticated yet.
struct Pending {
    stream: TcpStream,
    from: IpAddr,
    neighbourhood: IpAddr,
    since_ns: i64,
    received: Vec<u8>,
    greeted: Option<Greeted>,
}

/// Its hello has arrived and the responder's hello has been sent.
struct Greeted {
    purpose: Purpose,
    client_hello: Vec<u8>,
    responder_hello: [u8; hello::RESPONDER_HELLO_BYTES],
    key: Vec<u8>,
}

/// The next step for a connection after data arrived on it.
enum Step {
    /// More data must arrive.
    Incomplete,
    Close,
    Authenticated(Purpose, Bytes32),
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
            since_ns: clock::monotonic_ns(),
            received: Vec::new(),
            greeted: None,
        };
        self.pending.insert(key, connection);
    }

    /// Closes the oldest connection from the address with the most connections.
    fn make_room(&mut self) {
        let mut by_address: HashMap<IpAddr, usize> = HashMap::new();
        for connection in self.pending.values() {
            *by_address.entry(connection.neighbourhood).or_default() += 1;
        }
        let Some((busiest, _)) = by_address.into_iter().max_by_key(|&(_, number)| number) else {
            return;
        };
        let oldest = self
            .pending
            .iter()
            .find(|(_, connection)| connection.neighbourhood == busiest)
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
        match connection.receive(self.sessions, self.counts) {
            Step::Incomplete => {}
            Step::Close => {
                self.pending.remove(&key);
            }
            Step::Authenticated(purpose, session_key) => {
                let Some(connection) = self.pending.remove(&key) else {
                    return;
                };
                if self.epoll.delete(&connection.stream).is_ok()
                    && connection.stream.set_nonblocking(false).is_ok()
                {
                    count(&self.counts.authenticated);
                    self.sessions
                        .authenticated(connection.stream, purpose, session_key);
                }
            }
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

impl Pending {
    fn receive(&mut self, sessions: &impl Sessions, counts: &Counts) -> Step {
        // Never more than the next item: the bytes after the proof belong to the session that takes over the
        // connection.
        let wanted = if self.greeted.is_some() {
            PROOF_BYTES
        } else {
            hello::CLIENT_HELLO_BYTES
        };
        let mut chunk = [0; hello::CLIENT_HELLO_BYTES];
        match self.stream.read(&mut chunk[..wanted - self.received.len()]) {
            Ok(0) => return Step::Close,
            Ok(length) => self.received.extend_from_slice(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Step::Incomplete,
            Err(_) => return Step::Close,
        }
        match &self.greeted {
            None if hello::check_magic(&self.received).is_err() => {
                count(&counts.foreign);
                Step::Close
            }
            _ if self.received.len() < wanted => Step::Incomplete,
            None => self.greet(sessions, counts),
            Some(greeted) => self.check_proof(greeted, sessions, counts),
        }
    }

    fn greet(&mut self, sessions: &impl Sessions, counts: &Counts) -> Step {
        let bytes = self
            .received
            .as_slice()
            .try_into()
            .expect("this many were requested");
        let Ok(hello) = ClientHello::decode(bytes) else {
            count(&counts.foreign);
            return Step::Close;
        };
        // A proof for an unknown session fails like any wrong proof, which reveals nothing about sessions.
        let key = sessions
            .key(hello.purpose)
            .unwrap_or_else(|| auth::nonce().to_vec());
        // The key of a session is never public, so data connections must always prove it.
        let asks = sessions.asks_for_secret() || hello.purpose != Purpose::Control;
        let responder_hello = ResponderHello::new(asks).encode();
        if self.stream.write_all(&responder_hello).is_err() {
            return Step::Close;
        }
        let client_hello = std::mem::take(&mut self.received);
        self.greeted = Some(Greeted {
            purpose: hello.purpose,
            client_hello,
            responder_hello,
            key,
        });
        Step::Incomplete
    }

    fn check_proof(&self, greeted: &Greeted, sessions: &impl Sessions, counts: &Counts) -> Step {
        let Greeted {
            purpose,
            client_hello,
            responder_hello,
            key,
        } = greeted;
        let expected = auth::prove(key, Role::Client, client_hello, responder_hello);
        let status = if !auth::equal(&self.received, &expected) {
            count(&counts.wrong_proof);
            Status::WrongProof
        } else if !sessions.has_room(*purpose, self.from) {
            Status::Busy
        } else {
            Status::Accepted
        };
        let answer = hello::answer(status, key, client_hello, responder_hello);
        if (&self.stream).write_all(&answer).is_err() || status != Status::Accepted {
            return Step::Close;
        }
        Step::Authenticated(
            *purpose,
            auth::prove(key, Role::Session, client_hello, responder_hello),
        )
    }
}
