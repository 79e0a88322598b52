//! Time that never jumps: the wall clock at the start, continued by the time since boot.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since boot, including sleep, which may occur in a recording of days.
pub fn since_boot_ns() -> i64 {
    read(ClockId::Boottime)
}

/// Processor time that this thread has used.
pub fn thread_cpu_ns() -> i64 {
    read(ClockId::ThreadCPUTime)
}

/// Nanoseconds since the Unix epoch, unaffected by changes of the system clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch_minus_boot_ns: i64,
}

impl Clock {
    /// Anchors the clock to the present wall-clock time.
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
