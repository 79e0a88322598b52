//! One token bucket, or the two of a dual-rate policer, from the envelope of the passed traffic.
//!
//! Traffic that passes a bucket never needs more than the bucket contains. So for each rate there is a least
//! burst size: the most that the packets which passed ever needed from a bucket of that rate (the arrival
//! envelope of network calculus, Cruz 1991). A bucket that dropped packets lies on that curve, and the
//! dropped packets lie above it. The two buckets of a dual-rate policer (RFC 2698) are two points of the
//! curve with the lost packets above one or the other.
//!
//! This needs exact fates, and finds the best of all rates instead of the nearest.

use super::bucket::BucketFit;
use super::level::Level;
use super::trace::{Seen, Trace};

/// A point of the envelope.
#[derive(Debug, Clone)]
struct Point {
    rate_bytes_per_s: f64,
    /// The most that the packets that passed needed, except for a few.
    limit_bytes: f64,
    /// For each loss, true if it needs more.
    above: Vec<bool>,
    count: usize,
}

/// The envelope of the passed traffic: a bucket for each rate.
#[derive(Debug, Clone)]
pub struct Envelope {
    curve: Vec<Point>,
    /// Relative step from one rate to the next.
    step: f64,
}

/// Rates to try, as multiples of the mean rate of the passed traffic, and their steps; and the largest
/// product of packets and rates.
const RATES: (f64, f64) = (0.5, 200.0);
const STEP: f64 = 0.012;
const MOST_STEPS: usize = 60_000_000;
/// Steps of the final search.
const FINE_STEP: f64 = 4e-4;
const FINE_STEPS: i32 = 40;
/// Packets that may pass above the envelope, as a share of the losses: errors in fates, timestamp jitter.
const STRAYS: f64 = 0.01;
/// A bucket for only one packet has every packet near its limit, and explains any losses.
const SMALLEST_PACKETS: f64 = 1.1;
/// A second bucket must explain this many losses alone.
const SECOND_LOSSES: usize = 3;

/// Determines the envelope of the passed traffic. `None` without losses.
pub fn envelope(trace: &Trace) -> Option<Envelope> {
    if trace.lost == 0 || trace.passed < 2 || trace.duration_s() <= 0.0 {
        return None;
    }
    let mean = trace.passed_bytes / trace.duration_s();
    let span: f64 = (RATES.1 / RATES.0).ln();
    let affordable = (MOST_STEPS / trace.len().max(1)).max(30) as f64;
    let step = STEP.max(span / affordable);
    let rates = (0..=(span / step) as i32)
        .map(|position| mean * RATES.0 * (f64::from(position) * step).exp());
    let curve = points(trace, &rates.collect::<Vec<f64>>());
    Some(Envelope { curve, step })
}

impl Envelope {
    fn best(&self) -> &Point {
        let best = self.curve.iter().max_by_key(|point| point.count);
        best.expect("a curve has points")
    }

    /// The single bucket with the most losses above it, and their number.
    pub fn single(&self, trace: &Trace) -> (BucketFit, usize) {
        let point = finer(trace, self.best(), self.step);
        (point.to_fit(trace), point.count)
    }

    /// Two buckets with more losses above one or the other than one has: the slower one first.
    pub fn pair(&self, trace: &Trace) -> Option<[BucketFit; 2]> {
        let (pair, union) = best_pair(&self.curve)?;
        (union > self.best().count + SECOND_LOSSES)
            .then(|| pair.map(|place| self.curve[place].to_fit(trace)))
    }

    /// Buckets with the most of some losses above them: the slowest, the fastest and one between. `theirs`
    /// selects the losses.
    pub fn of_losses(&self, trace: &Trace, theirs: &[bool]) -> [BucketFit; 3] {
        let count = |point: &Point| {
            let both = point.above.iter().zip(theirs);
            both.filter(|(above, theirs)| **above && **theirs).count()
        };
        let counts: Vec<usize> = self.curve.iter().map(count).collect();
        let most = counts.iter().copied().max().unwrap_or(0) as f64;
        let good: Vec<usize> = (0..counts.len())
            .filter(|&place| counts[place] as f64 >= MOST_OF_THEM * most)
            .collect();
        [good[0], good[good.len() / 2], good[good.len() - 1]]
            .map(|place| self.curve[place].to_fit(trace))
    }
}

/// Share of the most losses that counts as equally good, since a better point may lie between two points of
/// the curve.
const MOST_OF_THEM: f64 = 0.9;

impl Point {
    /// Losses above one or the other.
    fn union(&self, other: &Self) -> usize {
        let both = self.above.iter().zip(&other.above);
        both.filter(|(own, theirs)| **own || **theirs).count()
    }

    /// Converts it to a fit, as the start of a refinement.
    fn to_fit(&self, trace: &Trace) -> BucketFit {
        BucketFit::start(trace, (self.rate_bytes_per_s, self.limit_bytes))
    }
}

/// Rates that are followed together: see [`Level`].
const LANES: usize = 8;

/// The envelope at each of the rates (bytes/s).
fn points(trace: &Trace, rates: &[f64]) -> Vec<Point> {
    let mut points = Vec::with_capacity(rates.len());
    for rates in rates.chunks(LANES) {
        // unused lanes repeat the last rate
        let lane = |index: usize| rates[index.min(rates.len() - 1)];
        let found = points_of_lanes(trace, std::array::from_fn(lane));
        points.extend(found.into_iter().take(rates.len()));
    }
    points
}

/// The envelope at some rates, and the losses above each. Only passed packets enter the buckets' debts.
fn points_of_lanes(trace: &Trace, rates: [f64; LANES]) -> Vec<Point> {
    let mut queues = Level::<LANES>::EMPTY;
    let strays = (STRAYS * trace.lost as f64) as usize;
    // the largest few that passed, as a heap with the smallest of them first; and a copy of that smallest
    let mut largest = vec![vec![0.0; strays + 1]; LANES];
    let mut limits = [0.0f64; LANES];
    let mut asked: Vec<Level<LANES>> = Vec::with_capacity(trace.lost);
    for (gap_s, bytes, outcome) in trace.arrivals() {
        queues.drain(&rates, gap_s);
        let with_packet = queues.with(bytes);
        if outcome == Seen::Lost {
            asked.push(with_packet);
            continue;
        }
        queues = with_packet;
        if outcome == Seen::Passed && with_packet.is_any_at(&limits) {
            for lane in 0..LANES {
                keep_largest(&mut largest[lane], with_packet.0[lane]);
                limits[lane] = largest[lane][0];
            }
        }
    }
    let least = SMALLEST_PACKETS * f64::from(trace.largest_bytes);
    let point = |lane: usize| {
        let above: Vec<bool> = asked
            .iter()
            .map(|asked| limits[lane] >= least && asked.0[lane] > limits[lane])
            .collect();
        Point {
            rate_bytes_per_s: rates[lane],
            limit_bytes: limits[lane],
            count: above.iter().filter(|above| **above).count(),
            above,
        }
    };
    (0..LANES).map(point).collect()
}

/// Replaces the smallest of the largest values, which comes first, by another value: a binary heap, since the
/// strays grow with the losses and every packet may be one.
fn keep_largest(largest: &mut [f64], value: f64) {
    if value <= largest[0] {
        return;
    }
    let mut place = 0;
    loop {
        let children = 2 * place + 1..(2 * place + 3).min(largest.len());
        let smallest = children.min_by(|&one, &other| largest[one].total_cmp(&largest[other]));
        let Some(child) = smallest.filter(|&child| largest[child] < value) else {
            break;
        };
        largest[place] = largest[child];
        place = child;
    }
    largest[place] = value;
}

/// Two rates differ by more than this factor: closer ones are one rate between two points of the curve.
const APART: f64 = 1.1;

/// The two points with the most losses above one or the other, the slower first, and their number.
fn best_pair(curve: &[Point]) -> Option<([usize; 2], usize)> {
    let mut best: Option<([usize; 2], usize)> = None;
    for (slow, first) in curve.iter().enumerate() {
        for (offset, second) in curve[slow + 1..].iter().enumerate() {
            // no union is larger than the sum of both
            let most = best.map_or(0, |(_, union)| union);
            let apart = second.rate_bytes_per_s > APART * first.rate_bytes_per_s;
            if !apart || first.count + second.count <= most {
                continue;
            }
            let union = first.union(second);
            if union > most {
                best = Some(([slow, slow + 1 + offset], union));
            }
        }
    }
    best
}

/// The middle of the rates near a point that explain the most losses.
fn finer(trace: &Trace, near: &Point, step: f64) -> Point {
    let fine = FINE_STEP.max(step / f64::from(FINE_STEPS));
    let factor = |position: i32| (f64::from(position) * fine).exp();
    let rates = (-FINE_STEPS..=FINE_STEPS).map(|position| near.rate_bytes_per_s * factor(position));
    let around = points(trace, &rates.collect::<Vec<f64>>());
    let most = around.iter().map(|point| point.count).max().unwrap_or(0);
    let good: Vec<&Point> = around.iter().filter(|point| point.count == most).collect();
    good[good.len() / 2].clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::TracePacket;
    use crate::{Arrival, Policer, Random, replay};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_largest_values_are_kept_and_the_smallest_of_them_comes_first(
            values in prop::collection::vec(0u32..50, 0..200),
            kept in 1usize..40,
        ) {
            let mut largest = vec![0.0; kept];
            let mut all = vec![0.0; kept];
            for value in values.into_iter().map(f64::from) {
                keep_largest(&mut largest, value);
                all.push(value);
                all.sort_by(|one: &f64, other| other.total_cmp(one));
                prop_assert_eq!(largest[0], all[kept - 1]);
            }
            largest.sort_by(|one, other| other.total_cmp(one));
            prop_assert_eq!(&largest[..], &all[..kept]);
        }
    }

    #[test]
    fn a_value_among_the_largest_moves_few_of_many() {
        const KEPT: usize = 1 << 10;
        let mut largest = vec![0.0; KEPT];
        for value in 1..3 * KEPT {
            let before = largest.clone();
            keep_largest(&mut largest, value as f64);
            let moved = before.iter().zip(&largest).filter(|(old, new)| old != new);
            assert!(moved.count() <= KEPT.ilog2() as usize + 1, "{value}");
        }
        assert_eq!(largest[0], 2.0 * KEPT as f64);
    }

    /// Bursts of random length at 1 Gbit/s with random pauses.
    fn bursts(seed: u64) -> Vec<Arrival> {
        let mut random = Random::new(seed);
        let (mut time_ns, mut arrivals) = (0i64, Vec::new());
        for _ in 0..400 {
            time_ns += random.below(12_000_000) as i64;
            for _ in 0..5 + random.below(80) {
                time_ns += 12_000;
                arrivals.push(Arrival {
                    time_ns,
                    bytes: 1500,
                });
            }
        }
        arrivals
    }

    fn policed(mut policer: Policer, arrivals: &[Arrival]) -> Trace {
        let outcomes = replay(&mut policer, arrivals);
        let observe = |(arrival, outcome): (&Arrival, crate::Outcome)| TracePacket {
            time_ns: arrival.time_ns,
            bytes: arrival.bytes,
            outcome: if outcome.is_dropped() {
                Seen::Lost
            } else {
                Seen::Passed
            },
            delay_s: None,
        };
        Trace::new(arrivals.iter().zip(outcomes).map(observe).collect())
    }

    #[test]
    fn one_bucket_lies_below_all_losses() {
        let trace = policed(Policer::new(60_000_000, 40_000), &bursts(3));
        let (bucket, explained) = envelope(&trace).unwrap().single(&trace);
        assert!(
            explained * 100 >= trace.lost * 98,
            "{explained} of {}",
            trace.lost
        );
        assert!(
            (bucket.rate_bps.value / 60e6 - 1.0).abs() < 0.01,
            "{bucket:?}"
        );
        assert!(
            (bucket.limit_bytes.value - 40_000.0).abs() < 1500.0,
            "{bucket:?}"
        );
    }

    #[test]
    fn two_buckets_of_a_policer_share_the_losses() {
        let policer = Policer::new(55_000_000, 120_000).with_peak(300_000_000, 30_000);
        let trace = policed(policer, &bursts(5));
        let pair = envelope(&trace).unwrap().pair(&trace).expect("two buckets");
        for (bucket, (rate, burst)) in pair.iter().zip([(55e6, 120_000.0), (300e6, 30_000.0)]) {
            assert!(
                (bucket.rate_bps.value / rate - 1.0).abs() < 0.02,
                "{bucket:?}"
            );
            assert!(
                (bucket.limit_bytes.value - burst).abs() < 3_000.0,
                "{bucket:?}"
            );
        }
    }

    #[test]
    fn random_losses_lie_below_the_envelope() {
        let mut random = Random::new(9);
        let observe = |arrival: &Arrival| TracePacket {
            time_ns: arrival.time_ns,
            bytes: arrival.bytes,
            outcome: if random.chance(0.01) {
                Seen::Lost
            } else {
                Seen::Passed
            },
            delay_s: None,
        };
        let trace = Trace::new(bursts(7).iter().map(observe).collect());
        let (_, explained) = envelope(&trace).unwrap().single(&trace);
        assert!(explained * 4 < trace.lost, "{explained} of {}", trace.lost);
    }
}
