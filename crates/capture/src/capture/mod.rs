//! The stream of packets over one capture file, or over several in sequence.

mod account;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::checksum::{self, Checksum};
use crate::decode::{Decoded, Frame, decode, decode_next};
use crate::duplicates::Duplicates;
use crate::error::{CaptureError, Damage};
use crate::format::{Interfaces, Record};
use crate::input::Input;
use crate::packet::Packet;
use crate::sequence::{self, OpenFile, Sequence};
use crate::summary::Summary;
use account::Counts;

/// How a capture is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    /// How many tunnel headers (GRE, VXLAN, Geneve, IP in IP) to unwrap; 0 shows the tunnels themselves.
    pub tunnel_levels: u8,
    /// Give packets that were captured twice twice.
    pub keep_duplicates: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            tunnel_levels: 1,
            keep_duplicates: false,
        }
    }
}

/// A capture being read. Memory does not grow with its length.
pub struct Capture {
    options: OpenOptions,
    current: Option<OpenFile>,
    following: VecDeque<PathBuf>,
    interfaces: Interfaces,
    /// The last packet given, while the frame that held it holds more (an aggregate of 802.11).
    aggregate: Option<(u64, Record, Decoded)>,
    duplicates: Duplicates,
    counts: Counts,
    /// The part of the summary known before and between files; [`Capture::summary`] adds the rest.
    summary: Summary,
    /// Bytes of the files before the present one.
    bytes_before: u64,
    bytes_total: u64,
}

impl Capture {
    /// Opens a capture: one file, or several in sequence as `tcpdump -C` and `-G` write them.
    ///
    /// `-` is standard input. Formats and compressions are told by content.
    ///
    /// # Errors
    ///
    /// A file that cannot be opened, or whose beginning is not that of a capture. Damage further on
    /// ends the file and is told by [`Summary::truncated`] and [`Summary::notes`].
    pub fn open<P: AsRef<Path>>(paths: &[P], options: OpenOptions) -> Result<Self, CaptureError> {
        let paths = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        let Sequence {
            first,
            following,
            note,
            total_bytes,
        } = sequence::open(paths)?;
        let mut capture = Self::starting_with(first, following, options);
        capture.summary.notes.extend(note);
        capture.bytes_total = total_bytes;
        Ok(capture)
    }

    /// Reads a capture from any stream of bytes. `label` is what errors and the summary call it.
    ///
    /// # Errors
    ///
    /// The stream does not begin like a capture.
    pub fn from_reader(
        label: &str,
        reader: impl Read + Send + 'static,
        options: OpenOptions,
    ) -> Result<Self, CaptureError> {
        let input = Input::from_reader(label, Box::new(reader))?;
        let file = OpenFile::from_input(label.to_owned(), input)?;
        Ok(Self::starting_with(file, VecDeque::new(), options))
    }

    fn starting_with(first: OpenFile, following: VecDeque<PathBuf>, options: OpenOptions) -> Self {
        let mut capture = Self {
            options,
            current: None,
            following,
            interfaces: Interfaces::default(),
            aggregate: None,
            duplicates: Duplicates::default(),
            counts: Counts::default(),
            summary: Summary::default(),
            bytes_before: 0,
            bytes_total: 0,
        };
        capture.enter(first);
        capture
    }

    /// The next packet; `None` at the end, whether sound or damaged.
    #[inline]
    pub fn next_packet(&mut self) -> Option<Packet<'_>> {
        let (index, record, decoded) = self.advance()?;
        let window = &self.current.as_ref()?.input.window;
        let bytes = window.slice(record.position, record.captured_bytes as usize);
        Some(packet(index, &record, &decoded, bytes))
    }

    /// The next packet, and whether it arrived as it was sent: which takes a look at every byte.
    pub fn next_checked(&mut self) -> Option<(Packet<'_>, Checksum)> {
        let (index, record, decoded) = self.advance()?;
        let window = &self.current.as_ref()?.input.window;
        let bytes = window.slice(record.position, record.captured_bytes as usize);
        let checksum = checksum::of_segment(&decoded, bytes);
        Some((packet(index, &record, &decoded, bytes), checksum))
    }

    /// The summary of the packets read so far; complete once [`Capture::next_packet`] has returned `None`.
    pub fn summary(&self) -> Summary {
        let mut summary = self.summary.clone();
        let mut counts = self.counts.clone();
        counts.untimed += self
            .current
            .as_ref()
            .map_or(0, |file| file.format.untimed_packets());
        counts.suspects = self.duplicates.suspects;
        counts.link_retries = self.duplicates.link_retries;
        counts.add_to(&mut summary);
        account::add_interfaces(self.interfaces.all(), &mut summary);
        summary
    }

    /// Bytes of the files read so far; compressed bytes where they are compressed. All of them at the end.
    pub fn bytes_done(&self) -> u64 {
        let current = self
            .current
            .as_ref()
            .map_or(0, |file| file.input.bytes_done());
        let done = self.bytes_before + current;
        match self.bytes_total {
            0 => done,
            // A file that is still being written grows past the size that it had.
            total => done.min(total),
        }
    }

    /// Size of all files of the sequence, bytes; 0 where unknown (standard input, pipes, other readers).
    pub fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    #[inline(always)]
    fn advance(&mut self) -> Option<(u64, Record, Decoded)> {
        if self.aggregate.is_some()
            && let Some(next) = self.advance_in_frame()
        {
            return Some(next);
        }
        loop {
            let file = self.current.as_mut()?;
            let record = match file
                .format
                .next_record(&mut file.input.window, &mut self.interfaces)
            {
                Ok(Some(record)) => record,
                Ok(None) => {
                    self.leave(None);
                    continue;
                }
                Err(damage) => {
                    self.leave(Some(*damage));
                    continue;
                }
            };
            let bytes = file
                .input
                .window
                .slice(record.position, record.captured_bytes as usize);
            let frame = Frame {
                bytes,
                wire_bytes: record.wire_bytes,
                tunnel_levels: self.options.tunnel_levels,
            };
            let decoded = decode(record.link, frame);
            let index = self.counts.packets;
            self.counts.packet(record.time_ns, &decoded);
            if self.duplicates.is_copy(&record, bytes, &decoded) {
                self.counts.duplicates += 1;
                if !self.options.keep_duplicates {
                    continue;
                }
            }
            if decoded.next_at != 0 {
                self.aggregate = Some((index, record, decoded));
            }
            return Some((index, record, decoded));
        }
    }

    /// The next packet of the frame that held the last one.
    #[cold]
    fn advance_in_frame(&mut self) -> Option<(u64, Record, Decoded)> {
        let (index, record, before) = self.aggregate.take()?;
        let window = &self.current.as_ref()?.input.window;
        let frame = Frame {
            bytes: window.slice(record.position, record.captured_bytes as usize),
            wire_bytes: record.wire_bytes,
            tunnel_levels: self.options.tunnel_levels,
        };
        let decoded = decode_next(frame, &before)?;
        if decoded.next_at != 0 {
            self.aggregate = Some((index, record, decoded));
        }
        Some((index, record, decoded))
    }

    fn enter(&mut self, mut file: OpenFile) {
        self.summary.paths.push(file.label.clone());
        let format = file.format_name();
        if self.summary.format.is_empty() {
            self.summary.format = format;
        } else if !self.summary.format.split(", ").any(|known| known == format) {
            self.summary.format = format!("{}, {format}", self.summary.format);
        }
        file.format.note_interfaces(&mut self.interfaces);
        self.current = Some(file);
    }

    /// Closes the present file and opens the one after it.
    #[cold]
    #[inline(never)]
    fn leave(&mut self, damage: Option<Damage>) {
        if let Some(file) = self.current.take() {
            self.counts.untimed += file.format.untimed_packets();
            self.bytes_before += file.input.bytes_at_end();
            if let Some(damage) = damage {
                self.note_damage(&damage.at(&file.label, file.input.compression.is_some()));
            }
        }
        while let Some(path) = self.following.pop_front() {
            match OpenFile::open(&path) {
                Ok(file) => return self.enter(file),
                Err(error) => self.note_damage(&error),
            }
        }
    }

    fn note_damage(&mut self, error: &CaptureError) {
        self.summary.truncated = true;
        self.summary.notes.push(error.to_string());
    }
}

#[inline(always)]
fn packet<'a>(index: u64, record: &Record, decoded: &Decoded, bytes: &'a [u8]) -> Packet<'a> {
    Packet {
        index,
        time_ns: record.time_ns,
        interface: record.interface,
        wire_bytes: record.wire_bytes,
        captured_bytes: record.captured_bytes,
        network: decoded.network,
        transport: decoded.transport(bytes),
    }
}
