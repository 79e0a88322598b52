//! Link layers: where in a frame the IP header begins.

use crate::bytes::{be16, be32};
use crate::link_type::LinkType;

/// Network layer: what follows the link layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// An IP header, at this offset.
    Ip(usize),
    /// Something else, of this EtherType (0: it has none).
    NotIp(u16),
    /// The frame ends within its link header, or the link type is not known here.
    Unreadable,
}

mod ethertype {
    pub(super) const IPV4: u16 = 0x0800;
    pub(super) const IPV6: u16 = 0x86dd;
    pub(super) const TRANSPARENT_ETHERNET: u16 = 0x6558;
    pub(super) const VLAN: u16 = 0x8100;
    pub(super) const PROVIDER_VLAN: u16 = 0x88a8;
    /// Q-in-Q before IEEE 802.1ad gave it a number of its own.
    pub(super) const OLD_PROVIDER_VLANS: std::ops::RangeInclusive<u16> = 0x9100..=0x9300;
    pub(super) const MPLS: u16 = 0x8847;
    pub(super) const MPLS_UPSTREAM: u16 = 0x8848;
    pub(super) const PPPOE_SESSION: u16 = 0x8864;
    /// Values up to this are the length of an IEEE 802.3 frame.
    pub(super) const LARGEST_LENGTH: u16 = 1500;
}

const ETHERNET_BYTES: usize = 14;
const VLAN_TAG_BYTES: usize = 4;
const MPLS_LABEL_BYTES: usize = 4;
const PPPOE_BYTES: usize = 6;

/// Walks the link layers of a frame.
pub(super) fn network_layer(link: LinkType, bytes: &[u8]) -> Found {
    walk(link, bytes).unwrap_or(Found::Unreadable)
}

/// `None`: the frame ends too early.
fn walk(link: LinkType, bytes: &[u8]) -> Option<Found> {
    match link {
        LinkType::ETHERNET => ethernet(bytes, 0),
        LinkType::RAW
        | LinkType::RAW_BSD
        | LinkType::RAW_OPENBSD
        | LinkType::IPV4
        | LinkType::IPV6 => Some(Found::Ip(0)),
        LinkType::LINUX_COOKED => after_ethertype(bytes, be16(bytes, 14)?, 16),
        LinkType::LINUX_COOKED_2 => after_ethertype(bytes, be16(bytes, 0)?, 20),
        LinkType::NULL | LinkType::LOOP => loopback(bytes),
        LinkType::PPP | LinkType::PPP_HDLC => ppp(bytes, 0),
        LinkType::PPP_WITH_DIRECTION => ppp(bytes, 1),
        LinkType::CISCO_HDLC => after_ethertype(bytes, be16(bytes, 2)?, 4),
        _ => Some(Found::Unreadable),
    }
}

/// An Ethernet frame at `at`.
pub(super) fn ethernet(bytes: &[u8], at: usize) -> Option<Found> {
    after_ethertype(bytes, be16(bytes, at + 12)?, at + ETHERNET_BYTES)
}

/// Follow an EtherType announced at `at`. Each turn moves `at` on, so the loop ends with the frame.
pub(super) fn after_ethertype(bytes: &[u8], mut kind: u16, mut at: usize) -> Option<Found> {
    loop {
        match kind {
            ethertype::IPV4 | ethertype::IPV6 => return Some(Found::Ip(at)),
            ethertype::VLAN | ethertype::PROVIDER_VLAN => {
                kind = be16(bytes, at + 2)?;
                at += VLAN_TAG_BYTES;
            }
            _ if ethertype::OLD_PROVIDER_VLANS.contains(&kind) && kind & 0xff == 0 => {
                kind = be16(bytes, at + 2)?;
                at += VLAN_TAG_BYTES;
            }
            ethertype::MPLS | ethertype::MPLS_UPSTREAM => match mpls(bytes, at)? {
                Inside::Ip(ip) => return Some(Found::Ip(ip)),
                Inside::Ethernet(frame) => {
                    kind = be16(bytes, frame + 12)?;
                    at = frame + ETHERNET_BYTES;
                }
                Inside::Other => return Some(Found::NotIp(kind)),
            },
            ethertype::PPPOE_SESSION => {
                return match ppp(bytes, at + PPPOE_BYTES)? {
                    Found::NotIp(_) => Some(Found::NotIp(kind)),
                    found => Some(found),
                };
            }
            ethertype::TRANSPARENT_ETHERNET => {
                kind = be16(bytes, at + 12)?;
                at += ETHERNET_BYTES;
            }
            ..=ethertype::LARGEST_LENGTH => match subnetwork_access(bytes, at)? {
                Some(inner) => {
                    kind = inner;
                    at += 8;
                }
                None => return Some(Found::NotIp(0)),
            },
            other => return Some(Found::NotIp(other)),
        }
    }
}

/// The EtherType in an IEEE 802.2 SNAP header, if that is what a frame with a length holds.
fn subnetwork_access(bytes: &[u8], at: usize) -> Option<Option<u16>> {
    let header = bytes.get(at..at + 3)?;
    if header != [0xaa, 0xaa, 0x03] {
        return Some(None);
    }
    let organization = bytes.get(at + 3..at + 6)?;
    let kind = be16(bytes, at + 6)?;
    // A length here would make the loop read lengths for ever; only EtherTypes are meant.
    Some((organization == [0, 0, 0] && kind > ethertype::LARGEST_LENGTH).then_some(kind))
}

enum Inside {
    Ip(usize),
    Ethernet(usize),
    Other,
}

/// The end of a label stack. MPLS does not say what it carries: an IP header begins with its
/// version, a pseudowire's control word with zero (RFC 4385).
fn mpls(bytes: &[u8], mut at: usize) -> Option<Inside> {
    loop {
        let label = be32(bytes, at)?;
        at += MPLS_LABEL_BYTES;
        if label & 0x100 != 0 {
            break;
        }
    }
    Some(match bytes.get(at)? >> 4 {
        4 | 6 => Inside::Ip(at),
        0 => Inside::Ethernet(at + 4),
        _ => Inside::Other,
    })
}

/// A PPP frame at `at`, with or without HDLC address and control, its protocol field compressed or
/// not (RFC 1661, 1662).
pub(super) fn ppp(bytes: &[u8], mut at: usize) -> Option<Found> {
    const IPV4: u16 = 0x0021;
    const IPV6: u16 = 0x0057;
    const MPLS: u16 = 0x0281;
    if be16(bytes, at) == Some(0xff03) {
        at += 2;
    }
    let first = *bytes.get(at)?;
    let protocol = if first & 1 == 1 {
        at += 1;
        u16::from(first)
    } else {
        let protocol = be16(bytes, at)?;
        at += 2;
        protocol
    };
    match protocol {
        IPV4 | IPV6 => Some(Found::Ip(at)),
        MPLS => after_ethertype(bytes, ethertype::MPLS, at),
        _ => Some(Found::NotIp(0)),
    }
}

/// An address family in the byte order of the capturing host, which may not be that of the file; the
/// number for IPv6 differs between systems. All are below 256, so one of the two ends tells.
fn loopback(bytes: &[u8]) -> Option<Found> {
    let family: [u8; 4] = *bytes.first_chunk()?;
    let family = u32::from_be_bytes(family).min(u32::from_le_bytes(family));
    Some(match family {
        2 | 10 | 24 | 28 | 30 => Found::Ip(4),
        _ => Found::NotIp(0),
    })
}
