//! The verdict on a hop, with the replays that rule other causes out.

use whydrop_path::{ElementSpec, InService};
use whydrop_verdict::{Cause, Fact, fact};

use super::Hop;
use super::models::{Replay, replay_over};
use crate::cause::policer::dropping_bucket;
use crate::cause::{Outcome, describe, queue};
use crate::document::{Verdict, in_thousandths};
use crate::fitted_path::{fifo, fitted_element};
use crate::observe::{Exact, HopInput, Observation, measure_hop};
use crate::thresholds::SUREST;
use crate::verdict::{Subject, verdict_of};

/// A replayed mechanism, and the evidence against it (none for the winner).
pub struct Replayed {
    pub replay: Replay,
    /// Number of variants replayed, of which this one agrees best with the losses; 1 if there was no choice.
    pub variants: usize,
    pub why: Option<Fact>,
}

/// The verdict on a hop, and the replays behind it: the winner, if any, then its rivals.
pub(crate) fn hop_verdict(
    outcome: &Outcome,
    seen: &Observation,
    mut subject: Subject,
) -> (Verdict, Vec<Replayed>) {
    let cause = outcome.cause;
    let mut said = describe(outcome, seen);
    let Some(exact) = &seen.exact else {
        return (verdict_of(outcome, seen, said, subject), Vec::new());
    };
    let hop = &Hop { seen, exact };
    let value = |name: &str| said.parameters.get(name).map(|parameter| parameter.value);
    let overhead = said.byte_basis.map_or(0, |basis| basis.overhead_bytes());
    let mut replays: Vec<Replayed> = winner(cause, hop, &value)
        .map(|element| best_variant(hop, element.with_overhead(overhead), &value))
        .into_iter()
        .collect();
    replays.extend(rivals(cause, hop));
    subject.first = vec![where_lost(exact)];
    subject.first.extend(goodness(replays.first()));
    // of what was dropped by chance, or superseded, departures say nothing
    let departs = cause != Cause::RandomLoss && exact.thinning.is_none();
    said.counted.extend(exact.came_out_at().filter(|_| departs));
    subject.rivals = replays.iter().filter_map(ruled_out).collect();
    let mut outcome = Outcome {
        confidence: outcome.confidence.max(borne_out(replays.first())),
        ..outcome.clone()
    };
    let is_other = |(other, _): &(Cause, Fact)| *other != Cause::Policer;
    outcome.against.sort_by_key(is_other);
    let mut verdict = verdict_of(&outcome, seen, said, subject);
    let modelled = |replayed: &Replayed| replayed.replay.info(role(replayed), replayed.why.clone());
    verdict.models = replays.iter().map(modelled).collect();
    if let Some(winner) = replays.first().filter(|first| first.why.is_none()) {
        verdict.path = Some(winner.replay.path.clone());
    } else if let Some(path) = &mut verdict.path {
        let elements = path.elements.drain(..);
        path.elements = elements
            .map(|element| element.with_overhead(overhead))
            .collect();
    }
    (verdict, replays)
}

/// Measures a hop, and whether a full queue may have dropped its few losses.
pub(crate) fn measure(input: HopInput) -> Observation {
    let mut seen = measure_hop(input);
    let misses = full_queue_misses(&seen);
    if let Some(exact) = &mut seen.exact {
        exact.full_queue_misses = misses;
    }
    seen
}

/// The reason that no full queue dropped few packets: the best of its variants drops others only. A full queue finds
/// at least some of them, however unsure its parameters are.
fn full_queue_misses(seen: &Observation) -> Option<Fact> {
    let exact = (seen.exact.as_ref()).filter(|exact| exact.is_full_queue_unsure())?;
    let (parameters, basis) = queue::between(seen, exact)?;
    let overhead = basis.map_or(0, |basis| basis.overhead_bytes());
    let value = |name: &str| parameters.get(name).map(|parameter| parameter.value);
    let hop = &Hop { seen, exact };
    let element = winner(Cause::DeepQueue, hop, &value)?.with_overhead(overhead);
    let best = best_variant(hop, element, &value).replay;
    (best.dropped > 0 && best.hits == 0).then(|| misses_why(&best, "full-queue-misses"))
}

fn where_lost(exact: &Exact) -> Fact {
    let passages = &exact.passages;
    fact!(
        "lost-between",
        lost = passages.lost,
        entered = passages.lost + passages.passed
    )
}

/// The confidence from a model that, replayed freely, drops exactly the lost packets: its agreement with the
/// losses (harmonic mean of both shares).
fn borne_out(winner: Option<&Replayed>) -> f64 {
    winner
        .filter(|winner| winner.why.is_none() && winner.replay.lost > 2)
        .map_or(0.0, |winner| {
            let agree = winner.replay.agreement();
            in_thousandths(agree.min(SUREST))
        })
}

/// The share of drops and passes that the model reproduces, and whether the losses influenced the choice of
/// the model.
fn goodness(winner: Option<&Replayed>) -> Option<Fact> {
    let winner = winner.filter(|winner| winner.why.is_none())?;
    let replay = &winner.replay;
    Some(fact!(
        "model-replayed",
        dropped = replay.dropped,
        hits = replay.hits,
        lost = replay.lost,
        mistaken = replay.passed - replay.passed_right,
        variants = winner.variants
    ))
}

/// The model of the cause with its parameters, if it can be replayed.
fn winner(cause: Cause, hop: &Hop, value: &impl Fn(&str) -> Option<f64>) -> Option<ElementSpec> {
    match cause {
        // with a queue before it, a bucket receives packets at other times than they entered the hop
        Cause::Policer if hop.behind_queue.is_some() && hop.departures.is_some() => None,
        // packets that it drops have entered the queue before
        Cause::ShallowQueue if hop.thinning.is_some() => None,
        // a replay would drop other packets, by chance
        Cause::RandomLoss => None,
        Cause::ShallowQueue | Cause::DeepQueue => {
            // with unseen packets in the queue, a replay of the captured ones means nothing
            let departures = hop
                .departures
                .as_ref()
                .filter(|departures| departures.unseen_share == 0.0)?;
            let drains_bps = departures.rate_bps.value;
            let or_measured =
                |name: &str| value(name).or((name == "drain_rate_bps").then_some(drains_bps));
            fitted_element(cause, &or_measured)
        }
        Cause::Shaper => {
            let least_bytes = hop.packet_bytes() + LOWER_HEADERS_BYTES;
            let with_room = |name: &str| match name {
                "burst_bytes" => Some(value(name).unwrap_or(0.0).max(least_bytes)),
                _ => value(name),
            };
            fitted_element(cause, &with_room)
        }
        _ => fitted_element(cause, value),
    }
}

/// A queue's replay runs freely and its drops depend on every packet before. Of the variants that the
/// measured parameters leave open (counted bytes, whether the packet in service counts, the last per cent of
/// the rate), returns the one that agrees best with the losses.
fn best_variant(hop: &Hop, element: ElementSpec, value: &impl Fn(&str) -> Option<f64>) -> Replayed {
    let play = |element: ElementSpec| replay_over(&hop.passages, element.into(), hop.idle_wait_s());
    let only = |element: ElementSpec| Replayed {
        replay: play(element),
        variants: 1,
        why: None,
    };
    let ElementSpec::Fifo {
        rate_bps,
        overhead_bytes,
        ..
    } = element
    else {
        return only(element);
    };
    let rates = match hop.passages.len() > MOST_VARIED {
        true => &VARIED_RATES[..1],
        false => &VARIED_RATES,
    };
    let mut variants = Vec::new();
    for (limit_packets, limit_bytes) in
        [(value("limit_packets"), None), (None, value("limit_bytes"))]
    {
        if limit_packets.is_none() && limit_bytes.is_none() {
            continue;
        }
        for in_service in [InService::Counted, InService::NotCounted] {
            variants.extend(rates.iter().map(|factor| ElementSpec::Fifo {
                rate_bps: rate_bps * factor,
                limit_packets,
                limit_bytes,
                in_service,
                overhead_bytes,
            }));
        }
    }
    let tried = variants.len();
    let replays = variants.into_iter().map(play);
    let best = replays.reduce(|best, other| {
        if other.agreement() > best.agreement() {
            other
        } else {
            best
        }
    });
    best.map_or_else(
        || only(element),
        |replay| Replayed {
            replay,
            variants: tried,
            why: None,
        },
    )
}

/// Factors of the measured rate that are replayed, the rate itself first: the last per cent is open.
const VARIED_RATES: [f64; 5] = [1.0, 0.995, 0.9975, 1.0025, 1.005];
/// Longer captures are replayed in one variant only.
const MOST_VARIED: usize = 300_000;
/// A bucket smaller than a packet with the headers below IP lets nothing through.
const LOWER_HEADERS_BYTES: f64 = 100.0;

/// The mechanisms that competed, each with its best parameters, the strongest first.
fn rivals(cause: Cause, hop: &Hop) -> Vec<Replayed> {
    let mut rivals = Vec::new();
    let mut compete = |element: ElementSpec, why: &dyn Fn(&Replay) -> Fact| {
        let replay = replay_over(&hop.passages, element.into(), hop.idle_wait_s());
        let why = Some(why(&replay));
        rivals.push(Replayed {
            replay,
            variants: 1,
            why,
        });
    };
    let bucket = dropping_bucket(hop.exact);
    let queue = matches!(cause, Cause::ShallowQueue | Cause::DeepQueue);
    if let (false, Some(fit)) = (queue || cause == Cause::Shaper, &bucket) {
        let (rate_bps, limit_bytes) = (fit.rate_bps.value, fit.limit_bytes.value);
        let queue = fifo(rate_bps, None, Some(limit_bytes));
        if cause == Cause::Policer {
            compete(queue, &|replay| fifo_why(replay));
            let shaper = ElementSpec::shaper(rate_bps, limit_bytes);
            compete(shaper, &|replay| shaper_why(replay));
        }
    }
    if let (true, Some(fit)) = (cause != Cause::Policer && hop.passages.lost > 0, &bucket) {
        let policer = ElementSpec::policer(fit.rate_bps.value, fit.limit_bytes.value);
        compete(policer, &|replay| {
            if queue {
                waits_why(replay)
            } else {
                misses_why(replay, "policer-misses")
            }
        });
    }
    if let (false, Some(backlog), Some(departures)) = (
        queue || cause == Cause::Policer,
        &hop.backlog,
        &hop.departures,
    ) && backlog.packets.value >= 2.0
    {
        let fifo = fifo(departures.rate_bps.value, Some(backlog.packets.value), None);
        compete(fifo, &|replay| misses_why(replay, "full-queue-misses"));
    }
    rivals
}

fn fifo_why(replay: &Replay) -> Fact {
    fact!(
        "fifo-would-queue",
        rate_bps = replay.rate_bps(),
        longest_wait_s = replay.longest_wait_s,
        held_too_long = replay.delayed_too_long,
        seen_longest_wait_s = replay.seen_longest_wait_s,
        seen_longer = replay.seen_longer
    )
}

fn shaper_why(replay: &Replay) -> Fact {
    fact!(
        "shaper-would-queue",
        rate_bps = replay.rate_bps(),
        longest_wait_s = replay.longest_wait_s,
        lost = replay.lost,
        seen_longest_wait_s = replay.seen_longest_wait_s,
        seen_longer = replay.seen_longer
    )
}

fn waits_why(replay: &Replay) -> Fact {
    fact!(
        "queueing-delay-measured",
        rate_bps = replay.rate_bps(),
        seen_longest_wait_s = replay.seen_longest_wait_s
    )
}

fn misses_why(replay: &Replay, code: &'static str) -> Fact {
    fact!(
        code,
        rate_bps = replay.rate_bps(),
        dropped = replay.dropped,
        hits = replay.hits,
        lost = replay.lost
    )
}

/// The cause that a replay rules out, and the reason: stronger than the reasons of a single capture.
fn ruled_out(replayed: &Replayed) -> Option<(Cause, Fact)> {
    let cause = match replayed.replay.path.elements[..] {
        [ElementSpec::Policer { .. }] => Cause::Policer,
        [ElementSpec::Shaper { .. }] => Cause::Shaper,
        _ => Cause::ShallowQueue,
    };
    Some((cause, replayed.why.clone()?))
}

fn role(replayed: &Replayed) -> &'static str {
    match replayed.why {
        None => "winner",
        Some(_) => "rival",
    }
}
