//! Senders that send when their application has data, and not when an acknowledgment makes room.

use crate::flow::{Flow, Kind};
use crate::sender_clock::SenderClock;

/// Fewer bursts are not conclusive.
const FEWEST_BURSTS: usize = 8;
/// Share of the time between bursts that must show the sign: some pauses end with an acknowledgment by chance, and slow
/// start waits for each.
const MOST: f64 = 0.8;

/// Signs that the application sets the timing, at the beginnings and ends of bursts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OwnTime {
    /// Bursts begin when no acknowledgment has arrived for a while.
    pub unreleased: bool,
    /// Bursts end with less than a full segment, which a sender sends only if it has no more data (RFC 1122, section
    /// 4.2.3.4).
    pub ends_small: bool,
}

impl OwnTime {
    /// Finds the signs in bursts separated by pauses longer than `pause_ns`. Data that an acknowledgment releases
    /// passes the capture point within `release_ns` of it.
    pub fn of(flow: &Flow, clock: &SenderClock, pause_ns: i64, release_ns: i64) -> Self {
        let mss = flow.full_bytes();
        let (mut waiting, mut ending) = (Bursts::default(), Bursts::default());
        let (mut heard, mut acknowledged, mut last_heard_ns) = (0, 0, i64::MIN);
        let mut begins = flow
            .transfers
            .iter()
            .map(|transfer| transfer.first)
            .peekable();
        for (index, two) in flow.segments.windows(2).enumerate() {
            let now_ns = two[1].time_ns;
            let coming = flow.acknowledgments[heard..].iter();
            for passed in coming.take_while(|passed| passed.time_ns <= now_ns) {
                (last_heard_ns, acknowledged) = (passed.time_ns, passed.acknowledged);
                heard += 1;
            }
            while begins.next_if(|first| *first <= index).is_some() {}
            let silent_ns = clock.sent_ns[index + 1] - clock.sent_ns[index];
            let is_new = two.iter().all(|segment| segment.kind == Kind::New);
            if !is_new || silent_ns <= pause_ns || begins.peek() == Some(&(index + 1)) {
                continue;
            }
            ending.add(silent_ns, two[0].payload_bytes < mss);
            // data sent with nothing in flight does not wait for an acknowledgment anyway
            if acknowledged < two[0].end() {
                waiting.add(silent_ns, now_ns.saturating_sub(last_heard_ns) > release_ns);
            }
        }
        Self {
            unreleased: waiting.are_mostly(),
            ends_small: ending.are_mostly(),
        }
    }
}

/// Bursts followed by pauses.
#[derive(Debug, Default)]
struct Bursts {
    count: usize,
    all_ns: f64,
    /// Time behind bursts that show the sign.
    these_ns: f64,
}

impl Bursts {
    fn add(&mut self, silent_ns: i64, is_one: bool) {
        self.count += 1;
        self.all_ns += silent_ns as f64;
        self.these_ns += if is_one { silent_ns as f64 } else { 0.0 };
    }

    fn are_mostly(&self) -> bool {
        self.count >= FEWEST_BURSTS && self.these_ns >= MOST * self.all_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Acknowledgment, Fate, Segment, SegmentFlags, Transfer};

    const MS: i64 = 1_000_000;

    /// Twenty times two packets, the second of `last_bytes`, acknowledged before the next two.
    fn pairs(last_bytes: u32) -> Flow {
        let mut flow = Flow {
            mss_bytes: Some(1000),
            ..Flow::default()
        };
        for number in 0..20 {
            let (at, begin) = (number * 50 * MS, number * (1000 + i64::from(last_bytes)));
            let first = Segment {
                time_ns: at,
                sequence: begin,
                rtt_ns: -1,
                in_flight_bytes: 0,
                payload_bytes: 1000,
                header_bytes: 52,
                kind: Kind::New,
                fate: Fate::Delivered,
                flags: SegmentFlags::default(),
            };
            let last = Segment {
                time_ns: at + MS / 10,
                sequence: begin + 1000,
                payload_bytes: last_bytes,
                ..first
            };
            flow.segments.extend([first, last]);
            flow.acknowledgments.push(Acknowledgment {
                time_ns: at + 20 * MS,
                acknowledged: last.end(),
                window_bytes: 1_000_000,
                ecn_echo: false,
            });
        }
        flow
    }

    fn own_time(flow: &Flow) -> OwnTime {
        let clock = SenderClock::of(flow, Some(0), None);
        OwnTime::of(flow, &clock, MS, 2 * MS)
    }

    #[test]
    fn bursts_that_end_small_reveal_their_application_even_if_all_is_acknowledged_before_the_next()
    {
        assert!(own_time(&pairs(500)).ends_small);
        assert!(!own_time(&pairs(1000)).ends_small);
        assert!(!own_time(&pairs(500)).unreleased);
    }

    #[test]
    fn the_ends_of_transfers_are_small_anyway() {
        let mut flow = pairs(500);
        let transfer = |first: usize| Transfer {
            first,
            end: first + 2,
            ..Transfer::default()
        };
        flow.transfers = (0..20).map(|number| transfer(2 * number)).collect();
        assert!(!own_time(&flow).ends_small);
    }
}
