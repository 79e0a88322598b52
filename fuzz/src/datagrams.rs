//! IP packets in a form that a fuzzer can mutate, and conversations of the protocols that are read: a time step in
//! [`STEP_NS`], a length (two bytes each), then the packet.

use whydrop_testkit::{Ipv4, Udp};

/// Unit of the time steps.
pub const STEP_NS: i64 = 100_000;

/// Appends a packet, so long after the previous one.
pub fn push(bytes: &mut Vec<u8>, step_ns: i64, packet: &[u8]) {
    let step = (step_ns / STEP_NS).clamp(i16::MIN.into(), i16::MAX.into()) as i16;
    bytes.extend(step.to_le_bytes());
    bytes.extend((packet.len() as u16).to_le_bytes());
    bytes.extend(packet);
}

/// The packets of bytes that [`push`] made, or of any: each step, and what there is of the packet.
pub fn read(mut bytes: &[u8]) -> impl Iterator<Item = (i64, &[u8])> {
    std::iter::from_fn(move || {
        let (&[step_0, step_1, length_0, length_1], rest) = bytes.split_first_chunk()?;
        let length = usize::from(u16::from_le_bytes([length_0, length_1])).min(rest.len());
        let (packet, others) = rest.split_at(length);
        bytes = others;
        // steps back, too, as captures have them
        let step_ns = i64::from(i16::from_le_bytes([step_0, step_1])) * STEP_NS;
        Some((step_ns, packet))
    })
}

const MS: i64 = 1_000_000;
const UDP: u8 = 17;
const ICMP: u8 = 1;

/// A name that is asked for, answered and refused; a clock; a call with losses; echo requests; a port without a program.
pub fn conversations() -> Vec<u8> {
    let mut all = Vec::new();
    let name = b"\x07example\x03org\0\0\x01\0\x01";
    for id in 0..4u8 {
        let query = [&[0, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0], &name[..]].concat();
        let answer = [&[0, id, 0x81, 0x80 | id, 0, 1, 0, 0, 0, 0, 0, 0], &name[..]].concat();
        push(&mut all, 50 * MS, &udp(false, 40_000, 53, &query));
        push(&mut all, 20 * MS, &udp(true, 53, 40_000, &answer));
    }
    let clock = [[0x23].as_slice(), &[0; 39], &[1; 8]].concat();
    push(&mut all, MS, &udp(false, 123, 123, &clock));
    for number in (0..60u16).filter(|number| number % 10 != 3) {
        let mut voice = vec![0x80, 8];
        voice.extend(number.to_be_bytes());
        voice.extend((u32::from(number) * 160).to_be_bytes());
        voice.extend([1, 2, 3, 4]);
        voice.extend([0xd5; 40]);
        push(&mut all, 20 * MS, &udp(true, 20_000, 30_000, &voice));
    }
    for number in 0..3u8 {
        let echo = |kind: u8| [kind, 0, 0, 0, 0, 9, 0, number, 1, 2, 3, 4];
        push(&mut all, 500 * MS, &ip(false, ICMP, &echo(8)));
        push(&mut all, 10 * MS, &ip(true, ICMP, &echo(0)));
    }
    let refused = udp(false, 40_001, 9, b"anyone?");
    push(&mut all, MS, &refused);
    let error = [&[3, 3, 0, 0, 0, 0, 0, 0], &refused[..28]].concat();
    push(&mut all, MS, &ip(true, ICMP, &error));
    all
}

fn udp(from_server: bool, source_port: u16, destination_port: u16, payload: &[u8]) -> Vec<u8> {
    let datagram = Udp {
        ports: (source_port, destination_port),
        payload,
        ..Udp::default()
    };
    ip(from_server, UDP, &datagram.bytes())
}

fn ip(from_server: bool, protocol: u8, body: &[u8]) -> Vec<u8> {
    let header = Ipv4 {
        protocol,
        ..Ipv4::default()
    };
    match from_server {
        true => Ipv4 {
            source: header.destination,
            destination: header.source,
            ..header
        },
        false => header,
    }
    .bytes(body)
}
