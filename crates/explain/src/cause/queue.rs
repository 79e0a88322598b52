//! A queue that is full: it admits no packet until one has left.
//!
//! It is shallow or deep, from the delay that it adds and the packets that it then holds.

mod exact_limit;
mod limit;

use whydrop_path::fit::{BucketFit, DelayAtLoss, DrainFit};
use whydrop_verdict::{Cause, Fact, fact};

use super::law_followed::drops_early;
use super::policer::{self, beside_queue, no_queue};
use super::{Description, Hypothesis, Parameters, Patterns, Weight};
use crate::observe::{Exact, Observation, Thinning};
use crate::quantities::{Scale, drain_rate, most_counted};
use crate::thresholds::*;
pub use exact_limit::between;
use limit::queue_limit;

pub struct FullQueue;

impl Hypothesis for FullQueue {
    fn causes(&self) -> &'static [Cause] {
        &QUEUES
    }

    fn weigh(&self, seen: &Observation, patterns: &Patterns) -> Vec<Weight> {
        weigh(seen, patterns)
    }

    fn describe(&self, cause: Cause, seen: &Observation) -> Description {
        let flows = seen.totals.lossy_flows;
        let longest_s = seen
            .at_loss
            .as_ref()
            .map_or(0.0, |at_loss| at_loss.largest_s);
        let headline = match cause {
            Cause::DeepQueue => fact!(
                "dropped-by-deep-queue",
                flows = flows,
                longest_wait_s = longest_s
            ),
            _ => fact!("dropped-by-shallow-queue", flows = flows),
        };
        let said = Description {
            facts: match seen.totals.lost {
                0 => Vec::new(),
                _ => queue_facts(seen),
            },
            against: seen.chance_less_likely().into_iter().collect(),
            explained: seen.share_delayed(),
            limited_share: seen.busy_share(),
            parameters: parameters(seen),
            ..Description::new(headline)
        };
        match &seen.exact {
            Some(exact) => describe_between(said, seen, exact),
            None => said,
        }
    }
}

/// From two captures.
fn describe_between(said: Description, seen: &Observation, exact: &Exact) -> Description {
    if let Some(thinning) = &exact.thinning {
        return describe_thinning(said, seen, exact, thinning);
    }
    let counted = exact_limit::between(seen, exact);
    let (parameters, byte_basis) = counted.unwrap_or((said.parameters, None));
    Description {
        counted: found_inside(exact),
        parameters,
        byte_basis,
        ..said
    }
}

/// A slow link that drops superseded acknowledgments.
fn describe_thinning(
    said: Description,
    seen: &Observation,
    exact: &Exact,
    thinning: &Thinning,
) -> Description {
    let thinned = fact!(
        "acknowledgments-thinned",
        dropped = thinning.dropped,
        hits = thinning.hits,
        lost = thinning.lost,
        rate_bps = thinning.rate_bps.value
    );
    let scale = Scale::new(None, seen.packet_bytes(), &exact.passages);
    let rate = scale.apply_to_rate(thinning.rate_bps);
    Description {
        counted: vec![thinned],
        parameters: Parameters::from([("drain_rate_bps".to_owned(), rate)]),
        explained: thinning.hits as f64 / thinning.lost.max(1) as f64,
        ..said
    }
}

/// From one capture.
fn parameters(seen: &Observation) -> Parameters {
    let rate = [("drain_rate_bps", drain_rate(seen))];
    let limit = queue_limit(seen, most_counted(seen));
    let limits = limit.map(|limit| {
        [
            ("limit_packets", limit.packets),
            ("limit_bytes", limit.bytes),
        ]
    });
    let all = rate.into_iter().chain(limits.into_iter().flatten());
    all.map(|(name, quantity)| (name.to_owned(), quantity))
        .collect()
}

/// The facts that delays show of a queue that drops.
pub fn queue_facts(seen: &Observation) -> Vec<Fact> {
    let overflow = seen
        .bucket
        .as_ref()
        .filter(|fit| fit.certainty() > WEAK_CERTAINTY);
    let facts = [
        seen.at_loss.as_ref().map(|at_loss| {
            fact!(
                "delay-before-losses",
                median_s = at_loss.median_s,
                low_s = at_loss.low_s,
                high_s = at_loss.high_s,
                longer_than_share = at_loss.mean_rank
            )
        }),
        seen.queue_drains(),
        overflow.map(|fit| {
            fact!(
                "queue-overflows",
                rate_bps = fit.rate_bps.value,
                limit_bytes = fit.limit_bytes.value,
                certainty_share = fit.certainty()
            )
        }),
    ];
    facts.into_iter().flatten().collect()
}

/// The packets that lost ones found in the queue.
pub fn found_inside(exact: &Exact) -> Vec<Fact> {
    let Some(backlog) = &exact.backlog else {
        return Vec::new();
    };
    let (low, high) = (
        backlog.packets.low.unwrap_or(0.0),
        backlog.packets.high.unwrap_or(0.0),
    );
    let (median, most) = (
        backlog.packets.value as u64,
        backlog.most_passed_packets as u64,
    );
    vec![if high - low < 0.5 {
        fact!("found-as-much-queued", inside = median, most = most)
    } else {
        fact!(
            "found-queued",
            low = low as u64,
            high = high as u64,
            median = median,
            most = most
        )
    }]
}

/// Both, where one reason rules out all queues.
const QUEUES: [Cause; 2] = [Cause::ShallowQueue, Cause::DeepQueue];

fn weigh(seen: &Observation, patterns: &Patterns) -> Vec<Weight> {
    if let (Some(exact), true) = (&seen.exact, seen.full_queue_shows()) {
        return vec![shown_exactly(seen, exact)];
    }
    let veto = veto(seen);
    let own = own_weight(seen, patterns);
    let is_own = |queue: &Cause| own.as_ref().is_some_and(|own| own.cause == *queue);
    let others = QUEUES.into_iter().filter(|queue| !is_own(queue));
    let ruled_out = others.filter_map(|queue| Some(Weight::ruled_out(queue, veto.clone()?)));
    let mut weights: Vec<Weight> = ruled_out.collect();
    weights.extend(own.map(|own| Weight {
        veto: veto.or(own.veto),
        ..own
    }));
    weights
}

/// A queue that every lost packet found full, and no other, counted between two captures.
fn shown_exactly(seen: &Observation, exact: &Exact) -> Weight {
    let own = Weight::shown(seen.queue_depth(), exact.full_queue_confidence());
    Weight::new(own.cause, own.nats + EXACT_FATES_NATS)
}

/// The reason that rules out queues of any depth.
fn veto(seen: &Observation) -> Option<Fact> {
    let exactly = seen.exact.as_ref().and_then(|exact| {
        let others = || beside_queue(seen, exact).map(|(_, why)| why);
        let early = || drops_early(seen).then(|| exact.early_reason());
        let lets_in = exact.lets_in().then(|| exact.early_reason());
        let misses = || exact.full_queue_misses.clone();
        others().or(lets_in).or_else(misses).or_else(early)
    });
    exactly.or_else(|| policer::stands(seen).then(|| no_queue(seen)))
}

/// The weight from delays and from the pattern of the losses.
fn own_weight(seen: &Observation, patterns: &Patterns) -> Option<Weight> {
    let depth = seen.queue_depth();
    if depth == Cause::Unknown || !seen.are_delays_measurable() {
        return None;
    }
    let background = patterns.background();
    let delays = patterns.with_delay() - background;
    if overflows(seen) || seen.tail_drop_shows() {
        // a queue that overflows makes the pattern of a bucket too
        return Some(Weight::new(depth, delays.max(patterns.bucket - background)));
    }
    let unmanaged = seen.waits_unmanaged();
    let is_one_queues = || unmanaged && seen.delays_are_one_queues();
    if seen.drops_begin_late().is_some() || is_one_queues() {
        return Some(Weight::new(Cause::DeepQueue, delays.max(CHANCE_NATS)));
    }
    let at_loss = seen.at_loss.as_ref()?;
    (!unmanaged && !seen.drops_at_one_delay())
        .then(|| Weight::ruled_out(depth, early_drop_reason(at_loss)))
}

/// True if packets waited as long as the bucket that explains the losses takes to drain.
pub fn overflows(seen: &Observation) -> bool {
    seen.queue_shows() == Some(true)
        && drains_at_drop_rate(seen)
        && (seen.loses_again() && seen.bucket.as_ref().is_some_and(policer::fits)
            || bucket_fits_a_queue(seen))
}

/// True if a queue drains at the rate at which it drops, and, when full, delays packets by the time that its
/// size takes. If the delays are shorter, their own rate must agree: shapers let a burst pass first.
fn drains_at_drop_rate(seen: &Observation) -> bool {
    let as_full = (seen.occupancy.as_ref())
        .is_some_and(|occupancy| occupancy.ratio_bounds().1 > FULL_QUEUE_RATIO);
    let rates = seen.bucket.as_ref().zip(seen.drain.as_ref());
    let alike = |(fit, drain): (&BucketFit, &DrainFit)| {
        (drain.rate_bps / fit.rate_bps.value).ln().abs() < ALIKE_RATES
    };
    as_full || seen.queue_explains_delays() && rates.is_some_and(alike)
}

/// True if the bucket fits a queue. If delays already show a queue and losses come with it, the pattern of
/// losses may be less sharp: the queue may count packets or cells, and drain in units of its own.
fn bucket_fits_a_queue(seen: &Observation) -> bool {
    let sharp_enough =
        |fit: &BucketFit| fit.gain() >= NEEDED_GAIN && fit.certainty() >= WEAK_CERTAINTY;
    seen.losses_follow_delay() && seen.bucket.as_ref().is_some_and(sharp_enough)
}

/// The reason why lost packets found no full queue, from the delays around the losses.
fn early_drop_reason(at_loss: &DelayAtLoss) -> Fact {
    if at_loss.largest_s < SHORTEST_DELAY_S {
        return fact!("nothing-waited", longest_wait_s = at_loss.largest_s);
    }
    fact!(
        "losses-at-many-delays",
        low_s = at_loss.low_s,
        high_s = at_loss.high_s,
        largest_s = at_loss.largest_s
    )
}

/// A slow link that drops acknowledgments superseded by newer ones: its drops say nothing of any other
/// mechanism.
pub fn superseded_acknowledgments(seen: &Observation) -> Option<Weight> {
    let thinning = seen.exact.as_ref()?.thinning.as_ref()?;
    let confidence = thinning.agreement().clamp(0.5, SUREST);
    Some(Weight::shown(Cause::ShallowQueue, confidence))
}
