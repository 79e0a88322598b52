//! Hashing for the keys of packets and flows: fast for a few words, and unpredictable for senders of packets.

use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::OnceLock;

/// A number that differs in every process, so that the sender of the packets cannot choose them to collide.
fn process_key() -> u64 {
    static KEY: OnceLock<u64> = OnceLock::new();
    *KEY.get_or_init(|| RandomState::new().hash_one(0u64) | 1)
}

/// Folded 128-bit multiplication of two words.
#[inline(always)]
pub(crate) fn fold(one: u64, other: u64) -> u64 {
    // binary digits of the golden ratio and of pi: odd, without a pattern
    let product =
        u128::from(one ^ 0x9e37_79b9_7f4a_7c15) * u128::from(other ^ 0x243f_6a88_85a3_08d3);
    product as u64 ^ (product >> 64) as u64
}

#[derive(Debug, Clone)]
pub(crate) struct FoldHasher(u64);

impl Default for FoldHasher {
    #[inline]
    fn default() -> Self {
        Self(process_key())
    }
}

impl Hasher for FoldHasher {
    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = fold(self.0, word);
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    #[inline]
    fn write_u128(&mut self, word: u128) {
        self.write_u64(word as u64);
        self.write_u64((word >> 64) as u64);
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

/// Hashes words into one, keyed for this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words(u64);

impl Words {
    pub(crate) fn new() -> Self {
        Self(process_key())
    }

    #[inline(always)]
    pub(crate) fn hash(self, words: [u64; 3]) -> u64 {
        fold(fold(fold(self.0, words[0]), words[1]), words[2])
    }
}

pub(crate) type FoldMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<FoldHasher>>;
