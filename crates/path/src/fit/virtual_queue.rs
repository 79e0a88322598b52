//! The virtual queue, and how well a limit on it separates the lost packets from the others.

use super::level::Level;
use super::rows::{CLASSES, Rows};
use super::trace::{Seen, Trace};

/// Agreement of the outcomes with a rate and a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    /// Log-likelihood of the outcomes given the margin class of each packet, nats.
    pub log_likelihood: f64,
    /// Bytes that had to be added to the queue for packets that were lost below the limit: as if from cross
    /// traffic.
    pub added_bytes: f64,
    /// Bytes that had to be removed from it for packets that passed above the limit.
    pub removed_bytes: f64,
    /// Lost and passed packets by margin class, from far below the limit to far above it.
    pub lost: [u32; CLASSES],
    pub passed: [u32; CLASSES],
}

impl Agreement {
    /// Corrections of the queue needed to agree with the outcomes, bytes.
    pub fn corrected_bytes(&self) -> f64 {
        self.added_bytes + self.removed_bytes
    }

    /// Mean size of the corrections, if the margins are split at the limit (see
    /// [`Rows::with_exact_margins`]): the scale of timestamp errors, as the packets near the limit show it.
    /// The others do not show theirs.
    pub(super) fn typical_correction_bytes(&self) -> f64 {
        let corrected = self.lost[..=CLASSES / 2]
            .iter()
            .chain(&self.passed[CLASSES / 2 + 1..]);
        self.corrected_bytes() / f64::from(corrected.sum::<u32>().max(1))
    }

    /// Log-likelihood less the cost of the corrections: they are assumed to be errors with a Laplace
    /// distribution and a scale of one packet, since jitter and another byte basis cause deviations of less
    /// than a packet.
    pub fn score(&self, packet_bytes: f64) -> f64 {
        self.log_likelihood - self.corrected_bytes() / packet_bytes
    }

    /// Losses that the model predicts, or misses by less than a packet.
    pub fn expected_losses(&self) -> u32 {
        self.lost[1..].iter().sum()
    }
}

/// The contents of the virtual queue at the start of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Nothing: the bucket is full.
    Empty,
    /// Unknown: traffic before the trace may have left some. The first loss sets it at no cost, unless the
    /// initial contents have certainly drained since.
    Unknown,
}

/// Log-likelihood of the outcomes if each class has a loss probability of its own that does not decrease with
/// the margin (isotonic regression by pooling adjacent violators, Ayer et al. 1955).
pub(super) fn log_likelihood(lost: &[u32; CLASSES], passed: &[u32; CLASSES]) -> f64 {
    let mut pools: [(f64, f64); CLASSES] = [(0.0, 0.0); CLASSES];
    let mut count = 0;
    for class in 0..CLASSES {
        pools[count] = (f64::from(lost[class]), f64::from(passed[class]));
        count += 1;
        while count > 1 {
            let (below, above) = (pools[count - 2], pools[count - 1]);
            if below.0 * (above.0 + above.1) <= above.0 * (below.0 + below.1) {
                break;
            }
            pools[count - 2] = (below.0 + above.0, below.1 + above.1);
            count -= 1;
        }
    }
    pools[..count]
        .iter()
        .map(|&(lost, passed)| binomial_log_likelihood(lost, passed))
        .sum()
}

/// Log-likelihood of `lost` losses among `lost + passed` at the best probability, nats.
pub fn binomial_log_likelihood(lost: f64, passed: f64) -> f64 {
    let total = lost + passed;
    let term = |part: f64| {
        if part > 0.0 {
            part * (part / total).ln()
        } else {
            0.0
        }
    };
    term(lost) + term(passed)
}

/// The virtual queue that each packet finds, bytes, if only passed packets enter it without corrections: the
/// contents of an unlimited queue at this rate.
pub fn uncorrected(trace: &Trace, rate_bytes_per_s: f64) -> Vec<f32> {
    found_by_each(
        trace,
        rate_bytes_per_s,
        |queue, bytes, outcome| match outcome {
            Seen::Lost => queue,
            _ => queue.with(bytes),
        },
    )
}

/// The same, corrected after every packet to agree with its outcome.
pub fn corrected(trace: &Trace, rate_bytes_per_s: f64, limit_bytes: f64) -> Vec<f32> {
    let limit = [limit_bytes.max(0.0)];
    found_by_each(
        trace,
        rate_bytes_per_s,
        |queue, bytes, outcome| match outcome {
            Seen::Lost => queue.without_room(&limit, bytes),
            _ => queue.with(bytes).at_most(&limit),
        },
    )
}

/// The queue that each packet finds; `after` gives the queue after a packet.
fn found_by_each(
    trace: &Trace,
    rate_bytes_per_s: f64,
    after: impl Fn(Level<1>, f64, Seen) -> Level<1>,
) -> Vec<f32> {
    let mut queue = Level::EMPTY;
    let mut found = Vec::with_capacity(trace.len());
    for (gap_s, bytes, outcome) in trace.arrivals() {
        queue.drain(&[rate_bytes_per_s], gap_s);
        found.push(queue.0[0] as f32);
        queue = after(queue, bytes, outcome);
    }
    found
}

/// The virtual queue including each lost packet, bytes, at each of some rates, if only passed packets enter
/// it without corrections.
pub(super) fn uncorrected_at_losses<const RATES: usize>(
    rows: &Rows,
    rates_bytes_per_s: [f64; RATES],
) -> [Vec<f64>; RATES] {
    let mut queue = Level::EMPTY;
    let mut found = std::array::from_fn(|_| Vec::with_capacity(rows.lost));
    for row in &rows.rows {
        let with_packet =
            queue.drain_and_add::<false>(&rates_bytes_per_s, row.times_s(), row.amounts());
        if row.outcome == Seen::Lost {
            for (found, with_packet) in found.iter_mut().zip(with_packet.0) {
                found.push(with_packet);
            }
        } else {
            queue = with_packet;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::lanes::{follow, follow_many};
    use crate::fit::rows::RateAndLimit;
    use crate::fit::trace::TracePacket;

    fn rows(packets: &[(i64, u32, Seen)]) -> Rows {
        let observe = |&(time_ms, bytes, outcome): &(i64, u32, Seen)| TracePacket {
            time_ns: time_ms * 1_000_000,
            bytes,
            outcome,
            delay_s: None,
        };
        Rows::condense(
            &Trace::new(packets.iter().map(observe).collect()),
            0,
            packets.len(),
            1,
        )
    }

    /// 1000 bytes/ms and a limit of 3000 bytes.
    const BUCKET: RateAndLimit = (1e6, 3000.0);

    use Seen::{Lost, Passed};

    #[test]
    fn a_queue_at_the_right_rate_and_limit_needs_no_correction() {
        // three pass at once, the fourth finds 3000 queued; after 1 ms one fits
        let seen = [
            (0, 1000, Passed),
            (0, 1000, Passed),
            (0, 1000, Passed),
            (0, 1200, Lost),
            (1, 1000, Passed),
            (1, 1200, Lost),
        ];
        let agreement = follow(&rows(&seen), BUCKET, Start::Empty);
        assert_eq!(agreement.corrected_bytes(), 0.0);
        // with the packet: 1000, 2000, 3000 (at the limit), 4200, 3000, 4200
        assert_eq!(
            (agreement.passed, agreement.lost),
            ([1, 1, 2, 0, 0], [0, 0, 0, 0, 2])
        );
        // every class is pure: no uncertainty is left
        assert_eq!(agreement.log_likelihood, 0.0);
    }

    #[test]
    fn a_packet_lost_below_the_limit_costs_the_distance_to_it() {
        // the lost packet finds 1000 and would make 2000: 1000 short; the queue is then corrected to 2000
        let seen = [
            (0, 1000, Passed),
            (0, 1000, Lost),
            (0, 1000, Passed),
            (0, 1000, Passed),
        ];
        let agreement = follow(&rows(&seen), BUCKET, Start::Empty);
        // the fourth would make 4000 where 3000 is the limit: another 1000
        assert_eq!(
            (agreement.added_bytes, agreement.removed_bytes),
            (1000.0, 1000.0)
        );
        let [within, ..] = follow_many(&rows(&seen), &[BUCKET], Start::Empty, 1500.0);
        assert_eq!(within, None);
    }

    #[test]
    fn an_unknown_start_explains_the_first_loss_until_it_must_have_drained() {
        // a loss at once may be due to earlier cross traffic; one after 4 ms may not: 3000 bytes drain in 3
        // ms
        let early = [(0, 1000, Passed), (0, 1000, Lost), (0, 1000, Lost)];
        let late = [(0, 1000, Passed), (4, 1000, Lost), (4, 1000, Lost)];
        let cost = |seen: &[_]| follow(&rows(seen), BUCKET, Start::Unknown).corrected_bytes();
        assert_eq!((cost(&early), cost(&late)), (0.0, 2000.0));
    }

    #[test]
    fn loss_probabilities_that_fall_with_the_margin_are_pooled() {
        // 1 of 2 lost below, 0 of 2 above: pooled to 1 of 4
        let pooled = log_likelihood(&[1, 0, 0, 0, 0], &[1, 2, 0, 0, 0]);
        assert!((pooled - (0.25f64.ln() + 3.0 * 0.75f64.ln())).abs() < 1e-12);
    }
}
