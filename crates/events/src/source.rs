//! The programs, attached, and the rings of their reports.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use whydrop_bpf::btf::Btf;
use whydrop_bpf::loading::{self, Usage};
use whydrop_bpf::perf::{self, Record, Ring};

use crate::filter::Filter;
use crate::layout::Layout;
use crate::program::{self, REMEMBERED, Setting};
use crate::report::Report;

/// Connections that are remembered in the kernel.
const MOST_CONNECTIONS: u32 = 1 << 15;

const ACKNOWLEDGMENTS: &str = "tcp_probe";
const STATES: &str = "tcp_cong_state_set";
const RETRANSMISSIONS: &str = "tcp_retransmit_skb";
const DROPS: &str = "kfree_skb";
const ENDS: &str = "inet_sock_set_state";

/// An open source; while it is open, the programs are attached.
#[derive(Debug)]
pub struct Source {
    /// Tracepoints that this kernel lacks or does not allow, with what is missing for that.
    pub missing: Vec<(&'static str, String)>,
    rings: Vec<Ring>,
    programs: Vec<OwnedFd>,
    usage: Usage,
    /// Descriptors that keep the maps, and the programs attached, while they are open.
    kept: Vec<OwnedFd>,
}

impl Source {
    /// Opens the source.
    ///
    /// # Errors
    /// The kernel does not allow programs (`EPERM`), has no type information, or has no tracepoint for
    /// acknowledgments.
    pub fn open(filter: &Filter, counts_every_ns: u32) -> io::Result<Source> {
        let btf = Btf::of_kernel().map_err(without_types)?;
        let layout = Layout::of(&btf).ok_or_else(unknown)?;
        let processors = perf::processors()?;
        let rings = loading::rings(processors.iter().max().map_or(1, |most| most + 1))?;
        let (key, value) = REMEMBERED;
        let memory = loading::memory(key, value, MOST_CONNECTIONS)?;
        let mut source = Source {
            missing: Vec::new(),
            rings: Vec::new(),
            programs: Vec::new(),
            usage: Usage::default(),
            kept: Vec::new(),
        };
        for processor in &processors {
            let event = perf::open(perf::Source::Program, *processor)?;
            loading::put(rings.as_fd(), *processor, event.as_fd())?;
            source.rings.push(Ring::map(event, processors.len())?);
        }
        source.attach_all(
            &btf,
            Setting {
                layout: &layout,
                filter,
                rings: rings.as_raw_fd(),
                memory: memory.as_raw_fd(),
                counts_every_ns,
            },
        )?;
        source.kept.extend([rings, memory]);
        for ring in &source.rings {
            perf::enable(ring.event().as_fd())?;
        }
        Ok(source)
    }

    fn attach_all(&mut self, btf: &Btf, with: Setting<'_>) -> io::Result<()> {
        self.attach(ACKNOWLEDGMENTS, &program::of_acknowledgments(with))
            .map_err(without_acknowledgments)?;
        // Of both, later kernels have a third argument.
        let has_third = |tracepoint: &str| btf.arguments(tracepoint).is_some_and(|all| all > 2);
        let optional = [
            (STATES, program::of_states(with)),
            (
                RETRANSMISSIONS,
                program::of_retransmissions(with, has_third(RETRANSMISSIONS)),
            ),
            (ENDS, program::of_ends(with)),
        ];
        for (tracepoint, written) in optional {
            if let Err(error) = self.attach(tracepoint, &written) {
                self.missing.push((tracepoint, error.to_string()));
            }
        }
        if !has_third(DROPS) || with.layout.queue_reasons.is_empty() {
            let needs = "it gives no reasons for drops (Linux 5.18 and later do)";
            self.missing.push((DROPS, needs.to_owned()));
        } else if let Err(error) = self.attach(DROPS, &program::of_stalls(with)) {
            self.missing.push((DROPS, error.to_string()));
        }
        Ok(())
    }

    fn attach(&mut self, tracepoint: &str, program: &[[u8; 8]]) -> io::Result<()> {
        let program = loading::load(program)?;
        let name = CString::new(tracepoint)?;
        let attached = loading::attach(program.as_fd(), &name)?;
        self.kept.push(attached);
        self.programs.push(program);
        Ok(())
    }

    /// Descriptors to wait for, which stay valid without the source.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        let rings = self.rings.iter();
        rings.map(|ring| ring.event().try_clone()).collect()
    }

    /// Calls `each` for all reports, with their time by `CLOCK_MONOTONIC`; returns how many events were lost.
    pub fn read(&mut self, mut each: impl FnMut(i64, Report)) -> u64 {
        let mut lost = 0;
        for ring in &mut self.rings {
            ring.read(|record| match record {
                Record::Lost(count) => lost += count,
                Record::Sample { time_ns, raw } => {
                    if let Some(report) = Report::parse(raw) {
                        each(time_ns as i64, report);
                    }
                }
            });
        }
        lost + self.newly_missed()
    }

    /// The counts of all programs, as of the last reading.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Events for which a program did not run, because the same processor was running it already.
    fn newly_missed(&mut self) -> u64 {
        let before = self.usage.missed;
        let mut sum = Usage::default();
        for program in &self.programs {
            let one = loading::usage(program.as_fd());
            sum.run_ns += one.run_ns;
            sum.runs += one.runs;
            sum.missed += one.missed;
        }
        self.usage = sum;
        sum.missed.saturating_sub(before)
    }
}

fn without_types(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::NotFound {
        return error;
    }
    let needs =
        "this kernel has no type information in /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)";
    io::Error::new(io::ErrorKind::Unsupported, needs)
}

fn without_acknowledgments(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::NotFound {
        return error;
    }
    let needs = "this kernel has no tracepoint tcp:tcp_probe (Linux 4.16 and later have it)";
    io::Error::new(io::ErrorKind::Unsupported, needs)
}

fn unknown() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "this kernel describes TCP's sockets in an unknown format",
    )
}
