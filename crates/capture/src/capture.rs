//! The stream of packets over one capture file, or over several in sequence.

use std::collections::VecDeque;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::decode::{Decoded, Frame, decode};
use crate::error::{CaptureError, Damage};
use crate::format::{Format, Record};
use crate::input::Input;
use crate::packet::Packet;
use crate::summary::Summary;

/// How a capture is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    /// How many tunnel headers (GRE, VXLAN, IP in IP) to unwrap; 0 shows the tunnels themselves.
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

/// A file whose header has been read.
struct OpenFile {
    label: String,
    input: Input,
    format: Format,
}

impl OpenFile {
    fn open(path: &Path) -> Result<Self, CaptureError> {
        Self::from_input(path.to_string_lossy().into_owned(), Input::open(path)?)
    }

    fn from_input(label: String, mut input: Input) -> Result<Self, CaptureError> {
        match Format::open(&mut input.window) {
            Ok(format) => Ok(Self {
                label,
                input,
                format,
            }),
            Err(damage) => Err(damage.at(&label, input.compression.is_some())),
        }
    }

    fn format_name(&self) -> String {
        match self.input.compression {
            None => self.format.name().to_owned(),
            Some(compression) => format!("{}.{}", self.format.name(), compression.extension()),
        }
    }
}

/// A capture being read. Memory does not grow with its length.
pub struct Capture {
    options: OpenOptions,
    current: Option<OpenFile>,
    following: VecDeque<PathBuf>,
    summary: Summary,
    last_time_ns: i64,
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
        let mut following: VecDeque<PathBuf> =
            paths.iter().map(|path| path.as_ref().to_owned()).collect();
        let Some(first) = following.pop_front() else {
            return Err(Damage {
                offset: 0,
                found: "no file".into(),
                expected: "at least one capture file".into(),
                remedy: "name a file, or - for standard input".into(),
            }
            .at("", false));
        };
        let first = OpenFile::open(&first)?;
        Ok(Self::starting_with(first, following, options))
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
            summary: Summary::default(),
            last_time_ns: i64::MIN,
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
        self.summary.clone()
    }

    #[inline(always)]
    fn advance(&mut self) -> Option<(u64, Record, Decoded)> {
        loop {
            let file = self.current.as_mut()?;
            let record = match file.format.next_record(&mut file.input.window) {
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
            let index = self.summary.packets;
            self.count(&record, &decoded);
            return Some((index, record, decoded));
        }
    }

    #[inline(always)]
    fn count(&mut self, record: &Record, decoded: &Decoded) {
        let summary = &mut self.summary;
        summary.packets += 1;
        summary.kinds.count(&decoded.transport);
        summary.out_of_order += u64::from(record.time_ns < self.last_time_ns);
        self.last_time_ns = record.time_ns;
        summary.first_ns = Some(
            summary
                .first_ns
                .map_or(record.time_ns, |first| first.min(record.time_ns)),
        );
        summary.last_ns = Some(
            summary
                .last_ns
                .map_or(record.time_ns, |last| last.max(record.time_ns)),
        );
    }

    fn enter(&mut self, mut file: OpenFile) {
        self.summary.paths.push(file.label.clone());
        let format = file.format_name();
        if self.summary.format.is_empty() {
            self.summary.format = format;
        } else if !self.summary.format.split(", ").any(|known| known == format) {
            self.summary.format = format!("{}, {format}", self.summary.format);
        }
        for interface in file.format.take_interfaces() {
            let name = interface.link.to_string();
            if !self.summary.link_types.contains(&name) {
                self.summary.link_types.push(name);
            }
            let snaplen = Some(interface.snaplen_bytes).filter(|&bytes| bytes != 0);
            self.summary.snaplen_bytes = self.summary.snaplen_bytes.max(snaplen);
        }
        self.current = Some(file);
    }

    /// Closes the present file and opens the one after it.
    #[cold]
    #[inline(never)]
    fn leave(&mut self, damage: Option<Damage>) {
        let file = self.current.take();
        if let (Some(file), Some(damage)) = (file, damage) {
            self.note_damage(&damage.at(&file.label, file.input.compression.is_some()));
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
