//! Link layers: where the IP header begins in a frame.

use crate::bytes::{ByteOrder, be16, be32};
use crate::link_type::LinkType;
use crate::unread::Unread;

/// The protocol above the link layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// An IP header, at this offset.
    Ip(usize),
    /// Another protocol.
    NotIp(Unread),
    /// The frame ends within its link header, or the link type is unknown.
    Unreadable,
}

mod ethertype {
    pub(super) const IPV4: u16 = 0x0800;
    pub(super) const IPV6: u16 = 0x86dd;
    pub(super) const TRANSPARENT_ETHERNET: u16 = 0x6558;
    pub(super) const VLAN: u16 = 0x8100;
    pub(super) const PROVIDER_VLAN: u16 = 0x88a8;
    /// Q-in-Q before IEEE 802.1ad assigned a number to it.
    pub(super) const OLD_PROVIDER_VLANS: std::ops::RangeInclusive<u16> = 0x9100..=0x9300;
    pub(super) const MPLS: u16 = 0x8847;
    pub(super) const MPLS_UPSTREAM: u16 = 0x8848;
    pub(super) const PPPOE_SESSION: u16 = 0x8864;
    /// IEEE 802.1ah: a customer's frame in a provider's.
    pub(super) const PROVIDER_BACKBONE: u16 = 0x88e7;
    /// IEEE 802.1AE.
    pub(super) const MAC_SECURITY: u16 = 0x88e5;
    pub(super) const CISCO_FABRIC_PATH: u16 = 0x8903;
    pub(super) const CISCO_METADATA: u16 = 0x8909;
    /// Cisco's tag between a switch and its port extenders, before IEEE 802.1BR.
    pub(super) const VN_TAG: u16 = 0x8926;
    /// IEC 62439-3: a ring without a single point of failure.
    pub(super) const REDUNDANT_RING: u16 = 0x892f;
    /// IEEE 802.1BR.
    pub(super) const E_TAG: u16 = 0x893f;
    /// Network service header (RFC 8300).
    pub(super) const SERVICE_HEADER: u16 = 0x894f;
    /// Values up to this are the length of an IEEE 802.3 frame.
    pub(super) const LARGEST_LENGTH: u16 = 1500;
}

const ETHERNET_BYTES: usize = 14;
const VLAN_TAG_BYTES: usize = 4;
const MPLS_LABEL_BYTES: usize = 4;
const PPPOE_BYTES: usize = 6;

/// Skips the link layers of a frame; its first header, of this type, begins at `at`.
pub(super) fn network_layer(link: LinkType, bytes: &[u8], at: usize) -> Found {
    walk(link, bytes, at).unwrap_or(Found::Unreadable)
}

/// `None`: the frame ends too early.
fn walk(link: LinkType, bytes: &[u8], at: usize) -> Option<Found> {
    const FDDI_BYTES: usize = 13;
    const ENCAPSULATED_BYTES: usize = 12;
    match link {
        LinkType::ETHERNET => ethernet(bytes, at),
        LinkType::RAW
        | LinkType::RAW_BSD
        | LinkType::RAW_OPENBSD
        | LinkType::IPV4
        | LinkType::IPV6 => Some(Found::Ip(at)),
        LinkType::LINUX_COOKED => after_ethertype(bytes, be16(bytes, at + 14)?, at + 16),
        LinkType::LINUX_COOKED_2 => after_ethertype(bytes, be16(bytes, at)?, at + 20),
        LinkType::NULL | LinkType::LOOP => loopback(bytes, at),
        LinkType::PPP | LinkType::PPP_HDLC => ppp(bytes, at),
        LinkType::PPP_WITH_DIRECTION => ppp(bytes, at + 1),
        LinkType::CISCO_HDLC => after_ethertype(bytes, be16(bytes, at + 2)?, at + 4),
        LinkType::PPP_OVER_ETHERNET => ppp(bytes, at + PPPOE_BYTES),
        LinkType::FDDI => after_ethertype(bytes, 0, at + FDDI_BYTES),
        LinkType::TOKEN_RING => token_ring(bytes, at),
        LinkType::ATM_LLC => after_ethertype(bytes, 0, at),
        LinkType::FIREWIRE => after_ethertype(bytes, be16(bytes, at + 16)?, at + 18),
        LinkType::OPENBSD_ENCAPSULATION => Some(Found::Ip(at + ENCAPSULATED_BYTES)),
        LinkType::OPENBSD_FILTER => {
            let header_bytes = usize::from(*bytes.get(at)?).next_multiple_of(4);
            Some(Found::Ip(at + header_bytes))
        }
        LinkType::NETFILTER_LOG => netfilter_log(bytes, at),
        LinkType(number) => Some(Found::NotIp(Unread::LinkType(number))),
    }
}

/// A frame in a header that names its link type: the type, and where the frame begins; `None` for other frames.
pub(super) fn wrapped(link: LinkType, bytes: &[u8]) -> Option<(LinkType, usize)> {
    let order = ByteOrder::Little;
    let u32_at = |at: usize| order.u32_at(bytes, at);
    let number = |value: u32| u16::try_from(value).ok().map(LinkType);
    match link {
        LinkType::PER_PACKET_INFORMATION => {
            Some((number(u32_at(4)?)?, usize::from(order.u16_at(bytes, 2)?)))
        }
        LinkType::APPLE_PKTAP | LinkType::APPLE_PKTAP_USER => {
            const HOLDS_PACKET: u32 = 1;
            const LEAST_BYTES: usize = 108;
            let header_bytes = u32_at(0)? as usize;
            let is_whole = header_bytes >= LEAST_BYTES && u32_at(4)? == HOLDS_PACKET;
            is_whole.then_some((number(u32_at(8)?)?, header_bytes))
        }
        LinkType::ENDACE => endace(bytes),
        _ => None,
    }
}

/// The extensible record format of Endace's cards.
fn endace(bytes: &[u8]) -> Option<(LinkType, usize)> {
    const RECORD_BYTES: usize = 16;
    const EXTENSION_BYTES: usize = 8;
    const MORE: u8 = 0x80;
    let kind = *bytes.get(8)?;
    let mut at = RECORD_BYTES;
    let mut extension = kind;
    while extension & MORE != 0 {
        extension = *bytes.get(at)?;
        at += EXTENSION_BYTES;
    }
    match kind & !MORE {
        // Ethernet from several kinds of cards: two bytes of offset and padding before the frame
        2 | 11 | 16 | 20 => Some((LinkType::ETHERNET, at + 2)),
        22 => Some((LinkType::IPV4, at)),
        23 => Some((LinkType::IPV6, at)),
        _ => None,
    }
}

/// Access and frame control, two addresses, and a route if the source's first bit is set.
fn token_ring(bytes: &[u8], at: usize) -> Option<Found> {
    const HEADER_BYTES: usize = 14;
    let is_routed = bytes.get(at + 8)? & 0x80 != 0;
    let route_bytes = match is_routed {
        true => usize::from(bytes.get(at + HEADER_BYTES)? & 0x1f),
        false => 0,
    };
    after_ethertype(bytes, 0, at + HEADER_BYTES + route_bytes)
}

/// Packets logged by netfilter: an address family, then attributes in the host's byte order, one of which is the
/// packet.
fn netfilter_log(bytes: &[u8], at: usize) -> Option<Found> {
    const PAYLOAD: u16 = 9;
    const HEADER_BYTES: usize = 4;
    let mut at = at + HEADER_BYTES;
    // Attributes except the payload are shorter than 256 bytes, so the wrong order makes the first one impossibly long.
    let little = ByteOrder::Little.u16_at(bytes, at)?;
    let order = match little.swap_bytes() < little {
        true => ByteOrder::Big,
        false => ByteOrder::Little,
    };
    loop {
        let length = usize::from(order.u16_at(bytes, at)?);
        if order.u16_at(bytes, at + 2)? & 0x7fff == PAYLOAD {
            return Some(Found::Ip(at + HEADER_BYTES));
        }
        at += length.max(HEADER_BYTES).next_multiple_of(4);
    }
}

/// An Ethernet frame at `at`.
pub(super) fn ethernet(bytes: &[u8], at: usize) -> Option<Found> {
    after_ethertype(bytes, be16(bytes, at + 12)?, at + ETHERNET_BYTES)
}

/// Follows an EtherType announced at `at`. Each turn advances `at`, so the loop ends with the frame.
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
                Inside::Other => return Some(Found::NotIp(Unread::Unnamed)),
            },
            ethertype::PPPOE_SESSION => return ppp(bytes, at + PPPOE_BYTES),
            ethertype::SERVICE_HEADER => match service_header(bytes, at)? {
                Some((inner, header_bytes)) => {
                    kind = inner;
                    at += header_bytes;
                }
                None => return Some(Found::NotIp(Unread::EtherType(kind))),
            },
            ..=ethertype::LARGEST_LENGTH => match subnetwork_access(bytes, at)? {
                SubnetworkAccess::EtherType(inner) => {
                    kind = inner;
                    at += 8;
                }
                SubnetworkAccess::Ip => return Some(Found::Ip(at + 3)),
                SubnetworkAccess::Other(point) => {
                    return Some(Found::NotIp(Unread::LogicalLink(point)));
                }
            },
            other => match tag(bytes, other, at)? {
                Some((inner, tag_bytes)) => {
                    kind = inner;
                    at += tag_bytes;
                }
                None => return Some(Found::NotIp(Unread::EtherType(other))),
            },
        }
    }
}

/// A header between an Ethernet header and its payload: the EtherType after it, and its length. The inner value is
/// `None` if the EtherType announces no known header.
fn tag(bytes: &[u8], kind: u16, at: usize) -> Option<Option<(u16, usize)>> {
    // length of a header that ends with an EtherType, including it
    let before_ethertype =
        |header_bytes: usize| Some((be16(bytes, at + header_bytes - 2)?, header_bytes));
    Some(Some(match kind {
        ethertype::TRANSPARENT_ETHERNET => before_ethertype(ETHERNET_BYTES)?,
        // a whole frame follows its own four or two bytes
        ethertype::PROVIDER_BACKBONE => before_ethertype(4 + ETHERNET_BYTES)?,
        ethertype::CISCO_FABRIC_PATH => before_ethertype(2 + ETHERNET_BYTES)?,
        ethertype::VN_TAG | ethertype::REDUNDANT_RING => before_ethertype(6)?,
        ethertype::E_TAG | ethertype::CISCO_METADATA => before_ethertype(8)?,
        ethertype::MAC_SECURITY => {
            const ENCRYPTED_OR_CHANGED: u8 = 0x0c;
            const CHANNEL: u8 = 0x20;
            let control = *bytes.get(at)?;
            if control & ENCRYPTED_OR_CHANGED != 0 {
                return Some(None);
            }
            let channel_bytes = if control & CHANNEL != 0 { 8 } else { 0 };
            before_ethertype(6 + channel_bytes + 2)?
        }
        _ => return Some(None),
    }))
}

/// The EtherType of the payload of a network service header, and the header's length (RFC 8300, section 2.2).
fn service_header(bytes: &[u8], at: usize) -> Option<Option<(u16, usize)>> {
    let words = usize::from(be16(bytes, at)? & 0x3f);
    let inner = next_protocol(*bytes.get(at + 3)?);
    Some(inner.filter(|_| words >= 2).map(|kind| (kind, words * 4)))
}

/// The EtherType for a "next protocol" of RFC 8300, which VXLAN-GPE shares.
pub(super) fn next_protocol(number: u8) -> Option<u16> {
    Some(match number {
        1 => ethertype::IPV4,
        2 => ethertype::IPV6,
        3 => ethertype::TRANSPARENT_ETHERNET,
        4 => ethertype::SERVICE_HEADER,
        5 => ethertype::MPLS,
        _ => return None,
    })
}

/// An MPLS label stack that begins at `at`.
pub(super) fn labels(bytes: &[u8], at: usize) -> Option<Found> {
    after_ethertype(bytes, ethertype::MPLS, at)
}

/// The contents announced by an IEEE 802.2 header.
enum SubnetworkAccess {
    EtherType(u16),
    Ip,
    /// Contents for this destination access point.
    Other(u8),
}

/// Parses the IEEE 802.2 header in a frame with a length.
fn subnetwork_access(bytes: &[u8], at: usize) -> Option<SubnetworkAccess> {
    const IP: [u8; 3] = [0x06, 0x06, 0x03];
    let header = bytes.get(at..at + 3)?;
    if header == IP {
        return Some(SubnetworkAccess::Ip);
    }
    if header != [0xaa, 0xaa, 0x03] {
        return Some(SubnetworkAccess::Other(header[0]));
    }
    // Ethernet's types (RFC 1042), also over bridges (0x0000f8)
    let is_ethernet = matches!(bytes.get(at + 3..at + 6)?, [0, 0, 0 | 0xf8]);
    let kind = be16(bytes, at + 6)?;
    // Only EtherTypes are valid here: a length would make the loop parse lengths for ever.
    Some(match is_ethernet && kind > ethertype::LARGEST_LENGTH {
        true => SubnetworkAccess::EtherType(kind),
        false => SubnetworkAccess::Other(header[0]),
    })
}

enum Inside {
    Ip(usize),
    Ethernet(usize),
    Other,
}

/// The end of a label stack. MPLS does not name its payload. An IP header begins with its version, and a pseudowire's
/// control word with zero (RFC 4385); an Ethernet pseudowire without control word begins with an address, which can
/// have any first digit.
fn mpls(bytes: &[u8], mut at: usize) -> Option<Inside> {
    const CONTROL_WORD_BYTES: usize = 4;
    loop {
        let label = be32(bytes, at)?;
        at += MPLS_LABEL_BYTES;
        if label & 0x100 != 0 {
            break;
        }
    }
    let after_control_word = at + CONTROL_WORD_BYTES;
    Some(match bytes.get(at)? >> 4 {
        4 | 6 if !looks_like_ethernet(bytes, at) => Inside::Ip(at),
        0 if looks_like_ethernet(bytes, after_control_word) => Inside::Ethernet(after_control_word),
        _ if looks_like_ethernet(bytes, at) => Inside::Ethernet(at),
        0 => Inside::Ethernet(after_control_word),
        _ => Inside::Other,
    })
}

/// True if an Ethernet header at `at` announces one of Ethernet's most frequent payloads, followed by a matching IP
/// header if that is IP.
pub(super) fn looks_like_ethernet(bytes: &[u8], at: usize) -> bool {
    const ARP: u16 = 0x0806;
    let kind = be16(bytes, at + 12);
    let version = || bytes.get(at + ETHERNET_BYTES).map(|first| first >> 4);
    match kind {
        Some(ethertype::IPV4) => version() == Some(4),
        Some(ethertype::IPV6) => version() == Some(6),
        Some(
            ARP
            | ethertype::VLAN
            | ethertype::PROVIDER_VLAN
            | ethertype::PPPOE_SESSION
            | ethertype::MPLS,
        ) => true,
        _ => false,
    }
}

/// A PPP frame at `at`, with or without HDLC address and control, and with or without a compressed protocol field (RFC
/// 1661, 1662).
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
        other => Some(Found::NotIp(Unread::PointToPoint(other))),
    }
}

/// An address family in the byte order of the capturing host, which may differ from that of the file. The number for
/// IPv6 differs between systems. All are below 256, so one of the two orders is plausible.
fn loopback(bytes: &[u8], at: usize) -> Option<Found> {
    let family: [u8; 4] = *bytes.get(at..)?.first_chunk()?;
    let family = u32::from_be_bytes(family).min(u32::from_le_bytes(family));
    Some(match family {
        2 | 10 | 24 | 28 | 30 => Found::Ip(at + 4),
        _ => Found::NotIp(Unread::Unnamed),
    })
}
