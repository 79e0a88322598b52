//! The two programs that look at a packet where the kernel drops it, or at a segment where TCP sends it again.
//!
//! Each hands a [`Told`] to the ring of its processor, and nothing of other network namespaces. They are made for the
//! kernel that runs: offsets of the tracepoint's fields from tracefs, those of the kernel's structures from its BTF.

use crate::assembler::{Label, Program, Register, STACK, Width};
use crate::btf::Btf;
use crate::tracefs::Tracepoint;

/// Of a packet, from the header of the network layer on: IPv6 with extensions, or IPv4 with options, and TCP.
pub const HEADERS: usize = 96;

// Where things are in what is told; see `Told::parse`.
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

// The bytes of a segment that is sent again.
const FIRST: i16 = BYTES;
const END: i16 = BYTES + 4;
const PORTS: i16 = BYTES + 8;
const ADDRESSES: i16 = BYTES + 16;

const DROPPED: u32 = 1;
const SENT_AGAIN: u32 = 2;

/// The report on the stack; and a pointer beside it.
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
    packet_arrived_by: u16,
    packet_head: u16,
    packet_tail: u16,
    packet_network: u16,
    packet_control: u16,
    device_index: u16,
    device_namespace: u16,
    socket_namespace: u16,
    namespace_number: u16,
    control_first: u16,
    control_end: u16,
}

impl Offsets {
    /// Those of the kernel that runs; `None` where it lacks one.
    pub fn of(btf: &Btf) -> Option<Offsets> {
        Some(Offsets {
            packet_device: btf.of("sk_buff", "dev")?,
            packet_socket: btf.of("sk_buff", "sk")?,
            packet_length: btf.of("sk_buff", "len")?,
            packet_arrived_by: btf.of("sk_buff", "skb_iif")?,
            packet_head: btf.of("sk_buff", "head")?,
            packet_tail: btf.of("sk_buff", "tail")?,
            packet_network: btf.of("sk_buff", "network_header")?,
            packet_control: btf.of("sk_buff", "cb")?,
            device_index: btf.of("net_device", "ifindex")?,
            device_namespace: btf.of("net_device", "nd_net")?,
            socket_namespace: btf.of("sock", "__sk_common.skc_net")?,
            namespace_number: btf.of("net", "ns.inum")?,
            control_first: btf.of("tcp_skb_cb", "seq")?,
            control_end: btf.of("tcp_skb_cb", "end_seq")?,
        })
    }
}

/// For `skb/kfree_skb`; `None` where the tracepoint has other fields than are known.
pub fn of_drops(
    tracepoint: &Tracepoint,
    offsets: &Offsets,
    namespace: u32,
    map: i32,
) -> Option<Vec<[u8; 8]>> {
    let mut program = Program::default();
    let end = program.label();
    begin(&mut program, DROPPED, tracepoint.field("skbaddr", 8)?);
    for (field, size, place) in [
        ("location", 8, LOCATION),
        ("reason", 4, REASON),
        ("protocol", 2, PROTOCOL),
    ] {
        let Some(offset) = tracepoint.field(field, size) else {
            // Kernels before 5.17 give no reasons.
            if field == "reason" {
                continue;
            }
            return None;
        };
        let width = Width::of(size)?;
        program.load(width, 1, CONTEXT, offset as i16);
        program.store(width, STACK, OUT + place, 1);
    }
    // What has no protocol is no packet: messages between processes, and from the kernel.
    program.jump_if(1, 0, end);
    namespace_of_device(&mut program, offsets);
    let known = program.label();
    jump_if_known(&mut program, known);
    program.probe(POINTER, 8, PACKET, offsets.packet_socket);
    program.load(Width::Eight, 8, STACK, POINTER);
    namespace_of_socket(&mut program, offsets, 8);
    jump_if_known(&mut program, known);
    if let Some(receiver) = tracepoint.field("rx_sk", 8) {
        program.load(Width::Eight, 8, CONTEXT, receiver as i16);
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
    Some(program.assembled())
}

/// For `tcp/tcp_retransmit_skb`; `None` where the tracepoint has other fields than are known.
pub fn of_retransmissions(
    tracepoint: &Tracepoint,
    offsets: &Offsets,
    namespace: u32,
    map: i32,
) -> Option<Vec<[u8; 8]>> {
    let mut program = Program::default();
    let end = program.label();
    begin(&mut program, SENT_AGAIN, tracepoint.field("skbaddr", 8)?);
    if let Some(error) = tracepoint.field("err", 4) {
        // It could not be sent at all.
        program.load(Width::Four, 1, CONTEXT, error as i16);
        program.jump_if_negative(1, end);
    }
    program.load(
        Width::Eight,
        8,
        CONTEXT,
        tracepoint.field("skaddr", 8)? as i16,
    );
    namespace_of_socket(&mut program, offsets, 8);
    only_of(&mut program, namespace, end);
    let control = offsets.packet_control;
    program.probe(OUT + FIRST, 4, PACKET, control + offsets.control_first);
    program.probe(OUT + END, 4, PACKET, control + offsets.control_end);
    for (field, size, place) in [
        ("sport", 2, PORTS),
        ("dport", 2, PORTS + 2),
        ("saddr_v6", 16, ADDRESSES),
        ("daddr_v6", 16, ADDRESSES + 16),
    ] {
        let offset = tracepoint.field(field, size)? as i16;
        // Two bytes at a time: fields of addresses need not be aligned to more.
        for at in (0..size as i16).step_by(2) {
            program.load(Width::Two, 1, CONTEXT, offset + at);
            program.store(Width::Two, STACK, OUT + place + at, 1);
        }
    }
    finish(&mut program, map, end);
    Some(program.assembled())
}

/// Keeps what the program was called with, makes the stack ready, and tells the kind.
fn begin(program: &mut Program, kind: u32, packet: u16) {
    program.copy(CONTEXT, 1);
    program.load(Width::Eight, PACKET, CONTEXT, packet as i16);
    program.set(1, 0);
    for at in (POINTER..0).step_by(8) {
        program.store(Width::Eight, STACK, at, 1);
    }
    program.set(1, kind as i32);
    program.store(Width::Four, STACK, OUT + KIND, 1);
}

/// The interface, and the namespace that it is in. While TCP or UDP have a packet in their queues, other things are where
/// the interface was: then what stands there cannot be read, or is found in no namespace.
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

/// Ends unless the packet is of this namespace, or of one that cannot be told.
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

/// The report of a program, as it lies in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    Dropped {
        /// Number of the network namespace; 0: not known.
        namespace: u32,
        location: u64,
        reason: u32,
        /// Indices of the interface that it was at, and of the one by which it came; 0: none.
        interface: u32,
        arrived_by: u32,
        length: u32,
        ethertype: u16,
        headers: &'a [u8],
    },
    SentAgain {
        first: u32,
        end: u32,
        ports: [u16; 2],
        addresses: [[u8; 16]; 2],
    },
}

impl Told<'_> {
    /// Reads it; `None` where it is something else.
    pub fn parse(bytes: &[u8]) -> Option<Told<'_>> {
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
                // What lies behind the packet's own bytes in memory is none of it.
                let valid = (four(TAIL) as usize).saturating_sub(usize::from(two(NETWORK)));
                Some(Told::Dropped {
                    namespace: four(NAMESPACE),
                    location: u64::from_ne_bytes(
                        bytes[LOCATION as usize..][..8].try_into().expect("eight"),
                    ),
                    reason: four(REASON),
                    interface: four(INTERFACE),
                    arrived_by: four(ARRIVED_BY),
                    length: four(LENGTH),
                    ethertype: two(PROTOCOL),
                    headers: &bytes[BYTES as usize..SIZE][..valid.min(HEADERS)],
                })
            }
            SENT_AGAIN => Some(Told::SentAgain {
                first: four(FIRST),
                end: four(END),
                ports: [two(PORTS), two(PORTS + 2)],
                addresses: [sixteen(ADDRESSES), sixteen(ADDRESSES + 16)],
            }),
            _ => None,
        }
    }
}
