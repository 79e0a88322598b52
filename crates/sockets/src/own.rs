//! `TCP_INFO` of a socket of one's own, by getsockopt(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::info::TcpInfo;

/// More than any kernel's `struct tcp_info` has.
const ROOM: usize = 512;

/// Reads it.
///
/// # Errors
/// Those of `getsockopt`; a structure shorter than any kernel's is `InvalidData`.
pub fn read(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let mut bytes = [0_u8; ROOM];
    let mut length = ROOM as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `bytes`, which lives through the call.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    TcpInfo::parse(&bytes[..(length as usize).min(ROOM)])
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "TCP_INFO is too short"))
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
}
