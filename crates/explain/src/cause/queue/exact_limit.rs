//! The limit of a queue, counted between two captures: the packets that lost ones found in it.

use whydrop_path::fit::passage::BacklogAtLosses;
use whydrop_verdict::Quantity;

use crate::cause::Parameters;
use crate::observe::{ByteBasis, Exact, MOST_NOISE_S, Observation};
use crate::quantities::{WIRE_OVERHEAD_BYTES, drain_rate_between};
use crate::thresholds::LEAST_CAPTURED_SHARE;

/// Drain rate and limit, and the byte basis if known; `None` without departures.
pub fn between(seen: &Observation, exact: &Exact) -> Option<(Parameters, Option<ByteBasis>)> {
    let basis = exact.drain_basis();
    let rate = drain_rate_between(seen, exact, basis)?;
    let mut parameters = Parameters::from([("drain_rate_bps".to_owned(), rate)]);
    // packets that captures lack were in the queue as well
    let missed = 1.0 / (1.0 - exact.missed_share).max(LEAST_CAPTURED_SHARE);
    let unseen = exact
        .departures
        .as_ref()
        .is_some_and(|departures| departures.unseen_share > 0.0);
    match &exact.backlog {
        Some(backlog) if !unseen => {
            // a limit in packets and one in bytes are indistinguishable if all packets are full: then both
            // are given
            let in_packets = backlog.misfits_packets <= 2 * backlog.misfits_bytes;
            let in_bytes = backlog.misfits_bytes <= 2 * backlog.misfits_packets;
            let packets = backlog.packets.value.max(1.0);
            if in_packets || !in_bytes {
                parameters.insert(
                    "limit_packets".to_owned(),
                    Quantity {
                        value: packets,
                        low: Some((backlog.packets.low.unwrap_or(packets) - 1.0).max(1.0)),
                        high: Some((backlog.packets.high.unwrap_or(packets) * missed).ceil() + 1.0),
                    },
                );
            }
            if in_bytes || !in_packets {
                let overhead = f64::from(basis.map_or(0, ByteBasis::overhead_bytes));
                // a packet in service may count until it has left completely, and drains within the timestamp
                // variation
                let drained = rate.value / 8.0 * exact.noise_s.min(MOST_NOISE_S);
                let packet_bytes = f64::from(seen.group_trace.trace.largest_bytes);
                let limit = ExactLimit {
                    backlog,
                    packet_bytes,
                    drained: drained.min(packet_bytes),
                    missed,
                };
                let most = basis.map_or(WIRE_OVERHEAD_BYTES, |_| overhead);
                parameters.insert("limit_bytes".to_owned(), limit.limit(overhead, most));
            }
        }
        _ => parameters.extend(limits_by_wait(seen, exact, rate)),
    }
    Some((parameters, basis))
}

/// A limit in bytes, from the queue that lost packets found.
struct ExactLimit<'a> {
    backlog: &'a BacklogAtLosses,
    /// The largest packet.
    packet_bytes: f64,
    /// Bytes that leave within the timestamp variation.
    drained: f64,
    /// Bytes that passed, as a multiple of those that were captured.
    missed: f64,
}

impl ExactLimit<'_> {
    /// The limit if the element counts `overhead` bytes on top of each packet, or up to `most`.
    fn limit(&self, overhead: f64, most: f64) -> Quantity {
        let limit = self.backlog.limit_bytes;
        // the packets in a full queue, and the one that was not admitted: they are larger than others
        let packets = self.backlog.packets.value + 1.0;
        let mean_bytes = self.backlog.with_packet_bytes.value / packets;
        let mean_bytes = mean_bytes.clamp(1.0, self.packet_bytes);
        let counted = |bytes: f64, overhead: f64| bytes * (1.0 + overhead / mean_bytes);
        // other traffic may have been in the queue at times, but no larger packets
        let least = |bytes: f64| bytes * (1.0 + overhead / self.packet_bytes);
        let unsure = self.packet_bytes + self.drained;
        Quantity {
            value: counted(limit.value, overhead),
            low: (limit.low).map(|low| least(low - unsure).max(0.0)),
            // the delay of a lone packet, which is subtracted from all, may or may not include its
            // transmission time: with the packet in service, the queue may hold two packets more than the
            // delays show
            high: (limit.high)
                .map(|high| counted(high * self.missed + unsure + self.packet_bytes, most)),
        }
    }
}

/// If other traffic shares the queue, the queue holds more than the captured packets: its contents at a drop
/// follow from the delay just before, at the rate at which it drains.
fn limits_by_wait(seen: &Observation, exact: &Exact, rate: Quantity) -> Vec<(String, Quantity)> {
    let Some(at_loss) = &seen.at_loss else {
        return Vec::new();
    };
    let packet_bytes = seen.packet_bytes();
    let backlog =
        |wait_s: f64| (wait_s - exact.idle_wait_s()).max(0.0) * rate.value / 8.0 + packet_bytes;
    let bytes = Quantity {
        value: backlog(at_loss.median_s),
        low: Some((backlog(at_loss.low_s) - packet_bytes).max(0.0)),
        high: Some(backlog(at_loss.high_s) + packet_bytes),
    };
    let packets = Quantity {
        value: (bytes.value / packet_bytes).round(),
        low: bytes.low.map(|low| (low / packet_bytes).floor()),
        high: bytes.high.map(|high| (high / packet_bytes).ceil()),
    };
    vec![
        ("limit_bytes".to_owned(), bytes),
        ("limit_packets".to_owned(), packets),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::interval;

    #[test]
    fn a_limit_counts_the_overhead_of_the_packets_that_fill_it() {
        let backlog = BacklogAtLosses {
            packets: interval(98.0, 99.0, 99.0),
            with_packet_bytes: interval(149e3, 150e3, 150e3),
            limit_bytes: interval(149e3, 149.5e3, 150e3),
            most_passed_packets: 98.0,
            misfits_packets: 0,
            misfits_bytes: 0,
            losses: 20,
            passed_with_more: 0,
            mean_rank: 1.0,
            found_empty: 0.0,
            near_median: 1.0,
            deviations: 0.0,
            average_deviations: 0.0,
        };
        let seen = ExactLimit {
            backlog: &backlog,
            packet_bytes: 1_500.0,
            drained: 100.0,
            missed: 1.0,
        };
        let limit = seen.limit(15.0, 15.0);
        // a hundredth of full packets, whatever small packets pass at other times
        assert!((limit.value - 149.5e3 * 1.01).abs() < 1.0, "{limit:?}");
        assert!((limit.low.unwrap() - 147.4e3 * 1.01).abs() < 1.0);
        // one in service, and one hidden by the delay of a lone packet
        assert!((limit.high.unwrap() - 153.1e3 * 1.01).abs() < 1.0);
    }
}
