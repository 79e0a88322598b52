//! The stream of packets over one capture file, or over several in sequence.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::decode::{Decoded, Frame, decode};
use crate::duplicates::Duplicates;
use crate::error::{CaptureError, Damage};
use crate::format::{Interfaces, Record};
use crate::input::Input;
use crate::packet::{Packet, Transport};
use crate::sequence::{self, OpenFile, Sequence};
use crate::summary::{PacketKinds, Summary};

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
    duplicates: Duplicates,
    counts: Counts,
    /// What is known before and between files; [`Capture::summary`] adds the rest.
    summary: Summary,
}

/// What is counted for each packet.
struct Counts {
    packets: u64,
    kinds: PacketKinds,
    duplicates: u64,
    out_of_order: u64,
    largest_step_back_ns: u64,
    untimed: u64,
    first_ns: i64,
    last_ns: i64,
    previous_ns: i64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            packets: 0,
            kinds: PacketKinds::default(),
            duplicates: 0,
            out_of_order: 0,
            largest_step_back_ns: 0,
            untimed: 0,
            first_ns: i64::MAX,
            last_ns: i64::MIN,
            previous_ns: i64::MIN,
        }
    }
}

impl Counts {
    #[inline(always)]
    fn packet(&mut self, time_ns: i64, transport: &Transport<'_>) {
        self.packets += 1;
        self.kinds.count(transport);
        if time_ns < self.previous_ns {
            self.out_of_order += 1;
            self.largest_step_back_ns = self
                .largest_step_back_ns
                .max(time_ns.abs_diff(self.previous_ns));
        }
        self.previous_ns = time_ns;
        self.first_ns = self.first_ns.min(time_ns);
        self.last_ns = self.last_ns.max(time_ns);
    }
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
        } = sequence::open(paths)?;
        let mut capture = Self::starting_with(first, following, options);
        capture.summary.notes.extend(note);
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
            duplicates: Duplicates::default(),
            counts: Counts::default(),
            summary: Summary::default(),
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
        Some(Packet {
            index,
            time_ns: record.time_ns,
            interface: record.interface,
            wire_bytes: record.wire_bytes,
            captured_bytes: record.captured_bytes,
            network: decoded.network,
            transport: decoded.transport(bytes),
        })
    }

    /// What was read so far; complete once [`Capture::next_packet`] has returned `None`.
    pub fn summary(&self) -> Summary {
        let counts = &self.counts;
        let mut summary = self.summary.clone();
        summary.packets = counts.packets;
        summary.kinds = counts.kinds;
        summary.duplicates = counts.duplicates;
        summary.out_of_order = counts.out_of_order;
        if counts.packets > 0 {
            summary.first_ns = Some(counts.first_ns);
            summary.last_ns = Some(counts.last_ns);
        }
        for interface in self.interfaces.all() {
            let name = interface.link.to_string();
            if !summary.link_types.contains(&name) {
                summary.link_types.push(name);
            }
            if let Some(dropped) = interface.dropped {
                let sum = summary
                    .dropped_by_capture
                    .unwrap_or(0)
                    .saturating_add(dropped);
                summary.dropped_by_capture = Some(sum);
            }
        }
        let limits = || {
            self.interfaces
                .all()
                .iter()
                .map(|interface| interface.snaplen_bytes)
        };
        summary.snaplen_bytes = limits().max().filter(|_| limits().all(|bytes| bytes != 0));
        self.note_counts(&mut summary);
        summary
    }

    fn note_counts(&self, summary: &mut Summary) {
        let counts = &self.counts;
        let notes = &mut summary.notes;
        if counts.out_of_order > 0 {
            notes.push(format!(
                "{} packets are stamped earlier than the packet before them, by up to {} ms",
                counts.out_of_order,
                counts.largest_step_back_ns as f64 / 1e6,
            ));
        }
        let untimed = counts.untimed
            + self
                .current
                .as_ref()
                .map_or(0, |file| file.format.untimed_packets());
        if untimed > 0 {
            notes.push(format!(
                "{untimed} packets have no time in the file (simple packet blocks): each has the time of the \
                 packet before it"
            ));
        }
        if let Some(dropped) = summary.dropped_by_capture.filter(|&dropped| dropped > 0) {
            notes.push(format!(
                "the capturing host reports that it missed {dropped} packets"
            ));
        }
        // One in a hundred: repeated acknowledgments of a lossy connection stay well below.
        if self.duplicates.suspects > counts.packets / 100 {
            notes.push(format!(
                "{} packets look like copies of a packet at most 20 µs before them, but nothing proves it: \
                 they are kept; if this is a mirror port, remove copies with `editcap -d`",
                self.duplicates.suspects
            ));
        }
        if let Some(undecoded) = summary
            .link_types
            .iter()
            .find(|name| name.ends_with("(not decoded)"))
        {
            notes.push(format!("packets of {undecoded} are counted, not analysed"));
        }
    }

    #[inline(always)]
    fn advance(&mut self) -> Option<(u64, Record, Decoded)> {
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
            self.counts.packet(record.time_ns, &decoded.transport);
            if self.duplicates.is_copy(&record, bytes, &decoded) {
                self.counts.duplicates += 1;
                if !self.options.keep_duplicates {
                    continue;
                }
            }
            return Some((index, record, decoded));
        }
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
