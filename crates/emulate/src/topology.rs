//! Two hosts in network namespaces without names, and between them a third one for the emulator.
//!
//! The namespaces exist as long as a process is in them, or has them open. Nothing is visible outside them.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use nix::mount::umount;
use nix::sched::{CloneFlags, setns, unshare};
use whydrop_host::ethtool::Ethtool;
use whydrop_host::rtnetlink::Netlink;
use whydrop_sockets::attributes::put;

use crate::programs::mount_kernels;

/// linux/rtnetlink.h
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_NEIGHBOUR: u16 = 28;
/// linux/netlink.h: replace, exclusively, create.
const REPLACE: u16 = 0x100;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
const UP: u32 = 1;
const LOOPBACK: u32 = 1;

mod link {
    pub const ADDRESS: u16 = 1;
    pub const NAME: u16 = 3;
    pub const MTU: u16 = 4;
    pub const INFO: u16 = 18;
    pub const NAMESPACE: u16 = 28;
    pub const INFO_KIND: u16 = 1;
    pub const INFO_DATA: u16 = 2;
    pub const VETH_PEER: u16 = 1;
}

/// The only interface of each host.
const INTERFACE: &str = "eth0";

/// A host: its name, and its addresses.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    pub name: &'static str,
    pub address: Ipv4Addr,
    pub address6: Ipv6Addr,
    hardware: [u8; 6],
}

pub const NEAR: Host = Host {
    name: "near",
    address: Ipv4Addr::new(10, 0, 0, 1),
    address6: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
    hardware: [2, 0, 0, 0, 0, 1],
};
pub const FAR: Host = Host {
    name: "far",
    address: Ipv4Addr::new(10, 0, 0, 2),
    address6: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
    hardware: [2, 0, 0, 0, 0, 2],
};

/// The hosts, and the interfaces in the namespace of the emulator, which is that of the calling thread.
pub struct Topology {
    pub near: OwnedFd,
    pub far: OwnedFd,
    pub to_near: u32,
    pub to_far: u32,
}

impl Topology {
    /// Makes the namespaces and the links; the calling thread ends in the emulator's namespace. `receivers` are the
    /// processors on which the hosts receive packets ([`mask`](crate::processors::mask)).
    ///
    /// # Errors
    /// The kernel refuses; the error says which step.
    pub fn make(mtu_bytes: u32, receivers: &str) -> io::Result<Topology> {
        let near = fresh()?;
        let far = fresh()?;
        let middle = fresh()?;
        // Its kernel must not speak on the links.
        setting("net/ipv6/conf/default/disable_ipv6", "1");
        for (host, namespace, other) in [(NEAR, &near, FAR), (FAR, &far, NEAR)] {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            join(host, other, &middle, mtu_bytes)?;
            receive_on(receivers);
        }
        setns(&middle, CloneFlags::CLONE_NEWNET)?;
        let mut netlink = Netlink::open(None)?;
        let mut indices = [0; 2];
        for (index, host) in indices.iter_mut().zip([NEAR, FAR]) {
            *index = index_of(&mut netlink, host.name)?;
            prepare(host.name)?;
            up(&mut netlink, *index)?;
        }
        Ok(Topology {
            near,
            far,
            to_near: indices[0],
            to_far: indices[1],
        })
    }
}

/// Has the host of this namespace receive on these processors, where it may (receive packet steering): its kernel would
/// work on the emulator's, which hands over the packets, for milliseconds at a time.
fn receive_on(processors: &str) {
    // Without a mount of its own, /sys has the interfaces of the machine.
    if !mount_kernels("sysfs", "/sys") {
        return;
    }
    let queue = format!("/sys/class/net/{INTERFACE}/queues/rx-0/rps_cpus");
    let _ = fs::write(queue, processors);
    let _ = umount("/sys");
}

fn step<T>(name: &str, done: io::Result<T>) -> io::Result<T> {
    done.map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))
}

/// Enters a new network namespace.
fn fresh() -> io::Result<OwnedFd> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    Ok(File::open("/proc/self/ns/net")?.into())
}

/// Sets a kernel parameter of this namespace, where the kernel has it.
fn setting(name: &str, value: &str) {
    let _ = fs::write(Path::new("/proc/sys").join(name), value);
}

/// Makes the host's interface, in its own namespace, with the peer in that of the emulator.
fn join(host: Host, other: Host, middle: &OwnedFd, mtu_bytes: u32) -> io::Result<()> {
    for name in ["accept_dad", "router_solicitations", "addr_gen_mode"] {
        // 1: no address is made of the interface's own
        let value = if name == "addr_gen_mode" { "1" } else { "0" };
        setting(&format!("net/ipv6/conf/default/{name}"), value);
    }
    let mut netlink = Netlink::open(None)?;
    let pair = pair(host, middle, mtu_bytes);
    step(
        "no veth interface",
        netlink.change(NEW_LINK, CREATE | EXCLUSIVE, &pair),
    )?;
    prepare(INTERFACE)?;
    let index = index_of(&mut netlink, INTERFACE)?;
    up(&mut netlink, LOOPBACK)?;
    up(&mut netlink, index)?;
    let has_ipv6 = Path::new("/proc/sys/net/ipv6").exists();
    let own: [IpAddr; 2] = [host.address.into(), host.address6.into()];
    let others: [IpAddr; 2] = [other.address.into(), other.address6.into()];
    for (own, others) in own.into_iter().zip(others) {
        if own.is_ipv6() && !has_ipv6 {
            continue;
        }
        let body = address(index, own);
        step("no address", netlink.change(NEW_ADDRESS, CREATE, &body))?;
        let body = neighbour(index, others, other.hardware);
        let done = netlink.change(NEW_NEIGHBOUR, CREATE | REPLACE, &body);
        step("no neighbour", done)?;
    }
    Ok(())
}

fn pair(host: Host, middle: &OwnedFd, mtu_bytes: u32) -> Vec<u8> {
    let text = |name: &str| [name.as_bytes(), b"\0"].concat();
    let mut peer = vec![0; 16];
    put(&mut peer, link::NAME, &text(host.name));
    put(&mut peer, link::MTU, &mtu_bytes.to_ne_bytes());
    put(
        &mut peer,
        link::NAMESPACE,
        &middle.as_raw_fd().to_ne_bytes(),
    );
    let mut data = Vec::new();
    put(&mut data, link::VETH_PEER, &peer);
    let mut info = Vec::new();
    put(&mut info, link::INFO_KIND, b"veth");
    put(&mut info, link::INFO_DATA, &data);
    let mut body = vec![0; 16];
    put(&mut body, link::NAME, &text(INTERFACE));
    put(&mut body, link::ADDRESS, &host.hardware);
    put(&mut body, link::MTU, &mtu_bytes.to_ne_bytes());
    put(&mut body, link::INFO, &info);
    body
}

/// Packets as a line carries them: none larger than the MTU, each with its checksums.
fn prepare(interface: &str) -> io::Result<()> {
    let done = Ethtool::open(interface)?.switch_off_offloads();
    step("offloads cannot be switched off", done)
}

fn index_of(netlink: &mut Netlink, name: &str) -> io::Result<u32> {
    let links = netlink.links()?;
    let found = links.iter().find(|link| link.name == name);
    found
        .map(|link| link.index)
        .ok_or_else(|| io::Error::other(format!("interface {name} is missing")))
}

fn up(netlink: &mut Netlink, interface: u32) -> io::Result<()> {
    let mut body = vec![0; 4];
    for field in [interface, UP, UP] {
        body.extend(field.to_ne_bytes());
    }
    step(
        "an interface stays down",
        netlink.change(NEW_LINK, 0, &body),
    )
}

fn address(interface: u32, own: IpAddr) -> Vec<u8> {
    /// Without detection of duplicates.
    const AT_ONCE: u8 = 0x02;
    let (family, bits) = family(own);
    let mut body = vec![family, bits, AT_ONCE, 0];
    body.extend(interface.to_ne_bytes());
    let bytes = octets(own);
    // Local and of the link, which are the same but between two points.
    put(&mut body, 2, &bytes);
    put(&mut body, 1, &bytes);
    body
}

/// The other host's hardware address, so that no packet of ARP or neighbour discovery has to pass the path.
fn neighbour(interface: u32, other: IpAddr, hardware: [u8; 6]) -> Vec<u8> {
    const PERMANENT: u16 = 0x80;
    let (family, _) = family(other);
    let mut body = vec![family, 0, 0, 0];
    body.extend(interface.to_ne_bytes());
    body.extend(PERMANENT.to_ne_bytes());
    body.extend([0, 0]);
    put(&mut body, 1, &octets(other));
    put(&mut body, 2, &hardware);
    body
}

/// The family of an address, and the length of the prefix of both hosts.
fn family(address: IpAddr) -> (u8, u8) {
    match address {
        IpAddr::V4(_) => (libc::AF_INET as u8, 24),
        IpAddr::V6(_) => (libc::AF_INET6 as u8, 64),
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
