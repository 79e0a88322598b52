//! Causes compete: which accounts for what a group of flows lost, and for what held it up?
//!
//! Thresholds here are statements about physics or about chance, not about any set of captures; each says which.

use whydrop_path::fit::{BucketFit, DelayAtLoss, DrainFit};

use whydrop_verdict::{Cause, Fact, fact};

use crate::evidence::{Evidence, Totals};
use crate::limits;
use whydrop_tcp::Limiter;

/// A cause and how sure it is, 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    pub cause: Cause,
    pub confidence: f64,
    /// Causes that lost, each with the reason.
    pub against: Vec<(Cause, Fact)>,
}

/// A bucket model must make the losses this many times more likely than chance to be considered: e^20 is 5e8,
/// which leaves room for the many rates and limits that the search tries.
const NEEDED_GAIN: f64 = 20.0;
/// ... and remove this share of the uncertainty about which packets were lost.
const NEEDED_CERTAINTY: f64 = 0.45;
/// ... and expect this share of the losses.
const NEEDED_EXPECTED: f64 = 0.6;
/// Behind any queue packets come no closer than it lets them out, so a bucket of this many packets, spent at once, is
/// what no queue before the capture point leaves of a burst. Smaller ones need the delays to tell.
const SEEN_BUCKET_PACKETS: f64 = 8.0;
/// A bucket below this is no bucket: one packet and its neighbour, blurred by jitter.
const SMALLEST_BUCKET_PACKETS: f64 = 3.0;
/// A queue that drops has delayed what it let in just before: by the time that a full queue takes to drain. Below
/// this share of that time there is no queue worth the name (a few packets in front of a policer's bucket).
const NO_QUEUE_RATIO: f64 = 0.05;
/// Above this share of it there is one. Shapers that let a burst pass first delay by less than a full queue.
const QUEUE_RATIO: f64 = 0.1;
/// A delay this many times longer than the fitted queue could cause has another cause.
const OTHER_DELAY_RATIO: f64 = 2.5;
/// A relation between losses and delay that chance brings about less often than this is taken for real: e^-7 is
/// one in a thousand.
const CHANCE: f64 = -7.0;
/// ... and where the delays themselves are known to be a queue's, this often: e^-5 is one in 150.
const CHANCE_WITH_QUEUE: f64 = -5.0;
/// Tail drop comes when the queue is full, so nearly all delays are shorter than those just before a loss.
const TAIL_DROP_RANK: f64 = 0.75;
/// Losses at delays that differ by more than this share of the longest were not all made by one full queue.
const TAIL_DROP_LOWEST: f64 = 0.75;
/// The delay is measured on the packet before the lost one, which may have found a packet or two less.
const TAIL_DROP_BLUR_PACKETS: f64 = 1.5;
/// With this many loss events, their median tells where most of them lie ...
const ENOUGH_EVENTS: usize = 20;
/// ... and within a tenth of the longest delay is at the top.
const MOST_AT_TOP: f64 = 0.9;
/// A delay model that accounts for this share of the spread of all delays is a queue.
const DELAY_EXPLAINED: f64 = 0.6;
/// With fewer losses nothing about their pattern can be said.
const FEWEST_LOSSES: u64 = 3;
/// With fewer data packets nothing is limited but by what there was to send.
const FEWEST_PACKETS: u64 = 50;
/// Two dozen packets: the burst of one window of ten segments and its successor overflow it ...
const SHALLOW_PACKETS: f64 = 24.0;
/// ... and a queue that never adds half a round trip is shallow however many packets it holds.
const SHALLOW_RTT_SHARE: f64 = 0.5;

/// Judges what a group of flows lost.
pub fn judge_losses(evidence: &Evidence) -> Judgement {
    let bucket = evidence.bucket.as_ref();
    // losses in a row may be one outage; a bucket or queue that overflows does so again and again
    let again = evidence.group_trace.trace.loss_runs() as u64 >= FEWEST_LOSSES;
    let fits = again && bucket.is_some_and(bucket_fits);
    let queue = queue_shows(evidence);
    let tail_drop = tail_drop_shows(evidence);
    let mut against = Vec::new();
    let policed = |fit: &BucketFit| {
        within_reach(fit, evidence)
            && large_enough(fit, evidence)
            && below_the_bottleneck(fit, evidence)
            && !delays_contradict(fit, evidence)
    };
    let judged = if fits && queue == Some(false) && bucket.is_some_and(policed) {
        against.push((Cause::ShallowQueue, no_queue_reason(evidence)));
        let bucket = bucket.expect("it fits");
        (Cause::Policer, confidence_of_bucket(bucket))
    } else if fits
        && queue == Some(false)
        && bucket.is_some_and(|fit| below_the_bottleneck(fit, evidence))
    {
        // the losses say bucket, something else says no: two causes, or one that is not among these
        (Cause::Unknown, 0.5)
    } else if queue == Some(true) && (fits || bucket_fits_a_queue(evidence)) {
        against.push((Cause::Policer, queue_reason(evidence)));
        (
            queue_depth(evidence),
            confidence_of_bucket(bucket.expect("it fits")),
        )
    } else if tail_drop {
        against.push((Cause::Policer, queue_reason(evidence)));
        (queue_depth(evidence), 0.8)
    } else if standing_queue_shows(evidence) {
        against.push((Cause::Policer, queue_reason(evidence)));
        (Cause::DeepQueue, 0.7)
    } else if early_drop_shows(evidence) {
        against.push((Cause::DeepQueue, early_drop_reason(evidence)));
        (Cause::Aqm, 0.7)
    } else if not_an_outage(evidence) && independent_losses(evidence) {
        if let Some(bucket) = bucket {
            against.push((
                Cause::Policer,
                poor_bucket_reason(bucket, evidence.totals.lost),
            ));
        }
        (Cause::RandomLoss, 0.8)
    } else {
        (Cause::Unknown, 0.5)
    };
    Judgement {
        cause: judged.0,
        confidence: judged.1,
        against,
    }
}

fn large_enough(fit: &BucketFit, evidence: &Evidence) -> bool {
    let packets = fit.limit_bytes.value / fit.packet_bytes;
    let delays_tell = evidence.totals.lost_before_capture * 2 < evidence.totals.lost;
    packets
        >= if delays_tell {
            SMALLEST_BUCKET_PACKETS
        } else {
            SEEN_BUCKET_PACKETS
        }
}

/// Losses that come with delays as long as a queue of the bucket's size would make are that queue's.
fn delays_contradict(fit: &BucketFit, evidence: &Evidence) -> bool {
    let held_s = fit.limit_bytes.value * 8.0 / fit.rate_bps.value;
    let at_loss = evidence.at_loss.as_ref();
    at_loss
        .is_some_and(|at_loss| related_to_delay(at_loss) && at_loss.shorter_median_s > held_s / 2.0)
}

/// A bucket that fills this many times faster than packets arrive could only drop from bursts that no sender sends.
const OUT_OF_REACH: f64 = 200.0;

fn within_reach(fit: &BucketFit, evidence: &Evidence) -> bool {
    let totals = &evidence.totals;
    fit.rate_bps.value
        < OUT_OF_REACH * totals.payload_bytes as f64 * 8.0 / totals.union_busy_s.max(1e-9)
}

/// A bucket that fills faster than the path's own queue drains would never run dry: what dropped is the queue.
fn below_the_bottleneck(fit: &BucketFit, evidence: &Evidence) -> bool {
    !evidence.drain.as_ref().is_some_and(|drain| {
        drain.explained > DELAY_EXPLAINED && drain.rate_bps < fit.rate_bps.value
    })
}

fn bucket_fits(fit: &BucketFit) -> bool {
    let lost: u32 = fit.agreement.lost.iter().sum();
    fit.gain() >= NEEDED_GAIN
        && fit.certainty() >= NEEDED_CERTAINTY
        && f64::from(fit.agreement.expected_losses()) >= NEEDED_EXPECTED * f64::from(lost)
}

/// Where delays already show a queue and losses come with it, the pattern of losses need not be as sharp: the queue
/// may count packets or cells, and drain in units of its own.
fn bucket_fits_a_queue(evidence: &Evidence) -> bool {
    let related = evidence.at_loss.as_ref().is_some_and(related_to_delay);
    let sharp_enough = |fit: &BucketFit| fit.gain() >= NEEDED_GAIN && fit.certainty() >= 0.3;
    related && evidence.bucket.as_ref().is_some_and(sharp_enough)
}

fn confidence_of_bucket(fit: &BucketFit) -> f64 {
    let lost: u32 = fit.agreement.lost.iter().sum();
    let expected = f64::from(fit.agreement.expected_losses()) / f64::from(lost.max(1));
    (0.5 * (fit.certainty() + expected)).clamp(0.5, 0.99)
}

/// Whether packets that find the fitted bucket nearly spent were delayed as by a queue: `None` when it cannot be told.
fn queue_shows(evidence: &Evidence) -> Option<bool> {
    let Some(occupancy) = evidence
        .occupancy
        .as_ref()
        .filter(|occupancy| occupancy.expected_s > 0.0)
    else {
        return queue_shows_at_losses(evidence);
    };
    let (low, high) = occupancy.ratio_bounds();
    if low > QUEUE_RATIO
        && high < OTHER_DELAY_RATIO
        && occupancy.brink_s - occupancy.empty_s > one_packet_s(evidence) / 2.0
    {
        Some(true)
    } else if high < NO_QUEUE_RATIO {
        Some(false)
    } else {
        None
    }
}

/// The same for a bucket that is always nearly spent, so that there is nothing to compare with: by the delay at
/// the losses alone, against what a full queue would add.
fn queue_shows_at_losses(evidence: &Evidence) -> Option<bool> {
    let (bucket, at_loss) = (evidence.bucket.as_ref()?, evidence.at_loss.as_ref()?);
    let ratio = at_loss.median_s / (bucket.limit_bytes.value * 8.0 / bucket.rate_bps.value);
    if ratio < NO_QUEUE_RATIO {
        Some(false)
    } else {
        None
    }
}

/// Time that one full packet takes at the fitted rate, seconds.
fn one_packet_s(evidence: &Evidence) -> f64 {
    evidence
        .bucket
        .as_ref()
        .map_or(0.0, |fit| fit.packet_bytes * 8.0 / fit.rate_bps.value)
}

fn queue_explains_delays(evidence: &Evidence) -> bool {
    evidence
        .drain
        .as_ref()
        .is_some_and(|drain| drain.explained > DELAY_EXPLAINED)
}

fn related_to_delay(at_loss: &DelayAtLoss) -> bool {
    at_loss.log_chance < CHANCE && at_loss.mean_rank > TAIL_DROP_RANK
}

/// Losses come when the delay is at its longest, and only then.
fn tail_drop_shows(evidence: &Evidence) -> bool {
    let Some(at_loss) = &evidence.at_loss else {
        return false;
    };
    let related = at_loss.mean_rank > TAIL_DROP_RANK && at_loss.log_chance < CHANCE / 2.0;
    // a packet more or less in the queue when the delay was measured
    let blur_s = TAIL_DROP_BLUR_PACKETS * evidence.packet_time_s();
    let all_at_the_top = at_loss.low_s > TAIL_DROP_LOWEST * at_loss.largest_s - blur_s;
    // a second cause may take some packets at any delay
    let most_at_the_top = at_loss.events >= ENOUGH_EVENTS
        && at_loss.median_s > MOST_AT_TOP * at_loss.high_s
        && at_loss.high_s > MOST_AT_TOP * at_loss.largest_s;
    let at_the_top = all_at_the_top || most_at_the_top;
    let enough = at_loss.events as u64 >= FEWEST_LOSSES;
    enough && related && at_the_top && delays_matter(at_loss.median_s)
}

/// Losses come when there is delay, but not only when it is at its longest.
fn early_drop_shows(evidence: &Evidence) -> bool {
    let Some(at_loss) = &evidence.at_loss else {
        return false;
    };
    let few = (at_loss.events as u64) < FEWEST_LOSSES;
    let with_queue = queue_explains_delays(evidence)
        && at_loss.mean_rank > TAIL_DROP_RANK
        && at_loss.log_chance < CHANCE_WITH_QUEUE;
    // in a queue that never empties, early drops come at any delay but the short ones
    let spares_short_delays = evidence
        .drain
        .as_ref()
        .is_some_and(|drain| drain.explained > 0.8)
        && at_loss.log_chance_of_so_few_low < CHANCE;
    !few && (with_queue || spares_short_delays || related_to_delay(at_loss))
        && delays_matter(at_loss.median_s)
}

/// A relation to delays too short to measure is none: interfaces and hosts take tens of microseconds.
fn delays_matter(delay_s: f64) -> bool {
    delay_s > 0.2e-3
}

/// The delays are those of one queue, and half the packets waited in it for longer than any queue management would
/// let them: several round trips, and several times the 100 ms over which CoDel and PIE act.
fn standing_queue_shows(evidence: &Evidence) -> bool {
    let longest_managed_s = (2.0 * evidence.base_rtt_s.unwrap_or(0.0)).max(0.3);
    let typical_s = evidence
        .at_loss
        .as_ref()
        .map_or(0.0, |at_loss| at_loss.typical_s);
    evidence
        .drain
        .as_ref()
        .is_some_and(|drain| drain.explained > 0.8)
        && typical_s > longest_managed_s
}

/// Where a queue explains the delays, losses that lean towards the longer ones may be its doing: e^-3 is one in 20.
fn leans_on_a_queue(evidence: &Evidence, at_loss: &DelayAtLoss) -> bool {
    let standard_deviations = (at_loss.mean_rank - 0.5) * (12.0 * at_loss.events as f64).sqrt();
    queue_explains_delays(evidence)
        && (at_loss.log_chance_of_so_few_low < -3.0 || standard_deviations > 2.0)
}

/// Losses before the capture point leave no delays to look at. Independent ones come in runs of one, but for chance;
/// a full queue drops several of one burst.
fn losses_come_singly(evidence: &Evidence) -> bool {
    let runs = evidence.group_trace.trace.loss_runs() as f64;
    let trace = &evidence.group_trace.trace;
    let chance_of_a_second = trace.lost as f64 / trace.len().max(1) as f64;
    trace.lost as f64 / runs.max(1.0) < LONGER_RUNS / (1.0 - chance_of_a_second)
}

/// Runs this much longer than chance makes them are no chance.
const LONGER_RUNS: f64 = 1.2;

/// One run of losses, or more losses than deliveries, is a path that was down: nothing random.
fn not_an_outage(evidence: &Evidence) -> bool {
    let trace = &evidence.group_trace.trace;
    trace.loss_runs() >= 2 && trace.lost < trace.passed
}

fn independent_losses(evidence: &Evidence) -> bool {
    let weak = evidence
        .bucket
        .as_ref()
        .is_none_or(|fit| fit.certainty() < 0.3);
    let unrelated = evidence
        .at_loss
        .as_ref()
        .is_none_or(|at_loss| !related_to_delay(at_loss) && !leans_on_a_queue(evidence, at_loss));
    let delays_tell = evidence.totals.lost_before_capture * 2 < evidence.totals.lost;
    let alone = delays_tell || losses_come_singly(evidence);
    evidence.totals.lost >= FEWEST_LOSSES && weak && unrelated && alone
}

/// Round trip of a path whose own was not seen, because only one direction was captured.
const USUAL_RTT_S: f64 = 0.05;

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

/// Judges what held a group up that lost nothing.
pub fn judge_lossless(evidence: &Evidence) -> Judgement {
    let totals = &evidence.totals;
    let window_share = totals.window_share();
    let time_s = totals.busy_s + totals.idle_s;
    let at_the_ends = limits::largest(&totals.limited_s)
        .and_then(|(limiter, share)| Some((limits::cause_at_the_ends(limiter)?, share)));
    let base = evidence.base_rtt_s.unwrap_or(0.0);
    let against = Vec::new();
    let shaper = evidence
        .drain
        .as_ref()
        .filter(|drain| is_shaper(drain, base, totals));
    let closed_share = totals.window_closed_s / time_s.max(totals.window_closed_s).max(1e-9);
    let (cause, confidence) = if closed_share > 0.5 {
        // a fact, however few packets there were
        (Cause::ReceiverWindow, 0.5 + closed_share / 2.0)
    } else if let Some(cause) = waits_for_the_far_end(totals.limited_s) {
        // as much of a fact
        cause
    } else if totals.data_packets < FEWEST_PACKETS {
        (Cause::None, 0.9)
    } else if totals.ecn_echoes > 0 || totals.ce_marked > 0 {
        (Cause::Aqm, 0.9)
    } else if let Some(drain) = shaper.filter(|drain| utilisation(drain, totals) > FULLY_USED) {
        // a full window over a queue that stands caps the queue, not the rate
        (Cause::Shaper, drain.explained)
    } else if window_share > 0.5 || (totals.zero_windows > 0 && window_share > 0.2) {
        (Cause::ReceiverWindow, 0.5 + window_share / 2.0)
    } else if totals.reordered as f64 > MUCH_REORDERED_SHARE * totals.data_packets as f64 {
        (Cause::Reordering, 0.9)
    } else if let Some(drain) = shaper {
        (Cause::Shaper, drain.explained)
    } else if totals.reordered >= FEWEST_LOSSES
        && totals.reordered as f64 > REORDERED_SHARE * totals.data_packets as f64
    {
        (Cause::Reordering, 0.9)
    } else if let Some((cause, share)) = at_the_ends {
        (cause, 0.5 + share / 2.0)
    } else if evidence
        .base_rtt_s
        .is_some_and(|base| totals.busy_s > SETTLED_ROUND_TRIPS * base)
    {
        // without loss, marks and queue a congestion window grows past any limit: it was not what held the sender
        (Cause::Sender, 0.6)
    } else {
        (Cause::None, 0.8)
    };
    Judgement {
        cause,
        confidence,
        against,
    }
}

/// Slow start has filled any window of the protocol (1 GiB) after 20 doublings of ten segments.
const SETTLED_ROUND_TRIPS: f64 = 20.0;

/// An application that answers late, or acknowledgments that are held back, for most of the time, and for long enough that
/// somebody would notice.
fn waits_for_the_far_end(limited_s: [f64; 11]) -> Option<(Cause, f64)> {
    let (limiter, share) = limits::largest(&limited_s)?;
    let far = matches!(limiter, Limiter::PeerApplication | Limiter::DelayedAck);
    let long = limited_s[limiter as usize] > NOTICED_S;
    (far && long && share > 0.5)
        .then(|| limits::cause_at_the_ends(limiter))
        .flatten()
        .map(|cause| (cause, 0.5 + share / 2.0))
}

/// People take what comes within a tenth of a second for immediate (Miller 1968).
const NOTICED_S: f64 = 0.1;

/// One packet in a thousand out of order is what senders begin to feel.
const REORDERED_SHARE: f64 = 1e-3;

/// One in a hundred disturbs any sender.
const MUCH_REORDERED_SHARE: f64 = 1e-2;
/// A link that is the limit is in use most of the time that data is under way.
const LIMITING_UTILISATION: f64 = 0.6;

/// A link that is idle for less than a tenth of the time, slow start included, carries what it can.
const FULLY_USED: f64 = 0.9;

fn is_shaper(drain: &DrainFit, base_rtt_s: f64, totals: &Totals) -> bool {
    drain.explained > DELAY_EXPLAINED
        && drain.largest_s > (0.1 * base_rtt_s).max(1e-3)
        && utilisation(drain, totals) > LIMITING_UTILISATION
}

/// Share of what the queue could let out that was let out while data was under way.
fn utilisation(drain: &DrainFit, totals: &Totals) -> f64 {
    totals.payload_bytes as f64 * 8.0 / totals.union_busy_s.max(1e-9) / drain.rate_bps
}

fn no_queue_reason(evidence: &Evidence) -> Fact {
    if let Some(occupancy) = &evidence.occupancy {
        let more_s = (occupancy.brink_s - occupancy.empty_s).max(0.0);
        return fact!("no-queue", queue_s = occupancy.expected_s, more_s = more_s);
    }
    let bucket = evidence.bucket.as_ref();
    fact!(
        "no-queue-at-losses",
        queue_s = bucket.map(|fit| fit.limit_bytes.value * 8.0 / fit.rate_bps.value),
        waited_s = evidence.at_loss.as_ref().map(|at_loss| at_loss.median_s)
    )
}

fn queue_reason(evidence: &Evidence) -> Fact {
    let waited_s = evidence
        .at_loss
        .as_ref()
        .map_or(0.0, |at_loss| at_loss.median_s);
    fact!("packets-waited", waited_s = waited_s)
}

fn early_drop_reason(evidence: &Evidence) -> Fact {
    let at_loss = evidence.at_loss.as_ref();
    fact!(
        "losses-at-many-delays",
        low_s = at_loss.map(|at_loss| at_loss.low_s),
        high_s = at_loss.map(|at_loss| at_loss.high_s),
        largest_s = at_loss.map(|at_loss| at_loss.largest_s)
    )
}

fn poor_bucket_reason(fit: &BucketFit, lost: u64) -> Fact {
    fact!(
        "bucket-tells-little",
        certainty_share = fit.certainty(),
        lost = lost
    )
}
