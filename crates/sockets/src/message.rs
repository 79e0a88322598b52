//! Messages of `sock_diag` about one socket (linux/inet_diag.h, `struct inet_diag_msg`), and control messages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::attributes::{Attributes, aligned, u16_at, u32_at, u64_at};
use crate::info::TcpInfo;
use crate::request::{SOCK_DIAG_BY_FAMILY, TCPDIAG_GETSOCK};

const NETLINK_HEADER: usize = 16;
const DIAG_MESSAGE: usize = 72;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// Unused parts of the message: which timer runs, how often it did, and when it ends.
pub(crate) const UNREAD: [std::ops::Range<usize>; 2] = [2..4, 52..56];
const COOKIE: usize = 44;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Sockets were created or closed during the listing, so one may be missing or listed twice.
const NLM_F_DUMP_INTR: u16 = 0x10;

/// `INET_DIAG_*`: the attributes that follow the message.
pub(crate) mod attribute {
    pub const INFO: u16 = 2;
    pub const VEGASINFO: u16 = 3;
    pub const CONG: u16 = 4;
    pub const TOS: u16 = 5;
    pub const TCLASS: u16 = 6;
    pub const SKMEMINFO: u16 = 7;
    pub const DCTCPINFO: u16 = 9;
    pub const PROTOCOL: u16 = 10;
    pub const MARK: u16 = 15;
    pub const BBRINFO: u16 = 16;
    pub const ULP_INFO: u16 = 19;
    pub const CGROUP_ID: u16 = 21;
}
const ULP_INFO_NAME: u16 = 1;
const ULP_INFO_MPTCP: u16 = 3;
const MPTCP_SUBFLOW_ATTR_TOKEN_LOC: u16 = 2;

/// One message of a netlink datagram.
#[derive(Debug, PartialEq)]
pub enum Message<'a> {
    /// The payload for [`Socket::parse`].
    Socket(&'a [u8]),
    /// The list is complete.
    Done { interrupted: bool },
    /// The kernel refuses, with a number of errno(3).
    Refused { errno: i32 },
    /// An unrequested message.
    Other,
}

/// The messages of a datagram. Ends at an invalid length.
pub fn messages(datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut left = datagram;
    std::iter::from_fn(move || {
        let length = usize::try_from(u32_at(left, 0)?).ok()?;
        let (kind, flags) = (u16_at(left, 4)?, u16_at(left, 6)?);
        let payload = left.get(NETLINK_HEADER..length)?;
        left = left.get(aligned(length)..).unwrap_or_default();
        let interrupted = flags & NLM_F_DUMP_INTR != 0;
        Some(match kind {
            // A list that could not be made also ends with an error number.
            NLMSG_DONE | NLMSG_ERROR => match u32_at(payload, 0).map_or(0, |errno| errno as i32) {
                0 => Message::Done { interrupted },
                errno => Message::Refused {
                    errno: errno.wrapping_neg(),
                },
            },
            SOCK_DIAG_BY_FAMILY | TCPDIAG_GETSOCK => Message::Socket(payload),
            _ => Message::Other,
        })
    })
}

/// One socket as the kernel describes it. Unreported values are `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Socket<'a> {
    /// The message itself.
    pub message: &'a [u8],
    /// `TCP_ESTABLISHED` (1) to `TCP_NEW_SYN_RECV` (12).
    pub state: u8,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// The socket's identity: unique on this host until it restarts.
    pub cookie: u64,
    pub interface: Option<u32>,
    pub uid: u32,
    /// 0 for a socket without a process: not accepted yet, or closed.
    pub inode: u32,
    /// TCP: data not read by the application. UDP: the same with the kernel's overhead.
    pub receive_queue_bytes: u32,
    /// TCP: unacknowledged data.
    pub send_queue_bytes: u32,
    pub protocol: Option<u8>,
    pub info: Option<TcpInfo>,
    /// Where that begins in the message.
    pub info_at: Option<usize>,
    pub memory: Option<Memory>,
    pub congestion_control: Option<&'a str>,
    pub control_state: Option<ControlState>,
    /// The byte of the IP header with the DSCP, as the application set it.
    pub traffic_class: Option<u8>,
    /// Reported only with `CAP_NET_ADMIN`.
    pub mark: Option<u32>,
    pub cgroup_id: Option<u64>,
    /// The upper-layer protocol in the socket: `tls`, `mptcp`.
    pub upper_layer: Option<&'a str>,
    /// For a subflow of a Multipath TCP connection: this host's token of the connection (RFC 8684).
    pub mptcp_token: Option<u32>,
}

/// `SK_MEMINFO_*` (linux/sock_diag.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub receive_allocated_bytes: u32,
    pub receive_buffer_bytes: u32,
    pub send_buffer_bytes: u32,
    pub send_queued_bytes: u32,
    pub backlog_bytes: Option<u32>,
    /// Packets that this socket dropped; since Linux 4.10.
    pub drops: Option<u32>,
}

/// State reported by a congestion control (`union tcp_cc_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlState {
    Vegas {
        rtt_count: u32,
        rtt_us: u32,
        min_rtt_us: u32,
    },
    Dctcp {
        ce_state: u16,
        /// In units of 1/1024.
        alpha: u32,
    },
    Bbr {
        bandwidth_bytes: u64,
        min_rtt_us: u32,
        /// In units of 1/256.
        pacing_gain: u32,
        /// In units of 1/256.
        window_gain: u32,
    },
}

impl<'a> Socket<'a> {
    /// Parses the payload of a message of type `SOCK_DIAG_BY_FAMILY`; `None` if it is too short, or not for IP.
    pub fn parse(payload: &'a [u8]) -> Option<Socket<'a>> {
        let head = payload.get(..DIAG_MESSAGE)?;
        let family = head[0];
        let interface = u32_at(head, 40)?;
        let mut socket = Socket {
            message: payload,
            state: head[1],
            local: address(family, &head[8..24], &head[4..6])?,
            remote: address(family, &head[24..40], &head[6..8])?,
            interface: (interface != 0).then_some(interface),
            cookie: cookie(payload)?,
            receive_queue_bytes: u32_at(head, 56)?,
            send_queue_bytes: u32_at(head, 60)?,
            uid: u32_at(head, 64)?,
            inode: u32_at(head, 68)?,
            protocol: None,
            info: None,
            info_at: None,
            memory: None,
            congestion_control: None,
            control_state: None,
            traffic_class: None,
            mark: None,
            cgroup_id: None,
            upper_layer: None,
            mptcp_token: None,
        };
        for (kind, value) in Attributes::new(&payload[DIAG_MESSAGE..]) {
            socket.take(kind, value);
        }
        Some(socket)
    }

    fn take(&mut self, kind: u16, value: &'a [u8]) {
        match kind {
            attribute::INFO => {
                self.info = TcpInfo::parse(value);
                let start = value.as_ptr() as usize - self.message.as_ptr() as usize;
                self.info_at = self.info.is_some().then_some(start);
            }
            attribute::CONG => self.congestion_control = name(value),
            attribute::SKMEMINFO => self.memory = Memory::parse(value),
            attribute::VEGASINFO | attribute::DCTCPINFO | attribute::BBRINFO => {
                self.control_state = ControlState::parse(kind, value);
            }
            // An IPv6 socket may have both; the traffic class takes precedence.
            attribute::TOS if self.traffic_class.is_none() => {
                self.traffic_class = value.first().copied();
            }
            attribute::TCLASS if self.local.is_ipv6() => {
                self.traffic_class = value.first().copied();
            }
            attribute::PROTOCOL => self.protocol = value.first().copied(),
            attribute::MARK => self.mark = u32_at(value, 0),
            attribute::CGROUP_ID => self.cgroup_id = u64_at(value, 0),
            attribute::ULP_INFO => self.take_upper_layer(value),
            _ => {}
        }
    }

    fn take_upper_layer(&mut self, value: &'a [u8]) {
        for (kind, value) in Attributes::new(value) {
            match kind {
                ULP_INFO_NAME => self.upper_layer = name(value),
                ULP_INFO_MPTCP => {
                    self.mptcp_token = Attributes::new(value)
                        .find(|(kind, _)| *kind == MPTCP_SUBFLOW_ATTR_TOKEN_LOC)
                        .and_then(|(_, token)| u32_at(token, 0));
                }
                _ => {}
            }
        }
    }
}

impl Memory {
    pub(crate) fn parse(value: &[u8]) -> Option<Memory> {
        let number = |index: usize| u32_at(value, 4 * index);
        Some(Memory {
            receive_allocated_bytes: number(0)?,
            receive_buffer_bytes: number(1)?,
            send_buffer_bytes: number(3)?,
            send_queued_bytes: number(5)?,
            backlog_bytes: number(7),
            drops: number(8),
        })
    }
}

impl ControlState {
    fn parse(kind: u16, value: &[u8]) -> Option<ControlState> {
        let number = |index: usize| u32_at(value, 4 * index);
        match kind {
            // Both begin with a flag that they are in use: a connection may fall back to another control.
            attribute::VEGASINFO if number(0)? != 0 => Some(ControlState::Vegas {
                rtt_count: number(1)?,
                rtt_us: number(2)?,
                min_rtt_us: number(3)?,
            }),
            attribute::DCTCPINFO if u16_at(value, 0)? != 0 => Some(ControlState::Dctcp {
                ce_state: u16_at(value, 2)?,
                alpha: number(1)?,
            }),
            attribute::BBRINFO => Some(ControlState::Bbr {
                bandwidth_bytes: u64::from(number(0)?) | u64::from(number(1)?) << 32,
                min_rtt_us: number(2)?,
                pacing_gain: number(3)?,
                window_gain: number(4)?,
            }),
            _ => None,
        }
    }
}

/// The identity of the socket in a message.
pub(crate) fn cookie(message: &[u8]) -> Option<u64> {
    let (low, high) = (u32_at(message, COOKIE)?, u32_at(message, COOKIE + 4)?);
    Some(u64::from(low) | u64::from(high) << 32)
}

/// An address in network order. An IPv4-mapped address becomes IPv4.
fn address(family: u8, address: &[u8], port: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(port.try_into().ok()?);
    let address = match family {
        AF_INET => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(address.get(..4)?).ok()?)),
        AF_INET6 => IpAddr::V6(Ipv6Addr::from(
            <[u8; 16]>::try_from(address.get(..16)?).ok()?,
        )),
        _ => return None,
    };
    Some(SocketAddr::new(address.to_canonical(), port))
}

/// A name in the kernel's form: ended by a zero, or by the end.
fn name(value: &[u8]) -> Option<&str> {
    let end = value.iter().position(|byte| *byte == 0);
    std::str::from_utf8(&value[..end.unwrap_or(value.len())])
        .ok()
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::attributes::tests::written;

    /// The message of a connection from 192.0.2.1:4660 to 198.51.100.7:80, with these attributes.
    pub(crate) fn message(cookie: u64, inode: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = vec![AF_INET, 1, 0, 0, 0x12, 0x34, 0, 80];
        bytes.extend([192, 0, 2, 1]);
        bytes.extend([0; 12]);
        bytes.extend([198, 51, 100, 7]);
        bytes.extend([0; 12]);
        bytes.extend(3_u32.to_ne_bytes());
        bytes.extend((cookie as u32).to_ne_bytes());
        bytes.extend(((cookie >> 32) as u32).to_ne_bytes());
        for number in [0, 11, 22, 1000, inode] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(attributes.concat());
        bytes
    }

    fn datagram(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = ((NETLINK_HEADER + payload.len()) as u32)
            .to_ne_bytes()
            .to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(payload);
        bytes
    }

    fn numbers(all: &[u32]) -> Vec<u8> {
        all.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    #[test]
    fn a_message_contains_both_ends_and_the_queues() {
        let bytes = message(0x1_0000_0002, 42, &[]);
        let socket = Socket::parse(&bytes).unwrap();
        assert_eq!(socket.local, "192.0.2.1:4660".parse().unwrap());
        assert_eq!(socket.remote, "198.51.100.7:80".parse().unwrap());
        assert_eq!(
            (socket.cookie, socket.inode, socket.uid, socket.interface),
            (0x1_0000_0002, 42, 1000, Some(3))
        );
        assert_eq!(
            (socket.receive_queue_bytes, socket.send_queue_bytes),
            (11, 22)
        );
        assert_eq!(
            (socket.info, socket.memory, socket.mark),
            (None, None, None)
        );
    }

    #[test]
    fn attributes_are_read_by_their_length() {
        let bytes = message(
            1,
            0,
            &[
                written(attribute::CONG, b"cubic\0"),
                written(attribute::TOS, &[0xb8]),
                written(attribute::SKMEMINFO, &numbers(&[1, 2, 3, 4, 5, 6, 7, 8, 9])),
                written(attribute::INFO, &[7; 168]),
                written(attribute::CGROUP_ID, &77_u64.to_ne_bytes()),
            ],
        );
        let socket = Socket::parse(&bytes).unwrap();
        assert_eq!(socket.congestion_control, Some("cubic"));
        assert_eq!(
            (socket.traffic_class, socket.cgroup_id),
            (Some(0xb8), Some(77))
        );
        let memory = socket.memory.unwrap();
        assert_eq!(
            (memory.receive_buffer_bytes, memory.send_buffer_bytes),
            (2, 4)
        );
        assert_eq!((memory.send_queued_bytes, memory.drops), (6, Some(9)));
        let info = socket.info.unwrap();
        assert!(info.delivery_rate_bytes().is_some() && info.busy_time_us().is_none());
    }

    #[test]
    fn drops_are_unknown_where_the_kernel_does_not_count_them() {
        let bytes = message(1, 0, &[written(attribute::SKMEMINFO, &numbers(&[0; 8]))]);
        assert_eq!(Socket::parse(&bytes).unwrap().memory.unwrap().drops, None);
    }

    #[test]
    fn a_congestion_control_reports_its_state() {
        let state = |kind, numbers_: &[u32]| {
            Socket::parse(&message(1, 0, &[written(kind, &numbers(numbers_))]))
                .unwrap()
                .control_state
        };
        assert_eq!(
            state(attribute::BBRINFO, &[5, 1, 20_000, 739, 512]),
            Some(ControlState::Bbr {
                bandwidth_bytes: (1 << 32) + 5,
                min_rtt_us: 20_000,
                pacing_gain: 739,
                window_gain: 512
            })
        );
        assert_eq!(
            state(attribute::VEGASINFO, &[1, 8, 3000, 2000]),
            Some(ControlState::Vegas {
                rtt_count: 8,
                rtt_us: 3000,
                min_rtt_us: 2000
            })
        );
        // Vegas that is not in use, and a truncated BBR.
        assert_eq!(state(attribute::VEGASINFO, &[0, 8, 3000, 2000]), None);
        assert_eq!(state(attribute::BBRINFO, &[5, 1, 20_000, 739]), None);
    }

    #[test]
    fn a_subflow_of_multipath_tcp_names_its_connection() {
        let subflow = written(MPTCP_SUBFLOW_ATTR_TOKEN_LOC, &99_u32.to_ne_bytes());
        let ulp = [
            written(ULP_INFO_NAME, b"mptcp\0"),
            written(ULP_INFO_MPTCP | 0x8000, &subflow),
        ]
        .concat();
        let bytes = message(1, 0, &[written(attribute::ULP_INFO | 0x8000, &ulp)]);
        let socket = Socket::parse(&bytes).unwrap();
        assert_eq!(
            (socket.upper_layer, socket.mptcp_token),
            (Some("mptcp"), Some(99))
        );
    }

    #[test]
    fn an_ipv4_connection_of_an_ipv6_socket_is_one_of_ipv4() {
        let mut bytes = message(1, 0, &[]);
        bytes[0] = AF_INET6;
        let mapped = Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().octets();
        bytes[8..24].copy_from_slice(&mapped);
        bytes[24..40].copy_from_slice(&mapped);
        assert_eq!(
            Socket::parse(&bytes).unwrap().local,
            "192.0.2.1:4660".parse().unwrap()
        );
    }

    #[test]
    fn a_datagram_holds_sockets_and_says_how_the_list_ended() {
        let socket = message(1, 0, &[]);
        let bytes = [
            datagram(20, 2, &socket),
            datagram(18, 2, &socket),
            datagram(4, 0, &[]),
            datagram(NLMSG_DONE, NLM_F_DUMP_INTR, &0_i32.to_ne_bytes()),
        ]
        .concat();
        assert_eq!(
            messages(&bytes).collect::<Vec<_>>(),
            [
                Message::Socket(&socket),
                Message::Socket(&socket),
                Message::Other,
                Message::Done { interrupted: true }
            ]
        );
        let refused = datagram(NLMSG_ERROR, 0, &(-22_i32).to_ne_bytes());
        assert_eq!(
            messages(&refused).collect::<Vec<_>>(),
            [Message::Refused { errno: 22 }]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            for message in messages(&bytes) {
                if let Message::Socket(payload) = message {
                    let _ = Socket::parse(payload);
                }
            }
            let _ = Socket::parse(&bytes);
        }

        #[test]
        fn a_message_cut_anywhere_or_with_lengths_that_lie_is_read_without_harm(
            cut in 0_usize..600, place in 0_usize..600, value: u8
        ) {
            let mut bytes = message(1, 0, &[
                written(attribute::INFO, &[1; 232]),
                written(attribute::SKMEMINFO, &[1; 36]),
                written(attribute::BBRINFO, &[1; 20]),
                written(attribute::ULP_INFO, &written(ULP_INFO_MPTCP, &written(2, &[1; 4]))),
            ]);
            if let Some(byte) = bytes.get_mut(place) {
                *byte = value;
            }
            bytes.truncate(cut.min(bytes.len()));
            let _ = Socket::parse(&bytes);
            let _ = messages(&datagram(20, 2, &bytes)).count();
        }
    }
}
