//! The socket over which the kernel answers, netlink(7): little more than system calls.

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

/// The kernel fills no more than 32 KiB at once.
const ROOM: usize = 64 * 1024;
/// The kernel answers at once; what takes longer never comes.
const PATIENCE: Duration = Duration::from_secs(10);
/// Sockets that close between two polls, at some 1 kB each.
const DESTROYED_ROOM: usize = 8 * 1024 * 1024;

/// `SKNLGRP_INET_TCP_DESTROY`, `SKNLGRP_INET6_TCP_DESTROY` (linux/sock_diag.h), one bit a group.
const DESTROYED: u32 = 1 << 0 | 1 << 2;

/// How a list of sockets ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Sockets came or went meanwhile, so that one may be missing, or told twice.
    pub interrupted: bool,
}

pub struct Netlink {
    descriptor: OwnedFd,
    buffer: Vec<u8>,
}

impl Netlink {
    /// To ask for lists of sockets.
    ///
    /// # Errors
    /// Where there are no such sockets (seccomp, a kernel without them), or no descriptors left.
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

    /// To be told of TCP sockets that come to their end, with all that they counted.
    ///
    /// # Errors
    /// As [`Netlink::open`]; or where the kernel does not tell of them.
    pub fn open_for_destroyed() -> io::Result<Netlink> {
        let opened = Netlink::open()?;
        // More than the system's limit is for administrators; what it gives is taken.
        if sockopt::set_socket_recv_buffer_size_force(&opened.descriptor, DESTROYED_ROOM).is_err() {
            sockopt::set_socket_recv_buffer_size(&opened.descriptor, DESTROYED_ROOM)?;
        }
        net::bind(&opened.descriptor, &SocketAddrNetlink::new(0, DESTROYED))?;
        Ok(opened)
    }

    /// Asks, and calls `each` for the message about every socket ([`Socket::parse`]), with the moment (since boot) at which the kernel looked at it: it
    /// makes each piece of the answer while the one before is handed out.
    ///
    /// # Errors
    /// The kernel refuses the question, or there is no answer.
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

    /// Calls `each` for every socket that the kernel has told of; whether some were lost, because nobody listened in
    /// time.
    ///
    /// # Errors
    /// Those of recv(2).
    pub fn told(&mut self, mut each: impl FnMut(&Socket<'_>)) -> io::Result<bool> {
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
