//! Losses that depend on neither load, delay nor time, but on the packet before: they come in runs, as on a
//! radio link that fades. A kind of random loss.

use whydrop_verdict::{Cause, fact};

use super::random_loss::RandomLoss;
use super::{Description, Hypothesis, Patterns, Weight};
use crate::observe::{Observation, Runs};
use crate::thresholds::{LONGER_RUNS, RUNS_NATS};

pub struct BurstyLoss;

impl Hypothesis for BurstyLoss {
    fn causes(&self) -> &'static [Cause] {
        RandomLoss.causes()
    }

    fn kind(&self) -> Option<&'static str> {
        Some("bursty")
    }

    /// As likely as random loss in general: runs say nothing about a dependence on load.
    fn weigh(&self, seen: &Observation, patterns: &Patterns) -> Vec<Weight> {
        if !come_in_runs(seen) {
            return Vec::new();
        }
        let weights = RandomLoss.weigh(seen, patterns).into_iter();
        let bursty = |weight| Weight {
            kind: self.kind(),
            ..weight
        };
        weights.map(bursty).collect()
    }

    fn describe(&self, cause: Cause, seen: &Observation) -> Description {
        let mut said = RandomLoss.describe(cause, seen);
        let runs = Runs::of(&seen.group_trace.trace);
        let in_runs = runs.mean_packets().map(|mean| {
            said.parameters
                .insert("mean_burst_packets".to_owned(), mean);
            fact!(
                "lost-in-runs",
                mean_run = mean.value,
                by_chance = runs.mean_by_chance_packets()
            )
        });
        said.facts.splice(0..0, in_runs);
        Description {
            detail: self.kind(),
            ..said
        }
    }
}

/// True if independent losses would hardly form these runs. In one capture without selective acknowledgments
/// the packets between the first and the last loss are uncertain, and so are the runs.
fn come_in_runs(seen: &Observation) -> bool {
    let runs = Runs::of(&seen.group_trace.trace);
    let longer = |mean: f64| mean > LONGER_RUNS * runs.mean_by_chance_packets();
    let certain = seen.exact.is_some() || seen.totals.lost_low == seen.totals.lost_high;
    certain && runs.nats() > RUNS_NATS && runs.mean_packets().is_some_and(|mean| longer(mean.value))
}
