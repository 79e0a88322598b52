//! The meaning of a timestamp that goes back or jumps ahead, from the packets before and after it.
//!
//! Each direction of a TCP connection has its own order, from its sender's clock (TCP timestamps, RFC 7323) and its
//! sequence numbers. Records out of order are in order within each queue or interface: where timestamps go back,
//! sequence numbers do too, or the direction is a different one. If timestamps go back while the same direction's
//! numbers advance, a clock was set. If timestamps jump ahead while the clocks of both hosts did not, the capture's
//! clock was set as well, since hosts have their own.

use std::collections::{HashMap, HashSet};

use super::trace::{Recent, Trace, reverse_of};
use super::{LEAST_AHEAD_NS, Waiting};

/// Several queues or cards reorder records by less than this.
const LEAST_STEP_NS: i64 = 20_000_000;
/// Programs that set clocks refuse larger steps (RFC 5905, figure 29: the panic threshold). If no packet decides,
/// records with timestamps this much earlier belong to another capture appended to the file.
const LARGEST_STEP_NS: i64 = 1_000_000_000_000;
/// Records of another file or card alternate with those in order, and are not many in a row.
const DISORDERED_RECORDS: usize = 64;
/// No packet stays in flight for longer (RFC 9293, section 3.4.2: the maximum segment lifetime), and no sender waits
/// longer to retransmit (RFC 6298 permits 60 s, Linux 120 s).
const LONGEST_LIFE_NS: i64 = 120_000_000_000;
/// So many packets in a row, each earlier than the one before, are no disorder.
const FEWEST_BACKWARDS: usize = 8;
/// Packets of one direction without any of the other: the connection is answered elsewhere in the file.
const UNANSWERED: usize = 16;
/// Ticks needed to measure the rate of a sender's clock.
const ENOUGH_TICKS: i32 = 8;
const NANOSECONDS_PER_SECOND: i64 = 1_000_000_000;

/// The meaning of a timestamp that goes back or jumps ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finding {
    /// The file is not in the order of its timestamps.
    Disorder,
    /// The clock was set: timestamps from here on are correct with this added.
    ClockSet { added_ns: i64 },
    /// Timestamps of another capture, unrelated to those before.
    OtherCapture,
    /// The file is in order and its clock runs backwards.
    Backwards,
    /// The file is in order but its timestamps are not: they jump back and forth.
    Unsteady,
    /// Time passed without captured packets.
    Pause,
}

/// Weighs the evidence of the packets from the conspicuous one on. Times are timestamps with `offset_ns` added.
pub(super) fn weigh<W: Waiting>(
    recent: &Recent,
    packets: &[&W],
    offset_ns: i64,
    latest_ns: i64,
) -> Finding {
    let times: Vec<i64> = packets
        .iter()
        .map(|packet| packet.stamped_ns().saturating_add(offset_ns))
        .collect();
    let Some(&first_ns) = times.first() else {
        return Finding::Pause;
    };
    let scene = Scene {
        recent,
        packets,
        times: &times,
        latest_ns,
        step_ns: first_ns.saturating_sub(latest_ns),
    };
    match scene.step_ns < 0 {
        true => scene.weigh_back(),
        false => scene.weigh_ahead(),
    }
}

struct Scene<'a, W> {
    recent: &'a Recent,
    packets: &'a [&'a W],
    /// Times of the packets.
    times: &'a [i64],
    latest_ns: i64,
    /// From the latest time to that of the first packet.
    step_ns: i64,
}

impl<W: Waiting> Scene<'_, W> {
    /// TCP packets, each with the last one of the same direction before the step.
    fn pairs(&self, count: usize) -> impl Iterator<Item = (Trace, Option<&Trace>)> {
        let both = self.packets.iter().zip(self.times).take(count);
        let traces = both.filter_map(|(packet, time_ns)| Trace::of(*time_ns, packet.decoded()));
        let mut last: HashMap<u64, Option<&Trace>> = HashMap::new();
        traces.map(move |trace| {
            let before = last
                .entry(trace.direction)
                .or_insert_with(|| self.recent.of(trace.direction).next());
            (trace, *before)
        })
    }

    fn weigh_back(&self) -> Finding {
        let (mut for_clock, for_disorder) = self.votes_back();
        let back_ns = self.step_ns.saturating_neg();
        if self.acknowledgments_follow_the_file() {
            if self.never_advances() {
                return Finding::Backwards;
            }
            if self.returns() {
                return Finding::Unsteady;
            }
            for_clock += 1;
        }
        if for_clock != for_disorder {
            return match for_clock > for_disorder {
                true => self.clock_set(),
                false => Finding::Disorder,
            };
        }
        match back_ns {
            ..=LEAST_STEP_NS => Finding::Disorder,
            _ if self.returns() => Finding::Disorder,
            _ if back_ns <= LARGEST_STEP_NS => Finding::ClockSet { added_ns: back_ns },
            _ => Finding::OtherCapture,
        }
    }

    /// Counts the directions with first packets that indicate a clock set back, and those that indicate a file out of
    /// order.
    fn votes_back(&self) -> (usize, usize) {
        let mut voted = HashSet::new();
        let (mut for_clock, mut for_disorder) = (0, 0);
        for (packet, time_ns) in self.packets.iter().zip(self.times) {
            let Some(trace) = Trace::of(*time_ns, packet.decoded()) else {
                continue;
            };
            if !voted.insert(trace.direction) {
                continue;
            }
            let vote = match self.recent.of(trace.direction).next() {
                Some(before) => self.says_clock_was_set(&trace, before),
                None => self.answers_what_came_long_before(*packet).then_some(false),
            };
            match vote {
                Some(true) => for_clock += 1,
                Some(false) => for_disorder += 1,
                None => {}
            }
        }
        (for_clock, for_disorder)
    }

    /// The vote of two packets of one direction, before and after a step back; `None` if they are not conclusive.
    fn says_clock_was_set(&self, trace: &Trace, before: &Trace) -> Option<bool> {
        let back_ns = self.step_ns.saturating_neg();
        let passed_ns = trace.time_ns.saturating_sub(before.time_ns);
        if let Some(elapsed_ns) = self.elapsed_ns(trace, before)
            && back_ns > LEAST_STEP_NS
        {
            return Some(elapsed_ns.saturating_sub(passed_ns) > back_ns / 2);
        }
        if passed_ns < 0 {
            return trace.is_later_than(before);
        }
        // in order itself while others are not; packets before the step back are not conclusive
        let is_among = before.time_ns > self.latest_ns.saturating_sub(back_ns);
        (is_among && trace.time_ns < self.latest_ns).then_some(false)
    }

    /// True for a packet of a direction not seen so far, if many of the opposite one were.
    fn answers_what_came_long_before(&self, packet: &W) -> bool {
        let reverse = reverse_of(packet.decoded());
        reverse.is_some_and(|reverse| self.recent.of(reverse).nth(UNANSWERED).is_some())
    }

    /// True if acknowledgments more often follow the acknowledged data in file order and precede it by their timestamps
    /// than the reverse.
    fn acknowledgments_follow_the_file(&self) -> bool {
        // keyed by the end of data: when it was first stamped, among the packets before an acknowledgment in the file
        let mut stamped: HashMap<(u64, u32), i64> = HashMap::new();
        let note = |stamped: &mut HashMap<_, i64>, trace: &Trace| {
            if trace.sequence != trace.sequence_end {
                let first_ns = stamped
                    .entry((trace.direction, trace.sequence_end))
                    .or_insert(trace.time_ns);
                *first_ns = trace.time_ns.min(*first_ns);
            }
        };
        self.recent
            .all()
            .for_each(|trace| note(&mut stamped, trace));
        let mut waiting: HashMap<(u64, u32), i64> = HashMap::new();
        let (mut follow_file, mut follow_stamps) = (0, 0);
        for (packet, time_ns) in self.packets.iter().zip(self.times) {
            let both = Trace::of(*time_ns, packet.decoded()).zip(reverse_of(packet.decoded()));
            let Some((trace, reverse)) = both else {
                continue;
            };
            note(&mut stamped, &trace);
            let answered = (reverse, trace.acknowledgment);
            match stamped.get(&answered) {
                Some(data_ns) if data_ns > time_ns => follow_file += 1,
                Some(_) => {}
                None => {
                    waiting.entry(answered).or_insert(*time_ns);
                }
            }
            let answer_ns = waiting.remove(&(trace.direction, trace.sequence_end));
            let is_data = trace.sequence != trace.sequence_end;
            follow_stamps += usize::from(is_data && answer_ns.is_some_and(|at| at >= *time_ns));
        }
        follow_file > follow_stamps
    }

    /// True if each of many packets has an earlier timestamp than the one before.
    fn never_advances(&self) -> bool {
        let steps = self.times.iter().zip(self.times.iter().skip(1));
        self.times.len() >= FEWEST_BACKWARDS && steps.into_iter().all(|(one, next)| next < one)
    }

    /// True if the timestamps return to their former range soon after the step.
    fn returns(&self) -> bool {
        let soon = self
            .times
            .iter()
            .zip(self.times.iter().skip(1))
            .take(DISORDERED_RECORDS);
        let least_ns = LEAST_STEP_NS.min(self.step_ns.saturating_abs()) / 4 * 3;
        soon.into_iter().any(|(before_ns, after_ns)| {
            *after_ns >= self.latest_ns && after_ns.saturating_sub(*before_ns) > least_ns
        })
    }

    fn clock_set(&self) -> Finding {
        let back_ns = self.step_ns.saturating_neg();
        let mut shifts: Vec<i64> = self
            .pairs(DISORDERED_RECORDS)
            .filter_map(|(trace, before)| {
                let before = before?;
                let true_ns = before
                    .time_ns
                    .saturating_add(self.elapsed_ns(&trace, before)?);
                Some(true_ns.saturating_sub(trace.time_ns))
            })
            .collect();
        let shift_ns = median(&mut shifts).unwrap_or(back_ns);
        // time does not run backwards, and consecutive packets are close together
        let most_ns = back_ns.saturating_add(NANOSECONDS_PER_SECOND);
        Finding::ClockSet {
            added_ns: shift_ns.clamp(back_ns, most_ns),
        }
    }

    fn weigh_ahead(&self) -> Finding {
        let until = self.until_next_step();
        let votes = self.clocks_ahead(until);
        let pauses = votes
            .values()
            .any(|excess_ns| *excess_ns <= self.step_ns / 2);
        if pauses {
            return Finding::Pause;
        }
        let is_long = self.step_ns >= LONGEST_LIFE_NS;
        if !votes.is_empty() && (is_long || self.has_both_directions(&votes)) {
            let mut excesses: Vec<i64> = votes.into_values().collect();
            let excess_ns = median(&mut excesses).unwrap_or(self.step_ns);
            return Finding::ClockSet {
                added_ns: excess_ns.clamp(0, self.step_ns).saturating_neg(),
            };
        }
        match is_long && votes.is_empty() && self.continues_with_data_in_flight(until) {
            true => Finding::ClockSet {
                added_ns: self.step_ns.saturating_neg(),
            },
            false => Finding::Pause,
        }
    }

    /// Number of packets until the next step.
    fn until_next_step(&self) -> usize {
        let steps = self.times.iter().zip(self.times.iter().skip(1));
        let goes_on = steps.into_iter().take_while(|(before_ns, after_ns)| {
            let step_ns = after_ns.saturating_sub(**before_ns);
            (-LEAST_STEP_NS..=LEAST_AHEAD_NS).contains(&step_ns)
        });
        goes_on.count() + 1
    }

    /// For each direction, how much more time passed by the timestamps than by the sender's clock: the least over its
    /// packets, since a packet sent before a pause may arrive after it.
    fn clocks_ahead(&self, until: usize) -> HashMap<u64, i64> {
        let mut excesses: HashMap<u64, i64> = HashMap::new();
        for (trace, before) in self.pairs(until) {
            let Some(before) = before else { continue };
            let passed_ns = trace.time_ns.saturating_sub(before.time_ns);
            let excess_ns = match self.elapsed_ns(&trace, before) {
                Some(elapsed_ns) => passed_ns.saturating_sub(elapsed_ns),
                // clocks tick at least once per second (RFC 7323, section 5.4)
                None => match ticks(&trace, before) {
                    Some(ticks @ 0..) => {
                        let most_ns = (i64::from(ticks) + 1) * NANOSECONDS_PER_SECOND;
                        let excess_ns = passed_ns.saturating_sub(most_ns);
                        if excess_ns <= self.step_ns / 2 {
                            continue;
                        }
                        excess_ns
                    }
                    _ => continue,
                },
            };
            let least = excesses.entry(trace.direction).or_insert(excess_ns);
            *least = excess_ns.min(*least);
        }
        excesses
    }

    fn has_both_directions(&self, votes: &HashMap<u64, i64>) -> bool {
        self.packets.iter().any(|packet| {
            let direction = Trace::of(0, packet.decoded()).map(|trace| trace.direction);
            let both = direction.zip(reverse_of(packet.decoded()));
            both.is_some_and(|(one, other)| votes.contains_key(&one) && votes.contains_key(&other))
        })
    }

    /// True if data in flight at the step is acknowledged after it, and its sender continued with new data: no sender
    /// waits this long without a retransmission.
    fn continues_with_data_in_flight(&self, until: usize) -> bool {
        let mut has_progress = false;
        for (packet, time_ns) in self.packets.iter().zip(self.times).take(until) {
            let both = Trace::of(*time_ns, packet.decoded()).zip(reverse_of(packet.decoded()));
            let Some((trace, reverse)) = both else {
                continue;
            };
            let last = |direction: u64| self.recent.of(direction).next();
            let ahead = |one: u32, other: u32| one.wrapping_sub(other) as i32;
            let (Some(sent), Some(answered)) = (last(trace.direction), last(reverse)) else {
                continue;
            };
            let under_way = ahead(sent.sequence_end, answered.acknowledgment);
            if under_way > 0 && trace.sequence_end != trace.sequence {
                // a retransmission means a real pause that the sender bridged
                if ahead(trace.sequence, sent.sequence_end) < 0 {
                    return false;
                }
                has_progress = true;
            }
            let was_under_way = ahead(answered.sequence_end, sent.acknowledgment) > 0;
            has_progress |= was_under_way && ahead(trace.acknowledgment, sent.acknowledgment) > 0;
        }
        has_progress
    }

    /// The time between two packets of a direction by their sender's clock, if its rate is known.
    fn elapsed_ns(&self, trace: &Trace, before: &Trace) -> Option<i64> {
        let ticks = ticks(trace, before).filter(|ticks| *ticks >= 0)?;
        let earliest = self.recent.of(trace.direction).last()?;
        let counted = self::ticks(before, earliest).filter(|ticks| *ticks >= ENOUGH_TICKS)?;
        let counted_ns = before.time_ns.checked_sub(earliest.time_ns)?;
        let tick_ns = counted_ns as f64 / f64::from(counted);
        // from a nanosecond to a second (RFC 7323, section 5.4)
        let is_clock = (1.0..=1e9).contains(&tick_ns);
        is_clock.then_some((f64::from(ticks) * tick_ns) as i64)
    }
}

fn ticks(after: &Trace, before: &Trace) -> Option<i32> {
    let (after, before) = after.sent.zip(before.sent)?;
    Some(after.wrapping_sub(before) as i32)
}

fn median(values: &mut [i64]) -> Option<i64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
