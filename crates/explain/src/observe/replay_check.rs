//! Agreement of a plain replay of a policer with the losses: the model runs freely, without corrections.

use whydrop_path::fit::{BucketFit, Seen};
use whydrop_path::{Arrival, Policer, replay};

use super::group::GroupTrace;
use crate::thresholds::{REPLAYED_BEFORE_SHARE, REPLAYED_SHARE};

/// Agreement of the packets that a model drops with the lost ones.
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
    /// Replays the fitted bucket as a policer over all arrivals, ignoring the losses.
    pub fn of(group_trace: &GroupTrace, fit: &BucketFit) -> Self {
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
        Self::new(dropped, &trace.outcome)
    }

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
    pub fn holds(&self, fit: &BucketFit, are_delays_measurable: bool) -> bool {
        let agreed = if are_delays_measurable {
            self.nearby
        } else {
            self.hits
        };
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
fn near_losses(outcome: &[Seen], near: usize) -> Vec<bool> {
    let mut found = vec![false; outcome.len()];
    for index in (0..outcome.len()).filter(|index| outcome[*index] == Seen::Lost) {
        let to = (index + near + 1).min(outcome.len());
        found[index.saturating_sub(near)..to].fill(true);
    }
    found
}
