//! Families of active queue management, identified by the law that drops and marks follow.

use std::collections::BTreeMap;

use whydrop_path::fit::managed::{Law, LawFit, Management, Seeing, fit_management};
use whydrop_path::fit::passage::Passages;
use whydrop_path::fit::{Interval, Seen};
use whydrop_tcp::SegmentFlags;
use whydrop_verdict::{Cause, Fact, Quantity, fact};

use crate::evidence::Evidence;
use crate::group::{Group, Origin};
use crate::judge::Judgement;
use crate::losses::contest;
use crate::thresholds::{FAMILY_NATS, LAW_NATS, SEARCH_NATS};

/// A family of active queue management, as far as it can be identified from outside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Family {
    /// The law that the drops and marks follow.
    pub law: Option<LawFit>,
    /// Flows overtake each other: each has its own queue.
    pub isolates: bool,
    /// The law is certainly COBALT's.
    cobalt: bool,
    /// Gain of the law in nats over chance, and the number of drops and marks.
    nats: f64,
    events: usize,
}

impl Family {
    pub fn of(management: Option<&Management>, isolates: bool) -> Option<Self> {
        let found_law =
            management.filter(|found| found.laws[0].nats > 0.0 && found.lead_nats() > FAMILY_NATS);
        // queues per flow run CoDel or PIE; RED is only the nearest approximation of another law there
        let found_law = found_law.filter(|found| !(isolates && found.laws[0].law == Law::Red));
        let family = Self {
            law: found_law.map(|found| found.laws[0]),
            isolates,
            cobalt: found_law.is_some_and(|found| found.cobalt_nats() > FAMILY_NATS),
            nats: found_law.map_or(0.0, |found| found.laws[0].nats),
            events: management.map_or(0, |found| found.events),
        };
        (isolates || family.law.is_some()).then_some(family)
    }

    pub fn name(&self) -> &'static str {
        let Some(fit) = self.law else {
            return "flow-queueing";
        };
        match (fit.law, self.isolates) {
            // only cake combines it with a queue for each flow
            (Law::Cobalt, true) if self.cobalt => "cake",
            (Law::CoDel | Law::Cobalt, false) => "codel",
            (Law::CoDel | Law::Cobalt, true) => "fq-codel",
            (Law::Pie, false) => "pie",
            (Law::Pie, true) => "fq-pie",
            (Law::DualPi2, _) => "dualpi2",
            (Law::Red, _) => "red",
        }
    }

    pub fn fact(&self) -> Option<Fact> {
        self.law
            .map(|_| fact!("law-followed", events = self.events, gain_nats = self.nats))
    }

    /// The parameters of the law.
    pub fn parameters(&self) -> BTreeMap<String, Quantity> {
        let Some(fit) = self.law else {
            return BTreeMap::new();
        };
        let target = match fit.law {
            Law::Red => "threshold_s",
            _ => "target_s",
        };
        let quantity = |interval: Interval| Quantity {
            value: interval.value,
            low: interval.low,
            high: interval.high,
        };
        let interval = fit
            .interval_s
            .map(|interval| ("interval_s".to_owned(), quantity(interval)));
        [(target.to_owned(), quantity(fit.target_s))]
            .into_iter()
            .chain(interval)
            .collect()
    }
}

/// Judge one capture's group, with round-trip times above the minimum as delays: the judge of losses,
/// corrected by the laws, and the family. A full queue competes with the laws: if it predicts the drops far
/// better than any law, no queue management caused them; if a law is better than it, and than everything
/// else, by as much, queue management did.
pub fn of_one_capture(
    group: &Group,
    evidence: &Evidence,
    judgement: Judgement,
) -> (Judgement, Option<Family>) {
    // laws space drops by less than a tick of the senders' clocks
    if evidence.by_clocks || !may_be_managed(evidence, &judgement) {
        return (judgement, None);
    }
    let Some(laws) = Laws::of(group, evidence) else {
        return (judgement, None);
    };
    let family = || Family::of(Some(&laws.best), laws.isolates);
    let by_drops = evidence.totals.lost > 0;
    if judgement.cause != Cause::Aqm {
        let proved = by_drops && laws.margin_nats > LAW_NATS && laws.is_replayable(evidence);
        return match proved {
            true => (
                proved_by_law(judgement),
                family().filter(|family| family.law.is_some()),
            ),
            false => (judgement, None),
        };
    }
    if by_drops && laws.best.laws[0].nats < laws.full_queue_nats - LAW_NATS {
        return (full_queue_instead(evidence, &laws), None);
    }
    // evidence for queue management already outweighs a full queue of about equal likelihood
    let as_likely = !by_drops || laws.margin_nats > -FAMILY_NATS;
    (judgement, family().filter(|_| as_likely))
}

/// True unless another cause is as good as proved: replaying the laws over every packet takes a while. Long
/// delays that rule queue management out are not overruled by a law.
fn may_be_managed(evidence: &Evidence, judgement: &Judgement) -> bool {
    let ruled_out = |(cause, _): &(Cause, Fact)| *cause == Cause::Aqm;
    match judgement.cause {
        _ if judgement.against.iter().any(ruled_out) => false,
        Cause::Aqm => true,
        Cause::Policer | Cause::Outage => false,
        Cause::Unknown => evidence.totals.lost > 0,
        _ => evidence.totals.lost > 0 && judgement.confidence < LAWFUL,
    }
}

/// The judgement if a law explains what the judge of losses could not.
fn proved_by_law(judgement: Judgement) -> Judgement {
    Judgement {
        cause: Cause::Aqm,
        confidence: LAWFUL,
        behind: Vec::new(),
        ..judgement
    }
}

/// The judge of losses again, for drops that are not due to queue management.
fn full_queue_instead(evidence: &Evidence, laws: &Laws) -> Judgement {
    let mut contest = contest(evidence);
    let law_nats = laws.best.laws[0].nats.max(0.0);
    let better = fact!(
        "full-queue-likelier",
        by_nats = laws.full_queue_nats - law_nats
    );
    contest.rule_out(Cause::Aqm, better);
    contest.settle()
}

/// Confidence from drops that follow a law, between two captures. Fitted on transfers of the training split.
pub const LAWFUL: f64 = 0.95;

/// The competing laws, and their rivals.
struct Laws {
    /// All flows in one queue, or each in its own, whichever fits better.
    best: Management,
    isolates: bool,
    /// Gain in nats of one full queue for all flows over chance.
    full_queue_nats: f64,
    /// Lead of the best law over full queues and buckets, nats.
    margin_nats: f64,
}

impl Laws {
    fn of(group: &Group, evidence: &Evidence) -> Option<Self> {
        let passages = passages(group, evidence);
        let mean_bps = passages.mean_bytes() * passages.passed as f64 * 8.0 / passages.duration_s();
        let seeing = |isolated| Seeing {
            // a queue releases at least the traffic that passed
            rate_bps: evidence
                .drain
                .map_or(mean_bps, |drain| drain.rate_bps.max(mean_bps)),
            noise_s: RTT_NOISE_S,
            isolated,
            by_acknowledgments: true,
        };
        let together = fit_management(&passages, seeing(false))?;
        let several = passages.flow.iter().any(|flow| *flow != passages.flow[0]);
        let apart = several
            .then(|| fit_management(&passages, seeing(true)))
            .flatten();
        let apart = apart.filter(|apart| apart.laws[0].nats > together.laws[0].nats + FAMILY_NATS);
        // if the delays do not show the rate of a queue, it is fitted to the losses, at any rate
        let bucket = evidence.bucket.as_ref();
        let share = (together.events as f64 / passages.lost.max(1) as f64).min(1.0);
        let bucket_nats = bucket.map_or(0.0, |bucket| share * bucket.gain() - SEARCH_NATS);
        let full_queue_nats = together.tail_drop_nats.max(bucket_nats);
        let isolates = apart.is_some();
        let best = apart.unwrap_or(together);
        Some(Self {
            margin_nats: best.margin_nats().min(best.laws[0].nats - full_queue_nats),
            full_queue_nats,
            isolates,
            best,
        })
    }

    /// True if the queue is known well enough. Laws of probability need its rate, which determines the delays
    /// of one queue. CoDel drops at times set by its own clock (RFC 8289, section 5.3): delays only need to
    /// be visible, as with a queue for each flow.
    fn is_replayable(&self, evidence: &Evidence) -> bool {
        let by_clock = matches!(self.best.laws[0].law, Law::CoDel | Law::Cobalt);
        evidence.queue_rate_is_seen() || (by_clock && evidence.drain.is_some())
    }
}

/// Acknowledgments arrive some packets late, seconds.
const RTT_NOISE_S: f64 = 0.5e-3;

/// The packets with their delays. Only the marks count that an acknowledgment first reports; marks on packets
/// sent before the sender can answer are never reported (RFC 3168, section 6.1.3).
fn passages(group: &Group, evidence: &Evidence) -> Passages {
    let group_trace = &evidence.group_trace;
    let trace = &group_trace.trace;
    let segment = |origin: &Origin| {
        let flow = group.flows[origin.member as usize].flow;
        &flow.segments[origin.segment as usize]
    };
    let is_marked = |origin: &Origin| segment(origin).flags.has(SegmentFlags::CE_ECHOED);
    let mut heard_from_ns = vec![i64::MIN; group.flows.len()];
    let mut outcome = |(origin, outcome): (&Origin, &Seen)| {
        let sent_ns = segment(origin).time_ns;
        let from_ns = &mut heard_from_ns[origin.member as usize];
        let hidden = sent_ns < *from_ns && *outcome == Seen::Passed;
        if is_marked(origin) {
            *from_ns = sent_ns + segment(origin).rtt_ns.max(0);
        }
        if hidden { Seen::Unknown } else { *outcome }
    };
    Passages {
        start_ns: trace.start_ns,
        arrival_s: trace.time_s.clone(),
        bytes: trace.bytes.clone(),
        outcome: group_trace
            .origins
            .iter()
            .zip(&trace.outcome)
            .map(&mut outcome)
            .collect(),
        wait_s: trace.delay_s.iter().copied().map(f64::from).collect(),
        flow: group_trace
            .origins
            .iter()
            .map(|origin| origin.member)
            .collect(),
        marked: group_trace.origins.iter().map(is_marked).collect(),
        shortest_transit_s: 0.0,
        lost: trace.lost,
        passed: trace.passed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One law with a large lead.
    fn leading(law: Law) -> Management {
        let at = |value: f64| Interval {
            value,
            low: None,
            high: None,
        };
        let fit = |law: Law, nats: f64| LawFit {
            law,
            nats,
            target_s: at(5e-3),
            interval_s: None,
        };
        let rival = match law {
            Law::Pie => Law::Red,
            _ => Law::Pie,
        };
        Management {
            events: 100,
            laws: vec![fit(law, 100.0), fit(rival, 10.0)],
            tail_drop_nats: 0.0,
        }
    }

    #[test]
    fn red_is_not_named_where_flows_have_queues_of_their_own() {
        let name =
            |law: Law, isolates: bool| Family::of(Some(&leading(law)), isolates).unwrap().name();
        assert_eq!(name(Law::Red, false), "red");
        assert_eq!(name(Law::Red, true), "flow-queueing");
        assert_eq!(name(Law::CoDel, true), "fq-codel");
        assert_eq!(name(Law::Pie, true), "fq-pie");
        assert_eq!(name(Law::Cobalt, false), "codel");
    }
}
