//! Keys of a session, and the proofs of connections and programs that know one of them.
//!
//! The responder sends a random seed over the encrypted control channel. The keys are derived from it and from the
//! hash of the channel's handshake, one key for each use, so that none serves for another use or another channel.

use hmac::{Hmac, Mac};
use sha2::Sha256;

type HmacSha256 = Hmac<Sha256>;

/// A key, a nonce or a proof.
pub type Bytes32 = [u8; 32];

/// The keys of a session.
#[derive(Clone, Copy)]
pub struct SessionKeys {
    /// Of its UDP packets.
    pub udp: Bytes32,
    /// Of its connections for data.
    pub data: Bytes32,
}

impl SessionKeys {
    /// Derives the keys from the responder's seed and the hash of the control channel's handshake.
    pub fn derive(seed: &Bytes32, handshake: &Bytes32) -> SessionKeys {
        SessionKeys {
            udp: mac(seed, &[b"whydrop 5 UDP", handshake]),
            data: mac(seed, &[b"whydrop 5 data connections", handshake]),
        }
    }
}

/// The end that makes a proof.
#[derive(Clone, Copy)]
pub enum Role {
    Client,
    Responder,
}

/// Computes the proof of one end of a data connection over both hellos, which have a nonce of each end. It can
/// neither be replayed, nor serve as that of the other end.
pub fn prove(key: &Bytes32, role: Role, client_hello: &[u8], responder_hello: &[u8]) -> Bytes32 {
    let label: &[u8] = match role {
        Role::Client => b"whydrop 5 client proof",
        Role::Responder => b"whydrop 5 responder proof",
    };
    mac(key, &[label, client_hello, responder_hello])
}

/// Computes HMAC-SHA256 (RFC 2104) over parts. Each part is preceded by its length, so that two different lists never
/// look alike.
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
        let proof = |role| prove(&[7; 32], role, b"client", b"responder");
        assert_ne!(proof(Role::Client), proof(Role::Responder));
    }

    #[test]
    fn the_keys_of_a_session_depend_on_their_use_on_the_seed_and_on_the_handshake() {
        let keys = SessionKeys::derive(&[1; 32], &[2; 32]);
        assert_ne!(keys.udp, keys.data);
        for (seed, handshake) in [([3; 32], [2; 32]), ([1; 32], [3; 32])] {
            let others = SessionKeys::derive(&seed, &handshake);
            assert_ne!(keys.udp, others.udp);
            assert_ne!(keys.data, others.data);
        }
    }

    #[test]
    fn moving_a_byte_from_one_hello_to_the_other_changes_the_proof() {
        assert_ne!(mac(b"key", &[b"ab", b"c"]), mac(b"key", &[b"a", b"bc"]));
    }

    #[test]
    fn equality_of_proofs_is_that_of_their_bytes() {
        assert!(equal(b"same", b"same"));
        assert!(!equal(b"same", b"sane") && !equal(b"same", b"sam"));
    }
}
