//! Socket options of a TCP flow, the same at both ends.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::setsockopt_impl;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::SetStruct;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use whydrop_sockets::own;

use crate::clock;
use crate::flow::{Direction, FlowSpec};
use crate::local_end::LocalEnd;
use crate::stop::Stop;
use crate::timed::is_timeout;

/// Bytes per second at which the kernel paces a socket (socket(7)).
#[derive(Clone)]
struct MaxPacingRate;

setsockopt_impl!(
    MaxPacingRate,
    libc::SOL_SOCKET,
    libc::SO_MAX_PACING_RATE,
    u64,
    SetStruct<u64>
);

/// How often a blocked read or write checks for a stop.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Which end of a flow's data a socket is. Congestion control and pacing apply to the sender only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Sender,
    Receiver,
}

/// How waiting for the peer's close ended.
#[derive(Debug)]
pub enum Parting {
    Closed,
    Stopped,
    /// The peer did not close in time.
    Silent,
    Broken(io::Error),
}

/// Connects the data connection of a flow. Options that affect the handshake are set before it.
///
/// # Errors
/// The option that the kernel refuses, with the reason, or the connection's own error.
pub fn connect(
    remote: SocketAddr,
    source: &LocalEnd,
    spec: &FlowSpec,
    patience: Duration,
) -> io::Result<TcpStream> {
    let socket = Socket::new(
        Domain::for_address(remote),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    let end = match spec.direction {
        Direction::Down => End::Receiver,
        Direction::Up | Direction::Both => End::Sender,
    };
    apply(SockRef::from(&socket), remote.ip(), spec, end)?;
    source.bind(&socket, remote)?;
    socket.connect_timeout(&remote.into(), patience)?;
    let stream = TcpStream::from(socket);
    look_up_often(&stream)?;
    if let Some(wanted) = spec.ecn
        && wanted != own::read(stream.as_fd())?.uses_ecn()
    {
        return Err(option_error(
            if wanted {
                "explicit congestion notification was requested but not negotiated: set net.ipv4.tcp_ecn=1 here, \
                 and make sure that it is not 0 at the far end"
            } else {
                "explicit congestion notification was declined but is in use: set net.ipv4.tcp_ecn=2 here"
            },
            None,
        ));
    }
    Ok(stream)
}

/// Sets the options of a flow on an accepted connection.
///
/// # Errors
/// The option that the kernel refuses, with the reason.
pub fn adopt(stream: &TcpStream, spec: &FlowSpec) -> io::Result<()> {
    let end = match spec.direction {
        Direction::Down => End::Sender,
        Direction::Up | Direction::Both => End::Receiver,
    };
    apply(SockRef::from(stream), stream.peer_addr()?.ip(), spec, end)?;
    look_up_often(stream)
}

/// Checks that a congestion control can be used here.
///
/// # Errors
/// It cannot be used; the message lists those that can.
pub fn check_congestion_control(name: &str) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    set_congestion_control(SockRef::from(&socket), name)
}

/// The congestion control that a socket uses.
pub fn congestion_control(stream: &TcpStream) -> Option<String> {
    let name = SockRef::from(stream).tcp_congestion().ok()?;
    let end = name
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(name.len());
    String::from_utf8(name[..end].to_vec()).ok()
}

/// Makes the kernel discard unsent data when this connection is closed, and reset the peer (RST).
pub fn close_abruptly(stream: &TcpStream) {
    // If the socket refuses, it closes normally, which only takes longer.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Waits until the peer has closed its side.
pub fn linger(mut stream: &TcpStream, patience: Duration, stop: &Stop) -> Parting {
    let until_ns =
        clock::now_ns().saturating_add(i64::try_from(patience.as_nanos()).unwrap_or(i64::MAX));
    loop {
        if stop.is_set() {
            return Parting::Stopped;
        }
        if clock::now_ns() >= until_ns {
            return Parting::Silent;
        }
        match stream.read(&mut [0; 64]) {
            Ok(0) => return Parting::Closed,
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Parting::Broken(error),
        }
    }
}

/// Sets a timeout of 50 ms on reads and writes, so that their thread notices when it shall stop.
///
/// # Errors
/// The errors of the socket.
pub fn look_up_often(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(LOOK_UP))?;
    stream.set_write_timeout(Some(LOOK_UP))
}

fn apply(socket: SockRef<'_>, remote: IpAddr, spec: &FlowSpec, end: End) -> io::Result<()> {
    set_traffic_class(&socket, remote, spec.traffic_class()).map_err(|error| {
        option_error(
            &format!("cannot mark packets with DSCP {}", spec.dscp),
            Some(error),
        )
    })?;
    if let Some(bytes) = spec.send_buffer_bytes {
        socket
            .set_send_buffer_size(bytes as usize)
            .map_err(|error| {
                option_error(
                    &format!("cannot set a send buffer of {bytes} bytes"),
                    Some(error),
                )
            })?;
    }
    if let Some(bytes) = spec.receive_buffer_bytes {
        socket
            .set_recv_buffer_size(bytes as usize)
            .map_err(|error| {
                option_error(
                    &format!("cannot set a receive buffer of {bytes} bytes"),
                    Some(error),
                )
            })?;
    }
    if end == End::Receiver {
        return Ok(());
    }
    if let Some(rate_bps) = spec.pacing_rate_bps {
        set_pacing_rate(socket.as_fd(), rate_bps)?;
    }
    if let Some(name) = &spec.congestion_control {
        set_congestion_control(socket, name)?;
    }
    Ok(())
}

/// Sets IPv4's type of service or IPv6's traffic class; both for a mapped address, which is IPv4 on an IPv6 socket.
fn set_traffic_class(socket: &SockRef<'_>, remote: IpAddr, class: u8) -> io::Result<()> {
    match remote {
        IpAddr::V4(_) => socket.set_tos_v4(u32::from(class)),
        IpAddr::V6(address) => {
            if address.to_ipv4_mapped().is_some() {
                socket.set_tos_v4(u32::from(class))?;
            }
            socket.set_tclass_v6(u32::from(class))
        }
    }
}

fn set_congestion_control(socket: SockRef<'_>, name: &str) -> io::Result<()> {
    socket.set_tcp_congestion(name.as_bytes()).map_err(|error| {
        let list = |file| {
            std::fs::read_to_string(format!("/proc/sys/net/ipv4/{file}")).unwrap_or_default()
        };
        let hint = if error.kind() == io::ErrorKind::PermissionDenied {
            format!(
                "allowed without privileges: {} (net.ipv4.tcp_allowed_congestion_control)",
                list("tcp_allowed_congestion_control").trim()
            )
        } else {
            format!(
                "available: {} (more may come with: modprobe tcp_{name})",
                list("tcp_available_congestion_control").trim()
            )
        };
        option_error(
            &format!("cannot use congestion control {name:?}; {hint}"),
            Some(error),
        )
    })
}

fn set_pacing_rate(socket: BorrowedFd<'_>, rate_bps: f64) -> io::Result<()> {
    let bytes_per_s = (rate_bps / 8.0).clamp(1.0, u64::MAX as f64 / 2.0) as u64;
    setsockopt(&socket, MaxPacingRate, &bytes_per_s).map_err(|error| {
        option_error(
            &format!("cannot pace at {rate_bps} bit/s"),
            Some(error.into()),
        )
    })
}

fn option_error(what: &str, error: Option<io::Error>) -> io::Error {
    match error {
        Some(error) => io::Error::new(error.kind(), format!("{what}: {error}")),
        None => io::Error::new(io::ErrorKind::Unsupported, what.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::flow::Kind;

    #[test]
    fn an_unknown_congestion_control_is_refused_with_those_that_there_are() {
        let message = check_congestion_control("nonesuch")
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("nonesuch") && message.contains("reno"),
            "{message}"
        );
    }

    #[test]
    fn options_hold_on_both_ends_of_both_ip_versions() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let mut spec = FlowSpec::new(1, Kind::Tcp, Direction::Up);
            spec.dscp = 46;
            spec.congestion_control = Some("reno".to_owned());
            spec.pacing_rate_bps = Some(8e6);
            let client = connect(
                listener.local_addr().unwrap(),
                &LocalEnd::default(),
                &spec,
                Duration::from_secs(10),
            )
            .unwrap();
            let (server, _) = listener.accept().unwrap();
            adopt(&server, &spec).unwrap();
            assert_eq!(congestion_control(&client).as_deref(), Some("reno"));
            for stream in [&client, &server] {
                let socket = SockRef::from(stream);
                let class = if address.starts_with('[') {
                    socket.tclass_v6()
                } else {
                    socket.tos_v4()
                };
                assert_eq!(class.unwrap() >> 2, 46);
            }
        }
    }
    #[test]
    fn only_the_sender_needs_the_congestion_control_of_its_flow() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let of = |direction| FlowSpec {
            congestion_control: Some("nonesuch".to_owned()),
            ..FlowSpec::new(1, Kind::Tcp, direction)
        };
        let patience = Duration::from_secs(10);
        let _client = connect(
            address,
            &LocalEnd::default(),
            &of(Direction::Down),
            patience,
        )
        .unwrap();
        let (server, _) = listener.accept().unwrap();
        adopt(&server, &of(Direction::Up)).unwrap();
        assert!(connect(address, &LocalEnd::default(), &of(Direction::Up), patience).is_err());
        assert!(adopt(&server, &of(Direction::Down)).is_err());
    }
}
