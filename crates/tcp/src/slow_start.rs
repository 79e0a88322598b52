//! When a sender was in slow start, from the growth of its flight.
//!
//! In slow start each acknowledged byte adds one to the window (RFC 5681, section 3.1; RFC 3465), so the flight grows
//! by as much as is acknowledged. In congestion avoidance it grows by a segment per round trip, which is a tiny part of
//! what is acknowledged. Slow start ends where growth falls from the one to the other: at the maximum of the flight
//! less half of the acknowledged bytes (E. Page, "Continuous Inspection Schemes", Biometrika 41, 1954: the reference
//! value midway between both means).

use crate::flow::{Flow, Kind, Segment, SegmentFlags};
use crate::sender_clock::SenderClock;
use crate::start_up::StartUp;

/// Midway between growth by all acknowledged bytes and by almost none.
const SHARE: f64 = 0.5;
/// Growth must be behind by this many segments: as many as one acknowledgment of four segments and another of two in
/// flight release.
const BEHIND_SEGMENTS: i64 = 6;
/// A flight has stopped growing if its growth was not ahead of the threshold for this many waits in a row: by then a
/// flight that leaves at once contains all released segments.
const WAITS: usize = 10;
/// A flight that never falls below this share of its former size is steady.
const STEADY_SHARE: f64 = 0.9;
/// The flight after a pause grows by more than this in slow start only.
const AHEAD_SEGMENTS: f64 = 2.0;
/// A sender that grows its flight to this multiple of that at a loss does not reduce its window for losses.
const UNREDUCED: f64 = 1.5;
/// Senders that count acknowledgments instead of bytes grow by half of what a receiver acknowledges with every other
/// segment. The growth rate at the start shows which, over this many initial windows of ten segments.
const FIRST_WINDOWS: i64 = 2;
const INITIAL_SEGMENTS: i64 = 10;

/// The line that a sender's packets pass before the capture point.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Line {
    /// A sender that is silent for this long is waiting, not limited by its line ...
    pub pause_ns: i64,
    /// ... which takes this long for a full packet.
    pub gap_ns: i64,
    /// Packets may wait for it before the capture point, so that a growing flight seems to stand still.
    pub hides: bool,
}

/// Spans of a flow's time in slow start, on its sender's clock.
#[derive(Debug, Default)]
pub(crate) struct SlowStart {
    stretches: Vec<(i64, i64)>,
}

impl SlowStart {
    pub fn contains(&self, now_ns: i64) -> bool {
        let after = self
            .stretches
            .partition_point(|&(from_ns, _)| from_ns <= now_ns);
        self.stretches[..after]
            .last()
            .is_some_and(|&(_, until_ns)| now_ns <= until_ns)
    }

    pub fn of(flow: &Flow, clock: &SenderClock, line: Line, start_up: StartUp) -> Self {
        let mss = i64::from(flow.full_bytes());
        let mut walk = Walk {
            mss,
            unended: true,
            share: SHARE,
            line,
            ignores_losses: start_up != StartUp::None,
            start_up,
            ..Walk::default()
        };
        let mut transfers = flow.transfers.iter().peekable();
        let mut answer_end = i64::MAX;
        let mut coming = 0;
        let marked = flow
            .segments
            .iter()
            .filter(|s| s.flags.has(SegmentFlags::CE_ECHOED));
        let mut marked = marked.map(Segment::end).peekable();
        for (index, segment) in flow.segments.iter().enumerate() {
            let now_ns = clock.sent_ns[index];
            while let Some(heard_ns) = clock.heard_ns.get(coming).filter(|ns| **ns <= now_ns) {
                walk.sample(*heard_ns);
                let acknowledgment = flow.acknowledgments[coming];
                walk.acknowledged = walk.acknowledged.max(acknowledgment.acknowledged);
                while marked.next_if(|end| *end <= walk.acknowledged).is_some() {
                    walk.leave(*heard_ns);
                }
                if acknowledgment.window_bytes >= 0 {
                    walk.edge = Some(acknowledgment.acknowledged + acknowledgment.window_bytes);
                }
                coming += 1;
            }
            if let Some(transfer) = transfers.next_if(|transfer| transfer.first <= index) {
                let own = flow.segments[transfer.first..transfer.end].iter();
                answer_end = own.map(Segment::end).max().unwrap_or(i64::MAX);
                walk.end_phase(now_ns);
                walk.begin_phase(now_ns, walk.unended);
            }
            walk.send(now_ns, segment);
            if walk.next >= answer_end {
                walk.pending = None; // the last packets of a transfer need not fill the window
            }
        }
        walk.end_phase(i64::MAX);
        Self {
            stretches: walk.stretches,
        }
    }
}

/// The flight when the sender next waited.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at_ns: i64,
    flight: i64,
    acknowledged: i64,
    /// Only the congestion window kept it from sending.
    is_full: bool,
}

/// From a start, a pause or a timeout until the next.
#[derive(Debug)]
struct Phase {
    from_ns: i64,
    /// It begins in slow start.
    certain: bool,
    /// Bytes outstanding when the recovery before it began.
    flight_at_loss: Option<i64>,
    samples: Vec<Sample>,
}

#[derive(Debug, Default)]
struct Walk {
    mss: i64,
    next: i64,
    acknowledged: i64,
    /// One past the last byte that the receiver permits.
    edge: Option<i64>,
    /// The recovery ends when all data below this is acknowledged.
    recovery: Option<i64>,
    /// Bytes outstanding when the last recovery began.
    flight_at_loss: Option<i64>,
    /// The last packet not examined yet: when it left, and its payload.
    pending: Option<(i64, i64)>,
    phase: Option<Phase>,
    /// The connection has not left slow start yet.
    unended: bool,
    /// Its sender does not reduce its window for losses (BBR).
    ignores_losses: bool,
    share: f64,
    line: Line,
    start_up: StartUp,
    stretches: Vec<(i64, i64)>,
}

impl Walk {
    fn begin_phase(&mut self, from_ns: i64, certain: bool) {
        self.phase = Some(Phase {
            from_ns,
            certain,
            flight_at_loss: self.flight_at_loss.take(),
            samples: Vec::new(),
        });
    }

    /// Samples the outstanding data before the next acknowledgment arrives: all that the window permits, unless the
    /// line delays the rest. A line that stays busy until all outstanding data is acknowledged delays it permanently.
    fn sample(&mut self, heard_ns: i64) {
        let Some((at_ns, payload)) = self.pending else {
            return;
        };
        let last = self.phase.as_ref().and_then(|phase| phase.samples.last());
        let is_busy = last.is_none_or(|l| self.acknowledged < l.acknowledged + l.flight);
        if heard_ns - at_ns < self.line.pause_ns && is_busy {
            return;
        }
        self.pending = None;
        if self.recovery.is_some_and(|high| self.acknowledged >= high) {
            self.recovery = None;
            // a window set by a model of the path continues to grow (BBR's start-up)
            if self.phase.is_none() {
                self.begin_phase(at_ns, self.ignores_losses && self.unended);
            }
        }
        let by_window = self.edge.is_some_and(|edge| edge - self.next < self.mss);
        let sample = Sample {
            at_ns,
            flight: self.next - self.acknowledged,
            acknowledged: self.acknowledged,
            is_full: self.recovery.is_none() && !by_window && payload >= self.mss,
        };
        if let Some(phase) = &mut self.phase {
            phase.samples.push(sample);
        }
    }

    fn send(&mut self, now_ns: i64, segment: &Segment) {
        let resent = matches!(segment.kind, Kind::Fast | Kind::Timeout)
            && !segment.flags.has(SegmentFlags::INFERRED);
        if resent && self.recovery.is_none_or(|high| self.acknowledged >= high) {
            self.pending = None;
            self.recovery = Some(self.next);
            self.flight_at_loss = Some(self.next - self.acknowledged);
            // a sender that retransmitted late packets needlessly continues as before once it knows (RFC 4015)
            if !segment.flags.has(SegmentFlags::SPURIOUS) {
                self.end_phase(now_ns);
                if segment.kind == Kind::Timeout {
                    self.begin_phase(now_ns, true);
                }
                self.unended &= self.ignores_losses && segment.kind != Kind::Timeout;
            }
        }
        self.next = self.next.max(segment.end());
        self.pending = Some((now_ns, i64::from(segment.payload_bytes)));
    }

    /// A mark makes the sender reduce its window as a loss does (RFC 3168, section 6.1.2), but it continues to send.
    fn leave(&mut self, now_ns: i64) {
        self.end_phase(now_ns);
        self.unended = false;
    }

    fn end_phase(&mut self, now_ns: i64) {
        let Some(phase) = self.phase.take() else {
            return;
        };
        if self.unended && self.stretches.is_empty() {
            self.share = SHARE * first_growth(&phase.samples, self.mss);
        }
        let (began, ended_ns, ignores_losses) = phase.slow_start(self.mss, self.share, self.line);
        self.ignores_losses |= ignores_losses;
        // a window that stands still belongs to a start-up that is confirming its rate, unless the end coincides
        let ended_ns = match self.start_up {
            StartUp::GoesOn => None,
            StartUp::EndsAt(ns) if ns < now_ns => Some(ended_ns.map_or(ns, |end| end.min(ns))),
            StartUp::None | StartUp::EndsAt(_) => ended_ns,
        };
        let began = began || (self.start_up != StartUp::None && phase.certain);
        if began {
            self.stretches
                .push((phase.from_ns, ended_ns.unwrap_or(now_ns)));
        }
        self.unended = (self.unended || began) && ended_ns.is_none();
    }
}

/// The flight's growth at first per acknowledged byte: 1, or less if the sender counts acknowledgments.
fn first_growth(samples: &[Sample], mss: i64) -> f64 {
    let Some(first) = samples.first() else {
        return 1.0;
    };
    let most = FIRST_WINDOWS * INITIAL_SEGMENTS * mss;
    let within = samples
        .iter()
        .take_while(|sample| sample.is_full && sample.acknowledged - first.acknowledged <= most);
    // data in flight when an acknowledgment arrives makes some of the samples too small
    let grown = within
        .map(|sample| {
            (
                sample.flight - first.flight,
                sample.acknowledged - first.acknowledged,
            )
        })
        .filter(|(_, acknowledged)| *acknowledged >= INITIAL_SEGMENTS * mss / 2)
        .map(|(flight, acknowledged)| flight as f64 / acknowledged as f64)
        .fold(0.5, f64::max);
    if grown > 0.5 { grown.min(1.0) } else { 1.0 }
}

/// Samples from the one where growth was furthest ahead of the threshold between slow start and the rest.
#[derive(Debug, Clone, Copy)]
struct Top {
    sample: Sample,
    /// The sample after it.
    next: Sample,
    /// How far ahead, bytes.
    ahead: f64,
    /// The least flight since.
    least: i64,
    /// How often the sender waited since.
    waits: usize,
}

impl Top {
    fn at(sample: Sample, ahead: f64) -> Self {
        Self {
            sample,
            next: sample,
            ahead,
            least: sample.flight,
            waits: 0,
        }
    }

    /// True if growth ended here, as seen from the `last` sample, when it was `ahead` bytes ahead.
    fn is_end(&self, last: &Sample, ahead: f64, mss: i64, line: Line) -> bool {
        let since = last.acknowledged - self.sample.acknowledged;
        if self.ahead - ahead <= (BEHIND_SEGMENTS * mss) as f64 {
            return false;
        }
        // segments that acknowledgments release may leave later: only a whole flight is conclusive, unless growth is
        // hidden ...
        if since >= self.sample.flight && !line.hides {
            return true;
        }
        // ... if acknowledgments arrive faster than the line sends the two segments that each of them releases in slow
        // start; otherwise half of a flight that never fell, or many waits
        let heard = last.acknowledged - self.next.acknowledged;
        let line_ns = 2 * i128::from(heard) * i128::from(line.gap_ns) / i128::from(mss.max(1));
        let waits = heard > 0 && line_ns <= i128::from(last.at_ns - self.next.at_ns);
        let steady = self.least as f64 >= STEADY_SHARE * self.sample.flight as f64;
        waits && (self.waits >= WAITS || (2 * since >= self.sample.flight && steady))
    }
}

impl Phase {
    /// Slow start: if there was any, when it ended, if that was before the phase did, and if the sender
    /// ignores losses.
    fn slow_start(&self, mss: i64, share: f64, line: Line) -> (bool, Option<i64>, bool) {
        let (Some(first), Some(last)) = (self.samples.first(), self.samples.last()) else {
            return (self.certain, None, false);
        };
        let mut ahead = 0.0;
        let mut top = Top::at(*first, 0.0);
        for pair in self.samples.windows(2) {
            if pair.iter().all(|sample| sample.is_full) {
                let grown = (pair[1].flight - pair[0].flight) as f64;
                ahead += grown - share * (pair[1].acknowledged - pair[0].acknowledged) as f64;
            }
            top.least = top.least.min(pair[1].flight);
            if top.waits == 0 {
                top.next = pair[1];
            }
            top.waits += 1;
            if ahead > top.ahead {
                top = Top::at(pair[1], ahead);
            }
        }
        let ended = top.is_end(last, ahead, mss, line);
        // a window that never grew left slow start before, when there was no data to fill it
        let grew = !ended || top.sample.at_ns != first.at_ns;
        // growth beyond the acknowledged bytes means that an existing window is being used (RFC 3465, section 2)
        let grown = top.sample.flight - first.flight;
        let acknowledged = top.sample.acknowledged - first.acknowledged;
        let by_acknowledgments = (grown - acknowledged) as f64 <= AHEAD_SEGMENTS * mss as f64;
        // a sender that reduces its window for a loss does not soon exceed the flight at that loss
        let flight_at_loss = self.flight_at_loss.unwrap_or(i64::MAX);
        let regained = top.sample.flight > flight_at_loss;
        let began = self.certain
            || (top.ahead > AHEAD_SEGMENTS * mss as f64 && (by_acknowledgments || regained));
        let far_beyond = top.sample.flight as f64 > UNREDUCED * flight_at_loss as f64;
        let ignores_losses = began && grew && !self.certain && far_beyond;
        (
            began && grew,
            ended.then_some(top.sample.at_ns),
            ignores_losses,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Acknowledgment, Fate, Transfer};

    const MS: i64 = 1_000_000;
    const RTT_NS: i64 = 20 * MS;

    /// Bursts of `counts` packets, each after the acknowledgment of the one before.
    fn bursts(counts: &[i64]) -> Flow {
        let mut flow = Flow {
            mss_bytes: Some(1000),
            ..Flow::default()
        };
        let mut number = 0;
        for (round, &count) in counts.iter().enumerate() {
            let now_ns = round as i64 * RTT_NS;
            flow.segments
                .extend((number..number + count).map(|number| Segment {
                    time_ns: now_ns,
                    sequence: number * 1000,
                    rtt_ns: -1,
                    in_flight_bytes: 0,
                    payload_bytes: 1000,
                    header_bytes: 52,
                    kind: Kind::New,
                    fate: Fate::Delivered,
                    flags: SegmentFlags::default(),
                }));
            number += count;
            flow.acknowledgments.push(Acknowledgment {
                time_ns: now_ns + RTT_NS - MS / 10,
                acknowledged: number * 1000,
                window_bytes: 1_000_000,
                ecn_echo: false,
            });
        }
        flow.transfers = vec![Transfer {
            end: flow.segments.len(),
            ..Transfer::default()
        }];
        flow
    }

    /// True if the last of these rounds is in slow start.
    fn lasts(counts: &[i64], hides: bool, start_up: StartUp) -> bool {
        let flow = bursts(counts);
        let clock = SenderClock::of(&flow, Some(0), None);
        let line = Line {
            pause_ns: MS,
            gap_ns: MS / 2,
            hides,
        };
        let slow_start = SlowStart::of(&flow, &clock, line, start_up);
        slow_start.contains((counts.len() as i64 - 1) * RTT_NS)
    }

    const STANDS: [i64; 8] = [10, 20, 40, 40, 40, 40, 40, 40];

    #[test]
    fn a_flight_that_stands_is_no_end_of_slow_start_where_a_line_may_hide_that_it_grows() {
        assert!(!lasts(&STANDS, false, StartUp::None));
        assert!(lasts(&STANDS, true, StartUp::None));
    }

    #[test]
    fn a_window_that_stands_is_a_start_ups_until_that_ends() {
        assert!(lasts(&STANDS, false, StartUp::GoesOn));
        assert!(!lasts(&STANDS, false, StartUp::EndsAt(7 * RTT_NS)));
        let grows = [10, 20, 40, 80, 160, 320];
        assert!(lasts(&grows, false, StartUp::None));
        assert!(!lasts(&grows, false, StartUp::EndsAt(3 * RTT_NS)));
    }
}
