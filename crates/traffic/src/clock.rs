//! Time that never jumps: the wall clock as it was at the start of the process, carried on by the monotonic clock.

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

/// Nanoseconds since the Unix epoch that never jump when somebody sets the clock: every time in a recording.
pub fn now_ns() -> i64 {
    monotonic_ns() + epoch_minus_monotonic_ns()
}

/// 0 until the clock is first read.
static OFFSET_NS: AtomicI64 = AtomicI64::new(0);

/// The offset that [`now_ns`] adds to the monotonic clock; constant from one [`anchor`] to the next.
pub fn epoch_minus_monotonic_ns() -> i64 {
    match OFFSET_NS.load(Ordering::Relaxed) {
        0 => anchor(),
        offset_ns => offset_ns,
    }
}

/// Takes the wall clock as it is now; to be called before a test, never while one runs.
///
/// A process that runs one test after the other for days, while the clock is set or the host sleeps, would otherwise go
/// on by a wall clock that everybody else has left.
pub fn anchor() -> i64 {
    let offset_ns = read(ClockId::CLOCK_REALTIME) - monotonic_ns();
    OFFSET_NS.store(offset_ns, Ordering::Relaxed);
    offset_ns
}

/// The time in [`now_ns`]'s clock of an event that the kernel stamped with `CLOCK_REALTIME`.
///
/// The stamp's age is taken, not its value. Where the age makes no sense, because the clock was set between the event
/// and now, the event is taken to be now.
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

/// Sleeps until [`now_ns`] reaches `until_ns`; returns at once where that is past.
pub fn sleep_until_ns(until_ns: i64) {
    let target_ns = until_ns.saturating_sub(epoch_minus_monotonic_ns());
    let time = TimeSpec::new(
        target_ns.div_euclid(1_000_000_000),
        target_ns.rem_euclid(1_000_000_000),
    );
    let flags = ClockNanosleepFlags::TIMER_ABSTIME;
    while clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &time) == Err(Errno::EINTR) {}
}

/// Lets this thread's timers fire as exactly as the kernel can (the default slack is 50 us, prctl(2)).
pub fn sharpen_timers() {
    // A kernel that refuses leaves the slack as it was.
    let _ = prctl::set_timerslack(1);
}

/// A span of seconds in nanoseconds; what is out of range or no number becomes the nearest that is.
pub fn ns(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}

/// A span in nanoseconds as a [`Duration`]; negative ones are zero.
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
