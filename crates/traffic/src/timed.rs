//! Reads and writes of a connection that end at a time, however slowly the peer reads or writes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A connection until a deadline. A timeout of the socket limits one call; a peer with a byte now and then would reset
/// it for ever.
pub struct Timed<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl<'a> Timed<'a> {
    pub fn new(stream: &'a TcpStream, deadline: Instant) -> Timed<'a> {
        Timed { stream, deadline }
    }

    /// The time left, for a timeout of the socket, which must not be zero.
    fn left(&self, late: &str) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, late));
        }
        Ok(Some(left.max(Duration::from_millis(1))))
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = self.left("the peer does not send the data that is awaited")?;
            self.stream.set_read_timeout(left)?;
            match self.stream.read(into) {
                Err(error) if is_timeout(&error) => {}
                other => return other,
            }
        }
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        loop {
            let left = self.left("the peer does not read the data that is sent to it")?;
            self.stream.set_write_timeout(left)?;
            match self.stream.write(from) {
                Err(error) if is_timeout(&error) => {}
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// True if a read or a write ended only because its timeout expired.
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn a_peer_that_sends_a_byte_now_and_then_does_not_hold_its_reader() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut slow = listener.accept().unwrap().0;
        // Until its peer closes the connection.
        let slow = thread::spawn(move || {
            while slow.write_all(&[0]).is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let deadline = Instant::now() + Duration::from_millis(300);
        // At the peer's speed, this takes hours.
        let error = Timed::new(&stream, deadline)
            .read_exact(&mut vec![0; 1_000_000])
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(stream);
        slow.join().unwrap();
    }
}
