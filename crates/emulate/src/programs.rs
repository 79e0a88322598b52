//! Programs that run in the hosts.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns};

use crate::topology::{FAR, Host, NEAR};

/// The longest wait for the programs of the far host to open their sockets.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Starts the program of the near host. It has the terminal.
///
/// # Errors
/// The program cannot be started.
pub fn start_near(words: &[String], namespace: &OwnedFd, is_quiet: bool) -> io::Result<Child> {
    let [program, arguments @ ..] = words else {
        return Err(io::Error::other("no program is given"));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    if is_quiet {
        command.stdout(stderr()?);
    }
    let started = in_host(&mut command, NEAR, FAR, namespace).spawn();
    started.map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))
}

/// Starts a line of a shell in the far host, with empty input.
///
/// # Errors
/// There is no shell.
pub fn start_far(line: &str, namespace: &OwnedFd) -> io::Result<Child> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]).stdin(Stdio::null());
    command.stdout(stderr()?);
    in_host(&mut command, FAR, NEAR, namespace).spawn()
}

fn stderr() -> io::Result<OwnedFd> {
    // SAFETY: the process has it until its end.
    let stderr = unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) };
    stderr.try_clone_to_owned()
}

fn in_host<'a>(
    command: &'a mut Command,
    host: Host,
    other: Host,
    namespace: &OwnedFd,
) -> &'a mut Command {
    let namespace = namespace.as_raw_fd();
    let name = CString::new(host.name).unwrap_or_default();
    for (variable, value) in [
        (host.name, host.address.to_string()),
        (other.name, other.address.to_string()),
    ] {
        command.env(format!("WHYDROP_{}", variable.to_uppercase()), value);
    }
    for (variable, value) in [
        (host.name, host.address6.to_string()),
        (other.name, other.address6.to_string()),
    ] {
        command.env(format!("WHYDROP_{}6", variable.to_uppercase()), value);
    }
    // SAFETY: only system calls between fork and exec.
    unsafe { command.pre_exec(move || enter(namespace, &name)) }
}

/// Enters the host, with its own names of interfaces in `/sys`, and the usual handling of signals.
fn enter(namespace: RawFd, name: &CString) -> io::Result<()> {
    // SAFETY: open in the parent, and so here.
    let namespace = unsafe { BorrowedFd::borrow_raw(namespace) };
    setns(namespace, CloneFlags::CLONE_NEWNET)?;
    nix::sched::unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS)?;
    mount_kernels("sysfs", "/sys");
    // SAFETY: the name has this length; no handler is installed.
    unsafe {
        libc::sethostname(name.as_ptr(), name.as_bytes().len());
        for number in [
            libc::SIGINT,
            libc::SIGQUIT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGTSTP,
        ] {
            libc::signal(number, libc::SIG_DFL);
        }
    }
    Ok(())
}

/// Mounts a file system of the kernel, where it is allowed; returns whether it was. In some containers it is not, and
/// programs see the outer one.
pub fn mount_kernels(kind: &str, place: &str) -> bool {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some(kind), place, Some(kind), flags, None::<&str>).is_ok()
}

/// Waits until the host of this namespace has a socket for each of some programs, or they have had the time to open it.
pub fn wait_for_sockets(namespace: &OwnedFd, own: &OwnedFd, wanted: usize) -> io::Result<()> {
    setns(namespace, CloneFlags::CLONE_NEWNET)?;
    let until = Instant::now() + PATIENCE;
    while sockets() < wanted && Instant::now() < until {
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(setns(own, CloneFlags::CLONE_NEWNET)?)
}

/// Sockets that programs of the namespace of this process's first thread have open.
fn sockets() -> usize {
    let count = |table: &str| {
        let lines = fs::read_to_string(format!("/proc/self/net/{table}")).unwrap_or_default();
        lines.lines().count().saturating_sub(1)
    };
    ["tcp", "tcp6", "udp", "udp6", "packet"]
        .into_iter()
        .map(count)
        .sum()
}
