//! Frames and capture files of the tests, and what is read of them.

use std::io::{Cursor, Write};

pub(crate) use whydrop_testkit::{
    ACK, ByteOrder, Ipv4, Ipv6, PcapFile, TIMESTAMPS, Tcp, Udp, block, enhanced_packet, ethernet,
    option, put32, section_header,
};

use crate::{Capture, LinkType, OpenOptions, Packet, Summary, TcpSegment, Transport, decode_frame};

pub(crate) fn ipv4(protocol: u8, body: &[u8]) -> Vec<u8> {
    Ipv4 {
        protocol,
        ..Ipv4::default()
    }
    .bytes(body)
}

/// Traffic class 0x2a, hop limit 60.
pub(crate) fn ipv6(next: u8, body: &[u8]) -> Vec<u8> {
    Ipv6 {
        next,
        ..Ipv6::default()
    }
    .bytes(body)
}

/// From port 5000.
pub(crate) fn udp(destination_port: u16, payload: &[u8]) -> Vec<u8> {
    Udp {
        ports: (5000, destination_port),
        checksum: 0xbeef,
        payload,
    }
    .bytes()
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

/// An interface description block of pcapng.
pub(crate) fn interface(
    order: ByteOrder,
    link: LinkType,
    snaplen_bytes: u32,
    options: &[u8],
) -> Vec<u8> {
    whydrop_testkit::interface(order, link.0, snaplen_bytes, options)
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
