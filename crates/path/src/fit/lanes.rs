//! The virtual queues of several candidates for a bucket at once, each in a lane of a [`Level`].

use super::level::{Level, excess, without_room};
use super::never_nan::{larger, smaller};
use super::rows::{CLASSES, RateAndLimit, Row, Rows};
use super::trace::Seen;
use super::virtual_queue::{Agreement, Start, log_likelihood};

/// Most candidates that are followed together. Eight fill a vector register of 512 bits; latencies leave time
/// for a second one.
pub const LANES: usize = 16;

/// Follows the virtual queue of up to [`LANES`] candidates over the observations. After every packet the queue
/// is corrected to agree with the packet's outcome, so that an error (a packet of other traffic in the same
/// bucket, a wrong fate, jitter) does not distort the rest; a wrong rate or limit needs large corrections. A
/// candidate gets `None` if more than `most_corrected_bytes` would have to be corrected.
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

/// The same for one candidate, whatever has to be corrected.
pub fn follow(rows: &Rows, candidate: RateAndLimit, start: Start) -> Agreement {
    let [found, ..] = follow_many(rows, &[candidate], start, f64::MAX);
    found.expect("nothing bounds the corrections")
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
    let following = Following::<L> {
        rows,
        one: Bucket::of(lane),
        start,
        most_corrected_bytes,
    };
    let queues = following.on_this_processor();
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

/// Candidates for a bucket, by lane.
#[derive(Clone, Copy)]
struct Bucket<const L: usize> {
    rate: [f64; L],
    limit: [f64; L],
}

impl<const L: usize> Bucket<L> {
    #[inline(always)]
    fn of(lane: impl Fn(usize) -> RateAndLimit) -> Self {
        Self {
            rate: std::array::from_fn(|index| lane(index).0),
            limit: std::array::from_fn(|index| lane(index).1),
        }
    }
}

/// Rows near a limit between two checks whether all candidates are hopeless.
const ROWS_BETWEEN_LOOKS: u32 = 8;

/// Candidates and the rows along which they are followed.
#[derive(Clone, Copy)]
struct Following<'a, const L: usize> {
    rows: &'a Rows,
    one: Bucket<L>,
    start: Start,
    most_corrected_bytes: f64,
}

impl<const L: usize> Following<'_, L> {
    /// Uses the widest registers of this processor.
    fn on_this_processor(self) -> Queues<L> {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                // SAFETY: the processor has AVX-512F, which is all that the function needs beyond the baseline
                return unsafe { self.with_avx512() };
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has AVX2, which is all that the function needs beyond the baseline
                return unsafe { self.with_avx2() };
            }
        }
        self.along_rows()
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn with_avx2(self) -> Queues<L> {
        self.along_rows()
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    unsafe fn with_avx512(self) -> Queues<L> {
        self.along_rows()
    }

    #[inline(always)]
    fn along_rows(self) -> Queues<L> {
        match (self.rows.second_bucket, self.rows.are_single) {
            (Some(two), true) => self.follow_buckets::<true, true>(Bucket::of(|_| two)),
            (Some(two), false) => self.follow_buckets::<true, false>(Bucket::of(|_| two)),
            (None, true) => self.follow_buckets::<false, true>(self.one),
            (None, false) => self.follow_buckets::<false, false>(self.one),
        }
    }

    /// Follows each candidate's queue, and with `TWO` that of the second bucket: a packet passes if both have
    /// room, and enters both. A loss is attributed to the fuller one, which is corrected. With `SINGLE` every
    /// row is one packet.
    ///
    /// Most rows are far from every limit: a separate loop for them needs so few registers that none spills to
    /// memory.
    #[inline(always)]
    fn follow_buckets<const TWO: bool, const SINGLE: bool>(self, two: Bucket<L>) -> Queues<L> {
        let Self { rows, one, .. } = self;
        let buckets = [&one, &two];
        let margins: [[f64; L]; CLASSES - 1] =
            std::array::from_fn(|margin| one.limit.map(|limit| limit + rows.margins_bytes[margin]));
        let mut queues = Queues {
            lost_above: [[0.0; L]; CLASSES - 1],
            passed_above: [[0.0; L]; CLASSES - 1],
            added: [0.0; L],
            removed: [0.0; L],
        };
        let (mut queue, mut other) = (Level::<L>::EMPTY, Level::<L>::EMPTY);
        let mut start_is_unknown = self.start == Start::Unknown;
        let mut until_look = ROWS_BETWEEN_LOOKS;
        let mut rest = rows.rows.iter();
        loop {
            let levels = [&mut queue, &mut other];
            let near = skip_far_rows::<L, TWO, SINGLE>(&mut rest, levels, buckets, &margins[0]);
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
                        queues.removed[lane] += excess(reach.0[lane], one.limit[lane]);
                        queue.0[lane] = smaller(with_packet.0[lane], one.limit[lane]);
                        other.0[lane] = smaller(with_other.0[lane], two.limit[lane]);
                    }
                }
                Seen::Lost => {
                    count_above(&mut queues.lost_above, &margins, &reach, packets);
                    let elapsed_s = match start_is_unknown {
                        true => elapsed_s(&rows.rows[..rows.rows.len() - rest.len()]),
                        false => 0.0,
                    };
                    for lane in 0..L {
                        let (rate, limit) = (one.rate[lane], one.limit[lane]);
                        let missing = excess(limit, reach.0[lane]);
                        // the initial contents have drained after the time of a whole limit
                        let excused = start_is_unknown && elapsed_s * rate < limit;
                        queues.added[lane] += if excused { 0.0 } else { missing };
                        let full = without_room(queue.0[lane], limit, row.bytes);
                        if !TWO {
                            queue.0[lane] = full;
                            continue;
                        }
                        let others = other.0[lane];
                        let others_full = without_room(others, two.limit[lane], row.bytes);
                        let own = with_packet.0[lane] >= reach.0[lane];
                        queue.0[lane] = if own { full } else { queue.0[lane] };
                        other.0[lane] = if own { others } else { others_full };
                    }
                    start_is_unknown = false;
                }
                Seen::Unknown => {
                    queue = with_packet.at_most(&one.limit);
                    other = with_other.at_most(&two.limit);
                }
            }
            until_look -= 1;
            if until_look == 0 {
                until_look = ROWS_BETWEEN_LOOKS;
                let corrected = |lane: usize| queues.added[lane] + queues.removed[lane];
                if (0..L).all(|lane| corrected(lane) > self.most_corrected_bytes) {
                    return queues;
                }
            }
        }
    }
}

/// Follows passed rows far from every limit, up to the next other row: returns that row and the queues with
/// it, which are drained until the arrival of its last packet.
#[inline(always)]
fn skip_far_rows<'a, const L: usize, const TWO: bool, const SINGLE: bool>(
    rest: &mut std::slice::Iter<'a, Row>,
    [queue, other]: [&mut Level<L>; 2],
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
        if row.outcome != Seen::Passed || next.reach.is_any_at(margin) {
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
    with_packet: Level<L>,
    with_other: Level<L>,
    reach: Level<L>,
}

/// Drains the queues until the arrival of a row's last packet, before its outcome is applied.
#[inline(always)]
fn step<const L: usize, const TWO: bool, const SINGLE: bool>(
    [queue, other]: [&mut Level<L>; 2],
    [one, two]: [&Bucket<L>; 2],
    row: &Row,
) -> Step<L> {
    let with_packet = queue.drain_and_add::<SINGLE>(&one.rate, row.times_s(), row.amounts());
    let mut step = Step {
        with_packet,
        with_other: with_packet,
        reach: with_packet,
    };
    if TWO {
        step.with_other = other.drain_and_add::<SINGLE>(&two.rate, row.times_s(), row.amounts());
        for lane in 0..L {
            let as_much = one.limit[lane] + (step.with_other.0[lane] - two.limit[lane]);
            step.reach.0[lane] = larger(step.reach.0[lane], as_much);
        }
    }
    step
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
    reach: &Level<L>,
    packets: f64,
) {
    for (above, margin) in above.iter_mut().zip(margins) {
        for lane in 0..L {
            let is_above = reach.0[lane] >= margin[lane];
            above[lane] += if is_above { packets } else { 0.0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fit::trace::{Trace, TracePacket};

    /// Follows one candidate without the recursion of the lanes.
    fn follow_alone(rows: &Rows, (rate, limit): RateAndLimit, start: Start) -> Agreement {
        let (mut lost, mut passed) = ([0u32; CLASSES], [0u32; CLASSES]);
        let (mut added_bytes, mut removed_bytes) = (0.0f64, 0.0f64);
        let mut queue = 0.0f64;
        let mut start_drains_s = match start {
            Start::Unknown => limit / rate,
            Start::Empty => 0.0,
        };
        let margins = rows.margins_bytes.map(|margin| limit + margin);
        for row in &rows.rows {
            queue = (queue - rate * row.gap_s).max(0.0);
            let with_packet = (queue + row.bytes - rate * row.span_s).max(row.last_bytes);
            start_drains_s -= row.gap_s + row.span_s;
            let reached = |margin: &&f64| with_packet >= **margin;
            let class = margins.iter().filter(reached).count();
            match row.outcome {
                Seen::Lost => {
                    lost[class] += 1;
                    if with_packet <= limit {
                        if start_drains_s <= 0.0 {
                            added_bytes += limit - with_packet;
                        }
                        queue = (limit - row.bytes).max(0.0);
                    }
                    start_drains_s = 0.0;
                }
                Seen::Passed => {
                    passed[class] += u32::from(row.packets);
                    removed_bytes += (with_packet - limit).max(0.0);
                    queue = with_packet.min(limit);
                }
                Seen::Unknown => queue = with_packet.min(limit),
            }
        }
        Agreement {
            log_likelihood: log_likelihood(&lost, &passed),
            added_bytes,
            removed_bytes,
            lost,
            passed,
        }
    }

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
            for (&candidate, found) in candidates.iter().zip(together) {
                let alone = follow_alone(&rows, candidate, start);
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
