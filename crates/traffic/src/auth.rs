//! Who may use a responder: a shared secret that both ends prove to know without sending it.
//!
//! Each end contributes a fresh nonce; the proofs are HMAC-SHA256 (RFC 2104) over both, so that none can be replayed,
//! and differ by role, so that none can be reflected.

use hmac::{Hmac, Mac};
use sha2::Sha256;

type HmacSha256 = Hmac<Sha256>;

/// A key, a nonce or a proof.
pub type Bytes32 = [u8; 32];

/// Shorter secrets could be guessed by whoever overhears one proof.
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
    /// A secret from the contents of its file: white space around it does not count.
    ///
    /// # Errors
    /// A message where it is too short to be safe.
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

    /// The secret of an open responder and its clients: known to everybody.
    pub fn open() -> Secret {
        Secret(b"whydrop open".to_vec())
    }
}

/// Whose proof it is, or what a key is for.
#[derive(Clone, Copy)]
pub enum Role {
    /// The client's proof.
    Client,
    /// The responder's proof.
    Responder,
    /// The key of the session that follows.
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

/// The proof of a role over the two hellos; with [`Role::Session`] the key of the session.
pub fn prove(key: &[u8], role: Role, client_hello: &[u8], responder_hello: &[u8]) -> Bytes32 {
    mac(key, &[role.label(), client_hello, responder_hello])
}

impl Secret {
    /// Its bytes, as a key.
    pub fn key(&self) -> &[u8] {
        &self.0
    }
}

/// HMAC-SHA256 over parts, each preceded by its length so that no two lists of parts look alike.
pub fn mac(key: &[u8], parts: &[&[u8]]) -> Bytes32 {
    let mut mac = HmacSha256::new_from_slice(key).expect("HMAC takes keys of every length");
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// True if two proofs are equal, in a time that does not tell where they differ.
pub fn equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .fold(0, |differing, (a, b)| differing | (a ^ b))
            == 0
}

/// Fresh random bytes from the kernel.
pub fn nonce() -> Bytes32 {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
    bytes
}

/// A fresh random number, as the name of a session.
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
