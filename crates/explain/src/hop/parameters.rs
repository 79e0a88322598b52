//! Rates and limits, counted between two captures.

use std::collections::BTreeMap;

use whydrop_path::fit::passage::BacklogAtLosses;
use whydrop_path::fit::{BucketFit, Interval, burst_bytes_at};

use super::Hop;
use crate::cause::aqm::Family;
use crate::observe::{ByteBasis, MOST_NOISE_S, TwoBuckets};
use crate::parameters::{
    CLOCK_ERROR, WIRE_OVERHEAD_BYTES, nominal, parameters as parameters_of_evidence, widened,
};
use crate::thresholds::STANDING_EXPLAINED;
use whydrop_verdict::{Cause, Quantity};

/// Parameters by their names in the JSON contract, and the byte basis if known.
pub fn hop_parameters(
    cause: Cause,
    family: Option<&Family>,
    hop: &Hop,
) -> (BTreeMap<String, Quantity>, Option<ByteBasis>) {
    if let Some(thinning) = &hop.thinning {
        let scale = Scale::new(None, hop.packet_bytes(), hop);
        let rate = scale.apply_to_rate(thinning.rate_bps);
        return (BTreeMap::from([("drain_rate_bps".to_owned(), rate)]), None);
    }
    match cause {
        Cause::Policer => policer(hop),
        Cause::ShallowQueue | Cause::DeepQueue => queue(hop),
        Cause::Shaper => shaper(hop),
        Cause::Aqm => {
            let basis = hop.drain_basis();
            let mut parameters = family.map_or_else(BTreeMap::new, Family::parameters);
            parameters
                .extend(drain_rate(hop, basis).map(|rate| ("drain_rate_bps".to_owned(), rate)));
            (parameters, basis)
        }
        cause => (parameters_of_evidence(cause, hop.seen), None),
    }
}

/// The bucket that drops: the one behind the queue of the hop, if it is there.
pub fn dropping_bucket(hop: &Hop) -> Option<BucketFit> {
    hop.behind_queue.map(|behind| behind.fit).or(hop.bucket)
}

fn policer(hop: &Hop) -> (BTreeMap<String, Quantity>, Option<ByteBasis>) {
    let mut parameters = BTreeMap::new();
    let both = hop.two_buckets.map(|two| two.pair.committed);
    let Some(fit) = dropping_bucket(hop).or(both) else {
        return (parameters, None);
    };
    let basis = match (&hop.two_buckets, &hop.behind_queue) {
        (Some(two), _) => two.basis,
        // an estimate for a bucket before the queue
        (None, Some(_)) => None,
        (None, None) => hop.bucket_basis.map(|(basis, _)| basis),
    };
    let scale = match &hop.two_buckets {
        Some(TwoBuckets { basis: Some(_), .. }) => Scale::KNOWN,
        _ => Scale::new(basis, fit.packet_bytes, hop),
    };
    let scale = scale.with_missed(hop.missed_share);
    let mut put = |name: &str, interval: Interval| {
        let parameter = if name.ends_with("rate_bps") {
            scale.apply_to_rate(interval)
        } else {
            scale.apply(interval)
        };
        parameters.insert(name.to_owned(), parameter);
    };
    match &hop.two_buckets {
        Some(two) => {
            let of_two = |fit: BucketFit| beside_another(fit, hop.noise_s.min(MOST_NOISE_S));
            put("rate_bps", two.pair.committed.rate_bps);
            put("burst_bytes", of_two(two.pair.committed));
            put("peak_rate_bps", two.pair.peak.rate_bps);
            put("peak_burst_bytes", of_two(two.pair.peak));
        }
        None => {
            put("rate_bps", fit.rate_bps);
            put("burst_bytes", within_a_packet(fit, hop));
        }
    }
    if let (None, None, Some((_, counted))) =
        (&hop.two_buckets, &hop.behind_queue, hop.bucket_basis)
    {
        let known = Scale::KNOWN.with_missed(hop.missed_share);
        parameters.insert("rate_bps".to_owned(), known.apply_to_rate(counted.rate_bps));
        parameters.insert(
            "burst_bytes".to_owned(),
            known.apply(within_a_packet(counted, hop)),
        );
    }
    (parameters, basis)
}

/// If packets left in super-segments, the rate of their line is known only to some per cent: one more or one
/// fewer packet of each may have passed before the first drop.
fn within_a_packet(fit: BucketFit, hop: &Hop) -> Interval {
    match hop.seen.line_rate_bps {
        Some(_) => widened(fit.limit_bytes, fit.packet_bytes),
        None => fit.limit_bytes,
    }
}

/// The burst of one of two buckets. Which of them drops a packet depends on both, so that one more or one
/// fewer packet of each may have passed; and a bucket fills for as long as timestamps are uncertain.
fn beside_another(fit: BucketFit, stamps_s: f64) -> Interval {
    let filled = fit.rate_bps.value / 8.0 * stamps_s;
    widened(fit.limit_bytes, fit.packet_bytes + filled)
}

/// Converts IP bytes to those of a known basis; if unknown, the upper end includes every basis.
struct Scale {
    value: f64,
    high: f64,
}

impl Scale {
    /// Identity, for quantities already in counted bytes.
    const KNOWN: Self = Self {
        value: 1.0,
        high: 1.0,
    };

    fn new(basis: Option<ByteBasis>, packet_bytes: f64, hop: &Hop) -> Self {
        let raise = |overhead: f64| (packet_bytes + overhead) / packet_bytes;
        // there are small packets among full ones, with the same overhead on each
        let mean_bytes = hop.passages.mean_bytes().min(packet_bytes);
        match basis {
            Some(basis) => {
                let known = raise(f64::from(basis.overhead_bytes()));
                Self {
                    value: known,
                    high: known,
                }
            }
            None => Self {
                value: 1.0,
                high: (mean_bytes + WIRE_OVERHEAD_BYTES) / mean_bytes,
            },
        }
    }

    /// Raise the upper bound for packets that captures lack: they were served as well.
    fn with_missed(self, missed_share: f64) -> Self {
        Self {
            high: self.high / (1.0 - missed_share).max(0.1),
            ..self
        }
    }

    /// Convert a rate, and add the possible error of the capture's clock.
    fn apply_to_rate(&self, interval: Interval) -> Quantity {
        let sharp = self.apply(interval);
        Quantity {
            low: sharp.low.map(|low| low * (1.0 - CLOCK_ERROR)),
            high: sharp.high.map(|high| high * (1.0 + CLOCK_ERROR)),
            ..sharp
        }
    }

    fn apply(&self, interval: Interval) -> Quantity {
        Quantity {
            value: interval.value * self.value,
            low: interval.low.map(|low| low * self.value),
            high: interval.high.map(|high| high * self.high),
        }
    }
}

fn drain_rate(hop: &Hop, basis: Option<ByteBasis>) -> Option<Quantity> {
    let departures = hop.departures.as_ref()?;
    let served = departures.full_bytes.max(hop.packet_bytes());
    let scale = Scale::new(basis, served, hop).with_missed(hop.missed_share);
    Some(scale.apply_to_rate(departures.rate_bps))
}

fn queue(hop: &Hop) -> (BTreeMap<String, Quantity>, Option<ByteBasis>) {
    let basis = hop.drain_basis();
    let Some(rate) = drain_rate(hop, basis) else {
        return (parameters_of_evidence(Cause::DeepQueue, hop.seen), None);
    };
    let mut parameters = BTreeMap::from([("drain_rate_bps".to_owned(), rate)]);
    // packets that captures lack were in the queue as well
    let missed = 1.0 / (1.0 - hop.missed_share).max(0.1);
    let unseen = hop
        .departures
        .as_ref()
        .is_some_and(|departures| departures.unseen_share > 0.0);
    match &hop.backlog {
        Some(backlog) if !unseen => {
            // a limit in packets and one in bytes are indistinguishable if all packets are full: then both
            // are given
            let in_packets = backlog.misfits_packets <= 2 * backlog.misfits_bytes;
            let in_bytes = backlog.misfits_bytes <= 2 * backlog.misfits_packets;
            let packets = backlog.packets.value.max(1.0);
            if in_packets || !in_bytes {
                parameters.insert(
                    "limit_packets".to_owned(),
                    Quantity {
                        value: packets,
                        low: Some((backlog.packets.low.unwrap_or(packets) - 1.0).max(1.0)),
                        high: Some((backlog.packets.high.unwrap_or(packets) * missed).ceil() + 1.0),
                    },
                );
            }
            if in_bytes || !in_packets {
                let overhead = f64::from(basis.map_or(0, ByteBasis::overhead_bytes));
                // a packet in service may count until it has left completely, and drains within the timestamp
                // variation
                let drained = rate.value / 8.0 * hop.noise_s.min(MOST_NOISE_S);
                let packet_bytes = f64::from(hop.seen.group_trace.trace.largest_bytes);
                let seen = LimitSeen {
                    backlog,
                    packet_bytes,
                    drained: drained.min(packet_bytes),
                    missed,
                };
                let most = basis.map_or(WIRE_OVERHEAD_BYTES, |_| overhead);
                parameters.insert("limit_bytes".to_owned(), seen.limit(overhead, most));
            }
        }
        _ => parameters.extend(limits_by_wait(hop, rate)),
    }
    (parameters, basis)
}

/// A limit in bytes, from the queue that lost packets found.
struct LimitSeen<'a> {
    backlog: &'a BacklogAtLosses,
    /// The largest packet.
    packet_bytes: f64,
    /// Bytes that leave within the timestamp variation.
    drained: f64,
    /// Bytes that passed, as a multiple of those that were captured.
    missed: f64,
}

impl LimitSeen<'_> {
    /// The limit if the element counts `overhead` bytes on top of each packet, or up to `most`.
    fn limit(&self, overhead: f64, most: f64) -> Quantity {
        let limit = self.backlog.limit_bytes;
        // the packets in a full queue, and the one that was not admitted: they are larger than others
        let packets = self.backlog.packets.value + 1.0;
        let mean_bytes = self.backlog.with_packet_bytes.value / packets;
        let mean_bytes = mean_bytes.clamp(1.0, self.packet_bytes);
        let counted = |bytes: f64, overhead: f64| bytes * (1.0 + overhead / mean_bytes);
        // other traffic may have been in the queue at times, but no larger packets
        let least = |bytes: f64| bytes * (1.0 + overhead / self.packet_bytes);
        let unsure = self.packet_bytes + self.drained;
        Quantity {
            value: counted(limit.value, overhead),
            low: (limit.low).map(|low| least(low - unsure).max(0.0)),
            // the delay of a lone packet, which is subtracted from all, may or may not include its
            // transmission time: with the packet in service, the queue may hold two packets more than the
            // delays show
            high: (limit.high)
                .map(|high| counted(high * self.missed + unsure + self.packet_bytes, most)),
        }
    }
}

/// If other traffic shares the queue, the queue holds more than the captured packets: its contents at a drop
/// follow from the delay just before, at the rate at which it drains.
fn limits_by_wait(hop: &Hop, rate: Quantity) -> Vec<(String, Quantity)> {
    let Some(at_loss) = &hop.seen.at_loss else {
        return Vec::new();
    };
    let packet_bytes = hop.packet_bytes();
    let backlog =
        |wait_s: f64| (wait_s - hop.idle_wait_s()).max(0.0) * rate.value / 8.0 + packet_bytes;
    let bytes = Quantity {
        value: backlog(at_loss.median_s),
        low: Some((backlog(at_loss.low_s) - packet_bytes).max(0.0)),
        high: Some(backlog(at_loss.high_s) + packet_bytes),
    };
    let packets = Quantity {
        value: (bytes.value / packet_bytes).round(),
        low: bytes.low.map(|low| (low / packet_bytes).floor()),
        high: bytes.high.map(|high| (high / packet_bytes).ceil()),
    };
    vec![
        ("limit_bytes".to_owned(), bytes),
        ("limit_packets".to_owned(), packets),
    ]
}

/// Rates of one queue, from delays and from departures, agree to within a few per cent.
const ALIKE_RATES: f64 = 0.02;

/// True if packets are released several at a time, at the line's rate or on a tick: then the times between
/// departures do not show the rate, but the delays do.
fn releases_in_ticks(hop: &Hop) -> bool {
    let (Some(drain), Some(departures)) = (&hop.seen.drain, &hop.departures) else {
        return false;
    };
    let apart = (departures.rate_bps.value / drain.rate_bps).ln().abs();
    drain.explained > STANDING_EXPLAINED && apart > ALIKE_RATES
}

/// Raises a rate derived from delays by the packets that the captures lack: they were queued too, and delayed
/// others.
fn raise_by_missed(rate: &mut Quantity, missed_share: f64) {
    rate.high = rate.high.map(|high| high / (1.0 - missed_share).max(0.1));
}

fn shaper(hop: &Hop) -> (BTreeMap<String, Quantity>, Option<ByteBasis>) {
    let basis = hop.drain_basis();
    let mut parameters = parameters_of_evidence(Cause::Shaper, hop.seen);
    let Some(rate) = drain_rate(hop, basis).filter(|_| !releases_in_ticks(hop)) else {
        if let Some(rate) = parameters.get_mut("rate_bps") {
            raise_by_missed(rate, hop.missed_share);
        }
        return (parameters, None);
    };
    // given a rate from departures, the delays show the bytes that passed before queueing began, to within
    // the error of the rate over the longest delay, and one packet
    let departures = hop.departures.as_ref().expect("it gave the rate");
    let trace = &hop.seen.group_trace.trace;
    let value = burst_bytes_at(trace, departures.rate_bps.value);
    let at = |rate: Option<f64>| rate.map_or(value, |rate| burst_bytes_at(trace, rate));
    let ends = [at(departures.rate_bps.low), at(departures.rate_bps.high)];
    let burst = Quantity {
        value,
        low: Some((ends[0].min(ends[1]).min(value) - hop.packet_bytes()).max(0.0)),
        high: Some(ends[0].max(ends[1]).max(value) + 2.0 * hop.packet_bytes()),
    };
    parameters.insert("burst_bytes".to_owned(), burst);
    parameters.insert(
        "rate_bps".to_owned(),
        nominal(rate, trace, burst.low.unwrap_or(0.0)),
    );
    (parameters, basis)
}

#[cfg(test)]
mod tests {
    use whydrop_path::fit::{Seen, Trace, TracePacket, fit_bucket};
    use whydrop_path::{Arrival, Policer, replay};

    use super::*;

    fn interval(low: f64, value: f64, high: f64) -> Interval {
        Interval {
            value,
            low: Some(low),
            high: Some(high),
        }
    }

    #[test]
    fn a_limit_counts_the_overhead_of_the_packets_that_fill_it() {
        let backlog = BacklogAtLosses {
            packets: interval(98.0, 99.0, 99.0),
            with_packet_bytes: interval(149e3, 150e3, 150e3),
            limit_bytes: interval(149e3, 149.5e3, 150e3),
            most_passed_packets: 98.0,
            misfits_packets: 0,
            misfits_bytes: 0,
            losses: 20,
            passed_with_more: 0,
            mean_rank: 1.0,
            found_empty: 0.0,
            near_median: 1.0,
            deviations: 0.0,
            average_deviations: 0.0,
        };
        let seen = LimitSeen {
            backlog: &backlog,
            packet_bytes: 1_500.0,
            drained: 100.0,
            missed: 1.0,
        };
        let limit = seen.limit(15.0, 15.0);
        // a hundredth of full packets, whatever small packets pass at other times
        assert!((limit.value - 149.5e3 * 1.01).abs() < 1.0, "{limit:?}");
        assert!((limit.low.unwrap() - 147.4e3 * 1.01).abs() < 1.0);
        // one in service, and one hidden by the delay of a lone packet
        assert!((limit.high.unwrap() - 153.1e3 * 1.01).abs() < 1.0);
    }

    #[test]
    fn one_of_two_buckets_is_known_to_a_packet_and_its_refill_within_the_timestamp_error() {
        let arrivals: Vec<Arrival> = (0..2_000i64)
            .map(|packet| Arrival {
                time_ns: packet / 50 * 20_000_000 + packet * 12_000,
                bytes: 1_500,
            })
            .collect();
        let outcomes = replay(&mut Policer::new(20_000_000, 30_000), &arrivals);
        let observation = |(arrival, outcome): (&Arrival, whydrop_path::Outcome)| TracePacket {
            time_ns: arrival.time_ns,
            bytes: arrival.bytes,
            outcome: match outcome.is_dropped() {
                true => Seen::Lost,
                false => Seen::Passed,
            },
            delay_s: None,
        };
        let trace = Trace::new(arrivals.iter().zip(outcomes).map(observation).collect());
        let fit = BucketFit {
            rate_bps: interval(79e6, 80e6, 81e6),
            limit_bytes: interval(29e3, 30e3, 31e3),
            ..fit_bucket(&trace).expect("there are losses")
        };
        // 80 Mbit/s for 100 microseconds are 1000 bytes
        assert_eq!(beside_another(fit, 1e-4), interval(26.5e3, 30e3, 33.5e3));
    }

    #[test]
    fn missed_packets_raise_the_upper_end_of_a_rate_alone() {
        let mut rate = Quantity {
            value: 10e6,
            low: Some(9e6),
            high: Some(11e6),
        };
        raise_by_missed(&mut rate, 0.12);
        assert_eq!((rate.low, rate.value), (Some(9e6), 10e6));
        assert!((rate.high.unwrap() - 12.5e6).abs() < 1.0);
    }
}
