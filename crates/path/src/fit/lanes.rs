//! The virtual queues of several candidates at once.
//!
//! Following one queue is a chain in which every step depends on the one before. Several candidates form
//! independent chains, so a processor computes all of them in the time of one: each lane of its vector
//! registers follows another.

use super::never_nan::{larger, smaller};
use super::rows::{CLASSES, RateAndLimit, Row, Rows};
use super::trace::Seen;
use super::virtual_queue::{Agreement, Start, log_likelihood};

/// Most candidates that are followed together. Eight fill a vector register of 512 bits; latencies leave time
/// for a second one.
pub const LANES: usize = 16;

/// Follows the virtual queue of up to [`LANES`] candidates, as [`follow`](super::virtual_queue::follow) does
/// for one. A candidate gets `None` if more than `most_corrected_bytes` would have to be corrected.
///
/// # Panics
///
/// With more candidates than lanes.
pub fn follow_many(
    rows: &Rows,
    candidates: &[RateAndLimit],
    start: Start,
    most_corrected_bytes: f64,
) -> [Option<Agreement>; LANES] {
    assert!(
        candidates.len() <= LANES,
        "{} candidates for {LANES} lanes",
        candidates.len()
    );
    match candidates.len() {
        0..=4 => spread::<4>(rows, candidates, start, most_corrected_bytes),
        5..=8 => spread::<8>(rows, candidates, start, most_corrected_bytes),
        _ => spread::<LANES>(rows, candidates, start, most_corrected_bytes),
    }
}

fn spread<const L: usize>(
    rows: &Rows,
    candidates: &[RateAndLimit],
    start: Start,
    most_corrected_bytes: f64,
) -> [Option<Agreement>; LANES] {
    let mut found = [None; LANES];
    let Some(last) = candidates.last() else {
        return found;
    };
    // unused lanes repeat the last candidate
    let lane = |index: usize| *candidates.get(index).unwrap_or(last);
    let rate = std::array::from_fn(|index| lane(index).0);
    let limit = std::array::from_fn(|index| lane(index).1);
    let queues = follow_on_this_processor::<L>(rows, rate, limit, start, most_corrected_bytes);
    for (index, place) in found.iter_mut().enumerate().take(candidates.len()) {
        *place = queues.agreement(rows, index, most_corrected_bytes);
    }
    found
}

/// Counts of packets above each margin, and corrections, by lane.
struct Queues<const L: usize> {
    lost_above: [[f64; L]; CLASSES - 1],
    passed_above: [[f64; L]; CLASSES - 1],
    added: [f64; L],
    removed: [f64; L],
}

impl<const L: usize> Queues<L> {
    fn agreement(&self, rows: &Rows, lane: usize, most_corrected_bytes: f64) -> Option<Agreement> {
        let (added_bytes, removed_bytes) = (self.added[lane], self.removed[lane]);
        if added_bytes + removed_bytes > most_corrected_bytes {
            return None;
        }
        let classes = |above: &[[f64; L]; CLASSES - 1], total: f64| -> [u32; CLASSES] {
            std::array::from_fn(|class| {
                let from = if class == 0 {
                    total
                } else {
                    above[class - 1][lane]
                };
                let to = above.get(class).map_or(0.0, |above| above[lane]);
                (from - to) as u32
            })
        };
        let (lost, passed) = (
            classes(&self.lost_above, rows.lost as f64),
            classes(&self.passed_above, rows.passed as f64),
        );
        Some(Agreement {
            log_likelihood: log_likelihood(&lost, &passed),
            added_bytes,
            removed_bytes,
            lost,
            passed,
        })
    }
}

/// Uses the widest registers of this processor.
fn follow_on_this_processor<const L: usize>(
    rows: &Rows,
    rate: [f64; L],
    limit: [f64; L],
    start: Start,
    most_corrected_bytes: f64,
) -> Queues<L> {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F, which is all that the function needs beyond the baseline
            return unsafe {
                follow_with_avx512::<L>(rows, rate, limit, start, most_corrected_bytes)
            };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, which is all that the function needs beyond the baseline
            return unsafe {
                follow_with_avx2::<L>(rows, rate, limit, start, most_corrected_bytes)
            };
        }
    }
    follow_lanes::<L>(rows, rate, limit, start, most_corrected_bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn follow_with_avx2<const L: usize>(
    rows: &Rows,
    rate: [f64; L],
    limit: [f64; L],
    start: Start,
    most_corrected_bytes: f64,
) -> Queues<L> {
    follow_lanes::<L>(rows, rate, limit, start, most_corrected_bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn follow_with_avx512<const L: usize>(
    rows: &Rows,
    rate: [f64; L],
    limit: [f64; L],
    start: Start,
    most_corrected_bytes: f64,
) -> Queues<L> {
    follow_lanes::<L>(rows, rate, limit, start, most_corrected_bytes)
}

/// Rows near a limit between two checks whether all candidates are hopeless.
const ROWS_BETWEEN_LOOKS: u32 = 8;

#[inline(always)]
fn follow_lanes<const L: usize>(
    rows: &Rows,
    rate: [f64; L],
    limit: [f64; L],
    start: Start,
    most_corrected_bytes: f64,
) -> Queues<L> {
    let one = Bucket { rate, limit };
    match (rows.second_bucket, rows.are_single) {
        (Some((other_rate, other_limit)), are_single) => {
            let other = Bucket {
                rate: [other_rate; L],
                limit: [other_limit; L],
            };
            match are_single {
                true => {
                    follow_buckets::<L, true, true>(rows, one, other, start, most_corrected_bytes)
                }
                false => {
                    follow_buckets::<L, true, false>(rows, one, other, start, most_corrected_bytes)
                }
            }
        }
        (None, true) => {
            follow_buckets::<L, false, true>(rows, one, one, start, most_corrected_bytes)
        }
        (None, false) => {
            follow_buckets::<L, false, false>(rows, one, one, start, most_corrected_bytes)
        }
    }
}

/// Candidates for a bucket, by lane.
#[derive(Clone, Copy)]
struct Bucket<const L: usize> {
    rate: [f64; L],
    limit: [f64; L],
}

/// Follows each candidate's queue, and with `TWO` that of the second bucket: a packet passes if both have
/// room, and enters both. A loss is attributed to the fuller one, which is corrected. With `SINGLE` every row
/// is one packet.
///
/// Most rows are far from every limit: a separate loop for them needs so few registers that none spills to
/// memory.
#[inline(always)]
fn follow_buckets<const L: usize, const TWO: bool, const SINGLE: bool>(
    rows: &Rows,
    one: Bucket<L>,
    two: Bucket<L>,
    start: Start,
    most_corrected_bytes: f64,
) -> Queues<L> {
    let (limit, other_limit) = (one.limit, two.limit);
    let margins: [[f64; L]; CLASSES - 1] =
        std::array::from_fn(|margin| limit.map(|limit| limit + rows.margins_bytes[margin]));
    let mut queues = Queues {
        lost_above: [[0.0; L]; CLASSES - 1],
        passed_above: [[0.0; L]; CLASSES - 1],
        added: [0.0; L],
        removed: [0.0; L],
    };
    let (mut queue, mut other) = ([0.0f64; L], [0.0f64; L]);
    let mut start_is_unknown = start == Start::Unknown;
    let mut until_look = ROWS_BETWEEN_LOOKS;
    let mut rest = rows.rows.iter();
    loop {
        let near = skip_far_rows::<L, TWO, SINGLE>(
            &mut rest,
            [&mut queue, &mut other],
            [&one, &two],
            &margins[0],
        );
        let Some((row, step)) = near else {
            return queues;
        };
        let Step {
            with_packet,
            with_other,
            reach,
        } = step;
        let packets = f64::from(row.packets);
        match row.outcome {
            Seen::Passed => {
                count_above(&mut queues.passed_above, &margins, &reach, packets);
                for lane in 0..L {
                    queues.removed[lane] += larger(reach[lane] - limit[lane], 0.0);
                    queue[lane] = smaller(with_packet[lane], limit[lane]);
                    other[lane] = smaller(with_other[lane], other_limit[lane]);
                }
            }
            Seen::Lost => {
                count_above(&mut queues.lost_above, &margins, &reach, packets);
                let elapsed_s = match start_is_unknown {
                    true => elapsed_s(&rows.rows[..rows.rows.len() - rest.len()]),
                    false => 0.0,
                };
                for lane in 0..L {
                    let missing = larger(limit[lane] - reach[lane], 0.0);
                    // the initial contents have drained after the time of a whole limit
                    let excused = start_is_unknown && elapsed_s * one.rate[lane] < limit[lane];
                    queues.added[lane] += if excused { 0.0 } else { missing };
                    let full = larger(queue[lane], larger(limit[lane] - row.bytes, 0.0));
                    if !TWO {
                        queue[lane] = full;
                        continue;
                    }
                    let others_full =
                        larger(other[lane], larger(other_limit[lane] - row.bytes, 0.0));
                    let own = with_packet[lane] >= reach[lane];
                    queue[lane] = if own { full } else { queue[lane] };
                    other[lane] = if own { other[lane] } else { others_full };
                }
                start_is_unknown = false;
            }
            Seen::Unknown => {
                for lane in 0..L {
                    queue[lane] = smaller(with_packet[lane], limit[lane]);
                    other[lane] = smaller(with_other[lane], other_limit[lane]);
                }
            }
        }
        until_look -= 1;
        if until_look == 0 {
            until_look = ROWS_BETWEEN_LOOKS;
            let corrected = |lane: usize| queues.added[lane] + queues.removed[lane];
            if (0..L).all(|lane| corrected(lane) > most_corrected_bytes) {
                return queues;
            }
        }
    }
}

/// Follows passed rows far from every limit, up to the next other row: returns that row and the queues with
/// it, which are drained until the arrival of its last packet.
#[inline(always)]
fn skip_far_rows<'a, const L: usize, const TWO: bool, const SINGLE: bool>(
    rest: &mut std::slice::Iter<'a, Row>,
    [queue, other]: [&mut [f64; L]; 2],
    buckets: [&Bucket<L>; 2],
    margin: &[f64; L],
) -> Option<(&'a Row, Step<L>)> {
    let (mut one, mut two) = (*queue, *other);
    let mut following = rest.clone();
    let found = loop {
        let Some(row) = following.next() else {
            break None;
        };
        let next = step::<L, TWO, SINGLE>([&mut one, &mut two], buckets, row);
        if row.outcome != Seen::Passed || any_above(margin, &next.reach) {
            break Some((row, next));
        }
        (one, two) = (next.with_packet, next.with_other);
    };
    (*queue, *other) = (one, two);
    *rest = following;
    found
}

/// The queues with the row's last packet, and its position relative to the nearer limit, in terms of the
/// first one.
struct Step<const L: usize> {
    with_packet: [f64; L],
    with_other: [f64; L],
    reach: [f64; L],
}

/// Drains the queues until the arrival of a row's last packet, before its outcome is applied.
#[inline(always)]
fn step<const L: usize, const TWO: bool, const SINGLE: bool>(
    [queue, other]: [&mut [f64; L]; 2],
    [one, two]: [&Bucket<L>; 2],
    row: &Row,
) -> Step<L> {
    let with_packet = drain_and_add::<L, SINGLE>(queue, &one.rate, row);
    let mut step = Step {
        with_packet,
        with_other: with_packet,
        reach: with_packet,
    };
    if TWO {
        step.with_other = drain_and_add::<L, SINGLE>(other, &two.rate, row);
        for lane in 0..L {
            let as_much = one.limit[lane] + (step.with_other[lane] - two.limit[lane]);
            step.reach[lane] = larger(step.reach[lane], as_much);
        }
    }
    step
}

/// The queues at the arrival of the row's last packet, before its outcome is applied. Each step depends on
/// the one before, so the contents of a queue that ran empty are calculated in parallel: rounding preserves
/// the order of numbers, and the sums are the same.
#[inline(always)]
fn drain_and_add<const L: usize, const SINGLE: bool>(
    queue: &mut [f64; L],
    rate: &[f64; L],
    row: &Row,
) -> [f64; L] {
    let mut with_packet = [0.0; L];
    for lane in 0..L {
        let left = queue[lane] - rate[lane] * row.gap_s;
        queue[lane] = larger(left, 0.0);
        with_packet[lane] = match SINGLE {
            true => larger(left + row.bytes, row.bytes),
            false => {
                let drained = rate[lane] * row.span_s;
                let from_dry = larger(row.bytes - drained, row.last_bytes);
                larger(left + row.bytes - drained, from_dry)
            }
        };
    }
    with_packet
}

/// Time from the start to the last packet of these rows.
#[cold]
fn elapsed_s(rows: &[Row]) -> f64 {
    let rows = rows.iter();
    rows.fold(0.0, |elapsed_s, row| elapsed_s + (row.gap_s + row.span_s))
}

#[inline(always)]
fn count_above<const L: usize>(
    above: &mut [[f64; L]; CLASSES - 1],
    margins: &[[f64; L]; CLASSES - 1],
    with_packet: &[f64; L],
    packets: f64,
) {
    for (above, margin) in above.iter_mut().zip(margins) {
        for lane in 0..L {
            above[lane] += if with_packet[lane] >= margin[lane] {
                packets
            } else {
                0.0
            };
        }
    }
}

#[inline(always)]
fn any_above<const L: usize>(margin: &[f64; L], with_packet: &[f64; L]) -> bool {
    let mut above = false;
    for lane in 0..L {
        above |= with_packet[lane] >= margin[lane];
    }
    above
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fit::trace::{Trace, TracePacket};
    use crate::fit::virtual_queue::{Candidate, follow};

    proptest! {
        /// Lanes give the same numbers, faster.
        #[test]
        fn every_lane_agrees_with_following_its_candidate_alone(
            packets in proptest::collection::vec((0i64..3_000, 40u32..1500, 0u8..8), 2..300),
            candidates in proptest::collection::vec((1e4f64..1e7, 500.0f64..30_000.0), 1..=LANES),
            unknown in any::<bool>(),
            condensed in 0u16..8,
        ) {
            let mut time_us = 0;
            let observations = packets.iter().map(|&(step_us, bytes, outcome)| {
                time_us += step_us;
                let outcome = match outcome { 0 => Seen::Lost, 1 => Seen::Unknown, _ => Seen::Passed };
                TracePacket { time_ns: time_us * 1000, bytes, outcome, delay_s: None }
            });
            let trace = Trace::new(observations.collect());
            let rows = match condensed {
                0 => Rows::single(&trace),
                most => Rows::condense(&trace, 0, trace.len(), most),
            };
            let start = if unknown { Start::Unknown } else { Start::Empty };
            let together = follow_many(&rows, &candidates, start, f64::MAX);
            for (&(rate_bytes_per_s, limit_bytes), found) in candidates.iter().zip(together) {
                let alone = follow(&rows, Candidate { rate_bytes_per_s, limit_bytes, start }, f64::MAX).unwrap();
                let found = found.unwrap();
                prop_assert_eq!((found.lost, found.passed), (alone.lost, alone.passed));
                let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * (1.0 + b.abs());
                prop_assert!(near(found.added_bytes, alone.added_bytes), "{found:?} {alone:?}");
                prop_assert!(near(found.removed_bytes, alone.removed_bytes));
                prop_assert!(near(found.log_likelihood, alone.log_likelihood));
            }
        }

        /// A second bucket with room for everything changes nothing; the order of two does not matter.
        #[test]
        fn two_buckets_are_one_where_one_has_room_for_everything(
            packets in proptest::collection::vec((0i64..3_000, 40u32..1500, 0u8..4), 2..300),
            one in (1e4f64..1e7, 500.0f64..30_000.0),
            other in (1e4f64..1e7, 500.0f64..30_000.0),
        ) {
            let mut time_us = 0;
            let observations = packets.iter().map(|&(step_us, bytes, outcome)| {
                time_us += step_us;
                let outcome = if outcome == 0 { Seen::Lost } else { Seen::Passed };
                TracePacket { time_ns: time_us * 1000, bytes, outcome, delay_s: None }
            });
            let mut rows = Rows::single(&Trace::new(observations.collect()));
            let mut corrected = |bucket: RateAndLimit, second_bucket: Option<RateAndLimit>| {
                rows.second_bucket = second_bucket;
                let [found, ..] = follow_many(&rows, &[bucket], Start::Empty, f64::MAX);
                found.unwrap().corrected_bytes()
            };
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * (1.0 + b.abs());
            prop_assert!(near(corrected(one, Some((1e15, 1e15))), corrected(one, None)));
            prop_assert!(near(corrected(one, Some(other)), corrected(other, Some(one))));
        }
    }
}
