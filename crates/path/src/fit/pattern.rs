//! Patterns of losses, independent of any mechanism: Bayes factors against a loss rate that is the same for
//! every packet.
//!
//! Under the alternative a packet is lost at a rate `c g(x)`, where `x` is known before the packet arrives
//! (the last measured delay; its position in the trace) and `g` is 1 in a part of the range and lower
//! outside. With a scale-free prior for `c`, which the constant rate shares, the factor is the product over
//! the losses of `g(x) / mean(g)`, the mean taken over all packets. It is valid whatever the senders'
//! reaction to earlier losses was, since it only uses the probability that each packet is lost given those
//! before it; and since parts and depths are averaged over and not chosen, chance produces a factor of `b`
//! less often than once in `b` times (Ville 1939).

use super::delay::quantile;
use super::trace::{Seen, Trace};

/// The pattern of losses in a trace. Losses of one clump count once: they have one cause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossPattern {
    /// Runs of losses, where those closer together than by chance are joined.
    pub clumps: usize,
    /// Log Bayes factor, nats: losses occur at longer delays. Zero if too few delays were measured.
    pub by_delay_nats: f64,
    /// Log Bayes factor, nats: losses are more frequent in one part of the trace than in the rest.
    pub by_time_nats: f64,
    /// The longest time in which packets were sent and none passed.
    pub silence: Silence,
}

/// A time in which all sent packets were lost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Silence {
    pub from_s: f64,
    pub until_s: f64,
    pub lost: usize,
    /// How much more likely its losses are if nothing passes than at the loss rate of the rest, nats, less
    /// the cost of the search.
    pub nats: f64,
}

/// Runs of losses are joined if less than this share of their mean distance lies between them: by chance one
/// in eight does.
const CLUMPED_SHARE: f64 = 0.125;
/// Parts of the range of delays to try: this share of the longest.
const LONGEST: [f64; 9] = [0.9, 0.75, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005];
/// Loss rates outside a part, as shares of those inside.
const DEPTHS: [f64; 3] = [0.4, 0.1, 0.01];
/// Number of times that the trace is halved for the parts of time to try.
const HALVINGS: u32 = 6;
/// With fewer delays, long and short ones are not distinguished.
const FEWEST_DELAYS: usize = 20;

/// The pattern of the losses of a trace. `None` without losses.
pub fn loss_pattern(trace: &Trace) -> Option<LossPattern> {
    // packets of unknown fate are no evidence
    let known = (0..trace.len()).filter(|index| trace.outcome[*index] != Seen::Unknown);
    let known: Vec<usize> = known.collect();
    let first = clumps(trace, &known);
    if first.is_empty() {
        return None;
    }
    Some(LossPattern {
        clumps: first.len(),
        by_delay_nats: by_delay(trace, &known, &first),
        by_time_nats: by_time(known.len(), &first),
        silence: silence(trace),
    })
}

/// The longest of the runs of losses, in time.
fn silence(trace: &Trace) -> Silence {
    let mut longest = Silence::default();
    let mut run: Option<Silence> = None;
    for index in 0..trace.len() {
        let now_s = trace.time_s[index];
        match (trace.outcome[index], &mut run) {
            (Seen::Lost, None) => {
                run = Some(Silence {
                    from_s: now_s,
                    until_s: now_s,
                    lost: 1,
                    nats: 0.0,
                });
            }
            (Seen::Lost, Some(run)) => (run.until_s, run.lost) = (now_s, run.lost + 1),
            // a packet without a retransmission or a captured acknowledgment has more likely passed
            (Seen::Passed | Seen::Unknown, _) => run = None,
        }
        if let Some(run) = run
            && run.until_s - run.from_s > longest.until_s - longest.from_s
        {
            longest = run;
        }
    }
    let others = (trace.lost - longest.lost + 1) as f64 / (trace.passed + 1) as f64;
    let searched = (trace.len() as f64).ln();
    longest.nats = (longest.lost as f64 * -others.min(1.0).ln() - searched).max(0.0);
    longest
}

/// Positions, among the packets with known fates, of the first losses of all clumps.
fn clumps(trace: &Trace, known: &[usize]) -> Vec<usize> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let lost = |place: &usize| trace.outcome[known[*place]] == Seen::Lost;
    for place in (0..known.len()).filter(lost) {
        join(&mut runs, (place, place), 1);
    }
    let apart = (CLUMPED_SHARE * known.len() as f64 / runs.len().max(1) as f64) as usize;
    let mut clumps = Vec::with_capacity(runs.len());
    for run in runs {
        join(&mut clumps, run, apart.max(1));
    }
    clumps.into_iter().map(|(first, _)| first).collect()
}

fn join(runs: &mut Vec<(usize, usize)>, run: (usize, usize), apart: usize) {
    match runs.last_mut() {
        Some(last) if run.0 - last.1 <= apart => last.1 = run.1,
        _ => runs.push(run),
    }
}

/// By the shorter of the last two delays measured before each packet: the one before a loss may have waited
/// for its acknowledgment until a second packet arrived (RFC 1122), which is the lost one.
fn by_delay(trace: &Trace, known: &[usize], first: &[usize]) -> f64 {
    let (mut newest, mut older) = (f32::NAN, f32::NAN);
    let before: Vec<f32> = trace
        .delay_s
        .iter()
        .map(|delay| {
            let before = newest.min(older);
            if !delay.is_nan() {
                (newest, older) = (*delay, newest);
            }
            before
        })
        .collect();
    let measured = known.iter().map(|index| before[*index]);
    let mut sorted: Vec<f32> = measured.filter(|delay| !delay.is_nan()).collect();
    sorted.sort_by(f32::total_cmp);
    let lost: Vec<f32> = first
        .iter()
        .map(|place| before[known[*place]])
        .filter(|x| !x.is_nan())
        .collect();
    if sorted.len() < FEWEST_DELAYS || lost.is_empty() {
        return 0.0;
    }
    let parts = LONGEST.map(|longest| {
        let from = quantile(&sorted, 1.0 - longest);
        let share = 1.0 - sorted.partition_point(|x| *x < from) as f64 / sorted.len() as f64;
        let inside = lost.iter().filter(|x| **x >= from).count();
        (share, inside)
    });
    averaged(&parts, lost.len())
}

/// By the part of the trace, in halves, quarters and so on: in packets, not seconds, since packets are lost.
fn by_time(packets: usize, first: &[usize]) -> f64 {
    let mut parts = Vec::new();
    for halving in 1..=HALVINGS {
        let pieces = 1_usize << halving;
        let mut inside = vec![0; pieces];
        for place in first {
            inside[place * pieces / packets] += 1;
        }
        parts.extend(
            inside
                .into_iter()
                .map(|inside| (1.0 / pieces as f64, inside)),
        );
    }
    averaged(&parts, first.len())
}

/// Log of the mean Bayes factor over all parts (share of the packets in it, losses in it) and depths.
fn averaged(parts: &[(f64, usize)], lost: usize) -> f64 {
    let logs: Vec<f64> = parts
        .iter()
        .flat_map(|&(share, inside)| {
            DEPTHS.map(|depth| {
                let mean = share + depth * (1.0 - share);
                (lost - inside) as f64 * depth.ln() - lost as f64 * mean.ln()
            })
        })
        .collect();
    let most = logs.iter().copied().fold(f64::MIN, f64::max);
    most + (logs.iter().map(|log| (log - most).exp()).sum::<f64>() / logs.len() as f64).ln()
}

#[cfg(test)]
mod tests {
    use super::super::trace::TracePacket;
    use super::*;

    /// Packets a millisecond apart, with the delays and losses that are given.
    fn trace(
        packets: usize,
        delay_s: impl Fn(usize) -> f32,
        lost: impl Fn(usize) -> bool,
    ) -> Trace {
        let observation = |index: usize| TracePacket {
            time_ns: index as i64 * 1_000_000,
            bytes: 1500,
            outcome: if lost(index) {
                Seen::Lost
            } else {
                Seen::Passed
            },
            delay_s: (!lost(index)).then(|| delay_s(index)),
        };
        Trace::new((0..packets).map(observation).collect())
    }

    /// A sawtooth of a hundred packets.
    fn tooth(index: usize) -> f32 {
        (index % 100) as f32 * 1e-3
    }

    /// A fixed sequence without pattern (Weyl): true for one index in `every`, on average.
    fn now_and_then(index: usize, every: f64) -> bool {
        (index as f64 * 0.618_033_988_749_895).fract() < 1.0 / every
    }

    #[test]
    fn losses_of_a_full_queue_depend_on_delay_and_not_on_time() {
        let pattern = loss_pattern(&trace(5_000, tooth, |index| index % 100 == 99)).unwrap();
        assert_eq!(pattern.clumps, 50);
        assert!(pattern.by_delay_nats > 100.0, "{pattern:?}");
        assert!(pattern.by_time_nats < 0.0, "{pattern:?}");
    }

    #[test]
    fn scattered_losses_depend_on_nothing() {
        let pattern =
            loss_pattern(&trace(5_000, tooth, |index| now_and_then(index, 70.0))).unwrap();
        assert!(pattern.by_delay_nats < 1.0, "{pattern:?}");
        assert!(pattern.by_time_nats < 0.0, "{pattern:?}");
    }

    #[test]
    fn losses_in_one_part_of_the_trace_depend_on_time() {
        let lost = |index: usize| index < 600 && now_and_then(index, 20.0);
        let pattern = loss_pattern(&trace(5_000, tooth, lost)).unwrap();
        assert!(pattern.by_time_nats > 10.0, "{pattern:?}");
        assert!(pattern.by_delay_nats < 1.0, "{pattern:?}");
    }

    #[test]
    fn bursts_count_once_each_and_one_loss_is_no_evidence() {
        let bursts = |index: usize| index % 1_000 > 980 && index.is_multiple_of(2);
        assert_eq!(
            loss_pattern(&trace(5_000, tooth, bursts)).unwrap().clumps,
            5
        );
        let one = loss_pattern(&trace(5_000, tooth, |index| index == 2_550)).unwrap();
        assert!(one.by_time_nats < 1.0 && one.by_delay_nats < 1.0, "{one:?}");
        assert!(loss_pattern(&trace(100, tooth, |_| false)).is_none());
    }

    #[test]
    fn a_silence_includes_only_packets_known_to_be_lost() {
        let fate = |index: usize| match index {
            100..160 => Seen::Lost,
            // retransmitted one packet in ten; of the others nothing was captured
            500..900 if index.is_multiple_of(10) => Seen::Lost,
            500..900 => Seen::Unknown,
            _ => Seen::Passed,
        };
        let observation = |index: usize| TracePacket {
            time_ns: index as i64 * 1_000_000,
            bytes: 1500,
            outcome: fate(index),
            delay_s: None,
        };
        let known_in_part = Trace::new((0..1_000).map(observation).collect());
        let silence = loss_pattern(&known_in_part).unwrap().silence;
        assert_eq!(silence.lost, 60);
        assert!((silence.from_s - 0.1).abs() < 1e-9, "{silence:?}");
    }
}
