//! The hop, or several, between two captures, observed: the packets that entered it, and what became of each.

use std::cell::RefCell;

use whydrop_path::fit::Agreement;
use whydrop_path::fit::passage::{
    Departures, Passages, backlog_at_losses, flow_overtaking, measure_departures,
};

use super::behind_queue::bucket_behind_queue;
use super::buckets::{Buckets, sharper};
use super::exact::Exact;
use super::group::GroupTrace;
use super::observation::Observation;
use super::totals::Totals;
use super::trace::measure_trace;
use super::{line, thinning};

/// The input of a hop's measurement.
pub struct HopInput {
    pub passages: Passages,
    /// Packets left the first point in super-segments.
    pub offloaded: bool,
    /// Counters of the flows that crossed, with the losses of this hop alone.
    pub totals: Totals,
    pub base_rtt_s: Option<f64>,
    /// Share of the packets that either capture lacks.
    pub missed_share: f64,
}

/// Least timestamp noise in seconds: the time that a kernel takes to stamp a packet.
const LEAST_NOISE_S: f64 = 1e-6;
/// ... and largest: transit times that vary by more do so because of queueing, seconds.
pub const MOST_NOISE_S: f64 = 1e-3;

/// Measures a hop.
pub fn measure_hop(input: HopInput) -> Observation {
    let HopInput {
        passages,
        offloaded,
        totals,
        base_rtt_s,
        missed_share,
    } = input;
    let (line_bps, passages) = match offloaded.then(|| line::find(&passages)).flatten() {
        Some((line_bps, through)) => (Some(line_bps), through),
        None => (None, passages),
    };
    let plain = GroupTrace {
        trace: passages.trace(0),
        origins: Vec::new(),
    };
    let mut seen = measure_trace(plain, None, totals, base_rtt_s);
    let passages = match seen.line_rate_bps {
        Some(queue_bps) => passages.through_line(queue_bps),
        None => passages,
    };
    seen.line_rate_bps = line_bps.or(seen.line_rate_bps);
    let departures = measure_departures(&passages).map(|found| of_others(found, missed_share));
    let noise_s = noise_s(&passages, departures.as_ref());
    let buckets = Buckets::find(
        &passages,
        &seen.group_trace.trace,
        seen.bucket.as_ref(),
        noise_s,
    );
    let bucket = buckets.single;
    seen.bucket = bucket.map(|refined| sharper(refined, seen.bucket));
    // the bucket is replayed with its refined parameters instead
    seen.replay = None;
    seen.delays_are_own = true;
    let idle_wait_s = departures.map_or(0.0, |departures| departures.idle_wait_s);
    let two = buckets.two.map(|two| two.pair.committed.agreement);
    let before = bucket.map(|fit| fit.agreement).into_iter().chain(two);
    let before: Vec<Agreement> = before.collect();
    // if no queue shows, two buckets explain the losses without one
    let may_wait = departures.is_some() || two.is_none();
    let behind_queue = may_wait
        .then(|| bucket_behind_queue(&passages, departures.as_ref(), &before, noise_s))
        .flatten()
        .map(|behind| behind.holding(bucket.as_ref()));
    seen.exact = Some(Exact {
        backlog: backlog_at_losses(&passages, idle_wait_s),
        overtaking: flow_overtaking(&passages, 3.0 * noise_s.min(MOST_NOISE_S)),
        // a bucket that fits behind a queue also fits two buckets before it for a while
        two_buckets: buckets.two.filter(|_| behind_queue.is_none()),
        behind_queue,
        thinning: thinning::accounts(&passages),
        marked: passages.marked.iter().filter(|marked| **marked).count(),
        bucket,
        bucket_basis: buckets.basis,
        departures,
        passages,
        noise_s,
        missed_share,
        full_queue_misses: None,
        replayed: RefCell::default(),
    });
    seen
}

/// Factor by which the unseen share of the service may exceed the share that captures lack: they lose more at
/// higher rates.
const MISSED_WHEN_BUSY: f64 = 1.5;

/// The departures with the share of other traffic: packets that the captures lack are served as well, and are
/// the only other traffic.
fn of_others(departures: Departures, missed_share: f64) -> Departures {
    let missed = departures.unseen_share <= MISSED_WHEN_BUSY * missed_share;
    Departures {
        unseen_share: if missed { 0.0 } else { departures.unseen_share },
        ..departures
    }
}

/// Variation of transit times without queueing.
fn noise_s(passages: &Passages, departures: Option<&Departures>) -> f64 {
    let spread_s = departures.map_or_else(
        || {
            let mut waits: Vec<f64> = passages
                .wait_s
                .iter()
                .copied()
                .filter(|wait| !wait.is_nan())
                .collect();
            waits.sort_by(f64::total_cmp);
            let at = |share: f64| {
                waits
                    .get((share * waits.len() as f64) as usize)
                    .copied()
                    .unwrap_or(0.0)
            };
            at(0.9) - at(0.1)
        },
        |departures| departures.idle_spread_s,
    );
    spread_s.max(LEAST_NOISE_S)
}
