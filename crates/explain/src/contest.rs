//! Causes that compete for the losses of a group of flows, until the reducer decides.

use whydrop_verdict::{Cause, Fact, Finding, Subject, reduce};

use crate::judge::Judgement;

/// Of a cause for which nothing speaks, nats.
const NOTHING_NATS: f64 = -1e4;

/// The findings for and against each cause.
#[derive(Debug, Default)]
pub struct Contest {
    findings: Vec<Finding>,
}

impl Contest {
    /// The cause accounts for the losses better than the background, by so many nats.
    pub fn support(&mut self, cause: Cause, nats: f64) {
        self.finding(cause).nats = nats.max(NOTHING_NATS);
    }

    /// Let what is now known outweigh what spoke against the cause.
    pub fn prove(&mut self, cause: Cause, nats: f64) {
        let finding = self.finding(cause);
        (finding.nats, finding.veto) = (nats, None);
    }

    /// Take back what spoke against the cause: it is no longer true.
    pub fn allow(&mut self, cause: Cause) {
        self.finding(cause).veto = None;
    }

    /// It cannot be that cause.
    pub fn rule_out(&mut self, cause: Cause, why: Fact) {
        self.finding(cause).veto.get_or_insert(why);
    }

    /// The cause's log-likelihood against the background, nats, unless it is ruled out or nothing speaks for it.
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

    /// The most likely cause, and what became of the others.
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
