//! Families of queue management, told by the law that drops and marks follow.

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

/// A family of active queue management, as far as it can be told from outside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Family {
    /// The law that the drops and marks follow.
    pub law: Option<LawFit>,
    /// Flows overtake each other: each has a queue of its own.
    pub isolates: bool,
    /// The law is COBALT's for certain.
    cobalt: bool,
    /// How much likelier the law makes them than chance does, nats, and how many they are.
    nats: f64,
    events: usize,
}

impl Family {
    pub fn of(management: Option<&Management>, isolates: bool) -> Option<Self> {
        let told =
            management.filter(|found| found.laws[0].nats > 0.0 && found.lead_nats() > FAMILY_NATS);
        // what gives flows queues of their own runs CoDel or PIE in them: RED there is but the nearest to another law
        let told = told.filter(|found| !(isolates && found.laws[0].law == Law::Red));
        let family = Self {
            law: told.map(|found| found.laws[0]),
            isolates,
            cobalt: told.is_some_and(|found| found.cobalt_nats() > FAMILY_NATS),
            nats: told.map_or(0.0, |found| found.laws[0].nats),
            events: management.map_or(0, |found| found.events),
        };
        (isolates || family.law.is_some()).then_some(family)
    }

    pub fn name(&self) -> &'static str {
        let Some(fit) = self.law else {
            return "flow-queueing";
        };
        match (fit.law, self.isolates) {
            // cake alone has it, and a queue for each flow
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

/// Judge one capture's group, from round trips above the smallest for waits: the judge of losses, put right by the
/// laws, and the family. A full queue competes with the laws: where it makes the drops far likelier than any law does,
/// no queue management made them; where a law beats it as clearly, and everything else, one did.
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
        let proved = by_drops && laws.margin_nats > LAW_NATS && laws.can_be_led(evidence);
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
    // what speaks for queue management already outweighs a full queue that is about as likely
    let as_likely = !by_drops || laws.margin_nats > -FAMILY_NATS;
    (judgement, family().filter(|_| as_likely))
}

/// Laws are led over every packet, which takes a while: not where something else is as good as proved. What rules queue
/// management out is how long packets waited, which no law overrules.
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

/// A law accounts for what the judge of losses could not.
fn proved_by_law(judgement: Judgement) -> Judgement {
    Judgement {
        cause: Cause::Aqm,
        confidence: LAWFUL,
        behind: Vec::new(),
        ..judgement
    }
}

/// The judge of losses again, for which the drops are no queue management's.
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

/// How sure drops that follow a law make, between two captures. Fitted on transfers of the training split.
pub const LAWFUL: f64 = 0.95;

/// The laws in competition, with what they compete with.
struct Laws {
    /// All flows in one queue, or each in its own, whichever suits better.
    best: Management,
    isolates: bool,
    /// How much likelier than chance one full queue for all flows makes the drops, nats.
    full_queue_nats: f64,
    /// By how much the best law beats full queues and buckets, nats.
    margin_nats: f64,
}

impl Laws {
    fn of(group: &Group, evidence: &Evidence) -> Option<Self> {
        let passages = passages(group, evidence);
        let mean_bps = passages.mean_bytes() * passages.passed as f64 * 8.0 / passages.duration_s();
        let seeing = |isolated| Seeing {
            // a queue lets out at least what came through
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
        // a queue whose rate the delays do not tell is looked for by its losses, at any rate
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

    /// The queue is known well enough. Laws of probability need its rate, by which waits are those of one queue. When
    /// CoDel drops, its own clock says (RFC 8289, section 5.3): waits need but be seen, as where each flow has a queue
    /// of its own.
    fn can_be_led(&self, evidence: &Evidence) -> bool {
        let by_clock = matches!(self.best.laws[0].law, Law::CoDel | Law::Cobalt);
        evidence.queue_rate_is_seen() || (by_clock && evidence.drain.is_some())
    }
}

/// Acknowledgments come some packets late, seconds.
const RTT_NOISE_S: f64 = 0.5e-3;

/// The packets with what they waited. Of the marks those that an acknowledgment begins to report; of what is sent before
/// the sender can answer, nobody hears (RFC 3168, section 6.1.3).
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

    /// One law that leads by far.
    fn led_by(law: Law) -> Management {
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
            |law: Law, isolates: bool| Family::of(Some(&led_by(law)), isolates).unwrap().name();
        assert_eq!(name(Law::Red, false), "red");
        assert_eq!(name(Law::Red, true), "flow-queueing");
        assert_eq!(name(Law::CoDel, true), "fq-codel");
        assert_eq!(name(Law::Pie, true), "fq-pie");
        assert_eq!(name(Law::Cobalt, false), "codel");
    }
}
