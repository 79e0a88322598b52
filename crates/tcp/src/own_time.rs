//! Senders that send when they have something to send, and not when an acknowledgment makes room.

use crate::flow::{Flow, Kind};
use crate::quantile::quantile;
use crate::sender_clock::SenderClock;

/// Fewer bursts tell nothing.
const FEWEST_BURSTS: usize = 8;
/// Most of the time between them: some pauses end with an acknowledgment by chance, and slow start waits for each.
const MOST: f64 = 0.8;

/// A burst that is spread over a round trip has pauses of its own, many times shorter than those between bursts ...
const SPREAD: i64 = 4;
/// ... of which there are some.
const LONG: f64 = 0.9;

#[derive(Debug, Clone, Copy)]
struct Pause {
    silent_ns: i64,
    /// The last packet before it was less than a full segment.
    after_small: bool,
    /// No acknowledgment came just before the packet that ends it.
    unreleased: bool,
}

/// Signs of the sender's own timing, in the begins and ends of bursts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OwnTime {
    /// Bursts begin when no acknowledgment has come for a while.
    pub unreleased: bool,
    /// Bursts end with less than a full segment, which is sent only when there is nothing more (RFC 1122, section
    /// 4.2.3.4).
    pub ends_small: bool,
    /// Shorter pauses are within a burst.
    pub between_ns: i64,
}

impl OwnTime {
    /// Of bursts with pauses longer than `pause_ns` between them. What an acknowledgment releases passes the capture point
    /// within `release_ns` of it.
    pub fn of(flow: &Flow, clock: &SenderClock, pause_ns: i64, release_ns: i64) -> Self {
        let mss = flow.mss_bytes.unwrap_or(1460);
        let mut pauses = Vec::new();
        let (mut heard, mut acknowledged, mut last_heard_ns) = (0, 0, i64::MIN);
        for (index, two) in flow.segments.windows(2).enumerate() {
            let now_ns = two[1].time_ns;
            let coming = flow.acknowledgments[heard..].iter();
            for passed in coming.take_while(|passed| passed.time_ns <= now_ns) {
                (last_heard_ns, acknowledged) = (passed.time_ns, passed.acknowledged);
                heard += 1;
            }
            let silent_ns = clock.sent_ns[index + 1] - clock.sent_ns[index];
            let is_new = two.iter().all(|segment| segment.kind == Kind::New);
            // what waits with nothing under way waits for no acknowledgment anyway
            if is_new && silent_ns > pause_ns && acknowledged < two[0].end() {
                pauses.push(Pause {
                    silent_ns,
                    after_small: two[0].payload_bytes < mss,
                    unreleased: now_ns.saturating_sub(last_heard_ns) > release_ns,
                });
            }
        }
        let all_ns: Vec<i64> = pauses.iter().map(|pause| pause.silent_ns).collect();
        let between_ns = quantile(&all_ns, LONG) / SPREAD;
        pauses.retain(|pause| pause.silent_ns >= between_ns);
        if pauses.len() < FEWEST_BURSTS {
            return Self::default();
        }
        let share = |of: fn(&Pause) -> bool| {
            let ns = |pause: &Pause| pause.silent_ns as f64;
            let all_ns: f64 = pauses.iter().map(ns).sum();
            pauses.iter().filter(|pause| of(pause)).map(ns).sum::<f64>() / all_ns
        };
        Self {
            unreleased: share(|pause| pause.unreleased) >= MOST,
            ends_small: share(|pause| pause.after_small) >= MOST,
            between_ns,
        }
    }
}
