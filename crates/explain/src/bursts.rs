//! Bursts of packets on a path: a hop, seen from both of its ends.
//!
//! When each packet left its sender and when it arrived, or that it did not, is what two captures show of a hop;
//! so it is judged as one ([`hop`](crate::hop)). Two things are known better here: every burst found the path idle, and
//! behind each other its packets filled the queue for long, so that the rate at which it drains is that of the whole train
//! (the dispersion of long trains: Dovrolis, Ramanathan and Moore, "Packet-dispersion techniques and a capacity-estimation
//! methodology", IEEE/ACM Transactions on Networking 12(6), 2004; of pairs: Keshav, "A control-theoretic approach to flow
//! control", SIGCOMM 1991).

use std::collections::HashMap;

use serde::Serialize;
use whydrop_path::fit::Seen;
use whydrop_path::fit::passage::{Held, Passage, Passages, held};
use whydrop_verdict::{Place, PlaceKind, Quantity};

use crate::document::Verdict;
use crate::evidence::Totals;
use crate::hop::{ByteBasis, Hop, HopInput, hop_verdict, judge_hop, measure_hop};
use crate::parameters::CLOCK_ERROR;

/// One packet of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstPacket {
    /// Trains of one lot were measured by the same two clocks, close to each other in time.
    pub lot: u32,
    pub burst: u32,
    /// In the sender's clock.
    pub left_ns: i64,
    /// In the receiver's; `None` for a lost packet.
    pub arrived_ns: Option<i64>,
    pub ip_bytes: u32,
    pub marked: bool,
}

/// The findings from bursts.
#[derive(Debug, Clone, Serialize)]
pub struct Bursts {
    pub packets: usize,
    pub lost: usize,
    pub marked: usize,
    /// Rate of the fastest burst as it left its sender, bit/s, IP bytes.
    pub line_rate_bps: Option<f64>,
    /// Rate of arrivals behind each other while packets waited, bit/s, IP bytes of large packets.
    pub drain_rate_bps: Option<Quantity>,
    /// Bytes that came faster than that before packets had to wait: the bucket of a shaper, IP bytes.
    pub burst_bytes: Option<Quantity>,
    /// Longest wait, seconds above that of a packet that finds the path idle.
    pub longest_wait_s: f64,
    /// The most that any packet found waiting: packets, and IP bytes.
    pub most_packets: f64,
    pub most_bytes: f64,
    /// The content of a full queue, where lost packets found one.
    pub limit: Option<Limit>,
    /// What the queue counts of each packet: `ip`, `ethernet` or `wire`, where small packets tell.
    pub byte_basis: Option<&'static str>,
    /// Where something was lost: why.
    pub verdict: Option<Verdict>,
}

/// The content of a full queue, by what lost packets found in it.
#[derive(Debug, Clone, Serialize)]
pub struct Limit {
    /// `packets` or `bytes`; `None` where packets of one size alone were lost, or two sizes agree on neither.
    pub limited_by: Option<&'static str>,
    pub packets: Quantity,
    /// In bytes as the hop counts them (`byte_basis`), where that is known; else IP bytes.
    pub bytes: Quantity,
    /// Of the losses, and of what passed though more was inside, the share that a full queue accounts for: 0 to 1.
    pub certainty: f64,
}

/// Judges what bursts met. `None` where none of them arrived.
pub fn explain_bursts(packets: &[BurstPacket]) -> Option<Bursts> {
    let passages = passages(packets)?;
    let trains = trains(packets);
    let hop = measure_hop(HopInput {
        totals: totals(&passages),
        passages,
        offloaded: false,
        base_rtt_s: None,
        missed_share: 0.0,
    });
    let waits = hop.passages.wait_s.iter().filter(|wait| !wait.is_nan());
    let longest_wait_s = waits.fold(0.0, |most: f64, wait| most.max(*wait));
    let inside = held(&hop.passages, hop.idle_wait_s());
    let most = |of: fn(&Held) -> f64| inside.iter().map(of).fold(0.0, f64::max);
    let most_packets = most(|held| held.packets);
    let drain_rate_bps = drain_rate(&trains, &hop, most_packets);
    let basis = byte_basis(&trains, &hop);
    Some(Bursts {
        packets: hop.passages.len(),
        lost: hop.passages.lost,
        marked: hop.marked,
        line_rate_bps: line_rate_bps(&trains),
        burst_bytes: drain_rate_bps.and_then(|rate| bucket_bytes(&trains, rate.value)),
        limit: limit(&hop, &trains, &inside, drain_rate_bps, basis),
        drain_rate_bps,
        byte_basis: basis.map(ByteBasis::name),
        longest_wait_s,
        most_packets,
        most_bytes: most(|held| held.bytes),
        verdict: (hop.passages.lost > 0).then(|| verdict(&hop)),
    })
}

fn verdict(hop: &Hop) -> Verdict {
    let place = Place::of(PlaceKind::Between, &[1, 2]);
    let largest = f64::from(hop.evidence.group_trace.trace.largest_bytes);
    hop_verdict(&judge_hop(hop), hop, place, Vec::new(), largest, Vec::new()).0
}

/// Packets waiting, as lost packets of one size found them.
struct Full {
    ip_bytes: f64,
    /// Median, with its interval.
    packets: Quantity,
    losses: usize,
    /// Losses that found a different number, and packets that passed though more was inside.
    misfits: usize,
}

/// Fewer losses of one size say nothing.
const FEWEST_LOSSES: usize = 4;
/// A full queue holds the same number each time: to within so many packets, by which the order of events of one moment is
/// uncertain, or this share.
const SAME_PACKETS: f64 = 2.0;
const SAME_SHARE: f64 = 0.05;
/// Fewer packets inside than this make no queue.
const FEWEST_INSIDE: f64 = 2.0;
/// A drop-tail queue drops what finds it full, all of that, and nothing else. This share of the losses and of what passed with
/// more inside may be misplaced in time, or another's.
const MOST_MISFITS: f64 = 0.2;

/// The limit of the queue that lost packets found full, if they found one.
///
/// A limit in packets is reached by as many small packets as large ones, a limit in bytes by as many bytes: packets that are
/// four times smaller decide by a factor of four.
fn limit(
    hop: &Hop,
    trains: &[Train],
    inside: &[Held],
    drain_rate_bps: Option<Quantity>,
    basis: Option<ByteBasis>,
) -> Option<Limit> {
    let shared = hop
        .departures
        .as_ref()
        .filter(|departures| departures.unseen_share > 0.0)
        .and(drain_rate_bps);
    let mut found: Vec<Full> = sizes(&hop.passages)
        .into_iter()
        .filter_map(|ip_bytes| {
            let of = |outcome| match shared {
                Some(rate) => held_by_waits(&hop.passages, (ip_bytes, outcome), rate.value),
                None => held_by_count(&hop.passages, (ip_bytes, outcome), inside),
            };
            let jitter = jitter_packets(trains, ip_bytes);
            Full::of(
                f64::from(ip_bytes),
                jitter,
                of(Seen::Lost),
                &of(Seen::Passed),
            )
        })
        .collect();
    let losses: usize = found.iter().map(|full| full.losses).sum();
    let misfits: usize = found.iter().map(|full| full.misfits).sum();
    let certainty = 1.0 - misfits as f64 / (losses + misfits).max(1) as f64;
    let large = found.pop()?;
    if certainty < 1.0 - MOST_MISFITS || large.packets.value < FEWEST_INSIDE {
        return None;
    }
    let small = found.first();
    let limited_by = small.and_then(|small| {
        let apart = (large.ip_bytes / small.ip_bytes).ln();
        let grows = (small.packets.value / large.packets.value).max(1e-3).ln() / apart;
        match grows {
            _ if grows.abs() < AGREE => Some("packets"),
            _ if (grows - 1.0).abs() < AGREE => Some("bytes"),
            _ => None,
        }
    });
    // what finds a limit in bytes reached lacks room for itself: the smaller it is, the sharper that is known
    let sharpest = small
        .filter(|_| limited_by == Some("bytes"))
        .unwrap_or(&large);
    let basis = basis.map(ByteBasis::overhead_bytes);
    let bytes = |packets: f64, more: f64, overhead: u32| {
        (packets + more) * (sharpest.ip_bytes + f64::from(overhead))
    };
    let overhead = basis.unwrap_or(0);
    Some(Limit {
        limited_by,
        packets: large.packets,
        bytes: Quantity {
            value: bytes(sharpest.packets.value, 0.5, overhead),
            low: sharpest.packets.low.map(|low| bytes(low, 0.0, overhead)),
            high: sharpest
                .packets
                .high
                .map(|high| bytes(high, 1.0, basis.unwrap_or(whydrop_path::overhead::WIRE))),
        },
        certainty,
    })
}

impl Full {
    /// From what lost packets found, and those that passed.
    fn of(ip_bytes: f64, jitter: f64, mut lost: Vec<f64>, passed: &[f64]) -> Option<Full> {
        if lost.len() < FEWEST_LOSSES {
            return None;
        }
        lost.sort_by(f64::total_cmp);
        let median = lost[lost.len() / 2];
        let same = SAME_PACKETS.max(SAME_SHARE * median).max(2.0 * jitter);
        let differ = lost
            .iter()
            .filter(|held| (*held - median).abs() > same)
            .count();
        let more = passed.iter().filter(|held| **held > median + same).count();
        // the interval of a median by order statistics
        let half = lost.len() as f64 / 2.0;
        let reach = 0.98 * (lost.len() as f64).sqrt();
        let low = lost[(half - reach).max(0.0) as usize];
        let high = lost[((half + reach) as usize).min(lost.len() - 1)];
        Some(Full {
            ip_bytes,
            packets: Quantity {
                value: median,
                // the packet in service may hold a place or not
                low: Some((low - 1.0).max(0.0)),
                high: Some(high + 1.0),
            },
            losses: lost.len(),
            misfits: differ + more,
        })
    }
}

/// By how much the times between arrivals of packets behind each other vary: 90 % of them by less, in service times of a packet.
/// What is stamped is as uncertain.
fn jitter_packets(trains: &[Train], ip_bytes: u32) -> f64 {
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
    off[off.len() * 9 / 10] / service
}

/// Of the distance between the two answers, what an answer may be off: nearer to one than to the other by three to one.
const AGREE: f64 = 0.25;

/// Sizes of packets, IP bytes, from the smallest.
fn sizes(passages: &Passages) -> Vec<u32> {
    let mut sizes: Vec<u32> = passages.bytes.iter().map(|bytes| *bytes as u32).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn of_kind(passages: &Passages, (ip_bytes, outcome): (u32, Seen)) -> impl Iterator<Item = usize> {
    (0..passages.len()).filter(move |index| {
        passages.outcome[*index] == outcome && passages.bytes[*index] as u32 == ip_bytes
    })
}

fn held_by_count(passages: &Passages, kind: (u32, Seen), inside: &[Held]) -> Vec<f64> {
    of_kind(passages, kind)
        .map(|index| inside[index].packets)
        .collect()
}

/// Where others share the queue, what it held is what a packet waited for, at the rate at which the queue drains, in packets of
/// that size: of a lost packet, what the last one before it waited for, which took a place itself.
fn held_by_waits(passages: &Passages, kind: (u32, Seen), rate_bps: f64) -> Vec<f64> {
    let per_second = rate_bps / 8.0 / f64::from(kind.0);
    of_kind(passages, kind)
        .filter_map(|index| match kind.1 {
            Seen::Lost => Some((index.checked_sub(1)?, 1.0)),
            _ => Some((index, 0.0)),
        })
        .map(|(seen, more)| passages.wait_s[seen] * per_second + more)
        .filter(|packets| packets.is_finite())
        .collect()
}

/// The packets on their way; the idle path's time is that of the fastest packet of each lot and size, since large packets take
/// longer to be sent than small ones.
fn passages(packets: &[BurstPacket]) -> Option<Passages> {
    let transit_ns = |packet: &BurstPacket| Some(packet.arrived_ns?.saturating_sub(packet.left_ns));
    let mut shortest_ns: HashMap<(u32, u32), i64> = HashMap::new();
    for packet in packets {
        if let Some(transit_ns) = transit_ns(packet) {
            let shortest_ns = shortest_ns
                .entry((packet.lot, packet.ip_bytes))
                .or_insert(transit_ns);
            *shortest_ns = transit_ns.min(*shortest_ns);
        }
    }
    let passage = |packet: &BurstPacket| {
        let idle_ns = *shortest_ns.get(&(packet.lot, packet.ip_bytes))?;
        let transit_ns = transit_ns(packet).map(|transit_ns| transit_ns.saturating_sub(idle_ns));
        Some(Passage {
            arrival_ns: packet.left_ns,
            bytes: packet.ip_bytes,
            outcome: transit_ns.map_or(Seen::Lost, |_| Seen::Passed),
            transit_ns,
            flow: 0,
            marked: packet.marked,
        })
    };
    let passages: Vec<Passage> = packets.iter().filter_map(passage).collect();
    (!passages.is_empty()).then(|| Passages::new(passages))
}

fn totals(passages: &Passages) -> Totals {
    let packets = passages.len() as u64;
    Totals {
        packets,
        data_packets: packets,
        payload_bytes: passages.bytes.iter().map(|bytes| *bytes as u64).sum(),
        lost: passages.lost as u64,
        lossy_flows: u64::from(passages.lost > 0),
        busy_s: passages.duration_s(),
        union_busy_s: passages.duration_s(),
        ..Totals::default()
    }
}

/// One burst: its packets in the order of sending, and those that arrived in the order of arrival.
struct Train {
    left: Vec<(i64, u32)>,
    arrived: Vec<(i64, u32)>,
}

fn trains(packets: &[BurstPacket]) -> Vec<Train> {
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
                left: sent.collect(),
                arrived,
            }
        })
        .collect()
}

/// Shorter trains tell no rate.
const SHORTEST_TRAIN: usize = 8;

impl Train {
    fn line_rate_bps(&self) -> Option<f64> {
        rate_bps(&self.left)
    }

    /// The rate at which the later half arrived: there a queue, if there is one, has been filled and the bucket of a shaper
    /// emptied.
    fn late_rate_bps(&self) -> Option<(f64, f64)> {
        let late = self.late();
        let seconds = (late.last()?.0 - late.first()?.0) as f64 * 1e-9;
        Some((rate_bps(late)?, seconds))
    }

    fn late(&self) -> &[(i64, u32)] {
        &self.arrived[self.arrived.len() / 2..]
    }

    fn ip_bytes(&self) -> u32 {
        self.left.first().map_or(0, |first| first.1)
    }
}

/// Trains whose rates differ by less were sent at one rate.
const ONE_RATE: f64 = 0.1;

/// The rate of the fastest trains, each weighed by how long it lasted, bit/s.
fn line_rate_bps(trains: &[Train]) -> Option<f64> {
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

/// Bytes behind the first packet over the time since it came, bit/s.
fn rate_bps(stamps: &[(i64, u32)]) -> Option<f64> {
    let (first, last) = (stamps.first()?, stamps.last()?);
    let seconds = (last.0 - first.0) as f64 * 1e-9;
    let bytes: f64 = stamps[1..].iter().map(|(_, bytes)| f64::from(*bytes)).sum();
    (stamps.len() >= SHORTEST_TRAIN && seconds > 0.0).then(|| bytes * 8.0 / seconds)
}

/// A train arrived slower than it was sent where the rates differ by more than this share of what they would by chance.
const SLOWER: f64 = 0.002;
/// Timers and interrupts hold a few packets back; where no more wait nothing is told of a queue.
const LEAST_QUEUE_PACKETS: f64 = 5.0;

/// The rate at which long trains of the largest packets arrived that had been sent faster. Where the hop serves others too the
/// rate of a train is what they leave of it, and the time between single departures tells more.
fn drain_rate(trains: &[Train], hop: &Hop, most_packets: f64) -> Option<Quantity> {
    let departures = hop.departures.as_ref();
    if let Some(shared) = departures.filter(|departures| departures.unseen_share > 0.0) {
        return Some(Quantity {
            value: shared.rate_bps.value,
            low: shared.rate_bps.low,
            high: shared.rate_bps.high,
        });
    }
    if most_packets < LEAST_QUEUE_PACKETS {
        return None;
    }
    let largest = trains.iter().map(Train::ip_bytes).max()?;
    rate_of_size(trains, largest)
}

/// The rate at which trains of one size arrived that had been sent faster, bit/s, IP bytes.
fn rate_of_size(trains: &[Train], ip_bytes: u32) -> Option<Quantity> {
    let slowed: Vec<(f64, f64)> = trains
        .iter()
        .filter(|train| train.ip_bytes() == ip_bytes)
        .filter_map(|train| {
            let (rate_bps, seconds) = train.late_rate_bps()?;
            (rate_bps < (1.0 - SLOWER) * train.line_rate_bps()?).then_some((rate_bps, seconds))
        })
        .collect();
    // each train weighs as much as it lasted; a host that stalled in one of them does not count
    let value = weighted_median(&slowed)?;
    let apart: Vec<(f64, f64)> = slowed
        .iter()
        .map(|(rate, seconds)| ((rate - value).abs(), *seconds))
        .collect();
    let seconds: f64 = slowed.iter().map(|(_, seconds)| seconds).sum();
    // timers and interrupts let the first and the last packet come one too early or too late
    let packets = seconds / slowed.len() as f64 * value / 8.0 / f64::from(ip_bytes);
    let ends = 2.0 / packets.max(1.0) / 1.96;
    let spread = NORMAL_DEVIATION * weighted_median(&apart)? / value;
    let error = 1.96 * spread.max(ends) / (slowed.len() as f64).sqrt() + CLOCK_ERROR;
    Some(Quantity {
        value,
        low: Some(value * (1.0 - error)),
        high: Some(value * (1.0 + error)),
    })
}

/// What the hop counts of each packet, where trains of two sizes were slowed: small packets take longer than their share of the
/// bytes. With `r` and `R` the rates of packets of `b` and `B` IP bytes, the overhead `o` satisfies
/// `r (b + o) / b = R (B + o) / B`.
fn byte_basis(trains: &[Train], hop: &Hop) -> Option<ByteBasis> {
    let sizes = sizes(&hop.passages);
    let (small, large) = (*sizes.first()?, *sizes.last()?);
    let [slow, fast] = [small, large].map(|size| rate_of_size(trains, size));
    let (slow, fast) = (slow?, fast?);
    let (b, big) = (f64::from(small), f64::from(large));
    let overhead = |slow: f64, fast: f64| (fast - slow) / (slow / b - fast / big);
    let value = overhead(slow.value, fast.value);
    // both clocks' error is the same for both sizes
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

/// Of a normal distribution, its standard deviation over the median of absolute deviations.
const NORMAL_DEVIATION: f64 = 1.4826;

/// The value with half of the weight on each side; values with their weights.
fn weighted_median(values: &[(f64, f64)]) -> Option<f64> {
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

/// The most that any train delivered ahead of `rate_bps`, bytes: what a full bucket let through at once. The first packet alone
/// is no bucket.
fn bucket_bytes(trains: &[Train], rate_bps: f64) -> Option<Quantity> {
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

/// Timers and interrupts let a few packets go together; a bucket that is no larger is none that could be told.
const LEAST_BUCKET_PACKETS: f64 = 6.0;

#[cfg(test)]
mod tests {
    use super::*;
    use whydrop_path::{Arrival, Fifo, Limit, Outcome, PathElement, Policer};

    /// Bursts of two sizes at 100 Mbit/s, one every second, of as many bytes, through a hop and 5 ms of path by a clock that is
    /// 3 s ahead.
    fn through(hop: &mut impl PathElement, packets: u32) -> Bursts {
        let mut rows = Vec::new();
        for burst in 0..8_u32 {
            let ip_bytes = if burst % 2 == 0 { 1500 } else { 375 };
            let gap_ns = i64::from(ip_bytes) * 80;
            let count = packets * 1500 / ip_bytes;
            for place in 0..count {
                let left_ns = i64::from(burst) * 1_000_000_000 + i64::from(place) * gap_ns;
                let outcome = hop.arrive(Arrival {
                    time_ns: left_ns,
                    bytes: ip_bytes,
                });
                rows.push(BurstPacket {
                    lot: burst,
                    burst,
                    left_ns,
                    arrived_ns: outcome.departure_ns().map(|out_ns| out_ns + 3_005_000_000),
                    ip_bytes,
                    marked: false,
                });
            }
        }
        explain_bursts(&rows).unwrap()
    }

    fn cause(bursts: &Bursts) -> &str {
        &bursts.verdict.as_ref().unwrap().cause
    }

    fn parameter(bursts: &Bursts, name: &str) -> Option<f64> {
        let parameters = &bursts.verdict.as_ref().unwrap().parameters;
        parameters.get(name).map(|quantity| quantity.value)
    }

    #[test]
    fn a_limit_in_packets_is_found_to_the_packet_and_told_from_one_in_bytes() {
        for (limit, step) in [(20, 10.0), (45, 1.1), (300, 1.1)] {
            let mut hop = Fifo::new((100e6 / step) as u64, Limit::packets(limit));
            let found = through(&mut hop, 3 * (limit as f64 / (1.0 - 1.0 / step)) as u32);
            let found_limit = found.limit.as_ref().unwrap();
            assert_eq!(found_limit.limited_by, Some("packets"));
            let packets = found_limit.packets.value;
            assert!(
                (packets - limit as f64).abs() <= 1.0,
                "{packets} of {limit}"
            );
            let rate = found.drain_rate_bps.unwrap();
            assert!((rate.value / (100e6 / step) - 1.0).abs() < 1e-3, "{rate:?}");
        }
    }

    #[test]
    fn a_limit_in_bytes_is_found_to_the_packet_and_told_from_one_in_packets() {
        for (limit, step) in [(30_000, 10.0), (70_000, 1.1), (250_000, 1.1)] {
            let mut hop = Fifo::new((100e6 / step) as u64, Limit::bytes(limit));
            let large = (limit / 1500) as f64;
            let found = through(&mut hop, 3 * (large / (1.0 - 1.0 / step)) as u32);
            let found_limit = found.limit.as_ref().unwrap();
            assert_eq!(found_limit.limited_by, Some("bytes"));
            let bytes = found_limit.bytes.value;
            assert!((bytes - limit as f64).abs() <= 375.0, "{bytes} of {limit}");
        }
    }

    #[test]
    fn a_policer_is_told_from_a_queue_with_its_rate_and_burst() {
        for burst_bytes in [15_000, 60_000, 250_000] {
            let mut hop = Policer::new(20_000_000, burst_bytes);
            let found = through(&mut hop, 4 * burst_bytes as u32 / 1500);
            assert_eq!(cause(&found), "policer");
            let rate = parameter(&found, "rate_bps").unwrap();
            assert!((rate / 20e6 - 1.0).abs() < 0.01, "{rate}");
            let burst = parameter(&found, "burst_bytes").unwrap();
            assert!((burst - burst_bytes as f64).abs() <= 1500.0, "{burst}");
        }
    }

    #[test]
    fn a_queue_that_was_never_full_has_a_rate_and_a_lower_bound() {
        let mut hop = Fifo::new(10_000_000, Limit::NONE);
        let found = through(&mut hop, 100);
        assert!(found.verdict.is_none());
        assert!(
            (found.most_packets - 360.0).abs() < 2.0,
            "{}",
            found.most_packets
        );
        assert!((found.drain_rate_bps.unwrap().value / 10e6 - 1.0).abs() < 1e-3);
        assert!(found.burst_bytes.is_none());
    }

    #[test]
    fn a_path_as_fast_as_its_line_holds_nothing_up() {
        let mut hop = Fifo::new(1_000_000_000, Limit::packets(3));
        let found = through(&mut hop, 100);
        assert_eq!((found.lost, found.drain_rate_bps.is_none()), (0, true));
        assert!(matches!(
            hop.arrive(Arrival {
                time_ns: 0,
                bytes: 1
            }),
            Outcome::Departs { .. }
        ));
    }
}
