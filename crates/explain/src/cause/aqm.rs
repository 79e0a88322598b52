//! Active queue management: a law drops or marks packets before the queue is full.

mod family;

use whydrop_verdict::{Cause, Fact, fact};

use super::law_followed::{drops_early, law_followed};
use super::policer::beside_queue;
use super::queue::{self, queue_facts};
use super::random_loss::may_be_single;
use super::{Description, Hypothesis, Outcome, Patterns, Weight};
use crate::observe::{Exact, Observation, stood_s};
use crate::quantities::{drain_rate, drain_rate_between};
use crate::thresholds::*;
pub use family::Family;

pub struct Managed;

impl Hypothesis for Managed {
    fn causes(&self) -> &'static [Cause] {
        &[Cause::Aqm]
    }

    fn weigh(&self, seen: &Observation, patterns: &Patterns) -> Vec<Weight> {
        weigh(seen, patterns)
    }

    fn describe(&self, _cause: Cause, seen: &Observation) -> Description {
        describe(seen)
    }
}

fn weigh(seen: &Observation, patterns: &Patterns) -> Vec<Weight> {
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
        Some(fact!("found-nothing-queued", share = backlog.found_empty))
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
        _ => seen.totals.lost > 0 && outcome.confidence < LAWFUL_CONFIDENCE,
    }
}

fn describe(seen: &Observation) -> Description {
    let totals = &seen.totals;
    let family = Family::shown(seen);
    let headline = match totals.lost {
        0 => fact!(
            "marked-by-aqm",
            marked = totals.ce_marked,
            echoes = totals.ecn_echoes
        ),
        _ => fact!("dropped-by-aqm", flows = totals.lossy_flows),
    };
    let mut said = Description {
        explained: seen.share_delayed(),
        limited_share: seen.busy_share(),
        detail: family.as_ref().map(Family::name),
        facts: match totals.lost {
            0 => Vec::new(),
            _ => queue_facts(seen),
        },
        ..Description::new(headline)
    };
    let rate = match &seen.exact {
        Some(exact) => {
            said.counted = queue::found_inside(exact);
            said.counted
                .extend(overtook(exact).filter(|_| family.is_some_and(|one| one.isolates)));
            said.byte_basis = exact.drain_basis();
            drain_rate_between(seen, exact, said.byte_basis)
        }
        None => Some(drain_rate(seen)),
    };
    said.counted.extend(family.and_then(|family| family.fact()));
    said.parameters = family.map(|family| family.parameters()).unwrap_or_default();
    said.parameters
        .extend(rate.map(|rate| ("drain_rate_bps".to_owned(), rate)));
    said
}

/// The fact that identifies a queue for each flow.
fn overtook(exact: &Exact) -> Option<Fact> {
    Some(fact!(
        "overtook-other-flows",
        between_flows = exact.overtaking.between_flows,
        within_flows = exact.overtaking.within_flows
    ))
}
