//! The tracker's counts beside those of the kernels that sent the packets.
//!
//! The captures are not part of the repository. Where a folder `shared` stands beside it they are read; else the
//! tests say so and pass.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use whydrop_capture::{Capture, OpenOptions};
use whydrop_tcp::{Flow, FlowCounters, Kind, Tracker, TrackerOptions};

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

/// The counters of all flows of the capture before the impairment.
fn counters(pair: &Path) -> Vec<FlowCounters> {
    let capture = pair.join("b.pcap.zst");
    let mut capture = Capture::open(&[capture], OpenOptions::default()).expect("a capture");
    let mut tracker = Tracker::new(TrackerOptions::default());
    while let Some(packet) = capture.next_packet() {
        tracker.push(&packet);
    }
    let connections = tracker.finish().connections.into_iter();
    let flows = connections.flat_map(|connection| connection.flows);
    flows.map(|flow: Flow| flow.counters).collect()
}

fn sum(counters: &[FlowCounters], what: impl Fn(&FlowCounters) -> u64) -> u64 {
    counters.iter().map(what).sum()
}

/// A counter of `nstat`, of both ends together; `None` where the truth does not have it.
fn kernel(truth: &Value, name: &str) -> Option<u64> {
    let of = |end: &str| truth["nstat"][end][name].as_u64();
    Some(of("snd")? + of("rcv")?)
}

#[test]
fn retransmissions_and_what_started_them_are_those_that_the_kernel_counted() {
    let of_kind = |kind: Kind| move |c: &FlowCounters| c.retransmitted_by_kind[kind as usize];
    for pair in pairs() {
        let (truth, counters) = (truth(&pair), counters(&pair));
        let counted = [
            ("TcpRetransSegs", sum(&counters, |c| c.retransmitted)),
            ("TcpExtTCPFastRetrans", sum(&counters, of_kind(Kind::Fast))),
            ("TcpExtTCPTimeouts", sum(&counters, of_kind(Kind::Timeout))),
            (
                "TcpExtTCPLossProbes",
                sum(&counters, of_kind(Kind::TailLossProbe)),
            ),
            ("TcpExtTCPDSACKRecv", sum(&counters, |c| c.spurious)),
        ];
        for (name, ours) in counted {
            if let Some(theirs) = kernel(&truth, name) {
                assert_eq!(ours, theirs, "{name} of {}", pair.display());
            }
        }
        assert_eq!(
            sum(&counters, |c| c.duplicated_on_path),
            0,
            "{}",
            pair.display()
        );
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
            continue; // lost behind both
        }
        let flows = truth["flows"].as_array().expect("flows").iter();
        let missing: u64 = flows
            .filter(|flow| flow["proto"] == "tcp")
            .filter_map(|flow| flow["data_packets_lost"].as_u64())
            .sum();
        assert_eq!(
            sum(&counters(&pair), |c| c.lost),
            missing,
            "{}",
            pair.display()
        );
    }
}
