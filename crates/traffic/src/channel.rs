//! The control channel: messages (postcard) in encrypted [`frames`](crate::frames).

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::frames::{Opener, Sealer};
use crate::noise::Cipher;
use crate::timed::Timed;

/// Sends messages.
pub struct Writer {
    stream: TcpStream,
    sealer: Sealer,
    patience: Duration,
}

impl Writer {
    /// Creates a writer. A write fails if the peer does not accept the data within `patience`.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn new(stream: TcpStream, cipher: Arc<Cipher>, patience: Duration) -> io::Result<Writer> {
        stream.set_nodelay(true)?;
        Ok(Writer {
            stream,
            sealer: Sealer::new(cipher),
            patience,
        })
    }

    /// Sends one message.
    ///
    /// # Errors
    /// `TimedOut` if the peer does not accept the data in time, and the errors of the socket. The channel cannot be
    /// used after an error.
    pub fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.send_by(message, Instant::now() + self.patience)
    }

    /// Sends one message, which the peer must accept as a whole before `deadline`. A peer that reads a byte now and
    /// then cannot block the writer for ever.
    ///
    /// # Errors
    /// As of [`Writer::send`].
    pub fn send_by(&mut self, message: &impl Serialize, deadline: Instant) -> io::Result<()> {
        let payload =
            postcard::to_allocvec(message).map_err(|error| invalid(&error.to_string()))?;
        let frames = self.sealer.seal(&payload)?;
        Timed::new(&self.stream, deadline).write_all(&frames)
    }
}

/// Receives messages.
pub struct Reader {
    stream: TcpStream,
    opener: Opener,
}

impl Reader {
    /// Creates a reader. It refuses messages with more than `longest` bytes of payload before reading them.
    pub fn new(stream: TcpStream, cipher: Arc<Cipher>, longest: usize) -> Reader {
        Reader {
            stream,
            opener: Opener::new(cipher, longest),
        }
    }

    /// Returns the next message; `None` if none is complete within `patience`. A partly received message is kept for
    /// the next call.
    ///
    /// # Errors
    /// `UnexpectedEof` if the peer has closed, `InvalidData` for a frame that is too long, forged or not a message, and
    /// the errors of the socket.
    pub fn receive<M: DeserializeOwned>(&mut self, patience: Duration) -> io::Result<Option<M>> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(payload) = self.opener.take()? {
                return decode(&payload).map(Some);
            }
            let mut chunk = [0; 16 << 10];
            match Timed::new(&self.stream, deadline).read(&mut chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.opener.add(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

fn decode<M: DeserializeOwned>(payload: &[u8]) -> io::Result<M> {
    postcard::from_bytes(payload)
        .map_err(|error| invalid(&format!("a frame that holds no valid message: {error}")))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::message::Request;
    use crate::noise;

    const PATIENCE: Duration = Duration::from_secs(120);

    /// A client's writer, the responder's reader, and the connection of the latter.
    fn connected(patience: Duration) -> (Writer, Reader, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        let (near, far) = noise::both_ends();
        let reader = Reader::new(server.try_clone().unwrap(), Arc::new(far), 1000);
        let writer = Writer::new(client, Arc::new(near), patience).unwrap();
        (writer, reader, server)
    }

    #[test]
    fn messages_arrive_in_order_however_they_are_cut_into_segments() {
        let (mut writer, mut reader, _) = connected(PATIENCE);
        for sent_ns in 0..100 {
            writer.send(&Request::Echo { sent_ns }).unwrap();
        }
        for sent_ns in 0..100 {
            assert_eq!(
                reader.receive::<Request>(PATIENCE).unwrap(),
                Some(Request::Echo { sent_ns })
            );
        }
        assert_eq!(reader.receive::<Request>(Duration::ZERO).unwrap(), None);
    }

    #[test]
    fn bytes_that_are_no_frame_and_frames_that_are_no_message_are_refused() {
        let (writer, mut reader, _) = connected(PATIENCE);
        (&writer.stream).write_all(&[0; 64]).unwrap();
        let error = reader.receive::<Request>(PATIENCE).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        let (mut writer, mut reader, _) = connected(PATIENCE);
        writer.send(&[255_u8; 3]).unwrap();
        let error = reader.receive::<Request>(PATIENCE).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    }

    #[test]
    fn a_closed_channel_is_distinguished_from_a_silent_one() {
        let (writer, mut reader, _) = connected(PATIENCE);
        assert_eq!(
            reader.receive::<Request>(Duration::from_millis(1)).unwrap(),
            None
        );
        drop(writer);
        let error = reader.receive::<Request>(PATIENCE).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_peer_that_takes_a_byte_now_and_then_does_not_hold_its_writer() {
        let (mut writer, _, mut server) = connected(Duration::from_millis(600));
        let finished = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = finished.clone();
        let sipping = std::thread::spawn(move || {
            let mut chunk = vec![0; 100_000];
            while !seen.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = server.read(&mut chunk);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        // At the peer's speed, sending this takes ten seconds.
        let error = writer.send(&vec![0_u8; 50_000_000]).unwrap_err();
        finished.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(writer);
        sipping.join().unwrap();
    }
}
