//! Packets with known fates and delays, measured: the bucket, the queue and the patterns that fit them.

use whydrop_path::fit::{
    BucketFit, Refined, delay_at_loss, delay_by_occupancy, envelope, loss_pattern, refine_beside,
};

use super::before_capture::Holes;
use super::datagram_share::DatagramsBeside;
use super::group::GroupTrace;
use super::observation::Observation;
use super::replay_check::ReplayCheck;
use super::senders_line::{ThroughLine, place_behind_line};
use super::totals::Totals;

/// Measures packets with known fates and delays. `slowest_line_bps` is the lowest rate at which
/// super-segments leave the first point, if there are any.
pub fn measure_trace(
    plain: GroupTrace,
    slowest_line_bps: Option<f64>,
    totals: Totals,
    base_rtt_s: Option<f64>,
) -> Observation {
    let ThroughLine {
        group_trace,
        bucket,
        drain,
        line_rate_bps,
    } = place_behind_line(plain, slowest_line_bps, base_rtt_s);
    let trace = &group_trace.trace;
    let occupancy = bucket
        .as_ref()
        .and_then(|fit| delay_by_occupancy(trace, fit.rate_bps.value, fit.limit_bytes.value));
    Observation {
        replay: bucket
            .as_ref()
            .map(|fit| ReplayCheck::of(&group_trace, fit)),
        at_loss: delay_at_loss(trace),
        pattern: loss_pattern(trace),
        totals,
        base_rtt_s,
        bucket,
        occupancy,
        drain,
        line_rate_bps,
        group_trace,
        delays_are_own: false,
        by_clocks: false,
        beside: DatagramsBeside::default(),
        tick_s: 0.0,
        stood_s: 0.0,
        holes: Holes::default(),
        arrivals: None,
        outside: false,
        exact: None,
        laws: None,
    }
}

/// A bucket that removes this share of the uncertainty about the losses caused nearly all of them.
const ALONE: f64 = 0.6;
/// Fewer losses are not separated into two causes.
const FEWEST_SEPARABLE: usize = 10;
/// A bucket that caused only some of them must be this much more likely, nats.
const BESIDE_GAIN: f64 = 10.0;

/// Looks for a bucket that caused some of the losses, if none caused nearly all of them.
pub fn find_partial_bucket(seen: &mut Observation) {
    let trace = &seen.group_trace.trace;
    let alone = |fit: BucketFit| fit.certainty() > ALONE;
    if trace.lost < FEWEST_SEPARABLE || seen.bucket.is_some_and(alone) {
        return;
    }
    let Some(envelope) = envelope(trace) else {
        return;
    };
    let starts = match envelope.pair(trace) {
        Some(pair) => pair.to_vec(),
        None => vec![envelope.single(trace).0],
    };
    let starts = starts.into_iter();
    let fits = starts.filter_map(|start| refine_beside(trace, &start, trace.typical_bytes));
    let best = fits
        .map(|(refined, _)| refined)
        .max_by(|a, b| a.fit().score().total_cmp(&b.fit().score()));
    let known = seen
        .bucket
        .map_or(f64::MIN, |known| known.score() + BESIDE_GAIN);
    let better = |best: &Refined| best.fit().score() > known && alone(*best.fit());
    if let Some(best) = best.filter(better) {
        let fit = best.complete();
        seen.occupancy = delay_by_occupancy(trace, fit.rate_bps.value, fit.limit_bytes.value);
        seen.replay = Some(ReplayCheck::of(&seen.group_trace, &fit));
        seen.bucket = Some(fit);
    }
}
