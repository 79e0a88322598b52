//! UDP sockets: many datagrams per call, each with the kernel's arrival timestamp and its traffic class.

use std::io::{self, IoSlice, IoSliceMut};
use std::iter;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::sockopt;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SetSockOpt,
    SockaddrStorage, recvmmsg, sendmmsg, sendmsg, setsockopt,
};
use nix::sys::time::TimeValLike;
use socket2::{Domain, Protocol, Socket, Type};

use crate::clock;
use crate::local_end::LocalEnd;

/// The requested buffer size: bursts arrive faster than a thread can wake.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// Opens a UDP socket of this family that reports when each datagram arrived and its traffic class.
pub(crate) fn open(domain: Domain) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    listen_closely(&socket, domain)?;
    set_receive_buffer(&socket, RECEIVE_BUFFER_BYTES);
    Ok(socket)
}

/// Requests timestamps, traffic classes and the count of datagrams that found the socket's buffer full.
pub(crate) fn listen_closely(socket: &Socket, domain: Domain) -> io::Result<()> {
    setsockopt(socket, sockopt::ReceiveTimestampns, &true)?;
    // Old kernels lack it; nothing else depends on it.
    let _ = setsockopt(socket, sockopt::RxqOvfl, &1);
    let ask_of_ipv4 = || {
        setsockopt(socket, sockopt::IpRecvTos, &true)?;
        setsockopt(socket, sockopt::Ipv4PacketInfo, &true)
    };
    if domain == Domain::IPV6 {
        setsockopt(socket, sockopt::Ipv6RecvTClass, &true)?;
        setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?;
        // IPv4 datagrams that arrive at a dual-stack socket carry IPv4 control messages; sockets that serve IPv6 only
        // reject the option.
        let _ = ask_of_ipv4();
        return Ok(());
    }
    Ok(ask_of_ipv4()?)
}

/// Sets the traffic class of all packets from a connected socket.
pub(crate) fn set_traffic_class(socket: &Socket, remote: &SocketAddr, class: u8) -> io::Result<()> {
    match remote {
        SocketAddr::V4(_) => setsockopt(socket, sockopt::Ipv4Tos, &class.into())?,
        SocketAddr::V6(_) => setsockopt(socket, sockopt::Ipv6TClass, &class.into())?,
    }
    Ok(())
}

/// Sets the size of the send buffer; without privileges the kernel's maximum limits it.
pub(crate) fn set_send_buffer(socket: &Socket, bytes: usize) {
    set_buffer(socket, sockopt::SndBufForce, sockopt::SndBuf, bytes);
}

/// Sets the size of the receive buffer in the same manner.
pub(crate) fn set_receive_buffer(socket: &Socket, bytes: usize) {
    set_buffer(socket, sockopt::RcvBufForce, sockopt::RcvBuf, bytes);
}

fn set_buffer(
    socket: &Socket,
    privileged: impl SetSockOpt<Val = usize>,
    ordinary: impl SetSockOpt<Val = usize>,
    bytes: usize,
) {
    // The kernel doubles the requested size for its own needs (socket(7)).
    let bytes = bytes.min(i32::MAX as usize / 2);
    if setsockopt(socket, privileged, &bytes).is_err() {
        let _ = setsockopt(socket, ordinary, &bytes);
    }
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        // Kept as it is: a link-local address is useless without its interface.
        IpAddr::V6(_) => address,
    }
}

/// A datagram that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'a> {
    /// Cut to the room of the inbox.
    pub bytes: &'a [u8],
    /// The bytes that arrived.
    pub length: usize,
    /// `None` if the kernel gave no address.
    pub from: Option<SocketAddr>,
    /// In [`clock::now_ns`]'s time.
    pub received_ns: i64,
    pub traffic_class: Option<u8>,
    /// The local address that it was sent to.
    pub to: Option<IpAddr>,
}

/// A datagram of the last call, without its bytes.
struct Arrival {
    length: usize,
    from: Option<SocketAddr>,
    received_ns: i64,
    traffic_class: Option<u8>,
    to: Option<IpAddr>,
}

impl Arrival {
    /// Reads the kernel's report on a datagram that arrived no earlier than `earliest_ns`; updates the count of
    /// datagrams that found the buffer full.
    fn read(message: &RecvMsg<SockaddrStorage>, earliest_ns: i64, dropped: &mut u32) -> Arrival {
        let mut stamp_ns = None;
        let mut traffic_class = None;
        let mut to = None;
        for control in message.cmsgs().into_iter().flatten() {
            match control {
                ControlMessageOwned::ScmTimestampns(stamp) => {
                    stamp_ns = Some(stamp.num_nanoseconds());
                }
                ControlMessageOwned::RxqOvfl(count) => *dropped = count,
                ControlMessageOwned::Ipv4Tos(class) => traffic_class = Some(class),
                ControlMessageOwned::Ipv6TClass(class) => traffic_class = Some(class as u8),
                // The local address to answer from, which differs from the header's destination for broadcasts.
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    to = Some(IpAddr::from(info.ipi_spec_dst.s_addr.to_ne_bytes()));
                }
                // An IPv4 datagram at a dual-stack socket carries both messages; they agree.
                ControlMessageOwned::Ipv6PacketInfo(info) => {
                    to = Some(IpAddr::from(info.ipi6_addr.s6_addr).to_canonical());
                }
                _ => {}
            }
        }
        Arrival {
            length: message.bytes,
            from: message.address.and_then(address),
            received_ns: arrival_ns(stamp_ns, earliest_ns),
            traffic_class,
            to,
        }
    }
}

/// Buffers for receiving many datagrams per call.
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    each: usize,
    arrived: Vec<Arrival>,
    /// The socket was empty at this time: later datagrams arrived after it, whatever their timestamps are.
    empty_ns: i64,
    dropped: u32,
    /// When the latest datagram arrived.
    latest_ns: i64,
    /// Not yet collected.
    overflows: Vec<Overflow>,
}

/// Datagrams that found the socket's buffer full, between two that did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow {
    pub from_ns: i64,
    pub to_ns: i64,
    pub count: u32,
}

impl Inbox {
    /// Creates buffers for `count` datagrams of `each` bytes; longer ones are cut off.
    pub(crate) fn new(count: usize, each: usize) -> Inbox {
        Inbox {
            bytes: vec![0; count * each],
            each,
            arrived: Vec::with_capacity(count),
            empty_ns: i64::MIN,
            dropped: 0,
            latest_ns: clock::now_ns(),
            overflows: Vec::new(),
        }
    }

    /// Receives datagrams. With `blocks` it waits up to the socket's read timeout; returns true if more may be waiting.
    pub(crate) fn receive(&mut self, socket: &Socket, blocks: bool) -> io::Result<bool> {
        self.arrived.clear();
        let called_ns = clock::now_ns();
        let mut pieces: Vec<[IoSliceMut; 1]> = self
            .bytes
            .chunks_exact_mut(self.each)
            .map(|piece| [IoSliceMut::new(piece)])
            .collect();
        let count = pieces.len();
        // Allocated for each call: the kernel shortens the buffer for control messages to the used part.
        let room = cmsg_space!(
            libc::timespec,
            // Once more for the departure timestamps.
            [libc::timespec; 3],
            u32,
            u8,
            i32,
            libc::in_pktinfo,
            libc::in6_pktinfo
        );
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(count, Some(room));
        // With MSG_TRUNC the kernel returns the length that a datagram had before it was cut off (udp(7)).
        let flags = MsgFlags::MSG_TRUNC
            | match blocks {
                true => MsgFlags::MSG_WAITFORONE,
                false => MsgFlags::MSG_DONTWAIT,
            };
        let messages = match recvmmsg(
            socket.as_raw_fd(),
            &mut headers,
            pieces.iter_mut(),
            flags,
            None,
        ) {
            Ok(messages) => messages,
            Err(Errno::EAGAIN) => {
                self.empty_ns = called_ns;
                return Ok(false);
            }
            Err(Errno::EINTR) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        for message in messages {
            let before = self.dropped;
            let arrival = Arrival::read(&message, self.empty_ns, &mut self.dropped);
            // The kernel stores the count with each datagram that it adds to the buffer.
            let count = self.dropped.wrapping_sub(before);
            if count > 0 {
                self.overflows.push(Overflow {
                    from_ns: self.latest_ns,
                    to_ns: arrival.received_ns,
                    count,
                });
            }
            self.latest_ns = arrival.received_ns;
            self.arrived.push(arrival);
        }
        if self.arrived.len() < count {
            self.empty_ns = called_ns;
            return Ok(false);
        }
        Ok(true)
    }

    /// The datagrams of the last call.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.arrived
            .iter()
            .zip(self.bytes.chunks_exact(self.each))
            .map(|(arrival, bytes)| Datagram {
                bytes: &bytes[..arrival.length.min(self.each)],
                length: arrival.length,
                from: arrival.from,
                received_ns: arrival.received_ns,
                traffic_class: arrival.traffic_class,
                to: arrival.to,
            })
    }

    /// Returns the overflows since the last call.
    pub(crate) fn take_overflows(&mut self) -> Vec<Overflow> {
        std::mem::take(&mut self.overflows)
    }

    /// How many datagrams the kernel has dropped since the socket was opened because its buffer was full.
    pub(crate) fn dropped(&self) -> u32 {
        self.dropped
    }
}

/// Converts the kernel's timestamp to our time. Setting the clock cannot move it before `earliest_ns`.
fn arrival_ns(stamp_ns: Option<i64>, earliest_ns: i64) -> i64 {
    stamp_ns
        .map_or_else(clock::now_ns, clock::of_kernel_stamp_ns)
        .max(earliest_ns)
}

fn address(name: SockaddrStorage) -> Option<SocketAddr> {
    let v4 = name.as_sockaddr_in().map(|&v4| SocketAddr::from(v4));
    v4.or_else(|| name.as_sockaddr_in6().map(|&v6| v6.into()))
        .map(canonical)
}

/// Traffic class and source address of a datagram, as control messages of the peer's family.
#[derive(Clone)]
enum Control {
    V4(u8, Option<libc::in_pktinfo>),
    V6(i32, Option<libc::in6_pktinfo>),
}

impl Control {
    fn new(to: IpAddr, from: Option<IpAddr>, traffic_class: u8) -> Control {
        // Interface 0: chosen by the routes.
        match to {
            IpAddr::V4(_) => {
                let source = match from {
                    Some(IpAddr::V4(from)) => Some(libc::in_pktinfo {
                        ipi_ifindex: 0,
                        ipi_spec_dst: libc::in_addr {
                            s_addr: u32::from_ne_bytes(from.octets()),
                        },
                        ipi_addr: libc::in_addr { s_addr: 0 },
                    }),
                    _ => None,
                };
                Control::V4(traffic_class, source)
            }
            IpAddr::V6(_) => {
                let source = match from {
                    Some(IpAddr::V6(from)) => Some(libc::in6_pktinfo {
                        ipi6_addr: libc::in6_addr {
                            s6_addr: from.octets(),
                        },
                        ipi6_ifindex: 0,
                    }),
                    _ => None,
                };
                Control::V6(traffic_class.into(), source)
            }
        }
    }

    fn messages(&self) -> Vec<ControlMessage<'_>> {
        match self {
            Control::V4(class, source) => iter::once(ControlMessage::Ipv4Tos(class))
                .chain(source.as_ref().map(ControlMessage::Ipv4PacketInfo))
                .collect(),
            Control::V6(class, source) => iter::once(ControlMessage::Ipv6TClass(class))
                .chain(source.as_ref().map(ControlMessage::Ipv6PacketInfo))
                .collect(),
        }
    }

    /// Room for just these messages.
    fn room(&self) -> Vec<u8> {
        match self {
            Control::V4(_, None) => cmsg_space!(u8),
            Control::V4(_, Some(_)) => cmsg_space!(u8, libc::in_pktinfo),
            Control::V6(_, None) => cmsg_space!(i32),
            Control::V6(_, Some(_)) => cmsg_space!(i32, libc::in6_pktinfo),
        }
    }
}

/// Destination, source address and traffic class of outgoing datagrams.
#[derive(Clone, Default)]
pub(crate) struct Envelope {
    to: Option<SockaddrStorage>,
    control: Option<Control>,
}

impl Envelope {
    /// For a connected socket, on which everything is already set.
    pub(crate) fn connected() -> Envelope {
        Envelope::default()
    }

    /// To `to`, from the local address `from`, through an unconnected socket of family `domain`.
    pub(crate) fn new(
        domain: Domain,
        to: SocketAddr,
        from: Option<IpAddr>,
        traffic_class: u8,
    ) -> Envelope {
        let control = Control::new(to.ip(), from, traffic_class);
        let to = match to {
            // A dual-stack socket takes IPv4 addresses mapped into IPv6 (RFC 4291 section 2.5.5.2).
            SocketAddr::V4(v4) if domain == Domain::IPV6 => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            to => to,
        };
        Envelope {
            to: Some(to.into()),
            control: Some(control),
        }
    }

    fn messages(&self) -> Vec<ControlMessage<'_>> {
        self.control
            .as_ref()
            .map_or_else(Vec::new, Control::messages)
    }
}

/// Sends one datagram without waiting.
pub(crate) fn send(socket: &Socket, envelope: &Envelope, bytes: &[u8]) -> io::Result<()> {
    sendmsg(
        socket.as_raw_fd(),
        &[IoSlice::new(bytes)],
        &envelope.messages(),
        MsgFlags::MSG_DONTWAIT,
        envelope.to.as_ref(),
    )?;
    Ok(())
}

/// Datagrams of one size that are sent with one call.
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    each: usize,
}

impl Outbox {
    /// Creates buffers for `count` datagrams of `each` bytes, padded with incompressible bytes.
    pub(crate) fn new(count: usize, each: usize) -> Outbox {
        let mut bytes = vec![0; count * each];
        fill_with_noise(&mut bytes);
        Outbox { bytes, each }
    }

    pub(crate) fn room(&self) -> usize {
        self.bytes.len() / self.each
    }

    pub(crate) fn datagram(&mut self, number: usize) -> &mut [u8] {
        &mut self.bytes[number * self.each..][..self.each]
    }

    /// Sends the datagrams from `first` up to but not including `end`, waiting for room in the socket's buffer; returns
    /// how many were sent. An error refers to the next datagram.
    pub(crate) fn send(
        &self,
        socket: &Socket,
        envelope: &Envelope,
        first: usize,
        end: usize,
    ) -> io::Result<usize> {
        let pieces: Vec<[IoSlice; 1]> = self
            .bytes
            .chunks_exact(self.each)
            .take(end)
            .skip(first)
            .map(|piece| [IoSlice::new(piece)])
            .collect();
        let room = envelope.control.as_ref().map(Control::room);
        let mut headers = MultiHeaders::preallocate(pieces.len(), room);
        let sent = sendmmsg(
            socket.as_raw_fd(),
            &mut headers,
            &pieces,
            vec![envelope.to; pieces.len()],
            envelope.messages(),
            MsgFlags::empty(),
        )?;
        Ok(sent.count())
    }
}

/// Fills `bytes` by xorshift (G. Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003): random
/// enough for a link that compresses.
pub(crate) fn fill_with_noise(bytes: &mut [u8]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ clock::monotonic_ns() as u64 | 1;
    for piece in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        piece.copy_from_slice(&state.to_le_bytes()[..piece.len()]);
    }
}

/// Connects a socket with a read timeout to `remote`: ICMP errors are then reported to it.
pub(crate) fn connect(
    remote: SocketAddr,
    source: &LocalEnd,
    traffic_class: u8,
    read_timeout: Duration,
) -> io::Result<Socket> {
    let remote = canonical(remote);
    let socket = open(Domain::for_address(remote))?;
    set_traffic_class(&socket, &remote, traffic_class)?;
    socket.set_read_timeout(Some(read_timeout))?;
    source.bind(&socket, remote)?;
    socket.connect(&remote.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(address: &str) -> (Socket, SocketAddr) {
        let address: SocketAddr = address.parse().unwrap();
        let socket = open(Domain::for_address(address)).unwrap();
        socket.bind(&address.into()).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(120)))
            .unwrap();
        let local = socket.local_addr().unwrap().as_socket().unwrap();
        (socket, local)
    }

    #[test]
    fn a_datagram_arrives_with_its_stamp_class_and_addresses_over_both_families() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (server, at) = bound(address);
            let client = connect(at, &LocalEnd::default(), 0xb9, Duration::from_secs(120)).unwrap();
            let before_ns = clock::now_ns();
            send(&client, &Envelope::connected(), b"to you").unwrap();
            let mut inbox = Inbox::new(4, 100);
            inbox.receive(&server, true).unwrap();
            let datagram = inbox.datagrams().next().unwrap();
            assert_eq!(datagram.bytes, b"to you");
            assert_eq!(datagram.traffic_class, Some(0xb9));
            assert_eq!(datagram.to, Some(at.ip()));
            assert!((before_ns..=clock::now_ns()).contains(&datagram.received_ns));

            let envelope = Envelope::new(
                Domain::for_address(at),
                datagram.from.unwrap(),
                datagram.to,
                0x2a,
            );
            send(&server, &envelope, b"back").unwrap();
            inbox.receive(&client, true).unwrap();
            let datagram = inbox.datagrams().next().unwrap();
            assert_eq!(
                (datagram.bytes, datagram.traffic_class),
                (&b"back"[..], Some(0x2a))
            );
        }
    }

    #[test]
    fn a_socket_of_both_families_marks_what_it_sends_to_ipv4_peers() {
        let address: SocketAddr = "[::]:0".parse().unwrap();
        let server = open(Domain::IPV6).unwrap();
        server.set_only_v6(false).unwrap();
        server.bind(&address.into()).unwrap();
        server
            .set_read_timeout(Some(Duration::from_secs(120)))
            .unwrap();
        let port = server.local_addr().unwrap().as_socket().unwrap().port();
        let client = connect(
            format!("127.0.0.1:{port}").parse().unwrap(),
            &LocalEnd::default(),
            0x20,
            Duration::from_secs(120),
        )
        .unwrap();
        send(&client, &Envelope::connected(), b"four").unwrap();
        let mut inbox = Inbox::new(1, 100);
        inbox.receive(&server, true).unwrap();
        let datagram = inbox.datagrams().next().unwrap();
        assert_eq!(datagram.traffic_class, Some(0x20));
        assert!(datagram.from.unwrap().is_ipv4());
        assert_eq!(datagram.to, Some("127.0.0.1".parse().unwrap()));
        let envelope = Envelope::new(Domain::IPV6, datagram.from.unwrap(), datagram.to, 0xb8);
        send(&server, &envelope, b"six").unwrap();
        inbox.receive(&client, true).unwrap();
        assert_eq!(inbox.datagrams().next().unwrap().traffic_class, Some(0xb8));
    }

    #[test]
    fn a_datagram_longer_than_its_room_is_cut_off_and_its_length_is_known() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (server, at) = bound(address);
            let client = connect(at, &LocalEnd::default(), 0, Duration::from_secs(120)).unwrap();
            send(&client, &Envelope::connected(), &[7; 500]).unwrap();
            let mut inbox = Inbox::new(2, 64);
            inbox.receive(&server, true).unwrap();
            let datagram = inbox.datagrams().next().unwrap();
            assert_eq!((datagram.bytes, datagram.length), (&[7; 64][..], 500));
        }
    }

    #[test]
    fn many_datagrams_go_with_one_call_and_are_not_alike() {
        let (server, at) = bound("127.0.0.1:0");
        let client = connect(at, &LocalEnd::default(), 0, Duration::from_secs(120)).unwrap();
        let outbox = Outbox::new(10, 200);
        assert_eq!(outbox.room(), 10);
        assert_eq!(
            outbox.send(&client, &Envelope::connected(), 2, 10).unwrap(),
            8
        );
        let mut inbox = Inbox::new(16, 1000);
        let mut seen = std::collections::HashSet::new();
        while seen.len() < 8 {
            inbox.receive(&server, true).unwrap();
            seen.extend(inbox.datagrams().map(|datagram| datagram.bytes.to_vec()));
        }
        assert!(seen.iter().all(|bytes| bytes.len() == 200));
    }

    #[test]
    fn no_stamp_is_taken_to_be_before_the_socket_was_last_empty() {
        let (server, _) = bound("127.0.0.1:0");
        let mut inbox = Inbox::new(1, 100);
        assert!(!inbox.receive(&server, false).unwrap());
        let empty_ns = inbox.empty_ns;
        // The clock was set forward by 5 s between the timestamp and its reading.
        let stamp_ns = clock::now_ns() - 5_000_000_000;
        assert!(arrival_ns(Some(stamp_ns), empty_ns) >= empty_ns);
    }
}
