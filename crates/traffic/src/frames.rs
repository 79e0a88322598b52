//! Frames of the control channel: messages as bytes, encrypted, in a stream.
//!
//! ```text
//! message   length of the payload, 4 bytes | payload
//! frame     length of the sealed part, 2 bytes | sealed part of a message (Noise transport message)
//! ```
//!
//! Numbers are big-endian. A message begins with a frame, and continues in further ones if it is longer than one holds.
//! Each end numbers its frames; the number is the nonce of its seal, and each direction has a key of its own. A frame
//! can therefore be neither read, nor forged, repeated, omitted, reordered or reflected.

use std::io;
use std::sync::Arc;

use crate::noise::{Cipher, MOST_MESSAGE_BYTES, TAG_BYTES};

const LENGTH_BYTES: usize = 4;
const MOST_PLAIN_BYTES: usize = MOST_MESSAGE_BYTES - TAG_BYTES;
/// Number 0 of each end is the last step of the handshake.
const FIRST_NUMBER: u64 = 1;

/// Seals the messages of one end.
pub struct Sealer {
    cipher: Arc<Cipher>,
    number: u64,
}

impl Sealer {
    pub fn new(cipher: Arc<Cipher>) -> Sealer {
        Sealer {
            cipher,
            number: FIRST_NUMBER,
        }
    }

    /// Encodes a message as frames, as they cross the network.
    ///
    /// # Errors
    /// The payload is longer than its length field can express.
    pub fn seal(&mut self, payload: &[u8]) -> io::Result<Vec<u8>> {
        let length = u32::try_from(payload.len()).map_err(|_| invalid("too long"))?;
        let message = [&length.to_be_bytes(), payload].concat();
        let mut frames = Vec::with_capacity(message.len() + 2 + TAG_BYTES);
        for part in message.chunks(MOST_PLAIN_BYTES) {
            let sealed = self.cipher.seal(self.number, part)?;
            self.number += 1;
            let length = u16::try_from(sealed.len()).expect("a part has a limited length");
            frames.extend_from_slice(&length.to_be_bytes());
            frames.extend_from_slice(&sealed);
        }
        Ok(frames)
    }
}

/// Opens the messages of the other end.
pub struct Opener {
    cipher: Arc<Cipher>,
    number: u64,
    longest: usize,
    /// Bytes of frames that are not complete.
    pending: Vec<u8>,
    /// The message so far, with its length.
    message: Vec<u8>,
}

impl Opener {
    /// Creates an opener that refuses messages with more than `longest` bytes of payload before they arrive.
    pub fn new(cipher: Arc<Cipher>, longest: usize) -> Opener {
        Opener {
            cipher,
            number: FIRST_NUMBER,
            longest,
            pending: Vec::new(),
            message: Vec::new(),
        }
    }

    /// Adds bytes from the network.
    pub fn add(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Returns the payload of the next message; `None` while it is incomplete.
    ///
    /// # Errors
    /// `InvalidData` for a message that is too long, and for a frame that is not the next one of the other end.
    pub fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        while let Some(sealed) = self.next_frame()? {
            let plain = self.cipher.open(self.number, &sealed).ok_or_else(|| {
                invalid(
                    "a frame with a wrong authentication code: it was altered or forged in transit",
                )
            })?;
            self.number += 1;
            if plain.is_empty() {
                return Err(invalid("an empty frame"));
            }
            self.message.extend_from_slice(&plain);
            if self.missing()? == 0 {
                let message = std::mem::take(&mut self.message);
                return Ok(Some(message[LENGTH_BYTES..].to_vec()));
            }
        }
        Ok(None)
    }

    /// Takes the next frame, once it is complete.
    fn next_frame(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some((length, rest)) = self.pending.split_first_chunk::<2>() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes(*length));
        if length > self.missing()? + TAG_BYTES {
            return Err(self.too_long(length));
        }
        let Some(sealed) = rest.get(..length).map(<[u8]>::to_vec) else {
            return Ok(None);
        };
        self.pending.drain(..2 + length);
        Ok(Some(sealed))
    }

    /// The bytes that the message lacks; before its length is known, the most that it may have.
    fn missing(&self) -> io::Result<usize> {
        let Some(length) = self.message.first_chunk::<LENGTH_BYTES>() else {
            return match self.message.len() {
                0 => Ok(LENGTH_BYTES + self.longest),
                _ => Err(invalid("a message without its length")),
            };
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > self.longest {
            return Err(self.too_long(length));
        }
        (LENGTH_BYTES + length)
            .checked_sub(self.message.len())
            .ok_or_else(|| invalid("a message that is longer than it says"))
    }

    fn too_long(&self, length: usize) -> io::Error {
        invalid(&format!(
            "a message or a frame of {length} bytes; at most {} are accepted",
            self.longest
        ))
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::noise;

    const LONGEST: usize = 200_000;

    fn ends() -> (Sealer, Opener, Arc<Cipher>) {
        let (client, responder) = noise::both_ends();
        let (client, responder) = (Arc::new(client), Arc::new(responder));
        (
            Sealer::new(client.clone()),
            Opener::new(responder, LONGEST),
            client,
        )
    }

    fn refused(opener: &mut Opener, bytes: &[u8], expected: &str) {
        opener.add(bytes);
        let error = opener.take().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains(expected), "{error}");
    }

    proptest! {
        #[test]
        fn messages_are_read_back_however_they_are_cut(
            lengths in prop::collection::vec(prop_oneof![0..100_usize, 60_000..LONGEST], 1..5),
            cut in 1..40_000_usize,
        ) {
            let (mut sealer, mut opener, _) = ends();
            let sent: Vec<Vec<u8>> = lengths.iter().map(|&length| vec![length as u8; length]).collect();
            let bytes: Vec<u8> = sent.iter().flat_map(|one| sealer.seal(one).unwrap()).collect();
            let mut received = Vec::new();
            for part in bytes.chunks(cut) {
                opener.add(part);
                while let Some(message) = opener.take().unwrap() {
                    received.push(message);
                }
            }
            prop_assert_eq!(received, sent);
        }

        #[test]
        fn no_bytes_are_a_message_by_chance(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let (_, mut opener, _) = ends();
            opener.add(&bytes);
            prop_assert!(!matches!(opener.take(), Ok(Some(_))));
        }
    }

    #[test]
    fn a_repeated_an_omitted_a_reordered_and_a_reflected_frame_are_refused() {
        let forged = "authentication code";
        let (mut sealer, mut opener, _) = ends();
        let first = sealer.seal(b"first").unwrap();
        opener.add(&first);
        assert_eq!(opener.take().unwrap().as_deref(), Some(&b"first"[..]));
        refused(&mut opener, &first, forged);
        let (mut sealer, mut opener, _) = ends();
        let (_omitted, second) = (sealer.seal(b"one").unwrap(), sealer.seal(b"two").unwrap());
        refused(&mut opener, &second, forged);
        let (mut sealer, _, client) = ends();
        let reflected = sealer.seal(b"mine").unwrap();
        refused(&mut Opener::new(client, LONGEST), &reflected, forged);
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_before_it_arrives() {
        let (mut sealer, mut opener, _) = ends();
        let frames = sealer.seal(&vec![0; LONGEST + 1]).unwrap();
        refused(
            &mut opener,
            &frames[..MOST_MESSAGE_BYTES + 2],
            "at most 200000",
        );
        let (mut sealer, _, _) = ends();
        let (_, responder) = noise::both_ends();
        let frames = sealer.seal(&[0; 101]).unwrap();
        refused(
            &mut Opener::new(Arc::new(responder), 100),
            &frames[..2],
            "at most 100",
        );
    }

    #[test]
    fn messages_that_contradict_their_length_are_refused() {
        for (parts, expected) in [
            (vec![&b"\0\0"[..]], "without its length"),
            (vec![&b""[..]], "an empty frame"),
            (vec![&b"\0\0\0\x02abc"[..]], "longer than it says"),
            // The length of the frame shows it before its seal is opened.
            (vec![&b"\0\0\0\x02a"[..], b"bc"], "at most"),
        ] {
            let (_, mut opener, client) = ends();
            let mut bytes = Vec::new();
            for (number, part) in (FIRST_NUMBER..).zip(parts) {
                let sealed = client.seal(number, part).unwrap();
                bytes.extend((sealed.len() as u16).to_be_bytes());
                bytes.extend(sealed);
            }
            refused(&mut opener, &bytes, expected);
        }
    }
}
