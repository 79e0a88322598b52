//! Acting on time: real-time scheduling for a thread, and waits that can be interrupted.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::clock;

const THIS_THREAD: Pid = Pid::from_raw(0);

/// How long a waiting thread may continue after a request to stop.
const SLICE_NS: i64 = 50_000_000;

/// A low real-time priority (of 1 to 99): above every ordinary thread, below those of the kernel.
const REAL_TIME_PRIORITY: i32 = 5;

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    /// The name of the policy, as in sched(7).
    pub words: &'static str,
    /// Busy ordinary threads do not delay it.
    pub wakes_at_once: bool,
}

/// Makes this thread wake as precisely as it may, and returns the scheduling that was granted.
///
/// Use it only for threads that sleep most of the time: a busy one would starve the processor's other threads.
pub(crate) fn prioritise() -> Granted {
    clock::sharpen_timers();
    let parameters = libc::sched_param {
        sched_priority: REAL_TIME_PRIORITY,
    };
    // SAFETY: 0 is the calling thread; `parameters` outlives the call.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) } == 0 {
        return Granted {
            words: "SCHED_FIFO",
            wakes_at_once: true,
        };
    }
    const MOST_FAVOURED: i32 = -20;
    // SAFETY: takes no pointers; on Linux, 0 means the calling thread.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, MOST_FAVOURED) } == 0 {
        return Granted {
            words: "nice -20",
            wakes_at_once: true,
        };
    }
    ask_for_short_slices();
    Granted {
        words: "SCHED_OTHER (for less timer error, allow real-time priority: CAP_SYS_NICE or RLIMIT_RTPRIO)",
        wakes_at_once: false,
    }
}

/// Returns up to `count` of the processors that this thread may run on, or none if it may run on one only. Another
/// value of `first` selects others if there are enough.
pub(crate) fn some_processors(first: usize, count: usize) -> Vec<usize> {
    let allowed: Vec<usize> = sched_getaffinity(THIS_THREAD).map_or_else(
        |_| Vec::new(),
        |set| {
            (0..CpuSet::count())
                .filter(|&number| set.is_set(number).unwrap_or(false))
                .collect()
        },
    );
    if allowed.len() < 2 {
        return Vec::new();
    }
    let count = count.min(allowed.len());
    (0..count)
        .map(|place| allowed[(first.wrapping_mul(count) + place) % allowed.len()])
        .collect()
}

/// Pins this thread to one processor, if the kernel permits it.
pub(crate) fn stay_on(processor: usize) {
    let mut set = CpuSet::new();
    if set.set(processor).is_ok() {
        let _ = sched_setaffinity(THIS_THREAD, &set);
    }
}

/// `struct sched_attr` (sched_setattr(2)), first version.
#[repr(C)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Requests short time slices, which are scheduled earlier and need no privilege: the scheduler (EEVDF) runs the
/// eligible thread with the earliest deadline, and a short slice has an early one. Linux supports this from 6.12 on.
pub(crate) fn ask_for_short_slices() {
    /// The shortest slice that Linux grants.
    const SLICE_NS: u64 = 100_000;
    let attributes = SchedulingAttributes {
        size: size_of::<SchedulingAttributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: 0,
        // SAFETY: takes no pointers.
        nice: unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) },
        priority: 0,
        runtime_ns: SLICE_NS,
        deadline_ns: 0,
        period_ns: 0,
    };
    // SAFETY: `attributes` outlives the call and contains its size. If the kernel refuses, nothing changes.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// Sleeps until [`clock::now_ns`] reaches `until_ns`; returns false if `goes_on` returned false before.
pub(crate) fn wait(until_ns: i64, goes_on: &dyn Fn() -> bool) -> bool {
    loop {
        if !goes_on() {
            return false;
        }
        let now_ns = clock::now_ns();
        if now_ns >= until_ns {
            return true;
        }
        clock::sleep_until_ns(until_ns.min(now_ns.saturating_add(SLICE_NS)));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn waiting_ends_when_it_is_time_or_when_it_is_no_longer_wanted() {
        let until_ns = clock::now_ns() + 3_000_000;
        assert!(wait(until_ns, &|| true));
        assert!(clock::now_ns() >= until_ns);
        let asked = Cell::new(0);
        assert!(!wait(i64::MAX, &|| {
            asked.set(asked.get() + 1);
            asked.get() < 3
        }));
    }

    #[test]
    fn a_prioritised_thread_says_how_it_is_scheduled() {
        let words = std::thread::spawn(prioritise).join().unwrap().words;
        assert!(words.starts_with("SCHED_") || words.starts_with("nice"));
    }
}
