//! An outcome in the form of the document, with what is said of its cause.

use whydrop_path::PathSpec;
use whydrop_verdict::{Cause, Fact, Place, fact};

use crate::cause::{Description, Outcome, Parameters, describe};
use crate::document::{Against, ThroughputLost, Verdict};
use crate::fitted_path::fitted_element;
use crate::observe::Observation;
use crate::thresholds::{HEADERS_BYTES, SHORTEST_SPAN_S};

/// Where a verdict applies, and what is stated besides.
#[derive(Debug, Clone, Default)]
pub(crate) struct Subject {
    pub flows: Vec<String>,
    pub place: Option<Place>,
    /// Largest payload of a packet, bytes.
    pub mss_bytes: f64,
    /// Facts that come before those of the cause.
    pub first: Vec<Fact>,
    /// Causes with the reason that rules each out, the strongest first; they come before the outcome's.
    pub rivals: Vec<(Cause, Fact)>,
}

/// The verdict on a group of flows.
pub(crate) fn verdict(outcome: &Outcome, seen: &Observation, subject: Subject) -> Verdict {
    let said = describe(outcome, seen);
    verdict_of(outcome, seen, said, subject)
}

/// The same with a description that is known.
pub(crate) fn verdict_of(
    outcome: &Outcome,
    seen: &Observation,
    said: Description,
    subject: Subject,
) -> Verdict {
    let cause = outcome.cause;
    let totals = &seen.totals;
    let delivered = totals.payload_bytes as f64
        * (1.0 - totals.lost as f64 / totals.data_packets.max(1) as f64);
    // without a duration there is no rate
    let goodput_bps =
        (totals.loaded_s >= SHORTEST_SPAN_S).then(|| delivered * 8.0 / totals.loaded_s);
    let lost_by = |bps| throughput_lost(cause, &said.parameters, subject.mss_bytes, bps);
    let throughput_lost = goodput_bps.and_then(lost_by);
    let path = fact!(
        "path",
        base_rtt_s = totals.whole_rtt_s,
        mss_bytes = subject.mss_bytes,
        goodput_bps = goodput_bps,
        ecn_in_use = totals.ecn_in_use
    );
    let reasons = [subject.rivals, outcome.against.clone(), said.against];
    let reasons = reasons.into_iter().flatten().chain(against_any(seen));
    let of_all = of_all(seen);
    let facts = [subject.first, said.counted, said.facts, of_all, vec![path]];
    let parameters = finite(said.parameters);
    let value = |name: &str| parameters.get(name).map(|parameter| parameter.value);
    Verdict {
        path: fitted_element(cause, &value).map(PathSpec::from),
        flows: subject.flows,
        lost: totals.lost,
        explained: match (totals.lost, cause) {
            (0, Cause::Unknown) => 0.0,
            (0, _) => 1.0,
            _ => share(said.explained),
        },
        limited_share: share(said.limited_share),
        parameters,
        byte_basis: said.byte_basis.map(|basis| basis.name().to_owned()),
        place: subject.place,
        family: said
            .detail
            .filter(|_| cause == Cause::Aqm)
            .map(str::to_owned),
        detail: said.detail.map(str::to_owned),
        facts: [said.headline]
            .into_iter()
            .chain(facts.into_iter().flatten())
            .collect(),
        against: first_of_each(cause, reasons),
        throughput_lost,
        ..Verdict::new(cause, outcome.confidence)
    }
}

fn finite(parameters: Parameters) -> Parameters {
    let parameters = parameters.into_iter();
    parameters
        .filter_map(|(name, quantity)| Some((name, quantity.finite()?)))
        .collect()
}

/// The first reason against each other cause.
fn first_of_each(cause: Cause, reasons: impl Iterator<Item = (Cause, Fact)>) -> Vec<Against> {
    let mut against: Vec<Against> = Vec::new();
    for (other, fact) in reasons {
        if other != cause && !against.iter().any(|known| known.cause == other) {
            against.push(Against { cause: other, fact });
        }
    }
    against
}

/// Facts that do not depend on the cause.
fn of_all(seen: &Observation) -> Vec<Fact> {
    let totals = &seen.totals;
    let open = (totals.lost_low < totals.lost_high).then(|| {
        fact!(
            "losses-without-sack",
            low = totals.lost_low,
            high = totals.lost_high
        )
    });
    let line = |line_rate_bps| fact!("line-rate", line_rate_bps = line_rate_bps);
    open.into_iter()
        .chain(seen.line_rate_bps.map(line))
        .collect()
}

/// Reasons against causes that drop nothing, whatever did.
fn against_any(seen: &Observation) -> Vec<(Cause, Fact)> {
    let totals = &seen.totals;
    if totals.lost == 0 {
        return Vec::new();
    }
    // retransmissions of which most had arrived may have been late, and do not rule it out
    let needed = (totals.spurious <= totals.retransmitted / 2).then(|| {
        let why = fact!(
            "retransmitted",
            retransmitted = totals.retransmitted,
            spurious = totals.spurious
        );
        (Cause::Reordering, why)
    });
    let window_share = totals.window_share();
    let open = (totals.window_known && window_share < 0.5).then(|| {
        let why = fact!("window-open", window_share = window_share);
        (Cause::ReceiverWindow, why)
    });
    needed.into_iter().chain(open).collect()
}

/// A share between 0 and 1.
fn share(share: f64) -> f64 {
    if share.is_finite() {
        share.clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// Throughput that the cause cost, if its rate is known: payload that the rate would carry, less that
/// acknowledged per second while data was in flight.
fn throughput_lost(
    cause: Cause,
    parameters: &Parameters,
    mss_bytes: f64,
    goodput_bps: f64,
) -> Option<ThroughputLost> {
    let name = match cause {
        Cause::Policer => "rate_bps",
        Cause::ShallowQueue | Cause::DeepQueue => "drain_rate_bps",
        _ => return None,
    };
    let available = parameters.get(name)?.value;
    let payload_share = mss_bytes / (mss_bytes + HEADERS_BYTES);
    let lost = available * payload_share - goodput_bps;
    (lost > 0.0 && goodput_bps > 0.0).then(|| ThroughputLost {
        bps: lost,
        share: lost / (available * payload_share),
    })
}
