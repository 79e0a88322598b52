//! Hops replayed over arrivals and measured from both sides: their parameters are recovered.

use super::{Passage, Passages, backlog_at_losses, flow_overtaking, measure_departures};
use crate::fit::Seen;
use crate::{Arrival, Fifo, InService, Limit, Outcome, PathElement, Random, overhead, replay};

const MBIT: u64 = 1_000_000;

/// Bursts of mostly full packets with pauses, at 1 Gbit/s; every eleventh packet is small.
fn bursts(seed: u64, most_in_burst: u64, pause_ns: u64) -> Vec<Arrival> {
    let mut random = Random::new(seed);
    let (mut time_ns, mut arrivals) = (0i64, Vec::new());
    for _ in 0..150 {
        time_ns += random.below(pause_ns) as i64;
        for packet in 0..2 + random.below(most_in_burst) {
            time_ns += 12_000;
            let bytes = if packet % 11 == 7 { 120 } else { 1500 };
            arrivals.push(Arrival { time_ns, bytes });
        }
    }
    arrivals
}

/// The passages that two points see of arrivals that pass an element; `seen` selects those that they see at
/// all, `late_ns` is added to each departure.
fn passages(
    arrivals: &[Arrival],
    element: &mut dyn PathElement,
    seen: impl Fn(usize) -> bool,
    mut late_ns: impl FnMut() -> i64,
) -> Passages {
    let outcomes = replay(element, arrivals);
    let rows = arrivals.iter().zip(outcomes).enumerate();
    let rows = rows.filter(|(index, _)| seen(*index));
    Passages::new(
        rows.map(|(_, (arrival, outcome))| passage(arrival, outcome, late_ns()))
            .collect(),
    )
}

fn passage(arrival: &Arrival, outcome: Outcome, late_ns: i64) -> Passage {
    let departure_ns = outcome.departure_ns();
    Passage {
        arrival_ns: arrival.time_ns,
        bytes: arrival.bytes,
        outcome: if departure_ns.is_some() {
            Seen::Passed
        } else {
            Seen::Lost
        },
        transit_ns: departure_ns.map(|departure_ns| departure_ns - arrival.time_ns + late_ns),
        flow: 0,
        marked: false,
    }
}

fn fifo(rate_bps: u64, limit: u64, overhead_bytes: u32) -> Fifo {
    Fifo::new(rate_bps, Limit::packets(limit))
        .with_in_service(InService::Counted)
        .with_overhead(overhead_bytes)
}

#[test]
fn departures_give_the_rate_and_the_overhead_of_a_queue() {
    for (overhead_bytes, rate) in [
        (overhead::IP, 50),
        (overhead::ETHERNET, 80),
        (overhead::WIRE, 20),
    ] {
        let mut hop = fifo(rate * MBIT, 60, overhead_bytes);
        let passages = passages(&bursts(1, 60, 20_000_000), &mut hop, |_| true, || 0);
        let found = measure_departures(&passages).expect("packets wait");
        let counted = found
            .rate_with_overhead(f64::from(overhead_bytes), 1500.0)
            .value;
        assert!(
            (counted / (rate * MBIT) as f64 - 1.0).abs() < 0.002,
            "{found:?}"
        );
        let overhead = found.overhead_bytes.expect("there are small packets");
        assert!(
            (overhead.value - f64::from(overhead_bytes)).abs() < 2.0,
            "{overhead:?}"
        );
        assert_eq!(found.unseen_share, 0.0);
        assert_eq!(found.full_bytes, 1_500.0);
    }
}

/// The same with full packets only.
fn full(mut arrivals: Vec<Arrival>) -> Vec<Arrival> {
    arrivals.iter_mut().for_each(|arrival| arrival.bytes = 1500);
    arrivals
}

#[test]
fn every_lost_packet_finds_the_queue_full() {
    for limit in [3, 20, 47] {
        // a link takes the next packet out of its queue: the one in service takes up no place in it
        let mut hop = Fifo::new(60 * MBIT, Limit::packets(limit));
        let passages = passages(&full(bursts(2, 120, 30_000_000)), &mut hop, |_| true, || 0);
        let backlog = backlog_at_losses(&passages, 0.0).expect("packets are lost");
        let (low, high) = (backlog.packets.low.unwrap(), backlog.packets.high.unwrap());
        assert_eq!(
            (low, backlog.packets.value, high),
            (limit as f64, limit as f64, limit as f64)
        );
        // a place may become free in the very nanosecond in which another packet arrives
        assert!(backlog.most_passed_packets <= limit as f64, "{backlog:?}");
        assert!(backlog.misfits_packets * 50 < backlog.losses, "{backlog:?}");
        assert!(backlog.deviations > 4.0, "{}", backlog.deviations);
    }
}

#[test]
fn timestamp_noise_moves_the_rate_by_less_than_a_hundredth() {
    let mut random = Random::new(4);
    let mut hop = fifo(60 * MBIT, 200, 0);
    let arrivals = bursts(3, 400, 120_000_000);
    let passages = passages(
        &arrivals,
        &mut hop,
        |_| true,
        || random.below(300_000) as i64,
    );
    let found = measure_departures(&passages).expect("packets wait");
    assert!(
        (found.rate_bps.value / 60e6 - 1.0).abs() < 0.01,
        "{found:?}"
    );
    let (low, high) = (found.rate_bps.low.unwrap(), found.rate_bps.high.unwrap());
    assert!(low < 60e6 && 60e6 < high, "{found:?}");
}

#[test]
fn the_rate_is_that_of_most_packets_where_a_few_gaps_are_equal() {
    // 600 us for a packet, to 0.1 us; of eight gaps, three are 599 us exactly and one is 603 us
    let mut late_ns = [3_000, 2_000, 1_000, 0, 100, 0, 100, 0].into_iter().cycle();
    let passages = passages(
        &full(bursts(9, 60, 20_000_000)),
        &mut fifo(20 * MBIT, 10_000, 0),
        |_| true,
        || late_ns.next().unwrap_or_default(),
    );
    let found = measure_departures(&passages).expect("packets wait");
    assert!(
        (found.rate_bps.value / 20e6 - 1.0).abs() < 5e-4,
        "{found:?}"
    );
}

/// A sender that keeps a few packets queued at 20 Mbit/s, and a hop that serves none for 45 ms, twice, and then
/// all that waited for it at once, as a machine does that others share.
fn paused() -> Passages {
    const PAUSE_NS: i64 = 45_000_000;
    let mut random = Random::new(11);
    let mut hop = fifo(20 * MBIT, 200, 0);
    let mut arrivals: Vec<Arrival> = (0..8_000)
        .map(|packet| Arrival {
            time_ns: packet * 600_000 + random.below(5 * 600_000) as i64,
            bytes: 1500,
        })
        .collect();
    arrivals.sort_by_key(|arrival| arrival.time_ns);
    let mut last_ns = 0;
    let rows = arrivals.iter().zip(replay(&mut hop, &arrivals));
    let rows = rows.map(|(arrival, outcome)| {
        let left_ns = outcome.departure_ns().expect("no queue overflows");
        let pause_ns = [1_000_000_000, 3_000_000_000]
            .into_iter()
            .find(|begin_ns| (*begin_ns..begin_ns + PAUSE_NS).contains(&left_ns));
        last_ns = (last_ns + 2_000).max(pause_ns.map_or(left_ns, |begin_ns| begin_ns + PAUSE_NS));
        passage(arrival, Outcome::Departs { time_ns: last_ns }, 0)
    });
    Passages::new(rows.collect())
}

#[test]
fn a_hop_that_pauses_keeps_its_rate_and_its_short_waits() {
    let found = measure_departures(&paused()).expect("packets wait");
    assert!(
        (found.rate_bps.value / 20e6 - 1.0).abs() < 0.005,
        "{found:?}"
    );
    assert!(found.idle_wait_s < 100e-6, "{found:?}");
    assert!(found.served > 2_000, "{found:?}");
}

#[test]
fn unseen_packets_show_in_the_gaps_that_they_leave() {
    let arrivals = bursts(5, 100, 20_000_000);
    // every third packet is other traffic and leaves before the second point; all are of one size
    let arrivals: Vec<Arrival> = arrivals
        .iter()
        .map(|arrival| Arrival {
            bytes: 1500,
            ..*arrival
        })
        .collect();
    let mut hop = fifo(90 * MBIT, 300, 0);
    let passages = passages(&arrivals, &mut hop, |index| index % 3 != 2, || 0);
    let found = measure_departures(&passages).expect("packets wait");
    assert!(
        (found.rate_bps.value / 90e6 - 1.0).abs() < 0.01,
        "{found:?}"
    );
    assert!((found.unseen_share - 1.0 / 3.0).abs() < 0.05, "{found:?}");
}

#[test]
fn a_queue_full_of_other_traffic_has_no_long_idle_delay() {
    // bursts of one to three packets, and twice as many packets of others that leave before the second point
    let mut random = Random::new(12);
    let other = (0..10_000i64).map(|packet| (packet * 440_000, false));
    let seen = (0..2_500i64).flat_map(|burst| {
        let time_ns = burst * 1_760_000 + random.below(1_500_000) as i64;
        (0..=random.below(3) as i64).map(move |packet| (time_ns + packet * 12_000, true))
    });
    let mut all: Vec<(i64, bool)> = other.chain(seen).collect();
    all.sort_by_key(|(time_ns, _)| *time_ns);
    let arrivals: Vec<Arrival> = (all.iter())
        .map(|&(time_ns, _)| Arrival {
            time_ns,
            bytes: 1500,
        })
        .collect();
    let mut hop = fifo(40 * MBIT, 60, 0);
    let passages = passages(&arrivals, &mut hop, |index| all[index].1, || 0);
    let found = measure_departures(&passages).expect("packets wait");
    assert!((found.unseen_share - 2.0 / 3.0).abs() < 0.05, "{found:?}");
    assert!(found.idle_wait_s < 0.2 * found.long_wait_s, "{found:?}");
}

#[test]
fn random_scatter_of_transit_times_is_no_queue() {
    let mut random = Random::new(7);
    let arrivals = bursts(6, 60, 20_000_000);
    let (mut last_ns, rows) = (0i64, arrivals.iter());
    let scattered = rows.map(|arrival| {
        // in order, like jitter on one path
        last_ns = (last_ns + 1_000).max(arrival.time_ns + random.below(2_000_000) as i64);
        passage(arrival, Outcome::Departs { time_ns: last_ns }, 0)
    });
    let passages = Passages::new(scattered.collect());
    assert_eq!(measure_departures(&passages), None);
}

#[test]
fn a_queue_for_each_flow_lets_flows_overtake_and_packets_of_one_flow_not() {
    // a bulk flow's packets leave every 200 us from a backlog; another flow's packets occasionally pass at
    // once
    let mut rows = Vec::new();
    for packet in 0..500i64 {
        let arrival_ns = packet * 190_000;
        rows.push(Passage {
            arrival_ns,
            bytes: 1500,
            outcome: Seen::Passed,
            transit_ns: Some(5_000_000 + packet * 10_000),
            flow: 0,
            marked: false,
        });
        if packet % 50 == 25 {
            rows.push(Passage {
                arrival_ns: arrival_ns + 1_000,
                bytes: 60,
                outcome: Seen::Passed,
                transit_ns: Some(100_000),
                flow: 1,
                marked: false,
            });
        }
    }
    let found = flow_overtaking(&Passages::new(rows), 0.0);
    assert_eq!(
        (found.between_flows, found.within_flows, found.chances),
        (10, 0, 10)
    );
}

#[test]
fn a_passed_packet_without_a_captured_departure_still_takes_its_place() {
    let mut hop = Fifo::new(60 * MBIT, Limit::packets(20));
    let arrivals = bursts(8, 120, 30_000_000);
    let mut seen = passages(&arrivals, &mut hop, |_| true, || 0);
    for index in (0..seen.len()).filter(|index| index % 4 == 1) {
        seen.wait_s[index] = f64::NAN;
    }
    let backlog = backlog_at_losses(&seen, 0.0).expect("packets are lost");
    assert!((backlog.packets.value - 20.0).abs() <= 1.0, "{backlog:?}");
}

#[test]
fn super_segments_leave_a_line_piece_by_piece() {
    // four packets at one moment, through a line of 12 Mbit/s (1 ms each), then a hop that takes 2 ms for each
    let rows = (0..4i64).map(|piece| Passage {
        arrival_ns: 0,
        bytes: 1500,
        outcome: Seen::Passed,
        transit_ns: Some(3_000_000 + piece * 2_000_000),
        flow: 0,
        marked: false,
    });
    let through = Passages::new(rows.collect()).through_line(12e6);
    let waits_ms: Vec<f64> = through
        .wait_s
        .iter()
        .map(|wait| (wait * 1e3).round())
        .collect();
    assert_eq!(waits_ms, [0.0, 1.0, 2.0, 3.0]);
    assert!((through.shortest_transit_s - 0.002).abs() < 1e-9);
}
