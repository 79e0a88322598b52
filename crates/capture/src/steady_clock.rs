//! A clock that is set back while a capture runs.
//!
//! Time then passes twice, round trips across the step are negative or far too short, and so is the least of all. Which packet was
//! captured after which is known, and how long passed between the two at the step is not, but it was no less than nothing.

/// Queues of an interface, and cards beside each other, disorder records by less.
const LEAST_STEP_NS: i64 = 20_000_000;
/// Programs that set clocks refuse to by more (RFC 5905, figure 29: the panic threshold): a capture behind another one in a file.
const LARGEST_STEP_NS: i64 = 1_000_000_000_000;
/// Records of another file or card come between those in order, not many in a row.
const DISORDERED_RECORDS: u32 = 64;

/// Times of one capture, in which no clock is set back.
#[derive(Debug, Clone, Default)]
pub struct SteadyClock {
    /// Latest time of the capture before the last step, and the latest that was given.
    before_ns: i64,
    latest_ns: Option<i64>,
    /// Added to the times of the capture since the last step, and before it.
    offset_ns: i64,
    previous_offset_ns: i64,
    /// Records since the last step, and the time of the last of them.
    records: u32,
    last_ns: i64,
    steps: u32,
}

impl SteadyClock {
    /// The time of the next record: as stamped, or later by as much as clocks were set back before.
    #[inline]
    pub fn time_ns(&mut self, stamped_ns: i64) -> i64 {
        if self.is_disorder(stamped_ns) {
            self.offset_ns = self.previous_offset_ns;
            self.steps -= 1;
            self.records = DISORDERED_RECORDS;
        }
        let mut time_ns = stamped_ns.saturating_add(self.offset_ns);
        let mut latest_ns = *self.latest_ns.get_or_insert(time_ns);
        if latest_ns.saturating_sub(time_ns) > LARGEST_STEP_NS {
            latest_ns = time_ns;
        } else if latest_ns.saturating_sub(time_ns) > LEAST_STEP_NS {
            self.before_ns = latest_ns.saturating_sub(self.offset_ns);
            self.previous_offset_ns = self.offset_ns;
            self.offset_ns = latest_ns.saturating_sub(stamped_ns);
            self.records = 0;
            self.steps += 1;
            time_ns = latest_ns;
        }
        self.records = self.records.saturating_add(1);
        self.last_ns = stamped_ns;
        self.latest_ns = Some(latest_ns.max(time_ns));
        time_ns
    }

    /// True if what looked like a step was a record out of order: soon after it the stamps jump to where they were before.
    fn is_disorder(&self, stamped_ns: i64) -> bool {
        let soon = self.steps > 0 && self.records < DISORDERED_RECORDS;
        let jumped_ns = stamped_ns.saturating_sub(self.last_ns);
        soon && stamped_ns >= self.before_ns && jumped_ns > LEAST_STEP_NS / 2
    }

    /// A note for the reader of the result.
    pub fn note(&self) -> Option<String> {
        (self.steps > 0).then(|| {
            format!(
                "the clock was set back while the capture ran: {} time{}; what came after is counted on from there, {} ms \
                 later than stamped in the end",
                self.steps,
                if self.steps == 1 { "" } else { "s" },
                self.offset_ns / 1_000_000
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn times_ms(stamps_ms: &[i64]) -> (Vec<i64>, u32) {
        let mut clock = SteadyClock::default();
        let times = stamps_ms.iter().map(|ms| clock.time_ns(ms * MS) / MS);
        (times.collect(), clock.steps)
    }

    #[test]
    fn a_clock_that_is_set_back_stands_still_and_goes_on() {
        let stamps = [1000, 1010, 960, 970, 1030, 1040];
        assert_eq!(times_ms(&stamps[..4]), (vec![1000, 1010, 1010, 1020], 1));
        let set_twice = [1000, 900, 905, 800, 810];
        assert_eq!(
            times_ms(&set_twice),
            (vec![1000, 1000, 1005, 1005, 1015], 2)
        );
    }

    #[test]
    fn a_record_out_of_order_sets_no_clock() {
        let stamps = [1000, 1001, 950, 1002, 1003];
        assert_eq!(times_ms(&stamps), (vec![1000, 1001, 1001, 1002, 1003], 0));
        // nor do those that are only a little late
        assert_eq!(times_ms(&[1000, 990, 1010]), (vec![1000, 990, 1010], 0));
    }

    #[test]
    fn hostile_times_do_not_overflow() {
        let mut clock = SteadyClock::default();
        for stamp_ns in [i64::MAX, i64::MIN, i64::MAX, 0, i64::MIN, i64::MIN] {
            clock.time_ns(stamp_ns);
        }
        assert_eq!(clock.note(), None);
    }
}
