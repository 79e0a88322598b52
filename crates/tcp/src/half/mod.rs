//! One direction of a connection: the data sent and not yet acknowledged, and the fate of each transmission.
//!
//! The two parts of the work are in [`transmissions`] (a data packet passes the capture point) and [`acknowledgments`]
//! (its acknowledgment returns).

pub mod acknowledgments;
mod closed_window;
mod ecn;
mod open_hole;
mod signs;
pub mod transmissions;
mod window;
mod without_sack;

use std::collections::VecDeque;

use crate::closed_window::ClosedWindow;
use crate::control::Beginning;
use crate::ecn::AceCounter;
use crate::flow::{Fate, Flow, OutstandingAtLoss, Segment, SegmentFlags, Transfer};
use crate::ranges::RangeSet;
use crate::segmentation::SegmentSize;
use crate::sender_clock::Echoes;
use crate::sequence::Unwrapper;
use crate::signs::Silence;
use crate::timestamp_clock::Reading;
use crate::window::KnownWindow;
use without_sack::{Answering, Choices, WithoutSack};

/// A range of sequence space between the left edge and the highest byte sent. The ranges are contiguous.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outstanding {
    pub start: i64,
    pub end: i64,
    /// Index of the latest transmission of this range in `Flow::segments`.
    pub segment: u32,
    /// TCP timestamp value of that transmission; for a gap, of the packet that revealed it.
    pub timestamp: u32,
    /// IP identification of the same packet.
    pub identification: u16,
    pub transmissions: u8,
    pub sacked: bool,
    /// A gap in the captured sequence: no transmission of this range was captured yet.
    pub gap: bool,
}

/// A retransmission and the transmission that it repeats, kept for later duplicate SACKs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repeat {
    pub start: i64,
    pub end: i64,
    pub previous: u32,
    pub segment: u32,
    /// The lost transmission that the retransmission presumably repairs, if any.
    pub repairs: Option<u32>,
    /// The previous transmission is known to have arrived.
    pub resolved: bool,
    /// Reported by a duplicate SACK.
    pub reported: bool,
}

/// The most outstanding ranges (a window of 190 MB in full segments) and retransmissions that are remembered: ample,
/// and a bound if acknowledgments are missing from the capture or forged.
pub(crate) const MAX_OUTSTANDING: usize = 1 << 17;
pub(crate) const MAX_REPEATS: usize = 1 << 12;
/// Without SACK a timeout retransmits a whole window.
pub(crate) const MAX_REPEATS_WITHOUT_SACK: usize = 1 << 16;
/// The most ranges moved in memory per packet to make room for irregular boundaries. Segment boundaries need no moves,
/// and forged ones must not cost a whole window for each packet.
const MOVES_PER_PACKET: usize = 1 << 10;
const MOST_MOVES: usize = 1 << 20;

/// Ranges examined one by one before a binary search.
const NEAR_THE_FIRST: usize = 4;

/// One direction of a connection, from the sender's view.
#[derive(Debug, Default)]
pub(crate) struct Half {
    pub flow: Flow,
    pub unwrapper: Option<Unwrapper>,
    /// The first data that it sent.
    pub beginning: Beginning,
    /// One past the highest byte sent.
    pub next: i64,
    /// Left edge: everything below is acknowledged, or was sent before the capture began or during a hole in it.
    pub acknowledged: i64,
    /// The highest acknowledgment captured.
    pub proven: Option<i64>,
    /// The highest position beyond `next` of a packet without data, and its time.
    pub reported_position: Option<(i64, i64)>,
    /// The SYN was captured: sequence number 0 is the first byte.
    pub from_first_byte: bool,
    /// And so was the SYN/ACK: data missing before the first captured data was sent since then.
    pub from_handshake: bool,
    /// Position of a packet or an acknowledgment far ahead.
    pub jump: Jump,
    pub acknowledged_jump: Jump,
    /// The number of packets in gaps that may still be inferred.
    pub inference_allowance: usize,
    move_allowance: usize,
    pub acknowledgment_seen: bool,
    pub outstanding: VecDeque<Outstanding>,
    pub sacked: RangeSet,
    pub repeats: VecDeque<Repeat>,
    /// Retransmissions below this position belong to a recovery from a timeout.
    pub timeout_recovery_end: i64,
    pub tail_probe_at: Option<i64>,
    pub duplicate_acknowledgments: u32,
    /// Receive window as last advertised to this sender; `None` if unknown.
    pub window_bytes: Option<i64>,
    pub known_window: KnownWindow,
    pub window_raw: u16,
    pub window_shift: Option<u8>,
    pub smoothed_rtt_ns: f64,
    pub rtt_variation_ns: f64,
    pub minimum_rtt_ns: i64,
    /// Round-trip time from the capture point to this sender, from the handshake.
    pub near_rtt_ns: i64,
    /// When the newest transmission that is known to have arrived was sent.
    pub newest_delivered_ns: i64,
    pub last_sent_ns: i64,
    /// Retransmissions of the first outstanding segment since the peer's last packet.
    pub silence: Option<Box<Silence>>,
    pub closed: ClosedWindow,
    pub ace: AceCounter,
    /// The last acknowledgment reported congestion (RFC 3168).
    pub echoing: bool,
    /// An acknowledgment had truncated options, so arrivals may have been reported unseen.
    pub options_cut: bool,
    pub last_acknowledgment_ns: i64,
    pub last_event_ns: i64,
    pub segment_size: SegmentSize,
    /// Packets lost before this point without a placeholder, and the segment that each follows.
    pub more_lost: Vec<(u32, Segment)>,
    pub keep_acknowledgments: bool,
    pub account_for_time: bool,
    /// The timestamps of its data, once there are enough to be useful.
    pub echoes: Option<Box<Echoes>>,
    /// Its sender's clock when its first data left, until there are enough.
    pub first_clock: Option<Reading>,
    /// Acknowledgments of in-order data without SACK: how many segments each covers.
    pub answering: Answering,
    pub choices: Choices,
    /// Set when data is first retransmitted without SACK.
    pub without_sack: Option<Box<WithoutSack>>,
}

/// An initial window of ten segments leaves without waiting (RFC 6928), and thousands of small connections need no
/// more.
const FEWEST_FOR_ECHOES: usize = 8;

/// Tunnels and options take no larger share of a segment: IPv6's minimum of 1280 bytes is 0.83 of Ethernet's MTU.
const LEAST_OF_ANNOUNCED: f64 = 0.8;
/// This many segments of the largest size, and a majority of all: a sender with more data fills its segments (RFC 9293,
/// section 3.8.6.2.1).
const FEWEST_FULL: usize = 10;

/// No path that carries data loses as much.
const MANY_JUMPED_OVER_SHARE: f64 = 0.3;

/// Rejects a number far from all others, which is damaged, forged, or the first after a hole in the capture, until a
/// second one near it confirms it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Jump(Option<i64>);

impl Jump {
    /// True if a number near `position` came before; remembers it.
    pub fn is_confirmed(&mut self, position: i64, tolerance: i64) -> bool {
        let before = self.0.replace(position);
        before.is_some_and(|before| position.abs_diff(before) <= tolerance as u64)
    }
}

impl Half {
    pub fn in_flight_bytes(&self) -> i64 {
        (self.next - self.acknowledged - self.sacked.total()).max(0)
    }

    /// Registers the timestamps of data that passed.
    pub fn note_timestamps(&mut self, time_ns: i64, timestamps: Option<(u32, u32)>) {
        let Some((value, echo)) = timestamps.filter(|_| self.account_for_time) else {
            return;
        };
        self.first_clock.get_or_insert(Reading {
            time_ns,
            ticks: value,
        });
        if self.echoes.is_none() && self.flow.segments.len() >= FEWEST_FOR_ECHOES {
            let count = self.flow.acknowledgments.len();
            self.echoes = Some(Box::new(Echoes::after(count)));
        }
        if let Some(echoes) = &mut self.echoes {
            echoes.data(time_ns, value, echo);
        }
    }

    pub fn segment_size(&self) -> u32 {
        self.segment_size.bytes().max(1)
    }

    /// True if an acknowledgment number covers only the SYN.
    pub fn is_before_first_byte(&self, acknowledgment: u32) -> bool {
        let at = |unwrapper: Unwrapper| unwrapper.relative(acknowledgment);
        self.from_first_byte && self.unwrapper.map(at) == Some(0)
    }

    /// Index of the range that contains `position`, which must be in `[start of the first, end of the last)`.
    #[inline]
    pub fn outstanding_at(&self, position: i64) -> usize {
        // most acknowledgments end near the first ranges
        let near = self.outstanding.iter().take(NEAR_THE_FIRST);
        if let Some(at) = near.enumerate().find(|(_, range)| range.end > position) {
            return at.0;
        }
        self.outstanding
            .partition_point(|range| range.end <= position)
    }

    /// True if `moved` ranges may be moved in memory now.
    fn may_move(&mut self, moved: usize) -> bool {
        let allowed = moved <= self.move_allowance;
        if allowed {
            self.move_allowance -= moved;
        }
        allowed
    }

    /// Resets the budget of moves for the next packet.
    pub fn allow_moves(&mut self) {
        self.move_allowance = (self.move_allowance + MOVES_PER_PACKET).min(MOST_MOVES);
    }

    /// Makes `position` a boundary between two ranges, if it is inside one. If the budget of moves is exhausted,
    /// because boundaries are forged, the range stays whole.
    pub fn split_outstanding(&mut self, position: i64) {
        let at = self.outstanding_at(position);
        if self
            .outstanding
            .get(at)
            .is_none_or(|range| range.start >= position)
        {
            return;
        }
        let moved = at.min(self.outstanding.len() - at);
        let full = self.outstanding.len() >= MAX_OUTSTANDING;
        if at > 0 && (full || !self.may_move(moved)) {
            return;
        }
        if let Some(range) = self.outstanding.get_mut(at) {
            let mut right = *range;
            range.end = position;
            right.start = position;
            self.outstanding.insert(at + 1, right);
        }
    }

    /// Merges the ranges `from..to`, which one packet has just retransmitted, and each run of selectively acknowledged
    /// ranges among them. Retransmitting a window of tiny segments repeatedly then costs its moves only once.
    pub fn merge_outstanding(&mut self, from: usize, to: usize) {
        /// Merging this many ranges is worth any move.
        const MANY: usize = 32;
        let moved = from.min(self.outstanding.len() - to);
        if to - from < 2 || (to - from < MANY && !self.may_move(moved)) {
            return;
        }
        let mut kept = from;
        for index in from + 1..to {
            let range = self.outstanding[index];
            let into = &mut self.outstanding[kept];
            let alike = into.sacked == range.sacked && into.gap == range.gap;
            if alike && (range.sacked || into.segment == range.segment) {
                into.end = range.end;
                into.transmissions = into.transmissions.max(range.transmissions);
            } else {
                kept += 1;
                self.outstanding[kept] = range;
            }
        }
        self.outstanding.drain(kept + 1..to);
    }

    pub fn push_outstanding(&mut self, range: Outstanding) {
        if self.outstanding.len() >= MAX_OUTSTANDING {
            // no acknowledgments were captured: drop the oldest range; its fate stays unknown
            if let Some(oldest) = self.outstanding.pop_front() {
                self.acknowledged = self.acknowledged.max(oldest.end);
                self.sacked.trim(oldest.end);
            }
        }
        self.outstanding.push_back(range);
    }

    /// Attributes the time since the last event to the sender's limiter.
    pub fn account_time(&mut self, now_ns: i64) {
        // a window update that reaches the sender in between changes the limiter from then on
        while let Some(due_ns) = self
            .known_window
            .next_due_ns()
            .filter(|due_ns| *due_ns < now_ns)
        {
            self.account_time_to(due_ns);
            self.known_window.advance(due_ns, self.next);
        }
        self.account_time_to(now_ns);
        self.known_window.advance(now_ns, self.next);
    }

    fn account_time_to(&mut self, now_ns: i64) {
        if self.last_event_ns != 0 {
            let elapsed = (now_ns - self.last_event_ns).max(0); // both times are plausible: no overflow
            if self.in_flight_bytes() > 0 {
                self.flow.limited.busy_ns += elapsed;
                if self
                    .window_room()
                    .is_some_and(|room| room < i64::from(self.segment_size()))
                {
                    self.flow.limited.window_ns += elapsed;
                }
            } else {
                self.flow.limited.idle_ns += elapsed;
            }
        }
        self.last_event_ns = self.last_event_ns.max(now_ns);
    }

    /// Updates the smoothed round-trip time and its variation (RFC 6298, section 2).
    pub fn sample_rtt(&mut self, rtt_ns: i64) {
        let rtt = rtt_ns as f64;
        if self.smoothed_rtt_ns == 0.0 {
            self.smoothed_rtt_ns = rtt;
            self.rtt_variation_ns = rtt / 2.0;
            self.minimum_rtt_ns = rtt_ns;
        } else {
            self.rtt_variation_ns +=
                ((self.smoothed_rtt_ns - rtt).abs() - self.rtt_variation_ns) / 4.0;
            self.smoothed_rtt_ns += (rtt - self.smoothed_rtt_ns) / 8.0;
            self.minimum_rtt_ns = self.minimum_rtt_ns.min(rtt_ns);
        }
    }

    /// Starts a new transfer at the next segment, unless the current one is still empty.
    pub fn begin_transfer(&mut self, time_ns: i64) {
        let first = self.flow.segments.len();
        if let Some(last) = self.flow.transfers.last_mut() {
            if last.first == first {
                return;
            }
            last.end = first;
        }
        if self.flow.transfers.is_empty() {
            self.flow.transfers.reserve_exact(1);
        }
        self.flow.transfers.push(Transfer {
            first,
            end: first,
            start_ns: time_ns,
            end_ns: time_ns,
            payload_bytes: 0,
        });
    }

    pub fn set_fate(&mut self, segment: u32, fate: Fate) {
        self.flow.segments[segment as usize].fate = fate;
    }

    pub fn segment_mut(&mut self, segment: u32) -> &mut Segment {
        &mut self.flow.segments[segment as usize]
    }

    /// Completes the flow at the end of the connection.
    pub fn finish(mut self) -> Flow {
        let total = self.flow.segments.len();
        if let Some(last) = self.flow.transfers.last_mut() {
            last.end = total;
        }
        let gaps: Vec<Outstanding> = self
            .outstanding
            .iter()
            .filter(|range| range.gap)
            .copied()
            .collect();
        let mut jumped_over = 0;
        for gap in gaps {
            jumped_over += self.forget_gap(&gap);
        }
        if !self.acknowledgment_seen {
            self.count_jumped_over(jumped_over);
        }
        let doubt = self.settle_stands();
        self.settle_placeholders();
        // the packets may all have been window probes, which are not segments
        (self.flow.transfers).retain(|transfer| transfer.first < transfer.end);
        let counters = &mut self.flow.counters;
        counters.lost = 0;
        counters.spurious = 0;
        for segment in &self.flow.segments {
            counters.lost += u64::from(segment.fate == Fate::Lost);
            counters.spurious += u64::from(segment.flags.has(SegmentFlags::SPURIOUS));
        }
        let placed = counters.lost;
        counters.lost += self
            .flow
            .unplaced_losses
            .iter()
            .map(|unplaced| unplaced.lost)
            .sum::<u64>();
        counters.lost_low = counters.lost.saturating_sub(doubt).max(placed);
        counters.lost_high = counters.lost.saturating_add(doubt);
        self.flow.outstanding_at_loss = outstanding_at_loss(&self.flow.segments);
        self.flow.mss_bytes = Some(self.full_payload_bytes()).filter(|bytes| *bytes > 0);
        self.flow.mss_announced = self.segment_size.is_announced();
        self.flow.window_scale = self.window_shift;
        self.flow.segments.shrink_to_fit();
        self.flow.transfers.shrink_to_fit();
        self.flow.acknowledgments.shrink_to_fit();
        self.flow.sack_blocks.shrink_to_fit();
        self.flow
    }

    /// Removes the placeholder of a gap that was never filled: its data was not captured. Returns its bytes, unless it
    /// was lost.
    fn forget_gap(&mut self, gap: &Outstanding) -> u64 {
        let index = gap.segment as usize;
        let transfers = self.flow.transfers.iter_mut();
        let mut of_gap =
            transfers.filter(|transfer| (transfer.first..transfer.end).contains(&index));
        if let Some(transfer) = of_gap.next() {
            let bytes = (gap.end - gap.start).max(0) as u64;
            transfer.payload_bytes = transfer.payload_bytes.saturating_sub(bytes);
        }
        let placeholder = self.segment_mut(gap.segment);
        match placeholder.is_lost() {
            true => 0,
            false => u64::from(std::mem::take(&mut placeholder.payload_bytes)),
        }
    }

    /// Payload of a full segment: as announced, or less if the path permits less (RFC 1191) or options take room (RFC
    /// 6691).
    fn full_payload_bytes(&self) -> u32 {
        let announced = self.segment_size.bytes();
        let captured = |segment: &&Segment| !segment.flags.has(SegmentFlags::INFERRED);
        let payloads = || self.flow.segments.iter().filter(captured);
        let largest = payloads().map(|s| s.payload_bytes).max().unwrap_or(0);
        // a full packet and a small one coalesced by the receiver's host exceed the announced size
        if let Some(stated) = self
            .segment_size
            .announced_bytes()
            .filter(|stated| largest > *stated)
        {
            let larger = payloads().filter(|s| s.payload_bytes > stated).count();
            if payloads().filter(|s| s.payload_bytes == stated).count() > larger {
                return stated;
            }
        }
        if largest >= announced || f64::from(largest) < LEAST_OF_ANNOUNCED * f64::from(announced) {
            return announced;
        }
        let count = payloads().count();
        let full = payloads().filter(|s| s.payload_bytes == largest).count();
        if full >= FEWEST_FULL && 2 * full > count {
            largest
        } else {
            announced
        }
    }

    /// Counts the data that the sequence of a capture without acknowledgments skips and no packet repairs. A few such
    /// gaps are losses with an uncaptured repair; many mean that the capture itself missed packets.
    fn count_jumped_over(&mut self, bytes: u64) {
        let packets = bytes.div_ceil(u64::from(self.segment_size()));
        if packets as f64 > MANY_JUMPED_OVER_SHARE * self.flow.segments.len() as f64 {
            let missed = self.count_missed(bytes);
            self.flow.counters.passed_over_packets += missed;
        }
    }

    /// Removes the placeholders of gaps that were not separate packets, and adds missing ones.
    fn settle_placeholders(&mut self) {
        let void = |segment: &Segment| {
            segment.flags.has(SegmentFlags::INFERRED) && segment.payload_bytes == 0
        };
        let mut more = std::mem::take(&mut self.more_lost);
        if more.is_empty() && !self.flow.segments.iter().any(void) {
            return;
        }
        more.sort_by_key(|(after, _)| *after);
        let mut more = more.into_iter().peekable();
        let before = std::mem::take(&mut self.flow.segments);
        let mut settled = Vec::with_capacity(before.len());
        let mut settled_before = Vec::with_capacity(before.len() + 1);
        for (index, segment) in before.into_iter().enumerate() {
            settled_before.push(settled.len());
            if !void(&segment) {
                settled.push(segment);
            }
            while let Some((_, segment)) = more.next_if(|(after, _)| *after as usize == index) {
                settled.push(segment);
            }
        }
        settled_before.push(settled.len());
        self.flow.segments = settled;
        for transfer in &mut self.flow.transfers {
            transfer.first = settled_before[transfer.first];
            transfer.end = settled_before[transfer.end];
        }
        for unplaced in &mut self.flow.unplaced_losses {
            unplaced.first = settled_before[unplaced.first];
            unplaced.end = settled_before[unplaced.end];
        }
    }
}

/// Mean and standard deviation of the outstanding bytes over all losses (Welford 1962).
fn outstanding_at_loss(segments: &[Segment]) -> Option<OutstandingAtLoss> {
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for segment in segments.iter().filter(|segment| segment.is_lost()) {
        count += 1.0;
        let bytes = f64::from(segment.in_flight_bytes);
        let before = bytes - mean;
        mean += before / count;
        squares += before * (bytes - mean);
    }
    (count > 0.0).then(|| OutstandingAtLoss {
        mean_bytes: mean,
        deviation_bytes: (squares / count).sqrt(),
    })
}
