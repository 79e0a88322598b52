//! The outstanding segments, and which of them are presumed lost.

use std::collections::VecDeque;

use crate::segment::Range;

/// An outstanding segment. It keeps its boundaries when it is retransmitted.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub start: u64,
    pub end: u64,
    /// When it was last sent.
    pub sent_ns: i64,
    pub transmissions: u32,
    pub sacked: bool,
    pub lost: bool,
    /// A retransmission of it is outstanding (and not presumed lost itself).
    pub retransmitted: bool,
    /// Segments delivered when it was last sent, and when the last of them was.
    delivered_before: (u64, i64),
    /// When the segment was sent that was the latest sent of those delivered then.
    window_since_ns: i64,
}

/// The data that one acknowledgment reports as delivered.
#[derive(Debug, Clone, Copy, Default)]
pub struct Delivered {
    pub acked: u32,
    pub newly_sacked: u32,
    /// Segments newly known to have arrived: some of those acknowledged were SACKed long ago.
    pub arrived: u32,
    /// The latest send time of a segment delivered at its first transmission, for the RTT.
    pub sent_once_ns: Option<i64>,
    /// A segment arrived late although it was sent only once, so the path reorders.
    pub reordered: bool,
    /// Acknowledged bytes may have arrived long ago, and waited until a hole before them was filled.
    pub released: bool,
    pub rate: Option<RateSample>,
}

/// The delivery rate (draft-cheng-iccrg-delivery-rate-estimation, section 3), measured from when the latest of the
/// segments delivered now was sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateSample {
    pub segments_per_s: f64,
    /// Segments delivered in total when it was sent: identifies rounds.
    pub delivered_before: u64,
    /// The same of the segment that was sent last.
    pub latest_before: u64,
    /// The same rate over all segments that the acknowledgment delivers, and not faster than they were sent.
    pub whole_per_s: f64,
    /// The time is no shorter than the least round trip: shorter ones are of acknowledgments that came together.
    pub is_valid: bool,
}

/// RACK's state (RFC 8985, section 5.2): the most recently sent segment that has been delivered.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rack {
    pub sent_ns: i64,
    pub end: u64,
    pub rtt_ns: i64,
}

#[derive(Debug, Clone, Default)]
pub struct Scoreboard {
    pub(super) segments: VecDeque<Sent>,
    sacked: usize,
    /// Segments reported as arrived by duplicate acknowledgments, which do not identify them.
    pub(super) unnamed: usize,
    pub(super) lost: usize,
    /// Lost segments with an outstanding retransmission.
    retransmitted: usize,
    /// How often a segment was detected as lost since the beginning.
    pub(super) losses_found: u64,
    /// Of these, retransmissions.
    retransmissions_lost: u64,
    /// End of the highest SACKed segment.
    highest_sacked: u64,
    /// Below, all segments that can be lost by count are.
    counted_below: u64,
    /// Segments delivered since the beginning, and when the last of them was.
    delivered: (u64, i64),
    /// The latest sent of the delivered segments, when it was sent and its end.
    latest_sent: (i64, u64),
    /// By the present acknowledgment.
    measured: Option<Measured>,
    pub rack: Rack,
}

/// The times over which a rate is measured: of deliveries and of transmissions, and the segments delivered before.
#[derive(Debug, Clone, Copy)]
struct Measured {
    before: u64,
    before_ns: i64,
    sending_ns: i64,
}

impl Scoreboard {
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub fn len(&self) -> usize {
        self.segments.len()
    }

    pub fn sacked(&self) -> usize {
        self.sacked
    }

    pub fn lost(&self) -> usize {
        self.lost
    }

    /// Lost segments with an outstanding retransmission.
    pub fn retransmitted(&self) -> usize {
        self.retransmitted
    }

    /// How often a segment was detected as lost since the beginning, including retransmissions.
    pub fn losses_found(&self) -> u64 {
        self.losses_found
    }

    pub fn retransmissions_lost(&self) -> u64 {
        self.retransmissions_lost
    }

    /// Packets in flight (RFC 6675's pipe, as Linux counts it).
    pub fn pipe(&self) -> usize {
        self.segments.len() - self.sacked - self.unnamed - self.lost + self.retransmitted
    }

    /// Segments known to have arrived since the beginning.
    pub fn delivered(&self) -> u64 {
        self.delivered.0
    }

    /// Send time of the outstanding segment that was sent last.
    pub fn last_sent_ns(&self) -> Option<i64> {
        self.segments.iter().map(|segment| segment.sent_ns).max()
    }

    pub fn on_sent(&mut self, start: u64, end: u64, now_ns: i64) {
        if self.segments.is_empty() {
            self.delivered.1 = now_ns;
            self.latest_sent.0 = now_ns;
        }
        self.segments.push_back(Sent {
            start,
            end,
            sent_ns: now_ns,
            transmissions: 1,
            sacked: false,
            lost: false,
            retransmitted: false,
            delivered_before: self.delivered,
            window_since_ns: self.latest_sent.0,
        });
    }

    /// The first lost segment that is not retransmitted yet.
    pub fn first_lost(&self) -> Option<usize> {
        if self.lost == self.retransmitted {
            return None;
        }
        self.segments
            .iter()
            .position(|s| s.lost && !s.retransmitted)
    }

    pub fn last(&self) -> Option<usize> {
        self.segments.len().checked_sub(1)
    }

    /// Registers that the segment at this index is retransmitted; returns its range.
    pub fn on_retransmitted(&mut self, place: usize, now_ns: i64) -> Range {
        let segment = &mut self.segments[place];
        segment.sent_ns = now_ns;
        segment.delivered_before = self.delivered;
        segment.window_since_ns = self.latest_sent.0;
        segment.transmissions += 1;
        if segment.lost && !segment.retransmitted {
            segment.retransmitted = true;
            self.retransmitted += 1;
        }
        (segment.start, segment.end)
    }

    /// Processes a cumulative acknowledgment and SACK blocks. `echo_ns` is the time of the segment echoed by the
    /// receiver's timestamp, if there are timestamps.
    pub fn on_ack(
        &mut self,
        now_ns: i64,
        una: u64,
        sack: &[Range],
        echo_ns: Option<i64>,
        min_rtt_ns: i64,
    ) -> Delivered {
        let mut delivered = Delivered::default();
        self.measured = None;
        while let Some(segment) = self.segments.front().copied().filter(|s| s.end <= una) {
            self.segments.pop_front();
            delivered.acked += 1;
            if segment.sacked {
                self.sacked -= 1;
            } else {
                // The echo of an earlier time means that an earlier transmission has arrived (RFC 8985, section 6.2,
                // step 2). It applies only to data acknowledged in order: SACKed data is not echoed.
                let earlier = echo_ns.is_some_and(|echo_ns| echo_ns < segment.sent_ns);
                self.deliver(now_ns, segment, earlier, min_rtt_ns, &mut delivered);
                delivered.released |= segment.transmissions > 1;
            }
        }
        self.acknowledge_unnamed(&mut delivered);
        for &(start, end) in sack {
            let first = self.segments.partition_point(|s| s.start < start);
            for place in first..self.segments.len() {
                let segment = self.segments[place];
                if segment.end > end {
                    break;
                }
                if !segment.sacked {
                    self.segments[place].sacked = true;
                    self.segments[place].lost = false;
                    self.segments[place].retransmitted = false;
                    self.sacked += 1;
                    delivered.newly_sacked += 1;
                    self.deliver(now_ns, segment, false, min_rtt_ns, &mut delivered);
                }
            }
        }
        self.complete(now_ns, min_rtt_ns, &mut delivered);
        delivered
    }

    /// Completes the rate sample when all segments of an acknowledgment are counted.
    fn complete(&self, now_ns: i64, min_rtt_ns: i64, delivered: &mut Delivered) {
        if let (Some(measured), Some(rate)) = (self.measured, &mut delivered.rate) {
            let time_ns = measured.sending_ns.max(now_ns - measured.before_ns);
            rate.latest_before = measured.before;
            rate.is_valid = time_ns >= min_rtt_ns.max(1);
            rate.whole_per_s =
                (self.delivered.0 - measured.before) as f64 * 1e9 / time_ns.max(1) as f64;
        }
    }

    /// Registers that a segment has arrived; `earlier`: a transmission before its last one.
    fn deliver(
        &mut self,
        now_ns: i64,
        segment: Sent,
        earlier: bool,
        min_rtt_ns: i64,
        delivered: &mut Delivered,
    ) {
        delivered.arrived += 1;
        self.sample(now_ns, segment, delivered);
        self.lost -= usize::from(segment.lost);
        self.retransmitted -= usize::from(segment.retransmitted);
        if segment.transmissions == 1 {
            let latest = delivered
                .sent_once_ns
                .map_or(segment.sent_ns, |ns| ns.max(segment.sent_ns));
            delivered.sent_once_ns = Some(latest);
            delivered.reordered |= segment.end < self.highest_sacked;
        }
        self.highest_sacked = self.highest_sacked.max(segment.end);
        let rtt_ns = now_ns - segment.sent_ns;
        // So soon after a retransmission it is the original that was acknowledged (RFC 8985, section 6.2, step 2).
        if segment.transmissions > 1 && (earlier || rtt_ns < min_rtt_ns) {
            return;
        }
        if (segment.sent_ns, segment.end) > (self.rack.sent_ns, self.rack.end) {
            self.rack = Rack {
                sent_ns: segment.sent_ns,
                end: segment.end,
                rtt_ns,
            };
        }
    }

    /// Takes the rate sample from the latest sent of the delivered segments.
    fn sample(&mut self, now_ns: i64, segment: Sent, delivered: &mut Delivered) {
        self.delivered = (self.delivered.0 + 1, now_ns);
        let (before, before_ns) = segment.delivered_before;
        let newest = delivered
            .rate
            .is_none_or(|rate| before >= rate.delivered_before);
        if newest && now_ns > before_ns {
            delivered.rate = Some(RateSample {
                segments_per_s: (self.delivered.0 - before) as f64 * 1e9
                    / (now_ns - before_ns) as f64,
                delivered_before: before,
                latest_before: before,
                whole_per_s: 0.0,
                is_valid: false,
            });
        }
        let sent = (segment.sent_ns, segment.end);
        if self.measured.is_none() || sent > self.latest_sent {
            self.measured = Some(Measured {
                before,
                before_ns,
                sending_ns: segment.sent_ns - segment.window_since_ns,
            });
            self.latest_sent = sent;
        }
    }

    /// RFC 6675: a segment is lost if `threshold` SACKed segments are above it, unless it was retransmitted already.
    pub fn mark_lost_by_count(&mut self, threshold: usize) {
        if self.sacked < threshold {
            return;
        }
        let end = self
            .segments
            .partition_point(|segment| segment.end <= self.highest_sacked);
        let (mut above, mut reached) = (0, None);
        for segment in self.segments.range_mut(..end).rev() {
            if above >= threshold {
                reached = reached.or(Some(segment.end));
                if segment.end <= self.counted_below {
                    break;
                }
            }
            if segment.sacked {
                above += 1;
            } else if above >= threshold && !segment.lost && segment.transmissions == 1 {
                segment.lost = true;
                self.lost += 1;
                self.losses_found += 1;
            }
        }
        self.counted_below = self.counted_below.max(reached.unwrap_or(0));
    }

    /// RFC 8985, section 6.2, step 5: a segment is lost if it was sent before a delivered one by more than the
    /// reordering window. Returns when the next segment would become lost by time alone.
    pub fn mark_lost_by_time(&mut self, now_ns: i64, window_ns: i64) -> Option<i64> {
        let rack = self.rack;
        let mut next_ns: Option<i64> = None;
        for segment in &mut self.segments {
            let later = (segment.sent_ns, segment.end) >= (rack.sent_ns, rack.end);
            // Segments are in the order of their first transmissions.
            if later && segment.transmissions == 1 {
                break;
            }
            let out = !segment.sacked && (!segment.lost || segment.retransmitted);
            if !out || later {
                continue;
            }
            let due_ns = segment
                .sent_ns
                .saturating_add(rack.rtt_ns)
                .saturating_add(window_ns);
            if due_ns > now_ns {
                next_ns = Some(next_ns.map_or(due_ns, |ns| ns.min(due_ns)));
                continue;
            }
            self.losses_found += 1;
            if segment.lost {
                self.retransmissions_lost += 1;
                segment.retransmitted = false;
                self.retransmitted -= 1;
            } else {
                segment.lost = true;
                self.lost += 1;
            }
        }
        next_ns
    }

    /// After a timeout all segments that were not SACKed count as lost; with `recent` (RACK: RFC 8985, section 6.3),
    /// except those sent too recently to have been acknowledged. The first segment is lost in any case.
    pub fn mark_all_lost(&mut self, now_ns: i64, recent: bool) {
        let rtt_ns = self.rack.rtt_ns;
        for (place, segment) in self
            .segments
            .iter_mut()
            .enumerate()
            .filter(|(_, s)| !s.sacked)
        {
            if recent && place > 0 && segment.sent_ns.saturating_add(rtt_ns) > now_ns {
                continue;
            }
            self.lost += usize::from(!segment.lost);
            self.retransmitted -= usize::from(segment.retransmitted);
            segment.lost = true;
            segment.retransmitted = false;
        }
    }

    /// Clears all presumed losses.
    pub fn clear_lost(&mut self) {
        for segment in &mut self.segments {
            segment.lost = false;
            segment.retransmitted = false;
        }
        self.lost = 0;
        self.retransmitted = 0;
        self.unnamed = 0;
        self.counted_below = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(count: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        (0..count).for_each(|i| board.on_sent(1 + i * 100, 101 + i * 100, i as i64 * 1_000));
        board
    }

    #[test]
    fn three_sacked_segments_above_make_one_lost() {
        let mut board = sent(5);
        board.on_ack(50_000, 1, &[(101, 301)], None, 0);
        board.mark_lost_by_count(3);
        assert_eq!((board.lost(), board.pipe()), (0, 3));
        board.on_ack(50_000, 1, &[(101, 401)], None, 0);
        board.mark_lost_by_count(3);
        assert_eq!(
            (board.lost(), board.first_lost(), board.pipe()),
            (1, Some(0), 1)
        );
        assert_eq!(board.on_retransmitted(0, 60_000), (1, 101));
        assert_eq!((board.first_lost(), board.pipe()), (None, 2));
        board.on_ack(160_000, 501, &[], None, 0);
        assert_eq!((board.len(), board.pipe(), board.lost()), (0, 0, 0));
    }

    #[test]
    fn by_time_a_lost_retransmission_is_found_when_something_sent_later_arrives() {
        let mut board = sent(4);
        board.on_ack(100_000, 1, &[(101, 201)], None, 100_000);
        assert_eq!(
            board.mark_lost_by_time(100_000, 0),
            None,
            "the first is lost: sent earlier than what arrived"
        );
        assert_eq!(board.first_lost(), Some(0));
        board.on_retransmitted(0, 110_000);
        board.on_sent(401, 501, 120_000);
        board.on_ack(220_000, 1, &[(101, 501)], None, 100_000);
        board.mark_lost_by_time(220_000, 0);
        assert_eq!(
            board.first_lost(),
            Some(0),
            "the retransmission, too, was sent before what arrived"
        );
    }

    #[test]
    fn within_the_reordering_window_nothing_is_lost_yet() {
        let mut board = sent(2);
        board.on_ack(100_000, 1, &[(101, 201)], None, 99_000);
        // Sent at 0; the RTT of what arrived is 99 us; so lost from 0 + 99 + 25 us on.
        assert_eq!(board.mark_lost_by_time(100_000, 25_000), Some(124_000));
        assert_eq!(board.lost(), 0);
        assert_eq!(board.mark_lost_by_time(124_000, 25_000), None);
        assert_eq!(board.lost(), 1);
    }

    #[test]
    fn a_segment_that_arrives_late_at_its_first_transmission_shows_reordering() {
        let mut board = sent(3);
        assert!(!board.on_ack(100_000, 1, &[(101, 201)], None, 0).reordered);
        assert!(board.on_ack(101_000, 201, &[], None, 0).reordered);
    }
}
