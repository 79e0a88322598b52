//! Synthetic TCP packets, and the memory and time that they cost.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};

use whydrop_capture::{Network, Packet, TcpFlags, TcpOptions, TcpSegment, Transport};
use whydrop_tcp::{Endpoint, Tracker};

pub const ACK: u16 = TcpFlags::ACK;
pub const SYN: u16 = TcpFlags::SYN;
pub const FIN: u16 = TcpFlags::FIN;

/// One of up to 2^32 clients of one server.
#[derive(Clone, Copy, PartialEq)]
pub struct Client(pub u32);

/// The remaining fields of a packet.
#[derive(Clone, Copy, Default)]
pub struct Fields<'a> {
    pub time_ns: i64,
    pub flags: u16,
    pub sequence: u32,
    pub acknowledgment: u32,
    pub payload_bytes: u32,
    pub mss: Option<u16>,
    pub sack: &'a [(u32, u32)],
}

impl Client {
    /// 2^16 addresses with 2^16 ports each; consecutive numbers have different addresses.
    fn endpoint(self) -> (IpAddr, u16) {
        let address = Ipv4Addr::from(0x0a00_0000 | (self.0 & 0xffff));
        (IpAddr::V4(address), (self.0 >> 16) as u16)
    }

    /// The client at an endpoint; `None` for the server.
    pub fn of(endpoint: Endpoint) -> Option<Self> {
        let IpAddr::V4(address) = endpoint.address else {
            return None;
        };
        let host = u32::from(address).checked_sub(0x0a00_0000)?;
        (host <= 0xffff).then(|| Self(u32::from(endpoint.port) << 16 | host))
    }

    pub fn sends(self, tracker: &mut Tracker, fields: Fields) {
        self.push(tracker, false, fields);
    }

    pub fn gets(self, tracker: &mut Tracker, fields: Fields) {
        self.push(tracker, true, fields);
    }

    fn push(self, tracker: &mut Tracker, from_server: bool, fields: Fields) {
        let client = self.endpoint();
        let server = (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 443);
        let (from, to) = if from_server {
            (server, client)
        } else {
            (client, server)
        };
        let mut options = TcpOptions {
            mss: fields.mss,
            ..TcpOptions::default()
        };
        for (slot, block) in options.sack.iter_mut().zip(fields.sack) {
            *slot = *block;
            options.sack_blocks += 1;
        }
        let ip_bytes = 40 + fields.payload_bytes;
        tracker.push(&Packet {
            index: 0,
            time_ns: fields.time_ns,
            interface: 0,
            wire_bytes: ip_bytes + 14,
            captured_bytes: 54,
            network: Some(Network {
                source: from.0,
                destination: to.0,
                ip_bytes,
                identification: Some(0),
                ttl: 64,
                dscp: 0,
                ecn: 0,
                tunnel_depth: 0,
            }),
            transport: Transport::Tcp(TcpSegment {
                source_port: from.1,
                destination_port: to.1,
                sequence: fields.sequence,
                acknowledgment: fields.acknowledgment,
                flags: TcpFlags(fields.flags),
                window: 65_000,
                payload_bytes: fields.payload_bytes,
                payload: &[],
                options,
            }),
        });
    }
}

/// Pseudo-random numbers (xorshift, Marsaglia 2003), the same in every run.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(bound)) >> 32) as u32
    }
}

thread_local! {
    /// The bytes that this thread has allocated and not freed, and their maximum so far.
    static ALLOCATED: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
}

/// The system's allocator with counters for each thread: a test has its own thread, and others run in parallel.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: i64) {
    // The counters of a thread that ends may be gone.
    let _ = ALLOCATED.try_with(|allocated| {
        let now = allocated.get().0 + bytes;
        allocated.set((now, allocated.get().1.max(now)));
    });
}

// SAFETY: every call is passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // The kernel moves large blocks instead of copying them.
        count(size as i64 - layout.size() as i64);
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        unsafe { System.dealloc(memory, layout) }
    }
}

/// The most memory that this thread has allocated at once so far, bytes.
pub fn peak_memory_bytes() -> Option<u64> {
    u64::try_from(ALLOCATED.get().1).ok()
}

/// The processor time of this thread, ns, regardless of other threads; `None` if the system does not report it.
fn processor_ns() -> Option<u64> {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    schedule.split_whitespace().next()?.parse().ok()
}

/// Runs this work at one size and at four times that size. Quadratic work takes sixteen times as long, and would not
/// finish at relevant sizes; larger tables alone, which exceed the caches, account for a factor of about six.
pub fn grows_linearly(few: u32, work: impl Fn(u32)) {
    let time_ns = |size| {
        let before_ns = processor_ns();
        work(size);
        Some(processor_ns()? - before_ns?)
    };
    let (few_ns, many_ns) = (time_ns(few), time_ns(4 * few));
    if let (Some(few_ns), Some(many_ns)) = (few_ns, many_ns) {
        assert!(
            many_ns < 10 * few_ns + 100_000_000,
            "{few_ns} ns for {few}, {many_ns} ns for four times as many"
        );
    }
}
