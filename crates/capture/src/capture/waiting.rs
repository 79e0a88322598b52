//! Packets that were read and wait to be given.

use crate::decode::Decoded;
use crate::format::Record;
use crate::timeline::Waiting;

/// A packet with its frame, which the window does not keep.
pub(super) struct Held {
    pub(super) index: u64,
    pub(super) record: Record,
    pub(super) decoded: Decoded,
    pub(super) bytes: Box<[u8]>,
}

impl Held {
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }
}

impl Waiting for Held {
    fn stamped_ns(&self) -> i64 {
        self.record.time_ns
    }

    fn decoded(&self) -> &Decoded {
        &self.decoded
    }
}
