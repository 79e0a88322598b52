//! A hypothesis: how likely a cause makes what was observed, and the facts stated if it remains.

use std::collections::BTreeMap;

use whydrop_verdict::{Cause, Fact, Finding, Quantity, Subject, log_odds, reduce};

use super::patterns::Patterns;
use crate::observe::{ByteBasis, Observation};

/// A cause, or several that one mechanism may be named as.
pub trait Hypothesis: Sync {
    fn causes(&self) -> &'static [Cause];

    /// The kind of its cause, if another hypothesis stands for the cause in general.
    fn kind(&self) -> Option<&'static str> {
        None
    }

    /// Its accounts of the losses. None if it drops no packets: then it competes for the time of transfers.
    fn weigh(&self, _seen: &Observation, _patterns: &Patterns) -> Vec<Weight> {
        Vec::new()
    }

    /// The facts and quantities stated of one of its causes.
    fn describe(&self, cause: Cause, seen: &Observation) -> Description;
}

/// Facts in codes and numbers, and quantities, stated of a cause.
#[derive(Debug, Clone)]
pub struct Description {
    /// The effect of the cause, in numbers that are not among its parameters.
    pub headline: Fact,
    /// Facts counted between two captures, or fitted besides.
    pub counted: Vec<Fact>,
    /// Facts that support the cause.
    pub facts: Vec<Fact>,
    /// Facts that contradict other causes if it is this one.
    pub against: Vec<(Cause, Fact)>,
    /// Parameters by their names in the JSON contract.
    pub parameters: Parameters,
    /// The bytes that an element counts for each packet, if the fit distinguishes them.
    pub byte_basis: Option<ByteBasis>,
    /// Share of the losses that the cause explains, 0 to 1.
    pub explained: f64,
    /// Share of the flows' active time that it limits, 0 to 1.
    pub limited_share: f64,
    /// The kind of the cause.
    pub detail: Option<&'static str>,
}

/// Quantities by name.
pub type Parameters = BTreeMap<String, Quantity>;

impl Description {
    /// A headline alone: everything else is empty.
    pub fn new(headline: Fact) -> Self {
        Self {
            headline,
            counted: Vec::new(),
            facts: Vec::new(),
            against: Vec::new(),
            parameters: Parameters::new(),
            byte_basis: None,
            explained: 0.0,
            limited_share: 0.0,
            detail: None,
        }
    }
}

/// Score of a cause without any evidence, nats.
const NOTHING_NATS: f64 = -1e4;

/// The account that a hypothesis gives of one cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Weight {
    pub cause: Cause,
    /// See [`Hypothesis::kind`].
    pub kind: Option<&'static str>,
    /// Log-likelihood of the losses against the background, nats.
    pub nats: f64,
    /// The reason that rules the cause out.
    pub veto: Option<Fact>,
}

impl Weight {
    pub fn new(cause: Cause, nats: f64) -> Self {
        Self {
            cause,
            kind: None,
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
    /// See [`Hypothesis::kind`].
    pub kind: Option<&'static str>,
    pub confidence: f64,
    /// Causes that are ruled out, each with its reason, the strongest first.
    pub against: Vec<(Cause, Fact)>,
}

impl Outcome {
    pub fn new(cause: Cause, confidence: f64) -> Self {
        Self {
            cause,
            kind: None,
            confidence,
            against: Vec::new(),
        }
    }

    /// True if the cause is ruled out.
    pub fn rules_out(&self, cause: Cause) -> bool {
        self.against.iter().any(|(other, _)| *other == cause)
    }

    /// The most likely cause, and the reasons against those that are ruled out.
    pub fn of(mut weights: Vec<Weight>) -> Self {
        let kinds = kinds(&weights);
        let kind_of = |cause: &Cause| kinds.get(cause).copied();
        weights.retain(|weight| weight.kind == kind_of(&weight.cause));
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
            kind: kind_of(&verdict.cause),
            confidence: verdict.confidence,
            against: vetoed
                .filter_map(|other| Some((other.cause, other.veto?)))
                .collect(),
        }
    }
}

/// The kinds that are as likely as their causes in general, and not ruled out.
fn kinds(weights: &[Weight]) -> BTreeMap<Cause, &'static str> {
    let mut most = BTreeMap::<Cause, (f64, Option<&'static str>)>::new();
    for weight in weights.iter().filter(|weight| weight.veto.is_none()) {
        let best = most.entry(weight.cause).or_insert((f64::MIN, None));
        // `None` is less than any kind
        if (weight.nats, weight.kind) >= *best {
            *best = (weight.nats, weight.kind);
        }
    }
    most.into_iter()
        .filter_map(|(cause, (_, kind))| Some((cause, kind?)))
        .collect()
}
