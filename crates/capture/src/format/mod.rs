//! Capture file formats: where each frame lies in the stream, and when it was captured.

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

/// The largest frame that is read, bytes: what tcpdump and Wireshark call the largest snapshot
/// length. A length field beyond it is damage, not a reason to allocate.
pub(crate) const LARGEST_FRAME_BYTES: u32 = 262_144;

const NANOSECONDS_PER_SECOND: i64 = 1_000_000_000;

/// A frame, as its file describes it. The bytes are in the window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    pub(crate) time_ns: i64,
    pub(crate) interface: u32,
    pub(crate) link: LinkType,
    pub(crate) wire_bytes: u32,
    pub(crate) captured_bytes: u32,
    /// Position of the frame in the window, good until the next record is read.
    pub(crate) position: usize,
    /// A further mark of the point at which a packet was captured (pcapng: its direction).
    pub(crate) vantage: u32,
}

/// A capture file being read.
pub(crate) enum Format {
    Pcap(PcapReader),
    Pcapng(PcapngReader),
}

impl Format {
    /// Tells the format by its first bytes and reads its header.
    pub(crate) fn open(window: &mut Window) -> Result<Self, Damage> {
        // The length is checked by the format; here only what there is of a magic number counts.
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

    /// The next frame; `None` at a sound end. Interfaces are added as they are described.
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

    /// Adds the interfaces that the file's header describes.
    pub(crate) fn note_interfaces(&mut self, interfaces: &mut Interfaces) {
        if let Self::Pcap(reader) = self {
            reader.note_interface(interfaces);
        }
    }

    /// A note on the file's time stamps for the reader of a result.
    pub(crate) fn note(&self) -> Option<String> {
        match self {
            Self::Pcap(reader) => reader.note(),
            Self::Pcapng(reader) => reader.note(),
        }
    }

    /// Packets to which the file gives no time.
    pub(crate) fn untimed_packets(&self) -> u64 {
        match self {
            Self::Pcap(_) => 0,
            Self::Pcapng(reader) => reader.untimed_packets,
        }
    }
}

/// First bytes of files that people mistake for captures, or that another tool converts.
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
            format!("a stream that breaks off ({failure})"),
            "check the file, or capture again",
        ),
        _ if head.is_empty() => ("an empty file".into(), "check that the capture was written"),
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
        offset: 0,
        found,
        expected:
            "a pcap or pcapng header (a1b2c3d4, a1b23c4d or 0a0d0d0a), plain or compressed with \
                   gzip, zstd, xz, lz4 or bzip2"
                .into(),
        remedy: remedy.into(),
    }
}

/// A header or a frame that should go on when the stream ends.
#[cold]
pub(crate) fn cut_off(window: &Window, offset: u64, what: &str, needed_bytes: u64) -> Box<Damage> {
    let there = window.bytes().len();
    let found = match window.failure() {
        Some(failure) => format!("a stream that breaks off after {there} bytes ({failure})"),
        None => format!("the end of the file after {there} bytes"),
    };
    Box::new(Damage {
        offset,
        found,
        expected: format!("{what} of {needed_bytes} bytes"),
        remedy: "what comes before is read; copy or capture the file again to have the rest".into(),
    })
}
