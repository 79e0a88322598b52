//! The line through which super-segments leave the sender.
//!
//! A capture at the sender shows up to 64 kB at one moment; on the wire they follow each other at the rate of
//! the interface. Departures behind a queue do not show that rate, since the queue sets their spacing; the
//! losses within each super-segment do.

use whydrop_path::fit::passage::{
    Passages, backlog_at_losses, measure_departures, packets_at_losses,
};
use whydrop_path::fit::{score_near, search_bucket};

use super::full_queue::full_queue;

/// Least number of pieces in a super-segment that shows the rate of a line, and the number that averages out
/// jitter.
const FEWEST_PIECES: usize = 3;
const MANY_PIECES: usize = 10;
/// With fewer such super-segments the line is unknown.
const FEWEST_SUPER_SEGMENTS: usize = 5;
/// Largest rate to try, as a multiple of the slowest possible one, in steps of a tenth; a faster line hardly
/// matters.
const FASTEST: f64 = 12.0;
const STEP: f64 = 1.1;
/// A bucket that leaves more than this share of the uncertainty about the losses shows nothing about the
/// line.
const BUCKET_DECIDES: f64 = 0.6;
/// Final steps around the best rate.
const FINE: [f64; 4] = [0.955, 0.98, 1.02, 1.045];

/// The line's rate in bit/s, and the packets as they leave it. `None` if no super-segments show it.
pub fn find(passages: &Passages) -> Option<(f64, Passages)> {
    let slowest_bps = not_overtaken(passages, slowest_bps(passages)?);
    // if whole super-segments wait, a queue on the path spaces their pieces, not the sender's line
    let no_line = queue_holds_super_segments(passages, slowest_bps);
    let otherwise = || (!no_line).then(|| (slowest_bps, passages.through_line(slowest_bps)));
    if passages.lost == 0 {
        return otherwise();
    }
    let steps = (FASTEST.ln() / STEP.ln()) as i32;
    let rates: Vec<f64> = (-1..=steps)
        .map(|step| slowest_bps * STEP.powi(step))
        .collect();
    let best_bps =
        best_for_a_full_queue(passages, &rates).or_else(|| best_for_a_bucket(passages, &rates));
    match best_bps {
        Some(best_bps) => Some((best_bps, passages.through_line(best_bps))),
        None => otherwise(),
    }
}

/// True if the first pieces of a quarter of the super-segments wait for longer than it takes to send a
/// typical one.
fn queue_holds_super_segments(passages: &Passages, line_bps: f64) -> bool {
    let first =
        |index: &usize| *index == 0 || passages.arrival_s[*index] != passages.arrival_s[*index - 1];
    let firsts: Vec<usize> = (0..passages.len()).filter(first).collect();
    let mut waits: Vec<f64> = firsts
        .iter()
        .map(|index| passages.wait_s[*index])
        .filter(|wait| !wait.is_nan())
        .collect();
    waits.sort_by(f64::total_cmp);
    let bytes: f64 = passages.bytes.iter().map(|bytes| f64::from(*bytes)).sum();
    let typical_s = bytes / firsts.len().max(1) as f64 * 8.0 / line_bps;
    waits
        .get(waits.len() * 3 / 4)
        .is_some_and(|wait| *wait > typical_s)
}

/// The line behind which all lost packets find a queue equally full, if there is one.
fn best_for_a_full_queue(passages: &Passages, rates: &[f64]) -> Option<f64> {
    // losses in one place look the same behind any line
    if passages.lost < 5 {
        return None;
    }
    let spread = |rate_bps: f64| {
        let through = passages.through_line(rate_bps);
        let departures = measure_departures(&through)?;
        let backlog = packets_at_losses(&through, departures.idle_wait_s)?;
        let spread = backlog.packets.high? - backlog.packets.low?;
        Some(spread + backlog.misfits as f64 / backlog.losses as f64)
    };
    let coarse_bps = least(rates, spread)?;
    let near: Vec<f64> = FINE
        .iter()
        .map(|factor| coarse_bps * factor)
        .chain([coarse_bps])
        .collect();
    let best_bps = least(&near, spread)?;
    let through = passages.through_line(best_bps);
    let departures = measure_departures(&through)?;
    let backlog = backlog_at_losses(&through, departures.idle_wait_s)?;
    full_queue(&backlog, through.lost_share()).then_some(best_bps)
}

/// The lowest rate at which no packet leaves more than a typical packet's time before the line has sent it.
/// If whole super-segments wait, the path spaces their pieces too, more widely than the line.
fn not_overtaken(passages: &Passages, slowest_bps: f64) -> f64 {
    let is_overtaken = |rate_bps: f64| {
        let through = passages.through_line(rate_bps);
        let ahead_s = passages.shortest_transit_s - through.shortest_transit_s;
        ahead_s > passages.mean_bytes() * 8.0 / rate_bps
    };
    let steps = (FASTEST.ln() / STEP.ln()) as i32;
    let rates = (0..=steps).map(|step| slowest_bps * STEP.powi(step));
    let mut possible = rates.skip_while(|rate_bps| is_overtaken(*rate_bps));
    possible.next().unwrap_or(slowest_bps)
}

/// The rate with the least value, among those that have a value.
fn least(rates: &[f64], value: impl Fn(f64) -> Option<f64>) -> Option<f64> {
    rates
        .iter()
        .filter_map(|rate| Some((*rate, value(*rate)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(rate, _)| rate)
}

/// The line behind which a token bucket explains the losses best.
fn best_for_a_bucket(passages: &Passages, rates: &[f64]) -> Option<f64> {
    let trace = |rate_bps: f64| passages.through_line(rate_bps).trace(0);
    // first the best of a few rates far apart ...
    let known = rates
        .iter()
        .step_by(4)
        .filter_map(|rate| search_bucket(&trace(*rate), None))
        .max_by(|a, b| a.score().total_cmp(&b.score()))?;
    if known.left_open() > BUCKET_DECIDES {
        return None;
    }
    // ... then those between them, and finally those around the best
    let worse = |rate_bps: f64| Some(-score_near(&trace(rate_bps), &known));
    let coarse_bps = least(rates, worse)?;
    let near: Vec<f64> = FINE
        .iter()
        .map(|factor| coarse_bps * factor)
        .chain([coarse_bps])
        .collect();
    least(&near, worse)
}

/// The lowest possible rate of the line: the spacing of the pieces of long super-segments at their departure,
/// the fastest quarter, since slower links on the path can only stretch them.
fn slowest_bps(passages: &Passages) -> Option<f64> {
    let mut paces = paces(passages, MANY_PIECES);
    if paces.len() < FEWEST_SUPER_SEGMENTS {
        paces = self::paces(passages, FEWEST_PIECES);
    }
    if paces.len() < FEWEST_SUPER_SEGMENTS {
        return None;
    }
    paces.sort_by(f64::total_cmp);
    Some(8.0 / paces[paces.len() / 4])
}

/// Seconds per byte from the first to the last captured piece of each super-segment with at least this many
/// pieces.
fn paces(passages: &Passages, fewest: usize) -> Vec<f64> {
    let together = |a: &usize, b: &usize| {
        passages.arrival_s[*a] == passages.arrival_s[*b] && passages.flow[*a] == passages.flow[*b]
    };
    let indices: Vec<usize> = (0..passages.len()).collect();
    indices
        .chunk_by(together)
        .filter(|pieces| pieces.len() >= fewest)
        .filter_map(|pieces| {
            let seen = |index: &&usize| !passages.wait_s[**index].is_nan();
            let (first, last) = (*pieces.iter().find(seen)?, *pieces.iter().rfind(seen)?);
            // lost pieces took time on the line too
            let bytes: f64 = (first + 1..=last)
                .map(|index| f64::from(passages.bytes[index]))
                .sum();
            let pace = (passages.wait_s[last] - passages.wait_s[first]) / bytes;
            (bytes > 0.0 && pace > 0.0).then_some(pace)
        })
        .collect()
}
