//! Packets that were read and not returned yet.

use crate::decode::Decoded;
use crate::format::Record;
use crate::timeline::Waiting;

/// A packet with its frame, which the window does not keep.
pub(super) struct Buffered {
    pub(super) index: u64,
    pub(super) record: Record,
    pub(super) decoded: Decoded,
    pub(super) bytes: Box<[u8]>,
}

impl Buffered {
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }
}

impl Waiting for Buffered {
    fn stamped_ns(&self) -> i64 {
        self.record.time_ns
    }

    fn decoded(&self) -> &Decoded {
        &self.decoded
    }
}
