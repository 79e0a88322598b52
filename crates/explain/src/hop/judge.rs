//! The mechanism that explains the losses of a hop.
//!
//! The rules are those for one capture, applied to facts instead of conclusions; before them come rules that
//! need two captures: the queue that lost packets found, flows that overtake each other, and rates that
//! differ between the element that drops and the one that delays.

use whydrop_path::ElementSpec;
use whydrop_path::fit::passage::BacklogAtLosses;
use whydrop_path::fit::{BucketFit, Interval, PairFit, Seen};
use whydrop_verdict::{Cause, Fact, fact, log_odds};

use super::byte_basis::ByteBasis;
use super::full_queue::full_queue;
use super::management::{early_reason, queue_management};
use super::measure::Hop;
use super::models::{bucket_replayed, replay_over};
use crate::contest::Contest;
use crate::judge::Judgement;
use crate::losses::{contest, queue_depth};
use crate::management::Family;
use crate::replay_check::ReplayCheck;
use crate::thresholds::{EXACT_FATES_NATS, NEEDED_CERTAINTY};

/// A judgement on a hop, with evidence that needs two captures.
#[derive(Debug, Clone)]
pub struct HopJudgement {
    pub judgement: Judgement,
    pub family: Option<Family>,
    /// A queue of the same hop delays packets, and another element drops them.
    pub beside_queue: bool,
}

/// Judges the losses of a hop, of which there must be some.
pub fn judge_hop(hop: &Hop) -> HopJudgement {
    if let Some(thinning) = &hop.thinning {
        let confidence = thinning.agreement().clamp(0.5, 0.99);
        return plain(Judgement::new(Cause::ShallowQueue, confidence));
    }
    let mut contest = contest(&hop.evidence);
    refute(&mut contest, hop);
    let mut beside_queue = false;
    if full_queue_shows(hop) {
        let depth = queue_depth(&hop.evidence);
        contest.prove(depth, log_odds(full_queue_confidence(hop)));
        contest.rule_out(Cause::Policer, queued_reason(hop));
        contest.rule_out(Cause::Aqm, drops_when_full(hop));
    } else if let Some((fit, why)) = bucket_beside_queue(hop) {
        contest.prove(Cause::Policer, log_odds(fit.certainty().clamp(0.5, 0.95)));
        for queue in [Cause::ShallowQueue, Cause::DeepQueue, Cause::Aqm] {
            contest.rule_out(queue, why.clone());
        }
        beside_queue = true;
    } else if let Some(agree) = two_buckets_drop(hop) {
        contest.prove(Cause::Policer, log_odds(agree.clamp(0.5, 0.97)));
    }
    let mut judgement = contest.settle();
    if judgement.cause == Cause::Unknown && neither_queue_nor_bucket(hop) {
        let mut random = Judgement::new(Cause::RandomLoss, 0.6);
        random.against.push((Cause::Policer, refuted_reason(hop)));
        let judged = queue_management(hop, &judgement).unwrap_or_else(|| plain(random));
        return with_exact_fates(judged);
    }
    judgement
        .against
        .sort_by_key(|(cause, _)| *cause != Cause::Policer);
    let early = match judgement.cause {
        Cause::Aqm | Cause::Unknown | Cause::RandomLoss => queue_management(hop, &judgement),
        Cause::ShallowQueue | Cause::DeepQueue if fullness_varies(hop) => {
            queue_management(hop, &judgement)
        }
        _ => None,
    };
    with_exact_fates(early.unwrap_or_else(|| HopJudgement {
        beside_queue,
        ..plain(judgement)
    }))
}

/// Chance and queues are judged with more certainty if fates are exact and no other element is involved.
fn with_exact_fates(mut judged: HopJudgement) -> HopJudgement {
    let judgement = &mut judged.judgement;
    if matches!(
        judgement.cause,
        Cause::RandomLoss | Cause::ShallowQueue | Cause::DeepQueue | Cause::Aqm
    ) {
        let odds = (log_odds(judgement.confidence) + EXACT_FATES_NATS).exp();
        judgement.confidence = odds / (1.0 + odds);
    }
    judged
}

fn plain(judgement: Judgement) -> HopJudgement {
    HopJudgement {
        judgement,
        family: None,
        beside_queue: false,
    }
}

/// Rule out by exact fates and counts: a full queue that lets other packets in, and a bucket that drops other
/// packets.
fn refute(contest: &mut Contest, hop: &Hop) {
    let seen = hop
        .departures
        .as_ref()
        .is_some_and(|departures| departures.unseen_share == 0.0);
    if let Some(backlog) = hop.backlog.as_ref().filter(|_| seen)
        && backlog.passed_with_more > backlog.losses
    {
        for queue in [Cause::ShallowQueue, Cause::DeepQueue] {
            contest.rule_out(queue, early_reason(hop));
        }
        contest.allow(Cause::Aqm);
    }
    if let Some(backlog) = hop
        .backlog
        .as_ref()
        .filter(|backlog| !managed_has_something(backlog))
    {
        let why = fact!("found-nothing-inside", share = backlog.found_empty);
        contest.rule_out(Cause::Aqm, why);
    }
    if contest.standing(Cause::Outage).is_some()
        && let Some(fact) = departures_in_silence(hop)
    {
        contest.rule_out(Cause::Outage, fact);
    }
    if let Some(fit) = &hop.bucket
        && contest.standing(Cause::Policer).is_some()
        && let Some(why) = drains_as_drops(hop, fit)
            .or_else(|| failing_replay(hop, fit))
            .or_else(|| starves(hop, fit))
            .or_else(|| drops_what_waits(hop, fit))
    {
        contest.rule_out(Cause::Policer, why);
    }
}

/// The rate at which nearly all packets left while packets were queued, if the bucket fills as fast, or
/// nearly as fast and drops other packets than were lost: then the bucket is the backlog of that queue. A
/// policer that happens to have the queue's rate is less likely.
fn drains_as_drops(hop: &Hop, fit: &BucketFit) -> Option<Fact> {
    let departures = hop.departures.as_ref()?;
    let drains_bps = departures.rate_bps.value;
    let apart = (fit.rate_bps.value / drains_bps).ln().abs();
    let replayed = || bucket_replayed(&hop.passages, fit, hop.idle_wait_s()).agreement();
    let alike = apart < SAME_RATE || (apart < -CLEARLY_SLOWER.ln() && replayed() < EXACT);
    let served = departures.served as f64 > NEARLY_ALL * hop.passages.passed as f64;
    (alike && served).then(|| fact!("drains-as-drops", drain_rate_bps = drains_bps))
}

/// Losses at the longest delays of a queue that is seen to drain are its own, unless a bucket, or two, drop
/// exactly those packets.
fn drops_what_waits(hop: &Hop, fit: &BucketFit) -> Option<Fact> {
    hop.departures.as_ref()?;
    let replayed = || {
        let one = bucket_replayed(&hop.passages, fit, hop.idle_wait_s()).agreement();
        two_replayed(hop).map_or(one, |two| two.max(one))
    };
    let queued = hop.behind_queue.is_none() && with_the_longest_waits(hop) && replayed() < EXACT;
    queued.then(|| queued_reason(hop))
}

fn with_the_longest_waits(hop: &Hop) -> bool {
    let at_loss = hop.evidence.at_loss.as_ref();
    at_loss.is_some_and(|at_loss| at_loss.mean_rank > UNRELATED_RANK)
}

/// Rates are equal if they differ by less than this (log): the accuracy required of a reported rate.
const SAME_RATE: f64 = 0.02;
const NEARLY_ALL: f64 = 0.9;

/// An outage lets nothing out. If packets left for most of the time in which all arrivals were lost, a queue
/// was full. Returns the last of them after the first loss, and the length of that time.
fn departures_in_silence(hop: &Hop) -> Option<Fact> {
    let silence = hop.evidence.pattern.as_ref()?.silence;
    let passages = &hop.passages;
    let departures = (0..passages.len()).map(|index| passages.departure_s(index));
    let within = departures.filter(|out_s| (silence.from_s..silence.until_s).contains(out_s));
    let (out_s, silence_s) = (
        within.fold(0.0, f64::max) - silence.from_s,
        silence.until_s - silence.from_s,
    );
    (out_s > 0.5 * silence_s)
        .then(|| fact!("came-out-in-silence", out_s = out_s, silence_s = silence_s))
}

/// No law drops while less than a packet is queued (RFC 8289, section 4.4; RFC 8033, section 4.1).
pub(super) fn managed_has_something(backlog: &BacklogAtLosses) -> bool {
    backlog.packets.value >= 1.0
}

fn drops_when_full(hop: &Hop) -> Fact {
    fact!(
        "drops-only-when-full",
        median_s = hop
            .evidence
            .at_loss
            .as_ref()
            .map_or(0.0, |at_loss| at_loss.median_s)
    )
}

/// Share of lost packets that must have found nothing queued ...
const FOUND_NOTHING: f64 = 0.9;
/// ... and least error of the best bucket as a share of a packet for each loss, which must also exceed the
/// timestamp noise.
const WRONG_BY: f64 = 0.25;

/// True for losses in runs, in an empty hop, that no bucket explains without a correction at each: the path
/// drops independently of load.
fn neither_queue_nor_bucket(hop: &Hop) -> bool {
    let pattern = hop.evidence.pattern.as_ref();
    let again = hop.evidence.group_trace.trace.loss_runs() >= 2
        && pattern.is_none_or(|pattern| pattern.clumps >= 2);
    let on_empty = hop
        .backlog
        .as_ref()
        .is_some_and(|backlog| backlog.found_empty > FOUND_NOTHING);
    let refuted = hop.bucket.as_ref().is_none_or(|fit| {
        let wrong_by = fit.agreement.corrected_bytes() / hop.passages.lost.max(1) as f64;
        let poor = fit.certainty() < NEEDED_CERTAINTY;
        poor && wrong_by > WRONG_BY * fit.packet_bytes && wrong_by > 2.0 * hop.noise_bytes(fit)
    });
    again
        && on_empty
        && refuted
        && hop.two_buckets.is_none()
        && hop.passages.lost < hop.passages.passed
}

fn refuted_reason(hop: &Hop) -> Fact {
    let Some(fit) = &hop.bucket else {
        return fact!("no-bucket-better-than-chance");
    };
    let room_bytes = fit.agreement.corrected_bytes() / hop.passages.lost.max(1) as f64;
    fact!(
        "bucket-had-room",
        rate_bps = fit.rate_bps.value,
        room_bytes = room_bytes
    )
}

/// Agreement of a freely replayed dual-rate policer with the losses.
fn two_replayed(hop: &Hop) -> Option<f64> {
    let two = hop.two_buckets.as_ref()?;
    let PairFit {
        committed, peak, ..
    } = two.pair;
    let bucket = |fit: BucketFit| (fit.rate_bps.value, fit.limit_bytes.value);
    let (rate_bps, burst_bytes) = bucket(committed);
    let policer = ElementSpec::policer(rate_bps, burst_bytes)
        .with_peak(Some(bucket(peak)))
        .with_overhead(two.basis.map_or(0, ByteBasis::overhead_bytes));
    let replay = replay_over(&hop.passages, policer.into(), hop.idle_wait_s());
    Some(replay.agreement())
}

/// The same if no queue delays packets and it drops most of the lost packets exactly.
fn two_buckets_drop(hop: &Hop) -> Option<f64> {
    let agree = two_replayed(hop)?;
    let again = hop.evidence.group_trace.trace.loss_runs() >= 5;
    (again && hop.departures.is_none() && agree > TWO_AGREE).then_some(agree)
}

/// Four parameters must do better than two: three quarters of the drops and of the losses agree.
const TWO_AGREE: f64 = 0.75;

/// True if the contents found by losses vary: losses of one full queue find about the same, however the
/// others vary.
fn fullness_varies(hop: &Hop) -> bool {
    let unseen = hop
        .departures
        .as_ref()
        .is_none_or(|departures| departures.unseen_share > 0.0);
    let backlog = hop.backlog.as_ref();
    !unseen && backlog.is_some_and(|backlog| backlog.losses >= 10 && backlog.near_median < 0.4)
}

fn full_queue_shows(hop: &Hop) -> bool {
    let lost_share = hop.passages.lost as f64 / hop.passages.len().max(1) as f64;
    let is_full = |backlog: &BacklogAtLosses| full_queue(backlog, lost_share);
    hop.departures.is_some() && hop.backlog.as_ref().is_some_and(is_full)
}

fn full_queue_confidence(hop: &Hop) -> f64 {
    let backlog = hop.backlog.as_ref().expect("there were losses");
    let misfits = backlog.misfits_packets.min(backlog.misfits_bytes) as f64;
    (1.0 - misfits / (misfits + backlog.losses as f64)).clamp(0.6, 0.99)
}

fn queued_reason(hop: &Hop) -> Fact {
    let waited_s = hop
        .evidence
        .at_loss
        .as_ref()
        .map_or(0.0, |at_loss| at_loss.median_s);
    let inside = hop
        .backlog
        .as_ref()
        .map_or(0.0, |backlog| backlog.packets.value);
    fact!(
        "packets-waited-inside",
        waited_s = waited_s,
        inside = inside as u64
    )
}

/// A bucket beside a queue fills at less than this share of the rate at which the queue drains: closer rates
/// cannot be distinguished with certainty.
const CLEARLY_SLOWER: f64 = 0.92;
/// With a correct bucket, exact fates need almost no correction: per loss, this many times the timestamp
/// noise ...
const CORRECTED_NOISE: f64 = 2.0;
/// ... or, behind the queue, this share of a packet: the arrival of a lost packet there is known only from
/// its neighbours.
const CORRECTED_BEHIND: f64 = 0.25;

/// All arrivals are known: a bucket that all of them pass drops exactly the lost packets. If its drops agree
/// with the losses less than this, other traffic passes it too, and so the queue.
const EXACT: f64 = 0.9;

/// The bucket, if it fills clearly slower than the queue of the hop drains: then another element than the
/// queue drops.
///
/// Unless other traffic shares the queue, or may, because its rate is imprecise: then the captured packets
/// get less than the drain rate, and losses at the longest delays are the queue's own.
fn bucket_beside_queue(hop: &Hop) -> Option<(BucketFit, Fact)> {
    let departures = hop.departures.as_ref()?;
    let may_be_shared = departures.unseen_share > 0.0 || !is_sharp(departures.rate_bps);
    // an element behind a queue drops while that queue is long
    let may_wait = with_the_longest_waits(hop) && hop.behind_queue.is_none();
    if may_wait && may_be_shared || waits_for_its_backlog(hop) {
        return None;
    }
    let drains = departures.rate_bps.low.unwrap_or(departures.rate_bps.value);
    let slower = |fit: &BucketFit| {
        fit.rate_bps
            .high
            .is_some_and(|high| high < CLEARLY_SLOWER * drains)
    };
    let sharp = |fit: &BucketFit| {
        let lost = hop.passages.lost.max(1) as f64;
        let noise_bytes = CORRECTED_NOISE * hop.noise_bytes(fit);
        let corrected_bytes = match hop.behind_queue {
            Some(_) => noise_bytes.max(CORRECTED_BEHIND * fit.packet_bytes),
            None => noise_bytes,
        };
        fit.gain() > 20.0
            && fit.certainty() > 0.6
            && f64::from(fit.agreement.expected_losses()) > 0.8 * lost
            && fit.limit_bytes.value > 3.0 * fit.packet_bytes
            && fit.agreement.corrected_bytes() < corrected_bytes * lost
    };
    let again = hop.evidence.group_trace.trace.loss_runs() >= 3;
    let fit = hop
        .behind_queue
        .map(|behind| behind.fit)
        .or(hop.bucket)
        .filter(|fit| again && slower(fit) && sharp(fit))?;
    let replayed = || bucket_replayed(&hop.passages, &fit, hop.idle_wait_s()).agreement();
    if may_wait && replayed() < EXACT {
        return None;
    }
    let fails = || failing_replay(hop, &fit).is_some() || starves(hop, &fit).is_some();
    if hop.behind_queue.is_none() && fails() {
        return None;
    }
    let why = fact!(
        "drains-unlike-drops",
        drain_rate_bps = departures.rate_bps.value,
        rate_bps = fit.rate_bps.value
    );
    Some((fit, why))
}

/// True if packets that found the bucket nearly empty waited for as long as its backlog takes at its own
/// rate: behind a policer the queue drains faster, and so never holds as much.
fn waits_for_its_backlog(hop: &Hop) -> bool {
    let occupancy = hop.evidence.occupancy.as_ref();
    hop.behind_queue.is_none()
        && occupancy.is_some_and(|occupancy| {
            let more_s = occupancy.near_limit_s - occupancy.empty_s;
            more_s > CLEARLY_SLOWER * occupancy.expected_s
        })
}

/// A rate known to within this share leaves no room for other traffic.
const SHARP: f64 = 0.05;

fn is_sharp(rate: Interval) -> bool {
    let width = rate.low.zip(rate.high).map(|(low, high)| high - low);
    width.is_some_and(|width| width < SHARP * rate.value)
}

/// A bucket that fills lets packets pass from time to time. Share of the losses that may belong to runs
/// longer than the time in which it fills by as much, while other traffic takes the tokens.
const STARVED: f64 = 0.25;

/// The fact that nothing passed for so long, repeatedly, that the bucket would have let packets pass.
fn starves(hop: &Hop, fit: &BucketFit) -> Option<Fact> {
    let passages = &hop.passages;
    let bytes_per_s = fit.rate_bps.value / 8.0;
    let noise_s = 2.0 * hop.noise_bytes(fit) / bytes_per_s;
    let fates = (0..passages.len()).filter(|index| passages.outcome[*index] != Seen::Unknown);
    let fates: Vec<usize> = fates.collect();
    let runs = fates.chunk_by(|a, b| passages.outcome[*a] == passages.outcome[*b]);
    let starved = runs.filter(|run| passages.outcome[run[0]] == Seen::Lost);
    let starved = starved.map(|run| {
        let lasts_s = passages.arrival_s[run[run.len() - 1]] - passages.arrival_s[run[0]];
        let filled_bytes = bytes_per_s * (lasts_s - noise_s).max(0.0);
        ((filled_bytes / fit.packet_bytes) as usize).min(run.len() - 1)
    });
    let starved: usize = starved.sum();
    (starved as f64 > STARVED * passages.lost as f64).then(|| missing(hop, fit))
}

/// Mean rank of the delays before losses from which losses and delays are related.
const UNRELATED_RANK: f64 = 0.7;

/// The fact that a freely replayed bucket does not drop the lost packets: too few of the losses that it
/// claims, and of its drops, agree.
fn failing_replay(hop: &Hop, fit: &BucketFit) -> Option<Fact> {
    let replay = bucket_replayed(&hop.passages, fit, hop.idle_wait_s());
    let dropped = replay.packets.iter().map(|packet| packet.dropped);
    let nearby = ReplayCheck::new(dropped, &hop.passages.outcome);
    (!nearby.holds(fit, true)).then(|| missing(hop, fit))
}

fn missing(hop: &Hop, fit: &BucketFit) -> Fact {
    let replay = bucket_replayed(&hop.passages, fit, hop.idle_wait_s());
    fact!(
        "policer-misses",
        rate_bps = fit.rate_bps.value,
        dropped = replay.dropped,
        hits = replay.hits,
        lost = replay.lost
    )
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
