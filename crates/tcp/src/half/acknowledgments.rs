//! Processing of an acknowledgment: which data arrived, when, and which retransmissions were needed.

use whydrop_capture::TcpFlags;

use super::transmissions::LARGEST_INFERRED_GAP_BYTES;
use super::{Half, Outstanding, Repeat};
use crate::ecn::EcnReport;
use crate::flow::{Acknowledgment, Fate, Kind, SackBlock, SegmentFlags};
use crate::sequence::PLAUSIBLE_BYTES;
use crate::sequence::Unwrapper;
use crate::window_scale::unscaled;

/// Acknowledgments kept before any data was captured.
const MOST_BEFORE_DATA: usize = 16;

/// The relevant fields of an acknowledging packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckPacket<'a> {
    pub time_ns: i64,
    /// Raw acknowledgment number.
    pub acknowledgment: u32,
    /// Window as sent, before scaling.
    pub window: u16,
    /// The packet is a SYN; its window is never scaled (RFC 7323, section 2.2).
    pub syn: bool,
    pub sack_blocks: &'a [(u32, u32)],
    /// The snapshot length cut options off, so there may have been more blocks.
    pub options_cut: bool,
    /// TCP timestamp echo reply.
    pub echo: Option<u32>,
    pub ecn: EcnReport,
    /// Carries no data, SYN or FIN.
    pub pure: bool,
}

/// An original counts as arrived if the acknowledgment follows the retransmission in less than this share of the
/// smallest round-trip time: a retransmission is not faster than the path.
const TOO_SOON_SHARE: f64 = 0.75;
/// If the receiver can cause no more than this share of a wait, most of it belongs to the path.
const DELAY_SHARE: f64 = 0.5;
/// Duplicate acknowledgments that a sender interprets as a loss (RFC 5681, section 3.2).
const DUPLICATES_OF_A_LOSS: u32 = 3;

impl Half {
    /// Processes an acknowledgment of this direction's data.
    pub fn on_acknowledgment(&mut self, packet: &AckPacket) {
        self.options_cut |= packet.options_cut;
        self.account_time(packet.time_ns);
        self.allow_moves();
        let unwrapper = match self.unwrapper {
            Some(unwrapper) => unwrapper,
            None => {
                self.unwrapper = Some(Unwrapper::new(packet.acknowledgment));
                Unwrapper::new(packet.acknowledgment)
            }
        };
        let acknowledged = unwrapper.relative(packet.acknowledgment);
        if !self.is_plausible_acknowledgment(acknowledged) {
            return;
        }
        // an overtaken acknowledgment has no news of window and marks (RFC 9293, section 3.10.7.4)
        let is_old = Some(acknowledged) < self.proven;
        self.proven = self.proven.max(Some(acknowledged));
        let (window_before, raw_before) = (self.window_bytes, self.window_raw);
        if !is_old {
            self.take_window(packet);
        }
        self.count_duplicate(packet, acknowledged, window_before);
        // without the blocks of this acknowledgment, which may have waited for the segment above (RFC 9293, 3.8.6.3)
        let highest_before = self.sacked.highest();
        let fresh_before = self.sacked.total();
        let delivered_before = self.acknowledged + fresh_before;
        let beyond = match packet.sack_blocks {
            [] => None,
            _ => self.on_sack(packet, acknowledged, highest_before, &unwrapper),
        };
        let unseen = acknowledged > self.next.max(self.closed.probed_to) + 1;
        // an acknowledgment after all data was acknowledged is for a FIN, and not part of a transfer
        let of_data = unseen || self.acknowledged < self.next;
        let progress = acknowledged > self.acknowledged || self.sacked.total() > fresh_before;
        let newest = (acknowledged > self.acknowledged)
            .then(|| self.on_progress(packet, acknowledged, highest_before))
            .flatten();
        self.mark_exact(beyond);
        self.mark_exact(newest.filter(|newest| !self.was_delayed(*newest, beyond)));
        if !is_old {
            let delivered = self.acknowledged + self.sacked.total() - delivered_before;
            self.on_ecn_report(packet.ecn, delivered.max(0) as u64, newest);
            self.judge_window(packet.time_ns, packet.syn);
        }
        match self.window_bytes {
            Some(window) => {
                let edge = self.acknowledged + window;
                self.known_window
                    .allow(packet.time_ns, edge, self.near_rtt_ns);
            }
            None => self.known_window.forget(),
        }
        self.acknowledgment_seen = true;
        // data of the other side that acknowledges nothing new causes no retransmission
        if progress || packet.pure {
            self.last_acknowledgment_ns = packet.time_ns;
        }
        if progress
            && of_data
            && let Some(transfer) = self.flow.transfers.last_mut()
        {
            transfer.end_ns = transfer.end_ns.max(packet.time_ns);
        }
        // before any data, acknowledgments serve the chart of the window, and the account only if a request was not
        // captured
        let unseen = unseen && self.flow.acknowledgments.len() < MOST_BEFORE_DATA;
        let accounts = self.account_for_time && (unseen || !self.flow.segments.is_empty());
        let is_useful = self.keep_acknowledgments || accounts;
        let window_moves = self.window_bytes != window_before || self.window_raw != raw_before;
        // the account of time may infer the scale
        let unknown = if self.account_for_time {
            unscaled(self.window_raw)
        } else {
            -1
        };
        if is_useful && (progress || window_moves) {
            if self.flow.acknowledgments.is_empty() {
                self.flow.acknowledgments.reserve_exact(1); // most connections of a flood have one
            }
            self.flow.acknowledgments.push(Acknowledgment {
                time_ns: packet.time_ns,
                acknowledged: self.acknowledged,
                window_bytes: self.window_bytes.unwrap_or(unknown),
                ecn_echo: packet.ecn.flags.has(TcpFlags::ECE),
            });
        }
    }

    /// True unless the number is far beyond the data sent, or captured; such a number is accepted the second time.
    fn is_plausible_acknowledgment(&mut self, acknowledged: i64) -> bool {
        acknowledged - self.next <= LARGEST_INFERRED_GAP_BYTES
            || self.flow.segments.is_empty()
            || self
                .acknowledged_jump
                .is_confirmed(acknowledged, LARGEST_INFERRED_GAP_BYTES)
    }

    fn take_window(&mut self, packet: &AckPacket) {
        self.window_raw = packet.window;
        if !packet.syn {
            if self.flow.first_window == 0 {
                self.flow.first_window = packet.window;
            }
            self.flow.largest_window = self.flow.largest_window.max(packet.window);
        }
        let scaled = match (packet.syn, self.window_shift) {
            (true, _) => Some(i64::from(packet.window)),
            (false, Some(shift)) => Some(i64::from(packet.window) << shift),
            (false, None) => None,
        };
        self.window_bytes = scaled;
        if packet.window == 0 && !packet.syn {
            self.flow.counters.zero_windows += 1;
        }
    }

    fn count_duplicate(
        &mut self,
        packet: &AckPacket,
        acknowledged: i64,
        window_before: Option<i64>,
    ) {
        if packet.pure && acknowledged == self.acknowledged {
            self.duplicate_without_sack(packet);
        }
        let same_window = window_before == self.window_bytes;
        let repeated =
            acknowledged == self.acknowledged && packet.pure && self.next > self.acknowledged;
        if repeated && (same_window || !packet.sack_blocks.is_empty()) && self.acknowledgment_seen {
            self.duplicate_acknowledgments += 1;
            self.flow.counters.duplicate_acknowledgments += 1;
        }
    }

    /// The left edge moves: all data below it has arrived. Returns the newest packet that this acknowledgment reports.
    fn on_progress(
        &mut self,
        packet: &AckPacket,
        acknowledged: i64,
        highest_before: Option<i64>,
    ) -> Option<u32> {
        let duplicates = std::mem::take(&mut self.duplicate_acknowledgments);
        self.tail_probe_at = None;
        if acknowledged < self.next {
            self.split_outstanding(acknowledged);
        }
        let mut newest: Option<u32> = None;
        let mut first = true;
        let mut repaired = false;
        let before = self.outstanding.len();
        let front = self.outstanding.front().copied();
        // no data was retransmitted yet, or all arrivals are reported selectively: no need to look back
        let looks_back = self.without_sack.is_some() && self.lacks_sack();
        let hole_end = front
            .filter(|range| range.transmissions > 1)
            .map(|range| range.end);
        while let Some(range) = self
            .outstanding
            .front()
            .copied()
            .filter(|range| range.end <= acknowledged)
        {
            self.outstanding.pop_front();
            if looks_back && self.release(&range) {
                repaired = true;
            } else if !range.sacked {
                // without SACK, an acknowledgment released by a repair does not show when the data above arrived
                repaired |= range.transmissions > 1;
                let reported = self.flow.sack_permitted && !self.options_cut;
                let usable = !repaired || (reported && range.transmissions == 1);
                // further up, data that arrived in time may have been left out of the SACK blocks
                let overtaken = first && highest_before.is_some_and(|highest| highest > range.end);
                if self.deliver(&range, packet, first, overtaken) && usable {
                    newest = Some(range.segment);
                }
            }
            first = false;
        }
        if duplicates == 0 && !repaired && self.lacks_sack() {
            self.note_answer(before - self.outstanding.len());
        }
        if let Some(front) = front.filter(|_| looks_back) {
            self.judge_released(packet, &front);
        }
        let had_data_above = acknowledged > hole_end.unwrap_or(acknowledged);
        if repaired && had_data_above && !self.options_cut && duplicates >= DUPLICATES_OF_A_LOSS {
            self.flow.signs_mut().sack.holes_without += 1;
        }
        let known = self.next.max(self.closed.probed_to);
        if acknowledged > known + 1 {
            self.count_missed((acknowledged - known) as u64);
        }
        self.next = self.next.max(acknowledged);
        self.acknowledged = acknowledged;
        self.sacked.trim(acknowledged);
        if let Some(unwrapper) = &mut self.unwrapper {
            unwrapper.advance(acknowledged);
        }
        newest
    }

    /// Counts data that the capture lacks; returns its packets.
    pub fn count_missed(&mut self, bytes: u64) -> u64 {
        if self.flow.segments.is_empty() {
            return 0; // the capture begins in the middle of the flow: not a gap
        }
        let packets = bytes.div_ceil(u64::from(self.segment_size()));
        self.flow.counters.missed_by_capture_bytes += bytes;
        self.flow.counters.missed_by_capture_packets += packets;
        packets
    }

    /// True if the acknowledgment of a packet was delayed until a packet `beyond` a hole released it (RFC 5681, section
    /// 4.2). The receiver delayed it for the missing packet, at most by the time between the two departures. If that is
    /// much of the measured wait, the wait says little about the path.
    fn was_delayed(&self, segment: u32, beyond: Option<u32>) -> bool {
        let Some(beyond) = beyond.filter(|beyond| *beyond > segment) else {
            return false;
        };
        let [segment, beyond] = [segment, beyond].map(|at| &self.flow.segments[at as usize]);
        let apart_ns = beyond.time_ns - segment.time_ns;
        let waited_ns = segment.rtt_ns - self.minimum_rtt_ns;
        waited_ns > 0 && apart_ns as f64 > DELAY_SHARE * waited_ns as f64
    }

    /// One acknowledgment measures one round-trip time: that of the newest packet it reports.
    fn mark_exact(&mut self, newest: Option<u32>) {
        let Some(segment) = newest.map(|index| self.segment_mut(index)) else {
            return;
        };
        segment.flags.set(SegmentFlags::RTT_EXACT);
        let rtt_ns = segment.rtt_ns;
        self.sample_rtt(rtt_ns);
    }

    /// Registers that `range` is reported for the first time. Returns whether its latest transmission has a usable
    /// round-trip time.
    fn deliver(
        &mut self,
        range: &Outstanding,
        packet: &AckPacket,
        at_left_edge: bool,
        overtaken: bool,
    ) -> bool {
        let bytes = (range.end - range.start) as u64;
        if range.gap {
            self.count_missed(bytes);
            let placeholder = self.segment_mut(range.segment);
            if !placeholder.is_lost() {
                placeholder.fate = Fate::Delivered;
            }
            return false;
        }
        let segment = self.flow.segments[range.segment as usize];
        let rtt_ns = packet.time_ns - segment.time_ns;
        if range.transmissions > 1 && self.original_arrived(range, packet, rtt_ns, at_left_edge) {
            self.clear_repeat(range.start, range.end, Some(range.segment), packet.time_ns);
            return false;
        }
        self.newest_delivered_ns = self.newest_delivered_ns.max(segment.time_ns);
        let segment = self.segment_mut(range.segment);
        if segment.fate == Fate::Unknown {
            segment.fate = Fate::Delivered;
        }
        if rtt_ns >= 0 && segment.rtt_ns < 0 {
            segment.rtt_ns = rtt_ns;
        }
        // a repair of a loss before this point passes here once, and is not a reordered packet
        let late = overtaken && range.transmissions == 1 && segment.kind == Kind::New;
        if late && !segment.flags.has(SegmentFlags::REORDERED) {
            segment.flags.set(SegmentFlags::REORDERED);
            self.flow.counters.reordered += 1;
        }
        rtt_ns >= 0 && range.transmissions == 1
    }

    /// True if an earlier transmission of a retransmitted range caused its acknowledgment: the timestamp echo is older
    /// than the retransmission (Eifel detection, RFC 3522), or the answer followed the retransmission too soon.
    fn original_arrived(
        &self,
        range: &Outstanding,
        packet: &AckPacket,
        rtt_ns: i64,
        at_left_edge: bool,
    ) -> bool {
        if self.is_too_soon(rtt_ns) {
            return true;
        }
        match packet.echo {
            // the echo is from the packet that moved the left edge (RFC 7323, section 4.3)
            Some(echo) if at_left_edge && range.timestamp != 0 && echo != 0 => {
                (echo.wrapping_sub(range.timestamp) as i32) < 0
            }
            _ => false,
        }
    }

    /// True if a round-trip time is shorter than the path permits.
    pub fn is_too_soon(&self, rtt_ns: i64) -> bool {
        self.minimum_rtt_ns > 0 && (rtt_ns as f64) < TOO_SOON_SHARE * self.minimum_rtt_ns as f64
    }

    /// Registers that the transmissions before the newest retransmission of `[start, end)` arrived: the retransmission
    /// was spurious. Returns whether one was found.
    fn clear_repeat(&mut self, start: i64, end: i64, of_segment: Option<u32>, now_ns: i64) -> bool {
        let overlaps = |repeat: &Repeat| repeat.start < end && start < repeat.end;
        let found = self.repeats.iter().rposition(|repeat| {
            !repeat.resolved
                && overlaps(repeat)
                && of_segment.is_none_or(|segment| segment == repeat.segment)
        });
        let Some(newest) = found else { return false };
        // one packet may retransmit the data of several: their records are adjacent
        let Repeat {
            segment, repairs, ..
        } = self.repeats[newest];
        let mut index = newest;
        let mut rest = self
            .repeats
            .get(newest + 1)
            .is_some_and(|after| after.segment == segment && !after.resolved);
        loop {
            let repeat = self.repeats[index];
            if repeat.segment != segment {
                break;
            }
            if !repeat.resolved && overlaps(&repeat) {
                self.repeats[index].resolved = true;
                self.revert_loss(&repeat, now_ns);
            }
            rest |= !self.repeats[index].resolved;
            let Some(before) = index.checked_sub(1) else {
                break;
            };
            index = before;
        }
        if rest && of_segment.is_none() {
            return true; // the receiver did not report the packet's other data as duplicate
        }
        if let Some(previous) = repairs {
            let whole = Repeat {
                previous,
                ..self.repeats[newest]
            };
            self.revert_loss(&whole, now_ns);
        }
        let copy = self.segment_mut(segment);
        copy.flags.set(SegmentFlags::SPURIOUS);
        if copy.fate == Fate::Unknown {
            copy.fate = Fate::Delivered;
        }
        true
    }

    /// Reverts a loss that was presumed when the data was retransmitted, because it had arrived: after later data, if
    /// that caused the retransmission, otherwise merely later than the sender's timeout.
    fn revert_loss(&mut self, repeat: &Repeat, now_ns: i64) {
        let fast = self.segment_mut(repeat.segment).kind == Kind::Fast;
        let original = self.segment_mut(repeat.previous);
        if original.fate == Fate::Delivered {
            return;
        }
        original.fate = Fate::Delivered;
        if original.rtt_ns < 0 {
            original.rtt_ns = (now_ns - original.time_ns).max(-1);
        }
        let overtaken = fast && !original.flags.has(SegmentFlags::REORDERED);
        if overtaken {
            original.flags.set(SegmentFlags::REORDERED);
            self.flow.counters.reordered += 1;
        }
    }

    /// Returns the newest packet that the blocks report for the first time, with a usable round-trip time.
    fn on_sack(
        &mut self,
        packet: &AckPacket,
        acknowledged: i64,
        highest_before: Option<i64>,
        unwrapper: &Unwrapper,
    ) -> Option<u32> {
        let relative =
            |block: &(u32, u32)| (unwrapper.relative(block.0), unwrapper.relative(block.1));
        let mut newest: Option<u32> = None;
        for (position, block) in packet.sack_blocks.iter().enumerate() {
            let (start, end) = relative(block);
            if start >= end {
                continue;
            }
            let outside = self.was_never_sent(start, end);
            let sack = &mut self.flow.signs_mut().sack;
            sack.blocks += 1;
            sack.outside += u64::from(outside);
            let within_second = position == 0
                && packet
                    .sack_blocks
                    .get(1)
                    .map(relative)
                    .is_some_and(|(a, b)| a <= start && end <= b);
            if position == 0 && (end <= acknowledged || within_second) {
                self.on_duplicate_sack(packet, start, end, acknowledged);
                continue;
            }
            let (start, end) = (
                start.max(acknowledged).max(self.acknowledged),
                end.min(self.next),
            );
            if let Some(segment) = self.on_sack_block(packet, start, end, highest_before) {
                newest = newest.max(Some(segment));
            }
        }
        newest
    }

    /// True for ranges beyond all data sent, before the first byte, or further back than any window (RFC 7323).
    fn was_never_sent(&self, start: i64, end: i64) -> bool {
        let first = if self.from_first_byte { 0 } else { i64::MIN };
        // data that the capture missed was sent nevertheless
        start > self.next + LARGEST_INFERRED_GAP_BYTES
            || start < first
            || end < self.acknowledged - PLAUSIBLE_BYTES
    }

    /// Registers a range that the receiver got twice (RFC 2883); all data up to `acknowledged` has arrived.
    fn on_duplicate_sack(&mut self, packet: &AckPacket, start: i64, end: i64, acknowledged: i64) {
        self.record_sack(packet.time_ns, start, end, true);
        let explains = self.clear_repeat(start, end, None, packet.time_ns);
        // the answer to a keep-alive of one old byte, which the capture may lack
        let is_of_last_byte = end - start == 1 && end == acknowledged;
        if !self.report_repeat(start, end) && !explains && !is_of_last_byte {
            self.flow.counters.duplicated_on_path += 1;
        }
    }

    /// Marks a retransmission that explains a duplicate SACK as reported; returns false if none is left.
    fn report_repeat(&mut self, start: i64, end: i64) -> bool {
        let found = self.repeats.iter().rposition(|repeat| {
            repeat.resolved && !repeat.reported && repeat.start < end && start < repeat.end
        });
        let Some(index) = found else { return false };
        let segment = self.repeats[index].segment;
        for other in self.repeats.range_mut(..=index).rev() {
            if other.segment != segment {
                break;
            }
            other.reported = true;
        }
        true
    }

    /// Marks the data that a block reports for the first time; returns its newest segment with a usable round-trip
    /// time.
    fn on_sack_block(
        &mut self,
        packet: &AckPacket,
        start: i64,
        end: i64,
        highest_before: Option<i64>,
    ) -> Option<u32> {
        let mut fresh: [(i64, i64); 8] = [(0, 0); 8];
        let mut parts = 0;
        self.sacked.insert(start, end, |a, b| {
            if parts < fresh.len() {
                fresh[parts] = (a, b);
                parts += 1;
            } else {
                fresh[parts - 1].1 = b;
            }
        });
        let mut newest = None;
        for &(a, b) in &fresh[..parts] {
            self.record_sack(packet.time_ns, a, b, false);
            self.split_outstanding(a);
            self.split_outstanding(b);
            let mut at = self.outstanding_at(a);
            while let Some(range) = self
                .outstanding
                .get(at)
                .copied()
                .filter(|range| range.end <= b)
            {
                if !range.sacked && range.start >= a {
                    self.outstanding[at].sacked = true;
                    let room_for_all = packet.sack_blocks.len() <= 2;
                    let overtaken =
                        room_for_all && highest_before.is_some_and(|highest| highest > range.end);
                    if self.deliver(&range, packet, false, overtaken) {
                        newest = newest.max(Some(range.segment));
                    }
                }
                at += 1;
            }
        }
        newest
    }

    fn record_sack(&mut self, time_ns: i64, start: i64, end: i64, duplicate: bool) {
        if self.keep_acknowledgments {
            self.flow.sack_blocks.push(SackBlock {
                time_ns,
                start,
                end,
                duplicate,
            });
        }
    }
}
