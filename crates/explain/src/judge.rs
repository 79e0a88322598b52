//! Which cause accounts for what held a group of flows up; what it lost is judged by [`crate::losses`].

use whydrop_path::fit::DrainFit;

use whydrop_verdict::{Cause, Fact};

use crate::evidence::{Evidence, Totals};
use crate::limits;
pub use crate::losses::judge_losses;
use crate::thresholds::{DELAY_EXPLAINED, FEWEST_LOSSES};
use whydrop_tcp::Limiter;

/// A cause and how sure it is, 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    pub cause: Cause,
    pub confidence: f64,
    /// Causes that are ruled out, each with the reason.
    pub against: Vec<(Cause, Fact)>,
    /// Causes that only account less well for the evidence, by so many nats.
    pub behind: Vec<(Cause, f64)>,
}

impl Judgement {
    pub fn new(cause: Cause, confidence: f64) -> Self {
        Self {
            cause,
            confidence,
            against: Vec::new(),
            behind: Vec::new(),
        }
    }
}

/// With fewer data packets nothing is limited but by what there was to send.
const FEWEST_PACKETS: u64 = 50;

/// Judges what held a group up that lost nothing.
pub fn judge_lossless(evidence: &Evidence) -> Judgement {
    let totals = &evidence.totals;
    let window_share = totals.window_share();
    let time_s = totals.busy_s + totals.idle_s;
    let at_the_ends = limits::largest(&totals.limited_s)
        .and_then(|(limiter, share)| Some((limits::cause_at_the_ends(limiter)?, share)));
    let base = evidence.base_rtt_s.unwrap_or(0.0);
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
    Judgement::new(cause, confidence)
}

/// Slow start has filled any window of the protocol (1 GiB) after 20 doublings of ten segments.
const SETTLED_ROUND_TRIPS: f64 = 20.0;

/// An application that answers late, or acknowledgments that are held back, for most of the time, and for long enough that
/// somebody would notice.
fn waits_for_the_far_end(limited_s: [f64; 11]) -> Option<(Cause, f64)> {
    let (limiter, share) = limits::largest(&limited_s)?;
    let far = matches!(limiter, Limiter::PeerApplication | Limiter::DelayedAck);
    let long = limited_s[limiter as usize] > limits::NOTICED_S;
    (far && long && share > 0.5)
        .then(|| limits::cause_at_the_ends(limiter))
        .flatten()
        .map(|cause| (cause, 0.5 + share / 2.0))
}

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
