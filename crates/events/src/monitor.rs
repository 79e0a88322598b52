//! A thread that reads the reports, names the events, and keeps rows until they are collected.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use whydrop_bpf::loading::Usage;
use whydrop_sockets::clock::{Clock, since_boot_ns, thread_cpu_ns};

use crate::attribution::{self, Cause, Event};
use crate::filter::Filter;
use crate::report::{Kind, Report};
use crate::source::Source;
use crate::totals::{Book, Totals};

const INTERVAL_NS: i64 = 100_000_000;
/// Rows beyond this that were not collected are discarded.
const MOST_ROWS: usize = 1_000_000;

/// An event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub time_ns: i64,
    pub report: Report,
    pub event: Event,
}

impl Row {
    /// The window before the event. A recovery that begins has not reduced it yet; it may have changed since the last
    /// acknowledgment, as the recovery before ended.
    pub fn window_before(&self) -> u32 {
        match (self.report.kind, self.event) {
            (Kind::State, Event::Reduction(cause)) if cause != Cause::Timeout => self.report.window,
            _ => self.report.window_before,
        }
    }
}

/// The counts of a connection at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    pub time_ns: i64,
    pub report: Report,
    pub totals: Totals,
}

/// Rows that have not been collected yet.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub rows: Vec<Row>,
    pub counts: Vec<Count>,
}

/// The monitor's status since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Events that found no room, or came while the same program was running on their processor.
    pub lost: u64,
    /// Retransmitted segments that TCP counted, and the kernel did not report.
    pub unreported: u64,
    /// Rows discarded because they were not collected.
    pub lost_rows: u64,
    /// Processor time of reading.
    pub cpu_ns: i64,
    /// Counts of the programs; their time only while the kernel counts it.
    pub programs: Usage,
}

/// The monitoring thread; it ends when this is dropped.
#[derive(Debug)]
pub struct Monitor {
    /// Tracepoints that are missing, each with the reason.
    pub missing: Vec<(&'static str, String)>,
    shared: Arc<Mutex<Reading>>,
    wake: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Starts; counts of a connection are reported no more often than every `counts_every_ns`.
    ///
    /// # Errors
    /// Why the kernel reports no events.
    pub fn start(filter: &Filter, counts_every_ns: u32) -> io::Result<Monitor> {
        let source = Source::open(filter, counts_every_ns)?;
        let missing = source.missing.clone();
        let descriptors = source.descriptors()?;
        let (sleep, wake) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let shared = Arc::new(Mutex::new(Reading::new(source)));
        let reading = shared.clone();
        let thread = std::thread::Builder::new()
            .name("whydrop events".into())
            .spawn(move || {
                let mut used_ns = 0;
                while wait(&sleep, &descriptors) {
                    let mut reading = lock(&reading);
                    reading.read(false);
                    let now_ns = thread_cpu_ns();
                    reading.standing.cpu_ns += now_ns - used_ns;
                    used_ns = now_ns;
                }
            })?;
        Ok(Monitor {
            missing,
            shared,
            wake: Some(wake),
            thread: Some(thread),
        })
    }

    /// Reads, and returns all events until now that were not collected.
    pub fn take(&self) -> Seen {
        let mut reading = lock(&self.shared);
        let begun_ns = thread_cpu_ns();
        reading.read(false);
        reading.standing.cpu_ns += thread_cpu_ns() - begun_ns;
        std::mem::take(&mut reading.seen)
    }

    pub fn standing(&self) -> Standing {
        lock(&self.shared).standing
    }

    /// Reads a last time, and ends the thread; the last rows can be collected afterwards.
    pub fn stop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
            lock(&self.shared).read(true);
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.stop();
    }
}

fn lock(shared: &Mutex<Reading>) -> MutexGuard<'_, Reading> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until a ring fills or the interval ends; returns whether to continue.
fn wait(stop: &OwnedFd, descriptors: &[OwnedFd]) -> bool {
    let watched = std::iter::once(stop).chain(descriptors);
    let mut watched: Vec<PollFd<'_>> = watched
        .map(|descriptor| PollFd::new(descriptor, PollFlags::IN))
        .collect();
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: INTERVAL_NS,
    };
    // After an interruption the rings are read, and the loop waits again.
    let _ = poll(&mut watched, Some(&timeout));
    watched[0].revents().is_empty()
}

/// The state of reading.
#[derive(Debug)]
struct Reading {
    source: Source,
    clock: Clock,
    book: Book,
    /// Reports that are newer than the beginning of the last reading: an older one may be in a ring that was read
    /// before it.
    pending: Vec<(i64, Report)>,
    seen: Seen,
    standing: Standing,
}

impl Reading {
    fn new(source: Source) -> Reading {
        Reading {
            source,
            clock: Clock::anchored(),
            book: Book::default(),
            pending: Vec::new(),
            seen: Seen::default(),
            standing: Standing::default(),
        }
    }

    /// Reads the rings; events until now become rows in the order of their times, and with `all` also later ones.
    fn read(&mut self, all: bool) {
        let now_ns = monotonic_ns();
        let since_boot = since_boot_ns() - now_ns;
        let pending = &mut self.pending;
        self.standing.lost += self
            .source
            .read(|time_ns, report| pending.push((time_ns, report)));
        self.standing.programs = self.source.usage();
        self.pending.sort_by_key(|(time_ns, _)| *time_ns);
        let until = if all { i64::MAX } else { now_ns };
        let due = self
            .pending
            .partition_point(|(time_ns, _)| *time_ns <= until);
        for (time_ns, report) in self.pending.drain(..due) {
            let event = attribution::event(&report);
            self.standing.lost += self.book.newly_failed(&report);
            self.standing.unreported += self.book.newly_unreported(&report);
            let totals = self.book.count(&report, event);
            let time_ns = self.clock.of_boot_ns(time_ns + since_boot);
            self.seen.counts.push(Count {
                time_ns,
                report,
                totals,
            });
            if let Some(event) = event {
                self.seen.rows.push(Row {
                    time_ns,
                    report,
                    event,
                });
            }
        }
        if self.seen.counts.len() > MOST_ROWS {
            self.standing.lost_rows += self.seen.rows.len() as u64;
            self.seen = Seen::default();
        }
    }
}

/// The time of the rings, which stands still while the machine sleeps.
fn monotonic_ns() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn filter(ports: Vec<u16>) -> Filter {
        let metadata = std::fs::metadata("/proc/thread-self/ns/net").unwrap();
        Filter {
            namespace: metadata.ino() as u32,
            ports,
            networks: Vec::new(),
        }
    }

    fn transfer(port_of: impl FnOnce(u16) -> Monitor) -> (Monitor, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let monitor = port_of(port);
        let reader = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            std::io::copy(&mut stream, &mut std::io::sink()).unwrap()
        });
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(&vec![0; 4 << 20]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(reader.join().unwrap(), 4 << 20);
        (monitor, port)
    }

    /// Only root may load programs.
    fn allowed() -> bool {
        match Source::open(&filter(Vec::new()), 1) {
            Ok(_) => true,
            Err(error) => {
                assert_ne!(error.raw_os_error(), Some(22), "rejected: {error}");
                assert_ne!(error.raw_os_error(), Some(13), "rejected: {error}");
                false
            }
        }
    }

    #[test]
    fn a_transfer_over_loopback_is_seen_with_both_ends_and_its_growth() {
        if !allowed() {
            return;
        }
        let (mut monitor, port) =
            transfer(|port| Monitor::start(&filter(vec![port]), 1_000_000).unwrap());
        monitor.stop();
        let seen = monitor.take();
        assert_eq!(monitor.standing().lost, 0);
        let sender = seen.counts.iter().rev();
        let last = sender
            .clone()
            .find(|one| one.report.ends.1.port() == port)
            .expect("the sender's counts");
        let closed = |one: &&Count| one.report.kind == Kind::Closed;
        let ends = seen.counts.iter().filter(closed);
        assert!(ends.clone().any(|one| one.report.ends == last.report.ends));
        let counts = last.totals.counts;
        assert!(counts.slow_start_increases + counts.avoidance_increases > 0);
        assert!(last.report.ends.0.ip().is_loopback());
    }

    #[test]
    fn connections_with_other_ports_are_not_reported() {
        if !allowed() {
            return;
        }
        let (mut monitor, _) = transfer(|_| Monitor::start(&filter(vec![1]), 1_000_000).unwrap());
        monitor.stop();
        assert!(monitor.take().counts.is_empty());
    }
}
