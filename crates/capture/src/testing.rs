//! Frames and capture files built by hand, for tests.

use std::io::{Cursor, Write};

use crate::bytes::ByteOrder;
use crate::{Capture, LinkType, OpenOptions, Packet, Summary, TcpSegment, Transport, decode_frame};

pub(crate) const ACK: u16 = 0x10;
/// NOP, NOP, timestamps: value 1000, echo 2000.
pub(crate) const TIMESTAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 3, 232, 0, 0, 7, 208];

/// A TCP segment with the fields that most tests vary.
#[derive(Clone)]
pub(crate) struct Tcp {
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) flags: u16,
    pub(crate) window: u16,
    pub(crate) options: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            sequence: 0x0102_0304,
            acknowledgment: 0x0506_0708,
            flags: ACK,
            window: 500,
            options: TIMESTAMPS.to_vec(),
            payload: b"hello".to_vec(),
        }
    }
}

impl Tcp {
    /// From port 40000 to 443. The options must fill whole words.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        assert_eq!(self.options.len() % 4, 0);
        let words = 5 + self.options.len() as u16 / 4;
        let mut bytes = vec![0x9c, 0x40, 0x01, 0xbb];
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.acknowledgment.to_be_bytes());
        bytes.extend((words << 12 | self.flags).to_be_bytes());
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0xab, 0xcd, 0, 0]);
        bytes.extend(&self.options);
        bytes.extend(&self.payload);
        bytes
    }
}

/// The fields of an IPv4 header that tests vary.
#[derive(Clone)]
pub(crate) struct Ipv4 {
    pub(crate) protocol: u8,
    pub(crate) identification: u16,
    pub(crate) ttl: u8,
    pub(crate) type_of_service: u8,
    pub(crate) flags_and_offset: u16,
    pub(crate) options: Vec<u8>,
    /// Instead of the true total length.
    pub(crate) total_bytes: Option<u16>,
}

impl Default for Ipv4 {
    fn default() -> Self {
        Self {
            protocol: 6,
            identification: 7,
            ttl: 64,
            type_of_service: 0,
            flags_and_offset: 0x4000,
            options: Vec::new(),
            total_bytes: None,
        }
    }
}

impl Ipv4 {
    /// From 10.0.0.1 to 10.0.0.2.
    pub(crate) fn bytes(&self, body: &[u8]) -> Vec<u8> {
        let header = 20 + self.options.len();
        let total = self.total_bytes.unwrap_or((header + body.len()) as u16);
        let mut bytes = vec![0x40 | (header / 4) as u8, self.type_of_service];
        bytes.extend(total.to_be_bytes());
        bytes.extend(self.identification.to_be_bytes());
        bytes.extend(self.flags_and_offset.to_be_bytes());
        bytes.extend([self.ttl, self.protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend(&self.options);
        bytes.extend(body);
        bytes
    }
}

pub(crate) fn ipv4(protocol: u8, body: &[u8]) -> Vec<u8> {
    Ipv4 {
        protocol,
        ..Ipv4::default()
    }
    .bytes(body)
}

/// From fd00::1 to fd00::2, traffic class 0x2a, hop limit 60.
pub(crate) fn ipv6(next: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x62, 0xa0, 0, 0];
    bytes.extend((body.len() as u16).to_be_bytes());
    bytes.extend([next, 60]);
    for last in [1, 2] {
        bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    bytes.extend(body);
    bytes
}

/// From port 5000.
pub(crate) fn udp(destination_port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x13, 0x88];
    bytes.extend(destination_port.to_be_bytes());
    bytes.extend((payload.len() as u16 + 8).to_be_bytes());
    bytes.extend([0xbe, 0xef]);
    bytes.extend(payload);
    bytes
}

pub(crate) fn ethernet(ethertype: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    bytes.extend(ethertype.to_be_bytes());
    bytes.extend(body);
    bytes
}

/// A plain segment in IPv4, as most link layer tests carry it.
pub(crate) fn packet() -> Vec<u8> {
    ipv4(6, &Tcp::default().bytes())
}

pub(crate) fn frame() -> Vec<u8> {
    ethernet(0x0800, &packet())
}

/// Joins byte strings.
pub(crate) fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Decodes a completely captured frame, with one level of tunnels unwrapped.
pub(crate) fn decoded(link: LinkType, frame: &[u8]) -> Packet<'_> {
    decode_frame(link, frame, frame.len() as u32, 1)
}

#[track_caller]
pub(crate) fn tcp_of<'a>(packet: &Packet<'a>) -> TcpSegment<'a> {
    match packet.transport {
        Transport::Tcp(segment) => segment,
        other => panic!("expected TCP, found {other:?}"),
    }
}

/// Asserts that a frame is decoded to the segment that [`packet`] carries.
#[track_caller]
pub(crate) fn assert_holds_packet(link: LinkType, frame: &[u8]) {
    let packet = decoded(link, frame);
    let segment = tcp_of(&packet);
    assert_eq!(segment.sequence, 0x0102_0304);
    assert_eq!(segment.payload, b"hello");
    assert_eq!(packet.network.unwrap().ip_bytes, 57);
}

/// A pcap file.
pub(crate) struct PcapFile {
    pub(crate) order: ByteOrder,
    pub(crate) nanoseconds: bool,
    pub(crate) link: LinkType,
    pub(crate) snaplen_bytes: u32,
}

impl Default for PcapFile {
    fn default() -> Self {
        Self {
            order: ByteOrder::Little,
            nanoseconds: true,
            link: LinkType::ETHERNET,
            snaplen_bytes: 65_535,
        }
    }
}

pub(crate) fn put16(order: ByteOrder, value: u16) -> [u8; 2] {
    match order {
        ByteOrder::Little => value.to_le_bytes(),
        ByteOrder::Big => value.to_be_bytes(),
    }
}

pub(crate) fn put32(order: ByteOrder, value: u32) -> [u8; 4] {
    match order {
        ByteOrder::Little => value.to_le_bytes(),
        ByteOrder::Big => value.to_be_bytes(),
    }
}

impl PcapFile {
    pub(crate) fn header(&self) -> Vec<u8> {
        let magic = if self.nanoseconds {
            0xa1b2_3c4d
        } else {
            0xa1b2_c3d4
        };
        let mut bytes = put32(self.order, magic).to_vec();
        bytes.extend(put16(self.order, 2));
        bytes.extend(put16(self.order, 4));
        bytes.extend([0; 8]);
        bytes.extend(put32(self.order, self.snaplen_bytes));
        bytes.extend(put32(self.order, u32::from(self.link.0)));
        bytes
    }

    pub(crate) fn record(&self, time_ns: i64, wire_bytes: u32, frame: &[u8]) -> Vec<u8> {
        let (seconds, rest) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        let fraction = if self.nanoseconds { rest } else { rest / 1000 };
        let mut bytes = Vec::new();
        for value in [
            seconds as u32,
            fraction as u32,
            frame.len() as u32,
            wire_bytes,
        ] {
            bytes.extend(put32(self.order, value));
        }
        bytes.extend(frame);
        bytes
    }

    /// A file of completely captured frames.
    pub(crate) fn of(&self, frames: &[(i64, &[u8])]) -> Vec<u8> {
        let mut bytes = self.header();
        for (time_ns, frame) in frames {
            bytes.extend(self.record(*time_ns, frame.len() as u32, frame));
        }
        bytes
    }
}

/// A block of pcapng, body padded.
pub(crate) fn block(order: ByteOrder, kind: u32, body: &[u8]) -> Vec<u8> {
    let padding = body.len().wrapping_neg() & 3;
    let total = put32(order, (body.len() + padding + 12) as u32);
    join(&[
        &put32(order, kind),
        &total,
        body,
        &[0; 3][..padding],
        &total,
    ])
}

pub(crate) fn option(order: ByteOrder, code: u16, value: &[u8]) -> Vec<u8> {
    let padding = value.len().wrapping_neg() & 3;
    join(&[
        &put16(order, code),
        &put16(order, value.len() as u16),
        value,
        &[0; 3][..padding],
    ])
}

pub(crate) fn section_header(order: ByteOrder) -> Vec<u8> {
    let body = join(&[
        &put32(order, 0x1a2b_3c4d),
        &put16(order, 1),
        &put16(order, 0),
        &[0xff; 8],
    ]);
    block(order, 0x0a0d_0d0a, &body)
}

pub(crate) fn interface(
    order: ByteOrder,
    link: LinkType,
    snaplen_bytes: u32,
    options: &[u8],
) -> Vec<u8> {
    let body = join(&[
        &put16(order, link.0),
        &[0, 0],
        &put32(order, snaplen_bytes),
        options,
    ]);
    block(order, 1, &body)
}

pub(crate) fn enhanced_packet(
    order: ByteOrder,
    interface: u32,
    ticks: u64,
    frame: &[u8],
    options: &[u8],
) -> Vec<u8> {
    let padding = frame.len().wrapping_neg() & 3;
    let captured = put32(order, frame.len() as u32);
    let body = join(&[
        &put32(order, interface),
        &put32(order, (ticks >> 32) as u32),
        &put32(order, ticks as u32),
        &captured,
        &captured,
        frame,
        &[0; 3][..padding],
        options,
    ]);
    block(order, 6, &body)
}

/// The fields of a packet that tests compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) index: u64,
    pub(crate) time_ns: i64,
    pub(crate) interface: u32,
    pub(crate) wire_bytes: u32,
    pub(crate) captured_bytes: u32,
}

pub(crate) fn read_with(bytes: &[u8], options: OpenOptions) -> (Vec<Line>, Summary) {
    let mut capture = Capture::from_reader("test", Cursor::new(bytes.to_vec()), options).unwrap();
    let lines = drain(&mut capture);
    (lines, capture.summary())
}

/// Reads every packet of a capture, including duplicates.
pub(crate) fn read(bytes: &[u8]) -> (Vec<Line>, Summary) {
    read_with(
        bytes,
        OpenOptions {
            keep_duplicates: true,
            ..OpenOptions::default()
        },
    )
}

pub(crate) fn drain(capture: &mut Capture) -> Vec<Line> {
    let mut lines = Vec::new();
    while let Some(packet) = capture.next_packet() {
        lines.push(Line {
            index: packet.index,
            time_ns: packet.time_ns,
            interface: packet.interface,
            wire_bytes: packet.wire_bytes,
            captured_bytes: packet.captured_bytes,
        });
    }
    lines
}

/// The reason why bytes are not a capture.
#[track_caller]
pub(crate) fn refusal(bytes: &[u8]) -> String {
    match Capture::from_reader("test", Cursor::new(bytes.to_vec()), OpenOptions::default()) {
        Ok(_) => panic!("was taken for a capture"),
        Err(error) => error.to_string(),
    }
}

/// The same bytes in each compression, with the file name extension of each.
pub(crate) fn compressed(bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    let blocks = lz4_flex::frame::FrameInfo::new().block_size(lz4_flex::frame::BlockSize::Max64KB);
    let mut lz4 = lz4_flex::frame::FrameEncoder::with_frame_info(blocks, Vec::new());
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    xz.write_all(bytes).unwrap();
    lz4.write_all(bytes).unwrap();
    bzip2.write_all(bytes).unwrap();
    vec![
        ("gz", gzip.finish().unwrap()),
        ("zst", zstd::stream::encode_all(bytes, 1).unwrap()),
        ("xz", xz.finish().unwrap()),
        ("lz4", lz4.finish().unwrap()),
        ("bz2", bzip2.finish().unwrap()),
    ]
}

/// Frames that compress about as well as real ones: similar headers, varying payload.
pub(crate) fn many_frames(count: u32) -> Vec<u8> {
    let file = PcapFile::default();
    let mut bytes = file.header();
    let mut state = 1u32;
    for place in 0..count {
        let payload = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        let segment = Tcp {
            sequence: place * 40,
            payload: payload.take(40).collect(),
            ..Tcp::default()
        };
        let header = Ipv4 {
            identification: place as u16,
            ..Ipv4::default()
        };
        let frame = ethernet(0x0800, &header.bytes(&segment.bytes()));
        bytes.extend(file.record(i64::from(place) * 1000, frame.len() as u32, &frame));
    }
    bytes
}
