//! How much a sender lets out, round trip by round trip: whether its window doubles, creeps, or stands.

use crate::flow::{Flow, Kind, Vantage};
use crate::limits::Limiter;

/// Slow start doubles the flight each round trip; acknowledgments that are thinned or late leave half of that
/// (RFC 5681). Congestion avoidance adds a segment, or a cubic's fraction (RFC 9438).
const DOUBLING: f64 = 1.35;
/// A window that is full grows by half a segment a round trip at least (CUBIC's Reno-friendly region): a flight that
/// stays within a segment for so many rounds has another bound.
const STANDING_ROUNDS: usize = 8;
/// No initial window is smaller than this unless something was lost (RFC 6928).
const INITIAL_SEGMENTS: i64 = 10;
/// ... and so a smaller flight that stands needs fewer rounds to tell.
const STANDING_ROUNDS_BELOW_INITIAL: usize = 3;
/// Packets that no acknowledgment releases and that never come closer than this share of their usual distance leave
/// by a rate.
const EVEN: f64 = 0.8;
const EVEN_PACKETS: usize = 30;

#[derive(Debug, Clone, Copy)]
struct Round {
    from_ns: i64,
    /// Most bytes out.
    flight: i64,
    /// When it reached that, but for a few per cent.
    full_ns: i64,
    /// Up to then the window doubled.
    slow_start_until_ns: i64,
    /// Something was sent again.
    recovers: bool,
    timed_out: bool,
    /// All of an answer was out before the round was over, so that the window need not have been full.
    is_cut: bool,
    /// It comes after a pause.
    restarts: bool,
}

/// The rounds of a flow, on its sender's clock.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    rounds: Vec<Round>,
    /// A flight that is reached again and again and never passed: the send buffer's.
    cap: Option<i64>,
    mss: i64,
    is_paced: bool,
}

impl Rounds {
    pub fn of(flow: &Flow, near_rtt_ns: i64) -> Self {
        let mss = i64::from(flow.mss_bytes.unwrap_or(1460));
        let mut rounds = cut(flow, near_rtt_ns);
        find_slow_start(&mut rounds);
        let cap = cap(&rounds, mss, flow.vantage);
        Self {
            rounds,
            cap,
            mss,
            is_paced: leaves_by_rate(flow),
        }
    }

    fn at(&self, now_ns: i64) -> Option<&Round> {
        let after = self.rounds.partition_point(|round| round.from_ns <= now_ns);
        self.rounds[..after].last()
    }

    /// The state of a congestion window that is full.
    pub fn window_at(&self, now_ns: i64) -> Limiter {
        match self.at(now_ns) {
            Some(round) if now_ns > round.slow_start_until_ns => Limiter::CongestionWindow,
            _ => Limiter::SlowStart,
        }
    }

    /// What holds a sender that waits for acknowledgments.
    pub fn limiter_at(&self, now_ns: i64) -> Limiter {
        let stands = self
            .at(now_ns)
            .is_some_and(|round| self.cap.is_some_and(|cap| round.flight >= cap - self.mss));
        if self.is_paced {
            Limiter::Pacing
        } else if stands {
            Limiter::SendBuffer
        } else {
            self.window_at(now_ns)
        }
    }
}

/// A round lasts until the last byte that was out at its begin is acknowledged.
fn cut(flow: &Flow, near_rtt_ns: i64) -> Vec<Round> {
    let (before_ns, after_ns) = (near_rtt_ns / 2, near_rtt_ns - near_rtt_ns / 2);
    let mut rounds: Vec<Round> = Vec::new();
    let (mut next, mut acknowledged, mut coming, mut mark) = (0, 0, 0, i64::MIN);
    let mut transfers = flow
        .transfers
        .iter()
        .map(|transfer| transfer.first)
        .peekable();
    for (index, segment) in flow.segments.iter().enumerate() {
        let now_ns = segment.time_ns - before_ns;
        while let Some(heard) = flow
            .acknowledgments
            .get(coming)
            .filter(|heard| heard.time_ns + after_ns <= now_ns)
        {
            acknowledged = acknowledged.max(heard.acknowledged);
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
                full_ns: now_ns,
                slow_start_until_ns: i64::MIN,
                recovers: false,
                timed_out: false,
                is_cut: false,
                restarts,
            });
            mark = next;
        }
        if let Some(round) = rounds.last_mut() {
            round.take(next - acknowledged, now_ns, segment.kind);
        }
    }
    if let Some(round) = rounds.last_mut() {
        round.is_cut = true;
    }
    rounds
}

/// A flight that grows by less has stopped growing.
const FULL: f64 = 1.03;

impl Round {
    fn take(&mut self, flight: i64, now_ns: i64, kind: Kind) {
        if flight as f64 > FULL * self.flight as f64 {
            (self.flight, self.full_ns) = (flight, now_ns);
        }
        self.recovers |= matches!(kind, Kind::Fast | Kind::Timeout);
        self.timed_out |= kind == Kind::Timeout;
    }

    fn grows_from(&self, before: &Round) -> bool {
        self.flight as f64 >= DOUBLING * before.flight as f64
    }
}

/// For each round the next that is whole.
fn whole_after(rounds: &[Round]) -> Vec<Option<usize>> {
    let mut after = vec![None; rounds.len()];
    for index in (1..rounds.len()).rev() {
        let is_whole = !rounds[index].is_cut && !rounds[index].restarts;
        after[index - 1] = is_whole.then_some(index).or(after[index]);
    }
    after
}

/// The window doubles from the start until a loss, or until a round that ends no larger than it began. After a pause or a
/// timeout it may do so again.
fn find_slow_start(rounds: &mut [Round]) {
    let mut doubles = true;
    let mut full: Option<Round> = None;
    let whole_after = whole_after(rounds);
    for index in 0..rounds.len() {
        let round = rounds[index];
        let later = whole_after[index].map(|later| rounds[later]);
        if let Some(before) = full.filter(|_| doubles && !round.is_cut && !round.restarts) {
            // one round may be held up by something else
            let goes_on = round.grows_from(&before)
                || round.recovers
                || later.is_some_and(|later| later.grows_from(&round) && !round.recovers);
            if !goes_on {
                doubles = false;
                let stopped_ns = match round.flight as f64 > 1.05 * before.flight as f64 {
                    true => round.full_ns,
                    false => before.full_ns,
                };
                rounds[..=index].iter_mut().rev().take(2).for_each(|r| {
                    r.slow_start_until_ns = r.slow_start_until_ns.min(stopped_ns);
                });
                rounds[index].slow_start_until_ns = stopped_ns;
            }
        } else if !doubles && (round.restarts || full.is_some_and(|f| f.timed_out)) {
            doubles = rounds
                .get(index + 1)
                .is_some_and(|next| !next.restarts && !next.recovers && next.grows_from(&round));
        }
        if doubles {
            rounds[index].slow_start_until_ns = i64::MAX;
        }
        doubles &= !round.recovers;
        if !round.is_cut || full.is_none_or(|f| f.flight < round.flight) {
            full = Some(round);
        }
    }
}

/// What is out, seen far from the sender, leaves out what waits between: only little can be known to stand there.
fn cap(rounds: &[Round], mss: i64, vantage: Vantage) -> Option<i64> {
    let cap = rounds.iter().map(|round| round.flight).max()?;
    let is_far = matches!(vantage, Vantage::Receiver | Vantage::Unknown);
    if is_far && cap >= INITIAL_SEGMENTS * mss {
        return None;
    }
    let there = rounds
        .iter()
        .filter(|round| round.flight >= cap - mss && !round.recovers)
        .count();
    let needed = match cap < INITIAL_SEGMENTS * mss {
        true => STANDING_ROUNDS_BELOW_INITIAL,
        false => STANDING_ROUNDS,
    };
    (there >= needed).then_some(cap)
}

/// Whether full packets leave evenly, one by one, from the first window on. Only at the sender: what a narrow link before
/// the capture point lets out is as even.
fn leaves_by_rate(flow: &Flow) -> bool {
    let full = flow.mss_bytes.unwrap_or(1460);
    let gaps: Vec<i64> = flow
        .segments
        .windows(2)
        .filter(|pair| {
            pair.iter()
                .all(|s| s.payload_bytes == full && s.kind == Kind::New)
        })
        .map(|pair| pair[1].time_ns - pair[0].time_ns)
        .collect();
    if gaps.len() < EVEN_PACKETS || flow.vantage != Vantage::Sender {
        return false;
    }
    let quantile = |of: &[i64], share: f64| {
        let mut sorted = of.to_vec();
        sorted.sort_unstable();
        sorted[((sorted.len() - 1) as f64 * share) as usize] as f64
    };
    let usual = quantile(&gaps, 0.5);
    let first = quantile(&gaps[..INITIAL_SEGMENTS as usize - 1], 0.5);
    // bursts at the line's rate are as even: the gaps between packets must be most of the time
    let gaps_ns = || gaps.iter().map(|gap| *gap as f64);
    let even: f64 = gaps_ns().filter(|gap| *gap <= 2.0 * usual).sum();
    let most = even >= 0.5 * gaps_ns().sum::<f64>();
    most && usual > 0.0
        && quantile(&gaps, 0.1) >= EVEN * usual
        && first >= EVEN * usual
        && first * EVEN <= usual
}
