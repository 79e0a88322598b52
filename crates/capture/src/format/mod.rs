//! Capture file formats: the position of each frame in the stream, and its capture time.

mod fractions;
mod interfaces;
mod pcap;
mod pcapng;
#[cfg(test)]
mod tests;
mod timestamp;

use crate::error::Damage;
use crate::input::Window;
use crate::link_type::LinkType;
pub(crate) use interfaces::{Interface, Interfaces};
use pcap::PcapReader;
use pcapng::PcapngReader;

/// The largest frame that is read, bytes: the largest snapshot length of tcpdump and Wireshark. A longer length field
/// is damage, and must not cause an allocation.
pub(crate) const LARGEST_FRAME_BYTES: u32 = 262_144;

const NANOSECONDS_PER_SECOND: i64 = 1_000_000_000;

/// A frame as described by its file. The bytes are in the window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    pub(crate) time_ns: i64,
    pub(crate) interface: u32,
    pub(crate) link: LinkType,
    pub(crate) wire_bytes: u32,
    pub(crate) captured_bytes: u32,
    /// Position of the frame in the window, valid until the next record is read.
    pub(crate) position: usize,
    /// An additional mark of the point where a packet was captured (pcapng: its direction).
    pub(crate) vantage: u32,
}

/// A capture file being read.
pub(crate) enum Format {
    Pcap(PcapReader),
    Pcapng(PcapngReader),
}

impl Format {
    /// Recognises the format by its first bytes and reads its header.
    pub(crate) fn open(window: &mut Window) -> Result<Self, Damage> {
        // The format checks the length; here only the bytes of a magic number matter.
        window.has(4);
        let head = window.bytes();
        if let Some(variant) = pcap::Variant::of(head) {
            return PcapReader::open(variant, window).map(Self::Pcap);
        }
        if head.starts_with(&pcapng::MAGIC) {
            return PcapngReader::open(window).map(Self::Pcapng);
        }
        Err(not_a_capture(window))
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Pcap(_) => "pcap",
            Self::Pcapng(_) => "pcapng",
        }
    }

    /// Reads the next frame; `None` at a regular end. Interfaces are added as they are described.
    #[inline(always)]
    pub(crate) fn next_record(
        &mut self,
        window: &mut Window,
        interfaces: &mut Interfaces,
    ) -> Result<Option<Record>, Box<Damage>> {
        match self {
            Self::Pcap(reader) => reader.next_record(window),
            Self::Pcapng(reader) => reader.next_record(window, interfaces),
        }
    }

    /// Adds the interfaces described in the file's header.
    pub(crate) fn note_interfaces(&mut self, interfaces: &mut Interfaces) {
        if let Self::Pcap(reader) = self {
            reader.note_interface(interfaces);
        }
    }

    /// Returns a note on the file's timestamps for the user.
    pub(crate) fn note(&self) -> Option<String> {
        match self {
            Self::Pcap(reader) => reader.note(),
            Self::Pcapng(reader) => reader.note(),
        }
    }

    /// Packets without a time in the file.
    pub(crate) fn untimed_packets(&self) -> u64 {
        match self {
            Self::Pcap(_) => 0,
            Self::Pcapng(reader) => reader.untimed_packets,
        }
    }
}

/// First bytes of files that are mistaken for captures, or that another tool can convert.
const OTHER_FORMATS: &[(&[u8], &str)] = &[
    (b"snoop\0\0\0", "a Solaris snoop file"),
    (b"GMBU", "a Microsoft Network Monitor file"),
    (b"RTSS", "a Microsoft Network Monitor file"),
    (b"TRSNIFF data", "a Sniffer file"),
    (b"XCP\0", "a NetXRay file"),
    (b"\x1f\x9d", "a compress (.Z) file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"PK\x03\x04", "a ZIP archive"),
];

fn not_a_capture(window: &mut Window) -> Damage {
    window.has(16);
    let head = &window.bytes()[..window.bytes().len().min(16)];
    let known = OTHER_FORMATS
        .iter()
        .find(|(magic, _)| head.starts_with(magic));
    let (found, remedy) = match (window.failure(), known) {
        (Some(failure), _) => (
            format!("a stream that ends with an error ({failure})"),
            "check the file, or capture again",
        ),
        _ if head.is_empty() => {
            return Damage::of_file("an empty file", "check that the capture was written to it");
        }
        (None, Some((magic, name))) if magic.starts_with(b"PK") || name.contains("7-Zip") => {
            ((*name).to_owned(), "unpack it first")
        }
        (None, Some((magic, name))) if *magic == b"\x1f\x9d" => {
            ((*name).to_owned(), "unpack it with `uncompress` first")
        }
        (None, Some((_, name))) => (
            (*name).to_owned(),
            "convert it with `editcap -F pcapng IN OUT` first",
        ),
        _ => {
            let bytes: Vec<String> = head.iter().map(|byte| format!("{byte:02x}")).collect();
            (
                format!("the bytes {}", bytes.join(" ")),
                "check that this is the capture file",
            )
        }
    };
    Damage {
        offset: Some(0),
        found,
        expected:
            "a pcap or pcapng header (a1b2c3d4, a1b23c4d or 0a0d0d0a), plain or compressed with \
                   gzip, zstd, xz, lz4 or bzip2"
                .into(),
        remedy: remedy.into(),
    }
}

/// Builds the error for a header or a frame that continues beyond the end of the stream.
#[cold]
pub(crate) fn cut_off(window: &Window, offset: u64, what: &str, needed_bytes: u64) -> Box<Damage> {
    let there = window.bytes().len();
    let found = match window.failure() {
        Some(failure) => {
            format!("a stream that ends after {there} bytes with an error ({failure})")
        }
        None => format!("the end of the file after {there} bytes"),
    };
    Box::new(Damage {
        offset: Some(offset),
        found,
        expected: format!("{what} of {needed_bytes} bytes"),
        remedy:
            "the packets before it are analysed; copy or capture the file again to get the rest"
                .into(),
    })
}
