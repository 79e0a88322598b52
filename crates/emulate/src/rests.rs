//! Rests of a thread that runs ahead of all programs.
//!
//! If a real-time thread never sleeps and other programs wait for its processor, Linux interrupts it for 50 ms of each
//! second (`fair_server`). A thread that has slept less than that share for a fifth of a second rests by itself: as
//! long in all, but in short pieces, and when no packet is due.

/// In each period the thread rests for this long: more than the share that the kernel sees to.
const PERIOD_NS: i64 = 1_000_000;
const REST_NS: i64 = 80_000;
/// A thread that sleeps less than its share for this long has to rest; the kernel waits for longer.
const WATCHED_NS: i64 = 200_000_000;

/// The rests of one thread.
#[derive(Debug, Default)]
pub struct Rests {
    is_needed: bool,
    looked_ns: i64,
    since_ns: i64,
    rested_ns: i64,
    watched_since_ns: i64,
    slept_ns: i64,
}

impl Rests {
    /// Notes that the thread runs at this time.
    pub fn runs(&mut self, now_ns: i64) {
        if self.looked_ns == 0 {
            self.watched_since_ns = now_ns;
        }
        self.looked_ns = now_ns;
        // Periods of the clock: two emulations that share a processor rest at the same time.
        if now_ns - self.since_ns >= PERIOD_NS {
            (self.since_ns, self.rested_ns) = (now_ns - now_ns % PERIOD_NS, 0);
        }
        let watched_ns = now_ns - self.watched_since_ns;
        if watched_ns >= WATCHED_NS {
            self.is_needed |= self.slept_ns < watched_ns / PERIOD_NS * REST_NS;
            (self.watched_since_ns, self.slept_ns) = (now_ns, 0);
        }
    }

    /// Notes that the thread slept until this time.
    pub fn slept(&mut self, now_ns: i64) {
        self.rested_ns += now_ns - self.looked_ns;
        self.slept_ns += now_ns - self.looked_ns;
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
    fn a_thread_that_sleeps_its_share_need_not_rest() {
        let mut rests = Rests::default();
        for step in 0..10_000 {
            let now_ns = START_NS + step * PERIOD_NS;
            rests.runs(now_ns);
            assert_eq!((rests.owed_ns(), rests.overdue_ns()), (0, 0));
            rests.slept(now_ns + 2 * REST_NS);
        }
    }

    #[test]
    fn a_thread_that_never_sleeps_rests_in_each_period_before_the_kernel_interrupts_it() {
        let mut rests = Rests::default();
        for step in 0..WATCHED_NS / 50_000 {
            rests.runs(START_NS + step * 50_000);
            assert_eq!((rests.owed_ns(), rests.overdue_ns()), (0, 0));
        }
        let again_ns = START_NS + WATCHED_NS;
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

    #[test]
    fn two_threads_that_began_at_different_times_rest_together() {
        let owed_at = |began_ns: i64| -> Vec<i64> {
            let mut rests = Rests::default();
            let mut times = Vec::new();
            for now_ns in (began_ns..START_NS + 2 * WATCHED_NS).step_by(10_000) {
                rests.runs(now_ns);
                if rests.owed_ns() > 0 {
                    times.push(now_ns);
                    rests.slept(now_ns + REST_NS);
                }
            }
            times.split_off(times.len() - 50)
        };
        assert_eq!(owed_at(START_NS), owed_at(START_NS + 370_000));
    }
}
