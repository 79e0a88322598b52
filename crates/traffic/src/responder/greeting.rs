//! The responder's side of the handshake on each connection, from the client's hello to the answer to its proof.

use std::sync::Arc;

use crate::auth::{self, Bytes32, Role, SessionKeys};
use crate::handshake::Opened;
use crate::hello::{
    self, ClientHello, DATA_PROOF_BYTES, Greeting, PROOF_BYTES, Purpose, RESPONDER_HELLO_BYTES,
    ResponderHello, Status,
};
use crate::noise::{self, Cipher, Mode, SECOND_BYTES};
use crate::secret::Secret;

/// A connection after the responder has answered its hello, which must prove that it knows its key.
pub enum Greeted {
    Control {
        secret: Option<Secret>,
        cipher: Cipher,
    },
    Data {
        session: u64,
        flow: u32,
        key: Bytes32,
        client_hello: [u8; hello::CLIENT_HELLO_BYTES],
        responder_hello: [u8; RESPONDER_HELLO_BYTES],
    },
}

/// The channel of a client, which has proved that it knows this secret, or needs none.
pub struct Accepted {
    pub secret: Option<Secret>,
    pub opened: Opened,
}

/// Answers the hello of a control channel, at the cost of a key and a Diffie-Hellman exchange.
///
/// # Errors
/// `None`: the client's message is invalid.
pub fn control(
    client: &ClientHello,
    secret: Option<Secret>,
) -> Option<(Greeted, [u8; RESPONDER_HELLO_BYTES])> {
    let prologue = hello::beginning(client.purpose);
    let (opening, cipher) = noise::respond(&prologue, secret.as_ref(), &client.opening)?;
    let hello = ResponderHello {
        greeting: Greeting::Proceed,
        opening,
    };
    Some((Greeted::Control { secret, cipher }, hello.encode()))
}

/// Answers the hello of a data connection. The proof for an unknown session (`None`) fails like any wrong proof, which
/// reveals nothing about sessions.
pub fn data(
    client: &ClientHello,
    session: u64,
    flow: u32,
    key: Option<Bytes32>,
) -> (Greeted, [u8; RESPONDER_HELLO_BYTES]) {
    let mut opening = [0; SECOND_BYTES];
    opening[..32].copy_from_slice(&auth::nonce());
    let responder_hello = ResponderHello {
        greeting: Greeting::Proceed,
        opening,
    }
    .encode();
    let greeted = Greeted::Data {
        session,
        flow,
        key: key.unwrap_or_else(auth::nonce),
        client_hello: client.encode(),
        responder_hello,
    };
    (greeted, responder_hello)
}

impl Greeted {
    pub fn purpose(&self) -> Purpose {
        match self {
            Greeted::Control { secret, .. } => Purpose::Control(Mode::of(secret.as_ref())),
            &Greeted::Data { session, flow, .. } => Purpose::Data { session, flow },
        }
    }

    pub fn proof_bytes(&self) -> usize {
        match self {
            Greeted::Control { .. } => PROOF_BYTES,
            Greeted::Data { .. } => DATA_PROOF_BYTES,
        }
    }

    /// True if the client has proved that it knows the key.
    pub fn proves(&self, proof: &[u8]) -> bool {
        match self {
            Greeted::Control { cipher, .. } => cipher.open(0, proof).is_some(),
            Greeted::Data {
                key,
                client_hello,
                responder_hello,
                ..
            } => {
                let expected = auth::prove(key, Role::Client, client_hello, responder_hello);
                auth::equal(proof, &expected)
            }
        }
    }

    /// Encodes the answer to a proof, and returns the channel of an accepted client.
    pub fn answer(self, status: Status) -> (Vec<u8>, Option<Accepted>) {
        let is_accepted = status == Status::Accepted;
        match self {
            Greeted::Control { secret, cipher } => {
                let seed = if is_accepted { auth::nonce() } else { [0; 32] };
                let answer = [&[status as u8], &seed[..]].concat();
                let answer = cipher.seal(0, &answer).expect("the answer is short");
                let keys = SessionKeys::derive(&seed, cipher.handshake());
                let cipher = Arc::new(cipher);
                let opened = Opened { cipher, keys };
                (answer, is_accepted.then_some(Accepted { secret, opened }))
            }
            Greeted::Data {
                key,
                client_hello,
                responder_hello,
                ..
            } => {
                let proof = match is_accepted {
                    true => auth::prove(&key, Role::Responder, &client_hello, &responder_hello),
                    false => [0; 32],
                };
                ([&[status as u8], &proof[..]].concat(), None)
            }
        }
    }
}
