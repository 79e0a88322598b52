//! Kernel events in memory rings, perf_event_open(2): one ring for each processor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The data size of all rings together; each gets a share between these bounds. All are powers of two.
const ALL_RINGS: usize = 32 << 20;
const LEAST_RING: usize = 256 << 10;
const MOST_RING: usize = 4 << 20;
/// The reader is woken when this much data is available.
const WAKE: u32 = (LEAST_RING / 2) as u32;

// include/uapi/linux/perf_event.h
const ATTRIBUTES: usize = 112;
const SOFTWARE: u32 = 1;
const TRACEPOINT: u32 = 2;
const BPF_OUTPUT: u64 = 10;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_RAW: u64 = 1 << 10;
const DISABLED: u64 = 1 << 0;
const WATERMARK: u64 = 1 << 14;
const USE_CLOCK: u64 = 1 << 25;
const ENABLE: libc::c_ulong = 0x2400;
const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// The source of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A program that writes events.
    Program,
    /// A tracepoint, by its number.
    Tracepoint(u64),
}

/// Opens an event on one processor, for all processes.
///
/// # Errors
/// The errors of `perf_event_open`: `EACCES` and `EPERM` without the privilege (`CAP_PERFMON`).
pub fn open(source: Source, processor: u32) -> io::Result<OwnedFd> {
    let (kind, config) = match source {
        Source::Program => (SOFTWARE, BPF_OUTPUT),
        Source::Tracepoint(number) => (TRACEPOINT, number),
    };
    let mut attributes = [0_u8; ATTRIBUTES];
    let mut put = |at: usize, bytes: &[u8]| attributes[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &kind.to_ne_bytes());
    put(4, &(ATTRIBUTES as u32).to_ne_bytes());
    put(8, &config.to_ne_bytes());
    put(16, &1_u64.to_ne_bytes()); // every event
    put(24, &(SAMPLE_TIME | SAMPLE_RAW).to_ne_bytes());
    put(40, &(DISABLED | WATERMARK | USE_CLOCK).to_ne_bytes());
    put(48, &WAKE.to_ne_bytes());
    put(92, &libc::CLOCK_MONOTONIC.to_ne_bytes());
    const CLOEXEC: libc::c_ulong = 8;
    // SAFETY: the kernel reads `ATTRIBUTES` bytes, as their size field states.
    let number = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            -1,
            processor,
            -1,
            CLOEXEC,
        )
    };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(number as i32) })
}

/// Enables the event.
///
/// # Errors
/// The errors of ioctl(2).
pub fn enable(event: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes no argument.
    let done = unsafe { libc::ioctl(event.as_raw_fd(), ENABLE, 0) };
    if done < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// The ring of an event.
#[derive(Debug)]
pub struct Ring {
    event: OwnedFd,
    memory: *mut u8,
    /// Size of the data, which begins after the first page.
    size: usize,
    page: usize,
}

// SAFETY: the memory belongs to this ring only, and is unmapped once.
unsafe impl Send for Ring {}

/// A record of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Nanoseconds of `CLOCK_MONOTONIC`, and the event's data.
    Sample { time_ns: u64, raw: &'a [u8] },
    /// This many events found no room.
    Lost(u64),
}

impl Ring {
    /// Maps the ring of an event; `of` is the number of rings.
    ///
    /// # Errors
    /// The errors of mmap(2): too little memory may be locked.
    pub fn map(event: OwnedFd, of: usize) -> io::Result<Ring> {
        let size = size_of_each(of);
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        // SAFETY: a new mapping at an address of the kernel's choice; no existing memory is affected.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page + size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring {
            event,
            memory: memory.cast(),
            size,
            page,
        })
    }

    pub fn event(&self) -> &OwnedFd {
        &self.event
    }

    /// Calls `each` for every available record.
    pub fn read(&mut self, mut each: impl FnMut(Record<'_>)) {
        let head = self.word(HEAD).load(Ordering::Acquire);
        let mut tail = self.word(TAIL).load(Ordering::Relaxed);
        let mut record = Vec::new();
        while head.wrapping_sub(tail) >= 8 {
            self.copy(tail, 8, &mut record);
            let kind = u32::from_ne_bytes(record[..4].try_into().expect("four"));
            let size = usize::from(u16::from_ne_bytes(record[6..8].try_into().expect("two")));
            if size < 8 || size as u64 > head.wrapping_sub(tail) {
                // Not a valid ring: its contents are discarded.
                tail = head;
                break;
            }
            self.copy(tail, size, &mut record);
            if let Some(record) = parse(kind, &record[8..]) {
                each(record);
            }
            tail = tail.wrapping_add(size as u64);
        }
        fence(Ordering::SeqCst);
        self.word(TAIL).store(tail, Ordering::Release);
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: within the first page, aligned to eight bytes; the kernel writes whole words.
        unsafe { AtomicU64::from_ptr(self.memory.add(at).cast()) }
    }

    /// Copies bytes of the ring; those that wrap around its end are joined. There is no slice of the ring: the kernel
    /// writes other parts of it at the same time, which the compiler must not assume to stay the same.
    fn copy(&self, from: u64, size: usize, into: &mut Vec<u8>) {
        let start = from as usize & (self.size - 1);
        let first = size.min(self.size - start);
        assert!(size <= self.size, "a record is smaller than the ring");
        into.clear();
        into.reserve(size);
        // SAFETY: the data begins after the first page, and both parts are within it. The kernel does not write what lies
        // between tail and head, and no more than that is copied. The vector has room for `size` bytes, and is longer only
        // once they are written.
        unsafe {
            let data = self.memory.add(self.page).cast_const();
            data.add(start)
                .copy_to_nonoverlapping(into.as_mut_ptr(), first);
            let rest = into.as_mut_ptr().add(first);
            data.copy_to_nonoverlapping(rest, size - first);
            into.set_len(size);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped by us with this length, and no longer used.
        unsafe { libc::munmap(self.memory.cast(), self.page + self.size) };
    }
}

fn size_of_each(count: usize) -> usize {
    let part = ALL_RINGS / count.max(1).next_power_of_two();
    part.clamp(LEAST_RING, MOST_RING)
}

/// Parses a record behind its header; `None` for other kinds, and for one that is cut off.
pub fn parse(kind: u32, body: &[u8]) -> Option<Record<'_>> {
    let word = |at: usize| Some(u64::from_ne_bytes(body.get(at..at + 8)?.try_into().ok()?));
    match kind {
        RECORD_LOST => Some(Record::Lost(word(8)?)),
        RECORD_SAMPLE => {
            let size = u32::from_ne_bytes(body.get(8..12)?.try_into().ok()?) as usize;
            Some(Record::Sample {
                time_ns: word(0)?,
                raw: body.get(12..12 + size)?,
            })
        }
        _ => None,
    }
}

/// The numbers of the processors that are online.
///
/// # Errors
/// The kernel does not report them.
pub fn processors() -> io::Result<Vec<u32>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    ranges(text.trim()).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, text))
}

/// Parses `0-3,5`.
fn ranges(text: &str) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        found.extend(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_read_as_the_kernel_writes_them() {
        assert_eq!(ranges("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(ranges("0"), Some(vec![0]));
        assert_eq!(ranges("x"), None);
    }

    #[test]
    fn rings_are_powers_of_two_and_together_no_more_than_their_part_of_memory() {
        for count in 1..=2000 {
            let size = size_of_each(count);
            assert!(size.is_power_of_two() && (LEAST_RING..=MOST_RING).contains(&size));
            assert!(size * count <= ALL_RINGS || size == LEAST_RING);
        }
    }

    /// A ring that no kernel writes.
    fn ring(size: usize) -> Ring {
        let page = 4096;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page + size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(memory, libc::MAP_FAILED);
        Ring {
            event: std::fs::File::open("/dev/null").expect("it exists").into(),
            memory: memory.cast(),
            size,
            page,
        }
    }

    /// Writes as the kernel does: never over unread data, and the head last.
    struct Kernel {
        memory: *mut u8,
        size: usize,
        head: u64,
    }

    // SAFETY: the ring outlives it in these tests.
    unsafe impl Send for Kernel {}

    impl Kernel {
        fn of(ring: &Ring) -> Kernel {
            Kernel {
                memory: ring.memory,
                size: ring.size,
                head: 0,
            }
        }

        /// False if there is no room.
        fn write(&mut self, record: &[u8]) -> bool {
            // SAFETY: within the first page.
            let word = |at| unsafe { AtomicU64::from_ptr(self.memory.add(at).cast()) };
            let tail = word(TAIL).load(Ordering::Acquire);
            if self.head - tail + record.len() as u64 > self.size as u64 {
                return false;
            }
            for (place, byte) in (self.head..).zip(record) {
                let at = 4096 + (place as usize & (self.size - 1));
                // SAFETY: within the data, in a part that is not read before the head is behind it.
                unsafe { self.memory.add(at).write(*byte) };
            }
            self.head += record.len() as u64;
            word(HEAD).store(self.head, Ordering::Release);
            true
        }
    }

    /// A sample of so many words, all of them this number.
    fn sample(number: u64, words: usize) -> Vec<u8> {
        let raw_bytes = words * 8 + 4;
        let size = 8 + 8 + 4 + raw_bytes;
        let mut record = RECORD_SAMPLE.to_ne_bytes().to_vec();
        record.extend([0, 0]);
        record.extend((size as u16).to_ne_bytes());
        record.extend(number.to_ne_bytes());
        record.extend((raw_bytes as u32).to_ne_bytes());
        record.extend(number.to_ne_bytes().repeat(words));
        record.extend([0; 4]);
        record
    }

    #[test]
    fn records_that_are_written_while_others_are_read_are_complete_and_in_order() {
        const RECORDS: u64 = 20_000;
        let words = |number: u64| (number * 7 % 23) as usize;
        let mut ring = ring(4096);
        let mut kernel = Kernel::of(&ring);
        let writing = std::thread::spawn(move || {
            for number in 0..RECORDS {
                let record = sample(number, words(number));
                while !kernel.write(&record) {
                    std::thread::yield_now();
                }
            }
        });
        let mut next = 0;
        while next < RECORDS {
            ring.read(|record| {
                let Record::Sample { time_ns, raw } = record else {
                    panic!("{record:?}");
                };
                assert_eq!(time_ns, next);
                let expected = next.to_ne_bytes().repeat(words(next));
                assert_eq!(raw[..raw.len() - 4], expected);
                next += 1;
            });
            std::thread::yield_now();
        }
        writing.join().expect("it ends");
    }

    #[test]
    fn a_ring_with_invalid_sizes_is_discarded() {
        let mut ring = ring(4096);
        let mut kernel = Kernel::of(&ring);
        let mut read = 0;
        for size in [0_u16, 7, 4000] {
            let mut record = sample(1, 2);
            record[6..8].copy_from_slice(&size.to_ne_bytes());
            assert!(kernel.write(&record));
            ring.read(|_| read += 1);
        }
        assert!(kernel.write(&sample(5, 3)));
        ring.read(|_| read += 1);
        assert_eq!(read, 1);
    }

    #[test]
    fn records_are_read_and_what_is_cut_off_is_none() {
        let mut body = 7_u64.to_ne_bytes().to_vec();
        body.extend(3_u32.to_ne_bytes());
        body.extend([1, 2, 3, 0]);
        let sample = Record::Sample {
            time_ns: 7,
            raw: &[1, 2, 3],
        };
        assert_eq!(parse(RECORD_SAMPLE, &body), Some(sample));
        assert_eq!(parse(RECORD_SAMPLE, &body[..13]), None);
        body = [[1_u64.to_ne_bytes()], [9_u64.to_ne_bytes()]]
            .concat()
            .concat();
        assert_eq!(parse(RECORD_LOST, &body), Some(Record::Lost(9)));
    }
}
