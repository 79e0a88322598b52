//! Time that never jumps: the wall clock as it was at the start of the process, carried on by the monotonic clock.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Nanoseconds of `CLOCK_MONOTONIC`: the same clock as Python's `time.monotonic_ns`.
pub fn monotonic_ns() -> i64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since the Unix epoch that never jump when somebody sets the clock: every time in a recording.
pub fn now_ns() -> i64 {
    monotonic_ns() + epoch_minus_monotonic_ns()
}

/// 0 until the clock is first read.
static OFFSET_NS: AtomicI64 = AtomicI64::new(0);

/// What [`now_ns`] adds to the monotonic clock; constant from one [`anchor`] to the next.
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
    let offset_ns = read(libc::CLOCK_REALTIME) - monotonic_ns();
    OFFSET_NS.store(offset_ns, Ordering::Relaxed);
    offset_ns
}

/// The time in [`now_ns`]'s clock of an event that the kernel stamped with `CLOCK_REALTIME`.
///
/// The stamp's age is taken, not its value. Where the age makes no sense, because the clock was set between the event
/// and now, the event is taken to be now.
pub fn of_kernel_stamp_ns(stamp_ns: i64) -> i64 {
    const OLDEST_NS: i64 = 10_000_000_000;
    let age_ns = read(libc::CLOCK_REALTIME) - stamp_ns;
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
    let time = libc::timespec {
        tv_sec: target_ns.div_euclid(1_000_000_000),
        tv_nsec: target_ns.rem_euclid(1_000_000_000),
    };
    loop {
        // SAFETY: `time` outlives the call; the remaining time is not asked for with TIMER_ABSTIME.
        let status = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &time,
                std::ptr::null_mut(),
            )
        };
        if status != libc::EINTR {
            return;
        }
    }
}

/// Lets this thread's timers fire as exactly as the kernel can (the default slack is 50 us, prctl(2)).
pub fn sharpen_timers() {
    // SAFETY: takes no pointers; a kernel that refuses leaves the slack as it was.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
}

/// A span of seconds in nanoseconds; what is out of range or no number becomes the nearest that is.
pub fn ns(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}

/// A span in nanoseconds as a [`Duration`]; negative ones are zero.
pub fn duration(span_ns: i64) -> Duration {
    Duration::from_nanos(span_ns.max(0) as u64)
}

fn read(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the result; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
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
        let realtime_ns = read(libc::CLOCK_REALTIME);
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
