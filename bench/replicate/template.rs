//! The captures to replicate, of one point of a path or of several.

use std::error::Error;
use std::fs::File;
use std::io::Read;

use crate::renumber::{DESTINATION, SOURCE};

pub const FILE_HEADER_BYTES: usize = 24;
pub const RECORD_HEADER_BYTES: usize = 16;
pub const ETHERNET: u32 = 1;
pub const ETHERNET_BYTES: usize = 14;
/// Ethernet, IPv4 without options, TCP without options.
pub const SMALLEST_FRAME_BYTES: usize = ETHERNET_BYTES + 20 + 20;
pub const NS_PER_SECOND: i64 = 1_000_000_000;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The traffic of one path, as captured at each of its points at the same time, by the same clock.
pub struct Template {
    pub epoch_ns: i64,
    pub duration_ns: i64,
    pub snaplen: u32,
    /// By point.
    pub frames: Vec<Vec<Frame>>,
    /// The hosts of the captures.
    addresses: Vec<[u8; 4]>,
}

pub struct Frame {
    /// Since [`Template::epoch_ns`].
    pub offset_ns: i64,
    pub wire_bytes: u32,
    pub bytes: Vec<u8>,
    /// Positions in [`Template::addresses`].
    pub source: usize,
    pub destination: usize,
}

impl Template {
    /// Reads the capture of each point.
    pub fn read(paths: &[String]) -> Result<Self, String> {
        let mut captures = Vec::new();
        for path in paths {
            captures.push(read_plain(path).map_err(|error| format!("{path}: {error}"))?);
        }
        Self::parse(&captures).map_err(|(point, error)| format!("{}: {error}", paths[point]))
    }

    /// The error comes with the number of the capture that has it.
    pub fn parse(captures: &[Vec<u8>]) -> Result<Self, (usize, Box<dyn Error>)> {
        let mut template = Self {
            epoch_ns: 0,
            duration_ns: 0,
            snaplen: 0,
            frames: Vec::new(),
            addresses: Vec::new(),
        };
        for (point, bytes) in captures.iter().enumerate() {
            let frames = template.parse_point(bytes);
            template
                .frames
                .push(frames.map_err(|error| (point, error))?);
        }
        template.count_time_from_the_first_frame();
        Ok(template)
    }

    /// The frames of one capture, their times since 1970.
    fn parse_point(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, Box<dyn Error>> {
        if bytes.len() < FILE_HEADER_BYTES {
            return Err(format!("{} bytes are too few for a pcap header", bytes.len()).into());
        }
        let ns_per_unit = match u32_at(bytes, 0) {
            0xa1b2_c3d4 => 1_000,
            0xa1b2_3c4d => 1,
            magic => {
                return Err(format!(
                    "expected a little-endian pcap file (a1b2c3d4 or a1b23c4d), found {magic:08x}"
                )
                .into());
            }
        };
        let link_type = u32_at(bytes, 20);
        if link_type != ETHERNET {
            return Err(
                format!("expected Ethernet (link type 1), found link type {link_type}").into(),
            );
        }
        self.snaplen = self.snaplen.max(u32_at(bytes, 16));
        let mut frames = Vec::new();
        let mut rest = &bytes[FILE_HEADER_BYTES..];
        while rest.len() >= RECORD_HEADER_BYTES {
            let (header, after) = rest.split_at(RECORD_HEADER_BYTES);
            let time_ns = i64::from(u32_at(header, 0)) * NS_PER_SECOND
                + i64::from(u32_at(header, 4)) * ns_per_unit;
            let captured_bytes = u32_at(header, 8) as usize;
            let frame = after
                .get(..captured_bytes)
                .ok_or("the file ends within a packet")?;
            frames.extend(self.frame(time_ns, u32_at(header, 12), frame));
            rest = &after[captured_bytes..];
        }
        if frames.is_empty() {
            return Err("holds no TCP packet over IPv4".into());
        }
        Ok(frames)
    }

    /// Anything but TCP over IPv4 is left out: only that is measured.
    fn frame(&mut self, time_ns: i64, wire_bytes: u32, bytes: &[u8]) -> Option<Frame> {
        let is_tcp = bytes.len() >= SMALLEST_FRAME_BYTES
            && bytes[12..14] == [0x08, 0x00]
            && bytes[ETHERNET_BYTES] == 0x45
            && bytes[ETHERNET_BYTES + 9] == 6;
        is_tcp.then(|| Frame {
            offset_ns: time_ns,
            wire_bytes,
            bytes: bytes.to_vec(),
            source: self.host(&bytes[ETHERNET_BYTES + SOURCE..][..4]),
            destination: self.host(&bytes[ETHERNET_BYTES + DESTINATION..][..4]),
        })
    }

    fn host(&mut self, address: &[u8]) -> usize {
        let known = self.addresses.iter().position(|other| other == address);
        known.unwrap_or_else(|| {
            let address = address.try_into().expect("an IPv4 address has four bytes");
            self.addresses.push(address);
            self.addresses.len() - 1
        })
    }

    fn count_time_from_the_first_frame(&mut self) {
        let times = || self.frames.iter().flatten().map(|frame| frame.offset_ns);
        let (first_ns, last_ns) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        self.epoch_ns = first_ns;
        self.duration_ns = last_ns - first_ns;
        for frame in self.frames.iter_mut().flatten() {
            frame.offset_ns -= first_ns;
        }
    }
}

fn read_plain(path: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    if bytes.starts_with(&ZSTD_MAGIC) {
        bytes = zstd::decode_all(bytes.as_slice())?;
    }
    Ok(bytes)
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_pcap_is_refused_with_what_was_found() {
        let (point, error) = Template::parse(&[vec![0; 24]]).err().unwrap();
        assert_eq!(point, 0);
        assert!(error.to_string().ends_with("found 00000000"), "{error}");
    }
}
