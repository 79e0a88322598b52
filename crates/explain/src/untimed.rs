//! A capture with timestamps that show no time: its packets still prove some causes by their contents.

use whydrop_capture::Timeless;
use whydrop_verdict::{Cause, Fact, fact};

use crate::conditions::Condition;
use crate::document::{Document, Verdict};

/// Causes that need no times. Copies do: they are equal to a packet shortly before, as retransmissions are later.
const PROVED_BY_CONTENTS: [Cause; 8] = [
    Cause::Refused,
    Cause::Reset,
    Cause::Mtu,
    Cause::WindowScaling,
    Cause::Sack,
    Cause::Ecn,
    Cause::Checksum,
    Cause::CaptureLoss,
];

/// Removes from the document whatever was concluded from times, and says so in a verdict.
pub(crate) fn remove_times(document: &mut Document, timeless: Timeless) {
    for flow in &mut document.flows {
        flow.rtt_min_s = None;
        flow.rtt_median_s = None;
        flow.window_limited_share = None;
        flow.window_closed_s = 0.0;
        flow.limits = None;
    }
    // the times of a transfer are what it is about
    document.transfers.clear();
    if !matches!(timeless, Timeless::Coarse { .. }) {
        for capture in &mut document.captures {
            (capture.first, capture.last) = (None, None);
        }
    }
    for verdict in &mut document.verdicts {
        let headline = verdict.facts.first().map(|fact| fact.code.clone());
        verdict
            .facts
            .retain(|fact| Some(&fact.code) == headline.as_ref() || !is_of_time(fact));
        verdict.limited_share = 0.0;
        verdict.throughput_lost = None;
    }
    let (proved, concluded): (Vec<Verdict>, Vec<Verdict>) = std::mem::take(&mut document.verdicts)
        .into_iter()
        .partition(is_proved_by_contents);
    document.verdicts = proved;
    document
        .verdicts
        .push(unknown(document, &concluded, timeless));
}

fn is_proved_by_contents(verdict: &Verdict) -> bool {
    let is_of_time = verdict.facts.first().is_none_or(is_of_time);
    PROVED_BY_CONTENTS.contains(&verdict.cause) && !is_of_time
}

/// True if one of its values is a time.
fn is_of_time(fact: &Fact) -> bool {
    fact.values.keys().any(|name| name.ends_with("_s"))
}

/// In place of the verdicts that were concluded from times.
fn unknown(document: &Document, concluded: &[Verdict], timeless: Timeless) -> Verdict {
    let mut flows: Vec<String> = Vec::new();
    for flow in concluded.iter().flat_map(|verdict| &verdict.flows) {
        if !flows.contains(flow) {
            flows.push(flow.clone());
        }
    }
    let mut condition = Condition::new(Cause::Unknown, flows);
    condition.lost = document.flows.iter().map(|flow| flow.lost).sum();
    condition.confidence = 0.5;
    condition.detail = Some("times-unknown");
    condition.facts = vec![fact!(
        "times-unknown",
        reason = timeless.name(),
        tick_s = match timeless {
            Timeless::Coarse { tick_ns } => Some(tick_ns as f64 * 1e-9),
            Timeless::Equal | Timeless::Backwards => None,
        }
    )];
    condition.ranked(0.0, 0).verdict
}
