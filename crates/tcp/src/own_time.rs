//! Senders that send when they have something to send, and not when an acknowledgment makes room.

use crate::flow::{Flow, Kind};
use crate::sender_clock::SenderClock;

/// Fewer bursts tell nothing.
const FEWEST_BURSTS: usize = 8;
/// Most of the time between them: some pauses end with an acknowledgment by chance, and slow start waits for each.
const MOST: f64 = 0.8;

/// Signs of the sender's own timing, in the begins and ends of bursts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OwnTime {
    /// Bursts begin when no acknowledgment has come for a while.
    pub unreleased: bool,
    /// Bursts end with less than a full segment, which is sent only when there is nothing more (RFC 1122, section
    /// 4.2.3.4).
    pub ends_small: bool,
}

impl OwnTime {
    /// Of bursts with pauses longer than `pause_ns` between them. What an acknowledgment releases passes the capture point
    /// within `release_ns` of it.
    pub fn of(flow: &Flow, clock: &SenderClock, pause_ns: i64, release_ns: i64) -> Self {
        let mss = flow.full_bytes();
        let (mut bursts, mut all_ns, mut small_ns, mut unreleased_ns) = (0, 0.0, 0.0, 0.0);
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
                bursts += 1;
                let of = |holds: bool| if holds { silent_ns as f64 } else { 0.0 };
                all_ns += of(true);
                small_ns += of(two[0].payload_bytes < mss);
                unreleased_ns += of(now_ns.saturating_sub(last_heard_ns) > release_ns);
            }
        }
        if bursts < FEWEST_BURSTS {
            return Self::default();
        }
        Self {
            unreleased: unreleased_ns >= MOST * all_ns,
            ends_small: small_ns >= MOST * all_ns,
        }
    }
}
