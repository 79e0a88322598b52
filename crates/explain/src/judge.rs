//! A cause that was judged, and how sure; the judges are [`crate::losses`] and [`crate::held`].

use whydrop_verdict::{Cause, Fact};

pub use crate::held::{Bottleneck, judge_lossless};
pub use crate::losses::judge_losses;

/// A cause and how sure it is, 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    pub cause: Cause,
    pub confidence: f64,
    /// Causes that are ruled out, each with the reason.
    pub against: Vec<(Cause, Fact)>,
    /// Causes that only account less well for the evidence, by so many nats.
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
