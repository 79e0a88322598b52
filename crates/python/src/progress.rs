//! Progress to a Python callable, and Ctrl-C from Python.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// Python is asked this often at most: taking the interpreter lock costs far more than reading a packet.
const EVERY: Duration = Duration::from_millis(50);

/// Passes on `(bytes done, bytes total)` and notes what Python raised meanwhile (a signal, or the callable's own error).
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

    /// `false` asks the analysis to stop.
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

    /// The exception that Python raised during the analysis, once.
    pub fn raised(&self) -> Option<PyErr> {
        self.raised
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .take()
    }
}
