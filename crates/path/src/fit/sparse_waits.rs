//! Estimates the delays of all packets, if a few are known and a queue with one drain rate explains them.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::level::Level;
use super::trace::{Seen, Trace};

/// Fewer delays give no rate.
const FEWEST_WAITS: usize = 3;
/// More packets do not improve the rate, and take too long.
const MOST_PACKETS: usize = 200_000;
/// Senders to try, those with the most known delays first: each takes a while.
const MOST_SOURCES: usize = 4;
/// A delay this short may be the receiver's or the sender's ...
const SHORTEST_WAIT_S: f64 = 2e-3;
/// ... and a longer one may be wrong by this share of it.
const WRONG_SHARE: f64 = 0.1;
/// Least share of the delays that the queue explains: for the others, something else made a sender continue.
const ACCOUNTED_SHARE: f64 = 0.7;
/// Rates to try, as multiples of the rate of passed packets, and the steps between them.
const SLOWEST: f64 = 0.5;
const FASTEST: f64 = 200.0;
const STEP: f64 = 1.04;
const FINER_STEPS: [f64; 2] = [1.008, 1.0015];

/// Estimated delays.
#[derive(Debug, Clone)]
pub struct Filled {
    /// For the packets that passed; NaN for the others.
    pub waits_s: Vec<f32>,
    /// Queues with shorter delays may have been missed, seconds.
    pub unsure_s: f64,
}

/// The delays of a trace with few known ones, completed: those of a queue that explains the known ones,
/// corrected at each known one; or zero, if hardly any packet was delayed. `sources` distinguishes the
/// senders of the packets: the error of the minimum delay of each is unknown, so that the delays of one
/// sender must be enough for a queue, and a sender's delays alone may show a queue that does not exist.
/// `None` if neither applies.
pub fn fill_waits(trace: &Trace, sources: &[usize]) -> Option<Filled> {
    let mut known: HashMap<usize, usize> = HashMap::new();
    for (source, delay_s) in sources.iter().zip(&trace.delay_s) {
        *known.entry(*source).or_default() += usize::from(!delay_s.is_nan());
    }
    let mut known: Vec<(usize, usize)> = known.into_iter().collect();
    known.sort_by_key(|(source, count)| (Reverse(*count), *source));
    let of_source = |(source, _): (usize, usize)| {
        let own = |(delay_s, other): (&f32, &usize)| match *other == source {
            true => *delay_s,
            false => f32::NAN,
        };
        let delay_s = trace.delay_s.iter().zip(sources).map(own).collect();
        by_a_queue(&Trace {
            delay_s,
            ..trace.clone()
        })
    };
    let enough = |(_, count): &(usize, usize)| *count >= FEWEST_WAITS;
    let mut known = known.into_iter().filter(enough).take(MOST_SOURCES);
    let by_queue = known.find_map(of_source);
    by_queue.or_else(|| by_no_queue(trace))
}

/// The result if hardly any packet behind a loss was delayed.
fn by_no_queue(trace: &Trace) -> Option<Filled> {
    let behind = behind_losses_s(trace);
    let most = ACCOUNTED_SHARE * behind.len() as f64;
    let waits_s = behind.iter().map(|(wait_s, _)| *wait_s);
    let short = waits_s.filter(|wait_s| *wait_s <= SHORTEST_WAIT_S).count();
    if behind.len() < FEWEST_WAITS || (short as f64) < most {
        return None;
    }
    // a queue drains no faster than time passes: a lost packet found at most the rest, and the traffic that
    // may have left since
    let bounds = behind.iter().map(|(wait_s, since_s)| wait_s + since_s);
    let mut bounds_s: Vec<f64> = bounds.collect();
    bounds_s.sort_by(f64::total_cmp);
    let none = trace.outcome.iter().map(|outcome| match outcome {
        Seen::Passed => 0.0,
        _ => f32::NAN,
    });
    Some(Filled {
        waits_s: none.collect(),
        unsure_s: bounds_s[most as usize].max(SHORTEST_WAIT_S),
    })
}

/// The first known delay behind each lost packet, and the time until that packet was sent.
fn behind_losses_s(trace: &Trace) -> Vec<(f64, f64)> {
    let mut lost_s = None;
    let mut waits_s = Vec::new();
    for (index, time_s) in trace.time_s.iter().enumerate() {
        if trace.outcome[index] == Seen::Lost {
            lost_s = Some(*time_s);
        }
        let wait_s = f64::from(trace.delay_s[index]);
        if !wait_s.is_nan()
            && let Some(lost_s) = lost_s.take()
        {
            waits_s.push((wait_s, time_s - lost_s));
        }
    }
    waits_s
}

fn by_a_queue(trace: &Trace) -> Option<Filled> {
    // delays that an empty queue explains are no evidence
    let waits = |wait_s: f64| wait_s > 2.0 * SHORTEST_WAIT_S;
    let known_s = trace.delay_s.iter().copied().map(f64::from);
    if known_s.filter(|wait_s| waits(*wait_s)).count() < FEWEST_WAITS {
        return None;
    }
    let followed = Followed::along(
        trace,
        best_rate(&trace.clone().first(MOST_PACKETS))?,
        |missed_s, wait_s| missed_s.abs() <= SHORTEST_WAIT_S.max(WRONG_SHARE * wait_s),
    );
    let counted = || followed.known.iter().filter(|known| waits(known.wait_s));
    let believed = counted().filter(|known| known.is_believed).count();
    let share = ACCOUNTED_SHARE * counted().count() as f64;
    (believed >= FEWEST_WAITS && believed as f64 >= share).then(|| Filled {
        waits_s: followed.waits_s(trace),
        unsure_s: 0.0,
    })
}

/// The rate in bytes per second at which the queue best predicts each known delay from the one before.
fn best_rate(trace: &Trace) -> Option<f64> {
    let passed_bytes_per_s = trace.passed_bytes / trace.duration_s().max(1e-3);
    let missed_s = |rate: f64| Followed::along(trace, rate, |_, _| true).missed_s();
    let mut best = (f64::MAX, passed_bytes_per_s);
    let mut look = |rates: &mut dyn Iterator<Item = f64>| {
        for rate in rates {
            let missed_s = missed_s(rate);
            if missed_s < best.0 {
                best = (missed_s, rate);
            }
        }
        best.1
    };
    let steps = ((FASTEST / SLOWEST).ln() / STEP.ln()) as i32;
    let mut rate = look(&mut (0..steps).map(|n| SLOWEST * passed_bytes_per_s * STEP.powi(n)));
    let mut range = STEP;
    for step in FINER_STEPS {
        let reach = (range.ln() / step.ln()).ceil() as i32;
        rate = look(&mut (-reach..=reach).map(|n| rate * step.powi(n)));
        range = step;
    }
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

/// A known delay.
struct Known {
    index: usize,
    wait_s: f64,
    /// Excess over the queue's prediction.
    missed_s: f64,
    is_believed: bool,
}

/// A queue along a trace, corrected at each known delay that is accepted.
struct Followed {
    waits_s: Vec<f64>,
    known: Vec<Known>,
}

impl Followed {
    fn along(trace: &Trace, bytes_per_s: f64, believes: impl Fn(f64, f64) -> bool) -> Self {
        let mut followed = Self {
            waits_s: Vec::with_capacity(trace.len()),
            known: Vec::new(),
        };
        let mut queue = Level::EMPTY;
        for (index, (gap_s, bytes, outcome)) in trace.arrivals().enumerate() {
            queue.drain(&[1.0], gap_s);
            let [queue_s] = queue.0;
            followed.waits_s.push(queue_s);
            let wait_s = f64::from(trace.delay_s[index]);
            if !wait_s.is_nan() {
                let missed_s = wait_s - queue_s;
                let is_believed = believes(missed_s, wait_s);
                followed.known.push(Known {
                    index,
                    wait_s,
                    missed_s,
                    is_believed,
                });
                queue = Level([if is_believed { wait_s } else { queue_s }]);
            }
            if outcome != Seen::Lost {
                queue = queue.with(bytes / bytes_per_s);
            }
        }
        followed
    }

    fn missed_s(&self) -> f64 {
        self.known.iter().map(|known| known.missed_s.abs()).sum()
    }

    /// The delays of packets that passed; the error at the next known delay is assumed to grow linearly until
    /// then.
    fn waits_s(&self, trace: &Trace) -> Vec<f32> {
        let mut waits_s = self.waits_s.clone();
        let (mut from_s, mut first) = (0.0, 0);
        for known in self.known.iter().filter(|known| known.is_believed) {
            let until_s = trace.time_s[known.index];
            let span_s = (until_s - from_s).max(1e-9);
            let times_s = &trace.time_s[first..=known.index];
            for (wait_s, time_s) in waits_s[first..=known.index].iter_mut().zip(times_s) {
                *wait_s += known.missed_s * (time_s - from_s) / span_s;
            }
            (from_s, first) = (until_s, known.index + 1);
        }
        let passed = trace.outcome.iter().map(|outcome| *outcome == Seen::Passed);
        let wait = |(wait_s, passed): (f64, bool)| match passed {
            true => wait_s.max(0.0) as f32,
            false => f32::NAN,
        };
        waits_s.into_iter().zip(passed).map(wait).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::trace::TracePacket;

    /// Bursts of 60 packets every 100 ms into a queue of 30 ms at 10 Mbit/s, with the last packets of each
    /// lost; returns the delays of all, and a trace in which `knows` selects the known ones.
    fn bursts(knows: impl Fn(usize, bool) -> bool) -> (Vec<f64>, Trace) {
        let (packet_s, mut queue_s, mut last_s) = (1.2e-3, 0.0f64, 0.0);
        let (mut waits_s, mut observations) = (Vec::new(), Vec::new());
        let mut was_lost = false;
        for number in 0..1200 {
            let time_s = 0.1 * (number / 60) as f64 + 0.4e-3 * (number % 60) as f64;
            queue_s = (queue_s - (time_s - last_s)).max(0.0);
            last_s = time_s;
            let lost = queue_s > 30e-3;
            waits_s.push(queue_s);
            observations.push(TracePacket {
                time_ns: (time_s * 1e9) as i64,
                bytes: 1500,
                outcome: if lost { Seen::Lost } else { Seen::Passed },
                delay_s: (!lost && knows(number, was_lost)).then_some(queue_s as f32),
            });
            if !lost {
                queue_s += packet_s;
            }
            was_lost = lost;
        }
        (waits_s, Trace::new(observations))
    }

    #[test]
    fn a_queue_gives_the_delays_between_known_ones() {
        let (waits_s, trace) = bursts(|number, behind_a_loss| behind_a_loss && number % 7 == 0);
        let known = trace.delay_s.iter().filter(|delay_s| !delay_s.is_nan());
        assert!((3..60).contains(&known.count()));
        let filled = fill_waits(&trace, &vec![0; trace.len()]).expect("a queue");
        assert_eq!(filled.unsure_s, 0.0);
        for (index, wait_s) in waits_s.iter().enumerate() {
            match trace.outcome[index] {
                Seen::Passed => {
                    let missed_s = (f64::from(filled.waits_s[index]) - wait_s).abs();
                    assert!(missed_s < 1e-3, "packet {index}: {missed_s}");
                }
                _ => assert!(filled.waits_s[index].is_nan()),
            }
        }
    }

    /// Another sender's delays are all too long by half a second: those of the first are enough.
    #[test]
    fn the_delays_of_one_sender_are_enough() {
        let (_, mut trace) = bursts(|_, behind_a_loss| behind_a_loss);
        let sources: Vec<usize> = (0..trace.len()).map(|number| number / 20 % 2).collect();
        let of_second = trace.delay_s.iter_mut().zip(&sources);
        for (delay_s, _) in of_second.filter(|(_, source)| **source == 1) {
            *delay_s += 0.5;
        }
        assert!(fill_waits(&trace, &sources).is_some());
    }

    #[test]
    fn delays_are_zero_if_no_packet_after_a_loss_waited() {
        let (_, mut trace) = bursts(|_, behind_a_loss| behind_a_loss);
        for delay_s in &mut trace.delay_s {
            *delay_s *= 0.01;
        }
        let filled = fill_waits(&trace, &vec![0; trace.len()]).expect("no queue");
        let waits = || filled.waits_s.iter().filter(|wait_s| !wait_s.is_nan());
        assert_eq!(waits().count(), trace.passed);
        assert!(waits().all(|wait_s| *wait_s == 0.0));
        // a shorter queue stays unknown
        assert_eq!(filled.unsure_s, SHORTEST_WAIT_S);
    }

    #[test]
    fn unexplained_delays_give_no_estimate_of_the_others() {
        let (_, mut trace) = bursts(|_, behind_a_loss| behind_a_loss);
        let known = trace.delay_s.iter_mut().filter(|delay_s| !delay_s.is_nan());
        for (number, delay_s) in known.enumerate() {
            *delay_s = [0.31, 0.02, 0.13, 0.07][number * number % 4];
        }
        assert!(fill_waits(&trace, &vec![0; trace.len()]).is_none());
        let (_, few) = bursts(|number, behind_a_loss| behind_a_loss && number < 120);
        assert!(fill_waits(&few.first(50), &[0; 50]).is_none());
    }
}
