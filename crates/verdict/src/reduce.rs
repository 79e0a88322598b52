//! From findings to verdicts.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::cause::Cause;
use crate::finding::{Fact, Finding, Place, Quantity, Subject, Value};

/// The result of all findings on one subject at one place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    pub subject: Subject,
    pub place: Option<Place>,
    pub cause: Cause,
    pub detail: Option<String>,
    /// Posterior probability of the cause.
    pub confidence: f64,
    /// Posterior probabilities of all causes that are not ruled out, including the background.
    pub posterior: BTreeMap<Cause, f64>,
    pub lost: u64,
    pub explained: f64,
    pub limited_share: f64,
    pub quantities: BTreeMap<String, Quantity>,
    pub facts: Vec<Fact>,
    pub against: Vec<Against>,
    pub sources: Vec<String>,
}

/// A cause that lost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Against {
    pub cause: Cause,
    /// The reason that rules it out; `None` where it only explains the evidence less well.
    pub veto: Option<Fact>,
    /// Its log-likelihood against the background in nats, and its distance from the winner.
    pub nats: f64,
    pub behind_nats: f64,
}

/// An invalid finding, from a faulty or hostile producer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReduceError {
    /// A number that is not finite or out of range, and its place.
    Number(String),
    /// The background remains when all causes are ruled out, so no finding may rule it out.
    VetoedBackground,
}

impl fmt::Display for ReduceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(name) => write!(
                f,
                "a finding's {name} is not a finite number within its range"
            ),
            Self::VetoedBackground => {
                f.write_str("a finding vetoes `unknown`, which no finding may rule out: it remains when all causes are ruled out")
            }
        }
    }
}

impl std::error::Error for ReduceError {}

/// A limit far above any real evidence (10^12 nats), so that sums stay finite.
const MOST_NATS: f64 = 1e12;

/// The largest confidence, certainty for a reader; log-odds stay finite.
const SUREST: f64 = 1.0 - 1e-9;

/// The log-odds of a confidence in nats: [`reduce`] turns them into the same confidence.
pub fn log_odds(confidence: f64) -> f64 {
    let confidence = confidence.clamp(1.0 - SUREST, SUREST);
    (confidence / (1.0 - confidence)).ln()
}

/// Lets the causes of each subject and place compete.
///
/// Findings of one cause add up, and one veto rules it out. `unknown` is the background: 0 nats, plus those
/// of findings for it. In a tie the named cause wins. Packets missing from the record compete with the
/// background only.
///
/// The verdicts are sorted by the losses that they explain, then by the time that they limit. Neither the
/// verdicts nor their order depend on the order of the findings.
///
/// # Errors
///
/// Numbers that are not finite or out of range; a vetoed background.
pub fn reduce(findings: Vec<Finding>) -> Result<Vec<Verdict>, ReduceError> {
    let mut competitions: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
    for finding in findings {
        check(&finding)?;
        let record = finding.cause.is_of_the_record();
        let key = format!("{:?} {:?} {record}", finding.subject, finding.place);
        competitions.entry(key).or_default().push(finding);
    }
    let mut verdicts: Vec<Verdict> = competitions.into_values().map(compete).collect();
    let explained = |verdict: &Verdict| verdict.explained * verdict.lost as f64;
    verdicts.sort_by(|a, b| {
        explained(b)
            .total_cmp(&explained(a))
            .then(b.limited_share.total_cmp(&a.limited_share))
    });
    Ok(verdicts)
}

/// All findings for one cause.
struct Case {
    cause: Cause,
    nats: f64,
    veto: Option<Fact>,
    /// Sorted by strength, the strongest first.
    findings: Vec<Finding>,
}

impl Case {
    fn new(cause: Cause, findings: Vec<Finding>) -> Self {
        Self {
            cause,
            nats: cause.prior_nats() + findings.iter().map(|finding| finding.nats).sum::<f64>(),
            veto: findings.iter().find_map(|finding| finding.veto.clone()),
            findings,
        }
    }
}

fn compete(mut findings: Vec<Finding>) -> Verdict {
    let strength =
        |a: &Finding, b: &Finding| b.nats.total_cmp(&a.nats).then(a.source.cmp(&b.source));
    // only equals are compared by their whole text: it is slow
    findings.sort_by(|a, b| strength(a, b).then_with(|| format!("{a:?}").cmp(&format!("{b:?}"))));
    let (subject, place) = (findings[0].subject.clone(), findings[0].place.clone());
    let lost = findings.iter().map(|finding| finding.lost).max();
    let mut by_cause: BTreeMap<Cause, Vec<Finding>> = BTreeMap::new();
    by_cause.entry(Cause::Unknown).or_default();
    for finding in findings {
        by_cause.entry(finding.cause).or_default().push(finding);
    }
    let cases: Vec<Case> = by_cause
        .into_iter()
        .map(|(cause, findings)| Case::new(cause, findings))
        .collect();
    let posterior = posterior(&cases);
    // max_by takes the last of equals; `unknown` is the last cause, so in reverse order a named one wins a
    // tie
    let standing = |case: &Case| posterior.get(&case.cause).copied().unwrap_or(-1.0);
    let place_of_winner = (0..cases.len())
        .rev()
        .max_by(|a, b| standing(&cases[*a]).total_cmp(&standing(&cases[*b])))
        .unwrap_or(0);
    let (mut winner, mut others) = (None, Vec::new());
    for (index, case) in cases.into_iter().enumerate() {
        if index == place_of_winner {
            winner = Some(case);
        } else if case.cause != Cause::Unknown {
            others.push(case);
        }
    }
    let winner = winner.unwrap_or_else(|| Case::new(Cause::Unknown, Vec::new()));
    let mut against: Vec<Against> = others
        .into_iter()
        .map(|case| Against {
            cause: case.cause,
            veto: case.veto,
            nats: case.nats,
            behind_nats: winner.nats - case.nats,
        })
        .collect();
    against.sort_by(|a, b| b.nats.total_cmp(&a.nats));
    Verdict {
        confidence: posterior.get(&winner.cause).copied().unwrap_or(1.0),
        posterior,
        against,
        lost: lost.unwrap_or(0),
        ..verdict_of(winner, subject, place)
    }
}

/// Softmax over the causes that are not ruled out.
fn posterior(cases: &[Case]) -> BTreeMap<Cause, f64> {
    let standing = || cases.iter().filter(|case| case.veto.is_none());
    let most = standing().map(|case| case.nats).fold(0.0, f64::max);
    let sum: f64 = standing().map(|case| (case.nats - most).exp()).sum();
    standing()
        .map(|case| (case.cause, (case.nats - most).exp() / sum))
        .collect()
}

/// The winner: its strongest finding, completed with values that only its other findings have.
fn verdict_of(winner: Case, subject: Subject, place: Option<Place>) -> Verdict {
    let mut verdict = Verdict {
        subject,
        place,
        cause: winner.cause,
        detail: None,
        confidence: 1.0,
        posterior: BTreeMap::new(),
        lost: 0,
        explained: 0.0,
        limited_share: 0.0,
        quantities: BTreeMap::new(),
        facts: Vec::new(),
        against: Vec::new(),
        sources: Vec::new(),
    };
    if let Some(strongest) = winner.findings.first() {
        (verdict.explained, verdict.limited_share) = (strongest.explained, strongest.limited_share);
    }
    for finding in winner.findings {
        verdict.detail = verdict.detail.or(finding.detail);
        for (name, quantity) in finding.quantities {
            verdict.quantities.entry(name).or_insert(quantity);
        }
        for fact in finding.facts {
            if !verdict.facts.contains(&fact) {
                verdict.facts.push(fact);
            }
        }
        if !verdict
            .sources
            .iter()
            .any(|source| *source == finding.source)
        {
            verdict.sources.push(finding.source.into_owned());
        }
    }
    verdict
}

fn check(finding: &Finding) -> Result<(), ReduceError> {
    let within = |name: &str, number: f64, low: f64, high: f64| {
        // NaN is within no range
        match number.partial_cmp(&low).zip(number.partial_cmp(&high)) {
            Some((Ordering::Greater | Ordering::Equal, Ordering::Less | Ordering::Equal)) => Ok(()),
            _ => Err(ReduceError::Number(name.to_owned())),
        }
    };
    let finite =
        |name: &str, number: Option<f64>| within(name, number.unwrap_or(0.0), f64::MIN, f64::MAX);
    within("nats", finding.nats, -MOST_NATS, MOST_NATS)?;
    within("explained", finding.explained, 0.0, 1.0)?;
    within("limited_share", finding.limited_share, 0.0, 1.0)?;
    finite("start_s", finding.subject.start_s)?;
    finite("end_s", finding.subject.end_s)?;
    for (name, quantity) in &finding.quantities {
        for number in [Some(quantity.value), quantity.low, quantity.high] {
            finite(name, number)?;
        }
    }
    for fact in finding.facts.iter().chain(&finding.veto) {
        for (name, value) in &fact.values {
            if !is_finite(value) {
                return Err(ReduceError::Number(format!("{} of {}", name, fact.code)));
            }
        }
    }
    match finding.cause {
        Cause::Unknown if finding.veto.is_some() => Err(ReduceError::VetoedBackground),
        _ => Ok(()),
    }
}

fn is_finite(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_finite(),
        Value::List(values) => values.iter().all(is_finite),
        _ => true,
    }
}

#[cfg(test)]
#[path = "reduce_tests.rs"]
mod tests;
