//! Packets and bytes that lost packets found queued: counted from arrivals and departures.

use super::Passages;
use super::departures::quantile;
use crate::fit::{Interval, Seen};

/// Packets and bytes in the hop at the arrival of a packet, without that packet.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Contents {
    pub packets: f64,
    /// IP bytes.
    pub bytes: f64,
}

/// Packets and bytes that lost packets found queued, compared with those that others found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BacklogAtLosses {
    /// Packets in the hop: the median over the losses, and their lowest and highest tenth.
    pub packets: Interval,
    /// IP bytes in the hop including the packet that was not admitted: likewise.
    pub with_packet_bytes: Interval,
    /// Most packets in the hop that a passed packet found.
    pub most_passed_packets: f64,
    /// Packets (lost with fewer, or passed with as many or more in the hop) that a limit in packets does not
    /// explain.
    pub misfits_packets: usize,
    /// The same for a limit in bytes.
    pub misfits_bytes: usize,
    /// The best limit in bytes, IP bytes, and the range of equally good ones.
    pub limit_bytes: Interval,
    pub losses: usize,
    /// Packets that passed although more was queued than the median of the losses found, in packets and in
    /// bytes: by more than two packets and more than a twentieth.
    pub passed_with_more: usize,
    /// Mean share of all arrivals that found less queued than a lost one did: 0.5 by chance.
    pub mean_rank: f64,
    /// Share of the losses that found at most one packet queued.
    pub found_empty: f64,
    /// Share of the losses that found as many packets queued as their median, to within two or a twentieth.
    pub near_median: f64,
    /// Number of standard deviations by which the first losses of each run found more queued than arrivals do
    /// by chance; and the same for the average queue that random early detection uses (Floyd and Jacobson
    /// 1993, weight 0.002).
    pub deviations: f64,
    pub average_deviations: f64,
}

/// Weight of the newest queue length in the average of random early detection.
const AVERAGE_WEIGHT: f64 = 0.002;

/// Count the packets that every packet finds in the hop. A packet is in the hop from its arrival to its
/// departure, less the `idle_wait_s` of an idle path. One that passed with an unknown departure left right
/// after the one before it.
pub fn contents(passages: &Passages, idle_wait_s: f64) -> Vec<Contents> {
    let departures = departures(passages, idle_wait_s);
    let mut order: Vec<u32> = (0..passages.len() as u32)
        .filter(|index| !departures[*index as usize].is_nan())
        .collect();
    let departure = |index: &u32| departures[*index as usize];
    order.sort_by(|a, b| departure(a).total_cmp(&departure(b)));
    let mut next = 0;
    let (mut inside, mut found) = (Contents::default(), Vec::with_capacity(passages.len()));
    // with timestamp jitter a packet may leave before it arrives: it was never in the hop
    let mut gone = vec![false; passages.len()];
    for index in 0..passages.len() {
        let now_s = passages.arrival_s[index];
        while let Some(leaving) = order
            .get(next)
            .filter(|leaving| departure(leaving) <= now_s)
        {
            let leaving = *leaving as usize;
            gone[leaving] = true;
            if leaving < index {
                inside.packets -= 1.0;
                inside.bytes -= f64::from(passages.bytes[leaving]);
            }
            next += 1;
        }
        found.push(inside);
        if !departures[index].is_nan() && !gone[index] {
            inside.packets += 1.0;
            inside.bytes += f64::from(passages.bytes[index]);
        }
    }
    found
}

fn departures(passages: &Passages, idle_wait_s: f64) -> Vec<f64> {
    let mut last_s = f64::MIN;
    (0..passages.len())
        .map(|index| {
            let seen_s = passages.departure_s(index) - idle_wait_s;
            if seen_s.is_nan() {
                let passed = passages.outcome[index] == Seen::Passed;
                return if passed {
                    last_s.max(passages.arrival_s[index])
                } else {
                    f64::NAN
                };
            }
            last_s = last_s.max(seen_s);
            seen_s
        })
        .collect()
}

/// The number of packets that lost ones found queued.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PacketsAtLosses {
    /// As in [`HeldAtLosses::packets`].
    pub packets: Interval,
    /// As in [`HeldAtLosses::misfits_packets`].
    pub misfits: usize,
    pub losses: usize,
}

/// The part of [`backlog_at_losses`] about packets, in a third of the time: for trying many placements.
pub fn packets_at_losses(passages: &Passages, idle_wait_s: f64) -> Option<PacketsAtLosses> {
    let contents = contents(passages, idle_wait_s);
    let lost = packets_of(passages, &contents, Seen::Lost);
    let passed = packets_of(passages, &contents, Seen::Passed);
    let (_, misfits) = (!lost.is_empty()).then(|| best_limit(&lost, &passed))?;
    Some(PacketsAtLosses {
        packets: spread(&lost),
        misfits,
        losses: lost.len(),
    })
}

/// The number of packets that those with one fate found queued, sorted.
fn packets_of(passages: &Passages, contents: &[Contents], wanted: Seen) -> Vec<f64> {
    let outcomes = passages.outcome.iter().zip(contents);
    let own = outcomes.filter(|(outcome, _)| **outcome == wanted);
    let mut packets: Vec<f64> = own.map(|(_, contents)| contents.packets).collect();
    packets.sort_unstable_by(f64::total_cmp);
    packets
}

/// Compares the queue that lost packets found with that of the others. `None` without losses.
pub fn backlog_at_losses(passages: &Passages, idle_wait_s: f64) -> Option<BacklogAtLosses> {
    let contents = contents(passages, idle_wait_s);
    let of = |wanted: Seen| {
        let contents = &contents;
        (0..passages.len())
            .filter(move |index| passages.outcome[*index] == wanted)
            .map(move |index| (index, contents[index]))
    };
    let with_packet =
        |(index, contents): (usize, Contents)| contents.bytes + f64::from(passages.bytes[index]);
    let sorted = |mut values: Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let lost_packets = packets_of(passages, &contents, Seen::Lost);
    let lost_bytes = sorted(of(Seen::Lost).map(with_packet).collect());
    if lost_packets.is_empty() {
        return None;
    }
    let passed_packets = packets_of(passages, &contents, Seen::Passed);
    let passed_bytes = sorted(of(Seen::Passed).map(with_packet).collect());
    let packets = spread(&lost_packets);
    let (_, misfits_packets) = best_limit(&lost_packets, &passed_packets);
    let (limit_bytes, misfits_bytes) = best_limit(&lost_bytes, &passed_bytes);
    let rank = |value: f64| {
        let below = passed_packets.partition_point(|other| *other < value);
        let upto = passed_packets.partition_point(|other| *other <= value);
        (below + upto) as f64 / 2.0 / passed_packets.len().max(1) as f64
    };
    let near = (0.05 * packets.value).max(2.0);
    let from = lost_packets.partition_point(|contents| *contents < packets.value - near);
    let to = lost_packets.partition_point(|contents| *contents <= packets.value + near);
    let more = |passed: &[f64], lost: &[f64], unit: f64| {
        let median = quantile(lost, 0.5);
        passed.len() - passed.partition_point(|x| *x <= median + (2.0 * unit).max(0.05 * median))
    };
    let full_bytes = f64::from(passages.bytes.iter().copied().fold(0.0, f32::max));
    let first_losses = first_losses(passages);
    let queue: Vec<f64> = contents.iter().map(|contents| contents.packets).collect();
    Some(BacklogAtLosses {
        near_median: (to - from) as f64 / lost_packets.len() as f64,
        deviations: deviations(&queue, &first_losses),
        average_deviations: deviations(&average(&queue), &first_losses),
        packets,
        with_packet_bytes: spread(&lost_bytes),
        most_passed_packets: passed_packets.last().copied().unwrap_or(0.0),
        misfits_packets,
        misfits_bytes,
        limit_bytes,
        losses: lost_packets.len(),
        passed_with_more: more(&passed_packets, &lost_packets, 1.0).min(more(
            &passed_bytes,
            &lost_bytes,
            full_bytes,
        )),
        mean_rank: lost_packets
            .iter()
            .map(|contents| rank(*contents))
            .sum::<f64>()
            / lost_packets.len() as f64,
        found_empty: lost_packets.partition_point(|contents| *contents <= 1.0) as f64
            / lost_packets.len() as f64,
    })
}

/// The first packet of each run of losses: those after it are no additional evidence.
fn first_losses(passages: &Passages) -> Vec<usize> {
    let lost = |index: usize| passages.outcome[index] == Seen::Lost;
    (0..passages.len())
        .filter(|&index| lost(index) && (index == 0 || !lost(index - 1)))
        .collect()
}

/// The exponentially weighted average of a queue, at each arrival.
fn average(queue: &[f64]) -> Vec<f64> {
    let mut average = 0.0;
    queue
        .iter()
        .map(|queue| {
            average += AVERAGE_WEIGHT * (queue - average);
            average
        })
        .collect()
}

/// Excess of the mean rank of the chosen values over one half, in standard deviations of the mean of as many
/// uniform ranks (the rank-sum test of Wilcoxon 1945, and Mann and Whitney 1947).
fn deviations(values: &[f64], chosen: &[usize]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = |index: &usize| {
        let value = values[*index];
        let below = sorted.partition_point(|other| *other < value);
        let upto = sorted.partition_point(|other| *other <= value);
        (below + upto) as f64 / 2.0 / sorted.len() as f64
    };
    let mean = chosen.iter().map(rank).sum::<f64>() / chosen.len().max(1) as f64;
    (mean - 0.5) * (12.0 * chosen.len() as f64).sqrt()
}

fn spread(sorted: &[f64]) -> Interval {
    Interval {
        value: quantile(sorted, 0.5),
        low: Some(quantile(sorted, 0.1)),
        high: Some(quantile(sorted, 0.9)),
    }
}

/// The limit between passed and lost packets that leaves the fewest on the wrong side: the middle of the
/// range of such limits, the range, and their number. A lost packet belongs above the limit, a passed one
/// below.
fn best_limit(lost: &[f64], passed: &[f64]) -> (Interval, usize) {
    let mut best: Option<(usize, f64, f64)> = None;
    for &limit in lost {
        // just below this lost packet
        let lost_below = lost.partition_point(|value| *value < limit);
        let passed_from = passed.partition_point(|value| *value < limit);
        let wrong = lost_below + (passed.len() - passed_from);
        if best.is_none_or(|(fewest, ..)| wrong < fewest) {
            let under = passed_from
                .checked_sub(1)
                .map_or(0.0, |index| passed[index]);
            let before = lost_below.checked_sub(1).map_or(0.0, |index| lost[index]);
            best = Some((wrong, under.max(before), limit));
        }
    }
    let (wrong, low, high) = best.unwrap_or((0, 0.0, 0.0));
    let interval = Interval {
        value: (low + high) / 2.0,
        low: Some(low),
        high: Some(high),
    };
    (interval, wrong)
}
