//! The verdict on a stretch of path in words, with what was replayed to rule others out.

use whydrop_path::InService;

use super::judge::{Family, HopJudgement};
use super::measure::Hop;
use super::models::{Element, Replay, replay_over};
use super::parameters::{dropping_bucket, hop_parameters};
use crate::cause::Cause;
use crate::document::{Against, ModelInfo, Verdict};
use crate::verdict::{explained, verdict_with};
use crate::words::{bytes, count, duration, percent, plural, rate};

/// A mechanism that was replayed, and what speaks against it (nothing, for the winner).
pub struct Replayed {
    pub replay: Replay,
    /// Variants that were replayed, of which this one agrees best with the losses; 1 where there was no choice.
    pub variants: usize,
    pub why: Option<String>,
}

/// The verdict on a stretch, and the replays behind it: the winner first where there is one, then its rivals.
pub fn hop_verdict(
    judged: &HopJudgement,
    hop: &Hop,
    place: &str,
    flows: Vec<String>,
    mss_bytes: f64,
) -> (Verdict, Vec<Replayed>) {
    let (parameters, basis) = hop_parameters(judged, hop);
    let value = |name: &str| parameters.get(name).map(|parameter| parameter.value);
    let overhead = basis.map_or(0, |basis| basis.overhead_bytes());
    let mut replays: Vec<Replayed> = winner(judged, hop, &value)
        .map(|element| best_variant(hop, element, overhead, &value))
        .into_iter()
        .collect();
    replays.extend(rivals(judged.judgement.cause, hop));
    let share = explained_between(judged.judgement.cause, hop);
    let mut verdict = verdict_with(
        &judged.judgement,
        &hop.evidence,
        parameters,
        share,
        flows,
        mss_bytes,
    );
    verdict.confidence = verdict.confidence.max(borne_out(replays.first()));
    verdict.byte_basis = basis.map(|basis| basis.name().to_owned());
    verdict.place = Some(place.to_owned());
    verdict.family = judged.family.map(|family| family.name().to_owned());
    let mut lines = vec![where_lost(hop, place)];
    lines.extend(goodness(replays.first()));
    lines.extend(describe(judged, hop));
    lines.append(&mut verdict.evidence);
    verdict.evidence = lines;
    add_rivals(&mut verdict, &replays);
    verdict.models = replays.iter().map(model_info).collect();
    (verdict, replays)
}

/// Share of the losses that the cause accounts for.
fn explained_between(cause: Cause, hop: &Hop) -> f64 {
    match (cause, &hop.held) {
        (Cause::Policer, _) => {
            let Some(fit) = dropping_bucket(hop) else {
                return 0.0;
            };
            let expected = match &hop.two_buckets {
                Some(two) => two.explained,
                None => fit.agreement.expected_losses() as usize,
            };
            (expected as f64 / hop.passages.lost.max(1) as f64).min(1.0)
        }
        (Cause::ShallowQueue | Cause::DeepQueue | Cause::Aqm, Some(held)) => {
            explained(cause, &hop.evidence).max(1.0 - held.found_empty)
        }
        _ => explained(cause, &hop.evidence),
    }
}

fn where_lost(hop: &Hop, place: &str) -> String {
    let passages = &hop.passages;
    format!(
        "{} of {} that entered never came out: lost {place}",
        count(passages.lost as u64),
        plural((passages.lost + passages.passed) as u64, "packet"),
    )
}

/// A model that by itself drops the very packets that were lost, and no others, is beyond doubt: the share of its drops
/// and of the losses that agree (their harmonic mean).
fn borne_out(winner: Option<&Replayed>) -> f64 {
    winner
        .filter(|winner| winner.why.is_none() && winner.replay.lost > 2)
        .map_or(0.0, |winner| {
            let replay = &winner.replay;
            let agree = 2.0 * replay.hits as f64 / (replay.dropped + replay.lost) as f64;
            (agree.min(0.99) * 1000.0).round() / 1000.0
        })
}

/// How many of the drops and passes the model gets right, and whether the losses had a say in which model it is.
fn goodness(winner: Option<&Replayed>) -> Option<String> {
    let winner = winner.filter(|winner| winner.why.is_none())?;
    let replay = &winner.replay;
    let (blind, chosen) = match winner.variants {
        1 => (", without looking at the losses", String::new()),
        variants => (
            "",
            format!(
                "; of {} that were replayed this one agrees best with the losses",
                plural(variants as u64, "variant")
            ),
        ),
    };
    Some(format!(
        "replayed over the packets that entered{blind}, it drops {}: {} of the {} lost ones, and {} of the others by mistake{chosen}",
        plural(replay.dropped as u64, "packet"),
        count(replay.hits as u64),
        count(replay.lost as u64),
        count((replay.passed - replay.passed_right) as u64),
    ))
}

fn describe(judged: &HopJudgement, hop: &Hop) -> Vec<String> {
    let mut lines = Vec::new();
    let cause = judged.judgement.cause;
    if let (Cause::ShallowQueue | Cause::DeepQueue | Cause::Aqm, Some(held)) = (cause, &hop.held) {
        let (low, high) = (
            held.packets.low.unwrap_or(0.0),
            held.packets.high.unwrap_or(0.0),
        );
        lines.push(if high - low < 0.5 {
            format!(
                "each lost packet found {} inside; no other found more than {}",
                plural(held.packets.value as u64, "packet"),
                count(held.most_passed_packets as u64)
            )
        } else {
            format!(
                "lost packets found {} to {} packets inside (median {}); others found up to {}",
                count(low as u64),
                count(high as u64),
                count(held.packets.value as u64),
                count(held.most_passed_packets as u64)
            )
        });
    }
    if let (false, Some(departures)) = (cause == Cause::RandomLoss, &hop.departures) {
        let unseen = if departures.unseen_share > 0.0 {
            format!(
                "; {} of its service went to packets that are in neither capture",
                percent(departures.unseen_share)
            )
        } else {
            String::new()
        };
        lines.push(format!(
            "while packets waited they came out at {} (IP bytes), by {}{unseen}",
            rate(departures.rate_bps.value),
            plural(departures.served as u64, "departure"),
        ));
    }
    match judged.family {
        Some(Family::FlowQueueing) => lines.push(format!(
            "{} overtook packets of other flows, and {} of their own: each flow has a queue of its own",
            plural(hop.overtaking.between_flows as u64, "packet"),
            match hop.overtaking.within_flows {
                0 => "none".to_owned(),
                some => count(some as u64),
            }
        )),
        Some(Family::CoDel) => lines.push(
            "CoDel with the parameters of RFC 8289, replayed over the packets that entered, drops most of the very packets that were lost"
                .to_owned(),
        ),
        _ => {}
    }
    if judged.beside_queue
        && let Some(departures) = &hop.departures
    {
        let place = if hop.behind_queue.is_some() {
            "behind"
        } else {
            "before"
        };
        lines.push(format!(
            "the policer stands {place} a queue that drains at {}, and delays packets by up to {}",
            rate(departures.rate_bps.value),
            duration(departures.long_wait_s)
        ));
    }
    if let (Cause::Policer, Some(two)) = (cause, &hop.two_buckets) {
        lines.push(format!(
            "two buckets in company: {} that found no room in the one of {} did find it in the one of {}, and {} the other way round",
            plural(two.committed.alone as u64, "lost packet"),
            rate(two.committed.rate_bps.value),
            rate(two.peak.rate_bps.value),
            count(two.peak.alone as u64)
        ));
    }
    lines
}

/// The model of the cause with its parameters, where it can be replayed.
fn winner(
    judged: &HopJudgement,
    hop: &Hop,
    value: &impl Fn(&str) -> Option<f64>,
) -> Option<Element> {
    match judged.judgement.cause {
        // a bucket behind the queue sees other arrivals than those that entered
        Cause::Policer if hop.behind_queue.is_none() => Some(Element::Policer {
            rate_bps: value("rate_bps")?,
            burst_bytes: value("burst_bytes")?,
            peak: value("peak_rate_bps").zip(value("peak_burst_bytes")),
        }),
        Cause::ShallowQueue | Cause::DeepQueue => {
            // with packets inside that were not seen, a replay of those that were tells nothing
            let departures = hop
                .departures
                .as_ref()
                .filter(|departures| departures.unseen_share == 0.0)?;
            let limit_packets = value("limit_packets");
            Some(Element::Fifo {
                rate_bps: value("drain_rate_bps").unwrap_or(departures.rate_bps.value),
                limit_bytes: value("limit_bytes").filter(|_| limit_packets.is_none()),
                limit_packets,
                in_service: InService::Counted,
            })
        }
        Cause::Shaper => Some(Element::Shaper {
            rate_bps: value("rate_bps")?,
            burst_bytes: value("burst_bytes")
                .unwrap_or(0.0)
                .max(hop.packet_bytes() + 100.0),
        }),
        Cause::Aqm if judged.family == Some(Family::CoDel) => Some(Element::CoDel {
            rate_bps: value("drain_rate_bps")?,
        }),
        _ => None,
    }
}

/// A queue's replay runs by itself and its drops depend on every packet before: of the variants that the measured
/// parameters leave open (what it counts, whether the packet in service counts, the last per cent of its rate) the one
/// that agrees best with the losses.
fn best_variant(
    hop: &Hop,
    element: Element,
    overhead: u32,
    value: &impl Fn(&str) -> Option<f64>,
) -> Replayed {
    let play = |element| replay_over(&hop.passages, element, overhead, hop.idle_wait_s());
    let only = |element| Replayed {
        replay: play(element),
        variants: 1,
        why: None,
    };
    let Element::Fifo { rate_bps, .. } = element else {
        return only(element);
    };
    let long = hop.passages.len() > MOST_VARIED;
    let rates: &[f64] = if long {
        &[1.0]
    } else {
        &[1.0, 0.995, 0.9975, 1.0025, 1.005]
    };
    let mut variants = Vec::new();
    for (limit_packets, limit_bytes) in
        [(value("limit_packets"), None), (None, value("limit_bytes"))]
    {
        if limit_packets.is_none() && limit_bytes.is_none() {
            continue;
        }
        for in_service in [InService::Counted, InService::NotCounted] {
            variants.extend(rates.iter().map(|factor| Element::Fifo {
                rate_bps: rate_bps * factor,
                limit_packets,
                limit_bytes,
                in_service,
            }));
        }
    }
    // the harmonic mean of the share of its drops that are right and the share of the losses that it drops
    let right = |replay: &Replay| replay.hits as f64 / (replay.dropped + replay.lost) as f64;
    let tried = variants.len();
    let replays = variants.into_iter().map(play);
    let best = replays.reduce(|best, other| {
        if right(&other) > right(&best) {
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

/// Longer captures are not replayed in every variant.
const MOST_VARIED: usize = 300_000;

/// The mechanisms that competed, each with the parameters that suit it best, the strongest first.
fn rivals(cause: Cause, hop: &Hop) -> Vec<Replayed> {
    let mut rivals = Vec::new();
    let mut compete = |element: Element, why: &dyn Fn(&Replay) -> String| {
        let replay = replay_over(&hop.passages, element, 0, hop.idle_wait_s());
        let why = Some(why(&replay));
        rivals.push(Replayed {
            replay,
            variants: 1,
            why,
        });
    };
    let bucket = dropping_bucket(hop);
    let queue = matches!(cause, Cause::ShallowQueue | Cause::DeepQueue);
    if let (false, Some(fit)) = (queue || cause == Cause::Shaper, &bucket) {
        let (rate_bps, limit_bytes) = (fit.rate_bps.value, Some(fit.limit_bytes.value));
        let fifo = Element::Fifo {
            rate_bps,
            limit_packets: None,
            limit_bytes,
            in_service: InService::Counted,
        };
        if cause == Cause::Policer {
            compete(fifo, &|replay| fifo_why(replay));
            let shaper = Element::Shaper {
                rate_bps,
                burst_bytes: fit.limit_bytes.value,
            };
            compete(shaper, &|replay| shaper_why(replay));
        }
    }
    if let (true, Some(fit)) = (cause != Cause::Policer && hop.passages.lost > 0, &bucket) {
        let policer = Element::Policer {
            rate_bps: fit.rate_bps.value,
            burst_bytes: fit.limit_bytes.value,
            peak: None,
        };
        compete(policer, &|replay| {
            if queue {
                waits_why(replay)
            } else {
                misses_why(replay, "policer")
            }
        });
    }
    if let (false, Some(held), Some(departures)) =
        (queue || cause == Cause::Policer, &hop.held, &hop.departures)
        && held.packets.value >= 2.0
    {
        let fifo = Element::Fifo {
            rate_bps: departures.rate_bps.value,
            limit_packets: Some(held.packets.value),
            limit_bytes: None,
            in_service: InService::Counted,
        };
        compete(fifo, &|replay| misses_why(replay, "full queue"));
    }
    rivals
}

fn seen_longest(replay: &Replay) -> String {
    match replay.seen_longer {
        0 => format!(
            "none took more than {} longer than the fastest",
            duration(replay.seen_longest_wait_s)
        ),
        some => format!(
            "all but {} took less than {} longer than the fastest",
            count(some as u64),
            duration(replay.seen_longest_wait_s)
        ),
    }
}

fn fifo_why(replay: &Replay) -> String {
    format!(
        "a FIFO draining at {} would have held some packets for {}, and {} of them for longer than any was seen to wait; {}",
        rate(replay.element.rate_bps()),
        duration(replay.longest_wait_s),
        count(replay.held_too_long as u64),
        seen_longest(replay)
    )
}

fn shaper_why(replay: &Replay) -> String {
    format!(
        "a shaper at {} drops nothing until its queue is full: it would have held packets for up to {} instead of losing {}; {}",
        rate(replay.element.rate_bps()),
        duration(replay.longest_wait_s),
        count(replay.lost as u64),
        seen_longest(replay)
    )
}

fn waits_why(replay: &Replay) -> String {
    format!(
        "a policer at {} delays nothing; packets were seen to wait for up to {}",
        rate(replay.element.rate_bps()),
        duration(replay.seen_longest_wait_s)
    )
}

fn misses_why(replay: &Replay, noun: &str) -> String {
    format!(
        "the best {noun}, at {}, would have dropped {}, only {} of them among the {} that were lost",
        rate(replay.element.rate_bps()),
        plural(replay.dropped as u64, "packet"),
        count(replay.hits as u64),
        count(replay.lost as u64)
    )
}

/// Replayed rivals tell more than what one capture has against the same causes.
fn add_rivals(verdict: &mut Verdict, replays: &[Replayed]) {
    let mut reasons: Vec<Against> = Vec::new();
    for replayed in replays {
        let Some(why) = &replayed.why else { continue };
        let cause = match replayed.replay.element {
            Element::Policer { .. } => Cause::Policer,
            Element::Shaper { .. } => Cause::Shaper,
            _ => Cause::ShallowQueue,
        };
        if !reasons.iter().any(|reason| reason.cause == cause.name()) {
            reasons.push(Against {
                cause: cause.name().to_owned(),
                why: why.clone(),
            });
        }
    }
    for reason in verdict.against.drain(..) {
        if !reasons.iter().any(|known| known.cause == reason.cause) && reason.cause != verdict.cause
        {
            reasons.push(reason);
        }
    }
    verdict.against = reasons;
}

fn model_info(replayed: &Replayed) -> ModelInfo {
    let replay = &replayed.replay;
    let (limit_bytes, limit_packets) = match replay.element {
        Element::Policer { burst_bytes, .. } | Element::Shaper { burst_bytes, .. } => {
            (Some(burst_bytes), None)
        }
        Element::Fifo {
            limit_packets,
            limit_bytes,
            ..
        } => (limit_bytes, limit_packets),
        Element::CoDel { .. } => (None, None),
    };
    ModelInfo {
        role: if replayed.why.is_none() {
            "winner"
        } else {
            "rival"
        }
        .to_owned(),
        element: replay.element.name().to_owned(),
        title: title(&replay.element),
        rate_bps: replay.element.rate_bps(),
        limit_bytes,
        limit_packets,
        dropped: replay.dropped,
        hits: replay.hits,
        passed_right: replay.passed_right,
        lost: replay.lost,
        passed: replay.passed,
        longest_wait_s: replay.longest_wait_s,
        seen_longest_wait_s: replay.seen_longest_wait_s,
        wait_error_s: replay.wait_error_s,
        why: replayed.why.clone(),
    }
}

fn title(element: &Element) -> String {
    match element {
        Element::Policer {
            rate_bps,
            burst_bytes,
            peak: None,
        } => format!(
            "Policer at {} with a {} bucket",
            rate(*rate_bps),
            bytes(*burst_bytes)
        ),
        Element::Policer {
            rate_bps,
            burst_bytes,
            peak: Some((peak_bps, peak_bytes)),
        } => format!(
            "Policer at {} with a {} bucket and {} with {}",
            rate(*rate_bps),
            bytes(*burst_bytes),
            rate(*peak_bps),
            bytes(*peak_bytes)
        ),
        Element::Fifo {
            rate_bps,
            limit_packets: Some(packets),
            ..
        } => format!(
            "FIFO draining at {} with room for {}",
            rate(*rate_bps),
            plural(*packets as u64, "packet")
        ),
        Element::Fifo {
            rate_bps,
            limit_bytes: Some(limit),
            ..
        } => format!(
            "FIFO draining at {} with room for {}",
            rate(*rate_bps),
            bytes(*limit)
        ),
        Element::Fifo { rate_bps, .. } => {
            format!("FIFO draining at {} without limit", rate(*rate_bps))
        }
        Element::Shaper {
            rate_bps,
            burst_bytes,
        } => {
            format!(
                "Shaper at {} with a burst of {}",
                rate(*rate_bps),
                bytes(*burst_bytes)
            )
        }
        Element::CoDel { rate_bps } => format!("CoDel draining at {}", rate(*rate_bps)),
    }
}
