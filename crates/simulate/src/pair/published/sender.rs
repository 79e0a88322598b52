//! The sender of the published case: what it sends next, given what was acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use whydrop_hosts::Segment;

use super::{PAYLOAD_BYTES, ROUND_TRIP_NS};

/// Segments sent this much before a delivered one count as lost (RACK's reordering window).
const REORDERING_NS: i64 = 1_000_000;

/// Sends lost data first, in order, then new data. It does not decide how much and when.
#[derive(Debug, Default)]
pub struct ScriptedSender {
    /// When each outstanding segment was last sent, by its sequence number.
    out: BTreeMap<u64, i64>,
    lost: BTreeSet<u64>,
    written: u64,
    /// When the latest of the delivered segments was sent.
    delivered_ns: i64,
}

impl ScriptedSender {
    /// The sequence number of the segment to send now, and whether it is retransmitted.
    pub fn next(&mut self, now_ns: i64) -> (u64, bool) {
        let (sequence, again) = match self.lost.pop_first() {
            Some(sequence) => (sequence, true),
            None => {
                let sequence = 1 + self.written;
                self.written += u64::from(PAYLOAD_BYTES);
                (sequence, false)
            }
        };
        self.out.insert(sequence, now_ns);
        (sequence, again)
    }

    /// True if all data sent has been acknowledged.
    pub fn is_done(&self) -> bool {
        self.out.is_empty()
    }

    /// First sequence number that was never sent.
    pub fn end(&self) -> u64 {
        1 + self.written
    }

    /// Marks everything outstanding for longer than a round trip as lost; returns the number of lost segments.
    pub fn time_out(&mut self, now_ns: i64) -> u32 {
        let late = self
            .out
            .iter()
            .filter(|(_, sent_ns)| now_ns - **sent_ns > ROUND_TRIP_NS);
        self.lost.extend(late.map(|(&sequence, _)| sequence));
        self.lost.len() as u32
    }

    pub fn on_ack(&mut self, ack: &Segment) {
        let payload_bytes = u64::from(PAYLOAD_BYTES);
        let mut delivered: Vec<u64> = self
            .out
            .range(..ack.acknowledgment)
            .map(|(&sequence, _)| sequence)
            .collect();
        for &(start, end) in ack.sack.as_slice() {
            let inside = self
                .out
                .range(start..end.max(start))
                .map(|(&sequence, _)| sequence);
            delivered.extend(inside.filter(|sequence| sequence + payload_bytes <= end));
        }
        for sequence in delivered {
            if let Some(sent_ns) = self.out.remove(&sequence) {
                self.delivered_ns = self.delivered_ns.max(sent_ns);
            }
            self.lost.remove(&sequence);
        }
        let late = |sent_ns: i64| sent_ns + REORDERING_NS < self.delivered_ns;
        let lost = self.out.iter().filter(|(_, sent_ns)| late(**sent_ns));
        self.lost.extend(lost.map(|(&sequence, _)| sequence));
    }
}
