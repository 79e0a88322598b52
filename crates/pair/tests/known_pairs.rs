//! Losses and reordering found between two captures, compared with the truth.
//!
//! The captures are not part of the repository. If a folder `shared` exists beside it they are read;
//! otherwise the tests say so and pass.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use whydrop_capture::{Capture, OpenOptions};
use whydrop_pair::{Direction, Pair, PairFlow, PairOptions, read_pair};

/// Folders with captures from both sides of an impairment, `b` nearer to the sender, and `truth.json`.
fn pairs() -> Vec<PathBuf> {
    let room = fs::canonicalize(env!("CARGO_MANIFEST_DIR")).expect("the crate's own folder");
    let folder = room.join("../../../shared/data/pairs");
    let Ok(entries) = fs::read_dir(&folder) else {
        eprintln!("NOT TESTED: there are no captures in {}", folder.display());
        return Vec::new();
    };
    let mut pairs: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.join("truth.json").is_file())
        .collect();
    pairs.sort();
    assert!(!pairs.is_empty(), "{} is empty", folder.display());
    pairs
}

fn truth(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("truth.json")).expect("readable");
    serde_json::from_str(&text).expect("JSON")
}

fn read(folder: &Path, names: [&str; 2]) -> Pair {
    let captures = names.map(|name| {
        Capture::open(&[folder.join(name)], OpenOptions::default()).expect("a capture")
    });
    read_pair(captures, PairOptions::default()).expect("packets in common")
}

fn number(truth: &Value, name: &str) -> u64 {
    truth[name].as_u64().unwrap_or_else(|| panic!("{name}"))
}

fn flow_of<'a>(pair: &'a Pair, flow: &Value) -> &'a PairFlow {
    let name = format!(
        "{}:{} > {}:{}",
        flow["src"].as_str().expect("an address"),
        flow["sport"],
        flow["dst"].as_str().expect("an address"),
        flow["dport"]
    );
    let found = pair.flows.iter().find(|flow| flow.name() == name);
    found.unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn lost_packets_are_counted_exactly_if_no_packet_is_missing() {
    for folder in pairs() {
        let truth = truth(&folder);
        let pair = read(&folder, ["b.pcap.zst", "y.pcap.zst"]);
        let forward = number(&truth, "forward_packets_lost_between");
        let back = number(&truth, "reverse_packets_y") - number(&truth, "reverse_packets_b");
        let tolerance = truth["realism"]["lost_tolerance"].as_f64().unwrap_or(0.0);
        let slack = (tolerance * forward.max(100) as f64) as u64;
        for (side, lost) in [forward, back].into_iter().enumerate() {
            let found = pair.counts.lost[side];
            // the truth includes packets still in transit when one of the captures ended
            let most = found + pair.counts.outside_overlap[side];
            assert!(
                found <= lost + slack && lost <= most + slack,
                "{}, side {side}: {found} to {most}, truth {lost}",
                folder.display()
            );
        }
        assert_eq!(pair.counts.undecided, [0, 0], "{}", folder.display());
    }
}

#[test]
fn packets_that_overtook_others_are_counted_exactly() {
    for folder in pairs() {
        let truth = truth(&folder);
        let pair = read(&folder, ["b.pcap.zst", "y.pcap.zst"]);
        for flow in truth["flows"].as_array().expect("flows") {
            let expected = number(flow, "overtaking_packets_b_to_y");
            let found = flow_of(&pair, flow);
            assert_eq!(found.overtook, expected, "{}", folder.display());
            assert_eq!(found.direction, Direction::FirstToSecond);
        }
    }
}

#[test]
fn captures_given_in_either_order_give_the_same_result() {
    for folder in pairs().into_iter().step_by(4) {
        let pair = read(&folder, ["b.pcap.zst", "y.pcap.zst"]);
        let swapped = read(&folder, ["y.pcap.zst", "b.pcap.zst"]);
        let [one, other] = [pair.counts, swapped.counts];
        assert_eq!(one.matched, other.matched, "{}", folder.display());
        assert_eq!(one.lost, [other.lost[1], other.lost[0]]);
        assert_eq!(one.missed, [other.missed[1], other.missed[0]]);
        for flow in &pair.flows {
            let name = flow.name();
            let found = swapped.flows.iter().find(|flow| flow.name() == name);
            let direction = found.map(|flow| flow.direction.reversed());
            assert_eq!(direction, Some(flow.direction), "{name}");
        }
    }
}
