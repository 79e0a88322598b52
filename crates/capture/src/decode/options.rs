//! TCP options.

use crate::packet::TcpOptions;

/// Kinds of IANA's registry.
mod kind {
    pub(super) const END: u8 = 0;
    pub(super) const NO_OPERATION: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
    /// Accurate ECN, with either the bytes marked ECT(0) or those marked ECT(1) first (RFC 9768).
    pub(super) const ACCURATE_ECN_0: u8 = 172;
    pub(super) const ACCURATE_ECN_1: u8 = 174;
    /// Shared by experiments (RFC 6994): 16 bits identify one.
    pub(super) const EXPERIMENT: u8 = 254;
}

/// A larger window scale is interpreted as this one (RFC 7323, section 2.3).
const LARGEST_WINDOW_SCALE: u8 = 14;

/// Parses the options between the fixed header and the payload; stops at the first malformed one.
#[inline(always)]
pub(super) fn parse(bytes: &[u8]) -> TcpOptions {
    // The options of all but the first packets of most connections.
    if let Some(&[1, 1, 8, 10, v0, v1, v2, v3, e0, e1, e2, e3]) = bytes.first_chunk::<12>()
        && bytes.len() == 12
    {
        let timestamps = (
            u32::from_be_bytes([v0, v1, v2, v3]),
            u32::from_be_bytes([e0, e1, e2, e3]),
        );
        return TcpOptions {
            timestamps: Some(timestamps),
            ..TcpOptions::default()
        };
    }
    if bytes.is_empty() {
        return TcpOptions::default();
    }
    parse_any(bytes)
}

#[inline(never)]
fn parse_any(mut rest: &[u8]) -> TcpOptions {
    let mut options = TcpOptions::default();
    loop {
        match *rest {
            [] | [kind::END, ..] => return options,
            [kind::NO_OPERATION, ref after @ ..] => rest = after,
            [kind, length, ..] if (2..=rest.len()).contains(&usize::from(length)) => {
                let (option, after) = rest.split_at(usize::from(length));
                note(&mut options, kind, &option[2..]);
                rest = after;
            }
            _ => return options,
        }
    }
}

fn note(options: &mut TcpOptions, kind: u8, value: &[u8]) {
    match (kind, value) {
        (kind::MSS, &[a, b]) => options.mss = Some(u16::from_be_bytes([a, b])),
        (kind::WINDOW_SCALE, &[shift]) => {
            options.window_scale = Some(shift.min(LARGEST_WINDOW_SCALE))
        }
        (kind::SACK_PERMITTED, []) => options.sack_permitted = true,
        (kind::TIMESTAMPS, &[v0, v1, v2, v3, e0, e1, e2, e3]) => {
            let value = u32::from_be_bytes([v0, v1, v2, v3]);
            options.timestamps = Some((value, u32::from_be_bytes([e0, e1, e2, e3])));
        }
        // three counters of 24 bits, CE in the middle; as many are present as there is room for
        (kind::ACCURATE_ECN_0 | kind::ACCURATE_ECN_1, &[_, _, _, a, b, c, ..])
        // the same as an experiment: Linux with L4S patches sends these
        | (kind::EXPERIMENT, &[0xac, 0xc0 | 0xc1, _, _, _, a, b, c, ..]) => {
            options.ce_bytes = Some(u32::from_be_bytes([0, a, b, c]));
        }
        (kind::SACK, blocks) if blocks.len() % 8 == 0 => {
            for (place, block) in options.sack.iter_mut().zip(blocks.chunks_exact(8)) {
                let edge = |at: usize| {
                    u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
                };
                *place = (edge(0), edge(4));
            }
            // Forty bytes of options have room for four blocks at most.
            options.sack_blocks = (blocks.len() / 8).min(options.sack.len()) as u8;
        }
        _ => {}
    }
}
