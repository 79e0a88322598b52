//! Traces of the last packets, with which conspicuous timestamps are judged.

use std::net::IpAddr;

use crate::decode::Decoded;
use crate::packet::Transport;

/// Packets that are remembered.
const RECENT: usize = 512;

/// The numbers of a TCP packet that determine its order within its connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trace {
    /// Hash of the connection's direction.
    pub(super) direction: u64,
    pub(super) time_ns: i64,
    pub(super) sequence: u32,
    pub(super) sequence_end: u32,
    pub(super) acknowledgment: u32,
    /// The sender's clock.
    pub(super) sent: Option<u32>,
}

impl Trace {
    #[inline(always)]
    pub(super) fn of(time_ns: i64, decoded: &Decoded) -> Option<Self> {
        let (Some(network), Transport::Tcp(tcp)) = (&decoded.network, &decoded.transport) else {
            return None;
        };
        Some(Self {
            direction: direction(
                network.source,
                network.destination,
                tcp.source_port,
                tcp.destination_port,
            ),
            time_ns,
            sequence: tcp.sequence,
            sequence_end: tcp.sequence.wrapping_add(tcp.payload_bytes),
            acknowledgment: tcp.acknowledgment,
            sent: tcp.options.timestamps.map(|(sent, _)| sent),
        })
    }

    /// How much later than `other` of the same direction the sender's clock or its numbers place this packet; `None` if
    /// they are not conclusive.
    pub(super) fn is_later_than(&self, other: &Self) -> Option<bool> {
        let ahead = |one: u32, other: u32| one.wrapping_sub(other) as i32;
        let by_clock = self
            .sent
            .zip(other.sent)
            .map_or(0, |(one, other)| ahead(one, other));
        let by_numbers = [
            ahead(self.sequence_end, other.sequence_end),
            ahead(self.acknowledgment, other.acknowledgment),
        ];
        let steps = std::iter::once(by_clock).chain(by_numbers);
        let first = steps.into_iter().find(|step| *step != 0);
        first.map(|step| step > 0)
    }
}

/// The direction of the answers to a packet.
pub(super) fn reverse_of(decoded: &Decoded) -> Option<u64> {
    let (Some(network), Transport::Tcp(tcp)) = (&decoded.network, &decoded.transport) else {
        return None;
    };
    Some(direction(
        network.destination,
        network.source,
        tcp.destination_port,
        tcp.source_port,
    ))
}

#[inline(always)]
fn direction(source: IpAddr, destination: IpAddr, source_port: u16, destination_port: u16) -> u64 {
    // odd constants without a pattern: from the golden ratio, e and pi in binary
    let mix = |state: u64, word: u64| {
        (state ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    };
    let ports = u64::from(source_port) << 16 | u64::from(destination_port);
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let hosts = u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits());
            mix(mix(0xadf8_5458_a2bb_4a9b, hosts), ports)
        }
        _ => {
            let words = |address: IpAddr| match address {
                IpAddr::V4(address) => (0, u64::from(address.to_bits())),
                IpAddr::V6(address) => ((address.to_bits() >> 64) as u64, address.to_bits() as u64),
            };
            let ((a, b), (c, d)) = (words(source), words(destination));
            mix(mix(mix(mix(mix(0x243f_6a88_85a3_08d3, a), b), c), d), ports)
        }
    }
}

/// The last TCP packets.
#[derive(Debug, Default)]
pub(super) struct Recent {
    traces: Vec<Trace>,
    /// Index of the oldest, once the buffer is full.
    oldest: usize,
}

impl Recent {
    #[inline(always)]
    pub(super) fn note(&mut self, time_ns: i64, decoded: &Decoded) {
        let Some(trace) = Trace::of(time_ns, decoded) else {
            return;
        };
        if self.traces.len() < RECENT {
            self.traces.push(trace);
        } else if let Some(place) = self.traces.get_mut(self.oldest) {
            *place = trace;
            self.oldest = (self.oldest + 1) % RECENT;
        }
    }

    /// The packets, latest first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Trace> {
        let (newer, older) = self.traces.split_at(self.oldest.min(self.traces.len()));
        newer.iter().rev().chain(older.iter().rev())
    }

    /// The packets of one direction, latest first.
    pub(super) fn of(&self, direction: u64) -> impl Iterator<Item = &Trace> {
        self.all().filter(move |trace| trace.direction == direction)
    }
}
