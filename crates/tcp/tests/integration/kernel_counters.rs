//! The tracker's counts compared with those of the kernels that sent the packets.
//!
//! The captures are not part of the repository. They are read from a folder `shared` beside it, if there is one;
//! otherwise the tests print a note and pass.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde_json::Value;
use whydrop_capture::{Capture, OpenOptions};
use whydrop_tcp::{Fate, Flow, FlowCounters, Kind, Tracked, Tracker, TrackerOptions};

/// Folders with a capture from both sides of an impairment, `b` nearer to the sender, and `truth.json`.
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

fn truth(pair: &Path) -> Value {
    let text = fs::read_to_string(pair.join("truth.json")).expect("readable");
    serde_json::from_str(&text).expect("JSON")
}

/// All flows of the capture before the impairment.
fn flows(pair: &Path) -> Vec<Flow> {
    let connections = tracked(pair).connections.into_iter();
    connections
        .flat_map(|connection| connection.flows)
        .collect()
}

fn tracked(pair: &Path) -> Tracked {
    let capture = pair.join("b.pcap.zst");
    let mut capture = Capture::open(&[capture], OpenOptions::default()).expect("a capture");
    let mut tracker = Tracker::new(TrackerOptions::default());
    while let Some(packet) = capture.next_packet() {
        tracker.push(&packet);
    }
    tracker.finish()
}

/// Counters of all flows, including the control connections that are listed separately, since kernels count them too.
fn counters(tracked: &Tracked) -> Vec<FlowCounters> {
    let flows = tracked.connections.iter().flat_map(|one| &one.flows);
    let control = tracked.control.iter().map(|one| FlowCounters {
        retransmitted: one.retransmitted,
        retransmitted_by_kind: one.retransmitted_by_kind,
        spurious: one.spurious,
        ..FlowCounters::default()
    });
    flows.map(|flow| flow.counters).chain(control).collect()
}

fn sum(counters: &[FlowCounters], what: impl Fn(&FlowCounters) -> u64) -> u64 {
    counters.iter().map(what).sum()
}

/// The range of an `nstat` counter according to the capture; `None` if the truth lacks it. Everything that the sender
/// counted passed the capture; of the receiver's counts, everything except packets lost on the return path before it.
fn kernel(truth: &Value, name: &str) -> Option<RangeInclusive<u64>> {
    let of = |end: &str| truth["nstat"][end][name].as_u64();
    let (sender, receiver) = (of("snd")?, of("rcv")?);
    let all_seen = truth["reverse_packets_b"] == truth["reverse_packets_y"];
    let least = if all_seen { sender + receiver } else { sender };
    Some(least..=sender + receiver)
}

#[test]
fn retransmissions_and_what_started_them_are_those_that_the_kernel_counted() {
    let of_kind = |kind: Kind| move |c: &FlowCounters| c.retransmitted_by_kind[kind as usize];
    for pair in pairs() {
        let (truth, all) = (truth(&pair), counters(&tracked(&pair)));
        let counted = [
            ("TcpRetransSegs", sum(&all, |c| c.retransmitted)),
            ("TcpExtTCPFastRetrans", sum(&all, of_kind(Kind::Fast))),
            ("TcpExtTCPTimeouts", sum(&all, of_kind(Kind::Timeout))),
            (
                "TcpExtTCPLossProbes",
                sum(&all, of_kind(Kind::TailLossProbe)),
            ),
            ("TcpExtTCPDSACKRecv", sum(&all, |c| c.spurious)),
        ];
        for (name, ours) in counted {
            if let Some(theirs) = kernel(&truth, name) {
                let place = pair.display();
                assert!(
                    theirs.contains(&ours),
                    "{name} of {place}: {ours}, truth {theirs:?}"
                );
            }
        }
        assert_eq!(sum(&all, |c| c.duplicated_on_path), 0, "{}", pair.display());
    }
}

#[test]
fn as_many_data_packets_are_lost_as_went_missing_between_the_captures() {
    for pair in pairs() {
        let truth = truth(&pair);
        if truth["name"]
            .as_str()
            .is_some_and(|name| name.ends_with("loss_after_y"))
        {
            continue; // lost behind both capture points
        }
        let of_truth = truth["flows"].as_array().expect("flows").iter();
        let missing: u64 = of_truth
            .filter(|flow| flow["proto"] == "tcp")
            .filter_map(|flow| flow["data_packets_lost"].as_u64())
            .sum();
        let flows = flows(&pair);
        let lost: u64 = flows.iter().map(|flow| flow.counters.lost).sum();
        // The last losses, if not retransmitted before the capture ended, cannot be known from this capture alone.
        let segments = flows.iter().flat_map(|flow| &flow.segments);
        let unknown = segments.filter(|segment| segment.fate == Fate::Unknown);
        let most = lost + unknown.count() as u64;
        let place = pair.display();
        assert!(
            (lost..=most).contains(&missing),
            "{place}: {lost} to {most}, truth {missing}"
        );
    }
}
