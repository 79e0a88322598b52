//! Progress reports to a Python callable, and Ctrl-C from Python.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// The shortest interval between calls of Python: taking the interpreter lock costs far more than reading a
/// packet.
const EVERY: Duration = Duration::from_millis(50);

/// Passes `(bytes done, bytes total)` on and keeps an exception that Python raised meanwhile (a signal, or
/// the callable's own error).
#[derive(Clone)]
pub struct Watch {
    callable: Option<Arc<Py<PyAny>>>,
    raised: Arc<Mutex<Option<PyErr>>>,
    last: Option<Instant>,
}

impl Watch {
    pub fn new(callable: Option<Py<PyAny>>) -> Self {
        Self {
            callable: callable.map(Arc::new),
            raised: Arc::new(Mutex::new(None)),
            last: None,
        }
    }

    /// Report progress; `false` asks the analysis to stop.
    pub fn report(&mut self, done: u64, total: u64) -> bool {
        if self.last.is_some_and(|last| last.elapsed() < EVERY) {
            return true;
        }
        self.last = Some(Instant::now());
        let outcome = Python::attach(|py| {
            py.check_signals()?;
            match &self.callable {
                Some(callable) => callable.call1(py, (done, total)).map(|_| ()),
                None => Ok(()),
            }
        });
        match outcome {
            Ok(()) => true,
            Err(error) => {
                *self
                    .raised
                    .lock()
                    .unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(error);
                false
            }
        }
    }

    /// The exception that Python raised during the analysis; a second call returns `None`.
    pub fn raised(&self) -> Option<PyErr> {
        self.raised
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .take()
    }
}
