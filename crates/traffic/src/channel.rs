//! The control channel: messages in frames, each authenticated with the session's key and its sequence number.
//!
//! ```text
//! length of the payload, 4 bytes big-endian | payload (postcard) | HMAC-SHA256 cut to 16 bytes
//! ```
//!
//! The authentication code covers the direction, the frame's number and the payload, so a frame can be neither forged,
//! nor repeated, reordered or reflected. The contents are not encrypted.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::auth::{self, Bytes32};

const MAC_BYTES: usize = 16;

/// Which end wrote a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Client,
    Responder,
}

impl End {
    fn label(self) -> &'static [u8] {
        match self {
            End::Client => b"from client",
            End::Responder => b"from responder",
        }
    }
}

fn seal(key: &Bytes32, end: End, number: u64, payload: &[u8]) -> [u8; MAC_BYTES] {
    let mac = auth::mac(key, &[end.label(), &number.to_be_bytes(), payload]);
    mac[..MAC_BYTES]
        .try_into()
        .expect("a MAC is longer than what is kept of it")
}

/// Encodes a payload as a frame, as it crosses the network.
///
/// # Errors
/// The payload is longer than the length field can express.
pub fn frame(key: &Bytes32, end: End, number: u64, payload: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(payload.len()).map_err(|_| invalid("too long"))?;
    let mut frame = Vec::with_capacity(4 + payload.len() + MAC_BYTES);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(payload);
    frame.extend_from_slice(&seal(key, end, number, payload));
    Ok(frame)
}

/// Decodes the frame that these bytes begin with, and returns its payload; `None` while the frame is incomplete.
///
/// # Errors
/// `InvalidData` for a frame with more than `longest` bytes of payload, or one that is not frame `number` from `from`,
/// authenticated with this key.
pub fn open_frame<'a>(
    bytes: &'a [u8],
    key: &Bytes32,
    from: End,
    number: u64,
    longest: usize,
) -> io::Result<Option<&'a [u8]>> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length > longest {
        return Err(invalid(&format!(
            "a frame of {length} bytes; at most {longest} are accepted"
        )));
    }
    let Some(mac) = rest.get(length..length + MAC_BYTES) else {
        return Ok(None);
    };
    let payload = &rest[..length];
    if !auth::equal(mac, &seal(key, from, number, payload)) {
        return Err(invalid(
            "a frame with a wrong authentication code: it was altered or forged in transit",
        ));
    }
    Ok(Some(payload))
}

/// Sends messages.
pub struct Writer {
    stream: TcpStream,
    key: Bytes32,
    end: End,
    number: u64,
    patience: Duration,
}

impl Writer {
    /// Creates a writer for `end`. A write fails if the peer does not accept the data within `patience`.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn new(
        stream: TcpStream,
        key: Bytes32,
        end: End,
        patience: Duration,
    ) -> io::Result<Writer> {
        stream.set_nodelay(true)?;
        Ok(Writer {
            stream,
            key,
            end,
            number: 0,
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
        let frame = frame(&self.key, self.end, self.number, &payload)?;
        self.number += 1;
        self.write_by(&frame, deadline)
    }
}

impl Writer {
    fn write_by(&mut self, mut rest: &[u8], deadline: Instant) -> io::Result<()> {
        while !rest.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the peer does not read the data that is sent to it",
                ));
            }
            self.stream
                .set_write_timeout(Some(left.max(Duration::from_millis(1))))?;
            match self.stream.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => rest = &rest[count..],
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Receives messages.
pub struct Reader {
    stream: TcpStream,
    key: Bytes32,
    from: End,
    number: u64,
    longest: usize,
    pending: Vec<u8>,
}

impl Reader {
    /// Creates a reader of frames from `from`. It refuses frames with more than `longest` bytes of payload before
    /// reading them.
    pub fn new(stream: TcpStream, key: Bytes32, from: End, longest: usize) -> Reader {
        Reader {
            stream,
            key,
            from,
            number: 0,
            longest,
            pending: Vec::new(),
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
            if let Some(message) = self.decode()? {
                return Ok(Some(message));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.stream
                .set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            let mut chunk = [0; 16 << 10];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.pending.extend_from_slice(&chunk[..count]),
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn decode<M: DeserializeOwned>(&mut self) -> io::Result<Option<M>> {
        let found = open_frame(
            &self.pending,
            &self.key,
            self.from,
            self.number,
            self.longest,
        )?;
        let Some(payload) = found else {
            return Ok(None);
        };
        let message = postcard::from_bytes(payload)
            .map_err(|error| invalid(&format!("a frame that holds no valid message: {error}")))?;
        self.number += 1;
        let length = 4 + payload.len() + MAC_BYTES;
        self.pending.drain(..length);
        Ok(Some(message))
    }
}

/// True if a read or a write ended only because its timeout expired.
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::message::Request;

    const KEY: Bytes32 = [7; 32];
    const PATIENCE: Duration = Duration::from_secs(120);

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn reader(stream: TcpStream) -> Reader {
        Reader::new(stream, KEY, End::Client, 1000)
    }

    #[test]
    fn messages_arrive_in_order_however_they_are_cut_into_segments() {
        let (client, server) = connected();
        let mut writer = Writer::new(client, KEY, End::Client, PATIENCE).unwrap();
        let mut reader = reader(server);
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
    fn a_repeated_a_reflected_and_an_oversized_frame_are_refused() {
        let payload = postcard::to_allocvec(&Request::Finish).unwrap();
        let frame = |end, number| {
            let length = (payload.len() as u32).to_be_bytes();
            [&length[..], &payload, &seal(&KEY, end, number, &payload)].concat()
        };
        let twice = [frame(End::Client, 0), frame(End::Client, 0)].concat();
        for (bytes, good) in [
            (twice, 1),
            (frame(End::Responder, 0), 0),
            (vec![0xff; 64], 0),
        ] {
            let (mut client, server) = connected();
            client.write_all(&bytes).unwrap();
            let mut reader = reader(server);
            for _ in 0..good {
                assert_eq!(
                    reader.receive::<Request>(PATIENCE).unwrap(),
                    Some(Request::Finish)
                );
            }
            let error = reader.receive::<Request>(PATIENCE).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        }
    }

    #[test]
    fn a_closed_channel_is_distinguished_from_a_silent_one() {
        let (client, server) = connected();
        let mut reader = reader(server);
        assert_eq!(
            reader.receive::<Request>(Duration::from_millis(1)).unwrap(),
            None
        );
        drop(client);
        let error = reader.receive::<Request>(PATIENCE).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
    #[test]
    fn a_peer_that_takes_a_byte_now_and_then_does_not_hold_its_writer() {
        let (client, mut server) = connected();
        let mut writer = Writer::new(client, KEY, End::Client, Duration::from_millis(600)).unwrap();
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
