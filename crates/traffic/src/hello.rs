//! The first bytes of every TCP connection to a responder, and the mutual authentication of both ends.
//!
//! ```text
//! client    -> responder   hello, 96 bytes: magic 8, purpose 1, zero 3, flow 4, session 8, nonce 32, zero 40
//! responder -> client      hello, 48 bytes: magic 8, mode 1, zero 7, nonce 32
//! client    -> responder   proof, 32 bytes
//! responder -> client      answer, 33 bytes: status 1, proof 32 (zeros unless the status is 0)
//! ```
//!
//! Numbers are big-endian. A responder that requires a secret says so in its mode, and reveals nothing else to clients
//! that do not know it. Connections for a flow's data prove that they know the key of their session.

use std::io::{self, Read, Write};

use crate::auth::{self, Bytes32, Role};

pub const CLIENT_HELLO_BYTES: usize = 96;
pub const RESPONDER_HELLO_BYTES: usize = 48;
pub const PROOF_BYTES: usize = 32;
pub const ANSWER_BYTES: usize = 33;

/// The last byte is the protocol's version.
const MAGIC: [u8; 8] = *b"whydrop\x03";

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The control channel of a new session.
    Control,
    /// The data of one flow of a session.
    Data { session: u64, flow: u32 },
}

/// The client's hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientHello {
    pub purpose: Purpose,
    pub nonce: Bytes32,
}

/// The responder's hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponderHello {
    /// True if clients must know a secret.
    pub asks_for_secret: bool,
    pub nonce: Bytes32,
}

/// The responder's answer to a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    Accepted = 0,
    /// The proof is wrong: it used another secret, or the session is over.
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

impl ClientHello {
    pub fn new(purpose: Purpose) -> ClientHello {
        ClientHello {
            purpose,
            nonce: auth::nonce(),
        }
    }

    pub fn encode(&self) -> [u8; CLIENT_HELLO_BYTES] {
        let mut bytes = [0; CLIENT_HELLO_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        if let Purpose::Data { session, flow } = self.purpose {
            bytes[8] = 1;
            bytes[12..16].copy_from_slice(&flow.to_be_bytes());
            bytes[16..24].copy_from_slice(&session.to_be_bytes());
        }
        bytes[24..56].copy_from_slice(&self.nonce);
        bytes
    }

    /// # Errors
    /// Why the bytes are not a client's hello.
    pub fn decode(bytes: &[u8; CLIENT_HELLO_BYTES]) -> Result<ClientHello, HelloError> {
        check_magic(bytes)?;
        let flow = u32::from_be_bytes(array(&bytes[12..16]));
        let session = u64::from_be_bytes(array(&bytes[16..24]));
        let purpose = match bytes[8] {
            0 => Purpose::Control,
            1 => Purpose::Data { session, flow },
            _ => return Err(HelloError::Malformed),
        };
        Ok(ClientHello {
            purpose,
            nonce: array(&bytes[24..56]),
        })
    }
}

impl ResponderHello {
    pub fn new(asks_for_secret: bool) -> ResponderHello {
        ResponderHello {
            asks_for_secret,
            nonce: auth::nonce(),
        }
    }

    pub fn encode(&self) -> [u8; RESPONDER_HELLO_BYTES] {
        let mut bytes = [0; RESPONDER_HELLO_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = u8::from(self.asks_for_secret);
        bytes[16..].copy_from_slice(&self.nonce);
        bytes
    }

    /// # Errors
    /// Why the bytes are not a responder's hello.
    pub fn decode(bytes: &[u8; RESPONDER_HELLO_BYTES]) -> Result<ResponderHello, HelloError> {
        check_magic(bytes)?;
        match bytes[8] {
            mode @ (0 | 1) => Ok(ResponderHello {
                asks_for_secret: mode == 1,
                nonce: array(&bytes[16..]),
            }),
            _ => Err(HelloError::Malformed),
        }
    }
}

/// Checks that the first bytes of a connection may begin a hello of this protocol.
///
/// # Errors
/// [`HelloError::Foreign`] or [`HelloError::Version`] at the first wrong byte.
pub fn check_magic(bytes: &[u8]) -> Result<(), HelloError> {
    let seen = &bytes[..bytes.len().min(MAGIC.len())];
    if seen == &MAGIC[..seen.len()] {
        return Ok(());
    }
    Err(match seen.strip_prefix(&MAGIC[..7]) {
        Some(&[version]) => HelloError::Version(version),
        _ => HelloError::Foreign,
    })
}

/// The answer to a client's proof.
pub fn answer(
    status: Status,
    key: &[u8],
    client_hello: &[u8],
    responder_hello: &[u8],
) -> [u8; ANSWER_BYTES] {
    let mut bytes = [0; ANSWER_BYTES];
    bytes[0] = status as u8;
    if status == Status::Accepted {
        bytes[1..].copy_from_slice(&auth::prove(
            key,
            Role::Responder,
            client_hello,
            responder_hello,
        ));
    }
    bytes
}

/// Performs the client's side of the handshake. The connection's reads and writes must time out.
///
/// Returns the key of the session (for [`Purpose::Control`]).
///
/// # Errors
/// Why the responder is not the expected one, as a message, or the connection's own error.
pub fn authenticate(
    stream: &mut (impl Read + Write),
    purpose: Purpose,
    secret: Option<&[u8]>,
    open_key: &[u8],
) -> io::Result<Bytes32> {
    let hello = ClientHello::new(purpose).encode();
    stream.write_all(&hello)?;
    let mut theirs = [0; RESPONDER_HELLO_BYTES];
    stream.read_exact(&mut theirs).map_err(no_responder)?;
    let responder = ResponderHello::decode(&theirs).map_err(|error| refuse(&not_ours(&error)))?;
    let key = match (secret, responder.asks_for_secret) {
        (Some(secret), true) => secret,
        (None, false) => open_key,
        (None, true) => {
            return Err(refuse(
                "the responder requires a secret: give the file that holds it with --secret-file",
            ));
        }
        (Some(_), false) => {
            return Err(refuse(
                "a secret was given, but the responder is open and proves no identity: omit the secret",
            ));
        }
    };
    stream.write_all(&auth::prove(key, Role::Client, &hello, &theirs))?;
    let mut answer = [0; ANSWER_BYTES];
    stream.read_exact(&mut answer).map_err(no_responder)?;
    match answer[0] {
        0 => {}
        1 if purpose != Purpose::Control => {
            return Err(refuse("the responder has ended the session"));
        }
        1 => {
            return Err(refuse(
                "the responder refuses the secret: the two ends have different ones",
            ));
        }
        2 if purpose != Purpose::Control => {
            return Err(refuse("the responder does not expect this connection"));
        }
        2 => {
            return Err(refuse(
                "the responder accepts no more sessions now, in total or from this client: try later, or raise its \
                 --max-sessions",
            ));
        }
        other => {
            return Err(refuse(&format!(
                "the responder answers with the unknown status {other}"
            )));
        }
    }
    if !auth::equal(
        &answer[1..],
        &auth::prove(key, Role::Responder, &hello, &theirs),
    ) {
        return Err(refuse(
            "the responder does not prove that it knows the secret: it is not the intended one",
        ));
    }
    Ok(auth::prove(key, Role::Session, &hello, &theirs))
}

fn refuse(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

fn no_responder(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => refuse(
            "a program listens there but closes the connection: it is not a whydrop responder, or it is overloaded",
        ),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            refuse("a program listens there but does not answer: is it a whydrop responder?")
        }
        _ => error,
    }
}

fn not_ours(error: &HelloError) -> String {
    match error {
        HelloError::Version(version) => {
            format!(
                "the responder uses version {version} of the protocol, this program version {}",
                MAGIC[7]
            )
        }
        HelloError::Foreign | HelloError::Malformed => {
            "a program that is not a whydrop responder listens there".to_owned()
        }
    }
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
        fn a_hello_is_read_back_as_it_was_written(session: u64, flow: u32, nonce: Bytes32, data: bool) {
            let purpose = if data { Purpose::Data { session, flow } } else { Purpose::Control };
            let hello = ClientHello { purpose, nonce };
            prop_assert_eq!(ClientHello::decode(&hello.encode()), Ok(hello));
        }

        #[test]
        fn no_bytes_make_the_decoders_panic(bytes: [u8; CLIENT_HELLO_BYTES], cut in 0..20_usize) {
            let _ = ClientHello::decode(&bytes);
            let _ = check_magic(&bytes[..cut]);
        }
    }

    #[test]
    fn a_connection_is_foreign_at_its_first_wrong_byte() {
        assert_eq!(check_magic(b"GET / HTTP/1.1"), Err(HelloError::Foreign));
        assert_eq!(check_magic(b"w"), Ok(()));
        assert_eq!(check_magic(b"whydrop\x01"), Err(HelloError::Version(1)));
    }
}
