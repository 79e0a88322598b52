//! Replays of mechanisms over the packets that entered a hop: the packets that each would have dropped and
//! the delay of the others, compared with what happened.

use whydrop_path::fit::passage::{Passages, measure_departures};
use whydrop_path::fit::{BucketFit, Seen, Trace, unseen_at_start};
use whydrop_path::{Arrival, Ecn, ElementSpec, Header, Outcome, PathElement, PathSpec, settle};
use whydrop_verdict::Fact;

use crate::document::ModelInfo;

/// A packet under a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Modelled {
    /// The level that it finds: tokens in a bucket, or queued bytes; NaN if the model gives none.
    pub level_bytes: f64,
    pub dropped: bool,
    /// It leaves with Congestion Experienced set; all packets count as ECN-capable.
    pub marked: bool,
    /// Time from arrival to departure, less that of a packet of its size that finds the path idle; NaN if
    /// dropped.
    pub wait_s: f64,
}

impl Modelled {
    /// Under a path without elements.
    pub const PASSES: Self = Self {
        level_bytes: f64::NAN,
        dropped: false,
        marked: false,
        wait_s: 0.0,
    };
}

/// A replay compared with what happened.
#[derive(Debug, Clone)]
pub struct Replay {
    pub path: PathSpec,
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
    /// The replay in the form of the document, with the reason that rules it out.
    pub fn info(&self, role: &str, fact: Option<Fact>) -> ModelInfo {
        let first = self.path.elements.first();
        let (limit_bytes, limit_packets, peak) = first.map_or((None, None, None), limits);
        ModelInfo {
            role: role.to_owned(),
            element: first.map_or("", ElementSpec::name).to_owned(),
            rate_bps: self.rate_bps(),
            limit_bytes,
            limit_packets,
            peak_rate_bps: peak.map(|(rate_bps, _)| rate_bps),
            peak_burst_bytes: peak.map(|(_, burst_bytes)| burst_bytes),
            dropped: self.dropped,
            hits: self.hits,
            passed_right: self.passed_right,
            lost: self.lost,
            passed: self.passed,
            longest_wait_s: self.longest_wait_s,
            seen_longest_wait_s: self.seen_longest_wait_s,
            wait_error_s: self.wait_error_s,
            fact,
        }
    }

    /// Rate of the first element that has one, bit/s.
    pub fn rate_bps(&self) -> f64 {
        let mut rates = self.path.elements.iter().filter_map(ElementSpec::rate_bps);
        rates.next().unwrap_or(f64::NAN)
    }

    /// Agreement between its drops and the losses (harmonic mean of both shares).
    pub fn agreement(&self) -> f64 {
        2.0 * self.hits as f64 / (self.dropped + self.lost).max(1) as f64
    }
}

/// Bytes and packets for which the element has room, and the rate and burst of its second bucket.
fn limits(element: &ElementSpec) -> (Option<f64>, Option<f64>, Option<(f64, f64)>) {
    match *element {
        ElementSpec::Policer {
            burst_bytes,
            peak_rate_bps,
            peak_burst_bytes,
            ..
        } => (Some(burst_bytes), None, peak_rate_bps.zip(peak_burst_bytes)),
        ElementSpec::Shaper { burst_bytes, .. } | ElementSpec::LinuxPolice { burst_bytes, .. } => {
            (Some(burst_bytes), None, None)
        }
        ElementSpec::Fifo {
            limit_packets,
            limit_bytes,
            ..
        } => (limit_bytes, limit_packets, None),
        _ => (None, None, None),
    }
}

/// The delay of an idle path above the smallest transit, for [`replay_over`]; 0 if no packet waited.
pub fn idle_wait_s(passages: &Passages) -> f64 {
    measure_departures(passages).map_or(0.0, |departures| departures.idle_wait_s)
}

/// Replays a path over all packets, ignoring what happened to them; `idle_wait_s` is the delay of an idle
/// path.
pub fn replay_over(passages: &Passages, path: PathSpec, idle_wait_s: f64) -> Replay {
    replay_capable(passages, path, idle_wait_s, |_| true)
}

/// The same where not every packet may be marked: `is_capable` is asked with its index.
pub fn replay_capable(
    passages: &Passages,
    path: PathSpec,
    idle_wait_s: f64,
    is_capable: impl Fn(usize) -> bool,
) -> Replay {
    let arrivals: Vec<(Arrival, Header)> = (0..passages.len())
        .map(|index| {
            let arrival = Arrival {
                time_ns: (passages.arrival_s[index] * 1e9).round() as i64,
                bytes: passages.bytes[index] as u32,
            };
            let flow = u64::from(passages.flow[index]);
            (
                arrival,
                Header {
                    flow,
                    ecn: match is_capable(index) {
                        true => Ecn::Ect0,
                        false => Ecn::NotCapable,
                    },
                },
            )
        })
        .collect();
    let full_bytes = passages.mean_bytes();
    let unseen = unseen_at_start(&passages.outcome, &passages.bytes, full_bytes);
    let spent = spent_at(&path, unseen, &arrivals, &passages.outcome);
    let packets = modelled(&path, &arrivals, spent);
    compare(passages, path, packets, idle_wait_s)
}

/// The first loss, if unknown packets may have taken tokens before it and the bucket cannot have filled up
/// since: it was empty then. With two buckets it is unknown which one was empty.
fn spent_at(
    path: &PathSpec,
    unseen: usize,
    arrivals: &[(Arrival, Header)],
    outcome: &[Seen],
) -> Option<Spent> {
    let [
        ElementSpec::Policer {
            rate_bps,
            burst_bytes,
            peak_rate_bps: None,
            overhead_bytes,
            ..
        },
    ] = path.elements[..]
    else {
        return None;
    };
    let last = arrivals.get(unseen.checked_sub(1)?)?.0;
    let place = outcome.iter().position(|seen| *seen == Seen::Lost)?;
    let loss = arrivals[place].0;
    let since_s = loss.time_ns.saturating_sub(last.time_ns) as f64 * 1e-9;
    let left_bytes = u64::from(loss.bytes + overhead_bytes).saturating_sub(1);
    (since_s * rate_bps / 8.0 < burst_bytes).then_some(Spent { place, left_bytes })
}

/// The packet that finds the bucket empty, or nearly.
struct Spent {
    place: usize,
    left_bytes: u64,
}

/// Replay of a token bucket.
pub fn bucket_replayed(passages: &Passages, fit: &BucketFit, idle_wait_s: f64) -> Replay {
    replay_over(passages, policer(fit), idle_wait_s)
}

/// The same over packets that reach the bucket at other times than they entered the hop: those of a trace.
pub fn bucket_over(arrivals: &[Arrival], trace: &Trace, fit: &BucketFit) -> Vec<Modelled> {
    let with_header = |arrival: &Arrival| (*arrival, Header::default());
    let arrivals: Vec<(Arrival, Header)> = arrivals.iter().map(with_header).collect();
    let path = policer(fit);
    let spent = spent_at(&path, trace.unseen_at_start(), &arrivals, &trace.outcome);
    modelled(&path, &arrivals, spent)
}

fn policer(fit: &BucketFit) -> PathSpec {
    ElementSpec::policer(fit.rate_bps.value, fit.limit_bytes.value).into()
}

/// Seed of the random elements of a replayed path.
const SEED: u64 = 1;

fn modelled(
    path: &PathSpec,
    arrivals: &[(Arrival, Header)],
    spent: Option<Spent>,
) -> Vec<Modelled> {
    let mut element = path.assemble(SEED);
    let mut levels = Vec::with_capacity(arrivals.len());
    let mut outcomes = Vec::with_capacity(arrivals.len());
    for (place, (arrival, header)) in arrivals.iter().enumerate() {
        if let Some(spent) = spent.as_ref().filter(|spent| spent.place == place) {
            element.spend_to(spent.left_bytes, arrival.time_ns);
        }
        levels.push(element.level_bytes_at(arrival.time_ns));
        outcomes.push(element.arrive_with(*arrival, *header));
    }
    let idle = (path.idle_s_per_byte(), path.constant_s());
    let outcomes = settle(&mut *element, outcomes).into_iter();
    let packets = levels.into_iter().zip(outcomes).zip(arrivals);
    packets
        .map(|((level_bytes, outcome), (arrival, _))| Modelled {
            level_bytes,
            dropped: outcome.is_dropped(),
            marked: matches!(outcome, Outcome::Marked { .. }),
            wait_s: wait_s(arrival, outcome, idle),
        })
        .collect()
}

fn wait_s(arrival: &Arrival, outcome: Outcome, (s_per_byte, constant_s): (f64, f64)) -> f64 {
    outcome.departure_ns().map_or(f64::NAN, |departure_ns| {
        let inside_s = (departure_ns - arrival.time_ns) as f64 * 1e-9;
        (inside_s - f64::from(arrival.bytes) * s_per_byte - constant_s).max(0.0)
    })
}

fn compare(
    passages: &Passages,
    path: PathSpec,
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
        path,
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
        let bucket = ElementSpec::policer(8_000_000.0, 50_000.0);
        let replay = replay_over(&passages, bucket.into(), 0.0);
        assert_eq!((replay.dropped, replay.hits), (3, 3));
        // it has filled up since the unknown packets
        let small = ElementSpec::policer(8_000_000_000.0, 50_000.0);
        assert_eq!(replay_over(&passages, small.into(), 0.0).dropped, 0);
    }
}
