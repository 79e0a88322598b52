//! Round trips that are long because acknowledgments wait in a queue between the points.
//!
//! If acknowledgments of data are late, one direction alone shows that something waited, but not what. If
//! packets of the other direction waited between the points for longer than a round trip, the cause is their
//! queue: windows are full because of it, as they are for data (RFC 3449, section 2).

use whydrop_verdict::Cause;

use super::verdicts::Judged;
use crate::document::Verdict;
use crate::ranked::Ranked;

/// Replaces an unknown cause by the queue of the other direction.
pub fn accounts_for_waits(groups: &mut [Judged]) {
    for waiting in 0..groups.len() {
        let Some((place, base_rtt_s)) = unexplained_wait(&groups[waiting]) else {
            continue;
        };
        let back = groups.iter().position(|other| {
            other.direction != groups[waiting].direction && queue(other, base_rtt_s).is_some()
        });
        let Some(back) = back else {
            continue;
        };
        let unexplained = groups[waiting].ranked.remove(place);
        let Some(at) = queue(&groups[back], base_rtt_s) else {
            continue;
        };
        let queued = &mut groups[back].ranked[at];
        let confidence = queued.verdict.confidence;
        take(queued, unexplained);
        let causes = groups[waiting].causes.values_mut().flatten();
        for cause in causes.filter(|(cause, _)| *cause == Cause::Unknown) {
            *cause = (Cause::Shaper, confidence);
        }
    }
}

/// The verdict of an unknown cause for packets that waited for a round trip, and that delay in seconds.
fn unexplained_wait(group: &Judged) -> Option<(usize, f64)> {
    let waited = |one: &Ranked| {
        let against = one.verdict.against.iter();
        let mut facts = against.map(|against| &against.fact);
        let fact = facts.find(|fact| fact.code == "waited-a-round-trip")?;
        (one.verdict.cause == Cause::Unknown).then(|| fact.number("base_rtt_s"))?
    };
    let mut verdicts = group.ranked.iter().enumerate();
    verdicts.find_map(|(place, one)| Some((place, waited(one)?)))
}

/// The verdict on a queue between the points that delayed packets for longer than this.
fn queue(group: &Judged, longer_than_s: f64) -> Option<usize> {
    let longest_s = |verdict: &Verdict| {
        let fact = verdict
            .facts
            .iter()
            .find(|fact| fact.code == "delayed-by-shaper")?;
        fact.number("longest_wait_s")
    };
    group.ranked.iter().position(|one| {
        let between = one.verdict.place.is_some() && one.verdict.cause == Cause::Shaper;
        between && longest_s(&one.verdict).is_some_and(|wait_s| wait_s > longer_than_s)
    })
}

/// Merge a verdict of flows that wait for the queue's packets: the queue limits them too.
fn take(queued: &mut Ranked, waiting: Ranked) {
    let verdict = &mut queued.verdict;
    verdict.flows.extend(waiting.verdict.flows);
    verdict.limited_share = verdict.limited_share.max(waiting.verdict.limited_share);
    queued.payload_bytes += waiting.payload_bytes;
    queued.limited_s += waiting.limited_s;
}
