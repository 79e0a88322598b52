//! Control messages (cmsg(3)): what the kernel tells of a datagram, and what it is told.

use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ROOM_BYTES: usize = 256;

/// In a `cmsghdr`, behind its length.
const LEVEL_AT: usize = mem::offset_of!(libc::cmsghdr, cmsg_level);
const KIND_AT: usize = mem::offset_of!(libc::cmsghdr, cmsg_type);

/// Room for the control messages of one datagram, aligned as the kernel needs it.
#[derive(Clone, Debug)]
#[repr(C, align(8))]
pub(crate) struct Control {
    bytes: [u8; ROOM_BYTES],
    used: usize,
}

/// What the kernel told of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Nanoseconds of `CLOCK_REALTIME`.
    pub stamp_ns: Option<i64>,
    pub traffic_class: Option<u8>,
    pub to: Option<IpAddr>,
    /// Datagrams that the socket's full buffer has cost so far.
    pub dropped: Option<u32>,
}

impl Default for Control {
    fn default() -> Control {
        Control {
            bytes: [0; ROOM_BYTES],
            used: 0,
        }
    }
}

impl Control {
    /// Where the kernel may write, and how much.
    pub(crate) fn room(&mut self) -> (*mut libc::c_void, usize) {
        (self.bytes.as_mut_ptr().cast(), ROOM_BYTES)
    }

    /// What the kernel shall read, and how much of it.
    pub(crate) fn said(&self) -> (*mut libc::c_void, usize) {
        match self.used {
            0 => (std::ptr::null_mut(), 0),
            used => (self.bytes.as_ptr().cast_mut().cast(), used),
        }
    }

    /// Says which address to send from, and the traffic class, in the words of the peer's family.
    pub(crate) fn say(&mut self, to: IpAddr, from: Option<IpAddr>, traffic_class: u8) {
        self.used = 0;
        let class = i32::from(traffic_class).to_ne_bytes();
        match to {
            IpAddr::V4(_) => self.append(libc::IPPROTO_IP, libc::IP_TOS, &class),
            IpAddr::V6(_) => self.append(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &class),
        }
        match from {
            Some(IpAddr::V4(from)) => {
                // in_pktinfo: interface (0: by the routes), the source, and a destination that the kernel ignores
                let mut info = [0; mem::size_of::<libc::in_pktinfo>()];
                info[4..8].copy_from_slice(&from.octets());
                self.append(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            Some(IpAddr::V6(from)) => {
                let mut info = [0; mem::size_of::<libc::in6_pktinfo>()];
                info[..16].copy_from_slice(&from.octets());
                self.append(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            None => {}
        }
    }

    fn append(&mut self, level: i32, kind: i32, value: &[u8]) {
        let header_bytes = mem::size_of::<libc::cmsghdr>();
        let length = header_bytes + value.len();
        let place = &mut self.bytes[self.used..][..align(length)];
        place[..LEVEL_AT].copy_from_slice(&length.to_ne_bytes());
        place[LEVEL_AT..][..4].copy_from_slice(&level.to_ne_bytes());
        place[KIND_AT..][..4].copy_from_slice(&kind.to_ne_bytes());
        place[header_bytes..length].copy_from_slice(value);
        self.used += align(length);
    }

    /// What the kernel wrote into the first `bytes` bytes.
    pub(crate) fn told(&self, bytes: usize) -> Told {
        let mut told = Told::default();
        let mut rest = &self.bytes[..bytes.min(ROOM_BYTES)];
        let header_bytes = mem::size_of::<libc::cmsghdr>();
        while rest.len() >= header_bytes {
            let length = usize::from_ne_bytes(array(&rest[..LEVEL_AT]));
            if length < header_bytes || length > rest.len() {
                break;
            }
            let level = i32::from_ne_bytes(array(&rest[LEVEL_AT..][..4]));
            let kind = i32::from_ne_bytes(array(&rest[KIND_AT..][..4]));
            told.read(level, kind, &rest[header_bytes..length]);
            rest = &rest[align(length).min(rest.len())..];
        }
        told
    }
}

impl Told {
    fn read(&mut self, level: i32, kind: i32, value: &[u8]) {
        match (level, kind, value.len()) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, 16) => {
                let seconds = i64::from_ne_bytes(array(&value[..8]));
                let nanoseconds = i64::from_ne_bytes(array(&value[8..]));
                self.stamp_ns = Some(
                    seconds
                        .saturating_mul(1_000_000_000)
                        .saturating_add(nanoseconds),
                );
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 4) => {
                self.dropped = Some(u32::from_ne_bytes(array(value)));
            }
            (libc::IPPROTO_IP, libc::IP_TOS, 1) => self.traffic_class = Some(value[0]),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, 4) => {
                self.traffic_class = Some(i32::from_ne_bytes(array(value)) as u8);
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO, 12) => {
                // The third field is the address in the header; the second is the one to answer from, which differs
                // for broadcasts.
                let octets: [u8; 4] = array(&value[4..8]);
                self.to = Some(Ipv4Addr::from(octets).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20) => {
                let octets: [u8; 16] = array(&value[..16]);
                // An IPv4 datagram at a socket of both families brings both; both say the same.
                self.to = Some(IpAddr::from(Ipv6Addr::from(octets)).to_canonical());
            }
            _ => {}
        }
    }
}

/// Messages begin at multiples of a word (`CMSG_ALIGN`).
fn align(length: usize) -> usize {
    length.next_multiple_of(mem::size_of::<usize>())
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_said_to_the_kernel_reads_like_what_it_tells() {
        let mut control = Control::default();
        control.say(
            "::1".parse().unwrap(),
            Some("fe80::1".parse().unwrap()),
            0xb8,
        );
        let told = control.told(control.used);
        assert_eq!(told.traffic_class, Some(0xb8));
        assert_eq!(told.to, Some("fe80::1".parse().unwrap()));
        control.say(
            "10.0.0.1".parse().unwrap(),
            Some("10.0.0.2".parse().unwrap()),
            1,
        );
        assert_eq!(
            control.told(control.used).to,
            Some("10.0.0.2".parse().unwrap())
        );
    }

    proptest! {
        #[test]
        fn messages_whose_lengths_lie_are_read_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), ROOM_BYTES),
            lengths in proptest::collection::vec(0_u8..64, 4),
            used in 0_usize..400,
        ) {
            let mut control = Control::default();
            control.bytes.copy_from_slice(&bytes);
            for (number, length) in lengths.iter().enumerate() {
                control.bytes[number * 32..][..8].copy_from_slice(&u64::from(*length).to_ne_bytes());
            }
            control.told(used);
        }
    }
}
