//! Rests of a thread that runs ahead of all programs.
//!
//! Linux interrupts a real-time thread that never sleeps for 50 ms of each second, if other programs wait for its
//! processor (`fair_server`). Where that is seen, the thread rests by itself: as long in all, but in short pieces, and
//! when no packet is due.

/// In each period the thread rests for this long: more than the share that the kernel sees to.
const PERIOD_NS: i64 = 1_000_000;
const REST_NS: i64 = 80_000;
/// No other interruption takes as long.
const STALL_NS: i64 = 10_000_000;

/// The rests of one thread.
#[derive(Debug, Default)]
pub struct Rests {
    is_needed: bool,
    looked_ns: i64,
    since_ns: i64,
    rested_ns: i64,
}

impl Rests {
    /// Notes that the thread runs at this time.
    pub fn runs(&mut self, now_ns: i64) {
        let is_first = self.looked_ns == 0;
        self.is_needed |= !is_first && now_ns - self.looked_ns > STALL_NS;
        self.looked_ns = now_ns;
        if now_ns - self.since_ns >= PERIOD_NS {
            (self.since_ns, self.rested_ns) = (now_ns, 0);
        }
    }

    /// Notes that the thread slept until this time.
    pub fn slept(&mut self, now_ns: i64) {
        self.rested_ns += now_ns - self.looked_ns;
        self.looked_ns = now_ns;
    }

    /// The rest that is left in this period.
    pub fn owed_ns(&self) -> i64 {
        match self.is_needed {
            true => (REST_NS - self.rested_ns).max(0),
            false => 0,
        }
    }

    /// The rest that cannot wait for a moment without packets.
    pub fn overdue_ns(&self) -> i64 {
        match self.looked_ns - self.since_ns > PERIOD_NS / 2 {
            true => self.owed_ns(),
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_NS: i64 = 5_000_000_000;

    #[test]
    fn a_thread_that_is_not_interrupted_needs_no_rest() {
        let mut rests = Rests::default();
        for step in 0..1_000 {
            rests.runs(START_NS + step * 50_000);
            assert_eq!((rests.owed_ns(), rests.overdue_ns()), (0, 0));
        }
        // Its own sleep is no interruption.
        rests.slept(START_NS + 900_000_000);
        rests.runs(START_NS + 900_001_000);
        assert_eq!(rests.owed_ns(), 0);
    }

    #[test]
    fn after_an_interruption_it_rests_in_each_period() {
        let mut rests = Rests::default();
        rests.runs(START_NS);
        let again_ns = START_NS + 50_000_000;
        rests.runs(again_ns);
        assert_eq!((rests.owed_ns(), rests.overdue_ns()), (80_000, 0));
        rests.runs(again_ns + 300_000);
        rests.slept(again_ns + 330_000);
        assert_eq!(rests.owed_ns(), 50_000);
        rests.runs(again_ns + 600_000);
        assert_eq!(rests.overdue_ns(), 50_000);
        rests.slept(again_ns + 700_000);
        assert_eq!((rests.owed_ns(), rests.overdue_ns()), (0, 0));
        rests.runs(again_ns + 1_000_000);
        assert_eq!((rests.owed_ns(), rests.overdue_ns()), (80_000, 0));
    }
}
