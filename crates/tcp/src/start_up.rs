//! The start-up of a sender that models its path (BBR: draft-ietf-ccwg-bbr). It is recognised by the spacing of the
//! first packets, and lasts until the delivery rate stops growing.

use crate::flow::{Flow, Kind, Segment};
use crate::quantile::quantile;
use crate::sender_clock::SenderClock;

/// Packets of the initial window (RFC 6928).
const INITIAL_PACKETS: usize = 10;
/// It paces the initial window over a round trip divided by this: 2.77 (the draft) to 2.89 (Linux), with the variation
/// of the first round trip. Linux's pacing of other controls divides by 2.
const PACE: std::ops::RangeInclusive<f64> = 2.5..=3.2;
/// Packets are even if within this share of their usual distance.
const EVEN: f64 = 0.25;
/// Start-up is over when the largest rate of this many rounds has grown by less than a quarter ...
const RATE_ROUNDS: usize = 10;
const GROWTH: f64 = 1.25;
/// ... this many times in a row (section 5.3.1.2).
const ROUNDS_WITHOUT_GROWTH: usize = 3;

/// The start-up of a sender, over the whole flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum StartUp {
    /// It does not begin as a sender that models its path.
    #[default]
    None,
    GoesOn,
    EndsAt(i64),
}

impl StartUp {
    pub fn of(flow: &Flow, clock: &SenderClock, base_rtt_ns: i64) -> Self {
        if !begins(flow, clock, base_rtt_ns) {
            return Self::None;
        }
        let mut rates = Rates::default();
        let (mut coming, mut acknowledged, mut arrived, mut next) = (0, 0, 0, 0);
        let mut transfers = flow.transfers.iter().peekable();
        let mut answer_end = i64::MAX;
        for (index, segment) in flow.segments.iter().enumerate() {
            let now_ns = clock.sent_ns[index];
            while let Some(heard_ns) = clock.heard_ns.get(coming).filter(|ns| **ns <= now_ns) {
                let heard = flow.acknowledgments[coming].acknowledged;
                coming += 1;
                let rest = flow.segments[arrived..index].iter();
                arrived += rest.take_while(|sent| sent.end() <= heard).count();
                let newest = arrived.checked_sub(1).filter(|_| heard > acknowledged);
                if let Some(newest) = newest {
                    let bytes = heard - acknowledged;
                    rates.hear(*heard_ns, bytes, newest, next >= answer_end);
                }
                acknowledged = acknowledged.max(heard);
            }
            if let Some(transfer) = transfers.next_if(|transfer| transfer.first <= index) {
                let own = flow.segments[transfer.first..transfer.end].iter();
                answer_end = own.map(Segment::end).max().unwrap_or(i64::MAX);
            }
            rates.send(now_ns, acknowledged >= next);
            next = next.max(segment.end());
        }
        rates.ended_ns.map_or(Self::GoesOn, Self::EndsAt)
    }
}

/// The delivery rates, round by round.
#[derive(Debug, Default)]
struct Rates {
    /// Bytes delivered, and when the last of them were.
    delivered: (i64, i64),
    /// The same at the departure of each segment.
    when_sent: Vec<(i64, i64)>,
    /// A round is over when a segment is acknowledged that left after this much was delivered.
    round_end: i64,
    /// Bytes per nanosecond in the last rounds.
    largest: [f64; RATE_ROUNDS],
    full: f64,
    without_growth: usize,
    ended_ns: Option<i64>,
}

impl Rates {
    /// Registers that the next segment leaves; `alone`: no data was outstanding before it.
    fn send(&mut self, now_ns: i64, alone: bool) {
        if alone {
            self.delivered.1 = now_ns;
        }
        self.when_sent.push(self.delivered);
    }

    /// Registers acknowledged bytes, the newest of them in a segment; `starved`: there was no more data to send.
    fn hear(&mut self, now_ns: i64, bytes: i64, newest: usize, starved: bool) {
        self.delivered = (self.delivered.0 + bytes, now_ns);
        let (before, before_ns) = self.when_sent[newest];
        if now_ns <= before_ns || self.ended_ns.is_some() {
            return;
        }
        let rate = (self.delivered.0 - before) as f64 / (now_ns - before_ns) as f64;
        let is_new = before >= self.round_end;
        if is_new {
            self.round_end = self.delivered.0;
            self.largest.rotate_left(1);
            self.largest[RATE_ROUNDS - 1] = 0.0;
        }
        let largest = self.largest.iter().copied().fold(0.0, f64::max);
        if !starved || rate > largest {
            self.largest[RATE_ROUNDS - 1] = self.largest[RATE_ROUNDS - 1].max(rate);
        }
        if is_new && !starved {
            self.end_round(now_ns, largest.max(rate));
        }
    }

    fn end_round(&mut self, now_ns: i64, rate: f64) {
        if rate >= GROWTH * self.full {
            (self.full, self.without_growth) = (rate, 0);
            return;
        }
        self.without_growth += 1;
        if self.without_growth >= ROUNDS_WITHOUT_GROWTH {
            self.ended_ns = Some(now_ns);
        }
    }
}

/// True if the initial window leaves evenly, at the rate of a start-up.
fn begins(flow: &Flow, clock: &SenderClock, base_rtt_ns: i64) -> bool {
    let full = flow.full_bytes();
    let first = flow.segments.iter().take(INITIAL_PACKETS);
    let is_window = first
        .filter(|s| s.payload_bytes == full && s.kind == Kind::New)
        .count()
        == INITIAL_PACKETS;
    let Some(sent_ns) = clock.sent_ns.get(..INITIAL_PACKETS).filter(|_| is_window) else {
        return false;
    };
    let gaps_ns: Vec<i64> = sent_ns.windows(2).map(|two| two[1] - two[0]).collect();
    let mean_ns = (sent_ns[INITIAL_PACKETS - 1] - sent_ns[0]) as f64 / gaps_ns.len() as f64;
    let off = |share: f64| (quantile(&gaps_ns, share) as f64 / mean_ns - 1.0).abs();
    let pace = base_rtt_ns as f64 / (INITIAL_PACKETS as f64 * mean_ns);
    mean_ns > 0.0 && PACE.contains(&pace) && off(0.25) <= EVEN && off(0.75) <= EVEN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Acknowledgment, Fate, SegmentFlags};

    const MS: i64 = 1_000_000;
    const RTT_NS: i64 = 100 * MS;

    /// Rounds of `counts` packets, the first of ten `gap_ns` apart, later ones at `counts` per millisecond, each
    /// acknowledged a round trip after it left.
    fn rounds(gap_ns: i64, counts: &[i64]) -> Flow {
        let mut flow = Flow {
            mss_bytes: Some(1000),
            ..Flow::default()
        };
        let (mut number, mut round_ns) = (0, 0);
        for (round, &count) in [10].iter().chain(counts).enumerate() {
            let gap_ns = if round == 0 {
                gap_ns
            } else {
                RTT_NS / (count + 1)
            };
            for place in 0..count {
                let time_ns = round_ns + place * gap_ns;
                flow.segments.push(Segment {
                    time_ns,
                    sequence: number * 1000,
                    rtt_ns: -1,
                    in_flight_bytes: 0,
                    payload_bytes: 1000,
                    header_bytes: 52,
                    kind: Kind::New,
                    fate: Fate::Delivered,
                    flags: SegmentFlags::default(),
                });
                number += 1;
                flow.acknowledgments.push(Acknowledgment {
                    time_ns: time_ns + RTT_NS,
                    acknowledged: number * 1000,
                    window_bytes: 1_000_000,
                    ecn_echo: false,
                });
            }
            round_ns += RTT_NS;
        }
        flow
    }

    fn start_up(gap_ns: i64, counts: &[i64]) -> StartUp {
        let flow = rounds(gap_ns, counts);
        let clock = SenderClock::of(&flow, Some(0), None);
        StartUp::of(&flow, &clock, RTT_NS)
    }

    #[test]
    fn a_start_up_begins_with_an_initial_window_at_2_77_times_its_rate() {
        assert_eq!(start_up(RTT_NS * 10 / 277, &[20, 40]), StartUp::GoesOn);
        // paced as Linux does for other controls, and all at once
        assert_eq!(start_up(RTT_NS / 20, &[20, 40]), StartUp::None);
        assert_eq!(start_up(0, &[20, 40]), StartUp::None);
    }

    #[test]
    fn a_start_up_ends_after_three_rounds_without_growth_of_the_rate() {
        let grows = [20, 40, 80, 160];
        assert_eq!(start_up(RTT_NS * 10 / 277, &grows), StartUp::GoesOn);
        let stands = [20, 40, 80, 80, 80, 80, 80, 80, 80];
        let StartUp::EndsAt(ns) = start_up(RTT_NS * 10 / 277, &stands) else {
            panic!("it ends");
        };
        assert!((6 * RTT_NS..=9 * RTT_NS).contains(&ns), "{ns}");
    }
}
