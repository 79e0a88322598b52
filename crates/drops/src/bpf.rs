//! Loading programs and the map of their rings, bpf(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

// include/uapi/linux/bpf.h
const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const PROGRAM_LOAD: i32 = 5;
const PERF_EVENT_ARRAY: u32 = 4;
const OF_TRACEPOINT: u32 = 5;
/// The helpers that read the kernel's memory are for programs under the GPL; ours may be had under it as well.
const LICENCE: &std::ffi::CStr = c"Dual MIT/GPL";

/// A map from the numbers of processors to their events.
///
/// # Errors
/// `EPERM` without the right to (`CAP_BPF`).
pub fn rings(processors: u32) -> io::Result<OwnedFd> {
    let mut attributes = Vec::new();
    for word in [PERF_EVENT_ARRAY, 4, 4, processors] {
        attributes.extend(word.to_ne_bytes());
    }
    call(MAP_CREATE, &mut attributes).and_then(owned)
}

/// Puts a processor's event into the map.
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

/// Loads a program for a tracepoint.
///
/// # Errors
/// `EPERM` without the right to (`CAP_BPF`, `CAP_PERFMON`); `EACCES`, `EINVAL` where the kernel's verifier refuses it.
pub fn load(program: &[[u8; 8]]) -> io::Result<OwnedFd> {
    let mut attributes = Vec::new();
    attributes.extend(OF_TRACEPOINT.to_ne_bytes());
    attributes.extend((program.len() as u32).to_ne_bytes());
    attributes.extend((program.as_ptr() as u64).to_ne_bytes());
    attributes.extend((LICENCE.as_ptr() as u64).to_ne_bytes());
    attributes.extend([0; 24]); // no log
    call(PROGRAM_LOAD, &mut attributes).and_then(owned)
}

fn call(command: i32, attributes: &mut [u8]) -> io::Result<i32> {
    // SAFETY: the kernel reads so many bytes; what they point to lives in the callers until this returns.
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
    // SAFETY: the kernel has just given it to us.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
