//! When a session's flows were last active.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::clock;

/// The time of the last data of any flow of a session; all clones share it.
#[derive(Clone, Debug)]
pub struct Activity(Arc<AtomicI64>);

impl Default for Activity {
    fn default() -> Activity {
        Activity(Arc::new(AtomicI64::new(clock::now_ns())))
    }
}

impl Activity {
    /// Registers data that arrived now.
    pub fn register(&self) {
        self.0.store(clock::now_ns(), Ordering::Relaxed);
    }

    /// The time since the last data, or since the session began.
    pub fn idle_ns(&self) -> i64 {
        clock::now_ns().saturating_sub(self.0.load(Ordering::Relaxed))
    }
}
