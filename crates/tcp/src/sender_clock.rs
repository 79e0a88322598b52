//! When packets left a sender and acknowledgments reached it, for captures taken elsewhere.
//!
//! The near round trip, between the sender and the capture point, is known from the handshake. Queues there lengthen
//! it, which TCP timestamps reveal (RFC 7323): data carries the sender's clock, and the receiver's clock from the
//! newest acknowledgment that had reached the sender.

use std::collections::VecDeque;

use crate::clocked_waits::ClockedWaits;
use crate::flow::{Flow, Segment, Vantage};
use crate::limits::ByClocks;
use crate::quantile::quantile_in;
use crate::timestamp_clock::{Reading, queued_ns, tick_ns};

/// Away from the sender, the order of packets in opposite directions is known within a tick of the usual clock, and
/// near round trips vary by some per cent.
const LEAST_DOUBT_NS: i64 = 1_000_000;
const DOUBT_PART: i64 = 20;

/// No clock ticks faster (RFC 7323, section 5.4), except for the difference between two clocks.
const SHORTEST_TICK_NS: i64 = 900_000;
/// Slow start sends twice as fast as a line forwards, so the clock in packets that wait for the line seems to run at
/// half speed.
const SLOWEST: f64 = 0.45;

/// The timestamps of a data packet.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// The sender's clock.
    sent: Reading,
    /// Number of kept acknowledgments that had reached the sender.
    heard: u32,
    /// The first of the newest of these with the same timestamp.
    newest: u32,
}

/// A newer value of a clock: when the first packet with it passed, and when that packet would have passed without any
/// delay, within a tick.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Echo {
    pub passed_ns: i64,
    pub heard_ns: i64,
}

/// The timestamps of a flow's data, at their changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Echoes {
    /// Acknowledgments not echoed by data yet: the receiver's clock, and their number.
    coming: VecDeque<(u32, u32)>,
    marks: Vec<Mark>,
    /// Acknowledgments before the first mark, without further information.
    before: u32,
    way_back: ClockedWaits,
}

impl Echoes {
    pub fn after(count: usize) -> Self {
        Self {
            before: count as u32,
            ..Self::default()
        }
    }

    /// Adds the clock in the SYN, if it is the same clock, and that in the `first` data.
    pub fn begin(&mut self, syn: Option<Reading>, first: Reading) {
        let same = |syn: &Reading| {
            let ticks = first.ticks.wrapping_sub(syn.ticks);
            let lasted_ns = first.time_ns.saturating_sub(syn.time_ns);
            i64::from(ticks).saturating_mul(SHORTEST_TICK_NS) <= lasted_ns.max(SHORTEST_TICK_NS)
        };
        let mark = |sent: Reading| Mark {
            sent,
            heard: self.before,
            newest: self.before,
        };
        let before = self
            .marks
            .first()
            .map_or(i64::MAX, |mark| mark.sent.time_ns);
        let readings = syn.filter(same).into_iter().chain([first]);
        let begin: Vec<Mark> = readings
            .filter(|one| one.time_ns < before)
            .map(mark)
            .collect();
        self.marks.splice(..0, begin);
    }

    /// `count`: acknowledgments kept, including this one.
    pub fn acknowledgment(&mut self, time_ns: i64, value: u32, count: usize) {
        let count = count as u32;
        self.way_back.note(time_ns, value);
        match self.coming.back_mut() {
            Some(last) if last.0 == value => last.1 = count,
            _ => self.coming.push_back((value, count)),
        }
    }

    pub fn data(&mut self, time_ns: i64, value: u32, echo: u32) {
        let last = self.marks.last().copied();
        let mut heard = last.map_or(self.before, |mark| mark.heard);
        let mut newest = last.map_or(self.before, |mark| mark.newest);
        while let Some(&(sent, count)) = self.coming.front() {
            if (echo.wrapping_sub(sent) as i32) < 0 {
                break;
            }
            (newest, heard) = (heard, count);
            self.coming.pop_front();
        }
        if last.is_none_or(|mark| mark.heard != heard || mark.sent.ticks != value) {
            let sent = Reading {
                time_ns,
                ticks: value,
            };
            self.marks.push(Mark {
                sent,
                heard,
                newest,
            });
        }
    }

    /// Adds the waits of acknowledgments and of data before the capture point, if the clocks reveal any.
    pub fn add_waits(&self, flow: &Flow, by_clocks: &mut Option<Box<ByClocks>>) {
        let waits_back = self.way_back.waits();
        let mut waits_before = ClockedWaits::of(self.clock().into_iter()).waits();
        let waits = waits_before.iter_mut();
        self.bound(flow, waits.map(|wait| (wait.time_ns, &mut wait.wait_ns)));
        if !waits_back.is_empty() || !waits_before.is_empty() {
            let by_clocks = by_clocks.get_or_insert_default();
            (by_clocks.waits_back, by_clocks.waits_before) = (waits_back, waits_before);
            by_clocks.near_rtt_ns = self.near_rtt_ns(flow);
        }
    }

    /// The tick of the sender's clock, and each newer value of it.
    pub fn newest(&self) -> Option<(i64, Vec<Echo>)> {
        let (tick_ns, delays_ns) = (tick_ns(&self.clock())?, self.delays_ns()?);
        let mut newest = None;
        let marks = self.marks.iter().zip(delays_ns);
        let newer = marks.filter(|(mark, _)| {
            let is_newer =
                newest.is_none_or(|sent| (mark.sent.ticks.wrapping_sub(sent) as i32) > 0);
            newest = if is_newer {
                Some(mark.sent.ticks)
            } else {
                newest
            };
            is_newer
        });
        let echo = |(mark, delay_ns): (&Mark, i64)| Echo {
            passed_ns: mark.sent.time_ns,
            heard_ns: mark.sent.time_ns.saturating_sub(delay_ns),
        };
        Some((tick_ns, newer.map(echo).collect()))
    }

    /// When each mark passed, and how long it had waited until then, within a tick.
    pub fn waits(&self) -> Option<Vec<(i64, i64)>> {
        let times_ns = self.marks.iter().map(|mark| mark.sent.time_ns);
        Some(times_ns.zip(self.delays_ns()?).collect())
    }

    /// The upper bound of the round-trip time to the sender: from an acknowledgment until data that echoes it.
    fn near_rtt_ns(&self, flow: &Flow) -> Option<i64> {
        let answers = self.answers(flow).map(|(_, answer_ns)| answer_ns);
        answers.filter(|ns| *ns >= 0).min()
    }

    /// The median of the same times.
    pub fn usual_near_rtt_ns(&self, flow: &Flow) -> Option<i64> {
        let answers = self.answers(flow).map(|(_, answer_ns)| answer_ns);
        let mut answers_ns: Vec<i64> = answers.filter(|ns| *ns >= 0).collect();
        (!answers_ns.is_empty()).then(|| quantile_in(&mut answers_ns, 0.5))
    }

    /// When each mark that echoes a newer acknowledgment passed, and how long after it.
    fn answers(&self, flow: &Flow) -> impl Iterator<Item = (i64, i64)> {
        let newly = self.marks.windows(2).filter(|m| m[1].heard > m[0].heard);
        newly.filter_map(|marks| {
            let heard = flow.acknowledgments.get(marks[1].newest as usize)?;
            let passed_ns = marks[1].sent.time_ns;
            Some((passed_ns, passed_ns.saturating_sub(heard.time_ns)))
        })
    }

    /// Limits waits, each with the time of its end, to what is possible.
    fn bound<'a>(&self, flow: &Flow, waits: impl Iterator<Item = (i64, &'a mut i64)>) {
        let mut bounds = None;
        // no bound is lower, and few waits are longer
        for (time_ns, wait_ns) in waits.filter(|(_, wait_ns)| **wait_ns > LEAST_DOUBT_NS) {
            let bounds: &Vec<_> = bounds.get_or_insert_with(|| self.bounds(flow));
            *wait_ns = (*wait_ns).min(bound_ns(bounds, time_ns));
        }
    }

    /// The longest possible wait of data before the capture point, from one such mark to the next: the excess of an
    /// answer's time over the fastest. A step of the clock affects the apparent waits of all packets on one side of it,
    /// but slows no answer.
    fn bounds(&self, flow: &Flow) -> Vec<(i64, i64)> {
        let fastest_ns = self.near_rtt_ns(flow).unwrap_or(0);
        let bound = |(passed_ns, answer_ns): (i64, i64)| {
            let longer_ns = answer_ns.saturating_sub(fastest_ns).max(0);
            (passed_ns, longer_ns.saturating_add(LEAST_DOUBT_NS))
        };
        self.answers(flow).map(bound).collect()
    }

    /// The excess delay of each mark at the capture point over the fastest, nanoseconds; `None` if the sender's clock
    /// is unusable.
    fn delays_ns(&self) -> Option<Vec<i64>> {
        queued_ns(&self.clock(), 1.0)
    }

    fn clock(&self) -> Vec<Reading> {
        self.marks.iter().map(|mark| mark.sent).collect()
    }
}

/// The larger of the bounds before and after a time; no bound if one is missing.
fn bound_ns(bounds: &[(i64, i64)], time_ns: i64) -> i64 {
    let after = bounds.partition_point(|(passed_ns, _)| *passed_ns <= time_ns);
    let before = after.checked_sub(1).and_then(|at| bounds.get(at));
    let around = before.zip(bounds.get(after));
    around.map_or(i64::MAX, |(before, after)| before.1.max(after.1))
}

/// Times at the sender, on the capture's clock, of each of a flow's segments and of each acknowledgment.
#[derive(Debug, Default)]
pub(crate) struct SenderClock {
    pub sent_ns: Vec<i64>,
    pub heard_ns: Vec<i64>,
    /// Round-trip time from the capture point to the sender, without queues; 0 if unknown.
    pub near_rtt_ns: i64,
    pub known_near_rtt_ns: Option<i64>,
    /// An acknowledgment that reached the sender this long before a packet left may also have arrived after it.
    pub doubt_ns: i64,
    /// The longest wait of a packet between its sender and the capture point; `None` without timestamps.
    pub longest_queued_ns: Option<i64>,
}

impl SenderClock {
    /// `near_rtt_ns` is from the handshake, `None` if unknown.
    pub fn of(flow: &Flow, near_rtt_ns: Option<i64>, echoes: Option<&Echoes>) -> Self {
        let by_echo = echoes.and_then(|echoes| echoes.near_rtt_ns(flow));
        let at_sender = (flow.vantage == Vantage::Sender).then_some(0);
        // an answer that took more than a tick and twice the fastest one waited in a queue
        let waited = |ns: i64| by_echo.is_some_and(|least| ns - LEAST_DOUBT_NS > 2 * least);
        let by_handshake = near_rtt_ns.filter(|ns| !waited(*ns));
        let known_near_rtt_ns = by_handshake.or(by_echo).or(at_sender);
        let near_rtt_ns = known_near_rtt_ns.unwrap_or(0);
        let mut clock = Self {
            near_rtt_ns,
            known_near_rtt_ns,
            doubt_ns: match flow.vantage {
                Vantage::Sender => 0,
                _ => LEAST_DOUBT_NS.max(near_rtt_ns / DOUBT_PART),
            },
            ..Self::default()
        };
        let segments = flow.segments.iter();
        clock.sent_ns = segments.map(|s| clock.left_ns(s.time_ns)).collect();
        let acknowledgments = flow.acknowledgments.iter();
        clock.heard_ns = acknowledgments
            .map(|a| clock.arrives_ns(a.time_ns))
            .collect();
        if let Some(echoes) = echoes {
            clock.correct(flow, echoes);
        }
        clock
    }

    /// When a packet that passes now left the sender, without queues.
    pub fn left_ns(&self, captured_ns: i64) -> i64 {
        captured_ns.saturating_sub(self.near_rtt_ns / 2)
    }

    /// When a packet that passes now reaches the sender.
    pub fn arrives_ns(&self, captured_ns: i64) -> i64 {
        captured_ns.saturating_add(self.near_rtt_ns - self.near_rtt_ns / 2)
    }

    fn correct(&mut self, flow: &Flow, echoes: &Echoes) {
        let mut delays_ns = queued_ns(&echoes.clock(), SLOWEST);
        let times_ns = echoes.marks.iter().map(|mark| mark.sent.time_ns);
        echoes.bound(flow, times_ns.zip(delays_ns.iter_mut().flatten()));
        self.longest_queued_ns = delays_ns.iter().flatten().copied().max();
        let delays_ns = delays_ns.unwrap_or_else(|| vec![0; echoes.marks.len()]);
        let mut mark = 0;
        let mut last_ns = i64::MIN;
        for (segment, sent_ns) in flow.segments.iter().zip(&mut self.sent_ns) {
            while (echoes.marks.get(mark + 1))
                .is_some_and(|next| next.sent.time_ns <= segment.time_ns)
            {
                mark += 1;
            }
            let known = echoes
                .marks
                .get(mark)
                .filter(|m| m.sent.time_ns <= segment.time_ns);
            *sent_ns -= known.map_or(0, |_| delays_ns[mark]);
            *sent_ns = (*sent_ns).max(last_ns);
            last_ns = *sent_ns;
        }
        let in_order = flow.segments.is_sorted_by_key(|s| s.time_ns)
            && echoes.marks.is_sorted_by_key(|mark| mark.sent.time_ns);
        let mut reached = 0;
        for pair in echoes.marks.windows(2) {
            let (before, mark) = (&pair[0], &pair[1]);
            let is_before = |s: &Segment| s.time_ns < mark.sent.time_ns;
            let index = match in_order {
                true => {
                    let rest = flow.segments[reached..].iter();
                    reached += rest.take_while(|segment| is_before(segment)).count();
                    reached
                }
                false => flow.segments.partition_point(is_before),
            };
            if index == 0 || index >= self.sent_ns.len() || mark.heard <= before.heard {
                continue;
            }
            let (after_ns, until_ns) = (self.sent_ns[index - 1], self.sent_ns[index]);
            let newly = before.heard as usize..(mark.heard as usize).min(self.heard_ns.len());
            for heard_ns in &mut self.heard_ns[newly] {
                // packets that left just before did not depend on it
                *heard_ns = (*heard_ns).max(after_ns.saturating_add(1)).min(until_ns);
            }
        }
        let mut last_ns = i64::MIN;
        for heard_ns in &mut self.heard_ns {
            *heard_ns = (*heard_ns).max(last_ns);
            last_ns = *heard_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Acknowledgment, Fate, Kind, SegmentFlags};

    const MS: i64 = 1_000_000;

    /// One packet each 10 ms, which answers the acknowledgment before it. The capture point is 4 ms from the sender and
    /// back, and packets wait before it, increasingly up to 100 ms.
    fn behind_a_queue() -> (Flow, Echoes) {
        let (mut flow, mut echoes) = (Flow::default(), Echoes::default());
        for number in 0..100 {
            let sent = number * 10 * MS;
            let acknowledgment = Acknowledgment {
                time_ns: sent - 2 * MS,
                acknowledged: number * 1000,
                window_bytes: 1_000_000,
                ecn_echo: false,
            };
            flow.acknowledgments.push(acknowledgment);
        }
        let mut coming = 0;
        for number in 0..100 {
            let passes = number * 10 * MS + 2 * MS + number * MS;
            while coming < 100 && flow.acknowledgments[coming].time_ns <= passes {
                coming += 1;
                echoes.acknowledgment(passes, 7000 + coming as u32, coming);
            }
            flow.segments.push(Segment {
                time_ns: passes,
                sequence: number * 1000,
                rtt_ns: -1,
                in_flight_bytes: 1000,
                payload_bytes: 1000,
                header_bytes: 52,
                kind: Kind::New,
                fate: Fate::Delivered,
                flags: SegmentFlags::default(),
            });
            echoes.data(passes, 3000 + 10 * number as u32, 7001 + number as u32);
        }
        (flow, echoes)
    }

    #[test]
    fn timestamps_show_when_queued_packets_left() {
        let (flow, echoes) = behind_a_queue();
        let clock = SenderClock::of(&flow, Some(4 * MS), Some(&echoes));
        for (number, sent_ns) in clock.sent_ns.iter().enumerate() {
            let off_ns = sent_ns - number as i64 * 10 * MS;
            // a tick, and the drift of two clocks in a second
            assert!((0..=MS + MS / 4).contains(&off_ns), "{number}: {off_ns} ns");
        }
        let longest_ns = clock.longest_queued_ns.unwrap();
        assert!((97 * MS..=98 * MS).contains(&longest_ns), "{longest_ns}");
    }

    #[test]
    fn an_acknowledgment_reaches_the_sender_before_the_data_that_echoes_it_leaves() {
        let (flow, echoes) = behind_a_queue();
        let clock = SenderClock::of(&flow, Some(4 * MS), Some(&echoes));
        for (sent_ns, heard_ns) in clock.sent_ns.iter().zip(&clock.heard_ns) {
            assert!(heard_ns <= sent_ns);
        }
    }

    #[test]
    fn an_acknowledgment_is_heard_behind_the_data_that_does_not_echo_it() {
        let (mut flow, mut echoes) = (Flow::default(), Echoes::default());
        for number in 0..3 {
            flow.acknowledgments.push(Acknowledgment {
                time_ns: number * MS,
                acknowledged: number * 1000,
                window_bytes: 1_000_000,
                ecn_echo: false,
            });
            echoes.acknowledgment(number * MS, 7000 + number as u32, number as usize + 1);
        }
        for (number, echo) in [(0, 7000), (1, 7000), (2, 7002)] {
            let passes = (50 + 10 * number) * MS;
            flow.segments.push(Segment {
                time_ns: passes,
                sequence: number * 1000,
                rtt_ns: -1,
                in_flight_bytes: 1000,
                payload_bytes: 1000,
                header_bytes: 52,
                kind: Kind::New,
                fate: Fate::Delivered,
                flags: SegmentFlags::default(),
            });
            echoes.data(passes, 3000 + 10 * number as u32, echo);
        }
        let clock = SenderClock::of(&flow, Some(0), Some(&echoes));
        assert!(clock.heard_ns[2] > clock.sent_ns[1]);
        assert!(clock.heard_ns[2] <= clock.sent_ns[2]);
    }

    #[test]
    fn the_clock_in_the_syn_shows_that_the_first_data_waited() {
        let (flow, mut echoes) = behind_a_queue();
        let (first, left) = (flow.segments[0].time_ns, 3000);
        // 40 ms before, by a clock that advanced by 10 ms
        let reading = |time_ns, ticks| Reading { time_ns, ticks };
        let syn = reading(first - 40 * MS, left - 10);
        let waited_ns = |echoes: &Echoes| {
            let clock = SenderClock::of(&flow, Some(4 * MS), Some(echoes));
            flow.segments[0].time_ns - clock.sent_ns[0] - 2 * MS
        };
        let mut other = echoes.clone();
        echoes.marks.remove(0);
        echoes.begin(Some(syn), reading(first, left));
        assert!((28 * MS..=30 * MS).contains(&waited_ns(&echoes)));
        // a clock that advanced by more than that is a different one
        other.marks.remove(0);
        other.begin(
            Some(reading(first - 40 * MS, left - 1000)),
            reading(first, left),
        );
        assert_eq!(waited_ns(&other), 0);
    }

    #[test]
    fn without_a_handshake_the_quickest_answer_is_the_near_round_trip() {
        let (flow, echoes) = behind_a_queue();
        assert_eq!(
            SenderClock::of(&flow, None, Some(&echoes)).near_rtt_ns,
            5 * MS
        );
        assert_eq!(SenderClock::of(&flow, None, None).near_rtt_ns, 0);
    }
}
