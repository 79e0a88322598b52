//! The outcome of each probe: the ledger of the outstanding ones.
//!
//! A probe is *settled*, and its row passed on, when its outcome can no longer change: some time after its answer, so
//! that duplicates are seen, or when it stayed unanswered for longer than any answer may take. For an unanswered probe,
//! the windows in later answers show whether it reached the far end. If they do not, its row is kept until the far end
//! is asked.

use std::collections::VecDeque;

use crate::sample::{Fate, Probe};

use super::packet::WINDOW;

/// How long an answered probe is kept to detect duplicates.
const DUPLICATES_NS: i64 = 500_000_000;
/// An answer after the timeout is late; after this further time at least, it counts as lost.
const SHORTEST_GRACE_NS: i64 = 1_000_000_000;
/// The most probes of unknown fate that are kept.
const MOST_UNDECIDED: usize = 65_536;

/// Clocks differ by less than this part of a time, and the stamps of both ends together by less than this time.
const CLOCK_ERROR: i64 = 1000;
const STAMP_ERROR_NS: i64 = 10_000_000;

/// An answer as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub sequence: u64,
    pub received_ns: i64,
    /// The far end's timestamps; `None` if it sends none.
    pub far: Option<FarStamps>,
}

/// The far end's part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FarStamps {
    pub received_ns: i64,
    pub turnaround_ns: i64,
    /// Distinct probes that arrived so far, modulo 2^32.
    pub arrived: u32,
    /// Bit `i`: the probe with a sequence number lower by `i` has arrived.
    pub window: u64,
}

/// Answers that change no row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strays {
    /// Duplicates that arrived after their probe's row had been passed on.
    pub late_duplicates: u64,
    /// Answers to probes that already counted as lost.
    pub given_up: u64,
    /// Answers to probes that were never sent.
    pub unknown: u64,
    /// Answers with impossible times.
    pub impossible: u64,
}

/// Arrival of a probe at the far end, as far as the answers show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Unknown,
    Reached,
    Missing,
}

#[derive(Clone, Debug)]
struct Entry {
    scheduled_ns: i64,
    /// `None`: it could not be sent.
    sent_ns: Option<i64>,
    answer: Option<Answered>,
    reach: Reach,
    duplicates: u32,
    reordered: bool,
    is_settled: bool,
}

/// The probes of one flow.
#[derive(Debug)]
pub(crate) struct Ledger {
    flow: u32,
    payload_bytes: u32,
    timeout_ns: i64,
    /// If the far end keeps no record of arrivals, an unanswered probe is lost in an unknown direction.
    far_keeps_record: bool,
    /// Probes by sequence, from `first` on.
    entries: VecDeque<Entry>,
    first: u64,
    /// Unanswered probes of unknown fate, in order of sequence.
    undecided: VecDeque<(u64, Entry)>,
    /// The highest sequence that was answered, and how many probes had arrived by then.
    highest: Option<(u64, u32)>,
    longest_rtt_ns: i64,
    answered: u64,
    strays: Strays,
}

impl Ledger {
    pub(crate) fn new(
        flow: u32,
        payload_bytes: u32,
        timeout_ns: i64,
        far_keeps_record: bool,
    ) -> Ledger {
        Ledger {
            flow,
            payload_bytes,
            timeout_ns,
            far_keeps_record,
            entries: VecDeque::new(),
            first: 0,
            undecided: VecDeque::new(),
            highest: None,
            longest_rtt_ns: 0,
            answered: 0,
            strays: Strays::default(),
        }
    }

    /// After this time no answer is expected.
    pub(crate) fn patience_ns(&self) -> i64 {
        self.timeout_ns + self.timeout_ns.max(SHORTEST_GRACE_NS)
    }

    /// Registers the next probe: sequences count from 0.
    pub(crate) fn due(&mut self, scheduled_ns: i64, sent_ns: Option<i64>) {
        self.entries.push_back(Entry {
            scheduled_ns,
            sent_ns,
            answer: None,
            reach: Reach::Unknown,
            duplicates: 0,
            reordered: false,
            is_settled: false,
        });
    }

    /// Corrects a probe that was registered as sent, but then could not be.
    pub(crate) fn unsent(&mut self, sequence: u64) {
        if let Some(entry) = self.entry(sequence) {
            entry.sent_ns = None;
        }
    }

    /// Returns the answer without the far end's part if that is impossible, and counts it then.
    pub(crate) fn checked(&mut self, answer: Answered) -> Answered {
        if !self.is_impossible(&answer) {
            return answer;
        }
        self.strays.impossible += 1;
        Answered {
            far: None,
            ..answer
        }
    }

    /// Registers an answer; returns its round-trip time if it is the first to its probe.
    pub(crate) fn answered(&mut self, answer: Answered) -> Option<i64> {
        if let Some(far) = answer.far {
            self.learn(answer.sequence, far);
        }
        let is_behind = self
            .highest
            .is_some_and(|(highest, _)| answer.sequence < highest);
        if answer.sequence >= self.next() {
            self.strays.unknown += 1;
            return None;
        }
        let Some(entry) = entry_of(
            &mut self.entries,
            self.first,
            &mut self.undecided,
            answer.sequence,
        ) else {
            // The row has been passed on; whether as answered or as lost is no longer known.
            self.strays.given_up += 1;
            return None;
        };
        let Some(sent_ns) = entry.sent_ns else {
            self.strays.unknown += 1;
            return None;
        };
        if entry.answer.is_some() {
            entry.duplicates = entry.duplicates.saturating_add(1);
            self.strays.late_duplicates += u64::from(entry.is_settled);
            return None;
        }
        if entry.is_settled {
            self.strays.given_up += 1;
            return None;
        }
        entry.answer = Some(answer);
        entry.reordered = is_behind;
        let rtt_ns = rtt_ns(sent_ns, &answer);
        self.answered += 1;
        self.longest_rtt_ns = self.longest_rtt_ns.max(rtt_ns);
        if !is_behind {
            let arrived = answer.far.map_or(0, |far| far.arrived);
            self.highest = Some((answer.sequence, arrived));
        }
        Some(rtt_ns)
    }

    /// True if the far end claims to have kept a probe for longer than its round trip, or at a time that no clock shows.
    fn is_impossible(&mut self, answer: &Answered) -> bool {
        let Some(far) = answer.far else {
            return false;
        };
        let sent_ns = self.entry(answer.sequence).and_then(|entry| entry.sent_ns);
        let most_ns = sent_ns.map_or(i64::MAX, |sent_ns| {
            let round_trip_ns = answer.received_ns.saturating_sub(sent_ns).max(0);
            round_trip_ns
                .saturating_add(round_trip_ns / CLOCK_ERROR)
                .saturating_add(STAMP_ERROR_NS)
        });
        !(0..=i64::MAX / 2).contains(&far.received_ns) || far.turnaround_ns > most_ns
    }

    /// Updates the state of earlier probes from an answer.
    fn learn(&mut self, sequence: u64, far: FarStamps) {
        if sequence >= self.next() {
            return;
        }
        self.learn_from_count(sequence, far);
        for behind in 0..WINDOW.min(sequence + 1) {
            let reach = match far.window >> behind & 1 {
                1 => Reach::Reached,
                _ => Reach::Missing,
            };
            self.reached(sequence - behind, reach);
        }
    }

    /// If the windows of two answers leave a gap, the count of arrivals shows whether all or none of the probes in it
    /// arrived. That is the usual case, since a gap is an outage of one direction.
    fn learn_from_count(&mut self, sequence: u64, far: FarStamps) {
        let Some((highest, arrived_before)) = self.highest else {
            return;
        };
        let gap = highest + 1..(sequence + 1).saturating_sub(WINDOW);
        if gap.is_empty() {
            return;
        }
        let arrived = far.arrived.wrapping_sub(arrived_before);
        // An older probe that arrived late would be counted in the gap.
        if arrived == far.window.count_ones() {
            gap.for_each(|sequence| self.reached(sequence, Reach::Missing));
        }
    }

    fn reached(&mut self, sequence: u64, reach: Reach) {
        if let Some(entry) = self.entry(sequence)
            && entry.reach != Reach::Reached
        {
            entry.reach = reach;
        }
    }

    fn entry(&mut self, sequence: u64) -> Option<&mut Entry> {
        entry_of(&mut self.entries, self.first, &mut self.undecided, sequence)
    }

    /// One past the last registered sequence.
    fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Passes on the rows that can no longer change.
    pub(crate) fn settle(&mut self, now_ns: i64, rows: &mut Vec<Probe>) {
        let patience_ns = self.patience_ns();
        let mut given_up = Vec::new();
        for (number, entry) in self.entries.iter_mut().enumerate() {
            if entry.is_settled {
                continue;
            }
            let sequence = self.first + number as u64;
            match (entry.sent_ns, &entry.answer) {
                (Some(_), Some(answer))
                    if now_ns < answer.received_ns.saturating_add(DUPLICATES_NS) => {}
                (Some(sent_ns), None) if now_ns < sent_ns.saturating_add(patience_ns) => {}
                (Some(_), None) if self.far_keeps_record && entry.reach == Reach::Unknown => {
                    entry.is_settled = true;
                    given_up.push((
                        sequence,
                        Entry {
                            is_settled: false,
                            ..entry.clone()
                        },
                    ));
                }
                _ => {
                    entry.is_settled = true;
                    rows.push(row(
                        self.flow,
                        self.payload_bytes,
                        self.timeout_ns,
                        sequence,
                        entry,
                    ));
                }
            }
        }
        self.undecided.extend(given_up);
        while self.entries.front().is_some_and(|entry| entry.is_settled) {
            self.entries.pop_front();
            self.first += 1;
        }
        self.settle_undecided(rows);
    }

    /// Passes on the rows of undecided probes with a fate that has become known.
    fn settle_undecided(&mut self, rows: &mut Vec<Probe>) {
        let (flow, bytes, timeout_ns) = (self.flow, self.payload_bytes, self.timeout_ns);
        let too_many = self.undecided.len().saturating_sub(MOST_UNDECIDED);
        let mut number = 0;
        self.undecided.retain(|(sequence, entry)| {
            number += 1;
            let is_known = entry.reach != Reach::Unknown || entry.answer.is_some();
            if is_known || number <= too_many {
                rows.push(row(flow, bytes, timeout_ns, *sequence, entry));
                return false;
            }
            true
        });
    }

    /// True if an answer may still arrive, or the fate of a probe is unknown.
    pub(crate) fn is_waiting(&self, now_ns: i64) -> bool {
        let patience_ns = self.patience_ns();
        self.entries.iter().any(|entry| {
            let is_open =
                !entry.is_settled && entry.answer.is_none() && entry.reach != Reach::Missing;
            is_open
                && entry
                    .sent_ns
                    .is_some_and(|sent_ns| now_ns < sent_ns.saturating_add(patience_ns))
        })
    }

    /// True if the far end must be asked which probes arrived.
    pub(crate) fn has_questions(&self) -> bool {
        let is_silent =
            |entry: &Entry| !entry.is_settled && entry.sent_ns.is_some() && entry.answer.is_none();
        self.far_keeps_record && (!self.undecided.is_empty() || self.entries.iter().any(is_silent))
    }

    /// Passes on all remaining rows; `arrivals` is the far end's list of arrivals.
    pub(crate) fn finish(&mut self, arrivals: Option<&[(u64, u64)]>, rows: &mut Vec<Probe>) {
        let first = self.first;
        let entries = std::mem::take(&mut self.entries);
        self.first += entries.len() as u64;
        let entries = entries
            .into_iter()
            .enumerate()
            .map(|(number, entry)| (first + number as u64, entry))
            .filter(|(_, entry)| !entry.is_settled);
        let arrivals = arrivals.map(in_order);
        for (sequence, mut entry) in std::mem::take(&mut self.undecided)
            .into_iter()
            .chain(entries)
        {
            if let Some(arrivals) = &arrivals {
                if contains(arrivals, sequence) {
                    entry.reach = Reach::Reached;
                } else if entry.reach == Reach::Unknown {
                    entry.reach = Reach::Missing;
                }
            }
            rows.push(row(
                self.flow,
                self.payload_bytes,
                self.timeout_ns,
                sequence,
                &entry,
            ));
        }
    }

    /// The longest round trip so far: the time to wait at the end.
    pub(crate) fn longest_rtt_ns(&self) -> i64 {
        self.longest_rtt_ns
    }

    /// The number of answered probes.
    pub(crate) fn answers(&self) -> u64 {
        self.answered
    }

    pub(crate) fn strays(&self) -> Strays {
        self.strays
    }
}

fn entry_of<'a>(
    entries: &'a mut VecDeque<Entry>,
    first: u64,
    undecided: &'a mut VecDeque<(u64, Entry)>,
    sequence: u64,
) -> Option<&'a mut Entry> {
    if let Ok(number) = undecided.binary_search_by_key(&sequence, |(sequence, _)| *sequence) {
        return Some(&mut undecided[number].1);
    }
    let number = sequence.checked_sub(first)?;
    entries.get_mut(usize::try_from(number).ok()?)
}

/// Sorts ranges, which may overlap and be in any order, so that they can be searched.
fn in_order(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = ranges.to_vec();
    ranges.sort_unstable();
    let mut last = 0;
    for range in &mut ranges {
        last = last.max(range.1);
        range.1 = last;
    }
    ranges
}

fn contains(ranges: &[(u64, u64)], sequence: u64) -> bool {
    let number = ranges.partition_point(|&(from, _)| from <= sequence);
    number > 0 && sequence <= ranges[number - 1].1
}

/// The round-trip time, without the time that the probe spent at the far end.
fn rtt_ns(sent_ns: i64, answer: &Answered) -> i64 {
    let turnaround_ns = answer.far.map_or(0, |far| far.turnaround_ns);
    answer
        .received_ns
        .saturating_sub(sent_ns)
        .saturating_sub(turnaround_ns)
        .max(0)
}

fn row(flow: u32, payload_bytes: u32, timeout_ns: i64, sequence: u64, entry: &Entry) -> Probe {
    let rtt_ns = entry
        .sent_ns
        .zip(entry.answer.as_ref())
        .map(|(sent_ns, answer)| rtt_ns(sent_ns, answer));
    let fate = match (entry.sent_ns, rtt_ns, entry.reach) {
        (None, _, _) => Fate::NotSent,
        (_, Some(rtt_ns), _) if rtt_ns > timeout_ns => Fate::Late,
        (_, Some(_), _) => Fate::Ok,
        (_, None, Reach::Reached) => Fate::LostDown,
        (_, None, Reach::Missing) => Fate::LostUp,
        (_, None, Reach::Unknown) => Fate::Lost,
    };
    let answer = entry.answer.filter(|_| fate != Fate::NotSent);
    let far = answer.and_then(|answer| answer.far);
    Probe {
        flow,
        sequence,
        scheduled_ns: entry.scheduled_ns,
        sent_ns: entry.sent_ns,
        received_ns: answer.map(|answer| answer.received_ns),
        rtt_ns,
        far_received_ns: far.map(|far| far.received_ns),
        far_sent_ns: far.map(|far| far.received_ns.saturating_add(far.turnaround_ns)),
        fate,
        duplicates: entry.duplicates,
        reordered: entry.reordered,
        payload_bytes,
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
