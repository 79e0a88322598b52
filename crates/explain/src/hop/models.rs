//! Replays of mechanisms over the packets that entered a hop: the packets that each would have dropped and
//! the delay of the others, compared with what happened.

use whydrop_path::fit::passage::Passages;
use whydrop_path::fit::{BucketFit, Seen, Trace, unseen_at_start};
use whydrop_path::{Arrival, Fifo, InService, Limit, Outcome, PathElement, Policer, Shaper};

/// A mechanism with its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Element {
    Policer {
        rate_bps: f64,
        burst_bytes: f64,
        /// The second bucket of a dual-rate policer: rate, bit/s, and burst, bytes.
        peak: Option<(f64, f64)>,
    },
    /// Drop-tail queue with one of the limits, or none.
    Fifo {
        rate_bps: f64,
        limit_packets: Option<f64>,
        limit_bytes: Option<f64>,
        in_service: InService,
    },
    Shaper {
        rate_bps: f64,
        burst_bytes: f64,
    },
}

impl Element {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Policer { .. } => "policer",
            Self::Fifo { .. } => "fifo",
            Self::Shaper { .. } => "shaper",
        }
    }

    pub fn rate_bps(&self) -> f64 {
        match self {
            Self::Policer { rate_bps, .. }
            | Self::Fifo { rate_bps, .. }
            | Self::Shaper { rate_bps, .. } => *rate_bps,
        }
    }
}

/// A packet under a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Modelled {
    /// The level that it finds: tokens in a bucket, or queued bytes; NaN if the model gives none.
    pub level_bytes: f64,
    pub dropped: bool,
    /// Time from arrival to departure, less that of a packet of its size that finds the element idle; NaN if
    /// dropped.
    pub wait_s: f64,
}

/// A replay compared with what happened.
#[derive(Debug, Clone)]
pub struct Replay {
    pub element: Element,
    pub packets: Vec<Modelled>,
    /// Packets that the model drops, and those among them that were lost.
    pub dropped: usize,
    pub hits: usize,
    /// Packets that passed, in the capture and in the model.
    pub passed_right: usize,
    pub lost: usize,
    pub passed: usize,
    /// Longest queueing delay under the model, seconds.
    pub longest_wait_s: f64,
    /// Longest measured delay in seconds above the fastest, without at most one in a thousand outliers; and
    /// the number of those.
    pub seen_longest_wait_s: f64,
    pub seen_longer: usize,
    /// Packets that the model delays for longer than that.
    pub delayed_too_long: usize,
    /// Median distance between modelled and measured delays, seconds.
    pub wait_error_s: Option<f64>,
}

impl Replay {
    /// Agreement between its drops and the losses (harmonic mean of both shares).
    pub fn agreement(&self) -> f64 {
        2.0 * self.hits as f64 / (self.dropped + self.lost).max(1) as f64
    }
}

/// Replays an element over all packets, ignoring what happened to them. `overhead_bytes` is counted on top of
/// each packet; `idle_wait_s` is the delay of an idle path.
pub fn replay_over(
    passages: &Passages,
    element: Element,
    overhead_bytes: u32,
    idle_wait_s: f64,
) -> Replay {
    let arrivals: Vec<Arrival> = (0..passages.len())
        .map(|index| Arrival {
            time_ns: (passages.arrival_s[index] * 1e9).round() as i64,
            bytes: passages.bytes[index] as u32,
        })
        .collect();
    let full_bytes = passages.mean_bytes();
    let unseen = unseen_at_start(&passages.outcome, &passages.bytes, full_bytes);
    let spent = spent_at(element, unseen, &arrivals, &passages.outcome);
    compare(
        passages,
        element,
        modelled(element, overhead_bytes, &arrivals, spent),
        idle_wait_s,
    )
}

/// The first loss, if unknown packets may have taken tokens before it and the bucket cannot have filled up
/// since: it was empty then. With two buckets it is unknown which one was empty.
fn spent_at(
    element: Element,
    unseen: usize,
    arrivals: &[Arrival],
    outcome: &[Seen],
) -> Option<usize> {
    let Element::Policer {
        rate_bps,
        burst_bytes,
        peak: None,
    } = element
    else {
        return None;
    };
    let last = arrivals.get(unseen.checked_sub(1)?)?;
    let loss = outcome.iter().position(|seen| *seen == Seen::Lost)?;
    let since_s = arrivals[loss].time_ns.saturating_sub(last.time_ns) as f64 * 1e-9;
    (since_s * rate_bps / 8.0 < burst_bytes).then_some(loss)
}

/// Replay of a token bucket.
pub fn bucket_replayed(passages: &Passages, fit: &BucketFit, idle_wait_s: f64) -> Replay {
    replay_over(passages, policer(fit), 0, idle_wait_s)
}

/// The same over packets that reach the bucket at other times than they entered the hop: those of a trace.
pub fn bucket_over(arrivals: &[Arrival], trace: &Trace, fit: &BucketFit) -> Vec<Modelled> {
    let element = policer(fit);
    let spent = spent_at(element, trace.unseen_at_start(), arrivals, &trace.outcome);
    modelled(element, 0, arrivals, spent)
}

fn policer(fit: &BucketFit) -> Element {
    Element::Policer {
        rate_bps: fit.rate_bps.value,
        burst_bytes: fit.limit_bytes.value,
        peak: None,
    }
}

fn modelled(
    element: Element,
    overhead_bytes: u32,
    arrivals: &[Arrival],
    spent: Option<usize>,
) -> Vec<Modelled> {
    let whole = |value: f64| value.round().max(1.0) as u64;
    match element {
        Element::Policer {
            rate_bps,
            burst_bytes,
            peak,
        } => {
            let mut policer =
                Policer::new(whole(rate_bps), whole(burst_bytes)).with_overhead(overhead_bytes);
            if let Some((rate, burst)) = peak {
                policer = policer.with_peak(whole(rate), whole(burst));
            }
            let mut place = 0;
            step(arrivals, &mut policer, 0.0, |policer, time_ns| {
                if spent == Some(place) {
                    let counted = arrivals[place].bytes + overhead_bytes;
                    policer.spend_to(u64::from(counted).saturating_sub(1), time_ns);
                }
                place += 1;
                policer.level_bytes_at(time_ns)
            })
        }
        Element::Fifo {
            rate_bps,
            limit_packets,
            limit_bytes,
            in_service,
        } => {
            let limit = Limit {
                packets: limit_packets.map(whole),
                bytes: limit_bytes.map(whole),
            };
            let mut fifo = Fifo::new(whole(rate_bps), limit)
                .with_in_service(in_service)
                .with_overhead(overhead_bytes);
            let service = 8.0 / rate_bps;
            step(arrivals, &mut fifo, service, |fifo, time_ns| {
                fifo.backlog_at(time_ns).bytes as f64
            })
        }
        Element::Shaper {
            rate_bps,
            burst_bytes,
        } => {
            let mut shaper = Shaper::new(whole(rate_bps), whole(burst_bytes), Limit::NONE)
                .with_overhead(overhead_bytes);
            step(arrivals, &mut shaper, 0.0, |shaper, time_ns| {
                shaper.backlog_at(time_ns).bytes as f64
            })
        }
    }
}

fn step<E: PathElement>(
    arrivals: &[Arrival],
    element: &mut E,
    service_s_per_byte: f64,
    mut level: impl FnMut(&mut E, i64) -> f64,
) -> Vec<Modelled> {
    arrivals
        .iter()
        .map(|arrival| {
            let level_bytes = level(element, arrival.time_ns);
            let outcome = element.arrive(*arrival);
            Modelled {
                level_bytes,
                dropped: outcome.is_dropped(),
                wait_s: wait_s(arrival, outcome, service_s_per_byte),
            }
        })
        .collect()
}

fn wait_s(arrival: &Arrival, outcome: Outcome, service_s_per_byte: f64) -> f64 {
    outcome.departure_ns().map_or(f64::NAN, |departure_ns| {
        let inside_s = (departure_ns - arrival.time_ns) as f64 * 1e-9;
        (inside_s - f64::from(arrival.bytes) * service_s_per_byte).max(0.0)
    })
}

fn compare(
    passages: &Passages,
    element: Element,
    packets: Vec<Modelled>,
    idle_wait_s: f64,
) -> Replay {
    let mut seen: Vec<f64> = passages
        .wait_s
        .iter()
        .copied()
        .filter(|wait| !wait.is_nan())
        .collect();
    seen.sort_by(f64::total_cmp);
    let (seen_longest_wait_s, seen_longer) = longest(&seen);
    let seen_wait = |index: usize| passages.wait_s[index] - idle_wait_s;
    let mut errors: Vec<f64> = packets
        .iter()
        .enumerate()
        .map(|(index, packet)| (packet.wait_s - seen_wait(index)).abs())
        .filter(|error| !error.is_nan())
        .collect();
    let middle = errors.len() / 2;
    let wait_error_s =
        (!errors.is_empty()).then(|| *errors.select_nth_unstable_by(middle, f64::total_cmp).1);
    let count = |wanted: Seen, dropped: bool| {
        packets
            .iter()
            .zip(&passages.outcome)
            .filter(|(packet, seen)| **seen == wanted && packet.dropped == dropped)
            .count()
    };
    Replay {
        element,
        dropped: packets.iter().filter(|packet| packet.dropped).count(),
        hits: count(Seen::Lost, true),
        passed_right: count(Seen::Passed, false),
        lost: passages.lost,
        passed: passages.passed,
        longest_wait_s: packets
            .iter()
            .map(|packet| packet.wait_s)
            .fold(0.0, f64::max),
        delayed_too_long: packets
            .iter()
            .filter(|packet| packet.wait_s > 1.1 * seen_longest_wait_s)
            .count(),
        seen_longest_wait_s,
        seen_longer,
        wait_error_s,
        packets,
    }
}

/// The longest of sorted delays; if a few are far above the rest, the longest of the rest, and the number of
/// those few.
fn longest(sorted: &[f64]) -> (f64, usize) {
    let Some(&last) = sorted.last() else {
        return (0.0, 0);
    };
    let most = sorted[(sorted.len() as f64 * 0.999) as usize];
    if last <= 1.2 * most {
        return (last, 0);
    }
    (
        most,
        sorted.len() - sorted.partition_point(|wait| *wait <= most),
    )
}

#[cfg(test)]
mod tests {
    use whydrop_path::fit::passage::Passage;

    use super::*;

    #[test]
    fn a_bucket_possibly_emptied_before_both_captures_ran_is_empty_at_the_first_loss() {
        use Seen::{Lost, Passed, Unknown};
        // 1000 bytes a millisecond; one of every two packets passes
        let fates = [Unknown, Unknown, Passed, Lost, Passed, Lost, Passed, Lost];
        let passage = |(place, outcome): (usize, &Seen)| Passage {
            arrival_ns: place as i64 * 500_000,
            bytes: 1_000,
            outcome: *outcome,
            transit_ns: (*outcome == Passed).then_some(5_000_000),
            flow: 0,
            marked: false,
        };
        let passages = Passages::new(fates.iter().enumerate().map(passage).collect());
        let bucket = Element::Policer {
            rate_bps: 8_000_000.0,
            burst_bytes: 50_000.0,
            peak: None,
        };
        let replay = replay_over(&passages, bucket, 0, 0.0);
        assert_eq!((replay.dropped, replay.hits), (3, 3));
        // it has filled up since the unknown packets
        let small = Element::Policer {
            rate_bps: 8_000_000_000.0,
            burst_bytes: 50_000.0,
            peak: None,
        };
        assert_eq!(replay_over(&passages, small, 0, 0.0).dropped, 0);
    }
}
