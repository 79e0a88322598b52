//! Frames of link layers carried over IP: L2TP (RFC 2661, 3931), TZSP, CAPWAP (RFC 5415).

use super::link::{self, Found};
use super::wireless;
use crate::bytes::{be16, be32};
use crate::link_type::LinkType;

/// Finds the frame in an L2TP message of version 2 or 3 in a UDP datagram.
pub(super) fn over_udp(bytes: &[u8], at: usize) -> Option<Found> {
    const CONTROL: u16 = 0x8000;
    const HAS_LENGTH: u16 = 0x4000;
    const HAS_SEQUENCE: u16 = 0x0800;
    const HAS_OFFSET: u16 = 0x0200;
    let flags = be16(bytes, at)?;
    if flags & CONTROL != 0 {
        return None;
    }
    match flags & 0x0f {
        2 => {
            let words = |flag: u16, bytes: usize| if flags & flag != 0 { bytes } else { 0 };
            // tunnel and session
            let mut end = at + 2 + words(HAS_LENGTH, 2) + 4 + words(HAS_SEQUENCE, 4);
            if flags & HAS_OFFSET != 0 {
                end += 2 + usize::from(be16(bytes, end)?);
            }
            link::ppp(bytes, end)
        }
        // flags, two reserved bytes, session
        3 => pseudowire(bytes, at + 8),
        _ => None,
    }
}

/// Finds the frame in an L2TPv3 message on IP itself; session 0 is the control connection.
pub(super) fn over_ip(bytes: &[u8], at: usize) -> Option<Found> {
    match be32(bytes, at)? {
        0 => None,
        _ => pseudowire(bytes, at + 4),
    }
}

/// Finds the frame after the L2TPv3 session number. The peers agree on the length of a cookie (0, 4 or 8 bytes) and of
/// a sublayer (0 or 4) at set-up, so the first position with a plausible Ethernet header is taken.
fn pseudowire(bytes: &[u8], at: usize) -> Option<Found> {
    [0, 4, 8, 12]
        .into_iter()
        .map(|before| at + before)
        .find(|&frame| link::looks_like_ethernet(bytes, frame))
        .and_then(|frame| link::ethernet(bytes, frame))
}

/// Finds the frame that a wireless sniffer or a router's mirror sends (TaZmen sniffer protocol).
pub(super) fn sniffed(bytes: &[u8], at: usize) -> Option<Found> {
    const VERSION: u8 = 1;
    const HEADER_BYTES: usize = 4;
    const PADDING: u8 = 0;
    const END: u8 = 1;
    if *bytes.get(at)? != VERSION {
        return None;
    }
    let link = match be16(bytes, at + 2)? {
        1 => LinkType::ETHERNET,
        18 => LinkType::IEEE_802_11,
        119 => LinkType::PRISM,
        127 => LinkType::AVS,
        _ => return None,
    };
    let mut frame = at + HEADER_BYTES;
    loop {
        let tag = *bytes.get(frame)?;
        frame += match tag {
            PADDING | END => 1,
            _ => 2 + usize::from(*bytes.get(frame + 1)?),
        };
        if tag == END {
            break;
        }
    }
    match link.is_wireless() {
        true => wireless::walk(link, bytes, frame).map(|walked| walked.found),
        false => link::ethernet(bytes, frame),
    }
}

/// Finds the frame between an access point and its controller; messages under DTLS and fragments are skipped.
pub(super) fn access_point(bytes: &[u8], at: usize) -> Option<Found> {
    const NATIVE: u32 = 0x0100;
    const FRAGMENT: u32 = 0x0080;
    let head = be32(bytes, at)?;
    // version and type 0: not DTLS
    if head >> 24 != 0 || head & FRAGMENT != 0 {
        return None;
    }
    let frame = at + (head >> 19 & 0x1f) as usize * 4;
    match head & NATIVE != 0 {
        true => wireless::walk(LinkType::IEEE_802_11, bytes, frame).map(|walked| walked.found),
        false => link::ethernet(bytes, frame),
    }
}
