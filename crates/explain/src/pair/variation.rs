//! Delays between two points that vary independently of the load: jitter, and links that release packets in
//! batches.
//!
//! Both are listed beside the limit of a transfer, and displace no cause. *Jitter* (delay variation, RFC
//! 3393) is measured on packets that found none of their own traffic in transit: all earlier ones had left
//! when they entered. Effects of the load (a token bucket that is not yet full, a tick that is not yet due)
//! fade during a pause; so jitter counts only if packets after pauses longer than those delays vary as well.
//! *Batching*: packets that entered one after the other leave together, and none stays behind.
//!
//! No verdict if other groups of flows pass the same points, since they may share a queue, and none for
//! datagrams alone, since their round trip is unknown.

use whydrop_path::fit::passage::Passages;
use whydrop_verdict::{Cause, Fact, Place, Quantity, fact};

use crate::document::Verdict;
use crate::ranked::Ranked;

/// Twenty numbers give their tenth and ninetieth percentiles within a few per cent of the ranks; fewer do
/// not.
const FEWEST: usize = 20;
/// Interrupt coalescing, GRO and late timestamps of a capturing host stay below this.
const HOST_S: f64 = 1e-3;
/// Delay variation as a share of the round trip beyond RACK's reordering window (RFC 8985, section 6.2).
const RTT_SHARE: f64 = 0.25;
/// Two random numbers from a uniform or a normal distribution differ in the median by 0.37 of the range
/// between its tenth and ninetieth percentiles; half of that separates them from delays that drift, or step
/// once.
const INDEPENDENT: f64 = 0.18;
/// A transmission opportunity of 802.11 ends after ten milliseconds at most; a longer gap is no aggregation.
const LONGEST_AGGREGATION_S: f64 = 10e-3;
/// Released together: within a quarter of the time in which they entered; and the last of them waited a
/// quarter of the first's delay.
const AT_ONCE: f64 = 0.25;
/// Share of the packets that arrive in batches: with fewer, single slow packets delay the others.
const BATCHED: f64 = 0.75;
const SURE: f64 = 0.9;

/// The variation, with its numbers.
#[derive(Debug)]
pub(super) struct Variation {
    pub cause: Cause,
    pub detail: Option<&'static str>,
    pub quantities: [(&'static str, Quantity); 2],
    pub facts: Vec<Fact>,
}

/// Jitter or batching among packets on a path of this round trip.
pub(super) fn find(passages: &Passages, base_rtt_s: f64) -> Option<Variation> {
    batching(passages).or_else(|| jitter(passages, base_rtt_s))
}

impl Variation {
    pub fn ranked(self, flows: Vec<String>, place: Place, payload_bytes: u64) -> Ranked {
        let quantities = self.quantities.into_iter();
        let verdict = Verdict {
            flows,
            parameters: quantities.map(|(name, q)| (name.to_owned(), q)).collect(),
            place: Some(place),
            detail: self.detail.map(str::to_owned),
            facts: self.facts,
            ..Verdict::new(self.cause, SURE)
        };
        Ranked::shown(verdict, payload_bytes, 0.0)
    }
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn spread(sorted: &[f64]) -> f64 {
    quantile(sorted, 0.9) - quantile(sorted, 0.1)
}

/// The median, and the ranks that bound it with 95 % (normal approximation of the binomial distribution).
fn median(sorted: &[f64]) -> Quantity {
    let by = 1.96 * 0.5 / (sorted.len() as f64).sqrt();
    Quantity {
        value: quantile(sorted, 0.5),
        low: Some(quantile(sorted, (0.5 - by).max(0.0))),
        high: Some(quantile(sorted, (0.5 + by).min(1.0))),
    }
}

/// A packet that found none of its group in transit.
struct Alone {
    /// Time since the previous packet had left.
    pause_s: f64,
    wait_s: f64,
    bytes: f32,
}

fn alone(passages: &Passages) -> Vec<Alone> {
    let mut out_s = f64::INFINITY;
    let mut found = Vec::new();
    for (index, (&arrival_s, &wait_s)) in
        passages.arrival_s.iter().zip(&passages.wait_s).enumerate()
    {
        let pause_s = arrival_s - out_s;
        if pause_s > 0.0 && !wait_s.is_nan() {
            found.push(Alone {
                pause_s,
                wait_s,
                bytes: passages.bytes[index],
            });
        }
        // one that never left was in transit for an unknown time
        let left_s = arrival_s + if wait_s.is_nan() { 0.0 } else { wait_s };
        out_s = if index == 0 {
            left_s
        } else {
            out_s.max(left_s)
        };
    }
    found
}

fn jitter(passages: &Passages, base_rtt_s: f64) -> Option<Variation> {
    let mut alone = alone(passages);
    if alone.len() < FEWEST {
        return None;
    }
    // larger packets take longer on every line
    let sizes = sorted(alone.iter().map(|one| f64::from(one.bytes)));
    let usual_bytes = quantile(&sizes, 0.5);
    alone.retain(|one| (f64::from(one.bytes) / usual_bytes - 1.0).abs() < 0.1);
    let all_s = sorted(alone.iter().map(|one| one.wait_s));
    let longest_s = quantile(&all_s, 0.9);
    let rested: Vec<f64> = alone
        .iter()
        .filter(|one| one.pause_s > longest_s - all_s[0])
        .map(|one| one.wait_s)
        .collect();
    if rested.len() < FEWEST {
        return None;
    }
    let changes_s = sorted(rested.windows(2).map(|two| (two[1] - two[0]).abs()));
    let waits_s = sorted(rested.iter().copied());
    let spread_s = spread(&waits_s);
    let varies = spread_s > (RTT_SHARE * base_rtt_s).max(HOST_S)
        && spread_s > 0.5 * spread(&all_s)
        && quantile(&changes_s, 0.5) > INDEPENDENT * spread_s;
    varies.then(|| Variation {
        cause: Cause::Jitter,
        detail: None,
        quantities: [
            (
                "jitter_s",
                Quantity {
                    value: spread_s,
                    low: None,
                    high: None,
                },
            ),
            ("change_s", median(&changes_s)),
        ],
        facts: vec![fact!(
            "delay-varies-alone",
            packets = rested.len(),
            spread_s = spread_s,
            change_s = quantile(&changes_s, 0.5),
            base_rtt_s = base_rtt_s
        )],
    })
}

/// Packets that left together.
struct Batch {
    packets: usize,
    waited_s: f64,
    released_s: f64,
}

fn batches(passages: &Passages) -> Vec<Batch> {
    let arrived: Vec<usize> = (0..passages.len())
        .filter(|index| !passages.wait_s[*index].is_nan())
        .collect();
    let together = arrived
        .chunk_by(|a, b| (passages.departure_s(*b) - passages.departure_s(*a)).abs() < HOST_S);
    let as_batch = |clump: &[usize]| {
        let (first, last) = (clump[0], *clump.last()?);
        let went_in_s = passages.arrival_s[last] - passages.arrival_s[first];
        let departed_s = passages.departure_s(last) - passages.departure_s(first);
        let waited_s = passages.wait_s[first];
        let at_once = went_in_s > HOST_S && departed_s.abs() < AT_ONCE * went_in_s;
        let none_left = passages.wait_s[last] < AT_ONCE.mul_add(waited_s, HOST_S);
        (clump.len() > 2 && at_once && none_left).then(|| Batch {
            packets: clump.len(),
            waited_s,
            released_s: passages.departure_s(first),
        })
    };
    together.filter_map(as_batch).collect()
}

fn batching(passages: &Passages) -> Option<Variation> {
    let batches = batches(passages);
    let batched: usize = batches.iter().map(|batch| batch.packets).sum();
    if batches.len() < FEWEST || (batched as f64) < BATCHED * passages.passed as f64 {
        return None;
    }
    let packets = sorted(batches.iter().map(|batch| batch.packets as f64));
    let apart_s = sorted(
        batches
            .windows(2)
            .map(|two| two[1].released_s - two[0].released_s),
    );
    let waited_s = sorted(batches.iter().map(|batch| batch.waited_s));
    let (interval_s, longest_s) = (quantile(&apart_s, 0.5), quantile(&waited_s, 0.9));
    Some(Variation {
        cause: Cause::Batching,
        detail: Some(if interval_s > LONGEST_AGGREGATION_S {
            "power-save"
        } else {
            "aggregation"
        }),
        quantities: [
            ("batch_interval_s", median(&apart_s)),
            ("batch_packets", median(&packets)),
        ],
        facts: vec![fact!(
            "released-in-batches",
            batches = batches.len(),
            batch_packets = quantile(&packets, 0.5),
            interval_s = interval_s,
            held_s = longest_s
        )],
    })
}

#[cfg(test)]
#[path = "variation_tests.rs"]
mod tests;
