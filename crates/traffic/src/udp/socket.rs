//! UDP sockets of the kernel: many datagrams a call, each with the kernel's stamp of its arrival and its traffic class.

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};

use crate::clock;
use crate::source::Source;

use super::control::{Control, Told};

/// What a socket asks to buffer: bursts arrive faster than a thread can be woken.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// Opens a UDP socket of this family that tells of each datagram when and how it arrived.
pub(crate) fn open(domain: Domain) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    listen_closely(&socket, domain)?;
    ask_for_buffer(
        &socket,
        libc::SO_RCVBUFFORCE,
        libc::SO_RCVBUF,
        RECEIVE_BUFFER_BYTES,
    );
    Ok(socket)
}

/// Asks the kernel for stamps, traffic classes and the count of what did not fit into the socket's buffer.
pub(crate) fn listen_closely(socket: &Socket, domain: Domain) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    // Old kernels lack it, and nothing else depends on it.
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
    let ask_of_ipv4 = || {
        set(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        set(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)
    };
    if domain == Domain::IPV6 {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
        // IPv4 datagrams that arrive at a UDP socket of both families come with IPv4's messages; other sockets of IPv6
        // know nothing of them.
        let _ = ask_of_ipv4();
        return Ok(());
    }
    ask_of_ipv4()
}

/// Sets the traffic class of everything that a connected socket sends.
pub(crate) fn set_traffic_class(socket: &Socket, remote: &SocketAddr, class: u8) -> io::Result<()> {
    match remote {
        SocketAddr::V4(_) => set(socket, libc::IPPROTO_IP, libc::IP_TOS, class.into()),
        SocketAddr::V6(_) => set(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class.into()),
    }
}

/// Sizes the send buffer as the user wants it; the kernel's maximum holds where we may not exceed it.
pub(crate) fn set_send_buffer(socket: &Socket, bytes: usize) {
    ask_for_buffer(socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes);
}

pub(crate) fn set_receive_buffer(socket: &Socket, bytes: usize) {
    ask_for_buffer(socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes);
}

fn ask_for_buffer(socket: &Socket, force: i32, ask: i32, bytes: usize) {
    // The kernel doubles what it is asked for, for its own needs (socket(7)).
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX / 2);
    if set(socket, libc::SOL_SOCKET, force, bytes).is_err() {
        let _ = set(socket, libc::SOL_SOCKET, ask, bytes);
    }
}

fn set(socket: &Socket, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer is to an int that outlives the call, and the length is its own.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            mem::size_of::<i32>() as libc::socklen_t,
        )
    };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// An IPv4 address that was written as an IPv6 one is an IPv4 address.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        // As it is: a link-local address is nothing without its interface.
        IpAddr::V6(_) => address,
    }
}

/// A datagram that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'a> {
    pub bytes: &'a [u8],
    /// `None` where the kernel gave no address.
    pub from: Option<SocketAddr>,
    /// In [`clock::now_ns`]'s time.
    pub received_ns: i64,
    pub traffic_class: Option<u8>,
    /// Which of this host's addresses it was sent to.
    pub to: Option<IpAddr>,
}

/// Room for datagrams, many a call.
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    each: usize,
    names: Vec<libc::sockaddr_storage>,
    controls: Vec<Control>,
    /// Of the datagrams that the last call brought: length, length of the name, what the kernel told.
    arrived: Vec<(usize, libc::socklen_t, Told, i64)>,
    /// The socket held nothing at this time: whatever arrives is later, whatever its stamp says.
    empty_ns: i64,
    dropped: u32,
}

impl Inbox {
    /// Room for `count` datagrams of `each` bytes; of longer ones, the rest is cut off.
    pub(crate) fn new(count: usize, each: usize) -> Inbox {
        Inbox {
            bytes: vec![0; count * each],
            each,
            // SAFETY: all zeros is a valid sockaddr_storage, of no family.
            names: vec![unsafe { mem::zeroed() }; count],
            controls: (0..count).map(|_| Control::default()).collect(),
            arrived: Vec::with_capacity(count),
            empty_ns: i64::MIN,
            dropped: 0,
        }
    }

    /// Takes what has arrived. Blocks for the socket's read timeout with `blocks`; true where more may be waiting.
    pub(crate) fn receive(&mut self, socket: &Socket, blocks: bool) -> io::Result<bool> {
        self.arrived.clear();
        let called_ns = clock::now_ns();
        let count = self.names.len();
        let mut pieces: Vec<libc::iovec> = self
            .bytes
            .chunks_exact_mut(self.each)
            .map(|piece| libc::iovec {
                iov_base: piece.as_mut_ptr().cast(),
                iov_len: piece.len(),
            })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = Vec::with_capacity(count);
        for ((name, control), piece) in self
            .names
            .iter_mut()
            .zip(&mut self.controls)
            .zip(&mut pieces)
        {
            // SAFETY: all zeros is a valid mmsghdr.
            let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
            message.msg_hdr.msg_name = (&raw mut *name).cast();
            message.msg_hdr.msg_namelen = mem::size_of_val(name) as libc::socklen_t;
            message.msg_hdr.msg_iov = piece;
            message.msg_hdr.msg_iovlen = 1;
            (message.msg_hdr.msg_control, message.msg_hdr.msg_controllen) = control.room();
            messages.push(message);
        }
        let flags = if blocks {
            libc::MSG_WAITFORONE
        } else {
            libc::MSG_DONTWAIT
        };
        // SAFETY: every pointer in `messages` is to memory of this inbox that outlives the call, with its own length.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                count as libc::c_uint,
                flags,
                std::ptr::null_mut(),
            )
        };
        if received < 0 {
            return match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => {
                    self.empty_ns = called_ns;
                    Ok(false)
                }
                error if error.kind() == io::ErrorKind::Interrupted => Ok(true),
                error => Err(error),
            };
        }
        for (message, control) in messages.iter().zip(&self.controls).take(received as usize) {
            let told = control.told(message.msg_hdr.msg_controllen);
            self.dropped = told.dropped.unwrap_or(self.dropped);
            let received_ns = self.stamp(told.stamp_ns);
            let length = (message.msg_len as usize).min(self.each);
            self.arrived
                .push((length, message.msg_hdr.msg_namelen, told, received_ns));
        }
        if (received as usize) < count {
            self.empty_ns = called_ns;
            return Ok(false);
        }
        Ok(true)
    }

    /// The kernel's stamp in our time; no clock that is set can move it before what is known to be earlier.
    fn stamp(&self, stamp_ns: Option<i64>) -> i64 {
        stamp_ns
            .map_or_else(clock::now_ns, clock::of_kernel_stamp_ns)
            .max(self.empty_ns)
    }

    /// What the last call brought.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.arrived
            .iter()
            .enumerate()
            .map(|(number, (length, name_bytes, told, received_ns))| {
                let from = number * self.each;
                Datagram {
                    bytes: &self.bytes[from..from + length],
                    from: address(&self.names[number], *name_bytes),
                    received_ns: *received_ns,
                    traffic_class: told.traffic_class,
                    to: told.to,
                }
            })
    }

    /// How many datagrams the kernel threw away since the socket was opened because its buffer was full.
    pub(crate) fn dropped(&self) -> u32 {
        self.dropped
    }
}

fn address(name: &libc::sockaddr_storage, bytes: libc::socklen_t) -> Option<SocketAddr> {
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: the kernel has written an address of `bytes` bytes, or left the zeros that say "no family".
    let address = unsafe {
        *storage.view_as::<libc::sockaddr_storage>() = *name;
        SockAddr::new(storage, bytes)
    };
    address.as_socket().map(canonical)
}

/// To whom, from where, and how datagrams are sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Envelope {
    to: Option<SockAddr>,
    control: Control,
}

impl Envelope {
    /// For a connected socket: everything is set on it.
    pub(crate) fn connected() -> Envelope {
        Envelope::default()
    }

    /// To `to`, from this host's address `from`, through a socket of family `domain` that is not connected.
    pub(crate) fn new(
        domain: Domain,
        to: SocketAddr,
        from: Option<IpAddr>,
        traffic_class: u8,
    ) -> Envelope {
        let mut control = Control::default();
        control.say(to.ip(), from, traffic_class);
        let to = match to {
            // A socket of both families takes IPv4 addresses in IPv6's clothes.
            SocketAddr::V4(v4) if domain == Domain::IPV6 => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            to => to,
        };
        Envelope {
            to: Some(to.into()),
            control,
        }
    }

    fn address(&self, message: &mut libc::msghdr) {
        if let Some(to) = &self.to {
            // The kernel does not write to the address of a message that is sent.
            message.msg_name = to.as_ptr().cast_mut().cast();
            message.msg_namelen = to.len();
        }
        (message.msg_control, message.msg_controllen) = self.control.said();
    }
}

/// Sends one datagram now or not at all.
pub(crate) fn send(socket: &Socket, envelope: &Envelope, bytes: &[u8]) -> io::Result<()> {
    let mut piece = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: all zeros is a valid msghdr.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &mut piece;
    message.msg_iovlen = 1;
    envelope.address(&mut message);
    // SAFETY: everything that `message` points to outlives the call and is only read.
    if unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_DONTWAIT) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Datagrams of one size that are sent with one call.
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    each: usize,
}

impl Outbox {
    /// Room for `count` datagrams of `each` bytes, padded with what no link can compress.
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

    /// Sends the datagrams from `first` on to before `end`, waiting for room in the socket's buffer; returns how many
    /// went. An error means that the next one could not be sent.
    pub(crate) fn send(
        &self,
        socket: &Socket,
        envelope: &Envelope,
        first: usize,
        end: usize,
    ) -> io::Result<usize> {
        let mut pieces: Vec<libc::iovec> = self
            .bytes
            .chunks_exact(self.each)
            .take(end)
            .skip(first)
            .map(|piece| libc::iovec {
                iov_base: piece.as_ptr().cast_mut().cast(),
                iov_len: piece.len(),
            })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = pieces
            .iter_mut()
            .map(|piece| {
                // SAFETY: all zeros is a valid mmsghdr.
                let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
                message.msg_hdr.msg_iov = piece;
                message.msg_hdr.msg_iovlen = 1;
                envelope.address(&mut message.msg_hdr);
                message
            })
            .collect();
        // SAFETY: everything that `messages` points to outlives the call and is only read.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as libc::c_uint,
                0,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(sent as usize)
    }
}

/// Fills `bytes` by xorshift (G. Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003): it only has
/// to look random to a link that compresses.
pub(crate) fn fill_with_noise(bytes: &mut [u8]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ clock::monotonic_ns() as u64 | 1;
    for piece in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        piece.copy_from_slice(&state.to_le_bytes()[..piece.len()]);
    }
}

/// A socket towards `remote` alone, with a read timeout: ICMP errors then come back to it.
pub(crate) fn connect(
    remote: SocketAddr,
    source: &Source,
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
            let client = connect(at, &Source::default(), 0xb9, Duration::from_secs(120)).unwrap();
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
            &Source::default(),
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
    fn many_datagrams_go_with_one_call_and_are_not_alike() {
        let (server, at) = bound("127.0.0.1:0");
        let client = connect(at, &Source::default(), 0, Duration::from_secs(120)).unwrap();
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
        // Somebody set the clock forward by 5 s between the stamp and the look at it.
        let stamp_ns = clock::now_ns() - 5_000_000_000;
        assert!(inbox.stamp(Some(stamp_ns)) >= empty_ns);
    }
}
