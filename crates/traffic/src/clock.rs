//! Time that never jumps: the wall clock at the start of the process, continued by the monotonic clock.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

/// Nanoseconds of `CLOCK_MONOTONIC`: the same clock as Python's `time.monotonic_ns`.
pub fn monotonic_ns() -> i64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds since the Unix epoch, unaffected by changes of the system clock. All times in a recording are of this
/// clock.
pub fn now_ns() -> i64 {
    monotonic_ns() + epoch_minus_monotonic_ns()
}

/// 0 until the clock is first read.
static OFFSET_NS: AtomicI64 = AtomicI64::new(0);

/// The offset that [`now_ns`] adds to the monotonic clock; constant between calls of [`anchor`].
pub fn epoch_minus_monotonic_ns() -> i64 {
    match OFFSET_NS.load(Ordering::Relaxed) {
        0 => anchor(),
        offset_ns => offset_ns,
    }
}

/// Adopts the current wall-clock time. Call it before a test, never during one.
///
/// A process that runs tests for days, while the clock is set or the host sleeps, would otherwise drift away from the
/// wall clock.
pub fn anchor() -> i64 {
    let offset_ns = read(ClockId::CLOCK_REALTIME) - monotonic_ns();
    OFFSET_NS.store(offset_ns, Ordering::Relaxed);
    offset_ns
}

/// Converts the time of an event that the kernel stamped with `CLOCK_REALTIME` to the clock of [`now_ns`].
///
/// The conversion uses the stamp's age, not its value. If the age is implausible, because the clock was set between the
/// event and now, the event is dated now.
pub fn of_kernel_stamp_ns(stamp_ns: i64) -> i64 {
    const OLDEST_NS: i64 = 10_000_000_000;
    let age_ns = read(ClockId::CLOCK_REALTIME) - stamp_ns;
    now_ns()
        - if (0..OLDEST_NS).contains(&age_ns) {
            age_ns
        } else {
            0
        }
}

/// Sleeps until [`now_ns`] reaches `until_ns`; returns immediately if that time has passed.
pub fn sleep_until_ns(until_ns: i64) {
    let target_ns = until_ns.saturating_sub(epoch_minus_monotonic_ns());
    let time = TimeSpec::new(
        target_ns.div_euclid(1_000_000_000),
        target_ns.rem_euclid(1_000_000_000),
    );
    let flags = ClockNanosleepFlags::TIMER_ABSTIME;
    while clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &time) == Err(Errno::EINTR) {}
}

/// Makes this thread's timers as precise as the kernel allows (the default slack is 50 us, prctl(2)).
pub fn sharpen_timers() {
    // If the kernel refuses, the slack stays as it is.
    let _ = prctl::set_timerslack(1);
}

/// Converts seconds to nanoseconds. Values out of range are clamped.
pub fn ns(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}

/// Converts nanoseconds to a [`Duration`]; negative spans become zero.
pub fn duration(span_ns: i64) -> Duration {
    Duration::from_nanos(span_ns.max(0) as u64)
}

fn read(clock: ClockId) -> i64 {
    clock_gettime(clock)
        .expect("every Linux has both clocks")
        .num_nanoseconds()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_ends_at_or_behind_the_wanted_time() {
        let until_ns = now_ns() + 2_000_000;
        sleep_until_ns(until_ns);
        assert!(now_ns() >= until_ns);
        sleep_until_ns(0);
        sleep_until_ns(i64::MIN);
    }

    #[test]
    fn a_stamp_from_the_future_or_the_distant_past_is_taken_to_be_now() {
        let realtime_ns = read(ClockId::CLOCK_REALTIME);
        for stamp_ns in [
            realtime_ns + 3_600_000_000_000,
            realtime_ns - 3_600_000_000_000,
            0,
        ] {
            let before_ns = now_ns();
            let taken_ns = of_kernel_stamp_ns(stamp_ns);
            assert!((before_ns..=now_ns()).contains(&taken_ns));
        }
    }
}
