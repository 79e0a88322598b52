//! The local address and interface that a test uses, where the user gives them.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use nix::net::if_::{if_indextoname, if_nametoindex};
use socket2::Socket;

/// The near end of sockets. By default the kernel's routes choose both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalEnd {
    /// An address of this host.
    pub address: Option<IpAddr>,
    pub interface: Option<String>,
}

impl LocalEnd {
    /// True if packets can go from this address to that one: both must be of the same IP version.
    pub fn suits(&self, remote: &SocketAddr) -> bool {
        self.address
            .is_none_or(|address| address.is_ipv4() == remote.is_ipv4())
    }

    /// Binds a socket that will be connected to `remote`, or will send to `remote` only.
    ///
    /// # Errors
    /// What this host lacks or the kernel forbids, and what to try.
    pub fn bind(&self, socket: &Socket, remote: SocketAddr) -> io::Result<()> {
        if let Some(name) = &self.interface {
            socket
                .bind_device(Some(name.as_bytes()))
                .map_err(|error| explain_interface(&error, name))?;
        }
        if let Some(address) = self.address {
            let local = self.local(address, remote);
            socket
                .bind(&local.into())
                .map_err(|error| explain_address(&error, address))?;
        }
        Ok(())
    }

    /// Completes a link-local address with its interface.
    fn local(&self, address: IpAddr, remote: SocketAddr) -> SocketAddr {
        let (IpAddr::V6(v6), SocketAddr::V6(there)) = (address, remote) else {
            return SocketAddr::new(address, 0);
        };
        let named = self
            .interface
            .as_deref()
            .and_then(|name| if_nametoindex(name).ok());
        let scope_id = match v6.is_unicast_link_local() {
            true => named.unwrap_or(there.scope_id()),
            false => 0,
        };
        SocketAddrV6::new(v6, 0, 0, scope_id).into()
    }
}

/// Formats an address with its zone (RFC 4007) if it is link-local: `fe80::1%eth0`.
///
/// An IPv4-mapped IPv6 address is written as IPv4.
pub fn with_zone(address: SocketAddr) -> String {
    let SocketAddr::V6(v6) = address else {
        return address.ip().to_string();
    };
    if v6.scope_id() == 0 || !v6.ip().is_unicast_link_local() {
        return address.ip().to_canonical().to_string();
    }
    let name = if_indextoname(v6.scope_id())
        .ok()
        .and_then(|name| name.into_string().ok());
    let zone = name.unwrap_or_else(|| v6.scope_id().to_string());
    format!("{}%{zone}", v6.ip())
}

fn explain_interface(error: &io::Error, name: &str) -> io::Error {
    let what = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => format!(
            "this kernel lets only root (CAP_NET_RAW) bind to interface {name} (Linux 5.7 and newer let all users): \
             give the interface's address instead (--local-bind)"
        ),
        Some(libc::ENODEV) => {
            format!("this host has no interface {name}: `ip link` lists them")
        }
        _ => format!("cannot bind to interface {name}: {error}"),
    };
    io::Error::new(error.kind(), what)
}

fn explain_address(error: &io::Error, address: IpAddr) -> io::Error {
    let what = match error.raw_os_error() {
        Some(libc::EADDRNOTAVAIL) => {
            format!("this host has no address {address}: `ip address` lists them")
        }
        _ => format!("cannot send from {address}: {error}"),
    };
    io::Error::new(error.kind(), what)
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Type};

    use super::*;

    fn bound(source: &LocalEnd, remote: &str) -> io::Result<SocketAddr> {
        let remote: SocketAddr = remote.parse().unwrap();
        let socket = Socket::new(Domain::for_address(remote), Type::DGRAM, None)?;
        source.bind(&socket, remote)?;
        socket.connect(&remote.into())?;
        Ok(socket.local_addr()?.as_socket().unwrap())
    }

    fn from(address: &str) -> LocalEnd {
        LocalEnd {
            address: Some(address.parse().unwrap()),
            ..LocalEnd::default()
        }
    }

    #[test]
    fn packets_leave_from_the_address_that_was_named() {
        let local = bound(&from("127.0.0.9"), "127.0.0.1:9").unwrap();
        assert_eq!(local.ip(), "127.0.0.9".parse::<IpAddr>().unwrap());
        let usual = bound(&LocalEnd::default(), "127.0.0.1:9").unwrap();
        assert_eq!(usual.ip(), "127.0.0.1".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn what_this_host_does_not_have_is_named() {
        // Reserved for documentation (RFC 5737).
        let message = bound(&from("192.0.2.77"), "127.0.0.1:9")
            .unwrap_err()
            .to_string();
        assert!(message.contains("no address 192.0.2.77"), "{message}");
        let nowhere = LocalEnd {
            interface: Some("nowhere0".to_owned()),
            ..LocalEnd::default()
        };
        let message = bound(&nowhere, "127.0.0.1:9").unwrap_err().to_string();
        assert!(message.contains("nowhere0"), "{message}");
    }

    #[test]
    fn both_ends_must_be_of_one_version_of_ip() {
        let (v4, v6) = (
            "192.0.2.1:1".parse().unwrap(),
            "[2001:db8::1]:1".parse().unwrap(),
        );
        assert!(from("127.0.0.1").suits(&v4) && !from("127.0.0.1").suits(&v6));
        assert!(!from("::1").suits(&v4) && from("::1").suits(&v6));
        assert!(LocalEnd::default().suits(&v4) && LocalEnd::default().suits(&v6));
    }

    #[test]
    fn an_address_of_one_link_is_bound_on_that_link() {
        let remote: SocketAddr = "[fe80::1%7]:1".parse().unwrap();
        let SocketAddr::V6(local) = from("fe80::2").local("fe80::2".parse().unwrap(), remote)
        else {
            panic!("an IPv6 address was expected")
        };
        assert_eq!(local.scope_id(), 7);
        let on_loopback = LocalEnd {
            interface: Some("lo".to_owned()),
            ..from("fe80::2")
        };
        let SocketAddr::V6(local) = on_loopback.local("fe80::2".parse().unwrap(), remote) else {
            panic!("an IPv6 address was expected")
        };
        // Interface 1 is loopback on every host.
        assert_eq!(local.scope_id(), 1);
    }
}
