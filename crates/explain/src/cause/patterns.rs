//! Patterns in losses, and the background: the same patterns without a known mechanism.

use whydrop_path::fit::BucketFit;

use super::law_followed::{LawFollowed, law_followed};
use crate::observe::{Observation, silence};
use crate::thresholds::*;

/// How much more likely than losses at one rate each pattern makes the losses, nats.
pub struct Patterns {
    /// A bucket of tokens.
    pub bucket: f64,
    /// A rate of loss that depends on the delay; negative infinity if no delays were measured.
    by_delay: f64,
    /// A rate of loss that changes with time.
    by_time: f64,
    /// The part of it that one silence explains.
    pub outage: f64,
    /// A law of queue management.
    law: Option<LawFollowed>,
    pub clumps: usize,
    /// So few losses, or one clump of them, cannot show chance.
    pub few: bool,
    /// Prices that the background pays for each, nats.
    prices: Prices,
}

/// How much less likely than a mechanism the background makes each pattern, nats.
struct Prices {
    chance: f64,
    bucket: f64,
    by_delay: f64,
    by_time: f64,
}

impl Patterns {
    pub fn of(seen: &Observation) -> Self {
        let significant = |fit: &&BucketFit| fit.certainty() >= WEAK_CERTAINTY;
        // packets of a busy line arrive as through a bucket of one or two packets, whatever was dropped
        // before the line
        let from_busy_line = seen.holes.closed_nats() > seen.holes.left_nats();
        let bucket = seen
            .bucket
            .as_ref()
            .filter(significant)
            .filter(|_| !from_busy_line);
        let pattern = seen.pattern.as_ref();
        // silences were searched for like the other patterns
        let outage = silence(seen).map_or(0.0, |silence| (silence.nats - LOOKED_FOR_NATS).max(0.0));
        let clumps = pattern.map_or(0, |pattern| pattern.clumps);
        let runs = seen.group_trace.trace.loss_runs();
        let looked_for = match seen.queue_explains_delays() && seen.totals.lost >= FEWEST_LOSSES {
            // management of that queue is as likely as chance
            true => 0.0,
            false => LOOKED_FOR_NATS,
        };
        let by_delay = pattern.filter(|_| seen.waited_at_loss_s() > SHORTEST_DELAY_S);
        let by_time = pattern.map_or(0.0, |pattern| pattern.by_time_nats - LOOKED_FOR_NATS);
        let few = seen.totals.lost < seen.fewest_by_chance() || clumps < 2 || runs < 2;
        Self {
            bucket: bucket.map_or(0.0, |fit| (fit.gain() - SEARCH_NATS).max(0.0)),
            by_delay: by_delay.map_or(f64::NEG_INFINITY, |pattern| {
                pattern.by_delay_nats - looked_for
            }),
            by_time: by_time.max(0.0).max(outage),
            outage,
            law: law_followed(seen),
            clumps,
            few,
            prices: Prices::of(seen, few, bucket),
        }
    }

    /// Observation for mechanisms that depend on delay. If that is certain, losses that change with time do so
    /// because delays change.
    pub fn with_delay(&self) -> f64 {
        if self.by_delay > -CHANCE {
            self.by_delay.max(self.by_time)
        } else {
            self.by_delay
        }
    }

    /// Observation for the same patterns without a known mechanism.
    pub fn background(&self) -> f64 {
        let leaning = |nats: f64, price: f64| {
            if nats > 0.0 {
                nats - price
            } else {
                f64::NEG_INFINITY
            }
        };
        let prices = &self.prices;
        let lawful = self
            .law
            .as_ref()
            .map_or(f64::NEG_INFINITY, |law| leaning(law.nats, law.price));
        let parts = [
            -prices.chance,
            leaning(self.bucket, prices.bucket),
            leaning(self.by_delay, prices.by_delay),
            leaning(self.by_time, prices.by_time),
            lawful,
        ];
        let most = parts.iter().copied().fold(f64::MIN, f64::max);
        most + parts
            .iter()
            .map(|part| (part - most).exp())
            .sum::<f64>()
            .ln()
    }
}

impl Prices {
    fn of(seen: &Observation, few: bool, bucket: Option<&BucketFit>) -> Self {
        let exact = seen.exact_nats();
        let sharpness = bucket.map_or(0.0, |fit| (fit.certainty() + fit.expected_share()) / 2.0);
        Self {
            chance: match () {
                // a pattern that cannot be identified is a part of the unknown
                () if few => 0.0,
                () if seen.are_delays_measured() => CHANCE_NATS + exact,
                () if seen.holes.runs > 0 => HOLES_CHANCE_NATS,
                () => UNSEEN_CHANCE_NATS + exact,
            },
            bucket: BUCKET_NATS * sharpness,
            by_delay: DELAY_NATS + exact,
            by_time: TIME_NATS + exact,
        }
    }
}
