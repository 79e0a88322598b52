//! Decoding of a frame to its IP and transport headers.
//!
//! A frame is parsed in place and its fields are copied; the payload is stored as a position in the frame, so that the
//! reader may advance before the frame is released.

mod carried;
mod internet;
mod layer_two;
mod link;
mod options;
#[cfg(test)]
mod tests;
mod transport;
mod tunnel;
#[cfg(test)]
mod tunnel_tests;
mod wireless;
#[cfg(test)]
mod wireless_tests;

use crate::link_type::LinkType;
use crate::packet::{Network, Packet, Transport};
use crate::unread::Unread;
pub(crate) use wireless::{Transmission, transmission};

/// A captured frame and how to decode it.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) wire_bytes: u32,
    /// How many tunnel headers to unwrap.
    pub(crate) tunnel_levels: u8,
}

/// A decoded frame. `transport` has empty payloads; [`Decoded::transport`] fills them in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decoded {
    pub(crate) network: Option<Network>,
    pub(crate) transport: Transport<'static>,
    /// Where the captured payload is in the frame.
    payload_at: u32,
    payload_captured: u32,
    /// Where the outermost IP header begins, after the link header.
    pub(crate) link_bytes: u32,
    /// Where the innermost decoded IP header begins, and what follows it.
    pub(crate) network_at: u32,
    pub(crate) transport_at: u32,
    /// Where the transport header ends, as far as it was captured.
    pub(crate) transport_end: u32,
    /// For a frame without a readable IP header: the protocol or the damage that prevents reading.
    pub(crate) unread: Option<Unread>,
    /// Where the 802.11 header begins, if there is one.
    pub(crate) radio_at: Option<u32>,
    /// Where the next frame of an aggregate (A-MSDU) begins; 0 if there is none.
    pub(crate) next_at: u32,
}

impl Decoded {
    /// A frame without a readable IP header.
    const fn without_network(transport: Transport<'static>) -> Self {
        Self {
            network: None,
            transport,
            payload_at: 0,
            payload_captured: 0,
            link_bytes: 0,
            network_at: 0,
            transport_at: 0,
            transport_end: 0,
            unread: None,
            radio_at: None,
            next_at: 0,
        }
    }

    fn not_read(unread: Unread) -> Self {
        let transport = match unread {
            Unread::LinkType(_) | Unread::CutOff => Transport::Undecodable,
            _ => Transport::NotIp(unread.ethertype()),
        };
        Self {
            unread: Some(unread),
            ..Self::without_network(transport)
        }
    }

    /// True if the frame carries hosts' data, whether or not it can be read.
    pub(crate) fn is_data(&self) -> bool {
        self.network.is_some() || self.unread == Some(Unread::WirelessEncrypted)
    }

    /// The contents that were not read; `None` if there was a transport header, or a fragment of a packet.
    pub(crate) fn unread(&self) -> Option<Unread> {
        match (self.unread, &self.transport) {
            (Some(unread), _) => Some(unread),
            (None, Transport::OtherProtocol(protocol)) => Some(Unread::IpProtocol(*protocol)),
            (None, Transport::Undecodable | Transport::NotIp(_)) => Some(Unread::CutOff),
            _ => None,
        }
    }

    /// The transport, with its payload borrowed from the decoded frame.
    #[inline(always)]
    pub(crate) fn transport<'a>(&self, frame: &'a [u8]) -> Transport<'a> {
        let start = self.payload_at as usize;
        let bytes = &frame[start..start + self.payload_captured as usize];
        match self.transport {
            Transport::Tcp(segment) => Transport::Tcp(crate::packet::TcpSegment {
                payload: bytes,
                ..segment
            }),
            Transport::Udp {
                source_port,
                destination_port,
                payload_bytes,
                ..
            } => Transport::Udp {
                source_port,
                destination_port,
                payload_bytes,
                payload: bytes,
            },
            Transport::Icmp { kind, code, .. } => Transport::Icmp {
                kind,
                code,
                payload: bytes,
            },
            Transport::Fragment => Transport::Fragment,
            Transport::OtherProtocol(protocol) => Transport::OtherProtocol(protocol),
            Transport::NotIp(ethertype) => Transport::NotIp(ethertype),
            Transport::Undecodable => Transport::Undecodable,
        }
    }
}

/// Decodes a frame down to its transport header.
#[inline(always)]
pub(crate) fn decode(link: LinkType, frame: Frame<'_>) -> Decoded {
    const LINK_BYTES: usize = 14;
    // Most frames of most captures skip the general parsing of link layers.
    if link == LinkType::ETHERNET && frame.bytes.get(12..15) == Some(&[0x08, 0x00, 0x45]) {
        return internet::ipv4(frame, LINK_BYTES, LINK_BYTES, 0);
    }
    decode_any(link, frame)
}

fn decode_any(link: LinkType, frame: Frame<'_>) -> Decoded {
    let (link, at) = link::wrapped(link, frame.bytes).unwrap_or((link, 0));
    decode_from(link, frame, at)
}

/// Decodes a frame from the header of this link type at `at`.
fn decode_from(link: LinkType, frame: Frame<'_>, at: usize) -> Decoded {
    if !link.is_wireless() {
        return network(frame, link::network_layer(link, frame.bytes, at));
    }
    let Some(walked) = wireless::walk(link, frame.bytes, at) else {
        return Decoded::without_network(Transport::Undecodable);
    };
    Decoded {
        radio_at: Some(walked.header_at as u32),
        next_at: walked.next_at as u32,
        ..network(frame, walked.found)
    }
}

/// Decodes the frame of an aggregate that follows `decoded`.
pub(crate) fn decode_next(frame: Frame<'_>, decoded: &Decoded) -> Option<Decoded> {
    let at = (decoded.next_at != 0).then_some(decoded.next_at as usize)?;
    let (found, next_at) = wireless::subframe(frame.bytes, at)?;
    Some(Decoded {
        radio_at: decoded.radio_at,
        next_at: next_at as u32,
        ..network(frame, found)
    })
}

fn network(frame: Frame<'_>, found: link::Found) -> Decoded {
    match found {
        link::Found::Ip(at) => internet::ip(frame, at, at, 0),
        link::Found::NotIp(unread) => Decoded::not_read(unread),
        link::Found::Unreadable => Decoded::without_network(Transport::Undecodable),
    }
}

/// Decodes one frame that is not from a capture file.
///
/// `wire_bytes` is the length of the frame on its link, which may exceed `bytes`; `tunnel_levels` is how many tunnel
/// headers to unwrap. Time, index and interface are 0.
pub fn decode_frame(
    link: LinkType,
    bytes: &[u8],
    wire_bytes: u32,
    tunnel_levels: u8,
) -> Packet<'_> {
    // Positions in a frame are stored in 32 bits.
    let bytes = &bytes[..bytes.len().min(crate::format::LARGEST_FRAME_BYTES as usize)];
    let decoded = decode(
        link,
        Frame {
            bytes,
            wire_bytes,
            tunnel_levels,
        },
    );
    Packet {
        index: 0,
        time_ns: 0,
        interface: 0,
        wire_bytes,
        captured_bytes: bytes.len() as u32,
        network: decoded.network,
        transport: decoded.transport(bytes),
    }
}
