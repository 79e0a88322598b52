//! Facts of the measurements: codes with numbers, which Python turns into sentences.

use whydrop_tcp::Limiter;
use whydrop_verdict::{Cause, Fact, fact};

use crate::cause::policer::{burst_before, burst_fact};
use crate::limits;
use crate::observe::Observation;
use crate::thresholds::{DELAY_EXPLAINED, FEWEST_BY_CHANCE, NEEDED_CERTAINTY, NEEDED_GAIN};

/// The headline: the effect of the cause, in numbers that are not among its parameters.
pub fn headline(cause: Cause, seen: &Observation) -> Fact {
    let totals = &seen.totals;
    let flows = totals.lossy_flows;
    match cause {
        Cause::DeepQueue => fact!(
            "dropped-by-deep-queue",
            flows = flows,
            longest_wait_s = seen
                .at_loss
                .as_ref()
                .map_or(0.0, |at_loss| at_loss.largest_s)
        ),
        Cause::Shaper if on_return_path(seen) => {
            fact!(
                "held-on-the-way-back",
                typical_wait_s = totals.typical_wait_back_s,
                longest_wait_s = totals.longest_wait_back_s
            )
        }
        Cause::Shaper => fact!(
            "held-by-shaper",
            longest_wait_s = longest_wait_s(seen),
            lost_besides = totals.lost_besides
        ),
        Cause::Aqm if totals.lost == 0 => fact!(
            "marked-by-aqm",
            marked = totals.ce_marked,
            echoes = totals.ecn_echoes
        ),
        Cause::Reordering => fact!(
            "reordered",
            reordered = totals.reordered,
            spurious = totals.spurious,
            lost_besides = totals.lost_besides
        ),
        Cause::ReceiverWindow => fact!(
            "held-by-window",
            window_share = totals.window_share(),
            closed_s = totals.window_closed_s,
            closed_share = totals.window_closed_s / totals.window_limited_s().max(1e-9),
            lost_besides = totals.lost_besides
        ),
        Cause::Sender => fact!(
            "held-by-sender",
            window_known = totals.window_known,
            lost_besides = totals.lost_besides,
            limiter = limits::largest(&totals.limited_s).map(|(limiter, _)| limiter.name()),
            limiter_share = limits::largest(&totals.limited_s).map(|(_, share)| share)
        ),
        Cause::PeerApplication => limited(Limiter::PeerApplication, "answered-late", seen),
        Cause::DelayedAck => limited(Limiter::DelayedAck, "acknowledgments-held", seen),
        Cause::Outage => fact!(
            "lost-in-silence",
            // losses too few for a pattern keep the time that the account attributes to them
            silence_s = seen
                .pattern
                .map_or(totals.limited_s[Limiter::Outage as usize], |pattern| {
                    pattern.silence.until_s - pattern.silence.from_s
                })
        ),
        Cause::CaptureLoss => fact!(
            "missed-by-capture",
            missed = totals.missed_by_capture_packets,
            acknowledged =
                (totals.missed_by_capture_packets).saturating_sub(totals.passed_over_packets),
            missed_share = totals.missed_share()
        ),
        Cause::None => fact!("nothing-lost", lasted_s = totals.longest_transfer_s),
        Cause::Policer => fact!("dropped-by-policer", flows = flows),
        Cause::ShallowQueue => fact!("dropped-by-shallow-queue", flows = flows),
        Cause::Aqm => fact!("dropped-by-aqm", flows = flows),
        Cause::RandomLoss => {
            let link = seen.link_busy();
            fact!(
                "dropped-at-random",
                flows = flows,
                link_rate_bps = link.map(|link| link.rate_bps),
                link_is_full = link.is_some_and(|link| link.is_full())
            )
        }
        _ => fact!(
            "unexplained",
            few = totals.lost > 0 && totals.lost < FEWEST_BY_CHANCE
        ),
    }
}

/// True if no queue on the forward path explains the delays, and the delays of the return path are known.
pub fn on_return_path(seen: &Observation) -> bool {
    !seen.queue_explains_delays() && !seen.delays_are_own && seen.totals.typical_wait_back_s > 0.0
}

/// Longest queueing delay: from the queue's model if that explains the delays.
fn longest_wait_s(seen: &Observation) -> f64 {
    let delays_s = seen.group_trace.trace.delay_s.iter();
    let longest_s = || f64::from(delays_s.copied().fold(0.0, f32::max));
    let drain = seen.drain.as_ref();
    let drain = drain.filter(|drain| drain.explained > DELAY_EXPLAINED);
    drain.map_or_else(longest_s, |drain| drain.largest_s)
}

/// Time for which a limiter limited the transfers, and its share of their time.
fn limited(limiter: Limiter, code: &'static str, seen: &Observation) -> Fact {
    let limited_s = seen.totals.limited_s;
    let own_s = limited_s[limiter as usize];
    let share = own_s / limited_s.iter().sum::<f64>().max(1e-9);
    Fact::new(code)
        .with("limited_s", own_s)
        .with("limited_share", share)
}

/// The facts that support the cause.
pub fn evidence_for(cause: Cause, seen: &Observation) -> Vec<Fact> {
    let totals = &seen.totals;
    let mut facts: Vec<Option<Fact>> = match cause {
        Cause::Policer => policer(seen),
        Cause::ShallowQueue | Cause::DeepQueue | Cause::Aqm if totals.lost > 0 => queue(seen),
        Cause::RandomLoss => random_loss(seen),
        Cause::Shaper if !on_return_path(seen) => vec![drain(seen)],
        Cause::ReceiverWindow => vec![
            Some(fact!(
                "window-full",
                window_share = totals.window_share(),
                busy_s = totals.busy_s
            )),
            (totals.zero_windows > 0 || totals.window_closed_s > 0.0).then(|| {
                fact!(
                    "window-closed",
                    times = totals.zero_windows,
                    closed_s = totals.window_closed_s,
                    probes = totals.window_probes
                )
            }),
        ],
        Cause::Reordering => vec![Some(fact!(
            "acknowledged-late",
            reordered = totals.reordered,
            data_packets = totals.data_packets
        ))],
        Cause::Sender => sender(seen),
        Cause::Unknown => vec![spacing(seen), arrives_evenly(seen)],
        _ => Vec::new(),
    };
    facts.push((totals.lost_low < totals.lost_high).then(|| {
        fact!(
            "losses-without-sack",
            low = totals.lost_low,
            high = totals.lost_high
        )
    }));
    facts.push(
        seen.line_rate_bps
            .map(|line| fact!("line-rate", line_rate_bps = line)),
    );
    facts.into_iter().flatten().collect()
}

/// The rate at which packets arrive at the receiver, if it is steady.
fn arrives_evenly(seen: &Observation) -> Option<Fact> {
    let arrivals = seen.arrivals.filter(|arrivals| arrivals.are_steady(1.0))?;
    (seen.totals.lost == 0).then(|| {
        fact!(
            "arrives-evenly",
            rate_bps = arrivals.rate_bps,
            steady_share = arrivals.steady_share
        )
    })
}

fn sender(seen: &Observation) -> Vec<Option<Fact>> {
    let totals = &seen.totals;
    if totals.at_receiver {
        return vec![Some(limited(
            Limiter::Application,
            "application-silent",
            seen,
        ))];
    }
    // only a part of each may lie beyond the capture point
    let round_trips = totals
        .whole_rtt_s
        .map(|whole_s| (totals.busy_s / whole_s) as u64)
        .filter(|round_trips| *round_trips > 0);
    let idle_share = totals.idle_s / (totals.busy_s + totals.idle_s).max(1e-9);
    let window_share = totals.window_known.then(|| totals.window_share());
    vec![
        Some(fact!(
            "nothing-lost-in-flight",
            busy_s = totals.busy_s,
            round_trips = round_trips,
            lost_besides = totals.lost_besides,
            window_share = window_share
        )),
        (idle_share > 0.01).then(|| fact!("idle", idle_share = idle_share)),
    ]
}

fn policer(seen: &Observation) -> Vec<Option<Fact>> {
    let (Some(fit), totals) = (&seen.bucket, &seen.totals) else {
        return Vec::new();
    };
    let at_bucket = seen.occupancy.as_ref().map(|occupancy| {
        fact!(
            "delay-at-spent-bucket",
            more_s = (occupancy.near_limit_s - occupancy.empty_s).max(0.0),
            queue_s = occupancy.expected_s
        )
    });
    let before_loss = || {
        seen.at_loss
            .as_ref()
            .map(|at_loss| fact!("waited-before-losses", median_s = at_loss.median_s))
    };
    vec![
        Some(fact!(
            "bucket-followed",
            data_packets = totals.data_packets,
            expected = u64::from(fit.agreement.expected_losses()),
            lost = totals.lost,
            certainty_share = fit.certainty()
        )),
        seen.replay.as_ref().map(|replay| {
            fact!(
                "bucket-replayed",
                dropped = replay.dropped,
                hits = replay.hits
            )
        }),
        burst_before(seen).map(|burst| burst_fact(&burst, seen)),
        at_bucket.or_else(before_loss),
    ]
}

fn queue(seen: &Observation) -> Vec<Option<Fact>> {
    let overflow = seen.bucket.as_ref().filter(|fit| fit.certainty() > 0.3);
    vec![
        seen.at_loss.as_ref().map(|at_loss| {
            fact!(
                "delay-before-losses",
                median_s = at_loss.median_s,
                low_s = at_loss.low_s,
                high_s = at_loss.high_s,
                longer_than_share = at_loss.mean_rank
            )
        }),
        drain(seen),
        overflow.map(|fit| {
            fact!(
                "queue-overflows",
                rate_bps = fit.rate_bps.value,
                limit_bytes = fit.limit_bytes.value,
                certainty_share = fit.certainty()
            )
        }),
    ]
}

fn drain(seen: &Observation) -> Option<Fact> {
    let drain = seen.drain.as_ref().filter(|drain| drain.explained > 0.3)?;
    Some(fact!(
        "queue-drains",
        rate_bps = drain.rate_bps,
        explained_share = drain.explained,
        residual_s = drain.residual_s
    ))
}

/// The spacing of the packets around losses before the capture point.
fn spacing(seen: &Observation) -> Option<Fact> {
    let holes = &seen.holes;
    let code = match () {
        () if holes.are_left() => "holes-left",
        () if holes.are_closed() => "holes-closed",
        () => return None,
    };
    Some(fact!(
        code,
        runs = holes.runs,
        empty = holes.empty,
        closed = holes.runs - holes.empty
    ))
}

fn random_loss(seen: &Observation) -> Vec<Option<Fact>> {
    let at_loss = seen.at_loss.as_ref();
    let bucket = seen.bucket.as_ref();
    vec![
        at_loss.map(|at_loss| {
            fact!(
                "losses-follow-no-queue",
                longer_than_share = at_loss.mean_rank
            )
        }),
        spacing(seen),
        // with so few losses that a bucket fits them by chance, a misfit means nothing
        bucket
            .filter(|fit| fit.certainty() < NEEDED_CERTAINTY)
            .map(|fit| fact!("best-bucket-poor", certainty_share = fit.certainty())),
        seen.link_busy().map(|link| {
            fact!(
                "link-busy",
                rate_bps = link.rate_bps,
                busy_share = link.share,
                is_full = link.is_full()
            )
        }),
    ]
}

/// The facts that contradict other causes.
pub fn against(cause: Cause, seen: &Observation) -> Vec<(Cause, Fact)> {
    let totals = &seen.totals;
    if totals.lost == 0 {
        return Vec::new();
    }
    let at_loss = seen.at_loss.as_ref();
    let mut reasons = Vec::new();
    if let (Cause::Policer | Cause::ShallowQueue | Cause::DeepQueue, Some(fit)) =
        (cause, &seen.bucket)
        && fit.gain() > NEEDED_GAIN
    {
        reasons.push((
            Cause::RandomLoss,
            fact!("chance-less-likely", gain_nats = fit.gain()),
        ));
    }
    if let (Cause::Policer, Some(at_loss)) = (cause, at_loss) {
        reasons.push((
            Cause::Aqm,
            fact!("delay-unmanaged", median_s = at_loss.median_s),
        ));
    }
    if cause == Cause::RandomLoss {
        reasons.push((Cause::Policer, fact!("no-bucket-better-than-chance")));
        reasons.extend(at_loss.map(|at_loss| {
            (
                Cause::DeepQueue,
                fact!(
                    "losses-not-at-longest-waits",
                    longer_than_share = at_loss.mean_rank
                ),
            )
        }));
    }
    // retransmissions of which most had arrived may have been late, and do not rule it out
    if totals.spurious <= totals.retransmitted / 2 {
        reasons.push((
            Cause::Reordering,
            fact!(
                "sent-again",
                retransmitted = totals.retransmitted,
                spurious = totals.spurious
            ),
        ));
    }
    let window_share = totals.window_share();
    if totals.window_known && window_share < 0.5 {
        reasons.push((
            Cause::ReceiverWindow,
            fact!("window-open", window_share = window_share),
        ));
    }
    reasons
}
