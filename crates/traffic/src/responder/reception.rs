//! Where every connection arrives: it costs no thread and little memory until it has proved who it is.

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

/// So many connections may be unproved at once; the oldest of the address that has most of them makes room.
const MOST_UNPROVED: usize = 2048;
/// A client proves itself within this time, two round trips and a lost packet on any path, or is hung up on.
const PATIENCE_NS: i64 = 10_000_000_000;
/// How long the reception sleeps at most when nothing arrives.
const TICK_MS: u16 = 50;
const EVENTS_AT_ONCE: usize = 256;
/// Keys of listeners are below, those of connections from here on.
const FIRST_CONNECTION: u64 = 1 << 16;

/// What reception did with connections.
#[derive(Debug, Default)]
pub struct Counts {
    pub accepted: AtomicU64,
    pub welcomed: AtomicU64,
    /// Closed because what they sent was not this protocol.
    pub foreign: AtomicU64,
    /// Closed because of a wrong proof.
    pub wrong_proof: AtomicU64,
    /// Closed because they said nothing in time, or to make room.
    pub expired: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Whom the reception asks and to whom it hands connections over.
pub trait House {
    /// The key that a connection of this purpose must prove to know; `None` for a session that there is not.
    fn key(&self, purpose: Purpose) -> Option<Vec<u8>>;
    /// Whether clients are asked for a secret.
    fn asks_for_secret(&self) -> bool;
    /// Whether one more connection of this purpose can be served.
    fn has_room(&self, purpose: Purpose, from: IpAddr) -> bool;
    /// A connection that has proved itself, and the key of the session that begins with it.
    fn welcome(&self, stream: TcpStream, purpose: Purpose, session_key: Bytes32);
}

/// A connection that has not proved itself yet.
struct Visitor {
    stream: TcpStream,
    from: IpAddr,
    neighbourhood: IpAddr,
    since_ns: i64,
    received: Vec<u8>,
    introduced: Option<Introduced>,
}

/// Its hello has arrived and ours was sent.
struct Introduced {
    purpose: Purpose,
    client_hello: Vec<u8>,
    responder_hello: [u8; hello::RESPONDER_HELLO_BYTES],
    key: Vec<u8>,
}

/// What became of a visitor after something arrived from it.
enum Step {
    /// More must come.
    Waits,
    Leaves,
    Enters(Purpose, Bytes32),
}

/// Receives connections on all listeners until `stop`.
///
/// # Errors
/// Where the kernel gives no epoll descriptor.
pub fn run(
    listeners: &[TcpListener],
    house: &impl House,
    counts: &Counts,
    stop: &Stop,
) -> io::Result<()> {
    let mut reception = Reception {
        epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
        visitors: BTreeMap::new(),
        next: FIRST_CONNECTION,
        house,
        counts,
    };
    for (number, listener) in listeners.iter().enumerate() {
        listener.set_nonblocking(true)?;
        reception.watch(listener, number as u64)?;
    }
    let mut events = [EpollEvent::empty(); EVENTS_AT_ONCE];
    while !stop.is_set() {
        // A signal ends the wait early, and another one follows.
        let ready = reception.epoll.wait(&mut events, TICK_MS).unwrap_or(0);
        for key in events[..ready].iter().map(EpollEvent::data) {
            match listeners.get(key as usize) {
                Some(listener) => reception.accept(listener),
                None => reception.hear(key),
            }
        }
        reception.hang_up_on_the_silent();
    }
    Ok(())
}

struct Reception<'a, H> {
    /// Of a connection that is closed, the kernel reports nothing more.
    epoll: Epoll,
    /// By key, which is also the order of arrival.
    visitors: BTreeMap<u64, Visitor>,
    next: u64,
    house: &'a H,
    counts: &'a Counts,
}

impl<H: House> Reception<'_, H> {
    /// Reports `key` whenever something can be read.
    fn watch(&self, socket: &impl AsFd, key: u64) -> io::Result<()> {
        Ok(self
            .epoll
            .add(socket, EpollEvent::new(EpollFlags::EPOLLIN, key))?)
    }

    fn accept(&mut self, listener: &TcpListener) {
        // So many at a time that those who wait to be heard are not starved.
        for _ in 0..64 {
            match listener.accept() {
                Ok((stream, address)) => self.admit(stream, address.ip()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Out of descriptors or memory: those who wait make room. Else the connection is gone again.
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
        if self.visitors.len() >= MOST_UNPROVED {
            self.make_room();
        }
        let key = self.next;
        if stream.set_nonblocking(true).is_err() || self.watch(&stream, key).is_err() {
            return;
        }
        self.next += 1;
        let visitor = Visitor {
            stream,
            from,
            neighbourhood: neighbourhood(from),
            since_ns: clock::monotonic_ns(),
            received: Vec::new(),
            introduced: None,
        };
        self.visitors.insert(key, visitor);
    }

    /// Hangs up on the oldest visitor from the address that has most.
    fn make_room(&mut self) {
        let mut by_address: HashMap<IpAddr, usize> = HashMap::new();
        for visitor in self.visitors.values() {
            *by_address.entry(visitor.neighbourhood).or_default() += 1;
        }
        let Some((busiest, _)) = by_address.into_iter().max_by_key(|&(_, number)| number) else {
            return;
        };
        let oldest = self
            .visitors
            .iter()
            .find(|(_, visitor)| visitor.neighbourhood == busiest)
            .map(|(&key, _)| key);
        if let Some(key) = oldest {
            self.visitors.remove(&key);
            count(&self.counts.expired);
        }
    }

    fn hear(&mut self, key: u64) {
        let Some(visitor) = self.visitors.get_mut(&key) else {
            return;
        };
        match visitor.hear(self.house, self.counts) {
            Step::Waits => {}
            Step::Leaves => {
                self.visitors.remove(&key);
            }
            Step::Enters(purpose, session_key) => {
                let Some(visitor) = self.visitors.remove(&key) else {
                    return;
                };
                if self.epoll.delete(&visitor.stream).is_ok()
                    && visitor.stream.set_nonblocking(false).is_ok()
                {
                    count(&self.counts.welcomed);
                    self.house.welcome(visitor.stream, purpose, session_key);
                }
            }
        }
    }

    fn hang_up_on_the_silent(&mut self) {
        let now_ns = clock::monotonic_ns();
        while let Some((&key, visitor)) = self.visitors.first_key_value() {
            if now_ns - visitor.since_ns < PATIENCE_NS {
                return;
            }
            self.visitors.remove(&key);
            count(&self.counts.expired);
        }
    }
}

impl Visitor {
    fn hear(&mut self, house: &impl House, counts: &Counts) -> Step {
        // Never more than what is wanted next: what follows the proof belongs to whoever serves the connection.
        let wanted = if self.introduced.is_some() {
            PROOF_BYTES
        } else {
            hello::CLIENT_HELLO_BYTES
        };
        let mut chunk = [0; hello::CLIENT_HELLO_BYTES];
        match self.stream.read(&mut chunk[..wanted - self.received.len()]) {
            Ok(0) => return Step::Leaves,
            Ok(length) => self.received.extend_from_slice(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Step::Waits,
            Err(_) => return Step::Leaves,
        }
        match &self.introduced {
            None if hello::check_magic(&self.received).is_err() => {
                count(&counts.foreign);
                Step::Leaves
            }
            _ if self.received.len() < wanted => Step::Waits,
            None => self.introduce(house, counts),
            Some(introduced) => self.check_proof(introduced, house, counts),
        }
    }

    fn introduce(&mut self, house: &impl House, counts: &Counts) -> Step {
        let bytes = self
            .received
            .as_slice()
            .try_into()
            .expect("so many were wanted");
        let Ok(hello) = ClientHello::decode(bytes) else {
            count(&counts.foreign);
            return Step::Leaves;
        };
        // A proof for a session that there is not fails like any other wrong one: nothing is told about sessions.
        let key = house
            .key(hello.purpose)
            .unwrap_or_else(|| auth::nonce().to_vec());
        // The key of a session is never public, so that data connections are always asked for it.
        let asks = house.asks_for_secret() || hello.purpose != Purpose::Control;
        let responder_hello = ResponderHello::new(asks).encode();
        if self.stream.write_all(&responder_hello).is_err() {
            return Step::Leaves;
        }
        let client_hello = std::mem::take(&mut self.received);
        self.introduced = Some(Introduced {
            purpose: hello.purpose,
            client_hello,
            responder_hello,
            key,
        });
        Step::Waits
    }

    fn check_proof(&self, introduced: &Introduced, house: &impl House, counts: &Counts) -> Step {
        let Introduced {
            purpose,
            client_hello,
            responder_hello,
            key,
        } = introduced;
        let expected = auth::prove(key, Role::Client, client_hello, responder_hello);
        let status = if !auth::equal(&self.received, &expected) {
            count(&counts.wrong_proof);
            Status::WrongProof
        } else if !house.has_room(*purpose, self.from) {
            Status::Busy
        } else {
            Status::Welcome
        };
        let answer = hello::answer(status, key, client_hello, responder_hello);
        if (&self.stream).write_all(&answer).is_err() || status != Status::Welcome {
            return Step::Leaves;
        }
        Step::Enters(
            *purpose,
            auth::prove(key, Role::Session, client_hello, responder_hello),
        )
    }
}
