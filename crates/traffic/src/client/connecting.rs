//! Connections to a responder: the control channel, and one connection for each TCP flow.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::auth::Bytes32;
use crate::client::Host;
use crate::flow::FlowSpec;
use crate::handshake::{self, Opened};
use crate::local_end::LocalEnd;
use crate::secret::Secret;
use crate::tcp::options;
use crate::timed::Timed;

/// How long a host may take to accept a connection, and how long for the whole handshake.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most connections that are opened in parallel.
const AT_ONCE: usize = 16;

/// The most addresses of a host that are tried.
const MOST_ADDRESSES: usize = 8;

/// Returns the addresses of a host, in the order in which the system prefers them.
///
/// # Errors
/// The name is unknown, or the host has no address of the requested IP version or of the version of the source address.
pub fn resolve(host: &Host) -> io::Result<Vec<SocketAddr>> {
    let name = host.name.trim_start_matches('[').trim_end_matches(']');
    let addresses = (name, host.port).to_socket_addrs().map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("cannot find the address of this host: {error}"),
        )
    })?;
    let mut found: Vec<SocketAddr> = Vec::new();
    for address in addresses {
        let is_wanted = match host.ip_version {
            Some(4) => address.is_ipv4(),
            Some(6) => address.is_ipv6(),
            _ => true,
        };
        let is_wanted = is_wanted && host.source.suits(&address);
        if is_wanted && !found.contains(&address) && found.len() < MOST_ADDRESSES {
            found.push(address);
        }
    }
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, lacks(host)));
    }
    Ok(found)
}

/// Describes which address a host lacks.
fn lacks(host: &Host) -> String {
    let version = |number| format!(" IPv{number}");
    match host.source.address {
        Some(address) => format!(
            "this host has no{} address that packets from {address} can reach (--local-bind)",
            version(if address.is_ipv4() { 4 } else { 6 })
        ),
        None => format!(
            "this host has no{} address",
            host.ip_version.map_or_else(String::new, version)
        ),
    }
}

/// An open control channel.
pub struct Connected {
    pub stream: TcpStream,
    pub address: SocketAddr,
    pub opened: Opened,
}

/// Opens the control channel to the first address at which a server listens.
///
/// # Errors
/// What prevents the connection, and what to try.
pub fn control(
    addresses: &[SocketAddr],
    source: &LocalEnd,
    secret: Option<&Secret>,
) -> io::Result<Connected> {
    let (stream, address) = first_that_listens(addresses, source)?;
    stream.set_nodelay(true)?;
    let opened = handshake::control(&mut in_time(&stream), secret).map_err(|error| {
        if error.kind() != io::ErrorKind::ConnectionAborted {
            return error;
        }
        let version = connected(address, source)
            .ok()
            .and_then(|stream| handshake::version(&mut in_time(&stream)));
        version.map_or(error, handshake::other_version)
    })?;
    Ok(Connected {
        stream,
        address,
        opened,
    })
}

/// A connection for the time of a handshake.
fn in_time(stream: &TcpStream) -> Timed<'_> {
    Timed::new(stream, Instant::now() + PATIENCE)
}

fn first_that_listens(
    addresses: &[SocketAddr],
    source: &LocalEnd,
) -> io::Result<(TcpStream, SocketAddr)> {
    let mut failures: Vec<io::Error> = Vec::new();
    for &address in addresses {
        match connected(address, source) {
            Ok(stream) => return Ok((stream, address)),
            Err(error) => failures.push(explain_refusal(&error, address)),
        }
    }
    let kind = failures
        .first()
        .map_or(io::ErrorKind::NotFound, io::Error::kind);
    let all: Vec<String> = failures.iter().map(ToString::to_string).collect();
    Err(io::Error::new(kind, all.join("; ")))
}

fn connected(address: SocketAddr, source: &LocalEnd) -> io::Result<TcpStream> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    source.bind(&socket, address)?;
    socket.connect_timeout(&address.into(), PATIENCE)?;
    Ok(socket.into())
}

fn explain_refusal(error: &io::Error, address: SocketAddr) -> io::Error {
    let port = address.port();
    let what = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!(
                "nothing listens at {address}: start `whydrop responder` there (or name its port with --port)"
            )
        }
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => format!(
            "no answer from {address} in {} s: is the host up, and TCP and UDP port {port} open in its firewall?",
            PATIENCE.as_secs()
        ),
        _ => format!("cannot connect to {address}: {error}"),
    };
    io::Error::new(error.kind(), what)
}

/// Opens the connections of all TCP flows, several in parallel.
///
/// # Errors
/// The first connection that fails; the message names its flow.
pub fn data(
    address: SocketAddr,
    source: &LocalEnd,
    session: u64,
    key: &Bytes32,
    flows: Vec<FlowSpec>,
) -> io::Result<Vec<(FlowSpec, TcpStream)>> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(spec) = flows.get(next.fetch_add(1, Ordering::Relaxed)) {
            let connected = connect(address, source, session, key, spec);
            let failed = connected.is_err();
            let result = connected.map(|stream| (spec.clone(), stream));
            done.lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .push(result);
            if failed {
                next.store(flows.len(), Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(flows.len()) {
            scope.spawn(work);
        }
    });
    let connected: io::Result<Vec<_>> = done
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .into_iter()
        .collect();
    let mut connected = connected?;
    connected.sort_by_key(|(spec, _)| spec.flow);
    Ok(connected)
}

fn connect(
    address: SocketAddr,
    source: &LocalEnd,
    session: u64,
    key: &Bytes32,
    spec: &FlowSpec,
) -> io::Result<TcpStream> {
    let attempt = || {
        let stream = options::connect(address, source, spec, PATIENCE)?;
        handshake::data(&mut in_time(&stream), session, spec.flow, key)?;
        options::look_up_often(&stream)?;
        Ok(stream)
    };
    attempt().map_err(|error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("cannot open the connection of flow {}: {error}", spec.flow),
        )
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_interface_of_a_link_local_address_is_kept() {
        // Interface 1 is loopback on every host.
        let host = Host::new("fe80::1%lo");
        let SocketAddr::V6(found) = resolve(&host).unwrap()[0] else {
            panic!("an IPv6 address was expected")
        };
        assert_eq!((found.scope_id(), found.port()), (1, host.port));
    }

    #[test]
    fn the_next_address_of_a_host_is_tried_where_nothing_listens_at_the_first() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap();
        let refusing = closed.local_addr().unwrap();
        drop(closed);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let listening = listener.local_addr().unwrap();
        let (_, found) = first_that_listens(&[refusing, listening], &LocalEnd::default()).unwrap();
        assert_eq!(found, listening);
        let message = first_that_listens(&[refusing], &LocalEnd::default())
            .unwrap_err()
            .to_string();
        assert!(message.contains("whydrop responder"), "{message}");
    }

    #[test]
    fn only_addresses_of_the_version_to_send_from_are_tried() {
        let host = |name, from: &str| Host {
            source: LocalEnd {
                address: Some(from.parse().unwrap()),
                ..LocalEnd::default()
            },
            ..Host::new(name)
        };
        assert_eq!(resolve(&host("127.0.0.1", "127.0.0.9")).unwrap().len(), 1);
        let message = resolve(&host("127.0.0.1", "::1")).unwrap_err().to_string();
        assert!(
            message.contains("no IPv6 address") && message.contains("::1"),
            "{message}"
        );
    }
}
