//! The source of the kernel's reports: programs at two tracepoints, the tracepoint of drops alone, or the drop monitor.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use crate::drop_monitor::{Alert, DropMonitor};
use crate::packet::Span;
use crate::program::{self, Offsets, Report};
use crate::tally::Retransmission;
use crate::tracefs::Tracepoint;
use whydrop_bpf::btf::Btf;
use whydrop_bpf::loading;
use whydrop_bpf::perf::{self, Record, Ring};

const DROPS: &str = "skb/kfree_skb";
const RETRANSMISSIONS: &str = "tcp/tcp_retransmit_skb";
/// Messages of the drop monitor per reading; each costs a system call.
const MOST_MESSAGES: usize = 4096;
/// Reasons that have only a name get our own numbers from here on. More names than this are not valid reasons.
const OWN_NUMBERS: u32 = 1 << 31;
const MOST_OWN: usize = 1024;

/// The method by which drops are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Programs: packets with their headers, of this network namespace, and retransmissions.
    Program,
    /// The tracepoint alone: reasons and places, for the whole machine.
    Tracepoint,
    /// The kernel's drop monitor: packets with their headers, for the whole machine and its hardware.
    DropMonitor,
}

/// A dropped packet, as far as reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped<'a> {
    pub reason: u32,
    pub location: u64,
    pub ethertype: u16,
    /// True if it is known to be from our network namespace.
    pub here: bool,
    pub interface: u32,
    pub arrived_by: u32,
    /// `None` if unknown.
    pub length: Option<u32>,
    pub headers: &'a [u8],
}

/// A reported event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    Dropped(Dropped<'a>),
    Retransmitted(Retransmission),
}

/// An open source.
#[derive(Debug)]
pub struct Source {
    pub method: Method,
    /// True if retransmissions are reported.
    pub reports_retransmissions: bool,
    /// Names of the reasons; empty where the kernel has none.
    pub reasons: HashMap<u32, String>,
    namespace: u32,
    fields: Fields,
    rings: Vec<Ring>,
    monitor: Option<DropMonitor>,
    programs: Vec<OwnedFd>,
    /// Events for which programs did not run, as far as reported.
    missed: u64,
    /// Descriptors that keep the programs attached while they are open.
    attachments: Vec<OwnedFd>,
}

/// The positions of the fields that we read in the tracepoint's records.
#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    location: u16,
    protocol: u16,
    reason: Option<u16>,
}

impl Source {
    /// Opens the source.
    ///
    /// # Errors
    /// The kernel does not have it, or does not permit it.
    pub fn open(method: Method) -> io::Result<Source> {
        if method == Method::DropMonitor {
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
            method,
            reports_retransmissions: false,
            reasons: tracepoint.reasons.clone(),
            namespace,
            fields,
            rings: Vec::new(),
            monitor: None,
            programs: Vec::new(),
            missed: 0,
            attachments: Vec::new(),
        };
        if method == Method::Program {
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
            method: Method::DropMonitor,
            reports_retransmissions: false,
            reasons: HashMap::new(),
            namespace: 0,
            fields: Fields::default(),
            rings: Vec::new(),
            monitor: Some(DropMonitor::open()?),
            programs: Vec::new(),
            missed: 0,
            attachments: Vec::new(),
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
        let map = loading::rings(processors.iter().max().map_or(1, |most| most + 1))?;
        self.open_rings(perf::Source::Program)?;
        for (processor, ring) in processors.iter().zip(&self.rings) {
            loading::put(map.as_fd(), *processor, ring.event().as_fd())?;
        }
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&map);
        let written = program::of_drops(drops, &offsets, self.namespace, descriptor);
        self.attach(c"kfree_skb", &written)?;
        self.reports_retransmissions = Tracepoint::find(RETRANSMISSIONS).is_ok_and(|segment| {
            let written =
                program::of_retransmissions(&segment, &offsets, self.namespace, descriptor);
            self.attach(c"tcp_retransmit_skb", &written).is_ok()
        });
        self.attachments.push(map);
        Ok(())
    }

    fn attach(&mut self, tracepoint: &CStr, program: &[[u8; 8]]) -> io::Result<()> {
        let program = loading::load(program)?;
        let attached = loading::attach(program.as_fd(), tracepoint)?;
        self.attachments.push(attached);
        self.programs.push(program);
        Ok(())
    }

    /// The descriptors to wait for.
    pub fn descriptors(&self) -> impl Iterator<Item = &OwnedFd> {
        let monitor = self.monitor.iter().map(DropMonitor::descriptor);
        self.rings.iter().map(Ring::event).chain(monitor)
    }

    /// Events lost outside the rings since the last call; call it once per interval.
    pub fn lost_elsewhere(&mut self) -> u64 {
        if let Some(monitor) = &self.monitor {
            // The answer arrives with the packets. If the request fails, it is repeated.
            let _ = monitor.ask_statistics();
        }
        let missed = self
            .programs
            .iter()
            .map(|program| loading::usage(program.as_fd()).missed)
            .sum();
        let before = std::mem::replace(&mut self.missed, missed);
        missed.saturating_sub(before)
    }

    /// Calls `each` for all events, with their time by `CLOCK_MONOTONIC`; returns how many found no room.
    pub fn read(&mut self, mut each: impl FnMut(i64, Event<'_>)) -> u64 {
        let (method, namespace, fields) = (self.method, self.namespace, self.fields);
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
                    let event = match method {
                        Method::Program => event_of(namespace, raw, time_ns as i64),
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

fn event_of(namespace: u32, raw: &[u8], time_ns: i64) -> Option<Event<'_>> {
    Some(match Report::parse(raw)? {
        Report::Dropped {
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
        Report::Retransmitted {
            first,
            end,
            ends: [local, remote],
        } => Event::Retransmitted(Retransmission {
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
    // Buffers without a protocol are no packets, but messages between processes and from the kernel.
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
        // The interface's namespace is unknown.
        here: false,
        interface: 0,
        arrived_by: 0,
        length: Some(alert.length),
        headers: alert.headers,
    }
}

/// Returns the number for a reason that has only a name.
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
        "this kernel describes packets in an unknown format",
    )
}
