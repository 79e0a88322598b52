//! An emulation from its beginning to its end: namespaces, hosts, emulator and programs.
//!
//! The first process of a namespace of processes runs it. When it ends, however it ends, the kernel ends all others
//! there, and the network namespaces, which have no name, vanish with the last of them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid};
use serde::Serialize;

use crate::direction::Counts;
use crate::lateness::Summary;
use crate::processors::{Shares, mask, stay_on, stay_on_these};
use crate::programs::{mount_kernels, start_far, start_near, wait_for_sockets};
use crate::rights::enter_namespaces;
use crate::ring::Ring;
use crate::settings::Settings;
use crate::topology::Topology;
use crate::worker::{Lane, Worker, lanes};

/// How long a thread with a processor of its own stays awake: longer than programs pause between the packets that they
/// send by a timer.
const AWAKE_NS: i64 = 2_000_000;
/// How often the ends of programs are looked for.
const LOOK_AGAIN_MS: u16 = 5;
/// From SIGTERM to SIGKILL.
const MERCY: Duration = Duration::from_secs(2);

/// The result of an emulation.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Why there was no emulation.
    pub error: Option<String>,
    /// The exit status of the program, as a shell reports it.
    pub status: Option<i32>,
    pub near_to_far: Option<OneWay>,
    pub far_to_near: Option<OneWay>,
    pub is_realtime: bool,
    pub threads: usize,
}

/// Packets of one direction.
#[derive(Debug, Serialize)]
pub struct OneWay {
    #[serde(flatten)]
    pub counts: Counts,
    pub lateness: Option<Summary>,
}

impl Report {
    fn of_error(error: &dyn std::fmt::Display) -> Report {
        Report {
            error: Some(error.to_string()),
            status: None,
            near_to_far: None,
            far_to_near: None,
            is_realtime: false,
            threads: 0,
        }
    }
}

/// Runs an emulation in a process of one thread: reads the settings, a line of JSON, from `parent`, and writes the report,
/// JSON too, to `report`. The end of `parent` ends it.
pub fn run(parent: OwnedFd, mut report: File) {
    for descriptor in [parent.as_raw_fd(), report.as_raw_fd()] {
        // SAFETY: open descriptors. The hosts' programs must not have them.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    let ended = end_with_parent().and_then(|()| begin(parent, &mut report));
    if let Err(error) = ended {
        write(&mut report, &Report::of_error(&error));
    }
}

fn write(file: &mut File, report: &Report) {
    let text = serde_json::to_vec(report).unwrap_or_default();
    // The parent may be gone.
    let _ = file.write_all(&text);
}

fn end_with_parent() -> io::Result<()> {
    Ok(prctl::set_pdeathsig(Signal::SIGKILL)?)
}

fn begin(parent: OwnedFd, report: &mut File) -> io::Result<()> {
    // Ctrl-C is for the program in the foreground.
    for number in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTSTP] {
        // SAFETY: no handler is installed.
        unsafe { signal(number, SigHandler::SigIgn) }?;
    }
    let mut parent = BufReader::new(File::from(parent));
    let mut line = String::new();
    parent.read_line(&mut line)?;
    let settings: Settings = serde_json::from_str(&line)?;
    enter_namespaces()?;
    // SAFETY: this process has one thread.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => {
            drop(parent);
            while waitpid(child, None) == Err(Errno::EINTR) {}
            Ok(())
        }
        ForkResult::Child => {
            let found =
                end_with_parent().and_then(|()| Session::run(&settings, parent.into_inner()));
            write(
                report,
                &found.unwrap_or_else(|error| Report::of_error(&error)),
            );
            // SAFETY: ends the process; nothing of the interpreter is to run again in this copy of it.
            unsafe { libc::_exit(0) }
        }
    }
}

struct Session {
    parent: File,
    near: Pid,
}

impl Session {
    fn run(settings: &Settings, parent: File) -> io::Result<Report> {
        private_mounts()?;
        let directions = settings.directions().map_err(io::Error::other)?;
        let shares = Shares::of_this_process()?;
        let topology = Topology::make(settings.mtu_bytes, &mask(&shares.programs))?;
        let own: OwnedFd = File::open("/proc/self/ns/net")?.into();
        let [forward, back] = directions;
        let near = Ring::open(topology.to_near, settings.mtu_bytes)?;
        let far = Ring::open(topology.to_far, settings.mtu_bytes)?;
        let workers = workers(lanes(forward, back, near, far)?, &shares);
        let is_over = &AtomicBool::new(false);
        // No program may send before all threads are ready.
        let ready = &Barrier::new(workers.len() + 1);
        thread::scope(|scope| {
            let threads: Vec<_> = (workers.into_iter().zip(shares.emulator))
                .map(|(worker, own)| scope.spawn(move || served(worker, own, ready, is_over)))
                .collect();
            ready.wait();
            let _ = stay_on_these(&shares.programs);
            let status = Self::run_programs(settings, &topology, &own, parent);
            is_over.store(true, Ordering::Relaxed);
            let joined = threads.into_iter().map(|thread| thread.join());
            let served: Vec<Worker> = joined
                .map(|worker| worker.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect();
            Ok(summary(status?, &served))
        })
    }

    fn run_programs(
        settings: &Settings,
        topology: &Topology,
        own: &OwnedFd,
        parent: File,
    ) -> io::Result<i32> {
        for line in &settings.far {
            start_far(line, &topology.far)?;
        }
        wait_for_sockets(&topology.far, own, settings.far.len())?;
        let near = start_near(&settings.command, &topology.near, settings.is_quiet)?;
        let mut session = Session {
            parent,
            near: Pid::from_raw(near.id() as i32),
        };
        let status = session.wait();
        end_all();
        Ok(status)
    }

    /// Waits for the end of the program, or of the parent.
    fn wait(&mut self) -> i32 {
        loop {
            while let Some((process, status)) = reaped() {
                if process == self.near {
                    return status;
                }
            }
            if self.parent_has_ended() {
                return 128 + libc::SIGTERM;
            }
        }
    }

    fn parent_has_ended(&mut self) -> bool {
        let mut watched = [PollFd::new(self.parent.as_fd(), PollFlags::POLLIN)];
        match nix::poll::poll(&mut watched, PollTimeout::from(LOOK_AGAIN_MS)) {
            Ok(0) | Err(_) => false,
            Ok(_) => self.parent.read(&mut [0]).is_ok_and(|count| count == 0),
        }
    }
}

/// Changes of mounts stay in this namespace, and `/proc` shows its processes.
fn private_mounts() -> io::Result<()> {
    let (none, flags) = (None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE);
    mount(none, "/", none, flags, none)?;
    mount_kernels("proc", "/proc");
    Ok(())
}

fn workers(lanes: [Lane; 2], shares: &Shares) -> Vec<Worker> {
    let awake_ns = shares.emulator[0].map_or(0, |_| AWAKE_NS);
    let [forward, back] = lanes;
    let of = |lanes| Worker {
        lanes,
        awake_ns,
        is_realtime: false,
    };
    match shares.has_two_threads {
        true => vec![of(vec![forward]), of(vec![back])],
        false => vec![of(vec![forward, back])],
    }
}

/// Runs a worker in this thread; returns it.
fn served(mut worker: Worker, own: Option<usize>, ready: &Barrier, is_over: &AtomicBool) -> Worker {
    if let Some(number) = own {
        let _ = stay_on(number);
    }
    worker.is_realtime = worker.awake_ns > 0 && ahead_of_programs();
    let _ = prctl::set_timerslack(1);
    ready.wait();
    worker.run(is_over);
    worker
}

/// Puts this thread ahead of the programs, where it may.
fn ahead_of_programs() -> bool {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameters outlive the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const lowest) == 0 }
}

/// The number of a process that has ended, and its exit status as a shell reports it.
fn reaped() -> Option<(Pid, i32)> {
    match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        Ok(WaitStatus::Exited(process, status)) => Some((process, status)),
        Ok(WaitStatus::Signaled(process, number, _)) => Some((process, 128 + number as i32)),
        _ => None,
    }
}

/// Ends all other processes of this namespace; those that do not end are killed with it.
fn end_all() {
    // Elsewhere this would end others.
    if getpid().as_raw() != 1 {
        return;
    }
    let _ = kill(Pid::from_raw(-1), Signal::SIGTERM);
    let until = Instant::now() + MERCY;
    while Instant::now() < until {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => return,
            Ok(WaitStatus::StillAlive) => thread::sleep(Duration::from_millis(1)),
            _ => {}
        }
    }
}

fn summary(status: i32, served: &[Worker]) -> Report {
    let lanes = served.iter().flat_map(|worker| &worker.lanes);
    let mut found = lanes.map(|lane| OneWay {
        counts: lane.direction.counts,
        lateness: lane.lateness.summary(),
    });
    Report {
        error: None,
        status: Some(status),
        near_to_far: found.next(),
        far_to_near: found.next(),
        is_realtime: served.iter().all(|worker| worker.is_realtime),
        threads: served.len(),
    }
}
