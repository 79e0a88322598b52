//! When a sender recovers from losses: from the acknowledgments that reported them until all data outstanding then is
//! acknowledged.
//!
//! A retransmission that waits in a queue passes the capture point late. The duplicate acknowledgments that caused it
//! do not.

use crate::flow::{Flow, Kind, Segment, SegmentFlags};

/// Duplicate acknowledgments that indicate a loss (RFC 5681, section 3.2).
pub(crate) const DUPLICATES: usize = 3;

#[derive(Debug, Clone, Copy)]
struct Recovery {
    /// No data above this was acknowledged when it began.
    low: i64,
    /// The recovery ends when all data below this is acknowledged: the data outstanding when the first repair left,
    /// which is unknown until the repair passes.
    high: Option<i64>,
    /// It was triggered by late packets, and the echo in the next acknowledgment will reveal that (Eifel: RFC 3522).
    is_undone: bool,
}

impl Recovery {
    fn is_over(&self, acknowledged: i64) -> bool {
        let all = self.high.is_some_and(|high| acknowledged >= high);
        all || (self.is_undone && acknowledged > self.low)
    }
}

/// The recoveries of a flow's sender, updated as its packets leave and acknowledgments arrive.
#[derive(Debug)]
pub(crate) struct Recoveries {
    timestamps: bool,
    /// First bytes retransmitted because of duplicate acknowledgments, and in which segment, in order.
    repairs: Vec<(i64, usize)>,
    now: Option<Recovery>,
    /// One past the last byte that was lost and retransmitted.
    repaired: i64,
    duplicates: usize,
}

impl Recoveries {
    pub fn of(flow: &Flow) -> Self {
        let segments = flow.segments.iter().enumerate();
        let repairs =
            segments.filter(|(_, segment)| is_repair(segment) && segment.kind == Kind::Fast);
        let mut repairs: Vec<(i64, usize)> = repairs
            .map(|(at, segment)| (segment.sequence, at))
            .collect();
        repairs.sort_unstable();
        Self {
            timestamps: flow.timestamps,
            repairs,
            now: None,
            repaired: i64::MIN,
            duplicates: 0,
        }
    }

    pub fn is_on(&self) -> bool {
        self.now.is_some()
    }

    /// Begins a recovery for the range between these positions, which was lost and is retransmitted.
    pub fn begin(&mut self, low: i64, high: i64) {
        self.now.get_or_insert(Recovery {
            low,
            high: Some(high),
            is_undone: false,
        });
    }

    /// Registers that a segment leaves when all data below `acknowledged` is acknowledged and all below `next` was
    /// sent.
    pub fn send(&mut self, segment: &Segment, acknowledged: i64, next: i64, mss: i64) {
        let spurious = segment.flags.has(SegmentFlags::SPURIOUS);
        // a sender that retransmits late packets needlessly believes for as long that it recovers: it learned of them
        // from three duplicate acknowledgments for other outstanding packets (RFC 5681, section 3.2)
        let mistaken = spurious && segment.kind == Kind::Fast && next - acknowledged > 3 * mss;
        if !is_repair(segment) && !mistaken {
            return;
        }
        let now = self.now.get_or_insert(Recovery {
            low: acknowledged,
            high: None,
            is_undone: spurious && self.timestamps,
        });
        now.high = match segment.kind {
            // all outstanding data counts as lost (RFC 6298, section 5.4)
            Kind::Timeout => Some(next),
            _ => now.high.or(Some(next)),
        };
        if !spurious {
            self.repaired = self.repaired.max(segment.end());
        }
    }

    /// Registers that all data below `acknowledged` is acknowledged, previously `was`, and all below `next` was sent,
    /// the next with segment `coming`; `first_later` finds the first that may leave after two more acknowledgments.
    pub fn hear(
        &mut self,
        acknowledged: i64,
        was: i64,
        next: i64,
        coming: usize,
        first_later: impl FnOnce() -> usize,
    ) {
        self.duplicates = match acknowledged == was && next > was {
            true => self.duplicates.saturating_add(1),
            false if acknowledged > was => 0,
            false => self.duplicates,
        };
        match self.now {
            Some(recovery) if recovery.is_over(acknowledged) => {
                // a retransmission beyond begins the next hole (RFC 6675, section 5), and so does one sent before a
                // third duplicate acknowledgment could indicate it
                let repair = self.next_repair(acknowledged, coming);
                let goes_on = !recovery.is_undone
                    && (self.repaired > acknowledged
                        || repair.is_some_and(|at| at < first_later()));
                self.now = goes_on.then_some(Recovery {
                    low: acknowledged,
                    high: Some(next),
                    is_undone: false,
                });
            }
            None if self.duplicates >= DUPLICATES
                && self.next_repair(acknowledged, coming).is_some() =>
            {
                self.now = Some(Recovery {
                    low: acknowledged,
                    high: None,
                    is_undone: false,
                });
            }
            _ => {}
        }
    }

    /// The first of the coming segments that repairs the range starting there.
    fn next_repair(&self, sequence: i64, coming: usize) -> Option<usize> {
        let after = self
            .repairs
            .partition_point(|repair| *repair < (sequence, coming));
        let repair = self.repairs.get(after);
        repair
            .filter(|repair| repair.0 == sequence)
            .map(|repair| repair.1)
    }
}

/// True for a retransmission after a loss, by duplicate acknowledgments or by timeout.
fn is_repair(segment: &Segment) -> bool {
    matches!(segment.kind, Kind::Fast | Kind::Timeout) && !segment.flags.has(SegmentFlags::SPURIOUS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Fate;

    const MSS: i64 = 1000;

    fn segment(number: i64, kind: Kind) -> Segment {
        Segment {
            time_ns: 0,
            sequence: number * MSS,
            rtt_ns: -1,
            in_flight_bytes: 0,
            payload_bytes: MSS as u32,
            header_bytes: 52,
            kind,
            fate: Fate::Delivered,
            flags: SegmentFlags::default(),
        }
    }

    /// Ten segments, and then these retransmissions; the sender has sent the first ten.
    fn after_ten(again: &[(i64, Kind)]) -> (Recoveries, Vec<Segment>) {
        let first = (0..10).map(|number| segment(number, Kind::New));
        let again = again.iter().map(|&(number, kind)| segment(number, kind));
        let flow = Flow {
            segments: first.chain(again).collect(),
            ..Flow::default()
        };
        (Recoveries::of(&flow), flow.segments)
    }

    fn hear(recoveries: &mut Recoveries, times: usize, acknowledged: i64, was: i64) {
        (0..times)
            .for_each(|_| recoveries.hear(acknowledged * MSS, was * MSS, 10 * MSS, 10, || 10));
    }

    #[test]
    fn recovery_begins_with_the_third_duplicate_acknowledgment_however_late_the_repair_passes() {
        let (mut recoveries, _) = after_ten(&[(2, Kind::Fast)]);
        hear(&mut recoveries, 2, 2, 2);
        assert!(!recoveries.is_on());
        hear(&mut recoveries, 1, 2, 2);
        assert!(recoveries.is_on());
    }

    #[test]
    fn duplicate_acknowledgments_that_make_nothing_leave_again_are_reordering() {
        let (mut recoveries, _) = after_ten(&[]);
        hear(&mut recoveries, 5, 2, 2);
        assert!(!recoveries.is_on());
    }

    #[test]
    fn recovery_lasts_until_all_is_acknowledged_that_was_out_when_the_repair_left() {
        let (mut recoveries, segments) = after_ten(&[(2, Kind::Fast)]);
        hear(&mut recoveries, 3, 2, 2);
        recoveries.send(&segments[10], 2 * MSS, 10 * MSS, MSS);
        recoveries.hear(9 * MSS, 2 * MSS, 12 * MSS, 13, || 13);
        assert!(recoveries.is_on());
        recoveries.hear(10 * MSS, 9 * MSS, 12 * MSS, 13, || 13);
        assert!(!recoveries.is_on());
    }

    #[test]
    fn a_repair_beyond_what_was_out_then_goes_on_with_the_next_recovery() {
        let (mut recoveries, segments) = after_ten(&[(2, Kind::Fast), (10, Kind::Fast)]);
        recoveries.send(&segments[10], 2 * MSS, 10 * MSS, MSS);
        recoveries.send(&segments[11], 2 * MSS, 14 * MSS, MSS);
        recoveries.hear(10 * MSS, 2 * MSS, 14 * MSS, 12, || 12);
        assert!(recoveries.is_on());
        recoveries.hear(14 * MSS, 10 * MSS, 14 * MSS, 12, || 12);
        assert!(!recoveries.is_on());
    }

    #[test]
    fn a_hole_that_duplicate_acknowledgments_reveal_later_is_another_recovery() {
        for (first_later, goes_on) in [(12, true), (11, false)] {
            let (mut recoveries, segments) = after_ten(&[(2, Kind::Fast), (10, Kind::Fast)]);
            recoveries.send(&segments[10], 2 * MSS, 10 * MSS, MSS);
            recoveries.hear(10 * MSS, 2 * MSS, 20 * MSS, 11, || first_later);
            assert_eq!(recoveries.is_on(), goes_on);
            (0..3).for_each(|_| recoveries.hear(10 * MSS, 10 * MSS, 20 * MSS, 11, || 11));
            assert!(recoveries.is_on());
        }
    }

    #[test]
    fn a_timeout_takes_all_that_is_out_for_lost() {
        let (mut recoveries, segments) = after_ten(&[(2, Kind::Fast), (2, Kind::Timeout)]);
        recoveries.send(&segments[10], 2 * MSS, 10 * MSS, MSS);
        recoveries.send(&segments[11], 2 * MSS, 14 * MSS, MSS);
        recoveries.hear(12 * MSS, 2 * MSS, 14 * MSS, 12, || 12);
        assert!(recoveries.is_on());
    }
}
