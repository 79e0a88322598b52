//! Evidence of a group of flows, measured before any cause is named.

use whydrop_path::fit::Seen;
use whydrop_path::fit::{
    BucketFit, DelayAtLoss, DelayByOccupancy, DrainFit, Filled, Interval, LossPattern, Refined,
    delay_at_loss, delay_by_occupancy, envelope, fill_waits, loss_pattern, refine_beside,
};
use whydrop_path::{Arrival, Policer, replay};
use whydrop_tcp::{Ecn, Flow, Kind, Limiter, Segment, SegmentFlags, Transfer, Vantage};

use crate::arrivals::Arrivals;
use crate::before_capture::{Holes, holes};
use crate::datagram_share::DatagramsBeside;
use crate::group::{FlowRef, Group, GroupTrace, wait_back_ns};
use crate::judge::judge_losses;
use crate::limits;
use crate::senders_line::{Placed, place_behind_line, slowest_line_bps};
use crate::thresholds::{
    DELAY_EXPLAINED, FULL_LINK_SHARE, REPLAYED_BEFORE_SHARE, REPLAYED_SHARE, SHORTEST_CLOCKED_S,
};
use whydrop_verdict::Cause;

/// Agreement of a plain replay of a policer with the losses: the model runs freely, without corrections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayCheck {
    /// Packets that the model drops, among those with a known fate.
    pub dropped: usize,
    /// Packets among those that were lost.
    pub hits: usize,
    /// Packets among those with a loss nearby, less the number expected by chance.
    pub nearby: usize,
}

/// Timestamps of packets that hosts pass on in bursts are off by up to this many packets.
const BURST_PACKETS: usize = 8;

impl ReplayCheck {
    /// Compares the packets that a model drops with the lost ones.
    pub fn new(dropped: impl Iterator<Item = bool>, outcome: &[Seen]) -> Self {
        let near_loss = near_losses(outcome, BURST_PACKETS);
        let (mut check, mut near) = (Self::default(), 0.0);
        let known = |index: usize| outcome[index] != Seen::Unknown;
        for (index, _) in dropped
            .enumerate()
            .filter(|(index, dropped)| *dropped && known(*index))
        {
            check.dropped += 1;
            check.hits += usize::from(outcome[index] == Seen::Lost);
            near += f64::from(near_loss[index]);
        }
        let packets = outcome.len().max(1) as f64;
        let by_chance = near_loss.iter().filter(|near| **near).count() as f64 / packets;
        // agreement corrected for chance, as in Cohen (1960)
        let agreed = (near - by_chance * check.dropped as f64) / (1.0 - by_chance).max(1e-9);
        check.nearby = agreed.max(0.0) as usize;
        check.nearby = check.nearby.max(check.hits);
        check
    }

    /// True if the freely running model drops the lost packets: most of the losses that it claims, or packets
    /// near them, and hardly others. If no delay can rule out a queue, exactly the lost packets.
    pub fn holds(&self, fit: &BucketFit, delays_tell: bool) -> bool {
        let agreed = if delays_tell { self.nearby } else { self.hits };
        self.share(fit, agreed) > REPLAYED_SHARE
    }

    /// The same for losses before the capture point, where others may share the line.
    pub fn holds_before(&self, fit: &BucketFit) -> bool {
        self.share(fit, self.hits) > REPLAYED_BEFORE_SHARE
    }

    fn share(&self, fit: &BucketFit, agreed: usize) -> f64 {
        let claimed = (fit.agreement.expected_losses() as usize).max(self.dropped);
        agreed as f64 / claimed.max(1) as f64
    }
}

/// For each packet, true if a loss is at most this many packets away.
pub fn near_losses(outcome: &[Seen], near: usize) -> Vec<bool> {
    let mut found = vec![false; outcome.len()];
    for index in (0..outcome.len()).filter(|index| outcome[*index] == Seen::Lost) {
        let to = (index + near + 1).min(outcome.len());
        found[index.saturating_sub(near)..to].fill(true);
    }
    found
}

/// Counters of the group's flows, summed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// From the sender to the receiver and back, in seconds.
    pub whole_rtt_s: Option<f64>,
    /// Most of the payload was captured where it arrives: delays behind the capture point are the receiver's
    /// own.
    pub at_receiver: bool,
    /// Timestamps of most of the payload show how long it was delayed before the capture point, including not
    /// at all.
    pub sees_waits: bool,
    /// Queueing delays of acknowledgments on the return path in seconds: median and maximum, of the flow with
    /// the longest. 0 if unknown.
    pub typical_wait_back_s: f64,
    pub longest_wait_back_s: f64,
    pub packets: u64,
    pub data_packets: u64,
    /// Packets among those that the capture holds.
    pub captured_packets: u64,
    pub payload_bytes: u64,
    pub lost: u64,
    /// Bounds, if retransmissions without SACK leave the number open.
    pub lost_low: u64,
    pub lost_high: u64,
    /// Losses among those before the capture point, visible only as gaps, without the delays of the packets
    /// that passed.
    pub lost_before_capture: u64,
    /// Losses of these flows that another verdict covers: too few to show what limited the flows.
    pub lost_besides: u64,
    /// Flows that lost packets.
    pub lossy_flows: u64,
    pub retransmitted: u64,
    pub spurious: u64,
    pub reordered: u64,
    pub missed_by_capture_packets: u64,
    /// Packets among those that nothing in the capture acknowledges.
    pub passed_over_packets: u64,
    pub ecn_echoes: u64,
    /// Packets marked as congestion experienced: captured with the mark, or reported by receivers (accurate
    /// ECN), whichever is more.
    pub ce_marked: u64,
    pub zero_windows: u64,
    /// Time with a closed receive window while data waited, summed over the relevant flows.
    pub window_closed_s: f64,
    pub window_probes: u64,
    pub timeouts: u64,
    /// Congestion was or could have been signalled by marks: ECN was negotiated, or packets carried it.
    pub ecn_in_use: bool,
    pub busy_s: f64,
    pub window_s: f64,
    /// The window scale is known for at least one of the relevant flows; otherwise `window_s` means nothing.
    pub window_known: bool,
    pub idle_s: f64,
    /// Time with data of any of the flows in flight; at most the span of the group.
    pub union_busy_s: f64,
    /// The same for the flows that form its load, without the pauses in which none of them had anything in
    /// flight.
    pub loaded_s: f64,
    /// Largest payload of a packet.
    pub mss_bytes: u32,
    /// Time of transfers by limiter, in the order of [`Limiter::ALL`].
    pub limited_s: [f64; 11],
    /// Time within that for which acknowledgments were delayed although nothing needed the delay.
    pub held_in_vain_s: f64,
    /// The longest time of a transfer with data in flight, seconds.
    pub longest_transfer_s: f64,
}

impl Totals {
    /// Takes times in flight from the account of all time: data that is acknowledged on arrival is in flight
    /// where the capture does not see it.
    fn live_as_the_sender(&mut self) {
        let of = |limiter: Limiter| self.limited_s[limiter as usize];
        let idle_s = limits::idle_s(&self.limited_s);
        let all_s = self.limited_s.iter().sum::<f64>() - of(Limiter::ConnectionSetup);
        let window_s = of(Limiter::ReceiveWindow);
        (self.busy_s, self.idle_s, self.window_s) = ((all_s - idle_s).max(0.0), idle_s, window_s);
    }

    /// Share of the data that the capture lacks.
    pub fn missed_share(&self) -> f64 {
        let missed = self.missed_by_capture_packets as f64;
        // some of them have a place among the others, some have none
        let all = (self.data_packets as f64).max(missed + self.captured_packets as f64);
        missed / all.max(1.0)
    }

    /// Time in which the receive window had no room for a segment, or was closed while data waited: at least
    /// the longer of the two, since one may include the other.
    pub fn held_by_window_s(&self) -> f64 {
        self.window_s.max(self.window_closed_s)
    }

    /// Share of the time with data in flight or waiting in which the window limited the flow: by the window
    /// left, or by the account of what senders waited for, whichever is more.
    pub fn window_share(&self) -> f64 {
        // data that waits for a closed window is not in flight
        let waited_s = self.busy_s.max(self.window_closed_s);
        let left = self.held_by_window_s() / waited_s.max(1e-9);
        left.max(limits::share_at_the_ends(
            &self.limited_s,
            Cause::ReceiverWindow,
        ))
    }
}

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
            .filter(|fit| fit.certainty() > LOSSES_TELL)
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
            .is_some_and(|drain| drain.explained > DELAYS_TELL)
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
const DELAYS_TELL: f64 = 0.3;
/// ... and share of the uncertainty about losses that a bucket must remove.
pub(crate) const LOSSES_TELL: f64 = 0.45;

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
    evidence.stood_s = may_have_stood_s(group, &evidence.group_trace, least_rtt_ns);
    look_beside_others(&mut evidence);
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
fn may_have_stood_s(
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
    evidence.stood_s = may_have_stood_s(group, &evidence.group_trace, near_rtt_ns);
    if evidence.totals.at_receiver {
        evidence.arrivals = Arrivals::of(&group.trace().trace);
    }
    look_beside_others(&mut evidence);
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
const FEWEST_TOLD_APART: usize = 10;
/// A bucket that caused only some of them must be this much more likely, nats.
const BESIDE_GAIN: f64 = 10.0;

/// Looks for a bucket that caused some of the losses, if none caused nearly all of them.
fn look_beside_others(evidence: &mut Evidence) {
    let trace = &evidence.group_trace.trace;
    let alone = |fit: BucketFit| fit.certainty() > ALONE;
    if trace.lost < FEWEST_TOLD_APART || evidence.bucket.is_some_and(alone) {
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
        evidence.replay = Some(check_by_replay(&evidence.group_trace, &fit));
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
            .map(|fit| check_by_replay(&group_trace, fit)),
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

/// Replays the fitted bucket as a policer over all arrivals, ignoring the losses.
fn check_by_replay(group_trace: &GroupTrace, fit: &BucketFit) -> ReplayCheck {
    let trace = &group_trace.trace;
    let mut policer = Policer::new(
        fit.rate_bps.value.round() as u64,
        fit.limit_bytes.value.round() as u64,
    );
    let arrivals: Vec<Arrival> = trace
        .time_s
        .iter()
        .zip(&trace.bytes)
        .map(|(time_s, bytes)| Arrival {
            time_ns: (time_s * 1e9) as i64,
            bytes: *bytes as u32,
        })
        .collect();
    let outcomes = replay(&mut policer, &arrivals);
    let dropped = outcomes.iter().map(|outcome| outcome.is_dropped());
    ReplayCheck::new(dropped, &trace.outcome)
}

/// From the capture point to the receiver and back, in seconds.
pub fn base_rtt_s(group: &Group) -> Option<f64> {
    let of_flows = group
        .flows
        .iter()
        .filter_map(|flow| least_rtt_ns(flow.flow));
    Some(of_flows.min()? as f64 * 1e-9)
}

/// From the sender to the receiver and back, in seconds; `None` if the part before the capture point is
/// unknown.
fn whole_rtt_s(group: &Group) -> Option<f64> {
    let of_flows = group.flows.iter().filter_map(|flow| {
        let near_ns = flow.flow.account().near_rtt_ns?;
        Some(least_rtt_ns(flow.flow)?.saturating_add(near_ns))
    });
    Some(of_flows.min()? as f64 * 1e-9)
}

fn least_rtt_ns(flow: &Flow) -> Option<i64> {
    let exact = (flow.segments.iter()).filter(|s| s.flags.has(SegmentFlags::RTT_EXACT));
    // below a tick of the capture's clock it is unknown; then the limit of a flow without losses depends on a
    // window that was not captured, whatever the round trip
    let echoed_ns = flow.account().echoed_rtt_ns();
    let echoed_ns = echoed_ns.filter(|_| flow.counters.lost > 0);
    let measured_ns = exact.map(|s| s.rtt_ns).chain(echoed_ns);
    measured_ns.filter(|ns| *ns > 0).min()
}

/// Flows with less than this share of the bytes of the group's largest (control connections) do not show what
/// limits it.
const MINOR_SHARE: f64 = 0.05;

/// True for flows that are this small.
pub fn minor(group: &Group) -> impl Fn(&Flow) -> bool + use<> {
    let payload = |flow: &FlowRef| flow.flow.counters.payload_bytes;
    let largest = group.flows.iter().map(payload).max().unwrap_or(0);
    move |flow| (flow.counters.payload_bytes as f64) < MINOR_SHARE * largest as f64
}

pub fn totals(group: &Group) -> Totals {
    let mut totals = Totals {
        whole_rtt_s: whole_rtt_s(group),
        ..Totals::default()
    };
    let is_minor = minor(group);
    for flow in &group.flows {
        let (flow, counters) = (flow.flow, &flow.flow.counters);
        totals.packets += counters.packets;
        totals.data_packets += flow.segments.len() as u64;
        let captured = |segment: &&Segment| !segment.flags.has(SegmentFlags::INFERRED);
        totals.captured_packets += flow.segments.iter().filter(captured).count() as u64;
        totals.payload_bytes += counters.payload_bytes;
        totals.lost += counters.lost;
        totals.lost_low += counters.lost_low;
        totals.lost_high += counters.lost_high;
        totals.lossy_flows += u64::from(counters.lost > 0);
        totals.lost_before_capture += lost_before_capture(flow);
        totals.retransmitted += counters.retransmitted;
        totals.spurious += counters.spurious;
        totals.reordered += counters.reordered;
        totals.missed_by_capture_packets += counters.missed_by_capture_packets;
        totals.passed_over_packets += counters.passed_over_packets;
        totals.ecn_echoes += counters.ecn_echoes;
        totals.ce_marked += counters.ce_marked.max(counters.ce_reported);
        totals.zero_windows += counters.zero_windows;
        totals.window_probes += counters.window_probes;
        totals.timeouts += counters.retransmitted_by_kind[Kind::Timeout as usize];
        totals.ecn_in_use |= matches!(flow.ecn, Ecn::Classic | Ecn::Accurate)
            || counters.ect0 + counters.ect1 + counters.ce_marked > 0;
        if is_minor(flow) {
            continue;
        }
        totals.busy_s += flow.limited.busy_ns as f64 * 1e-9;
        totals.window_known |= flow.window_scale.is_some();
        totals.window_closed_s += flow.limited.closed_ns as f64 * 1e-9;
        totals.window_s += flow.limited.window_ns as f64 * 1e-9;
        totals.idle_s += flow.limited.idle_ns as f64 * 1e-9;
        totals.mss_bytes = totals.mss_bytes.max(flow.mss_bytes.unwrap_or(0));
        let (typical_s, longest_s) = waits_back_s(flow);
        if typical_s >= totals.typical_wait_back_s {
            (totals.typical_wait_back_s, totals.longest_wait_back_s) = (typical_s, longest_s);
        }
        totals.longest_transfer_s = totals.longest_transfer_s.max(longest_transfer_s(flow));
        totals.held_in_vain_s += limits::held_in_vain_s(flow);
        let times_s = limits::times_of_flow_s(flow);
        for (total, time_s) in totals.limited_s.iter_mut().zip(times_s) {
            *total += time_s;
        }
    }
    totals.union_busy_s = union_busy_s(group);
    totals.loaded_s = loaded_s(group);
    totals.at_receiver = most_payload(group, |flow| flow.vantage == Vantage::Receiver);
    totals.sees_waits = most_payload(group, |flow| flow.account().sees_waits);
    if totals.at_receiver {
        totals.live_as_the_sender();
    }
    totals
}

/// True if more than half of the payload belongs to flows with this property.
fn most_payload(group: &Group, is_such: impl Fn(&Flow) -> bool) -> bool {
    let (mut all, mut such) = (0, 0);
    for flow in &group.flows {
        let bytes = flow.flow.counters.payload_bytes;
        all += bytes;
        such += if is_such(flow.flow) { bytes } else { 0 };
    }
    2 * such > all
}

/// Longest duration of a transfer, but no longer than data was in flight, as captured or from the sender's
/// point of view.
fn longest_transfer_s(flow: &Flow) -> f64 {
    let lasted = |transfer: &Transfer| transfer.end_ns.saturating_sub(transfer.start_ns);
    let longest_ns = flow.transfers.iter().map(lasted).max().unwrap_or(0);
    let times_s = limits::times_of_flow_s(flow);
    let lived_s = times_s.iter().sum::<f64>() - limits::idle_s(&times_s);
    (longest_ns as f64 * 1e-9).min(lived_s.max(flow.limited.busy_ns as f64 * 1e-9))
}

/// Median and maximum queueing delay of a flow's acknowledgments on the return path, seconds.
fn waits_back_s(flow: &Flow) -> (f64, f64) {
    if flow.account().waits_back().is_empty() {
        return (0.0, 0.0);
    }
    let least_ns = least_rtt_ns(flow).unwrap_or(i64::MAX);
    let wait_ns = |segment: &Segment| wait_back_ns(flow, segment, least_ns);
    let exact = |segment: &&Segment| segment.flags.has(SegmentFlags::RTT_EXACT);
    let mut waits_ns: Vec<i64> = flow.segments.iter().filter(exact).map(wait_ns).collect();
    if waits_ns.is_empty() {
        return (0.0, 0.0);
    }
    let middle = waits_ns.len() / 2;
    let (_, typical_ns, longer_ns) = waits_ns.select_nth_unstable(middle);
    let longest_ns = longer_ns.iter().copied().fold(*typical_ns, i64::max);
    (*typical_ns as f64 * 1e-9, longest_ns as f64 * 1e-9)
}

/// Length of the union of the transfers' times, seconds.
fn union_busy_s(group: &Group) -> f64 {
    let transfers = group.flows.iter().flat_map(|flow| &flow.flow.transfers);
    union_s(
        transfers
            .map(|transfer| (transfer.start_ns, transfer.end_ns))
            .collect(),
    )
}

/// Flows with a smaller share of a group's payload are not part of its load.
const LOAD_SHARE: f64 = 0.01;
/// A sender with nothing in flight for this long beyond a round trip has nothing to send: with data it would
/// only wait longer for a timer, with data in flight.
const IDLE_NS: i64 = 200_000_000;

/// Length of the union of the times in which flows of a group's load had data to send, seconds.
fn loaded_s(group: &Group) -> f64 {
    let payload = |flow: &FlowRef| flow.flow.counters.payload_bytes;
    let all: u64 = group.flows.iter().map(payload).sum();
    let is_load = |flow: &&FlowRef| payload(flow) as f64 >= LOAD_SHARE * all as f64;
    let flows = group.flows.iter().filter(is_load);
    union_s(flows.flat_map(|flow| loaded_spans(flow.flow)).collect())
}

/// The times in which a flow had data to send, concluded from the data in flight.
fn loaded_spans(flow: &Flow) -> Vec<(i64, i64)> {
    let mut spans: Vec<(i64, i64)> = Vec::new();
    for transfer in &flow.transfers {
        let own = flow.segments.get(transfer.first..transfer.end);
        let (mut start_ns, mut covered_to, mut trip_ns) = (transfer.start_ns, i64::MIN, 0);
        for segment in own.unwrap_or_default() {
            let alone = segment.in_flight_bytes <= segment.payload_bytes;
            let pause_ns = segment.time_ns.saturating_sub(covered_to);
            if alone && covered_to > i64::MIN && pause_ns > IDLE_NS.saturating_add(trip_ns) {
                spans.push((start_ns, covered_to));
                start_ns = segment.time_ns;
            }
            trip_ns = trip_ns.max(segment.rtt_ns);
            let answered_ns = segment.time_ns.saturating_add(segment.rtt_ns.max(0));
            covered_to = covered_to.max(answered_ns);
        }
        spans.push((start_ns, transfer.end_ns.max(start_ns)));
    }
    spans
}

/// Length of the union of spans, seconds.
fn union_s(mut spans: Vec<(i64, i64)>) -> f64 {
    spans.sort_unstable();
    let (mut total_ns, mut covered_to) = (0, i64::MIN);
    for (start, end) in spans {
        let from = start.max(covered_to);
        if end > from {
            total_ns += end - from;
            covered_to = end;
        }
    }
    total_ns as f64 * 1e-9
}

fn lost_before_capture(flow: &Flow) -> u64 {
    let gap = |segment: &&Segment| segment.is_lost() && segment.flags.has(SegmentFlags::INFERRED);
    flow.segments.iter().filter(gap).count() as u64
}
