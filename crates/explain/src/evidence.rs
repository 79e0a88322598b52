//! Evidence of a group of flows, measured before any cause is named.

use whydrop_path::fit::{
    BucketFit, DelayAtLoss, DelayByOccupancy, DrainFit, Filled, Interval, LossPattern, Refined,
    delay_at_loss, delay_by_occupancy, envelope, fill_waits, loss_pattern, refine_beside,
};
use whydrop_tcp::Flow;

use crate::arrivals::Arrivals;
use crate::before_capture::{Holes, holes};
use crate::datagram_share::DatagramsBeside;
use crate::group::{FlowRef, Group, GroupTrace};
use crate::judge::judge_losses;
use crate::replay_check::ReplayCheck;
use crate::senders_line::{Placed, place_behind_line, slowest_line_bps};
use crate::thresholds::{DELAY_EXPLAINED, FULL_LINK_SHARE, SHORTEST_CLOCKED_S};
use crate::totals::{Totals, base_rtt_s, least_rtt_ns, totals};
use whydrop_verdict::Cause;

/// All measurements of one group.
#[derive(Debug)]
pub struct Evidence {
    pub group_trace: GroupTrace,
    pub totals: Totals,
    /// From the capture point to the receiver and back.
    pub base_rtt_s: Option<f64>,
    pub bucket: Option<BucketFit>,
    pub occupancy: Option<DelayByOccupancy>,
    pub replay: Option<ReplayCheck>,
    pub at_loss: Option<DelayAtLoss>,
    pub pattern: Option<LossPattern>,
    pub drain: Option<DrainFit>,
    /// Rate at which super-segments are assumed to leave the sender, if the capture holds any.
    pub line_rate_bps: Option<f64>,
    /// Delays are those of the packets themselves, measured at both ends of a hop; otherwise they are
    /// round-trip times, including the delays of acknowledgments.
    pub delays_are_own: bool,
    /// Delays are those before the capture point, from the senders' clocks.
    pub by_clocks: bool,
    /// For one capture: other traffic to the same receiver.
    pub beside: DatagramsBeside,
    /// Tick of the timestamps in seconds: the resolution of delays. 0 without a capture.
    pub tick_s: f64,
    /// Seconds by which all queueing delays may be longer than measured: with a standing queue the fastest
    /// packet waited too.
    pub stood_s: f64,
    /// Gaps left by losses before the capture point.
    pub holes: Holes,
    /// For a capture at the receiver: how evenly packets arrive.
    pub arrivals: Option<Arrivals>,
}

impl Evidence {
    /// True if at least half of the losses happened before the capture point: delays behind it do not concern
    /// them.
    pub fn lost_mostly_before(&self) -> bool {
        self.totals.lost > 0 && self.totals.lost_before_capture * 2 >= self.totals.lost
    }

    /// For losses before the capture point: drops the delays behind it, which do not concern them, and keeps
    /// the gaps that they left.
    pub fn by_spacing(self) -> Self {
        Self {
            at_loss: None,
            occupancy: None,
            holes: holes(&self.group_trace.trace),
            ..self
        }
    }

    /// Rate at which the queue drains in bit/s: from the delays if they show it, otherwise from the losses,
    /// otherwise at least the rate of arrivals.
    pub fn queue_rate_bps(&self) -> Interval {
        if let Some(drain) = self.drain.filter(|_| self.queue_rate_is_seen()) {
            return Interval {
                value: drain.rate_bps,
                low: Some(drain.low_bps),
                high: Some(drain.high_bps),
            };
        }
        if let Some(fit) = self
            .bucket
            .as_ref()
            .filter(|fit| fit.certainty() > NEEDED_LOSS_SHARE)
        {
            return fit.rate_bps;
        }
        let arrived_bps =
            self.totals.payload_bytes as f64 * 8.0 / self.totals.union_busy_s.max(1e-9);
        Interval {
            value: arrived_bps,
            low: Some(arrived_bps),
            high: None,
        }
    }

    /// Bytes that passed, with the most that a device may count on top of each packet, as a multiple of the
    /// IP bytes (there are small packets among full ones); and the same including the datagrams beside them.
    pub fn most_counted(&self, overhead_bytes: f64) -> MostCounted {
        let trace = &self.group_trace.trace;
        let packets = (trace.len() - trace.lost) as f64;
        let bytes = trace.passed_bytes.max(1.0);
        let typical = 1.0 + overhead_bytes / trace.typical_bytes.max(1.0);
        let own = (1.0 + overhead_bytes * packets / bytes).max(typical);
        let beside = self.beside.bytes + overhead_bytes * self.beside.packets;
        MostCounted {
            own,
            with_beside: own + beside / bytes,
        }
    }

    /// True if the delays show the rate at which the queue drains.
    pub fn queue_rate_is_seen(&self) -> bool {
        self.drain
            .as_ref()
            .is_some_and(|drain| drain.explained > NEEDED_DELAY_SHARE)
    }

    /// The link that a queue reveals behind the capture point, and the share of the flows' time in which it
    /// was busy. `None` if no queue explains the delays.
    pub fn link_busy(&self) -> Option<LinkBusy> {
        let drain = (self.drain).filter(|drain| drain.explained > DELAY_EXPLAINED)?;
        let sending_s = self.group_trace.trace.passed_bytes * 8.0 / drain.rate_bps;
        let share = sending_s / self.totals.union_busy_s;
        share.is_finite().then(|| LinkBusy {
            rate_bps: drain.rate_bps,
            share: share.clamp(0.0, 1.0),
        })
    }

    /// Transmission time of a full packet at that rate, seconds.
    pub fn packet_time_s(&self) -> f64 {
        self.group_trace.trace.typical_bytes * 8.0 / self.queue_rate_bps().value.max(1.0)
    }
}

/// See [`Evidence::link_busy`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkBusy {
    pub rate_bps: f64,
    /// Share of the time with data of any flow in flight.
    pub share: f64,
}

impl LinkBusy {
    /// True if the link's rate sets the throughput of the flows, whatever else affects them.
    pub fn is_full(&self) -> bool {
        self.share > FULL_LINK_SHARE
    }
}

/// Multiples of the IP bytes that passed: see [`Evidence::most_counted`].
#[derive(Debug, Clone, Copy)]
pub struct MostCounted {
    pub own: f64,
    pub with_beside: f64,
}

/// Share of the spread of the delays that a queue must explain for its rate to be used ...
const NEEDED_DELAY_SHARE: f64 = 0.3;
/// ... and share of the uncertainty about losses that a bucket must remove.
pub(crate) const NEEDED_LOSS_SHARE: f64 = 0.45;

/// Measures a group from one capture: the path behind the capture point, or, if the senders' clocks show that
/// a queue before it delayed and dropped packets, the path before it. If losses occur at many different
/// delays, another element than the queue may have dropped them; exact times can show this.
pub fn measure(group: &Group) -> Evidence {
    let before = measure_before(group);
    let Some(by_clocks) = before.filter(|b| b.totals.lost == 0 || losses_follow_waits(b)) else {
        return measure_behind(group);
    };
    if by_clocks.totals.lost == 0 {
        return by_clocks;
    }
    if !matches!(judge_losses(&by_clocks).cause, Cause::Unknown | Cause::Aqm) {
        return by_clocks;
    }
    let by_times = measure_behind(group);
    match judge_losses(&by_times).cause {
        Cause::Policer => by_times,
        _ => by_clocks,
    }
}

fn measure_behind(group: &Group) -> Evidence {
    let slowest_line_bps = group
        .has_offloaded_segments()
        .then(|| slowest_line_bps(group))
        .flatten();
    let mut group_trace = group.trace();
    let mut unsure_s = 0.0;
    if group.is_by_echoes() {
        // all known ones are near losses, and do not represent the others
        let unknown = Filled {
            waits_s: vec![f32::NAN; group_trace.trace.len()],
            unsure_s: 0.0,
        };
        let filled = fill_waits(&group_trace.trace, &group.hosts(&group_trace)).unwrap_or(unknown);
        group_trace.trace.delay_s = filled.waits_s;
        unsure_s = filled.unsure_s;
    }
    let mut evidence = measure_trace(
        group_trace,
        slowest_line_bps,
        totals(group),
        base_rtt_s(group),
    );
    evidence.tick_s = tick_s(group).max(unsure_s);
    evidence.stood_s = possible_standing_s(group, &evidence.group_trace, least_rtt_ns);
    find_partial_bucket(&mut evidence);
    if evidence.totals.at_receiver {
        evidence.arrivals = Arrivals::of(&evidence.group_trace.trace);
    }
    if evidence.lost_mostly_before() {
        return evidence.by_spacing();
    }
    evidence
}

/// How long in seconds a queue may have been standing while the fastest packets of the flows passed it;
/// `least_ns` is a flow's shortest round trip. The first packets of a capture find the queue empty if they
/// open a connection, and so do packets after a pause in which everything sent had been acknowledged.
/// Otherwise the delay is unknown, but not longer than the round trip. Packets of a flow with a longer
/// shortest round trip than another flow to the same host may have been delayed by the difference.
fn possible_standing_s(
    group: &Group,
    group_trace: &GroupTrace,
    least_ns: impl Fn(&Flow) -> Option<i64>,
) -> f64 {
    let lossy = group
        .flows
        .iter()
        .filter(|flow| flow.flow.counters.lost > 0);
    let longest_ns = lossy.filter_map(|flow| least_ns(flow.flow)).max();
    let shortest_ns = (group.flows.iter())
        .filter_map(|flow| least_ns(flow.flow))
        .min();
    let (Some(longest_ns), Some(shortest_ns)) = (longest_ns, shortest_ns) else {
        return 0.0;
    };
    let first = group.flows.iter().min_by_key(|flow| flow.flow.first_ns);
    let opens = first.is_some_and(|first| first.flow.offers.iter().any(Option::is_some));
    let trace = &group_trace.trace;
    let measured = trace
        .delay_s
        .iter()
        .copied()
        .filter(|delay_s| !delay_s.is_nan());
    let answered_s = shortest_ns as f64 * 1e-9 + f64::from(measured.fold(0.0, f32::max));
    let mut gaps_s = trace.time_s.windows(2).map(|pair| pair[1] - pair[0]);
    let was_empty = opens || gaps_s.any(|gap_s| gap_s > answered_s);
    let stood_ns = if was_empty {
        longest_ns - shortest_ns
    } else {
        longest_ns
    };
    stood_ns as f64 * 1e-9
}

/// Fewer timestamps may have a common divisor by chance.
const FEWEST_STAMPS: usize = 20;

/// Tick of a group's timestamps in seconds: all are multiples of it, counted from the first.
fn tick_s(group: &Group) -> f64 {
    let count: usize = group
        .flows
        .iter()
        .map(|flow| flow.flow.segments.len())
        .sum();
    if count < FEWEST_STAMPS {
        return 0.0;
    }
    let stamps = group.flows.iter().flat_map(|flow| &flow.flow.segments);
    let mut stamps_ns = stamps.map(|segment| segment.time_ns);
    let Some(first_ns) = stamps_ns.next() else {
        return 0.0;
    };
    let mut tick_ns = 0;
    for stamp_ns in stamps_ns {
        let mut rest_ns = stamp_ns.abs_diff(first_ns);
        if tick_ns > 0 {
            rest_ns %= tick_ns; // most become 0
        }
        while rest_ns > 0 {
            (tick_ns, rest_ns) = (rest_ns, tick_ns % rest_ns);
        }
    }
    tick_ns as f64 * 1e-9
}

/// The path between the senders and the capture point. `None` if few of the losses happened before it, if
/// nothing was lost and the capture is not at the receiver, or if the clocks show no queueing delays.
fn measure_before(group: &Group) -> Option<Evidence> {
    let mut totals = totals(group);
    let clocked = |flow: &&FlowRef| !flow.flow.account().waits_before().is_empty();
    let of_clocked = group.flows.iter().filter(clocked);
    let payload: u64 = of_clocked
        .map(|flow| flow.flow.counters.payload_bytes)
        .sum();
    let is_before = match totals.lost {
        0 => totals.at_receiver,
        lost => totals.lost_before_capture * 2 >= lost,
    };
    if !is_before || (payload as f64) < CLOCKED_SHARE * totals.payload_bytes as f64 {
        return None;
    }
    totals.lost_before_capture = 0;
    let whole_rtt_s = totals.whole_rtt_s;
    let mut evidence = measure_trace(group.trace_as_sent(), None, totals, whole_rtt_s);
    evidence.delays_are_own = true;
    evidence.by_clocks = true;
    let near_rtt_ns = |flow: &Flow| flow.account().near_rtt_ns;
    evidence.stood_s = possible_standing_s(group, &evidence.group_trace, near_rtt_ns);
    if evidence.totals.at_receiver {
        evidence.arrivals = Arrivals::of(&group.trace().trace);
    }
    find_partial_bucket(&mut evidence);
    Some(evidence)
}

/// Share of the bytes with known queueing delays that is needed for the delays to represent the group.
const CLOCKED_SHARE: f64 = 0.9;

/// True if losses follow queueing delays. Losses after delays too short for the clocks, or unrelated to
/// delays, are explained as well without the clocks, and from exact times.
fn losses_follow_waits(evidence: &Evidence) -> bool {
    let at_loss = evidence.at_loss.as_ref();
    at_loss.is_some_and(|at_loss| at_loss.median_s > SHORTEST_CLOCKED_S)
        && judge_losses(evidence).cause != Cause::RandomLoss
}

/// A bucket that removes this share of the uncertainty about the losses caused nearly all of them.
const ALONE: f64 = 0.6;
/// Fewer losses are not separated into two causes.
const FEWEST_SEPARABLE: usize = 10;
/// A bucket that caused only some of them must be this much more likely, nats.
const BESIDE_GAIN: f64 = 10.0;

/// Looks for a bucket that caused some of the losses, if none caused nearly all of them.
fn find_partial_bucket(evidence: &mut Evidence) {
    let trace = &evidence.group_trace.trace;
    let alone = |fit: BucketFit| fit.certainty() > ALONE;
    if trace.lost < FEWEST_SEPARABLE || evidence.bucket.is_some_and(alone) {
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
    let known = evidence
        .bucket
        .map_or(f64::MIN, |known| known.score() + BESIDE_GAIN);
    let better = |best: &Refined| best.fit().score() > known && alone(*best.fit());
    if let Some(best) = best.filter(better) {
        let fit = best.complete();
        evidence.occupancy = delay_by_occupancy(trace, fit.rate_bps.value, fit.limit_bytes.value);
        evidence.replay = Some(ReplayCheck::of(&evidence.group_trace, &fit));
        evidence.bucket = Some(fit);
    }
}

/// Measures packets with known fates and delays. `slowest_line_bps` is the lowest rate at which
/// super-segments leave the first point, if there are any.
pub fn measure_trace(
    plain: GroupTrace,
    slowest_line_bps: Option<f64>,
    totals: Totals,
    base_rtt_s: Option<f64>,
) -> Evidence {
    let Placed {
        group_trace,
        bucket,
        drain,
        line_rate_bps,
    } = place_behind_line(plain, slowest_line_bps, base_rtt_s);
    let trace = &group_trace.trace;
    let occupancy = bucket
        .as_ref()
        .and_then(|fit| delay_by_occupancy(trace, fit.rate_bps.value, fit.limit_bytes.value));
    Evidence {
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
    }
}
