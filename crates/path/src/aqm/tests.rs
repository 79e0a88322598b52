//! The disciplines compared with properties of their standards.

use super::pie::{Control, Rules};
use super::*;
use crate::{Arrival, Ecn, Header, Limit, Outcome, PathElement, replay, replay_with};

/// 1500 bytes at this rate take 1 ms.
const RATE_BPS: u64 = 12_000_000;
const MS: i64 = 1_000_000;

type Packets = Vec<(Arrival, Header)>;

fn packet(time_ns: i64, bytes: u32, flow: u64, ecn: Ecn) -> (Arrival, Header) {
    (Arrival { time_ns, bytes }, Header { flow, ecn })
}

/// Packets of one flow at a steady rate.
fn steady(count: i64, every_ns: i64, bytes: u32, flow: u64, ecn: Ecn) -> Packets {
    (0..count)
        .map(|i| packet(i * every_ns, bytes, flow, ecn))
        .collect()
}

fn together(flows: Vec<Packets>) -> Packets {
    let mut all: Packets = flows.into_iter().flatten().collect();
    all.sort_by_key(|(arrival, _)| arrival.time_ns);
    all
}

/// Transit times of a flow's packets that passed.
fn waits_ns(packets: &Packets, outcomes: &[Outcome], flow: u64) -> Vec<i64> {
    let of = packets
        .iter()
        .zip(outcomes)
        .filter(|((_, header), _)| header.flow == flow);
    of.filter_map(|((arrival, _), outcome)| Some(outcome.departure_ns()? - arrival.time_ns))
        .collect()
}

/// (sent, dropped, marked) of a flow since then.
fn counted(packets: &Packets, outcomes: &[Outcome], flow: u64, since_ns: i64) -> (f64, f64, f64) {
    let mut counts = (0.0, 0.0, 0.0);
    for ((arrival, header), outcome) in packets.iter().zip(outcomes) {
        if header.flow == flow && arrival.time_ns >= since_ns {
            counts.0 += 1.0;
            counts.1 += f64::from(u8::from(outcome.is_dropped()));
            counts.2 += f64::from(u8::from(matches!(outcome, Outcome::Marked { .. })));
        }
    }
    counts
}

#[test]
fn fq_codel_of_one_flow_is_codel() {
    let packets = steady(3_000, 833_333, 1_500, 7, Ecn::NotCapable);
    let arrivals: Vec<Arrival> = packets.iter().map(|p| p.0).collect();
    let fair = replay_with(&mut FqCoDel::new(RATE_BPS, 10_000, 1), &packets);
    let plain = replay(&mut CoDel::new(RATE_BPS, Limit::NONE), &arrivals);
    assert!(fair.iter().any(|outcome| outcome.is_dropped()));
    assert_eq!(fair, plain);
}

#[test]
fn a_sparse_flow_overtakes_one_that_fills_the_queue() {
    let fair: Vec<Box<dyn PathElement>> = vec![
        Box::new(FqCoDel::new(RATE_BPS, 1_000, 1)),
        Box::new(FqPie::new(RATE_BPS, 1_000, 1)),
        Box::new(Cake::new(RATE_BPS, 4_000_000, 1)),
    ];
    for mut queue in fair {
        let packets = together(vec![
            steady(6_000, 800_000, 1_500, 1, Ecn::NotCapable),
            steady(200, 20 * MS, 100, 2, Ecn::NotCapable),
        ]);
        let outcomes = replay_with(&mut queue, &packets);
        let (sent, dropped, _) = counted(&packets, &outcomes, 2, 0);
        assert_eq!((sent, dropped), (200.0, 0.0));
        // At most a packet in service, one for the quantum, and its own 67 us.
        let most_ns = waits_ns(&packets, &outcomes, 2).into_iter().max();
        assert!(most_ns.unwrap() <= 2_100_000, "{most_ns:?}");
        assert!(waits_ns(&packets, &outcomes, 1).into_iter().max().unwrap() > 10 * MS);
        assert!(counted(&packets, &outcomes, 1, 0).1 > 10.0);
    }
}

#[test]
fn flows_with_packets_of_different_sizes_share_bytes_evenly() {
    // Deficit round robin (M. Shreedhar and G. Varghese, 1996): never apart by more than a quantum and a
    // packet.
    let packets = together(vec![
        vec![packet(0, 1_500, 1, Ecn::NotCapable); 60],
        vec![packet(0, 300, 2, Ecn::NotCapable); 300],
    ]);
    let outcomes = replay_with(&mut FqCoDel::new(RATE_BPS, 1_000, 1), &packets);
    let mut sent: Vec<(i64, u64, i64)> = packets
        .iter()
        .zip(&outcomes)
        .filter_map(|((a, h), o)| Some((o.departure_ns()?, h.flow, i64::from(a.bytes))))
        .collect();
    sent.sort_unstable();
    let mut ahead = 0;
    // Both send for the first 100 ms, before any drop.
    for (_, flow, bytes) in sent.into_iter().filter(|s| s.0 < 100 * MS) {
        ahead += if flow == 1 { bytes } else { -bytes };
        assert!(ahead.abs() <= 1_514 + 1_500, "{ahead}");
    }
}

#[test]
fn the_flow_that_fills_the_queue_loses_when_it_is_full() {
    let mut packets = vec![packet(0, 1_500, 1, Ecn::NotCapable); 101];
    packets.push(packet(1, 1_500, 2, Ecn::NotCapable));
    let outcomes = replay_with(&mut FqCoDel::new(RATE_BPS, 100, 1), &packets);
    assert!(outcomes[..101].iter().any(|outcome| outcome.is_dropped()));
    assert!(!outcomes[101].is_dropped());
}

#[test]
fn cake_marks_capable_packets_and_drops_others() {
    for (ecn, marks) in [(Ecn::Ect0, true), (Ecn::NotCapable, false)] {
        let packets = steady(4_000, 950_000, 1_500, 1, ecn);
        let outcomes = replay_with(&mut Cake::new(RATE_BPS, 40_000_000, 1), &packets);
        let (_, dropped, marked) = counted(&packets, &outcomes, 1, 0);
        assert_eq!(
            (marked > 5.0, dropped > 5.0),
            (marks, !marks),
            "{dropped} {marked}"
        );
    }
}

#[test]
fn cake_answers_a_flood_that_overflows_it_with_blue() {
    // Twice the rate, unresponsive: the limit of 60 kB overflows repeatedly, and the probability rises by
    // 1/256 each time that the target of 5 ms has passed since.
    let packets = steady(20_000, 500_000, 1_500, 1, Ecn::Ect0);
    let outcomes = replay_with(&mut Cake::new(RATE_BPS, 60_000, 1), &packets);
    let (sent, dropped, _) = counted(&packets, &outcomes, 1, 0);
    assert!((dropped / sent - 0.5).abs() < 0.02, "{dropped}");
}

#[test]
fn the_classic_drop_share_is_the_square_of_half_the_mark_share() {
    // RFC 9332, section 2.1: p_C = p'^2 and p_L = K p' with K = 2, so p_L = 2 sqrt(p_C).
    let packets = together(vec![
        steady(200_000, 950_000, 1_500, 1, Ecn::NotCapable),
        steady(38_000, 5 * MS, 100, 2, Ecn::Ect1),
    ]);
    let outcomes = replay_with(&mut DualPi2::new(RATE_BPS, 10_000, 5), &packets);
    let settled_ns = 40_000 * MS;
    let (sent, dropped, _) = counted(&packets, &outcomes, 1, settled_ns);
    let (low, lost, marked) = counted(&packets, &outcomes, 2, settled_ns);
    let (classic, scalable) = (dropped / sent, marked / low);
    assert!((0.04..0.09).contains(&classic), "{classic}");
    let expected = 2.0 * classic.sqrt();
    assert!(
        (scalable / expected - 1.0).abs() < 0.08,
        "{scalable} {expected}"
    );
    assert_eq!(lost, 0.0);
    let most_ns = waits_ns(&packets, &outcomes, 2).into_iter().max().unwrap();
    assert!(
        most_ns <= 1_100_000,
        "{most_ns}: behind a packet in service, and its own time"
    );
}

#[test]
fn an_overload_beyond_a_quarter_is_dropped_from_the_low_latency_queue_too() {
    let packets = steady(40_000, 500_000, 1_500, 2, Ecn::Ect1);
    let outcomes = replay_with(&mut DualPi2::new(RATE_BPS, 10_000, 5), &packets);
    let (sent, dropped, _) = counted(&packets, &outcomes, 2, 5_000 * MS);
    assert!((dropped / sent - 0.5).abs() < 0.05, "{}", dropped / sent);
}

#[test]
fn pie_moves_its_probability_as_the_rfc_computes_it() {
    // RFC 8033, section 4.2: alpha (30 - 15) ms + beta (30 - 0) ms, divided by 2048 while the probability is
    // below 10^-6.
    let (mut control, rules) = (Control::default(), Rules::default());
    control.advance(0, rules, |_| 30 * MS);
    control.advance(15 * MS, rules, |_| 30 * MS);
    let first = (0.125 * 0.015 + 1.25 * 0.030) / 2_048.0;
    assert!((control.drop_probability - first).abs() < 1e-12);
    // Then the delay stays: only alpha's part, a 512th from 10^-6 on, a 128th from 10^-5 on.
    control.advance(30 * MS, rules, |_| 30 * MS);
    let second = first + 0.125 * 0.015 / 128.0;
    assert!((control.drop_probability - second).abs() < 1e-12);
}

#[test]
fn fq_pie_drops_from_the_queued_flow_and_keeps_it_near_the_target() {
    let packets = together(vec![
        steady(60_000, 900_000, 1_500, 1, Ecn::NotCapable),
        steady(5_000, 10 * MS, 200, 2, Ecn::NotCapable),
    ]);
    let outcomes = replay_with(&mut FqPie::new(RATE_BPS, 10_000, 3), &packets);
    assert_eq!(counted(&packets, &outcomes, 2, 0).1, 0.0);
    let waits = waits_ns(&packets, &outcomes, 1);
    let settled = &waits[waits.len() / 2..];
    let mean_ms = settled.iter().sum::<i64>() as f64 / settled.len() as f64 / 1e6;
    assert!((10.0..25.0).contains(&mean_ms), "{mean_ms}");
}

#[test]
fn marks_within_a_chain_reach_its_end() {
    use crate::Chain;
    let mut chain = Chain::new(vec![
        Box::new(CoDel::new(RATE_BPS, Limit::NONE).marking()),
        Box::new(CoDel::new(RATE_BPS / 2, Limit::NONE)),
    ]);
    let packets = steady(1_000, 833_333, 1_500, 1, Ecn::Ect0);
    let outcomes = replay_with(&mut chain, &packets);
    assert!(outcomes.iter().any(|o| matches!(o, Outcome::Marked { .. })));
}
