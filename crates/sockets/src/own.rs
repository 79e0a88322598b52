//! `TCP_INFO` and the memory of this process's own socket, by getsockopt(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::info::TcpInfo;
use crate::message::Memory;

/// Larger than any kernel's `struct tcp_info`.
const ROOM: usize = 512;
/// asm-generic/socket.h; the libc crate lacks it.
const SO_MEMINFO: libc::c_int = 55;

/// Reads the socket's state.
///
/// # Errors
/// The errors of `getsockopt`; a structure shorter than any kernel's is `InvalidData`.
pub fn read(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let (bytes, length) = option(socket, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    TcpInfo::parse(&bytes[..length])
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "TCP_INFO is too short"))
}

/// Reads the limits and use of its buffers' memory; `None` before Linux 4.12.
pub fn memory(socket: BorrowedFd<'_>) -> Option<Memory> {
    let (bytes, length) = option(socket, libc::SOL_SOCKET, SO_MEMINFO).ok()?;
    Memory::parse(&bytes[..length])
}

/// The bytes of a socket option, and their number.
fn option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<([u8; ROOM], usize)> {
    let mut bytes = [0_u8; ROOM];
    let mut length = ROOM as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `bytes`, which lives through the call.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((bytes, (length as usize).min(ROOM)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn the_kernel_counts_the_bytes_that_were_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[1; 5000]).unwrap();
        server.read_exact(&mut [0; 5000]).unwrap();
        server.write_all(&[1]).unwrap();
        client.read_exact(&mut [0]).unwrap();
        let info = super::read(client.as_fd()).unwrap();
        // The kernel counts the SYN as one.
        assert!(
            info.bytes_acked()
                .is_none_or(|bytes| (5000..=5001).contains(&bytes)),
            "{info:?}"
        );
        assert!(info.snd_cwnd() > 0 && info.snd_mss() > 500, "{info:?}");
    }

    #[test]
    fn the_kernel_reports_the_use_and_the_limit_of_a_send_buffer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_server, _) = listener.accept().unwrap();
        client.set_nonblocking(true).unwrap();
        while (&client).write(&[1; 65_536]).is_ok() {}
        let memory = super::memory(client.as_fd()).unwrap();
        assert!(memory.send_buffer_bytes > 0, "{memory:?}");
        assert!(
            memory.send_queued_bytes > memory.send_buffer_bytes / 2,
            "{memory:?}"
        );
    }
}
