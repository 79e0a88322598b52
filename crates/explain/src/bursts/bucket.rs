//! A token bucket as bursts show it directly. It is full when each burst begins and passes its contents at
//! once; from the first loss on it passes packets at its rate.

use serde::Serialize;
use whydrop_verdict::Quantity;

use super::trains::{Train, weighted_median};
use crate::quantities::CLOCK_ERROR;

/// A token bucket, in IP bytes.
#[derive(Debug, Clone, Serialize)]
pub struct Bucket {
    pub rate_bps: Quantity,
    pub burst_bytes: Quantity,
}

/// Fewer packets after the first loss give no rate.
const FEWEST_REFILLED: f64 = 10.0;

/// The bucket that dropped packets of the bursts, if a bucket did.
pub(super) fn bucket(trains: &[Train]) -> Option<Bucket> {
    let broken: Vec<Broken> = trains.iter().filter_map(Train::broken).collect();
    let sum = |of: fn(&Broken) -> f64| broken.iter().map(of).sum::<f64>();
    let (bytes, seconds) = (sum(|one| one.after_bytes), sum(|one| one.after_s));
    let packet = broken
        .iter()
        .map(|one| one.packet_bytes)
        .fold(0.0, f64::max);
    if seconds <= 0.0 || bytes < FEWEST_REFILLED * packet {
        return None;
    }
    let rate_bps = bytes * 8.0 / seconds;
    // one packet more or less at the end of each burst, and alike in equal bursts
    let rate_error = sum(|one| one.packet_bytes) / bytes + CLOCK_ERROR;
    let bursts: Vec<(f64, f64)> = broken
        .iter()
        // the bucket was short of less than the lost packet
        .map(|one| one.before_bytes - rate_bps / 8.0 * one.before_s + one.packet_bytes / 2.0)
        .map(|burst_bytes| (burst_bytes, 1.0))
        .collect();
    let burst_bytes = weighted_median(&bursts)?;
    let apart: Vec<(f64, f64)> = bursts
        .iter()
        .map(|(burst, _)| ((burst - burst_bytes).abs(), 1.0))
        .collect();
    let longest_s = broken.iter().map(|one| one.before_s).fold(0.0, f64::max);
    let burst_error = packet + weighted_median(&apart)? + rate_error * rate_bps / 8.0 * longest_s;
    let within = |value: f64, error: f64| Quantity {
        value,
        low: Some((value - error).max(0.0)),
        high: Some(value + error),
    };
    Some(Bucket {
        rate_bps: within(rate_bps, rate_error * rate_bps),
        burst_bytes: within(burst_bytes, burst_error),
    })
}

/// A burst that lost packets: bytes and duration of its parts before and after the first loss.
pub(super) struct Broken {
    pub packet_bytes: f64,
    pub before_bytes: f64,
    pub before_s: f64,
    pub after_bytes: f64,
    pub after_s: f64,
}
