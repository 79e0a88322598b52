//! Causes that compete for the losses of a group of flows, before the reducer decides.

use whydrop_verdict::{Cause, Fact, Finding, Subject, reduce};

use crate::judge::Judgement;

/// Score of a cause without any evidence, nats.
const NOTHING_NATS: f64 = -1e4;

/// The findings for and against each cause.
#[derive(Debug, Default)]
pub struct Contest {
    findings: Vec<Finding>,
}

impl Contest {
    /// The cause explains the losses better than the background, by this many nats.
    pub fn support(&mut self, cause: Cause, nats: f64) {
        self.finding(cause).nats = nats.max(NOTHING_NATS);
    }

    /// Let new evidence outweigh all evidence against the cause.
    pub fn prove(&mut self, cause: Cause, nats: f64) {
        let finding = self.finding(cause);
        (finding.nats, finding.veto) = (nats, None);
    }

    /// Remove the evidence against the cause: it no longer applies.
    pub fn allow(&mut self, cause: Cause) {
        self.finding(cause).veto = None;
    }

    /// Rule the cause out.
    pub fn rule_out(&mut self, cause: Cause, why: Fact) {
        self.finding(cause).veto.get_or_insert(why);
    }

    /// The cause's log-likelihood against the background in nats, unless it is ruled out or has no evidence.
    pub fn standing(&self, cause: Cause) -> Option<f64> {
        let finding = self
            .findings
            .iter()
            .find(|finding| finding.cause == cause)?;
        finding.veto.is_none().then_some(finding.nats)
    }

    fn finding(&mut self, cause: Cause) -> &mut Finding {
        let known = self
            .findings
            .iter()
            .position(|finding| finding.cause == cause);
        let place = known.unwrap_or_else(|| {
            let nothing = Finding::new("contest", Subject::default(), None, cause);
            self.findings.push(Finding {
                nats: NOTHING_NATS,
                ..nothing
            });
            self.findings.len() - 1
        });
        &mut self.findings[place]
    }

    /// The most likely cause, and the reasons against the others.
    pub fn settle(self) -> Judgement {
        let Some(verdict) = reduce(self.findings).expect("finite evidence").pop() else {
            return Judgement::new(Cause::Unknown, 1.0);
        };
        let mut judgement = Judgement::new(verdict.cause, verdict.confidence);
        for other in verdict.against {
            match other.veto {
                Some(why) => judgement.against.push((other.cause, why)),
                None => judgement.behind.push((other.cause, other.behind_nats)),
            }
        }
        judgement
    }
}
