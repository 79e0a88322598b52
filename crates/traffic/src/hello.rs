//! The first bytes of every TCP connection to a responder.
//!
//! ```text
//! client    -> responder   hello, 96 bytes, for a control channel:
//!                              magic 8, purpose 1 (0), mode 1, zero 6, name of the secret 32, opening 48
//!                          for the data of a flow:
//!                              magic 8, purpose 1 (1), zero 3, flow 4, session 8, zero 24, opening 48
//! responder -> client      hello, 64 bytes: magic 8, greeting 1, zero 7, opening 48
//! client    -> responder   proof, 16 bytes (control) or 32 bytes (data)
//! responder -> client      answer, 49 bytes (control) or 33 bytes (data)
//! ```
//!
//! Numbers are big-endian, names and openings padded with zeros. A secret without a name has an empty one. On a control
//! channel the openings are the two messages of a [`noise`](crate::noise) handshake, of which the first [`BOUND_BYTES`]
//! bytes of the client's hello are the prologue. The proof is an empty message of the channel, the answer a message
//! with a status and the seed of the session's keys.
//!
//! Connections for a flow's data prove that they know a key of their session: the openings are nonces of 32 bytes, the
//! proof is a MAC over both hellos, and the answer is a status and a MAC.
//!
//! The first hello of each version of the protocol has 96 bytes, and the answer of each begins with its own magic, so
//! that two ends of different versions can say so.

use crate::auth::Bytes32;
use crate::name::{NAME_BYTES, Name};
use crate::noise::{Mode, SECOND_BYTES, TAG_BYTES};

pub const CLIENT_HELLO_BYTES: usize = 96;
pub const RESPONDER_HELLO_BYTES: usize = 64;
/// The beginning of the client's hello that the handshake authenticates.
pub const BOUND_BYTES: usize = PLACE_OF_NAME + NAME_BYTES;
/// Of a control channel.
pub const PROOF_BYTES: usize = TAG_BYTES;
/// Of a control channel.
pub const ANSWER_BYTES: usize = 33 + TAG_BYTES;
/// Of a connection for data.
pub const DATA_PROOF_BYTES: usize = 32;
/// Of a connection for data.
pub const DATA_ANSWER_BYTES: usize = 33;

const PLACE_OF_NAME: usize = 16;
const CLIENT_OPENING_BYTES: usize = CLIENT_HELLO_BYTES - BOUND_BYTES;

/// The version of the protocol.
pub const VERSION: u8 = 5;
const NAME: &[u8; 7] = b"whydrop";

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The control channel of a new session.
    Control(Mode),
    /// The data of one flow of a session.
    Data { session: u64, flow: u32 },
}

impl Purpose {
    /// The part of the opening that is not padding.
    fn opening_bytes(self) -> usize {
        match self {
            Purpose::Control(mode) => mode.first_bytes(),
            Purpose::Data { .. } => size_of::<Bytes32>(),
        }
    }
}

/// The client's hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHello {
    pub purpose: Purpose,
    /// Without padding.
    pub opening: Vec<u8>,
}

/// The responder's hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponderHello {
    pub greeting: Greeting,
    pub opening: [u8; SECOND_BYTES],
}

/// A responder's first answer, before either end has proved anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Greeting {
    /// The client may prove that it knows the key.
    Proceed = 0,
    /// The client has no secret, and the responder requires one.
    NeedsSecret = 1,
    /// The client has a secret, and the responder is open.
    IsOpen = 2,
    /// The responder computes no more handshakes now.
    Crowded = 3,
    /// The client uses another version of the protocol.
    OtherVersion = 4,
}

/// The responder's answer to a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    Accepted = 0,
    /// The proof is wrong: the session is over. (A client with another secret finds out by itself.)
    WrongProof = 1,
    /// The proof is right, but the responder accepts no more sessions (or connections) now.
    Busy = 2,
}

/// Why the first bytes of a connection are invalid.
#[derive(Debug, PartialEq, Eq)]
pub enum HelloError {
    /// Another protocol.
    Foreign,
    /// Another version of this protocol.
    Version(u8),
    /// The magic number is right, the rest is not.
    Malformed,
}

/// The first bytes of a hello of this version.
fn magic(version: u8) -> [u8; 8] {
    let mut bytes = [version; 8];
    bytes[..7].copy_from_slice(NAME);
    bytes
}

/// The hello of a client of an earlier version, which such a responder answers with its own.
pub fn hello_of_version(version: u8) -> [u8; CLIENT_HELLO_BYTES] {
    let mut bytes = [0; CLIENT_HELLO_BYTES];
    bytes[..8].copy_from_slice(&magic(version));
    bytes
}

/// The beginning of a client's hello, which says what the connection is for; the handshake authenticates it.
pub fn beginning(purpose: Purpose) -> [u8; BOUND_BYTES] {
    let mut bytes = [0; BOUND_BYTES];
    bytes[..8].copy_from_slice(&magic(VERSION));
    match purpose {
        Purpose::Control(Mode::Open) => {}
        Purpose::Control(Mode::Secret(name)) => {
            bytes[9] = 1;
            bytes[PLACE_OF_NAME..].copy_from_slice(name.bytes());
        }
        Purpose::Data { session, flow } => {
            bytes[8] = 1;
            bytes[12..16].copy_from_slice(&flow.to_be_bytes());
            bytes[16..24].copy_from_slice(&session.to_be_bytes());
        }
    }
    bytes
}

impl ClientHello {
    pub fn encode(&self) -> [u8; CLIENT_HELLO_BYTES] {
        let mut bytes = [0; CLIENT_HELLO_BYTES];
        bytes[..BOUND_BYTES].copy_from_slice(&beginning(self.purpose));
        bytes[BOUND_BYTES..][..self.opening.len()].copy_from_slice(&self.opening);
        bytes
    }

    /// # Errors
    /// Why the bytes are not a client's hello.
    pub fn decode(bytes: &[u8; CLIENT_HELLO_BYTES]) -> Result<ClientHello, HelloError> {
        check_magic(bytes)?;
        let (start, opening) = bytes.split_at(BOUND_BYTES);
        let flow = u32::from_be_bytes(array(&start[12..16]));
        let session = u64::from_be_bytes(array(&start[16..24]));
        let purpose = match start[8..10] {
            [0, 0] => Purpose::Control(Mode::Open),
            [0, 1] => {
                let name = Name::decode(array(&start[PLACE_OF_NAME..]));
                Purpose::Control(Mode::Secret(name.ok_or(HelloError::Malformed)?))
            }
            [1, 0] => Purpose::Data { session, flow },
            _ => return Err(HelloError::Malformed),
        };
        let (opening, padding) = opening.split_at(purpose.opening_bytes());
        // Every byte before the opening has one meaning or is zero.
        if beginning(purpose) != start || padding != &[0; CLIENT_OPENING_BYTES][..padding.len()] {
            return Err(HelloError::Malformed);
        }
        Ok(ClientHello {
            purpose,
            opening: opening.to_vec(),
        })
    }
}

impl ResponderHello {
    /// A hello that ends the connection.
    pub fn refusal(greeting: Greeting) -> ResponderHello {
        ResponderHello {
            greeting,
            opening: [0; SECOND_BYTES],
        }
    }

    pub fn encode(&self) -> [u8; RESPONDER_HELLO_BYTES] {
        let mut bytes = [0; RESPONDER_HELLO_BYTES];
        bytes[..8].copy_from_slice(&magic(VERSION));
        bytes[8] = self.greeting as u8;
        bytes[16..].copy_from_slice(&self.opening);
        bytes
    }

    /// # Errors
    /// Why the bytes are not a responder's hello.
    pub fn decode(bytes: &[u8; RESPONDER_HELLO_BYTES]) -> Result<ResponderHello, HelloError> {
        check_magic(bytes)?;
        let greeting = match bytes[8] {
            0 => Greeting::Proceed,
            1 => Greeting::NeedsSecret,
            2 => Greeting::IsOpen,
            3 => Greeting::Crowded,
            4 => Greeting::OtherVersion,
            _ => return Err(HelloError::Malformed),
        };
        Ok(ResponderHello {
            greeting,
            opening: array(&bytes[16..]),
        })
    }
}

/// Checks that the first bytes of a connection may begin a hello of this protocol.
///
/// # Errors
/// [`HelloError::Foreign`] or [`HelloError::Version`] at the first wrong byte.
pub fn check_magic(bytes: &[u8]) -> Result<(), HelloError> {
    let magic = magic(VERSION);
    let seen = &bytes[..bytes.len().min(magic.len())];
    if seen == &magic[..seen.len()] {
        return Ok(());
    }
    Err(match seen.strip_prefix(NAME) {
        Some(&[version]) => HelloError::Version(version),
        _ => HelloError::Foreign,
    })
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the slice has the array's length")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_hello_is_read_back_as_it_was_written(
            session: u64, flow: u32, opening: [u8; SECOND_BYTES], name in "[-_.A-Za-z0-9]{1,32}", kind in 0..4,
        ) {
            let purpose = match kind {
                0 => Purpose::Data { session, flow },
                1 => Purpose::Control(Mode::Open),
                2 => Purpose::Control(Mode::Secret(Name::default())),
                _ => Purpose::Control(Mode::Secret(Name::new(&name).unwrap())),
            };
            let opening = opening[..purpose.opening_bytes()].to_vec();
            let hello = ClientHello { purpose, opening };
            prop_assert_eq!(ClientHello::decode(&hello.encode()), Ok(hello));
        }

        #[test]
        fn no_bytes_make_the_decoders_panic(
            bytes in prop::collection::vec(any::<u8>(), CLIENT_HELLO_BYTES), is_ours: bool, cut in 0..20_usize,
        ) {
            let mut bytes: [u8; CLIENT_HELLO_BYTES] = array(&bytes);
            if is_ours {
                bytes[..8].copy_from_slice(&magic(VERSION));
                bytes[8] &= 3;
            }
            let _ = ClientHello::decode(&bytes);
            let _ = ResponderHello::decode(&array(&bytes[..RESPONDER_HELLO_BYTES]));
            let _ = check_magic(&bytes[..cut]);
        }
    }

    #[test]
    fn a_connection_is_foreign_at_its_first_wrong_byte() {
        assert_eq!(check_magic(b"GET / HTTP/1.1"), Err(HelloError::Foreign));
        assert_eq!(check_magic(b"w"), Ok(()));
        assert_eq!(check_magic(b"whydrop\x01"), Err(HelloError::Version(1)));
    }

    #[test]
    fn bytes_without_a_meaning_must_be_zero() {
        let hello = ClientHello {
            purpose: Purpose::Control(Mode::Open),
            opening: vec![7; Mode::Open.first_bytes()],
        };
        let bytes = hello.encode();
        for place in (10..48).chain(48 + 32..CLIENT_HELLO_BYTES) {
            let mut changed = bytes;
            changed[place] = 1;
            assert_eq!(ClientHello::decode(&changed), Err(HelloError::Malformed));
        }
    }
}
