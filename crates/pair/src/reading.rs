//! Reads both captures at once, each as far as the other needs it.
//!
//! Packets wait for their match, so the captures must be read at about the same time *of the path*, whatever their
//! clocks say. The latest match tells how far the clocks are apart, and the capture that is behind is read next. While
//! nothing has matched for long, the clocks are not believed: the other capture is read for as long, and so on in
//! turns that grow. So clocks an hour apart, or one that is stepped on the way, find each other again.

use whydrop_capture::{Capture, Summary};
use whydrop_tcp::{Tracked, Tracker, TrackerOptions};

use crate::error::PairError;
use crate::matching::{Matcher, plausible};

/// Packets read from one capture without a match before the other one is tried.
const LEAD_PACKETS: u64 = 50_000;
/// Progress is reported after so many packets.
const REPORT_PACKETS: u64 = 4096;

/// How two captures are to be read.
pub struct PairOptions<'a> {
    /// Packets of each capture that may wait for the other at most; the memory for them is about 100 bytes each.
    pub most_pending: usize,
    /// Flows of few packets (eight at either point) that are kept of each capture, about 300 bytes each: a flood of
    /// addresses and ports must not fill the memory. Beyond it the oldest that are idle are let go with their packets, and
    /// counted in [`crate::LeftOut`].
    pub most_small_flows: usize,
    /// Keep acknowledgments and SACK blocks of the tracked connections, which charts need.
    pub keep_acknowledgments: bool,
    /// Account for all time of the tracked connections, which matching itself does without.
    pub account_for_time: bool,
    /// Is told the bytes read and the bytes in all, of both captures together (0 where unknown). Returning `false`
    /// stops with [`PairError::Stopped`].
    pub progress: Option<Box<dyn FnMut(u64, u64) -> bool + 'a>>,
}

impl Default for PairOptions<'_> {
    fn default() -> Self {
        Self {
            most_pending: 1 << 20,
            most_small_flows: 1 << 18,
            keep_acknowledgments: false,
            account_for_time: true,
            progress: None,
        }
    }
}

/// Everything that one pass over both captures gives.
pub(crate) struct ReadThrough {
    pub summaries: [Summary; 2],
    pub tracked: [Tracked; 2],
    pub matcher: Matcher,
    /// Of captures that were put in order: the position in the file of each packet, in the order of their time.
    pub positions: [Vec<u32>; 2],
}

/// Reads both captures to their ends, and from their beginnings again where one must be put in the order of its time first.
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

/// Reads both captures, or gives them back from their beginnings as soon as one shows that its packets are not in order.
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
    let mut matcher = Matcher::new(options.most_pending, options.most_small_flows);
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
        positions,
    }))
}

/// Both captures once more, those in order that were found not to be; `None` if one can be read only once.
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

/// Whose turn it is to be read.
struct Turns {
    /// Latest time read of each capture; `None` before its first packet.
    time_ns: [Option<i64>; 2],
    ended: [bool; 2],
    /// Packets read since the last match or change of turns, from the capture whose turn it is.
    unmatched: u64,
    /// How many of them are too many.
    lead: u64,
    /// The capture that is read although its clock is not behind.
    against_clock: Option<usize>,
    /// A capture is read against the clocks only while fewer than this wait of it.
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
            // the rest is for what the clocks' order brings
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
