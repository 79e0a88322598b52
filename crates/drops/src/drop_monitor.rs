//! The kernel's drop monitor (`net/core/drop_monitor.c`), a generic netlink family that sends a message for every
//! dropped packet.
//!
//! It reports all network namespaces of the machine, and packets dropped by a switch's hardware, which no tracepoint
//! does. One program at a time can use it, and a program that is killed leaves it running. Layouts:
//! `include/uapi/linux/{genetlink,net_dropmon}.h`.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use whydrop_sockets::attributes::{Attributes, aligned, put, u16_at, u32_at, u64_at};

/// Bytes of each packet that are reported: the Ethernet header and the headers that programs examine.
const TOLD: u32 = 128;
/// Packets that may wait in the kernel, per processor.
const WAITING: u32 = 4096;
/// Room for waiting messages.
const ROOM: libc::c_int = 8 << 20;
const PATIENCE_S: i64 = 5;

const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
const ERROR: u16 = 2;
const REQUEST: u16 = 1;
const ACKNOWLEDGED: u16 = 4;

/// The family that describes the others.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
mod control {
    pub const FAMILY_ID: u16 = 1;
    pub const FAMILY_NAME: u16 = 2;
    pub const GROUPS: u16 = 7;
    pub const GROUP_NAME: u16 = 1;
    pub const GROUP_ID: u16 = 2;
}

const CONFIG: u8 = 2;
const START: u8 = 3;
const STOP: u8 = 4;
const PACKET: u8 = 5;
const GET_STATISTICS: u8 = 8;
const STATISTICS: u8 = 9;
const MODE_PACKET: u8 = 1;
mod attribute {
    pub const ALERT_MODE: u16 = 1;
    pub const PLACE: u16 = 2;
    pub const IN_PORT: u16 = 4;
    pub const PROTOCOL: u16 = 6;
    pub const PAYLOAD: u16 = 7;
    pub const TRUNCATED_TO: u16 = 9;
    pub const LENGTH: u16 = 10;
    pub const QUEUE_LENGTH: u16 = 11;
    pub const STATISTICS: u16 = 12;
    pub const HARDWARE_STATISTICS: u16 = 13;
    pub const TRAP: u16 = 16;
    pub const OF_SOFTWARE: u16 = 20;
    pub const OF_HARDWARE: u16 = 21;
    pub const REASON: u16 = 23;
}
const PORT_INDEX: u16 = 0;
const DROPPED: u16 = 0;

/// A dropped packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alert<'a> {
    pub reason: &'a str,
    /// An address in the function that dropped it; 0: the hardware did.
    pub place: u64,
    pub ethertype: u16,
    pub length: u32,
    /// The interface, in any network namespace; 0: unknown.
    pub interface: u32,
    /// From the network layer header on; empty if that was not found.
    pub headers: &'a [u8],
}

/// The contents of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    Packet(Alert<'a>),
    /// Packets for which the monitor had no room, since it was loaded.
    Lost(u64),
    Answer(i32),
    Family(Family),
}

/// A family of generic netlink: its number, and its multicast groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Family {
    number: u16,
    groups: HashMap<String, u32>,
}

/// The monitor, running from `open` until this is dropped.
#[derive(Debug)]
pub struct DropMonitor {
    socket: OwnedFd,
    family: u16,
    buffer: Vec<u8>,
    /// The monitor's losses before we started, and now.
    lost: Option<(u64, u64)>,
}

impl DropMonitor {
    /// Starts the monitor.
    ///
    /// # Errors
    /// `ENOENT` if the kernel has none, `EPERM` without `CAP_NET_ADMIN`, `EBUSY` if another program uses it.
    pub fn open() -> io::Result<DropMonitor> {
        let mut monitor = DropMonitor {
            socket: socket_of_first_namespace()?,
            family: CONTROL,
            buffer: vec![0; 1 << 16],
            lost: None,
        };
        let family = monitor.find()?;
        let group = *family
            .groups
            .get("events")
            .ok_or(io::ErrorKind::Unsupported)?;
        monitor.family = family.number;
        let mut settings = Vec::new();
        put(&mut settings, attribute::ALERT_MODE, &[MODE_PACKET]);
        put(&mut settings, attribute::TRUNCATED_TO, &TOLD.to_ne_bytes());
        put(
            &mut settings,
            attribute::QUEUE_LENGTH,
            &WAITING.to_ne_bytes(),
        );
        let mut configured = monitor.ask(CONFIG, &settings).map_err(in_use);
        if is_in_use(&configured) && is_left_over(group) {
            let _ = monitor.ask(STOP, &of_both());
            configured = monitor.ask(CONFIG, &settings).map_err(in_use);
        }
        configured?;
        join(&monitor.socket, group)?;
        monitor.ask(START, &of_both()).map_err(in_use)?;
        monitor.ask_statistics()?;
        Ok(monitor)
    }

    pub fn descriptor(&self) -> &OwnedFd {
        &self.socket
    }

    /// Calls `each` for every reported packet, from at most `most` messages; returns how many more are known to be
    /// lost.
    pub fn read(&mut self, most: usize, mut each: impl FnMut(&Alert<'_>)) -> u64 {
        let mut unheard = 0;
        for _ in 0..most {
            let length = match receive(&self.socket, &mut self.buffer, libc::MSG_DONTWAIT) {
                Ok(length) => length,
                // The kernel does not count messages that find no room in the socket: at least one.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    unheard += 1;
                    continue;
                }
                Err(_) => break,
            };
            for message in messages(&self.buffer[..length], self.family) {
                match message {
                    Message::Packet(alert) => each(&alert),
                    Message::Lost(count) => {
                        let (first, before) = self.lost.unwrap_or((count, count));
                        unheard += count.saturating_sub(before);
                        self.lost = Some((first, count));
                    }
                    Message::Answer(_) | Message::Family(_) => {}
                }
            }
        }
        unheard
    }

    /// Requests the monitor's count of losses; the answer arrives through [`DropMonitor::read`].
    ///
    /// # Errors
    /// The errors of send(2).
    pub fn ask_statistics(&self) -> io::Result<()> {
        send(
            &self.socket,
            &request(self.family, GET_STATISTICS, REQUEST, &[]),
        )
    }

    fn find(&mut self) -> io::Result<Family> {
        let mut name = Vec::new();
        put(&mut name, control::FAMILY_NAME, b"NET_DM\0");
        send(&self.socket, &request(CONTROL, GET_FAMILY, REQUEST, &name))?;
        loop {
            let length = receive(&self.socket, &mut self.buffer, 0)?;
            for message in messages(&self.buffer[..length], CONTROL) {
                match message {
                    Message::Family(family) => return Ok(family),
                    Message::Answer(errno) if errno != 0 => {
                        return Err(io::Error::from_raw_os_error(errno));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Sends a command, and waits until it is done.
    fn ask(&mut self, command: u8, attributes: &[u8]) -> io::Result<()> {
        let flags = REQUEST | ACKNOWLEDGED;
        send(
            &self.socket,
            &request(self.family, command, flags, attributes),
        )?;
        loop {
            let length = receive(&self.socket, &mut self.buffer, 0)?;
            for message in messages(&self.buffer[..length], self.family) {
                match message {
                    Message::Answer(0) => return Ok(()),
                    Message::Answer(errno) => return Err(io::Error::from_raw_os_error(errno)),
                    _ => {}
                }
            }
        }
    }
}

impl Drop for DropMonitor {
    fn drop(&mut self) {
        // Without this, the monitor would continue to run.
        let _ = send(
            &self.socket,
            &request(self.family, STOP, REQUEST, &of_both()),
        );
    }
}

/// Attributes that select software and hardware drops.
fn of_both() -> Vec<u8> {
    let mut both = Vec::new();
    put(&mut both, attribute::OF_SOFTWARE, &[]);
    put(&mut both, attribute::OF_HARDWARE, &[]);
    both
}

fn is_in_use(asked: &io::Result<()>) -> bool {
    asked
        .as_ref()
        .is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
}

/// True if the running monitor has no listener, because the program that started it was killed. Programs listen before
/// they start it.
fn is_left_over(group: u32) -> bool {
    std::fs::read_to_string("/proc/1/net/netlink")
        .is_ok_and(|sockets| has_no_listener(&sockets, group))
}

/// The same, for a list of the kernel's netlink sockets as in `/proc/net/netlink`: protocol, number, groups (one bit
/// each, of the first 32). Unreadable lines count as listeners.
fn has_no_listener(sockets: &str, group: u32) -> bool {
    let Some(bit) = group
        .checked_sub(1)
        .and_then(|place| 1_u32.checked_shl(place))
    else {
        return false;
    };
    let listens = |line: &str| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let numbers = fields.get(1).and_then(|field| field.parse::<i32>().ok());
        let groups = fields
            .get(3)
            .and_then(|field| u32::from_str_radix(field, 16).ok());
        numbers
            .zip(groups)
            .is_none_or(|(protocol, groups)| protocol == libc::NETLINK_GENERIC && groups & bit != 0)
    };
    let mut lines = sockets.lines();
    lines
        .next()
        .is_some_and(|heading| heading.contains("Groups"))
        && !lines.any(listens)
}

fn in_use(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        // It is running already.
        Some(libc::EBUSY | libc::EAGAIN) => io::Error::from_raw_os_error(libc::EBUSY),
        _ => error,
    }
}

/// Opens a socket in the first process's network namespace, if permitted: the monitor exists there only.
fn socket_of_first_namespace() -> io::Result<OwnedFd> {
    // In a separate thread, which keeps the change of namespace to itself.
    let opened = std::thread::spawn(|| {
        if let Ok(first) = std::fs::File::open("/proc/1/ns/net") {
            // SAFETY: takes a descriptor, and affects this thread only. On failure the namespace stays as it is.
            unsafe { libc::setns(first.as_raw_fd(), libc::CLONE_NEWNET) };
        }
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: takes numbers only.
        let number = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_GENERIC) };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just created this descriptor for us.
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    })
    .join()
    .expect("opening a socket does not panic")?;
    let patience = libc::timeval {
        tv_sec: PATIENCE_S,
        tv_usec: 0,
    };
    set(&opened, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &patience)?;
    // Exceeding the system's limit needs privileges; without them there is less room.
    let _ = set(&opened, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &ROOM);
    Ok(opened)
}

fn join(socket: &OwnedFd, group: u32) -> io::Result<()> {
    const ADD_MEMBERSHIP: libc::c_int = 1;
    set(socket, libc::SOL_NETLINK, ADD_MEMBERSHIP, &group)
}

fn set<T>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads this many bytes of `value`.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if done < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads this many bytes.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn receive(socket: &OwnedFd, buffer: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: the kernel writes at most this many bytes.
    let length = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            flags,
        )
    };
    usize::try_from(length).map_err(|_| io::Error::last_os_error())
}

fn request(family: u16, command: u8, flags: u16, attributes: &[u8]) -> Vec<u8> {
    let length = HEADER + GENERIC_HEADER + attributes.len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(family.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend(attributes);
    bytes
}

/// The known messages of a datagram; ends at an invalid length.
pub fn messages(datagram: &[u8], family: u16) -> impl Iterator<Item = Message<'_>> {
    let mut left = datagram;
    std::iter::from_fn(move || {
        loop {
            let length = u32_at(left, 0)? as usize;
            let kind = u16_at(left, 4)?;
            let payload = left.get(HEADER..length)?;
            left = left.get(aligned(length)..).unwrap_or_default();
            if let Some(message) = message(kind, family, payload) {
                return Some(message);
            }
        }
    })
}

fn message(kind: u16, family: u16, payload: &[u8]) -> Option<Message<'_>> {
    if kind == ERROR {
        return Some(Message::Answer((u32_at(payload, 0)? as i32).wrapping_neg()));
    }
    let (command, rest) = (*payload.first()?, payload.get(GENERIC_HEADER..)?);
    if kind != family {
        return None;
    }
    match command {
        _ if kind == CONTROL => Some(Message::Family(family_of(rest))),
        PACKET => Some(Message::Packet(alert(rest))),
        STATISTICS => {
            let parts = Attributes::new(rest).filter(|(kind, _)| {
                matches!(
                    *kind,
                    attribute::STATISTICS | attribute::HARDWARE_STATISTICS
                )
            });
            let dropped = parts.flat_map(|(_, nested)| Attributes::new(nested));
            let dropped = dropped.filter(|(kind, _)| *kind == DROPPED);
            let counts = dropped.filter_map(|(_, value)| u64_at(value, 0));
            Some(Message::Lost(counts.fold(0, u64::saturating_add)))
        }
        _ => None,
    }
}

fn family_of(bytes: &[u8]) -> Family {
    let mut found = Family::default();
    for (kind, value) in Attributes::new(bytes) {
        match kind {
            control::FAMILY_ID => found.number = u16_at(value, 0).unwrap_or(0),
            control::GROUPS => {
                for (_, group) in Attributes::new(value) {
                    let (mut name, mut number) = (None, None);
                    for (kind, value) in Attributes::new(group) {
                        match kind {
                            control::GROUP_NAME => name = Some(text(value).to_owned()),
                            control::GROUP_ID => number = u32_at(value, 0),
                            _ => {}
                        }
                    }
                    found.groups.extend(name.zip(number));
                }
            }
            _ => {}
        }
    }
    found
}

fn alert(bytes: &[u8]) -> Alert<'_> {
    let mut found = Alert::default();
    let mut frame: &[u8] = &[];
    for (kind, value) in Attributes::new(bytes) {
        match kind {
            attribute::PLACE => found.place = u64_at(value, 0).unwrap_or(0),
            // Hardware traps have names of their own.
            attribute::REASON | attribute::TRAP => found.reason = text(value),
            attribute::PROTOCOL => found.ethertype = u16_at(value, 0).unwrap_or(0),
            attribute::LENGTH => found.length = u32_at(value, 0).unwrap_or(0),
            attribute::PAYLOAD => frame = value,
            attribute::IN_PORT => {
                let port = Attributes::new(value).find(|(kind, _)| *kind == PORT_INDEX);
                found.interface = port.and_then(|(_, index)| u32_at(index, 0)).unwrap_or(0);
            }
            _ => {}
        }
    }
    found.headers = network_layer(frame, found.ethertype);
    found
}

/// Finds the network layer header: behind the Ethernet header, with or without a VLAN tag, or at the start, for a
/// packet without a link header. The bytes must look like such a header.
fn network_layer(frame: &[u8], ethertype: u16) -> &[u8] {
    for at in [14, 18, 0] {
        let Some(bytes) = frame.get(at..).filter(|bytes| bytes.len() >= 20) else {
            continue;
        };
        let is_it = match ethertype {
            0x0800 => bytes[0] >> 4 == 4 && sum_is_right(bytes),
            // Version 6 and a known next header; in an Ethernet frame, also the frame's type.
            0x86dd => bytes[0] >> 4 == 6 && (at == 0 || frame[at - 2..at] == [0x86, 0xdd]),
            _ => false,
        };
        if is_it {
            return bytes;
        }
    }
    &[]
}

/// True if the checksum of an IPv4 header is correct (RFC 1071).
fn sum_is_right(bytes: &[u8]) -> bool {
    let length = usize::from(bytes[0] & 0xf) * 4;
    let Some(header) = bytes.get(..length).filter(|header| header.len() >= 20) else {
        return false;
    };
    let words = header.chunks_exact(2);
    let sum: u32 = words
        .map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])))
        .sum();
    (sum & 0xffff) + (sum >> 16) == 0xffff
}

fn text(bytes: &[u8]) -> &str {
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    std::str::from_utf8(&bytes[..end]).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use whydrop_testkit::{Ipv4, Udp};

    use super::*;

    const FAMILY: u16 = 0x1c;

    fn packet() -> Vec<u8> {
        let datagram = Udp {
            ports: (5000, 53),
            ..Udp::default()
        };
        Ipv4 {
            source: [192, 0, 2, 1],
            destination: [198, 51, 100, 7],
            protocol: 17,
            is_summed: true,
            ..Ipv4::default()
        }
        .bytes(&datagram.bytes())
    }

    fn alert(frame: &[u8]) -> Vec<u8> {
        let mut attributes = Vec::new();
        put(
            &mut attributes,
            attribute::PLACE,
            &0xffff_ffff_8123_4567_u64.to_ne_bytes(),
        );
        put(&mut attributes, attribute::REASON, b"NETFILTER_DROP\0");
        put(
            &mut attributes,
            attribute::PROTOCOL,
            &0x0800_u16.to_ne_bytes(),
        );
        put(&mut attributes, attribute::LENGTH, &42_u32.to_ne_bytes());
        put(&mut attributes, attribute::PAYLOAD, frame);
        let mut port = Vec::new();
        put(&mut port, PORT_INDEX, &3_u32.to_ne_bytes());
        put(&mut attributes, attribute::IN_PORT, &port);
        request(FAMILY, PACKET, 0, &attributes)
    }

    #[test]
    fn a_monitor_is_left_over_where_no_socket_listens_to_its_group() {
        let heading = "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n";
        let kernels = "0000000000000000 16  0          00000000 0        0        0     2        0        7\n";
        let routes = "0000000000000000 0   812        00000001 0        0        0     2        0        9\n";
        let listener = "0000000000000000 16  813        80000001 0        0        0     2        0        9\n";
        let unused = format!("{heading}{kernels}{routes}");
        assert!(has_no_listener(&unused, 1));
        assert!(!has_no_listener(&format!("{unused}{listener}"), 1));
        assert!(has_no_listener(&format!("{unused}{listener}"), 2));
        // A listener that cannot be seen may exist.
        assert!(!has_no_listener(&unused, 33) && !has_no_listener(&unused, 0));
        assert!(!has_no_listener("", 1) && !has_no_listener(&format!("{unused}?"), 1));
    }

    #[test]
    fn a_packet_is_read_with_its_headers_behind_ethernet_s_or_at_once() {
        let ethernet = [&[2; 12][..], &[8, 0], &packet()].concat();
        for frame in [ethernet, packet()] {
            let datagram = alert(&frame);
            let found: Vec<_> = messages(&datagram, FAMILY).collect();
            let [Message::Packet(alert)] = &found[..] else {
                panic!("{found:?}");
            };
            assert_eq!(
                (alert.reason, alert.interface, alert.length),
                ("NETFILTER_DROP", 3, 42)
            );
            assert_eq!(alert.place, 0xffff_ffff_8123_4567);
            assert_eq!(alert.headers, packet());
        }
        // A damaged header is not accepted at any position.
        let mut damaged = packet();
        damaged[8] ^= 1;
        assert!(network_layer(&damaged, 0x0800).is_empty());
    }

    #[test]
    fn losses_of_software_and_hardware_are_added() {
        // no more than the largest number, whatever the kernel counts
        for (software, lost) in [(5, 7), (u64::MAX, u64::MAX)] {
            let mut statistics = Vec::new();
            for (kind, count) in [
                (attribute::STATISTICS, software),
                (attribute::HARDWARE_STATISTICS, 2),
            ] {
                let mut nested = Vec::new();
                put(&mut nested, DROPPED, &count.to_ne_bytes());
                put(&mut statistics, kind, &nested);
            }
            let datagram = request(FAMILY, STATISTICS, 0, &statistics);
            let found: Vec<_> = messages(&datagram, FAMILY).collect();
            assert_eq!(found, [Message::Lost(lost)]);
        }
    }

    #[test]
    fn the_family_is_read_with_its_group() {
        let mut group = Vec::new();
        put(&mut group, control::GROUP_ID, &9_u32.to_ne_bytes());
        put(&mut group, control::GROUP_NAME, b"events\0");
        let mut groups = Vec::new();
        put(&mut groups, 1, &group);
        let mut family = Vec::new();
        put(&mut family, control::FAMILY_ID, &FAMILY.to_ne_bytes());
        put(&mut family, control::GROUPS, &groups);
        let datagram = request(CONTROL, 1, 0, &family);
        let [Message::Family(found)] = &messages(&datagram, CONTROL).collect::<Vec<_>>()[..] else {
            panic!("no family");
        };
        assert_eq!((found.number, found.groups["events"]), (FAMILY, 9));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, at in 0_usize..200, other: u8) {
            messages(&bytes, FAMILY).count();
            let mut datagram = alert(&packet());
            let place = at % datagram.len();
            datagram[place] = other;
            messages(&datagram, FAMILY).count();
        }
    }
}
