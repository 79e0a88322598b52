//! The legacy format of libpcap, <https://www.tcpdump.org/manpages/pcap-savefile.5.html>.

use super::fractions::{Fractions, Unit};
use super::interfaces::{Interface, Interfaces};
use super::{LARGEST_FRAME_BYTES, NANOSECONDS_PER_SECOND, Record, cut_off};
use crate::bytes::ByteOrder;
use crate::error::Damage;
use crate::input::Window;
use crate::link_type::LinkType;

const FILE_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;
/// Alexey Kuznetsov's patched libpcap wrote interface, protocol and packet type after each header.
const PATCHED_RECORD_HEADER_BYTES: usize = 24;

/// The variant that a magic number identifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variant {
    order: ByteOrder,
    /// Unit of a timestamp's fraction.
    unit: Unit,
    record_header_bytes: usize,
}

impl Variant {
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        let magic: [u8; 4] = *head.first_chunk()?;
        [ByteOrder::Little, ByteOrder::Big]
            .into_iter()
            .find_map(|order| {
                let (unit, record_header_bytes) = match order.u32(magic) {
                    0xa1b2_c3d4 => (Unit::Microseconds, RECORD_HEADER_BYTES),
                    0xa1b2_3c4d => (Unit::Nanoseconds, RECORD_HEADER_BYTES),
                    0xa1b2_cd34 => (Unit::Microseconds, PATCHED_RECORD_HEADER_BYTES),
                    _ => return None,
                };
                Some(Self {
                    order,
                    unit,
                    record_header_bytes,
                })
            })
    }
}

/// The order of a packet's two lengths: early versions of the format had them swapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lengths {
    CapturedFirst,
    WireFirst,
    /// Version 2.3 was written in both orders; the smaller length is the captured one.
    SmallerCaptured,
}

impl Lengths {
    #[inline(always)]
    fn captured_and_wire(self, first: u32, second: u32) -> (u32, u32) {
        match self {
            Self::CapturedFirst => (first, second),
            Self::WireFirst => (second, first),
            Self::SmallerCaptured => (first.min(second), first.max(second)),
        }
    }
}

/// Seconds and fractions of the records at the beginning of a file, as far as buffered.
fn stamps(
    variant: Variant,
    lengths: Lengths,
    mut rest: &[u8],
) -> impl Iterator<Item = (u32, u32)> + '_ {
    let order = variant.order;
    std::iter::from_fn(move || {
        let field = |at: usize| order.u32_at(rest, at);
        let (seconds, fraction) = (field(0)?, field(4)?);
        let (captured_bytes, _) = lengths.captured_and_wire(field(8)?, field(12)?);
        let record_bytes = variant.record_header_bytes + captured_bytes as usize;
        rest = rest.get(record_bytes..).unwrap_or(&[]);
        Some((seconds, fraction))
    })
}

/// A pcap file after its header.
pub(crate) struct PcapReader {
    variant: Variant,
    fractions: Fractions,
    lengths: Lengths,
    link: LinkType,
    snaplen_bytes: u32,
    interface: u32,
}

impl PcapReader {
    pub(crate) fn open(variant: Variant, window: &mut Window) -> Result<Self, Damage> {
        if !window.has(FILE_HEADER_BYTES) {
            return Err(*cut_off(
                window,
                0,
                "a pcap file header",
                FILE_HEADER_BYTES as u64,
            ));
        }
        let header: [u8; FILE_HEADER_BYTES] =
            *window.bytes().first_chunk().expect("has() was true");
        let u16_at = |at: usize| variant.order.u16([header[at], header[at + 1]]);
        let u32_at = |at: usize| {
            variant
                .order
                .u32([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let lengths = match (u16_at(4), u16_at(6)) {
            (2, ..3) | (543, 0) => Lengths::WireFirst,
            (2, 3) => Lengths::SmallerCaptured,
            (2, _) => Lengths::CapturedFirst,
            (major, minor) => {
                return Err(Damage {
                    offset: Some(4),
                    found: format!("pcap version {major}.{minor}"),
                    expected: "version 2.4".into(),
                    remedy: "check that this is a capture file".into(),
                });
            }
        };
        window.advance(FILE_HEADER_BYTES);
        // The upper bits of the link type field contain the length of the frame check sequence, which no IP length
        // covers.
        let link = LinkType((u32_at(20) & 0xffff) as u16);
        let snaplen_bytes = u32_at(16);
        let fractions = Fractions::judged(variant.unit, stamps(variant, lengths, window.bytes()));
        Ok(Self {
            variant,
            fractions,
            lengths,
            link,
            snaplen_bytes,
            interface: 0,
        })
    }

    /// Returns a note on the timestamps for the user.
    pub(crate) fn note(&self) -> Option<String> {
        self.fractions.note()
    }

    pub(crate) fn note_interface(&mut self, interfaces: &mut Interfaces) {
        let described = Interface::new(self.link, self.snaplen_bytes);
        // A sequence with so many files and link types that no number is left: they are all read, with the number of
        // the first interface.
        self.interface = interfaces.number(0, None, described).unwrap_or(0);
    }

    #[inline(always)]
    pub(crate) fn next_record(
        &mut self,
        window: &mut Window,
    ) -> Result<Option<Record>, Box<Damage>> {
        let header_bytes = self.variant.record_header_bytes;
        if !window.has(header_bytes) {
            return self.at_end(window);
        }
        let order = self.variant.order;
        let header: &[u8; RECORD_HEADER_BYTES] =
            window.bytes().first_chunk().expect("has() was true");
        let [
            s0,
            s1,
            s2,
            s3,
            f0,
            f1,
            f2,
            f3,
            a0,
            a1,
            a2,
            a3,
            b0,
            b1,
            b2,
            b3,
        ] = *header;
        let seconds = order.u32([s0, s1, s2, s3]);
        let fraction = order.u32([f0, f1, f2, f3]);
        let (first, second) = (order.u32([a0, a1, a2, a3]), order.u32([b0, b1, b2, b3]));
        let (captured_bytes, wire_bytes) = self.lengths.captured_and_wire(first, second);
        if captured_bytes > LARGEST_FRAME_BYTES {
            return Err(impossible_length(window.offset(), captured_bytes));
        }
        if !window.has(header_bytes + captured_bytes as usize) {
            let needed = header_bytes as u64 + u64::from(captured_bytes);
            return Err(cut_off(window, window.offset(), "a packet", needed));
        }
        window.advance(header_bytes);
        let position = window.position();
        window.advance(captured_bytes as usize);
        Ok(Some(Record {
            time_ns: i64::from(seconds) * NANOSECONDS_PER_SECOND
                + self.fractions.nanoseconds(fraction),
            interface: self.interface,
            link: self.link,
            wire_bytes,
            captured_bytes,
            position,
            vantage: 0,
        }))
    }

    #[cold]
    fn at_end(&self, window: &Window) -> Result<Option<Record>, Box<Damage>> {
        if window.bytes().is_empty() && window.failure().is_none() {
            return Ok(None);
        }
        let needed = self.variant.record_header_bytes as u64;
        Err(cut_off(window, window.offset(), "a packet header", needed))
    }
}

#[cold]
fn impossible_length(offset: u64, captured_bytes: u32) -> Box<Damage> {
    Box::new(Damage {
        offset: Some(offset),
        found: format!("a packet header that claims {captured_bytes} captured bytes"),
        expected: format!("at most {LARGEST_FRAME_BYTES}"),
        remedy:
            "the packets before it are analysed; the file is damaged from here on, copy it again"
                .into(),
    })
}
