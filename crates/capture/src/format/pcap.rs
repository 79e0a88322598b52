//! The legacy format of libpcap, <https://www.tcpdump.org/manpages/pcap-savefile.5.html>.

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

/// The variant that a magic number stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variant {
    order: ByteOrder,
    /// Length of the unit of a timestamp's fraction.
    fraction_ns: i64,
    /// A second has this many and one more. Beyond it the fraction is damaged; the second may not be.
    largest_fraction: u32,
    record_header_bytes: usize,
}

impl Variant {
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        let magic: [u8; 4] = *head.first_chunk()?;
        [ByteOrder::Little, ByteOrder::Big]
            .into_iter()
            .find_map(|order| {
                let (fractions, record_header_bytes) = match order.u32(magic) {
                    0xa1b2_c3d4 => (1_000_000, RECORD_HEADER_BYTES),
                    0xa1b2_3c4d => (1_000_000_000, RECORD_HEADER_BYTES),
                    0xa1b2_cd34 => (1_000_000, PATCHED_RECORD_HEADER_BYTES),
                    _ => return None,
                };
                Some(Self {
                    order,
                    fraction_ns: NANOSECONDS_PER_SECOND / i64::from(fractions),
                    largest_fraction: fractions - 1,
                    record_header_bytes,
                })
            })
    }
}

/// In which order a packet's two lengths stand: early versions of the format had them swapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lengths {
    CapturedFirst,
    WireFirst,
    /// Version 2.3 was written in both orders; the captured length is the smaller.
    SmallerCaptured,
}

/// A pcap file after its header.
pub(crate) struct PcapReader {
    variant: Variant,
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
        let header: [u8; FILE_HEADER_BYTES] = *window.bytes().first_chunk().expect("has() said so");
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
                    offset: 4,
                    found: format!("pcap version {major}.{minor}"),
                    expected: "version 2.4".into(),
                    remedy: "check that this is a capture file".into(),
                });
            }
        };
        window.advance(FILE_HEADER_BYTES);
        // The upper bits of the link type field tell the length of the frame check sequence, which
        // no IP length covers.
        let link = LinkType((u32_at(20) & 0xffff) as u16);
        Ok(Self {
            variant,
            lengths,
            link,
            snaplen_bytes: u32_at(16),
            interface: 0,
        })
    }

    pub(crate) fn note_interface(&mut self, interfaces: &mut Interfaces) {
        let described = Interface {
            link: self.link,
            snaplen_bytes: self.snaplen_bytes,
            dropped: None,
        };
        // A sequence of so many files with so many link types that there is no number left: they
        // are all read, on the first interface.
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
            window.bytes().first_chunk().expect("has() said so");
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
        let fraction = order
            .u32([f0, f1, f2, f3])
            .min(self.variant.largest_fraction);
        let (first, second) = (order.u32([a0, a1, a2, a3]), order.u32([b0, b1, b2, b3]));
        let (captured_bytes, wire_bytes) = match self.lengths {
            Lengths::CapturedFirst => (first, second),
            Lengths::WireFirst => (second, first),
            Lengths::SmallerCaptured => (first.min(second), first.max(second)),
        };
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
                + i64::from(fraction) * self.variant.fraction_ns,
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
        offset,
        found: format!("a packet header that claims {captured_bytes} captured bytes"),
        expected: format!("at most {LARGEST_FRAME_BYTES}"),
        remedy: "what comes before is read; the file is damaged from here on, copy it again".into(),
    })
}
