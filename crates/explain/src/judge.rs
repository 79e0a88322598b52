//! A judged cause with its confidence; the judges are [`crate::losses`] and [`crate::limited`].

use whydrop_verdict::{Cause, Fact};

pub use crate::limited::{Bottleneck, judge_lossless};
pub use crate::losses::judge_losses;

/// A cause and its confidence, 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    pub cause: Cause,
    pub confidence: f64,
    /// Causes that are ruled out, each with its reason.
    pub against: Vec<(Cause, Fact)>,
    /// Causes that only explain the evidence less well, by this many nats.
    pub behind: Vec<(Cause, f64)>,
}

impl Judgement {
    pub fn new(cause: Cause, confidence: f64) -> Self {
        Self {
            cause,
            confidence,
            against: Vec::new(),
            behind: Vec::new(),
        }
    }
}
