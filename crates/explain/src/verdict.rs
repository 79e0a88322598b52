//! An outcome in the form of the document, with the facts and parameters of its cause.

use std::collections::BTreeMap;

use whydrop_tcp::Limiter;
use whydrop_verdict::{Cause, Fact, Place, Quantity, fact};

use crate::cause::Outcome;
use crate::cause::outage::share_in_silence;
use crate::document::{Against, ThroughputLost, Verdict};
use crate::dual_rate::{self, Second};
use crate::facts;
use crate::limits;
use crate::observe::Observation;
use crate::parameters::{most_counted, parameters, waited_s};
use crate::thresholds::SHORTEST_SPAN_S;

/// What is stated beside the outcome and what was observed.
pub(crate) struct Found {
    pub flows: Vec<String>,
    pub place: Option<Place>,
    pub detail: Option<String>,
    pub parameters: BTreeMap<String, Quantity>,
    /// Share of the losses that the cause explains.
    pub explained: f64,
    /// Facts that come before those of every outcome.
    pub facts: Vec<Fact>,
    /// Causes with the reason that rules each out, the strongest first; they come before the outcome's.
    pub rivals: Vec<(Cause, Fact)>,
    /// Largest payload of a packet.
    pub mss_bytes: f64,
}

impl Found {
    /// The findings of one capture on a group of flows.
    pub fn new(cause: Cause, seen: &Observation, flows: Vec<String>, mss_bytes: f64) -> Self {
        let second = (cause == Cause::Policer).then(|| dual_rate::dual_rate(seen));
        let second = second.flatten();
        let two = second.as_ref().and_then(Second::clear);
        let most = || most_counted(seen);
        Self {
            flows,
            place: None,
            detail: None,
            parameters: match &second {
                Some(Second::Clear(two)) => dual_rate::parameters(two, most(), waited_s(seen)),
                Some(Second::Rival(two)) => {
                    dual_rate::holding(parameters(cause, seen), two, most())
                }
                None => parameters(cause, seen),
            },
            explained: two.map_or_else(|| explained(cause, seen), |two| two.explained_share),
            facts: two.map(dual_rate::fact).into_iter().collect(),
            rivals: Vec::new(),
            mss_bytes,
        }
    }
}

/// The verdict on a group of flows.
pub(crate) fn verdict(outcome: &Outcome, seen: &Observation, found: Found) -> Verdict {
    let cause = outcome.cause;
    let totals = &seen.totals;
    let delivered = totals.payload_bytes as f64
        * (1.0 - totals.lost as f64 / totals.data_packets.max(1) as f64);
    // without a duration there is no rate
    let goodput_bps =
        (totals.loaded_s >= SHORTEST_SPAN_S).then(|| delivered * 8.0 / totals.loaded_s);
    let throughput_lost = goodput_bps.and_then(|bps| throughput_lost(cause, &found, bps));
    let mut facts = vec![facts::headline(cause, seen)];
    facts.extend(found.facts);
    facts.extend(facts::evidence_for(cause, seen));
    facts.push(fact!(
        "path",
        base_rtt_s = totals.whole_rtt_s,
        mss_bytes = found.mss_bytes,
        goodput_bps = goodput_bps,
        ecn_in_use = totals.ecn_in_use
    ));
    let mut rivals: Vec<(Cause, Fact)> = Vec::new();
    let reasons = found
        .rivals
        .into_iter()
        .chain(outcome.against.iter().cloned());
    for (other, why) in reasons.chain(facts::against(cause, seen)) {
        if other != cause && !rivals.iter().any(|(known, _)| *known == other) {
            rivals.push((other, why));
        }
    }
    Verdict {
        flows: found.flows,
        lost: totals.lost,
        explained: share(found.explained),
        limited_share: share(limited_share(cause, seen)),
        parameters: found
            .parameters
            .into_iter()
            .filter_map(|(name, quantity)| Some((name, quantity.finite()?)))
            .collect(),
        place: found.place,
        family: found.detail.clone().filter(|_| cause == Cause::Aqm),
        detail: found.detail,
        facts,
        against: rivals
            .into_iter()
            .map(|(cause, fact)| Against { cause, fact })
            .collect(),
        throughput_lost,
        ..Verdict::new(cause, outcome.confidence)
    }
}

/// A share between 0 and 1.
fn share(share: f64) -> f64 {
    if share.is_finite() {
        share.clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// Share of the losses that the cause explains.
pub(crate) fn explained(cause: Cause, seen: &Observation) -> f64 {
    if seen.totals.lost == 0 {
        return if cause == Cause::Unknown { 0.0 } else { 1.0 };
    }
    let by_bucket = seen.bucket.as_ref().map_or(0.0, |fit| {
        f64::from(fit.agreement.expected_losses())
            / f64::from(fit.agreement.lost.iter().sum::<u32>().max(1))
    });
    let by_delay = seen
        .at_loss
        .as_ref()
        .map_or(0.0, |at_loss| at_loss.share_delayed);
    match cause {
        Cause::Policer => by_bucket,
        Cause::ShallowQueue | Cause::DeepQueue | Cause::Aqm => by_delay,
        Cause::RandomLoss => 1.0,
        Cause::Outage => share_in_silence(seen),
        _ => 0.0,
    }
}

fn limited_share(cause: Cause, seen: &Observation) -> f64 {
    let totals = &seen.totals;
    let time = (totals.busy_s + totals.idle_s).max(1e-9);
    let share = match cause {
        Cause::ReceiverWindow => {
            let share = limits::share_at_the_ends(&totals.limited_s, cause);
            share.max(totals.window_limited_s() / time)
        }
        Cause::Sender | Cause::PeerApplication | Cause::DelayedAck => {
            let share = limits::share_at_the_ends(&totals.limited_s, cause);
            // a window full of packets that are queued nowhere is the sender's own
            match limits::largest(&totals.limited_s) {
                Some((Limiter::CongestionWindow, most)) if cause == Cause::Sender => share + most,
                _ => share,
            }
        }
        Cause::None | Cause::Unknown | Cause::CaptureLoss => 0.0,
        Cause::RandomLoss => limited_by_loss(seen).unwrap_or(totals.busy_s / time),
        _ => totals.busy_s / time,
    };
    share.clamp(0.0, 1.0)
}

/// The share of the time in which the sender repaired losses, or had a congestion window reduced by them, but
/// no longer than a link behind it was idle: while the link is busy, its rate is the limit. `None` if the
/// account of the time is unknown.
fn limited_by_loss(seen: &Observation) -> Option<f64> {
    let times_s = &seen.totals.limited_s;
    let all_s: f64 = times_s.iter().sum();
    let by_loss = [
        Limiter::LossRecovery,
        Limiter::CongestionWindow,
        Limiter::Outage,
    ];
    let by_loss_s: f64 = by_loss
        .map(|limiter| times_s[limiter as usize])
        .iter()
        .sum();
    let idle_share = seen.link_busy().map_or(1.0, |link| 1.0 - link.share);
    (all_s > 0.0).then(|| (by_loss_s / all_s).min(idle_share))
}

/// Throughput that the cause cost, if its rate is known: payload that the rate would carry, less that
/// acknowledged per second while data was in flight.
fn throughput_lost(cause: Cause, found: &Found, goodput_bps: f64) -> Option<ThroughputLost> {
    let name = match cause {
        Cause::Policer => "rate_bps",
        Cause::ShallowQueue | Cause::DeepQueue => "drain_rate_bps",
        _ => return None,
    };
    let available = found.parameters.get(name)?.value;
    let payload_share = found.mss_bytes / (found.mss_bytes + 52.0);
    let lost = available * payload_share - goodput_bps;
    (lost > 0.0 && goodput_bps > 0.0).then(|| ThroughputLost {
        bps: lost,
        share: lost / (available * payload_share),
    })
}
