//! One drift for both directions, weighted by the sharpness of their envelopes.
//!
//! A direction's window floors lie in a *band*: narrow if packets met no queue (the acknowledgments of a bulk
//! transfer: microseconds), wide if the queue never emptied. The band that determines the slope best is
//! chosen by its expected standard error; a few floors below it are taken for early timestamps, all above it
//! for queues. A least-squares line through all bands at once, each with its own height, gives the next
//! slope.

use crate::envelope::Group;
use crate::level::median;
use crate::track::{Point, sign};

/// Bound on an unmeasured drift, parts per million: the frequency tolerance of RFC 5905 (MAXFREQ), beyond
/// which NTP takes a clock for broken.
pub(crate) const UNMEASURED_PPM: f64 = 500.0;
/// The share of window floors that may lie below the band: timestamps too early by interrupt coalescing or a
/// slow reader.
const BELOW_BAND: f64 = 0.03;
/// Number of such shares that are tried.
const BELOW_TRIED: usize = 8;
/// Loss of credibility of a band for each of them: floors below it may be the real floor.
const DOUBT_BELOW: f64 = 0.25;
/// Largest distance of such timestamps below the band, nanoseconds: interrupts and readers are delayed by
/// less. Deeper values are times of an empty queue, and then the band is not the floor.
const BELOW_BAND_NS: f64 = 2e6;
/// Numbers of neighbouring windows to merge: in busier queues fewer, longer windows reach the floor.
const MERGED_WINDOWS: [usize; 3] = [1, 4, 16];
/// Largest difference between the rates of the clocks of one path: four times what NTP can correct. A steeper
/// line is no clock's.
const MOST_DRIFT: f64 = 4.0 * UNMEASURED_PPM * 1e-6;
/// The smallest band: this many floors, or this share of them.
const SMALLEST_BAND: usize = 8;
const SMALLEST_BAND_SHARE: f64 = 0.05;
/// Single packets are no floors: with jitter they lie anywhere, so a band of them has a larger error by this
/// factor.
const SINGLE_PACKETS: f64 = 2.0;
/// Timestamps do not repeat better than this, even in units of nanoseconds.
const LEAST_SCATTER_NS: f64 = 50.0;
/// With one direction only, a floor may tilt by this many times its scatter: from one edge of its band to the
/// other.
const ALONE_TILT: f64 = 4.0;
/// A band with less than this share of the best one's weight is left out: it would only add its ramps.
const LEAST_WEIGHT: f64 = 0.01;
/// Bands contradict each other if their slopes differ by this many times their uncertainty.
const CONTRADICTION: f64 = 4.0;
/// An interval has its own rate if it differs by this many times both errors: a short interval misjudges its
/// floor, and an oscillator does not change when the time is set.
const OWN_RATE: f64 = 4.0;
const ROUNDS: usize = 12;

/// Relative rate of the clocks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drift {
    /// For all intervals together, nanoseconds per nanosecond.
    pub rate: f64,
    /// Half the width of its 95 % interval.
    pub error: f64,
    /// Additional half width because a floor may be none.
    doubt: f64,
    /// Intervals with their own rate.
    pub own_rate: Vec<(usize, f64)>,
}

impl Drift {
    pub fn unmeasured() -> Drift {
        Drift {
            rate: 0.0,
            error: UNMEASURED_PPM * 1e-6,
            doubt: 0.0,
            own_rate: Vec::new(),
        }
    }

    pub fn of_interval(&self, interval: usize) -> f64 {
        self.own_rate
            .iter()
            .find(|(own, _)| *own == interval)
            .map_or(self.rate, |(_, rate)| *rate)
    }
}

/// The line of one direction within one interval.
struct Band {
    /// Floors in the band, sorted by time.
    floors: Vec<Point>,
    mean: Point,
    /// Sums of squares about the mean: of time, and of time with height.
    xx: f64,
    xz: f64,
    /// The floors' scatter about the line.
    scatter: f64,
    /// Standard deviation of the rise of the floor from start to end, because it is none: see [`wandering`].
    wandering: f64,
    /// Spread of the lowest floors of tenths of the time.
    unsettled: f64,
    sign: f64,
}

/// One drift for all `groups`; `resolution_ns` is the step of the timestamps.
pub(crate) fn fit(groups: &[Group], resolution_ns: f64) -> Drift {
    let all: Vec<&Group> = groups.iter().collect();
    let (mut drift, apart) = fit_one(&all, resolution_ns);
    if drift.error >= UNMEASURED_PPM * 1e-6 {
        return Drift::unmeasured();
    }
    let intervals = groups.iter().map(|group| group.interval).max().unwrap_or(0);
    if intervals > 0 {
        for interval in 0..=intervals {
            let here: Vec<&Group> = groups
                .iter()
                .filter(|group| group.interval == interval)
                .collect();
            if let Some(own) = own_rate(&here, &drift, resolution_ns) {
                drift.own_rate.push((interval, own));
            }
        }
    }
    // the smallest of several errors is too small by chance: the result of another line counts as
    // uncertainty, unless it is the rate of an interval of its own
    if drift.own_rate.is_empty() {
        drift.error = drift.error.max(apart);
    }
    // a drift no more certain than any clock's is not reported, but still used for alignment
    drift.error = (drift.error + drift.doubt).min(UNMEASURED_PPM * 1e-6);
    drift
}

/// The rate of an interval that differs from the others': a clock that is set may also be tuned.
///
/// Every direction must show it separately, since a queue that grows from the interval's start to its end
/// looks like drift.
fn own_rate(groups: &[&Group], common: &Drift, resolution_ns: f64) -> Option<f64> {
    let (own, _) = fit_one(groups, resolution_ns);
    let differs =
        |one: &Drift| (one.rate - common.rate).abs() > OWN_RATE * (one.error + common.error);
    let agrees = |one: &Drift| (one.rate - own.rate).abs() <= one.error + own.error;
    let each = groups
        .iter()
        .map(|group| fit_one(&[group], resolution_ns).0);
    (differs(&own) && each.into_iter().all(|one| differs(&one) && agrees(&one))).then_some(own.rate)
}

/// The best line, and the distance to another one with nearly the same error.
fn fit_one(groups: &[&Group], resolution_ns: f64) -> (Drift, f64) {
    let mut starts: Vec<f64> = groups
        .iter()
        .filter_map(|group| group.hull_drift())
        .collect();
    starts.extend(groups.iter().filter_map(|group| median_slope(group)));
    starts.push(0.0);
    starts.retain(|rate| rate.abs() < MOST_DRIFT);
    // with many intervals every one proposes a slope: the median and the quartiles are enough
    starts.sort_by(f64::total_cmp);
    if starts.len() > 9 {
        starts = (0..9).map(|i| starts[i * (starts.len() - 1) / 8]).collect();
    }
    let lines: Vec<Drift> = starts
        .into_iter()
        .map(|start| improve(groups, start, resolution_ns))
        .collect();
    let least = |a: &&Drift, b: &&Drift| a.error.total_cmp(&b.error);
    let Some(best) = lines.iter().min_by(least) else {
        return (Drift::unmeasured(), 0.0);
    };
    let rivals = lines.iter().filter(|line| line.error <= RIVAL * best.error);
    let apart = rivals
        .map(|line| (line.rate - best.rate).abs())
        .fold(0.0, f64::max);
    (best.clone(), apart)
}

/// A line with an error of at most this many times the best one's is as credible.
const RIVAL: f64 = 2.0;

/// The median slope of pairs of window floors (Theil and Sen): robust against outliers.
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
    Some(group.hull_drift().unwrap_or(0.0) + sign(group.direction) * median(&mut slopes))
}

/// Alternates between the bands along a line and the line through the bands.
fn improve(groups: &[&Group], start: f64, resolution_ns: f64) -> Drift {
    let least = LEAST_SCATTER_NS.max(resolution_ns / 12f64.sqrt());
    let alone = groups
        .iter()
        .all(|group| group.direction == groups[0].direction);
    let mut rate = start;
    let mut drift = Drift::unmeasured();
    drift.error = f64::INFINITY;
    for _ in 0..ROUNDS {
        let bands: Vec<Band> = groups
            .iter()
            .filter_map(|group| Band::new(group, rate, least))
            .collect();
        let bands = credible(bands, resolution_ns);
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
            error: error(&bands, change, weight, resolution_ns, alone),
            doubt: doubt(&bands, weight, alone),
            own_rate: Vec::new(),
        };
        if change.abs() < 1e-10 {
            break;
        }
    }
    if !drift.error.is_finite() || drift.rate.is_nan() || drift.rate.abs() > MOST_DRIFT {
        return Drift {
            error: f64::INFINITY,
            ..Drift::unmeasured()
        };
    }
    drift
}

/// The best band, and those that do not contradict it: the floor of a queue that never empties has a slope of
/// its own.
fn credible(mut bands: Vec<Band>, resolution_ns: f64) -> Vec<Band> {
    let Some(best) = bands
        .iter()
        .max_by(|a, b| a.weight().total_cmp(&b.weight()))
    else {
        return bands;
    };
    let open = |band: &Band| band.weight().recip().sqrt() + band.tilt(resolution_ns);
    let (slope, best_open, least) = (best.slope(), open(best), LEAST_WEIGHT * best.weight());
    bands.retain(|band| {
        band.weight() >= least
            && (band.slope() - slope).abs() <= CONTRADICTION * (open(band) + best_open)
    });
    bands
}

impl Band {
    fn new(group: &Group, rate: f64, least: f64) -> Option<Band> {
        let [sliced, single] = group.timed_floors(rate);
        let kinds = [
            (group.floors(rate).collect(), 1.0),
            (sliced, 1.0),
            (single, SINGLE_PACKETS),
        ];
        let merged = kinds
            .iter()
            .flat_map(|kind| MERGED_WINDOWS.map(|windows| (kind, windows)));
        let views = merged.filter_map(|((finest, doubt), windows)| {
            let floors = merge(finest, windows);
            if windows > 1 && floors.len() < 2 * SMALLEST_BAND {
                return None;
            }
            let mut band = narrowest(&floors, least)?;
            if windows == 1 {
                band.promised *= doubt;
            }
            Some((band, floors))
        });
        let (Narrowest { low, high, .. }, mut floors) =
            views.min_by(|(a, _), (b, _)| a.promised.total_cmp(&b.promised))?;
        let wandering = wandering(&floors, low, high);
        let unsettled = unsettled(&floors);
        floors.retain(|point| point.z >= low && point.z <= high);
        let count = floors.len() as f64;
        let mean = Point::mean(&floors);
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
            wandering,
            unsettled,
            sign: sign(group.direction),
        })
    }

    /// The correction to the clocks' rate from this band.
    fn slope(&self) -> f64 {
        self.sign * self.xz / self.xx
    }

    /// The inverse of its slope's variance, as if its floors scattered independently.
    fn weight(&self) -> f64 {
        self.xx / self.scatter.powi(2)
    }

    /// The duration if its floors were spread evenly.
    fn length(&self) -> f64 {
        (12.0 * self.xx / self.floors.len() as f64).sqrt()
    }

    /// The slope of a floor that rises over its length by its scatter and half of a timestamp's step.
    ///
    /// The length is that of evenly spread floors: a burst of packets and a few stragglers hours later are no
    /// more than two moments.
    fn tilt(&self, resolution_ns: f64) -> f64 {
        let count = self.floors.len() as f64;
        (self.scatter + resolution_ns / (2.0 * count.sqrt())) / self.length()
    }

    /// Excess scatter of the floors between tenths of the time over the scatter within: a floor that wanders
    /// (a queue that never empties) determines the slope less well than its number of floors suggests.
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

/// Half the width of the 95 % interval of a slope that still changes by `change`. `alone`: only one direction
/// was captured.
fn error(bands: &[Band], change: f64, weight: f64, resolution_ns: f64, alone: bool) -> f64 {
    let wander: f64 = bands
        .iter()
        .map(|band| band.weight() * band.wander(change))
        .sum::<f64>()
        / weight;
    // bands that disagree have larger errors than their own estimates (R. T. Birge, 1932)
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
    // errors that no number of floors averages out: a floor may be higher at one end than at the other by its
    // scatter, and all roundings at one end may have the same sign
    let systematic: f64 = bands
        .iter()
        .map(|band| band.weight() * band.tilt(resolution_ns))
        .sum::<f64>()
        / weight;
    // with one direction only, a growing queue looks like a fast clock
    let directions = if alone { ALONE_TILT } else { 1.0 };
    student(freedom) * (wander * disagreement / weight).sqrt() + directions * systematic
}

/// The best of nine views of each envelope is taken (three kinds of windows, three widths): for all of them
/// to include the truth with 95 %, 2.77 standard deviations are needed instead of 1.96 (C. E. Bonferroni,
/// 1936).
const BEST_OF_VIEWS: f64 = 2.77 / 1.96;

/// Half the width by which the slope may be wrong because the queue never was empty.
///
/// If another direction has a real floor, a doubtful one changes the line at most by its difference from
/// that.
fn doubt(bands: &[Band], weight: f64, alone: bool) -> f64 {
    let sound = bands.iter().find(|band| band.wandering == 0.0);
    let of = |band: &Band| {
        let wandering = 1.96 * band.wandering;
        let rise = if alone {
            wandering.max(band.unsettled)
        } else {
            wandering
        };
        let most = sound
            .filter(|_| !alone)
            .map_or(f64::MAX, |sound| (band.slope() - sound.slope()).abs());
        band.weight() * (rise / band.length()).min(most)
    };
    bands.iter().map(of).sum::<f64>() / weight
}

/// The 97.5 % quantile of Student's t, within 4 % for every number of degrees of freedom from one on, widened
/// for the choice among views.
fn student(freedom: f64) -> f64 {
    BEST_OF_VIEWS * (1.96 + 2.4 / freedom + 8.3 / freedom.powi(3))
}

/// Density of a floor relative to the values above it; clusters by chance are less dense.
const DENSER: f64 = 4.0;
/// Share of all floors in one band from which it is no chance cluster either.
const MAJOR_SHARE: f64 = 0.3;
/// Widths of the band above it that are compared.
const ABOVE: f64 = 3.0;
/// Number of parts of the time with compared means, and the quotient of variances that chance exceeds once in
/// forty times (Snedecor's F with 8 degrees of freedom over many).
const TENTHS: usize = 10;
const NO_CHANCE: f64 = 2.2;
/// For a random walk and its best line: standard deviation of the line's rise divided by that of the walk
/// about the line (1.095 and 0.258 times the walk's own).
const RISE_OF_WALK: f64 = 4.24;

/// Possible rise of the lowest packets' delay from start to end because the queue never was empty: one
/// standard deviation, nanoseconds.
///
/// If the queue empties, the lowest floors lie in a band that is denser than the values above it; if each
/// packet is delayed independently, the means of tenths differ only by chance. Otherwise the floor moves with
/// the queue. Even motion disappears when a line is fitted; for a random walk the rest shows how large it is.
fn wandering(floors: &[Point], low: f64, high: f64) -> f64 {
    let within = |from: f64, to: f64| {
        let inside = floors.iter().filter(|p| p.z >= from && p.z <= to);
        inside.count() as f64
    };
    let above = within(high, high + ABOVE * (high - low)) / ABOVE;
    let inside = within(low, high);
    let chunk = floors.len().div_ceil(TENTHS).max(1);
    let reaches = |part: &&[Point]| part.iter().any(|p| p.z >= low && p.z <= high);
    // a queue that turns round stays near its minimum for a while, but not all the time
    let all_along = 2 * floors.chunks(chunk).filter(reaches).count() >= TENTHS;
    let dense = inside >= DENSER * above || inside > MAJOR_SHARE * floors.len() as f64;
    let is_floor = all_along && dense;
    if is_floor || chunk < 2 {
        return 0.0;
    }
    let tenths: Vec<Point> = floors.chunks(chunk).map(Point::mean).collect();
    let middle = Point::mean(&tenths);
    let (xx, xz) = tenths.iter().fold((0.0, 0.0), |(xx, xz), p| {
        let x = p.x - middle.x;
        (xx + x * x, xz + x * (p.z - middle.z))
    });
    let slope = xz / xx.max(f64::MIN_POSITIVE);
    let rest = |p: &Point, about: &Point| p.z - about.z - slope * (p.x - about.x);
    let between: f64 = tenths.iter().map(|p| rest(p, &middle).powi(2)).sum();
    let between = between / (tenths.len() as f64 - 2.0).max(1.0);
    let inside: f64 = floors
        .chunks(chunk)
        .zip(&tenths)
        .flat_map(|(points, about)| points.iter().map(move |p| rest(p, about).powi(2)))
        .sum();
    let by_chance = inside / floors.len() as f64 / chunk as f64;
    if between < NO_CHANCE * by_chance {
        return 0.0;
    }
    RISE_OF_WALK * between.sqrt()
}

/// Spread of the lowest floors of tenths of the time, nanoseconds: with one direction only, a slope of the
/// clocks differs from one of the queue only if the queue empties in each of them.
fn unsettled(floors: &[Point]) -> f64 {
    let lowest = merge(floors, floors.len().div_ceil(TENTHS).max(1));
    let (low, high) = lowest.iter().fold((f64::MAX, f64::MIN), |(low, high), p| {
        (low.min(p.z), high.max(p.z))
    });
    (high - low).max(0.0)
}

/// The lowest floor of each group of this many neighbouring windows.
fn merge(floors: &[Point], windows: usize) -> Vec<Point> {
    let lowest = |part: &[Point]| Point::lowest(part.iter().copied());
    floors.chunks(windows).filter_map(lowest).collect()
}

/// A band of heights, and its expected error of the slope.
#[derive(Debug, Clone, Copy)]
struct Narrowest {
    promised: f64,
    low: f64,
    high: f64,
}

/// The heights between which the floors give the smallest expected error of the slope.
fn narrowest(floors: &[Point], least: f64) -> Option<Narrowest> {
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
    let mut best: Option<Narrowest> = None;
    let most_below = ((count as f64 * BELOW_BAND) as usize).max(1);
    for from in (0..=most_below).step_by(most_below.div_ceil(BELOW_TRIED)) {
        let low = sorted[from].z;
        if low - sorted[0].z > BELOW_BAND_NS {
            break;
        }
        let doubt = 1.0 + DOUBT_BELOW * from as f64;
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
            let width = point.z - low + least;
            // a few floors lie close together by chance
            let promised =
                width / spread.sqrt() * (1.0 + SMALLEST_BAND as f64 / inside as f64) * doubt;
            if spread > 0.0 && best.is_none_or(|best| promised < best.promised) {
                best = Some(Narrowest {
                    promised,
                    low,
                    high: point.z,
                });
            }
        }
    }
    best
}
