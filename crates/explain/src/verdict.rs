//! A judgement as findings, and the reducer's verdict in the form of the document.

use std::collections::BTreeMap;

use whydrop_tcp::Limiter;
use whydrop_verdict::{Cause, Fact, Finding, Place, Quantity, Subject, fact, log_odds, reduce};

use crate::document::{Against, ThroughputLost, Verdict};
use crate::dual_rate::{self, Second};
use crate::evidence::Evidence;
use crate::facts;
use crate::judge::Judgement;
use crate::limits;
use crate::losses::share_in_silence;
use crate::parameters::{most_counted, parameters, waited_s};
use crate::thresholds::SHORTEST_SPAN_S;

/// The findings beside the judgement and its evidence.
pub(crate) struct Found {
    pub source: &'static str,
    pub flows: Vec<String>,
    pub place: Option<Place>,
    pub detail: Option<String>,
    pub parameters: BTreeMap<String, Quantity>,
    /// Share of the losses that the cause explains.
    pub explained: f64,
    /// Facts that come before those of every judgement.
    pub facts: Vec<Fact>,
    /// Causes with the reason that rules each out, the strongest first; they come before the judge's.
    pub rivals: Vec<(Cause, Fact)>,
    /// Largest payload of a packet.
    pub mss_bytes: f64,
}

impl Found {
    /// The findings of one capture on a group of flows.
    pub fn new(cause: Cause, evidence: &Evidence, flows: Vec<String>, mss_bytes: f64) -> Self {
        let second = (cause == Cause::Policer).then(|| dual_rate::dual_rate(evidence));
        let second = second.flatten();
        let two = second.as_ref().and_then(Second::clear);
        let most = || most_counted(evidence);
        Self {
            source: "capture",
            flows,
            place: None,
            detail: None,
            parameters: match &second {
                Some(Second::Clear(two)) => dual_rate::parameters(two, most(), waited_s(evidence)),
                Some(Second::Rival(two)) => {
                    dual_rate::holding(parameters(cause, evidence), two, most())
                }
                None => parameters(cause, evidence),
            },
            explained: two.map_or_else(|| explained(cause, evidence), |two| two.explained_share),
            facts: two.map(dual_rate::fact).into_iter().collect(),
            rivals: Vec::new(),
            mss_bytes,
        }
    }
}

/// The verdict on a group of flows.
pub(crate) fn verdict(judgement: &Judgement, evidence: &Evidence, found: Found) -> Verdict {
    let cause = judgement.cause;
    let totals = &evidence.totals;
    let delivered = totals.payload_bytes as f64
        * (1.0 - totals.lost as f64 / totals.data_packets.max(1) as f64);
    // without a duration there is no rate
    let goodput_bps =
        (totals.loaded_s >= SHORTEST_SPAN_S).then(|| delivered * 8.0 / totals.loaded_s);
    let throughput_lost = goodput_bps.and_then(|bps| throughput_lost(cause, &found, bps));
    let mut facts = vec![facts::headline(cause, evidence)];
    facts.extend(found.facts);
    facts.extend(facts::evidence_for(cause, evidence));
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
        .chain(judgement.against.iter().cloned());
    for (other, why) in reasons.chain(facts::against(cause, evidence)) {
        if other != cause && !rivals.iter().any(|(known, _)| *known == other) {
            rivals.push((other, why));
        }
    }
    let subject = Subject {
        flows: found.flows,
        ..Subject::default()
    };
    let blank = Finding::new(found.source, subject, found.place, cause);
    let own = Finding {
        detail: found.detail,
        nats: nats_of(judgement),
        lost: totals.lost,
        explained: share(found.explained),
        limited_share: share(limited_share(cause, evidence)),
        quantities: found
            .parameters
            .into_iter()
            .filter_map(|(name, quantity)| Some((name, quantity.finite()?)))
            .collect(),
        facts,
        ..blank.clone()
    };
    let (verdict, ruled_out) = reduced(own, &blank, &rivals, judgement);
    let named = rivals.iter().map(|(cause, _)| *cause);
    let against = named.filter_map(|cause| {
        let other = ruled_out.iter().find(|other| other.cause == cause)?;
        Some(Against {
            cause: cause.name().to_owned(),
            fact: other.veto.clone()?,
        })
    });
    let against = against.collect();
    Verdict {
        against,
        throughput_lost,
        ..Verdict::of(verdict)
    }
}

impl Verdict {
    /// The reducer's verdict in the form of the document.
    pub(crate) fn of(verdict: whydrop_verdict::Verdict) -> Self {
        Self {
            cause: verdict.cause.name().to_owned(),
            confidence: (verdict.confidence * 1000.0).round() / 1000.0,
            flows: verdict.subject.flows,
            lost: verdict.lost,
            explained: verdict.explained,
            limited_share: verdict.limited_share,
            parameters: verdict.quantities,
            byte_basis: None,
            place: verdict.place,
            family: verdict
                .detail
                .clone()
                .filter(|_| verdict.cause == Cause::Aqm),
            detail: verdict.detail,
            models: Vec::new(),
            facts: verdict.facts,
            against: Vec::new(),
            throughput_lost: None,
        }
    }
}

/// The causes of loss among which the confidence is shared.
const CAUSES_OF_LOSS: [Cause; 5] = [
    Cause::Policer,
    Cause::ShallowQueue,
    Cause::DeepQueue,
    Cause::Aqm,
    Cause::RandomLoss,
];

/// The verdict on the judgement and on the causes that it rules out, and the causes that lost. The confidence
/// that an undecided judge leaves is shared equally by the causes that are not ruled out.
fn reduced(
    own: Finding,
    blank: &Finding,
    rivals: &[(Cause, Fact)],
    judgement: &Judgement,
) -> (whydrop_verdict::Verdict, Vec<whydrop_verdict::Against>) {
    let mut findings = Vec::with_capacity(rivals.len() + CAUSES_OF_LOSS.len() + 1);
    findings.extend(rivals.iter().map(|(cause, why)| Finding {
        cause: *cause,
        veto: Some(why.clone()),
        ..blank.clone()
    }));
    let ruled_out = |cause: &&Cause| !rivals.iter().any(|(other, _)| other == *cause);
    let behind = judgement
        .behind
        .iter()
        .filter(|(cause, _)| *cause != own.cause && ruled_out(&cause));
    findings.extend(behind.map(|(cause, nats)| Finding {
        cause: *cause,
        nats: own.nats - nats,
        ..blank.clone()
    }));
    let confidence = judgement.confidence;
    if own.cause == Cause::Unknown && judgement.behind.is_empty() && confidence < 1.0 {
        let open: Vec<&Cause> = CAUSES_OF_LOSS.iter().filter(ruled_out).collect();
        let each = (1.0 - confidence) / open.len().max(1) as f64;
        findings.extend(open.into_iter().map(|cause| Finding {
            cause: *cause,
            nats: own.nats + (each / confidence).ln(),
            ..blank.clone()
        }));
    }
    let cause = own.cause;
    findings.push(own);
    let mut verdicts = reduce(findings).expect("findings of finite numbers");
    let ruled_out = verdicts.iter().flat_map(|verdict| verdict.against.clone());
    let ruled_out = ruled_out.collect();
    // packets missing from the record compete separately
    let place = verdicts.iter().position(|verdict| verdict.cause == cause);
    (verdicts.swap_remove(place.unwrap_or(0)), ruled_out)
}

/// Log-likelihood of the cause against the background that yields its confidence, given the causes behind it,
/// nats.
fn nats_of(judgement: &Judgement) -> f64 {
    let beside: f64 = judgement.behind.iter().map(|(_, nats)| (-nats).exp()).sum();
    match judgement.cause {
        Cause::Unknown if !judgement.behind.is_empty() => 0.0,
        _ => log_odds(judgement.confidence / (1.0 - judgement.confidence * beside).max(0.5)),
    }
}

/// A share in the range that a finding accepts.
fn share(share: f64) -> f64 {
    if share.is_finite() {
        share.clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// Share of the losses that the cause explains.
pub(crate) fn explained(cause: Cause, evidence: &Evidence) -> f64 {
    if evidence.totals.lost == 0 {
        return if cause == Cause::Unknown { 0.0 } else { 1.0 };
    }
    let by_bucket = evidence.bucket.as_ref().map_or(0.0, |fit| {
        f64::from(fit.agreement.expected_losses())
            / f64::from(fit.agreement.lost.iter().sum::<u32>().max(1))
    });
    let by_delay = evidence
        .at_loss
        .as_ref()
        .map_or(0.0, |at_loss| at_loss.share_delayed);
    match cause {
        Cause::Policer => by_bucket,
        Cause::ShallowQueue | Cause::DeepQueue | Cause::Aqm => by_delay,
        Cause::RandomLoss => 1.0,
        Cause::Outage => share_in_silence(evidence),
        _ => 0.0,
    }
}

fn limited_share(cause: Cause, evidence: &Evidence) -> f64 {
    let totals = &evidence.totals;
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
        Cause::RandomLoss => limited_by_loss(evidence).unwrap_or(totals.busy_s / time),
        _ => totals.busy_s / time,
    };
    share.clamp(0.0, 1.0)
}

/// The share of the time in which the sender repaired losses, or had a congestion window reduced by them, but
/// no longer than a link behind it was idle: while the link is busy, its rate is the limit. `None` if the
/// account of the time is unknown.
fn limited_by_loss(evidence: &Evidence) -> Option<f64> {
    let times_s = &evidence.totals.limited_s;
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
    let idle_share = evidence.link_busy().map_or(1.0, |link| 1.0 - link.share);
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
