//! Authentication at a responder: both ends prove that they know a shared secret, without sending it.
//!
//! Each end contributes a fresh nonce. The proofs are HMAC-SHA256 (RFC 2104) over both nonces, so none can be replayed,
//! and they differ by role, so none can be reflected.

use hmac::{Hmac, Mac};
use sha2::Sha256;

type HmacSha256 = Hmac<Sha256>;

/// A key, a nonce or a proof.
pub type Bytes32 = [u8; 32];

/// Anyone who captures one proof can guess a shorter secret by trial.
pub const SHORTEST_SECRET: usize = 16;

/// The secret that both ends know; never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret(..)")
    }
}

impl Secret {
    /// Makes a secret from the contents of its file. White space around it is ignored.
    ///
    /// # Errors
    /// A message if the secret is too short to be safe.
    pub fn new(text: &[u8]) -> Result<Secret, String> {
        let text = text.trim_ascii();
        if text.len() < SHORTEST_SECRET {
            return Err(format!(
                "the secret has {} bytes; at least {SHORTEST_SECRET} are needed, since short ones can be guessed \
                 (try: head -c 24 /dev/urandom | base64)",
                text.len()
            ));
        }
        Ok(Secret(text.to_vec()))
    }

    /// The secret of an open responder and its clients. It is public.
    pub fn open() -> Secret {
        Secret(b"whydrop open".to_vec())
    }
}

/// Who makes a proof, or what a key is used for.
#[derive(Clone, Copy)]
pub enum Role {
    /// The client's proof.
    Client,
    /// The responder's proof.
    Responder,
    /// The key of the session that follows the handshake.
    Session,
}

impl Role {
    fn label(self) -> &'static [u8] {
        match self {
            Role::Client => b"whydrop 1 client proof",
            Role::Responder => b"whydrop 1 responder proof",
            Role::Session => b"whydrop 1 session key",
        }
    }
}

/// Computes the proof of a role over the two hellos; with [`Role::Session`] the key of the session.
pub fn prove(key: &[u8], role: Role, client_hello: &[u8], responder_hello: &[u8]) -> Bytes32 {
    mac(key, &[role.label(), client_hello, responder_hello])
}

impl Secret {
    /// The proof's bytes, for use as a key.
    pub fn key(&self) -> &[u8] {
        &self.0
    }
}

/// Computes HMAC-SHA256 over parts. Each part is preceded by its length, so that two different lists never look alike.
pub fn mac(key: &[u8], parts: &[&[u8]]) -> Bytes32 {
    let mut mac = HmacSha256::new_from_slice(key).expect("HMAC takes keys of every length");
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// Compares two proofs in constant time, so that timing reveals nothing.
pub fn equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .fold(0, |differing, (a, b)| differing | (a ^ b))
            == 0
}

/// Returns fresh random bytes from the kernel.
pub fn nonce() -> Bytes32 {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
    bytes
}

/// Returns a fresh random number, which names a session.
pub fn token() -> u64 {
    getrandom::u64().expect("the kernel gives random bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_of_one_role_does_not_serve_as_that_of_another() {
        let proof = |role| prove(b"0123456789abcdef", role, b"client", b"responder");
        assert_ne!(proof(Role::Client), proof(Role::Responder));
        assert_ne!(proof(Role::Client), proof(Role::Session));
    }

    #[test]
    fn moving_a_byte_from_one_hello_to_the_other_changes_the_proof() {
        assert_ne!(mac(b"key", &[b"ab", b"c"]), mac(b"key", &[b"a", b"bc"]));
    }

    #[test]
    fn a_short_secret_is_refused_and_its_message_says_how_to_make_a_better_one() {
        let message = Secret::new(b"  short  \n").unwrap_err();
        assert!(
            message.contains("5 bytes") && message.contains("urandom"),
            "{message}"
        );
    }

    #[test]
    fn a_secret_is_not_shown_when_it_is_printed_for_debugging() {
        let secret = Secret::new(b"correct horse battery").unwrap();
        assert!(!format!("{secret:?}").contains("horse"));
    }

    #[test]
    fn equality_of_proofs_is_that_of_their_bytes() {
        assert!(equal(b"same", b"same"));
        assert!(!equal(b"same", b"sane") && !equal(b"same", b"sam"));
    }
}
