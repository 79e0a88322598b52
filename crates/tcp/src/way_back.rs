//! How long acknowledgments waited on the way back, told by the receiver's clock in them (RFC 7323).
//!
//! A round trip is as long as two queues make it. Each acknowledgment carries the time at which the receiver sent it; what it
//! took longer from there than the fastest did is the way back's, and the rest is the way out's.

use crate::timestamp_clock::{Reading, late_ns, tick_ns};

/// The clock tells less than a round trip does where the longest waits are hardly longer than its tick.
const FEWEST_TICKS_LONG: i64 = 5;
/// Share of the acknowledgments that wait as long: the others need not.
const SHARE_OF_LONG: usize = 20;

/// The receiver's clock in acknowledgments, where it changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct WayBack(Vec<Reading>);

impl WayBack {
    pub fn note(&mut self, time_ns: i64, ticks: u32) {
        // one that was overtaken says less than those before it
        let newer =
            |last: &Reading| (ticks.wrapping_sub(last.ticks) as i32) > 0 && time_ns >= last.time_ns;
        if self.0.last().is_none_or(newer) {
            self.0.push(Reading { time_ns, ticks });
        }
    }

    /// Waits on the way back, if they are long enough for the clock to tell.
    pub fn waits(&self) -> Vec<WaitBack> {
        let Some(tick_ns) = tick_ns(&self.0) else {
            return Vec::new();
        };
        let mut late_ns = late_ns(&self.0, tick_ns);
        // an acknowledgment leaves in the middle of its tick, on average
        late_ns
            .iter_mut()
            .for_each(|late| *late = (*late - tick_ns / 2).max(0));
        let waits = self.0.iter().zip(&late_ns);
        let waits = waits.map(|(reading, wait_ns)| WaitBack {
            time_ns: reading.time_ns,
            wait_ns: *wait_ns,
        });
        let waits: Vec<WaitBack> = waits.collect();
        let at = late_ns.len() - 1 - late_ns.len() / SHARE_OF_LONG;
        let long_ns = *late_ns.select_nth_unstable(at).1;
        if long_ns < FEWEST_TICKS_LONG * tick_ns {
            return Vec::new();
        }
        waits
    }
}

/// How long an acknowledgment waited on the way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitBack {
    /// When it passed the capture point.
    pub time_ns: i64,
    /// Longer than the fastest on the way back, nanoseconds, to a tick of the receiver's clock.
    pub wait_ns: i64,
}

/// The wait of the acknowledgment that passed at a time, nanoseconds; 0 where nothing tells.
pub fn wait_back_ns(waits: &[WaitBack], time_ns: i64) -> i64 {
    let after = waits.partition_point(|wait| wait.time_ns <= time_ns);
    let Some(wait) = after.checked_sub(1).map(|at| waits[at]) else {
        return 0;
    };
    // those that come later with the same clock left in the same tick
    wait.wait_ns + (time_ns - wait.time_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn acknowledged(wait_ms: impl Fn(i64) -> i64) -> Vec<WaitBack> {
        let mut way_back = WayBack::default();
        for number in 0..1000 {
            let passed_ns = (number * 10 + 30 + wait_ms(number)) * MS;
            way_back.note(passed_ns, 7 + 10 * number as u32);
        }
        way_back.waits()
    }

    /// From 0 to 100 and back.
    fn rises_and_falls(number: i64) -> i64 {
        100 - (number % 200 - 100).abs()
    }

    #[test]
    fn waits_on_the_way_back_are_known_to_a_tick() {
        let waits = acknowledged(rises_and_falls);
        assert_eq!(waits.len(), 1000);
        for (number, wait) in waits.iter().enumerate() {
            let off_ns = wait.wait_ns - rises_and_falls(number as i64) * MS;
            assert!(off_ns.abs() <= MS, "{number}: {off_ns} ns");
            assert_eq!(wait_back_ns(&waits, wait.time_ns), wait.wait_ns);
        }
    }

    #[test]
    fn an_acknowledgment_of_the_same_tick_waited_for_as_much_longer_as_it_came_later() {
        let waits = acknowledged(rises_and_falls);
        let (time_ns, wait_ns) = (waits[70].time_ns, waits[70].wait_ns);
        assert_eq!(wait_back_ns(&waits, time_ns + MS / 2), wait_ns + MS / 2);
    }

    #[test]
    fn where_nothing_waits_longer_than_the_clock_can_tell_nothing_is_told() {
        assert_eq!(acknowledged(|number| number % 4), []);
        assert_eq!(wait_back_ns(&[], 5), 0);
    }
}
