//! A thread that counts drops, interval by interval.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use whydrop_sockets::clock::{Clock, since_boot_ns, thread_cpu_ns};

use crate::packet::{self, Packet, Protocol};
use crate::source::{Dropped, Event, Source, Way};
use crate::symbols::Symbols;
use crate::tally::{Again, Count, Kind, Laid, Tally};

const INTERVAL_NS: i64 = 100_000_000;
/// Of an interval the thread looks at packets for so long: a twelfth of a processor. What comes beyond is counted by reason.
const LOOKING_NS: i64 = INTERVAL_NS / 12;
/// The thread's clock is asked once in so many packets.
const ASKED_EVERY: u32 = 128;
/// Rows that nobody takes are thrown away: an hour of busy intervals.
const MOST_ROWS: usize = 1_000_000;

/// Drops of one interval that have all of this in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropRow {
    pub start_ns: i64,
    pub end_ns: i64,
    /// As this kernel names it.
    pub reason: String,
    /// The kernel's function that dropped it.
    pub location: Option<String>,
    pub protocol: String,
    pub interface: Option<String>,
    pub arrived_by: Option<String>,
    pub source: Option<String>,
    pub destination: Option<String>,
    pub packets: u64,
    /// On the layer that the packet was at; `None` where it is not told.
    pub bytes: Option<u64>,
    /// True if it is known to be of this network namespace.
    pub here: bool,
}

/// Segments of one connection that were sent again in one interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentAgainRow {
    pub start_ns: i64,
    pub end_ns: i64,
    pub source: String,
    pub destination: String,
    pub packets: u64,
    pub payload_bytes: u64,
    /// Of the drop here that made them needed; `None`: not known.
    pub reason: Option<String>,
    pub location: Option<String>,
}

/// The rows that were not taken yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub drops: Vec<DropRow>,
    pub sent_again: Vec<SentAgainRow>,
}

/// How the monitor stands, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Events that found no room, and were not counted.
    pub lost: u64,
    /// Drops that were counted by reason only, because there were too many to look at.
    pub not_looked_at: u64,
    /// Rows that were thrown away because nobody took them.
    pub lost_rows: u64,
    pub cpu_ns: i64,
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub struct Monitor {
    pub way: Way,
    /// True if retransmissions are reported, so that they can be laid to drops.
    pub tells_sent_again: bool,
    /// Why it tells less than it could.
    pub shortfall: Option<String>,
    shared: Arc<Mutex<(Seen, Standing)>>,
    wake: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Begins, in the best way that the kernel lets us, or in the one that is wanted.
    ///
    /// # Errors
    /// Why the kernel does not tell of drops at all.
    pub fn start(wanted: Option<Way>) -> io::Result<Monitor> {
        let (source, shortfall) = match wanted {
            Some(way) => (Source::open(way)?, None),
            None => match Source::open(Way::Program) {
                Ok(source) => (source, None),
                Err(error) => (Source::open(Way::Tracepoint)?, Some(error.to_string())),
            },
        };
        let (sleep, wake) = pipe()?;
        let shared = Arc::new(Mutex::new((Seen::default(), Standing::default())));
        let (way, tells_sent_again) = (source.way, source.tells_sent_again);
        let counting = Counting::new(source, shared.clone());
        let thread = std::thread::Builder::new()
            .name("whydrop drops".into())
            .spawn(move || counting.run(&sleep))?;
        Ok(Monitor {
            way,
            tells_sent_again,
            shortfall,
            shared,
            wake: Some(wake),
            thread: Some(thread),
        })
    }

    /// Take what was counted since the last call.
    pub fn take(&self) -> Seen {
        std::mem::take(&mut lock(&self.shared).0)
    }

    pub fn standing(&self) -> Standing {
        lock(&self.shared).1
    }

    /// Counts for the last time, and ends the thread; the last rows can be taken afterwards.
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

fn lock(shared: &Mutex<(Seen, Standing)>) -> MutexGuard<'_, (Seen, Standing)> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of the counting thread.
struct Counting {
    source: Source,
    clock: Clock,
    tally: Tally,
    symbols: Symbols,
    /// Retransmissions wait for one more reading: the drop before one may lie in the ring of another processor that was
    /// read first.
    pending: Vec<Again>,
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
        // The retransmissions of this last reading wait for no further one.
        self.read();
        self.end_interval();
    }

    /// Waits until a ring fills, or the interval ends; whether to go on.
    fn wait(&self, stop: &OwnedFd) -> bool {
        let left_ns = (self.begun_ns + INTERVAL_NS - since_boot_ns()).max(0);
        let watched = std::iter::once(stop).chain(self.source.descriptors());
        let mut watched: Vec<libc::pollfd> = watched
            .map(|descriptor| libc::pollfd {
                fd: descriptor.as_fd().as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            })
            .collect();
        let timeout = i32::try_from(left_ns / 1_000_000 + 1).unwrap_or(i32::MAX);
        // SAFETY: the kernel writes to so many entries, which live through the call.
        unsafe { libc::poll(watched.as_mut_ptr(), watched.len() as libc::nfds_t, timeout) };
        watched[0].revents == 0
    }

    fn read(&mut self) {
        let due = std::mem::take(&mut self.pending);
        let (tally, pending) = (&mut self.tally, &mut self.pending);
        let mut budget = Budget::new(self.begun_cpu_ns);
        let mut not_looked_at = 0;
        self.standing.lost += self.source.read(|time_ns, event| match event {
            Event::SentAgain(again) => pending.push(again),
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
        let mut due = due;
        due.sort_unstable_by_key(|again| again.time_ns);
        for again in due {
            tally.sent_again(again);
        }
    }

    fn end_interval(&mut self) {
        let start_ns = self.clock.of_boot_ns(self.begun_ns);
        self.begun_ns = since_boot_ns();
        let end_ns = self.clock.of_boot_ns(self.begun_ns);
        let interval = self.tally.take();
        let places = interval.drops.keys().map(|kind| kind.location);
        self.symbols.look_up(
            places.chain(
                interval
                    .sent_again
                    .keys()
                    .filter_map(|laid| Some(laid.drop?.1)),
            ),
        );
        let mut names = HashMap::new();
        let drops = interval.drops.into_iter().map(|(kind, count)| {
            let told = self.source.way == Way::Program;
            self.drop_row(start_ns, end_ns, &kind, count, told, &mut names)
        });
        let drops: Vec<DropRow> = drops.collect();
        let sent_again = interval.sent_again.into_iter();
        let sent_again: Vec<SentAgainRow> = sent_again
            .map(|(laid, count)| self.sent_again_row(start_ns, end_ns, &laid, count))
            .collect();
        let cpu_ns = thread_cpu_ns();
        self.standing.cpu_ns += cpu_ns - self.begun_cpu_ns;
        self.begun_cpu_ns = cpu_ns;
        let mut shared = lock(&self.shared);
        let kept = shared.0.drops.len() + shared.0.sent_again.len();
        if kept > MOST_ROWS {
            self.standing.lost_rows += kept as u64;
            shared.0 = Seen::default();
        }
        shared.0.drops.extend(drops);
        shared.0.sent_again.extend(sent_again);
        shared.1 = self.standing;
    }

    fn drop_row(
        &self,
        start_ns: i64,
        end_ns: i64,
        kind: &Kind,
        count: Count,
        told: bool,
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
            // An index of another namespace would have another name here.
            interface: kind.here.then(|| named(kind.interface)).flatten(),
            arrived_by: kind.here.then(|| named(kind.arrived_by)).flatten(),
            source: kind.ends.map(|(from, _)| end(from)),
            destination: kind.ends.map(|(_, to)| end(to)),
            packets: count.packets,
            bytes: told.then_some(count.bytes),
            here: kind.here,
        }
    }

    fn sent_again_row(
        &self,
        start_ns: i64,
        end_ns: i64,
        laid: &Laid,
        count: Count,
    ) -> SentAgainRow {
        let (from, to) = laid.ends;
        SentAgainRow {
            start_ns,
            end_ns,
            source: from.to_string(),
            destination: to.to_string(),
            packets: count.packets,
            payload_bytes: count.bytes,
            reason: laid.drop.map(|(reason, _)| self.reason(reason)),
            location: laid.drop.and_then(|(_, location)| self.location(location)),
        }
    }

    /// Modules of the kernel have reasons of their own, whose names it does not tell.
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

/// An address with its port, where there is one.
fn end(place: std::net::SocketAddr) -> String {
    if place.port() == 0 {
        place.ip().to_string()
    } else {
        place.to_string()
    }
}

/// The name of an interface of this thread's network namespace.
fn interface(index: u32) -> Option<String> {
    let mut name = [0 as libc::c_char; libc::IF_NAMESIZE];
    // SAFETY: the kernel writes at most `IF_NAMESIZE` bytes, with the zero at the end.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    if index == 0 || found.is_null() {
        return None;
    }
    // SAFETY: a string that ends with a zero, in `name`.
    let text = unsafe { CStr::from_ptr(name.as_ptr()) };
    Some(text.to_string_lossy().into_owned())
}

/// The time that an interval has for looking at packets.
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

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given them to us.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    use super::*;

    /// Nobody listens there; the kernel drops each datagram (and answers by ICMP).
    #[test]
    fn datagrams_to_a_closed_port_are_counted_with_their_ends() {
        let mut monitor = match Monitor::start(Some(Way::Program)) {
            Ok(monitor) => monitor,
            // Not root, or a kernel without tracepoints or BPF.
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
