//! Properties of every path element, or of every element of a kind, for any arrivals.

use proptest::prelude::*;
use whydrop_path::{
    Arrival, Batches, Cake, Chain, CoDel, Decision, Delay, DualPi2, Fifo, FqCoDel, FqPie,
    InService, Jitter, Limit, LinuxPolice, Outage, Outcome, PathElement, Pie, Policer, RandomLoss,
    Red, Shaper, SingleRateThreeColour, TickShaper, TwoRateThreeColour, overhead, replay,
};

/// Arrivals sorted by time, in clumps and with pauses.
fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let gap_ns = prop_oneof![3 => Just(0i64), 3 => 0..2_000_000i64, 1 => 0..200_000_000i64];
    prop::collection::vec((gap_ns, 1u32..=3_000), 1..150).prop_map(|steps| {
        let mut time_ns = 1_000_000_000;
        let step = |(gap_ns, bytes)| {
            time_ns += gap_ns;
            Arrival { time_ns, bytes }
        };
        steps.into_iter().map(step).collect()
    })
}

/// Arrivals at arbitrary times, forwards and backwards.
fn unordered() -> impl Strategy<Value = Vec<Arrival>> {
    let time_ns = prop_oneof![
        Just(i64::MIN),
        Just(i64::MAX),
        any::<i64>(),
        0..10_000_000i64
    ];
    let bytes = prop_oneof![Just(0), Just(u32::MAX), 1u32..=3_000];
    prop::collection::vec(
        (time_ns, bytes).prop_map(|(time_ns, bytes)| Arrival { time_ns, bytes }),
        1..60,
    )
}

fn limit() -> impl Strategy<Value = Limit> {
    (
        prop::option::of(1u64..30),
        prop::option::of(1_500u64..40_000),
    )
        .prop_map(|(packets, bytes)| Limit { packets, bytes })
}

fn rate() -> impl Strategy<Value = u64> {
    prop_oneof![100_000u64..1_000_000_000, Just(7), Just(999_999_937)]
}

/// The packets that passed, in the order of departure, as (time, bytes with overhead).
fn passed(arrivals: &[Arrival], outcomes: &[Outcome], overhead_bytes: u32) -> Vec<(i64, u64)> {
    let sent = |(a, o): (&Arrival, &Outcome)| {
        Some((o.departure_ns()?, u64::from(a.bytes + overhead_bytes)))
    };
    arrivals.iter().zip(outcomes).filter_map(sent).collect()
}

/// In every interval, from any packet to any later one, at most `burst` + `rate` * time passes. In integers,
/// scaled by 8 * 10^9 as bytes are against bit/s * ns.
fn assert_conforms(passed: &[(i64, u64)], rate_bps: u64, burst_bytes: u64) {
    for (i, &(from_ns, _)) in passed.iter().enumerate() {
        let mut bytes = 0u128;
        for &(to_ns, size) in &passed[i..] {
            bytes += u128::from(size);
            let allowed = u128::from(burst_bytes) * 8_000_000_000
                + u128::from(rate_bps) * u128::try_from(to_ns - from_ns).unwrap();
            assert!(
                bytes * 8_000_000_000 <= allowed,
                "{bytes} bytes in {} ns",
                to_ns - from_ns
            );
        }
    }
}

/// One of each kind.
fn every_element() -> Vec<(&'static str, Box<dyn PathElement + Send>)> {
    let limit = Limit {
        packets: Some(20),
        bytes: Some(30_000),
    };
    let reordering_chain: Vec<Box<dyn PathElement + Send>> = vec![
        Box::new(Jitter::new(0, 5_000_000, 3).reordering()),
        Box::new(CoDel::new(5_000_000, limit)),
        Box::new(Policer::new(3_000_000, 10_000)),
    ];
    let plain_chain: Vec<Box<dyn PathElement + Send>> = vec![
        Box::new(Shaper::new(9_000_000, 9_000, limit)),
        Box::new(Delay::new(1_000_000)),
        Box::new(Policer::new(3_000_000, 10_000)),
    ];
    vec![
        ("fifo", Box::new(Fifo::new(5_000_000, limit))),
        (
            "policer",
            Box::new(Policer::new(5_000_000, 10_000).with_peak(20_000_000, 3_000)),
        ),
        (
            "single rate three colour",
            Box::new(SingleRateThreeColour::new(5_000_000, 5_000, 9_000)),
        ),
        (
            "two rate three colour",
            Box::new(TwoRateThreeColour::new(5_000_000, 5_000, 9_000_000, 9_000)),
        ),
        (
            "linux police",
            Box::new(LinuxPolice::new(5_000_000, 10_000).with_peak_rate(20_000_000)),
        ),
        (
            "shaper",
            Box::new(Shaper::new(5_000_000, 10_000, limit).with_peak(20_000_000, 3_000)),
        ),
        ("random loss", Box::new(RandomLoss::independent(0.1, 1))),
        ("bursts", Box::new(RandomLoss::bursts(0.1, 4.0, 1))),
        ("outages", Box::new(RandomLoss::outages(0.1, 3_000_000, 1))),
        ("delay", Box::new(Delay::new(5))),
        ("jitter", Box::new(Jitter::new(5, 5_000_000, 1))),
        (
            "reordering jitter",
            Box::new(Jitter::new(5, 5_000_000, 1).reordering()),
        ),
        ("codel", Box::new(CoDel::new(5_000_000, limit))),
        ("pie", Box::new(Pie::new(5_000_000, limit, 1))),
        (
            "red",
            Box::new(Red::new(5_000_000, limit, 3.0, 9.0, 0.1, 1)),
        ),
        ("fq_codel", Box::new(FqCoDel::new(5_000_000, 20, 1))),
        ("fq_pie", Box::new(FqPie::new(5_000_000, 20, 1))),
        ("cake", Box::new(Cake::new(5_000_000, 30_000, 1))),
        ("dualpi2", Box::new(DualPi2::new(5_000_000, 20, 1))),
        (
            "tick shaper",
            Box::new(TickShaper::new(5_000_000, 3_000_000, 6_000, limit)),
        ),
        ("batches", Box::new(Batches::new(2_000_000, 5))),
        (
            "outage",
            Box::new(Outage::new(vec![(1_000_500_000, 1_003_000_000)])),
        ),
        ("chain", Box::new(Chain::new(plain_chain))),
        ("reordering chain", Box::new(Chain::new(reordering_chain))),
    ]
}

proptest! {
    #[test]
    fn a_policer_never_passes_more_than_burst_plus_rate_times_time(
        arrivals in arrivals(), rate_bps in rate(), burst_bytes in 1u64..50_000,
    ) {
        let mut policer = Policer::new(rate_bps, burst_bytes).with_overhead(overhead::ETHERNET);
        let outcomes = replay(&mut policer, &arrivals);
        assert_conforms(&passed(&arrivals, &outcomes, overhead::ETHERNET), rate_bps, burst_bytes);
    }

    #[test]
    fn a_policer_drops_only_what_would_not_conform(
        arrivals in arrivals(), rate_bps in rate(), burst_bytes in 1u64..50_000,
    ) {
        // Dropped means: with this packet some interval that ends here would exceed burst + rate * time.
        let outcomes = replay(&mut Policer::new(rate_bps, burst_bytes), &arrivals);
        for (i, (packet, outcome)) in arrivals.iter().zip(&outcomes).enumerate() {
            if !outcome.is_dropped() {
                continue;
            }
            let before = passed(&arrivals[..i], &outcomes[..i], 0);
            let mut bytes = u128::from(packet.bytes) * 8_000_000_000;
            let capacity = u128::from(burst_bytes) * 8_000_000_000;
            let mut exceeds = bytes > capacity;
            for &(time_ns, size) in before.iter().rev() {
                bytes += u128::from(size) * 8_000_000_000;
                let elapsed_ns = u128::try_from(packet.time_ns - time_ns).unwrap();
                exceeds |= bytes > capacity + u128::from(rate_bps) * elapsed_ns;
            }
            prop_assert!(exceeds, "packet {i}");
        }
    }

    #[test]
    fn a_dual_rate_policer_conforms_to_both_rates(
        arrivals in arrivals(), rate_bps in rate(), burst_bytes in 1u64..50_000, peak_bytes in 1u64..9_000,
    ) {
        let mut policer = Policer::new(rate_bps, burst_bytes).with_peak(2 * rate_bps, peak_bytes);
        let outcomes = replay(&mut policer, &arrivals);
        let passed = passed(&arrivals, &outcomes, 0);
        assert_conforms(&passed, rate_bps, burst_bytes);
        assert_conforms(&passed, 2 * rate_bps, peak_bytes);
    }

    #[test]
    fn three_colours_limit_the_packets_that_are_not_red(arrivals in arrivals(), rate_bps in rate(), burst_bytes in 1u64..30_000) {
        let single = replay(&mut SingleRateThreeColour::new(rate_bps, burst_bytes, 4_000), &arrivals);
        assert_conforms(&passed(&arrivals, &single, 0), rate_bps, burst_bytes + 4_000);
        let two = replay(&mut TwoRateThreeColour::new(rate_bps, 2_000, rate_bps, burst_bytes), &arrivals);
        assert_conforms(&passed(&arrivals, &two, 0), rate_bps, burst_bytes);
    }

    #[test]
    fn departures_of_a_shaper_conform_and_keep_their_order(
        arrivals in arrivals(), rate_bps in 100_000u64..1_000_000_000, burst_bytes in 100u64..50_000, limit in limit(),
    ) {
        let mut shaper = Shaper::new(rate_bps, burst_bytes, limit).with_peak(2 * rate_bps, 3_000);
        let outcomes = replay(&mut shaper, &arrivals);
        let passed = passed(&arrivals, &outcomes, 0);
        prop_assert!(passed.is_sorted_by_key(|p| p.0));
        assert_conforms(&passed, rate_bps, burst_bytes);
        assert_conforms(&passed, 2 * rate_bps, 3_000);
    }

    #[test]
    fn a_shaper_without_a_limit_drops_only_packets_larger_than_its_bucket(
        arrivals in arrivals(), rate_bps in rate(), burst_bytes in 100u64..5_000,
    ) {
        let outcomes = replay(&mut Shaper::new(rate_bps, burst_bytes, Limit::NONE), &arrivals);
        for (packet, outcome) in arrivals.iter().zip(outcomes) {
            prop_assert_eq!(outcome.is_dropped(), u64::from(packet.bytes) > burst_bytes);
        }
    }

    #[test]
    fn a_fifo_keeps_order_and_limit_and_is_never_idle_while_a_packet_waits(
        arrivals in arrivals(), rate_bps in 100_000u64..1_000_000_000, limit in limit(), counted in any::<bool>(),
    ) {
        let in_service = if counted { InService::Counted } else { InService::NotCounted };
        let mut fifo = Fifo::new(rate_bps, limit).with_in_service(in_service);
        let outcomes = replay(&mut fifo, &arrivals);
        // Exact service: the line is free at a multiple of 1/rate ns, so count in units of it.
        let rate = i128::from(rate_bps);
        let mut free = i128::MIN;
        // (time when its place is free in whole ns, bytes) of those accepted.
        let mut places: Vec<(i64, u64)> = Vec::new();
        let ceil_ns = |units: i128| i64::try_from((units + rate - 1).div_euclid(rate)).unwrap();
        for (packet, outcome) in arrivals.iter().zip(outcomes) {
            let now = i128::from(packet.time_ns) * rate;
            places.retain(|place| place.0 > packet.time_ns);
            let bytes = u64::from(packet.bytes);
            let waiting: u64 = places.iter().map(|place| place.1).sum();
            let fits = limit.packets.is_none_or(|limit| (places.len() as u64) < limit)
                && limit.bytes.is_none_or(|limit| waiting + bytes <= limit);
            let idle = free <= now;
            let accepted = fits || (idle && !counted);
            prop_assert_eq!(outcome.is_dropped(), !accepted);
            if let Some(departure_ns) = outcome.departure_ns() {
                let start = free.max(now);
                free = start + i128::from(bytes) * 8_000_000_000;
                prop_assert_eq!(departure_ns, ceil_ns(free), "served at once when idle, else right after the one ahead");
                let release_ns = if counted { ceil_ns(free) } else { ceil_ns(start) };
                places.push((release_ns, bytes));
            }
        }
    }

    #[test]
    fn every_replay_is_deterministic(arrivals in arrivals()) {
        for (name, mut element) in every_element() {
            let first = replay(&mut element, &arrivals);
            prop_assert_eq!(&first, &replay(&mut element, &arrivals), "{}", name);
        }
    }

    #[test]
    fn no_packet_is_forgotten_and_none_leaves_before_its_arrival(arrivals in arrivals()) {
        for (name, mut element) in every_element() {
            for (packet, outcome) in arrivals.iter().zip(replay(&mut element, &arrivals)) {
                prop_assert!(!matches!(outcome, Outcome::Queued { .. }), "{}", name);
                prop_assert!(outcome.departure_ns().is_none_or(|t| t >= packet.time_ns), "{}", name);
            }
        }
    }

    #[test]
    fn elements_that_keep_order_do(arrivals in arrivals()) {
        for (name, mut element) in every_element() {
            let departures: Vec<i64> =
                replay(&mut element, &arrivals).iter().filter_map(|o| o.departure_ns()).collect();
            prop_assert!(!element.keeps_order() || departures.is_sorted(), "{}", name);
        }
    }

    #[test]
    fn no_time_and_no_size_panics_or_hangs(arrivals in unordered()) {
        for (name, mut element) in every_element() {
            prop_assert_eq!(replay(&mut element, &arrivals).len(), arrivals.len(), "{}", name);
        }
    }

    #[test]
    fn decreasing_time_adds_no_tokens(
        steps in prop::collection::vec((-3_000_000i64..3_000_000, 1u32..=1_500), 1..150),
        rate_bps in rate(), burst_bytes in 1_500u64..9_000,
    ) {
        let mut time_ns = 0;
        let step = |&(gap_ns, bytes): &(i64, u32)| {
            time_ns += gap_ns;
            Arrival { time_ns, bytes }
        };
        let arrivals: Vec<Arrival> = steps.iter().map(step).collect();
        let outcomes = replay(&mut Policer::new(rate_bps, burst_bytes), &arrivals);
        // Given the latest time so far, the passed traffic conforms.
        let mut latest_ns = i64::MIN;
        let mut sent = Vec::new();
        for (packet, outcome) in arrivals.iter().zip(outcomes) {
            latest_ns = latest_ns.max(packet.time_ns);
            if !outcome.is_dropped() {
                sent.push((latest_ns, u64::from(packet.bytes)));
            }
        }
        assert_conforms(&sent, rate_bps, burst_bytes);
    }

    #[test]
    fn driving_by_events_equals_replay(arrivals in arrivals()) {
        for (name, mut element) in every_element() {
            let expected = replay(&mut element, &arrivals);
            element.reset();
            let mut outcomes = Vec::new();
            let mut decided: Vec<Decision> = Vec::new();
            for &packet in &arrivals {
                while let Some(due_ns) = element.next_event_ns().filter(|&due_ns| due_ns <= packet.time_ns) {
                    element.poll(due_ns, &mut decided);
                }
                outcomes.push(element.arrive(packet));
            }
            while let Some(due_ns) = element.next_event_ns() {
                element.poll(due_ns, &mut decided);
            }
            prop_assert!(decided.is_sorted_by_key(|d| d.time_ns), "{}", name);
            decided.iter().for_each(|d| outcomes[d.packet as usize] = d.outcome);
            prop_assert_eq!(outcomes, expected, "{}", name);
        }
    }
}
