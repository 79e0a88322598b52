//! Links, addresses, routes, queueing disciplines and classes as the kernel describes them (rtnetlink(7)), and the
//! answers of generic netlink.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt,
};
use whydrop_sockets::attributes::{Attributes, aligned, put, u16_at, u32_at};

/// linux/rtnetlink.h
const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;
const GET_ROUTE: u16 = 26;
const GET_QDISC: u16 = 38;
const GET_CLASS: u16 = 42;

/// linux/netlink.h
const REQUEST_AND_ACKNOWLEDGE: u16 = 0x5;
const REQUEST_DUMP: u16 = 0x301;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const HEADER: usize = 16;
const LINK_HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;
const ROUTE_HEADER: usize = 12;
const TRAFFIC_HEADER: usize = 20;

const LINK_NAME: u16 = 3;
mod address {
    pub const ADDRESS: u16 = 1;
    pub const LOCAL: u16 = 2;
}
mod route {
    pub const DESTINATION: u16 = 1;
    pub const INTERFACE: u16 = 4;
    pub const GATEWAY: u16 = 5;
    pub const SOURCE: u16 = 7;
    pub const METRICS: u16 = 8;
    pub const METRIC_MTU: u16 = 2;
    pub const MAIN_TABLE: u8 = 254;
    pub const UNICAST: u8 = 1;
}
const KIND: u16 = 1;

const ROOT: u32 = 0xFFFF_FFFF;
const INGRESS: u32 = 0xFFFF_FFF1;

/// The kernel answers immediately.
const PATIENCE: Duration = Duration::from_secs(2);
const ROOM: usize = 1 << 18;

/// Attributes by type; of several of one type the last.
pub type ByType<'a> = BTreeMap<u16, &'a [u8]>;

pub fn by_type(bytes: &[u8]) -> ByType<'_> {
    Attributes::new(bytes).collect()
}

/// An interface: its index, its name, and the attributes of its message.
pub struct Link {
    pub index: u32,
    pub name: String,
    pub attributes: Vec<u8>,
}

/// A route, as far as it is read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Route {
    pub interface: Option<u32>,
    pub gateway: Option<IpAddr>,
    pub source: Option<IpAddr>,
    pub path_mtu_bytes: Option<u64>,
}

/// A queueing discipline or a class.
#[derive(Debug)]
pub struct TrafficObject {
    pub interface: u32,
    pub handle: u32,
    pub parent: u32,
    pub attributes: Vec<u8>,
}

impl TrafficObject {
    pub fn parse(payload: &[u8]) -> Option<TrafficObject> {
        Some(TrafficObject {
            interface: u32_at(payload, 4)?,
            handle: u32_at(payload, 8)?,
            parent: u32_at(payload, 12)?,
            attributes: payload.get(TRAFFIC_HEADER..)?.to_vec(),
        })
    }

    /// Its name, such as `fq_codel`.
    pub fn kind(&self) -> String {
        text(
            by_type(&self.attributes)
                .get(&KIND)
                .copied()
                .unwrap_or_default(),
        )
    }
}

/// A socket to ask the kernel, of the network namespace of the thread that opens it.
pub struct Netlink {
    descriptor: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens a socket; without a protocol, that of rtnetlink.
    ///
    /// # Errors
    /// Such sockets are not permitted, or no descriptors are left.
    pub fn open(protocol: Option<Protocol>) -> io::Result<Netlink> {
        let flags = SocketFlags::CLOEXEC;
        let descriptor =
            net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        sockopt::set_socket_timeout(&descriptor, sockopt::Timeout::Recv, Some(PATIENCE))?;
        Ok(Netlink {
            descriptor,
            sequence: 0,
            buffer: vec![0; ROOM],
        })
    }

    /// Lists all interfaces.
    ///
    /// # Errors
    /// The kernel does not answer; likewise below.
    pub fn links(&mut self) -> io::Result<Vec<Link>> {
        let messages = self.dump(GET_LINK, &[0; LINK_HEADER])?;
        let link = |payload: &Vec<u8>| {
            let attributes = payload.get(LINK_HEADER..)?.to_vec();
            let name = text(
                by_type(&attributes)
                    .get(&LINK_NAME)
                    .copied()
                    .unwrap_or_default(),
            );
            Some(Link {
                index: u32_at(payload, 4)?,
                name,
                attributes,
            })
        };
        Ok(messages.iter().filter_map(link).collect())
    }

    /// Lists all addresses as (index of the interface, address, length of the prefix).
    pub fn addresses(&mut self) -> io::Result<Vec<(u32, IpAddr, u8)>> {
        let messages = self.dump(GET_ADDRESS, &[0; ADDRESS_HEADER])?;
        let found = |payload: &Vec<u8>| {
            let own = by_type(payload.get(ADDRESS_HEADER..)?);
            // On a point-to-point link ADDRESS is that of the other end.
            let bytes = own
                .get(&address::LOCAL)
                .or_else(|| own.get(&address::ADDRESS))?;
            Some((u32_at(payload, 4)?, ip_address(bytes)?, *payload.get(1)?))
        };
        Ok(messages.iter().filter_map(found).collect())
    }

    /// Lists the default routes of the main table, of IPv4 first.
    pub fn default_routes(&mut self) -> io::Result<Vec<Route>> {
        let mut found = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut body = [0; ROUTE_HEADER];
            body[0] = family as u8;
            let messages = self.dump(GET_ROUTE, &body)?;
            found.extend(
                messages
                    .iter()
                    .filter(|payload| is_default(payload))
                    .map(|payload| parsed_route(payload)),
            );
        }
        Ok(found)
    }

    /// Returns the route that packets to an address take.
    ///
    /// # Errors
    /// There is none, or the kernel does not answer.
    pub fn route_to(&mut self, address: IpAddr) -> io::Result<Route> {
        let (family, bytes) = match address {
            IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
            IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
        };
        let mut body = vec![0; ROUTE_HEADER];
        body[0] = family as u8;
        body[1] = (bytes.len() * 8) as u8;
        put(&mut body, route::DESTINATION, &bytes);
        let answers = self.ask(GET_ROUTE, &body)?;
        let first = answers
            .first()
            .ok_or_else(|| io::Error::other("the kernel reports no route"))?;
        Ok(parsed_route(first))
    }

    /// Lists the queueing disciplines of an interface.
    pub fn qdiscs(&mut self, interface: u32) -> io::Result<Vec<TrafficObject>> {
        let mut found = self.all_qdiscs()?;
        found.retain(|object| object.interface == interface);
        Ok(found)
    }

    /// Lists the queueing disciplines of all interfaces, as the kernel does whatever the request names.
    pub fn all_qdiscs(&mut self) -> io::Result<Vec<TrafficObject>> {
        self.traffic_objects(GET_QDISC, 0)
    }

    /// Lists the classes of an interface.
    pub fn classes(&mut self, interface: u32) -> io::Result<Vec<TrafficObject>> {
        self.traffic_objects(GET_CLASS, interface)
    }

    fn traffic_objects(&mut self, kind: u16, interface: u32) -> io::Result<Vec<TrafficObject>> {
        let mut body = [0; TRAFFIC_HEADER];
        body[4..8].copy_from_slice(&interface.to_ne_bytes());
        let messages = self.dump(kind, &body)?;
        Ok(messages
            .iter()
            .filter_map(|payload| TrafficObject::parse(payload))
            .collect())
    }

    fn dump(&mut self, kind: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.answers(kind, REQUEST_DUMP, body)
    }

    /// Returns the payloads of the messages that answer a question about one thing.
    ///
    /// # Errors
    /// The kernel refuses, or does not answer.
    pub fn ask(&mut self, kind: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.answers(kind, REQUEST_AND_ACKNOWLEDGE, body)
    }

    /// Has something made or changed; `flags` are those of linux/netlink.h for new things.
    ///
    /// # Errors
    /// The kernel refuses, or does not answer.
    pub fn change(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.answers(kind, REQUEST_AND_ACKNOWLEDGE | flags, body)?;
        Ok(())
    }

    fn answers(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.sequence += 1;
        let question = message(kind, flags, self.sequence, body);
        net::send(&self.descriptor, &question, SendFlags::empty())?;
        let mut found = Vec::new();
        loop {
            let length = self.receive()?;
            if read(&self.buffer[..length], self.sequence, &mut found)? {
                return Ok(found);
            }
        }
    }

    fn receive(&mut self) -> io::Result<usize> {
        loop {
            match net::recv(&self.descriptor, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((length, _)) => return Ok(length),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}

/// Adds the payloads of a datagram's messages; returns whether the answer is complete.
fn read(datagram: &[u8], sequence: u32, found: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    let mut left = datagram;
    while left.len() >= HEADER {
        let cut = || io::Error::other("the kernel's answer is cut short");
        let length = u32_at(left, 0).ok_or_else(cut)? as usize;
        let payload = left.get(HEADER..length).ok_or_else(cut)?;
        // Others are the rest of an answer that came too late.
        let is_ours = u32_at(left, 8) == Some(sequence);
        match u16_at(left, 4) {
            Some(ERROR) if is_ours => {
                return match u32_at(payload, 0).ok_or_else(cut)? as i32 {
                    0 => Ok(true),
                    number => Err(io::Error::from_raw_os_error(number.wrapping_neg())),
                };
            }
            Some(DONE) if is_ours => return Ok(true),
            Some(_) if is_ours => found.push(payload.to_vec()),
            _ => {}
        }
        left = left.get(aligned(length)..).unwrap_or_default();
    }
    Ok(false)
}

fn is_default(payload: &[u8]) -> bool {
    let field = |place: usize| payload.get(place).copied();
    (field(1), field(4), field(7)) == (Some(0), Some(route::MAIN_TABLE), Some(route::UNICAST))
}

fn parsed_route(payload: &[u8]) -> Route {
    let own = by_type(payload.get(ROUTE_HEADER..).unwrap_or_default());
    let address = |kind: u16| own.get(&kind).and_then(|bytes| ip_address(bytes));
    let metrics = by_type(own.get(&route::METRICS).copied().unwrap_or_default());
    Route {
        interface: own
            .get(&route::INTERFACE)
            .and_then(|bytes| u32_at(bytes, 0)),
        gateway: address(route::GATEWAY),
        source: address(route::SOURCE),
        path_mtu_bytes: metrics
            .get(&route::METRIC_MTU)
            .and_then(|bytes| unsigned(bytes)),
    }
}

fn ip_address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

/// Reads a whole number of 1, 2, 4 or 8 bytes in the byte order of this machine.
pub fn unsigned(bytes: &[u8]) -> Option<u64> {
    match *bytes {
        [one] => Some(u64::from(one)),
        [first, second] => Some(u64::from(u16::from_ne_bytes([first, second]))),
        _ if bytes.len() == 4 => u32_at(bytes, 0).map(u64::from),
        _ => bytes.try_into().ok().map(u64::from_ne_bytes),
    }
}

/// Reads a string that ends with a zero byte.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Formats a handle as tc(8) writes it.
pub fn handle(number: u32) -> String {
    match (number, number >> 16, number & 0xFFFF) {
        (ROOT, ..) => "root".to_owned(),
        (INGRESS, ..) => "ingress".to_owned(),
        (_, major, 0) => format!("{major:x}:"),
        (_, major, minor) => format!("{major:x}:{minor:x}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn handles_are_those_of_tc() {
        for (number, expected) in [
            (0x8001_0000, "8001:"),
            (0x0001_0010, "1:10"),
            (ROOT, "root"),
            (INGRESS, "ingress"),
            (0, "0:"),
        ] {
            assert_eq!(handle(number), expected);
        }
    }

    #[test]
    fn messages_of_an_earlier_question_are_left_out() {
        let late = message(24, 0, 1, b"late");
        let ours = message(24, 0, 2, b"ours");
        let mut found = Vec::new();
        assert!(!read(&[late, ours].concat(), 2, &mut found).unwrap());
        assert_eq!(found, [b"ours".to_vec()]);
        assert!(read(&message(DONE, 0, 2, &[0; 4]), 2, &mut found).unwrap());
    }

    #[test]
    fn a_refusal_is_an_error_of_the_system() {
        let refusal = message(ERROR, 0, 2, &(-libc::ENODEV).to_ne_bytes());
        let error = read(&refusal, 2, &mut Vec::new()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        let mut acknowledged = Vec::new();
        assert!(read(&message(ERROR, 0, 2, &[0; 4]), 2, &mut acknowledged).unwrap());
    }

    #[test]
    fn this_host_has_a_loopback_interface_with_its_address_and_route() {
        let mut netlink = Netlink::open(None).unwrap();
        let links = netlink.links().unwrap();
        let loopback = links.iter().find(|link| link.name == "lo").unwrap();
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert!(
            netlink
                .addresses()
                .unwrap()
                .contains(&(loopback.index, address, 8))
        );
        let route = netlink.route_to(address).unwrap();
        assert_eq!(
            (route.interface, route.source),
            (Some(loopback.index), Some(address))
        );
        assert!(
            netlink.route_to(address).is_ok(),
            "the socket serves more than one question"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes, 1, &mut Vec::new());
            parsed_route(&bytes);
            is_default(&bytes);
            unsigned(&bytes);
            if let Some(object) = TrafficObject::parse(&bytes) {
                object.kind();
            }
        }
    }
}
