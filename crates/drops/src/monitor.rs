//! A thread that counts drops, interval by interval.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use whydrop_sockets::clock::{Clock, since_boot_ns, thread_cpu_ns};

use crate::packet::{self, Packet, Protocol};
use crate::source::{Dropped, Event, Method, Source};
use crate::symbols::Symbols;
use crate::tally::{Attribution, Count, Kind, Retransmission, Tally};

const INTERVAL_NS: i64 = 100_000_000;
/// The time per interval for examining packets: a twelfth of a processor. Further ones are counted by reason only.
const LOOKING_NS: i64 = INTERVAL_NS / 12;
/// The thread's clock is read once for this many packets.
const ASKED_EVERY: u32 = 128;
/// Rows beyond this that were not collected are discarded: an hour of busy intervals.
const MOST_ROWS: usize = 1_000_000;

/// Drops of one interval with these properties in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropRow {
    pub start_ns: i64,
    pub end_ns: i64,
    /// The kernel's name of the reason.
    pub reason: String,
    /// The kernel function that dropped the packets.
    pub location: Option<String>,
    pub protocol: String,
    pub interface: Option<String>,
    pub arrived_by: Option<String>,
    pub source: Option<String>,
    pub destination: Option<String>,
    pub packets: u64,
    /// In the layer where the packets were dropped; `None` if unknown.
    pub bytes: Option<u64>,
    /// True if they are known to be from this network namespace.
    pub here: bool,
}

/// Segments of one connection retransmitted in one interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetransmissionRow {
    pub start_ns: i64,
    pub end_ns: i64,
    pub source: String,
    pub destination: String,
    pub packets: u64,
    pub payload_bytes: u64,
    /// The reason of the local drop that caused them; `None`: unknown.
    pub reason: Option<String>,
    pub location: Option<String>,
}

/// The rows not collected yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub drops: Vec<DropRow>,
    pub retransmissions: Vec<RetransmissionRow>,
}

/// The monitor's status since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Events that were not counted, because there was no room or the same processor was handling another one.
    pub lost: u64,
    /// Drops counted by reason only, because there were too many to examine.
    pub not_looked_at: u64,
    /// Rows discarded because they were not collected.
    pub lost_rows: u64,
    pub cpu_ns: i64,
}

/// The monitoring thread; it ends when this is dropped.
#[derive(Debug)]
pub struct Monitor {
    pub method: Method,
    /// True if retransmissions are reported, so that they can be attributed to drops.
    pub reports_retransmissions: bool,
    /// Why less is reported than the best method could.
    pub shortfall: Option<String>,
    shared: Arc<Mutex<(Seen, Standing)>>,
    wake: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Starts with the best method that the kernel permits, or with the requested one.
    ///
    /// # Errors
    /// Why the kernel reports no drops at all.
    pub fn start(wanted: Option<Method>) -> io::Result<Monitor> {
        let (source, shortfall) = match wanted {
            Some(method) => (Source::open(method)?, None),
            None => best()?,
        };
        let (sleep, wake) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let shared = Arc::new(Mutex::new((Seen::default(), Standing::default())));
        let (method, reports_retransmissions) = (source.method, source.reports_retransmissions);
        let counting = Counting::new(source, shared.clone());
        let thread = std::thread::Builder::new()
            .name("whydrop drops".into())
            .spawn(move || counting.run(&sleep))?;
        Ok(Monitor {
            method,
            reports_retransmissions,
            shortfall,
            shared,
            wake: Some(wake),
            thread: Some(thread),
        })
    }

    /// Returns the counts since the last call.
    pub fn take(&self) -> Seen {
        std::mem::take(&mut lock(&self.shared).0)
    }

    pub fn standing(&self) -> Standing {
        lock(&self.shared).1
    }

    /// Counts a last time, and ends the thread; the last rows can be collected afterwards.
    pub fn stop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Opens the best source that the kernel permits; also returns why a better one is unavailable.
fn best() -> io::Result<(Source, Option<String>)> {
    let first = match Source::open(Method::Program) {
        Ok(source) => return Ok((source, None)),
        Err(error) => error,
    };
    for method in [Method::DropMonitor, Method::Tracepoint] {
        if let Ok(source) = Source::open(method) {
            return Ok((source, Some(first.to_string())));
        }
    }
    Err(first)
}

fn lock(shared: &Mutex<(Seen, Standing)>) -> MutexGuard<'_, (Seen, Standing)> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of the counting thread.
struct Counting {
    source: Source,
    clock: Clock,
    tally: Tally,
    symbols: Symbols,
    /// Retransmissions wait for one more reading: the drop before one may be in another processor's ring that was read
    /// earlier.
    pending: Vec<Retransmission>,
    begun_ns: i64,
    begun_cpu_ns: i64,
    standing: Standing,
    shared: Arc<Mutex<(Seen, Standing)>>,
}

impl Counting {
    fn new(source: Source, shared: Arc<Mutex<(Seen, Standing)>>) -> Counting {
        Counting {
            source,
            clock: Clock::anchored(),
            tally: Tally::default(),
            symbols: Symbols::default(),
            pending: Vec::new(),
            begun_ns: since_boot_ns(),
            begun_cpu_ns: 0,
            standing: Standing::default(),
            shared,
        }
    }

    fn run(mut self, stop: &OwnedFd) {
        self.begun_cpu_ns = thread_cpu_ns();
        while self.wait(stop) {
            self.read();
            if since_boot_ns() - self.begun_ns >= INTERVAL_NS {
                self.end_interval();
            }
        }
        self.read();
        // After this last reading retransmissions need not wait.
        self.read();
        self.end_interval();
    }

    /// Waits until a ring fills, or the interval ends; returns whether to continue.
    fn wait(&self, stop: &OwnedFd) -> bool {
        let left_ns = (self.begun_ns + INTERVAL_NS - since_boot_ns()).max(0);
        // Each message of the drop monitor costs a system call: beyond the budget messages wait, and are lost if they
        // find no room.
        let listens = self.source.method != Method::DropMonitor || self.budget().is_left();
        let sources = self.source.descriptors().filter(|_| listens);
        let watched = std::iter::once(stop).chain(sources);
        let mut watched: Vec<PollFd<'_>> = watched
            .map(|descriptor| PollFd::new(descriptor, PollFlags::IN))
            .collect();
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: left_ns,
        };
        // After an interruption the rings are read, and the loop waits again.
        let _ = poll(&mut watched, Some(&timeout));
        watched[0].revents().is_empty()
    }

    fn budget(&self) -> Budget {
        Budget::new(self.begun_cpu_ns)
    }

    fn read(&mut self) {
        let (mut budget, mut due) = (self.budget(), std::mem::take(&mut self.pending));
        let (tally, pending) = (&mut self.tally, &mut self.pending);
        let mut not_looked_at = 0;
        self.standing.lost += self.source.read(|time_ns, event| match event {
            Event::Retransmitted(segment) => pending.push(segment),
            Event::Dropped(dropped) if budget.is_left() => {
                let packet = packet::parse(dropped.ethertype, dropped.headers);
                let bytes = u64::from(dropped.length.unwrap_or(0));
                tally.dropped(time_ns, kind(&dropped, &packet), bytes, &packet);
            }
            Event::Dropped(dropped) => {
                not_looked_at += 1;
                let unread = Packet {
                    protocol: Protocol::InEthernet(dropped.ethertype),
                    ends: None,
                    span: None,
                };
                tally.count(
                    kind(&dropped, &unread),
                    u64::from(dropped.length.unwrap_or(0)),
                );
            }
        });
        self.standing.not_looked_at += not_looked_at;
        due.sort_unstable_by_key(|segment| segment.time_ns);
        for segment in due {
            tally.retransmitted(segment);
        }
    }

    fn end_interval(&mut self) {
        self.standing.lost += self.source.lost_elsewhere();
        let start_ns = self.clock.of_boot_ns(self.begun_ns);
        self.begun_ns = since_boot_ns();
        let end_ns = self.clock.of_boot_ns(self.begun_ns);
        let interval = self.tally.take();
        let places = interval.drops.keys().map(|kind| kind.location);
        self.symbols.look_up(
            places.chain(
                interval
                    .retransmissions
                    .keys()
                    .filter_map(|attribution| Some(attribution.drop?.1)),
            ),
        );
        let mut names = HashMap::new();
        let drops = interval.drops.into_iter().map(|(kind, count)| {
            let has_bytes = self.source.method != Method::Tracepoint;
            self.drop_row(start_ns, end_ns, &kind, count, has_bytes, &mut names)
        });
        let drops: Vec<DropRow> = drops.collect();
        let retransmissions = interval.retransmissions.into_iter();
        let retransmissions: Vec<RetransmissionRow> = retransmissions
            .map(|(attribution, count)| {
                self.retransmission_row(start_ns, end_ns, &attribution, count)
            })
            .collect();
        let cpu_ns = thread_cpu_ns();
        self.standing.cpu_ns += cpu_ns - self.begun_cpu_ns;
        self.begun_cpu_ns = cpu_ns;
        let mut shared = lock(&self.shared);
        let kept = shared.0.drops.len() + shared.0.retransmissions.len();
        if kept > MOST_ROWS {
            self.standing.lost_rows += kept as u64;
            shared.0 = Seen::default();
        }
        shared.0.drops.extend(drops);
        shared.0.retransmissions.extend(retransmissions);
        shared.1 = self.standing;
    }

    fn drop_row(
        &self,
        start_ns: i64,
        end_ns: i64,
        kind: &Kind,
        count: Count,
        has_bytes: bool,
        names: &mut HashMap<u32, Option<String>>,
    ) -> DropRow {
        let mut named = |index: u32| {
            names
                .entry(index)
                .or_insert_with(|| interface(index))
                .clone()
        };
        DropRow {
            start_ns,
            end_ns,
            reason: self.reason(kind.reason),
            location: self.location(kind.location),
            protocol: kind.protocol.to_string(),
            // An index of another namespace would have a different name here.
            interface: kind.here.then(|| named(kind.interface)).flatten(),
            arrived_by: kind.here.then(|| named(kind.arrived_by)).flatten(),
            source: kind.ends.map(|(from, _)| end(from)),
            destination: kind.ends.map(|(_, to)| end(to)),
            packets: count.packets,
            bytes: has_bytes.then_some(count.bytes),
            here: kind.here,
        }
    }

    fn retransmission_row(
        &self,
        start_ns: i64,
        end_ns: i64,
        attribution: &Attribution,
        count: Count,
    ) -> RetransmissionRow {
        let (from, to) = attribution.ends;
        RetransmissionRow {
            start_ns,
            end_ns,
            source: from.to_string(),
            destination: to.to_string(),
            packets: count.packets,
            payload_bytes: count.bytes,
            reason: attribution.drop.map(|(reason, _)| self.reason(reason)),
            location: attribution
                .drop
                .and_then(|(_, location)| self.location(location)),
        }
    }

    /// Kernel modules have reasons of their own, without published names.
    fn reason(&self, number: u32) -> String {
        let known = self.source.reasons.get(&number).cloned();
        known.unwrap_or_else(|| match number {
            0 => "NOT_TOLD".to_owned(),
            other => format!("REASON_{other:#x}"),
        })
    }

    fn location(&self, address: u64) -> Option<String> {
        let name = self.symbols.name(address);
        (!name.is_empty()).then(|| name.to_owned())
    }
}

fn kind(dropped: &Dropped<'_>, packet: &Packet) -> Kind {
    Kind {
        reason: dropped.reason,
        location: dropped.location,
        protocol: packet.protocol,
        interface: dropped.interface,
        arrived_by: dropped.arrived_by,
        here: dropped.here,
        ends: None,
    }
}

/// Formats an address, with its port if there is one.
fn end(place: std::net::SocketAddr) -> String {
    if place.port() == 0 {
        place.ip().to_string()
    } else {
        place.to_string()
    }
}

/// The name of an interface in this thread's network namespace.
fn interface(index: u32) -> Option<String> {
    let mut name = [0 as libc::c_char; libc::IF_NAMESIZE];
    // SAFETY: the kernel writes at most `IF_NAMESIZE` bytes, including the final zero.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    if index == 0 || found.is_null() {
        return None;
    }
    // SAFETY: a string in `name` that ends with a zero.
    let text = unsafe { CStr::from_ptr(name.as_ptr()) };
    Some(text.to_string_lossy().into_owned())
}

/// The time per interval for examining packets.
struct Budget {
    begun_cpu_ns: i64,
    count: u32,
    left: bool,
}

impl Budget {
    fn new(begun_cpu_ns: i64) -> Budget {
        Budget {
            begun_cpu_ns,
            count: 0,
            left: thread_cpu_ns() - begun_cpu_ns < LOOKING_NS,
        }
    }

    fn is_left(&mut self) -> bool {
        self.count += 1;
        if self.left && self.count.is_multiple_of(ASKED_EVERY) {
            self.left = thread_cpu_ns() - self.begun_cpu_ns < LOOKING_NS;
        }
        self.left
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    use super::*;

    /// No program listens on the port; the kernel drops each datagram (and answers with ICMP).
    #[test]
    fn datagrams_to_a_closed_port_are_counted_with_their_ends() {
        let mut monitor = match Monitor::start(Some(Method::Program)) {
            Ok(monitor) => monitor,
            // Without root, or a kernel without tracepoints or BPF.
            Err(error) => {
                eprintln!("skipped: {error}");
                return;
            }
        };
        let closed = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let own = socket.local_addr().unwrap().to_string();
        for _ in 0..25 {
            socket.send_to(b"x", closed).unwrap();
        }
        let until = Instant::now() + Duration::from_secs(20);
        let mut found = 0;
        while found < 25 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
            for row in monitor.take().drops {
                if row.source.as_deref() == Some(own.as_str()) {
                    assert_eq!(row.reason, "NO_SOCKET");
                    assert_eq!(row.protocol, "udp");
                    assert_eq!(row.interface.as_deref(), Some("lo"));
                    assert!(row.here && row.location.is_some());
                    found += row.packets;
                }
            }
        }
        monitor.stop();
        assert_eq!((found, monitor.standing().lost), (25, 0));
    }
}
