//! The clock of the emulator, and the arrival times that the kernel stamps.

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock.
#[inline]
pub fn now_ns() -> i64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// The monotonic clock minus the wall clock, in which the kernel stamps packets.
#[inline]
pub fn monotonic_minus_wall_ns() -> i64 {
    let before_ns = now_ns();
    let wall_ns = read(ClockId::CLOCK_REALTIME);
    (before_ns + now_ns()) / 2 - wall_ns
}

fn read(clock: ClockId) -> i64 {
    clock_gettime(clock)
        .expect("every Linux has both clocks")
        .num_nanoseconds()
}
