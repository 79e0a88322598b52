//! Delays around the losses, and the queue that they show.

use whydrop_path::fit::{BucketFit, DrainFit};
use whydrop_verdict::{Cause, Fact, fact};

use super::observation::Observation;
use crate::thresholds::*;

impl Observation {
    /// True if a queue on the forward path explains the delays.
    pub fn queue_explains_delays(&self) -> bool {
        self.drain_explains(DELAY_EXPLAINED)
    }

    /// The same so well that it may be standing.
    pub fn delays_are_one_queues(&self) -> bool {
        self.drain_explains(STANDING_EXPLAINED)
    }

    fn drain_explains(&self, share: f64) -> bool {
        let explains = |drain: &DrainFit| drain.explained > share;
        self.drain.as_ref().is_some_and(explains)
    }

    /// True if losses occur repeatedly: a single run may be one outage; a bucket or queue overflows again and
    /// again.
    pub fn loses_again(&self) -> bool {
        self.group_trace.trace.loss_runs() as u64 >= FEWEST_LOSSES
    }

    /// With fewer losses, chance is not named as their cause.
    pub fn fewest_by_chance(&self) -> u64 {
        match self.exact {
            Some(_) => FEWEST_LOSSES,
            None => FEWEST_BY_CHANCE,
        }
    }

    /// How much more likely exact fates make chance and queues, nats.
    pub fn exact_nats(&self) -> f64 {
        self.exact.as_ref().map_or(0.0, |_| EXACT_FATES_NATS)
    }

    /// True if delays can be measured at the losses: packets lost before the capture point leave none, nor do
    /// data without acknowledgments, nor timestamps too coarse for the shortest delay that queue management
    /// aims at.
    pub fn are_delays_measurable(&self) -> bool {
        let mut delays_s = self.group_trace.trace.delay_s.iter();
        !self.lost_mostly_before()
            && self.tick_s <= COARSEST_TICK_S
            && delays_s.any(|delay_s| !delay_s.is_nan())
    }

    /// True if they were measured: near few losses there may be none.
    pub fn are_delays_measured(&self) -> bool {
        self.are_delays_measurable() && self.at_loss.is_some()
    }

    /// True if delays show how full a queue was at the losses.
    pub fn queue_is_measured(&self) -> bool {
        self.queue_depth() != Cause::Unknown && self.are_delays_measurable()
    }

    /// True if every lost packet found a queue full, counted between two captures.
    pub fn full_queue_shows(&self) -> bool {
        self.exact
            .as_ref()
            .is_some_and(|exact| exact.drops_when_full())
    }

    /// Find out if packets near the limit of the fitted bucket were delayed as by a queue; `None` if
    /// undecided.
    pub fn queue_shows(&self) -> Option<bool> {
        if !self.queue_would_show() {
            return None;
        }
        let Some(occupancy) = self
            .occupancy
            .as_ref()
            .filter(|occupancy| occupancy.expected_s > 0.0)
        else {
            return self.queue_shows_at_losses();
        };
        let (low, high) = occupancy.ratio_bounds();
        // shorter round trips near the limit than elsewhere prove neither: acknowledgments of other flows
        // were late
        if high < -NO_QUEUE_RATIO && !self.delays_are_own {
            return self.queue_shows_at_losses();
        }
        if low > QUEUE_RATIO
            && high < OTHER_DELAY_RATIO
            && occupancy.near_limit_s - occupancy.empty_s > self.one_packet_s() / 2.0
        {
            Some(true)
        } else if high < NO_QUEUE_RATIO {
            Some(false)
        } else {
            None
        }
    }

    /// True if a full queue of the bucket's size delays for longer than a tick of the timestamps.
    fn queue_would_show(&self) -> bool {
        let least_s = TICKS_THAT_SHOW * self.tick_s;
        self.bucket
            .as_ref()
            .is_none_or(|fit| fit.drain_s() >= least_s)
    }

    /// The same for a bucket that is always nearly empty, so that there is no other fill level to compare
    /// with: from the delay at the losses alone, relative to that of a full queue.
    fn queue_shows_at_losses(&self) -> Option<bool> {
        let (bucket, at_loss) = (self.bucket.as_ref()?, self.at_loss.as_ref()?);
        let ratio = at_loss.shorter_median_s / bucket.drain_s();
        (ratio < NO_QUEUE_RATIO).then_some(false)
    }

    /// Time that one full packet takes at the fitted rate, seconds.
    fn one_packet_s(&self) -> f64 {
        let packet_s = |fit: &BucketFit| fit.packet_bytes * 8.0 / fit.rate_bps.value;
        self.bucket.as_ref().map_or(0.0, packet_s)
    }

    /// True if losses occur at longer delays than others.
    pub fn losses_follow_delay(&self) -> bool {
        self.at_loss.as_ref().is_some_and(|at_loss| {
            at_loss.log_chance < CHANCE && at_loss.mean_rank > TAIL_DROP_RANK
        })
    }

    /// True if losses occur at one delay, as with a full queue. Other packets may have been delayed longer
    /// elsewhere: queue management drops at many delays.
    pub fn drops_at_one_delay(&self) -> bool {
        self.at_loss.as_ref().is_some_and(|at_loss| {
            at_loss.events >= ENOUGH_EVENTS
                && at_loss.high_s - at_loss.low_s < ONE_DELAY_SHARE * at_loss.median_s
        })
    }

    /// True if losses occur when the delay is at its maximum, and only then.
    pub fn tail_drop_shows(&self) -> bool {
        let Some(at_loss) = &self.at_loss else {
            return false;
        };
        let related = at_loss.mean_rank > TAIL_DROP_RANK && at_loss.log_chance < CHANCE / 2.0;
        // the queue may have contained a packet more or less when the delay was measured
        let noise_s = TAIL_DROP_NOISE_PACKETS * self.packet_time_s();
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
    pub fn drops_begin_late(&self) -> Option<f64> {
        let at_loss = self.at_loss.as_ref()?;
        let late = at_loss.events as u64 >= FEWEST_LOSSES
            && self.losses_follow_delay()
            && at_loss.low_s > self.longest_managed_s();
        late.then_some(at_loss.low_s)
    }

    fn longest_managed_s(&self) -> f64 {
        (2.0 * self.base_rtt_s.unwrap_or(0.0)).max(LONGEST_MANAGED_S)
    }

    /// True if half the packets waited for longer than queue management would allow. If another queue, as on
    /// the return path, delayed some of them, this one need not be full, but may be unmanaged.
    pub fn waits_unmanaged(&self) -> bool {
        self.typical_wait_s() > self.longest_managed_s()
    }

    /// Shallow or deep: from the delay that the queue adds, and from the packets that it then holds; unknown
    /// if no delay was measured near a loss.
    pub fn queue_depth(&self) -> Cause {
        let base_s = self.base_rtt_s.unwrap_or(USUAL_RTT_S);
        let Some(at_loss) = &self.at_loss else {
            return Cause::Unknown;
        };
        let few_packets = at_loss.median_s / self.packet_time_s() <= SHALLOW_PACKETS;
        let little_delay = at_loss.median_s <= SHALLOW_RTT_SHARE * base_s;
        if little_delay || few_packets {
            Cause::ShallowQueue
        } else {
            Cause::DeepQueue
        }
    }

    /// Median delay of all packets, seconds.
    pub fn typical_wait_s(&self) -> f64 {
        self.at_loss
            .as_ref()
            .map_or(0.0, |at_loss| at_loss.typical_s)
    }

    /// Median delay just before the losses, seconds.
    pub fn waited_at_loss_s(&self) -> f64 {
        self.at_loss
            .as_ref()
            .map_or(0.0, |at_loss| at_loss.median_s)
    }

    /// The fact that lost packets found others queued.
    pub fn queued_reason(&self) -> Fact {
        let backlog = self.exact.as_ref().and_then(|exact| exact.backlog.as_ref());
        fact!(
            "packets-queued-between",
            waited_s = self.waited_at_loss_s(),
            inside = backlog.map_or(0.0, |backlog| backlog.packets.value) as u64
        )
    }
}
