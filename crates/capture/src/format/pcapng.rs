//! pcapng, <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>: a file of blocks, in
//! sections, each with its own byte order and interfaces.

use super::interfaces::{Interface, Interfaces, MOST_INTERFACES};
use super::timestamp::Clock;
use super::{LARGEST_FRAME_BYTES, Record, cut_off};
use crate::bytes::ByteOrder;
use crate::error::Damage;
use crate::input::Window;
use crate::link_type::LinkType;

mod block {
    /// Reads the same in both byte orders.
    pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
    pub(super) const INTERFACE_DESCRIPTION: u32 = 1;
    pub(super) const PACKET: u32 = 2;
    pub(super) const SIMPLE_PACKET: u32 = 3;
    pub(super) const INTERFACE_STATISTICS: u32 = 5;
    pub(super) const ENHANCED_PACKET: u32 = 6;
}

mod option {
    pub(super) const END: u16 = 0;
    pub(super) const INTERFACE_NAME: u16 = 2;
    pub(super) const TIMESTAMP_RESOLUTION: u16 = 9;
    pub(super) const TIMESTAMP_OFFSET: u16 = 14;
    pub(super) const PACKET_FLAGS: u16 = 2;
    pub(super) const PACKET_DROP_COUNT: u16 = 4;
    pub(super) const STATISTICS_INTERFACE_RECEIVED: u16 = 4;
    pub(super) const STATISTICS_INTERFACE_DROPPED: u16 = 5;
    pub(super) const STATISTICS_SYSTEM_DROPPED: u16 = 7;
}

/// The first bytes of any pcapng file.
pub(crate) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Type and total length precede a block's body, the total length follows it.
const BLOCK_HEADER_BYTES: usize = 8;
const BLOCK_TRAILER_BYTES: usize = 4;
const SMALLEST_BLOCK_BYTES: u32 = 12;
/// The largest block that must be buffered as a whole: the largest frame and ample options.
const LARGEST_BUFFERED_BLOCK_BYTES: u32 = Window::MOST_BYTES as u32;

struct SectionInterface {
    number: u32,
    link: LinkType,
    snaplen_bytes: u32,
    clock: Clock,
    /// Its first timestamp has been checked.
    is_judged: bool,
}

impl SectionInterface {
    /// Checks the first timestamp; returns true if it contradicts the stated resolution.
    #[cold]
    fn judge(&mut self, ticks: u64) -> bool {
        self.is_judged = true;
        let corrected = self.clock.corrected(ticks);
        self.clock = corrected.unwrap_or(self.clock);
        corrected.is_some()
    }
}

/// A pcapng file, from its first block on.
pub(crate) struct PcapngReader {
    order: ByteOrder,
    interfaces: Vec<SectionInterface>,
    /// Simple packet blocks have no time: the time of the packet before is used.
    last_time_ns: i64,
    pub(crate) untimed_packets: u64,
    /// An interface states a resolution that its timestamps contradict.
    is_corrected: bool,
}

/// The header of a block.
#[derive(Clone, Copy)]
struct Header {
    kind: u32,
    total_bytes: u32,
    offset: u64,
}

impl PcapngReader {
    /// Reads the blocks that must precede the first packet.
    pub(crate) fn open(window: &mut Window) -> Result<Self, Damage> {
        let mut reader = Self {
            order: ByteOrder::Little,
            interfaces: Vec::new(),
            last_time_ns: 0,
            untimed_packets: 0,
            is_corrected: false,
        };
        reader.section(window).map_err(|damage| *damage)?;
        Ok(reader)
    }

    /// Returns a note on the timestamps for the user.
    pub(crate) fn note(&self) -> Option<String> {
        self.is_corrected.then(|| {
            "the stated resolution of the timestamps (if_tsresol) gives an impossible year: the resolution that gives a \
             year of this century is used instead"
                .to_owned()
        })
    }

    /// Reads the next packet. Other blocks are processed or skipped.
    pub(crate) fn next_record(
        &mut self,
        window: &mut Window,
        interfaces: &mut Interfaces,
    ) -> Result<Option<Record>, Box<Damage>> {
        loop {
            if !window.has(BLOCK_HEADER_BYTES) {
                if window.bytes().is_empty() && window.failure().is_none() {
                    return Ok(None);
                }
                return Err(cut_off(
                    window,
                    window.offset(),
                    "a block header",
                    BLOCK_HEADER_BYTES as u64,
                ));
            }
            let head: [u8; 8] = *window.bytes().first_chunk().expect("has() was true");
            let [k0, k1, k2, k3, l0, l1, l2, l3] = head;
            let header = Header {
                kind: self.order.u32([k0, k1, k2, k3]),
                total_bytes: self.order.u32([l0, l1, l2, l3]),
                offset: window.offset(),
            };
            match header.kind {
                block::ENHANCED_PACKET | block::PACKET | block::SIMPLE_PACKET => {
                    return self.packet(window, header, interfaces).map(Some);
                }
                block::SECTION_HEADER => self.section(window)?,
                block::INTERFACE_DESCRIPTION => self.interface(window, header, interfaces)?,
                block::INTERFACE_STATISTICS => self.statistics(window, header, interfaces)?,
                _ => skip(window, header)?,
            }
        }
    }

    #[inline(always)]
    fn packet(
        &mut self,
        window: &mut Window,
        header: Header,
        interfaces: &mut Interfaces,
    ) -> Result<Record, Box<Damage>> {
        let body_bytes = hold(window, header, self.order)?;
        let place = window.position() + BLOCK_HEADER_BYTES;
        let body = window.slice(place, body_bytes);
        let packet = match header.kind {
            block::SIMPLE_PACKET => self.simple_packet(body, header)?,
            _ => self.timed_packet(body, header)?,
        };
        let described = self.interfaces.len();
        let Some(interface) = self.interfaces.get_mut(packet.interface as usize) else {
            return Err(unknown_interface(header, packet.interface, described));
        };
        if let (Some(ticks), false) = (packet.ticks, interface.is_judged) {
            self.is_corrected |= interface.judge(ticks);
        }
        let time_ns = match packet.ticks {
            Some(ticks) => interface.clock.time_ns(ticks),
            None => {
                self.untimed_packets += 1;
                self.last_time_ns
            }
        };
        self.last_time_ns = time_ns;
        let frame_end = packet.frame_at + packet.captured_bytes as usize;
        let options = body.get(frame_end.next_multiple_of(4)..).unwrap_or(&[]);
        let noted = if options.is_empty() || header.kind == block::SIMPLE_PACKET {
            PacketOptions::default()
        } else {
            packet_options_of(self.order, options)
        };
        if noted.dropped_before > 0 {
            interfaces.note_dropped_before(interface.number, noted.dropped_before);
        }
        let record = Record {
            time_ns,
            interface: interface.number,
            link: interface.link,
            wire_bytes: packet.wire_bytes,
            captured_bytes: packet.captured_bytes,
            position: place + packet.frame_at,
            vantage: noted.direction,
        };
        window.advance(header.padded_bytes());
        Ok(record)
    }

    /// Parses an enhanced packet block or its obsolete predecessor, which have the same 20 bytes except for the width
    /// of the interface number.
    #[inline(always)]
    fn timed_packet(&self, body: &[u8], header: Header) -> Result<RawPacket, Box<Damage>> {
        const FIXED_BYTES: usize = 20;
        let Some(fixed) = body.first_chunk::<FIXED_BYTES>() else {
            return Err(too_short(header, "a packet block", FIXED_BYTES));
        };
        let u32_at = |at: usize| {
            self.order
                .u32([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        let interface = match header.kind {
            block::PACKET => u32::from(self.order.u16([fixed[0], fixed[1]])),
            _ => u32_at(0),
        };
        let captured_bytes = u32_at(12);
        check_captured(header, captured_bytes, body.len() - FIXED_BYTES)?;
        Ok(RawPacket {
            interface,
            ticks: Some(u64::from(u32_at(4)) << 32 | u64::from(u32_at(8))),
            wire_bytes: u32_at(16),
            captured_bytes,
            frame_at: FIXED_BYTES,
        })
    }

    fn simple_packet(&self, body: &[u8], header: Header) -> Result<RawPacket, Box<Damage>> {
        const FIXED_BYTES: usize = 4;
        let Some(&fixed) = body.first_chunk::<FIXED_BYTES>() else {
            return Err(too_short(header, "a simple packet block", FIXED_BYTES));
        };
        let wire_bytes = self.order.u32(fixed);
        // The captured length is not stated: it is the smallest possible one.
        let snaplen_bytes = match self.interfaces.first() {
            Some(SectionInterface {
                snaplen_bytes: limit @ 1..,
                ..
            }) => *limit,
            _ => u32::MAX,
        };
        let room = body.len() - FIXED_BYTES;
        let captured_bytes = wire_bytes.min(snaplen_bytes).min(room as u32);
        check_captured(header, captured_bytes, room)?;
        Ok(RawPacket {
            interface: 0,
            ticks: None,
            wire_bytes,
            captured_bytes,
            frame_at: FIXED_BYTES,
        })
    }

    /// Starts a section: sets the byte order and clears the interfaces.
    fn section(&mut self, window: &mut Window) -> Result<(), Box<Damage>> {
        const FIXED_BYTES: usize = 28;
        const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
        let offset = window.offset();
        if !window.has(FIXED_BYTES) {
            return Err(cut_off(
                window,
                offset,
                "a section header block",
                FIXED_BYTES as u64,
            ));
        }
        let fixed: &[u8; FIXED_BYTES] = window.bytes().first_chunk().expect("has() was true");
        let magic = [fixed[8], fixed[9], fixed[10], fixed[11]];
        let order = [ByteOrder::Little, ByteOrder::Big]
            .into_iter()
            .find(|order| order.u32(magic) == BYTE_ORDER_MAGIC)
            .ok_or_else(|| {
                broken(
                    offset + 8,
                    format!("the byte-order magic {magic:02x?}"),
                    "1a2b3c4d in either order",
                )
            })?;
        let major = order.u16([fixed[12], fixed[13]]);
        if major != 1 {
            return Err(broken(
                offset + 12,
                format!("pcapng version {major}"),
                "version 1",
            ));
        }
        let total_bytes = order.u32([fixed[4], fixed[5], fixed[6], fixed[7]]);
        self.order = order;
        self.interfaces.clear();
        skip(
            window,
            Header {
                kind: block::SECTION_HEADER,
                total_bytes,
                offset,
            },
        )
    }

    fn interface(
        &mut self,
        window: &mut Window,
        header: Header,
        interfaces: &mut Interfaces,
    ) -> Result<(), Box<Damage>> {
        const FIXED_BYTES: usize = 8;
        let body_bytes = hold(window, header, self.order)?;
        let body = window.slice(window.position() + BLOCK_HEADER_BYTES, body_bytes);
        let (Some(link), Some(snaplen_bytes)) =
            (self.order.u16_at(body, 0), self.order.u32_at(body, 4))
        else {
            return Err(too_short(
                header,
                "an interface description block",
                FIXED_BYTES,
            ));
        };
        let mut clock = Clock::default();
        let mut name = None;
        for (code, value) in options(self.order, &body[FIXED_BYTES..]) {
            match (code, value) {
                (option::INTERFACE_NAME, text) => name = Some(text),
                (option::TIMESTAMP_RESOLUTION, &[resolution]) => clock.set_resolution(resolution),
                (option::TIMESTAMP_OFFSET, seconds) if seconds.len() == 8 => {
                    clock.set_offset(u64_of(self.order, seconds) as i64);
                }
                _ => {}
            }
        }
        let link = LinkType(link);
        let number = match self.interfaces.len() {
            MOST_INTERFACES.. => None,
            place => interfaces.number(place, name, Interface::new(link, snaplen_bytes)),
        };
        let Some(number) = number else {
            let expected = format!("at most {MOST_INTERFACES} interfaces");
            return Err(broken(
                header.offset,
                "one more interface description block".into(),
                &expected,
            ));
        };
        self.interfaces.push(SectionInterface {
            number,
            link,
            snaplen_bytes,
            clock,
            is_judged: false,
        });
        window.advance(header.padded_bytes());
        Ok(())
    }

    /// Registers how many packets the capturing host dropped.
    fn statistics(
        &mut self,
        window: &mut Window,
        header: Header,
        interfaces: &mut Interfaces,
    ) -> Result<(), Box<Damage>> {
        const FIXED_BYTES: usize = 12;
        let body_bytes = hold(window, header, self.order)?;
        let body = window.slice(window.position() + BLOCK_HEADER_BYTES, body_bytes);
        let described = self
            .order
            .u32_at(body, 0)
            .and_then(|place| self.interfaces.get(place as usize));
        if let (Some(interface), Some(rest)) = (described, body.get(FIXED_BYTES..)) {
            let mut received = None;
            let mut dropped: Option<u64> = None;
            for (code, value) in options(self.order, rest) {
                let count = (value.len() == 8).then(|| u64_of(self.order, value));
                match (code, count) {
                    // the value for "unknown"
                    (_, None | Some(u64::MAX)) => {}
                    (option::STATISTICS_INTERFACE_RECEIVED, _) => received = count,
                    (
                        option::STATISTICS_INTERFACE_DROPPED | option::STATISTICS_SYSTEM_DROPPED,
                        Some(count),
                    ) => dropped = Some(dropped.unwrap_or(0).saturating_add(count)),
                    _ => {}
                }
            }
            interfaces.note_statistics(interface.number, received, dropped);
        }
        window.advance(header.padded_bytes());
        Ok(())
    }
}

/// The uninterpreted fields of a packet block.
struct RawPacket {
    interface: u32,
    ticks: Option<u64>,
    wire_bytes: u32,
    captured_bytes: u32,
    /// Where the frame begins in the block's body.
    frame_at: usize,
}

impl Header {
    /// The block's length in the file. Some writers do not include the padding to four bytes.
    fn padded_bytes(self) -> usize {
        self.total_bytes as usize + (self.total_bytes.wrapping_neg() & 3) as usize
    }
}

/// Ensures that a whole valid block is buffered; returns the length of its body.
#[inline(always)]
fn hold(window: &mut Window, header: Header, order: ByteOrder) -> Result<usize, Box<Damage>> {
    let total = header.padded_bytes();
    if !(SMALLEST_BLOCK_BYTES..=LARGEST_BUFFERED_BLOCK_BYTES - 3).contains(&header.total_bytes) {
        return Err(impossible_length(header));
    }
    if !window.has(total) {
        return Err(cut_off(window, header.offset, "a block", total as u64));
    }
    let trailer = order.u32_at(window.bytes(), total - BLOCK_TRAILER_BYTES);
    // A writer that does not count the padding may also put the trailer before it.
    if trailer != Some(header.total_bytes) && total == header.total_bytes as usize {
        return Err(broken(
            header.offset + total as u64 - BLOCK_TRAILER_BYTES as u64,
            format!("{} at the end of a block", trailer.unwrap_or(0)),
            &format!("the block's length again, {}", header.total_bytes),
        ));
    }
    Ok(total - BLOCK_HEADER_BYTES - BLOCK_TRAILER_BYTES)
}

/// Skips a block of any length.
fn skip(window: &mut Window, header: Header) -> Result<(), Box<Damage>> {
    if header.total_bytes < SMALLEST_BLOCK_BYTES {
        return Err(impossible_length(header));
    }
    if !window.skip(header.padded_bytes() as u64) {
        return Err(cut_off(
            window,
            header.offset,
            "a block",
            header.padded_bytes() as u64,
        ));
    }
    Ok(())
}

/// The options at the end of a block; stops at the first one that does not fit.
fn options(order: ByteOrder, mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let code = order.u16_at(rest, 0)?;
        let bytes = usize::from(order.u16_at(rest, 2)?);
        let value = rest.get(4..4 + bytes)?;
        rest = rest.get((4 + bytes).next_multiple_of(4)..).unwrap_or(&[]);
        (code != option::END).then_some((code, value))
    })
}

/// The information in a packet's options.
#[derive(Default)]
struct PacketOptions {
    /// 1 received, 2 sent, 0 unknown.
    direction: u32,
    /// Packets that the host dropped between the previous packet and this one.
    dropped_before: u64,
}

#[cold]
fn packet_options_of(order: ByteOrder, packet_options: &[u8]) -> PacketOptions {
    let mut noted = PacketOptions::default();
    for (code, value) in options(order, packet_options) {
        match code {
            option::PACKET_FLAGS => noted.direction = order.u32_at(value, 0).unwrap_or(0) & 3,
            option::PACKET_DROP_COUNT if value.len() == 8 => {
                noted.dropped_before = match u64_of(order, value) {
                    // the value for "unknown"
                    u64::MAX => 0,
                    dropped => dropped,
                };
            }
            _ => {}
        }
    }
    noted
}

fn u64_of(order: ByteOrder, value: &[u8]) -> u64 {
    let bytes: [u8; 8] = value.try_into().unwrap_or_default();
    match order {
        ByteOrder::Little => u64::from_le_bytes(bytes),
        ByteOrder::Big => u64::from_be_bytes(bytes),
    }
}

#[inline(always)]
fn check_captured(header: Header, captured_bytes: u32, room: usize) -> Result<(), Box<Damage>> {
    if captured_bytes > LARGEST_FRAME_BYTES || captured_bytes as usize > room {
        return Err(broken(
            header.offset,
            format!(
                "a packet block that claims {captured_bytes} captured bytes and has room for {room}"
            ),
            &format!("a frame that fits its block, at most {LARGEST_FRAME_BYTES} bytes"),
        ));
    }
    Ok(())
}

#[cold]
fn broken(offset: u64, found: String, expected: &str) -> Box<Damage> {
    Box::new(Damage {
        offset: Some(offset),
        found,
        expected: expected.to_owned(),
        remedy:
            "the packets before it are analysed; the file is damaged from here on, copy it again"
                .into(),
    })
}

#[cold]
fn too_short(header: Header, what: &str, needed_bytes: usize) -> Box<Damage> {
    let found = format!("{what} of {} bytes", header.total_bytes);
    broken(
        header.offset,
        found,
        &format!("{needed_bytes} bytes of fields and 12 of framing"),
    )
}

#[cold]
fn unknown_interface(header: Header, interface: u32, described: usize) -> Box<Damage> {
    let found = format!("a packet on interface {interface}");
    broken(
        header.offset,
        found,
        &format!("one of the {described} interfaces described before it"),
    )
}

#[cold]
fn impossible_length(header: Header) -> Box<Damage> {
    let expected = match header.kind {
        block::ENHANCED_PACKET
        | block::PACKET
        | block::SIMPLE_PACKET
        | block::INTERFACE_DESCRIPTION
        | block::INTERFACE_STATISTICS => {
            format!(
                "{SMALLEST_BLOCK_BYTES} to {} bytes",
                LARGEST_BUFFERED_BLOCK_BYTES - 3
            )
        }
        _ => format!("at least {SMALLEST_BLOCK_BYTES} bytes"),
    };
    let found = format!(
        "a block of type {:#x} that claims {} bytes",
        header.kind, header.total_bytes
    );
    broken(header.offset, found, &expected)
}
