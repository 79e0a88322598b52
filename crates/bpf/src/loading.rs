//! Loading of programs and of the map of their rings, bpf(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

// include/uapi/linux/bpf.h
const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const PROGRAM_LOAD: i32 = 5;
const INFORMATION: i32 = 15;
const TRACEPOINT_OPEN: i32 = 17;
const PERF_EVENT_ARRAY: u32 = 4;
const LRU_HASH: u32 = 9;
const OF_RAW_TRACEPOINT: u32 = 17;
/// The offset in `struct bpf_prog_info` of `run_time_ns`, with `run_cnt` (Linux 5.1) and `recursion_misses` (5.12)
/// behind it.
const RUN_TIME: usize = 192;
/// The helpers that read kernel memory require a GPL-compatible licence.
const LICENCE: &std::ffi::CStr = c"Dual MIT/GPL";

/// Creates a map from processor numbers to their events.
///
/// # Errors
/// `EPERM` without the privilege (`CAP_BPF`).
pub fn rings(processors: u32) -> io::Result<OwnedFd> {
    let mut attributes = Vec::new();
    for word in [PERF_EVENT_ARRAY, 4, 4, processors] {
        attributes.extend(word.to_ne_bytes());
    }
    call(MAP_CREATE, &mut attributes).and_then(owned)
}

/// Creates a map from keys to values of these sizes, which forgets those that were used longest ago.
///
/// # Errors
/// `EPERM` without the privilege (`CAP_BPF`).
pub fn memory(key: u32, value: u32, most: u32) -> io::Result<OwnedFd> {
    let mut attributes = Vec::new();
    for word in [LRU_HASH, key, value, most] {
        attributes.extend(word.to_ne_bytes());
    }
    call(MAP_CREATE, &mut attributes).and_then(owned)
}

/// Stores a processor's event in the map.
///
/// # Errors
/// The event is of another kind.
pub fn put(map: BorrowedFd<'_>, processor: u32, event: BorrowedFd<'_>) -> io::Result<()> {
    let (key, value) = (processor.to_ne_bytes(), event.as_raw_fd().to_ne_bytes());
    let mut attributes = Vec::new();
    attributes.extend((map.as_raw_fd() as u64).to_ne_bytes());
    attributes.extend((key.as_ptr() as u64).to_ne_bytes());
    attributes.extend((value.as_ptr() as u64).to_ne_bytes());
    attributes.extend(0_u64.to_ne_bytes());
    call(MAP_UPDATE, &mut attributes).map(|_| ())
}

/// Loads a program for a tracepoint, which is called with its arguments.
///
/// # Errors
/// `EPERM` without the privilege (`CAP_BPF`, `CAP_PERFMON`); `EACCES`, `EINVAL` if the kernel's verifier rejects it.
pub fn load(program: &[[u8; 8]]) -> io::Result<OwnedFd> {
    let mut attributes = Vec::new();
    attributes.extend(OF_RAW_TRACEPOINT.to_ne_bytes());
    attributes.extend((program.len() as u32).to_ne_bytes());
    attributes.extend((program.as_ptr() as u64).to_ne_bytes());
    attributes.extend((LICENCE.as_ptr() as u64).to_ne_bytes());
    attributes.extend([0; 24]); // no log
    call(PROGRAM_LOAD, &mut attributes).and_then(owned)
}

/// Attaches a program to a tracepoint, on all processors, for as long as the returned descriptor is open.
///
/// # Errors
/// There is no such tracepoint.
pub fn attach(program: BorrowedFd<'_>, tracepoint: &std::ffi::CStr) -> io::Result<OwnedFd> {
    let mut attributes = Vec::new();
    attributes.extend((tracepoint.as_ptr() as u64).to_ne_bytes());
    attributes.extend((program.as_raw_fd() as u64).to_ne_bytes());
    call(TRACEPOINT_OPEN, &mut attributes).and_then(owned)
}

/// Counts of a program; 0 where the kernel does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time that it ran, and how often: counted only while `kernel.bpf_stats_enabled` is set.
    pub run_ns: u64,
    pub runs: u64,
    /// How often it did not run because the same processor was already running it.
    pub missed: u64,
}

/// The counts of a program.
pub fn usage(program: BorrowedFd<'_>) -> Usage {
    const WORD: usize = 8;
    let mut info = [0_u8; RUN_TIME + 3 * WORD];
    let mut attributes = Vec::new();
    attributes.extend(program.as_raw_fd().to_ne_bytes());
    attributes.extend((info.len() as u32).to_ne_bytes());
    attributes.extend((info.as_mut_ptr() as u64).to_ne_bytes());
    if call(INFORMATION, &mut attributes).is_err() {
        return Usage::default();
    }
    let word = |number: usize| {
        let mut bytes = [0; WORD];
        bytes.copy_from_slice(&info[RUN_TIME + WORD * number..][..WORD]);
        u64::from_ne_bytes(bytes)
    };
    Usage {
        run_ns: word(0),
        runs: word(1),
        missed: word(2),
    }
}

fn call(command: i32, attributes: &mut [u8]) -> io::Result<i32> {
    // SAFETY: the kernel reads this many bytes; the memory they point to lives in the callers until this returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_mut_ptr(),
            attributes.len(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result as i32)
}

fn owned(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: the kernel has just created this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
