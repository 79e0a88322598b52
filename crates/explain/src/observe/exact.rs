//! Exact fates, delays and departures of the packets between two captures.

use std::cell::RefCell;

use whydrop_path::fit::passage::{BacklogAtLosses, Departures, FlowOvertaking, Passages};
use whydrop_path::fit::{BucketFit, Interval};
use whydrop_verdict::{Fact, fact};

use super::behind_queue::BehindQueue;
use super::buckets::{TwoBuckets, noise_bytes};
use super::byte_basis::ByteBasis;
use super::full_queue::full_queue;
use super::replay_check::ReplayCheck;
use super::thinning::Thinning;
use crate::hop::models::bucket_replayed;
use crate::thresholds::*;

/// Exact measurements of one hop in one direction.
#[derive(Debug)]
pub struct Exact {
    /// Packets as they enter the hop: behind the sender's line, if they were captured before it.
    pub passages: Passages,
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
    /// The reason that no full queue dropped the few lost packets, from a replay.
    pub full_queue_misses: Option<Fact>,
    /// Buckets that were replayed, by rate and limit: several causes ask for the same.
    pub replayed: RefCell<Vec<(f64, f64, BucketReplay)>>,
}

/// A bucket replayed freely over all packets, compared with what happened.
#[derive(Debug, Clone, Copy)]
pub struct BucketReplay {
    /// Agreement of its drops with the losses, 0 to 1.
    pub agreement: f64,
    pub check: ReplayCheck,
    pub dropped: usize,
    pub hits: usize,
    pub lost: usize,
}

impl Exact {
    /// Longest delay of a packet that was not queued, seconds: half of the noise.
    pub fn idle_wait_s(&self) -> f64 {
        self.departures
            .map_or(0.0, |departures| departures.idle_wait_s)
    }

    /// The bytes that pass a bucket within the timestamp error.
    pub fn noise_bytes(&self, fit: &BucketFit) -> f64 {
        noise_bytes(fit, self.noise_s)
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

    /// A freely replayed bucket, replayed once.
    pub fn bucket_replay(&self, fit: &BucketFit) -> BucketReplay {
        let (rate, limit) = (fit.rate_bps.value, fit.limit_bytes.value);
        let is_this = |known: &&(f64, f64, BucketReplay)| (known.0, known.1) == (rate, limit);
        let known = self.replayed.borrow().iter().find(is_this).copied();
        if let Some((.., replay)) = known {
            return replay;
        }
        let replay = bucket_replayed(&self.passages, fit, self.idle_wait_s());
        let dropped = replay.packets.iter().map(|packet| packet.dropped);
        let found = BucketReplay {
            agreement: replay.agreement(),
            check: ReplayCheck::new(dropped, &self.passages.outcome),
            dropped: replay.dropped,
            hits: replay.hits,
            lost: replay.lost,
        };
        self.replayed.borrow_mut().push((rate, limit, found));
        found
    }

    /// True if no other traffic shares the queue.
    fn sees_all(&self) -> bool {
        self.departures
            .is_some_and(|departures| departures.unseen_share == 0.0)
    }

    /// True if every lost packet found the same number of packets (or bytes) queued, and that was the
    /// maximum.
    pub fn drops_when_full(&self) -> bool {
        let backlog = self.backlog.as_ref().filter(|_| self.departures.is_some());
        self.full_queue_misses.is_none()
            && backlog.is_some_and(|backlog| full_queue(backlog, self.passages.lost_share()))
    }

    /// True if the losses are few, so that what they found queued may look like a full queue by chance, and a replay
    /// of one can refute it.
    pub fn is_full_queue_unsure(&self) -> bool {
        let few = FEWEST_LOSSES as usize..FEWEST_TO_VARY;
        self.sees_all()
            && self.thinning.is_none()
            && (self.backlog.as_ref()).is_some_and(|backlog| few.contains(&backlog.losses))
    }

    /// Share of the losses that a full queue accounts for, as a confidence in it.
    pub fn full_queue_confidence(&self) -> f64 {
        let share = |backlog: &BacklogAtLosses| {
            let misfits = backlog.misfits_packets.min(backlog.misfits_bytes) as f64;
            1.0 - misfits / (misfits + backlog.losses as f64)
        };
        self.backlog
            .as_ref()
            .map_or(0.0, share)
            .clamp(UNSUREST_WHEN_FULL, SUREST)
    }

    /// True if lost packets found clearly less queued than the most that others found.
    pub fn drops_with_room(&self) -> bool {
        self.backlog.as_ref().is_some_and(|backlog| {
            backlog.packets.value < FULL_OF_MOST_SHARE * backlog.most_passed_packets
        })
    }

    /// True if more packets were admitted with more queued than were lost.
    pub fn lets_in(&self) -> bool {
        let backlog = self.backlog.as_ref().filter(|_| self.sees_all());
        backlog.is_some_and(|backlog| backlog.passed_with_more > backlog.losses)
    }

    /// True if the contents found by losses vary: losses of one full queue find about the same, however the
    /// others vary.
    pub fn fullness_varies(&self) -> bool {
        let backlog = self.backlog.as_ref().filter(|_| self.sees_all());
        backlog.is_some_and(|backlog| {
            backlog.losses >= FEWEST_TO_VARY && backlog.near_median < VARIED_SHARE
        })
    }

    /// True if lost packets found a queue, however short. No law drops while less than a packet is queued
    /// (RFC 8289, section 4.4; RFC 8033, section 4.1).
    pub fn has_a_queue(&self) -> bool {
        self.backlog
            .as_ref()
            .is_some_and(|backlog| backlog.packets.value >= 1.0)
    }

    /// True if that queue is long.
    pub fn has_a_long_queue(&self) -> bool {
        self.backlog.as_ref().is_some_and(|backlog| {
            // half of the packets wait less than this
            backlog.mean_rank > LONG_QUEUE_RANK
                && backlog.found_empty < SELDOM_EMPTY_SHARE
                && backlog.packets.value >= 2.0 * FEWEST_QUEUED_PACKETS
        })
    }

    /// Standard deviations by which losses found more queued than arrivals do by chance.
    pub fn deviations(&self) -> f64 {
        self.backlog.as_ref().map_or(0.0, |backlog| {
            backlog.deviations.max(backlog.average_deviations)
        })
    }

    /// The rate at which packets left while they were queued.
    pub fn came_out_at(&self) -> Option<Fact> {
        let departures = self.departures.as_ref()?;
        Some(fact!(
            "departures-at-rate",
            rate_bps = departures.rate_bps.value,
            departures = departures.served,
            unseen_share = departures.unseen_share
        ))
    }

    /// The fact that a queue that lets other packets in at the same fill level is not full.
    pub fn early_reason(&self) -> Fact {
        let packets = self.backlog.as_ref().map(|backlog| backlog.packets);
        let most = self
            .backlog
            .as_ref()
            .map_or(0.0, |backlog| backlog.most_passed_packets);
        let end = |end: fn(Interval) -> Option<f64>| packets.and_then(end).unwrap_or(0.0) as u64;
        fact!(
            "queue-not-full",
            low = end(|packets| packets.low),
            high = end(|packets| packets.high),
            most = most as u64
        )
    }

    /// True if flows are overtaken by nearly all packets that arrive while they wait, or by flows that never
    /// wait long.
    pub fn flows_overtake(&self) -> bool {
        let overtaking = self.overtaking;
        self.flows_are_apart() && overtaking.between_flows * 2 >= overtaking.chances
    }

    /// True if packets overtake those of other flows and none of their own, as no shared queue allows; flows
    /// with equal delays seldom do.
    pub fn flows_are_apart(&self) -> bool {
        let overtaking = self.overtaking;
        overtaking.between_flows > 0
            && overtaking.within_flows * SELDOM_WITHIN <= overtaking.between_flows
            && overtaking.between_flows * SELDOM_BETWEEN >= overtaking.chances
    }
}
