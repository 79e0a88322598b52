//! A request to stop early, shared by all threads of a test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock;

/// How long a thread may continue after the request.
const SLICE_NS: i64 = 50_000_000;

/// Set once; all clones see it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps until [`clock::now_ns`] reaches `until_ns` or a stop is requested; returns true if it slept to the end.
    pub fn sleep_until_ns(&self, until_ns: i64) -> bool {
        loop {
            if self.is_set() {
                return false;
            }
            let now_ns = clock::now_ns();
            if now_ns >= until_ns {
                return true;
            }
            clock::sleep_until_ns(until_ns.min(now_ns + SLICE_NS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_wakes_when_another_thread_asks_it_to_stop() {
        let stop = Stop::default();
        let sleeper = stop.clone();
        let thread =
            std::thread::spawn(move || sleeper.sleep_until_ns(clock::now_ns() + 60_000_000_000));
        stop.set();
        assert!(!thread.join().unwrap());
        assert!(!stop.sleep_until_ns(0));
        assert!(Stop::default().sleep_until_ns(0));
    }
}
