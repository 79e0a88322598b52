//! The mechanisms that may have dropped packets, one file each. [`HYPOTHESES`] lists them; [`weigh`] lets
//! them compete for the losses of one observation.
//!
//! On this scale random losses at one rate for all packets are at 0 nats. A hypothesis scores how much more
//! likely it makes the losses, less the cost of its search, relative to the background: the same
//! [`Patterns`] without a mechanism. So a pattern in the losses excludes random loss, whether or not a known
//! mechanism explains it.

pub mod aqm;
pub mod outage;
mod patterns;
pub mod policer;
pub mod queue;
mod random_loss;

use whydrop_verdict::{Cause, Fact, Finding, Subject, log_odds, reduce};

use crate::observe::{Laws, Observation};
pub use patterns::Patterns;

/// A mechanism: the causes that it may be named as, each with its likelihood and the reason that rules it
/// out, if one does.
pub type Hypothesis = fn(&Observation, &Patterns) -> Vec<Weight>;

/// All mechanisms. A new one is a file and a line here.
const HYPOTHESES: &[Hypothesis] = &[
    policer::weigh,
    queue::weigh,
    aqm::weigh,
    random_loss::weigh,
    outage::weigh,
];

/// Score of a cause without any evidence, nats.
const NOTHING_NATS: f64 = -1e4;

/// The account that a hypothesis gives of one cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Weight {
    pub cause: Cause,
    /// Log-likelihood of the losses against the background, nats.
    pub nats: f64,
    /// The reason that rules the cause out.
    pub veto: Option<Fact>,
}

impl Weight {
    pub fn new(cause: Cause, nats: f64) -> Self {
        Self {
            cause,
            nats: nats.max(NOTHING_NATS),
            veto: None,
        }
    }

    /// A cause that facts show with this confidence, 0 to 1.
    pub fn shown(cause: Cause, confidence: f64) -> Self {
        Self::new(cause, log_odds(confidence))
    }

    /// A cause without evidence that is ruled out.
    pub fn ruled_out(cause: Cause, why: Fact) -> Self {
        Self::new(cause, NOTHING_NATS).unless(Some(why))
    }

    /// The same, ruled out if there is a reason.
    pub fn unless(self, veto: Option<Fact>) -> Self {
        Self { veto, ..self }
    }
}

/// The cause that remains, with its confidence, 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub cause: Cause,
    pub confidence: f64,
    /// Causes that are ruled out, each with its reason, the strongest first.
    pub against: Vec<(Cause, Fact)>,
}

impl Outcome {
    pub fn new(cause: Cause, confidence: f64) -> Self {
        Self {
            cause,
            confidence,
            against: Vec::new(),
        }
    }

    /// True if the cause is ruled out.
    pub fn rules_out(&self, cause: Cause) -> bool {
        self.against.iter().any(|(other, _)| *other == cause)
    }

    /// The most likely cause, and the reasons against those that are ruled out.
    pub fn of(weights: Vec<Weight>) -> Self {
        let finding = |weight: Weight| Finding {
            nats: weight.nats,
            veto: weight.veto,
            ..Finding::new("losses", Subject::default(), None, weight.cause)
        };
        let findings = weights.into_iter().map(finding).collect();
        let Some(verdict) = reduce(findings).expect("finite evidence").pop() else {
            return Self::new(Cause::Unknown, 1.0);
        };
        let vetoed = verdict.against.into_iter();
        Self {
            cause: verdict.cause,
            confidence: verdict.confidence,
            against: vetoed
                .filter_map(|other| Some((other.cause, other.veto?)))
                .collect(),
        }
    }
}

/// Lets all mechanisms compete for the losses of an observation.
pub fn weigh(seen: &Observation) -> Outcome {
    if let Some(weight) = queue::superseded_acknowledgments(seen) {
        return Outcome::of(vec![weight]);
    }
    let patterns = Patterns::of(seen);
    let weights = HYPOTHESES.iter().flat_map(|weigh| weigh(seen, &patterns));
    Outcome::of(weights.collect())
}

/// Judges the losses of an observation. If that leaves queue management open, `laws` measures the laws that
/// drops may follow, which takes a while, and all mechanisms compete again.
pub fn judge(seen: &mut Observation, laws: impl FnOnce(&Observation) -> Option<Laws>) -> Outcome {
    let outcome = weigh(seen);
    if !aqm::is_open(seen, &outcome) {
        return outcome;
    }
    seen.laws = laws(seen);
    match &seen.laws {
        Some(_) => weigh(seen),
        None => outcome,
    }
}
