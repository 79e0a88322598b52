//! Time that never jumps: the wall clock as it was at the start, carried on by the time since boot.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since boot, those included in which the host slept: a recording of days outlives that.
pub fn since_boot_ns() -> i64 {
    read(ClockId::Boottime)
}

/// Processor time that this thread has used.
pub fn thread_cpu_ns() -> i64 {
    read(ClockId::ThreadCPUTime)
}

/// Nanoseconds since the Unix epoch, which nobody sets while they are read.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch_minus_boot_ns: i64,
}

impl Clock {
    /// Takes the wall clock as it is now.
    pub fn anchored() -> Clock {
        Clock {
            epoch_minus_boot_ns: read(ClockId::Realtime) - since_boot_ns(),
        }
    }

    pub fn now_ns(&self) -> i64 {
        self.of_boot_ns(since_boot_ns())
    }

    pub fn of_boot_ns(&self, boot_ns: i64) -> i64 {
        boot_ns.saturating_add(self.epoch_minus_boot_ns)
    }
}

fn read(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec)
}
