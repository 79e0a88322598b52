//! Reads both captures at once, each as far as the other requires.
//!
//! Packets wait for their match, so the captures must be read at about the same time *of the path*, whatever
//! their clocks show. The latest match gives the difference between the clocks, and the capture that is
//! behind is read next. While nothing has matched for long, the clocks are ignored: the other capture is read
//! for as long, and so on in growing turns. So clocks an hour apart, or one that is stepped during the
//! capture, are resolved.

use whydrop_capture::{Capture, Summary};
use whydrop_tcp::{Tracked, Tracker, TrackerOptions};

use crate::error::PairError;
use crate::matching::{Matcher, plausible};

/// Packets read from one capture without a match before switching to the other one.
const LEAD_PACKETS: u64 = 50_000;
/// Number of packets between reports of progress.
const REPORT_PACKETS: u64 = 4096;

/// Options for reading two captures.
pub struct PairOptions<'a> {
    /// Knowledge of the user on the path.
    pub hints: PairHints,
    /// Most packets of each capture that may wait for the other; each takes about 100 bytes.
    pub most_pending: usize,
    /// Most flows of few packets (eight at either point) stored for each capture, about 300 bytes each: a
    /// flood of addresses and ports must not exhaust memory. Beyond it the oldest idle ones are discarded
    /// with their packets, and counted in [`crate::LeftOut`].
    pub most_small_flows: usize,
    /// Keep acknowledgments and SACK blocks of the tracked connections, which charts need.
    pub keep_acknowledgments: bool,
    /// Account for all time of the tracked connections, which matching does not need.
    pub account_for_time: bool,
    /// Called with the bytes read and the total bytes of both captures (0 if unknown). Returning `false`
    /// stops with [`PairError::Stopped`].
    pub progress: Option<Box<dyn FnMut(u64, u64) -> bool + 'a>>,
}

/// Knowledge of the path that the packets may not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PairHints {
    /// No device between the points changes TCP sequence numbers: none is looked for.
    pub same_sequence_numbers: bool,
    /// The point (0 or 1) that is nearer to the clients, which open the connections.
    pub client_side: Option<usize>,
    /// Longest packets to match, bytes of IP. Longer ones are counted in [`crate::PairCounts::too_long`].
    pub longest_bytes: Option<u32>,
}

impl Default for PairOptions<'_> {
    fn default() -> Self {
        Self {
            hints: PairHints::default(),
            most_pending: 1 << 20,
            most_small_flows: 1 << 18,
            keep_acknowledgments: false,
            account_for_time: true,
            progress: None,
        }
    }
}

/// The result of one pass over both captures.
pub(crate) struct ReadThrough {
    pub summaries: [Summary; 2],
    pub tracked: [Tracked; 2],
    pub matcher: Matcher,
    pub client_side: Option<usize>,
    /// For captures that were sorted: the position in the file of each packet, sorted by time.
    pub positions: [Vec<u32>; 2],
}

/// Reads both captures to their ends, and again from the start if one must be sorted by time first.
pub(crate) fn read_through(
    mut captures: [Capture; 2],
    mut options: PairOptions,
) -> Result<ReadThrough, PairError> {
    loop {
        match read_as_they_are(&mut captures, &mut options)? {
            Ok(read) => return Ok(read),
            Err(in_order) => captures = in_order,
        }
    }
}

/// Reads both captures, or returns them rewound as soon as one turns out to be unsorted.
fn read_as_they_are(
    captures: &mut [Capture; 2],
    options: &mut PairOptions,
) -> Result<Result<ReadThrough, [Capture; 2]>, PairError> {
    let tracker = || {
        Tracker::new(TrackerOptions {
            keep_acknowledgments: options.keep_acknowledgments,
            account_for_time: options.account_for_time,
            ..TrackerOptions::default()
        })
    };
    let mut trackers = [tracker(), tracker()];
    let mut matcher = Matcher::new(
        options.most_pending,
        options.most_small_flows,
        options.hints,
    );
    let mut turns = Turns::new(options.most_pending);
    let mut until_report = REPORT_PACKETS;
    let mut may_restart = true;
    let is_put_in_order = captures.each_ref().map(Capture::is_put_in_order);
    let mut positions = [Vec::new(), Vec::new()];
    while let Some(side) = turns.next_side(&matcher) {
        let Some(mut packet) = captures[side].next_packet() else {
            turns.ended[side] = true;
            continue;
        };
        trackers[side].push(&packet);
        if is_put_in_order[side] {
            let position = positions[side].len() as u64;
            positions[side].push(std::mem::replace(&mut packet.index, position) as u32);
        }
        let before = matcher.matches;
        matcher.take(side, &packet);
        turns.read(side, plausible(packet.time_ns), matcher.matches != before);
        if may_restart && captures[side].is_disordered() {
            match from_the_beginning(captures) {
                Some(again) => return Ok(Err(again)),
                None => may_restart = false,
            }
        }
        until_report -= 1;
        if until_report == 0 {
            until_report = REPORT_PACKETS;
            report(captures, options)?;
        }
    }
    report(captures, options)?;
    matcher.finish();
    let [one, two] = trackers;
    Ok(Ok(ReadThrough {
        summaries: [captures[0].summary(), captures[1].summary()],
        tracked: [one.finish(), two.finish()],
        matcher,
        client_side: options.hints.client_side,
        positions,
    }))
}

/// Both captures once more, the unsorted ones sorted; `None` if one can be read only once.
fn from_the_beginning(captures: &[Capture; 2]) -> Option<[Capture; 2]> {
    let again = |capture: &Capture| match capture.is_disordered() {
        true => capture.in_order().ok(),
        false => capture.again(),
    };
    let [one, two] = captures;
    Some([again(one)?, again(two)?])
}

fn report(captures: &[Capture; 2], options: &mut PairOptions) -> Result<(), PairError> {
    let Some(progress) = &mut options.progress else {
        return Ok(());
    };
    let done = captures.iter().map(Capture::bytes_done).sum();
    let total = match captures.each_ref().map(Capture::bytes_total) {
        [0, _] | [_, 0] => 0,
        [one, two] => one + two,
    };
    match progress(done, total) {
        true => Ok(()),
        false => Err(PairError::Stopped),
    }
}

/// The turns in which the captures are read.
struct Turns {
    /// Latest time read of each capture; `None` before its first packet.
    time_ns: [Option<i64>; 2],
    ended: [bool; 2],
    /// Packets read since the last match or change of turns, from the current capture.
    unmatched: u64,
    /// Limit of that number.
    lead: u64,
    /// The capture that is read although its clock is not behind.
    against_clock: Option<usize>,
    /// A capture is read against the clocks only while fewer than this many of its packets wait.
    most_waiting: usize,
}

impl Turns {
    fn new(most_pending: usize) -> Self {
        Self {
            time_ns: [None; 2],
            ended: [false; 2],
            unmatched: 0,
            lead: LEAD_PACKETS,
            against_clock: None,
            // the rest is for packets in the clocks' order
            most_waiting: most_pending / 2,
        }
    }

    #[inline]
    fn next_side(&mut self, matcher: &Matcher) -> Option<usize> {
        let [one, two] = match (self.ended, self.time_ns) {
            ([true, true], _) => return None,
            ([true, false], _) | ([false, false], [Some(_), None]) => return Some(1),
            ([false, true], _) | (_, [None, _]) => return Some(0),
            (_, [Some(one), Some(two)]) => [one, two],
        };
        let behind = usize::from(one.saturating_add(matcher.delta_ns.unwrap_or(0)) > two);
        if self.unmatched > self.lead {
            self.change(behind, matcher);
        }
        Some(self.against_clock.unwrap_or(behind))
    }

    #[cold]
    fn change(&mut self, behind: usize, matcher: &Matcher) {
        self.unmatched = 0;
        match self.against_clock {
            Some(_) => {
                self.against_clock = None;
                self.lead = self.lead.saturating_mul(2);
            }
            None if matcher.pending(1 - behind) < self.most_waiting => {
                self.against_clock = Some(1 - behind);
            }
            None => {}
        }
    }

    #[inline]
    fn read(&mut self, side: usize, time_ns: i64, matched: bool) {
        self.time_ns[side] = Some(time_ns);
        if matched {
            self.unmatched = 0;
            self.lead = LEAD_PACKETS;
            self.against_clock = None;
        } else {
            self.unmatched += 1;
        }
    }
}
