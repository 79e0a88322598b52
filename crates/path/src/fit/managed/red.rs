//! Random early detection (S. Floyd and V. Jacobson 1993), replayed along the observations.
//!
//! The average is that of the packets that each arrival finds, derived from the delays. The drop share rises
//! from a lower threshold, and from an upper one more steeply, to 1 at twice that one ("gentle", S. Floyd
//! 2000) or at once.

use super::laws::{Hazards, REFUTED_NATS, spread};
use super::queue::{Item, Queue};
use super::{Law, LawFit};

/// Weights of the average: the paper's 0.002, and others in use.
const WEIGHTS: [f64; 4] = [0.0005, 0.002, 0.008, 0.03];
/// The lower threshold, as shares of the average at nearly all drops.
const LEAST_SHARES: [f64; 8] = [0.3, 0.5, 0.6, 0.7, 0.8, 0.88, 0.94, 0.98];
/// RED never drops packets that find only one packet.
const SMALLEST_THRESHOLD_PACKETS: f64 = 1.0;
/// Shares of the slope that gives the observed number of drops: evenly spaced, drops are twice as frequent as
/// the share.
const SLOPES: [f64; 4] = [0.35, 0.5, 0.7, 1.0];
/// The upper threshold relative to the lower one: the paper requires at least twice, later advice is three
/// times.
const UPPER: [f64; 5] = [1.5, 2.0, 3.0, 4.0, 6.0];
/// Factors of threshold and slope around the best, and the number of repetitions.
const FINER: [f64; 4] = [0.85, 0.93, 1.08, 1.18];
const ROUNDS: usize = 2;

/// The curve of drop probabilities of RED.
#[derive(Clone, Copy)]
struct Curve {
    least: f64,
    /// Increase of the share per unit of the average, from there on.
    slope: f64,
    /// The second part of the curve.
    upper: Option<Upper>,
    /// Drops are spaced evenly, as in the paper.
    even: bool,
}

#[derive(Clone, Copy)]
struct Upper {
    average: f64,
    gentle: bool,
}

impl Curve {
    fn share(&self, average: f64) -> f64 {
        let rising = |average: f64| (self.slope * (average - self.least)).clamp(0.0, 1.0);
        match self.upper {
            Some(upper) if average >= upper.average => {
                let share = rising(upper.average);
                if upper.gentle {
                    let beyond = (average - upper.average) / upper.average;
                    share + (1.0 - share) * beyond.min(1.0)
                } else {
                    1.0
                }
            }
            _ => rising(average),
        }
    }
}

impl Curve {
    fn other_uppers(&self) -> Vec<Self> {
        let with = |factor: f64| {
            [true, false].map(|gentle| Self {
                upper: Some(Upper {
                    average: factor * self.least,
                    gentle,
                }),
                ..*self
            })
        };
        UPPER.into_iter().flat_map(with).collect()
    }

    fn other_slopes(&self) -> Vec<Self> {
        let with = |factor: f64| Self {
            slope: factor * self.slope,
            ..*self
        };
        FINER.map(with).to_vec()
    }

    fn other_thresholds(&self) -> Vec<Self> {
        let with = |factor: f64| Self {
            least: factor * self.least,
            ..*self
        };
        FINER.map(with).to_vec()
    }
}

impl Hazards<'_> {
    /// RED: a drop share that rises with the average queue from a lower threshold, with evenly spaced drops.
    pub fn red(&self) -> LawFit {
        let mut tried: Vec<(f64, f64)> = Vec::new();
        let mut best = f64::MIN;
        for weight in WEIGHTS {
            let of = |queue: &Queue| averages(queue, weight);
            let averages: Vec<Vec<f64>> = self.queues.iter().map(of).collect();
            best = best.max(self.best_curve(&averages, &mut tried));
        }
        let likely = tried.iter().filter(|one| one.0 > best - REFUTED_NATS);
        let least = tried.iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let least = least.map_or(0.0, |best| best.1);
        LawFit {
            law: Law::Red,
            nats: best - self.chance_nats() - self.cost(4.0),
            target_s: spread(
                least * self.packet_s,
                likely.map(|one| one.1 * self.packet_s),
            ),
            interval_s: None,
        }
    }

    /// Log-likelihood of the best curve for these averages; all tried ones are added to `tried` with their
    /// lower thresholds.
    fn best_curve(&self, averages: &[Vec<f64>], tried: &mut Vec<(f64, f64)>) -> f64 {
        let mut best_of = |curves: Vec<Curve>, best: Option<(f64, Curve)>| {
            let worthwhile = |curve: &Curve| curve.least >= SMALLEST_THRESHOLD_PACKETS;
            let of = |curve: Curve| (self.nats_of_curve(averages, curve), curve);
            let scored: Vec<(f64, Curve)> = curves.into_iter().filter(worthwhile).map(of).collect();
            tried.extend(scored.iter().map(|(nats, curve)| (*nats, curve.least)));
            let all = scored.into_iter().chain(best);
            all.max_by(|a, b| a.0.total_cmp(&b.0))
        };
        let mut best = best_of(self.plain_curves(averages), None);
        for _ in 0..ROUNDS {
            for step in [
                Curve::other_uppers,
                Curve::other_slopes,
                Curve::other_thresholds,
            ] {
                let others = best.map_or_else(Vec::new, |(_, curve)| step(&curve));
                best = best_of(others, best);
            }
        }
        best.map_or(f64::MIN, |best| best.0)
    }

    /// Curves without an upper threshold.
    fn plain_curves(&self, averages: &[Vec<f64>]) -> Vec<Curve> {
        let least_at_drops = self.least_at_drops(averages);
        let with_threshold = |share: f64| {
            let least = share * least_at_drops;
            let steepest = self.steepest(averages, least);
            let slopes = SLOPES.map(|slope| slope * steepest);
            slopes.map(|slope| Curve {
                least,
                slope,
                upper: None,
                even: true,
            })
        };
        let even: Vec<Curve> = LEAST_SHARES.into_iter().flat_map(with_threshold).collect();
        let alone = even.iter().map(|curve| Curve {
            even: false,
            ..*curve
        });
        even.iter().copied().chain(alone).collect()
    }

    /// Average from which drops begin, ignoring a stray one.
    fn least_at_drops(&self, averages: &[Vec<f64>]) -> f64 {
        let items = self.queues.iter().map(|queue| &queue.items);
        let mut at_drops: Vec<f64> = items
            .zip(averages)
            .flat_map(|(items, averages)| items.iter().zip(averages))
            .filter(|(item, _)| item.chosen)
            .map(|(_, average)| *average)
            .collect();
        at_drops.sort_by(f64::total_cmp);
        at_drops[at_drops.len() / 20]
    }

    /// The slope that gives the observed number of drops.
    fn steepest(&self, averages: &[Vec<f64>], least: f64) -> f64 {
        let above = averages
            .iter()
            .flatten()
            .map(|average| (average - least).max(0.0));
        self.events / above.sum::<f64>().max(1e-9)
    }

    fn nats_of_curve(&self, averages: &[Vec<f64>], curve: Curve) -> f64 {
        let parts = self.queues.iter().zip(averages);
        parts
            .map(|(queue, averages)| self.likelihood(queue, hazards(queue, averages, curve)))
            .sum()
    }
}

/// The average of the packets that each arrival finds, as in RED.
fn averages(queue: &Queue, weight: f64) -> Vec<f64> {
    let mut average = 0.0;
    let mut free_s = f64::MIN;
    let of = |item: &Item| {
        let before = f64::from(item.before);
        if before > 0.0 || free_s > item.arrival_s {
            average += weight * (before - average);
        } else if item.service_s > 0.0 {
            average *=
                (1.0f64 - weight).powf(((item.arrival_s - free_s) / item.service_s).min(1e6));
        }
        free_s = item.turn_s + item.service_s;
        average
    };
    queue.items.iter().map(of).collect()
}

/// RED's probability for each packet.
fn hazards(queue: &Queue, averages: &[f64], curve: Curve) -> Vec<f64> {
    let mut since = 0.0;
    let of = |(item, average): (&Item, &f64)| {
        let share = curve.share(*average);
        if share == 0.0 {
            since = 0.0;
            return 0.0;
        }
        if item.hidden {
            // the mean age of evenly spread gaps up to one over the share, at any time
            since = 1.0 / (3.0 * share);
            return 0.0;
        }
        since += 1.0;
        let left = 1.0 - since * share;
        let hazard = match curve.even {
            true if left <= share => 0.9,
            true => share / left,
            false => share,
        };
        if item.chosen {
            since = 0.0;
        }
        hazard
    };
    queue.items.iter().zip(averages).map(of).collect()
}
