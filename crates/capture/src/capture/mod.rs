//! The stream of packets over one capture file, or over several in sequence.

mod account;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::VecDeque;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checksum::{self, Checksum};
use crate::decode::{Decoded, Frame, decode, decode_next};
use crate::duplicates::Duplicates;
use crate::error::{CaptureError, Damage};
use crate::format::{Interfaces, Record};
use crate::input::Input;
use crate::packet::Packet;
use crate::selection::Selection;
use crate::sequence::{self, OpenFile, Sequence};
use crate::summary::Summary;
use crate::timeline::{Fate, LOOKAHEAD_PACKETS, Sorting, Timeline};
use account::Counts;
use waiting::Held;

/// How a capture is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// How many tunnel headers (GRE, VXLAN, Geneve, IP in IP) to unwrap; 0 shows the tunnels themselves.
    pub tunnel_levels: u8,
    /// Give packets that were captured twice twice.
    pub keep_duplicates: bool,
    /// The packets to read; `None`: all.
    pub selection: Option<Arc<Selection>>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            tunnel_levels: 1,
            keep_duplicates: false,
            selection: None,
        }
    }
}

/// A capture being read. Memory does not grow with its length.
pub struct Capture {
    options: OpenOptions,
    /// As they were given.
    paths: Vec<PathBuf>,
    current: Option<OpenFile>,
    following: VecDeque<PathBuf>,
    interfaces: Interfaces,
    /// The last packet given, while the frame that held it holds more (an aggregate of 802.11).
    aggregate: Option<Given>,
    timeline: Timeline,
    /// Packets that were read and not given: those after a stamp that does not go on.
    ahead: VecDeque<Held>,
    /// Packets are put in the order of their time.
    sorting: Option<Sorting<Held>>,
    /// The frame of the packet given last, where it is not in the window any more.
    held_bytes: Box<[u8]>,
    /// Files that may be opened again.
    can_be_reopened: bool,
    duplicates: Duplicates,
    counts: Counts,
    /// Time of the first packet, selected or not, where there is a selection.
    start_ns: Option<i64>,
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
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        let can_be_reopened = sequence::are_files(&paths);
        let Sequence {
            first,
            following,
            note,
            total_bytes,
        } = sequence::open(paths.clone())?;
        let mut capture = Self::starting_with(first, following, options);
        capture.summary.notes.extend(note);
        capture.bytes_total = total_bytes;
        capture.can_be_reopened = can_be_reopened;
        capture.paths = paths;
        Ok(capture)
    }

    /// Undoes what the capturing host's clock was set by while the capture ran, where the packets show it.
    ///
    /// Not for captures of which the clocks are compared.
    pub fn keep_clock_steady(&mut self) {
        self.timeline.keeps_clock_steady = true;
    }

    /// True once packets were found whose stamps are out of order, of a capture that [`Capture::in_order`] can read in order.
    #[inline]
    pub fn is_disordered(&self) -> bool {
        self.timeline.is_disordered && self.can_be_sorted()
    }

    /// True if its packets come in the order of their time and not in that of the file.
    pub fn is_put_in_order(&self) -> bool {
        self.sorting.is_some()
    }

    /// This capture from its beginning again, its packets in the order of their time, as far as memory for the disorder allows.
    ///
    /// # Errors
    ///
    /// A file that cannot be opened any more.
    pub fn in_order(&self) -> Result<Self, CaptureError> {
        let mut again = Self::open(&self.paths, self.options.clone())?;
        again.sorting = Some(Sorting::default());
        again.timeline.keeps_clock_steady = self.timeline.keeps_clock_steady;
        again.timeline.is_disordered = true;
        Ok(again)
    }

    /// This capture from its beginning again, to be read as it was: `None` what cannot be read twice.
    pub fn again(&self) -> Option<Self> {
        if !self.can_be_reopened {
            return None;
        }
        if self.sorting.is_some() {
            return self.in_order().ok();
        }
        let mut again = Self::open(&self.paths, self.options.clone()).ok()?;
        again.timeline.keeps_clock_steady = self.timeline.keeps_clock_steady;
        Some(again)
    }

    fn can_be_sorted(&self) -> bool {
        self.can_be_reopened && self.sorting.is_none()
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
            paths: Vec::new(),
            current: None,
            following,
            interfaces: Interfaces::default(),
            aggregate: None,
            timeline: Timeline::default(),
            ahead: VecDeque::new(),
            sorting: None,
            held_bytes: Box::default(),
            can_be_reopened: false,
            duplicates: Duplicates::default(),
            counts: Counts::default(),
            start_ns: None,
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
        let given = self.advance()?;
        let bytes = self.frame_of(&given);
        Some(packet(&given, bytes))
    }

    /// The next packet, and whether it arrived as it was sent: which takes a look at every byte.
    pub fn next_checked(&mut self) -> Option<(Packet<'_>, Checksum)> {
        let given = self.advance()?;
        let bytes = self.frame_of(&given);
        let checksum = checksum::of_segment(&given.decoded, bytes);
        Some((packet(&given, bytes), checksum))
    }

    #[inline(always)]
    fn frame_of(&self, given: &Given) -> &[u8] {
        let captured_bytes = given.record.captured_bytes as usize;
        match &self.current {
            Some(file) if !given.is_held => {
                let window = &file.input.window;
                window.slice(given.record.position, captured_bytes)
            }
            _ => &self.held_bytes,
        }
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
        let note = self.current.as_ref().and_then(|file| file.format.note());
        note_once(&mut summary.notes, note);
        counts.disorder_fate = self.disorder_fate();
        counts.clock_was_set_back = self.timeline.was_set_back();
        summary.notes.extend(self.timeline.notes());
        self.duplicates.tell(&mut summary);
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

    fn disorder_fate(&self) -> Fate {
        match &self.sorting {
            Some(sorting) if sorting.too_late == 0 => Fate::Sorted,
            Some(_) => Fate::TooFar,
            None if self.timeline.is_disordered && !self.can_be_reopened => Fate::ReadOnce,
            None => Fate::AsTheyAre,
        }
    }

    #[inline(always)]
    fn advance(&mut self) -> Option<Given> {
        loop {
            let given = match self.is_out_of_the_ordinary() {
                false => self.advance_as_stamped()?,
                true => self.advance_with_care()?,
            };
            if let Some(given) = given {
                return Some(given);
            }
        }
    }

    /// True while packets wait, or the last frame holds more than was given.
    #[inline(always)]
    fn is_out_of_the_ordinary(&self) -> bool {
        !self.ahead.is_empty() || self.sorting.is_some() || self.aggregate.is_some()
    }

    /// The next packet of the file: `None` inside if it is left out, or waits for a look at those after it.
    #[inline(always)]
    fn advance_as_stamped(&mut self) -> Option<Option<Given>> {
        let (index, mut record, decoded) = self.read()?;
        let Some(time_ns) = self.timeline.time_ns(record.time_ns, &decoded) else {
            let held = self.hold(index, record, decoded);
            self.ahead.push_back(held);
            return Some(None);
        };
        record.time_ns = time_ns;
        let given = Given {
            index,
            record,
            decoded,
            is_held: false,
        };
        Some(self.account_for(given))
    }

    /// The next packet where it is not simply the next one of the file.
    #[cold]
    #[inline(never)]
    fn advance_with_care(&mut self) -> Option<Option<Given>> {
        if self.aggregate.is_some()
            && let Some(given) = self.advance_in_frame()
        {
            return Some(Some(given));
        }
        if self.ahead.is_empty() && self.sorting.is_none() {
            return Some(None);
        }
        let held = match self.ahead.pop_front() {
            Some(held) => held,
            None => self.next_held()?,
        };
        let stamped_ns = held.record.time_ns;
        let time_ns = match self.timeline.time_ns(stamped_ns, &held.decoded) {
            Some(time_ns) => time_ns,
            None => {
                self.ahead.push_front(held);
                return Some(self.advance_after_a_look());
            }
        };
        Some(self.give(held, time_ns))
    }

    /// The first of the packets that wait, its stamp judged by those after it.
    fn advance_after_a_look(&mut self) -> Option<Given> {
        while self.ahead.len() < LOOKAHEAD_PACKETS
            && let Some(held) = self.next_held()
        {
            self.ahead.push_back(held);
        }
        let waiting: Vec<&Held> = self.ahead.iter().collect();
        let time_ns = self.timeline.time_after_a_look(&waiting);
        let held = self.ahead.pop_front()?;
        let stamped_ns = held.record.time_ns;
        self.give(held, time_ns.unwrap_or(stamped_ns))
    }

    fn give(&mut self, mut held: Held, time_ns: i64) -> Option<Given> {
        held.record.time_ns = time_ns;
        self.held_bytes = held.bytes;
        self.account_for(Given {
            index: held.index,
            record: held.record,
            decoded: held.decoded,
            is_held: true,
        })
    }

    /// The next packet of the file, or the earliest of those that are put in order, to be given later.
    fn next_held(&mut self) -> Option<Held> {
        let Some(mut sorting) = self.sorting.take() else {
            let (index, record, decoded) = self.read()?;
            return Some(self.hold(index, record, decoded));
        };
        while !sorting.is_full()
            && let Some((index, record, decoded)) = self.read()
        {
            let held = self.hold(index, record, decoded);
            let bytes = held.memory_bytes();
            sorting.push(held, index, bytes);
        }
        let held = sorting.pop();
        self.sorting = Some(sorting);
        held
    }

    fn hold(&self, index: u64, record: Record, decoded: Decoded) -> Held {
        let window = self.current.as_ref().map(|file| &file.input.window);
        let bytes = window.map_or(&[][..], |window| {
            window.slice(record.position, record.captured_bytes as usize)
        });
        Held {
            index,
            record,
            decoded,
            bytes: bytes.into(),
        }
    }

    /// The next frame of the files, its number and what it holds.
    #[inline(always)]
    fn read(&mut self) -> Option<(u64, Record, Decoded)> {
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
            let frame = Frame {
                bytes: file
                    .input
                    .window
                    .slice(record.position, record.captured_bytes as usize),
                wire_bytes: record.wire_bytes,
                tunnel_levels: self.options.tunnel_levels,
            };
            let decoded = decode(record.link, frame);
            let index = self.counts.read(record.time_ns);
            return Some((index, record, decoded));
        }
    }

    /// Counts a packet; `None` if it is left out: a copy, or not selected.
    #[inline(always)]
    fn account_for(&mut self, mut given: Given) -> Option<Given> {
        if self.options.selection.is_some() && !self.is_selected(&given) {
            return None;
        }
        self.counts.packet(given.record.time_ns, &given.decoded);
        let bytes = match &self.current {
            Some(file) if !given.is_held => file
                .input
                .window
                .slice(given.record.position, given.record.captured_bytes as usize),
            _ => &self.held_bytes,
        };
        let as_captured = given.decoded;
        let duplicates = &mut self.duplicates;
        let is_copy = duplicates.is_copy(&given.record, bytes, &mut given.decoded);
        self.counts.duplicates += u64::from(is_copy);
        if self.options.keep_duplicates {
            given.decoded = as_captured;
        } else if is_copy {
            return None;
        }
        if given.decoded.next_at != 0 {
            self.aggregate = Some(given);
        }
        Some(given)
    }

    #[cold]
    #[inline(never)]
    fn is_selected(&mut self, given: &Given) -> bool {
        let time_ns = given.record.time_ns;
        let start_ns = *self.start_ns.get_or_insert(time_ns);
        let (network, transport) = (given.decoded.network.as_ref(), &given.decoded.transport);
        let is_selected = self
            .options
            .selection
            .as_ref()
            .is_none_or(|selection| selection.holds(start_ns, time_ns, network, transport));
        self.counts.not_selected += u64::from(!is_selected);
        is_selected
    }

    /// The next packet of the frame that held the last one.
    fn advance_in_frame(&mut self) -> Option<Given> {
        let before = self.aggregate.take()?;
        let frame = Frame {
            bytes: self.frame_of(&before),
            wire_bytes: before.record.wire_bytes,
            tunnel_levels: self.options.tunnel_levels,
        };
        let decoded = decode_next(frame, &before.decoded)?;
        let given = Given { decoded, ..before };
        if decoded.next_at != 0 {
            self.aggregate = Some(given);
        }
        Some(given)
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
            note_once(&mut self.summary.notes, file.format.note());
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

/// Adds a note, unless an earlier file of the sequence gave the same.
fn note_once(notes: &mut Vec<String>, note: Option<String>) {
    notes.extend(note.filter(|note| !notes.contains(note)));
}

/// A packet on its way out.
#[derive(Clone, Copy)]
struct Given {
    index: u64,
    record: Record,
    decoded: Decoded,
    /// Its frame is in `held_bytes`, not in the window.
    is_held: bool,
}

#[inline(always)]
fn packet<'a>(given: &Given, bytes: &'a [u8]) -> Packet<'a> {
    let (record, decoded) = (&given.record, &given.decoded);
    Packet {
        index: given.index,
        time_ns: record.time_ns,
        interface: record.interface,
        wire_bytes: record.wire_bytes,
        captured_bytes: record.captured_bytes,
        network: decoded.network,
        transport: decoded.transport(bytes),
    }
}
