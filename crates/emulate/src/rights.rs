//! The right to make namespaces: that of root, or of a user namespace, where this process is root.

use std::fs;
use std::io;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};

/// Gives the calling process namespaces of mounts and host names, and its children one of processes. It must have one thread.
///
/// # Errors
/// Neither root's rights nor user namespaces are there; the error says what is needed.
pub fn enter_namespaces() -> io::Result<()> {
    let wanted = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNET;
    match unshare(wanted) {
        Err(Errno::EPERM) => {}
        done => return done.map_err(io::Error::from),
    }
    // SAFETY: always succeed.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    unshare(CloneFlags::CLONE_NEWUSER | wanted).map_err(needed)?;
    // Without this the kernel refuses the map of groups.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

fn needed(errno: Errno) -> io::Error {
    io::Error::other(format!(
        "the hosts need network namespaces, which this kernel gives root only ({}): run it as root, or allow user \
         namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, \
         kernel.apparmor_restrict_unprivileged_userns)",
        errno.desc()
    ))
}
