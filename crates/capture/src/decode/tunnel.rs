//! Tunnels: GRE (RFC 2784, 2890), VXLAN (RFC 7348) and VXLAN-GPE, Geneve (RFC 8926), IP in IP (RFC 2003, 4213), GTP-U
//! of mobile networks (3GPP TS 29.281), L2TP, EtherIP (RFC 3378), MPLS in IP (RFC 4023) and in UDP (RFC 7510), Teredo
//! (RFC 4380), LISP (RFC 9300), CAPWAP of wireless controllers (RFC 5415), TZSP of mirrors.

use super::carried::{Carried, protocol};
use super::layer_two;
use super::link::{self, Found};
use super::transport::UDP_BYTES;
use super::{Decoded, Frame, internet};
use crate::bytes::be16;
use crate::packet::Transport;

/// Unwraps an IP protocol that is a tunnel. Returns the protocol itself if tunnels shall not be unwrapped to this
/// depth, or if no IP header is found inside.
pub(super) fn unwrap_protocol(frame: Frame<'_>, carried: Carried) -> Decoded {
    let outer = carried.decoded(Transport::OtherProtocol(carried.protocol));
    if carried.network.tunnel_depth >= frame.tunnel_levels {
        return outer;
    }
    let found = match carried.protocol {
        protocol::GRE => generic_routing(frame.bytes, carried.at),
        protocol::ETHER_IP => link::ethernet(frame.bytes, carried.at + 2),
        protocol::L2TP => layer_two::over_ip(frame.bytes, carried.at),
        protocol::MPLS => link::labels(frame.bytes, carried.at),
        _ => Some(Found::Ip(carried.at)),
    };
    inside(frame, &carried, found).unwrap_or(outer)
}

/// Unwraps the packet in a UDP datagram to a tunnel's port, if that is requested and it contains an IP packet.
#[inline(always)]
pub(super) fn unwrap_udp(frame: Frame<'_>, carried: &Carried) -> Option<Decoded> {
    const VXLAN: u16 = 4789;
    /// Linux's default from before the port was assigned, still used by several overlay networks.
    const VXLAN_LINUX: u16 = 8472;
    const GENEVE: u16 = 6081;
    const GTP_U: u16 = 2152;
    const L2TP: u16 = 1701;
    const TEREDO: u16 = 3544;
    const LISP: u16 = 4341;
    const VXLAN_GPE: u16 = 4790;
    const CAPWAP_DATA: u16 = 5247;
    const MPLS: u16 = 6635;
    const TZSP: u16 = 37_008;
    let end = carried.end.min(frame.bytes.len());
    let header = frame
        .bytes
        .get(carried.at..end)?
        .first_chunk::<UDP_BYTES>()?;
    let source = u16::from_be_bytes([header[0], header[1]]);
    let parse = match u16::from_be_bytes([header[2], header[3]]) {
        VXLAN | VXLAN_LINUX => virtual_lan,
        GENEVE => generic_encapsulation,
        GTP_U => user_plane,
        L2TP => layer_two::over_udp,
        VXLAN_GPE => virtual_lan_extended,
        MPLS => link::labels,
        TZSP => layer_two::sniffed,
        LISP => locator_separation,
        CAPWAP_DATA => layer_two::access_point,
        TEREDO => teredo,
        // answers go from the tunnel's port to any port
        _ => match source {
            L2TP => layer_two::over_udp,
            CAPWAP_DATA => layer_two::access_point,
            TEREDO => teredo,
            _ => return None,
        },
    };
    if carried.network.tunnel_depth >= frame.tunnel_levels {
        return None;
    }
    inside(frame, carried, parse(frame.bytes, carried.at + UDP_BYTES))
}

/// Decodes the inside of a tunnel, if an IP header is found there. The outer packet's end bounds it.
fn inside(frame: Frame<'_>, carried: &Carried, found: Option<Found>) -> Option<Decoded> {
    let Some(Found::Ip(at)) = found else {
        return None;
    };
    let bytes = &frame.bytes[..frame.bytes.len().min(carried.end)];
    let wire_bytes = frame
        .wire_bytes
        .min(u32::try_from(carried.end).unwrap_or(u32::MAX));
    let inner = Frame {
        bytes,
        wire_bytes,
        ..frame
    };
    let decoded = internet::ip(
        inner,
        at,
        carried.link_bytes,
        carried.network.tunnel_depth + 1,
    );
    decoded.network.is_some().then_some(decoded)
}

fn virtual_lan(bytes: &[u8], at: usize) -> Option<Found> {
    const GROUP_POLICY: u8 = 0x80;
    let header = bytes.get(at..at + 8)?;
    // The flag "the network identifier is valid", and the flag of group policies, which has two bytes of its own; all
    // other reserved bits are zero.
    let has_group = header[0] & GROUP_POLICY != 0;
    let is_plain = header[1..4] == [0, 0, 0];
    if header[0] & !GROUP_POLICY != 0x08 || !(has_group || is_plain) || header[7] != 0 {
        return None;
    }
    link::ethernet(bytes, at + 8)
}

/// VXLAN with a header that names its payload (draft-ietf-nvo3-vxlan-gpe).
fn virtual_lan_extended(bytes: &[u8], at: usize) -> Option<Found> {
    const NAMES_PROTOCOL: u8 = 0x04;
    let header = bytes.get(at..at + 8)?;
    if header[0] & NAMES_PROTOCOL == 0 {
        return link::ethernet(bytes, at + 8);
    }
    link::after_ethertype(bytes, link::next_protocol(header[3])?, at + 8)
}

/// An IP packet between sites with locator/identifier separation (RFC 9300, section 5).
fn locator_separation(bytes: &[u8], at: usize) -> Option<Found> {
    const HEADER_BYTES: usize = 8;
    internet_at(bytes, at + HEADER_BYTES)
}

/// IPv6 over UDP, optionally preceded by an authentication and the sender's address (RFC 4380, section 5.1.1).
fn teredo(bytes: &[u8], mut at: usize) -> Option<Found> {
    const AUTHENTICATION: u16 = 1;
    const ORIGIN: u16 = 0;
    if be16(bytes, at)? == AUTHENTICATION {
        let client_bytes = usize::from(*bytes.get(at + 2)?);
        let value_bytes = usize::from(*bytes.get(at + 3)?);
        at += 13 + client_bytes + value_bytes;
    }
    if be16(bytes, at)? == ORIGIN {
        at += 8;
    }
    internet_at(bytes, at)
}

/// An IP header, if the version field is valid.
fn internet_at(bytes: &[u8], at: usize) -> Option<Found> {
    let version = bytes.get(at)? >> 4;
    matches!(version, 4 | 6).then_some(Found::Ip(at))
}

fn generic_encapsulation(bytes: &[u8], at: usize) -> Option<Found> {
    const FIXED_BYTES: usize = 8;
    let header = bytes.get(at..at + FIXED_BYTES)?;
    // Version 0; the last byte is reserved.
    if header[0] >> 6 != 0 || header[7] != 0 {
        return None;
    }
    let option_bytes = usize::from(header[0] & 0x3f) * 4;
    link::after_ethertype(bytes, be16(header, 2)?, at + FIXED_BYTES + option_bytes)
}

/// A user's packet between a base station and the core of a mobile network (3GPP TS 29.281, clause 5).
fn user_plane(bytes: &[u8], at: usize) -> Option<Found> {
    const USER_DATA: u8 = 255;
    const FIXED_BYTES: usize = 8;
    /// Sequence number, N-PDU number and the type of the first extension header: present if any of their flags is set.
    const OPTIONAL_BYTES: usize = 4;
    let header = bytes.get(at..at + FIXED_BYTES)?;
    // version 1 of the user-plane protocol
    if header[0] >> 4 != 0b0011 || header[1] != USER_DATA {
        return None;
    }
    if header[0] & 0b111 == 0 {
        return Some(Found::Ip(at + FIXED_BYTES));
    }
    let mut inner = at + FIXED_BYTES + OPTIONAL_BYTES;
    let mut is_extended = header[0] & 0b100 != 0 && *bytes.get(inner - 1)? != 0;
    while is_extended {
        // in units of four bytes; the last byte is the type of the next header
        let extension_bytes = usize::from(*bytes.get(inner)?) * 4;
        inner += extension_bytes;
        is_extended = extension_bytes > 0 && *bytes.get(inner - 1)? != 0;
    }
    Some(Found::Ip(inner))
}

fn generic_routing(bytes: &[u8], at: usize) -> Option<Found> {
    const CHECKSUM: u16 = 0x8000;
    const ROUTING: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const ACKNOWLEDGMENT: u16 = 0x0080;
    const PPP: u16 = 0x880b;
    const ERSPAN: u16 = 0x88be;
    const ERSPAN_3: u16 = 0x22eb;

    let flags = be16(bytes, at)?;
    let kind = be16(bytes, at + 2)?;
    let words = |flag: u16| if flags & flag != 0 { 4 } else { 0 };
    let plain = at + 4 + words(CHECKSUM) + words(KEY) + words(SEQUENCE);
    match (flags & 7, kind) {
        // Source routes (RFC 1701) are no longer in use.
        (0, _) if flags & ROUTING != 0 => None,
        // Type I has no sequence number and no header of its own.
        (0, ERSPAN) => link::ethernet(bytes, plain + if flags & SEQUENCE != 0 { 8 } else { 0 }),
        (0, ERSPAN_3) => {
            let has_subheader = bytes.get(plain + 11)? & 1 != 0;
            link::ethernet(bytes, plain + if has_subheader { 20 } else { 12 })
        }
        (0, kind) => link::after_ethertype(bytes, kind, plain),
        // The enhanced GRE of PPTP (RFC 2637).
        (1, PPP) => link::ppp(bytes, plain + words(ACKNOWLEDGMENT)),
        _ => None,
    }
}
