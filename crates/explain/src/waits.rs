//! Waiting times outside the account of a flow, since nothing was in flight: for a connection that started
//! late, or an answer that never came. They are part of the time nevertheless, so that its shares add up to
//! at most the whole.

use std::collections::HashMap;

use whydrop_tcp::Flow;

use crate::limits;
use crate::observe::group::FlowRef;
use crate::ranked::Ranked;

/// Waiting time of each flow, by name.
#[derive(Debug, Default)]
pub(crate) struct Waits(HashMap<String, f64>);

impl Waits {
    pub fn add(&mut self, flow: &Flow, waited_s: f64) {
        if waited_s > 0.0 && flow.carried_data() {
            *self.0.entry(flow.name()).or_default() += waited_s;
        }
    }

    /// Verdicts on data in flight limit a share of all the time, waiting times included.
    pub fn lengthen(&self, flows: &[FlowRef], verdicts: &mut [Ranked]) {
        if self.0.is_empty() {
            return;
        }
        let mut active_s: HashMap<String, f64> = HashMap::new();
        for flow in flows {
            *active_s.entry(flow.flow.name()).or_default() += active_time_s(flow.flow);
        }
        let sum = |times_s: &HashMap<String, f64>, names: &[String]| -> f64 {
            names.iter().filter_map(|name| times_s.get(name)).sum()
        };
        for ranked in verdicts {
            let names = &ranked.verdict.flows;
            let waited_s = sum(&self.0, names);
            ranked.verdict.limited_share *= 1.0 - share(waited_s, sum(&active_s, names));
        }
    }
}

/// The time that the account of a flow covers, seconds.
pub(crate) fn active_time_s(flow: &Flow) -> f64 {
    limits::times_of_flow_s(flow).iter().sum()
}

/// The share of waiting time in all the time, given that data was in flight for `active_s` besides.
pub(crate) fn share(waited_s: f64, active_s: f64) -> f64 {
    match waited_s + active_s > 0.0 {
        true => waited_s / (waited_s + active_s),
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use whydrop_tcp::{Account, Limiter, Span};
    use whydrop_verdict::Cause;

    use super::*;
    use crate::cause::Outcome;
    use crate::observe::totals::Totals;
    use crate::testing::{MS, delivered, flow, group};
    use crate::verdict::{Subject, verdict};

    /// In one of its two seconds the sender had nothing to send.
    fn half_idle() -> Flow {
        let until = [
            (1_000, Limiter::Application),
            (2_000, Limiter::LossRecovery),
        ];
        let spans = until.map(|(until_ms, limiter)| Span {
            from_ns: (until_ms - 1_000) * MS,
            until_ns: until_ms * MS,
            limiter,
        });
        let segments = vec![delivered(0, 10), delivered(2_000 * MS, 10)];
        Flow {
            account: Some(Box::new(Account {
                spans: spans.to_vec(),
                transfers: vec![(0, 2_000 * MS)],
                ..Account::default()
            })),
            ..flow(1, segments)
        }
    }

    #[test]
    fn additional_waiting_times_are_part_of_the_time() {
        let flows = [half_idle()];
        let group = group(&flows);
        let seen = crate::vantage::observe_group(&group);
        let outcome = Outcome::new(Cause::Sender, 0.9);
        let subject = Subject {
            flows: group.names(),
            mss_bytes: group.mss_bytes(),
            ..Subject::default()
        };
        let limited = Ranked::new(verdict(&outcome, &seen, subject), &Totals::default());
        let mut verdicts = [limited];
        let limited = |verdicts: &[Ranked; 1]| verdicts[0].verdict.limited_share;
        assert!((limited(&verdicts) - 0.5).abs() < 1e-9);
        Waits::default().lengthen(&group.flows, &mut verdicts);
        assert!((limited(&verdicts) - 0.5).abs() < 1e-9);
        let mut waits = Waits::default();
        waits.add(&flows[0], 2.0);
        waits.lengthen(&group.flows, &mut verdicts);
        assert!((limited(&verdicts) - 0.25).abs() < 1e-9);
        assert!((share(2.0, active_time_s(&flows[0])) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_flow_that_was_never_active_waited_all_of_the_time() {
        assert!((share(3.0, 0.0) - 1.0).abs() < 1e-9);
        assert!(share(0.0, 0.0).abs() < 1e-9);
    }
}
