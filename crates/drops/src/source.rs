//! Where the kernel's word comes from: programs at two tracepoints, or the one tracepoint of drops alone.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use crate::bpf;
use crate::btf::Btf;
use crate::packet::Span;
use crate::perf::{self, Record, Ring};
use crate::program::{self, Offsets, Told};
use crate::tally::Again;
use crate::tracefs::Tracepoint;

const DROPS: &str = "skb/kfree_skb";
const RETRANSMISSIONS: &str = "tcp/tcp_retransmit_skb";

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Programs: packets with their headers, of this network namespace; and retransmissions.
    Program,
    /// The tracepoint alone: reasons and places, of all of the machine.
    Tracepoint,
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
    /// Programs and their tracepoints: they work for as long as they are open.
    _held: Vec<OwnedFd>,
}

/// Where the tracepoint of drops has what we read.
#[derive(Clone, Copy, Debug)]
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
            _held: Vec::new(),
        };
        match way {
            Way::Program => source.open_programs(&tracepoint)?,
            Way::Tracepoint => source.open_rings(perf::Source::Tracepoint(tracepoint.number))?,
        }
        for ring in &source.rings {
            perf::enable(ring.event().as_fd())?;
        }
        Ok(source)
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
        let first = *processors.first().ok_or_else(unknown)?;
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&map);
        let written = program::of_drops(drops, &offsets, self.namespace, descriptor);
        self.attach(drops.number, first, &written.ok_or_else(unknown)?)?;
        self.tells_sent_again = Tracepoint::find(RETRANSMISSIONS).is_ok_and(|again| {
            program::of_retransmissions(&again, &offsets, self.namespace, descriptor)
                .is_some_and(|written| self.attach(again.number, first, &written).is_ok())
        });
        self._held.push(map);
        Ok(())
    }

    fn attach(&mut self, tracepoint: u64, processor: u32, program: &[[u8; 8]]) -> io::Result<()> {
        let loaded = bpf::load(program)?;
        let event = perf::open(perf::Source::Tracepoint(tracepoint), processor)?;
        perf::attach(event.as_fd(), loaded.as_fd())?;
        perf::enable(event.as_fd())?;
        self._held.extend([loaded, event]);
        Ok(())
    }

    /// The descriptors to wait for.
    pub fn descriptors(&self) -> impl Iterator<Item = &OwnedFd> {
        self.rings.iter().map(Ring::event)
    }

    /// Calls `each` for all that came, with its moment by `CLOCK_MONOTONIC`; how many events found no room.
    pub fn read(&mut self, mut each: impl FnMut(i64, Event<'_>)) -> u64 {
        let (way, namespace, fields) = (self.way, self.namespace, self.fields);
        let mut lost = 0;
        for ring in &mut self.rings {
            ring.read(|record| match record {
                Record::Lost(count) => lost += count,
                Record::Sample { time_ns, raw } => {
                    let event = match way {
                        Way::Program => told(namespace, raw, time_ns as i64),
                        Way::Tracepoint => traced(&fields, raw),
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
            // The tracepoint has it as the header does.
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
            ports,
            addresses,
        } => {
            let place = |side: usize| {
                let address = Ipv6Addr::from(addresses[side]);
                let known = address
                    .to_ipv4_mapped()
                    .map_or(IpAddr::V6(address), IpAddr::V4);
                SocketAddr::new(known, ports[side])
            };
            Event::SentAgain(Again {
                time_ns,
                ends: (place(0), place(1)),
                span: Span { first, end },
            })
        }
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

fn unknown() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "this kernel describes packets in a way that is not known",
    )
}
