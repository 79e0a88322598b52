//! Packets of an interface, received by a ring of memory that the kernel shares (packet(7), `TPACKET_V2`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// linux/if_packet.h
const TPACKET_V2: libc::c_int = 1;

const RING_BYTES: usize = 32 << 20;
/// Packets that the receiving host has not taken yet, with the kernel's own bytes for each.
const SEND_BUFFER_BYTES: libc::c_int = 32 << 20;
const BLOCK_BYTES: usize = 1 << 20;
/// Header, address and alignment before the frame, and more than an Ethernet header.
const BEFORE_PACKET_BYTES: usize = 128;
const PLACE_OF_ADDRESS: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);

/// A socket of one interface, in the network namespace of the thread that opens it.
pub struct Ring {
    socket: OwnedFd,
    memory: *mut u8,
    slots: usize,
    slot_bytes: usize,
    next: usize,
    dropped: u64,
}

// SAFETY: the memory is the ring's own, and only used through `&mut self`.
unsafe impl Send for Ring {}

impl Ring {
    /// Opens a ring for packets up to an MTU.
    ///
    /// # Errors
    /// Such sockets are not permitted or not supported, or there is no memory.
    pub fn open(interface: u32, mtu_bytes: u32) -> io::Result<Ring> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers; protocol 0 receives nothing until the socket is bound.
        let descriptor = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new.
        let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
        enlarge_send_buffer(&socket);
        set(&socket, libc::PACKET_VERSION, &TPACKET_V2)?;
        set(&socket, libc::PACKET_IGNORE_OUTGOING, &1)?;
        set(&socket, libc::PACKET_QDISC_BYPASS, &1)?;
        let slot_bytes = (mtu_bytes as usize + BEFORE_PACKET_BYTES).next_power_of_two();
        let slots = RING_BYTES / slot_bytes;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: (RING_BYTES / BLOCK_BYTES) as u32,
            tp_frame_size: slot_bytes as u32,
            tp_frame_nr: slots as u32,
        };
        set(&socket, libc::PACKET_RX_RING, &request)?;
        let memory = map(&socket)?;
        bind(&socket, interface)?;
        Ok(Ring {
            socket,
            memory,
            slots,
            slot_bytes,
            next: 0,
            dropped: 0,
        })
    }

    /// Calls `each` for the packets that have arrived, at most `most` of them, with the wall-clock time of their arrival;
    /// returns how many.
    #[inline]
    pub fn receive(&mut self, most: usize, mut each: impl FnMut(i64, &[u8])) -> usize {
        for count in 0..most {
            // SAFETY: `next` is below the number of slots of the mapped ring.
            let slot = unsafe { self.memory.add(self.next * self.slot_bytes) };
            // SAFETY: the header begins with its status, aligned, which the kernel and this thread alone change.
            let status = unsafe { AtomicU32::from_ptr(slot.cast()) };
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return count;
            }
            // SAFETY: the kernel wrote header and packet, and leaves the slot alone until its status changes.
            unsafe { self.read(slot, &mut each) };
            status.store(0, Ordering::Release);
            self.next = (self.next + 1) % self.slots;
        }
        most
    }

    /// # Safety
    /// The slot belongs to the program, and has a header.
    unsafe fn read(&self, slot: *mut u8, each: &mut impl FnMut(i64, &[u8])) {
        // SAFETY: as above; both structures are aligned to 16 bytes.
        let (header, address) = unsafe {
            (
                &*slot.cast::<libc::tpacket2_hdr>(),
                &*slot.add(PLACE_OF_ADDRESS).cast::<libc::sockaddr_ll>(),
            )
        };
        if ![libc::PACKET_HOST, libc::PACKET_OTHERHOST].contains(&address.sll_pkttype) {
            return;
        }
        let (start, length) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        if header.tp_len != header.tp_snaplen || start + length > self.slot_bytes {
            return;
        }
        // SAFETY: within the slot.
        let frame = unsafe { std::slice::from_raw_parts(slot.add(start), length) };
        each(
            i64::from(header.tp_sec) * 1_000_000_000 + i64::from(header.tp_nsec),
            frame,
        );
    }

    /// The same interface, for sending by another thread.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn outlet(&self) -> io::Result<Outlet> {
        Ok(Outlet {
            socket: self.socket.try_clone()?,
        })
    }

    /// Packets that found the ring full, so far.
    pub fn dropped(&mut self) -> u64 {
        let mut statistics = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the structure has this length. Reading resets the counters.
        let done = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        };
        if done == 0 {
            self.dropped += u64::from(statistics.tp_drops);
        }
        self.dropped
    }
}

/// An interface for sending.
pub struct Outlet {
    socket: OwnedFd,
}

/// The fate of a frame that was handed to the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    Taken,
    /// The receiving host has not taken enough of the earlier ones: the socket's buffer is full, or the kernel's queue
    /// of received packets (`net.core.netdev_max_backlog`).
    NoRoom,
    /// For another reason.
    Refused,
}

impl Outlet {
    /// Hands a frame to the interface.
    #[inline]
    pub fn send(&self, frame: &[u8]) -> Given {
        // SAFETY: the frame has this length.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                libc::MSG_DONTWAIT,
            )
        };
        match sent < 0 {
            false => Given::Taken,
            true => match io::Error::last_os_error().raw_os_error() {
                Some(libc::ENOBUFS | libc::EAGAIN) => Given::NoRoom,
                _ => Given::Refused,
            },
        }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped with this length by `map`.
        unsafe { libc::munmap(self.memory.cast(), RING_BYTES) };
    }
}

/// As far as the user may.
fn enlarge_send_buffer(socket: &OwnedFd) {
    for option in [libc::SO_SNDBUF, libc::SO_SNDBUFFORCE] {
        let _ = set_of(libc::SOL_SOCKET, socket, option, &SEND_BUFFER_BYTES);
    }
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    set_of(libc::SOL_PACKET, socket, option, value)
}

fn set_of<T>(
    level: libc::c_int,
    socket: &OwnedFd,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the value has this length.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    match done < 0 {
        true => Err(io::Error::last_os_error()),
        false => Ok(()),
    }
}

fn map(socket: &OwnedFd) -> io::Result<*mut u8> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new mapping of the ring, which has this length.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            RING_BYTES,
            protection,
            flags,
            socket.as_raw_fd(),
            0,
        )
    };
    match memory == libc::MAP_FAILED {
        true => Err(io::Error::last_os_error()),
        false => Ok(memory.cast()),
    }
}

fn bind(socket: &OwnedFd, interface: u32) -> io::Result<()> {
    // SAFETY: all zeros is a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface as i32;
    // SAFETY: the address has this length.
    let done = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    match done < 0 {
        true => Err(io::Error::last_os_error()),
        false => Ok(()),
    }
}
