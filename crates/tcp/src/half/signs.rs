//! Signs of failures in one direction's packets.

use super::Half;
use super::transmissions::DataPacket;
use crate::signs::{MOST_NUMBERS, Silence};

/// One unanswered retransmission may be a single loss; after two, timers have backed off (RFC 6298, section 5.5).
const REPEATS_OF_A_SILENCE: u32 = 2;
/// The most silences remembered for one direction.
const MOST_SILENCES: usize = 256;

impl Half {
    /// Registers a retransmission of the first outstanding segment, without a packet of the other side since the last
    /// one.
    pub fn repeat_into_silence(&mut self, packet: &DataPacket) {
        if self.silence.is_none() {
            let first = self.outstanding.front().map(|range| range.segment);
            let sent = first.map(|segment| self.flow.segments[segment as usize].time_ns);
            let since_answer = sent.filter(|sent_ns| *sent_ns >= packet.answered_ns);
            self.silence.get_or_insert_default().since_ns = since_answer.unwrap_or(packet.time_ns);
        }
        let silence = self.silence.get_or_insert_default();
        silence.repeats = silence.repeats.saturating_add(1);
        if silence.packets.len() < MOST_NUMBERS {
            silence.packets.push(packet.number);
        }
    }

    /// Registers a packet of the other side.
    pub fn end_silence(&mut self, now_ns: i64) {
        if let Some(silence) = self.silence.take()
            && silence.repeats >= REPEATS_OF_A_SILENCE
            && self.flow.silences().len() < MOST_SILENCES
        {
            self.flow.signs_mut().silences.push(Silence {
                sent_ns: self.last_sent_ns,
                until_ns: now_ns,
                ..*silence
            });
        }
    }
}
