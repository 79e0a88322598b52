use super::*;
use whydrop_path::{Arrival, Fifo, Limit, Outcome, PathElement, Policer};

/// Bursts of two sizes at 100 Mbit/s, of as many bytes, one every second or twice as long as it takes, through a hop and 5 ms
/// of path by a clock that is 3 s ahead.
fn through(hop: &mut impl PathElement, packets: u32) -> Bursts {
    let every_ns = (2 * i64::from(packets) * 120_000).max(1_000_000_000);
    let mut rows = Vec::new();
    for burst in 0..8_u32 {
        let ip_bytes = if burst % 2 == 0 { 1500 } else { 375 };
        let gap_ns = i64::from(ip_bytes) * 80;
        let count = packets * 1500 / ip_bytes;
        for place in 0..count {
            let left_ns = i64::from(burst) * every_ns + i64::from(place) * gap_ns;
            let outcome = hop.arrive(Arrival {
                time_ns: left_ns,
                bytes: ip_bytes,
            });
            rows.push(BurstPacket {
                lot: burst,
                burst,
                left_ns,
                arrived_ns: outcome.departure_ns().map(|out_ns| out_ns + 3_005_000_000),
                ip_bytes,
                marked: false,
            });
        }
    }
    explain_bursts(&rows).unwrap()
}

fn cause(bursts: &Bursts) -> &str {
    &bursts.verdict.as_ref().unwrap().cause
}

fn parameter(bursts: &Bursts, name: &str) -> Option<f64> {
    let parameters = &bursts.verdict.as_ref().unwrap().parameters;
    parameters.get(name).map(|quantity| quantity.value)
}

#[test]
fn a_limit_in_packets_is_found_to_the_packet_and_told_from_one_in_bytes() {
    for (limit, step) in [(20, 10.0), (45, 1.1), (300, 1.1)] {
        let mut hop = Fifo::new((100e6 / step) as u64, Limit::packets(limit));
        let found = through(&mut hop, 3 * (limit as f64 / (1.0 - 1.0 / step)) as u32);
        let found_limit = found.limit.as_ref().unwrap();
        assert_eq!(found_limit.limited_by, Some("packets"));
        let packets = found_limit.packets.value;
        assert!(
            (packets - limit as f64).abs() <= 1.0,
            "{packets} of {limit}"
        );
        let rate = found.drain_rate_bps.unwrap();
        assert!((rate.value / (100e6 / step) - 1.0).abs() < 1e-3, "{rate:?}");
    }
}

#[test]
fn a_limit_in_bytes_is_found_to_the_packet_and_told_from_one_in_packets() {
    for (limit, step) in [(30_000, 10.0), (70_000, 1.1), (250_000, 1.1)] {
        let mut hop = Fifo::new((100e6 / step) as u64, Limit::bytes(limit));
        let large = (limit / 1500) as f64;
        let found = through(&mut hop, 3 * (large / (1.0 - 1.0 / step)) as u32);
        let found_limit = found.limit.as_ref().unwrap();
        assert_eq!(found_limit.limited_by, Some("bytes"));
        let bytes = found_limit.bytes.value;
        assert!((bytes - limit as f64).abs() <= 375.0, "{bytes} of {limit}");
    }
}

#[test]
fn a_policer_is_told_from_a_queue_with_its_rate_and_burst() {
    for burst_bytes in [15_000, 60_000, 250_000] {
        let mut hop = Policer::new(20_000_000, burst_bytes);
        let found = through(&mut hop, 4 * burst_bytes as u32 / 1500);
        assert_eq!(cause(&found), "policer");
        let rate = parameter(&found, "rate_bps").unwrap();
        assert!((rate / 20e6 - 1.0).abs() < 0.01, "{rate}");
        let burst = parameter(&found, "burst_bytes").unwrap();
        assert!((burst - burst_bytes as f64).abs() <= 1500.0, "{burst}");
    }
}

#[test]
fn a_queue_that_was_never_full_has_a_rate_and_a_lower_bound() {
    let mut hop = Fifo::new(10_000_000, Limit::NONE);
    let found = through(&mut hop, 100);
    assert!(found.verdict.is_none());
    assert!(
        (found.most_packets - 360.0).abs() < 2.0,
        "{}",
        found.most_packets
    );
    assert!((found.drain_rate_bps.unwrap().value / 10e6 - 1.0).abs() < 1e-3);
    assert!(found.burst_bytes.is_none());
}

#[test]
fn a_path_as_fast_as_its_line_holds_nothing_up() {
    let mut hop = Fifo::new(1_000_000_000, Limit::packets(3));
    let found = through(&mut hop, 100);
    assert_eq!((found.lost, found.drain_rate_bps.is_none()), (0, true));
    assert!(matches!(
        hop.arrive(Arrival {
            time_ns: 0,
            bytes: 1
        }),
        Outcome::Departs { .. }
    ));
}
