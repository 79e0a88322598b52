use super::path::{AFTER_GAP_NS, BASE_NS, VARIATION_NS};
use super::*;

fn played(seed: u64) -> SimulatedPair {
    pair(PublishedConfig {
        seed,
        ..PublishedConfig::default()
    })
}

/// The packets of each burst, as they leave.
fn bursts(pair: &SimulatedPair) -> Vec<Vec<Crossing>> {
    let mut bursts: Vec<Vec<Crossing>> = Vec::new();
    let full = pair
        .crossings
        .iter()
        .filter(|c| c.is_forward() && c.body.payload_bytes() > 0);
    for &crossing in full {
        let last_ns = bursts
            .last()
            .and_then(|burst| burst.last())
            .and_then(|last| last.at_b_ns);
        let gap_ns = crossing
            .at_b_ns
            .zip(last_ns)
            .map_or(i64::MAX, |(now, last)| now - last);
        if gap_ns > 1_000_000 {
            bursts.push(Vec::new());
        }
        if let Some(burst) = bursts.last_mut() {
            burst.push(crossing);
        }
    }
    bursts
}

#[test]
fn bursts_are_those_of_the_case_and_leave_at_a_gigabit() {
    let sizes: Vec<usize> = bursts(&played(1)).iter().map(Vec::len).collect();
    assert_eq!(sizes[..5], [10, 20, 40, 80, 160]);
    assert!(
        sizes[5..60].iter().all(|size| (84..=98).contains(size)),
        "{sizes:?}"
    );
    // Then the remaining losses are retransmitted.
    assert!((61..=64).contains(&sizes.len()), "{sizes:?}");
    let longest = &bursts(&played(1))[4];
    let took_ns = longest[159].at_b_ns.unwrap() - longest[0].at_b_ns.unwrap();
    assert!(
        (1_940_000..1_970_000).contains(&took_ns),
        "160 segments in {took_ns} ns"
    );
    assert_eq!(longest[0].body.payload_bytes(), 1_448);
}

#[test]
fn seven_of_ten_packets_of_a_long_burst_are_lost_once_losses_begin() {
    for seed in 1..=5 {
        let (mut tail, mut lost) = (0, 0);
        for burst in bursts(&played(seed)).iter().take(60).skip(3) {
            let first = burst.iter().position(|c| c.lost_between).unwrap();
            assert!(
                (45..=53).contains(&first),
                "the bucket is enough for {first} packets"
            );
            tail += burst.len() - first;
            lost += burst[first..].iter().filter(|c| c.lost_between).count();
        }
        let share = f64::from(lost as u32) / tail as f64;
        assert!((0.68..0.72).contains(&share), "{share} of {tail}");
        assert!(
            bursts(&played(seed))
                .iter()
                .take(3)
                .flatten()
                .all(|c| !c.lost_between)
        );
    }
}

#[test]
fn transit_varies_as_published_and_is_longer_after_a_gap() {
    let pair = played(1);
    let more = |c: &Crossing| c.transit_ns().map(|transit_ns| transit_ns - BASE_NS);
    let forward: Vec<i64> = pair
        .crossings
        .iter()
        .filter(|c| c.is_forward())
        .filter_map(more)
        .collect();
    let most = *forward.iter().max().unwrap();
    assert!(forward.iter().all(|&more| more >= 0));
    assert!(
        (800_000..=AFTER_GAP_NS + VARIATION_NS).contains(&most),
        "{most}"
    );
    let bursts = bursts(&pair);
    let firsts = bursts.iter().filter_map(|burst| more(&burst[0]));
    assert!(
        firsts
            .clone()
            .all(|more| (AFTER_GAP_NS..=AFTER_GAP_NS + VARIATION_NS).contains(&more))
    );
    // From the fiftieth on, the path is no longer waking up.
    let later: Vec<i64> = bursts
        .iter()
        .flat_map(|burst| burst.iter().skip(50))
        .filter_map(more)
        .collect();
    assert!(later.iter().all(|&more| more <= VARIATION_NS));
    let mean = |values: &mut dyn Iterator<Item = i64>| {
        let values: Vec<i64> = values.collect();
        values.iter().sum::<i64>() / values.len() as i64
    };
    let difference_ns = mean(&mut firsts.into_iter()) - mean(&mut later.into_iter());
    assert!(
        (250_000..550_000).contains(&difference_ns),
        "{difference_ns}"
    );
}

#[test]
fn all_lost_data_is_retransmitted_until_it_arrives() {
    let pair = played(2);
    let mut waiting = std::collections::BTreeSet::new();
    let mut again = 0;
    for crossing in pair.crossings.iter().filter(|c| c.is_forward()) {
        let Body::Tcp(segment) = crossing.body else {
            continue;
        };
        again += usize::from(segment.reason.is_retransmission());
        if crossing.lost_between {
            waiting.insert(segment.sequence);
        } else {
            waiting.remove(&segment.sequence);
        }
    }
    assert!(again > 1_000);
    assert!(waiting.is_empty(), "{waiting:?}");
}

#[test]
fn the_second_clock_is_ahead_and_slow() {
    let mut pair = played(1);
    let (b, y) = pair.watch();
    let start_ns = b.records[0].time_ns;
    let ahead_ns =
        |record: &crate::pair::sniffer::Seen| record.stamp_ns - crate::EPOCH_NS - record.time_ns;
    let first = &y.records[0];
    let slow_ns = ((first.time_ns - start_ns) as f64 * 220e-6).round() as i64;
    assert_eq!(ahead_ns(first), CLOCK_OFFSET_NS - slow_ns);
    let last = y.records.last().unwrap();
    let seconds = (last.time_ns - start_ns) as f64 / 1e9;
    assert!(seconds > 4.0);
    assert!((ahead_ns(last) - CLOCK_OFFSET_NS + (seconds * 220_000.0) as i64).abs() <= 1);
    assert!(b.records.iter().all(|record| ahead_ns(record) == 0));
}

#[test]
fn one_way_captures_contain_no_return_packets() {
    let mut pair = pair(PublishedConfig {
        one_way: true,
        ..PublishedConfig::default()
    });
    let (b, y) = pair.watch();
    assert!(
        b.records
            .iter()
            .chain(&y.records)
            .all(|r| r.body.toward() == Toward::Client)
    );
    assert!(b.records.len() > y.records.len());
}

#[test]
fn seeds_are_other_draws_of_the_same_case() {
    assert_eq!(played(1).crossings, played(1).crossings);
    assert_ne!(played(1).crossings, played(2).crossings);
}
