//! Measurements of a hop before a mechanism is named.

use whydrop_path::fit::passage::{
    BacklogAtLosses, Departures, FlowOvertaking, Passages, backlog_at_losses, flow_overtaking,
    measure_departures,
};
use whydrop_path::fit::{Agreement, BucketFit};

use super::behind_queue::{BehindQueue, bucket_behind_queue};
use super::buckets::{Buckets, TwoBuckets, noise_bytes, sharper};
use super::byte_basis::ByteBasis;
use super::line;
use super::thinning::{self, Thinning};
use crate::evidence::{Evidence, measure_trace};
use crate::group::GroupTrace;
use crate::totals::Totals;

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

/// All measurements of one hop in one direction.
#[derive(Debug)]
pub struct Hop {
    /// Packets as they enter the hop: behind the sender's line, if they were captured before it.
    pub passages: Passages,
    /// Losses and delays, as for one capture, but exact.
    pub evidence: Evidence,
    pub departures: Option<Departures>,
    pub backlog: Option<BacklogAtLosses>,
    pub overtaking: FlowOvertaking,
    /// The bucket fitted to the losses, refined.
    pub bucket: Option<BucketFit>,
    /// A dual-rate policer, if a single bucket does not explain the losses.
    pub two_buckets: Option<TwoBuckets>,
    /// A bucket that receives the packets as they leave the queue of this hop.
    pub behind_queue: Option<BehindQueue>,
    /// A slow link that drops acknowledgments superseded by newer ones, if those were lost.
    pub thinning: Option<Thinning>,
    /// The bytes that the bucket counts, if small packets show it, and the bucket in those bytes.
    pub bucket_basis: Option<(ByteBasis, BucketFit)>,
    /// Packets that were marked (Congestion Experienced) in the hop.
    pub marked: usize,
    /// Variation of timestamps and of idle lines, seconds.
    pub noise_s: f64,
    /// Share of the packets that either capture lacks.
    pub missed_share: f64,
}

impl Hop {
    /// Longest delay of a packet that was not queued, seconds: half of the noise.
    pub fn idle_wait_s(&self) -> f64 {
        self.departures
            .map_or(0.0, |departures| departures.idle_wait_s)
    }

    /// The bytes that pass a bucket within the timestamp error.
    pub fn noise_bytes(&self, fit: &BucketFit) -> f64 {
        noise_bytes(fit, self.noise_s)
    }

    /// A typical full packet, IP bytes.
    pub fn packet_bytes(&self) -> f64 {
        self.evidence.group_trace.trace.typical_bytes
    }

    /// The bytes that the hop counts, from its departures.
    pub fn drain_basis(&self) -> Option<ByteBasis> {
        let overhead = self.departures?.overhead_bytes?;
        let half_width = (overhead.high? - overhead.low?) / 2.0;
        let mut by_distance: Vec<(f64, ByteBasis)> = ByteBasis::ALL
            .into_iter()
            .map(|basis| {
                (
                    (overhead.value - f64::from(basis.overhead_bytes())).abs(),
                    basis,
                )
            })
            .collect();
        by_distance.sort_by(|a, b| a.0.total_cmp(&b.0));
        // the nearest, if the next one is clearly outside the measurement's interval
        (by_distance[0].0 + half_width < by_distance[1].0 - half_width / 2.0)
            .then_some(by_distance[0].1)
    }
}

/// Least timestamp noise in seconds: the time that a kernel takes to stamp a packet.
const LEAST_NOISE_S: f64 = 1e-6;
/// ... and largest: transit times that vary by more do so because of queueing, seconds.
pub(super) const MOST_NOISE_S: f64 = 1e-3;

/// Measures a hop.
pub fn measure_hop(input: HopInput) -> Hop {
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
    let mut evidence = measure_trace(plain, None, totals, base_rtt_s);
    let passages = match evidence.line_rate_bps {
        Some(queue_bps) => passages.through_line(queue_bps),
        None => passages,
    };
    evidence.line_rate_bps = line_bps.or(evidence.line_rate_bps);
    let departures = measure_departures(&passages).map(|found| of_others(found, missed_share));
    let noise_s = noise_s(&passages, departures.as_ref());
    let buckets = Buckets::find(&passages, &evidence, noise_s);
    let bucket = buckets.single;
    evidence.bucket = bucket.map(|refined| sharper(refined, evidence.bucket));
    // the bucket is replayed with its refined parameters instead
    evidence.replay = None;
    evidence.delays_are_own = true;
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
    Hop {
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
        evidence,
        passages,
        noise_s,
        missed_share,
    }
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
