//! Laws of queue management, replayed over the packets of an observation: how well drops and marks follow
//! each.

use whydrop_path::fit::Seen;
use whydrop_path::fit::managed::{Law, Management, Seeing, fit_management};
use whydrop_path::fit::passage::Passages;
use whydrop_tcp::SegmentFlags;

use super::exact::Exact;
use super::group::{Group, Origin};
use super::hop::MOST_NOISE_S;
use super::laws::Laws;
use super::observation::Observation;
use crate::thresholds::{FAMILY_NATS, SEARCH_NATS};

/// Acknowledgments arrive some packets late, seconds.
const RTT_NOISE_S: f64 = 0.5e-3;

/// From one capture, with round-trip times above the minimum as delays. `None` if the laws say nothing.
pub fn laws_of_group(group: &Group, seen: &Observation) -> Option<Laws> {
    // laws space drops by less than a tick of the senders' clocks
    if seen.by_clocks {
        return None;
    }
    let passages = passages(group, seen);
    let mean_bps = mean_bps(&passages);
    let seeing = |isolated| Seeing {
        // a queue releases at least the traffic that passed
        rate_bps: (seen.drain).map_or(mean_bps, |drain| drain.rate_bps.max(mean_bps)),
        noise_s: RTT_NOISE_S,
        isolated,
        by_acknowledgments: true,
    };
    let together = fit_management(&passages, seeing(false))?;
    let several = passages.flow.iter().any(|flow| *flow != passages.flow[0]);
    let apart = several.then(|| fit_management(&passages, seeing(true)));
    let better = |apart: &Management| apart.best_nats() > together.best_nats() + FAMILY_NATS;
    let apart = apart.flatten().filter(better);
    // if the delays do not show the rate of a queue, it is fitted to the losses, at any rate
    let bucket = seen.bucket.as_ref();
    let share = (together.events as f64 / passages.lost.max(1) as f64).min(1.0);
    let bucket_nats = bucket.map_or(0.0, |bucket| share * bucket.gain() - SEARCH_NATS);
    let full_queue_nats = together.tail_drop_nats.max(bucket_nats);
    let isolates = apart.is_some();
    let best = apart.unwrap_or(together);
    Some(Laws {
        margin_nats: best.margin_nats().min(best.best_nats() - full_queue_nats),
        full_queue_nats,
        isolates,
        is_replayable: is_replayable(seen, &best),
        best: Some(best),
    })
}

/// From two captures, with exact delays.
pub fn laws_of_hop(exact: &Exact) -> Laws {
    let departures = exact.departures.as_ref();
    let rate_bps = departures.map(|departures| departures.rate_bps.value);
    let isolates = exact.flows_are_apart();
    let seeing = Seeing {
        rate_bps: rate_bps.unwrap_or_else(|| mean_bps(&exact.passages)),
        noise_s: exact.noise_s.min(MOST_NOISE_S),
        isolated: isolates,
        by_acknowledgments: false,
    };
    let best = fit_management(&exact.passages, seeing);
    Laws {
        margin_nats: best.as_ref().map_or(f64::MIN, Management::margin_nats),
        full_queue_nats: best.as_ref().map_or(0.0, |best| best.tail_drop_nats),
        isolates,
        is_replayable: true,
        best,
    }
}

fn mean_bps(passages: &Passages) -> f64 {
    passages.mean_bytes() * passages.passed as f64 * 8.0 / passages.duration_s()
}

/// True if the queue is known well enough. Laws of probability need its rate, which determines the delays of
/// one queue. CoDel drops at times set by its own clock (RFC 8289, section 5.3): delays only need to be
/// visible, as with a queue for each flow.
fn is_replayable(seen: &Observation, best: &Management) -> bool {
    let by_clock = matches!(best.laws[0].law, Law::CoDel | Law::Cobalt);
    seen.queue_rate_is_seen() || (by_clock && seen.drain.is_some())
}

/// The packets with their delays. Only the marks count that an acknowledgment first reports; marks on packets
/// sent before the sender can answer are never reported (RFC 3168, section 6.1.3).
fn passages(group: &Group, seen: &Observation) -> Passages {
    let group_trace = &seen.group_trace;
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
    let origins = || group_trace.origins.iter();
    Passages {
        start_ns: trace.start_ns,
        arrival_s: trace.time_s.clone(),
        bytes: trace.bytes.clone(),
        outcome: origins().zip(&trace.outcome).map(&mut outcome).collect(),
        wait_s: trace.delay_s.iter().copied().map(f64::from).collect(),
        flow: origins().map(|origin| origin.member).collect(),
        marked: origins().map(is_marked).collect(),
        shortest_transit_s: 0.0,
        lost: trace.lost,
        passed: trace.passed,
    }
}
