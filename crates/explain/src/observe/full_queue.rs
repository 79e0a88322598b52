//! Detection of full queues from the contents that lost packets found.

use whydrop_path::fit::Interval;
use whydrop_path::fit::passage::BacklogAtLosses;

use crate::thresholds::*;

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
    backlog.losses as u64 >= FEWEST_LOSSES
        && alike
        && backlog.packets.value >= FEWEST_QUEUED_PACKETS
        && backlog.mean_rank > FULL_RANK * (1.0 - lost_share / 2.0)
        && backlog.packets.value >= FULL_OF_MOST_SHARE * backlog.most_passed_packets
}
