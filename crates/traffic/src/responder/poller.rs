//! epoll(7), as little of it as the reception needs.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Watches descriptors for something to read. A descriptor that is closed is forgotten by the kernel.
pub struct Poller(OwnedFd);

const AT_ONCE: usize = 256;

impl Poller {
    /// # Errors
    /// Those of `epoll_create1`.
    pub fn new() -> io::Result<Poller> {
        // SAFETY: takes no pointers; the descriptor that it returns is ours alone.
        let descriptor = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor, owned by nobody else.
        Ok(Poller(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Reports `key` whenever something can be read.
    ///
    /// # Errors
    /// Those of `epoll_ctl`.
    pub fn add(&self, descriptor: &impl AsRawFd, key: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: key,
        };
        self.control(libc::EPOLL_CTL_ADD, descriptor, &mut event)
    }

    /// Reports nothing more of a descriptor that lives on.
    ///
    /// # Errors
    /// Those of `epoll_ctl`.
    pub fn remove(&self, descriptor: &impl AsRawFd) -> io::Result<()> {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        self.control(libc::EPOLL_CTL_DEL, descriptor, &mut event)
    }

    fn control(
        &self,
        what: libc::c_int,
        descriptor: &impl AsRawFd,
        event: &mut libc::epoll_event,
    ) -> io::Result<()> {
        // SAFETY: `event` lives through the call.
        let status =
            unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, descriptor.as_raw_fd(), event) };
        if status == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// The keys of what can be read; none after `patience_ms`.
    pub fn wait(&self, patience_ms: i32) -> Vec<u64> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; AT_ONCE];
        // SAFETY: the kernel writes at most AT_ONCE events.
        let count = unsafe {
            libc::epoll_wait(
                self.0.as_raw_fd(),
                events.as_mut_ptr(),
                AT_ONCE as i32,
                patience_ms,
            )
        };
        events[..usize::try_from(count).unwrap_or(0)]
            .iter()
            .map(|event| event.u64)
            .collect()
    }
}
