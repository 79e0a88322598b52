//! Where the kernel's word comes from: programs at two tracepoints, or the one tracepoint of drops alone.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use crate::bpf;
use crate::btf::Btf;
use crate::drop_monitor::{Alert, DropMonitor};
use crate::packet::Span;
use crate::perf::{self, Record, Ring};
use crate::program::{self, Offsets, Told};
use crate::tally::Again;
use crate::tracefs::Tracepoint;

const DROPS: &str = "skb/kfree_skb";
const RETRANSMISSIONS: &str = "tcp/tcp_retransmit_skb";
/// Of the drop monitor at once; each is a system call.
const MOST_MESSAGES: usize = 4096;
/// Reasons that are told by name have numbers from here on, of our own. More than so many are no reasons.
const OWN_NUMBERS: u32 = 1 << 31;
const MOST_OWN: usize = 1024;

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Programs: packets with their headers, of this network namespace; and retransmissions.
    Program,
    /// The tracepoint alone: reasons and places, of all of the machine.
    Tracepoint,
    /// The kernel's drop monitor: packets with their headers, of all of the machine, and of hardware.
    DropMonitor,
}

/// A packet that was dropped, as far as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped<'a> {
    pub reason: u32,
    pub location: u64,
    pub ethertype: u16,
    /// True if it is known to be of our network namespace.
    pub here: bool,
    pub interface: u32,
    pub arrived_by: u32,
    /// `None` where it is not told.
    pub length: Option<u32>,
    pub headers: &'a [u8],
}

/// The event that is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    Dropped(Dropped<'a>),
    SentAgain(Again),
}

/// A source that is open.
#[derive(Debug)]
pub struct Source {
    pub way: Way,
    /// True if retransmissions are reported.
    pub tells_sent_again: bool,
    /// Names of the reasons; empty where the kernel has none.
    pub reasons: HashMap<u32, String>,
    namespace: u32,
    fields: Fields,
    rings: Vec<Ring>,
    monitor: Option<DropMonitor>,
    programs: Vec<OwnedFd>,
    /// Events that programs were not run for, as far as they were told.
    missed: u64,
    /// The event that makes programs run, for as long as it is open.
    held: Vec<OwnedFd>,
}

/// Where the tracepoint of drops has what we read.
#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    location: u16,
    protocol: u16,
    reason: Option<u16>,
}

impl Source {
    /// Opens it.
    ///
    /// # Errors
    /// The kernel has it not, or does not let us.
    pub fn open(way: Way) -> io::Result<Source> {
        if way == Way::DropMonitor {
            return Source::open_monitor();
        }
        let tracepoint = Tracepoint::find(DROPS)?;
        let fields = Fields {
            location: tracepoint.field("location", 8).ok_or_else(unknown)?,
            protocol: tracepoint.field("protocol", 2).ok_or_else(unknown)?,
            reason: tracepoint.field("reason", 4),
        };
        let namespace = std::fs::metadata("/proc/thread-self/ns/net")?.ino() as u32;
        let mut source = Source {
            way,
            tells_sent_again: false,
            reasons: tracepoint.reasons.clone(),
            namespace,
            fields,
            rings: Vec::new(),
            monitor: None,
            programs: Vec::new(),
            missed: 0,
            held: Vec::new(),
        };
        if way == Way::Program {
            source.open_programs(&tracepoint)?;
        } else {
            source.open_rings(perf::Source::Tracepoint(tracepoint.number))?;
        }
        for ring in &source.rings {
            perf::enable(ring.event().as_fd())?;
        }
        Ok(source)
    }

    fn open_monitor() -> io::Result<Source> {
        Ok(Source {
            way: Way::DropMonitor,
            tells_sent_again: false,
            reasons: HashMap::new(),
            namespace: 0,
            fields: Fields::default(),
            rings: Vec::new(),
            monitor: Some(DropMonitor::open()?),
            programs: Vec::new(),
            missed: 0,
            held: Vec::new(),
        })
    }

    fn open_rings(&mut self, of: perf::Source) -> io::Result<()> {
        let processors = perf::processors()?;
        for processor in &processors {
            let event = perf::open(of, *processor)?;
            self.rings.push(Ring::map(event, processors.len())?);
        }
        Ok(())
    }

    fn open_programs(&mut self, drops: &Tracepoint) -> io::Result<()> {
        let offsets = Offsets::of(&Btf::of_kernel()?).ok_or_else(unknown)?;
        let processors = perf::processors()?;
        let map = bpf::rings(processors.iter().max().map_or(1, |most| most + 1))?;
        self.open_rings(perf::Source::Program)?;
        for (processor, ring) in processors.iter().zip(&self.rings) {
            bpf::put(map.as_fd(), *processor, ring.event().as_fd())?;
        }
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&map);
        let written = program::of_drops(drops, &offsets, self.namespace, descriptor);
        self.attach(c"kfree_skb", &written)?;
        self.tells_sent_again = Tracepoint::find(RETRANSMISSIONS).is_ok_and(|again| {
            let written = program::of_retransmissions(&again, &offsets, self.namespace, descriptor);
            self.attach(c"tcp_retransmit_skb", &written).is_ok()
        });
        self.held.push(map);
        Ok(())
    }

    fn attach(&mut self, tracepoint: &CStr, program: &[[u8; 8]]) -> io::Result<()> {
        let program = bpf::load(program)?;
        let attached = bpf::attach(program.as_fd(), tracepoint)?;
        self.held.push(attached);
        self.programs.push(program);
        Ok(())
    }

    /// The descriptors to wait for.
    pub fn descriptors(&self) -> impl Iterator<Item = &OwnedFd> {
        let monitor = self.monitor.iter().map(DropMonitor::descriptor);
        self.rings.iter().map(Ring::event).chain(monitor)
    }

    /// To be called once in an interval: events that were lost otherwise than in the rings, since the last call.
    pub fn lost_elsewhere(&mut self) -> u64 {
        if let Some(monitor) = &self.monitor {
            // The answer is read with the packets. Where it cannot be asked it is asked again.
            let _ = monitor.ask_statistics();
        }
        let missed = self
            .programs
            .iter()
            .map(|program| bpf::missed(program.as_fd()))
            .sum();
        let before = std::mem::replace(&mut self.missed, missed);
        missed.saturating_sub(before)
    }

    /// Calls `each` for all that came, with its moment by `CLOCK_MONOTONIC`; how many events found no room.
    pub fn read(&mut self, mut each: impl FnMut(i64, Event<'_>)) -> u64 {
        let (way, namespace, fields) = (self.way, self.namespace, self.fields);
        let mut lost = 0;
        if let Some(monitor) = &mut self.monitor {
            let reasons = &mut self.reasons;
            lost += monitor.read(MOST_MESSAGES, |alert| {
                each(0, Event::Dropped(alerted(alert, reasons)))
            });
        }
        for ring in &mut self.rings {
            ring.read(|record| match record {
                Record::Lost(count) => lost += count,
                Record::Sample { time_ns, raw } => {
                    let event = match way {
                        Way::Program => told(namespace, raw, time_ns as i64),
                        _ => traced(&fields, raw),
                    };
                    if let Some(event) = event {
                        each(time_ns as i64, event);
                    }
                }
            });
        }
        lost
    }
}

fn told(namespace: u32, raw: &[u8], time_ns: i64) -> Option<Event<'_>> {
    Some(match Told::parse(raw)? {
        Told::Dropped {
            namespace: of,
            location,
            reason,
            interface,
            arrived_by,
            length,
            ethertype,
            headers,
        } => Event::Dropped(Dropped {
            reason,
            location,
            ethertype,
            here: of == namespace,
            interface,
            arrived_by,
            length: Some(length),
            headers,
        }),
        Told::SentAgain {
            first,
            end,
            ends: [local, remote],
        } => Event::SentAgain(Again {
            time_ns,
            ends: (local.into(), remote.into()),
            span: Span { first, end },
        }),
    })
}

fn traced<'a>(fields: &Fields, raw: &[u8]) -> Option<Event<'a>> {
    let two = |at: u16| {
        Some(u16::from_ne_bytes(
            raw.get(at.into()..)?.get(..2)?.try_into().ok()?,
        ))
    };
    let four = |at: u16| {
        Some(u32::from_ne_bytes(
            raw.get(at.into()..)?.get(..4)?.try_into().ok()?,
        ))
    };
    let eight = |at: u16| {
        Some(u64::from_ne_bytes(
            raw.get(at.into()..)?.get(..8)?.try_into().ok()?,
        ))
    };
    let ethertype = two(fields.protocol)?;
    // What has no protocol is no packet: messages between processes, and from the kernel.
    (ethertype != 0).then_some(())?;
    Some(Event::Dropped(Dropped {
        reason: fields.reason.map_or(Some(0), four)?,
        location: eight(fields.location)?,
        ethertype,
        here: false,
        interface: 0,
        arrived_by: 0,
        length: None,
        headers: &[],
    }))
}

fn alerted<'a>(alert: &Alert<'a>, reasons: &mut HashMap<u32, String>) -> Dropped<'a> {
    Dropped {
        reason: numbered(alert.reason, reasons),
        location: alert.place,
        ethertype: alert.ethertype,
        // Of which namespace an interface is nobody says.
        here: false,
        interface: 0,
        arrived_by: 0,
        length: Some(alert.length),
        headers: alert.headers,
    }
}

/// A number for a reason that has a name only.
fn numbered(name: &str, reasons: &mut HashMap<u32, String>) -> u32 {
    let known = reasons.iter().find(|(_, known)| known.as_str() == name);
    if let Some((number, _)) = known {
        return *number;
    }
    if name.is_empty() || reasons.len() >= MOST_OWN {
        return 0;
    }
    let number = OWN_NUMBERS + reasons.len() as u32;
    reasons.insert(number, name.to_owned());
    number
}

fn unknown() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "this kernel describes packets in a way that is not known",
    )
}
