//! Packets that one capture contains twice: `-i any` captures a forwarded packet on each interface that it passes, and
//! a mirror (SPAN) port that copies both directions of several ports captures it at each of them.
//!
//! A duplicate mistaken for a second packet looks like a retransmission; a retransmission mistaken for a duplicate
//! hides a loss. The second error is worse, so a packet counts as a duplicate only with proof. Both packets must have
//! the same addresses, ports, IP length and identification, and the same transport header: sequence and acknowledgment
//! numbers, flags, window, all options. Fields that routers and offloading change (TTL, DSCP and ECN, checksums, link
//! header) may differ. In addition one of these proofs is required:
//!
//! 1. **IP identification.** A sender numbers its IPv4 packets, and a retransmission is a new packet with a new number.
//!    This fails if the number is 0 (RFC 6864 does not require one for packets that cannot be fragmented) or if a host
//!    uses one number for all packets, which is detected by observation: see [`Numbering`]. The duplicates are at most
//!    [`SAME_NUMBER_NS`] apart; those of other protocols than TCP, of which test tools send many with one number, at
//!    most [`TWO_POINTS_NS`].
//! 2. **Two points.** Without a number (or with IPv6, which has none), the two were captured on different interfaces,
//!    in different directions, between different link addresses or VLANs, with a different TTL or inside and outside a
//!    tunnel, at most [`TWO_POINTS_NS`] apart. A retransmission passes the same points as its original: Linux moves a
//!    connection to another path only after a retransmission timeout of 200 ms or more.
//! 3. **No time to retransmit.** Without either, only for a segment that carries data, SYN or FIN, with equal timestamp
//!    options, at most [`NO_TIME_NS`] apart. A sender retransmits a segment no sooner than a round trip after it (fast
//!    retransmit, tail-loss probe) or after its timeout. The fastest networks have about this round trip, and do not
//!    report losses within one. A queue can move original and retransmission together, but only after it stalled for
//!    the whole timeout, and then their timestamps differ: timestamp clocks tick every 10 ms or faster on the systems
//!    in use. Repeated pure acknowledgments are *never* counted as duplicates on this ground: a receiver without SACK
//!    sends them back to back, and they have a meaning.
//! 4. **A tap that duplicates.** A SYN is retransmitted after a second (RFC 6298, section 2), so an equal one at most
//!    [`TWO_POINTS_NS`] later is a duplicate, and the device that made it duplicates all packets of these hosts. Each
//!    packet then has one duplicate, with a delay not much longer than the SYN's: the second of two equal packets is
//!    the duplicate, the third is new.
//! 5. **A wireless retry.** An 802.11 station that receives no acknowledgment sends the same frame again, with the
//!    retry bit and the same frame number (IEEE 802.11, 10.3.2.14): see [`LinkRetries`]. Each attempt is one frame of
//!    the link, and all are one packet of TCP.
//!
//! Two more kinds of duplicates differ in some of these fields: those behind address translation ([`translated`]), and
//! super-segments and their pieces ([`pieces`]).

mod link_retries;
mod pieces;
#[cfg(test)]
mod point_tests;
mod points;
#[cfg(test)]
mod tests;
mod translated;

use crate::decode::Decoded;
use crate::format::Record;
use crate::link_type::LinkType;
use crate::packet::{TcpFlags, Transport};
use crate::summary::Summary;
use link_retries::LinkRetries;
use pieces::{Piece, Runs};
use points::{Point, Points};
use translated::Translations;

/// Half of the shortest common retransmission timeout (Linux, 200 ms): the queues of a forwarding host may delay a
/// packet this long between its two captures.
const SAME_NUMBER_NS: u64 = 100_000_000;
/// Queueing within a host or a switch, well below any timeout.
const TWO_POINTS_NS: u64 = 10_000_000;
/// A full-sized frame at 1 Gbit/s takes 12 µs: a mirror port sends duplicates this closely.
const NO_TIME_NS: u64 = 20_000;

/// Duplicates follow after at most this multiple of the SYN's delay: a tap's own queue varies.
const MUCH_LATER: u64 = 4;

/// Two packets a set, 64 bytes: one cache line.
const SETS: usize = 4096;
const NUMBERINGS: usize = 4096;

/// Detects duplicates among the last packets (about 8000).
pub(crate) struct Duplicates {
    sets: Box<[Set]>,
    numberings: Box<[Numbering]>,
    /// The delay of a SYN's duplicate, by hosts, nanoseconds; 0 if there was none.
    lateness_ns: Box<[u32]>,
    translations: Translations,
    runs: Runs,
    points: Points,
    /// The capture has duplicates, so it may have more that are harder to detect.
    has_copies: bool,
    /// Packets that look like duplicates of one just before them, and were kept because proof is missing.
    pub(crate) suspects: u64,
    /// Frames that a wireless station retransmitted.
    pub(crate) link_retries: u64,
    wireless: LinkRetries,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Set([Seen; 2]);

#[derive(Clone, Copy)]
struct Seen {
    /// Hash of addresses, ports and identification.
    identity: u64,
    /// Hash of the other fields that must be equal.
    content: u64,
    /// Hash of the fields that differ between points of capture.
    vantage: u64,
    time_ns: i64,
}

const NOTHING: Seen = Seen {
    identity: 0,
    content: 0,
    vantage: 0,
    time_ns: i64::MIN,
};

/// How a pair of hosts uses the IP identification, judged by its packets of one protocol.
///
/// Each packet with the number of another one of the same connection, shortly before, adds [`Numbering::REUSED`]; each
/// other packet subtracts one. Random numbers collide rarely and stay near 0; a host that uses one number reaches the
/// limit within a few packets, and stays there.
#[derive(Clone, Copy)]
struct Numbering(u8);

impl Numbering {
    const REUSED: u8 = 8;
    const LIMIT: u8 = 32;

    #[inline(always)]
    fn is_conclusive(self) -> bool {
        self.0 < Self::LIMIT
    }

    #[inline(always)]
    fn note(&mut self, reused: bool) {
        self.0 = match reused {
            true => self.0 + Self::REUSED,
            false => self.0.saturating_sub(1),
        };
    }
}

/// The fields of a packet that are compared.
struct Fingerprint {
    hosts: u64,
    identity: u64,
    content: u64,
    vantage: u64,
    numbered: bool,
    /// The longest time between two duplicates that the number proves.
    number_proves_ns: u64,
    /// A different point of capture proves a duplicate.
    place_proves: bool,
    /// A time too short for a retransmission proves a duplicate.
    short_time_proves: bool,
    /// A SYN is retransmitted after a second, and not before.
    is_syn: bool,
    is_tcp: bool,
}

impl Default for Duplicates {
    fn default() -> Self {
        Self {
            sets: vec![Set([NOTHING; 2]); SETS].into_boxed_slice(),
            numberings: vec![Numbering(0); NUMBERINGS].into_boxed_slice(),
            lateness_ns: vec![0; NUMBERINGS].into_boxed_slice(),
            translations: Translations::default(),
            runs: Runs::default(),
            points: Points::default(),
            has_copies: false,
            suspects: 0,
            link_retries: 0,
            wireless: LinkRetries::default(),
        }
    }
}

impl Duplicates {
    /// True if this packet duplicates an earlier one; otherwise remembers it, and sets its addresses to those with
    /// which its connection was first captured.
    #[inline(always)]
    pub(crate) fn is_copy(&mut self, record: &Record, frame: &[u8], decoded: &mut Decoded) -> bool {
        if let Some(radio_at) = decoded.radio_at
            && decoded.is_data()
            && self
                .wireless
                .is_retry(record.time_ns, frame, radio_at as usize)
        {
            self.link_retries += 1;
            return true;
        }
        let several_points = self.has_copies || record.interface > 0 || is_cooked(record.link);
        let translations = &mut self.translations;
        if translations.is_copy(record.time_ns, frame, decoded, several_points) {
            self.has_copies = true;
            return true;
        }
        let Some(packet) = fingerprint(record, frame, decoded) else {
            return false;
        };
        let copy_of = self.check(&packet, record.time_ns);
        if copy_of.is_none() {
            if several_points && self.is_piece(&packet, record, decoded) {
                return true;
            }
            if several_points {
                let point = Point::of(record, frame, decoded);
                self.points.note(packet.vantage, point);
            }
            return false;
        }
        self.has_copies = true;
        if let Some(vantage) = copy_of {
            self.points
                .count(vantage, Point::of(record, frame, decoded));
        }
        true
    }

    /// True for data that was just captured at another point, split or coalesced.
    fn is_piece(&mut self, packet: &Fingerprint, record: &Record, decoded: &Decoded) -> bool {
        let Transport::Tcp(segment) = &decoded.transport else {
            return false;
        };
        let number = decoded.network.and_then(|network| network.identification);
        let piece = Piece {
            flow: pieces::flow(decoded, segment),
            vantage: packet.vantage,
            number: number.unwrap_or(0),
            time_ns: record.time_ns,
        };
        segment.payload_bytes > 0 && self.runs.is_copy(&piece, segment)
    }

    /// Adds what is known of duplicates to a summary.
    pub(crate) fn add_to(&self, summary: &mut Summary) {
        summary.copies = self.points.copies();
        summary.translated_connections = self.translations.connections;
        summary.translations = self.translations.named.clone();
    }

    /// The mark of the point where the original of this duplicate was captured.
    #[inline(always)]
    fn check(&mut self, packet: &Fingerprint, time_ns: i64) -> Option<u64> {
        let numbering = &mut self.numberings[packet.hosts as usize % NUMBERINGS];
        let numbered = packet.numbered && numbering.is_conclusive();
        // Packets with one number share a set, which reveals the reuse of numbers. Without numbers they would all share
        // one set, so the content selects it.
        let place = if numbered {
            packet.identity
        } else {
            packet.identity ^ packet.content
        };
        let set = &mut self.sets[place as usize % SETS].0;
        let mut reused = false;
        for seen in set.iter_mut() {
            let apart_ns = seen.time_ns.abs_diff(time_ns);
            if seen.identity != packet.identity || apart_ns > SAME_NUMBER_NS {
                continue;
            }
            if seen.content != packet.content {
                reused = true;
                continue;
            }
            let elsewhere = seen.vantage != packet.vantage;
            if (numbered && apart_ns <= packet.number_proves_ns)
                || (packet.place_proves && elsewhere && apart_ns <= TWO_POINTS_NS)
                || (packet.short_time_proves && apart_ns <= NO_TIME_NS)
            {
                return Some(seen.vantage);
            }
            let lateness_ns = &mut self.lateness_ns[packet.hosts as usize % NUMBERINGS];
            if packet.is_syn && apart_ns <= TWO_POINTS_NS {
                *lateness_ns = (*lateness_ns).max(apart_ns as u32).max(1);
                return Some(seen.vantage);
            }
            let latest_ns = (MUCH_LATER * u64::from(*lateness_ns)).min(TWO_POINTS_NS);
            if packet.is_tcp && latest_ns > 0 && apart_ns <= latest_ns {
                let vantage = seen.vantage;
                *seen = NOTHING;
                return Some(vantage);
            }
            self.suspects += u64::from(apart_ns <= NO_TIME_NS);
            seen.time_ns = time_ns;
            seen.vantage = packet.vantage;
            return None;
        }
        if numbered {
            numbering.note(reused);
        }
        let oldest = usize::from(set[1].time_ns < set[0].time_ns);
        set[oldest] = Seen {
            identity: packet.identity,
            content: packet.content,
            vantage: packet.vantage,
            time_ns,
        };
        None
    }
}

/// `-i any` captures all interfaces of a host.
#[inline(always)]
fn is_cooked(link: LinkType) -> bool {
    matches!(link, LinkType::LINUX_COOKED | LinkType::LINUX_COOKED_2)
}

// Odd constants with equally many ones and zeros and no pattern: from the golden ratio, e and pi in binary.
const KEY_1: u64 = 0x9e37_79b9_7f4a_7c15;
const KEY_2: u64 = 0xadf8_5458_a2bb_4a9b;
const KEY_3: u64 = 0x243f_6a88_85a3_08d3;

/// Hashes two words into one: the halves of their 128-bit product.
#[inline(always)]
fn mix(one: u64, other: u64) -> u64 {
    let product = u128::from(one ^ KEY_1) * u128::from(other ^ KEY_2);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Hashes any bytes, eight at a time; the last eight may overlap the ones before.
#[inline(always)]
fn hash(bytes: &[u8]) -> u64 {
    let mut state = KEY_3 ^ bytes.len() as u64;
    let Some(last) = bytes.last_chunk::<8>() else {
        let mut short = [0; 8];
        short[..bytes.len()].copy_from_slice(bytes);
        return mix(state, u64::from_ne_bytes(short));
    };
    let whole = (bytes.len() - 1) / 8 * 8;
    for chunk in bytes[..whole].chunks_exact(8) {
        state = mix(
            state,
            u64::from_ne_bytes(chunk.try_into().expect("eight bytes")),
        );
    }
    mix(state, u64::from_ne_bytes(*last))
}

/// The first captured payload bytes from `from` on.
#[inline(always)]
fn beginning<'a>(frame: &'a [u8], decoded: &Decoded, from: u32) -> &'a [u8] {
    const ENOUGH_BYTES: usize = 16;
    let from = from as usize;
    let ip_bytes = decoded
        .network
        .map_or(0, |network| network.ip_bytes as usize);
    let end = frame
        .len()
        .min(decoded.network_at as usize + ip_bytes)
        .min(from + ENOUGH_BYTES);
    frame.get(from..end).unwrap_or(&[])
}

/// `None` for packets that never count as duplicates.
#[inline(always)]
fn fingerprint(record: &Record, frame: &[u8], decoded: &Decoded) -> Option<Fingerprint> {
    /// Stands for the protocol of later fragments, above all protocol numbers.
    const FRAGMENT: u64 = 0x100;
    let network = decoded.network.as_ref()?;
    let at = decoded.network_at as usize;
    let header = frame.get(decoded.transport_at as usize..decoded.transport_end as usize)?;
    let version_4 = frame.get(at)? >> 4 == 4;
    let (hosts, place) = match version_4 {
        // Flags and fragment offset are part of the position.
        true => (
            word(frame, at + 12)?,
            u64::from(u16::from_ne_bytes([
                *frame.get(at + 6)?,
                *frame.get(at + 7)?,
            ])),
        ),
        // The flow label changes when Linux takes a connection to another path.
        false => (
            hash(frame.get(at + 8..at + 40)?),
            word(frame, at)? & u64::from_ne_bytes([0, 0x0f, 0xff, 0xff, 0, 0, 0, 0]),
        ),
    };
    let number = network.identification.unwrap_or(0);
    let mut print = Fingerprint {
        hosts,
        identity: 0,
        content: u64::from(network.ip_bytes),
        vantage: 0,
        numbered: version_4 && number != 0,
        number_proves_ns: TWO_POINTS_NS,
        place_proves: true,
        short_time_proves: false,
        is_syn: false,
        is_tcp: false,
    };
    let kind = match decoded.transport {
        Transport::Tcp(segment) => {
            let numbers = mix(
                word(header, 4)?,
                u64::from(u32::from_ne_bytes(*header.get(12..)?.first_chunk()?)),
            );
            print.content = mix(numbers, print.content);
            if let Some(options) = header.get(20..).filter(|options| !options.is_empty()) {
                print.content = mix(print.content, hash(options));
            }
            let takes_sequence =
                segment.payload_bytes > 0 || segment.flags.has(TcpFlags::SYN | TcpFlags::FIN);
            print.number_proves_ns = SAME_NUMBER_NS;
            print.is_syn = segment.flags.has(TcpFlags::SYN);
            print.is_tcp = true;
            print.short_time_proves = takes_sequence && segment.options.timestamps.is_some();
            u64::from(u32::from_ne_bytes(*header.first_chunk()?)) << 16 | 6
        }
        Transport::Udp { payload_bytes, .. } => {
            let checksum = u16::from_ne_bytes([header[6], header[7]]);
            let payload = beginning(frame, decoded, decoded.transport_end);
            print.content = mix(print.content, hash(payload));
            // Offloading fills the checksum in late, so duplicates may differ in it. It is used only if nothing else
            // distinguishes datagrams.
            if !print.numbered || (payload.is_empty() && payload_bytes > 0) {
                print.content = mix(print.content, u64::from(checksum));
                print.place_proves = checksum != 0;
            }
            u64::from(u32::from_ne_bytes(*header.first_chunk()?)) << 16 | 17
        }
        // The checksum covers the contents of an ICMP message.
        Transport::Icmp { .. } => u64::from(u32::from_ne_bytes(*header.first_chunk()?)) << 16 | 1,
        Transport::Fragment | Transport::OtherProtocol(_) => {
            print.content = mix(
                print.content,
                hash(beginning(frame, decoded, decoded.transport_at)),
            );
            print.place_proves = false;
            match decoded.transport {
                Transport::OtherProtocol(protocol) => u64::from(protocol),
                _ => FRAGMENT,
            }
        }
        Transport::NotIp(_) | Transport::Undecodable => return None,
    };
    print.hosts = mix(hosts, kind & 0xffff);
    print.identity = mix(hosts, mix(kind << 16 | u64::from(number), place));
    let link_header = match decoded.radio_at {
        // radio measurements differ between frames: only the stations distinguish two points
        Some(at) => frame.get(at as usize + 4..at as usize + 22)?,
        None => frame.get(..decoded.link_bytes as usize)?,
    };
    let point = u64::from(record.interface) << 32
        | u64::from(record.vantage) << 16
        | u64::from(network.ttl) << 8
        | u64::from(network.tunnel_depth);
    print.vantage = mix(hash(link_header), point);
    Some(print)
}
