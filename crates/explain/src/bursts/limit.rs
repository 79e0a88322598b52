//! Contents of a full queue, from the packets ahead of each lost packet.

use whydrop_path::fit::Seen;
use whydrop_path::fit::passage::{Contents, Passages};
use whydrop_verdict::Quantity;

use super::Limit;
use super::trains::{Train, gap_deviation, sizes};
use crate::observe::ByteBasis;

/// Number of packets that lost packets of one size found queued.
pub(super) struct Full {
    pub ip_bytes: f64,
    /// Median, with its interval.
    pub packets: Quantity,
    pub losses: usize,
    /// Losses that found a different number, and packets that passed although more were queued.
    pub misfits: usize,
    pub passed_with_more: usize,
}

/// The queue state at the losses.
pub(super) struct Met {
    /// The queue's limit, if the losses found it full.
    pub limit: Option<Limit>,
    /// Packets that passed although they found more queued than lost ones did.
    pub passed_with_more: usize,
}

/// Fewer losses of one size are not evaluated.
const FEWEST_LOSSES: usize = 4;

/// A full queue holds the same number each time, within this many packets: the order of simultaneous events
/// is uncertain.
const SAME_PACKETS: f64 = 2.0;

/// Fewer packets in the hop are no queue.
pub(super) const FEWEST_INSIDE: f64 = 2.0;

/// A drop-tail queue drops all packets that find it full, and no others. Timestamps misplace a tenth of the
/// packets by more than [`gap_deviation`] gives. A law that drops less than half of the arrivals while it
/// drops (RED, PIE, CoDel) passes at least as many as it drops: half of its losses find fewer packets than
/// their median, and no fewer pass with more, together a third of all counted here. This limit is half of
/// that share.
const MOST_MISFITS: f64 = 0.2;

/// Packets in the hop, and the queue that each found.
pub(super) struct Inside<'a> {
    pub passages: &'a Passages,
    pub contents: &'a [Contents],
    /// Share of the service that went to other traffic.
    pub unseen_share: f64,
}

/// Finds the queue state at the losses: the limit of a full queue, if there was one.
///
/// A limit in packets is reached by equally many small and large packets, a limit in bytes by equally many
/// bytes: packets of a quarter of the size distinguish the two by a factor of four.
pub(super) fn limit(
    seen: &Inside,
    trains: &[Train],
    drain_rate_bps: Option<Quantity>,
    basis: Option<ByteBasis>,
) -> Met {
    let Inside {
        passages,
        contents,
        unseen_share,
    } = *seen;
    let shared = drain_rate_bps.filter(|_| unseen_share > 0.0);
    let mut found: Vec<Full> = sizes(passages)
        .into_iter()
        .filter_map(|ip_bytes| {
            let of = |outcome| match shared {
                Some(rate) => backlog_by_waits(passages, (ip_bytes, outcome), rate.value),
                None => contents_by_count(passages, (ip_bytes, outcome), contents),
            };
            let jitter = gap_deviation(trains, ip_bytes, 0.9);
            Full::of(
                f64::from(ip_bytes),
                jitter,
                unseen_share,
                of(Seen::Lost),
                &of(Seen::Passed),
            )
        })
        .collect();
    for full in &mut found {
        // packets of other traffic may be smaller: more of them take the same time
        full.packets.high = full.packets.high.map(|high| high * (1.0 + unseen_share));
    }
    Met {
        passed_with_more: found.iter().map(|full| full.passed_with_more).sum(),
        limit: of_sizes(found, basis),
    }
}

/// The limit on which full queues of packets of several sizes agree, the smallest size first.
pub(super) fn of_sizes(mut found: Vec<Full>, basis: Option<ByteBasis>) -> Option<Limit> {
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
    // a packet that meets a limit in bytes lacks room for its own size: the smaller it is, the more exact the
    // limit
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
    /// From the queue found by lost packets, and by those that passed.
    ///
    /// Which places belong to other traffic varies by chance: of `n` places, each with probability `p`, by
    /// the standard deviation of a binomial distribution; so does the number of our packets in a full queue.
    fn of(
        ip_bytes: f64,
        jitter: f64,
        unseen_share: f64,
        mut lost: Vec<f64>,
        passed: &[f64],
    ) -> Option<Full> {
        if lost.len() < FEWEST_LOSSES {
            return None;
        }
        lost.sort_by(f64::total_cmp);
        let median = lost[lost.len() / 2];
        let others = 1.96 * (unseen_share * (1.0 - unseen_share) * median).sqrt();
        let same = SAME_PACKETS.max(2.0 * jitter).max(others);
        let differ = lost
            .iter()
            .filter(|contents| (*contents - median).abs() > same)
            .count();
        let more = passed
            .iter()
            .filter(|contents| **contents > median + same)
            .count();
        // interval of a median from order statistics
        let half = lost.len() as f64 / 2.0;
        let reach = 0.98 * (lost.len() as f64).sqrt();
        let low = lost[(half - reach).max(0.0) as usize];
        let high = lost[((half + reach) as usize).min(lost.len() - 1)];
        Some(Full {
            ip_bytes,
            packets: Quantity {
                value: median,
                // the packet in service may occupy a place or not
                low: Some((low - 1.0).max(0.0)),
                high: Some(high + 1.0),
            },
            losses: lost.len(),
            misfits: differ + more,
            passed_with_more: more,
        })
    }
}

/// Largest deviation of an answer, as a share of the distance between both answers: three times closer to one
/// than to the other.
const AGREE: f64 = 0.25;

/// Median number of packets of any size that lost packets found queued.
pub(super) fn lost_found_packets(passages: &Passages, inside: &[Contents]) -> Option<f64> {
    let lost = inside.iter().zip(&passages.outcome);
    let lost = lost.filter(|(_, seen)| **seen == Seen::Lost);
    let mut found: Vec<f64> = lost.map(|(contents, _)| contents.packets).collect();
    found.sort_by(f64::total_cmp);
    found.get(found.len() / 2).copied()
}

fn of_kind(passages: &Passages, (ip_bytes, outcome): (u32, Seen)) -> impl Iterator<Item = usize> {
    (0..passages.len()).filter(move |index| {
        passages.outcome[*index] == outcome && passages.bytes[*index] as u32 == ip_bytes
    })
}

fn contents_by_count(passages: &Passages, kind: (u32, Seen), inside: &[Contents]) -> Vec<f64> {
    of_kind(passages, kind)
        .map(|index| inside[index].packets)
        .collect()
}

/// If other traffic shares the queue, its contents follow from the waiting time at the queue's drain rate, in
/// packets of that size: for a lost packet, from the wait of the last packet before it, which occupied a
/// place itself.
fn backlog_by_waits(passages: &Passages, kind: (u32, Seen), rate_bps: f64) -> Vec<f64> {
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
