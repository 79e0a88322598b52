//! The netlink(7) socket over which the kernel answers: a thin layer over system calls.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, sockopt,
};

use crate::clock::since_boot_ns;
use crate::message::{Message, Socket, messages};

/// The kernel writes at most 32 KiB at once.
const ROOM: usize = 64 * 1024;
/// The kernel answers immediately; a longer wait means that no answer will arrive.
const PATIENCE: Duration = Duration::from_secs(10);
/// Room for reports of sockets that close between two polls, at about 1 kB each.
const DESTROYED_ROOM: usize = 8 * 1024 * 1024;

/// `SKNLGRP_INET_TCP_DESTROY`, `SKNLGRP_INET6_TCP_DESTROY` (linux/sock_diag.h), one bit a group.
const DESTROYED: u32 = 1 << 0 | 1 << 2;

/// How a list of sockets ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Sockets were created or closed during the listing, so one may be missing or listed twice.
    pub interrupted: bool,
}

pub struct Netlink {
    descriptor: OwnedFd,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens a socket for requesting lists of sockets.
    ///
    /// # Errors
    /// Such sockets are not permitted (seccomp) or not supported by the kernel, or no descriptors are left.
    pub fn open() -> io::Result<Netlink> {
        let descriptor = net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::SOCK_DIAG),
        )?;
        sockopt::set_socket_timeout(&descriptor, sockopt::Timeout::Recv, Some(PATIENCE))?;
        Ok(Netlink {
            descriptor,
            buffer: vec![0; ROOM],
        })
    }

    /// Opens a socket that receives the final counters of closing TCP sockets.
    ///
    /// # Errors
    /// As for [`Netlink::open`]; or the kernel does not report closing sockets.
    pub fn open_for_destroyed() -> io::Result<Netlink> {
        let opened = Netlink::open()?;
        // Exceeding the system's limit needs privileges; without them the limit applies.
        if sockopt::set_socket_recv_buffer_size_force(&opened.descriptor, DESTROYED_ROOM).is_err() {
            sockopt::set_socket_recv_buffer_size(&opened.descriptor, DESTROYED_ROOM)?;
        }
        net::bind(&opened.descriptor, &SocketAddrNetlink::new(0, DESTROYED))?;
        Ok(opened)
    }

    /// Sends a request, and calls `each` for the message about every socket ([`Socket::parse`]), with the time (since
    /// boot) at which the kernel read it: the kernel prepares each part of the answer while the previous one is
    /// processed.
    ///
    /// # Errors
    /// The kernel refuses the request, or there is no answer.
    pub fn dump(
        &mut self,
        question: &[u8],
        mut each: impl FnMut(&[u8], i64),
    ) -> io::Result<Listed> {
        net::send(&self.descriptor, question, SendFlags::empty())?;
        let mut polled = since_boot_ns();
        loop {
            let (length, handed_out) = self.receive(RecvFlags::empty())?;
            let mut done = None;
            for message in messages(&self.buffer[..length]) {
                match message {
                    Message::Socket(payload) => each(payload, polled),
                    Message::Done { interrupted } => done = Some(Listed { interrupted }),
                    Message::Refused { errno } => return Err(io::Error::from_raw_os_error(errno)),
                    Message::Other => {}
                }
            }
            if let Some(listed) = done {
                return Ok(listed);
            }
            polled = handed_out;
        }
    }

    /// Calls `each` for every closed socket that the kernel has reported; returns whether some were lost because they
    /// were not read in time.
    ///
    /// # Errors
    /// The errors of recv(2).
    pub fn closed(&mut self, mut each: impl FnMut(&Socket<'_>)) -> io::Result<bool> {
        let mut lost = false;
        loop {
            let length = match self.receive(RecvFlags::DONTWAIT) {
                Ok((length, _)) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(lost),
                Err(error) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => {
                    lost = true;
                    continue;
                }
                Err(error) => return Err(error),
            };
            for message in messages(&self.buffer[..length]) {
                if let Message::Socket(payload) = message
                    && let Some(socket) = Socket::parse(payload)
                {
                    each(&socket);
                }
            }
        }
    }

    fn receive(&mut self, flags: RecvFlags) -> io::Result<(usize, i64)> {
        loop {
            match net::recv(&self.descriptor, &mut self.buffer[..], flags) {
                Ok((length, _)) => return Ok((length, since_boot_ns())),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
