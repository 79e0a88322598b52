//! The key of a connection and a hash made for it.

use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::net::IpAddr;

/// Both endpoints of a connection, the lower one first, so that both directions have one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionKey {
    low: u128,
    high: u128,
    ports: u32,
}

impl ConnectionKey {
    /// The key, and whether `source` is its lower endpoint.
    #[inline]
    pub fn new(
        source: IpAddr,
        source_port: u16,
        destination: IpAddr,
        destination_port: u16,
    ) -> (Self, bool) {
        let (a, b) = (number(source), number(destination));
        let (p, q) = (u32::from(source_port), u32::from(destination_port));
        if (a, p) <= (b, q) {
            (
                Self {
                    low: a,
                    high: b,
                    ports: p << 16 | q,
                },
                true,
            )
        } else {
            (
                Self {
                    low: b,
                    high: a,
                    ports: q << 16 | p,
                },
                false,
            )
        }
    }
}

/// IPv4 as the IPv4-mapped IPv6 address (RFC 4291), so that both families share one space.
#[inline]
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => 0xffff_0000_0000 | u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

impl Hash for ConnectionKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.low as u64);
        state.write_u64((self.low >> 64) as u64 ^ (self.high >> 64) as u64);
        state.write_u64(self.high as u64);
        state.write_u64(u64::from(self.ports));
    }
}

/// Folded 128-bit multiplication, keyed once per process: fast for a few words, and a sender who chooses its ports
/// cannot aim for one bucket without knowing the key.
#[derive(Clone)]
pub struct FoldHasher(u64);

impl Default for FoldHasher {
    fn default() -> Self {
        Self(*process_key())
    }
}

fn process_key() -> &'static u64 {
    static KEY: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    KEY.get_or_init(|| {
        use std::hash::BuildHasher;
        std::collections::hash_map::RandomState::new().hash_one(0u64) | 1
    })
}

impl Hasher for FoldHasher {
    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product =
            u128::from(self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

pub type ConnectionMap<V> =
    std::collections::HashMap<ConnectionKey, V, BuildHasherDefault<FoldHasher>>;
