//! Processing of a data packet at the capture point: new data, a retransmission, a late packet, or evidence of a gap.

use super::{Half, MAX_REPEATS, MAX_REPEATS_WITHOUT_SACK, Outstanding, Repeat};
use crate::ecn::Ecn;
use crate::flow::{Fate, Kind, Segment, SegmentFlags};
use crate::sequence::PLAUSIBLE_BYTES;
use crate::sequence::Unwrapper;

/// The relevant fields of a data packet; super-segments are not split yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataPacket {
    pub time_ns: i64,
    /// Number in the capture, from 1.
    pub number: u64,
    /// Time of the other side's latest packet.
    pub answered_ns: i64,
    /// Raw sequence number of the first payload byte.
    pub sequence: u32,
    pub payload_bytes: u32,
    pub header_bytes: u16,
    /// TCP timestamp value.
    pub timestamp: Option<u32>,
    pub identification: Option<u16>,
    /// The ECN bits of the IP header.
    pub ecn: u8,
    /// CWR.
    pub window_reduced: bool,
}

/// The loss that a retransmission presumably repairs: one packet at most, for each retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repairs {
    Nothing,
    /// A packet lost before the capture point.
    Gap,
    /// The transmission with this index in `Flow::segments`.
    Transmission(u32),
}

/// Larger gaps are holes in the capture, and not inferred packet by packet.
pub(crate) const LARGEST_INFERRED_GAP_BYTES: i64 = 16 << 20;
/// The largest gap right before the first captured data, a FIN or a bare acknowledgment that is inferred as lost: ten
/// full segments.
const LARGEST_GAP_AT_AN_END_BYTES: i64 = 14_600;
/// The most packets of gaps that are inferred: some at the start, and more for each captured packet. A path that loses
/// two packets of three carries no TCP, and a jump of the sequence number does not prove that data was sent.
const INFERRED_AT_ONCE: usize = 64;
const INFERRED_PER_PACKET: usize = 2;
/// The largest super-segment (Linux's `GSO_MAX_SIZE`): a larger length is damaged.
const LARGEST_SUPER_SEGMENT_BYTES: u32 = 8 * 65_535;
/// A repeated single byte within this time after its segment is a retransmission and not a keep-alive.
const KEEP_ALIVE_NOT_BEFORE_NS: i64 = 1_000_000_000;
/// A value of the ECN bits (RFC 3168).
const CONGESTION_EXPERIENCED: u8 = 3;
/// Linux's minimum retransmission timeout; other systems wait longer (RFC 6298: 1 s).
const MINIMUM_TIMEOUT_NS: f64 = 200e6;
/// A packet this late without other evidence was reordered, not retransmitted: no sender detects a loss sooner.
const LATE_NOT_REPEATED_NS: i64 = 3_000_000;

impl Half {
    /// Records a packet with payload, split into the wire packets of a super-segment.
    pub fn on_data(&mut self, packet: &DataPacket) {
        self.account_time(packet.time_ns);
        self.allow_moves();
        let unwrapper = *self
            .unwrapper
            .get_or_insert_with(|| Unwrapper::new(packet.sequence));
        let start = unwrapper.relative(packet.sequence);
        let few_before = start - self.next <= LARGEST_GAP_AT_AN_END_BYTES;
        let answered = self.acknowledgment_seen || self.from_handshake;
        let known_before = self.from_first_byte && (answered || few_before);
        if self.flow.segments.is_empty() && !known_before && start > self.next {
            // the capture begins in the middle of the connection: the data in flight was sent before
            self.next = start;
            self.acknowledged = start;
        }
        if !self.is_plausible(start, packet.payload_bytes) {
            self.count_without_segment(packet);
            return;
        }
        if self.is_window_probe(start, packet) {
            self.count_without_segment(packet);
            self.on_window_probe(start + i64::from(packet.payload_bytes));
            return;
        }
        if self.is_keep_alive(start, packet) {
            self.count_without_segment(packet);
            self.flow.counters.keep_alives += 1;
            return;
        }
        self.on_data_and_window(packet);
        let header_bytes = u32::from(packet.header_bytes);
        let piece = self.segment_size.cut(packet.payload_bytes, header_bytes);
        self.flow.counters.offloaded_super_segments += u64::from(piece < packet.payload_bytes);
        let mut offset = 0;
        while offset < packet.payload_bytes {
            let bytes = piece.min(packet.payload_bytes - offset);
            let at = start + i64::from(offset);
            self.on_wire_packet(packet, at, bytes, piece < packet.payload_bytes);
            offset += bytes;
        }
        if let Some(unwrapper) = &mut self.unwrapper {
            unwrapper.advance(self.next);
        }
        self.last_sent_ns = packet.time_ns;
    }

    /// True if a packet with this number shows that its sender had sent more than was captured. A FIN takes a sequence
    /// number too, and may be all that was sent.
    #[inline]
    pub fn was_sent_unseen(&self, sequence: u32) -> bool {
        let start = self.unwrapper.map(|unwrapper| unwrapper.relative(sequence));
        start.is_some_and(|start| start > self.next + 1)
    }

    /// Registers a FIN or an acknowledgment without data, which shows, as data would, that earlier data has not passed.
    pub fn on_end_of_sent(&mut self, packet: &DataPacket) {
        let Some(start) = self.unwrapper.map(|u| u.relative(packet.sequence)) else {
            return;
        };
        let gap_bytes = start - self.next;
        // a larger gap is a hole in the capture, which acknowledgments will confirm
        if gap_bytes > 0
            && gap_bytes <= LARGEST_GAP_AT_AN_END_BYTES
            && !self.flow.segments.is_empty()
        {
            self.infer_gap(packet, start);
        }
    }

    /// True if such a packet can be part of the flow: damaged lengths and forged numbers must not move its edges.
    fn is_plausible(&mut self, start: i64, payload_bytes: u32) -> bool {
        if payload_bytes > LARGEST_SUPER_SEGMENT_BYTES
            || start < self.acknowledged - PLAUSIBLE_BYTES
        {
            return false;
        }
        start - self.next <= LARGEST_INFERRED_GAP_BYTES
            || self.flow.segments.is_empty()
            || self.jump.is_confirmed(start, LARGEST_INFERRED_GAP_BYTES)
    }

    fn count_without_segment(&mut self, packet: &DataPacket) {
        self.flow.counters.packets += 1;
        self.flow.counters.ip_bytes +=
            u64::from(packet.payload_bytes) + u64::from(packet.header_bytes);
    }

    /// A probe of a closed window: the one byte after the acknowledged data (RFC 9293, section 3.8.6.1), or more, if
    /// the receiver never allowed it. Senders repeat it until it is answered; no packet was lost.
    fn is_window_probe(&self, start: i64, packet: &DataPacket) -> bool {
        let is_one_byte = packet.payload_bytes == 1
            && self.window_raw == 0
            && self.acknowledgment_seen
            && self.proven == Some(start);
        !self.flow.segments.is_empty() && (is_one_byte || self.is_beyond_window(start))
    }

    /// A keep-alive: one byte just below the next expected one, with everything acknowledged (RFC 9293, section 3.8.4).
    fn is_keep_alive(&self, start: i64, packet: &DataPacket) -> bool {
        let Some(last) = self
            .flow
            .segments
            .last()
            .filter(|_| packet.payload_bytes == 1)
        else {
            return false;
        };
        let repeats_last = last.sequence == start
            && last.payload_bytes == 1
            && packet.time_ns - self.last_sent_ns < KEEP_ALIVE_NOT_BEFORE_NS;
        start + 1 == self.next && self.proven >= Some(self.next) && !repeats_last
    }

    /// Processes a packet without payload, SYN or FIN. It is a keep-alive or a probe of a closed window if it lies
    /// before the acknowledged data; Linux sends both in this form.
    pub fn on_bare_acknowledgment(&mut self, time_ns: i64, sequence: u32) {
        let Some(start) = self.unwrapper.map(|u| u.relative(sequence)) else {
            return;
        };
        self.note_position(time_ns, start);
        if self.proven != Some(start + 1) {
            return;
        }
        // a window that is open, but too small for a sender to use, is probed as well
        if self.window_raw == 0 || self.closed.since_ns.is_some() {
            self.on_window_probe(start);
        } else if self.next <= start + 1 {
            self.flow.counters.keep_alives += 1;
        }
    }

    fn on_wire_packet(&mut self, packet: &DataPacket, start: i64, bytes: u32, offloaded: bool) {
        let end = start + i64::from(bytes);
        if start > self.next {
            self.infer_gap(packet, start);
        }
        let counters = &mut self.flow.counters;
        counters.payload_bytes += u64::from(bytes);
        counters.ip_bytes += u64::from(bytes) + u64::from(packet.header_bytes);
        counters.packets += 1;
        match packet.ecn {
            0 => {}
            1 => counters.ect1 += 1,
            2 => counters.ect0 += 1,
            CONGESTION_EXPERIENCED.. => counters.ce_marked += 1,
        }
        counters.windows_reduced +=
            u64::from(packet.window_reduced && self.flow.ecn != Ecn::Accurate);
        self.inference_allowance += INFERRED_PER_PACKET;
        if start >= self.next {
            let segment = self.push_segment(packet, start, bytes, Kind::New);
            self.append(packet, start, end, segment);
            if packet.answered_ns == 0 {
                self.silence = None; // the silence ends, since no captured answer made room for this data
            }
        } else if !self.fills_gap(packet, start, end) {
            self.on_repeat(packet, start, end);
        }
        self.after_send(packet, offloaded);
    }

    /// Appends the ranges of new data at the end of sequence space.
    fn append(&mut self, packet: &DataPacket, start: i64, end: i64, segment: u32) {
        if let Some(transfer) = self.flow.transfers.last_mut() {
            transfer.payload_bytes += (end - start) as u64;
        }
        self.push_outstanding(Outstanding {
            start: start.max(self.next),
            end,
            segment,
            timestamp: packet.timestamp.unwrap_or(0),
            identification: packet.identification.unwrap_or(0),
            transmissions: 1,
            sacked: false,
            gap: false,
        });
        self.next = end;
    }

    fn push_segment(&mut self, packet: &DataPacket, start: i64, bytes: u32, kind: Kind) -> u32 {
        if self.flow.transfers.is_empty() {
            self.begin_transfer(packet.time_ns);
        }
        let mut flags = SegmentFlags::default();
        if packet.ecn == CONGESTION_EXPERIENCED {
            flags.set(SegmentFlags::CE);
        }
        if self.flow.segments.is_empty() {
            self.flow.segments.reserve_exact(1); // most connections of a flood have one
        }
        self.flow.segments.push(Segment {
            time_ns: packet.time_ns,
            sequence: start,
            rtt_ns: -1,
            in_flight_bytes: 0,
            payload_bytes: bytes,
            header_bytes: packet.header_bytes,
            kind,
            fate: Fate::Unknown,
            flags,
        });
        (self.flow.segments.len() - 1) as u32
    }

    fn after_send(&mut self, packet: &DataPacket, offloaded: bool) {
        let in_flight = u32::try_from(self.in_flight_bytes()).unwrap_or(u32::MAX);
        self.known_window.advance(packet.time_ns, self.next);
        let limited = self
            .window_room()
            .is_some_and(|room| room < i64::from(self.segment_size()));
        if let Some(transfer) = self.flow.transfers.last_mut() {
            transfer.end_ns = transfer.end_ns.max(packet.time_ns);
        }
        if let Some(segment) = self.flow.segments.last_mut() {
            segment.in_flight_bytes = in_flight;
            if offloaded {
                segment.flags.set(SegmentFlags::OFFLOADED);
            }
            if limited {
                segment.flags.set(SegmentFlags::WINDOW_LIMITED);
                self.flow.counters.window_limited_packets += 1;
            }
        }
    }

    /// The sequence jumped: packets in between were lost before this point, are late, or were missed by the capture.
    /// Placeholders mark the gap, and later evidence decides what they become.
    fn infer_gap(&mut self, packet: &DataPacket, start: i64) {
        let piece = i64::from(self.segment_size());
        let packets = ((start - self.next) / piece) as usize;
        if packets > self.inference_allowance + INFERRED_AT_ONCE
            || start - self.next > LARGEST_INFERRED_GAP_BYTES
        {
            let missed = self.count_missed((start - self.next) as u64);
            self.flow.counters.passed_over_packets += missed;
            self.outstanding.clear();
            self.sacked.trim(start);
            self.acknowledged = self.acknowledged.max(start);
            self.next = start;
            return;
        }
        self.inference_allowance = self.inference_allowance.saturating_sub(packets);
        while self.next < start {
            let end = (self.next + piece).min(start);
            let (from, bytes) = (self.next, (end - self.next) as u32);
            let segment = self.push_segment(packet, from, bytes, Kind::New);
            self.segment_mut(segment).flags.set(SegmentFlags::INFERRED);
            self.append(packet, from, end, segment);
            if let Some(range) = self.outstanding.back_mut() {
                range.gap = true;
                range.transmissions = 0;
            }
            let in_flight = u32::try_from(self.in_flight_bytes()).unwrap_or(u32::MAX);
            self.segment_mut(segment).in_flight_bytes = in_flight;
        }
    }

    /// True for a packet that fills a gap of the capture: late, or retransmitted after a loss before this point.
    fn fills_gap(&mut self, packet: &DataPacket, start: i64, end: i64) -> bool {
        let at = self.outstanding_at(start);
        let Some(gap) = self
            .outstanding
            .get(at)
            .copied()
            .filter(|range| range.gap && range.start <= start)
        else {
            return false;
        };
        self.split_outstanding(start);
        let known_end = end.min(self.next);
        self.split_outstanding(known_end);
        let from = self.outstanding_at(start);
        let to = self
            .outstanding
            .partition_point(|range| range.start < known_end);
        // a packet with data that was captured before is a retransmission, whatever else it carries
        let only_gaps = self.outstanding.range(from..to).all(|range| range.gap);
        let gap_ns = self.flow.segments[gap.segment as usize].time_ns;
        let late = only_gaps && is_late(packet, &gap, gap_ns);
        let kind = if late {
            Kind::New
        } else {
            self.repeat_kind(packet.time_ns, start, end)
        };
        let segment = self.push_segment(packet, start, (end - start) as u32, kind);
        if !late {
            self.count_repeat(kind);
            self.lose_placeholder(from, to);
        } else if packet.time_ns >= gap_ns {
            // with an earlier timestamp, only the file is out of order, as captures of several queues are
            self.flow.counters.reordered += 1;
            self.segment_mut(segment).flags.set(SegmentFlags::REORDERED);
        }
        for index in from..to {
            if self.outstanding[index].gap {
                self.fill_range(packet, index, segment, late);
            } else {
                self.repeat_range(packet, index, segment, Repairs::Gap);
            }
        }
        self.merge_outstanding(from, to);
        if end > self.next {
            self.append(packet, self.next, end, segment);
        }
        true
    }

    /// The packet of a gap has arrived: late, or in place of a lost one.
    fn fill_range(&mut self, packet: &DataPacket, index: usize, segment: u32, late: bool) {
        let range = &mut self.outstanding[index];
        let (placeholder, bytes) = (range.segment, (range.end - range.start) as u32);
        range.gap = false;
        range.segment = segment;
        range.transmissions = range.transmissions.saturating_add(1);
        range.timestamp = packet.timestamp.unwrap_or(0);
        range.identification = packet.identification.unwrap_or(0);
        if late {
            // gaps are cut at the segment size, but packets may differ: the rest may still be missing
            self.shrink_placeholder(placeholder, bytes);
        }
    }

    fn shrink_placeholder(&mut self, placeholder: u32, bytes: u32) {
        let rest = self.segment_mut(placeholder);
        if !rest.is_lost() {
            rest.payload_bytes = rest.payload_bytes.saturating_sub(bytes);
        }
    }

    /// Registers that a retransmission carries data missing in gaps among the ranges `from..to`: one packet of its size
    /// was lost before this point, however the gaps were cut when they appeared. Returns whether there was a gap.
    fn lose_placeholder(&mut self, from: usize, to: usize) -> bool {
        let (mut start, mut lost_bytes) = (None, 0);
        let (mut free, mut last) = (None, 0);
        for index in from..to {
            let range = self.outstanding[index];
            if !range.gap || range.sacked {
                continue;
            }
            let bytes = (range.end - range.start) as u32;
            start.get_or_insert(range.start);
            lost_bytes += bytes;
            last = range.segment;
            if !self.flow.segments[last as usize].is_lost() {
                free.get_or_insert(last);
            }
            self.shrink_placeholder(last, bytes);
        }
        let Some(sequence) = start else { return false };
        let lost = |segment: &Segment| Segment {
            sequence,
            payload_bytes: lost_bytes,
            fate: Fate::Lost,
            ..*segment
        };
        match free {
            Some(free) => {
                let placeholder = self.segment_mut(free);
                *placeholder = lost(placeholder);
            }
            None => {
                let segment = lost(&self.flow.segments[last as usize]);
                self.more_lost.push((last, segment));
            }
        }
        true
    }

    /// Presumes the loss that a retransmission of the ranges `from..to` repairs. It proves the loss of one packet, the
    /// first that it repeats; for the others, only that the sender had no acknowledgment.
    fn presume_lost(&mut self, from: usize, to: usize) -> Repairs {
        if self.lose_placeholder(from, to) {
            return Repairs::Gap;
        }
        let segments = &self.flow.segments;
        let lost = self.outstanding.range(from..to).find(|range| {
            !range.sacked && !range.gap && !segments[range.segment as usize].is_lost()
        });
        match lost.map(|range| range.segment) {
            Some(segment) => {
                self.set_fate(segment, Fate::Lost);
                Repairs::Transmission(segment)
            }
            None => Repairs::Nothing,
        }
    }

    /// Processes a retransmission of data that was captured before.
    fn on_repeat(&mut self, packet: &DataPacket, start: i64, end: i64) {
        let kind = self.repeat_kind(packet.time_ns, start, end);
        self.count_repeat(kind);
        if start <= self.acknowledged && end > self.acknowledged {
            self.repeat_into_silence(packet);
        }
        let segment = self.push_segment(packet, start, (end - start) as u32, kind);
        if end <= self.acknowledged {
            // all its data has been acknowledged: certainly not needed; otherwise first sent before the capture began
            if self.proven >= Some(end) {
                self.segment_mut(segment).flags.set(SegmentFlags::SPURIOUS);
                self.remember_repeat_of_acknowledged(start, end, segment);
            }
            return;
        }
        let (from_position, to_position) = (start.max(self.acknowledged), end.min(self.next));
        self.split_outstanding(from_position);
        self.split_outstanding(to_position);
        let from = self.outstanding_at(from_position);
        let to = self
            .outstanding
            .partition_point(|range| range.start < to_position);
        if self.lacks_sack() {
            self.note_choice(from);
        }
        let mut all_sacked = true;
        let repairs = self.presume_lost(from, to);
        for index in from..to {
            all_sacked &= self.outstanding[index].sacked;
            self.repeat_range(packet, index, segment, repairs);
        }
        self.merge_outstanding(from, to);
        if all_sacked && end <= self.next {
            self.segment_mut(segment).flags.set(SegmentFlags::SPURIOUS);
        }
        if end > self.next {
            self.append(packet, self.next, end, segment);
        }
    }

    fn repeat_range(&mut self, packet: &DataPacket, index: usize, segment: u32, repairs: Repairs) {
        let range = self.outstanding[index];
        self.remember_repeat(Repeat {
            start: range.start,
            end: range.end,
            previous: range.segment,
            segment,
            repairs: match repairs {
                Repairs::Transmission(lost) => Some(lost),
                Repairs::Nothing | Repairs::Gap => None,
            },
            // a retransmission that fills a gap was needed, whatever else it carries
            resolved: range.sacked || repairs == Repairs::Gap,
            reported: false,
        });
        let range = &mut self.outstanding[index];
        range.gap = false;
        if !range.sacked {
            range.segment = segment;
            range.timestamp = packet.timestamp.unwrap_or(0);
            range.identification = packet.identification.unwrap_or(0);
            range.transmissions = range.transmissions.saturating_add(1);
        }
    }

    fn remember_repeat(&mut self, repeat: Repeat) {
        let most = match self.lacks_sack() {
            true => MAX_REPEATS_WITHOUT_SACK,
            false => MAX_REPEATS,
        };
        if self.lacks_sack() {
            self.look_back();
        }
        if self.repeats.len() >= most {
            self.repeats.pop_front();
        }
        self.repeats.push_back(repeat);
    }

    /// A copy of acknowledged data: a duplicate SACK for it must not be attributed to an older retransmission of the
    /// range.
    fn remember_repeat_of_acknowledged(&mut self, start: i64, end: i64, segment: u32) {
        self.remember_repeat(Repeat {
            start,
            end,
            previous: segment,
            segment,
            repairs: None,
            resolved: false,
            reported: false,
        });
        self.set_fate(segment, Fate::Delivered);
    }

    fn count_repeat(&mut self, kind: Kind) {
        self.flow.counters.retransmitted += 1;
        self.flow.counters.retransmitted_by_kind[kind as usize] += 1;
    }

    /// Why the sender retransmits `[start, end)` now. A retransmission right after an acknowledgment was caused by it;
    /// one during silence was caused by a timer.
    fn repeat_kind(&mut self, now_ns: i64, start: i64, end: i64) -> Kind {
        let reference = self.last_acknowledgment_ns.max(self.last_sent_ns);
        let silence = (now_ns - reference - self.near_rtt_ns) as f64;
        let rtt = if self.smoothed_rtt_ns > 0.0 {
            self.smoothed_rtt_ns
        } else {
            MINIMUM_TIMEOUT_NS
        };
        let timeout = rtt + (4.0 * self.rtt_variation_ns).max(MINIMUM_TIMEOUT_NS);
        let selectively = self.sacked.highest().is_some_and(|highest| highest > start);
        let sent_ns = self.last_sent_at(start);
        // RACK (RFC 8985, section 6.2) considers later data that has arrived, including retransmissions of lower data;
        // it may wait for its own timer, which is shorter than a timeout
        let overtaken = selectively || sent_ns.is_some_and(|sent| sent < self.newest_delivered_ns);
        let age = sent_ns.map_or(f64::MAX, |sent| now_ns.saturating_sub(sent) as f64);
        let may_be_timeout = !overtaken || age > 0.9 * timeout;
        // an acknowledgment acts at once, a timer after at least a round-trip time: the threshold lies midway between
        if silence > (rtt / 2.0).max(5e6) && may_be_timeout {
            let is_last = end >= self.next;
            let is_first = start <= self.acknowledged;
            let probed = self.tail_probe_at == Some(start);
            // with SACK, Linux and Windows probe first even if the timeout would be as near (RFC 8985, section 7.2)
            let probing = !is_first || self.flow.sack_permitted || silence < 0.9 * timeout;
            let recovering = start < self.timeout_recovery_end;
            if is_last && !probed && !recovering && probing {
                self.tail_probe_at = Some(start);
                return Kind::TailLossProbe;
            }
            self.timeout_recovery_end = self.next;
            return Kind::Timeout;
        }
        if start < self.timeout_recovery_end {
            return Kind::Timeout;
        }
        if overtaken || self.duplicate_acknowledgments > 0 || start <= self.acknowledged {
            return Kind::Fast;
        }
        Kind::Other
    }

    /// When the byte at `position` was last sent.
    fn last_sent_at(&self, position: i64) -> Option<i64> {
        let range = self.outstanding.get(self.outstanding_at(position))?;
        Some(self.flow.segments[range.segment as usize].time_ns)
    }
}

/// True if a packet that fills a gap left the sender before the packet that revealed the gap.
fn is_late(packet: &DataPacket, gap: &Outstanding, gap_ns: i64) -> bool {
    if let Some(timestamp) = packet.timestamp {
        let newer = timestamp.wrapping_sub(gap.timestamp) as i32;
        if newer != 0 {
            return newer < 0;
        }
    }
    if let Some(identification) = packet.identification.filter(|id| *id != 0)
        && gap.identification != 0
    {
        // senders that increment the identification per connection; a random one decides nothing
        let newer = identification.wrapping_sub(gap.identification) as i16;
        if (-256..0).contains(&newer) {
            return true;
        }
    }
    packet.time_ns - gap_ns < LATE_NOT_REPEATED_NS
}
