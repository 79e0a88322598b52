//! The client's side of the handshake on each connection to a responder.

use std::io::{self, Read, Write};
use std::sync::Arc;

use crate::auth::{self, Bytes32, Role, SessionKeys};
use crate::hello::{
    self, ANSWER_BYTES, ClientHello, DATA_ANSWER_BYTES, Greeting, HelloError, Purpose,
    RESPONDER_HELLO_BYTES, ResponderHello, VERSION,
};
use crate::noise::{self, Cipher, Mode};
use crate::secret::Secret;

/// The last version with responders that close the connection of a client of another one. Later ones answer it.
const CLOSING_VERSION: u8 = 3;

/// A control channel after its handshake.
pub struct Opened {
    pub cipher: Arc<Cipher>,
    pub keys: SessionKeys,
}

/// Performs the handshake of a control channel. Reads and writes must end with an error after some time.
///
/// # Errors
/// Why the responder is not the expected one, as a message, or the connection's own error. `ConnectionAborted`: it
/// closed the connection without a word, as an earlier version does ([`version`] asks for it).
pub fn control(stream: &mut (impl Read + Write), secret: Option<&Secret>) -> io::Result<Opened> {
    let purpose = Purpose::Control(Mode::of(secret));
    let (begun, opening) = noise::begin(&hello::beginning(purpose), secret);
    stream.write_all(&ClientHello { purpose, opening }.encode())?;
    let (responder, _) = greeted(stream)?;
    let cipher = begun.finish(&responder.opening).ok_or_else(|| {
        refuse(&match secret {
            Some(secret) => unknown_secret(secret),
            None => "the responder's handshake is invalid: it is faulty, or was altered in transit"
                .to_owned(),
        })
    })?;
    stream.write_all(&cipher.seal(0, &[])?)?;
    let mut answer = [0; ANSWER_BYTES];
    stream.read_exact(&mut answer).map_err(no_responder)?;
    let answer = cipher
        .open(0, &answer)
        .ok_or_else(|| refuse("the responder's answer was altered or forged in transit"))?;
    let (status, seed) = answer.split_first().expect("the answer has a fixed length");
    match status {
        0 => {
            let seed = seed.try_into().expect("the answer has a fixed length");
            let keys = SessionKeys::derive(seed, cipher.handshake());
            let cipher = Arc::new(cipher);
            Ok(Opened { cipher, keys })
        }
        2 => Err(refuse(
            "the responder accepts no more sessions now, in total or from this client or its network: try later, or raise its \
             --max-sessions",
        )),
        other => Err(unknown(*other)),
    }
}

/// Performs the handshake of a connection for a flow's data, which proves at both ends the key of the session. Reads
/// and writes must end with an error after some time.
///
/// # Errors
/// As of [`control`].
pub fn data(
    stream: &mut (impl Read + Write),
    session: u64,
    flow: u32,
    key: &Bytes32,
) -> io::Result<()> {
    let purpose = Purpose::Data { session, flow };
    let opening = auth::nonce().to_vec();
    let ours = ClientHello { purpose, opening }.encode();
    stream.write_all(&ours)?;
    let (_, theirs) = greeted(stream)?;
    stream.write_all(&auth::prove(key, Role::Client, &ours, &theirs))?;
    let mut answer = [0; DATA_ANSWER_BYTES];
    stream.read_exact(&mut answer).map_err(no_responder)?;
    match answer[0] {
        0 => {}
        1 => return Err(refuse("the responder has ended the session")),
        2 => return Err(refuse("the responder does not expect this connection")),
        other => return Err(unknown(other)),
    }
    if !auth::equal(
        &answer[1..],
        &auth::prove(key, Role::Responder, &ours, &theirs),
    ) {
        return Err(refuse(
            "the responder does not prove that it knows the session: it is not the intended one",
        ));
    }
    Ok(())
}

/// Reads the responder's hello, as it was sent and decoded.
fn greeted(stream: &mut impl Read) -> io::Result<(ResponderHello, [u8; RESPONDER_HELLO_BYTES])> {
    let mut bytes = [0; RESPONDER_HELLO_BYTES];
    let foreign = |error: HelloError| refuse(&not_ours(&error));
    // Another program or version may send less than a hello of this version.
    let (magic, rest) = bytes.split_at_mut(8);
    stream.read_exact(magic).map_err(no_responder)?;
    hello::check_magic(magic).map_err(foreign)?;
    stream.read_exact(rest).map_err(no_responder)?;
    let hello = ResponderHello::decode(&bytes).map_err(foreign)?;
    let refusal = match hello.greeting {
        Greeting::Proceed => return Ok((hello, bytes)),
        Greeting::NeedsSecret => {
            "the responder requires a secret: give the file that holds it with --secret-file"
        }
        Greeting::IsOpen => {
            "a secret was given, but the responder is open and proves no identity: omit the secret"
        }
        Greeting::Crowded => {
            "too many clients connect to the responder, from this network or in total: try again in some seconds"
        }
        Greeting::OtherVersion => "the responder does not know this version of the protocol",
    };
    Err(refuse(refusal))
}

/// Asks a responder that closed the connection of a client of this version for its own version, on a new connection;
/// `None` if it is not an earlier one.
pub fn version(stream: &mut (impl Read + Write)) -> Option<u8> {
    stream
        .write_all(&hello::hello_of_version(CLOSING_VERSION))
        .ok()?;
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes).ok()?;
    match hello::check_magic(&bytes) {
        Err(HelloError::Version(version)) => Some(version),
        _ => None,
    }
}

/// The error of a responder with another version of the protocol.
pub fn other_version(version: u8) -> io::Error {
    refuse(&not_ours(&HelloError::Version(version)))
}

fn refuse(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

fn unknown_secret(secret: &Secret) -> String {
    let name = secret.name();
    let of = if name.is_empty() {
        String::new()
    } else {
        format!(" of {name}")
    };
    format!(
        "the responder does not know this secret{of}: the two ends have different ones, or it is not the intended \
         responder"
    )
}

fn unknown(status: u8) -> io::Error {
    refuse(&format!(
        "the responder answers with the unknown status {status}"
    ))
}

fn no_responder(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => io::Error::new(
            io::ErrorKind::ConnectionAborted,
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
            let place = if *version < VERSION { "there" } else { "here" };
            format!(
                "the responder uses version {version} of the protocol, this program version {VERSION}: update \
                 whydrop {place}"
            )
        }
        HelloError::Foreign | HelloError::Malformed => {
            "a program that is not a whydrop responder listens there".to_owned()
        }
    }
}
