//! Detection of full queues from the contents that lost packets found.

use whydrop_path::fit::Interval;
use whydrop_path::fit::passage::BacklogAtLosses;

/// Lost packets found the queue full if all found equal contents: within this many packets, or this share ...
const FULL_PACKETS: f64 = 2.0;
const FULL_SHARE: f64 = 0.05;
/// ... if nearly all other packets found less (if most are lost, most find it full) ...
const FULL_RANK: f64 = 0.9;
/// ... and if it was this share of the most that any packet found; a limit in bytes lets small packets in on
/// top.
pub(super) const FULL_OF_MOST: f64 = 0.8;
/// Fewer packets in the hop are no queue.
pub(super) const FEWEST_INSIDE: f64 = 2.0;

/// True if every lost packet found the same number of packets (or bytes) queued, and that was the maximum;
/// `lost_share` of all packets were lost.
pub fn full_queue(backlog: &BacklogAtLosses, lost_share: f64) -> bool {
    let spread = |interval: Interval, unit: f64| {
        let (low, high) = (
            interval.low.unwrap_or(0.0),
            interval.high.unwrap_or(f64::MAX),
        );
        high - low <= (FULL_PACKETS * unit).max(FULL_SHARE * interval.value)
    };
    let packet_bytes = backlog.with_packet_bytes.value / (backlog.packets.value + 1.0);
    let alike = spread(backlog.packets, 1.0) || spread(backlog.with_packet_bytes, packet_bytes);
    backlog.losses >= 3
        && alike
        && backlog.packets.value >= FEWEST_INSIDE
        && backlog.mean_rank > FULL_RANK * (1.0 - lost_share / 2.0)
        && backlog.packets.value >= FULL_OF_MOST * backlog.most_passed_packets
}
