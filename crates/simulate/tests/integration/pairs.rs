//! Pairs on disk match their truths, as read with the project's own reader.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use whydrop_capture::{Capture, OpenOptions, Summary, Transport};
use whydrop_path::{Arrival, PathSpec, replay};
use whydrop_simulate::pair::published::{self, PublishedConfig};
use whydrop_simulate::pair::{self, Body, Point, SimulatedPair, Sniffer};
use whydrop_simulate::suite::{Kind, PAIRS, Split, SuiteConfig, pairs};

/// A packet as both points see it: ports, identification, sequence and acknowledgment numbers, payload length.
type Key = (u16, u16, Option<u16>, u32, u32, u32);

struct Read {
    /// Forward packets, in the order of the file.
    order: Vec<Key>,
    keys: HashMap<Key, u64>,
    forward: u64,
    reverse: u64,
    summary: Summary,
}

fn read(path: &Path, server_port: u16) -> Read {
    let options = OpenOptions {
        keep_duplicates: true,
        ..OpenOptions::default()
    };
    let mut capture = Capture::open(&[path], options).unwrap();
    let mut read = Read {
        order: Vec::new(),
        keys: HashMap::new(),
        forward: 0,
        reverse: 0,
        summary: Summary::default(),
    };
    while let Some(packet) = capture.next_packet() {
        let id = packet.network.and_then(|network| network.identification);
        let (key, source) = match packet.transport {
            Transport::Tcp(tcp) => (
                (
                    tcp.source_port,
                    tcp.destination_port,
                    id,
                    tcp.sequence,
                    tcp.acknowledgment,
                    tcp.payload_bytes,
                ),
                tcp.source_port,
            ),
            Transport::Udp {
                source_port,
                destination_port,
                payload_bytes,
                ..
            } => (
                (source_port, destination_port, id, 0, 0, payload_bytes),
                server_port,
            ),
            other => panic!("{}: {other:?}", path.display()),
        };
        *read.keys.entry(key).or_default() += 1;
        if source == server_port {
            read.forward += 1;
            read.order.push(key);
        } else {
            read.reverse += 1;
        }
    }
    read.summary = capture.summary();
    read
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn number(truth: &Value, name: &str) -> u64 {
    truth[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} in {truth}"))
}

fn played(kind: &str, seed: u64) -> SimulatedPair {
    let config = SuiteConfig {
        split: Split::Validation,
        seed,
        count: 1,
        only: Some(Kind::of_pair(kind).expect("a kind of pairs")),
        ..SuiteConfig::default()
    };
    pairs::play(&config, 0).unwrap_or_else(|| panic!("{kind}: no draw shows it"))
}

/// Sniffers that change and miss nothing, from the first to the last packet.
fn tidied(mut pair: SimulatedPair) -> SimulatedPair {
    pair.b = Sniffer::new(Point::B);
    pair.y = Sniffer::new(Point::Y);
    pair.translation = None;
    pair
}

#[test]
fn what_is_in_b_and_not_in_y_is_what_the_truth_calls_lost() {
    for mechanism in PAIRS.iter().map(|kind| kind.name) {
        let name = format!("tidy-{}", mechanism);
        let mut pair = tidied(played(mechanism, 11));
        // Packets in flight when the simulation ends have passed one point only.
        pair.crossings
            .retain(|c| c.lost_between || c.at_b_ns.is_none() || c.at_y_ns.is_some());
        let server_ports: Vec<u16> = pair
            .tcp_flows
            .iter()
            .map(|flow| flow.ends.tcp.server_port)
            .collect();
        let folder = folder(&name);
        let truth = pair::write(&mut pair, &folder).unwrap();
        // The single server port identifies the direction.
        let b = read(&folder.join("b.pcap"), server_ports[0]);
        let y = read(&folder.join("y.pcap"), server_ports[0]);
        let missing = |from: &Read, to: &Read| -> u64 {
            let left = |(key, count): (&Key, &u64)| {
                count.saturating_sub(to.keys.get(key).copied().unwrap_or(0))
            };
            from.keys.iter().map(left).sum()
        };
        let reverse_lost =
            number(&truth, "reverse_packets_y") - number(&truth, "reverse_packets_b");
        // Packets that never reached the other point: lost before Y on the return path, or before B on the forward
        // path.
        let only_y = pair
            .crossings
            .iter()
            .filter(|c| c.at_b_ns.is_none() && !c.lost_between)
            .count() as u64;
        assert_eq!(
            missing(&b, &y),
            number(&truth, "forward_packets_lost_between"),
            "{name}"
        );
        assert_eq!(missing(&y, &b), reverse_lost + only_y, "{name}");
        if server_ports.iter().all(|&port| port == server_ports[0]) {
            assert_eq!(b.forward, number(&truth, "forward_packets_b"), "{name}");
            assert_eq!(y.forward, number(&truth, "forward_packets_y"), "{name}");
            assert_eq!(b.reverse, number(&truth, "reverse_packets_b"), "{name}");
        }
        for capture in [&b, &y] {
            assert!(
                !capture.summary.truncated && capture.summary.notes.is_empty(),
                "{name}: {:?}",
                capture.summary
            );
            assert_eq!(capture.summary.kinds.undecodable, 0);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn untidy_captures_are_readable_and_hold_as_many_records_as_the_truth_says() {
    let mut treatments = std::collections::BTreeSet::new();
    for index in 0..72 {
        let config = SuiteConfig {
            split: Split::Validation,
            seed: 3,
            count: 72,
            ..SuiteConfig::default()
        };
        let mut pair = pairs::play(&config, index).expect("a draw that shows its mechanism");
        treatments.extend(pair.realism.treatments.clone());
        let folder = folder(&format!("untidy-{index}"));
        let truth = pair::write(&mut pair, &folder).unwrap();
        for (point, file) in [("b", "b.pcap"), ("y", "y.pcap")] {
            let capture = read(&folder.join(file), 443);
            let cut = truth["captures"][point]["last_record_is_cut"]
                .as_bool()
                .unwrap();
            let records = number(&truth["captures"][point], "records") - u64::from(cut);
            let kinds = capture.summary.kinds;
            assert_eq!(capture.summary.packets, records, "{} {point}", pair.name);
            assert_eq!(capture.summary.truncated, cut, "{} {point}", pair.name);
            assert_eq!(
                (kinds.undecodable, kinds.not_ip),
                (0, 0),
                "{} {point}",
                pair.name
            );
            assert!(records < 60_000, "{} {point}: {records}", pair.name);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
    let expected = [
        "clock-offset",
        "clock-drift",
        "nat",
        "ttl",
        "tso",
        "gro",
        "us",
        "jitter",
        "coalesce",
        "missed",
        "ipv6",
        "other-times",
        "one-way",
        "truncated",
        "udp",
        "dscp-bleached",
    ];
    let absent: Vec<&str> = expected
        .into_iter()
        .filter(|name| !treatments.contains(name))
        .collect();
    assert!(absent.is_empty(), "not drawn in 72 pairs: {absent:?}");
}

#[test]
fn the_same_seed_writes_the_same_bytes() {
    let bytes = |name: &str, pair: &mut SimulatedPair| {
        let folder = folder(name);
        pair::write(pair, &folder).unwrap();
        let all = ["b.pcap", "y.pcap", "truth.json"]
            .map(|file| std::fs::read(folder.join(file)).unwrap());
        std::fs::remove_dir_all(folder).unwrap();
        all
    };
    let config = PublishedConfig::default();
    let first = bytes("same-1", &mut published::pair(config));
    assert!(first == bytes("same-2", &mut published::pair(config)));
    let other = PublishedConfig { seed: 2, ..config };
    assert!(first != bytes("same-3", &mut published::pair(other)));
    for mechanism in ["policer", "pie", "reorder"] {
        let first = bytes("same-4", &mut played(mechanism, 5));
        assert!(
            first == bytes("same-5", &mut played(mechanism, 5)),
            "{}",
            mechanism
        );
        assert!(
            first != bytes("same-6", &mut played(mechanism, 6)),
            "{}",
            mechanism
        );
    }
}

#[test]
fn the_published_case_loses_on_disk_what_its_truth_says() {
    let folder = folder("published");
    let truth = pair::write(&mut published::pair(PublishedConfig::default()), &folder).unwrap();
    let (b, y) = (
        read(&folder.join("b.pcap"), 443),
        read(&folder.join("y.pcap"), 443),
    );
    assert_eq!(
        b.forward - y.forward,
        number(&truth, "forward_packets_lost_between")
    );
    assert_eq!(
        (b.reverse, y.reverse),
        (
            number(&truth, "reverse_packets_b"),
            number(&truth, "reverse_packets_y")
        )
    );
    let first_ns = b.summary.first_ns.unwrap();
    assert_eq!(truth["distortion"]["t0_ns"].as_i64(), Some(first_ns));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn of_captures_at_different_times_the_truth_counts_what_lies_between_common_packets() {
    let mechanisms = [
        "policer",
        "deep-fifo-packets",
        "shallow-fifo-bytes",
        "random-loss",
    ];
    for mechanism in mechanisms {
        let mut pair = tidied(played(mechanism, 22));
        // One server port, which identifies the direction.
        pair.tcp_flows
            .iter_mut()
            .for_each(|flow| flow.ends.tcp.server_port = 443);
        let mut times: Vec<i64> = pair.crossings.iter().filter_map(|c| c.at_b_ns).collect();
        times.sort_unstable();
        let at = |share: f64| times[(times.len() as f64 * share) as usize];
        (pair.b.begins_ns, pair.b.ends_ns) = (at(0.1), at(0.9));
        pair.y.begins_ns = at(0.2);
        pair.y.cut_after = Some(0.8);
        let folder = folder(&format!("times-{}", mechanism));
        let truth = pair::write(&mut pair, &folder).unwrap();
        let b = read(&folder.join("b.pcap"), 443);
        let y = read(&folder.join("y.pcap"), 443);
        let common = |key: &Key| y.keys.contains_key(key);
        let first = b.order.iter().position(common).unwrap();
        let last = b.order.iter().rposition(common).unwrap();
        let lost = b.order[first..=last]
            .iter()
            .filter(|key| !common(key))
            .count() as u64;
        let stated = number(&truth, "forward_packets_lost_between");
        // At the edges the count depends on convention, and on a packet's hypothetical transit.
        assert!(
            stated.abs_diff(lost) <= 2,
            "{}: {lost} missing, truth {stated}",
            mechanism
        );
        assert!(stated > 0);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn the_true_path_of_the_published_case_drops_exactly_its_lost_packets_and_a_guess_does_not() {
    let pair = published::pair(PublishedConfig::default());
    let forward = pair.crossings.iter().filter(|packet| packet.is_forward());
    let (arrivals, lost): (Vec<Arrival>, Vec<bool>) = forward
        .map(|packet| {
            let Body::Tcp(segment) = packet.body else {
                panic!("the case is TCP");
            };
            let time_ns = packet.at_b_ns.expect("it passed the first point");
            let bytes = segment.ip_bytes();
            (Arrival { time_ns, bytes }, packet.lost_between)
        })
        .unzip();
    let drops = |path: &str| {
        let path: PathSpec = path.parse().expect("it is a path");
        let outcomes = replay(&mut path.build(1).expect("it makes sense"), &arrivals);
        let dropped = outcomes
            .iter()
            .zip(&lost)
            .filter(|(outcome, _)| outcome.is_dropped());
        let right = dropped.clone().filter(|(_, lost)| **lost).count();
        (right, dropped.count() - right)
    };
    let all = lost.iter().filter(|lost| **lost).count();
    assert_eq!(drops("linux-police:rate=300M,burst=50KiB"), (all, 0));
    // room for the first lost packets of each burst, then too slow for others
    let (right, wrong) = drops("policer:rate=280M,burst=80kB");
    assert!(
        4 * right < all && 5 * wrong > right,
        "{right}, {wrong} of {all}"
    );
    assert_eq!(drops("line:rate=300M"), (0, 0));
}
