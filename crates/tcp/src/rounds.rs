//! How much a sender sends in each round trip: whether its window stands still.

use crate::flow::{Flow, Kind, Segment, SegmentFlags, Vantage};
use crate::limits::Limiter;
use crate::own_time::OwnTime;
use crate::quantile::{quantile, quantile_in};
use crate::sender_clock::SenderClock;
use crate::slow_start::{Line, SlowStart};
use crate::spacing::Spacing;
use crate::start_up::StartUp;
use crate::stretch::releases_several;

/// A packet that leaves this soon after an acknowledgment was released by it: the reaction time of a busy host ...
pub(crate) const RELEASE_NS: i64 = 2_000_000;

/// A full congestion window grows by at least half a segment per round trip (CUBIC's Reno-friendly region): a flight
/// that grows less over this many rounds has another bound ...
const LEAST_GROWTH: f64 = 0.5;
const STANDING_ROUNDS: usize = 8;
/// ... and a window that never lost a packet grows by a whole one (RFC 9438, section 4.3: as Reno), which is detected
/// sooner ...
const LEAST_GROWTH_LOSSLESS: f64 = 1.0;
const STANDING_ROUNDS_LOSSLESS: usize = 3;
/// ... unless a queue stands, so that round trips take this multiple of the path's: a window set by a model of the path
/// (BBR's start-up) stands still as long. It is at most three times the path's capacity.
const QUEUED: f64 = 1.5;
/// A full receive window shows in each round.
const WINDOW_ROUNDS: usize = 2;
/// Of flights with another bound, at most this share lies within a segment of what some window scale permits, if their
/// logarithm is uniform between one scale and the next.
const NEAR_BY_CHANCE: f64 = 0.1;
/// ... which the flight always reaches, except for acknowledgments in flight.
const NEAR_CAP: f64 = 0.95;
/// No initial window is smaller unless a packet was lost (RFC 6928).
const INITIAL_SEGMENTS: i64 = 10;
/// ... and so a smaller flight that stands still is recognised in fewer rounds.
const STANDING_ROUNDS_BELOW_INITIAL: usize = 3;
/// Packets that no acknowledgment releases, with gaps never below this share of the usual one, leave at a pacing rate.
/// The share is above 0.8: BBR probes at 5/4 of its rate for an eighth of the time.
const EVEN: f64 = 0.85;
const EVEN_PACKETS: usize = 30;
/// ... and the next one leaves within this multiple of the usual gap.
const LONGEST_GAP: f64 = 1.5;
/// Initial windows per round trip at which a congestion control begins to pace: 2 (Linux) to 2.89 (BBR), with the
/// variation of the first round trips.
const OWN_PACE: std::ops::RangeInclusive<f64> = 1.6..=3.3;
/// ... which doubles with the window in the next one.
const OWN_PACE_ROUNDS: i64 = 3;
const OWN_PACE_PACKETS: usize = 7 * INITIAL_SEGMENTS as usize;
/// Packets that leave together wait for each other at a line. If they pass over a span this many times longer than the
/// longest wait, none waited for that reason.
const UNQUEUED: i64 = 3;
/// Numbers of consecutive packets that measure a line's rate, so that timestamp noise is small among the longer rows
/// ...
const ROWS: [usize; 4] = [INITIAL_SEGMENTS as usize - 1, 40, 160, 640];
/// ... which is this much if a host takes packets from its network card in batches.
const STAMPS_NS: i64 = 20_000;
/// The usual tick of timestamp clocks.
const TICK_NS: i64 = 1_000_000;
/// A busy line sends the next packet within this multiple of a packet's time ...
const PAUSE_GAPS: i64 = 2;
/// ... and a line that is busy for this share of the time is full.
const BUSY: f64 = 0.9;

#[derive(Debug, Clone, Copy)]
struct Round {
    from_ns: i64,
    /// The most bytes outstanding.
    flight: i64,
    /// A retransmission was sent.
    recovers: bool,
    /// All of an answer was sent before the round was over, so the window need not have been full.
    is_cut: bool,
    /// The receiver permitted no further full segment.
    fills_window: bool,
}

/// A flight that is reached repeatedly and never exceeded.
#[derive(Debug, Clone, Copy)]
struct Cap {
    /// Flights of at least this size count as reaching it.
    least: i64,
    /// The receive window, or otherwise the send buffer.
    limiter: Limiter,
}

/// The rounds of a flow, on its sender's clock.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    rounds: Vec<Round>,
    slow_start: SlowStart,
    /// Set if windows are known.
    cap: Option<Cap>,
    /// Set if windows were not captured: the flight stands at one size, so that a window may be its bound.
    stands_unseen: Option<bool>,
    /// The gap between packets, if they leave at a pacing rate.
    pub paced_gap_ns: Option<i64>,
    pub own_time: OwnTime,
    /// A sender that is silent for this long is waiting, not limited by its line.
    pub pause_ns: i64,
    /// For captures away from the sender: the time of a full packet on the slowest line before the capture point. The
    /// small packets of the handshake, from which the near round trip is known, do not include it.
    pub full_packet_ns: i64,
}

impl Rounds {
    /// `windows_unseen`: the acknowledgments were inferred from echoes.
    pub fn of(
        flow: &Flow,
        clock: &SenderClock,
        base_rtt_ns: i64,
        slack_ns: i64,
        windows_unseen: bool,
        begins: bool,
    ) -> Self {
        let mss = i64::from(flow.full_bytes());
        let rounds = cut(flow, clock, mss);
        let gaps_ns = gaps_ns(flow, |index| clock.sent_ns[index]);
        let mut unordered_ns = gaps_ns.clone();
        let usual_gap_ns = quantile_in(&mut unordered_ns, 0.5);
        let fastest_ns = fastest_rows_ns(flow, clock);
        let line_gap_ns = self::line_gap_ns(&fastest_ns, STAMPS_NS);
        // gap between full packets of a burst; half of the packets released by delayed acknowledgments follow another
        // at once, and with noisy timestamps closer than the line permits
        let burst_gap_ns = quantile_in(&mut unordered_ns, 0.25).max(line_gap_ns);
        // if the delay to the capture point varies, packets get closer together than the line permits
        let slow_gap_ns = self::line_gap_ns(&fastest_ns, STAMPS_NS.max(clock.doubt_ns));
        let pause_ns = (PAUSE_GAPS * burst_gap_ns).min(slack_ns);
        let spacing = Spacing::of(flow);
        let queues_are_known = clock.longest_queued_ns.is_some();
        let at_sender = flow.vantage == Vantage::Sender;
        // the gaps between the first packets are set by the sender, not by a line
        let own_gaps = queues_are_known || at_sender || spacing == Some(Spacing::Rate);
        let start_up = match begins && own_gaps {
            true => StartUp::of(flow, clock, base_rtt_ns),
            false => StartUp::None,
        };
        let line = Line {
            pause_ns,
            gap_ns: slow_gap_ns,
            hides: !queues_are_known && (!at_sender || spacing == Some(Spacing::Line)),
        };
        let slow_start = SlowStart::of(flow, clock, line, start_up);
        let waits = waits_between_packets(&gaps_ns, pause_ns);
        // by then a growing window has filled the line, and packets waiting for it make the flight here stand still
        let settled_ns = &gaps_ns[gaps_ns.len() / 2..];
        let queues_at_line = spacing != Some(Spacing::Rate)
            && !waits_between_packets(settled_ns, PAUSE_GAPS * usual_gap_ns);
        let is_near = match clock.longest_queued_ns {
            Some(queued_ns) => queued_ns < slack_ns,
            None => {
                matches!(flow.vantage, Vantage::Sender | Vantage::Middle)
                    && loses_nothing_before(flow)
                    && !queues_at_line
            }
        };
        // as packets pass here; the near round trip varies
        let release_ns = RELEASE_NS.saturating_add(clock.near_rtt_ns / 4 * 5);
        let own_time = OwnTime::of(flow, clock, pause_ns, release_ns);
        let own_time = OwnTime {
            unreleased: own_time.unreleased && is_near,
            ..own_time
        };
        let cap = cap(&rounds, mss, !is_near, base_rtt_ns).filter(|_| waits);
        let by_line = queues_at_line && spacing == Some(Spacing::Line) && !queues_are_known;
        let cap = cap.filter(|cap| cap.limiter == Limiter::ReceiveWindow || !by_line);
        Self {
            stands_unseen: windows_unseen.then(|| waits && settles(&rounds, &slow_start, mss)),
            rounds,
            slow_start,
            cap: cap.filter(|_| !windows_unseen),
            paced_gap_ns: leaves_by_rate(
                (&gaps_ns, usual_gap_ns),
                flow,
                clock,
                own_time,
                base_rtt_ns,
                spacing,
                begins,
            )
            .then_some(usual_gap_ns),
            own_time,
            pause_ns,
            full_packet_ns: if at_sender { 0 } else { slow_gap_ns },
        }
    }

    /// True if the flight stands at one size, and no window that might be its bound was captured.
    pub fn stands_unseen(&self) -> bool {
        self.stands_unseen == Some(true)
    }

    /// The limiter of a full congestion window.
    pub fn window_at(&self, now_ns: i64) -> Limiter {
        match self.slow_start.contains(now_ns) {
            true => Limiter::SlowStart,
            false => Limiter::CongestionWindow,
        }
    }

    /// True if a packet that leaves this long after the last one waited for its turn at a pacing rate.
    pub fn is_next_by_rate(&self, after_ns: i64) -> bool {
        self.paced_gap_ns
            .is_some_and(|gap_ns| after_ns as f64 <= LONGEST_GAP * gap_ns as f64)
    }

    /// The limiter of a sender that waits for acknowledgments of its outstanding `flight`.
    pub fn limiter_at(&self, sent_ns: i64, now_ns: i64, flight: i64) -> Limiter {
        match self.cap {
            Some(cap) if flight >= cap.least || self.stays_at(cap, sent_ns) => cap.limiter,
            _ => self.window_at(now_ns),
        }
    }

    /// True in a round that reaches the cap, if the one before did too.
    fn stays_at(&self, cap: Cap, now_ns: i64) -> bool {
        let after = self.rounds.partition_point(|round| round.from_ns <= now_ns);
        let last = self.rounds[..after].last_chunk::<2>();
        last.is_some_and(|pair| pair.iter().all(|round| round.flight >= cap.least))
    }
}

/// Divides the flow into rounds: a round lasts until the last byte outstanding at its start is acknowledged.
fn cut(flow: &Flow, clock: &SenderClock, mss: i64) -> Vec<Round> {
    let mut rounds: Vec<Round> = Vec::new();
    let (mut next, mut acknowledged, mut coming, mut mark) = (0, 0, 0, i64::MIN);
    let mut edge = i64::MAX;
    let mut transfers = flow
        .transfers
        .iter()
        .map(|transfer| transfer.first)
        .peekable();
    for (index, segment) in flow.segments.iter().enumerate() {
        let now_ns = clock.sent_ns[index];
        while clock.heard_ns.get(coming).is_some_and(|ns| *ns <= now_ns) {
            let heard = flow.acknowledgments[coming];
            acknowledged = acknowledged.max(heard.acknowledged);
            edge = match heard.window_bytes {
                ..0 => i64::MAX,
                window => heard.acknowledged + window,
            };
            coming += 1;
        }
        let restarts = transfers.next_if(|first| *first <= index).is_some();
        if let Some(round) = rounds.last_mut().filter(|_| restarts) {
            round.is_cut = true;
        }
        next = next.max(segment.end());
        if restarts || rounds.is_empty() || acknowledged >= mark {
            rounds.push(Round {
                from_ns: now_ns,
                flight: 0,
                recovers: false,
                is_cut: false,
                fills_window: false,
            });
            mark = next;
        }
        if let Some(round) = rounds.last_mut() {
            round.take(next - acknowledged, segment.kind);
            round.fills_window |= edge.saturating_sub(next) < mss;
        }
    }
    if let Some(round) = rounds.last_mut() {
        round.is_cut = true;
    }
    rounds
}

impl Round {
    /// True if less is outstanding, without a loss or the end of an answer as the reason.
    fn is_below(&self, flight: i64) -> bool {
        self.flight < flight && !self.recovers && !self.is_cut
    }

    fn take(&mut self, flight: i64, kind: Kind) {
        self.flight = self.flight.max(flight);
        self.recovers |= matches!(kind, Kind::Fast | Kind::Timeout);
    }
}

/// True if the receive window, once full, is full most of the time. A flight with another bound does not do so by
/// chance.
pub(crate) fn fill_the_window(flow: &Flow, clock: &SenderClock) -> bool {
    let mss = i64::from(flow.full_bytes());
    let rounds = cut(flow, clock, mss);
    let most = rounds.iter().map(|round| round.flight).max().unwrap_or(0);
    let by_chance = (1.0 + mss as f64 / most.max(1) as f64).log2();
    let since = rounds.iter().skip_while(|round| !round.fills_window);
    let (all, full) = since.fold((0, 0), |(all, full), round| {
        (all + 1, full + usize::from(round.fills_window))
    });
    by_chance <= NEAR_BY_CHANCE && full >= STANDING_ROUNDS_BELOW_INITIAL && 2 * full > all
}

/// The size at which the flight stands, if it does. Away from the sender only a small flight reveals the send buffer,
/// because packets waiting in between are missing here; the receive window shows everywhere.
fn cap(rounds: &[Round], mss: i64, is_far: bool, base_rtt_ns: i64) -> Option<Cap> {
    let most = rounds.iter().map(|round| round.flight).max()?;
    let least = (NEAR_CAP * most as f64) as i64 - mss;
    let there = |round: &&Round| round.flight >= least;
    let at_cap = || rounds.iter().filter(there);
    let filled = at_cap().filter(|round| round.fills_window).count();
    if filled >= WINDOW_ROUNDS && 2 * filled > at_cap().count() {
        let limiter = Limiter::ReceiveWindow;
        return Some(Cap { least, limiter });
    }
    if is_far && most >= INITIAL_SEGMENTS * mss {
        return None;
    }
    let pairs = || rounds.windows(2).filter(|pair| !pair[0].is_cut);
    let lasts_ns = pairs().filter(|pair| there(&&pair[0]));
    let lasts_ns: Vec<i64> = lasts_ns
        .map(|pair| pair[1].from_ns - pair[0].from_ns)
        .collect();
    let queues = quantile(&lasts_ns, 0.5) as f64 > QUEUED * base_rtt_ns as f64;
    let (growth, needed) = match rounds.iter().any(|round| round.recovers) {
        _ if most < INITIAL_SEGMENTS * mss => (LEAST_GROWTH, STANDING_ROUNDS_BELOW_INITIAL),
        false if !queues => (LEAST_GROWTH_LOSSLESS, STANDING_ROUNDS_LOSSLESS),
        _ => (LEAST_GROWTH, STANDING_ROUNDS),
    };
    let standing = standing_rounds(rounds, there, growth, mss).filter(|count| *count >= needed)?;
    // without losses, a flight below the buffer's size stands still only for a window set by a model of the path
    let elsewhere =
        pairs().filter(|pair| pair[1].is_below(least) && pair[1].flight <= pair[0].flight);
    let limiter = Limiter::SendBuffer;
    (elsewhere.count() < standing).then_some(Cap { least, limiter })
}

/// True if a flight without another bound stops growing after slow start, as the congestion window would not make it.
fn settles(rounds: &[Round], slow_start: &SlowStart, mss: i64) -> bool {
    let later = |round: &&Round| !slow_start.contains(round.from_ns);
    let standing = standing_rounds(rounds, later, LEAST_GROWTH, mss);
    standing.is_some_and(|count| count >= STANDING_ROUNDS)
}

/// The number of these rounds, if the flight grows over them by less than a congestion window would, which is this many
/// segments per round.
fn standing_rounds(
    rounds: &[Round],
    of: impl Fn(&&Round) -> bool,
    growth: f64,
    mss: i64,
) -> Option<usize> {
    let mean = |of: &[i64]| of.iter().sum::<i64>() as f64 / of.len().max(1) as f64;
    let (mut count, mut grown, mut as_window) = (0, 0.0, 0.0);
    // a window restarts with each transfer
    for transfer in rounds.split_inclusive(|round| round.is_cut) {
        let there = transfer.iter().filter(|round| !round.recovers && of(round));
        let mut there: Vec<i64> = there.map(|round| round.flight).collect();
        // the last round need not be full
        if there
            .last_chunk()
            .is_some_and(|[before, last]| last + mss <= *before)
        {
            there.pop();
        }
        if there.len() < 3 {
            continue; // a round that begins and ends there is not conclusive
        }
        let third = there.len() / 3;
        grown += mean(&there[there.len() - third..]) - mean(&there[..third]);
        as_window += growth * (there.len() - third) as f64 * mss as f64;
        count += there.len();
    }
    (grown < as_window / 2.0).then_some(count)
}

/// The number of gaps between full packets before the second transfer.
fn second_transfer(flow: &Flow) -> Option<usize> {
    let second = flow.transfers.get(1)?.first;
    Some(
        full_pairs(flow)
            .take_while(|index| index + 1 < second)
            .count(),
    )
}

/// Indices of full packets followed by another one, both sent for the first time.
fn full_pairs(flow: &Flow) -> impl Iterator<Item = usize> + '_ {
    let full = flow.full_bytes();
    let is_full = move |s: &Segment| s.payload_bytes == full && s.kind == Kind::New;
    let pairs = flow.segments.windows(2).enumerate();
    pairs
        .filter(move |(_, pair)| pair.iter().all(is_full))
        .map(|(index, _)| index)
}

/// Times from each full packet sent for the first time to the next one, nanoseconds.
fn gaps_ns(flow: &Flow, time_ns: impl Fn(usize) -> i64) -> Vec<i64> {
    full_pairs(flow)
        .map(|index| time_ns(index + 1) - time_ns(index))
        .collect()
}

/// The shortest time of this many consecutive full packets, nanoseconds, for each of [`ROWS`]; `None` if there are
/// none.
fn fastest_rows_ns(flow: &Flow, clock: &SenderClock) -> [Option<i64>; ROWS.len()] {
    let full = flow.full_bytes();
    let is_full = |s: &Segment| s.payload_bytes == full && s.kind == Kind::New;
    let mut fastest_ns = [None; ROWS.len()];
    let mut first = 0;
    for run in flow.segments.chunk_by(|a, b| is_full(a) && is_full(b)) {
        let sent_ns = &clock.sent_ns[first..first + run.len()];
        first += run.len();
        for (packets, fastest_ns) in ROWS.iter().zip(&mut fastest_ns) {
            let rows = sent_ns.iter().zip(sent_ns.iter().skip(*packets));
            let took_ns = rows.map(|(first_ns, last_ns)| last_ns - first_ns).min();
            *fastest_ns = [*fastest_ns, took_ns].into_iter().flatten().min();
        }
    }
    fastest_ns
}

/// The line's time per full packet, from the fastest row of at least an initial window's packets, nanoseconds; 0 if
/// there is none.
fn line_gap_ns(fastest_rows_ns: &[Option<i64>], noise_ns: i64) -> i64 {
    let rows = ROWS.iter().zip(fastest_rows_ns);
    let gaps_ns = rows
        .filter_map(|(packets, took_ns)| Some((took_ns.as_ref()? + noise_ns) / *packets as i64));
    gaps_ns.min().unwrap_or(0)
}

/// False if the line is never silent: then it is the limit, whatever waits behind it.
fn waits_between_packets(gaps_ns: &[i64], pause_ns: i64) -> bool {
    // clocks that jump produce gaps with a sum beyond 64-bit nanoseconds
    let sum = |longest_ns: i64| -> f64 {
        let gaps = gaps_ns.iter().filter(|gap| **gap <= longest_ns);
        gaps.map(|gap| *gap as f64).sum()
    };
    sum(pause_ns) <= BUSY * sum(i64::MAX)
}

/// True if no packet was dropped before the capture point: a device that drops packets may also queue others.
pub(crate) fn loses_nothing_before(flow: &Flow) -> bool {
    let mut segments = flow.segments.iter();
    !segments.any(|segment| segment.flags.has(SegmentFlags::INFERRED))
}

/// True if full packets leave evenly, one by one, from the first window on. A narrow link before the capture point
/// produces the same pattern, so this holds only at the sender, or if timestamps or small packets show that no packet
/// waits for a link.
fn leaves_by_rate(
    (gaps, usual_gap_ns): (&[i64], i64),
    flow: &Flow,
    clock: &SenderClock,
    own_time: OwnTime,
    base_rtt_ns: i64,
    spacing: Option<Spacing>,
    begins: bool,
) -> bool {
    // without waits in between, times at the capture point: the sender's clock has only the resolution of a tick
    let passing = (spacing == Some(Spacing::Rate))
        .then(|| gaps_ns(flow, |index| flow.segments[index].time_ns));
    let gaps = passing.as_deref().unwrap_or(gaps);
    if gaps.len() < EVEN_PACKETS {
        return false;
    }
    let usual = usual_gap_ns as f64;
    let a_window_ns = (usual * INITIAL_SEGMENTS as f64) as i64;
    let is_near = match (spacing, clock.longest_queued_ns) {
        (Some(Spacing::Rate), _) => true,
        (Some(Spacing::Line), _) => false,
        (None, Some(queued_ns)) => queued_ns < a_window_ns / 2,
        (None, None) => flow.vantage == Vantage::Sender && loses_nothing_before(flow),
    };
    if !is_near {
        return false;
    }
    // the first packets that leave unprompted; if the capture begins later, those of the next transfer
    let begin = match begins {
        true => 0,
        false => second_transfer(flow).unwrap_or(gaps.len()),
    };
    let opening = gaps.get(begin..).unwrap_or_default();
    let opening = &opening[..opening.len().min(INITIAL_SEGMENTS as usize - 1)];
    let first = quantile(opening, 0.5) as f64;
    // bursts at the line's rate are as even: the gaps between packets must make up most of the time
    let even: i64 = gaps.iter().filter(|gap| **gap as f64 <= 2.0 * usual).sum();
    let most = even as f64 >= 0.5 * gaps.iter().sum::<i64>() as f64;
    // one or two packets per round trip may each wait for an acknowledgment
    let several = usual * 3.0 <= base_rtt_ns as f64;
    // the congestion control's own pacing, from the initial window and the first round trip, lasts only until the
    // window has grown
    let windows = base_rtt_ns as f64 / (first * INITIAL_SEGMENTS as f64);
    let lasts_ns = clock.sent_ns[clock.sent_ns.len() - 1] - clock.sent_ns[0];
    let is_short = lasts_ns < OWN_PACE_ROUNDS * base_rtt_ns || gaps.len() < OWN_PACE_PACKETS;
    // ... unless the application never fills it
    if OWN_PACE.contains(&windows) && (is_short || own_time.ends_small) {
        return false;
    }
    // ... or the sender's clock advances within the initial window, which no acknowledgment releases in steps
    let waits_for_no_line =
        |queued_ns: i64| a_window_ns > queued_ns.max(TICK_NS).saturating_mul(UNQUEUED);
    let by_itself =
        spacing == Some(Spacing::Rate) || clock.longest_queued_ns.is_some_and(waits_for_no_line);
    let by_itself = by_itself && !OWN_PACE.contains(&windows);
    // packets in between make single gaps uneven, but not those over several packets
    let is_even = |packets: usize| {
        let rows = |of: &[i64]| -> Vec<i64> {
            of.windows(packets)
                .map(|row| row.iter().sum::<i64>())
                .collect()
        };
        let [usual, least, first] = [(gaps, 0.5), (gaps, 0.1), (opening, 0.5)]
            .map(|(of, share)| quantile(&rows(of), share) as f64);
        usual > 0.0 && least >= EVEN * usual && first >= EVEN * usual && first * EVEN <= usual
    };
    (most || by_itself)
        && (several || own_time.unreleased || releases_several(flow))
        && (is_even(1) || (by_itself && is_even(4)))
}
