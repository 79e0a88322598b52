//! Errors of two captures that cannot be paired, as one line for users.

use std::fmt;

/// The reason for no pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairError {
    /// The progress function asked to stop.
    Stopped,
    /// No packet is in both captures. The message says what each contains and what to check.
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
