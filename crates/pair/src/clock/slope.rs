//! One drift for both directions, each weighted by how sharp its envelope is.
//!
//! A direction's window floors lie in a *band*: narrow where packets met no queue (the acknowledgments of a bulk
//! transfer: microseconds), wide where the queue never emptied. The band that tells most of the slope is chosen by
//! the standard error it promises, a few floors below it are taken for stamps too early, all above it for queues,
//! and a least-squares line through all bands at once, each with its own height, gives the next slope.

use super::envelope::Group;
use super::track::{Point, sign};

/// What is left to say of a drift nobody measured, parts per million: the frequency tolerance of RFC 5905 (MAXFREQ),
/// beyond which NTP takes a clock for broken.
pub(super) const UNMEASURED_PPM: f64 = 500.0;
/// The share of window floors that may lie below the band: stamps too early by interrupt coalescing or a slow reader.
const BELOW_BAND: f64 = 0.03;
/// The smallest band: this many floors, or this share of them.
const SMALLEST_BAND: usize = 8;
const SMALLEST_BAND_SHARE: f64 = 0.05;
/// Timestamps do not repeat better than this even where they are given in nanoseconds.
const LEAST_SCATTER_NS: f64 = 50.0;
const ROUNDS: usize = 12;

/// How fast the clocks part.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Drift {
    /// Of all stretches together, nanoseconds for each nanosecond.
    pub rate: f64,
    /// Half the width of its 95 % interval.
    pub error: f64,
    /// Stretches that run at a rate of their own.
    pub own_rate: Vec<(usize, f64)>,
}

impl Drift {
    pub fn unmeasured() -> Drift {
        Drift {
            rate: 0.0,
            error: UNMEASURED_PPM * 1e-6,
            own_rate: Vec::new(),
        }
    }

    pub fn of_stretch(&self, stretch: usize) -> f64 {
        self.own_rate
            .iter()
            .find(|(own, _)| *own == stretch)
            .map_or(self.rate, |(_, rate)| *rate)
    }
}

/// The line of one direction within one stretch.
struct Band {
    /// Floors in the band, by time.
    floors: Vec<Point>,
    mean: Point,
    /// Sums of squares about the mean: of time, and of time with height.
    xx: f64,
    xz: f64,
    /// The floors' scatter about the line.
    scatter: f64,
    sign: f64,
}

/// One drift for all `groups`; `resolution_ns` is the step of the timestamps.
pub(super) fn fit(groups: &[Group], resolution_ns: f64) -> Drift {
    let all: Vec<&Group> = groups.iter().collect();
    let mut drift = fit_one(&all, resolution_ns);
    if drift.error >= UNMEASURED_PPM * 1e-6 {
        return Drift::unmeasured();
    }
    let stretches = groups.iter().map(|group| group.stretch).max().unwrap_or(0);
    if stretches > 0 {
        for stretch in 0..=stretches {
            let here: Vec<&Group> = groups
                .iter()
                .filter(|group| group.stretch == stretch)
                .collect();
            let own = fit_one(&here, resolution_ns);
            // a clock that is set may also be tuned: believed where both errors together cannot explain it
            if (own.rate - drift.rate).abs() > 2.0 * (own.error + drift.error) + 1e-6 {
                drift.own_rate.push((stretch, own.rate));
            }
        }
    }
    drift
}

fn fit_one(groups: &[&Group], resolution_ns: f64) -> Drift {
    let mut starts: Vec<f64> = groups
        .iter()
        .filter_map(|group| group.hull_drift())
        .collect();
    starts.extend(groups.iter().filter_map(|group| median_slope(group)));
    starts.push(0.0);
    starts.retain(|rate| rate.abs() < 0.1);
    // with many stretches every one proposes: the middle and the quarters of the proposals are enough
    starts.sort_by(f64::total_cmp);
    if starts.len() > 9 {
        starts = (0..9).map(|i| starts[i * (starts.len() - 1) / 8]).collect();
    }
    starts
        .into_iter()
        .map(|start| improve(groups, start, resolution_ns))
        .min_by(|a, b| a.error.total_cmp(&b.error))
        .unwrap_or_else(Drift::unmeasured)
}

/// The median slope of pairs of window floors (Theil and Sen): hardly moved by a few odd ones.
fn median_slope(group: &Group) -> Option<f64> {
    let floors: Vec<Point> = group.floors(group.hull_drift().unwrap_or(0.0)).collect();
    let thin: Vec<Point> = floors
        .iter()
        .step_by(floors.len().div_ceil(64).max(1))
        .copied()
        .collect();
    let mut slopes = Vec::new();
    for (i, a) in thin.iter().enumerate() {
        slopes.extend(
            thin[i + 1..]
                .iter()
                .map(|b| (b.z - a.z) / (b.x - a.x))
                .filter(|slope| slope.is_finite()),
        );
    }
    if slopes.is_empty() {
        return None;
    }
    let middle = slopes.len() / 2;
    let median = *slopes.select_nth_unstable_by(middle, f64::total_cmp).1;
    Some(group.hull_drift().unwrap_or(0.0) + sign(group.direction) * median)
}

/// Bands, line through the bands, bands along that line, and so on.
fn improve(groups: &[&Group], start: f64, resolution_ns: f64) -> Drift {
    let least = LEAST_SCATTER_NS.max(resolution_ns / 12f64.sqrt());
    let mut rate = start;
    let mut drift = Drift::unmeasured();
    drift.error = f64::INFINITY;
    for _ in 0..ROUNDS {
        let bands: Vec<Band> = groups
            .iter()
            .filter_map(|group| Band::of(group, rate, least))
            .collect();
        let weight: f64 = bands.iter().map(Band::weight).sum();
        if weight <= 0.0 || !weight.is_finite() {
            break;
        }
        let change = bands
            .iter()
            .map(|band| band.weight() * band.slope())
            .sum::<f64>()
            / weight;
        rate += change;
        drift = Drift {
            rate,
            error: error(&bands, change, weight, resolution_ns),
            own_rate: Vec::new(),
        };
        if change.abs() < 1e-10 {
            break;
        }
    }
    if !drift.rate.is_finite() || !drift.error.is_finite() {
        return Drift {
            error: f64::INFINITY,
            ..Drift::unmeasured()
        };
    }
    drift
}

impl Band {
    fn of(group: &Group, rate: f64, least: f64) -> Option<Band> {
        let mut floors: Vec<Point> = group.floors(rate).collect();
        let (low, high) = narrowest(&floors, least)?;
        floors.retain(|point| point.z >= low && point.z <= high);
        let count = floors.len() as f64;
        let mean = Point {
            x: floors.iter().map(|p| p.x).sum::<f64>() / count,
            z: floors.iter().map(|p| p.z).sum::<f64>() / count,
        };
        let xx: f64 = floors.iter().map(|p| (p.x - mean.x).powi(2)).sum();
        let xz: f64 = floors.iter().map(|p| (p.x - mean.x) * (p.z - mean.z)).sum();
        if xx <= 0.0 {
            return None;
        }
        let slope = xz / xx;
        let rest: f64 = floors
            .iter()
            .map(|p| (p.z - mean.z - slope * (p.x - mean.x)).powi(2))
            .sum();
        let scatter = (rest / (count - 2.0).max(1.0)).sqrt().max(least);
        Some(Band {
            floors,
            mean,
            xx,
            xz,
            scatter,
            sign: sign(group.direction),
        })
    }

    /// What the band says the clocks' rate still lacks.
    fn slope(&self) -> f64 {
        self.sign * self.xz / self.xx
    }

    /// The inverse of its slope's variance, as if its floors scattered independently.
    fn weight(&self) -> f64 {
        self.xx / self.scatter.powi(2)
    }

    /// How much more the floors scatter from one tenth of the time to the next than within: a floor that wanders
    /// (a queue that never empties) says less of the slope than its count of floors promises.
    fn wander(&self, slope: f64) -> f64 {
        let chunk = self.floors.len().div_ceil(10).max(2);
        let slope = self.sign * slope;
        let (mut sum, mut chunks) = (0.0, 0.0);
        for part in self.floors.chunks(chunk) {
            let count = part.len() as f64;
            let height: f64 = part
                .iter()
                .map(|p| p.z - self.mean.z - slope * (p.x - self.mean.x))
                .sum::<f64>()
                / count;
            sum += height.powi(2) * count / self.scatter.powi(2);
            chunks += 1.0;
        }
        // both of the line's two parameters were fitted to these chunks
        if chunks > 2.0 {
            (sum / (chunks - 2.0)).max(1.0)
        } else {
            4.0
        }
    }
}

/// Half the width of the 95 % interval of a slope that still changes by `change`.
fn error(bands: &[Band], change: f64, weight: f64, resolution_ns: f64) -> f64 {
    let wander: f64 = bands
        .iter()
        .map(|band| band.weight() * band.wander(change))
        .sum::<f64>()
        / weight;
    // bands that disagree are worth less than each says of itself (R. T. Birge, 1932)
    let apart: f64 = bands
        .iter()
        .map(|band| (band.slope() - change).powi(2) * band.weight() / wander)
        .sum();
    let disagreement = if bands.len() > 1 {
        (apart / (bands.len() - 1) as f64).max(1.0)
    } else {
        1.0
    };
    let count: f64 = bands
        .iter()
        .map(|band| band.floors.len() as f64 * band.weight())
        .sum::<f64>()
        / weight;
    let freedom = count - 2.0;
    if freedom < 0.5 {
        return f64::INFINITY;
    }
    let span = bands
        .iter()
        .map(|band| {
            band.floors.last().map_or(0.0, |p| p.x) - band.floors.first().map_or(0.0, |p| p.x)
        })
        .fold(0.0, f64::max)
        .abs();
    // all rounding errors may point one way at one end; they average over the windows, not to nothing
    let rounding = if span > 0.0 {
        resolution_ns / count.sqrt() / span
    } else {
        f64::INFINITY
    };
    student(freedom) * (wander * disagreement / weight).sqrt() + rounding
}

/// The 97.5 % quantile of Student's t, within 4 % for every number of degrees of freedom from one on.
fn student(freedom: f64) -> f64 {
    1.96 + 2.4 / freedom + 8.3 / freedom.powi(3)
}

/// The heights between which the floors promise the smallest error of the slope.
fn narrowest(floors: &[Point], least: f64) -> Option<(f64, f64)> {
    let mut sorted = floors.to_vec();
    sorted.sort_by(|a, b| a.z.total_cmp(&b.z));
    let count = sorted.len();
    if count < 2 {
        return None;
    }
    let middle = sorted.iter().map(|point| point.x).sum::<f64>() / count as f64;
    let smallest = SMALLEST_BAND
        .max((count as f64 * SMALLEST_BAND_SHARE) as usize)
        .min(count);
    let mut best: Option<(f64, f64, f64)> = None;
    for from in 0..=(count as f64 * BELOW_BAND) as usize {
        let (mut sum, mut squares) = (0.0, 0.0);
        for (to, point) in sorted.iter().enumerate().skip(from) {
            let x = point.x - middle;
            sum += x;
            squares += x * x;
            let inside = to + 1 - from;
            if inside < smallest {
                continue;
            }
            let spread = squares - sum * sum / inside as f64;
            // a band of uniform height scatters by its width over the root of twelve; a few floors are close by chance
            let width = point.z - sorted[from].z + least;
            let promised = width / spread.sqrt() * (1.0 + SMALLEST_BAND as f64 / inside as f64);
            if spread > 0.0 && best.is_none_or(|(least, ..)| promised < least) {
                best = Some((promised, sorted[from].z, point.z));
            }
        }
    }
    best.map(|(_, low, high)| (low, high))
}
