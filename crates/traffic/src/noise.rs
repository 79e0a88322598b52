//! The handshake of a control channel, and the cipher that it gives both ends: the Noise Protocol Framework, revision
//! 34, with Curve25519, ChaCha20-Poly1305 and SHA-256.
//!
//! With a secret the pattern is NNpsk2: the responder proves that it knows the secret in the second message, the client
//! with its first message after the handshake. An open responder uses NN, which encrypts but proves no identity. The
//! prologue of both is the beginning of the client's hello, so no one in between can change the version, the purpose,
//! the mode or the name of the secret.

use std::io;

use snow::params::NoiseParams;
use snow::{Builder, HandshakeState, StatelessTransportState};

use crate::auth::Bytes32;
use crate::name::Name;
use crate::secret::Secret;

/// How a control channel is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Not at all.
    Open,
    /// By a secret that both ends know, which has this name.
    Secret(Name),
}

impl Mode {
    /// The mode of an end that has this secret, or none.
    pub fn of(secret: Option<&Secret>) -> Mode {
        match secret {
            Some(secret) => Mode::Secret(secret.name()),
            None => Mode::Open,
        }
    }

    fn pattern(self) -> NoiseParams {
        let name = match self {
            Mode::Open => "Noise_NN_25519_ChaChaPoly_SHA256",
            Mode::Secret(_) => "Noise_NNpsk2_25519_ChaChaPoly_SHA256",
        };
        name.parse().expect("the name of a pattern is valid")
    }

    /// The length of the client's message: a public key, with a secret also a tag.
    pub fn first_bytes(self) -> usize {
        match self {
            Mode::Open => 32,
            Mode::Secret(_) => 32 + TAG_BYTES,
        }
    }
}

/// The length that the authentication of a message adds.
pub const TAG_BYTES: usize = 16;
/// The length of the responder's message: a public key and a tag.
pub const SECOND_BYTES: usize = 32 + TAG_BYTES;
/// The longest message of Noise.
pub const MOST_MESSAGE_BYTES: usize = 65_535;

/// A handshake that the client has begun.
pub struct Begun(HandshakeState);

/// Begins a handshake: returns the client's message.
pub fn begin(prologue: &[u8], secret: Option<&Secret>) -> (Begun, Vec<u8>) {
    let mut state = builder(prologue, secret)
        .build_initiator()
        .expect("the pattern has all that it needs");
    // snow wants room for a tag where there is none.
    let mut message = vec![0; 32 + TAG_BYTES];
    let length = state
        .write_message(&[], &mut message)
        .expect("the message fits");
    message.truncate(length);
    (Begun(state), message)
}

impl Begun {
    /// Ends the handshake with the responder's message; `None` if the responder does not know the secret, or if the
    /// prologue was changed in transit.
    pub fn finish(mut self, message: &[u8; SECOND_BYTES]) -> Option<Cipher> {
        self.0.read_message(message, &mut []).ok()?;
        Some(Cipher::new(self.0))
    }
}

/// Answers the client's message; `None` if it is invalid. The client has not proved anything yet.
pub fn respond(
    prologue: &[u8],
    secret: Option<&Secret>,
    message: &[u8],
) -> Option<([u8; SECOND_BYTES], Cipher)> {
    if message.len() != Mode::of(secret).first_bytes() {
        return None;
    }
    let mut state = builder(prologue, secret).build_responder().ok()?;
    state.read_message(message, &mut []).ok()?;
    let mut answer = [0; SECOND_BYTES];
    state.write_message(&[], &mut answer).ok()?;
    Some((answer, Cipher::new(state)))
}

fn builder<'a>(prologue: &'a [u8], secret: Option<&'a Secret>) -> Builder<'a> {
    let builder = Builder::new(Mode::of(secret).pattern())
        .prologue(prologue)
        .expect("it is set once");
    match secret {
        Some(secret) => builder
            .psk(2, secret.key())
            .expect("it is set once, in a place that exists"),
        None => builder,
    }
}

/// Encrypts and decrypts the messages of one end of a control channel.
pub struct Cipher {
    state: StatelessTransportState,
    handshake: Bytes32,
}

impl Cipher {
    fn new(state: HandshakeState) -> Cipher {
        let handshake = state.get_handshake_hash();
        let handshake = handshake.try_into().expect("SHA-256 has 32 bytes");
        let state = state.into_stateless_transport_mode();
        Cipher {
            state: state.expect("both messages of the handshake have been exchanged"),
            handshake,
        }
    }

    /// The hash of the whole handshake, which both ends share and which no other channel has.
    pub fn handshake(&self) -> &Bytes32 {
        &self.handshake
    }

    /// Encrypts message `number` of this end, of at most [`MOST_MESSAGE_BYTES`] with its tag.
    ///
    /// # Errors
    /// The message is too long, or has the last number of all.
    pub fn seal(&self, number: u64, payload: &[u8]) -> io::Result<Vec<u8>> {
        let mut message = vec![0; payload.len() + TAG_BYTES];
        self.state
            .write_message(number, payload, &mut message)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
        Ok(message)
    }

    /// Decrypts message `number` of the other end; `None` if it is not that message, as that end sealed it.
    pub fn open(&self, number: u64, message: &[u8]) -> Option<Vec<u8>> {
        let length = message.len().checked_sub(TAG_BYTES)?;
        let mut payload = vec![0; length];
        self.state
            .read_message(number, message, &mut payload)
            .ok()?;
        Some(payload)
    }
}

/// The ciphers of both ends of an open channel, client first, for tests.
#[cfg(test)]
pub(crate) fn both_ends() -> (Cipher, Cipher) {
    let (begun, first) = begin(b"test", None);
    let (second, responder) = respond(b"test", None, &first).unwrap();
    (begun.finish(&second).unwrap(), responder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(byte: u8) -> Option<Secret> {
        Some(Secret::of_key(Name::default(), [byte; 32]))
    }

    fn talk(client: Option<&Secret>, responder: Option<&Secret>) -> Option<(Cipher, Cipher)> {
        let (begun, first) = begin(b"prologue", client);
        let (second, theirs) = respond(b"prologue", responder, &first)?;
        Some((begun.finish(&second)?, theirs))
    }

    #[test]
    fn both_ends_share_a_channel_if_they_have_the_same_secret_or_none() {
        for shared in [None, secret(1)] {
            let (client, responder) = talk(shared.as_ref(), shared.as_ref()).unwrap();
            assert_eq!(client.handshake(), responder.handshake());
            let message = client.seal(0, b"hello").unwrap();
            assert_eq!(responder.open(0, &message).as_deref(), Some(&b"hello"[..]));
            let message = responder.seal(0, b"").unwrap();
            assert_eq!(client.open(0, &message).as_deref(), Some(&b""[..]));
        }
    }

    #[test]
    fn ends_with_different_secrets_share_none() {
        for (client, responder) in [(secret(1), secret(2)), (secret(1), None), (None, secret(1))] {
            assert!(talk(client.as_ref(), responder.as_ref()).is_none());
        }
    }

    #[test]
    fn a_changed_prologue_or_message_ends_the_handshake() {
        for shared in [None, secret(1)] {
            let shared = shared.as_ref();
            let (begun, first) = begin(b"prologue", shared);
            let second = respond(b"Prologue", shared, &first);
            assert!(second.is_none_or(|(second, _)| begun.finish(&second).is_none()));
            for place in 0..SECOND_BYTES {
                let (begun, first) = begin(b"prologue", shared);
                let (mut second, _) = respond(b"prologue", shared, &first).unwrap();
                second[place] ^= 1;
                assert!(begun.finish(&second).is_none(), "byte {place}");
            }
        }
    }

    #[test]
    fn messages_cannot_be_repeated_reordered_reflected_or_changed() {
        let (client, responder) = both_ends();
        let message = client.seal(3, b"payload").unwrap();
        assert!(responder.open(3, &message).is_some());
        assert!(responder.open(4, &message).is_none());
        assert!(client.open(3, &message).is_none());
        for place in 0..message.len() {
            let mut changed = message.clone();
            changed[place] ^= 1;
            assert!(responder.open(3, &changed).is_none());
            assert!(responder.open(3, &message[..place]).is_none());
        }
    }

    #[test]
    fn a_repeated_hello_begins_another_channel() {
        let secret = secret(1);
        let (begun, first) = begin(b"prologue", secret.as_ref());
        let (second, _) = respond(b"prologue", secret.as_ref(), &first).unwrap();
        let (_, replayed) = respond(b"prologue", secret.as_ref(), &first).unwrap();
        let proof = begun.finish(&second).unwrap().seal(0, &[]).unwrap();
        assert!(replayed.open(0, &proof).is_none());
    }
}
