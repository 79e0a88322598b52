//! Errors of two captures that cannot be paired: one line for the person who must act.

use std::fmt;

/// Two captures that give no pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairError {
    /// The progress function asked to stop.
    Stopped,
    /// Not one packet is in both captures. The message says what each holds and what to check.
    NothingInCommon { message: String },
}

impl fmt::Display for PairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PairError::Stopped => f.write_str("stopped before both captures were read"),
            PairError::NothingInCommon { message } => f.write_str(message),
        }
    }
}

impl std::error::Error for PairError {}
