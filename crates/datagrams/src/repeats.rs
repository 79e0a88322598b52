//! Repeated payloads in one flow: how a program retries an unanswered request in any protocol.
//!
//! A beacon repeats its payload as well, but at constant intervals and indefinitely. A program that waits for an answer
//! waits longer each time, or gives up after a few attempts.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Attempts closer together than this are duplicates, or a stream.
const LEAST_GAP_NS: i64 = 200_000_000;
/// Fewer attempts are not conclusive.
const FEWEST: u64 = 3;
/// The mean ratio of successive waits: programs double them, or nearly so.
const GROWTH: f64 = 1.4;
const MOST_SHOWN: usize = 8;

/// Repeats of one payload.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    payload: Option<u64>,
    count: u64,
    last_ns: i64,
    first_gap_ns: i64,
    last_gap_ns: i64,
    shortest_gap_ns: i64,
    packets: Vec<u64>,
    /// The payload changed.
    is_varied: bool,
}

impl Repeats {
    pub fn take(&mut self, time_ns: i64, packet: u64, payload: &[u8]) {
        if self.is_varied || payload.is_empty() {
            self.is_varied = true;
            return;
        }
        let mut hasher = DefaultHasher::new();
        payload.hash(&mut hasher);
        let own = hasher.finish();
        if *self.payload.get_or_insert(own) != own {
            self.is_varied = true;
            return;
        }
        if self.count > 0 {
            let gap_ns = time_ns.saturating_sub(self.last_ns);
            if self.count == 1 {
                (self.first_gap_ns, self.shortest_gap_ns) = (gap_ns, gap_ns);
            }
            self.last_gap_ns = gap_ns;
            self.shortest_gap_ns = self.shortest_gap_ns.min(gap_ns);
        }
        self.count += 1;
        self.last_ns = time_ns;
        if self.packets.len() < MOST_SHOWN {
            self.packets.push(packet);
        }
    }

    /// The packets of attempts with increasing waits for an answer; empty otherwise.
    pub fn attempts(&self) -> &[u64] {
        let waits = self.count.saturating_sub(1).max(1) as f64;
        let grown = GROWTH.powf((waits - 1.0).min(2.0));
        let grows = self.last_gap_ns as f64 >= grown * self.first_gap_ns as f64;
        let is_request = !self.is_varied
            && self.count >= FEWEST
            && self.shortest_gap_ns >= LEAST_GAP_NS
            && grows;
        match is_request {
            true => &self.packets,
            false => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(seconds: &[f64]) -> usize {
        let mut repeats = Repeats::default();
        for (packet, second) in (1..).zip(seconds) {
            repeats.take((second * 1e9) as i64, packet, b"hello");
        }
        repeats.attempts().len()
    }

    #[test]
    fn who_waits_longer_each_time_wants_an_answer() {
        assert_eq!(attempts(&[0.0, 1.0, 3.0, 7.0]), 4);
        assert_eq!(attempts(&[0.0, 1.0, 2.0, 3.0, 4.0]), 0);
        assert_eq!(attempts(&[0.0, 0.01, 0.03, 0.07]), 0);
        assert_eq!(attempts(&[0.0, 1.0]), 0);
    }

    #[test]
    fn who_says_something_new_does_not_repeat() {
        let mut repeats = Repeats::default();
        for (packet, payload) in (1..).zip([b"a", b"a", b"b", b"a"]) {
            repeats.take(i64::from(1_u8 << packet) * 1_000_000_000, packet, payload);
        }
        assert!(repeats.attempts().is_empty());
    }
}
