//! Causes of a group's losses: each mechanism's likelihood against the background.
//!
//! The scale is that of losses by chance at one rate for all packets, at 0. A bucket or queue is worth what it makes the
//! losses more likely, less the search; queue management and tail drop what the delays do. The background has all these
//! patterns, too, without a mechanism, and pays for that what [`crate::thresholds`] says; so what leans on something is
//! no random loss, whether or not a mechanism that is known makes it.

use whydrop_path::fit::{BucketFit, DelayAtLoss, DelayByOccupancy, DrainFit, Seen, Silence};
use whydrop_verdict::{Cause, Fact, fact};

use crate::before_capture::{Burst, spent_at_once};
use crate::contest::Contest;
use crate::evidence::{Evidence, ReplayCheck};
use crate::judge::Judgement;
use crate::standing::stood_s;
use crate::thresholds::*;

/// Judges what a group of flows lost.
pub fn judge_losses(evidence: &Evidence) -> Judgement {
    contest(evidence).settle()
}

/// Chance that so few losses cannot show is not named, though nothing else accounts for them better.
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
    // one silence accounts for the losses only if most of them fall into it
    if patterns.outage > 0.0 && share_in_silence(evidence) > 0.5 {
        contest.support(Cause::Outage, patterns.outage - background);
    }
    enter_policer(&mut contest, evidence, patterns.bucket - background);
    enter_queues(&mut contest, evidence, &patterns, background);
    contest
}

/// The time in which nothing passed, if it is too long for a burst of losses: the sender's timer has expired in it, and what
/// it then sent was lost, too.
fn silence(evidence: &Evidence) -> Option<Silence> {
    let silence = evidence.pattern?.silence;
    let longest_burst_s = (3.0 * evidence.base_rtt_s.unwrap_or(USUAL_RTT_S)).max(SHORTEST_OUTAGE_S);
    let is_long = silence.until_s - silence.from_s > longest_burst_s;
    let lost = silence.lost as u64;
    (is_long && lost >= FEWEST_LOSSES && has_ended(&silence, evidence)).then_some(silence)
}

/// Something passed after it: of a silence to the end nobody knows whether the path was to blame, or that it went on.
fn has_ended(silence: &Silence, evidence: &Evidence) -> bool {
    let trace = &evidence.group_trace.trace;
    let first = trace
        .time_s
        .partition_point(|time_s| *time_s < silence.until_s);
    trace.outcome[first..].contains(&Seen::Passed)
}

/// Share of the losses that fall into it.
pub fn share_in_silence(evidence: &Evidence) -> f64 {
    let lost = evidence.group_trace.trace.lost.max(1) as f64;
    silence(evidence).map_or(0.0, |silence| silence.lost as f64 / lost)
}

/// Patterns of losses, nats above losses at one rate.
struct Patterns {
    bucket: f64,
    by_delay: f64,
    by_time: f64,
    /// The share of that which one silence makes.
    outage: f64,
    clumps: usize,
    /// Chance cannot be told by so few losses, or by one clump of them.
    few: bool,
    delays_tell: bool,
    holes_tell: bool,
    /// How sure a bucket that fits makes, 0 to 1.
    sharpness: f64,
}

impl Patterns {
    fn of(evidence: &Evidence) -> Self {
        let telling = |fit: &&BucketFit| fit.certainty() >= WEAK_CERTAINTY;
        // what a busy line lets out comes as through a bucket of a packet or two, whatever was dropped before it
        let from_busy_line = evidence.holes.closed_nats() > evidence.holes.left_nats();
        let bucket = evidence
            .bucket
            .as_ref()
            .filter(telling)
            .filter(|_| !from_busy_line);
        let pattern = evidence.pattern.as_ref();
        // a silence was looked for as the other patterns were
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
            delays_tell: delays_told(evidence),
            holes_tell: evidence.holes.runs > 0,
            sharpness: bucket.map_or(0.0, |fit| (fit.certainty() + expected_share(fit)) / 2.0),
        }
    }

    /// By what acts on delay. Where that is beyond doubt, losses that change with time do so because delays do.
    fn with_delay(&self) -> f64 {
        if self.by_delay > -CHANCE {
            self.by_delay.max(self.by_time)
        } else {
            self.by_delay
        }
    }

    /// The same patterns by no mechanism that is known.
    fn background(&self) -> f64 {
        let leaning = |nats: f64, cost: f64| {
            if nats > 0.0 {
                nats - cost
            } else {
                f64::NEG_INFINITY
            }
        };
        let chance = match () {
            // that which cannot be told is a part of what is unknown
            () if self.few => 0.0,
            () if self.delays_tell => -CHANCE_NATS,
            () if self.holes_tell => -HOLES_CHANCE_NATS,
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
    } else if !delays_told(evidence) && !losses_come_singly(evidence) {
        let mean_run = trace.lost as f64 / runs as f64;
        let code = match holes.are_left() {
            true => "losses-in-runs-without-queue",
            false => "losses-in-runs",
        };
        contest.rule_out(Cause::RandomLoss, fact!(code, mean_run = mean_run));
    } else if !delays_told(evidence) {
        // queue management, too, drops singly, and what delays would say of it is not seen here
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
        None => check.holds(fit, delays_tell(evidence)),
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
    if depth == Cause::Unknown || !delays_tell(evidence) {
        return;
    }
    let overflows = queue_shows(evidence) == Some(true)
        && drains_as_it_drops(evidence)
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
        // a queue that overflows makes the pattern of a bucket, too
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

/// For how long the queue stood, longer than any queue management lets one stand, without a drop. What may be marked instead
/// tells nothing.
fn stood_unmanaged_s(evidence: &Evidence) -> Option<f64> {
    if evidence.totals.ecn_in_use || !queue_explains_delays(evidence) {
        return None;
    }
    let stood_s = stood_s(&evidence.group_trace.trace, unmanaged_wait_s(evidence));
    (stood_s > LONGEST_UNMANAGED_S).then_some(stood_s)
}

/// Waits that queue management drops for, if they last.
fn unmanaged_wait_s(evidence: &Evidence) -> f64 {
    UNMANAGED_WAIT_S.max(evidence.base_rtt_s.unwrap_or(USUAL_RTT_S))
}

/// A queue on the way out makes the delays.
pub fn queue_explains_delays(evidence: &Evidence) -> bool {
    let explains = |drain: &DrainFit| drain.explained > DELAY_EXPLAINED;
    evidence.drain.as_ref().is_some_and(explains)
}

/// A queue drains at the rate at which it drops, and one that is full holds packets for as long as its size takes. Where
/// the delays are less than that, their own rate must agree: shapers let a burst pass first.
fn drains_as_it_drops(evidence: &Evidence) -> bool {
    let as_full = |occupancy: &DelayByOccupancy| occupancy.ratio_bounds().1 > FULL_QUEUE_RATIO;
    let alike = |fit: &BucketFit, drain: &DrainFit| {
        (drain.rate_bps / fit.rate_bps.value).ln().abs() < ALIKE_RATES
    };
    let rates = evidence.bucket.as_ref().zip(evidence.drain.as_ref());
    evidence.occupancy.as_ref().is_some_and(as_full)
        || queue_explains_delays(evidence) && rates.is_some_and(|(fit, drain)| alike(fit, drain))
}

/// Losses in a row may be one outage; a bucket or queue that overflows does so again and again.
fn again(evidence: &Evidence) -> bool {
    evidence.group_trace.trace.loss_runs() as u64 >= FEWEST_LOSSES
}

/// True if delays may be measured at the losses: what was lost before the capture point leaves none, nor do data without
/// acknowledgments, nor stamps too coarse for the shortest wait that queue management aims at.
fn delays_tell(evidence: &Evidence) -> bool {
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

/// True where they were measured: next to a few losses there may be none.
fn delays_told(evidence: &Evidence) -> bool {
    delays_tell(evidence) && evidence.at_loss.is_some()
}

fn large_enough(fit: &BucketFit, evidence: &Evidence) -> bool {
    let packets = fit.limit_bytes.value / fit.packet_bytes;
    packets
        >= if delays_tell(evidence) {
            SMALLEST_BUCKET_PACKETS
        } else {
            SEEN_BUCKET_PACKETS
        }
}

/// Losses that come with delays as long as a queue of the bucket's size would make are that queue's.
fn delays_contradict(fit: &BucketFit, evidence: &Evidence) -> bool {
    // behind a queue all comes at its rate, as through a bucket
    if evidence.by_clocks {
        return true;
    }
    let held_s = fit.limit_bytes.value * 8.0 / fit.rate_bps.value;
    let at_loss = evidence.at_loss.as_ref();
    at_loss
        .is_some_and(|at_loss| related_to_delay(at_loss) && at_loss.shorter_median_s > held_s / 2.0)
}

fn within_reach(fit: &BucketFit, evidence: &Evidence) -> bool {
    let trace = &evidence.group_trace.trace;
    let sent_s = trace.duration_s().min(evidence.totals.union_busy_s);
    fit.rate_bps.value < OUT_OF_REACH * trace.passed_bytes * 8.0 / sent_s.max(1e-9)
}

/// A bucket that fills faster than the path's own queue drains would never run dry: what dropped is the queue, whose rate
/// this is, bit/s.
fn slower_queue_bps(fit: &BucketFit, evidence: &Evidence) -> Option<f64> {
    let drain = evidence.drain.as_ref()?;
    (drain.explained > DELAY_EXPLAINED && drain.rate_bps < fit.rate_bps.value)
        .then_some(drain.rate_bps)
}

/// Share of the losses that the bucket expects.
fn expected_share(fit: &BucketFit) -> f64 {
    let lost: u32 = fit.agreement.lost.iter().sum();
    f64::from(fit.agreement.expected_losses()) / f64::from(lost.max(1))
}

fn bucket_fits(fit: &BucketFit) -> bool {
    fit.gain() >= NEEDED_GAIN
        && fit.certainty() >= NEEDED_CERTAINTY
        && expected_share(fit) >= NEEDED_EXPECTED
}

/// Where delays already show a queue and losses come with it, the pattern of losses need not be as sharp: the queue
/// may count packets or cells, and drain in units of its own.
fn bucket_fits_a_queue(evidence: &Evidence) -> bool {
    let related = evidence.at_loss.as_ref().is_some_and(related_to_delay);
    let sharp_enough =
        |fit: &BucketFit| fit.gain() >= NEEDED_GAIN && fit.certainty() >= WEAK_CERTAINTY;
    related && evidence.bucket.as_ref().is_some_and(sharp_enough)
}

/// The burst that came through a bucket before the capture point and no queue would have let through.
pub fn burst_before(evidence: &Evidence) -> Option<Burst> {
    let fit = evidence
        .bucket
        .as_ref()
        .filter(|_| evidence.lost_mostly_before())?;
    spent_at_once(&evidence.group_trace.trace, fit)
}

/// Find out if packets near the limit of the fitted bucket were delayed as by a queue: `None` when it cannot be told.
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
    // shorter round trips near the limit than elsewhere are neither's: other flows' acknowledgments were late
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

/// A full queue as large as the bucket delays for longer than the stamps' tick hides.
fn queue_would_show(evidence: &Evidence) -> bool {
    let held_s = |fit: &BucketFit| fit.limit_bytes.value * 8.0 / fit.rate_bps.value;
    let least_s = TICKS_THAT_SHOW * evidence.tick_s;
    evidence
        .bucket
        .as_ref()
        .is_none_or(|fit| held_s(fit) >= least_s)
}

/// The same for a bucket that is always nearly spent, so that there is nothing to compare with: by the delay at
/// the losses alone, against what a full queue would add.
fn queue_shows_at_losses(evidence: &Evidence) -> Option<bool> {
    let (bucket, at_loss) = (evidence.bucket.as_ref()?, evidence.at_loss.as_ref()?);
    let held_s = bucket.limit_bytes.value * 8.0 / bucket.rate_bps.value;
    let ratio = at_loss.shorter_median_s / held_s;
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

/// Losses come at one delay, as a full queue makes them. Others may have waited longer elsewhere: what manages a queue drops
/// at many delays.
fn drops_at_one_delay(at_loss: &DelayAtLoss) -> bool {
    at_loss.events >= ENOUGH_EVENTS
        && at_loss.high_s - at_loss.low_s < ONE_DELAY_SHARE * at_loss.median_s
}

/// Losses come when the delay is at its longest, and only then.
fn tail_drop_shows(evidence: &Evidence) -> bool {
    let Some(at_loss) = &evidence.at_loss else {
        return false;
    };
    let related = at_loss.mean_rank > TAIL_DROP_RANK && at_loss.log_chance < CHANCE / 2.0;
    // a packet more or less in the queue when the delay was measured
    let noise_s = TAIL_DROP_NOISE_PACKETS * evidence.packet_time_s();
    let all_at_the_top = at_loss.low_s > TAIL_DROP_LOWEST * at_loss.largest_s - noise_s;
    // a second cause may take some packets at any delay
    let most_at_the_top = at_loss.events >= ENOUGH_EVENTS
        && at_loss.median_s > MOST_AT_TOP * at_loss.high_s
        && at_loss.high_s > MOST_AT_TOP * at_loss.largest_s;
    let enough = at_loss.events as u64 >= FEWEST_LOSSES;
    // a full queue lets nobody in who would wait longer
    enough
        && at_loss.longer_waits <= LET_IN * at_loss.losses
        && related
        && (all_at_the_top || most_at_the_top)
        && at_loss.median_s > SHORTEST_DELAY_S
}

/// No queue management lets packets wait so long before it drops any: the wait from which on they were lost, seconds.
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

/// Half the packets waited for longer than any queue management would let them. Where another queue, as that of the way
/// back, made some of them wait, this one is not known to be full, but neither that anything manages it.
fn waits_unmanaged(evidence: &Evidence) -> bool {
    typical_s(evidence) > longest_managed_s(evidence)
}

fn delays_are_one_queues(evidence: &Evidence) -> bool {
    let explains = |drain: &DrainFit| drain.explained > STANDING_EXPLAINED;
    evidence.drain.as_ref().is_some_and(explains)
}

/// Losses before the capture point leave no delays to look at. Independent ones come in runs of one, but for chance;
/// a full queue drops several of one burst.
fn losses_come_singly(evidence: &Evidence) -> bool {
    let runs = evidence.group_trace.trace.loss_runs() as f64;
    let trace = &evidence.group_trace.trace;
    let chance_of_a_second = trace.lost as f64 / trace.len().max(1) as f64;
    trace.lost as f64 / runs.max(1.0) < LONGER_RUNS / (1.0 - chance_of_a_second)
}

/// Shallow or deep: by the delay that it adds, and by the packets that it then holds.
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

/// Why what was lost found no full queue, by the waits around the losses.
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
