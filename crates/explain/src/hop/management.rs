//! Drops of a queue that is not full, and congestion marks: the law of queue management behind them.

use whydrop_path::fit::managed::{Management, Seeing, fit_management};
use whydrop_verdict::{Cause, Fact, fact};

use super::full_queue::{FEWEST_INSIDE, FULL_OF_MOST};
use super::judge::{HopJudgement, managed_has_something};
use super::measure::{Hop, MOST_NOISE_S};
use crate::judge::Judgement;
use crate::management::{Family, LAWFUL};
use crate::thresholds::LAW_NATS;

/// The facts that identify the family.
pub fn facts_of(family: &Family, hop: &Hop) -> Vec<Fact> {
    let isolates = family.isolates.then(|| {
        fact!(
            "overtook-other-flows",
            between_flows = hop.overtaking.between_flows,
            within_flows = hop.overtaking.within_flows
        )
    });
    isolates.into_iter().chain(family.fact()).collect()
}

/// The family, if marks alone show it.
pub fn family(hop: &Hop) -> Option<Family> {
    Family::of(management(hop).as_ref(), flows_are_apart(hop))
}

fn management(hop: &Hop) -> Option<Management> {
    let mean_bps =
        || hop.passages.mean_bytes() * hop.passages.passed as f64 * 8.0 / hop.passages.duration_s();
    let seeing = Seeing {
        rate_bps: hop
            .departures
            .map_or_else(mean_bps, |departures| departures.rate_bps.value),
        noise_s: hop.noise_s.min(MOST_NOISE_S),
        isolated: flows_are_apart(hop),
        by_acknowledgments: false,
    };
    fit_management(&hop.passages, seeing)
}

/// True if flows are overtaken by nearly all packets that arrive while they wait, or by flows that never wait
/// long.
fn flows_overtake(hop: &Hop) -> bool {
    let overtaking = hop.overtaking;
    flows_are_apart(hop) && overtaking.between_flows * 2 >= overtaking.chances
}

/// True if packets overtake those of other flows and none of their own, as no shared queue allows; flows with
/// equal delays seldom do.
fn flows_are_apart(hop: &Hop) -> bool {
    let overtaking = hop.overtaking;
    overtaking.between_flows > 0
        && overtaking.within_flows * 10 <= overtaking.between_flows
        && overtaking.between_flows * SELDOM >= overtaking.chances
}

/// One in this many opportunities.
const SELDOM: usize = 20;

/// The verdict on drops of a queue that is not full: the law that manages it.
pub fn queue_management(hop: &Hop, judgement: &Judgement) -> Option<HopJudgement> {
    let backlog = hop
        .backlog
        .as_ref()
        .filter(|backlog| managed_has_something(backlog))?;
    // half of the packets wait less than this; on a path without queue management, losses with a queue ahead
    // are rare
    let queued = backlog.mean_rank > 0.8
        && backlog.found_empty < 0.2
        && backlog.packets.value >= 2.0 * FEWEST_INSIDE;
    let not_full = backlog.packets.value < FULL_OF_MOST * backlog.most_passed_packets;
    let deviations = backlog.deviations.max(backlog.average_deviations);
    let related = judgement.cause == Cause::Aqm || deviations > RELATED_DEVIATIONS;
    let management = management(hop);
    let lawful = management
        .as_ref()
        .is_some_and(|found| found.margin_nats() > LAW_NATS);
    let family = Family::of(management.as_ref(), flows_are_apart(hop));
    let isolates = flows_overtake(hop) && queued && not_full;
    if !(lawful || (hop.departures.is_some() && (related || isolates))) {
        return None;
    }
    let confidence = match (lawful, related, isolates) {
        (true, ..) | (_, true, true) => LAWFUL,
        (_, true, _) => judgement.confidence,
        _ => 0.65,
    };
    let mut judgement = Judgement {
        cause: Cause::Aqm,
        confidence: confidence.max(if judgement.cause == Cause::Aqm {
            judgement.confidence
        } else {
            0.0
        }),
        against: judgement.against.clone(),
        behind: Vec::new(),
    };
    judgement
        .against
        .retain(|(cause, _)| *cause != Cause::DeepQueue);
    judgement
        .against
        .insert(0, (Cause::DeepQueue, early_reason(hop)));
    Some(HopJudgement {
        judgement,
        family,
        beside_queue: false,
    })
}

/// Standard deviations from which losses are related to the queue: one chance in three million, divided among
/// several mechanisms that are tried.
const RELATED_DEVIATIONS: f64 = 5.0;

/// The fact that a queue that lets other packets in at the same fill level is not full.
pub fn early_reason(hop: &Hop) -> Fact {
    let backlog = hop.backlog.as_ref().expect("there were losses");
    fact!(
        "queue-not-full",
        low = backlog.packets.low.unwrap_or(0.0) as u64,
        high = backlog.packets.high.unwrap_or(0.0) as u64,
        most = backlog.most_passed_packets as u64
    )
}
