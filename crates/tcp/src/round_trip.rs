//! When acknowledgments are due: the recent round trip of the path, including its queues but without receivers' delays.

use crate::flow::{Flow, Kind};
use crate::sender_clock::SenderClock;
use crate::stretch::stretch;

/// An acknowledgment as it reaches the sender.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heard {
    pub at_ns: i64,
    /// When the previous one arrived.
    pub before_ns: i64,
    pub acknowledged: i64,
    /// Newly acknowledged bytes.
    pub bytes: i64,
    /// All outstanding data is acknowledged.
    pub all: bool,
    /// The last two packets left together.
    pub together: bool,
    /// When the last packet left.
    pub last_sent_ns: i64,
}

/// The round trip measured by acknowledgments.
#[derive(Debug)]
pub(crate) struct RoundTrip<'a> {
    flow: &'a Flow,
    pub base_ns: i64,
    /// Recent round trip by acknowledgments that the receiver did not delay.
    pub recent_ns: i64,
    /// With this many bytes the receiver acknowledges without waiting for more.
    pub stretch: i64,
    /// The gap between the last two acknowledgments of data outstanding together, and the bytes of the later one.
    pace: Option<(i64, i64)>,
    /// The first unacknowledged segment.
    coming: usize,
}

impl<'a> RoundTrip<'a> {
    pub fn of(flow: &'a Flow, base_ns: i64) -> Self {
        Self {
            flow,
            base_ns,
            recent_ns: base_ns,
            stretch: stretch(flow),
            pace: None,
            coming: 0,
        }
    }

    /// When the acknowledgment of this many bytes, the last of which left at `sent_ns`, is due at the sender. A queue
    /// forwards one packet after the other, and none of them before the one acknowledged at `heard_ns`.
    pub fn due_ns(&self, bytes: i64, sent_ns: i64, heard_ns: i64) -> i64 {
        let behind_ns = self.pace.map_or(0, |(gap_ns, of_bytes)| {
            let of_bytes = of_bytes.max(1);
            if let Some(product) = gap_ns.checked_mul(bytes) {
                return product / of_bytes;
            }
            let gap_ns = i128::from(gap_ns) * i128::from(bytes) / i128::from(of_bytes);
            i64::try_from(gap_ns).unwrap_or(i64::MAX)
        });
        let travelled_ns = sent_ns.saturating_add(self.recent_ns.max(self.base_ns));
        travelled_ns.max(heard_ns.saturating_add(behind_ns))
    }

    pub fn hear(&mut self, heard: &Heard, clock: &SenderClock) {
        let newest_sent_ns = self.newest_sent_ns(heard.acknowledged, clock);
        if heard.bytes <= 0 {
            return;
        }
        self.pace = None;
        if heard.all {
            self.hear_all(heard);
        } else if heard.bytes >= self.stretch
            && let Some(sent_ns) = newest_sent_ns
        {
            self.recent_ns = heard.at_ns.saturating_sub(sent_ns).max(self.base_ns);
            if sent_ns < heard.before_ns {
                self.pace = Some((heard.at_ns.saturating_sub(heard.before_ns), heard.bytes));
            }
        }
    }

    /// Two packets that left together are acknowledged at once. An acknowledgment of one may also have been delayed, so
    /// a longer value is adopted gradually (RFC 6298, section 2.3).
    fn hear_all(&mut self, heard: &Heard) {
        if !heard.together || heard.bytes < 2 * i64::from(self.flow.full_bytes()) {
            return;
        }
        let sampled_ns = heard.at_ns.saturating_sub(heard.last_sent_ns);
        let sampled_ns = sampled_ns.max(self.base_ns);
        let longer_ns = sampled_ns.saturating_sub(self.recent_ns).max(0);
        self.recent_ns = self.recent_ns.min(sampled_ns) + longer_ns / 8;
    }

    /// When the newest segment acknowledged now left, if it was sent once.
    fn newest_sent_ns(&mut self, acknowledged: i64, clock: &SenderClock) -> Option<i64> {
        let first = self.coming;
        let coming = self.flow.segments[first..].iter();
        self.coming += coming
            .take_while(|segment| segment.end() <= acknowledged)
            .count();
        let newest = self.coming.checked_sub(1).filter(|last| *last >= first)?;
        (self.flow.segments[newest].kind == Kind::New).then(|| clock.sent_ns[newest])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Fate, Segment, SegmentFlags};

    const MS: i64 = 1_000_000;
    const BASE_NS: i64 = 20 * MS;

    /// One segment per millisecond, acknowledged in pairs behind a queue of 30 ms that forwards one per 4 ms.
    fn behind_a_queue(flow: &Flow) -> RoundTrip<'_> {
        let clock = SenderClock::of(flow, Some(0), None);
        let mut round_trip = RoundTrip::of(flow, BASE_NS);
        for pair in 0..4 {
            let at_ns = 50 * MS + 8 * MS * pair;
            let heard = Heard {
                at_ns,
                before_ns: at_ns - 8 * MS,
                acknowledged: 2000 * (pair + 1),
                bytes: 2000,
                all: false,
                together: false,
                last_sent_ns: 9 * MS,
            };
            round_trip.hear(&heard, &clock);
        }
        round_trip
    }

    fn ten_segments() -> Flow {
        let segment = |number: i64| Segment {
            time_ns: number * MS,
            sequence: number * 1000,
            rtt_ns: -1,
            in_flight_bytes: 0,
            payload_bytes: 1000,
            header_bytes: 52,
            kind: Kind::New,
            fate: Fate::Delivered,
            flags: SegmentFlags::default(),
        };
        Flow {
            mss_bytes: Some(1000),
            segments: (0..10).map(segment).collect(),
            ..Flow::default()
        }
    }

    #[test]
    fn what_waits_in_the_paths_queue_is_due_when_the_queue_lets_it_out() {
        let flow = ten_segments();
        let round_trip = behind_a_queue(&flow);
        // the last pair was acknowledged at 74 ms, so the next segment follows 4 ms later
        assert_eq!(round_trip.due_ns(1000, 8 * MS, 74 * MS), 78 * MS);
    }

    #[test]
    fn the_round_trip_follows_the_queue_and_is_never_below_that_without_one() {
        let flow = ten_segments();
        assert_eq!(behind_a_queue(&flow).recent_ns, 67 * MS);
        assert_eq!(RoundTrip::of(&flow, BASE_NS).due_ns(1000, 0, 0), BASE_NS);
    }

    #[test]
    fn hostile_times_do_not_overflow() {
        let flow = ten_segments();
        let mut round_trip = behind_a_queue(&flow);
        round_trip.pace = Some((i64::MAX, 1));
        assert_eq!(round_trip.due_ns(i64::MAX, i64::MAX, i64::MAX), i64::MAX);
    }
}
