//! Outcome of each probe: the book that is kept of those under way.
//!
//! A probe is *settled*, and its row given out, when nothing can be expected to change it: a while after its answer, for
//! duplicates to be seen, or when it has been silent for longer than any answer is waited for. Of a silent probe, the
//! windows in later answers tell whether it had arrived at the far end. Where they cannot, it is held back until the far
//! end is asked.

use std::collections::VecDeque;

use crate::sample::{Fate, Probe};

use super::packet::WINDOW;

/// How long an answered probe is kept for duplicates.
const DUPLICATES_NS: i64 = 500_000_000;
/// Behind the timeout, an answer is late; so much later at least, it is lost.
const SHORTEST_GRACE_NS: i64 = 1_000_000_000;
/// How many probes of unknown fate are held back.
const MOST_HELD: usize = 65_536;

/// An answer as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub sequence: u64,
    pub received_ns: i64,
    /// The far end's stamps; `None` where it does not tell.
    pub far: Option<FarStamps>,
}

/// The far end's part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FarStamps {
    pub received_ns: i64,
    pub held_ns: i64,
    /// Distinct probes that arrived so far, modulo 2^32.
    pub arrived: u32,
    /// Bit `i`: the probe whose sequence is `i` less has arrived.
    pub window: u64,
}

/// Answers that changed no row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strays {
    /// Duplicates that came after their probe's row had been given out.
    pub late_duplicates: u64,
    /// Answers to probes that had been given up.
    pub given_up: u64,
    /// Answers to what was never sent.
    pub unknown: u64,
}

/// True if a probe reached the far end, as far as answers tell.
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

/// The book of one flow's probes.
#[derive(Debug)]
pub(crate) struct Ledger {
    flow: u32,
    payload_bytes: u32,
    timeout_ns: i64,
    /// Where the far end keeps no book, a silent probe is lost, and nobody knows where.
    far_tells: bool,
    /// Probes by sequence, from `first` on.
    entries: VecDeque<Entry>,
    first: u64,
    /// Silent probes of which nothing is known, in order of sequence.
    held: VecDeque<(u64, Entry)>,
    /// The highest sequence that was answered, and how many had arrived by then.
    highest: Option<(u64, u32)>,
    longest_rtt_ns: i64,
    answered: u64,
    strays: Strays,
}

impl Ledger {
    pub(crate) fn new(flow: u32, payload_bytes: u32, timeout_ns: i64, far_tells: bool) -> Ledger {
        Ledger {
            flow,
            payload_bytes,
            timeout_ns,
            far_tells,
            entries: VecDeque::new(),
            first: 0,
            held: VecDeque::new(),
            highest: None,
            longest_rtt_ns: 0,
            answered: 0,
            strays: Strays::default(),
        }
    }

    /// After this long, no answer is waited for.
    pub(crate) fn patience_ns(&self) -> i64 {
        self.timeout_ns + self.timeout_ns.max(SHORTEST_GRACE_NS)
    }

    /// Enters the next probe: sequences count from 0.
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

    /// The probe was entered as sent, but then could not be.
    pub(crate) fn unsent(&mut self, sequence: u64) {
        if let Some(entry) = self.entry(sequence) {
            entry.sent_ns = None;
        }
    }

    /// Enters an answer; returns its round-trip time where it is a probe's first.
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
            &mut self.held,
            answer.sequence,
        ) else {
            // The row is gone; whether as answered or as lost is no longer known.
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

    /// Learn from an answer about the probes before it.
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

    /// Between two answers whose windows leave a gap, the count of arrivals tells where all or none of the probes in
    /// the gap arrived: the usual case, for a gap is an outage of one direction.
    fn learn_from_count(&mut self, sequence: u64, far: FarStamps) {
        let Some((highest, arrived_before)) = self.highest else {
            return;
        };
        let gap = highest + 1..(sequence + 1).saturating_sub(WINDOW);
        if gap.is_empty() {
            return;
        }
        let arrived = far.arrived.wrapping_sub(arrived_before);
        // An older probe that came late would count among those in the gap.
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
        entry_of(&mut self.entries, self.first, &mut self.held, sequence)
    }

    /// One past the last sequence that was entered.
    fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Gives out the rows that nothing will change any more.
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
                (Some(_), None) if self.far_tells && entry.reach == Reach::Unknown => {
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
        self.held.extend(given_up);
        while self.entries.front().is_some_and(|entry| entry.is_settled) {
            self.entries.pop_front();
            self.first += 1;
        }
        self.settle_held(rows);
    }

    /// Gives out the rows of held probes of which something has become known.
    fn settle_held(&mut self, rows: &mut Vec<Probe>) {
        let (flow, bytes, timeout_ns) = (self.flow, self.payload_bytes, self.timeout_ns);
        let too_many = self.held.len().saturating_sub(MOST_HELD);
        let mut number = 0;
        self.held.retain(|(sequence, entry)| {
            number += 1;
            let is_known = entry.reach != Reach::Unknown || entry.answer.is_some();
            if is_known || number <= too_many {
                rows.push(row(flow, bytes, timeout_ns, *sequence, entry));
                return false;
            }
            true
        });
    }

    /// True if something was not answered that may still be, or of which nothing is known.
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

    /// True if the far end must be asked what arrived.
    pub(crate) fn has_questions(&self) -> bool {
        let is_silent =
            |entry: &Entry| !entry.is_settled && entry.sent_ns.is_some() && entry.answer.is_none();
        self.far_tells && (!self.held.is_empty() || self.entries.iter().any(is_silent))
    }

    /// Gives out all rows that are left; `arrivals` is what the far end says has arrived.
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
        for (sequence, mut entry) in std::mem::take(&mut self.held).into_iter().chain(entries) {
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

    /// The longest round trip so far: what must be waited for at the end.
    pub(crate) fn longest_rtt_ns(&self) -> i64 {
        self.longest_rtt_ns
    }

    /// How many probes were answered.
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
    held: &'a mut VecDeque<(u64, Entry)>,
    sequence: u64,
) -> Option<&'a mut Entry> {
    if let Ok(number) = held.binary_search_by_key(&sequence, |(sequence, _)| *sequence) {
        return Some(&mut held[number].1);
    }
    let number = sequence.checked_sub(first)?;
    entries.get_mut(usize::try_from(number).ok()?)
}

/// Ranges that may overlap and stand in any order, made such that they can be searched.
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

/// Without the time that the far end held the probe.
fn rtt_ns(sent_ns: i64, answer: &Answered) -> i64 {
    let held_ns = answer.far.map_or(0, |far| far.held_ns);
    answer
        .received_ns
        .saturating_sub(sent_ns)
        .saturating_sub(held_ns)
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
        far_sent_ns: far.map(|far| far.received_ns.saturating_add(far.held_ns)),
        fate,
        duplicates: entry.duplicates,
        reordered: entry.reordered,
        payload_bytes,
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
