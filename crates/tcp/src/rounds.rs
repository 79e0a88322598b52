//! How much a sender lets out, round trip by round trip: whether its window stands.

use crate::flow::{Flow, Kind, Segment, SegmentFlags, Vantage};
use crate::limits::Limiter;
use crate::own_time::OwnTime;
use crate::quantile::{quantile, quantile_in};
use crate::sender_clock::SenderClock;
use crate::slow_start::{Line, SlowStart};
use crate::spacing::Spacing;
use crate::start_up::StartUp;
use crate::stretch::releases_several;

/// A packet that leaves this soon after an acknowledgment was released by it: what a busy host takes ...
pub(crate) const RELEASE_NS: i64 = 2_000_000;

/// A window that is full grows by half a segment a round trip at least (CUBIC's Reno-friendly region): a flight that
/// grows by less for so many rounds has another bound ...
const LEAST_GROWTH: f64 = 0.5;
const STANDING_ROUNDS: usize = 8;
/// ... and one that never lost anything by a whole one (RFC 9438, section 4.3: as Reno), which shows sooner ...
const LEAST_GROWTH_LOSSLESS: f64 = 1.0;
const STANDING_ROUNDS_LOSSLESS: usize = 3;
/// ... unless a queue stands, as where round trips take so many times what the path alone takes: a window that a model of the
/// path sets (BBR's start-up) stands there for as long. It is three times that at most.
const QUEUED: f64 = 1.5;
/// A receive window that is full shows in each round.
const WINDOW_ROUNDS: usize = 2;
/// Of flights that something else bounds, no more than so many come within a segment of what a scale of the window allows,
/// if their logarithm is as likely to be anywhere between one scale and the next.
const NEAR_BY_CHANCE: f64 = 0.1;
/// ... which it always reaches, but for what is under way when an acknowledgment comes.
const NEAR_CAP: f64 = 0.95;
/// No initial window is smaller than this unless something was lost (RFC 6928).
const INITIAL_SEGMENTS: i64 = 10;
/// ... and so a smaller flight that stands needs fewer rounds to tell.
const STANDING_ROUNDS_BELOW_INITIAL: usize = 3;
/// Packets that no acknowledgment releases and that never come closer than this share of their usual distance leave
/// by a rate. It is above 0.8: BBR probes at 5/4 of its rate for an eighth of the time.
const EVEN: f64 = 0.85;
const EVEN_PACKETS: usize = 30;
/// ... and the next one leaves within so many times the usual.
const LONGEST_GAP: f64 = 1.5;
/// Initial windows in a round trip at which a congestion control begins to pace: 2 (Linux) to 2.89 (BBR), and what the first round
/// trips may differ by.
const OWN_PACE: std::ops::RangeInclusive<f64> = 1.6..=3.3;
/// ... which doubles with the window in the next one.
const OWN_PACE_ROUNDS: i64 = 3;
const OWN_PACE_PACKETS: usize = 7 * INITIAL_SEGMENTS as usize;
/// Packets that leave together wait for each other at a line: none waited for that where they pass over so many times longer than any
/// waited.
const UNQUEUED: i64 = 3;
/// Packets in a row that tell how fast a line is, so that among the longer ones the noise of the stamps is small ...
const ROWS: [usize; 4] = [INITIAL_SEGMENTS as usize - 1, 40, 160, 640];
/// ... which is this, where a host takes packets from its network card in batches.
const STAMPS_NS: i64 = 20_000;
/// The usual clock of timestamps.
const TICK_NS: i64 = 1_000_000;
/// A line that is busy sends the next packet within so many times what a packet takes ...
const PAUSE_GAPS: i64 = 2;
/// ... and one that is busy for this share of the time is full.
const BUSY: f64 = 0.9;

#[derive(Debug, Clone, Copy)]
struct Round {
    from_ns: i64,
    /// Most bytes out.
    flight: i64,
    /// Something was retransmitted.
    recovers: bool,
    /// All of an answer was out before the round was over, so that the window need not have been full.
    is_cut: bool,
    /// The receiver allowed no further full segment.
    fills_window: bool,
}

/// A flight that is reached again and again and never passed.
#[derive(Debug, Clone, Copy)]
struct Cap {
    /// A flight as large is there.
    least: i64,
    /// The receive window, or else the send buffer.
    limiter: Limiter,
}

/// The rounds of a flow, on its sender's clock.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    rounds: Vec<Round>,
    slow_start: SlowStart,
    /// Where windows are known.
    cap: Option<Cap>,
    /// Windows were not seen; the flight stands at one size, so that one of them may be it.
    stands_unseen: Option<bool>,
    /// From one packet to the next, where they leave by a rate.
    pub paced_gap_ns: Option<i64>,
    pub own_time: OwnTime,
    /// A sender that is silent for so long waits, and not for its line.
    pub pause_ns: i64,
    /// Away from the sender: what a full packet takes through the slowest line before the capture point, which the packets of a
    /// handshake, that the near round trip is known by, do not.
    pub full_packet_ns: i64,
}

impl Rounds {
    /// `windows_unseen`: the acknowledgments are those that echoes tell.
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
        // from one full packet to the next of a burst; half of the packets that delayed acknowledgments release come right
        // behind another, and where stamps are noisy nearer than the line takes them
        let burst_gap_ns = quantile_in(&mut unordered_ns, 0.25).max(line_gap_ns);
        // where the way to the capture point varies, packets come closer together than the line took them
        let slow_gap_ns = self::line_gap_ns(&fastest_ns, STAMPS_NS.max(clock.doubt_ns));
        let pause_ns = (PAUSE_GAPS * burst_gap_ns).min(slack_ns);
        let spacing = Spacing::of(flow);
        let is_told = clock.longest_queued_ns.is_some();
        let at_sender = flow.vantage == Vantage::Sender;
        // the gaps between the first packets are the sender's own, and not those of a line
        let own_gaps = is_told || at_sender || spacing == Some(Spacing::Rate);
        let start_up = match begins && own_gaps {
            true => StartUp::of(flow, clock, base_rtt_ns),
            false => StartUp::None,
        };
        let line = Line {
            pause_ns,
            gap_ns: slow_gap_ns,
            hides: !is_told && (!at_sender || spacing == Some(Spacing::Line)),
        };
        let slow_start = SlowStart::of(flow, clock, line, start_up);
        let waits = waits_between_packets(&gaps_ns, pause_ns);
        // by then a window that grows has filled the line, and what waits for it makes the flight here stand
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
        // as it passes here; a near round trip varies
        let release_ns = RELEASE_NS.saturating_add(clock.near_rtt_ns / 4 * 5);
        let own_time = OwnTime::of(flow, clock, pause_ns, release_ns);
        let own_time = OwnTime {
            unreleased: own_time.unreleased && is_near,
            ..own_time
        };
        let cap = cap(&rounds, mss, !is_near, base_rtt_ns).filter(|_| waits);
        let by_line = queues_at_line && spacing == Some(Spacing::Line) && !is_told;
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

    /// True if the flight stands at one size, and no window was seen that might be it.
    pub fn stands_unseen(&self) -> bool {
        self.stands_unseen == Some(true)
    }

    /// The state of a congestion window that is full.
    pub fn window_at(&self, now_ns: i64) -> Limiter {
        match self.slow_start.contains(now_ns) {
            true => Limiter::SlowStart,
            false => Limiter::CongestionWindow,
        }
    }

    /// True if a packet that leaves so long after the last one waited for its turn at a rate.
    pub fn is_next_by_rate(&self, after_ns: i64) -> bool {
        self.paced_gap_ns
            .is_some_and(|gap_ns| after_ns as f64 <= LONGEST_GAP * gap_ns as f64)
    }

    /// The limiter of a sender that waits for acknowledgments of the `flight` that it has out.
    pub fn limiter_at(&self, sent_ns: i64, now_ns: i64, flight: i64) -> Limiter {
        match self.cap {
            Some(cap) if flight >= cap.least || self.stays_at(cap, sent_ns) => cap.limiter,
            _ => self.window_at(now_ns),
        }
    }

    /// True in a round that reaches it, if the one before did already.
    fn stays_at(&self, cap: Cap, now_ns: i64) -> bool {
        let after = self.rounds.partition_point(|round| round.from_ns <= now_ns);
        let last = self.rounds[..after].last_chunk::<2>();
        last.is_some_and(|pair| pair.iter().all(|round| round.flight >= cap.least))
    }
}

/// A round lasts until the last byte that was out at its begin is acknowledged.
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
    /// It has less out, and neither a loss nor the end of an answer is why.
    fn is_below(&self, flight: i64) -> bool {
        self.flight < flight && !self.recovers && !self.is_cut
    }

    fn take(&mut self, flight: i64, kind: Kind) {
        self.flight = self.flight.max(flight);
        self.recovers |= matches!(kind, Kind::Fast | Kind::Timeout);
    }
}

/// True if the receive window is full most of the time once it was, as no flight is by chance that something else bounds.
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

/// The size at which the flight stands, if it does. Far from the sender only a small one shows the send buffer, as what waits
/// between lacks; the receive window shows everywhere.
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
    // below a buffer's size nothing stands that loses nothing: what does is a window that a model of the path sets
    let elsewhere =
        pairs().filter(|pair| pair[1].is_below(least) && pair[1].flight <= pair[0].flight);
    let limiter = Limiter::SendBuffer;
    (elsewhere.count() < standing).then_some(Cap { least, limiter })
}

/// True if a flight that nothing else bounds does not grow once slow start is over, as the congestion window would make it.
fn settles(rounds: &[Round], slow_start: &SlowStart, mss: i64) -> bool {
    let later = |round: &&Round| !slow_start.contains(round.from_ns);
    let standing = standing_rounds(rounds, later, LEAST_GROWTH, mss);
    standing.is_some_and(|count| count >= STANDING_ROUNDS)
}

/// How many of some rounds there are, if the flight does not grow over them as a congestion window would, by so many
/// segments a round.
fn standing_rounds(
    rounds: &[Round],
    of: impl Fn(&&Round) -> bool,
    growth: f64,
    mss: i64,
) -> Option<usize> {
    let mean = |of: &[i64]| of.iter().sum::<i64>() as f64 / of.len().max(1) as f64;
    let (mut count, mut grown, mut as_window) = (0, 0.0, 0.0);
    // a window begins anew with a transfer
    for transfer in rounds.split_inclusive(|round| round.is_cut) {
        let there = transfer.iter().filter(|round| !round.recovers && of(round));
        let mut there: Vec<i64> = there.map(|round| round.flight).collect();
        // the last one need not be full
        if there
            .last_chunk()
            .is_some_and(|[before, last]| last + mss <= *before)
        {
            there.pop();
        }
        if there.len() < 3 {
            continue; // what begins and ends there tells nothing
        }
        let third = there.len() / 3;
        grown += mean(&there[there.len() - third..]) - mean(&there[..third]);
        as_window += growth * (there.len() - third) as f64 * mss as f64;
        count += there.len();
    }
    (grown < as_window / 2.0).then_some(count)
}

/// How many gaps between full packets there are before the second transfer.
fn second_transfer(flow: &Flow) -> Option<usize> {
    let second = flow.transfers.get(1)?.first;
    Some(
        full_pairs(flow)
            .take_while(|index| index + 1 < second)
            .count(),
    )
}

/// The first ones of full packets that follow each other, both sent for the first time.
fn full_pairs(flow: &Flow) -> impl Iterator<Item = usize> + '_ {
    let full = flow.full_bytes();
    let is_full = move |s: &Segment| s.payload_bytes == full && s.kind == Kind::New;
    let pairs = flow.segments.windows(2).enumerate();
    pairs
        .filter(move |(_, pair)| pair.iter().all(is_full))
        .map(|(index, _)| index)
}

/// Times from each full packet that was sent for the first time to the next such, nanoseconds.
fn gaps_ns(flow: &Flow, time_ns: impl Fn(usize) -> i64) -> Vec<i64> {
    full_pairs(flow)
        .map(|index| time_ns(index + 1) - time_ns(index))
        .collect()
}

/// How long the fastest of so many full packets in a row took, nanoseconds, for each of [`ROWS`]; `None` where there are none.
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

/// The time that the line takes for a full packet, at the fastest that it was seen to send an initial window's packets or more in a
/// row, nanoseconds; 0 where there are no such.
fn line_gap_ns(fastest_rows_ns: &[Option<i64>], noise_ns: i64) -> i64 {
    let rows = ROWS.iter().zip(fastest_rows_ns);
    let gaps_ns = rows
        .filter_map(|(packets, took_ns)| Some((took_ns.as_ref()? + noise_ns) / *packets as i64));
    gaps_ns.min().unwrap_or(0)
}

/// A line that is never silent is the limit, whatever stands behind it.
fn waits_between_packets(gaps_ns: &[i64], pause_ns: i64) -> bool {
    // clocks that jump make gaps that together are longer than nanoseconds in 64 bits count
    let sum = |longest_ns: i64| -> f64 {
        let gaps = gaps_ns.iter().filter(|gap| **gap <= longest_ns);
        gaps.map(|gap| *gap as f64).sum()
    };
    sum(pause_ns) <= BUSY * sum(i64::MAX)
}

/// True where nothing was dropped on its way to the capture point: what drops packets may make others wait.
pub(crate) fn loses_nothing_before(flow: &Flow) -> bool {
    let mut segments = flow.segments.iter();
    !segments.any(|segment| segment.flags.has(SegmentFlags::INFERRED))
}

/// True if full packets leave evenly, one by one, from the first window on. What a narrow link before the capture point
/// lets out is as even: only at the sender, or where timestamps or small packets show that nothing waits for it.
fn leaves_by_rate(
    (gaps, usual_gap_ns): (&[i64], i64),
    flow: &Flow,
    clock: &SenderClock,
    own_time: OwnTime,
    base_rtt_ns: i64,
    spacing: Option<Spacing>,
    begins: bool,
) -> bool {
    // where nothing waits in between, as they pass: what the sender's clock tells of each is a tick wide
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
    // the first packets that leave unprompted: where the capture begins later, of the next transfer
    let begin = match begins {
        true => 0,
        false => second_transfer(flow).unwrap_or(gaps.len()),
    };
    let opening = gaps.get(begin..).unwrap_or_default();
    let opening = &opening[..opening.len().min(INITIAL_SEGMENTS as usize - 1)];
    let first = quantile(opening, 0.5) as f64;
    // bursts at the line's rate are as even: the gaps between packets must be most of the time
    let even: i64 = gaps.iter().filter(|gap| **gap as f64 <= 2.0 * usual).sum();
    let most = even as f64 >= 0.5 * gaps.iter().sum::<i64>() as f64;
    // a packet or two in a round trip may each wait for an acknowledgment
    let several = usual * 3.0 <= base_rtt_ns as f64;
    // a rate of the sender's own, from the initial window and the first round trip, stays so only until that has grown
    let windows = base_rtt_ns as f64 / (first * INITIAL_SEGMENTS as f64);
    let lasts_ns = clock.sent_ns[clock.sent_ns.len() - 1] - clock.sent_ns[0];
    let is_short = lasts_ns < OWN_PACE_ROUNDS * base_rtt_ns || gaps.len() < OWN_PACE_PACKETS;
    // ... unless the application never fills it
    if OWN_PACE.contains(&windows) && (is_short || own_time.ends_small) {
        return false;
    }
    // ... or the sender's clock goes on in the initial window, which no acknowledgment releases bit by bit
    let waits_for_no_line =
        |queued_ns: i64| a_window_ns > queued_ns.max(TICK_NS).saturating_mul(UNQUEUED);
    let by_itself =
        spacing == Some(Spacing::Rate) || clock.longest_queued_ns.is_some_and(waits_for_no_line);
    let by_itself = by_itself && !OWN_PACE.contains(&windows);
    // what comes between makes single gaps uneven, and not those of several packets
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
