//! A thread that polls all sockets at regular times, and receives reports of those that close in between.

use std::collections::HashMap;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;

use crate::batch::{Batch, Poll};
use crate::clock::{Clock, since_boot_ns, thread_cpu_ns};
use crate::filter::Filter;
use crate::message::Socket;
use crate::netlink::Netlink;
use crate::processes::Family;
use crate::request::{Family as AddressFamily, connections, datagrams};
use crate::schedule::Schedule;
use crate::tracking::{Settings, Tracker};

/// A new socket may be listed before its process owns it: for this long its owner is looked up again.
const UNDECIDED_NS: i64 = 1_000_000_000;
/// Scanning all processes takes milliseconds if there are many.
const REFRESHED_EVERY_NS: i64 = 50_000_000;
const FORGOTTEN_EVERY_NS: i64 = 500_000_000;
/// UDP sockets are polled no more often, since only their queues are reported, not their packets.
const DATAGRAMS_EVERY_NS: i64 = 100_000_000;

/// Which sockets to poll, and how often.
#[derive(Clone, Debug)]
pub struct Config {
    pub every: Duration,
    pub filter: Filter,
    /// Only sockets of these processes and their descendants; `None`: of all.
    pub processes: Option<Vec<u32>>,
    /// Include UDP sockets.
    pub datagrams: bool,
    pub tracking: Settings,
    /// Uncollected rows are kept up to this size.
    pub most_bytes: usize,
}

/// The polling thread; it ends when this is dropped.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<Shared>,
    /// Closed to wake the thread, so that it ends.
    wake: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    batch: Batch,
    standing: Standing,
}

/// The sampler's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Selected connections that exist.
    pub connections: usize,
    /// Why the latest poll failed.
    pub problem: Option<String>,
    /// Closed connections that the kernel could not report, because too many closed at once.
    pub ends_lost: u64,
    /// True if the kernel reports closing connections at all.
    pub ends_told: bool,
    /// All processes to be watched have ended.
    pub processes_gone: bool,
}

impl Sampler {
    /// Starts after a first request that checks whether the kernel answers.
    ///
    /// # Errors
    /// The kernel's error for that request; or no thread can be started.
    pub fn start(config: Config) -> io::Result<Sampler> {
        let mut netlink = Netlink::open()?;
        netlink.dump(&connections(&config.filter.bytecode()), |_, _| {})?;
        let (sleep, wake) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let shared = Arc::new(Shared::default());
        let polling = Polling::new(config, netlink, shared.clone());
        let thread = std::thread::Builder::new()
            .name("whydrop sockets".into())
            .spawn(move || polling.run(&sleep))?;
        Ok(Sampler {
            shared,
            wake: Some(wake),
            thread: Some(thread),
        })
    }

    /// Returns the rows since the last call.
    pub fn take(&self) -> Batch {
        std::mem::take(&mut self.shared.lock().batch)
    }

    pub fn standing(&self) -> Standing {
        self.shared.lock().standing.clone()
    }

    /// Polls a last time, and ends the thread; the last rows can be collected afterwards.
    pub fn stop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            // A panic has printed its message already.
            let _ = thread.join();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of the polling thread.
struct Polling {
    config: Config,
    clock: Clock,
    questions: Questions,
    netlink: Option<Netlink>,
    ends: Option<Netlink>,
    tracker: Tracker,
    wanted: Wanted,
    missed: u64,
    shared: Arc<Shared>,
}

struct Questions {
    tcp: Vec<u8>,
    udp: Option<[Vec<u8>; 2]>,
    udp_due_ns: i64,
}

impl Polling {
    fn new(config: Config, netlink: Netlink, shared: Arc<Shared>) -> Polling {
        let program = config.filter.bytecode();
        let families = [AddressFamily::Ipv4, AddressFamily::Ipv6];
        let ends = Netlink::open_for_destroyed().ok();
        shared.lock().standing.ends_told = ends.is_some();
        Polling {
            clock: Clock::anchored(),
            questions: Questions {
                tcp: connections(&program),
                udp: config
                    .datagrams
                    .then(|| families.map(|family| datagrams(family, &program))),
                udp_due_ns: i64::MIN,
            },
            netlink: Some(netlink),
            ends,
            tracker: Tracker::new(config.tracking),
            wanted: Wanted::new(config.processes.as_deref()),
            missed: 0,
            shared,
            config,
        }
    }

    fn run(mut self, stop: &OwnedFd) {
        // Timers may otherwise be 50 us late, so that they fire together (prctl(2)); without permission they stay late.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let mut schedule = Schedule::new(Instant::now(), self.config.every);
        while self.wait(schedule.next(), stop) {
            self.missed = schedule.begin(Instant::now());
            self.poll();
        }
        self.hear_ends();
        self.poll();
        self.tracker.close();
        self.hand_over();
    }

    /// Waits for a deadline, and registers closing sockets meanwhile; returns whether to continue.
    fn wait(&mut self, deadline: Instant, stop: &OwnedFd) -> bool {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).ok();
            let mut watched = vec![PollFd::new(stop, PollFlags::IN)];
            if let Some(ends) = &self.ends {
                watched.push(PollFd::from_borrowed_fd(ends.as_fd(), PollFlags::IN));
            }
            let ready = match poll(&mut watched, timeout.as_ref()) {
                Ok(ready) => ready,
                Err(Errno::INTR) => continue,
                // Without descriptors to wait for, only time passes.
                Err(_) => {
                    std::thread::sleep(left);
                    return true;
                }
            };
            if !watched[0].revents().is_empty() {
                return false;
            }
            if ready > 0 {
                self.hear_ends();
            }
            if deadline <= Instant::now() {
                return true;
            }
        }
    }

    fn hear_ends(&mut self) {
        let Some(ends) = &mut self.ends else {
            return;
        };
        let now_ns = self.clock.now_ns();
        let (tracker, wanted, filter) = (&mut self.tracker, &self.wanted, &self.config.filter);
        let closed = ends.closed(|socket| {
            // The owner of a socket that no poll has seen is unknown.
            let ours = wanted.is_everything() && filter.wants(socket);
            if tracker.knows(socket.cookie) || ours {
                tracker.destroyed(socket, now_ns);
            }
        });
        match closed {
            Ok(false) => {}
            Ok(true) => self.shared.lock().standing.ends_lost += 1,
            // The error would repeat: continue without these reports.
            Err(_) => {
                self.ends = None;
                self.shared.lock().standing.ends_told = false;
            }
        }
        self.hand_over();
    }

    fn poll(&mut self) {
        let (start_ns, cpu_ns) = (since_boot_ns(), thread_cpu_ns());
        self.wanted.begin(self.clock.of_boot_ns(start_ns));
        self.tracker.begin();
        let mut poll = Poll {
            start_ns: self.clock.of_boot_ns(start_ns),
            missed: std::mem::take(&mut self.missed),
            ..Poll::default()
        };
        let problem = match self.ask(&mut poll) {
            Ok(()) => {
                self.tracker.end(self.clock.now_ns());
                None
            }
            Err(error) => {
                // The remainder of a broken answer must not be read as the next one.
                self.netlink = Netlink::open().ok();
                Some(error.to_string())
            }
        };
        poll.end_ns = self.clock.now_ns();
        poll.cpu_ns = thread_cpu_ns() - cpu_ns;
        self.tracker.batch().polls.push(poll);
        let mut state = self.shared.lock();
        state.standing.connections = self.tracker.len();
        state.standing.problem = problem;
        state.standing.processes_gone = self.wanted.is_gone();
        drop(state);
        self.hand_over();
    }

    fn ask(&mut self, poll: &mut Poll) -> io::Result<()> {
        let netlink = match &mut self.netlink {
            Some(netlink) => netlink,
            none => none.insert(Netlink::open()?),
        };
        let (clock, wanted, tracker) = (self.clock, &mut self.wanted, &mut self.tracker);
        let listed = netlink.dump(&self.questions.tcp, |message, boot_ns| {
            poll.sockets += 1;
            let time_ns = clock.of_boot_ns(boot_ns);
            if !tracker.repeats(message, time_ns)
                && let Some(socket) = Socket::parse(message)
            {
                tracker.see(&socket, time_ns, || wanted.wants(&socket, time_ns));
            }
        })?;
        poll.interrupted |= listed.interrupted;
        let now_ns = clock.now_ns();
        if let Some(questions) = &self.questions.udp
            && now_ns >= self.questions.udp_due_ns
        {
            self.questions.udp_due_ns = now_ns + DATAGRAMS_EVERY_NS;
            for question in questions {
                let listed = unless_missing(netlink.dump(question, |message, boot_ns| {
                    poll.sockets += 1;
                    let time_ns = clock.of_boot_ns(boot_ns);
                    if let Some(socket) = Socket::parse(message)
                        && wanted.wants(&socket, time_ns)
                    {
                        tracker.see_datagrams(&socket, time_ns);
                    }
                }))?;
                poll.interrupted |= listed;
            }
        }
        Ok(())
    }

    fn hand_over(&mut self) {
        let new = std::mem::take(self.tracker.batch());
        let mut state = self.shared.lock();
        state.batch.append(new);
        state.batch.bound(self.config.most_bytes);
    }
}

/// True if a list was interrupted. A kernel without IPv6, or without UDP in its sock_diag, has no such sockets.
fn unless_missing(listed: io::Result<crate::netlink::Listed>) -> io::Result<bool> {
    match listed {
        Ok(listed) => Ok(listed.interrupted),
        Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The selected sockets, if they are selected by process.
struct Wanted {
    family: Option<Family>,
    refresh_due_ns: i64,
    forget_due_ns: i64,
    /// Sockets of other processes, and since when this is known; kept while they are listed.
    others: HashMap<u64, (i64, u64)>,
    poll: u64,
}

impl Wanted {
    fn new(processes: Option<&[u32]>) -> Wanted {
        Wanted {
            family: processes.map(Family::of),
            refresh_due_ns: i64::MIN,
            forget_due_ns: i64::MIN,
            others: HashMap::new(),
            poll: 0,
        }
    }

    fn is_everything(&self) -> bool {
        self.family.is_none()
    }

    fn is_gone(&self) -> bool {
        self.family.as_ref().is_some_and(Family::is_gone)
    }

    fn begin(&mut self, time_ns: i64) {
        if let Some(family) = &mut self.family
            && time_ns >= self.forget_due_ns
        {
            family.forget_gone();
            self.forget_due_ns = time_ns + FORGOTTEN_EVERY_NS;
        }
        // Sockets that the last list lacked are gone.
        let before = self.poll;
        self.others.retain(|_, (_, poll)| *poll == before);
        self.poll += 1;
    }

    /// Decides about a socket that no earlier poll selected.
    fn wants(&mut self, socket: &Socket<'_>, time_ns: i64) -> bool {
        let Some(family) = &mut self.family else {
            return true;
        };
        let (since_ns, poll) = self
            .others
            .entry(socket.cookie)
            .or_insert((time_ns, self.poll));
        *poll = self.poll;
        if socket.inode == 0 {
            // Not accepted yet, or without an owner.
            *since_ns = time_ns;
            return false;
        }
        let undecided = time_ns - *since_ns <= UNDECIDED_NS;
        if undecided && !family.has(socket.inode) && time_ns >= self.refresh_due_ns {
            family.refresh();
            self.refresh_due_ns = time_ns + REFRESHED_EVERY_NS;
        }
        let ours = family.has(socket.inode);
        if ours {
            self.others.remove(&socket.cookie);
        }
        ours
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn config(port: u16) -> Config {
        Config {
            every: Duration::from_millis(5),
            filter: Filter {
                ports: vec![port],
                ..Filter::default()
            },
            processes: None,
            datagrams: false,
            tracking: Settings {
                interval_ns: 5_000_000,
                quiet_ns: 1_000_000_000,
            },
            most_bytes: usize::MAX,
        }
    }

    fn pair() -> (TcpStream, TcpStream, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        (client, listener.accept().unwrap().0, port)
    }

    #[test]
    fn the_last_poll_agrees_with_the_socket_itself() {
        let (mut client, mut server, port) = pair();
        let mut sampler = Sampler::start(config(port)).unwrap();
        client.write_all(&[1; 100_000]).unwrap();
        server.read_exact(&mut vec![0; 100_000]).unwrap();
        let reading = crate::own::read(client.as_fd()).unwrap();
        sampler.stop();
        let batch = sampler.take();
        let local = client.local_addr().unwrap();
        let ours = batch.connections.iter().find(|one| one.local == local);
        let flow = ours.unwrap().flow;
        let last = batch.tcp.iter().rfind(|row| row.flow == flow).unwrap();
        assert!(last.sent_bytes.is_none_or(|bytes| bytes == 100_000));
        assert_eq!(last.mss_bytes, reading.snd_mss());
        assert!(!batch.polls.is_empty() && batch.lost_rows == 0);
        assert!(batch.polls.iter().all(|poll| poll.start_ns <= poll.end_ns));
    }

    #[test]
    fn connections_over_ipv4_and_ipv6_are_in_one_list() {
        let (_client, _server, port) = pair();
        // A host without IPv6 is tested without it.
        let listener = TcpListener::bind(("::1", port));
        let over_ipv6 =
            listener.map(|one| (TcpStream::connect(one.local_addr().unwrap()), one.accept()));
        let mut sampler = Sampler::start(config(port)).unwrap();
        sampler.stop();
        let of_ipv6 = |one: &&crate::batch::Connection| one.local.is_ipv6();
        let batch = sampler.take();
        assert_eq!(
            batch.connections.iter().filter(of_ipv6).count(),
            over_ipv6.map_or(0, |_| 2)
        );
        assert_eq!(
            batch.connections.iter().filter(|one| !of_ipv6(one)).count(),
            2
        );
    }

    #[test]
    fn a_connection_too_short_for_a_poll_is_seen_as_it_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut sampler = Sampler::start(Config {
            every: Duration::from_secs(3600),
            ..config(port)
        })
        .unwrap();
        if !sampler.standing().ends_told {
            return;
        }
        // The first poll is over when its rows are available.
        let mut batch = Batch::default();
        while batch.polls.is_empty() {
            batch = sampler.take();
        }
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[1; 321]).unwrap();
        drop(client);
        let mut received = Vec::new();
        server.read_to_end(&mut received).unwrap();
        drop((server, listener));
        let mut sent: u64 = 0;
        while sent < 321 {
            std::thread::sleep(Duration::from_millis(1));
            let batch = sampler.take();
            sent += batch
                .intervals
                .iter()
                .filter(|one| one.flow % 2 == 0)
                .map(|one| one.payload_bytes)
                .sum::<u64>();
        }
        assert_eq!(sent, 321);
        sampler.stop();
    }

    #[test]
    fn only_sockets_of_a_process_and_what_it_starts_are_wanted() {
        let (_client, _server, port) = pair();
        let poll = |pid| {
            let mut sampler = Sampler::start(Config {
                processes: Some(vec![pid]),
                ..config(port)
            })
            .unwrap();
            sampler.stop();
            (sampler.take().connections.len(), sampler.standing())
        };
        assert_eq!(poll(std::process::id()).0, 2);
        // No process has this number: they end at 2^22.
        let (others, standing) = poll(1 << 22);
        assert!(others == 0 && standing.processes_gone);
    }
}
