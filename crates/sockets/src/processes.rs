//! The processes that own sockets, from proc(5). Other users' processes are visible to administrators only.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A process with a socket open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pid: u32,
    /// The kernel's name of it: the first 15 bytes.
    name: String,
    /// Of version 2, such as `/system.slice/nginx.service`.
    cgroup: Option<String>,
}

impl Owner {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn cgroup(&self) -> Option<&str> {
        self.cgroup.as_deref()
    }
}

/// The owners of sockets, by the sockets' inodes. For a shared socket, the process that began first.
pub fn owners(inodes: &HashSet<u32>) -> HashMap<u32, Owner> {
    owners_in(Path::new("/proc"), inodes)
}

fn owners_in(proc: &Path, inodes: &HashSet<u32>) -> HashMap<u32, Owner> {
    let mut found = HashMap::new();
    let mut pids: Vec<u32> = pids(proc).collect();
    pids.sort_unstable();
    for pid in pids {
        let mut owner = None;
        for inode in sockets_of(proc, pid) {
            if inodes.contains(&inode) && !found.contains_key(&inode) {
                let owner = owner.get_or_insert_with(|| described(proc, pid));
                found.insert(inode, owner.clone());
            }
        }
        if found.len() == inodes.len() {
            break;
        }
    }
    found
}

fn described(proc: &Path, pid: u32) -> Owner {
    let read = |name: &str| fs::read_to_string(proc.join(pid.to_string()).join(name));
    let cgroup = read("cgroup").ok().and_then(|text| {
        let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
        Some(path.to_owned())
    });
    Owner {
        pid,
        name: read("comm").unwrap_or_default().trim_end().to_owned(),
        cgroup,
    }
}

/// Some processes with all their descendants, and the sockets that these have open.
#[derive(Debug)]
pub struct Family {
    proc: PathBuf,
    /// When each began (in the kernel's ticks since boot), because process numbers are reused.
    members: HashMap<u32, u64>,
    sockets: HashSet<u32>,
}

impl Family {
    /// The family of these processes, as it is now.
    pub fn of(pids: &[u32]) -> Family {
        Family::of_in(Path::new("/proc"), pids)
    }

    fn of_in(proc: &Path, pids: &[u32]) -> Family {
        let began = |pid: &u32| Some((*pid, status(proc, *pid)?.began));
        Family {
            proc: proc.to_owned(),
            members: pids.iter().filter_map(began).collect(),
            sockets: HashSet::new(),
        }
    }

    /// True if all of them have ended.
    pub fn is_gone(&self) -> bool {
        self.members.is_empty()
    }

    /// Forgets the processes that have ended. This costs less than [`Family::refresh`], which also finds new ones.
    pub fn forget_gone(&mut self) {
        let proc = &self.proc;
        self.members
            .retain(|pid, began| status(proc, *pid).is_some_and(|status| status.began == *began));
    }

    /// Updates the members and their open sockets.
    pub fn refresh(&mut self) {
        let all: HashMap<u32, Status> = pids(&self.proc)
            .filter_map(|pid| Some((pid, status(&self.proc, pid)?)))
            .collect();
        self.members
            .retain(|pid, began| all.get(pid).is_some_and(|status| status.began == *began));
        // A child's child is found in the round after its parent.
        loop {
            let children: Vec<(u32, u64)> = all
                .iter()
                .filter(|(pid, status)| {
                    self.members.contains_key(&status.parent) && !self.members.contains_key(pid)
                })
                .map(|(pid, status)| (*pid, status.began))
                .collect();
            if children.is_empty() {
                break;
            }
            self.members.extend(children);
        }
        self.sockets = self
            .members
            .keys()
            .flat_map(|pid| sockets_of(&self.proc, *pid))
            .collect();
    }

    /// True if one of them had this socket open at the last poll.
    pub fn has(&self, inode: u32) -> bool {
        self.sockets.contains(&inode)
    }
}

struct Status {
    parent: u32,
    began: u64,
}

fn status(proc: &Path, pid: u32) -> Option<Status> {
    let text = fs::read(proc.join(pid.to_string()).join("stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&text))
}

fn parse_stat(text: &str) -> Option<Status> {
    // The name may contain anything, even brackets; after the last one the fields are counted from 3 on.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    // A process that has ended exists until its parent collects it, without open files.
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    Some(Status {
        parent: fields.next()?.parse().ok()?,
        began: fields.nth(17)?.parse().ok()?,
    })
}

fn pids(proc: &Path) -> impl Iterator<Item = u32> {
    names(proc).filter_map(|name| name.parse().ok())
}

fn sockets_of(proc: &Path, pid: u32) -> impl Iterator<Item = u32> {
    let folder = proc.join(pid.to_string()).join("fd");
    names(&folder).filter_map(move |name| {
        let target = fs::read_link(folder.join(name)).ok()?;
        parse_link(target.to_str()?)
    })
}

fn parse_link(target: &str) -> Option<u32> {
    target
        .strip_prefix("socket:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
}

/// The names in a folder; empty if it may not be read, or has disappeared.
fn names(folder: &Path) -> impl Iterator<Item = String> + use<> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    use super::*;

    fn inode(listener: &TcpListener) -> u32 {
        let link = fs::read_link(format!("/proc/self/fd/{}", listener.as_raw_fd())).unwrap();
        parse_link(link.to_str().unwrap()).unwrap()
    }

    #[test]
    fn a_socket_of_this_process_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let inode = inode(&listener);
        let found = owners(&HashSet::from([inode]));
        assert_eq!(found[&inode].pid(), std::process::id());
        let mut family = Family::of(&[std::process::id()]);
        family.refresh();
        assert!(family.has(inode) && !family.is_gone());
    }

    #[test]
    fn what_a_process_starts_belongs_to_it_until_it_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // The child is started with the socket as its standard input.
        let mut child = Command::new("sh")
            .args(["-c", "sleep 100 & wait"])
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(
                listener.try_clone().unwrap(),
            )))
            .spawn()
            .unwrap();
        let mut family = Family::of(&[child.id()]);
        family.refresh();
        assert!(family.has(inode(&listener)));
        child.kill().unwrap();
        child.wait().unwrap();
        // A process that it started may continue, and still belongs to the family.
        family.refresh();
        for pid in family.members.keys() {
            let _ = Command::new("kill").arg(pid.to_string()).status();
        }
    }

    #[test]
    fn a_name_with_brackets_and_spaces_hides_no_field() {
        let status = parse_stat(
            "7 (a) b) (c) S 3 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 1 18446744073709551615",
        )
        .unwrap();
        assert_eq!((status.parent, status.began), (3, 12345));
        assert!(parse_stat("7 (cut) S 3").is_none() && parse_stat("").is_none());
        let zombie = "7 (a) Z 3 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 1 1";
        assert!(parse_stat(zombie).is_none());
    }

    #[test]
    fn only_links_to_sockets_are_sockets() {
        assert_eq!(parse_link("socket:[4242]"), Some(4242));
        for other in ["pipe:[4242]", "/tmp/socket:[1]", "socket:[", "socket:[x]"] {
            assert_eq!(parse_link(other), None, "{other}");
        }
    }
}
