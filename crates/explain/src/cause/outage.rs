//! An outage: nothing passes for a while, then packets pass again.

use whydrop_tcp::Limiter;
use whydrop_verdict::{Cause, Fact, fact};

use super::{Description, Hypothesis, Patterns, Weight};
use crate::observe::{Exact, Observation, share_in_silence};

pub struct Outage;

impl Hypothesis for Outage {
    fn causes(&self) -> &'static [Cause] {
        &[Cause::Outage]
    }

    fn weigh(&self, seen: &Observation, patterns: &Patterns) -> Vec<Weight> {
        // one silence explains the losses only if most of them fall into it
        if patterns.outage <= 0.0 || share_in_silence(seen) <= 0.5 {
            return Vec::new();
        }
        let exact = seen.exact.as_ref();
        let veto = exact.and_then(|exact| departures_in_silence(seen, exact));
        vec![Weight::new(Cause::Outage, patterns.outage - patterns.background()).unless(veto)]
    }

    fn describe(&self, _cause: Cause, seen: &Observation) -> Description {
        // losses too few for a pattern keep the time that the account attributes to them
        let of_account_s = seen.totals.limited_s[Limiter::Outage as usize];
        let silence = seen.pattern.map(|pattern| pattern.silence);
        let silence_s = silence.map_or(of_account_s, |silence| silence.until_s - silence.from_s);
        Description {
            explained: share_in_silence(seen),
            limited_share: seen.busy_share(),
            ..Description::new(fact!("lost-in-silence", silence_s = silence_s))
        }
    }
}

/// An outage lets nothing out. If packets left for most of the time in which all arrivals were lost, a queue
/// was full. Returns the last of them after the first loss, and the length of that time.
fn departures_in_silence(seen: &Observation, exact: &Exact) -> Option<Fact> {
    let silence = seen.pattern.as_ref()?.silence;
    let passages = &exact.passages;
    let departures = (0..passages.len()).map(|index| passages.departure_s(index));
    let within = departures.filter(|out_s| (silence.from_s..silence.until_s).contains(out_s));
    let (out_s, silence_s) = (
        within.fold(0.0, f64::max) - silence.from_s,
        silence.until_s - silence.from_s,
    );
    (out_s > 0.5 * silence_s)
        .then(|| fact!("departed-in-silence", out_s = out_s, silence_s = silence_s))
}
