//! Trains: bursts as they were sent and received, and their rates.

use whydrop_path::fit::passage::Passages;
use whydrop_verdict::Quantity;

use super::BurstPacket;
use super::bucket::Broken;
use crate::observe::{ByteBasis, Exact};
use crate::quantities::CLOCK_ERROR;

/// Variation of the times between back-to-back arrivals: `share` of them vary by less, in service times of a
/// packet. Timestamps are equally uncertain.
pub(super) fn gap_deviation(trains: &[Train], ip_bytes: u32, share: f64) -> f64 {
    let mut gaps: Vec<f64> = trains
        .iter()
        .filter(|train| train.ip_bytes() == ip_bytes)
        .flat_map(|train| train.late().windows(2))
        .map(|pair| (pair[1].0 - pair[0].0) as f64)
        .collect();
    gaps.sort_by(f64::total_cmp);
    let Some(&service) = gaps.get(gaps.len() / 2).filter(|gap| **gap > 0.0) else {
        return 0.0;
    };
    let mut off: Vec<f64> = gaps.iter().map(|gap| (gap - service).abs()).collect();
    off.sort_by(f64::total_cmp);
    off[(off.len() as f64 * share) as usize] / service
}

/// Sizes of packets in IP bytes, the smallest first.
pub(super) fn sizes(passages: &Passages) -> Vec<u32> {
    let mut sizes: Vec<u32> = passages.bytes.iter().map(|bytes| *bytes as u32).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// One burst: its packets in the order of sending, and those received in the order of arrival.
pub(super) struct Train {
    left: Vec<(i64, u32)>,
    /// For each packet that was sent.
    lost: Vec<bool>,
    arrived: Vec<(i64, u32)>,
}

pub(super) fn trains(packets: &[BurstPacket]) -> Vec<Train> {
    let mut in_order: Vec<&BurstPacket> = packets.iter().collect();
    in_order.sort_by_key(|packet| (packet.lot, packet.burst, packet.left_ns));
    in_order
        .chunk_by(|a, b| (a.lot, a.burst) == (b.lot, b.burst))
        .map(|of_train| {
            let sent = of_train
                .iter()
                .map(|packet| (packet.left_ns, packet.ip_bytes));
            let mut arrived: Vec<(i64, u32)> = of_train
                .iter()
                .filter_map(|packet| Some((packet.arrived_ns?, packet.ip_bytes)))
                .collect();
            arrived.sort_unstable();
            Train {
                lost: of_train
                    .iter()
                    .map(|packet| packet.arrived_ns.is_none())
                    .collect(),
                left: sent.collect(),
                arrived,
            }
        })
        .collect()
}

/// Shorter trains give no rate.
const SHORTEST_TRAIN: usize = 8;

/// Timers send a few packets at once; a part is many times longer than that.
const SHORTEST_PART: usize = 64;
const MOST_PARTS: usize = 32;

impl Train {
    /// The parts before and after its first loss.
    pub(super) fn broken(&self) -> Option<Broken> {
        let first = self.lost.iter().position(|lost| *lost)?;
        let passed = self.left.iter().zip(&self.lost).enumerate();
        let bytes = |behind: bool| -> f64 {
            let here = passed
                .clone()
                .filter(|(place, (_, lost))| !**lost && (*place > first) == behind);
            here.map(|(_, ((_, bytes), _))| f64::from(*bytes)).sum()
        };
        let seconds =
            |from: usize, until: usize| (self.left[until].0 - self.left[from].0) as f64 * 1e-9;
        Some(Broken {
            packet_bytes: f64::from(self.ip_bytes()),
            before_bytes: bytes(false),
            before_s: seconds(0, first),
            after_bytes: bytes(true),
            after_s: seconds(first, self.left.len() - 1),
        })
    }

    fn line_rate_bps(&self) -> Option<f64> {
        rate_bps(&self.left)
    }

    /// The rate at which the later half arrived: by then a queue, if there is one, is filled and the bucket
    /// of a shaper empty.
    fn late_rate_bps(&self) -> Option<f64> {
        rate_bps(self.late())
    }

    /// The same for its parts, each with its duration: a part in which a host stalled does not count.
    fn late_rates(&self) -> impl Iterator<Item = (f64, f64)> {
        let late = self.late();
        let parts = (late.len() / SHORTEST_PART).clamp(1, MOST_PARTS);
        // neighbouring parts share the packet between them
        let bound = move |part: usize| part * (late.len() - 1) / parts;
        (0..parts).filter_map(move |part| {
            let stamps = &late[bound(part)..=bound(part + 1)];
            let seconds = (stamps.last()?.0 - stamps.first()?.0) as f64 * 1e-9;
            Some((rate_bps(stamps)?, seconds))
        })
    }

    fn late(&self) -> &[(i64, u32)] {
        &self.arrived[self.arrived.len() / 2..]
    }

    /// The later half, or all of it if that half is a single packet: packets that queued behind each other
    /// arrive back to back.
    fn behind_each_other(&self) -> &[(i64, u32)] {
        if self.late().len() > 1 {
            self.late()
        } else {
            &self.arrived
        }
    }

    fn ip_bytes(&self) -> u32 {
        self.left.first().map_or(0, |first| first.1)
    }
}

/// Trains with rates that differ by less were sent at one rate.
const ONE_RATE: f64 = 0.1;

/// The rate of the fastest trains, weighted by duration, bit/s.
pub(super) fn line_rate_bps(trains: &[Train]) -> Option<f64> {
    let rates = || {
        trains
            .iter()
            .filter_map(|train| Some((train.line_rate_bps()?, train)))
    };
    let fastest = rates().map(|(rate, _)| rate).max_by(f64::total_cmp)?;
    let (mut bits, mut seconds) = (0.0, 0.0);
    for (rate, train) in rates().filter(|(rate, _)| *rate > (1.0 - ONE_RATE) * fastest) {
        let bytes: f64 = train.left.iter().map(|(_, bytes)| f64::from(*bytes)).sum();
        bits += bytes * 8.0;
        seconds += bytes * 8.0 / rate;
    }
    Some(bits / seconds)
}

/// Bytes after the first packet, divided by the time since it, bit/s.
fn rate_bps(stamps: &[(i64, u32)]) -> Option<f64> {
    let (first, last) = (stamps.first()?, stamps.last()?);
    let seconds = (last.0 - first.0) as f64 * 1e-9;
    let bytes: f64 = stamps[1..].iter().map(|(_, bytes)| f64::from(*bytes)).sum();
    (stamps.len() >= SHORTEST_TRAIN && seconds > 0.0).then(|| bytes * 8.0 / seconds)
}

/// A train arrived slower than it was sent if the rates differ by more than this share.
const SLOWER: f64 = 0.002;

/// Least uncertainty of a timestamp in service times: an interrupt's delay.
const LEAST_DEVIATION: f64 = 0.05;

/// The rate at which long trains of the largest packets arrived that were sent faster. If the hop serves
/// other traffic too, the rate of a train is only its share, and the time between single departures is more
/// informative.
pub(super) fn drain_rate(trains: &[Train], hop: &Exact) -> Option<Quantity> {
    let departures = hop.departures.as_ref();
    if let Some(shared) = departures.filter(|departures| departures.unseen_share > 0.0) {
        return Some(Quantity {
            value: shared.rate_bps.value,
            low: shared.rate_bps.low,
            high: shared.rate_bps.high,
        });
    }
    let largest = trains.iter().map(Train::ip_bytes).max()?;
    rate_of_size(trains, largest).or_else(|| rate_of_short_trains(trains, largest))
}

/// Fewer times between arrivals give no rate.
const FEWEST_GAPS: usize = 3;

/// The same if too few packets of each train arrived to give a rate (a queue of a few packets behind a line
/// many times faster passes hardly more of a burst than it holds): from all times between arrivals together.
fn rate_of_short_trains(trains: &[Train], ip_bytes: u32) -> Option<Quantity> {
    let gaps: Vec<f64> = trains
        .iter()
        .filter(|train| train.ip_bytes() == ip_bytes && train.late().len() < SHORTEST_TRAIN)
        .flat_map(|train| train.behind_each_other().windows(2))
        .map(|pair| (pair[1].0 - pair[0].0) as f64 * 1e-9)
        .collect();
    let count = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / count;
    let value = f64::from(ip_bytes) * 8.0 / mean;
    let slowed = line_rate_bps(trains).is_some_and(|line| value < (1.0 - SLOWER) * line);
    if gaps.len() < FEWEST_GAPS || mean <= 0.0 || !slowed {
        return None;
    }
    let variance = gaps
        .iter()
        .map(|gap| (gap / mean - 1.0).powi(2))
        .sum::<f64>()
        / (count - 1.0);
    let error = 1.96 * variance.sqrt().max(LEAST_DEVIATION) / count.sqrt() + CLOCK_ERROR;
    Some(Quantity {
        value,
        low: Some(value / (1.0 + error)),
        high: Some(value / (1.0 - error).max(f64::EPSILON)),
    })
}

/// The rate at which trains of one size arrived that were sent faster, bit/s, IP bytes.
fn rate_of_size(trains: &[Train], ip_bytes: u32) -> Option<Quantity> {
    let slowed: Vec<(f64, f64)> = trains
        .iter()
        .filter(|train| train.ip_bytes() == ip_bytes)
        .filter(|train| {
            let slower = |late: f64, line: f64| late < (1.0 - SLOWER) * line;
            let rates = train.late_rate_bps().zip(train.line_rate_bps());
            rates.is_some_and(|(late, line)| slower(late, line))
        })
        .flat_map(Train::late_rates)
        .collect();
    // each part is weighted by its duration
    let value = weighted_median(&slowed)?;
    let apart: Vec<(f64, f64)> = slowed
        .iter()
        .map(|(rate, seconds)| ((rate - value).abs(), *seconds))
        .collect();
    let seconds: f64 = slowed.iter().map(|(_, seconds)| seconds).sum();
    // the first and the last arrival of a part are as uncertain as any two: their distance varies as a gap
    // does
    let packets = seconds / slowed.len() as f64 * value / 8.0 / f64::from(ip_bytes);
    let ends = gap_deviation(trains, ip_bytes, 0.95).max(LEAST_DEVIATION) / packets.max(1.0) / 1.96;
    let spread = NORMAL_DEVIATION * weighted_median(&apart)? / value;
    let error = 1.96 * spread.max(ends) / (slowed.len() as f64).sqrt() + CLOCK_ERROR;
    Some(Quantity {
        value,
        low: Some(value * (1.0 - error)),
        high: Some(value * (1.0 + error)),
    })
}

/// The bytes that the hop counts for each packet, if trains of two sizes were slowed.
pub(super) fn byte_basis(trains: &[Train], hop: &Exact) -> Option<ByteBasis> {
    let sizes = sizes(&hop.passages);
    let (small, large) = (*sizes.first()?, *sizes.last()?);
    let [slow, fast] = [small, large].map(|size| rate_of_size(trains, size));
    basis_of_rates((small, slow?), (large, fast?))
}

/// The bytes that a hop counts for each packet, from the rates of packets of two sizes in IP bytes: small
/// packets take longer than their share of the bytes. With `r` and `R` the rates of packets of `b` and `B`
/// bytes, the overhead `o` satisfies `r (b + o) / b = R (B + o) / B`.
pub(super) fn basis_of_rates(
    (small, slow): (u32, Quantity),
    (large, fast): (u32, Quantity),
) -> Option<ByteBasis> {
    let (b, big) = (f64::from(small), f64::from(large));
    let overhead = |slow: f64, fast: f64| (fast - slow) / (slow / b - fast / big);
    let value = overhead(slow.value, fast.value);
    // the clocks' error is the same for both sizes
    let error = |one: Quantity| one.high.map(|high| high / one.value - 1.0 - CLOCK_ERROR);
    let error = error(slow)?.hypot(error(fast)?);
    let width = (overhead(slow.value * (1.0 - error), fast.value) - value).abs();
    let off = |basis: &ByteBasis| (value - f64::from(basis.overhead_bytes())).abs();
    let nearest = ByteBasis::ALL
        .into_iter()
        .min_by(|a, b| off(a).total_cmp(&off(b)))?;
    let others = ByteBasis::ALL.into_iter().filter(|other| *other != nearest);
    let next = others.map(|other| off(&other)).fold(f64::MAX, f64::min);
    (small < large && off(&nearest) + width < next - width).then_some(nearest)
}

/// Standard deviation of a normal distribution divided by its median absolute deviation.
const NORMAL_DEVIATION: f64 = 1.4826;

/// The weighted median; values with their weights.
pub(super) fn weighted_median(values: &[(f64, f64)]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = sorted.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    let middle = sorted.iter().find(|(_, weight)| {
        sum += weight;
        sum >= half
    });
    middle.map(|(value, _)| *value)
}

/// The most bytes that any train delivered ahead of `rate_bps`: the contents of a full bucket, passed at
/// once. The first packet alone is no bucket.
pub(super) fn bucket_bytes(trains: &[Train], rate_bps: f64) -> Option<Quantity> {
    let ahead = trains.iter().filter_map(|train| {
        let first_ns = train.arrived.first()?.0;
        let mut sum = 0.0;
        let ahead = train.arrived.iter().map(|(arrived_ns, bytes)| {
            sum += f64::from(*bytes);
            sum - (arrived_ns - first_ns) as f64 * 1e-9 * rate_bps / 8.0
        });
        Some((ahead.fold(0.0, f64::max), f64::from(train.ip_bytes())))
    });
    let (most, packet) = ahead.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (most > LEAST_BUCKET_PACKETS * packet).then_some(Quantity {
        value: most,
        low: Some(most - packet),
        high: Some(most + packet),
    })
}

/// Timers and interrupts release a few packets together; a bucket no larger than that cannot be detected.
const LEAST_BUCKET_PACKETS: f64 = 6.0;
