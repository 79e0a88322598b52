//! IEEE 802.11 frames, and the headers that capturing hosts put before them (radiotap, Prism, AVS, PPI).

use super::link::{self, Found};
use crate::bytes::{ByteOrder, be16, be32};
use crate::link_type::LinkType;
use crate::unread::Unread;

/// The shortest 802.11 header, without quality of service or a fourth address.
const LEAST_HEADER_BYTES: usize = 24;
const PROTECTED: u8 = 0x40;
const RETRY: u8 = 0x08;
/// A SNAP header for EtherTypes, with which the payload of data frames begins.
const SNAP: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];

/// An 802.11 data frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Walked {
    pub(super) found: Found,
    /// Where the 802.11 header begins.
    pub(super) header_at: usize,
    /// Where the next frame of an aggregate (A-MSDU) begins; 0 if there is none.
    pub(super) next_at: usize,
}

/// Parses a frame of any 802.11 link type; `None` if it ends too early.
pub(super) fn walk(link: LinkType, bytes: &[u8], at: usize) -> Option<Walked> {
    let (header_at, radio) = match link {
        LinkType::IEEE_802_11 => (at, Radio::default()),
        LinkType::PRISM if be32(bytes, at)? & 0xffff_f000 == AVS_MAGIC => {
            (avs(bytes, at)?, Radio::default())
        }
        LinkType::PRISM => (prism(bytes, at)?, Radio::default()),
        LinkType::RADIOTAP => {
            let (header_bytes, radio) = radiotap(bytes.get(at..)?)?;
            (at + header_bytes, radio)
        }
        LinkType::AVS => (avs(bytes, at)?, Radio::default()),
        _ => return None,
    };
    if radio.is_damaged {
        return Some(not_data(Unread::WirelessDamaged, header_at));
    }
    frame(bytes, header_at, radio.is_padded)
}

/// Properties of a frame from the radiotap header.
#[derive(Debug, Clone, Copy, Default)]
struct Radio {
    /// Padded to four bytes between its header and its data.
    is_padded: bool,
    /// Its frame check sequence was wrong.
    is_damaged: bool,
}

const AVS_MAGIC: u32 = 0x8021_1000;

/// Parses <https://www.radiotap.org>: the header's length, and the flags that affect parsing.
fn radiotap(bytes: &[u8]) -> Option<(usize, Radio)> {
    const TIME: u32 = 1;
    const FLAGS: u32 = 2;
    const MORE_PRESENT: u32 = 1 << 31;
    const PADDED: u8 = 0x20;
    const DAMAGED: u8 = 0x40;
    let order = ByteOrder::Little;
    if *bytes.first()? != 0 {
        return None;
    }
    let header_bytes = usize::from(order.u16_at(bytes, 2)?);
    let present = order.u32_at(bytes, 4)?;
    let mut at = 4;
    while order.u32_at(bytes, at)? & MORE_PRESENT != 0 {
        at += 4;
    }
    at += 4;
    if present & TIME != 0 {
        at = at.next_multiple_of(8) + 8;
    }
    let mut radio = Radio::default();
    if present & FLAGS != 0 && at < header_bytes {
        let flags = *bytes.get(at)?;
        radio.is_padded = flags & PADDED != 0;
        radio.is_damaged = flags & DAMAGED != 0;
    }
    Some((header_bytes, radio))
}

/// A header with its length in the byte order of the capturing host.
fn prism(bytes: &[u8], at: usize) -> Option<usize> {
    let stated = bytes.get(at + 4..at + 8)?.first_chunk()?;
    let header_bytes = u32::from_be_bytes(*stated).min(u32::from_le_bytes(*stated));
    Some(at + header_bytes as usize)
}

fn avs(bytes: &[u8], at: usize) -> Option<usize> {
    Some(at + be32(bytes, at + 4)? as usize)
}

fn not_data(what: Unread, header_at: usize) -> Walked {
    Walked {
        found: Found::NotIp(what),
        header_at,
        next_at: 0,
    }
}

/// The 802.11 frame at `at`.
fn frame(bytes: &[u8], at: usize, is_padded: bool) -> Option<Walked> {
    const DATA: u8 = 2;
    const WITHOUT_DATA: u8 = 0x40;
    const QUALITY_OF_SERVICE: u8 = 0x80;
    const BOTH_SYSTEMS: u8 = 0x03;
    const ORDER: u8 = 0x80;
    const AGGREGATE: u8 = 0x80;
    let control = *bytes.get(at)?;
    let flags = *bytes.get(at + 1)?;
    if control & 3 != 0 {
        return Some(not_data(Unread::CutOff, at));
    }
    if (control >> 2) & 3 != DATA || control & WITHOUT_DATA != 0 {
        return Some(not_data(Unread::WirelessManagement, at));
    }
    let fragment = *bytes.get(at + 22)? & 0x0f;
    let mut header_bytes = LEAST_HEADER_BYTES;
    if flags & BOTH_SYSTEMS == BOTH_SYSTEMS {
        header_bytes += 6;
    }
    let mut is_aggregate = false;
    if control & QUALITY_OF_SERVICE != 0 {
        is_aggregate = bytes.get(at + header_bytes)? & AGGREGATE != 0;
        header_bytes += 2;
        if flags & ORDER != 0 {
            header_bytes += 4;
        }
    }
    if is_padded {
        header_bytes = header_bytes.next_multiple_of(4);
    }
    if fragment != 0 {
        return Some(not_data(Unread::WirelessFragment, at));
    }
    let body = at + header_bytes;
    let Some(body) = in_the_clear(bytes, body, flags & PROTECTED != 0, is_aggregate) else {
        return Some(not_data(Unread::WirelessEncrypted, at));
    };
    if is_aggregate {
        let (found, next_at) = subframe(bytes, body)?;
        return Some(Walked {
            found,
            header_at: at,
            next_at,
        });
    }
    Some(Walked {
        found: link::after_ethertype(bytes, 0, body)?,
        header_at: at,
        next_at: 0,
    })
}

/// Where the data begins. Hosts that decrypt keep the "encrypted" bit set, and some keep the encryption header before
/// the data: four bytes for WEP, eight for its successors.
fn in_the_clear(
    bytes: &[u8],
    body: usize,
    is_protected: bool,
    is_aggregate: bool,
) -> Option<usize> {
    if !is_protected {
        return Some(body);
    }
    let snap_at = if is_aggregate { SUBFRAME_BYTES } else { 0 };
    [0, 8, 4]
        .into_iter()
        .map(|numbers| body + numbers)
        .find(|start| {
            bytes
                .get(start + snap_at..)
                .is_some_and(|rest| rest.starts_with(&SNAP))
        })
}

/// Two addresses and a length.
const SUBFRAME_BYTES: usize = 14;

/// A frame of an aggregate (A-MSDU), and where the next one is (0: there is none).
pub(super) fn subframe(bytes: &[u8], at: usize) -> Option<(Found, usize)> {
    let length = usize::from(be16(bytes, at + 12)?);
    let found = link::after_ethertype(bytes, 0, at + SUBFRAME_BYTES)?;
    let next_at = at + (SUBFRAME_BYTES + length).next_multiple_of(4);
    // the remainder has room for a header, and a length of zero ends the aggregate
    let has_next = length > 0
        && bytes
            .get(next_at + SUBFRAME_BYTES..)
            .is_some_and(|rest| rest.starts_with(&SNAP));
    Some((found, if has_next { next_at } else { 0 }))
}

/// Fields that distinguish a link-layer retry of a frame from a new frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transmission {
    /// The addresses of the frame.
    pub(crate) stations: [u8; 18],
    pub(crate) sequence_control: u16,
    pub(crate) is_retry: bool,
}

/// Parses the identity of the transmission from the 802.11 header at `at`.
pub(crate) fn transmission(bytes: &[u8], at: usize) -> Option<Transmission> {
    let header = bytes.get(at..)?.first_chunk::<LEAST_HEADER_BYTES>()?;
    Some(Transmission {
        stations: *header[4..].first_chunk()?,
        sequence_control: u16::from_le_bytes([header[22], header[23]]),
        is_retry: header[1] & RETRY != 0,
    })
}
