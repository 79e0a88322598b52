//! Causes of a group's losses: the likelihood of each mechanism against the background.
//!
//! On this scale, random losses at one rate for all packets are at 0. A bucket or queue scores the gain in
//! the likelihood of the losses, less the cost of the search; queue management and tail drop score the gain
//! from delays. The background includes all these patterns without a mechanism, and pays the price given in
//! [`crate::thresholds`]; so a pattern in the losses excludes random loss, whether or not a known mechanism
//! explains it.

use whydrop_path::fit::{BucketFit, DelayAtLoss, DelayByOccupancy, DrainFit, Seen, Silence};
use whydrop_verdict::{Cause, Fact, fact};

use crate::before_capture::{Burst, spent_at_once};
use crate::contest::Contest;
use crate::evidence::Evidence;
use crate::judge::Judgement;
use crate::replay_check::ReplayCheck;
use crate::standing::stood_s;
use crate::thresholds::*;

/// Judges the losses of a group of flows.
pub fn judge_losses(evidence: &Evidence) -> Judgement {
    contest(evidence).settle()
}

/// Replaces random loss by `unknown` if the losses are too few to show chance, even though no other cause
/// explains them better.
pub fn unless_too_few(judgement: Judgement, evidence: &Evidence) -> Judgement {
    let lost = evidence.totals.lost;
    if judgement.cause != Cause::RandomLoss || lost >= FEWEST_BY_CHANCE {
        return judgement;
    }
    let clumps = evidence.pattern.map_or(0, |pattern| pattern.clumps);
    let why = fact!("too-few-clumps", clumps = clumps, lost = lost);
    let mut against = judgement.against;
    against.push((Cause::RandomLoss, why));
    Judgement {
        against,
        ..Judgement::new(Cause::Unknown, judgement.confidence)
    }
}

/// Enters every mechanism that may have dropped the packets.
pub fn contest(evidence: &Evidence) -> Contest {
    let mut contest = Contest::default();
    let patterns = Patterns::of(evidence);
    let background = patterns.background();
    enter_random_loss(&mut contest, evidence, &patterns, background);
    // one silence explains the losses only if most of them fall into it
    if patterns.outage > 0.0 && share_in_silence(evidence) > 0.5 {
        contest.support(Cause::Outage, patterns.outage - background);
    }
    enter_policer(&mut contest, evidence, patterns.bucket - background);
    enter_queues(&mut contest, evidence, &patterns, background);
    contest
}

/// The time in which nothing passed, if it is too long for a burst of losses: the sender's timer expired in
/// it, and the retransmission was lost too.
fn silence(evidence: &Evidence) -> Option<Silence> {
    let silence = evidence.pattern?.silence;
    let longest_burst_s = (3.0 * evidence.base_rtt_s.unwrap_or(USUAL_RTT_S)).max(SHORTEST_OUTAGE_S);
    let is_long = silence.until_s - silence.from_s > longest_burst_s;
    let lost = silence.lost as u64;
    (is_long && lost >= FEWEST_LOSSES && has_ended(&silence, evidence)).then_some(silence)
}

/// True if packets passed after it: for a silence to the end it is unknown whether the path caused it, or
/// that it continued.
fn has_ended(silence: &Silence, evidence: &Evidence) -> bool {
    let trace = &evidence.group_trace.trace;
    let first = trace
        .time_s
        .partition_point(|time_s| *time_s < silence.until_s);
    trace.outcome[first..].contains(&Seen::Passed)
}

/// Share of the losses within it.
pub fn share_in_silence(evidence: &Evidence) -> f64 {
    let lost = evidence.group_trace.trace.lost.max(1) as f64;
    silence(evidence).map_or(0.0, |silence| silence.lost as f64 / lost)
}

/// Patterns of losses, nats above losses at one rate.
struct Patterns {
    bucket: f64,
    by_delay: f64,
    by_time: f64,
    /// The part of it that one silence explains.
    outage: f64,
    clumps: usize,
    /// So few losses, or one clump of them, cannot show chance.
    few: bool,
    are_delays_measurable: bool,
    has_gaps: bool,
    /// Confidence that a fitting bucket gives, 0 to 1.
    sharpness: f64,
}

impl Patterns {
    fn of(evidence: &Evidence) -> Self {
        let telling = |fit: &&BucketFit| fit.certainty() >= WEAK_CERTAINTY;
        // packets of a busy line arrive as through a bucket of one or two packets, whatever was dropped
        // before the line
        let from_busy_line = evidence.holes.closed_nats() > evidence.holes.left_nats();
        let bucket = evidence
            .bucket
            .as_ref()
            .filter(telling)
            .filter(|_| !from_busy_line);
        let pattern = evidence.pattern.as_ref();
        // silences were searched for like the other patterns
        let outage =
            silence(evidence).map_or(0.0, |silence| (silence.nats - LOOKED_FOR_NATS).max(0.0));
        let clumps = pattern.map_or(0, |pattern| pattern.clumps);
        let runs = evidence.group_trace.trace.loss_runs();
        let few = evidence.totals.lost < FEWEST_LOSSES;
        let looked_for = match queue_explains_delays(evidence) && !few {
            // management of that queue is as likely as chance
            true => 0.0,
            false => LOOKED_FOR_NATS,
        };
        let waits = evidence
            .at_loss
            .as_ref()
            .map_or(0.0, |at_loss| at_loss.median_s);
        Self {
            bucket: bucket.map_or(0.0, |fit| (fit.gain() - SEARCH_NATS).max(0.0)),
            by_delay: pattern
                .filter(|_| waits > SHORTEST_DELAY_S)
                .map_or(f64::NEG_INFINITY, |pattern| {
                    pattern.by_delay_nats - looked_for
                }),
            by_time: pattern
                .map_or(0.0, |pattern| {
                    (pattern.by_time_nats - LOOKED_FOR_NATS).max(0.0)
                })
                .max(outage),
            outage,
            clumps,
            few: few || clumps < 2 || runs < 2,
            are_delays_measurable: are_delays_measured(evidence),
            has_gaps: evidence.holes.runs > 0,
            sharpness: bucket.map_or(0.0, |fit| (fit.certainty() + expected_share(fit)) / 2.0),
        }
    }

    /// Evidence for mechanisms that depend on delay. If that is certain, losses that change with time do so
    /// because delays change.
    fn with_delay(&self) -> f64 {
        if self.by_delay > -CHANCE {
            self.by_delay.max(self.by_time)
        } else {
            self.by_delay
        }
    }

    /// Evidence for the same patterns without a known mechanism.
    fn background(&self) -> f64 {
        let leaning = |nats: f64, cost: f64| {
            if nats > 0.0 {
                nats - cost
            } else {
                f64::NEG_INFINITY
            }
        };
        let chance = match () {
            // a pattern that cannot be identified is a part of the unknown
            () if self.few => 0.0,
            () if self.are_delays_measurable => -CHANCE_NATS,
            () if self.has_gaps => -HOLES_CHANCE_NATS,
            () => -UNSEEN_CHANCE_NATS,
        };
        let parts = [
            chance,
            leaning(self.bucket, BUCKET_NATS * self.sharpness),
            leaning(self.by_delay, DELAY_NATS),
            leaning(self.by_time, TIME_NATS),
        ];
        let most = parts.iter().copied().fold(f64::MIN, f64::max);
        most + parts
            .iter()
            .map(|part| (part - most).exp())
            .sum::<f64>()
            .ln()
    }
}

fn enter_random_loss(
    contest: &mut Contest,
    evidence: &Evidence,
    patterns: &Patterns,
    background: f64,
) {
    let holes = &evidence.holes;
    contest.support(Cause::RandomLoss, holes.left_nats() - background);
    let trace = &evidence.group_trace.trace;
    let runs = trace.loss_runs();
    if trace.lost >= trace.passed && patterns.clumps >= 2 {
        contest.rule_out(
            Cause::RandomLoss,
            fact!("most-were-lost", lost = trace.lost, sent = trace.len()),
        );
    } else if patterns.few || trace.lost >= trace.passed {
        contest.rule_out(
            Cause::RandomLoss,
            fact!(
                "too-few-clumps",
                clumps = patterns.clumps,
                lost = evidence.totals.lost
            ),
        );
    } else if !are_delays_measured(evidence) && !losses_are_single(evidence) {
        let mean_run = trace.lost as f64 / runs as f64;
        let code = match holes.are_left() {
            true => "losses-in-runs-without-queue",
            false => "losses-in-runs",
        };
        contest.rule_out(Cause::RandomLoss, fact!(code, mean_run = mean_run));
    } else if !are_delays_measured(evidence) {
        // queue management drops single packets too, and its evidence in delays is not visible here
        contest.support(Cause::Aqm, holes.closed_nats() - background - UNSEEN_NATS);
    }
}

fn enter_policer(contest: &mut Contest, evidence: &Evidence, nats: f64) {
    let Some(fit) = &evidence.bucket else {
        return;
    };
    contest.support(Cause::Policer, nats);
    let at_once = burst_before(evidence);
    let replayed = |check: &ReplayCheck| match at_once {
        Some(_) => check.holds_before(fit),
        None => check.holds(fit, are_delays_measurable(evidence)),
    };
    let queue = match evidence.lost_mostly_before() {
        true => at_once.map(|_| false),
        false => queue_shows(evidence),
    };
    let why = if queue == Some(true) || delays_contradict(fit, evidence) {
        queue_reason(evidence)
    } else if !again(evidence) || fit.gain() < NEEDED_GAIN {
        fact!(
            "fits-some-bucket",
            lost = evidence.totals.lost,
            runs = evidence.group_trace.trace.loss_runs()
        )
    } else if !bucket_fits(fit) {
        fact!(
            "bucket-tells-little",
            certainty_share = fit.certainty(),
            lost = evidence.totals.lost
        )
    } else if let Some(rate_bps) = slower_queue_bps(fit, evidence) {
        fact!(
            "drains-unlike-drops",
            drain_rate_bps = rate_bps,
            rate_bps = fit.rate_bps.value
        )
    } else if let Some(check) = evidence.replay.filter(|check| !replayed(check)) {
        fact!(
            "policer-misses",
            rate_bps = fit.rate_bps.value,
            dropped = check.dropped,
            hits = check.hits,
            lost = evidence.totals.lost
        )
    } else if queue.is_none() {
        fact!("queue-not-ruled-out", rate_bps = fit.rate_bps.value)
    } else if !within_reach(fit, evidence) || !large_enough(fit, evidence) {
        let packets = fit.limit_bytes.value / fit.packet_bytes;
        fact!(
            "no-such-bucket",
            rate_bps = fit.rate_bps.value,
            packets = packets.round() as u64
        )
    } else {
        contest.rule_out(Cause::ShallowQueue, no_queue_reason(evidence));
        contest.rule_out(Cause::DeepQueue, no_queue_reason(evidence));
        return;
    };
    contest.rule_out(Cause::Policer, why);
}

fn enter_queues(contest: &mut Contest, evidence: &Evidence, patterns: &Patterns, background: f64) {
    let depth = queue_depth(evidence);
    if depth == Cause::Unknown || !are_delays_measurable(evidence) {
        return;
    }
    let overflows = queue_shows(evidence) == Some(true)
        && drains_at_drop_rate(evidence)
        && (again(evidence) && evidence.bucket.as_ref().is_some_and(bucket_fits)
            || bucket_fits_a_queue(evidence));
    let at_the_top = tail_drop_shows(evidence);
    let unmanaged = waits_unmanaged(evidence);
    let delays = patterns.with_delay() - background;
    let at_one_delay = evidence.at_loss.as_ref().is_some_and(drops_at_one_delay);
    if delays.is_finite() {
        let full = if at_one_delay { FULL_NATS } else { 0.0 };
        contest.support(Cause::Aqm, delays - full);
    }
    if overflows || at_the_top {
        // a queue that overflows makes the pattern of a bucket too
        contest.support(depth, delays.max(patterns.bucket - background));
        contest.support(Cause::Aqm, delays - FULL_NATS);
    } else if let Some(low_s) = drops_begin_late(evidence) {
        contest.support(Cause::DeepQueue, delays.max(CHANCE_NATS));
        contest.rule_out(Cause::Aqm, fact!("drops-begin-late", low_s = low_s));
    } else if unmanaged && delays_are_one_queues(evidence) {
        contest.support(Cause::DeepQueue, delays.max(CHANCE_NATS));
    } else if let Some(at_loss) = evidence
        .at_loss
        .as_ref()
        .filter(|_| !unmanaged && !at_one_delay)
    {
        contest.rule_out(depth, early_drop_reason(at_loss));
    }
    if unmanaged {
        let typical_s = typical_s(evidence);
        contest.rule_out(Cause::Aqm, fact!("waits-unmanaged", typical_s = typical_s));
    } else if let Some(stood_s) = stood_unmanaged_s(evidence) {
        contest.rule_out(
            Cause::Aqm,
            fact!(
                "stood-unmanaged",
                stood_s = stood_s,
                longer_than_s = unmanaged_wait_s(evidence)
            ),
        );
    }
}

/// How long the queue stood without a drop, longer than any queue management allows. If it may mark instead,
/// this means nothing.
fn stood_unmanaged_s(evidence: &Evidence) -> Option<f64> {
    if evidence.totals.ecn_in_use || !queue_explains_delays(evidence) {
        return None;
    }
    let stood_s = stood_s(&evidence.group_trace.trace, unmanaged_wait_s(evidence));
    (stood_s > LONGEST_UNMANAGED_S).then_some(stood_s)
}

/// Delay that makes queue management drop if it lasts.
fn unmanaged_wait_s(evidence: &Evidence) -> f64 {
    UNMANAGED_WAIT_S.max(evidence.base_rtt_s.unwrap_or(USUAL_RTT_S))
}

/// True if a queue on the forward path explains the delays.
pub fn queue_explains_delays(evidence: &Evidence) -> bool {
    let explains = |drain: &DrainFit| drain.explained > DELAY_EXPLAINED;
    evidence.drain.as_ref().is_some_and(explains)
}

/// True if a queue drains at the rate at which it drops, and, when full, delays packets by the time that its
/// size takes. If the delays are shorter, their own rate must agree: shapers let a burst pass first.
fn drains_at_drop_rate(evidence: &Evidence) -> bool {
    let as_full = |occupancy: &DelayByOccupancy| occupancy.ratio_bounds().1 > FULL_QUEUE_RATIO;
    let alike = |fit: &BucketFit, drain: &DrainFit| {
        (drain.rate_bps / fit.rate_bps.value).ln().abs() < ALIKE_RATES
    };
    let rates = evidence.bucket.as_ref().zip(evidence.drain.as_ref());
    evidence.occupancy.as_ref().is_some_and(as_full)
        || queue_explains_delays(evidence) && rates.is_some_and(|(fit, drain)| alike(fit, drain))
}

/// True if losses occur repeatedly: a single run may be one outage; a bucket or queue overflows again and
/// again.
fn again(evidence: &Evidence) -> bool {
    evidence.group_trace.trace.loss_runs() as u64 >= FEWEST_LOSSES
}

/// True if delays can be measured at the losses: packets lost before the capture point leave none, nor do
/// data without acknowledgments, nor timestamps too coarse for the shortest delay that queue management aims
/// at.
fn are_delays_measurable(evidence: &Evidence) -> bool {
    let measured = || {
        evidence
            .group_trace
            .trace
            .delay_s
            .iter()
            .any(|s| !s.is_nan())
    };
    !evidence.lost_mostly_before() && evidence.tick_s <= COARSEST_TICK_S && measured()
}

/// True if they were measured: near few losses there may be none.
fn are_delays_measured(evidence: &Evidence) -> bool {
    are_delays_measurable(evidence) && evidence.at_loss.is_some()
}

fn large_enough(fit: &BucketFit, evidence: &Evidence) -> bool {
    let packets = fit.limit_bytes.value / fit.packet_bytes;
    packets
        >= if are_delays_measurable(evidence) {
            SMALLEST_BUCKET_PACKETS
        } else {
            SEEN_BUCKET_PACKETS
        }
}

/// True if losses come with delays as long as those of a queue of the bucket's size: then they are that
/// queue's.
fn delays_contradict(fit: &BucketFit, evidence: &Evidence) -> bool {
    // behind a queue all packets arrive at its rate, as through a bucket
    if evidence.by_clocks {
        return true;
    }
    let drain_s = fit.limit_bytes.value * 8.0 / fit.rate_bps.value;
    let at_loss = evidence.at_loss.as_ref();
    at_loss.is_some_and(|at_loss| {
        related_to_delay(at_loss) && at_loss.shorter_median_s > drain_s / 2.0
    })
}

fn within_reach(fit: &BucketFit, evidence: &Evidence) -> bool {
    let trace = &evidence.group_trace.trace;
    let sent_s = trace.duration_s().min(evidence.totals.union_busy_s);
    fit.rate_bps.value < OUT_OF_REACH * trace.passed_bytes * 8.0 / sent_s.max(1e-9)
}

/// The rate in bit/s of the path's own queue, if the bucket fills faster than it drains: the bucket would
/// never be empty, so the queue is what dropped.
fn slower_queue_bps(fit: &BucketFit, evidence: &Evidence) -> Option<f64> {
    let drain = evidence.drain.as_ref()?;
    (drain.explained > DELAY_EXPLAINED && drain.rate_bps < fit.rate_bps.value)
        .then_some(drain.rate_bps)
}

/// Share of the losses that the bucket predicts.
fn expected_share(fit: &BucketFit) -> f64 {
    let lost: u32 = fit.agreement.lost.iter().sum();
    f64::from(fit.agreement.expected_losses()) / f64::from(lost.max(1))
}

fn bucket_fits(fit: &BucketFit) -> bool {
    fit.gain() >= NEEDED_GAIN
        && fit.certainty() >= NEEDED_CERTAINTY
        && expected_share(fit) >= NEEDED_EXPECTED
}

/// True if the bucket fits a queue. If delays already show a queue and losses come with it, the pattern of
/// losses may be less sharp: the queue may count packets or cells, and drain in units of its own.
fn bucket_fits_a_queue(evidence: &Evidence) -> bool {
    let related = evidence.at_loss.as_ref().is_some_and(related_to_delay);
    let sharp_enough =
        |fit: &BucketFit| fit.gain() >= NEEDED_GAIN && fit.certainty() >= WEAK_CERTAINTY;
    related && evidence.bucket.as_ref().is_some_and(sharp_enough)
}

/// The burst that passed a bucket before the capture point, and that no queue would have let through.
pub fn burst_before(evidence: &Evidence) -> Option<Burst> {
    let fit = evidence
        .bucket
        .as_ref()
        .filter(|_| evidence.lost_mostly_before())?;
    spent_at_once(&evidence.group_trace.trace, fit)
}

/// Find out if packets near the limit of the fitted bucket were delayed as by a queue; `None` if undecided.
fn queue_shows(evidence: &Evidence) -> Option<bool> {
    if !queue_would_show(evidence) {
        return None;
    }
    let Some(occupancy) = evidence
        .occupancy
        .as_ref()
        .filter(|occupancy| occupancy.expected_s > 0.0)
    else {
        return queue_shows_at_losses(evidence);
    };
    let (low, high) = occupancy.ratio_bounds();
    // shorter round trips near the limit than elsewhere prove neither: acknowledgments of other flows were
    // late
    if high < -NO_QUEUE_RATIO && !evidence.delays_are_own {
        return queue_shows_at_losses(evidence);
    }
    if low > QUEUE_RATIO
        && high < OTHER_DELAY_RATIO
        && occupancy.near_limit_s - occupancy.empty_s > one_packet_s(evidence) / 2.0
    {
        Some(true)
    } else if high < NO_QUEUE_RATIO {
        Some(false)
    } else {
        None
    }
}

/// True if a full queue of the bucket's size delays for longer than a tick of the timestamps.
fn queue_would_show(evidence: &Evidence) -> bool {
    let drain_s = |fit: &BucketFit| fit.limit_bytes.value * 8.0 / fit.rate_bps.value;
    let least_s = TICKS_THAT_SHOW * evidence.tick_s;
    evidence
        .bucket
        .as_ref()
        .is_none_or(|fit| drain_s(fit) >= least_s)
}

/// The same for a bucket that is always nearly empty, so that there is no other fill level to compare with:
/// from the delay at the losses alone, relative to that of a full queue.
fn queue_shows_at_losses(evidence: &Evidence) -> Option<bool> {
    let (bucket, at_loss) = (evidence.bucket.as_ref()?, evidence.at_loss.as_ref()?);
    let drain_s = bucket.limit_bytes.value * 8.0 / bucket.rate_bps.value;
    let ratio = at_loss.shorter_median_s / drain_s;
    (ratio < NO_QUEUE_RATIO).then_some(false)
}

/// Time that one full packet takes at the fitted rate, seconds.
fn one_packet_s(evidence: &Evidence) -> f64 {
    evidence
        .bucket
        .as_ref()
        .map_or(0.0, |fit| fit.packet_bytes * 8.0 / fit.rate_bps.value)
}

fn related_to_delay(at_loss: &DelayAtLoss) -> bool {
    at_loss.log_chance < CHANCE && at_loss.mean_rank > TAIL_DROP_RANK
}

/// True if losses occur at one delay, as with a full queue. Other packets may have been delayed longer
/// elsewhere: queue management drops at many delays.
fn drops_at_one_delay(at_loss: &DelayAtLoss) -> bool {
    at_loss.events >= ENOUGH_EVENTS
        && at_loss.high_s - at_loss.low_s < ONE_DELAY_SHARE * at_loss.median_s
}

/// True if losses occur when the delay is at its maximum, and only then.
fn tail_drop_shows(evidence: &Evidence) -> bool {
    let Some(at_loss) = &evidence.at_loss else {
        return false;
    };
    let related = at_loss.mean_rank > TAIL_DROP_RANK && at_loss.log_chance < CHANCE / 2.0;
    // the queue may have contained a packet more or less when the delay was measured
    let noise_s = TAIL_DROP_NOISE_PACKETS * evidence.packet_time_s();
    let all_at_the_top = at_loss.low_s > TAIL_DROP_LOWEST * at_loss.largest_s - noise_s;
    // a second cause may drop some packets at any delay
    let most_at_the_top = at_loss.events >= ENOUGH_EVENTS
        && at_loss.median_s > MOST_AT_TOP * at_loss.high_s
        && at_loss.high_s > MOST_AT_TOP * at_loss.largest_s;
    let enough = at_loss.events as u64 >= FEWEST_LOSSES;
    // a full queue admits no packet that would wait longer
    enough
        && at_loss.longer_waits <= LET_IN * at_loss.losses
        && related
        && (all_at_the_top || most_at_the_top)
        && at_loss.median_s > SHORTEST_DELAY_S
}

/// The delay in seconds from which packets were lost, if no queue management lets packets wait that long
/// before it drops any.
fn drops_begin_late(evidence: &Evidence) -> Option<f64> {
    let at_loss = evidence.at_loss.as_ref()?;
    let late = at_loss.events as u64 >= FEWEST_LOSSES
        && related_to_delay(at_loss)
        && at_loss.low_s > longest_managed_s(evidence);
    late.then_some(at_loss.low_s)
}

fn longest_managed_s(evidence: &Evidence) -> f64 {
    (2.0 * evidence.base_rtt_s.unwrap_or(0.0)).max(LONGEST_MANAGED_S)
}

/// True if half the packets waited for longer than queue management would allow. If another queue, as on the
/// return path, delayed some of them, this one need not be full, but may be unmanaged.
fn waits_unmanaged(evidence: &Evidence) -> bool {
    typical_s(evidence) > longest_managed_s(evidence)
}

fn delays_are_one_queues(evidence: &Evidence) -> bool {
    let explains = |drain: &DrainFit| drain.explained > STANDING_EXPLAINED;
    evidence.drain.as_ref().is_some_and(explains)
}

/// True if losses before the capture point, which leave no delays to evaluate, occur singly. Independent
/// losses rarely form runs; a full queue drops several packets of one burst.
fn losses_are_single(evidence: &Evidence) -> bool {
    let runs = evidence.group_trace.trace.loss_runs() as f64;
    let trace = &evidence.group_trace.trace;
    let chance_of_a_second = trace.lost as f64 / trace.len().max(1) as f64;
    trace.lost as f64 / runs.max(1.0) < LONGER_RUNS / (1.0 - chance_of_a_second)
}

/// Shallow or deep: from the delay that the queue adds, and from the packets that it then holds.
pub fn queue_depth(evidence: &Evidence) -> Cause {
    let base = evidence.base_rtt_s.unwrap_or(USUAL_RTT_S);
    let Some(at_loss) = &evidence.at_loss else {
        return Cause::Unknown;
    };
    let few_packets = at_loss.median_s / evidence.packet_time_s() <= SHALLOW_PACKETS;
    let little_delay = at_loss.median_s <= SHALLOW_RTT_SHARE * base;
    if little_delay || few_packets {
        Cause::ShallowQueue
    } else {
        Cause::DeepQueue
    }
}

fn typical_s(evidence: &Evidence) -> f64 {
    evidence
        .at_loss
        .as_ref()
        .map_or(0.0, |at_loss| at_loss.typical_s)
}

fn waited_s(evidence: &Evidence) -> f64 {
    evidence
        .at_loss
        .as_ref()
        .map_or(0.0, |at_loss| at_loss.median_s)
}

fn no_queue_reason(evidence: &Evidence) -> Fact {
    if let Some(burst) = burst_before(evidence) {
        return burst_fact(&burst, evidence);
    }
    if let Some(occupancy) = &evidence.occupancy {
        let more_s = (occupancy.near_limit_s - occupancy.empty_s).max(0.0);
        return fact!("no-queue", queue_s = occupancy.expected_s, more_s = more_s);
    }
    let bucket = evidence.bucket.as_ref();
    fact!(
        "no-queue-at-losses",
        queue_s = bucket.map(|fit| fit.limit_bytes.value * 8.0 / fit.rate_bps.value),
        waited_s = evidence.at_loss.as_ref().map(|at_loss| at_loss.median_s)
    )
}

pub fn burst_fact(burst: &Burst, evidence: &Evidence) -> Fact {
    fact!(
        "burst-came-through",
        burst_bytes = burst.bytes,
        over_s = burst.over_s,
        rate_bps = evidence.bucket.as_ref().map(|fit| fit.rate_bps.value)
    )
}

fn queue_reason(evidence: &Evidence) -> Fact {
    fact!("packets-waited", waited_s = waited_s(evidence))
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
