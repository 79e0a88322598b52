//! Frames that a wireless station retransmitted because they were not acknowledged.

use crate::decode::{Transmission, transmission};

use super::hash;

/// Stations retry within milliseconds, and a frame number repeats only after 4096 frames.
const LONGEST_NS: u64 = 500_000_000;
const PLACES: usize = 4096;

#[derive(Clone, Copy)]
struct Seen {
    /// Hash of stations and sequence number; 0 if empty.
    frame: u64,
    time_ns: i64,
}

/// The last frames of each station, by their numbers. Only frames with hosts' packets; allocated on first use.
#[derive(Default)]
pub(super) struct LinkRetries {
    seen: Vec<Seen>,
}

impl LinkRetries {
    /// True if this frame has the retry bit and the number of one that was captured shortly before.
    #[cold]
    pub(super) fn is_retry(&mut self, time_ns: i64, frame: &[u8], radio_at: usize) -> bool {
        let Some(sent) = transmission(frame, radio_at) else {
            return false;
        };
        if self.seen.is_empty() {
            self.seen = vec![Seen { frame: 0, time_ns }; PLACES];
        }
        let identity = identity(&sent);
        let Some(seen) = self.seen.get_mut(identity as usize % PLACES) else {
            return false;
        };
        let is_known = seen.frame == identity && seen.time_ns.abs_diff(time_ns) <= LONGEST_NS;
        *seen = Seen {
            frame: identity,
            time_ns,
        };
        is_known && sent.is_retry
    }
}

fn identity(sent: &Transmission) -> u64 {
    let mut bytes = [0; 20];
    bytes[..18].copy_from_slice(&sent.stations);
    bytes[18..].copy_from_slice(&sent.sequence_control.to_le_bytes());
    hash(&bytes).max(1)
}
