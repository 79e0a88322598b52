//! How much a sender lets out, round trip by round trip: whether its window doubles, creeps, or stands.

use crate::flow::{Flow, Kind};
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
    slow_start: bool,
    recovers: bool,
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
        find_slow_start(&mut rounds, mss);
        let cap = cap(&rounds, mss);
        Self {
            rounds,
            cap,
            mss,
            is_paced: leaves_by_rate(flow, near_rtt_ns),
        }
    }

    fn at(&self, now_ns: i64) -> Option<&Round> {
        let after = self.rounds.partition_point(|round| round.from_ns <= now_ns);
        self.rounds[..after].last()
    }

    /// The state of a congestion window that is full.
    pub fn window_at(&self, now_ns: i64) -> Limiter {
        match self.at(now_ns) {
            Some(round) if !round.slow_start => Limiter::CongestionWindow,
            _ => Limiter::SlowStart,
        }
    }

    /// What holds a sender that waits for acknowledgments.
    pub fn limiter_at(&self, now_ns: i64) -> Limiter {
        let stands = self.at(now_ns).is_some_and(|round| {
            self.cap
                .is_some_and(|cap| round.flight >= cap - self.mss)
        });
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
    for segment in &flow.segments {
        let now_ns = segment.time_ns - before_ns;
        while let Some(heard) = flow
            .acknowledgments
            .get(coming)
            .filter(|heard| heard.time_ns + after_ns <= now_ns)
        {
            acknowledged = acknowledged.max(heard.acknowledged);
            coming += 1;
        }
        let begins = rounds.is_empty() || acknowledged >= mark;
        next = next.max(segment.end());
        if begins {
            rounds.push(Round {
                from_ns: now_ns,
                flight: 0,
                slow_start: true,
                recovers: false,
            });
            mark = next;
        }
        if let Some(round) = rounds.last_mut() {
            round.flight = round.flight.max(next - acknowledged);
            round.recovers |= matches!(segment.kind, Kind::Fast | Kind::Timeout);
        }
    }
    rounds
}

fn find_slow_start(rounds: &mut [Round], mss: i64) {
    let mut lossless = true;
    for index in 1..rounds.len() {
        let (before, round) = (rounds[index - 1], rounds[index]);
        lossless &= !before.recovers;
        let grows = round.flight as f64 >= DOUBLING * before.flight as f64
            && round.flight >= before.flight + 2 * mss;
        // a round that ends early, by a loss or because all is out, does not show what it would have grown to
        let is_cut = round.recovers || index + 1 == rounds.len();
        let after_loss = before.recovers;
        rounds[index].slow_start = match (lossless, is_cut) {
            (true, true) => before.slow_start,
            (true, false) => grows,
            (false, _) => grows && !round.recovers && !after_loss,
        };
    }
}

fn cap(rounds: &[Round], mss: i64) -> Option<i64> {
    let cap = rounds.iter().map(|round| round.flight).max()?;
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

/// Whether full packets leave evenly, one by one, from the first window on.
fn leaves_by_rate(flow: &Flow, near_rtt_ns: i64) -> bool {
    if near_rtt_ns > 0 && flow.segments.len() < EVEN_PACKETS {
        return false;
    }
    let full = flow.mss_bytes.unwrap_or(1460);
    let mut gaps: Vec<i64> = flow
        .segments
        .windows(2)
        .filter(|pair| pair.iter().all(|s| s.payload_bytes == full && s.kind == Kind::New))
        .map(|pair| pair[1].time_ns - pair[0].time_ns)
        .collect();
    if gaps.len() < EVEN_PACKETS {
        return false;
    }
    let tenth = gaps.len() / 10;
    gaps.sort_unstable();
    gaps[tenth] as f64 >= EVEN * gaps[gaps.len() / 2] as f64 && gaps[tenth] > 0
}
