//! Rates and limits as counted between two captures.

use std::collections::BTreeMap;

use whydrop_path::fit::{BucketFit, Interval, burst_bytes_at};

use super::buckets::TwoBuckets;
use super::byte_basis::ByteBasis;
use super::judge::HopJudgement;
use super::measure::{Hop, MOST_NOISE_S};
use crate::parameters::{CLOCK_ERROR, WIRE_OVERHEAD_BYTES, parameters as parameters_of_evidence};
use crate::thresholds::STANDING_EXPLAINED;
use whydrop_verdict::{Cause, Quantity};

/// Parameters by the names of the contract, and what bytes they count where that is known.
pub fn hop_parameters(
    judged: &HopJudgement,
    hop: &Hop,
) -> (BTreeMap<String, Quantity>, Option<ByteBasis>) {
    if let Some(thinning) = &hop.thinning {
        let scale = Scale::new(None, hop.packet_bytes(), hop);
        let rate = scale.apply_to_rate(thinning.rate_bps);
        return (BTreeMap::from([("drain_rate_bps".to_owned(), rate)]), None);
    }
    match judged.judgement.cause {
        Cause::Policer => policer(hop),
        Cause::ShallowQueue | Cause::DeepQueue => queue(hop),
        Cause::Shaper => shaper(hop),
        Cause::Aqm => {
            let basis = hop.drain_basis();
            let mut parameters = judged
                .family
                .map_or_else(BTreeMap::new, |family| family.parameters());
            parameters
                .extend(drain_rate(hop, basis).map(|rate| ("drain_rate_bps".to_owned(), rate)));
            (parameters, basis)
        }
        cause => (parameters_of_evidence(cause, &hop.evidence), None),
    }
}

/// The bucket that drops: behind the queue of the hop, if that is where it is.
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
        // what one before the queue would count
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
            put("rate_bps", two.pair.committed.rate_bps);
            put("burst_bytes", two.pair.committed.limit_bytes);
            put("peak_rate_bps", two.pair.peak.rate_bps);
            put("peak_burst_bytes", two.pair.peak.limit_bytes);
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

/// Where packets left in super-segments, the line that they went through is only known to some per cent: one packet more
/// or less of each may have passed before the first drop.
fn within_a_packet(fit: BucketFit, hop: &Hop) -> Interval {
    if hop.evidence.line_rate_bps.is_none() {
        return fit.limit_bytes;
    }
    Interval {
        low: fit
            .limit_bytes
            .low
            .map(|low| (low - fit.packet_bytes).max(0.0)),
        high: fit.limit_bytes.high.map(|high| high + fit.packet_bytes),
        ..fit.limit_bytes
    }
}

/// Turns IP bytes into those of a known basis; where none is known, the upper end makes room for all of them.
struct Scale {
    value: f64,
    high: f64,
}

impl Scale {
    /// Of what is in the bytes that count.
    const KNOWN: Self = Self {
        value: 1.0,
        high: 1.0,
    };

    fn new(basis: Option<ByteBasis>, packet_bytes: f64, hop: &Hop) -> Self {
        let raise = |overhead: f64| (packet_bytes + overhead) / packet_bytes;
        // among full packets are small ones, with as much on top of each
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

    /// Raise the upper bound for packets that captures missed: they were served as well.
    fn with_missed(self, missed_share: f64) -> Self {
        Self {
            high: self.high / (1.0 - missed_share).max(0.1),
            ..self
        }
    }

    /// A rate, with the error that the clock of the capture itself may have.
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
    let scale = Scale::new(basis, hop.packet_bytes(), hop).with_missed(hop.missed_share);
    Some(scale.apply_to_rate(departures.rate_bps))
}

fn queue(hop: &Hop) -> (BTreeMap<String, Quantity>, Option<ByteBasis>) {
    let basis = hop.drain_basis();
    let Some(rate) = drain_rate(hop, basis) else {
        return (
            parameters_of_evidence(Cause::DeepQueue, &hop.evidence),
            None,
        );
    };
    let mut parameters = BTreeMap::from([("drain_rate_bps".to_owned(), rate)]);
    // what captures missed was inside as well
    let missed = 1.0 / (1.0 - hop.missed_share).max(0.1);
    let unseen = hop
        .departures
        .as_ref()
        .is_some_and(|departures| departures.unseen_share > 0.0);
    match &hop.held {
        Some(held) if !unseen => {
            // a limit in packets and one in bytes cannot be told apart where all packets are full: then both are given
            let in_packets = held.misfits_packets <= 2 * held.misfits_bytes;
            let in_bytes = held.misfits_bytes <= 2 * held.misfits_packets;
            let packets = held.packets.value.max(1.0);
            if in_packets || !in_bytes {
                parameters.insert(
                    "limit_packets".to_owned(),
                    Quantity {
                        value: packets,
                        low: Some((held.packets.low.unwrap_or(packets) - 1.0).max(1.0)),
                        high: Some((held.packets.high.unwrap_or(packets) * missed).ceil() + 1.0),
                    },
                );
            }
            if in_bytes || !in_packets {
                let overhead = f64::from(basis.map_or(0, ByteBasis::overhead_bytes));
                let most = if basis.is_none() {
                    WIRE_OVERHEAD_BYTES
                } else {
                    overhead
                };
                let counted = |bytes: f64, overhead: f64| {
                    bytes * (1.0 + overhead / hop.passages.mean_bytes().min(hop.packet_bytes()))
                };
                let limit = held.limit_bytes;
                // one in service may be counted until all of it has left, and drains while stamps vary
                let drained = rate.value / 8.0 * hop.noise_s.min(MOST_NOISE_S);
                let unsure = hop.packet_bytes() + drained.min(hop.packet_bytes());
                parameters.insert(
                    "limit_bytes".to_owned(),
                    Quantity {
                        value: counted(limit.value, overhead),
                        low: limit
                            .low
                            .map(|low| counted(low - unsure, overhead).max(0.0)),
                        high: limit.high.map(|high| counted(high * missed + unsure, most)),
                    },
                );
            }
        }
        _ => parameters.extend(limits_by_wait(hop, rate)),
    }
    (parameters, basis)
}

/// Where others' packets share the queue, it holds more than was seen to go in: what it holds when it drops then is
/// the wait just before, at the rate at which it drains.
fn limits_by_wait(hop: &Hop, rate: Quantity) -> Vec<(String, Quantity)> {
    let Some(at_loss) = &hop.evidence.at_loss else {
        return Vec::new();
    };
    let packet_bytes = hop.packet_bytes();
    let held =
        |wait_s: f64| (wait_s - hop.idle_wait_s()).max(0.0) * rate.value / 8.0 + packet_bytes;
    let bytes = Quantity {
        value: held(at_loss.median_s),
        low: Some((held(at_loss.low_s) - packet_bytes).max(0.0)),
        high: Some(held(at_loss.high_s) + packet_bytes),
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

/// Rates of one queue, by its waits and by its departures, agree to within a few per cent.
const ALIKE_RATES: f64 = 0.02;

/// True where packets are let out several at a time, at the line's pace or after a tick: the times between departures
/// say nothing of the rate, and the waits do.
fn releases_in_ticks(hop: &Hop) -> bool {
    let (Some(drain), Some(departures)) = (&hop.evidence.drain, &hop.departures) else {
        return false;
    };
    let apart = (departures.rate_bps.value / drain.rate_bps).ln().abs();
    drain.explained > STANDING_EXPLAINED && apart > ALIKE_RATES
}

fn shaper(hop: &Hop) -> (BTreeMap<String, Quantity>, Option<ByteBasis>) {
    let basis = hop.drain_basis();
    let mut parameters = parameters_of_evidence(Cause::Shaper, &hop.evidence);
    let Some(rate) = drain_rate(hop, basis).filter(|_| !releases_in_ticks(hop)) else {
        return (parameters, None);
    };
    parameters.insert("rate_bps".to_owned(), rate);
    // with a rate from departures, the waits say what passed before they began: to within what the rate's error makes
    // of the longest of them, and a packet
    let departures = hop.departures.as_ref().expect("it gave the rate");
    let trace = &hop.evidence.group_trace.trace;
    let value = burst_bytes_at(trace, departures.rate_bps.value);
    let at = |rate: Option<f64>| rate.map_or(value, |rate| burst_bytes_at(trace, rate));
    let ends = [at(departures.rate_bps.low), at(departures.rate_bps.high)];
    let burst = Quantity {
        value,
        low: Some((ends[0].min(ends[1]).min(value) - hop.packet_bytes()).max(0.0)),
        high: Some(ends[0].max(ends[1]).max(value) + 2.0 * hop.packet_bytes()),
    };
    parameters.insert("burst_bytes".to_owned(), burst);
    (parameters, basis)
}
