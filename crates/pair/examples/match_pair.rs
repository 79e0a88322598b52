//! Matches two captures of one path and prints one line of JSON: counts, flows, clocks.
//!
//!     cargo run --release -p whydrop-pair --example match_pair -- A B [--flows]

use std::time::Instant;

use whydrop_capture::{Capture, OpenOptions};
use whydrop_pair::{Crossing, Pair, PairFlow, PairOptions, read_pair};

fn main() {
    let mut paths: Vec<String> = std::env::args().skip(1).collect();
    let with_flows = paths.iter().any(|path| path == "--flows");
    paths.retain(|path| path != "--flows");
    let [first, second] = paths.as_slice() else {
        eprintln!("usage: match_pair A B [--flows]");
        std::process::exit(2);
    };
    let start = Instant::now();
    let captures = [first, second].map(|path| {
        Capture::open(&[path], OpenOptions::default()).unwrap_or_else(|error| {
            eprintln!("{error}");
            std::process::exit(1);
        })
    });
    match read_pair(captures, PairOptions::default()) {
        Ok(pair) => println!("{}", json(&pair, with_flows, start.elapsed().as_secs_f64())),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

fn json(pair: &Pair, with_flows: bool, seconds: f64) -> String {
    let counts = &pair.counts;
    let packets: u64 = pair.summaries.iter().map(|summary| summary.packets).sum();
    let mut fields = vec![
        format!("\"seconds\":{seconds:.3}"),
        format!(
            "\"million_packets_per_second\":{:.3}",
            packets as f64 / seconds / 1e6
        ),
        format!("\"matched\":{}", counts.matched),
    ];
    for (name, values) in [
        ("packets", counts.packets),
        ("lost", counts.lost),
        ("missed", counts.missed),
        ("duplicated", counts.duplicated),
        ("overtaken", counts.overtaken),
        ("overtook", counts.overtook),
        ("outside_overlap", counts.outside_overlap),
        ("other_path", counts.other_path),
        ("undecided", counts.undecided),
        ("forgotten", counts.forgotten),
        ("unmatchable", counts.unmatchable),
    ] {
        fields.push(format!("\"{name}\":{values:?}"));
    }
    let intervals = pair.clock.iter().flat_map(|clock| &clock.intervals);
    let intervals: Vec<String> = intervals
        .map(|interval| {
            format!(
                "{{\"offset_s\":{:.9},\"drift_ppm\":{:.4}}}",
                interval.offset_ns / 1e9,
                interval.drift_ppm
            )
        })
        .collect();
    fields.push(format!("\"clock\":[{}]", intervals.join(",")));
    if with_flows {
        let flows: Vec<String> = pair.flows.iter().map(flow_json).collect();
        fields.push(format!("\"flows\":[{}]", flows.join(",")));
    }
    format!("{{{}}}", fields.join(","))
}

fn flow_json(flow: &PairFlow) -> String {
    let crossings: Vec<String> = Crossing::ALL
        .iter()
        .filter(|crossing| flow.count(**crossing) > 0)
        .map(|crossing| format!("\"{}\":{}", crossing.name(), flow.count(*crossing)))
        .collect();
    let names = flow.names.map(|name| {
        name.map_or("null".into(), |name| {
            format!("\"{} > {}\"", name.source, name.destination)
        })
    });
    format!(
        "{{\"names\":[{}],\"protocol\":{},\"direction\":\"{}\",\"packets\":{:?},\"overtaken\":{},\"overtook\":{},\
         \"retransmissions\":{},\"hops\":{},\"ce_marked\":{},\"offloaded\":{:?},{}}}",
        names.join(","),
        flow.protocol,
        flow.direction.name(),
        flow.packets,
        flow.overtaken,
        flow.overtook,
        flow.retransmissions,
        flow.hops.map_or("null".into(), |hops| hops.to_string()),
        flow.ce_marked,
        flow.offloaded,
        crossings.join(",")
    )
}
