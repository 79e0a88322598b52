//! How long packets waited before the capture point, from the sender's clock in their timestamps (RFC 7323).
//!
//! A round trip includes the queues of both directions. Each acknowledgment carries the time at which the receiver sent
//! it: its excess delay over the fastest one belongs to the return path, the rest to the forward path. Data captured
//! behind a queue reveals its wait by the same method.

use crate::timestamp_clock::{Reading, late_ns, tick_ns};

/// If the longest waits are hardly longer than a tick, the clock shows less than round trips do.
const FEWEST_TICKS_LONG: i64 = 5;
/// One in this many packets must have waited as long.
const SHARE_OF_LONG: usize = 20;

/// The clock in the packets of one direction, at its changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClockedWaits(Vec<Reading>);

impl ClockedWaits {
    pub fn of(readings: impl Iterator<Item = Reading>) -> Self {
        let mut clocked = Self::default();
        readings.for_each(|one| clocked.note(one.time_ns, one.ticks));
        clocked
    }

    pub fn note(&mut self, time_ns: i64, ticks: u32) {
        // an overtaken packet adds nothing to those before it
        let newer =
            |last: &Reading| (ticks.wrapping_sub(last.ticks) as i32) > 0 && time_ns >= last.time_ns;
        if self.0.last().is_none_or(newer) {
            self.0.push(Reading { time_ns, ticks });
        }
    }

    /// Returns the waits, if they are long enough for the clock's resolution.
    pub fn waits(&self) -> Vec<ClockedWait> {
        let Some(tick_ns) = tick_ns(&self.0) else {
            return Vec::new();
        };
        let mut late_ns = late_ns(&self.0, tick_ns);
        // on average a packet leaves in the middle of its tick
        late_ns
            .iter_mut()
            .for_each(|late| *late = (*late - tick_ns / 2).max(0));
        let waits = self.0.iter().zip(&late_ns);
        let waits = waits.map(|(reading, wait_ns)| ClockedWait {
            time_ns: reading.time_ns,
            wait_ns: *wait_ns,
        });
        let waits: Vec<ClockedWait> = waits.collect();
        let at = late_ns.len() - 1 - late_ns.len() / SHARE_OF_LONG;
        let long_ns = *late_ns.select_nth_unstable(at).1;
        if long_ns < FEWEST_TICKS_LONG * tick_ns {
            return Vec::new();
        }
        waits
    }
}

/// How long a packet waited before the capture point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockedWait {
    /// When it passed the capture point.
    pub time_ns: i64,
    /// Excess over the fastest packet, nanoseconds, within a tick of its sender's clock.
    pub wait_ns: i64,
}

/// The wait of the packet that passed at a time, nanoseconds; 0 if unknown.
pub fn clocked_wait_ns(waits: &[ClockedWait], time_ns: i64) -> i64 {
    let after = waits.partition_point(|wait| wait.time_ns <= time_ns);
    let Some(wait) = after.checked_sub(1).map(|at| waits[at]) else {
        return 0;
    };
    // later packets with the same clock value left in the same tick
    wait.wait_ns + (time_ns - wait.time_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn acknowledged(wait_ms: impl Fn(i64) -> i64) -> Vec<ClockedWait> {
        let mut clocked = ClockedWaits::default();
        for number in 0..1000 {
            let passed_ns = (number * 10 + 30 + wait_ms(number)) * MS;
            clocked.note(passed_ns, 7 + 10 * number as u32);
        }
        clocked.waits()
    }

    /// From 0 to 100 and back.
    fn rises_and_falls(number: i64) -> i64 {
        100 - (number % 200 - 100).abs()
    }

    #[test]
    fn waits_are_known_to_a_tick() {
        let waits = acknowledged(rises_and_falls);
        assert_eq!(waits.len(), 1000);
        for (number, wait) in waits.iter().enumerate() {
            let off_ns = wait.wait_ns - rises_and_falls(number as i64) * MS;
            assert!(off_ns.abs() <= MS, "{number}: {off_ns} ns");
            assert_eq!(clocked_wait_ns(&waits, wait.time_ns), wait.wait_ns);
        }
    }

    #[test]
    fn a_packet_of_the_same_tick_waited_for_as_much_longer_as_it_came_later() {
        let waits = acknowledged(rises_and_falls);
        let (time_ns, wait_ns) = (waits[70].time_ns, waits[70].wait_ns);
        assert_eq!(clocked_wait_ns(&waits, time_ns + MS / 2), wait_ns + MS / 2);
    }

    #[test]
    fn waits_below_the_clocks_resolution_are_not_reported() {
        assert_eq!(acknowledged(|number| number % 4), []);
        assert_eq!(clocked_wait_ns(&[], 5), 0);
    }
}
