//! Active queue management: a law drops or marks packets before the queue is full.

use std::collections::BTreeMap;

use whydrop_path::fit::Interval;
use whydrop_path::fit::managed::{Law, LawFit, Management};
use whydrop_verdict::{Cause, Fact, Quantity, fact, log_odds};

use super::policer::beside_queue;
use super::random_loss::may_be_single;
use super::{Outcome, Patterns, Weight, queue};
use crate::observe::Exact;
use crate::observe::Observation;
use crate::observe::stood_s;
use crate::thresholds::*;

pub fn weigh(seen: &Observation, patterns: &Patterns) -> Vec<Weight> {
    if seen.full_queue_shows() {
        let median_s = seen.waited_at_loss_s();
        let why = fact!("drops-only-when-full", median_s = median_s);
        return vec![Weight::ruled_out(Cause::Aqm, why)];
    }
    let background = patterns.background();
    let likelihoods = [
        law_followed(seen).map(|law| law.nats - background),
        by_delay(seen, patterns).map(|nats| nats - background),
        may_be_single(seen, patterns).then(|| seen.holes.closed_nats() - background - UNSEEN_NATS),
    ];
    let nats = likelihoods.into_iter().flatten().reduce(f64::max);
    let veto = veto(seen);
    if nats.is_none() && veto.is_none() {
        return Vec::new();
    }
    vec![Weight::new(Cause::Aqm, nats.unwrap_or(f64::MIN)).unless(veto)]
}

/// Losses that depend on the delay, of one queue; less, if they occur at only the longest delays.
fn by_delay(seen: &Observation, patterns: &Patterns) -> Option<f64> {
    let delays = patterns.with_delay();
    if !seen.queue_is_measured() || !delays.is_finite() {
        return None;
    }
    let when_full = seen.drops_at_one_delay() || queue::overflows(seen) || seen.tail_drop_shows();
    Some(delays - if when_full { FULL_NATS } else { 0.0 })
}

fn veto(seen: &Observation) -> Option<Fact> {
    let Some(exact) = &seen.exact else {
        return waits_too_long(seen).or_else(|| full_queue_likelier(seen));
    };
    let beside = beside_queue(seen, exact).map(|(_, why)| why);
    let empty = || {
        let backlog = exact.backlog.as_ref().filter(|_| !exact.has_a_queue())?;
        Some(fact!("found-nothing-inside", share = backlog.found_empty))
    };
    let is_early = exact.lets_in() || drops_early(seen);
    beside
        .or_else(empty)
        .or_else(|| waits_too_long(seen).filter(|_| !is_early))
}

/// The reason that packets waited for longer than any queue management allows.
fn waits_too_long(seen: &Observation) -> Option<Fact> {
    if !seen.queue_is_measured() {
        return None;
    }
    let is_full = || queue::overflows(seen) || seen.tail_drop_shows();
    if let Some(low_s) = seen.drops_begin_late().filter(|_| !is_full()) {
        return Some(fact!("drops-begin-late", low_s = low_s));
    }
    if seen.waits_unmanaged() {
        return Some(fact!("waits-unmanaged", typical_s = seen.typical_wait_s()));
    }
    let stood_s = stood_unmanaged_s(seen)?;
    let longer_than_s = unmanaged_wait_s(seen);
    Some(fact!(
        "stood-unmanaged",
        stood_s = stood_s,
        longer_than_s = longer_than_s
    ))
}

/// How long the queue stood without a drop, longer than any queue management allows. If it may mark instead,
/// this means nothing.
fn stood_unmanaged_s(seen: &Observation) -> Option<f64> {
    if seen.totals.ecn_in_use || !seen.queue_explains_delays() {
        return None;
    }
    let stood_s = stood_s(&seen.group_trace.trace, unmanaged_wait_s(seen));
    (stood_s > LONGEST_UNMANAGED_S).then_some(stood_s)
}

/// Delay that makes queue management drop if it lasts.
fn unmanaged_wait_s(seen: &Observation) -> f64 {
    UNMANAGED_WAIT_S.max(seen.base_rtt_s.unwrap_or(USUAL_RTT_S))
}

/// The reason that a full queue predicts the drops far better than any law.
fn full_queue_likelier(seen: &Observation) -> Option<Fact> {
    let laws = (seen.laws.as_ref()).filter(|laws| seen.totals.lost > 0 && laws.are_refuted())?;
    let by_nats = laws.full_queue_nats - laws.best_nats().max(0.0);
    Some(fact!("full-queue-likelier", by_nats = by_nats))
}

/// True if measuring the laws may change the outcome: replaying them over every packet takes a while. Long
/// delays that rule queue management out are not overruled by a law.
pub fn is_open(seen: &Observation, outcome: &Outcome) -> bool {
    if let Some(exact) = &seen.exact {
        let is_queue = matches!(outcome.cause, Cause::ShallowQueue | Cause::DeepQueue);
        let may_be_early = is_queue && exact.fullness_varies() && !seen.full_queue_shows();
        let names_none = matches!(
            outcome.cause,
            Cause::Aqm | Cause::Unknown | Cause::RandomLoss
        );
        return exact.has_a_queue() && (names_none || may_be_early);
    }
    match outcome.cause {
        _ if outcome.rules_out(Cause::Aqm) => false,
        Cause::Aqm => true,
        Cause::Policer | Cause::Outage => false,
        Cause::Unknown => seen.totals.lost > 0,
        _ => seen.totals.lost > 0 && outcome.confidence < LAWFUL,
    }
}

/// Drops of a queue that is not full, as a pattern.
pub struct LawFollowed {
    /// How much more likely than losses at one rate, nats.
    pub nats: f64,
    /// What the same pattern without queue management costs, nats.
    pub price: f64,
}

/// Confidence from drops that follow a law, between two captures. Fitted on transfers of the training split.
pub const LAWFUL: f64 = 0.95;
/// ... and from drops of a queue with room, if flows overtake each other in it.
const ISOLATES: f64 = 0.65;
/// Standard deviations from which losses are related to the queue: one chance in three million, divided among
/// several mechanisms that are tried.
const RELATED_DEVIATIONS: f64 = 5.0;

/// The law that the drops follow, if the laws were measured and it predicts them far better than anything
/// else; between two captures also drops that depend on the backlog of a queue with room.
pub fn law_followed(seen: &Observation) -> Option<LawFollowed> {
    let laws = seen.laws.as_ref().filter(|_| seen.totals.lost > 0)?;
    let followed = |nats: f64, confidence: f64| LawFollowed {
        nats,
        price: log_odds(confidence) + seen.exact_nats(),
    };
    if laws.are_followed() {
        return Some(followed(laws.best_nats(), LAWFUL));
    }
    let exact = seen.exact.as_ref()?;
    exact.departures.as_ref()?;
    let deviations = exact.deviations();
    // log-likelihood ratio of a normal distribution
    let nats = deviations * deviations / 2.0;
    match (deviations > RELATED_DEVIATIONS, overtakes_with_room(exact)) {
        (true, true) => Some(followed(nats, LAWFUL)),
        (true, false) => Some(followed(nats, ISOLATES)),
        (false, true) => Some(followed(-CHANCE, ISOLATES)),
        (false, false) => None,
    }
}

/// True if exact fates show drops of a queue that is not full.
pub fn drops_early(seen: &Observation) -> bool {
    seen.exact.is_some() && law_followed(seen).is_some()
}

/// True if a queue that is long but not full drops, and flows overtake each other in it. On a path without
/// queue management, losses with a queue ahead are rare.
fn overtakes_with_room(exact: &Exact) -> bool {
    exact.has_a_long_queue() && exact.flows_overtake() && exact.drops_with_room()
}

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
    /// The family that drops or marks show, if the laws were measured.
    pub fn shown(seen: &Observation) -> Option<Self> {
        let laws = seen.laws.as_ref()?;
        let family = || Self::of(laws.best.as_ref(), laws.isolates);
        match &seen.exact {
            _ if seen.totals.lost == 0 => family(),
            Some(exact) if exact.departures.is_some() || laws.are_followed() => family(),
            Some(_) => None,
            // evidence for queue management already outweighs a full queue of about equal likelihood
            None if laws.are_as_likely() => family(),
            None => None,
        }
    }

    fn of(management: Option<&Management>, isolates: bool) -> Option<Self> {
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
