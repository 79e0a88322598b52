//! TCP (RFC 9293), UDP (RFC 768) and ICMP (RFC 792, 4443) headers.

use super::carried::Carried;
use super::{Decoded, Frame, options};
use crate::packet::{TcpFlags, TcpOptions, TcpSegment, Transport};

const TCP_BYTES: usize = 20;
pub(super) const UDP_BYTES: usize = 8;
/// Type, code and checksum.
const ICMP_BYTES: usize = 4;

/// The captured part of an IP packet, from the transport header on. Bytes beyond the IP packet (padding of short
/// Ethernet frames, the frame check sequence) are excluded.
#[inline(always)]
fn captured<'a>(frame: Frame<'a>, carried: &Carried) -> &'a [u8] {
    let end = carried.end.min(frame.bytes.len());
    frame.bytes.get(carried.at..end).unwrap_or(&[])
}

#[inline(always)]
fn with_payload(mut decoded: Decoded, header_bytes: usize, captured_bytes: usize) -> Decoded {
    let header_captured = header_bytes.min(captured_bytes);
    decoded.transport_end = decoded.transport_at + header_captured as u32;
    decoded.payload_at = decoded.transport_end;
    decoded.payload_captured = (captured_bytes - header_captured) as u32;
    decoded
}

#[inline(always)]
pub(super) fn tcp(frame: Frame<'_>, carried: Carried) -> Decoded {
    let bytes = captured(frame, &carried);
    let Some(header) = bytes.first_chunk::<TCP_BYTES>() else {
        return carried.decoded(Transport::Undecodable);
    };
    let header_bytes = usize::from(header[12] >> 4) * 4;
    let carried_bytes = carried.end - carried.at;
    if header_bytes < TCP_BYTES || header_bytes > carried_bytes {
        return carried.decoded(Transport::Undecodable);
    }
    let options = match bytes.get(TCP_BYTES..header_bytes) {
        Some(options) => options::parse(options),
        None => TcpOptions {
            truncated: true,
            ..options::parse(&bytes[TCP_BYTES..])
        },
    };
    let u32_at = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let segment = TcpSegment {
        source_port: u16::from_be_bytes([header[0], header[1]]),
        destination_port: u16::from_be_bytes([header[2], header[3]]),
        sequence: u32_at(4),
        acknowledgment: u32_at(8),
        flags: TcpFlags(u16::from_be_bytes([header[12], header[13]]) & 0x1ff),
        window: u16::from_be_bytes([header[14], header[15]]),
        payload_bytes: (carried_bytes - header_bytes) as u32,
        payload: &[],
        options,
    };
    with_payload(
        carried.decoded(Transport::Tcp(segment)),
        header_bytes,
        bytes.len(),
    )
}

pub(super) fn udp(frame: Frame<'_>, carried: Carried) -> Decoded {
    let bytes = captured(frame, &carried);
    let Some(header) = bytes.first_chunk::<UDP_BYTES>() else {
        return carried.decoded(Transport::Undecodable);
    };
    let destination_port = u16::from_be_bytes([header[2], header[3]]);
    let carried_bytes = carried.end - carried.at;
    let stated_bytes = usize::from(u16::from_be_bytes([header[4], header[5]]));
    // 0 in a jumbogram (RFC 2675); more than the packet's payload in the first fragment.
    let datagram_bytes = match stated_bytes {
        UDP_BYTES.. => stated_bytes.min(carried_bytes),
        _ => carried_bytes,
    };
    let transport = Transport::Udp {
        source_port: u16::from_be_bytes([header[0], header[1]]),
        destination_port,
        payload_bytes: datagram_bytes.saturating_sub(UDP_BYTES) as u32,
        payload: &[],
    };
    with_payload(
        carried.decoded(transport),
        UDP_BYTES,
        bytes.len().min(datagram_bytes),
    )
}

pub(super) fn icmp(frame: Frame<'_>, carried: Carried) -> Decoded {
    let bytes = captured(frame, &carried);
    let &[kind, code, _, _, ..] = bytes else {
        return carried.decoded(Transport::Undecodable);
    };
    with_payload(
        carried.decoded(Transport::Icmp {
            kind,
            code,
            payload: &[],
        }),
        ICMP_BYTES,
        bytes.len(),
    )
}
