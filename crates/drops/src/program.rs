//! The two programs that examine a packet where the kernel drops it, and a segment where TCP retransmits it.
//!
//! Each writes a [`Report`] to its processor's ring, and skips other network namespaces. They are built for the running
//! kernel: offsets in the kernel's structures come from its BTF. Their arguments are those of the tracepoints, `(skb,
//! location, reason, rx_sk)` and `(sk, skb, err)`, of which older kernels lack the last.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::tracefs::Tracepoint;
use whydrop_bpf::assembler::{Label, Program, Register, STACK, Width};
use whydrop_bpf::btf::Btf;

/// Bytes of a packet from the network layer header on: IPv6 with extensions, or IPv4 with options, and TCP.
pub const HEADERS: usize = 96;

// Offsets in the report; see `Report::parse`.
const KIND: i16 = 0;
const NAMESPACE: i16 = 4;
const LOCATION: i16 = 8;
const REASON: i16 = 16;
const INTERFACE: i16 = 20;
const ARRIVED_BY: i16 = 24;
const LENGTH: i16 = 28;
const TAIL: i16 = 32;
const NETWORK: i16 = 36;
const PROTOCOL: i16 = 38;
const BYTES: i16 = 40;
const SIZE: usize = BYTES as usize + HEADERS;

// The bytes of a retransmitted segment.
const FIRST: i16 = BYTES;
const END: i16 = BYTES + 4;
const PORTS: i16 = BYTES + 8;
const FAMILY: i16 = BYTES + 12;
const IPV4: i16 = BYTES + 16;
const IPV6: i16 = BYTES + 24;
const AF_INET: u16 = 2;

const DROPPED: u32 = 1;
const SENT_AGAIN: u32 = 2;

/// The report on the stack, and a pointer beside it.
const OUT: i16 = -(SIZE as i16);
const POINTER: i16 = OUT - 8;

const CONTEXT: Register = 6;
const PACKET: Register = 7;

/// Offsets in the kernel's structures.
#[derive(Clone, Copy, Debug)]
pub struct Offsets {
    packet_device: u16,
    packet_socket: u16,
    packet_length: u16,
    packet_protocol: u16,
    packet_arrived_by: u16,
    packet_head: u16,
    packet_tail: u16,
    packet_network: u16,
    packet_control: u16,
    device_index: u16,
    device_namespace: u16,
    socket_namespace: u16,
    socket_family: u16,
    socket_ports: [u16; 2],
    socket_ipv4: [u16; 2],
    socket_ipv6: [u16; 2],
    namespace_number: u16,
    control_first: u16,
    control_end: u16,
}

impl Offsets {
    /// Reads the offsets of the running kernel; `None` if one is missing.
    pub fn of(btf: &Btf) -> Option<Offsets> {
        let socket = |member: &str| btf.of("sock", &format!("__sk_common.{member}"));
        Some(Offsets {
            packet_device: btf.of("sk_buff", "dev")?,
            packet_socket: btf.of("sk_buff", "sk")?,
            packet_length: btf.of("sk_buff", "len")?,
            packet_protocol: btf.of("sk_buff", "protocol")?,
            packet_arrived_by: btf.of("sk_buff", "skb_iif")?,
            packet_head: btf.of("sk_buff", "head")?,
            packet_tail: btf.of("sk_buff", "tail")?,
            packet_network: btf.of("sk_buff", "network_header")?,
            packet_control: btf.of("sk_buff", "cb")?,
            device_index: btf.of("net_device", "ifindex")?,
            device_namespace: btf.of("net_device", "nd_net")?,
            socket_namespace: socket("skc_net")?,
            socket_family: socket("skc_family")?,
            socket_ports: [socket("skc_num")?, socket("skc_dport")?],
            socket_ipv4: [socket("skc_rcv_saddr")?, socket("skc_daddr")?],
            // A kernel without IPv6 has no IPv6 addresses.
            socket_ipv6: [
                socket("skc_v6_rcv_saddr").unwrap_or(0),
                socket("skc_v6_daddr").unwrap_or(0),
            ],
            namespace_number: btf.of("net", "ns.inum")?,
            control_first: btf.of("tcp_skb_cb", "seq")?,
            control_end: btf.of("tcp_skb_cb", "end_seq")?,
        })
    }
}

/// Builds the program for `kfree_skb`; the tracepoint describes its arguments.
pub fn of_drops(
    tracepoint: &Tracepoint,
    offsets: &Offsets,
    namespace: u32,
    map: i32,
) -> Vec<[u8; 8]> {
    let mut program = Program::default();
    let end = program.label();
    begin(&mut program, DROPPED, 0);
    program.probe(OUT + PROTOCOL, 2, PACKET, offsets.packet_protocol);
    program.load(Width::Two, 1, STACK, OUT + PROTOCOL);
    // Buffers without a protocol are no packets, but messages between processes and from the kernel.
    program.jump_if(1, 0, end);
    program.load(Width::Eight, 1, CONTEXT, argument(1));
    program.store(Width::Eight, STACK, OUT + LOCATION, 1);
    // Kernels before 5.17 give no reasons.
    if tracepoint.field("reason", 4).is_some() {
        program.load(Width::Eight, 1, CONTEXT, argument(2));
        program.store(Width::Four, STACK, OUT + REASON, 1);
    }
    namespace_of_device(&mut program, offsets);
    let known = program.label();
    jump_if_known(&mut program, known);
    program.probe(POINTER, 8, PACKET, offsets.packet_socket);
    program.load(Width::Eight, 8, STACK, POINTER);
    namespace_of_socket(&mut program, offsets, 8);
    if tracepoint.field("rx_sk", 8).is_some() {
        jump_if_known(&mut program, known);
        program.load(Width::Eight, 8, CONTEXT, argument(3));
        namespace_of_socket(&mut program, offsets, 8);
    }
    program.place(known);
    only_of(&mut program, namespace, end);
    for (place, size, offset) in [
        (ARRIVED_BY, 4, offsets.packet_arrived_by),
        (LENGTH, 4, offsets.packet_length),
        (TAIL, 4, offsets.packet_tail),
        (NETWORK, 2, offsets.packet_network),
    ] {
        program.probe(OUT + place, size, PACKET, offset);
    }
    program.probe(POINTER, 8, PACKET, offsets.packet_head);
    program.load(Width::Eight, 8, STACK, POINTER);
    program.load(Width::Two, 9, STACK, OUT + NETWORK);
    program.add_register(8, 9);
    program.probe(OUT + BYTES, HEADERS as u16, 8, 0);
    finish(&mut program, map, end);
    program.assembled()
}

/// Builds the program for `tcp_retransmit_skb`; the tracepoint describes its arguments.
pub fn of_retransmissions(
    tracepoint: &Tracepoint,
    offsets: &Offsets,
    namespace: u32,
    map: i32,
) -> Vec<[u8; 8]> {
    let mut program = Program::default();
    let end = program.label();
    begin(&mut program, SENT_AGAIN, 1);
    if tracepoint.field("err", 4).is_some() {
        program.load(Width::Eight, 1, CONTEXT, argument(2));
        // The segment could not be sent at all.
        program.jump_if_negative(1, end);
    }
    program.load(Width::Eight, 8, CONTEXT, argument(0));
    namespace_of_socket(&mut program, offsets, 8);
    only_of(&mut program, namespace, end);
    let control = offsets.packet_control;
    program.probe(OUT + FIRST, 4, PACKET, control + offsets.control_first);
    program.probe(OUT + END, 4, PACKET, control + offsets.control_end);
    program.probe(OUT + FAMILY, 2, 8, offsets.socket_family);
    for (place, size, members) in [
        (PORTS, 2, offsets.socket_ports),
        (IPV4, 4, offsets.socket_ipv4),
        (IPV6, 16, offsets.socket_ipv6),
    ] {
        for (side, offset) in members.into_iter().enumerate() {
            program.probe(OUT + place + side as i16 * size, size as u16, 8, offset);
        }
    }
    finish(&mut program, map, end);
    program.assembled()
}

/// The offset of a tracepoint argument.
fn argument(number: i16) -> i16 {
    8 * number
}

/// Saves the argument and the packet, clears the stack, and stores the kind of report.
fn begin(program: &mut Program, kind: u32, packet: i16) {
    program.copy(CONTEXT, 1);
    program.load(Width::Eight, PACKET, CONTEXT, argument(packet));
    program.set(1, 0);
    for at in (POINTER..0).step_by(8) {
        program.store(Width::Eight, STACK, at, 1);
    }
    program.set(1, kind as i32);
    program.store(Width::Four, STACK, OUT + KIND, 1);
}

/// The interface, and its namespace. While TCP or UDP have a packet in their queues, other data occupies the field of
/// the interface: it cannot be read then, or does not lead to a valid namespace.
fn namespace_of_device(program: &mut Program, offsets: &Offsets) {
    let none = program.label();
    program.probe(POINTER, 8, PACKET, offsets.packet_device);
    program.load(Width::Eight, 8, STACK, POINTER);
    program.jump_if(8, 0, none);
    program.probe(OUT + INTERFACE, 4, 8, offsets.device_index);
    program.probe(POINTER, 8, 8, offsets.device_namespace);
    program.load(Width::Eight, 9, STACK, POINTER);
    program.jump_if(9, 0, none);
    program.probe(OUT + NAMESPACE, 4, 9, offsets.namespace_number);
    program.place(none);
}

fn jump_if_known(program: &mut Program, known: Label) {
    program.load(Width::Four, 1, STACK, OUT + NAMESPACE);
    program.jump_unless(1, 0, known);
}

fn namespace_of_socket(program: &mut Program, offsets: &Offsets, socket: Register) {
    let none = program.label();
    program.jump_if(socket, 0, none);
    program.probe(POINTER, 8, socket, offsets.socket_namespace);
    program.load(Width::Eight, 9, STACK, POINTER);
    program.jump_if(9, 0, none);
    program.probe(OUT + NAMESPACE, 4, 9, offsets.namespace_number);
    program.place(none);
}

/// Ends unless the packet is from this namespace, or from an unknown one.
fn only_of(program: &mut Program, namespace: u32, end: Label) {
    let ours = program.label();
    program.load(Width::Four, 1, STACK, OUT + NAMESPACE);
    program.jump_if_u32(1, namespace, ours);
    program.jump_unless(1, 0, end);
    program.place(ours);
}

fn finish(program: &mut Program, map: i32, end: Label) {
    program.output(CONTEXT, map, OUT, SIZE as u16);
    program.place(end);
    program.exit();
}

/// A program's report, as stored in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report<'a> {
    Dropped {
        /// Number of the network namespace; 0: unknown.
        namespace: u32,
        location: u64,
        reason: u32,
        /// Indices of the interface where the packet was, and of the one on which it arrived; 0: none.
        interface: u32,
        arrived_by: u32,
        length: u32,
        ethertype: u16,
        headers: &'a [u8],
    },
    Retransmitted {
        first: u32,
        end: u32,
        /// The local and the remote end.
        ends: [(IpAddr, u16); 2],
    },
}

impl Report<'_> {
    /// Parses a report; `None` for other data.
    pub fn parse(bytes: &[u8]) -> Option<Report<'_>> {
        if bytes.len() < SIZE {
            return None;
        }
        let four =
            |at: i16| u32::from_ne_bytes(bytes[at as usize..][..4].try_into().expect("four"));
        let two = |at: i16| u16::from_ne_bytes(bytes[at as usize..][..2].try_into().expect("two"));
        let sixteen =
            |at: i16| -> [u8; 16] { bytes[at as usize..][..16].try_into().expect("sixteen") };
        match four(KIND) {
            DROPPED => {
                // Memory after the packet's own bytes does not belong to it.
                let valid = (four(TAIL) as usize).saturating_sub(usize::from(two(NETWORK)));
                Some(Report::Dropped {
                    namespace: four(NAMESPACE),
                    location: u64::from_ne_bytes(
                        bytes[LOCATION as usize..][..8].try_into().expect("eight"),
                    ),
                    reason: four(REASON),
                    interface: four(INTERFACE),
                    arrived_by: four(ARRIVED_BY),
                    length: four(LENGTH),
                    ethertype: u16::from_be(two(PROTOCOL)),
                    headers: &bytes[BYTES as usize..SIZE][..valid.min(HEADERS)],
                })
            }
            SENT_AGAIN => {
                let address = |side: i16| {
                    if two(FAMILY) == AF_INET {
                        let address = four(IPV4 + 4 * side).to_ne_bytes();
                        return IpAddr::from(Ipv4Addr::from(address));
                    }
                    Ipv6Addr::from(sixteen(IPV6 + 16 * side)).to_canonical()
                };
                // The kernel stores the local port as a number, the remote one in network byte order.
                let ports = [two(PORTS), u16::from_be(two(PORTS + 2))];
                Some(Report::Retransmitted {
                    first: four(FIRST),
                    end: four(END),
                    ends: [(address(0), ports[0]), (address(1), ports[1])],
                })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retransmission_is_read_with_both_ends() {
        let mut bytes = vec![0; SIZE];
        let mut put =
            |at: i16, value: &[u8]| bytes[at as usize..][..value.len()].copy_from_slice(value);
        put(KIND, &SENT_AGAIN.to_ne_bytes());
        put(FIRST, &7_u32.to_ne_bytes());
        put(END, &1455_u32.to_ne_bytes());
        put(PORTS, &49152_u16.to_ne_bytes());
        put(PORTS + 2, &443_u16.to_be_bytes());
        put(FAMILY, &AF_INET.to_ne_bytes());
        put(IPV4, &[192, 0, 2, 1, 198, 51, 100, 7]);
        let ends = [
            (IpAddr::from([192, 0, 2, 1]), 49152),
            (IpAddr::from([198, 51, 100, 7]), 443),
        ];
        let (first, end) = (7, 1455);
        assert_eq!(
            Report::parse(&bytes),
            Some(Report::Retransmitted { first, end, ends })
        );
        assert_eq!(Report::parse(&bytes[..SIZE - 1]), None);
    }

    #[test]
    fn only_a_packets_own_bytes_are_reported() {
        let mut bytes = vec![0xee; SIZE];
        let mut put =
            |at: i16, value: &[u8]| bytes[at as usize..][..value.len()].copy_from_slice(value);
        put(KIND, &DROPPED.to_ne_bytes());
        put(PROTOCOL, &0x0800_u16.to_be_bytes());
        put(NETWORK, &100_u16.to_ne_bytes());
        put(TAIL, &128_u32.to_ne_bytes());
        let Some(Report::Dropped {
            ethertype, headers, ..
        }) = Report::parse(&bytes)
        else {
            panic!("a drop");
        };
        assert_eq!((ethertype, headers.len()), (0x0800, 28));
    }
}
