//! TCP packets of a few connections in a form that a fuzzer can mutate: every byte string is a list of packets, and a
//! changed byte changes one field.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | initial sequence number of the servers, so that numbers can wrap anywhere; once, at the start |
//! | 1 | connection (2 bits), from the server (1), has timestamps (1), SACK blocks (2), sequence number relative to the last one sent (1), acknowledgment relative to the peer's last one (1) |
//! | 1 | TCP flags |
//! | 2 | time step: a signed count in the upper 12 bits, of a unit (1 µs to 1 s) in the lower 4 |
//! | 2 | payload bytes, up to 65 535: super-segments |
//! | 4 | sequence number, relative to the initial one or as a signed step from the last |
//! | 4 | acknowledgment number, likewise |
//! | 2 | window |
//! | 8 | timestamp value and echo, if any |
//! | 6 each | SACK blocks: start relative to the acknowledgment number, length |

use std::net::{IpAddr, Ipv4Addr};

use whydrop_capture::{Network, Packet, TcpFlags, TcpOptions, TcpSegment, Transport};

const CONNECTION: u8 = 0x03;
const FROM_SERVER: u8 = 0x04;
const TIMESTAMPS: u8 = 0x08;
const SACK_SHIFT: u8 = 4;
const RELATIVE_SEQUENCE: u8 = 0x40;
const RELATIVE_ACKNOWLEDGMENT: u8 = 0x80;

/// One decoded packet. `time_ns` starts at an ordinary date.
#[derive(Debug, Clone, Copy)]
pub struct TcpPacket {
    pub connection: u8,
    pub from_server: bool,
    pub time_ns: i64,
    pub tcp: TcpSegment<'static>,
}

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));
const SERVER_PORT: u16 = 80;
const FIRST_CLIENT_PORT: u16 = 5000;
const START_NS: i64 = 1_600_000_000_000_000_000;
const CLIENT_INITIAL_SEQUENCE: u32 = 7;

impl TcpPacket {
    /// The packet as the capture reader returns it.
    pub fn packet(&self, index: u64) -> Packet<'static> {
        let (source, destination) = if self.from_server {
            (SERVER, CLIENT)
        } else {
            (CLIENT, SERVER)
        };
        let ip_bytes = 40 + self.tcp.payload_bytes;
        let network = Network {
            source,
            destination,
            ip_bytes,
            identification: Some(index as u16),
            ttl: if self.from_server { 64 } else { 53 },
            dscp: 0,
            ecn: (self.tcp.window & 3) as u8,
            tunnel_depth: 0,
        };
        Packet {
            index,
            time_ns: self.time_ns,
            interface: 0,
            wire_bytes: ip_bytes + 14,
            captured_bytes: 96,
            network: Some(network),
            transport: Transport::Tcp(self.tcp),
        }
    }
}

/// Decodes packets until the bytes end.
pub fn decode(bytes: &[u8]) -> Vec<TcpPacket> {
    let mut input = Input(bytes);
    let isn = input.u32().unwrap_or(0);
    let mut last = [[isn, CLIENT_INITIAL_SEQUENCE]; 4];
    let mut time_ns = START_NS;
    let mut packets = Vec::new();
    while let Some(packet) = decode_one(&mut input, isn, &mut last, &mut time_ns) {
        packets.push(packet);
    }
    packets
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
}

fn decode_one(
    input: &mut Input,
    isn: u32,
    last: &mut [[u32; 2]; 4],
    time_ns: &mut i64,
) -> Option<TcpPacket> {
    let shape = input.u8()?;
    let flags = TcpFlags(input.u8()?.into());
    *time_ns = time_ns.saturating_add(step_ns(input.u16()?));
    let payload_bytes = u32::from(input.u16()?);
    let (sequence, acknowledgment) = (input.u32()?, input.u32()?);
    let window = input.u16()?;
    let connection = shape & CONNECTION;
    let from_server = shape & FROM_SERVER != 0;
    let side = usize::from(!from_server);
    let sent = &mut last[usize::from(connection)];
    let origins = [isn, CLIENT_INITIAL_SEQUENCE];
    let base = |relative: bool, side: usize| if relative { sent[side] } else { origins[side] };
    let sequence = base(shape & RELATIVE_SEQUENCE != 0, side).wrapping_add(sequence);
    let acknowledgment =
        base(shape & RELATIVE_ACKNOWLEDGMENT != 0, 1 - side).wrapping_add(acknowledgment);
    sent[side] = sequence.wrapping_add(payload_bytes);
    let mut options = TcpOptions::default();
    if flags.has(TcpFlags::SYN) {
        // an MSS as small as a hostile peer may announce
        options.mss = (window & 0x8000 == 0).then_some(window & 0x0fff);
        options.window_scale = (window & 0x4000 == 0).then_some((window >> 8) as u8 & 0x0f);
        options.sack_permitted = true;
    }
    if shape & TIMESTAMPS != 0 {
        options.timestamps = Some((input.u32()?, input.u32()?));
    }
    for _ in 0..shape >> SACK_SHIFT & 0x03 {
        let start = acknowledgment.wrapping_add(input.u32()?);
        let end = start.wrapping_add(u32::from(input.u16()?));
        options.sack[usize::from(options.sack_blocks)] = (start, end);
        options.sack_blocks += 1;
    }
    let (source_port, destination_port) = match from_server {
        true => (SERVER_PORT, FIRST_CLIENT_PORT + u16::from(connection)),
        false => (FIRST_CLIENT_PORT + u16::from(connection), SERVER_PORT),
    };
    let tcp = TcpSegment {
        source_port,
        destination_port,
        sequence,
        acknowledgment,
        flags,
        window,
        payload_bytes,
        payload: &[],
        options,
    };
    Some(TcpPacket {
        connection,
        from_server,
        time_ns: *time_ns,
        tcp,
    })
}

/// From -2048 to 2047 times 1 µs, 10 µs ... 1 s; larger units give years.
fn step_ns(step: u16) -> i64 {
    let count = i64::from(step as i16 >> 4);
    match step & 0x0f {
        unit @ 0..=6 => count * 10i64.pow(3 + u32::from(unit)),
        15 => count << 54,
        unit => count * i64::from(unit) * 1000,
    }
}

/// Encodes packets for [`decode`]: times are exact to the microsecond, or approximate for steps over two milliseconds;
/// all four connections need ports from 5000 to 5003.
pub fn encode(isn: u32, packets: &[TcpPacket]) -> Vec<u8> {
    let mut bytes = isn.to_le_bytes().to_vec();
    let mut time_ns = START_NS;
    for packet in packets {
        let tcp = &packet.tcp;
        let options = &tcp.options;
        let blocks = options.sack_blocks().len().min(3) as u8;
        let mut shape = packet.connection & CONNECTION | blocks << SACK_SHIFT;
        shape |= if packet.from_server { FROM_SERVER } else { 0 };
        shape |= if options.timestamps.is_some() {
            TIMESTAMPS
        } else {
            0
        };
        let (own, peer) = match packet.from_server {
            true => (isn, CLIENT_INITIAL_SEQUENCE),
            false => (CLIENT_INITIAL_SEQUENCE, isn),
        };
        let step = encoded_step(packet.time_ns - time_ns);
        time_ns += step_ns(step);
        bytes.extend([shape, tcp.flags.0 as u8]);
        bytes.extend(step.to_le_bytes());
        bytes.extend((tcp.payload_bytes.min(65_535) as u16).to_le_bytes());
        bytes.extend(tcp.sequence.wrapping_sub(own).to_le_bytes());
        bytes.extend(tcp.acknowledgment.wrapping_sub(peer).to_le_bytes());
        let syn = tcp.flags.has(TcpFlags::SYN);
        let window = if syn {
            options.mss.unwrap_or(1460) & 0x0fff
        } else {
            tcp.window
        };
        bytes.extend(window.to_le_bytes());
        if let Some((value, echo)) = options.timestamps {
            bytes.extend(value.to_le_bytes());
            bytes.extend(echo.to_le_bytes());
        }
        for &(start, end) in &options.sack_blocks()[..usize::from(blocks)] {
            bytes.extend(start.wrapping_sub(tcp.acknowledgment).to_le_bytes());
            bytes.extend((end.wrapping_sub(start).min(65_535) as u16).to_le_bytes());
        }
    }
    bytes
}

fn encoded_step(step_ns: i64) -> u16 {
    let (mut count, mut unit) = (step_ns / 1000, 0);
    while !(-2048..2048).contains(&count) && unit < 6 {
        count /= 10;
        unit += 1;
    }
    ((count.clamp(-2048, 2047) as i16 as u16) << 4) | unit
}

/// A captured packet in this form: `connection` is its number, `from_server` its direction, numbers are relative to the
/// first of each side.
pub fn normalised(
    tcp: &TcpSegment,
    connection: u8,
    from_server: bool,
    time_ns: i64,
    [isn, origins_server, origins_client]: [u32; 3],
) -> TcpPacket {
    let server = |number: u32| number.wrapping_sub(origins_server).wrapping_add(isn);
    let client = |number: u32| {
        number
            .wrapping_sub(origins_client)
            .wrapping_add(CLIENT_INITIAL_SEQUENCE)
    };
    let mut options = tcp.options;
    for block in &mut options.sack {
        *block = match from_server {
            true => (client(block.0), client(block.1)),
            false => (server(block.0), server(block.1)),
        };
    }
    let (sequence, acknowledgment) = match from_server {
        true => (server(tcp.sequence), client(tcp.acknowledgment)),
        false => (client(tcp.sequence), server(tcp.acknowledgment)),
    };
    let ports = (SERVER_PORT, FIRST_CLIENT_PORT + u16::from(connection));
    let (source_port, destination_port) = if from_server {
        ports
    } else {
        (ports.1, ports.0)
    };
    TcpPacket {
        connection,
        from_server,
        time_ns,
        tcp: TcpSegment {
            source_port,
            destination_port,
            sequence,
            acknowledgment,
            flags: tcp.flags,
            window: tcp.window,
            payload_bytes: tcp.payload_bytes,
            payload: &[],
            options,
        },
    }
}
