//! A slow link that thins acknowledgments: a queued acknowledgment is replaced by a newer one of its
//! connection, which includes its information (RFC 3449, section 5.2.1; cake's `ack-filter`, cable modems).

use std::collections::{HashMap, VecDeque};

use whydrop_path::fit::passage::Passages;
use whydrop_path::fit::{Interval, Seen};

/// A link that drops queued packets once they are superseded, replayed freely.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thinning {
    /// In IP bytes, bit/s.
    pub rate_bps: Interval,
    /// Packets that it drops, and those among them that were lost.
    pub dropped: usize,
    pub hits: usize,
    pub lost: usize,
    /// Share of the times between departures around losses that equal one or two service times.
    pub in_step: f64,
}

/// Headers alone: IPv6 with the most options of TCP.
const LARGEST_ACKNOWLEDGMENT_BYTES: f32 = 100.0;
/// Fewer losses may be chance.
const FEWEST_LOSSES: usize = 10;
/// A quarter of the times between departures are service times, and agree to within this share.
const CONCENTRATED: f64 = 0.05;

impl Thinning {
    /// Agreement between its drops and the losses (harmonic mean of both shares).
    pub fn agreement(&self) -> f64 {
        2.0 * self.hits as f64 / (self.dropped + self.lost).max(1) as f64
    }
}

/// A free replay of the link must drop the lost packets: at least half of its drops and of the losses agree,
/// since other traffic, or packets that the captures lack, shift the rest ...
const AGREES: f64 = 0.5;
/// ... and departures around losses must be one or two service times apart. A policer passes packets when
/// they arrive.
const IN_STEP: f64 = 0.75;

/// The link, if it explains the losses.
pub fn accounts(passages: &Passages) -> Option<Thinning> {
    find(passages).filter(|found| found.agreement() >= AGREES && found.in_step >= IN_STEP)
}

/// The link that fits, if most of the lost packets are acknowledgments.
fn find(passages: &Passages) -> Option<Thinning> {
    let lost = || (0..passages.len()).filter(|index| passages.outcome[*index] == Seen::Lost);
    let small = |index: &usize| passages.bytes[*index] <= LARGEST_ACKNOWLEDGMENT_BYTES;
    if passages.lost < FEWEST_LOSSES || 2 * lost().filter(small).count() < passages.lost {
        return None;
    }
    let (service_s, width_s) = service_s(passages)?;
    let dropped = replay(passages, service_s).dropped;
    let hits = lost().filter(|index| dropped[*index]).count();
    let rate_bps = passages.mean_bytes() * 8.0 / service_s;
    let error = rate_bps * width_s / service_s;
    Some(Thinning {
        rate_bps: Interval {
            value: rate_bps,
            low: Some(rate_bps - error),
            high: Some(rate_bps + error),
        },
        dropped: dropped.iter().filter(|dropped| **dropped).count(),
        hits,
        lost: passages.lost,
        in_step: in_step(passages, service_s),
    })
}

/// Accuracy with which departures follow the service time of the link.
const STEP_SHARE: f64 = 0.1;

fn in_step(passages: &Passages, service_s: f64) -> f64 {
    let (mut last_s, mut lost_since) = (f64::NAN, false);
    let (mut all, mut kept) = (0, 0);
    for index in 0..passages.len() {
        let out_s = passages.departure_s(index);
        if out_s.is_nan() {
            lost_since |= passages.outcome[index] == Seen::Lost;
            continue;
        }
        let packets = (out_s - last_s) / service_s;
        if lost_since && packets.is_finite() {
            let whole = packets.round().clamp(1.0, 2.0);
            all += 1;
            kept += usize::from((packets - whole).abs() < STEP_SHARE);
        }
        (last_s, lost_since) = (out_s, false);
    }
    kept as f64 / all.max(1) as f64
}

/// The most frequent time between departures, and its accuracy: a packet never leaves sooner after the
/// previous one, and, while packets are queued, never later.
fn service_s(passages: &Passages) -> Option<(f64, f64)> {
    let is_known = |index: &usize| !passages.wait_s[*index].is_nan();
    let departures: Vec<f64> = (0..passages.len())
        .filter(is_known)
        .map(|index| passages.departure_s(index))
        .collect();
    let mut gaps: Vec<f64> = departures.windows(2).map(|two| two[1] - two[0]).collect();
    gaps.retain(|gap| *gap > 0.0);
    gaps.sort_by(f64::total_cmp);
    let quarter = gaps.len() / 4;
    if quarter < FEWEST_LOSSES {
        return None;
    }
    let width = |from: &usize| gaps[from + quarter - 1] - gaps[*from];
    let densest = (0..=gaps.len() - quarter).min_by(|a, b| width(a).total_cmp(&width(b)))?;
    let (middle, width) = (gaps[densest + quarter / 2], width(&densest));
    (width < CONCENTRATED * middle).then_some((middle, width))
}

/// The packets that the link drops. Each connection has at most one acknowledgment queued.
fn replay(passages: &Passages, service_s: f64) -> Queue {
    let mut free_s = f64::MIN;
    let mut queue = Queue::new(passages.len());
    for index in 0..passages.len() {
        let now_s = passages.arrival_s[index];
        while free_s <= now_s && queue.pop(&passages.flow) {
            free_s += service_s;
        }
        if free_s <= now_s {
            free_s = now_s + service_s;
            continue;
        }
        let flow = passages.flow[index];
        if passages.bytes[index] <= LARGEST_ACKNOWLEDGMENT_BYTES {
            queue.supersede(flow);
        }
        queue.push(index, flow);
    }
    queue
}

/// The packets that wait for the link. A dropped one stays in the common queue until its turn comes, so that no step
/// depends on how many packets wait.
#[derive(Debug)]
struct Queue {
    common: VecDeque<usize>,
    /// The packets of each flow that wait and are not dropped.
    by_flow: HashMap<u32, VecDeque<usize>>,
    dropped: Vec<bool>,
    /// Packets that were looked at.
    #[cfg(test)]
    steps: usize,
}

impl Queue {
    fn new(packets: usize) -> Self {
        Self {
            common: VecDeque::new(),
            by_flow: HashMap::new(),
            dropped: vec![false; packets],
            #[cfg(test)]
            steps: 0,
        }
    }

    fn push(&mut self, index: usize, flow: u32) {
        self.common.push_back(index);
        self.by_flow.entry(flow).or_default().push_back(index);
    }

    /// Sends the first packet; false if none waits.
    fn pop(&mut self, flows: &[u32]) -> bool {
        while let Some(index) = self.common.pop_front() {
            self.count();
            if !self.dropped[index] {
                // each flow's packets leave in the common order
                let of_flow = self.by_flow.get_mut(&flows[index]);
                return of_flow.is_some_and(|of_flow| of_flow.pop_front().is_some());
            }
        }
        false
    }

    /// Drops the first packet of a flow.
    fn supersede(&mut self, flow: u32) {
        self.count();
        if let Some(older) = self.by_flow.get_mut(&flow).and_then(VecDeque::pop_front) {
            self.dropped[older] = true;
        }
    }

    fn count(&mut self) {
        #[cfg(test)]
        {
            self.steps += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use whydrop_path::fit::passage::Passage;

    use super::*;

    /// The link written as its definition says it: each packet is compared with those that wait. With the number of
    /// comparisons.
    fn by_comparing_all(passages: &Passages, service_s: f64) -> (Vec<bool>, usize) {
        let mut dropped = vec![false; passages.len()];
        let (mut free_s, mut compared) = (f64::MIN, 0);
        let mut waiting: VecDeque<usize> = VecDeque::new();
        for index in 0..passages.len() {
            let now_s = passages.arrival_s[index];
            while free_s <= now_s && waiting.pop_front().is_some() {
                free_s += service_s;
            }
            if free_s <= now_s {
                free_s = now_s + service_s;
                continue;
            }
            let mut same = |older: &usize| {
                compared += 1;
                passages.flow[*older] == passages.flow[index]
            };
            if let Some(place) = waiting.iter().position(&mut same)
                && passages.bytes[index] <= LARGEST_ACKNOWLEDGMENT_BYTES
                && let Some(older) = waiting.remove(place)
            {
                dropped[older] = true;
            }
            waiting.push_back(index);
        }
        (dropped, compared)
    }

    /// Packets of these gaps, flows, and sizes: an acknowledgment or data.
    fn arriving(packets: impl IntoIterator<Item = (i64, u32, bool)>) -> Passages {
        let mut arrival_ns = 0;
        let passage = |(gap_us, flow, is_data): (i64, u32, bool)| {
            arrival_ns += gap_us * 1_000;
            Passage {
                arrival_ns,
                bytes: if is_data { 1_500 } else { 52 },
                outcome: Seen::Passed,
                transit_ns: None,
                flow,
                marked: false,
            }
        };
        Passages::new(packets.into_iter().map(passage).collect())
    }

    proptest! {
        #[test]
        fn the_link_drops_what_comparing_all_that_wait_drops(
            packets in prop::collection::vec((0..2_000i64, 0..6u32, prop::bool::weighted(0.3)), 0..300),
            service_us in 1..3_000u32,
        ) {
            let passages = arriving(packets);
            let service_s = f64::from(service_us) * 1e-6;
            let found = replay(&passages, service_s).dropped;
            prop_assert_eq!(found, by_comparing_all(&passages, service_s).0);
        }
    }

    #[test]
    fn the_replay_takes_as_many_steps_as_there_are_packets_however_many_flows_wait() {
        let flood = |count: u32| arriving((0..count).map(|number| (1, number, false)));
        for count in [1_000, 2_000, 4_000] {
            let steps = replay(&flood(count), 1.0).steps;
            assert!(steps <= 2 * count as usize, "{steps} for {count} packets");
        }
        let (_, compared) = by_comparing_all(&flood(4_000), 1.0);
        assert!(compared > 4_000 * 1_000, "the flood must fill the queue");
    }

    /// Acknowledgments at this interval over a link that takes a millisecond for each.
    fn over_a_slow_link(every_us: i64, drops: impl Fn(usize, bool) -> bool) -> Passages {
        let (mut free_us, mut waiting, mut fates) = (0i64, None::<usize>, Vec::new());
        let count = 2_000;
        for index in 0..count {
            let now_us = index as i64 * every_us + (index as i64 * 37) % 90;
            fates.push((now_us, None));
            if let Some(older) = waiting.filter(|_| free_us <= now_us) {
                free_us += 1_000;
                fates[older].1 = Some(free_us);
                waiting = None;
            }
            if free_us <= now_us {
                free_us = now_us + 1_000;
                fates[index].1 = Some(free_us);
            } else {
                waiting = Some(index);
            }
        }
        let passage = |(index, (now_us, out_us)): (usize, (i64, Option<i64>))| {
            let lost = drops(index, out_us.is_none());
            Passage {
                arrival_ns: now_us * 1_000,
                bytes: 52,
                outcome: if lost { Seen::Lost } else { Seen::Passed },
                transit_ns: (!lost).then(|| (out_us.unwrap_or(now_us + 1_000) - now_us) * 1_000),
                flow: 0,
                marked: false,
            }
        };
        Passages::new(fates.into_iter().enumerate().map(passage).collect())
    }

    #[test]
    fn acknowledgments_superseded_on_a_slow_link_are_found_exactly() {
        let found = find(&over_a_slow_link(400, |_, superseded| superseded)).unwrap();
        assert!(found.agreement() > 0.97, "{found:?}");
        assert!(
            (found.rate_bps.value / (52.0 * 8e3) - 1.0).abs() < 0.02,
            "{found:?}"
        );
    }

    #[test]
    fn randomly_lost_acknowledgments_are_no_thinning_link() {
        let by_chance = over_a_slow_link(1_300, |index, _| index * 7_919 % 10 < 3);
        let found = find(&by_chance);
        assert!(
            found.is_none_or(|found| found.agreement() < AGREES || found.in_step < IN_STEP),
            "{found:?}"
        );
    }
}
