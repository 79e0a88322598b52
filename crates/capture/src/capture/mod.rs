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
use waiting::Buffered;

/// How to read a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// How many tunnel headers (GRE, VXLAN, Geneve, IP in IP) to unwrap; 0 returns the tunnels themselves.
    pub tunnel_levels: u8,
    /// Return packets twice that were captured twice.
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
    /// As given by the caller.
    paths: Vec<PathBuf>,
    current: Option<OpenFile>,
    following: VecDeque<PathBuf>,
    interfaces: Interfaces,
    /// The last packet returned, if its frame contains more (an 802.11 aggregate).
    aggregate: Option<Returned>,
    timeline: Timeline,
    /// Packets that were read and not returned yet: those after a timestamp that goes back or jumps ahead.
    ahead: VecDeque<Buffered>,
    /// Packets are sorted by time.
    sorting: Option<Sorting<Buffered>>,
    /// The frame of the last packet returned, if it is no longer in the window.
    buffered_bytes: Box<[u8]>,
    /// The files may be opened again.
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
    /// `-` is standard input. Formats and compressions are recognised by content.
    ///
    /// # Errors
    ///
    /// A file that cannot be opened, or does not begin like a capture. Later damage ends the file and is reported by
    /// [`Summary::truncated`] and [`Summary::notes`].
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

    /// Corrects changes of the capturing host's clock during the capture, where the packets show them.
    ///
    /// Not for captures with clocks that are compared.
    pub fn keep_clock_steady(&mut self) {
        self.timeline.keeps_clock_steady = true;
    }

    /// True once packets out of time order were found in a capture that [`Capture::in_order`] can sort.
    #[inline]
    pub fn is_disordered(&self) -> bool {
        self.timeline.is_disordered && self.can_be_sorted()
    }

    /// True if its packets are returned in time order and not in file order.
    pub fn is_put_in_order(&self) -> bool {
        self.sorting.is_some()
    }

    /// Reads this capture again from its beginning in time order, as far as memory permits.
    ///
    /// # Errors
    ///
    /// A file that can no longer be opened.
    pub fn in_order(&self) -> Result<Self, CaptureError> {
        let mut again = Self::open(&self.paths, self.options.clone())?;
        again.sorting = Some(Sorting::default());
        again.timeline.keeps_clock_steady = self.timeline.keeps_clock_steady;
        again.timeline.is_disordered = true;
        Ok(again)
    }

    /// Reads this capture again from its beginning, with the same options; `None` if it cannot be read twice.
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

    /// Reads a capture from any stream of bytes. `label` is its name in errors and the summary.
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
            buffered_bytes: Box::default(),
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

    /// Returns the next packet; `None` at the end, whether regular or caused by damage.
    #[inline]
    pub fn next_packet(&mut self) -> Option<Packet<'_>> {
        let returned = self.advance()?;
        let bytes = self.frame_of(&returned);
        Some(packet(&returned, bytes))
    }

    /// Returns the next packet, and whether it arrived intact; this examines every byte.
    pub fn next_checked(&mut self) -> Option<(Packet<'_>, Checksum)> {
        let returned = self.advance()?;
        let bytes = self.frame_of(&returned);
        let checksum = checksum::of_segment(&returned.decoded, bytes);
        Some((packet(&returned, bytes), checksum))
    }

    #[inline(always)]
    fn frame_of(&self, returned: &Returned) -> &[u8] {
        let captured_bytes = returned.record.captured_bytes as usize;
        match &self.current {
            Some(file) if !returned.is_buffered => {
                let window = &file.input.window;
                window.slice(returned.record.position, captured_bytes)
            }
            _ => &self.buffered_bytes,
        }
    }

    /// Returns the summary of the packets read so far; complete once [`Capture::next_packet`] has returned `None`.
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
        counts.runs_backwards = self.timeline.runs_backwards;
        summary.notes.extend(self.timeline.notes());
        self.duplicates.add_to(&mut summary);
        counts.add_to(&mut summary);
        account::add_interfaces(self.interfaces.all(), &mut summary);
        summary
    }

    /// Bytes of the files read so far, compressed if they are. All of them at the end.
    pub fn bytes_done(&self) -> u64 {
        let current = self
            .current
            .as_ref()
            .map_or(0, |file| file.input.bytes_done());
        let done = self.bytes_before + current;
        match self.bytes_total {
            0 => done,
            // A file that is still being written exceeds the size that it had.
            total => done.min(total),
        }
    }

    /// Size of all files of the sequence, bytes; 0 if unknown (standard input, pipes, other readers).
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
    fn advance(&mut self) -> Option<Returned> {
        loop {
            let returned = match self.is_out_of_the_ordinary() {
                false => self.advance_as_stamped()?,
                true => self.advance_with_care()?,
            };
            if let Some(returned) = returned {
                return Some(returned);
            }
        }
    }

    /// True while packets are buffered, or the last frame contains more packets.
    #[inline(always)]
    fn is_out_of_the_ordinary(&self) -> bool {
        !self.ahead.is_empty() || self.sorting.is_some() || self.aggregate.is_some()
    }

    /// Reads the next packet of the file. The inner value is `None` if the packet is left out, or waits until later
    /// ones are examined.
    #[inline(always)]
    fn advance_as_stamped(&mut self) -> Option<Option<Returned>> {
        let (index, mut record, decoded) = self.read()?;
        let Some(time_ns) = self.timeline.time_ns(record.time_ns, &decoded) else {
            let buffered = self.buffer(index, record, decoded);
            self.ahead.push_back(buffered);
            return Some(None);
        };
        record.time_ns = time_ns;
        let returned = Returned {
            index,
            record,
            decoded,
            is_buffered: false,
        };
        Some(self.account_for(returned))
    }

    /// Returns the next packet where it is not simply the next one of the file.
    #[cold]
    #[inline(never)]
    fn advance_with_care(&mut self) -> Option<Option<Returned>> {
        if self.aggregate.is_some()
            && let Some(returned) = self.advance_in_frame()
        {
            return Some(Some(returned));
        }
        if self.ahead.is_empty() && self.sorting.is_none() {
            return Some(None);
        }
        let buffered = match self.ahead.pop_front() {
            Some(buffered) => buffered,
            None => self.next_buffered()?,
        };
        let stamped_ns = buffered.record.time_ns;
        let time_ns = match self.timeline.time_ns(stamped_ns, &buffered.decoded) {
            Some(time_ns) => time_ns,
            None => {
                self.ahead.push_front(buffered);
                return Some(self.advance_after_a_look());
            }
        };
        Some(self.prepare(buffered, time_ns))
    }

    /// Returns the first buffered packet, after its timestamp was judged by the packets behind it.
    fn advance_after_a_look(&mut self) -> Option<Returned> {
        while self.ahead.len() < LOOKAHEAD_PACKETS
            && let Some(buffered) = self.next_buffered()
        {
            self.ahead.push_back(buffered);
        }
        let waiting: Vec<&Buffered> = self.ahead.iter().collect();
        let time_ns = self.timeline.time_after_a_look(&waiting);
        let buffered = self.ahead.pop_front()?;
        let stamped_ns = buffered.record.time_ns;
        self.prepare(buffered, time_ns.unwrap_or(stamped_ns))
    }

    fn prepare(&mut self, mut buffered: Buffered, time_ns: i64) -> Option<Returned> {
        buffered.record.time_ns = time_ns;
        self.buffered_bytes = buffered.bytes;
        self.account_for(Returned {
            index: buffered.index,
            record: buffered.record,
            decoded: buffered.decoded,
            is_buffered: true,
        })
    }

    /// Reads the next packet of the file, or the earliest of those being sorted.
    fn next_buffered(&mut self) -> Option<Buffered> {
        let Some(mut sorting) = self.sorting.take() else {
            let (index, record, decoded) = self.read()?;
            return Some(self.buffer(index, record, decoded));
        };
        while !sorting.is_full()
            && let Some((index, record, decoded)) = self.read()
        {
            let buffered = self.buffer(index, record, decoded);
            let bytes = buffered.memory_bytes();
            sorting.push(buffered, index, bytes);
        }
        let buffered = sorting.pop();
        self.sorting = Some(sorting);
        buffered
    }

    fn buffer(&self, index: u64, record: Record, decoded: Decoded) -> Buffered {
        let window = self.current.as_ref().map(|file| &file.input.window);
        let bytes = window.map_or(&[][..], |window| {
            window.slice(record.position, record.captured_bytes as usize)
        });
        Buffered {
            index,
            record,
            decoded,
            bytes: bytes.into(),
        }
    }

    /// Reads the next frame of the files, with its number and contents.
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

    /// Counts a packet; returns `None` if it is left out: a duplicate, or not selected.
    #[inline(always)]
    fn account_for(&mut self, mut returned: Returned) -> Option<Returned> {
        if self.options.selection.is_some() && !self.is_selected(&returned) {
            return None;
        }
        self.counts
            .packet(returned.record.time_ns, &returned.decoded);
        let bytes = match &self.current {
            Some(file) if !returned.is_buffered => file.input.window.slice(
                returned.record.position,
                returned.record.captured_bytes as usize,
            ),
            _ => &self.buffered_bytes,
        };
        let as_captured = returned.decoded;
        let duplicates = &mut self.duplicates;
        let is_copy = duplicates.is_copy(&returned.record, bytes, &mut returned.decoded);
        self.counts.duplicates += u64::from(is_copy);
        if self.options.keep_duplicates {
            returned.decoded = as_captured;
        } else if is_copy {
            return None;
        }
        if returned.decoded.next_at != 0 {
            self.aggregate = Some(returned);
        }
        Some(returned)
    }

    #[cold]
    #[inline(never)]
    fn is_selected(&mut self, returned: &Returned) -> bool {
        let time_ns = returned.record.time_ns;
        let start_ns = *self.start_ns.get_or_insert(time_ns);
        let (network, transport) = (
            returned.decoded.network.as_ref(),
            &returned.decoded.transport,
        );
        let is_selected = self
            .options
            .selection
            .as_ref()
            .is_none_or(|selection| selection.holds(start_ns, time_ns, network, transport));
        self.counts.not_selected += u64::from(!is_selected);
        is_selected
    }

    /// Returns the next packet in the last packet's frame.
    fn advance_in_frame(&mut self) -> Option<Returned> {
        let before = self.aggregate.take()?;
        let frame = Frame {
            bytes: self.frame_of(&before),
            wire_bytes: before.record.wire_bytes,
            tunnel_levels: self.options.tunnel_levels,
        };
        let decoded = decode_next(frame, &before.decoded)?;
        let returned = Returned { decoded, ..before };
        if decoded.next_at != 0 {
            self.aggregate = Some(returned);
        }
        Some(returned)
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

    /// Closes the present file and opens the next one.
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

/// Adds a note unless an earlier file of the sequence added the same.
fn note_once(notes: &mut Vec<String>, note: Option<String>) {
    notes.extend(note.filter(|note| !notes.contains(note)));
}

/// A packet about to be returned.
#[derive(Clone, Copy)]
struct Returned {
    index: u64,
    record: Record,
    decoded: Decoded,
    /// Its frame is in `buffered_bytes`, not in the window.
    is_buffered: bool,
}

#[inline(always)]
fn packet<'a>(returned: &Returned, bytes: &'a [u8]) -> Packet<'a> {
    let (record, decoded) = (&returned.record, &returned.decoded);
    Packet {
        index: returned.index,
        time_ns: record.time_ns,
        interface: record.interface,
        wire_bytes: record.wire_bytes,
        captured_bytes: record.captured_bytes,
        network: decoded.network,
        transport: decoded.transport(bytes),
    }
}
