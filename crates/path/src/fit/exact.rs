//! A bucket fitted to exactly known fates, as from two captures.
//!
//! From one capture a fate is a conclusion, and a correction of the virtual queue by less than a packet
//! proves nothing. Between two captures it is a fact: passed packets had room and lost ones had none, at
//! times known to microseconds. A correct rate and limit then need almost no correction, and their interval
//! is a matter of bytes.

use super::bucket::BucketFit;
use super::lanes::{follow, follow_many};
use super::profile::{Interval, NEAR, Walk};
use super::rows::RateAndLimit;
use super::rows::Rows;
use super::search::{Point, Scores, Width, best_of, climb};
use super::trace::Trace;
use super::virtual_queue::Start;

/// Half the 95 % quantile of chi-squared with two degrees of freedom, and with four for a dual-rate policer:
/// the additional correction, in units of the timestamp noise, inside the joint interval of rates and limits.
const REFUTED_BY: [f64; 2] = [3.0, 4.74];
/// Initial relative steps of rate and limit, and the smallest of the rate.
const CLIMB: (f64, f64) = (4e-3, 1.6e-2);
pub(super) const FINEST: f64 = 1e-5;
/// Most iterations of a climb.
const LOOKS: u32 = 60;
/// An interval that extends beyond this factor has an open end.
pub(super) const OPEN_END: f64 = 3.0;
const WALK: Walk = Walk {
    offsets: [0.0, -3e-4, 3e-4, -2e-3, 2e-3, -1e-2, 1e-2, 5e-2],
    precision: 5e-5,
    first_step: 2e-4,
    growth: 2.0,
    open_end: OPEN_END,
};

/// Fits the bucket again, near `known`, to exact fates. `noise_bytes` is the traffic that passes within the
/// timestamp error: corrections are assumed to be errors with a Laplace distribution of that scale.
pub fn refine_exact(trace: &Trace, known: &BucketFit, noise_bytes: f64) -> Refined {
    let best = |fates: &ExactFates| fates.look_around(fates.climb(known.rate_and_limit()));
    let fates = ExactFates::new(trace, noise_bytes);
    let top = best(&fates);
    let Some(spent) = fates.with_unseen_tokens() else {
        return fates.fit(top, known);
    };
    let other = best(&spent);
    match other.score > top.score + UNSEEN_GAIN {
        true => spent.fit(other, known),
        false => fates.fit(top, known),
    }
}

/// Gain of a start with a partly filled bucket, nats: it has one parameter more, so fates must be less likely
/// by this without it. Half the 95 % quantile of chi-squared with two degrees of freedom.
const UNSEEN_GAIN: f64 = 3.0;

/// A refined bucket without its intervals, which take as long as the search: of several only the one that is
/// used is completed.
pub struct Refined {
    fates: ExactFates,
    fit: BucketFit,
}

impl Refined {
    /// The fit with open intervals.
    pub fn fit(&self) -> &BucketFit {
        &self.fit
    }

    pub(super) fn fit_mut(&mut self) -> &mut BucketFit {
        &mut self.fit
    }

    /// The fit with its intervals.
    pub fn complete(&self) -> BucketFit {
        self.fates.with_intervals(&self.fit)
    }
}

/// The input of a bucket's fit: exact fates, and optionally a second bucket in which a packet must also find
/// room.
#[derive(Clone)]
pub(super) struct ExactFates {
    rows: Rows,
    start: Start,
    /// The alternative: packets outside of the trace took tokens, and the bucket is known from the first loss
    /// on.
    unseen: Option<(Rows, Start)>,
    noise_bytes: f64,
}

impl ExactFates {
    pub fn new(trace: &Trace, noise_bytes: f64) -> Self {
        let rows = |trace: &Trace| Rows::single(trace).with_exact_margins(noise_bytes);
        let unseen = match trace.unseen_at_start() {
            0 => None,
            unseen => Some((rows(&trace.clone().starting_at(unseen)), Start::Unknown)),
        };
        Self {
            rows: rows(trace),
            start: Start::Empty,
            unseen,
            noise_bytes,
        }
    }

    /// The same if unseen packets took tokens. `None` if there were none.
    fn with_unseen_tokens(&self) -> Option<Self> {
        let (rows, start) = self.unseen.clone()?;
        Some(Self {
            rows,
            start,
            unseen: Some((self.rows.clone(), self.start)),
            ..*self
        })
    }

    /// Fits one bucket of a dual-rate policer from now on; `second_bucket` is the other: rate (bytes/s) and
    /// limit.
    pub fn set_second_bucket(&mut self, second_bucket: RateAndLimit) {
        self.rows.second_bucket = Some(second_bucket);
        if let Some((rows, _)) = &mut self.unseen {
            rows.second_bucket = Some(second_bucket);
        }
    }

    fn scores(&self, candidates: &[RateAndLimit], below: f64) -> Scores {
        let most_corrected = -below * self.noise_bytes;
        follow_many(&self.rows, candidates, self.start, most_corrected)
            .map(|agreement| agreement.map(|agreement| agreement.score(self.noise_bytes)))
    }

    /// The best point uphill from a rate and a limit.
    pub fn climb(&self, from: RateAndLimit) -> Point {
        let score = |points: &[RateAndLimit], below: f64| self.scores(points, below);
        let start = Point::scored(from, score);
        climb(start, CLIMB, FINEST, LOOKS, Width::All, score)
    }

    /// The best of its neighbourhood.
    pub fn look_around(&self, top: Point) -> Point {
        self.along_the_ridge(best_nearby(top, &|points, below| {
            self.scores(points, below)
        }))
    }

    /// Follows a ridge by steps in its direction only, which depends on the duration of bursts.
    pub fn along_the_ridge(&self, top: Point) -> Point {
        // one that leaves nothing to correct is as good as any
        if top.score > -UNSEEN_GAIN {
            return top;
        }
        let score = |points: &[RateAndLimit], below: f64| self.scores(points, below);
        RIDGES.into_iter().fold(top, |best, slope| {
            let steps = (RIDGE_STEP, slope * RIDGE_STEP);
            climb(best, steps, FINEST_ON_RIDGE, LOOKS / 2, Width::All, score)
        })
    }

    /// The fit at an optimum, without intervals.
    pub fn fit(self, top: Point, known: &BucketFit) -> Refined {
        let fit = self.at(top, known);
        Refined { fates: self, fit }
    }

    /// The fit at an optimum, with its intervals.
    pub fn complete(&self, top: Point, known: &BucketFit) -> BucketFit {
        self.with_intervals(&self.at(top, known))
    }

    fn at(&self, top: Point, known: &BucketFit) -> BucketFit {
        let (rate, limit) = (top.x, top.y);
        let open = |value: f64| Interval {
            value,
            low: None,
            high: None,
        };
        BucketFit {
            rate_bps: open(rate * 8.0),
            limit_bytes: open(limit),
            agreement: follow(&self.rows, (rate, limit), self.start),
            ..*known
        }
    }

    fn with_intervals(&self, fit: &BucketFit) -> BucketFit {
        let (rate, limit) = fit.rate_and_limit();
        let own = follow(&self.rows, (rate, limit), self.start);
        let noise_bytes = self.noise_bytes.max(own.typical_correction_bytes());
        let noise_bytes = noise_bytes.min(self.rows.packet_bytes);
        // classes of margins are no likelihood for an interval: only corrections refute
        let refuted_by = REFUTED_BY[usize::from(self.rows.second_bucket.is_some())];
        let tolerated_bytes = own.corrected_bytes() + refuted_by * noise_bytes;
        let fits = |rows: &Rows, start: Start, candidates: &[RateAndLimit; NEAR]| {
            // a loss shows the contents of the bucket to within a packet
            let known_to_bytes = match start {
                Start::Empty => 0.0,
                Start::Unknown => rows.packet_bytes,
            };
            follow_many(rows, candidates, start, tolerated_bytes + known_to_bytes)
                .iter()
                .position(Option::is_some)
        };
        let fits = |candidates: &[RateAndLimit; NEAR]| {
            let unseen = self.unseen.as_ref();
            let otherwise = || unseen.and_then(|(rows, start)| fits(rows, *start, candidates));
            fits(&self.rows, self.start, candidates).or_else(otherwise)
        };
        let rate_end = |direction| WALK.rate_end(direction, (rate, limit), fits);
        let limit_end = |direction| WALK.limit_end(direction, (rate, limit), fits);
        BucketFit {
            rate_bps: Interval {
                low: rate_end(-1.0).map(|low| low * 8.0),
                high: rate_end(1.0).map(|high| high * 8.0),
                ..fit.rate_bps
            },
            // the error of one timestamp or tick of the bucket may apply to all
            limit_bytes: Interval {
                low: limit_end(-1.0).map(|low| (low - noise_bytes).max(0.0)),
                high: limit_end(1.0).map(|high| high + noise_bytes),
                ..fit.limit_bytes
            },
            ..*fit
        }
    }
}

/// Half the width of the searched neighbourhood, and its steps, relative.
const AROUND: f64 = 0.08;
const RATE_STEP: f64 = 0.004;
const LIMIT_STEP: f64 = 0.01;
/// Points of the neighbourhood from which to climb.
const STARTS: usize = 3;

/// Rate and limit compensate for each other: the best points lie along ridges that are too narrow for
/// climbing. So the whole neighbourhood is searched, with climbs from its best points.
fn best_nearby(best: Point, score: &impl Fn(&[RateAndLimit], f64) -> Scores) -> Point {
    let steps = (RATE_STEP / 2.0, LIMIT_STEP / 2.0);
    starts_nearby(best, score)
        .into_iter()
        .map(|start| climb(start, steps, FINEST, LOOKS / 2, Width::All, score))
        .fold(best, Point::better)
}

/// Relative changes of the limit that compensate for one of the rate: the bytes that pass while a bucket is
/// empty, in limits.
const RIDGES: [f64; 4] = [0.1, 0.5, 2.5, 12.5];
/// Initial relative step of the rate along a ridge ...
const RIDGE_STEP: f64 = 1e-3;
/// ... and the smallest: for a bucket of megabytes it equals the timestamp error.
const FINEST_ON_RIDGE: f64 = 1e-6;

/// The best limits of the best rates, best first; among equally good rates the lowest first.
fn starts_nearby(best: Point, score: &impl Fn(&[RateAndLimit], f64) -> Scores) -> Vec<Point> {
    let steps = |step: f64| {
        let half = (AROUND / step).round() as i32;
        (-half..=half).map(move |position| (f64::from(position) * step).exp())
    };
    let rates: Vec<f64> = steps(RATE_STEP).map(|factor| best.x * factor).collect();
    // a point far worse than the known one is no start
    let hopeless = 4.0 * best.score - 100.0;
    let mut starts: Vec<(usize, Point)> = Vec::new();
    for place in from_the_middle(rates.len()) {
        let rate = rates[place];
        let limits: Vec<RateAndLimit> = steps(LIMIT_STEP)
            .map(|factor| (rate, best.y * factor))
            .collect();
        // nor is one worse than as many as are needed, so that most need not be evaluated completely
        let worst = starts.get(STARTS - 1).map(|(_, start)| start.score);
        let nothing = Point {
            score: worst.map_or(hopeless, |worst| hopeless.max(just_below(worst))),
            ..best
        };
        let look = &mut |points: &[RateAndLimit], below| score(points, below);
        if let Some(found) = best_of(&limits, nothing, Width::All, look) {
            starts.push((place, found));
            starts.sort_by(|(a_place, a), (b_place, b)| {
                b.score.total_cmp(&a.score).then(a_place.cmp(b_place))
            });
            starts.truncate(STARTS);
        }
    }
    starts.into_iter().map(|(_, start)| start).collect()
}

/// Slightly less than a score, so that an equally good one passes despite rounding.
fn just_below(score: f64) -> f64 {
    (score - 1e-9 * score.abs()).next_down()
}

/// All positions, the middle one first: the best is likely to be near.
fn from_the_middle(count: usize) -> impl Iterator<Item = usize> {
    let middle = count.saturating_sub(1) / 2;
    (0..count).map(move |number| match number % 2 {
        0 => middle - number / 2,
        _ => middle + number.div_ceil(2),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::{Seen, TracePacket, fit_bucket};
    use crate::{Arrival, Policer, Random, replay};
    use proptest::prelude::*;

    /// Bursts of full packets at 1 Gbit/s with a few small ones, through a policer.
    fn policed(rate_bps: u64, burst_bytes: u64) -> Trace {
        let mut arrivals = Vec::new();
        for burst in 0..60i64 {
            for packet in 0..(60 + burst % 17) {
                let bytes = if packet % 13 == 5 { 400 } else { 1500 };
                arrivals.push(Arrival {
                    time_ns: burst * 20_000_000 + burst * burst * 1_000 + packet * 12_000,
                    bytes,
                });
            }
        }
        let outcomes = replay(&mut Policer::new(rate_bps, burst_bytes), &arrivals);
        Trace::new(
            arrivals
                .iter()
                .zip(outcomes)
                .map(|(arrival, outcome)| TracePacket {
                    time_ns: arrival.time_ns,
                    bytes: arrival.bytes,
                    outcome: if outcome.is_dropped() {
                        Seen::Lost
                    } else {
                        Seen::Passed
                    },
                    delay_s: Some(0.0),
                })
                .collect(),
        )
    }

    proptest! {
        /// A bound on the search does not change its result, also if scores are equal.
        #[test]
        fn the_starts_are_the_best_limits_of_the_three_best_rates(
            seed in any::<u64>(),
            steps in 1u64..50,
            known in -100.0f64..-1.0,
        ) {
            let best = Point { x: 1e6, y: 3e4, score: known };
            let height = |&(rate, limit): &RateAndLimit| {
                let mixed = (rate.to_bits() ^ limit.to_bits().rotate_left(17) ^ seed)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                -((mixed % steps) as f64)
            };
            let score = |points: &[RateAndLimit], below: f64| -> Scores {
                std::array::from_fn(|at| points.get(at).map(&height).filter(|score| *score >= below))
            };
            let nothing = Point { score: 4.0 * known - 100.0, ..best };
            let mut all: Vec<Point> = Vec::new();
            for rate in -20..=20 {
                let rate = best.x * (f64::from(rate) * RATE_STEP).exp();
                let limits: Vec<RateAndLimit> = (-8..=8)
                    .map(|limit| (rate, best.y * (f64::from(limit) * LIMIT_STEP).exp()))
                    .collect();
                all.extend(best_of(&limits, nothing, Width::One, &mut |points: &[RateAndLimit], below| score(points, below)));
            }
            all.sort_by(|a, b| b.score.total_cmp(&a.score));
            all.truncate(STARTS);
            prop_assert_eq!(starts_nearby(best, &score), all);
        }
    }

    #[test]
    fn exact_fates_give_rate_and_burst_to_a_few_per_mille() {
        for (rate, burst) in [
            (20_000_000, 51_200),
            (200_000_000, 40_000),
            (12_000_000, 30_000),
        ] {
            let trace = policed(rate, burst);
            let known = fit_bucket(&trace).expect("there are losses");
            let fit = refine_exact(&trace, &known, 30.0).complete();
            // if the bucket fills up between bursts, the interval of the rate has some room
            if rate < 100_000_000 {
                let off = |value: f64, truth: u64| (value / truth as f64 - 1.0).abs();
                assert!(off(fit.rate_bps.value, rate) < 0.005, "{:?}", fit.rate_bps);
                assert!(
                    off(fit.limit_bytes.value, burst) < 0.02,
                    "{:?}",
                    fit.limit_bytes
                );
            }
            assert!(holds(fit.rate_bps, rate as f64), "{:?}", fit.rate_bps);
            assert!(
                holds(fit.limit_bytes, burst as f64),
                "{:?}",
                fit.limit_bytes
            );
        }
    }

    /// A trace of packets and their fates, as from two captures.
    fn seen(arrivals: &[Arrival], fate: impl Fn(usize) -> Seen) -> Trace {
        let observe = |(index, arrival): (usize, &Arrival)| TracePacket {
            time_ns: arrival.time_ns,
            bytes: arrival.bytes,
            outcome: fate(index),
            delay_s: Some(0.0),
        };
        Trace::new(arrivals.iter().enumerate().map(observe).collect())
    }

    fn holds(interval: Interval, truth: f64) -> bool {
        interval.low.is_none_or(|low| low <= truth)
            && interval.high.is_none_or(|high| high >= truth)
    }

    /// Bursts of full packets at 800 Mbit/s, of random length and with random pauses.
    fn random_bursts(random: &mut Random, bursts: usize) -> Vec<Arrival> {
        let (mut time_ns, mut arrivals) = (0i64, Vec::new());
        for _ in 0..bursts {
            time_ns += random.below(12_000_000) as i64;
            for _ in 0..20 + random.below(150) {
                time_ns += 15_000;
                arrivals.push(Arrival {
                    time_ns,
                    bytes: 1500,
                });
            }
        }
        arrivals
    }

    fn fates(policer: &mut Policer, arrivals: &[Arrival]) -> Vec<Seen> {
        let outcomes = replay(policer, arrivals).into_iter();
        let fate = |outcome: crate::Outcome| match outcome.is_dropped() {
            true => Seen::Lost,
            false => Seen::Passed,
        };
        outcomes.map(fate).collect()
    }

    #[test]
    fn randomly_late_timestamps_leave_the_burst_in_its_interval() {
        let (mut covered, mut of) = (0, 0);
        for seed in 0..12 {
            let mut random = Random::new(seed);
            let arrivals = random_bursts(&mut random, 60);
            let fates = fates(&mut Policer::new(300_000_000, 60_000), &arrivals);
            let mut last_ns = 0;
            let stamped = arrivals.iter().map(|arrival| {
                last_ns = last_ns.max(arrival.time_ns + random.exponential(8_000.0) as i64);
                Arrival {
                    time_ns: last_ns,
                    ..*arrival
                }
            });
            let stamped: Vec<Arrival> = stamped.collect();
            let trace = seen(&stamped, |index| fates[index]);
            let known = fit_bucket(&trace).expect("there are losses");
            let first = refine_exact(&trace, &known, 300.0);
            let corrected = first.fit().agreement.corrected_bytes() / trace.lost as f64;
            let fit = refine_exact(&trace, first.fit(), corrected.max(30.0)).complete();
            covered += usize::from(holds(fit.limit_bytes, 60_000.0));
            of += 1;
        }
        assert!(covered >= of - 1, "{covered} of {of}");
    }

    #[test]
    fn the_ridge_of_a_large_bucket_is_followed_to_its_top() {
        let mut random = Random::new(3);
        let (mut time_ns, mut arrivals) = (0i64, Vec::new());
        for _ in 0..25 {
            time_ns += random.below(900_000_000) as i64;
            for _ in 0..100 + random.below(1_200) {
                time_ns += 15_000 + random.below(90_000) as i64;
                let bytes = 1_500;
                arrivals.push(Arrival { time_ns, bytes });
            }
        }
        let fates = fates(&mut Policer::new(25_735_788, 932_537), &arrivals);
        let trace = seen(&arrivals, |index| fates[index]);
        let known = fit_bucket(&trace).expect("there are losses");
        let fit = refine_exact(&trace, &known, 30.0);
        let corrected = fit.fit().agreement.corrected_bytes();
        assert!(corrected < 30.0, "{corrected} {:?}", fit.fit());
    }

    #[test]
    fn a_bucket_not_full_at_the_start_of_both_captures_keeps_its_size() {
        // always empty from the first loss on: only the traffic before shows its size
        let arrivals: Vec<Arrival> = (0..3000i64)
            .map(|number| Arrival {
                time_ns: number * 300_000 + number * 7919 % 9_000,
                bytes: 1500,
            })
            .collect();
        let fates = fates(
            &mut Policer::new(20_000_000, 200_000).with_initial_bytes(90_000),
            &arrivals,
        );
        let fit_of = |unseen: usize| {
            let trace = seen(&arrivals, |index| match index < unseen {
                true => Seen::Unknown,
                false => fates[index],
            });
            let known = fit_bucket(&trace).expect("there are losses");
            refine_exact(&trace, &known, 30.0).complete()
        };
        let (from_the_start, later) = (fit_of(0), fit_of(20));
        assert!(!holds(from_the_start.limit_bytes, 200_000.0));
        assert!(
            holds(later.limit_bytes, 200_000.0),
            "{:?}",
            later.limit_bytes
        );
        assert!(holds(later.rate_bps, 20e6), "{:?}", later.rate_bps);
    }

    #[test]
    fn evenly_arriving_packets_give_rate_and_burst_although_each_is_near_the_limit() {
        let arrivals: Vec<Arrival> = (0..4000i64)
            .map(|number| Arrival {
                // 28 Mbit/s, a microsecond more or less
                time_ns: number * 408_000 + number * 7919 % 1_000,
                bytes: 1428,
            })
            .collect();
        let outcomes = replay(&mut Policer::new(20_000_000, 24_576), &arrivals);
        let observed = arrivals
            .iter()
            .zip(outcomes)
            .map(|(arrival, outcome)| TracePacket {
                time_ns: arrival.time_ns,
                bytes: arrival.bytes,
                outcome: if outcome.is_dropped() {
                    Seen::Lost
                } else {
                    Seen::Passed
                },
                delay_s: Some(0.0),
            });
        let trace = Trace::new(observed.collect());
        let known = fit_bucket(&trace).expect("there are losses");
        let fit = refine_exact(&trace, &known, 30.0).complete();
        assert!(
            (fit.rate_bps.value / 20e6 - 1.0).abs() < 1e-4,
            "{:?}",
            fit.rate_bps
        );
        assert!(
            (fit.limit_bytes.value - 24_576.0).abs() < 300.0,
            "{:?}",
            fit.limit_bytes
        );
        assert!(fit.certainty() > 0.95, "{}", fit.certainty());
    }
}
