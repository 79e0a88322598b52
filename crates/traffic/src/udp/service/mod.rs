//! The responder's end of UDP: one thread serves one port, answers probes and counts arriving packets. Each flow down
//! has its own thread while it lasts.

mod budget;
mod down;
mod intake;
mod session;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use nix::poll::{PollFd, PollFlags, poll};
use socket2::{Domain, Socket};

use crate::activity::Activity;
use crate::clock;
use crate::flow::FlowSpec;
use crate::sample::Sink;
use crate::stop::Stop;

use super::packet::{Garbage, MAX_BYTES, Packet, claimed_token};
use super::socket::{self, Datagram, Envelope, Inbox};
pub(crate) use session::MOST_RANGES;
use session::{Open, Verdict};

/// The longest sleep of the thread while there are sessions: intervals are closed between packets.
const BUSY_SLEEP_MS: u16 = 20;
const IDLE_SLEEP_MS: u16 = 100;
const INBOX: usize = 32;
/// Calls for one socket before the others are served.
const TURNS: usize = 8;
const SEND_BUFFER_BYTES: usize = 4 << 20;
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// Limits of one session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SessionLimits {
    /// The average UDP payload rate of all streams and bursts down in the session together.
    pub max_rate_bps: f64,
    /// UDP payload of one packet.
    pub max_packet_bytes: u32,
    /// The mean interval at which probes of one flow are answered, at least.
    pub min_interval_ns: i64,
}

/// A session agreed on over the control channel.
pub struct Registration {
    pub token: u64,
    pub key: [u8; 32],
    pub flows: Vec<FlowSpec>,
    pub limits: SessionLimits,
    /// In this host's clock: after it nothing is answered or sent.
    pub ends_ns: i64,
    /// Set when the client sends far more than its flows may; further packets are ignored.
    pub overrun: Stop,
    /// Registers the packets of its flows.
    pub activity: Activity,
    /// Receives the measurements made here: intervals of streams up, packets of bursts up, facts.
    pub sink: Arc<Sink>,
}

/// Counts of the datagrams that arrived since the service started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub received_packets: u64,
    pub received_bytes: u64,
    /// Answers of all kinds, without the packets of flows down.
    pub answered_packets: u64,
    pub answered_bytes: u64,
    /// Answers that the kernel refused.
    pub not_sent: u64,
    /// Ignored: too short, or with a wrong magic.
    pub garbage: u64,
    /// Ignored: the session is unknown or over.
    pub unknown_token: u64,
    /// Ignored: the code is wrong. The sender does not know the session's key, or the datagram was changed, lengthened,
    /// shortened or reflected.
    pub wrong_key: u64,
    /// Ignored: authentic, but not part of this flow or outside its plan.
    pub misplaced: u64,
    /// Ignored: copies of packets that had arrived, made by the path or replayed.
    pub repeated: u64,
    /// Ignored: so old that they may be copies.
    pub stale: u64,
    /// Ignored: far more data than the session's flows may send.
    pub overrun: u64,
    /// Probes that arrived faster, or were larger, than the session's limits allow.
    pub withheld: u64,
    /// Requests for flows that exceed the limits or were not agreed on.
    pub refused: u64,
    /// Datagrams that the kernel dropped because the receive buffer was full.
    pub lost_in_receive_buffer: u64,
}

/// The responder's UDP port.
pub struct Service {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    addresses: Vec<SocketAddr>,
}

struct Shared {
    sessions: Mutex<HashMap<u64, Open>>,
    statistics: Mutex<Statistics>,
    lost_in_receive_buffer: AtomicU64,
    stop: Stop,
    /// Random, of this process; nonces derived from it need no memory.
    secret: [u8; 32],
}

impl Service {
    /// Opens a socket at each address and starts the thread that serves all of them.
    ///
    /// `[::]` without an IPv4 address beside it serves both families; otherwise IPv6 sockets serve IPv6 only. For port
    /// 0, all addresses get the port of the first one.
    pub fn bind(addresses: &[SocketAddr]) -> io::Result<Service> {
        if addresses.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no address to listen at for UDP",
            ));
        }
        let serves_both = addresses.iter().all(SocketAddr::is_ipv6);
        let mut sockets = Vec::new();
        let mut bound: Vec<SocketAddr> = Vec::new();
        for &address in addresses {
            let mut address = address;
            if address.port() == 0
                && let Some(first) = bound.first()
            {
                address.set_port(first.port());
            }
            let socket = listen(address, serves_both)
                .map_err(|error| io::Error::new(error.kind(), format!("UDP {address}: {error}")))?;
            bound.extend(socket.local_addr()?.as_socket());
            sockets.push(Arc::new(socket));
        }
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| io::Error::other(error.to_string()))?;
        let shared = Arc::new(Shared {
            sessions: Mutex::default(),
            statistics: Mutex::default(),
            lost_in_receive_buffer: AtomicU64::new(0),
            stop: Stop::default(),
            secret,
        });
        let server = Server::new(Arc::clone(&shared), sockets);
        let thread = std::thread::Builder::new()
            .name("whydrop-udp".to_owned())
            .spawn(move || server.serve())?;
        Ok(Service {
            shared,
            thread: Mutex::new(Some(thread)),
            addresses: bound,
        })
    }

    /// The addresses of the sockets, with the ports that were chosen for port 0.
    pub fn local_addresses(&self) -> Vec<SocketAddr> {
        self.addresses.clone()
    }

    /// Starts serving this session, and replaces one with the same token.
    pub fn register(&self, session: Registration) {
        let lost = self.shared.lost_in_receive_buffer.load(Ordering::Relaxed);
        let token = session.token;
        let open = Open::new(session, self.shared.secret, lost);
        let former = lock(&self.shared.sessions).insert(token, open);
        self.close(former);
    }

    /// Ends this session's flows, passes their remaining rows to its sink, and forgets it.
    pub fn remove(&self, token: u64) {
        let open = lock(&self.shared.sessions).remove(&token);
        self.close(open);
    }

    /// Returns which sequence numbers of a probe flow arrived, as inclusive ranges in ascending order.
    pub fn arrivals(&self, token: u64, flow: u32) -> Vec<(u64, u64)> {
        lock(&self.shared.sessions)
            .get(&token)
            .map(|open| open.arrivals(flow))
            .unwrap_or_default()
    }

    /// Returns the counts so far.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            lost_in_receive_buffer: self.shared.lost_in_receive_buffer.load(Ordering::Relaxed),
            ..*lock(&self.shared.statistics)
        }
    }

    /// Ends all sessions and the thread.
    pub fn stop(&self) {
        self.shared.stop.set();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
        let sessions: Vec<Open> = lock(&self.shared.sessions)
            .drain()
            .map(|(_, open)| open)
            .collect();
        for open in sessions {
            self.close(Some(open));
        }
    }

    fn close(&self, open: Option<Open>) {
        if let Some(open) = open {
            let lost = self.shared.lost_in_receive_buffer.load(Ordering::Relaxed);
            open.close(clock::now_ns(), lost);
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

fn listen(address: SocketAddr, serves_both: bool) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = socket::open(domain)?;
    if domain == Domain::IPV6 {
        socket.set_only_v6(!(serves_both && address.ip().is_unspecified()))?;
    }
    socket::set_send_buffer(&socket, SEND_BUFFER_BYTES);
    socket::set_receive_buffer(&socket, RECEIVE_BUFFER_BYTES);
    socket.bind(&address.into())?;
    Ok(socket)
}

/// The thread that serves the sockets.
struct Server {
    shared: Arc<Shared>,
    ports: Vec<Port>,
    /// The buffer in which answers are written.
    answer: Vec<u8>,
}

struct Port {
    socket: Arc<Socket>,
    domain: Domain,
    inbox: Inbox,
}

impl Server {
    fn new(shared: Arc<Shared>, sockets: Vec<Arc<Socket>>) -> Server {
        let ports = sockets
            .into_iter()
            .map(|socket| {
                let domain = socket.domain().unwrap_or(Domain::IPV4);
                Port {
                    socket,
                    domain,
                    inbox: Inbox::new(INBOX, MAX_BYTES),
                }
            })
            .collect();
        Server {
            shared,
            ports,
            answer: Vec::new(),
        }
    }

    fn serve(mut self) {
        let mut looked_ns = clock::now_ns();
        while !self.shared.stop.is_set() {
            let is_idle = lock(&self.shared.sessions).is_empty();
            self.wait(if is_idle {
                IDLE_SLEEP_MS
            } else {
                BUSY_SLEEP_MS
            });
            for number in 0..self.ports.len() {
                self.serve_port(number);
            }
            let lost = self
                .ports
                .iter()
                .map(|port| u64::from(port.inbox.dropped()))
                .sum();
            self.shared
                .lost_in_receive_buffer
                .store(lost, Ordering::Relaxed);
            let now_ns = clock::now_ns();
            for open in lock(&self.shared.sessions).values_mut() {
                open.troubles().looked(looked_ns, now_ns);
                open.tick(now_ns, lost);
            }
            looked_ns = now_ns;
        }
    }

    fn wait(&self, limit_ms: u16) {
        let mut waits: Vec<PollFd> = self
            .ports
            .iter()
            .map(|port| PollFd::new(port.socket.as_fd(), PollFlags::POLLIN))
            .collect();
        // A signal ends the wait early; the loop then waits again.
        let _ = poll(&mut waits, limit_ms);
    }

    fn serve_port(&mut self, number: usize) {
        for _ in 0..TURNS {
            let port = &mut self.ports[number];
            let may_have_more = port.inbox.receive(&port.socket, false).unwrap_or(false);
            let overflows = port.inbox.take_overflows();
            let mut statistics = Statistics::default();
            let mut sessions = lock(&self.shared.sessions);
            for open in sessions.values_mut() {
                // Every session gets these overflows: the kernel does not report which one lost the datagrams.
                for overflow in &overflows {
                    open.troubles().overflowed(overflow);
                }
            }
            for datagram in port.inbox.datagrams() {
                serve_datagram(
                    &mut sessions,
                    &self.shared,
                    port,
                    &datagram,
                    &mut self.answer,
                    &mut statistics,
                );
            }
            drop(sessions);
            lock(&self.shared.statistics).add(&statistics);
            if !may_have_more {
                return;
            }
        }
    }
}

/// Classifies a datagram, cheap checks first, and answers it if it is valid.
fn serve_datagram(
    sessions: &mut HashMap<u64, Open>,
    shared: &Arc<Shared>,
    port: &Port,
    datagram: &Datagram,
    answer: &mut Vec<u8>,
    statistics: &mut Statistics,
) {
    statistics.received_packets += 1;
    statistics.received_bytes += datagram.length as u64;
    let (Ok(token), Some(from)) = (claimed_token(datagram.bytes), datagram.from) else {
        statistics.garbage += 1;
        return;
    };
    let Some(open) = sessions
        .get_mut(&token)
        .filter(|open| open.is_valid(datagram.received_ns))
    else {
        statistics.unknown_token += 1;
        return;
    };
    let packet = match Packet::open(datagram.bytes, datagram.length, open.keys()) {
        Ok(packet) => packet,
        Err(Garbage::Code) => {
            statistics.wrong_key += 1;
            return;
        }
        Err(_) => {
            statistics.garbage += 1;
            return;
        }
    };
    let envelope = |class| Envelope::new(port.domain, from, datagram.to, class);
    let reply_path = down::ReplyPath {
        socket: &port.socket,
        from,
        to: datagram.to,
        domain: port.domain,
        stop: &shared.stop,
    };
    match open.serve(&packet, datagram, &reply_path, answer) {
        Verdict::Answer(class) => {
            debug_assert!(answer.len() <= datagram.bytes.len());
            match socket::send(&port.socket, &envelope(class), answer) {
                Ok(()) => {
                    statistics.answered_packets += 1;
                    statistics.answered_bytes += answer.len() as u64;
                }
                Err(_) => statistics.not_sent += 1,
            }
        }
        Verdict::Counted => {}
        Verdict::Misplaced => statistics.misplaced += 1,
        Verdict::Repeated => statistics.repeated += 1,
        Verdict::Overrun => statistics.overrun += 1,
        Verdict::Stale => statistics.stale += 1,
        Verdict::Withheld => statistics.withheld += 1,
    }
    statistics.refused += u64::from(open.take_refused());
}

impl Statistics {
    fn add(&mut self, other: &Statistics) {
        self.received_packets += other.received_packets;
        self.received_bytes += other.received_bytes;
        self.answered_packets += other.answered_packets;
        self.answered_bytes += other.answered_bytes;
        self.not_sent += other.not_sent;
        self.garbage += other.garbage;
        self.unknown_token += other.unknown_token;
        self.wrong_key += other.wrong_key;
        self.misplaced += other.misplaced;
        self.repeated += other.repeated;
        self.stale += other.stale;
        self.overrun += other.overrun;
        self.withheld += other.withheld;
        self.refused += other.refused;
    }
}

/// Locks a mutex; a thread that panicked leaves the counts intact.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
