//! Super-segments and their pieces in one capture: a forwarding host coalesces packets (GRO) before one point and
//! splits them (GSO, TSO) before the next.
//!
//! Either contains the bytes of the other, at most [`TWO_POINTS_NS`] later and at another point, with the same
//! acknowledgment number and the same timestamps: offloading coalesces only packets that agree in those, and copies
//! them to each piece. Without timestamps the IPv4 identification must be one that a piece of the whole can have, since
//! pieces count up from it.

use std::net::IpAddr;

use super::{TWO_POINTS_NS, mix};
use crate::decode::Decoded;
use crate::packet::TcpSegment;

/// Runs remembered: one for each busy flow.
const SLOTS: usize = 256;
/// The smallest piece in use (RFC 9293, section 3.7.1), which limits their number.
const SMALLEST_PIECE_BYTES: u32 = 536;

/// Contiguous bytes of one flow that passed one point.
#[derive(Debug, Clone, Copy)]
struct Run {
    flow: u64,
    /// Hash of the fields that all of its packets share.
    shared: u64,
    vantage: u64,
    start: u32,
    bytes: u32,
    first_number: u16,
    last_ns: i64,
}

/// A data packet, as it is compared.
pub(super) struct Piece {
    pub flow: u64,
    pub vantage: u64,
    pub number: u16,
    pub time_ns: i64,
}

#[derive(Default)]
pub(super) struct Runs {
    slots: Vec<Option<Run>>,
}

impl Runs {
    /// True if this packet's bytes were just captured at another point.
    pub(super) fn is_copy(&mut self, piece: &Piece, tcp: &TcpSegment) -> bool {
        if self.slots.is_empty() {
            self.slots = vec![None; SLOTS];
        }
        let (value, echo) = tcp.options.timestamps.unwrap_or((0, 0));
        let stamps = u64::from(value) << 32 | u64::from(echo);
        let shared = mix(stamps, u64::from(tcp.acknowledgment));
        let stamped = tcp.options.timestamps.is_some();
        let Some(slot) = self.slots.get_mut(piece.flow as usize % SLOTS) else {
            return false;
        };
        let alike = |run: &&mut Run| {
            run.flow == piece.flow
                && run.shared == shared
                && run.last_ns.abs_diff(piece.time_ns) <= TWO_POINTS_NS
        };
        if let Some(run) = slot.as_mut().filter(alike) {
            let offset = tcp.sequence.wrapping_sub(run.start);
            let end = u64::from(offset) + u64::from(tcp.payload_bytes);
            let inside = end <= u64::from(run.bytes);
            if run.vantage != piece.vantage {
                return inside && (stamped || run.may_have(offset, piece.number));
            }
            if offset == run.bytes {
                run.bytes = run.bytes.saturating_add(tcp.payload_bytes);
                run.last_ns = piece.time_ns;
                return false;
            }
        }
        *slot = Some(Run {
            flow: piece.flow,
            shared,
            vantage: piece.vantage,
            start: tcp.sequence,
            bytes: tcp.payload_bytes,
            first_number: piece.number,
            last_ns: piece.time_ns,
        });
        false
    }
}

/// Hash of the addresses and ports with which a packet is returned.
pub(super) fn flow(decoded: &Decoded, tcp: &TcpSegment) -> u64 {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => u64::from(v4.to_bits()),
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            mix(bits as u64, (bits >> 64) as u64)
        }
    };
    let ports = u64::from(tcp.source_port) << 16 | u64::from(tcp.destination_port);
    let addresses = decoded.network.map_or(0, |network| {
        mix(bits(network.source), bits(network.destination))
    });
    mix(addresses, ports)
}

impl Run {
    /// True if a piece this far behind the first can have this number.
    fn may_have(&self, offset: u32, number: u16) -> bool {
        let behind = number.wrapping_sub(self.first_number);
        let most = offset / SMALLEST_PIECE_BYTES;
        self.first_number != 0 && number != 0 && u32::from(behind) <= most
    }
}
